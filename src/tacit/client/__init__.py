"""Client: the methods of a curator over HTTP.

Modules:
* :mod:`.client_errors` — Error classes for a server's error codes and for failed connections
* :mod:`.http_client` — HTTP client with bounded retries for idempotent requests
* :mod:`.key_pinning` — Pinned server keys: stated by the user or remembered from the first connection
* :mod:`.ledger_witness` — Newest ledger entry seen from a server, to detect rollback
* :mod:`.remote_answer` — Answer and quote received from a server, with numbers read exactly
* :mod:`.remote_curator` — ``tacit.connect``: the methods of a curator over HTTP
* :mod:`.remote_releases` — Synthetic tables, workloads and sessions of a server: a checked receipt, and tables that
  are fetched
* :mod:`.server_identity` — Identity of a server: its ledger, its signing key and the succession of keys
"""
