"""Tables as pages show them, the words of the editor, and the query builder.

Everything here is public metadata of the tables that the person may see: names, types, declared categories. The builder
writes SQL from a table, filters, groups and measures that were chosen from lists: names are quoted where necessary,
and values are parsed by the type of their column, so that no text typed into a field can become SQL.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import exact_text
from tacit.curator.curator import TableInfo
from tacit.query.aggregates import SQL_NAMES
from tacit.query.catalog import ROW, Column, Table
from tacit.query.contribution import ContributionNumber
from tacit.query.parsing.parse import is_bare_name
from tacit.query.parsing.sql_text import constant_text, name_text
from tacit.query.refusal import Refusal
from tacit.query.resolve.sql_functions import function_meanings
from tacit.query.types import Kind, Value, ordinal
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
#: Tokens of SQL: comments, strings, quoted names, words, spaces and single characters.
_TOKEN: Final = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\w+|\s+|.""", re.DOTALL)


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


def place_of(refusal: Refusal, sql: str) -> tuple[int, int] | None:
    """Return the start and end position in a text that a refusal is about; None if unknown."""
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


_MOST_VALUES: Final = 24


@dataclass(frozen=True)
class ColumnView:
    """A column: its name, type and public metadata."""

    name: str
    kind: str
    words: str
    values: tuple[str, ...]
    more: int


@dataclass(frozen=True)
class TableView:
    """A table for a page, with an example query."""

    name: str
    public: bool
    tag: str
    about: str
    columns: tuple[ColumnView, ...]
    example: str
    keys: str = ""


def view_table(info: TableInfo, others: Sequence[TableInfo] = ()) -> TableView:
    """Return a table's public metadata, an example query, and one with its values as group keys of another table."""
    table = info.table
    tag = "public" if table.public else f"about {table.population}"
    columns = tuple(_column(table, column) for column in table.columns)
    keys = _as_keys(table, [each.table for each in others]) if table.public else ""
    return TableView(table.name, table.public, tag, _about(table), columns, _example(table), keys)


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


def _column(table: Table, column: Column) -> ColumnView:
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
    values = tuple(format_value(value, column.type) for value in column.categories or ())
    shown = values[:_MOST_VALUES]
    return ColumnView(column.name, str(column.type).lower(), "; ".join(words), shown, len(values) - len(shown))


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


def _as_keys(table: Table, others: Sequence[Table]) -> str:
    """Return a query with one group per row of a public table, even if it has no people; empty if none fits."""
    for column in table.columns:
        for other in others:
            same = [each for each in other.columns if each.name.lower() == column.name.lower()]
            if not other.public and same and same[0].type == column.type and same[0].name != other.unit:
                key, theirs = f"k.{typed_name(column.name)}", f"t.{typed_name(same[0].name)}"
                return (
                    f"SELECT {key}, COUNT({theirs}) AS n\nFROM {typed_name(table.name)} AS k\n"
                    f"LEFT JOIN {typed_name(other.name)} AS t ON {theirs} = {key}\nGROUP BY {key}"
                )
    return ""


_MOST_FILTERS: Final = 4
_MOST_GROUPS: Final = 2
_MOST_MEASURES: Final = 3
_MOST_LISTED: Final = 60
#: Maximum number of intervals into which a number's bounds are divided.
_BANDS: Final = 12
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,18})?\Z")
_OPERATORS: Final = {
    "is": "=",
    "is not": "<>",
    "at least": ">=",
    "at most": "<=",
    "is missing": "IS NULL",
    "is known": "IS NOT NULL",
}
_UNARY: Final = ("is missing", "is known")
_PARTS: Final = ("month", "day", "week", "quarter", "year")
_STATISTICS: Final = {"sum": "SUM", "average": "AVG", "median": "MEDIAN", "standard deviation": "STDDEV"}


#: An entry of a list: its value, its label, and whether it is chosen.
Choice = tuple[str, str, bool]


def build(fields: Mapping[str, str], tables: Sequence[TableInfo]) -> str:
    """Return the SQL of the query that was chosen in the builder.

    Raises:
        InputError: a choice is not in its list, or a value is not of its column's type.
    """
    table = _table(fields, tables)
    keys = [_key(table, text) for text in _chosen(fields, "group", _MOST_GROUPS)]
    measures = [_measure(table, text) for text in _chosen(fields, "measure", _MOST_MEASURES)] or ["COUNT(*) AS n"]
    conditions = _conditions(fields, table)
    lines = [f"SELECT {', '.join([*(key for key, _ in keys), *measures])}", f"FROM {typed_name(table.name)}"]
    if conditions:
        lines.append(f"WHERE {' AND '.join(conditions)}")
    if keys:
        places = ", ".join(str(n + 1) for n in range(len(keys)))
        lines.append(f"GROUP BY {places}")
        if any(ordered for _, ordered in keys):
            lines.append(f"ORDER BY {places}")
    return "\n".join(lines)


def view_builder(fields: Mapping[str, str], tables: Sequence[TableInfo], problem: str = "") -> dict[str, Any] | None:
    """Return the builder with the choices of a form and a problem with them; None if there are no tables."""
    if not tables:
        return None
    try:
        table = _table(fields, tables)
    except InputError:
        table = tables[0].table
    columns = [column for column in table.columns if column.name != table.unit]
    measures = _chosen(fields, "measure", _MOST_MEASURES) or ["rows"]
    rows = [*_filters(fields), -1][:_MOST_FILTERS]
    return {
        "tables": [(info.name, info.name, info.name == table.name) for info in tables],
        "groups": _lists(_groups(columns), _chosen(fields, "group", _MOST_GROUPS), _MOST_GROUPS),
        "measures": _lists(_measures(table), measures, _MOST_MEASURES),
        "filters": [_filter_view(columns, *_filter(fields, row)) for row in rows],
        "problem": problem,
    }


def _lists(known: Mapping[str, str], chosen: list[str], most: int) -> list[list[Choice]]:
    """Return one list for each valid choice, and an empty one if fewer than ``most``."""
    shown = [*(text for text in chosen if text in known), ""][:most]
    return [[(value, words, value == text) for value, words in known.items()] for text in shown]


def _filter_view(columns: Sequence[Column], name: str, operator: str, typed: str) -> dict[str, Any]:
    """Return a condition for the template: column, comparison, and a value that is listed or typed."""
    column = next((each for each in columns if each.name == name), None)
    values: list[Choice] = []
    kind = ""
    if column is not None:
        kind = "date" if column.type.kind is Kind.DATE else "decimal" if column.type.is_numeric else "text"
        if column.categories is not None and len(column.categories) <= _MOST_LISTED:
            texts = [format_value(value, column.type) for value in column.categories if value is not None]
            values = [(text, text, text == typed) for text in texts]
    return {
        "columns": [(each.name, each.name, each is column) for each in columns],
        "operators": [(word, word, word == operator) for word in _OPERATORS],
        "choices": values,
        "typed": typed,
        "kind": kind,
    }


def _table(fields: Mapping[str, str], tables: Sequence[TableInfo]) -> Table:
    name = fields.get("table", "")
    found = next((info.table for info in tables if info.name == name), None)
    if found is None:
        raise InputError("table", "choose a table from the list")
    return found


def _chosen(fields: Mapping[str, str], word: str, most: int) -> list[str]:
    texts = [fields.get(f"{word}{n}", "") for n in range(most)]
    return list(dict.fromkeys(text for text in texts if text))


def _filters(fields: Mapping[str, str]) -> list[int]:
    """Return the numbers of the condition rows that have a column."""
    return [n for n in range(_MOST_FILTERS) if fields.get(f"where{n}")]


def _filter(fields: Mapping[str, str], row: int) -> tuple[str, str, str]:
    """Return the column, the comparison and the value of a condition row."""
    name, operator, typed = (fields.get(f"{word}{row}", "") for word in ("where", "is", "value"))
    return name, operator, typed


def _groups(columns: Sequence[Column]) -> dict[str, str]:
    """Return the ways to group by these columns: by a value, a part of a time, or an interval of a number."""
    found: dict[str, str] = {}
    for column in columns:
        if column.type.is_temporal:
            found |= {f"{column.name}:{part}": f"{column.name}, by {part}" for part in _PARTS}
        elif (band := _band(column)) > 1:
            found[f"{column.name}:{band}"] = f"{column.name}, in steps of {band}"
            if column.type.kind is Kind.INTEGER:
                found[column.name] = column.name
        elif column.type.kind is not Kind.DOUBLE:
            listed = column.categories is not None or column.bounds is not None or column.type.kind is Kind.BOOLEAN
            found[column.name] = column.name if listed else f"{column.name} (groups chosen privately)"
    return found


def _band(column: Column) -> int:
    """Return a round width that divides a number's bounds into at most ``_BANDS`` intervals.

    Returns:
        0 without bounds, with listed categories, or if the bounds contain few values.
    """
    if column.bounds is None or not column.type.is_numeric or column.categories is not None:
        return 0
    low, high = (ordinal(end, column.type) for end in column.bounds)
    span = Fraction(high - low)
    if span < _BANDS:
        return 0
    widths = (each * int(10**power) for power in count() for each in (1, 2, 5))
    return next(width for width in widths if width * _BANDS >= span)


def _measures(table: Table) -> dict[str, str]:
    found = {"rows": "number of rows"}
    if table.unit is not None and table.unit != ROW:
        found["people"] = f"number of {table.population or 'people'}"
    for column in table.columns:
        if column.type.is_numeric and column.name != table.unit and not column.unique:
            found |= {f"{word}:{column.name}": f"{word} of {column.name}" for word in _STATISTICS}
    return found


def _key(table: Table, text: str) -> tuple[str, bool]:
    """Return the SELECT expression of a group, and whether to sort by it."""
    columns = [column for column in table.columns if column.name != table.unit]
    if text not in _groups(columns):
        raise InputError("group", "choose a group from the list")
    name, _, part = text.partition(":")
    column = next(each for each in columns if each.name == name)
    if not part:
        return typed_name(name), column.type.is_numeric
    if column.type.is_temporal:
        return f"DATE_TRUNC('{part}', {typed_name(name)}) AS {typed_name(part)}", True
    return f"FLOOR({typed_name(name)} / {part}) * {part} AS {typed_name(f'{name}_from')}", True


def _measure(table: Table, text: str) -> str:
    if text not in _measures(table):
        raise InputError("measure", "choose a measure from the list")
    if text == "rows":
        return "COUNT(*) AS n"
    if text == "people":
        return f"COUNT(DISTINCT {typed_name(table.unit or '')}) AS people"
    word, _, name = text.partition(":")
    column = next(each for each in table.columns if each.name == name)
    function = _STATISTICS[word]
    # A column without bounds needs CLAMP(…, AUTO), which finds them privately, as part of the cost.
    bounded = column.bounds is not None or column.categories is not None or table.public
    inside = typed_name(name) if bounded else f"CLAMP({typed_name(name)}, AUTO)"
    return f"{function}({inside}) AS {typed_name(f'{function.lower()}_{name}'[:60])}"


def _conditions(fields: Mapping[str, str], table: Table) -> list[str]:
    found = []
    for n in _filters(fields):
        name, operator, typed = _filter(fields, n)
        column = next((each for each in table.columns if each.name == name and name != table.unit), None)
        if column is None:
            # A filter left from another table.
            continue
        if operator not in _OPERATORS:
            raise InputError("is", "choose a comparison from the list")
        if operator in _UNARY:
            found.append(f"{typed_name(name)} {_OPERATORS[operator]}")
        elif typed:
            found.append(f"{typed_name(name)} {_OPERATORS[operator]} {_constant(column, typed)}")
    return found


def _constant(column: Column, text: str) -> str:
    """Return a typed value as an SQL literal of its column's type."""
    for value in column.categories or ():
        if value is not None and format_value(value, column.type) == text and typed_constant(value):
            return typed_constant(value)
    kind = column.type
    try:
        if kind.is_numeric:
            plain = text.replace(",", "")
            if _NUMBER.match(plain) is None:
                raise ValueError("not a number")
            return plain
        if kind.kind is Kind.DATE:
            return constant_text(dt.date.fromisoformat(text))
        if kind.is_temporal:
            return constant_text(dt.datetime.fromisoformat(text).replace(tzinfo=None))
        if kind.kind is Kind.BOOLEAN:
            return {"true": "TRUE", "false": "FALSE"}[text.lower()]
    except (ValueError, KeyError):
        example = "2025-03-31" if kind.is_temporal else "true or false" if kind.kind is Kind.BOOLEAN else "12.5"
        raise InputError(column.name, f"is compared with values such as {example}, not {text[:40]!r}") from None
    return constant_text(text)
