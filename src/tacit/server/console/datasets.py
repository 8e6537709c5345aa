"""Page of tables as declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from tacit.curator.accounts import Budget
from tacit.curator.curator import TableInfo
from tacit.curator.views.answer_text import format_value
from tacit.query.catalog import ROW, Column, Table
from tacit.query.contribution import ContributionNumber
from tacit.server.console.budget_bars import gauges
from tacit.server.console.page_request import PageRequest

__all__ = ["ColumnView", "TableView", "show_datasets", "view_table"]

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
    """A table for a page, with a question that it can answer."""

    name: str
    public: bool
    tag: str
    about: str
    columns: tuple[ColumnView, ...]
    example: str


def view_table(info: TableInfo) -> TableView:
    """Public facts about a table."""
    table = info.table
    tag = "public" if table.public else f"about {table.population}"
    columns = tuple(_column(table, column) for column in table.columns)
    return TableView(table.name, table.public, tag, _about(table), columns, _example(table))


async def show_datasets(visit: PageRequest) -> Response:
    """Show all tables that the person may see, by population, each with its budget."""
    tables = await visit.run(visit.service.tables, visit.user)
    budgets = await visit.budgets()
    groups = [_group(visit, budget, tables) for budget in budgets]
    public = [view_table(info) for info in tables if info.table.public]
    if public:
        words = "The rows of these tables are public; joining them to protected tables costs nothing more."
        groups.append({"title": "Public tables", "words": words, "gauges": (), "tables": public})
    return await visit.page("datasets.html", groups=groups, budgets=budgets)


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
    more = "" if table.unit == ROW else f" A question may state other numbers{_up_to(table)}."
    return f"{unit}. Of one person, {rows} in each of {groups} count.{more}"


def _most(number: ContributionNumber, noun: str) -> str:
    if isinstance(number, str):
        return f"as many {noun}s as AUTO finds for each question"
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
    """A question that a protected table can answer, from what was declared."""
    if table.public:
        return ""
    key = next((c for c in table.columns if c.categories is not None), None)
    value = next((c for c in table.columns if c.bounds is not None and c.type.is_numeric), None)
    chosen = [
        *([key.name] if key else []),
        "COUNT(*) AS n",
        *([f"AVG({value.name}) AS avg_{value.name}"] if value else []),
    ]
    group = f"\nGROUP BY {key.name}" if key else ""
    return f"SELECT {', '.join(chosen)}\nFROM {table.name}{group}"
