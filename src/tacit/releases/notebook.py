"""Notebooks: objects as HTML, and files to take home.

*Files to take home*: queries, costs, tables, plots and a receipt in one Jupyter file. Its cells hold the released
numbers and need the standard library alone: no server, no data, no Tacit. The plot is drawn by Altair and the receipt
verified by Tacit where these are installed. Texts from outside are Python literals and plain-text outputs, never
Markdown or HTML.
"""

from __future__ import annotations

import html
import inspect
import io
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.core.extras import MissingError
from tacit.core.text_files import visible

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.query.catalog import Column, Table
    from tacit.query.planning.explain import Explanation
    from tacit.releases.accounts import Budget, Entry
    from tacit.releases.answer import AnswerViews
    from tacit.releases.receipt import Receipt


_MOST_HTML_ROWS: Final = 60
_QUIET: Final = "opacity:.6"


class ChargeList(tuple["Entry", ...]):
    """Tuple of charges, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = [(str(entry.number), entry.analyst, entry.cost, entry.sql) for entry in self[-_MOST_HTML_ROWS:]]
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
    """Return a quote as HTML: the cost, and the error of each column."""
    rows = [(error.label, error.meaning) for error in said.errors]
    notes = [f"Protects {said.population}: {said.unit}. Bounding: {said.bounding}. Groups: {said.keys}."]
    notes += [f"Bias: {said.bias}." if said.bias else "", *said.advice]
    alone = f", which is {said.alone}" if said.alone else ""
    title = f"It would cost {said.charge}{alone} of {said.population}; free to know"
    if said.public:
        title, notes = f"It costs {said.charge}", [f"{said.unit}. {said.keys}."]
    details = f'<details style="{_QUIET}"><summary>all of it</summary><pre>{html.escape(str(said))}</pre></details>'
    return html_rows(("column", "error"), rows, " ".join(filter(None, notes)), title) + details


def budget_html(budget: Budget) -> str:
    """Return a budget as HTML: bars for epsilon and each currency, of the population and of each limited share."""
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
    """Return ``public``, or a text that names the population a table protects."""
    return "public" if table.public else f"protects {table.population}"


def known_of(table: Table, column: Column, most: int = 6) -> list[str]:
    """Return texts about the declarations of a column, with its first ``most`` categories."""
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


def show_arrow() -> None:
    """Make IPython, where it runs this process, show Arrow tables as HTML tables."""
    module = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type_by_name("pyarrow.lib", "Table", _arrow_html)


def _arrow_html(table: pa.Table) -> str:
    rows = [[_shown(value) for value in row.values()] for row in table.slice(0, _MOST_HTML_ROWS).to_pylist()]
    more = table.num_rows - len(rows)
    return html_rows(table.column_names, rows, f"{more} more rows" if more > 0 else "")


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)


#: Largest number of rows of a table, and of points of a plot, in a notebook.
_MOST_ROWS, _MOST_POINTS = 5000, 60

_PLOT: Final = """\
try:
    import altair as alt
except ImportError:
    chart = "pip install altair draws these numbers"
else:
    at = [{name}_COLUMNS.index(c) for c in ({value!r}, {low!r}, {high!r})]
    points = [{{"group": ", ".join(str(row[i]) for i in {labels!r}) or "all",
               "value": row[at[0]], "low": row[at[1]], "high": row[at[2]]}} for row in {name}_ROWS]
    base = alt.Chart(alt.Data(values=points)).encode(x=alt.X("group:N", sort=None, title=None))
    chart = base.mark_rule().encode(y=alt.Y("low:{kind}", title={value!r}), y2="high") + base.mark_point(
        filled=True).encode(y=alt.Y("value:{kind}", scale=alt.Scale(zero=False)))
    chart = chart.properties(width=alt.Step(40))
chart
"""
_CHECK: Final = """\
RECEIPT = {receipt!r}
# The public key of the curator, asked of the owner of the data and not taken from here; the receipt names key {key}.
PUBLIC_KEY = ""
try:
    import tacit
except ImportError:
    print("pip install tacit-dp checks the receipt, offline")
else:
    print(tacit.verify_receipt(RECEIPT, PUBLIC_KEY) if PUBLIC_KEY else "fill in PUBLIC_KEY")
"""


def table_text(columns: list[str], rows: list[list[object]], most: int = 30) -> str:
    """Columns side by side, the first rows."""
    shown = [list(columns)] + [[f"{v:.6g}" if isinstance(v, float) else str(v) for v in row] for row in rows[:most]]
    widths = [max(len(line[i]) for line in shown) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip() for line in shown]  # noqa: B905
    return "\n".join(lines + ([f"and {len(rows) - most} more rows"] if len(rows) > most else []))


def answers_notebook(
    title: str, answers: Mapping[str, AnswerViews], receipt: Receipt | None, queries: Mapping[str, str]
) -> bytes:
    """Return a notebook with answers by name, the query of each, and one receipt for all."""
    cells = [_markdown(f"# {_plain_words(title)}")]
    for number, (name, answer) in enumerate(answers.items(), 1):
        columns, _, rows = answer.interval_rows()
        plain = [[_plain(value) for value in row] for row in rows]
        heading = f"## {_plain_words(name)}\n\n" if len(answers) > 1 else ""
        cells.append(_markdown(f"{heading}{_fenced(queries[name])}\n\n{_plain_words(answer.note)}"))
        cells.append(_table_cell(f"T{number}", columns, plain))
        cells += _plot_cells(f"T{number}", answer)
    return _notebook([*cells, *_receipt_cells(receipt)])


def tables_notebook(title: str, about: str, tables: Mapping[str, bytes], receipt: Receipt) -> bytes:
    """Return a notebook of a release, from its CSV files."""
    import csv

    cells = [_markdown(f"# {_plain_words(title)}\n\n{_fenced(about)}")]
    for number, (name, content) in enumerate(tables.items(), 1):
        columns, *rows = csv.reader(io.StringIO(content.decode()))
        cells += [_markdown(f"## {_plain_words(name)}"), _table_cell(f"T{number}", columns, rows)]
    return _notebook([*cells, *_receipt_cells(receipt)])


def _table_cell(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    kept = [list(row) for row in rows[:_MOST_ROWS]]
    told = "" if len(rows) == len(kept) else f"# The first {_MOST_ROWS} of {len(rows)} rows; the files have all.\n"
    lines = "".join(f"    {row!r},\n" for row in kept)
    source = f"{told}{name}_COLUMNS = {list(columns)!r}\n{name}_ROWS = [\n{lines}]\n\n\n"
    source += f"{inspect.getsource(table_text)}\n\nprint(table_text({name}_COLUMNS, {name}_ROWS))"
    return _code(source, [_stream(table_text(list(columns), kept))])


def _plot_cells(name: str, answer: AnswerViews) -> list[dict[str, Any]]:
    with_ends = [i for i, known in enumerate(answer.finished.has_interval) if known]
    if not with_ends or not 0 < len(answer) <= _MOST_POINTS:
        return []
    labels, place = [], 0
    for known in answer.finished.has_interval:
        labels += [] if known else [place]
        place += 3 if known else 1
    cells = []
    for index in with_ends:
        column = answer.columns[index]
        value, kind = column.name, "T" if column.type.is_temporal else "Q"
        source = _PLOT.format(
            name=name, value=value, low=f"{value}_low", high=f"{value}_high", labels=labels, kind=kind
        )
        cells.append(_code(source, _drawn(answer, value)))
    return cells


def _drawn(answer: AnswerViews, column: str) -> list[dict[str, Any]]:
    """Return the plot as an SVG output of a cell; empty where Altair is not installed."""
    sink = io.StringIO()
    try:
        answer.plot(column).save(sink, format="svg")
    except MissingError:
        return []
    data = {"image/svg+xml": sink.getvalue(), "text/plain": f"{visible(column)} with its intervals"}
    return [{"output_type": "display_data", "data": data, "metadata": {}}]


def _receipt_cells(receipt: Receipt | None) -> list[dict[str, Any]]:
    if receipt is None:
        return [_markdown("Public tables alone were read: nothing was charged and there is no receipt.")]
    place, key = receipt["ledger"], str(receipt["key"])
    words = (
        f"## How to check this\n\nThe receipt is a signed statement of queries, noise and charge, at position "
        f"{int(place['position'])} of ledger `{_plain_words(str(place['id']))}`. Tacit checks it offline."
    )
    return [_markdown(words), _code(_CHECK.format(receipt=receipt.to_json(), key=key), [])]


def _plain(value: Any) -> Any:
    """Return a value whose ``repr`` is a Python literal."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else float(value)


def _plain_words(text: str) -> str:
    """Escape a text so that Markdown shows it literally."""
    return "".join(f"\\{sign}" if sign in "\\`*_{}[]#|<>~$&" else sign for sign in visible(text))


def _fenced(text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}sql\n{visible(text.expandtabs())}\n{fence}"


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(source: str, outputs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "source": source, "outputs": list(outputs)}


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text + "\n"}


def _notebook(cells: Sequence[dict[str, Any]]) -> bytes:
    named = [{**cell, "id": f"tacit-{number}"} for number, cell in enumerate(cells)]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    content = {"cells": named, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
