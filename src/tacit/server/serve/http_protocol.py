"""HTTP/1.1 with limits of connections, heads and bodies, on top of uvicorn and httptools.

* a head (request line and headers) arrives within a limit of seconds and bytes, or the connection ends;
* the body after a head is bounded as well, in any encoding, and never parsed as a part of the head;
* a head that an intermediate server could parse differently is refused;
* clients that do not read their response are disconnected.

httptools takes 102 µs of processor time for a small request and its response, h11 332 µs; it has no limits. What a
single machine cannot decide, such as many addresses that act together, is for a proxy in front.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tacit.server.rate_limit import network_of

if TYPE_CHECKING:
    from tacit.server.settings import Settings


class Connections:
    """Numbers of connections of one worker, by network; used only from its event loop.

    One network has at most ``most_of_one``; None for no limit per network, as behind a proxy.
    """

    def __init__(self, most: int, most_of_one: int | None = None) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    def admit(self, address: str) -> bool:
        """Count a new connection; return False if there is no room for it."""
        network = network_of(address)
        if len(self) >= self._most or self._counts[network] >= self._most_of_one:
            return False
        self._counts[network] += 1
        return True

    def leave(self, address: str) -> None:
        """Uncount a connection that was admitted."""
        self._counts -= Counter([network_of(address)])


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

    def __init__(self, connections: Connections, settings: Settings, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._admitted = connections
        self._max_head = settings.max_header_bytes + settings.max_path
        self._max_message = self._max_head + _CHUNKS * settings.max_body
        self._is_admitted = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or end it at once if there is no room."""
        super().connection_made(transport)
        self._is_admitted = self._admitted.admit(self.client[0] if self.client else "")
        if not self._is_admitted:
            transport.abort()
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_admitted:
            self._admitted.leave(self.client[0] if self.client else "")
        self._stop(self._head_timer)
        self._stop(self._write_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count and parse received bytes; end the connection if a limit is exceeded."""
        if self.transport.is_closing():
            return
        # Before parsing, so that one read with many requests in it is not counted as one long head.
        if self._received == 0 and self._head_timer is None:
            self._wait_for_head()
        self._received += len(data)
        super().data_received(data)
        if self._received > (self._max_head if self._in_head else self._max_message):
            self.transport.abort()

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

    def pause_writing(self) -> None:
        """Start the timer for a client that does not read its response."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the client reads again."""
        self._stop(self._write_timer)
        self._write_timer = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP, unless they would be read as the response to another request."""
        cycle: RequestResponseCycle | None = self.cycle
        if self._in_head and (cycle is None or cycle.response_complete):
            super().send_400_response(msg)
        else:
            self.transport.abort()

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
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.abort)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
