"""Serving: sockets, TLS, worker processes, connection limits, logs and metrics.

Modules:
* :mod:`.access_log` — Access log, and metrics for Prometheus on loopback: independent of the data
* :mod:`.http_protocol` — HTTP/1.1 with limits of connections, heads and bodies, on top of uvicorn and httptools
* :mod:`.supervisor` — Supervisor of worker processes, their listening sockets and TLS
* :mod:`.worker` — Worker process with its own curator on the shared ledger, and its memory
"""

from __future__ import annotations

from tacit.server.serve.supervisor import Started, supervise
from tacit.server.serve.worker import Serving

__all__ = ["Serving", "Started", "supervise"]
