"""Running a server: sockets, TLS, worker processes and their supervisor, connection limits, logs and metrics.

* :mod:`.supervisor` forks workers and replaces them; :mod:`.worker` is what each of them does
* :mod:`.places`: addresses and certificates; :mod:`.protocol` and :mod:`.connections`: limits below HTTP
* :mod:`.watching`: one line of JSON per request; :mod:`.metrics`: counts, on a page by :mod:`.metrics_page`
"""

from __future__ import annotations

from tacit.server.running.supervisor import Started, supervise
from tacit.server.running.worker import Serving

__all__ = ["Serving", "Started", "supervise"]
