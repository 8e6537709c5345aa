"""The PostgreSQL protocol, version 3.0: messages, values and failures, as bytes.

*Messages.* A message has a type, a length that counts itself, and a body. The reader checks the length before it waits
for the body, and parses the body to its last byte: surplus or missing bytes and unknown types are faults that end the
connection.

*Values.* A value is a Python object (``bool, int, float, Decimal, str, date, datetime``, or a list of those), in both
directions. Parameters of clients have one of the types below; other types are refused.

*Failures.* Only this module maps error codes of Tacit to SQLSTATEs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from tacit.query.types import DECIMAL_DIGITS, Kind, SqlType
from tacit.server.errors import TooMany, Unauthenticated, describe

#: Request codes in the place of the protocol version.
CANCEL: Final = 80877102
TLS: Final = 80877103
GSS: Final = 80877104
#: Maximum bytes of a start-up message, as in PostgreSQL.
MAX_START_UP: Final = 10_000
#: Maximum bytes of a message during authentication.
MAX_SASL: Final = 4_096
#: Maximum number of parameters of one statement, and of settings at start-up.
MAX_PARAMETERS: Final = 1_000
TEXT: Final = 0
BINARY: Final = 1


class WireFault(Exception):  # noqa: N818  (of the client)
    """The bytes violate the protocol; carries a message for the client and a SQLSTATE. The connection ends."""

    def __init__(self, words: str, state: str = "08P01") -> None:
        super().__init__(words)
        self.state = state


@dataclass(frozen=True, slots=True)
class StartUp:
    """First message of a connection: a version with settings, or one of the special requests in its place."""

    code: int
    settings: dict[str, str]
    cancel: bytes = b""


class FrontendMessage(NamedTuple):
    """Message of a client after start-up: its type, and its parts, as :data:`_PARTS` lists them."""

    kind: str
    parts: tuple[Any, ...] = ()


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
        """Read a count of items of at least ``size`` bytes each; refuse more than the rest of the body can hold."""
        count = self.int16()
        if count > MAX_PARAMETERS or count * size > len(self._bytes) - self._at:
            raise WireFault("a message names more parts than it has")
        return count

    def rest(self) -> bytes:
        return self.take(len(self._bytes) - self._at)

    def end(self) -> None:
        if self._at != len(self._bytes):
            raise WireFault("a message goes on after its end")


#: Readers of the parts of each type of message: the statement and portal of Bind come first, and so on.
_PARTS: Final[dict[str, tuple[Callable[[_Body], Any], ...]]] = {
    "Q": (_Body.text,),
    "P": (_Body.text, _Body.text, _Body.types),
    "B": (_Body.text, _Body.text, _Body.formats, _Body.values, _Body.formats),
    "D": (_Body.kind, _Body.text),
    "E": (_Body.text, _Body.int32),
    "C": (_Body.kind, _Body.text),
    "H": (),
    "S": (),
    "X": (),
    "p": (_Body.rest,),
}


async def read_start_up(reader: asyncio.StreamReader) -> StartUp:
    """Read the first message of a connection.

    Raises:
        WireFault: it is malformed.
        EOFError: the client has left.
    """
    length = int.from_bytes(await reader.readexactly(4), "big")
    if not 8 <= length <= MAX_START_UP:
        raise WireFault("the start-up message has an impossible length")
    body = _Body(await reader.readexactly(length - 4))
    code = body.int32()
    if code in (TLS, GSS):
        body.end()
        return StartUp(code, {})
    if code == CANCEL:
        return StartUp(code, {}, body.take(8))
    if code >> 16 != 3:
        raise WireFault("only version 3.0 of the protocol is spoken", "0A000")
    return StartUp(code, _settings(body))


async def read_message(reader: asyncio.StreamReader, most: int, seconds: float) -> FrontendMessage:
    """Read a message of at most ``most`` bytes, which is complete within ``seconds`` of its first byte.

    Raises:
        WireFault: it is malformed, or took too long.
        EOFError: the client has left.
    """
    kind = (await reader.readexactly(1)).decode("latin-1")
    if kind not in _PARTS:
        raise WireFault("unknown type of message")
    try:
        async with asyncio.timeout(seconds):
            length = int.from_bytes(await reader.readexactly(4), "big")
            if not 4 <= length <= most:
                raise WireFault(f"a message has an impossible length; at most {most} bytes are read", "54000")
            body = _Body(await reader.readexactly(length - 4))
    except TimeoutError:
        raise WireFault("a message took too long to arrive") from None
    found = FrontendMessage(kind, tuple(part(body) for part in _PARTS[kind]))
    body.end()
    if kind == "B" and len(found.parts[2]) not in (0, 1, len(found.parts[3])):
        raise WireFault("there must be one format for all parameters, or one for each")
    return found


def _settings(body: _Body) -> dict[str, str]:
    found: dict[str, str] = {}
    while name := body.text():
        if name in found or len(found) >= MAX_PARAMETERS:
            raise WireFault("the start-up message names a setting twice")
        found[name] = body.text()
    body.end()
    return found


# -- writing


class WireColumn(NamedTuple):
    """Column of a result, with the oid, size and modifier of its type.

    The size is -1 for a variable length; the modifier (such as the precision of a numeric) is -1 for none.
    """

    name: str
    oid: int
    size: int = -1
    modifier: int = -1


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Frame a message of the server: type, length, body."""
    return kind + struct.pack("!I", len(body) + 4) + body


def _z(text: str) -> bytes:
    return text.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"


def authentication(code: int, body: bytes = b"") -> bytes:
    """Authentication message with a code and its data."""
    return message(b"R", struct.pack("!I", code) + body)


def negotiate(unknown: Iterable[str]) -> bytes:
    """NegotiateProtocolVersion: version 3.0, and the unknown options."""
    names = [_z(name) for name in unknown]
    return message(b"v", struct.pack("!II", 3 << 16, len(names)) + b"".join(names))


def parameter_status(name: str, value: str) -> bytes:
    """ParameterStatus: report the value of a setting."""
    return message(b"S", _z(name) + _z(value))


def backend_key(key: bytes) -> bytes:
    """BackendKeyData: the number and secret with which statements of this connection are cancelled."""
    return message(b"K", key)


def ready(state: str) -> bytes:
    """ReadyForQuery, with the state: idle (I), in a transaction (T), or in a failed one (E)."""
    return message(b"Z", state.encode())


def row_description(columns: Sequence[WireColumn], formats: Sequence[int]) -> bytes:
    """RowDescription: names, types and formats of columns."""
    parts = [
        _z(column.name) + struct.pack("!IHIhih", 0, 0, column.oid, column.size, column.modifier, form)
        for column, form in zip(columns, formats, strict=True)
    ]
    return message(b"T", struct.pack("!H", len(parts)) + b"".join(parts))


def parameter_description(types: Sequence[int]) -> bytes:
    """ParameterDescription: types of a statement's parameters."""
    return message(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


def data_row(cells: Sequence[bytes | None]) -> bytes:
    """DataRow; a cell of None is NULL."""
    parts = [struct.pack("!H", len(cells))]
    for cell in cells:
        parts += [b"\xff\xff\xff\xff"] if cell is None else [struct.pack("!I", len(cell)), cell]
    return message(b"D", b"".join(parts))


def command_complete(tag: str) -> bytes:
    """CommandComplete: a statement succeeded."""
    return message(b"C", _z(tag))


def error_response(
    severity: str, state: str, words: str, *, detail: str = "", hint: str = "", notice: bool = False
) -> bytes:
    """ErrorResponse; NoticeResponse if ``notice``."""
    fields = {"S": severity, "V": severity, "C": state, "M": words, "D": detail, "H": hint}
    body = b"".join(key.encode() + _z(value) for key, value in fields.items() if value)
    return message(b"N" if notice else b"E", body + b"\0")


# -- values

BOOL: Final = 16
CHAR: Final = 18
NAME: Final = 19
INT8: Final = 20
INT2: Final = 21
INT4: Final = 23
TEXT_OID: Final = 25
OID: Final = 26
JSON: Final = 114
FLOAT4: Final = 700
FLOAT8: Final = 701
UNKNOWN_OID: Final = 705
BPCHAR: Final = 1042
VARCHAR: Final = 1043
DATE_OID: Final = 1082
TIMESTAMP_OID: Final = 1114
TIMESTAMPTZ: Final = 1184
NUMERIC: Final = 1700
REGCLASS: Final = 2205

_DAY_ZERO: Final = dt.date(2000, 1, 1)
_TIME_ZERO: Final = dt.datetime(2000, 1, 1)
_TEXTS: Final = (TEXT_OID, NAME, VARCHAR, BPCHAR, UNKNOWN_OID, CHAR, JSON)
_INTEGERS: Final = {INT2: ("!h", 2), INT4: ("!i", 4), INT8: ("!q", 8), OID: ("!I", 4), REGCLASS: ("!I", 4)}
_WHOLE: Final = re.compile(r"\s*[+-]?\d{1,20}\s*\Z", re.ASCII)
_ELEMENT: Final = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*|([^,{}"\\]+)', re.DOTALL)
#: Maximum of a numeric parameter's digits, and of its exponent's absolute value.
_MOST_DIGITS: Final = 400
_TRUE: Final = frozenset(("t", "true", "y", "yes", "on", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "off", "0"))


class BadValue(ValueError):  # noqa: N818  (names the value, not the fault)
    """A parameter's bytes are no value of its type."""


class PgType(NamedTuple):
    """A PostgreSQL type, as ``pg_type`` lists it.

    Args:
        shown: its name in SQL; ``name`` is PostgreSQL's internal one.
        size: bytes; -1 for a variable length.
        category: letter of its category.
        array: oid of its array type; 0 for none.
    """

    oid: int
    name: str
    shown: str
    size: int
    category: str
    array: int


TYPES: Final = {
    each.oid: each
    for each in (
        PgType(BOOL, "bool", "boolean", 1, "B", 1000),
        PgType(CHAR, "char", '"char"', 1, "Z", 1002),
        PgType(NAME, "name", "name", 64, "S", 1003),
        PgType(INT8, "int8", "bigint", 8, "N", 1016),
        PgType(INT2, "int2", "smallint", 2, "N", 1005),
        PgType(INT4, "int4", "integer", 4, "N", 1007),
        PgType(TEXT_OID, "text", "text", -1, "S", 1009),
        PgType(OID, "oid", "oid", 4, "N", 1028),
        PgType(JSON, "json", "json", -1, "U", 199),
        PgType(FLOAT4, "float4", "real", 4, "N", 1021),
        PgType(FLOAT8, "float8", "double precision", 8, "N", 1022),
        PgType(UNKNOWN_OID, "unknown", "unknown", -2, "X", 0),
        PgType(BPCHAR, "bpchar", "character", -1, "S", 1014),
        PgType(VARCHAR, "varchar", "character varying", -1, "S", 1015),
        PgType(DATE_OID, "date", "date", 4, "D", 1182),
        PgType(TIMESTAMP_OID, "timestamp", "timestamp without time zone", 8, "D", 1115),
        PgType(TIMESTAMPTZ, "timestamptz", "timestamp with time zone", 8, "D", 1185),
        PgType(NUMERIC, "numeric", "numeric", -1, "N", 1231),
        PgType(REGCLASS, "regclass", "regclass", 4, "N", 2210),
    )
}
#: Oids of array types, and of their elements.
ARRAYS: Final = {each.array: each.oid for each in TYPES.values() if each.array}

_OF_KIND: Final = {
    Kind.BOOLEAN: BOOL,
    Kind.INTEGER: INT8,
    Kind.DECIMAL: NUMERIC,
    Kind.DOUBLE: FLOAT8,
    Kind.TEXT: TEXT_OID,
    Kind.DATE: DATE_OID,
    Kind.TIMESTAMP: TIMESTAMP_OID,
    Kind.NULL: TEXT_OID,
}


def oid_of(kind: SqlType) -> int:
    """Return the oid of the PostgreSQL type that represents a type of Tacit."""
    return _OF_KIND[kind.kind]


def column_of(name: str, kind: SqlType) -> WireColumn:
    """Return the wire description of an answer's column."""
    oid = oid_of(kind)
    modifier = ((DECIMAL_DIGITS << 16) | kind.scale) + 4 if kind.kind is Kind.DECIMAL else -1
    return WireColumn(name, oid, TYPES[oid].size, modifier)


# -- values to bytes


def encode(value: Any, oid: int, form: int) -> bytes | None:
    """Encode a value in format ``form``, text or binary; None for NULL."""
    if value is None:
        return None
    if form == BINARY:
        return _binary(value, oid)
    return _text(value).encode("utf-8", "replace")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return repr(value).removesuffix(".0") if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        return value.isoformat(" ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return "{" + ",".join(map(_element, value)) + "}"
    return str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    text = _text(value)
    if isinstance(value, str) and (not text or text.upper() == "NULL" or re.search(r'[{},"\\\s]', text)):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"'
    return text


def _binary(value: Any, oid: int) -> bytes:
    if oid in ARRAYS:
        raise BadValue("lists are sent as text alone; ask for the text format, or cast them to text")
    if oid == BOOL:
        return b"\x01" if value else b"\x00"
    if oid in _INTEGERS:
        return struct.pack(_INTEGERS[oid][0], int(value))
    if oid in (FLOAT4, FLOAT8):
        return struct.pack("!f" if oid == FLOAT4 else "!d", float(value))
    if oid == DATE_OID:
        return struct.pack("!i", (value - _DAY_ZERO).days)
    if oid in (TIMESTAMP_OID, TIMESTAMPTZ):
        return struct.pack("!q", (_plain_time(value) - _TIME_ZERO) // dt.timedelta(microseconds=1))
    if oid == NUMERIC:
        return _binary_numeric(Decimal(value))
    return _text(value).encode("utf-8", "replace")


def _binary_numeric(value: Decimal) -> bytes:
    """Encode a numeric in binary: base-10,000 digits, weight of the first digit, sign, and decimal scale."""
    if not value.is_finite():
        return struct.pack("!HhHH", 0, 0, 0xC000, 0)
    scale = max(-int(value.as_tuple().exponent), 0)
    text = f"{abs(value):f}"
    whole, _, after = text.partition(".")
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    digits = [int((whole + after)[i : i + 4]) for i in range(0, len(whole) + len(after), 4)]
    weight = len(whole) // 4 - 1
    while digits and not digits[0]:
        digits.pop(0)
        weight -= 1
    while digits and not digits[-1]:
        digits.pop()
    sign = 0x4000 if value < 0 else 0
    return struct.pack(f"!HhHH{len(digits)}H", len(digits), weight if digits else 0, sign, scale, *digits)


# -- bytes to values


def decode(raw: bytes | None, oid: int, form: int) -> Any:
    """Decode the value of a parameter.

    Raises:
        BadValue: the bytes are no value of the type, or the type is unknown. The message does not quote the value.
    """
    if raw is None:
        return None
    if form == BINARY and oid in ARRAYS:
        raise BadValue("lists are read as text alone; send the parameter as text")
    if oid not in TYPES and oid not in ARRAYS:
        raise BadValue(f"parameters of type {oid} are not supported; write the constant into the text")
    try:
        return _from_binary(raw, oid) if form == BINARY else _from_text(raw.decode(), oid)
    except (ValueError, struct.error, InvalidOperation, OverflowError, IndexError):
        name = TYPES[oid].shown if oid in TYPES else f"{TYPES[ARRAYS[oid]].shown}[]"
        raise BadValue(f"a parameter is not a value of type {name}") from None


def _from_text(text: str, oid: int) -> Any:
    if "\0" in text:
        raise ValueError("NUL")
    if oid in ARRAYS:
        return [None if each is None else _from_text(each, ARRAYS[oid]) for each in _elements(text)]
    if oid == BOOL:
        word = text.strip().lower()
        if word not in _TRUE | _FALSE:
            raise ValueError("boolean")
        return word in _TRUE
    if oid in _INTEGERS:
        if not _WHOLE.match(text):
            raise ValueError("integer")
        return _in_range(int(text), oid)
    if oid in (FLOAT4, FLOAT8):
        return _finite(float(text))
    if oid == NUMERIC:
        return _of_some_digits(Decimal(text))
    if oid == DATE_OID:
        return dt.date.fromisoformat(text.strip())
    if oid in (TIMESTAMP_OID, TIMESTAMPTZ):
        return _plain_time(dt.datetime.fromisoformat(text.strip()))
    return text


def _from_binary(raw: bytes, oid: int) -> Any:
    if oid in _TEXTS:
        return _from_text(raw.decode(), oid)
    if oid == BOOL:
        if raw not in (b"\0", b"\1"):
            raise ValueError("boolean")
        return raw == b"\1"
    if oid in _INTEGERS:
        return struct.unpack(_INTEGERS[oid][0], raw)[0]
    if oid in (FLOAT4, FLOAT8):
        return _finite(struct.unpack("!f" if oid == FLOAT4 else "!d", raw)[0])
    if oid == DATE_OID:
        return _DAY_ZERO + dt.timedelta(days=struct.unpack("!i", raw)[0])
    if oid in (TIMESTAMP_OID, TIMESTAMPTZ):
        return _TIME_ZERO + dt.timedelta(microseconds=struct.unpack("!q", raw)[0])
    return _numeric(raw)


def _numeric(raw: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!HhHH", raw)
    digits = struct.unpack_from(f"!{count}H", raw, 8)
    if sign not in (0, 0x4000) or len(raw) != 8 + 2 * count or max(digits, default=0) > 9999 or count > 100:
        raise ValueError("numeric")
    if not -100 <= weight <= 100 or scale > 400:
        raise ValueError("numeric")
    number = sum((Decimal(digit) * Decimal(10000) ** (weight - i) for i, digit in enumerate(digits)), Decimal(0))
    return -number if sign else number


def _elements(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array in PostgreSQL's text format."""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError("array")
    found: list[str | None] = []
    at, end = 1, len(text) - 1
    if not text[1:-1].strip():
        return found
    while True:
        # From one place to the next, so that the time is in proportion to the text.
        read = _ELEMENT.match(text, at, end)
        if read is None or (read[1] is None and not read[2].strip()):
            raise ValueError("array")
        if read[1] is None:
            bare = read[2].strip()
            found.append(None if bare.upper() == "NULL" else bare)
        else:
            found.append(re.sub(r"\\(.)", r"\1", read[1], flags=re.DOTALL))
        at = read.end()
        if at == end:
            return found
        if text[at] != ",":
            raise ValueError("array")
        at += 1


def _in_range(number: int, oid: int) -> int:
    struct.pack(_INTEGERS[oid][0], number)
    return number


def _of_some_digits(number: Decimal) -> Decimal:
    """Return a number; refuse one that is not finite or too long when written out."""
    if not number.is_finite() or abs(int(number.as_tuple().exponent)) > _MOST_DIGITS:
        raise ValueError("numeric")
    if len(number.as_tuple().digits) > _MOST_DIGITS:
        raise ValueError("numeric")
    return number


def _finite(number: Any) -> Any:
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _plain_time(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


# -- failures

#: SQLSTATE by code; a code such as ``query.sample`` counts as ``query`` where it is not listed itself.
STATES: Final = {
    "input": "22023",
    "input.conflict": "55000",
    "query": "0A000",
    "query.syntax": "42601",
    "query.empty": "42601",
    "query.several_statements": "42601",
    "query.unknown_table": "42P01",
    "query.unknown_column": "42703",
    "query.ambiguous": "42702",
    "query.function": "42883",
    "query.type": "42804",
    "query.group": "42803",
    "query.too_long": "54000",
    "query.too_deep": "54001",
    "query.literal": "42601",
    "budget": "53400",
    "access": "42501",
    "access.late": "53400",
    "accounting": "22023",
    "engine": "58000",
    "internal": "XX000",
    "internal.ledger": "58030",
    "internal.busy": "53000",
    "auth": "28000",
    "rate": "53000",
    "busy": "53000",
}


class StatementFault(Exception):  # noqa: N818  (of the client)
    """A statement cannot be executed, for a reason of the protocol; the connection goes on.

    The hint says what to write instead.
    """

    def __init__(self, state: str, words: str, hint: str = "") -> None:
        super().__init__(words)
        self.state = state
        self.hint = hint


def state_of(code: str) -> str:
    return STATES.get(code) or STATES.get(code.partition(".")[0], "XX000")


def error_of(problem: BaseException, severity: str = "ERROR") -> tuple[str, str, bytes]:
    """Return the code, SQLSTATE and ErrorResponse of a failure, without protected text."""
    if isinstance(problem, StatementFault):
        return "postgres", problem.state, error_response(severity, problem.state, str(problem), hint=problem.hint)
    if isinstance(problem, WireFault):
        return "postgres", problem.state, error_response(severity, problem.state, str(problem))
    if isinstance(problem, BadValue):
        return "input", "22P02", error_response(severity, "22P02", str(problem))
    failure = describe(problem)
    state = state_of(failure.code)
    words = failure.message
    if isinstance(problem, TooMany):
        words = f"too many requests; wait {math.ceil(problem.seconds)} s"
    elif isinstance(problem, Unauthenticated):
        words = "the token of this connection is not valid any more"
    detail = f"code {failure.code}" + (f", id {failure.id}" if failure.id else "")
    return failure.code, state, error_response(severity, state, words, detail=detail, hint=_hint(failure.parameter))


def _hint(parameter: str) -> str:
    if parameter in ("epsilon", "rho", "mu", "within"):
        return f"SET tacit.{parameter} = '…'; and RESET tacit.{parameter}; takes it back."
    return ""
