"""Audit report as one self-contained HTML page, with its charts.

Altair is imported when a chart is made, so that nothing else pays for it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.audit.checks import CheckOutcome
from tacit.audit.lower_bound import LowerBound
from tacit.core.charts import altair, save_chart

if TYPE_CHECKING:
    from tacit.audit.lower_bound import LowerBound

_BINS: Final = 24
_ROC_POINTS: Final = 50
_WIDTH, _HEIGHT = 250, 210
#: Colours that stay apart for colour-blind readers and in grey.
_FIRST, _SECOND, _CLAIM, _PLAIN = "#0072b2", "#d08700", "#c0392b", "#4c566a"


def chart_lower_bound(found: LowerBound, path: str | Path | None = None) -> Any:
    """The three charts side by side; saved when ``path`` is given."""
    alt = altair()
    chart = (
        alt.hconcat(_histogram(found), _roc(found), _growth(found), spacing=28)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=13)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0")
    )
    if path is not None:
        save_chart(chart, path)
    return chart


def chart_svg(found: LowerBound) -> str:
    """Chart as SVG text, to put into a page."""
    text = io.StringIO()
    chart_lower_bound(found).save(text, format="svg")
    return text.getvalue()


def _histogram(found: LowerBound) -> Any:
    """Chart how often each learned loss was seen on both neighbours; the difference tells them apart."""
    alt = altair()
    pooled = np.concatenate(found.scores)
    edges = np.linspace(pooled.min(), max(pooled.max(), pooled.min() + 1e-9), _BINS + 1)
    names = ("first neighbour", "second neighbour")
    rows = [
        {"low": float(low), "high": float(high), "share": int(count) / len(scores), "law": name}
        for name, scores in zip(names, found.scores, strict=True)
        for low, high, count in zip(edges[:-1], edges[1:], np.histogram(scores, edges)[0], strict=True)
    ]
    colour = alt.Color(
        "law:N",
        scale=alt.Scale(domain=list(names), range=[_FIRST, _SECOND]),
        legend=alt.Legend(orient="bottom", title=None),
    )
    bars = (
        alt.Chart(_values(rows))
        .mark_rect(opacity=0.45)
        .encode(
            x=alt.X("low:Q", title="estimated loss ln P/Q", axis=alt.Axis(grid=False, tickCount=6)),
            x2="high:Q",
            y=alt.Y("share:Q", title="share of outputs", axis=alt.Axis(tickCount=5)),
            y2=alt.datum(0),
            color=colour,
        )
    )
    line = alt.Chart(_values([{"at": found.event.threshold}])).mark_rule(strokeDash=[4, 3], color=_PLAIN)
    return (bars + line.encode(x="at:Q")).properties(
        width=_WIDTH, height=_HEIGHT, title="Privacy loss on both neighbours"
    )


def _roc(found: LowerBound) -> Any:
    """True against false alarms of every threshold; a claim of (ε, δ) forbids everything above its line."""
    alt = altair()
    ours, others = found.scores if found.favours == "first" else found.scores[::-1]
    sign = 1 if found.event.above else -1
    rows = [{"x": x, "y": y} for x, y in _roc_points(sign * ours, sign * others)]
    across = alt.X(
        "x:Q",
        title="share of the other neighbour in the event",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(grid=False, tickCount=5),
    )
    upwards = alt.Y(
        "y:Q", title="share of the favoured one", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5)
    )
    layers = [alt.Chart(_values(rows)).mark_line(strokeWidth=2, color=_FIRST).encode(x=across, y=upwards)]
    low = [{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}]
    layers.append(alt.Chart(_values(low)).mark_line(strokeWidth=1, color="#c8cdd6").encode(x=across, y=upwards))
    if found.claimed is not None:
        allowed = [{"x": x, "y": y} for x, y in _allowed(found.claimed, found.delta)]
        line = alt.Chart(_values(allowed)).mark_line(strokeWidth=1.5, strokeDash=[5, 3], color=_CLAIM)
        layers.append(line.encode(x=across, y=upwards))
    share = found.confirmed.misses / found.confirmed.samples, found.confirmed.hits / found.confirmed.samples
    point = alt.Chart(_values([{"x": share[0], "y": share[1]}])).mark_point(filled=True, size=70, color=_PLAIN)
    layers.append(point.encode(x=across, y=upwards))
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title="ROC curve; dashed: the claim's limit")


def _growth(found: LowerBound) -> Any:
    """The bound that the first n samples would have given; dashed, the claim."""
    alt = altair()
    rows = [{"x": n, "y": epsilon} for n, epsilon in found.growth()]
    across = alt.X(
        "x:Q",
        title="fresh samples of each neighbour",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(grid=False, tickCount=4),
    )
    upwards = alt.Y("y:Q", title="ε is at least", axis=alt.Axis(tickCount=5))
    line = alt.Chart(_values(rows)).mark_line(
        strokeWidth=2, color=_FIRST, point=alt.OverlayMarkDef(color=_FIRST, size=18)
    )
    layers = [line.encode(x=across, y=upwards)]
    if found.claimed is not None:
        claim = alt.Chart(_values([{"y": found.claimed}])).mark_rule(strokeDash=[5, 3], color=_CLAIM)
        layers.append(claim.encode(y="y:Q"))
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title="Lower bound; dashed: claimed ε")


def _roc_points(ours: NDArray[np.float64], others: NDArray[np.float64]) -> list[tuple[float, float]]:
    thresholds = np.unique(np.concatenate([ours, others]))
    if len(thresholds) > _ROC_POINTS:
        thresholds = np.unique(np.quantile(thresholds, np.linspace(0, 1, _ROC_POINTS)))
    pairs = [(float((others >= t).mean()), float((ours >= t).mean())) for t in thresholds]
    return [(0.0, 0.0), *sorted(pairs), (1.0, 1.0)]


def _allowed(epsilon: float, delta: float) -> list[tuple[float, float]]:
    """The largest true share that an (ε, δ)-DP mechanism allows at each false share: both directions, so two lines."""
    ratio = float(np.exp(min(epsilon, 50.0)))
    corner = (1 - delta) / (1 + ratio)
    return [(0.0, delta), (corner, min(1.0, ratio * corner + delta)), (1 - delta, 1.0), (1.0, 1.0)]


def _values(rows: list[dict[str, Any]]) -> Any:
    alt = altair()
    return alt.InlineData(values=rows)


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2e3440; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
section { border-left: 4px solid #00805a; padding: 0 0 0 1rem; margin: 1.2rem 0; }
section.failed { border-color: #c0392b; }
h3 { font-size: 1rem; margin: 0; } p { margin: .3rem 0; }
pre { white-space: pre-wrap; font-size: .85rem; background: #f3f5f8; padding: .6rem; margin: .4rem 0; }
svg { max-width: 100%; height: auto; }
"""
_HEADS = {
    "exact": "Exact tables",
    "lower_bound": "Lower bounds from outputs alone",
    "replay": "Record and replay",
}


def as_record(outcomes: Sequence[CheckOutcome]) -> dict[str, Any]:
    """Record of the outcomes for programs; stable keys."""
    checks = [
        {"name": o.check.name, "tool": o.check.tool, "passed": o.passed}
        | {"caught": o.verdict.caught, "words": o.verdict.words}
        | ({"audit": json.loads(o.verdict.found.to_json())} if hasattr(o.verdict.found, "to_json") else {})
        for o in outcomes
    ]
    return {"passed": all(o.passed for o in outcomes), "checks": checks}


def as_page(outcomes: Sequence[CheckOutcome], title: str) -> str:
    """HTML page of the outcomes for people."""
    failed = sum(not o.passed for o in outcomes)
    verdict = f"{len(outcomes)} checks, all as they must be." if not failed else f"{failed} of {len(outcomes)} failed."
    parts = [f"<h1>{escape(title)}</h1><p>{verdict}</p>"]
    for tool, head in _HEADS.items():
        chosen = [o for o in outcomes if o.check.tool == tool]
        if chosen:
            parts.append(f"<h2>{escape(head)}</h2>" + "".join(map(_section, chosen)))
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style><body>\n{body}\n</body></html>\n"
    )


def _section(outcome: CheckOutcome) -> str:
    found = outcome.verdict.found
    chart = chart_svg(found) if isinstance(found, LowerBound) else ""
    state = "as it must be" if outcome.passed else "FAILED"
    return (
        f'<section class="{"passed" if outcome.passed else "failed"}"><h3>{escape(outcome.check.name)}: {state}</h3>'
        f"<pre>{escape(outcome.verdict.words)}</pre>{chart}</section>"
    )
