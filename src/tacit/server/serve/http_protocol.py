"""HTTP/1.1 with limits of connections, heads and bodies, on top of uvicorn and httptools.

* a head (request line and headers) arrives within a limit of seconds and bytes, or the connection ends;
* the body after a head is bounded as well, in any encoding, and never parsed as a part of the head;
* a head that an intermediate server could parse differently is refused;
* clients that do not read their response are disconnected;
* bytes that are not HTTP get the same error body as every failure, and no server banner.

A connection is **idle** while no request on it is being answered: a browser between two clicks, or one of thousands of
connections on which one byte a minute arrives, of a head or of a body. Idle connections can be closed without loss. If
an address is at its limit, its oldest idle connection is closed for a new one; if all places are taken, the oldest idle
connection of the address with the most. Only if none is idle is the new connection rejected.

httptools takes 102 µs of processor time for a small request and its response, h11 332 µs; it has no limits of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

if TYPE_CHECKING:
    from tacit.server.settings import Settings


class Connection(Protocol):
    """A connection that can be aborted."""

    def hang_up(self) -> None:
        """Abort the connection at once."""


class Connections:
    """Connections of one worker; used only from its event loop.

    One address has at most ``most_of_one``; None for no limit per address, as behind a proxy.
    """

    def __init__(self, most: int, most_of_one: int | None = None) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else min(most_of_one, most)
        # Dictionaries as ordered sets: the first key is the oldest.
        self._idle: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._busy: defaultdict[str, set[Connection]] = defaultdict(set)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, address: str) -> int:
        return len(self._idle.get(address, ())) + len(self._busy.get(address, ()))

    def admit(self, address: str, connection: Connection) -> bool:
        """Admit a new connection, closing an idle one if need be; return False to reject it."""
        if self.of(address) >= self._most_of_one:
            if not self._evict(address):
                return False
        elif self._count >= self._most:
            greediest = max(self._idle, key=lambda each: (bool(self._idle[each]), self.of(each)), default="")
            if not self._evict(greediest):
                return False
        self._idle[address][connection] = None
        self._count += 1
        return True

    def begin(self, address: str, connection: Connection) -> None:
        """Mark a connection as busy: it is now answering a request."""
        if self._idle[address].pop(connection, self) is None:
            self._busy[address].add(connection)

    def end(self, address: str, connection: Connection) -> None:
        """Mark a connection as idle, after its request was answered; it becomes the newest idle one."""
        if connection in self._busy[address]:
            self._busy[address].discard(connection)
            self._idle[address][connection] = None

    def leave(self, address: str, connection: Connection) -> None:
        idle, busy = self._idle[address], self._busy[address]
        if connection in idle or connection in busy:
            idle.pop(connection, None)
            busy.discard(connection)
            self._count -= 1
        if not idle:
            del self._idle[address]
        if not busy:
            del self._busy[address]

    def _evict(self, address: str) -> bool:
        oldest = next(iter(self._idle.get(address, ())), None)
        if oldest is None:
            return False
        self.leave(address, oldest)
        oldest.hang_up()
        return True


#: Seconds for a head to arrive, counted from the connection or from its first byte.
HEAD_SECONDS: Final = 10.0
#: Seconds for a client to read the bytes sent to it.
WRITE_SECONDS: Final = 30.0
#: Bound on the ratio of received bytes to content: a chunked body of single bytes is six times its content.
_CHUNKS: Final = 8


class GuardedProtocol(HttpToolsProtocol):
    """One HTTP connection, within the limits of its worker; further arguments are uvicorn's."""

    head_seconds = HEAD_SECONDS
    write_seconds = WRITE_SECONDS

    def __init__(self, registry: Connections, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._registry = registry
        self._max_head = settings.max_header_bytes + settings.max_path
        self._max_message = self._max_head + _CHUNKS * settings.max_body
        self._address = ""
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._received = 0
        self._lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, or close it at once if it is rejected."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        if not self._registry.admit(self._address, self):
            self.hang_up()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._registry.leave(self._address, self)
        self._stop(self._head_timer)
        self._stop(self._write_timer)
        super().connection_lost(exc)

    def hang_up(self) -> None:
        """Abort the connection without a response."""
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Count and parse received bytes; stop if a limit is exceeded."""
        if self.transport.is_closing():
            return
        # Before parsing, so that one read with many requests in it is not counted as one long head.
        if self._received == 0 and self._head_timer is None:
            self._wait_for_head()
        self._received += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._received > self._max_head:
            self._refuse(431, "request.headers", "the headers are too long")
        elif self._received > self._max_message:
            self._refuse(413, "request.size", "the request is too long")

    def on_message_begin(self) -> None:
        """Begin to count the bytes of a new head."""
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a line of the head; drop one after the body (a trailer), which no proxy on the way has checked."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the request after its head is complete."""
        if not self._is_plain():
            # httptools ends the connection over whatever is raised here, by :meth:`send_400_response`.
            raise ValueError("this head could be read in two ways")
        self._in_head = False
        self._stop(self._head_timer)
        self._head_timer = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request was read completely; further bytes belong to the next one."""
        super().on_message_complete()
        self._received = 0
        self._in_head = True
        # Not before: a connection whose body arrives slowly, perhaps on purpose, stays idle.
        if not self.cycle.response_complete:
            self._registry.begin(self._address, self)

    def on_response_complete(self) -> None:
        """Mark the connection as idle after the response."""
        super().on_response_complete()
        if not self._lost and not self.pipeline:
            self._registry.end(self._address, self)

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read its response."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.write_seconds, self.hang_up)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads again."""
        self._stop(self._write_timer)
        self._write_timer = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Answer bytes that are not HTTP with the same error body as every failure."""
        self._refuse(400, "request.headers", "this is not a request of HTTP/1.1 that can be read in one way")

    def _is_plain(self) -> bool:
        """Whether a head states its target and the end of its body unambiguously, without an upgrade from HTTP."""
        version = self.parser.get_http_version()
        hosts = sum(1 for name, _ in self.headers if name == b"host")
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if version == "1.1":
            clear = hosts == 1 and codings in ([], [b"chunked"])
        else:
            clear = version == "1.0" and hosts <= 1 and not codings
        # After the head of an upgrade, httptools parses nothing more, whether body or further request.
        return clear and not self.parser.should_upgrade()

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _too_slow(self) -> None:
        self._head_timer = None
        if self._received:
            self._refuse(408, "request.time", "the headers took too long")
        elif not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, code: str, message: str) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if not self._in_head or (cycle is not None and not cycle.response_complete):
            # A response is being sent, or was sent: further bytes would be read as the response to another request.
            self.hang_up()
            return
        body = json.dumps({"error": {"code": code, "message": message}}).encode()
        head = (
            b"content-type: application/json\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
