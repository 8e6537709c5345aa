"""Constants and names of types in SQL text."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Literal, literal
from tacit.query.types import (
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    MAX_SCALE,
    TEXT,
    TIMESTAMP,
    SqlType,
    as_value,
    decimal,
)

_TYPES: Final[dict[str, SqlType]] = {
    **dict.fromkeys(("BOOLEAN",), BOOLEAN),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT", "MEDIUMINT"), INTEGER),
    **dict.fromkeys(("FLOAT", "DOUBLE"), DOUBLE),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR"), TEXT),
    **dict.fromkeys(("DATE",), DATE),
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "TIMESTAMPNTZ"), TIMESTAMP),
}
_PLAIN_NUMBER = re.compile(r"(\d+)(?:\.(\d*))?\Z|\.(\d+)\Z")
_SCIENTIFIC = re.compile(r"\d*\.?\d*[eE][+-]?\d{1,3}\Z")


def number(text: str) -> Literal:
    """A numeric constant: whole numbers are INTEGER, short decimals DECIMAL, the rest DOUBLE."""
    plain = _PLAIN_NUMBER.match(text) if text.isascii() else None
    if plain is not None:
        digits = plain.group(2) or plain.group(3) or ""
        if "." not in text:
            whole = as_value(int(text), INTEGER)
            return literal(whole, INTEGER) if whole is not None else _double(text)
        value = as_value(Fraction(text if text[-1] != "." else text + "0"), decimal(min(len(digits), MAX_SCALE)))
        if value is not None and len(digits) <= MAX_SCALE and len(text) <= DECIMAL_DIGITS:
            return literal(value, decimal(len(digits)))
        return _double(text)
    if text.isascii() and _SCIENTIFIC.match(text):
        return _double(text)
    raise Refusal("literal", f"{text[:40]!r} is not a number that can be used here.")


def _double(text: str) -> Literal:
    try:
        value = as_value(float(text), DOUBLE)
    except ValueError:
        value = None
    if value is None:
        raise Refusal("literal", "A number is too large; use one below 1e308.")
    return literal(value, DOUBLE)


def type_named(node: exp.Expr) -> SqlType:
    """The type that a cast names."""
    kind = getattr(node, "this", None)
    name = str(getattr(kind, "name", kind))
    if name == "DECIMAL":
        return _decimal_type([part.name for part in node.expressions])
    if name not in _TYPES:
        raise Refusal(
            "type",
            f"The type {name[:40]} is not supported; use INTEGER, DECIMAL, DOUBLE, TEXT, BOOLEAN, DATE or TIMESTAMP.",
        )
    return _TYPES[name]


def _decimal_type(parameters: list[str]) -> SqlType:
    if not all(part.isascii() and part.isdigit() and len(part) <= 3 for part in parameters):
        raise Refusal("type", "Write DECIMAL(precision, scale) with whole numbers.")
    sizes = [int(part) for part in parameters]
    precision, scale = [*sizes, 0][:2] if len(sizes) == 1 else (sizes or [DECIMAL_DIGITS, 3])[:2]
    if precision > DECIMAL_DIGITS or scale > min(MAX_SCALE, precision):
        raise Refusal("type", f"DECIMAL has at most {DECIMAL_DIGITS} digits, {MAX_SCALE} of them after the point.")
    return decimal(scale)
