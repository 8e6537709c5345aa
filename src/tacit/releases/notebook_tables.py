"""HTML for notebooks: quotes, budgets, tables, histories and models; every text is escaped."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.core.text_files import visible

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.query.catalog import Column, Table
    from tacit.query.planning.explain import Explanation
    from tacit.releases.accounts import Budget, Entry

_MOST_ROWS: Final = 60
_QUIET: Final = "opacity:.6"


class ChargeList(tuple["Entry", ...]):
    """Charges in order: a tuple that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [(str(entry.number), entry.analyst, entry.cost, entry.sql) for entry in self[-_MOST_ROWS:]]
        before = len(self) - len(rows)
        note = f"{before} earlier ones are not shown." if before > 0 else "" if self else "Nothing was asked yet."
        return html_rows(("", "analyst", "charged", "query"), rows, note)


def html_rows(head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "", title: str = "") -> str:
    names = "".join(f'<th style="text-align:left">{html.escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    above = f"<p><b>{html.escape(title)}</b></p>" if title else ""
    below = f'<p style="{_QUIET}">{html.escape(note)}</p>' if note else ""
    return f"{above}<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{below}"


def quote_html(said: Explanation) -> str:
    """A quote: the price, and how far off each number may be."""
    rows = [(error.label, error.meaning) for error in said.errors]
    notes = [f"Protects {said.population}: {said.unit}. Bounding: {said.bounding}. Groups: {said.keys}."]
    notes += [f"Left out: {said.bias}." if said.bias else "", *said.advice]
    alone = f", which is {said.alone}" if said.alone else ""
    title = f"It would cost {said.charge}{alone} of {said.population}; free to know"
    if said.public:
        title, notes = f"It costs {said.charge}", [f"{said.unit}. {said.keys}."]
    details = f'<details style="{_QUIET}"><summary>all of it</summary><pre>{html.escape(str(said))}</pre></details>'
    return html_rows(("column", "error"), rows, " ".join(filter(None, notes)), title) + details


def budget_html(budget: Budget) -> str:
    """A budget: for epsilon and each currency a bar of the population, and one of each share with a limit."""
    parts: list[str] = []
    for place, (balance, epsilon) in enumerate(zip(budget.balances, budget.epsilons, strict=True)):
        name = balance.owner if place else budget.population
        for line in balance.lines if balance.limited or not place else ():
            if not line.cap:
                continue
            share = min(float(Fraction(line.spent) / Fraction(line.cap)), 1.0)
            bar = (
                f'<div style="width:12em;height:.8em;border:1px solid currentColor">'
                f'<div style="width:{100 * share:.1f}%;height:100%;background:currentColor;opacity:.5"></div></div>'
            )
            words = [f"{line.currency}: {100 * share:.3g}% of {float(line.cap):.4g} spent"]
            if epsilon is not None and line is balance.lines[0]:
                words.insert(0, f"epsilon: {epsilon}, {epsilon.left} left")
            parts += [
                f"<tr><td>{html.escape(name)}</td><td>{bar}</td><td>{html.escape(each)}</td></tr>" for each in words
            ]
    return f'<table><tbody>{"".join(parts)}</tbody></table><p style="{_QUIET}">{html.escape(str(budget))}</p>'


def table_html(table: Table) -> str:
    rows = [(each.name, str(each.type), "; ".join(known_of(table, each, 12))) for each in table.columns]
    return html_rows(("column", "type", "publicly known"), rows, title=f"{table.name}: {owner_of(table)}")


def owner_of(table: Table) -> str:
    """The owner of a table's rows, in words."""
    return "public" if table.public else f"protects {table.population}"


def known_of(table: Table, column: Column, most: int = 6) -> list[str]:
    """Public knowledge about a column, in words, with the first of its categories."""
    parts = ["the unit"] if column.name == table.unit else []
    if column.bounds is not None:
        parts.append(f"from {column.bounds[0]} to {column.bounds[1]}")
    if column.categories is not None:
        shown = ", ".join("NULL" if value is None else visible(str(value)) for value in column.categories[:most])
        parts.append(f"one of {shown}{', …' if len(column.categories) > most else ''}")
    return parts


def curator_html(name: str, tables: Iterable[Table], budgets: Iterable[Budget]) -> str:
    shown = "".join(f"<details><summary>{html.escape(t.name)}</summary>{table_html(t)}</details>" for t in tables)
    return f"<p><b>{html.escape(name)}</b></p>{shown}{''.join(map(budget_html, budgets))}"


def entry_html(title: str, entry: Entry) -> str:
    return html_rows(("charged", "query"), [(entry.text, entry.sql)], title=title)


def show_arrow() -> None:
    """Have the notebook that runs this process, if one does, show Arrow tables as tables."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type_by_name("pyarrow.lib", "Table", _arrow_html)


def _arrow_html(table: pa.Table) -> str:
    rows = [[_shown(value) for value in row.values()] for row in table.slice(0, _MOST_ROWS).to_pylist()]
    more = table.num_rows - len(rows)
    return html_rows(table.column_names, rows, f"{more} more rows" if more > 0 else "")


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
