"""HTTP API: JSON or Arrow for programs.

Modules:
* :mod:`.admin_routes` — Endpoints for owners: people, tokens, quotas
* :mod:`.app` — ASGI application of the API
* :mod:`.bearer` — Bearer-token authentication
* :mod:`.content_negotiation` — Content negotiation: JSON or an Arrow stream
* :mod:`.errors` — Error responses: one shape, without protected text
* :mod:`.jobs` — Background questions: submit, poll, fetch
* :mod:`.openapi` — OpenAPI description and its HTML page
* :mod:`.request` — API request and response objects
* :mod:`.request_body` — Strict JSON bodies of requests
* :mod:`.request_limits` — Limits on paths, headers and bodies of requests
* :mod:`.routes` — Endpoints for analysts
* :mod:`.thread_pools` — Thread pools of the event loop, one of them fair among analysts
* :mod:`.worker_runtime` — Thread pools, response timing and rate limits of one worker
"""

from __future__ import annotations

from tacit.server.api.app import App, create_app

__all__ = ["App", "create_app"]
