"""HTTP API: JSON or Arrow for programs.

Modules:
* :mod:`.app` — Application of the server: the API and, below ``/console``, the console
* :mod:`.jobs` — Background queries: submit, poll, fetch
* :mod:`.openapi` — OpenAPI description and its HTML page
* :mod:`.request` — Requests of the API: limits, strict JSON bodies, the form of the reply, and the table entry of an
  endpoint
* :mod:`.routes` — Endpoints of the API, and their table
* :mod:`.worker_runtime` — Thread pools, response timing and rate limits of one worker
"""
