"""Messages of the PostgreSQL protocol, versions 3.0 and 3.2: a strict reader and a writer.

A message has a type, a length that counts itself, and a body. The reader takes bytes as they arrive, checks a length
before it waits for the body, and a body to its last byte: what is left over, missing or of an unknown type is a fault
after which the connection ends. It holds at most one message beyond the bytes that one read brings.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: Codes that stand where a version of the protocol does.
CANCEL: Final = 80877102
TLS: Final = 80877103
GSS: Final = 80877104
#: Bytes of a start-up message, as in PostgreSQL.
MAX_START_UP: Final = 10_000
#: Bytes of a message while the client proves who it is.
MAX_SASL: Final = 4_096
#: Parameters of one statement, and names of settings at start-up.
MAX_PARAMETERS: Final = 1_000
TEXT: Final = 0
BINARY: Final = 1
_PARTLY: Final = {b"Q", b"P", b"B", b"D", b"E", b"C", b"H", b"S", b"X", b"p", b"F"}


class WireFault(Exception):  # noqa: N818  (of the client)
    """The bytes are not the protocol, with words for the client and a SQLSTATE; the connection ends."""

    def __init__(self, words: str, state: str = "08P01") -> None:
        super().__init__(words)
        self.state = state


@dataclass(frozen=True, slots=True)
class StartUp:
    """First message of a connection: a version with settings, or one of the requests that stand in its place."""

    code: int
    settings: dict[str, str]
    cancel: bytes = b""


@dataclass(frozen=True, slots=True)
class QueryMessage:
    """Statements in a text, by the simple protocol."""

    sql: str


@dataclass(frozen=True, slots=True)
class ParseMessage:
    """Prepare a statement; ``types`` are those of parameters, 0 for one that the server is to find."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BindMessage:
    """Make a portal of a statement and the values of its parameters."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribeMessage:
    """Describe a statement (``S``) or a portal (``P``)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class ExecuteMessage:
    """Fetch rows of a portal; 0 for all of them."""

    portal: str
    limit: int


@dataclass(frozen=True, slots=True)
class CloseMessage:
    """Forget a statement (``S``) or a portal (``P``)."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class FlushMessage:
    """Send what is waiting."""


@dataclass(frozen=True, slots=True)
class SyncMessage:
    """End of a series; after a failure, the place to go on from."""


@dataclass(frozen=True, slots=True)
class TerminateMessage:
    """The client leaves."""


@dataclass(frozen=True, slots=True)
class SaslMessage:
    """Part of the proof of who the client is."""

    body: bytes


FrontendMessage = (
    QueryMessage
    | ParseMessage
    | BindMessage
    | DescribeMessage
    | ExecuteMessage
    | CloseMessage
    | FlushMessage
    | SyncMessage
    | TerminateMessage
    | SaslMessage
)


class _Body:
    """A cursor in the body of a message."""

    __slots__ = ("_at", "_bytes")

    def __init__(self, body: bytes) -> None:
        self._bytes = body
        self._at = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self._at + count > len(self._bytes):
            raise WireFault("a message ends before its parts do")
        self._at += count
        return self._bytes[self._at - count : self._at]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def text(self) -> str:
        end = self._bytes.find(b"\0", self._at)
        if end < 0:
            raise WireFault("a text has no end")
        raw, self._at = self._bytes[self._at : end], end + 1
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise WireFault("a text is not UTF-8", "22021") from None

    def kind(self) -> str:
        found = self.take(1)
        if found not in (b"S", b"P"):
            raise WireFault("a statement or a portal must be named")
        return found.decode()

    def formats(self) -> tuple[int, ...]:
        found = tuple(self.int16() for _ in range(self._many(2)))
        if not set(found) <= {TEXT, BINARY}:
            raise WireFault("a format must be 0 for text or 1 for binary")
        return found

    def values(self) -> tuple[bytes | None, ...]:
        found: list[bytes | None] = []
        for _ in range(self._many(4)):
            length = self.int32()
            found.append(None if length == -1 else self.take(length))
        return tuple(found)

    def types(self) -> tuple[int, ...]:
        return tuple(self.int32() & 0xFFFFFFFF for _ in range(self._many(4)))

    def _many(self, size: int) -> int:
        """A number of things of at least so many bytes, which the rest of the body can hold."""
        count = self.int16()
        if count > MAX_PARAMETERS or count * size > len(self._bytes) - self._at:
            raise WireFault("a message names more parts than it has")
        return count

    def rest(self) -> bytes:
        return self.take(len(self._bytes) - self._at)

    def end(self) -> None:
        if self._at != len(self._bytes):
            raise WireFault("a message goes on after its end")


def _bind(body: _Body) -> BindMessage:
    found = BindMessage(body.text(), body.text(), body.formats(), body.values(), body.formats())
    if len(found.formats) not in (0, 1, len(found.values)):
        raise WireFault("there must be one format for all parameters, or one for each")
    return found


def _call(_: _Body) -> FrontendMessage:
    raise WireFault("calls of functions by number are not supported", "0A000")


_READ: Final[dict[bytes, Callable[[_Body], FrontendMessage]]] = {
    b"Q": lambda body: QueryMessage(body.text()),
    b"P": lambda body: ParseMessage(body.text(), body.text(), body.types()),
    b"B": _bind,
    b"D": lambda body: DescribeMessage(body.kind(), body.text()),
    b"E": lambda body: ExecuteMessage(body.text(), max(body.int32(), 0)),
    b"C": lambda body: CloseMessage(body.kind(), body.text()),
    b"H": lambda _: FlushMessage(),
    b"S": lambda _: SyncMessage(),
    b"X": lambda _: TerminateMessage(),
    b"p": lambda body: SaslMessage(body.rest()),
    b"F": _call,
}


class MessageReader:
    """Reads messages of at most so many bytes each from bytes as they arrive."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._buffer += data

    @property
    def waiting(self) -> int:
        """Number of bytes that are held."""
        return len(self._buffer)

    def first_byte(self) -> int | None:
        """The first byte that is held, which stays there."""
        return self._buffer[0] if self._buffer else None

    def take_all(self) -> bytes:
        """All bytes that are held."""
        held = bytes(self._buffer)
        self._buffer.clear()
        return held

    def start_up(self) -> StartUp | None:
        """The first message of a connection; None while it is not whole."""
        if len(self._buffer) < 4:
            return None
        length = int.from_bytes(self._buffer[:4], "big")
        if not 8 <= length <= MAX_START_UP:
            raise WireFault("the start-up message has an impossible length")
        if len(self._buffer) < length:
            return None
        body = _Body(self._taken(length)[4:])
        code = body.int32()
        if code in (TLS, GSS):
            body.end()
            return StartUp(code, {})
        if code == CANCEL:
            key = body.rest()
            if not 8 <= len(key) <= 4 + 256:
                raise WireFault("a request to cancel has an impossible length")
            return StartUp(code, {}, key)
        if code >> 16 != 3:
            raise WireFault("only versions 3.0 and 3.2 of the protocol are spoken", "0A000")
        return StartUp(code, _settings(body))

    def next(self, most: int | None = None) -> FrontendMessage | None:
        """The next message; None while it is not whole.

        Args:
            most: bytes of it, where fewer than usual are expected.
        """
        if not self._buffer:
            return None
        kind = bytes(self._buffer[:1])
        if kind not in _PARTLY:
            raise WireFault("unknown type of message")
        if len(self._buffer) < 5:
            return None
        length = int.from_bytes(self._buffer[1:5], "big")
        if not 4 <= length <= (self._most if most is None else min(most, self._most)):
            raise WireFault(f"a message has an impossible length; at most {self._most} bytes are read", "54000")
        if len(self._buffer) < length + 1:
            return None
        body = _Body(self._taken(length + 1)[5:])
        found = _READ[kind](body)
        body.end()
        return found

    def _taken(self, count: int) -> bytes:
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _settings(body: _Body) -> dict[str, str]:
    found: dict[str, str] = {}
    while name := body.text():
        if name in found or len(found) >= MAX_PARAMETERS:
            raise WireFault("the start-up message names a setting twice")
        found[name] = body.text()
    body.end()
    return found


# -- writing


@dataclass(frozen=True, slots=True)
class WireColumn:
    """Column of a result, with oid, size and modifier of its type.

    The size is -1 where it varies; a modifier, such as the digits of a numeric, is -1 for none.
    """

    name: str
    oid: int
    size: int = -1
    modifier: int = -1


def message(kind: bytes, body: bytes = b"") -> bytes:
    """A message of the server."""
    return kind + struct.pack("!I", len(body) + 4) + body


def _z(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"


def authentication(code: int, body: bytes = b"") -> bytes:
    """A step of authentication."""
    return message(b"R", struct.pack("!I", code) + body)


def negotiate(minor: int, unknown: Iterable[str]) -> bytes:
    """The newest version that is spoken, and the options that are not known."""
    names = [_z(name) for name in unknown]
    return message(b"v", struct.pack("!II", (3 << 16) | minor, len(names)) + b"".join(names))


def parameter_status(name: str, value: str) -> bytes:
    """Report the value of a setting."""
    return message(b"S", _z(name) + _z(value))


def backend_key(key: bytes) -> bytes:
    """The key that cancels statements of this connection: its number and a secret."""
    return message(b"K", key)


def ready(state: str) -> bytes:
    """Ready for the next statement: idle (I), in a transaction (T), or in a failed one (E)."""
    return message(b"Z", state.encode())


def row_description(columns: Sequence[WireColumn], formats: Sequence[int]) -> bytes:
    """Names and types of columns."""
    parts = [
        _z(column.name) + struct.pack("!IHIhih", 0, 0, column.oid, column.size, column.modifier, form)
        for column, form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(parts)) + b"".join(parts))


def parameter_description(types: Sequence[int]) -> bytes:
    """Types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """A row; None for NULL."""
    parts = [struct.pack("!H", len(cells))]
    for cell in cells:
        parts += [b"\xff\xff\xff\xff"] if cell is None else [struct.pack("!I", len(cell)), cell]
    return message(b"D", b"".join(parts))


def command_complete(tag: str) -> bytes:
    """End of a statement that succeeded."""
    return message(b"C", _z(tag))


def error_response(
    severity: str, state: str, words: str, *, detail: str = "", hint: str = "", notice: bool = False
) -> bytes:
    """An error, or a notice about something that succeeded."""
    fields = {"S": severity, "V": severity, "C": state, "M": words, "D": detail, "H": hint}
    body = b"".join(key.encode() + _z(value) for key, value in fields.items() if value)
    return message(b"N" if notice else b"E", body + b"\0")
