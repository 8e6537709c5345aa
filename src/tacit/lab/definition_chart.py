"""Chart of a definition: static, or with a slider for ε.

Altair is imported when a chart is made, so that nothing else pays for it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tacit.lab.definition import Definition

from tacit.core.charts import altair

__all__ = ["chart_definition"]

_P, _Q, _CAP, _REST = "P, the law on the left", "Q, the law on the right", "e^ε·Q", "δ: P beyond e^ε·Q"
#: Colours that stay apart for colour-blind readers and in grey.
_COLOURS: Final = {_P: "#0072b2", _Q: "#d08700", _CAP: "#4c566a", _REST: "#c0392b"}


def chart_definition(picture: Definition, *, interactive: bool = False) -> Any:
    """P, Q and e^ε·Q, with the worst event's excess shaded; with ``interactive``, a slider moves ε."""
    alt = altair()
    rows = _rows(picture)
    start = round(min(picture.epsilon.up, 20.0), 4)
    slider = alt.binding_range(min=0, max=max(2 * start, 2.0), step=0.01, name="ε ")
    epsilon = alt.param(name="epsilon", value=start, bind=slider) if interactive else None
    values: Any = alt.Data  # it has no type hints of its own
    data: Any = alt.Chart(values(values=rows))
    if epsilon is not None:
        data = data.transform_calculate(cap="exp(epsilon) * datum.q", kept="min(datum.p, exp(epsilon) * datum.q)")
    layers = _lines(alt, data) if picture.is_density else _bars(alt, data, picture)
    if epsilon is not None:
        layers.append(_delta(alt, data))
    chart = alt.layer(*layers)
    if epsilon is not None:
        chart = chart.add_params(epsilon)
    return (
        chart.properties(width=540, height=300, title=_title(alt, picture, interactive))
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=14)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0")
    )


def _rows(picture: Definition) -> list[dict[str, Any]]:
    factor = math.exp(min(picture.epsilon.up, 700.0))
    rows = []
    for output, p, q in picture.outputs:
        cap = factor * q.up
        rows.append({"x": _place(output), "p": p.up, "q": q.up, "cap": cap, "kept": min(p.up, cap), "width": 1.0})
    if picture.is_density:
        # Half of the way to either side: the area under the drawn line.
        places = [row["x"] for row in rows]
        for row, before, after in zip(rows, [places[0], *places], [*places[1:], places[-1]], strict=False):
            row["width"] = (after - before) / 2
    return rows


def _place(output: Hashable) -> Any:
    if isinstance(output, Fraction):
        return float(output)
    return output if isinstance(output, int | str) and not isinstance(output, bool) else str(output)


def _lines(alt: Any, data: Any) -> list[Any]:
    across = alt.X("x:Q", title="output", axis=alt.Axis(grid=False))
    colour = _colour(alt)
    shaded = (
        _named(data, _REST)
        .mark_area(opacity=0.45)
        .encode(x=across, y=alt.Y("kept:Q", title="density"), y2="p:Q", color=colour)
    )
    lines = [
        _named(data, name)
        .mark_line(strokeWidth=2, strokeDash=dashes)
        .encode(x=across, y=alt.Y(f"{field}:Q", title="density"), color=colour)
        for field, name, dashes in (("q", _Q, [1, 0]), ("cap", _CAP, [5, 3]), ("p", _P, [1, 0]))
    ]
    return [shaded, *lines]


def _bars(alt: Any, data: Any, picture: Definition) -> list[Any]:
    across = alt.X("x:O", title="output", axis=alt.Axis(labelAngle=0, grid=False, labelOverlap=True), sort=None)
    size, colour = max(min(420 // max(len(picture.outputs), 1), 60), 2), _colour(alt)

    def upwards(field: str) -> Any:
        return alt.Y(f"{field}:Q", title="probability")

    return [
        _named(data, _P).mark_bar(size=size, opacity=0.35).encode(x=across, y=upwards("p"), color=colour),
        _named(data, _REST)
        .mark_bar(size=size, opacity=0.85)
        .encode(x=across, y=upwards("kept"), y2="p:Q", color=colour),
        _named(data, _CAP).mark_tick(thickness=3, size=size).encode(x=across, y=upwards("cap"), color=colour),
        _named(data, _Q).mark_point(filled=True, size=45).encode(x=across, y=upwards("q"), color=colour),
    ]


def _delta(alt: Any, data: Any) -> Any:
    """δ at the slider's ε, added up from what is drawn."""
    return (
        data.transform_calculate(rest="max(datum.p - datum.kept, 0) * datum.width")
        .transform_aggregate(total="sum(rest)")
        .transform_calculate(words="'δ ≈ ' + format(datum.total, '.4f')")
        .mark_text(align="right", fontSize=14, fontWeight="bold", color=_COLOURS[_REST])
        .encode(x=alt.value(530), y=alt.value(14), text="words:N")
    )


def _named(data: Any, name: str) -> Any:
    """The data with the layer's name in a column, which colour and legend read."""
    return data.transform_calculate(layer=f"'{name}'")


def _colour(alt: Any) -> Any:
    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    legend = alt.Legend(title=None, orient="top", symbolType="square", symbolOpacity=1, labelLimit=220)
    return alt.Color("layer:N", scale=scale, legend=legend)


def _title(alt: Any, picture: Definition, interactive: bool) -> Any:
    if interactive:
        return alt.Title("The definition of differential privacy", subtitle=f"P = {picture.left}, Q {picture.right}")
    return alt.Title(
        f"ε = {picture.epsilon.up:.4g} needs δ = {picture.delta.up:.4g}; the worst event: {picture.words}",
        subtitle=f"P = {picture.left}, Q {picture.right}",
    )
