"""Access log and request counters.

The line says who asked, which route, what came of it, what was charged and where in the ledger it stands. It never
holds a released number, and of a question only the digest of its text. It has no duration: how long a question took
depends on the data.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any, Final, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit.server.serve.metrics import Counters

#: Key of a scope under which the application puts public facts about a request.
ABOUT: Final = "tacit.about"
#: The facts that are logged: analyst, outcome, charge, and a digest of the question.
_WORDS: Final = ("analyst", "token", "sql", "job", "population", "charge", "position", "repeat", "code", "id")


class Lines:
    """JSON lines on a stream; a reader that goes away does not stop the server."""

    def __init__(self, stream: TextIO | None, clock: Callable[[], dt.datetime] | None = None) -> None:
        self._stream = stream
        self._clock = clock or (lambda: dt.datetime.now(dt.UTC))

    def write(self, event: str, **about: Any) -> None:
        """One line; times are to the second."""
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
        """Pass the request on."""
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
