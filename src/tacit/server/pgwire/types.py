"""Types of PostgreSQL on the wire: values to text and binary, parameters to values.

A value is one of Python (``bool, int, float, Decimal, str, date, datetime``, or a list of those), whichever side it
comes from. Everything that clients can send has one of the types below; others are refused.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tacit.query.types import DECIMAL_DIGITS, Kind, SqlType
from tacit.server.pgwire.messages import BINARY, WireColumn

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
#: Digits of a number before its point, and behind it.
_MOST_DIGITS: Final = 400
_TRUE: Final = frozenset(("t", "true", "y", "yes", "on", "1"))
_FALSE: Final = frozenset(("f", "false", "n", "no", "off", "0"))


class BadValue(ValueError):  # noqa: N818  (names the value, not the fault)
    """A parameter has no value of its type."""


@dataclass(frozen=True, slots=True)
class PgType:
    """A type, as ``pg_type`` lists it.

    Args:
        shown: its name in SQL; ``name`` is the one inside PostgreSQL.
        size: bytes; -1 where it varies.
        category: letter of its category.
        array: number of the type of its arrays; 0 for none.
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
#: Types of arrays, and those of their elements.
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
    """The type of PostgreSQL that holds a type of Tacit."""
    return _OF_KIND[kind.kind]


def column_of(name: str, kind: SqlType) -> WireColumn:
    """A column of an answer."""
    oid = oid_of(kind)
    modifier = ((DECIMAL_DIGITS << 16) | kind.scale) + 4 if kind.kind is Kind.DECIMAL else -1
    return WireColumn(name, oid, TYPES[oid].size, modifier)


# -- values to bytes


def encode(value: Any, oid: int, form: int) -> bytes | None:
    """A value in one of the two formats; None for NULL."""
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
    """Digits to the base 10,000, the place of the first of them, the sign, and the digits after the point."""
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
    """The value of a parameter.

    Raises:
        BadValue: the bytes are no value of the type, or the type is not known. The value is not in the words.
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
    """The elements of an array of one dimension, as PostgreSQL writes it."""
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
    """A number of few enough digits to be written out."""
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
