"""Casts, value by value, and the table of allowed casts.

=========== =====================================================================================================
to          from
=========== =====================================================================================================
BOOLEAN     numbers (not 0), TEXT (true t yes y 1, false f no n 0)
INTEGER     BOOLEAN, DECIMAL and TEXT (half away from zero), DOUBLE (half to even)
DECIMAL     INTEGER, DECIMAL and TEXT (half away from zero), DOUBLE (its product with 10^s, half away from zero),
BOOLEAN DOUBLE      numbers, BOOLEAN, TEXT
TEXT        everything but DOUBLE, whose text differs from engine to engine
DATE        TIMESTAMP (its day), TEXT (``YYYY-MM-DD``)
TIMESTAMP   DATE (midnight), TEXT (``YYYY-MM-DD``, optionally ``HH:MM[:SS[.ffffff]][Z]`` after a space or T)
=========== =====================================================================================================

Text is read without the spaces around it. Numbers in text are ``[+-]digits[.digits][e[+-]digits]``; anything else is
NULL.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction

from tacit.query.types import Kind, SqlType, Value, as_value

_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?\Z")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z")
_TIMESTAMP = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?Z?)?\Z")
_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}
_SOURCES = {
    Kind.BOOLEAN: _NUMBERS | {Kind.TEXT},
    Kind.INTEGER: _NUMBERS | {Kind.BOOLEAN, Kind.TEXT},
    Kind.DECIMAL: _NUMBERS | {Kind.BOOLEAN, Kind.TEXT},
    Kind.DOUBLE: _NUMBERS | {Kind.BOOLEAN, Kind.TEXT},
    Kind.TEXT: {Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP},
    Kind.DATE: {Kind.TIMESTAMP, Kind.TEXT},
    Kind.TIMESTAMP: {Kind.DATE, Kind.TEXT},
}


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Whether the table above has this cast."""
    return source.kind in (Kind.NULL, target.kind) or source.kind in _SOURCES.get(target.kind, set())


def cast_value(value: Value | None, source: SqlType, target: SqlType) -> Value | None:
    """The value as another type, or None."""
    if value is None:
        return None
    if source == target:
        return value
    match target.kind:
        case Kind.BOOLEAN:
            return _WORDS.get(value.strip(" ").lower()) if isinstance(value, str) else bool(value)
        case Kind.INTEGER:
            return as_value(_to_integer(value), target)
        case Kind.DECIMAL:
            return as_value(_to_decimal(value, target.scale), target)
        case Kind.DOUBLE:
            number = _read_number(value) if isinstance(value, str) else value
            return as_value(int(number) if isinstance(number, bool) else number, target)
        case Kind.TEXT:
            return text_of_value(value, source)
        case _:
            return _to_time(value, target)


def round_half_away(value: Fraction) -> int:
    """The nearest whole number, ties away from zero."""
    whole = math.floor(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def text_of_value(value: Value, kind: SqlType) -> str:
    """The text of a value, the same on every engine."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return _fixed(Fraction(value), kind.scale)
    if isinstance(value, dt.datetime):
        text = value.isoformat(" ")
        return text.rstrip("0") if "." in text else text
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _fixed(value: Fraction, scale: int) -> str:
    digits = str(abs(int(value * 10**scale))).rjust(scale + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _to_integer(value: Value) -> int | None:
    if isinstance(value, float):
        return round(value)
    number = _read_number(value) if isinstance(value, str) else value
    return round_half_away(Fraction(number)) if isinstance(number, (bool, int, Fraction)) else None


def _to_decimal(value: Value, scale: int) -> Fraction | None:
    number = _read_number(value) if isinstance(value, str) else value
    if isinstance(number, float):
        product = number * float(10**scale)
        return Fraction(round_half_away(Fraction(product)), 10**scale) if math.isfinite(product) else None
    if isinstance(number, (bool, int, Fraction)):
        return Fraction(round_half_away(Fraction(number) * 10**scale), 10**scale)
    return None


def _read_number(text: str) -> Fraction | None:
    stripped = text.strip(" ")
    return Fraction(stripped) if _NUMBER.match(stripped) and stripped.isascii() else None


def _to_time(value: Value, target: SqlType) -> Value | None:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    if not isinstance(value, str) or not value.isascii():
        return None
    found = (_DATE if target.kind is Kind.DATE else _TIMESTAMP).match(value.strip(" "))
    if found is None:
        return None
    parts = [int(part or 0) for part in found.groups()[:6]]
    try:
        if target.kind is Kind.DATE:
            return dt.date(*parts)
        year, month, day, hour, minute, second = parts
        return dt.datetime(year, month, day, hour, minute, second, int((found.group(7) or "0").ljust(6, "0")))
    except ValueError:
        return None
