"""Serving: sockets, TLS, worker processes, connection limits, logs and metrics.

Modules:
* :mod:`.access_log` — Access log and request counters
* :mod:`.connection_limit` — Limits on open connections per worker and address
* :mod:`.listen` — Listening sockets and TLS
* :mod:`.malloc` — Memory settings of the C allocator for worker processes
* :mod:`.metrics` — Metrics for operators, independent of the data
* :mod:`.protocol` — HTTP/1.1 protocol with limits on top of uvicorn and httptools
* :mod:`.supervisor` — Supervisor of worker processes
* :mod:`.worker` — Worker process with its own curator on the shared ledger
"""

from __future__ import annotations

from tacit.server.serve.supervisor import Started, supervise
from tacit.server.serve.worker import Serving

__all__ = ["Serving", "Started", "supervise"]
