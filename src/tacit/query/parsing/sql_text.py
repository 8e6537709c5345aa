"""Names, constants and queries as SQL text.

A name stands between double quotes and a text between single ones, with the quote itself doubled; the parser knows no
other escapes. A name or value that would not be parsed back unchanged is refused here. A query may be
an expression of Ibis or SQLGlot: it becomes text of DuckDB's dialect, which is parsed and checked like any other.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from decimal import Decimal
from typing import Final, Protocol

from sqlglot import exp

from tacit.core.errors import InputError

#: Python types of the constants that a query can hold.
Constant = str | int | float | bool | Decimal | dt.date | dt.datetime | None

_LONGEST: Final = 63


class IbisExpression(Protocol):
    """An expression of Ibis, which is not imported here."""

    def to_sql(self, dialect: str | None = None) -> str:
        """Return the expression as SQL."""


#: Types of queries that methods accept.
Query = str | exp.Expression | IbisExpression


def query_text(query: object, parameter: str = "sql") -> str:
    """Return the SQL of a query.

    >>> query_text(exp.select("COUNT(*)").from_("visits").where("age >= 40"))
    'SELECT COUNT(*) FROM visits WHERE age >= 40'
    """
    if isinstance(query, str):
        return query
    if isinstance(query, exp.Expression):
        return query.sql(dialect="duckdb", comments=False)
    ibis = sys.modules.get("ibis")
    if ibis is not None and isinstance(query, ibis.Expr):
        return str(ibis.to_sql(query, dialect="duckdb", pretty=False))
    raise InputError(parameter, f"must be text, or an expression of Ibis or SQLGlot, got {type(query).__name__}")


def name_text(name: object) -> str:
    """Return the name of a table or a column, quoted.

    >>> name_text("Ward name")
    '"Ward name"'
    """
    if not isinstance(name, str) or not name:
        raise InputError("name", f"must be text that is not empty, got {name!r}")
    if len(name) > _LONGEST:
        raise InputError("name", f"has more than {_LONGEST} characters: {name[:20]!r}…")
    return '"' + _printable(name, "name").replace('"', '""') + '"'


def constant_text(value: Constant) -> str:
    """Return a constant of a query as SQL text.

    >>> constant_text("it's"), constant_text(-3), constant_text(None)
    ("'it''s'", '-3', 'NULL')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float() | Decimal():
            return _number(value)
        case str():
            return "'" + _printable(value, "constant").replace("'", "''") + "'"
        case dt.datetime():
            if value.tzinfo is not None:
                raise InputError("constant", "must be a moment without a time zone")
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            raise InputError("constant", f"cannot be written in a query: {type(value).__name__}")


def _number(value: float | Decimal) -> str:
    if not math.isfinite(value):
        raise InputError("constant", f"must be a finite number, got {value}")
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def _printable(text: str, what: str) -> str:
    """Return the text; refuse characters that no statement may hold, as the parser does."""
    bad = next((c for c in text if ord(c) < 32 and c not in "\t\n\r"), None)
    bad = bad or next((c for c in text if 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000), None)
    if bad is not None:
        raise InputError(what, f"holds the character U+{ord(bad):04X}, which no query may hold")
    return text
