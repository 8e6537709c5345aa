"""A hospital that PostgreSQL clients connect to: a server on loopback, on an event loop in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.served import Served, serve
from tacit.server.pgwire.server import PostgresServer, postgres_tls
from tacit.server.serve.http_protocol import Connections

#: Nothing here is about rates; those have tests of their own.
GENEROUS = dict.fromkeys(("asks_per_minute", "quotes_per_minute", "reads_per_minute", "failures_per_minute"), 10000000)


class PgServed:
    """A served hospital and where its PostgreSQL clients connect."""

    def __init__(self, served: Served, places: Connections | None = None) -> None:
        self.served = served
        self.places = places or Connections(200)
        self.notes: list[tuple[dict[str, Any], str]] = []
        self.loop = asyncio.new_event_loop()
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.port = int(listener.getsockname()[1])
        self.server = PostgresServer(
            served.app.state.runtime,
            self.places,
            postgres_tls(served.settings),
            lambda about, state: self.notes.append((about, state)),
        )
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.on_loop(self.server.listen(listener))

    def on_loop(self, work: Any, seconds: float = 30) -> Any:
        """Run a coroutine on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def words(self, name: str = "alice", **more: Any) -> dict[str, Any]:
        """Arguments of a driver's connect."""
        return {
            "host": "127.0.0.1", "port": self.port, "user": name, "password": self.served.tokens[name],
            "dbname": "hospital", **more,
        }  # fmt: skip

    def dsn(self, name: str = "alice", **more: Any) -> str:
        """A connection string of libpq."""
        return " ".join(f"{key}='{value}'" for key, value in self.words(name, **more).items())

    def raw(self) -> socket.socket:
        """A connection on which anything can be sent."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def close(self) -> None:
        """End the server and its event loop."""
        self.on_loop(self.server.stop(5))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()
        self.served.close()


@contextmanager
def pg_serve(places: Connections | None = None, **settings: Any) -> Iterator[PgServed]:
    """A hospital for PostgreSQL clients; arguments as for :func:`support.served.serve`."""
    made = PgServed(serve(**{**GENEROUS, **settings}), places)
    try:
        yield made
    finally:
        made.close()
