"""Byte stream of one connection, in the clear or in TLS, with limits on waiting.

TLS runs over buffers in memory: a client may begin with it (direct negotiation) or ask for it first, and the bytes that
were read to tell the two apart belong to the handshake.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final

from tacit.server.pgwire.messages import FrontendMessage, MessageReader, StartUp, WireFault

_PIECE: Final = 65_536
#: Seconds for a client to take what was written for it.
_WRITE_SECONDS: Final = 30.0
#: Bytes that wait to be sent before a writer waits for the client.
_HIGH_WATER: Final = 262_144


class WireStream:
    """Reads messages and writes bytes.

    A message has at most ``most`` bytes, and is whole within so many seconds of its beginning.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int, seconds: float) -> None:
        self._reader = reader
        self._writer = writer
        self._seconds = seconds
        self._tls: ssl.SSLObject | None = None
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._messages = MessageReader(most)
        self._out = bytearray()
        writer.transport.set_write_buffer_limits(_HIGH_WATER)

    @property
    def secure(self) -> bool:
        """Whether it is in TLS."""
        return self._tls is not None

    @property
    def held(self) -> int:
        """Number of bytes that were read and not used."""
        return self._messages.waiting

    @property
    def protocol(self) -> str | None:
        """Protocol that the client has chosen in TLS (ALPN)."""
        return None if self._tls is None else self._tls.selected_alpn_protocol()

    async def first_byte(self) -> int | None:
        """The first byte of the connection, which is not taken; None where the client has left."""
        while (found := self._messages.first_byte()) is None:
            if not await self._more():
                return None
        return found

    async def start_up(self) -> StartUp | None:
        """The first message of the connection; None where the client has left."""
        while (found := self._messages.start_up()) is None:
            if not await self._more():
                return None
        return found

    async def receive(self, most: int | None = None) -> FrontendMessage | None:
        """The next message, for which there is all the time in the world until its first byte; None for the end.

        Raises:
            WireFault: it is malformed, or took too long.
        """
        found = self._messages.next(most)
        if found is not None:
            return found
        await self.flush()
        if not self._messages.waiting and not await self._more():
            return None
        try:
            async with asyncio.timeout(self._seconds):
                while (found := self._messages.next(most)) is None:
                    if not await self._more():
                        return None
        except TimeoutError:
            raise WireFault("a message took too long to arrive") from None
        return found

    def write(self, data: bytes) -> None:
        """Send something with the next :meth:`flush`."""
        self._out += data

    async def spill(self) -> None:
        """Send what is waiting, where it is much."""
        if len(self._out) > _PIECE:
            await self.flush()

    async def flush(self) -> None:
        """Send what is waiting; a client that does not read is disconnected."""
        if not self._out:
            return
        data = bytes(self._out)
        self._out.clear()
        if self._tls is not None:
            view = memoryview(data)
            while view:
                view = view[self._tls.write(view) :]
            data = self._leaving.read()
        self._writer.write(data)
        await self._drain()

    async def secure_with(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on; bytes that were read already belong to its handshake.

        Raises:
            WireFault: the handshake failed.
        """
        self._arrived.write(self._messages.take_all())
        tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._send_tls()
                data = await self._reader.read(_PIECE)
                if not data:
                    raise WireFault("the client left in the handshake") from None
                self._arrived.write(data)
            except ssl.SSLError:
                await self._send_tls()
                raise WireFault("the TLS handshake failed") from None
        await self._send_tls()
        self._tls = tls
        self._decrypted()

    def hang_up(self) -> None:
        """End it at once."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send what is waiting, and end it."""
        try:
            await self.flush()
            if self._tls is not None:
                with suppress(ssl.SSLError):
                    self._tls.unwrap()
                await self._send_tls()
            self._writer.close()
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self.hang_up()

    async def _send_tls(self) -> None:
        if data := self._leaving.read():
            self._writer.write(data)
            await self._drain()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            self.hang_up()
            raise ConnectionResetError("the client does not read") from None

    async def _more(self) -> bool:
        """Read some bytes; whether there were any."""
        while True:
            data = await self._reader.read(_PIECE)
            if not data:
                return False
            if self._tls is None:
                self._messages.feed(data)
                return True
            self._arrived.write(data)
            if not self._decrypted():
                return False
            if self._messages.waiting:
                return True

    def _decrypted(self) -> bool:
        """Take what TLS has; False at its end."""
        if self._tls is None:
            return True
        try:
            while data := self._tls.read(_PIECE):
                self._messages.feed(data)
        except ssl.SSLWantReadError:
            return True
        except ssl.SSLError:
            return False
        return False
