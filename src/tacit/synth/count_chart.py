"""Charts of counts: noisy counts with intervals and, where there is a model, its counts behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tacit.core.charts import altair, offline, save_chart
from tacit.core.errors import InputError
from tacit.core.text_files import visible

#: Counts of one chart; more cannot be read.
_MOST_SHOWN: Final = 150
_COLOUR: Final = "#4c78a8"
_INK: Final = "#222"


def count_chart(
    table: Any, columns: Sequence[str], *, count: str, model: str = "", title: str, path: str | Path | None = None
) -> Any:
    """An Altair chart of an Arrow table of counts; saved when ``path`` is given.

    Args:
        table: columns of values, ``count`` with ``low`` and ``high``, and perhaps ``model``.
        columns: of values; their combinations are the groups.
        count: name of the noisy counts, NULL where there are none.
        model: name of the counts of a model, drawn as bars; empty for none.
        title: above the chart.
        path: of a file to write, ``.svg``, ``.png``, ``.html`` or ``.json``.

    Raises:
        InputError: there are too many counts for a chart.
    """
    if table.num_rows > _MOST_SHOWN:
        raise InputError("columns", f"have {table.num_rows:,} counts, and a chart shows at most {_MOST_SHOWN}")
    alt = altair()
    wanted = [count, "low", "high", *([model] if model else [])]
    groups = zip(*(table[name].to_pylist() for name in columns), strict=True) if columns else [()] * table.num_rows
    numbers = zip(*(table[name].to_pylist() for name in wanted), strict=True)
    records = [
        {"group": ", ".join(map(_label, group)) or "all", **dict(zip(wanted, told, strict=True))}
        for group, told in zip(groups, numbers, strict=True)
    ]
    known = [each for each in records if each[count] is not None]
    shown = alt.X("group:N", sort=None, title=", ".join(columns) or None)

    def base(data: list[dict[str, Any]]) -> Any:
        return alt.Chart(alt.InlineData(values=data)).encode(x=shown)

    layers = (
        [base(records).mark_bar(color=_COLOUR, opacity=0.5).encode(y=alt.Y(f"{model}:Q", title="count"))]
        if model
        else []
    )
    layers += [
        base(known).mark_rule(strokeWidth=2, color=_INK).encode(y=alt.Y("low:Q", title="count"), y2="high:Q"),
        base(known).mark_point(filled=True, size=45, opacity=1, color=_INK).encode(y=f"{count}:Q"),
    ]
    chart = alt.layer(*layers).properties(title=title, width=alt.Step(20 if len(records) > 10 else 40), height=260)
    if path is not None:
        save_chart(chart, path)
    return offline(chart)


def _label(value: Any) -> str:
    return "NULL" if value is None else visible(str(value))
