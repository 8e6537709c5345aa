"""How names, types, constants and repeated values are written in DuckDB's SQL.

Values live in these columns: BOOLEAN, BIGINT for INTEGER, BIGINT for DECIMAL (the number without its point), DOUBLE,
VARCHAR, DATE, TIMESTAMP. Holding decimals as integers makes their arithmetic ours: overflow is a comparison, not an
error.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from fractions import Fraction

from tacit.query.types import Kind, SqlType, Value

__all__ = ["DECIMAL_LIMIT", "column", "constant", "finite", "fit_decimal", "fit_integer", "let", "quoted", "storage"]

#: Sizes of decimals, without their point, stay below this.
DECIMAL_LIMIT = 10**18
#  Longer texts are named once instead of being written twice, so that nested functions do not double the statement
# each time.
_SHORT = 120

_STORAGE = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INTEGER: "BIGINT",
    Kind.DECIMAL: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.NULL: "BIGINT",
}


def storage(kind: SqlType) -> str:
    """The DuckDB type in which values of a type are held."""
    return _STORAGE[kind.kind]


def column(slot: int) -> str:
    """The name of a column of a relation; analysts' names never reach the engine."""
    return f"c{slot}"


def quoted(name: str) -> str:
    """A name of the data source as an identifier."""
    if "\0" in name:
        raise ValueError("a name cannot hold NUL")
    return '"' + name.replace('"', '""') + '"'


def constant(value: Value | None, kind: SqlType) -> str:
    """A constant, typed."""
    if value is None:
        return f"CAST(NULL AS {storage(kind)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if kind.kind is Kind.DOUBLE:
        return f"CAST('{float(value)!r}' AS DOUBLE)"
    whole = Fraction(value) * 10**kind.scale
    return f"CAST({int(whole)} AS BIGINT)"


def text(value: str) -> str:
    """A text constant; NUL, which ends a statement's text, is spelled by its number."""
    pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
    return pieces[0] if len(pieces) == 1 else "(" + " || chr(0) || ".join(pieces) + ")"


def let(value: str, body: Callable[[str], str]) -> str:
    """``body`` of a value it uses several times; long values are computed and written once."""
    if len(value) <= _SHORT:
        return "(" + body(f"({value})") + ")"
    return f"list_extract(list_transform([{value}], lambda v: {body('v')}), 1)"


def finite(value: str) -> str:
    """A DOUBLE, NULL where it is not finite, and 0.0 for -0.0."""
    return let(value, lambda v: f"CASE WHEN isfinite({v}) THEN {v} + CAST(0 AS DOUBLE) END")


def fit_integer(value: str) -> str:
    """A HUGEINT as INTEGER, NULL where it does not fit."""
    return f"TRY_CAST({value} AS BIGINT)"


def fit_decimal(value: str) -> str:
    """A HUGEINT as a DECIMAL without its point, NULL where it does not fit."""
    limit = DECIMAL_LIMIT - 1
    return let(value, lambda v: f"CASE WHEN {v} BETWEEN -{limit} AND {limit} THEN CAST({v} AS BIGINT) END")
