"""Charts of audits and attacks in one style: red for unprotected or claimed, blue for measured, grey for guessing."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tacit.core.charts import altair
from tacit.core.numbers import float_nearest

if TYPE_CHECKING:
    from tacit.audit.attacks.results import Comparison
    from tacit.audit.lower_bound import LowerBound

#: Colours that colour-blind readers and printers distinguish.
RED: Final = "#c0392b"
BLUE: Final = "#0072b2"
_AMBER: Final = "#d08700"
_GREY: Final = "#7b8494"
#: From exposed to safe.
_SHADES: Final = (RED, "#e08e45", "#f0cf8e", "#9ec5dd")
_WIDTH, _HEIGHT = 420, 240
_SMALL: Final = {"width": 250, "height": 210}
_BINS: Final = 24
_ROC_POINTS: Final = 50


def svg(chart: Any) -> str:
    """Return a chart as SVG text, to embed in a page."""
    sink = io.StringIO()
    chart.save(sink, format="svg")
    found = re.search(r"<svg.*</svg>", sink.getvalue(), re.DOTALL)
    return found.group(0) if found else ""


def draw_lower_bound(found: LowerBound) -> Any:
    """Chart the privacy loss on both neighbours, the ROC curve and the growth of the bound, side by side."""
    return _styled(altair().hconcat(_histogram(found), _roc(found), _growth(found), spacing=28))


def _histogram(found: LowerBound) -> Any:
    """Chart histograms of the learned loss on both neighbours."""
    alt = altair()
    pooled = np.concatenate(found.scores)
    edges = np.linspace(pooled.min(), max(pooled.max(), pooled.min() + 1e-9), _BINS + 1)
    rows = [
        {"low": float(low), "high": float(high), "share": int(count) / len(scores), "name": name}
        for name, scores in zip(("first neighbour", "second neighbour"), found.scores, strict=True)
        for low, high, count in zip(edges[:-1], edges[1:], np.histogram(scores, edges)[0], strict=True)
    ]
    bars = _chart(rows).mark_rect(opacity=0.45)
    bars = bars.encode(
        x=_axis("low", "estimated loss ln P/Q", ticks=6, grid=False),
        x2="high:Q",
        y=_axis("share", "share of outputs"),
        y2=alt.datum(0),
        color=_colour(["first neighbour", "second neighbour"], (BLUE, _AMBER)),
    )
    line = _chart([{"at": found.event.threshold}]).mark_rule(strokeDash=[4, 3], color=_GREY).encode(x="at:Q")
    return (bars + line).properties(**_SMALL, title="Privacy loss on both neighbours")


def _roc(found: LowerBound) -> Any:
    """Chart the ROC curve, true against false alarms; an (ε, δ) claim excludes all points above its line."""
    ours, others = found.scores if found.favours == "first" else found.scores[::-1]
    sign = 1 if found.event.above else -1
    ours, others = sign * ours, sign * others
    thresholds = np.unique(np.concatenate([ours, others]))
    if len(thresholds) > _ROC_POINTS:
        thresholds = np.unique(np.quantile(thresholds, np.linspace(0, 1, _ROC_POINTS)))
    pairs = sorted((float((others >= t).mean()), float((ours >= t).mean())) for t in thresholds)
    whole = altair().Scale(domain=[0, 1])
    ends = {
        "x": _axis("x", "share of the other neighbour in the event", grid=False, scale=whole),
        "y": _axis("y", "share of the favoured one", scale=whole),
    }
    layers = [_line([(0, 0), *pairs, (1, 1)], BLUE, **ends), _line([(0, 0), (1, 1)], "#c8cdd6", width=1, **ends)]
    if found.claimed is not None:
        # Both directions of (ε, δ)-DP: two lines that meet in a corner.
        ratio = float(np.exp(min(found.claimed, 50.0)))
        corner = (1 - found.delta) / (1 + ratio)
        allowed = [(0, found.delta), (corner, min(1, ratio * corner + found.delta)), (1 - found.delta, 1), (1, 1)]
        layers.append(_line(allowed, RED, width=1.5, dash=(5, 3), **ends))
    confirmed = found.confirmed
    point = {"x": confirmed.misses / confirmed.samples, "y": confirmed.hits / confirmed.samples}
    layers.append(_chart([point]).mark_point(filled=True, size=70, color=_GREY).encode(**ends))
    return altair().layer(*layers).properties(**_SMALL, title="ROC curve; dashed: the claim's limit")


def _growth(found: LowerBound) -> Any:
    """Chart the bound from the first n samples against n; dashed, the claim."""
    alt = altair()
    across = _axis("x", "fresh samples of each neighbour", ticks=4, grid=False, scale=alt.Scale(type="log"))
    layers = [_line(found.growth(), BLUE, marks=18, x=across, y=_axis("y", "ε is at least"))]
    if found.claimed is not None:
        claim = _chart([{"y": found.claimed}]).mark_rule(strokeDash=[5, 3], color=RED)
        layers.append(claim.encode(y="y:Q"))
    return alt.layer(*layers).properties(**_SMALL, title="Lower bound; dashed: claimed ε")


def draw_comparison(found: Comparison) -> Any:
    """Chart success against epsilon; bars are 95% intervals over the tries."""
    alt = altair()
    rows: list[dict[str, Any]] = []
    for epsilon, rate in found.protected:
        low, high = rate.interval()
        rows.append({"x": float_nearest(epsilon), "share": rate.share, "low": low, "high": high})
    x = _axis("x", "ε: what all answers about a person cost together", scale=_log(row["x"] for row in rows))
    layers = [
        _level(found.unprotected.share, "unprotected", RED, dash=[]),
        _level(found.chance, "blind guess", _GREY, dash=[4, 4], right=True),
    ]
    if rows:
        limits = [(float(at), found.limit(float(at))) for at in np.geomspace(rows[0]["x"], rows[-1]["x"], 40)]
        base, last = _chart(rows).encode(x=x), rows[-1]
        name = _chart([{**last, "name": "through Tacit"}]).mark_text(
            align="right", dx=-8, dy=34 if last["share"] > 0.85 else -10, color=BLUE
        )
        layers += [
            _line(limits, _GREY, dash=(1, 3), x=x, y=_share("y")),
            base.mark_rule(color=BLUE, opacity=0.5, strokeWidth=2).encode(y=_share("low"), y2="high"),
            base.mark_line(color=BLUE, point=alt.OverlayMarkDef(color=BLUE, size=45)).encode(y=_share("share")),
            name.encode(x="x:Q", y="share:Q", text="name:N"),
        ]
    subtitle = [found.words.measure, "dotted: the most that any attack can do"]
    return _titled(alt.layer(*layers), found.title, subtitle)


def draw_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    title: str,
    subtitle: str,
    colours: Sequence[str] = (RED, BLUE),
    y: str = "",
    log: bool = False,
) -> Any:
    """Chart named lines: shares, or numbers if ``y`` names them."""
    alt = altair()
    rows = [{"x": at, "share": share, "name": name} for name, points in curves.items() for at, share in points]
    scale = _log(at for points in curves.values() for at, _ in points) if log else alt.Scale(nice=False)
    chart = _chart(rows).mark_line(point=alt.OverlayMarkDef(size=45))
    chart = chart.encode(
        x=_axis("x", x, scale=scale),
        y=_axis("share", y) if y else _share("share"),
        color=_colour(list(curves), colours, columns=2),
    )
    return _titled(chart, title, subtitle)


def draw_shares(rows: Sequence[tuple[str, Mapping[str, float]]], *, title: str, subtitle: str) -> Any:
    """Chart stacked bars that each add up to one; every row has shares of the same names."""
    alt = altair()
    kinds = list(rows[0][1]) if rows else []
    flat = [
        {"row": row, "name": kind, "share": share, "order": kinds.index(kind)}
        for row, shares in rows
        for kind, share in shares.items()
    ]
    chart = _chart(flat).mark_bar()
    chart = chart.encode(
        y=alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
        x=alt.X("share:Q", title="share of rows", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=_colour(kinds, _SHADES),
        order="order:O",
    )
    return _titled(chart, title, subtitle, height=34 * max(len(rows), 1))


def _chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    alt = altair()
    return alt.Chart(alt.InlineData(values=list(rows)))


def _line(
    points: Iterable[tuple[float, float]],
    colour: str,
    *,
    width: float = 2,
    dash: Sequence[int] = (),
    marks: int = 0,
    **ends: Any,
) -> Any:
    mark: dict[str, Any] = {"strokeWidth": width, "color": colour, "strokeDash": list(dash)}
    if marks:
        mark["point"] = altair().OverlayMarkDef(color=colour, size=marks)
    return _chart([{"x": x, "y": y} for x, y in points]).mark_line(**mark).encode(**ends)


def _axis(field: str, title: str, *, ticks: int = 5, grid: bool = True, scale: Any = None) -> Any:
    """Return a quantitative axis: horizontal for fields named x or low, otherwise vertical."""
    alt = altair()
    channel = alt.X if field in ("x", "low") else alt.Y
    more = {} if scale is None else {"scale": scale}
    return channel(f"{field}:Q", title=title, axis=alt.Axis(grid=grid, tickCount=ticks), **more)


def _share(field: str) -> Any:
    alt = altair()
    return alt.Y(f"{field}:Q", title="success", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1]))


def _colour(names: Sequence[str], colours: Sequence[str], **legend: Any) -> Any:
    alt = altair()
    scale = alt.Scale(domain=list(names), range=list(colours)[: len(names)])
    return alt.Color("name:N", scale=scale, legend=alt.Legend(orient="bottom", title=None, labelLimit=400, **legend))


def _level(share: float, name: str, colour: str, dash: list[int], *, right: bool = False) -> Any:
    """Return a line across the whole chart with its name at one end."""
    data = _chart([{"share": share, "name": name}])
    rule = data.mark_rule(color=colour, strokeDash=dash, strokeWidth=2).encode(y=_share("share"))
    text = data.mark_text(align="right" if right else "left", dx=-5 if right else 5, dy=10, color=colour)
    return rule + text.encode(x=altair().value(_WIDTH if right else 0), y=_share("share"), text="name:N")


def _log(at: Iterable[float]) -> Any:
    alt, ends = altair(), sorted(set(at))
    return alt.Scale(type="log", domain=[ends[0], ends[-1]], nice=False) if len(ends) > 1 else alt.Scale()


def _titled(chart: Any, title: str, subtitle: str | list[str], height: int = _HEIGHT) -> Any:
    heading = altair().TitleParams(title, subtitle=subtitle, anchor="start", fontSize=14, subtitleColor="#5b6472")
    return _styled(chart.properties(width=_WIDTH, height=height, title=heading))


def _styled(chart: Any) -> Any:
    return (
        chart.configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=13)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0", titleFontWeight="normal")
    )
