"""Charts of audits and attacks in one style: red for unprotected or claimed, blue for measured, grey for guessing."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tacit.core.charts import altair
from tacit.core.numbers import float_nearest

if TYPE_CHECKING:
    from tacit.audit.attacks.results import Comparison
    from tacit.audit.lower_bound import LowerBound

#: Colours that colour-blind readers and printers distinguish; solid, dashed and dotted lines.
_RED, _BLUE, _GREY = "#c0392b", "#0072b2", "#7b8494"
_SOLID, _DASHED, _DOTTED = [1, 0], [5, 3], [1, 3]
_ROC_POINTS: Final = 50
#: Colour, dashes and points.
_Line = tuple[str, list[int], Sequence[tuple[float, float]]]


def svg(chart: Any) -> str:
    """Return a chart as SVG text, to embed in a page."""
    sink = io.StringIO()
    chart.save(sink, format="svg")
    found = re.search(r"<svg.*</svg>", sink.getvalue(), re.DOTALL)
    return found.group(0) if found else ""


def draw_lower_bound(found: LowerBound) -> Any:
    """Chart the ROC curve, true against false alarms; an (ε, δ) claim excludes all points above its line."""
    ours, others = found.scores if found.favours == "first" else found.scores[::-1]
    sign = 1 if found.event.above else -1
    ours, others = sign * ours, sign * others
    thresholds = np.unique(np.concatenate([ours, others]))
    if len(thresholds) > _ROC_POINTS:
        thresholds = np.unique(np.quantile(thresholds, np.linspace(0, 1, _ROC_POINTS)))
    pairs = sorted((float((others >= t).mean()), float((ours >= t).mean())) for t in thresholds)
    lines: dict[str, _Line] = {
        "measured": (_BLUE, _SOLID, [(0, 0), *pairs, (1, 1)]),
        "blind guess": (_GREY, _DOTTED, [(0, 0), (1, 1)]),
    }
    if found.claimed is not None:
        # Both directions of (ε, δ)-DP: two lines that meet in a corner.
        ratio = float(np.exp(min(found.claimed, 50.0)))
        corner = (1 - found.delta) / (1 + ratio)
        allowed = [(0, found.delta), (corner, min(1, ratio * corner + found.delta)), (1 - found.delta, 1), (1, 1)]
        lines["the most that the claim allows"] = (_RED, _DASHED, allowed)
    axis = altair().X("x:Q", title="share of the other neighbour in the event", scale=altair().Scale(domain=[0, 1]))
    return _finished(
        [_lines(lines, axis, "share of the favoured neighbour")], "Two neighbours told apart: ROC curve", []
    )


def draw_comparison(found: Comparison) -> Any:
    """Chart success against epsilon; bars are 95% intervals over the tries."""
    alt = altair()
    rates = [(float_nearest(epsilon), rate) for epsilon, rate in found.protected]
    ends = [rates[0][0], rates[-1][0]] if rates else [1.0, 1.0]
    scale = alt.Scale(type="log", domain=ends, nice=False) if ends[0] < ends[1] else alt.Scale()
    axis = alt.X("x:Q", title="ε: what all answers about a person cost together", scale=scale)
    bound = [(float(at), found.limit(float(at))) for at in np.geomspace(ends[0], ends[1], 40)]
    lines: dict[str, _Line] = {
        "unprotected": (_RED, _SOLID, [(end, found.unprotected.share) for end in ends]),
        "through Tacit": (_BLUE, _SOLID, [(at, rate.share) for at, rate in rates]),
        "the most that any attack can do": (_GREY, _DOTTED, bound if rates else []),
        "blind guess": (_GREY, _DASHED, [(end, found.chance) for end in ends]),
    }
    bars = [{"x": at, "y": rate.interval()[0], "high": rate.interval()[1]} for at, rate in rates]
    intervals = alt.Chart(alt.InlineData(values=bars)).mark_rule(color=_BLUE, opacity=0.5, strokeWidth=2)
    layers = [_lines(lines, axis, "success"), intervals.encode(x=axis, y=_share("success"), y2="high:Q")]
    return _finished(layers, found.title, [found.words.measure])


def _lines(lines: Mapping[str, _Line], x: Any, y: str) -> Any:
    """Chart named lines, each with its colour, dashes and points."""
    alt = altair()
    rows = [{"x": at, "y": share, "name": name} for name, (_, _, points) in lines.items() for at, share in points]
    names, legend = list(lines), alt.Legend(orient="bottom", columns=2, title=None, labelLimit=400)
    colours, dashes = ([line[i] for line in lines.values()] for i in (0, 1))
    return (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line()
        .encode(
            x=x,
            y=_share(y),
            color=alt.Color("name:N", scale=alt.Scale(domain=names, range=colours), legend=legend),
            strokeDash=alt.StrokeDash("name:N", scale=alt.Scale(domain=names, range=dashes), legend=legend),
        )
    )


def _share(title: str) -> Any:
    alt = altair()
    return alt.Y("y:Q", title=title, axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1]))


def _finished(layers: list[Any], title: str, subtitle: list[str]) -> Any:
    alt = altair()
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=14, subtitleColor="#5b6472")
    return (
        alt.layer(*layers)
        .properties(width=420, height=240, title=heading)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0", titleFontWeight="normal")
    )
