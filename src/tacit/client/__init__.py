"""Client: the methods of a curator over HTTP.

Modules:
* :mod:`.client_errors` — Error classes for a server's error codes and for failed connections
* :mod:`.http_client` — HTTP client with bounded retries for idempotent requests
* :mod:`.key_pinning` — Pinned server keys: stated by the user or remembered from the first connection
* :mod:`.ledger_witness` — Newest ledger entry seen from a server, to detect rollback
* :mod:`.remote_answer` — Answer and quote received from a server, with numbers read exactly
* :mod:`.remote_curator` — ``tacit.connect``: the methods of a curator over HTTP
* :mod:`.remote_session` — Session of counting queries on a server, with checked receipts
* :mod:`.remote_workload` — Workloads that a server has answered: a checked receipt, the errors, and tables of answers
  that are fetched
* :mod:`.remote_synthetic_table` — Synthetic tables of a server: a checked receipt, the quality, and the rows, which are
  fetched once
* :mod:`.server_identity` — Identity of a server: its ledger, its signing key and the succession of keys
"""
