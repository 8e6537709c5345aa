"""Notebooks to take home: queries, costs, tables with intervals, plots and a receipt in one Jupyter file.

Its cells hold the released numbers and need the standard library alone: no server, no data, no Tacit. The plot is drawn
by Altair and the receipt checked by Tacit where these are installed. Texts from outside stand in Python literals and
outputs as plain text, never as Markdown or HTML.
"""

from __future__ import annotations

import inspect
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tacit.core.extras import MissingError
from tacit.core.text_files import visible

if TYPE_CHECKING:
    from tacit.releases.answer import AnswerViews
    from tacit.releases.receipt import Receipt

#: Beyond these, a notebook is no place for a table and a plot is a carpet.
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
    """The notebook of answers by name, with the query of each, and one receipt of all."""
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
    """The notebook of a release from its CSV files."""
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
    """The picture as it is now; none where charts are not installed."""
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
    """A value as a Python literal."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else float(value)


def _plain_words(text: str) -> str:
    """Text that Markdown shows as it is."""
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
