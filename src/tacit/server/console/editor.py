"""Editor: the words that it completes and colours, and where in the text a refusal belongs.

Everything here is public metadata of the tables that the person may see: names, types, declared categories.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import exact_text
from tacit.curator.curator import TableInfo
from tacit.query.aggregates import SQL_NAMES
from tacit.query.catalog import Column
from tacit.query.parsing.parse import is_bare_name
from tacit.query.parsing.sql_text import constant_text, name_text
from tacit.query.refusal import Refusal
from tacit.query.resolve.sql_functions import function_meanings
from tacit.query.types import Value

#: Declared values of one column that are offered.
_MOST_KEYS: Final = 60
_MOST_DECIMALS: Final = 18
_KEYWORDS: Final = tuple(
    """
    SELECT DISTINCT FROM WHERE GROUP ORDER BY HAVING LIMIT OFFSET QUALIFY WITH AS JOIN LEFT RIGHT FULL INNER OUTER CROSS
    SEMI ANTI ON USING UNION ALL AND OR NOT IN IS NULL TRUE FALSE BETWEEN LIKE ILIKE CASE WHEN THEN ELSE END ASC DESC
    NULLS FIRST LAST INTERVAL DATE TIMESTAMP CAST EXTRACT EXISTS VALUES OVER PARTITION ROWS RANGE ROLLUP CUBE GROUPING
    SETS FILTER OPTIONS INTEGER DECIMAL DOUBLE TEXT BOOLEAN
    """.split()  # noqa: SIM905 - a list of a line for each word hides them
)
#: Functions that are offered first; the others are coloured and completed as well.
_COMMON: Final = (
    "count", "sum", "avg", "median", "stddev", "min", "max", "quantile", "mode", "date_trunc", "extract", "round",
    "floor", "clamp", "coalesce",
)  # fmt: skip
#: Comments, texts, names in quotes, words and other characters of SQL.
_TOKEN: Final = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\w+|\s+|.""", re.DOTALL)


def editor_words(tables: Iterable[TableInfo]) -> str:
    """Tables with their columns and declared values, functions and keywords, as JSON for the script."""
    functions = dict.fromkeys([*_COMMON, *SQL_NAMES, *function_meanings()])
    words: dict[str, Any] = {
        "tables": {
            typed_name(info.name): {
                "public": info.table.public,
                "columns": [
                    {"name": typed_name(column.name), "type": str(column.type).lower(), "keys": _keys(column)}
                    for column in info.table.columns
                ],
            }
            for info in tables
        },
        "functions": [name.upper() for name in functions],
        "keywords": _KEYWORDS,
    }
    return json.dumps(words, ensure_ascii=False, separators=(",", ":"))


def typed_name(name: str) -> str:
    """A name as an analyst types it: in quotes only where it must be."""
    return name if is_bare_name(name) else name_text(name)


def typed_constant(value: Value | None) -> str:
    """A declared value as it stands in SQL; empty where it cannot be written."""
    try:
        if isinstance(value, Fraction):
            shown = exact_text(value)
            return shown if "/" not in shown and len(shown.partition(".")[2]) <= _MOST_DECIMALS else ""
        return constant_text(value)
    except InputError:
        return ""


def place_of(refusal: Refusal, sql: str) -> tuple[int, int] | None:
    """First and last position in a text that a refusal is about; None where that is not known."""
    if isinstance(refusal.at, str):
        return _name_place(refusal.at, sql)
    if refusal.at is None:
        return None
    line, column = refusal.at
    lines = sql.split("\n")
    if not 1 <= line <= len(lines):
        return None
    end = sum(len(each) + 1 for each in lines[: line - 1]) + min(max(column, 1), len(lines[line - 1]))
    for found in _TOKEN.finditer(sql):
        if found.start() < end <= found.end() and not found.group().isspace():
            return found.span()
    return None


def _name_place(name: str, sql: str) -> tuple[int, int] | None:
    for found in _TOKEN.finditer(sql):
        text = found.group()
        plain = text[1:-1].replace('""', '"') if text.startswith('"') else text
        if plain.lower() == name.lower() and not text.startswith(("'", "--", "/*")):
            return found.span()
    return None


def _keys(column: Column) -> list[str]:
    shown = [typed_constant(value) for value in (column.categories or ())[:_MOST_KEYS] if value is not None]
    return [text for text in shown if text]
