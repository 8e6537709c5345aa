"""Access log, and metrics for Prometheus on loopback: independent of the data.

A line of the log has the person, the route, the outcome, the charge and its position in the ledger; of a query only the
digest of its text. The metrics count requests by route and status, charges by population, free repeats, refusals by
code, and replaced workers. Running times of queries, sizes of answers, rows and the load of the engine are not
recorded: they depend on the data, and more people see a dashboard than a table.

Workers count for themselves and send increments to the supervisor, which adds them up and serves the page.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Any, Final, TextIO
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.core.errors import InputError

#: The counters, their labels and descriptions.
FAMILIES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "tacit_requests": (("route", "status"), "Requests, by route and status."),
    "tacit_charges": (("population",), "Queries that were charged."),
    "tacit_repeats": ((), "Queries that got an existing answer, free."),
    "tacit_refusals": (("code",), "Requests that were refused, by error code."),
    "tacit_workers_replaced": ((), "Workers that ended and were replaced."),
}
#: One increment: counter family, label values, amount.
Added = tuple[str, tuple[str, ...], int]
#: Maximum number of distinct label combinations; further ones are counted as "other".
_MOST_LINES: Final = 2000
_OTHER: Final = "other"


class Counters:
    """Counter increments of one worker since the last report."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def add(self, family: str, *labels: str) -> None:
        self._counts[family, labels] += 1

    def news(self) -> list[Added]:
        """Return the increments since the last call."""
        counts, self._counts = self._counts, Counter()
        return [(family, labels, count) for (family, labels), count in counts.items()]


class MetricsPage(WSGIServer):
    """The page for Prometheus at ``/metrics``; the supervisor serves a request when its socket becomes readable.

    Args:
        port: on loopback; 0 for any free port; None to count without a page.
    """

    def __init__(self, port: int | None = None) -> None:
        # A counter's creation time is useless here, and would be the only time on the page.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus_client.CollectorRegistry()
        self.workers = prometheus_client.Gauge("tacit_workers", "Workers that run.", registry=self.registry)
        self._families = {
            name: prometheus_client.Counter(name, words, labels, registry=self.registry)
            for name, (labels, words) in FAMILIES.items()
        }
        self._lines: set[tuple[str, tuple[str, ...]]] = set()
        self._page = prometheus_client.make_wsgi_app(self.registry)
        try:
            super().__init__(("127.0.0.1", port or 0), _Request, bind_and_activate=port is not None)
        except (OSError, OverflowError) as problem:
            raise InputError("metrics_port", f"{port} cannot be used: {problem}") from None
        self.socket.setblocking(False)
        self.set_app(self._serve)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/metrics"

    def add(self, added: Iterable[Added]) -> None:
        for family, labels, count in added:
            line = (family, tuple(labels))
            if line not in self._lines and len(self._lines) >= _MOST_LINES:
                line = (family, (_OTHER,) * len(labels))
            self._lines.add(line)
            counter = self._families[family]
            (counter.labels(*line[1]) if labels else counter).inc(count)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnected."""

    def _serve(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        if environ["PATH_INFO"] != "/metrics":
            start("404 Not Found", [])
            return [b""]
        return self._page(environ, start)


class _Request(WSGIRequestHandler):
    """A request that is short and already received: the supervisor waits for no client."""

    timeout = 0.25

    def setup(self) -> None:
        super().setup()
        self.rfile = BytesIO(self.request.recv(8192))

    def log_message(self, *_: Any) -> None:
        """Write no line."""


#: Key of an ASGI scope under which the application stores public facts about a request.
ABOUT: Final = "tacit.about"
#: Names of the facts that are logged: analyst, outcome, charge, digest of the query and so on.
_WORDS: Final = ("analyst", "token", "sql", "job", "population", "charge", "position", "repeat", "code", "id")


class Lines:
    """JSON lines on a stream; if its reader goes away, the server continues without writing."""

    def __init__(self, stream: TextIO | None, clock: Callable[[], dt.datetime] | None = None) -> None:
        self._stream = stream
        self._clock = clock or (lambda: dt.datetime.now(dt.UTC))

    def write(self, event: str, **about: Any) -> None:
        """Write one line; times are to the second."""
        if self._stream is None:
            return
        line = {"time": self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"), "event": event, **about}
        try:
            # One write of one line, so that lines of several workers do not mix.
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None


class AccessLog:
    """ASGI middleware that logs and counts a request when its response begins.

    The application writes facts about a request into the dictionary at :data:`ABOUT` of its scope; only those named
    here are used.
    """

    def __init__(self, application: ASGIApp, lines: Lines, counters: Counters) -> None:
        self._application = application
        self._lines = lines
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request, and log and count it when its response begins."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        about = scope[ABOUT] = dict[str, Any]()

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.note(about, message["status"])
            await send(message)

        await self._application(scope, receive, noting)

    def note(self, about: dict[str, Any], status: int | str) -> None:
        """Log and count a request, or a statement of a PostgreSQL client with its SQLSTATE."""
        route = str(about.get("route") or "other")
        self._counters.add("tacit_requests", route, str(status))
        if about.get("charge"):
            self._counters.add("tacit_charges", str(about.get("population")))
        if about.get("repeat"):
            self._counters.add("tacit_repeats")
        if about.get("code"):
            self._counters.add("tacit_refusals", str(about["code"]))
        known = {name: about[name] for name in _WORDS if about.get(name)}
        self._lines.write("request", route=route, status=status, **known)
