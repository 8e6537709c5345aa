"""Client: the API's requests and responses, and the methods of a curator over HTTP.

Modules:
* :mod:`.account_responses` — Bodies of responses about a project: accounts, tables, history, keys, people and tokens
* :mod:`.http_client` — HTTP client with bounded retries for idempotent requests
* :mod:`.releases` — Releases of every kind, and jobs: bodies of responses, and releases of a server with files that are
  fetched
* :mod:`.remote_curator` — ``tacit.connect``: the methods of a curator over HTTP
* :mod:`.responses` — Bodies of requests and of responses to queries: one class writes a body (``of``), reads and
  describes it
* :mod:`.trust` — Trust in a server: its keys and their succession, the key that was pinned, the newest entry that was
  seen
"""
