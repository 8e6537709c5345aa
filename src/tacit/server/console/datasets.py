"""Page of tables as declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from tacit.curator.curator import TableInfo
from tacit.query.catalog import ROW, Column, Table
from tacit.query.contribution import ContributionNumber
from tacit.releases.accounts import Budget
from tacit.releases.answer import format_value
from tacit.server.console.amounts import gauges
from tacit.server.console.editor import typed_name
from tacit.server.console.page_request import PageRequest
from tacit.server.identity import TokenScope

_MOST_VALUES: Final = 24


@dataclass(frozen=True)
class ColumnView:
    """A column: its type, and what is publicly known."""

    name: str
    kind: str
    words: str
    values: tuple[str, ...]
    more: int


@dataclass(frozen=True)
class TableView:
    """A table for a page, with a query that it can answer."""

    name: str
    public: bool
    tag: str
    about: str
    columns: tuple[ColumnView, ...]
    example: str
    keys: str = ""


def view_table(info: TableInfo, others: Sequence[TableInfo] = ()) -> TableView:
    """Public facts about a table, with queries: about it, and with its values as the keys of another."""
    table = info.table
    tag = "public" if table.public else f"about {table.population}"
    columns = tuple(_column(table, column) for column in table.columns)
    keys = _as_keys(table, [each.table for each in others]) if table.public else ""
    return TableView(table.name, table.public, tag, _about(table), columns, _example(table), keys)


async def show_datasets(visit: PageRequest) -> Response:
    """Show all tables that the person may see, by population, each with its budget."""
    tables = await visit.run(visit.service.tables, visit.user)
    budgets = await visit.budgets()
    groups = [_group(visit, budget, tables) for budget in budgets]
    public = [view_table(info, tables) for info in tables if info.table.public]
    if public:
        words = "The rows of these tables are public; joining them to protected tables costs nothing more."
        groups.append({"title": "Public tables", "words": words, "gauges": (), "tables": public})
    return await visit.page("datasets.html", groups=groups, budgets=budgets, can_ask=visit.user.has(TokenScope.ASK))


def _group(visit: PageRequest, budget: Budget, tables: tuple[TableInfo, ...]) -> dict[str, object]:
    name = budget.population
    return {
        "title": name,
        "words": f"One budget protects each of the {name} in all of these tables together.",
        "gauges": gauges(budget, analyst=visit.name),
        "tables": [view_table(info) for info in tables if info.table.population == name],
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
    """The ceilings of a table, in words."""
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
    """A query that a table can answer, from what was declared."""
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
    """A query whose groups are the rows of a public table: one for each, with people or without."""
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
