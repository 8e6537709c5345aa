"""Access log: a line of JSON for each request, independent of the data.

A line has the person, the route, the outcome, the charge and its position in the ledger; of a query only the digest of
its text. Running times of queries, sizes of answers, rows and the load of the engine are not recorded: they depend on
the data, and more people see a dashboard of logs than a table.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Key of an ASGI scope under which the application stores public facts about a request.
ABOUT: Final = "tacit.about"
#: Names of the facts that are logged: analyst, outcome, charge, digest of the query and so on.
_WORDS: Final = ("analyst", "token", "sql", "job", "population", "charge", "position", "repeat", "code", "id")


class Lines:
    """JSON lines on a stream; if it cannot be written, the server says so on standard error and continues."""

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
        except (OSError, ValueError) as problem:
            stream, self._stream = self._stream, None
            with suppress(OSError, ValueError):
                if stream not in (sys.stdout, sys.stderr):
                    stream.close()
            with suppress(OSError, ValueError):
                print(f"The log cannot be written, and ends until a restart: {problem}", file=sys.stderr, flush=True)


class AccessLog:
    """ASGI middleware that logs a request when its response begins.

    The application writes facts about a request into the dictionary at :data:`ABOUT` of its scope; only those named
    here are used.
    """

    def __init__(self, application: ASGIApp, lines: Lines) -> None:
        self._application = application
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the request, and log it when its response begins."""
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
        """Log a request, or a statement of a PostgreSQL client with its SQLSTATE."""
        known = {name: about[name] for name in _WORDS if about.get(name)}
        self._lines.write("request", route=str(about.get("route") or "other"), status=status, **known)
