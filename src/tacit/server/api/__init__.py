"""HTTP API: JSON or Arrow for programs.

Modules:
* :mod:`.admin_routes` — Endpoints for owners: people, tokens, quotas
* :mod:`.app` — Application of the server: the API and the console
* :mod:`.content_negotiation` — Content negotiation: JSON or an Arrow stream
* :mod:`.errors` — Error responses: one shape, without protected text
* :mod:`.jobs` — Background questions: submit, poll, fetch
* :mod:`.openapi` — OpenAPI description and its HTML page
* :mod:`.release_routes` — Endpoints of releases: made as jobs, charged once, and free to read from then on
* :mod:`.request` — API request and response objects, and the table entry of an endpoint
* :mod:`.request_body` — Strict JSON bodies of requests
* :mod:`.request_limits` — Limits on paths, headers and bodies of requests
* :mod:`.routes` — Endpoints for analysts
* :mod:`.thread_pools` — Bounded thread pools of a worker, whose threads analysts take in turns
* :mod:`.worker_runtime` — Thread pools, response timing and rate limits of one worker
"""
