"""HTTP API: JSON or Arrow for programs.

Modules:
* :mod:`.app` — Application of the server: the API and, below ``/console``, the console
* :mod:`.jobs` — Background queries: submit, poll, fetch
* :mod:`.request` — Requests of the API: limits, strict JSON bodies, the form of the reply, and the table entry of an
  endpoint
* :mod:`.routes` — Endpoints of the API, their table, its OpenAPI description and HTML page
* :mod:`.worker_runtime` — Thread pools, response timing and rate limits of one worker
"""
