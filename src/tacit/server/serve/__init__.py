"""Serving: sockets, TLS, worker processes, connection limits and logs.

Modules:
* :mod:`.access_log` — Access log: a line of JSON for each request, independent of the data
* :mod:`.http_protocol` — HTTP/1.1 with limits of connections, heads and bodies, on top of uvicorn and httptools
* :mod:`.processes` — Supervisor with its listening sockets and TLS, and workers with a curator each
"""

from __future__ import annotations

from tacit.server.serve.processes import Serving, Started, supervise

__all__ = ["Serving", "Started", "supervise"]
