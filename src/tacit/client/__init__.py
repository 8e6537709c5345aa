"""Client: the API's requests and responses, and the methods of a curator over HTTP.

Modules:
* :mod:`.account_responses` — Bodies of responses about a project: accounts, tables, history and keys
* :mod:`.client_errors` — Error classes for a server's error codes and for failed connections
* :mod:`.http_client` — HTTP client with bounded retries for idempotent requests
* :mod:`.key_pinning` — Pinned server keys: stated by the user or remembered from the first connection
* :mod:`.ledger_witness` — Newest ledger entry seen from a server, to detect rollback
* :mod:`.people_responses` — Bodies of responses about people and their tokens
* :mod:`.release_responses` — Responses about releases of every kind, and about jobs
* :mod:`.remote_answer` — Answer and quote received from a server, with numbers read exactly
* :mod:`.remote_curator` — ``tacit.connect``: the methods of a curator over HTTP
* :mod:`.remote_releases` — Releases of a server: facts, a checked receipt, and files that are fetched
* :mod:`.requests` — Requests of the API that make no release: queries, people, tokens and quotas
* :mod:`.responses` — Bodies of responses to queries: one class writes a body (``of``), reads it (``read``,
  ``to_domain``), describes it
* :mod:`.server_identity` — Identity of a server: its ledger, its signing key and the succession of keys
* :mod:`.values` — Exact numbers, types and cells in JSON, written and read
"""
