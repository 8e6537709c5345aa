"""Charts of an answer: a point per group with an error bar."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tacit.core.charts import altair, offline, save_chart
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.core.text_files import visible
from tacit.query.postprocess.cells import Ends
from tacit.query.types import Value

if TYPE_CHECKING:
    from tacit.releases.views.answer_views import AnswerViews


def plot(answer: AnswerViews, column: str | None, confidence: Number | None, path: str | Path | None) -> Any:
    """An Altair chart of one column, or of all that have an interval side by side; saved when ``path`` is given."""
    alt = altair()
    charts = [_chart(answer, index, confidence) for index in _chosen(answer, column)]
    chart = charts[0] if len(charts) == 1 else alt.hconcat(*charts)
    if path is not None:
        save_chart(chart, path)
    return offline(chart)


def _chosen(answer: AnswerViews, column: str | None) -> list[int]:
    able = [i for i, known in enumerate(answer.finished.has_interval) if known]
    names = [answer.columns[i].name for i in able]
    if column is None:
        if not able:
            raise InputError("column", "the answer has no column with an interval to plot")
        return able
    if column not in names:
        raise InputError("column", f"must be one of {', '.join(names)}; got {column!r}")
    return [able[names.index(column)]]


def _chart(answer: AnswerViews, index: int, confidence: Number | None) -> Any:
    column = answer.columns[index]
    labels = [i for i, c in enumerate(answer.columns) if not answer.finished.has_interval[i] and i != index]
    records = [
        {
            "group": _label(cells, labels),
            "value": _number(cells[index][0]),
            "low": _number(cells[index][1][0]),
            "high": _number(cells[index][1][1]),
        }
        for cells in answer.displayed(confidence)
    ]
    kind: Literal["temporal", "quantitative"] = "temporal" if column.type.is_temporal else "quantitative"
    title = ", ".join(answer.columns[i].name for i in labels)
    return error_bars(records, x=title, y=column.name, kind=kind).properties(title=answer.confidence_text(confidence))


def error_bars(
    records: list[dict[str, Any]], *, x: str, y: str, kind: Literal["temporal", "quantitative"] = "quantitative"
) -> Any:
    """A point with an error bar for each record, which has a group, a value and both ends."""
    alt = altair()
    base = alt.Chart(alt.InlineData(values=records)).encode(
        x=alt.X("group", type="nominal", sort=None, title=x or None)
    )
    scale = alt.Scale(zero=False)
    bars = base.mark_rule(strokeWidth=2, opacity=0.6).encode(y=alt.Y("low", type=kind, title=y, scale=scale), y2="high")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(y=alt.Y("value", type=kind, scale=scale))
    return (bars + points).properties(width=alt.Step(40), height=260)


def _label(cells: Sequence[tuple[Value | None, Ends]], labels: list[int]) -> str:
    return visible(", ".join("NULL" if cells[i][0] is None else str(cells[i][0]) for i in labels)) or "all"


def _number(value: Value | None) -> float | str | None:
    if isinstance(value, dt.date):
        return value.isoformat()
    return None if value is None or isinstance(value, str) else float(value)
