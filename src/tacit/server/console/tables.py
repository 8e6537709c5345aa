"""Tables as pages show them, and the words of the editor.

Everything here is public metadata of the tables that the person may see: names, types, declared categories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import exact_text
from tacit.curator.curator import TableInfo
from tacit.query.aggregates import SQL_NAMES
from tacit.query.catalog import ROW, Column, Table
from tacit.query.contribution import ContributionNumber
from tacit.query.parsing.parse import is_bare_name
from tacit.query.parsing.sql_text import constant_text, name_text
from tacit.query.resolve.sql_functions import function_meanings
from tacit.query.types import Value
from tacit.releases.answer import format_value

#: Maximum number of declared values of one column that the editor offers.
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
#: Functions that the editor offers first; all others are highlighted and completed as well.
_COMMON: Final = (
    "count", "sum", "avg", "median", "stddev", "min", "max", "quantile", "mode", "date_trunc", "extract", "round",
    "floor", "clamp", "coalesce",
)  # fmt: skip


def editor_words(tables: Iterable[TableInfo]) -> str:
    """Return tables with columns and declared values, functions and keywords, as JSON for the editor's script."""
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
    """Return a name in SQL, quoted only if necessary."""
    return name if is_bare_name(name) else name_text(name)


def typed_constant(value: Value | None) -> str:
    """Return a declared value as an SQL literal; empty if it has none."""
    try:
        if isinstance(value, Fraction):
            shown = exact_text(value)
            return shown if "/" not in shown and len(shown.partition(".")[2]) <= _MOST_DECIMALS else ""
        return constant_text(value)
    except InputError:
        return ""


def _keys(column: Column) -> list[str]:
    shown = [typed_constant(value) for value in (column.categories or ())[:_MOST_KEYS] if value is not None]
    return [text for text in shown if text]


_MOST_VALUES: Final = 24


def view_table(info: TableInfo) -> dict[str, Any]:
    """Return a table's public metadata for a page, and an example query."""
    table = info.table
    return {
        "name": table.name,
        "public": table.public,
        "tag": "public" if table.public else f"about {table.population}",
        "about": _about(table),
        "columns": [_column(table, column) for column in table.columns],
        "example": _example(table),
    }


def _about(table: Table) -> str:
    if table.public:
        return ""
    if table.unit == ROW:
        unit = "Every row is a person of its own"
    elif table.unit is None:
        key = next(iter(table.foreign_keys), None)
        unit = f"Persons are found through {'another table' if key is None else key.table}"
    else:
        unit = f"The column {table.unit} says which person a row belongs to"
    rows, groups = _most(table.max_rows, "row"), _most(table.max_groups, "group")
    more = "" if table.unit == ROW else f" A query may state other numbers{_up_to(table)}."
    return f"{unit}. A person counts with {rows} in each of {groups}.{more}"


def _most(number: ContributionNumber, noun: str) -> str:
    if isinstance(number, str):
        return f"as many {noun}s as AUTO finds for each query"
    return f"at most {number} {noun}{'' if number == 1 else 's'}"


def _up_to(table: Table) -> str:
    """Describe the upper limits of a table's contribution bounds."""
    known = ((table.max_rows_limit, "row"), (table.max_groups_limit, "group"))
    shown = [f"{most} {noun}{'' if most == 1 else 's'}" for most, noun in known if most is not None]
    return f", up to {' and '.join(shown)}" if shown else ""


def _column(table: Table, column: Column) -> dict[str, Any]:
    words = ["all of its values"] if table.public else []
    if column.name == table.unit:
        words.append("names the person: may be counted, never shown")
    if column.bounds is not None:
        low, high = (format_value(end, column.type) for end in column.bounds)
        words.append(f"counted from {low} to {high}")
    if column.unique and column.name != table.unit:
        words.append("no value occurs twice")
    if column.categories is not None:
        words.append("one of")
    values = [format_value(value, column.type) for value in column.categories or ()]
    return {
        "name": column.name,
        "kind": str(column.type).lower(),
        "words": "; ".join(words),
        "listed": values[:_MOST_VALUES],
        "more": max(len(values) - _MOST_VALUES, 0),
    }


def _example(table: Table) -> str:
    """Return an example query on a table, from its declaration."""
    if table.public:
        return f"SELECT * FROM {typed_name(table.name)}"  # noqa: S608 - a query for the editor
    key = next((c for c in table.columns if c.categories is not None), None)
    value = next((c for c in table.columns if c.bounds is not None and c.type.is_numeric), None)
    chosen = [
        *([typed_name(key.name)] if key else []),
        "COUNT(*) AS n",
        *([f"AVG({typed_name(value.name)}) AS {typed_name(f'avg_{value.name}')}"] if value else []),
    ]
    group = f"\nGROUP BY {typed_name(key.name)}" if key else ""
    return f"SELECT {', '.join(chosen)}\nFROM {typed_name(table.name)}{group}"
