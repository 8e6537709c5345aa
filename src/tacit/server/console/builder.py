"""Query builder: a table, filters, groups and measures, chosen from lists and written as SQL.

The text is written here alone, for pages with and without scripts. Names are quoted where they must be, and values are
read by the type of their column, so that nothing typed into a field can become SQL.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.core.errors import InputError
from tacit.curator.curator import TableInfo
from tacit.query.catalog import ROW, Column, Table
from tacit.query.parsing.sql_text import constant_text
from tacit.query.types import Kind, SqlType, ordinal
from tacit.releases.answer import format_value
from tacit.server.console.editor import typed_constant, typed_name

_MOST_FILTERS: Final = 4
_MOST_GROUPS: Final = 2
_MOST_MEASURES: Final = 3
_MOST_LISTED: Final = 60
#: Bands of a number, at most about so many over its bounds.
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


@dataclass(frozen=True)
class Choice:
    """An entry of a list, and whether it is chosen."""

    value: str
    words: str
    chosen: bool = False


@dataclass(frozen=True)
class FilterView:
    """A condition: a column, a comparison, and a value from a list or typed."""

    columns: tuple[Choice, ...]
    operators: tuple[Choice, ...]
    values: tuple[Choice, ...]
    typed: str
    kind: str


@dataclass(frozen=True)
class BuilderView:
    """The builder for a page: lists with what is chosen, and what cannot be used."""

    tables: tuple[Choice, ...]
    groups: tuple[tuple[Choice, ...], ...]
    measures: tuple[tuple[Choice, ...], ...]
    filters: tuple[FilterView, ...]
    problem: str = ""


def build(fields: Mapping[str, str], tables: Sequence[TableInfo]) -> str:
    """The query that was chosen.

    Raises:
        InputError: a choice is none of the list, or a value is not of its column's type.
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


def view_builder(fields: Mapping[str, str], tables: Sequence[TableInfo], problem: str = "") -> BuilderView | None:
    """The builder with the choices of a form; None without a table."""
    if not tables:
        return None
    try:
        table = _table(fields, tables)
    except InputError:
        table = tables[0].table
    columns = [column for column in table.columns if column.name != table.unit]
    groups, measures = _groups(columns), _measures(table)
    chosen_groups = _chosen(fields, "group", _MOST_GROUPS)
    chosen_measures = _chosen(fields, "measure", _MOST_MEASURES) or ["rows"]
    rows = range(min(1 + len(_filters(fields)), _MOST_FILTERS))
    return BuilderView(
        tuple(Choice(info.name, info.name, info.name == table.name) for info in tables),
        _lists(groups, chosen_groups, _MOST_GROUPS),
        _lists(measures, chosen_measures, _MOST_MEASURES),
        tuple(_filter_view(columns, fields, _filters(fields), row) for row in rows),
        problem,
    )


def _lists(known: Mapping[str, str], chosen: list[str], most: int) -> tuple[tuple[Choice, ...], ...]:
    """A list for each choice, and one more."""
    shown = [*(text for text in chosen if text in known), ""][:most]
    return tuple(tuple(Choice(value, words, value == text) for value, words in known.items()) for text in shown)


def _filter_view(columns: Sequence[Column], fields: Mapping[str, str], rows: list[int], row: int) -> FilterView:
    sent = rows[row] if row < len(rows) else -1
    name, operator, typed = (fields.get(f"{word}{sent}", "") for word in ("where", "is", "value"))
    column = next((each for each in columns if each.name == name), None)
    values: tuple[Choice, ...] = ()
    if column is not None and column.categories is not None and len(column.categories) <= _MOST_LISTED:
        texts = [format_value(value, column.type) for value in column.categories if value is not None]
        values = tuple(Choice(text, text, text == typed) for text in texts)
    return FilterView(
        tuple(Choice(each.name, each.name, each is column) for each in columns),
        tuple(Choice(word, word, word == operator) for word in _OPERATORS),
        values,
        typed,
        "" if column is None else _input_kind(column.type),
    )


def _input_kind(kind: SqlType) -> str:
    return "date" if kind.kind is Kind.DATE else "decimal" if kind.is_numeric else "text"


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
    """Numbers of the rows with a column."""
    return [n for n in range(_MOST_FILTERS) if fields.get(f"where{n}")]


def _groups(columns: Sequence[Column]) -> dict[str, str]:
    """Ways to group: a column, a time in parts, a number in bands."""
    found: dict[str, str] = {}
    for column in columns:
        if column.type.is_temporal:
            found |= {f"{column.name}:{part}": f"{column.name}, by {part}" for part in _PARTS}
        elif (band := _band(column)) > 1:
            found[f"{column.name}:{band}"] = f"{column.name}, in steps of {band}"
            if column.type.kind is Kind.INTEGER:
                found[column.name] = column.name
        elif column.type.kind is not Kind.DOUBLE:
            private = "" if _is_listed(column) else " (groups chosen privately)"
            found[column.name] = f"{column.name}{private}"
    return found


def _is_listed(column: Column) -> bool:
    return column.categories is not None or column.bounds is not None or column.type.kind is Kind.BOOLEAN


def _band(column: Column) -> int:
    """A round width of bands over the bounds of a number; 0 where there are none or few values."""
    if column.bounds is None or not column.type.is_numeric or column.categories is not None:
        return 0
    low, high = (ordinal(end, column.type) for end in column.bounds)
    span = Fraction(high - low)
    if span < _BANDS:
        return 0
    width = 1
    while True:
        for each in (1, 2, 5):
            if each * width * _BANDS >= span:
                return each * width
        width *= 10


def _measures(table: Table) -> dict[str, str]:
    found = {"rows": "number of rows"}
    if table.unit is not None and table.unit != ROW:
        found["people"] = f"number of {table.population or 'people'}"
    for column in table.columns:
        if column.type.is_numeric and column.name != table.unit and not column.unique:
            found |= {f"{word}:{column.name}": f"{word} of {column.name}" for word in _STATISTICS}
    return found


def _key(table: Table, text: str) -> tuple[str, bool]:
    """A group as it stands in SELECT, and whether its values have an order that is worth showing."""
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
    # Without bounds a sum is not bounded either: those are found privately, within the price.
    bounded = column.bounds is not None or column.categories is not None or table.public
    inside = typed_name(name) if bounded else f"CLAMP({typed_name(name)}, AUTO)"
    return f"{function}({inside}) AS {typed_name(f'{function.lower()}_{name}'[:60])}"


def _conditions(fields: Mapping[str, str], table: Table) -> list[str]:
    found = []
    for n in _filters(fields):
        name, operator, typed = (fields.get(f"{word}{n}", "") for word in ("where", "is", "value"))
        column = next((each for each in table.columns if each.name == name and name != table.unit), None)
        if column is None:
            # Left over from another table.
            continue
        if operator not in _OPERATORS:
            raise InputError("is", "choose a comparison from the list")
        if operator in _UNARY:
            found.append(f"{typed_name(name)} {_OPERATORS[operator]}")
        elif typed:
            found.append(f"{typed_name(name)} {_OPERATORS[operator]} {_constant(column, typed)}")
    return found


def _constant(column: Column, text: str) -> str:
    """A typed value, by the type of its column."""
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
