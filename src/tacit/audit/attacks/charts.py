"""Charts of attacks in one style: red for unprotected, blue for the curator, grey for guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tacit.core.charts import altair
from tacit.core.numbers import float_nearest

if TYPE_CHECKING:
    from tacit.audit.attacks.success_rate import Comparison

#: Colours that stay apart for colour-blind readers and in print.
UNPROTECTED: Final = "#c0392b"
PROTECTED: Final = "#0072b2"
GREY: Final = "#7b8494"
_WIDTH, _HEIGHT = 420, 240
#: From exposed to safe.
_SHADES: Final = ("#c0392b", "#e08e45", "#f0cf8e", "#9ec5dd")


def draw_comparison(found: Comparison) -> Any:
    """Success against epsilon; bars are 95% intervals over the tries."""
    alt = altair()
    rows = []
    for epsilon, rate in found.protected:
        low, high = rate.interval()
        rows.append({"epsilon": float_nearest(epsilon), "share": rate.share, "low": low, "high": high})
    x = alt.X("epsilon:Q", title="ε: what all answers about a person cost together", scale=_log(rows, "epsilon"))
    base = alt.Chart(_values(rows)).encode(x=x)
    layers = [
        _level(found.unprotected.share, "unprotected", UNPROTECTED, dash=[]),
        _level(found.chance, "blind guess", GREY, dash=[4, 4], right=True),
        alt.Chart(_values(_limit(found, rows))).mark_line(color=GREY, strokeDash=[1, 3]).encode(x=x, y=_share("share")),
        base.mark_rule(color=PROTECTED, opacity=0.5, strokeWidth=2).encode(y=_share("low"), y2="high"),
        base.mark_line(color=PROTECTED, point=alt.OverlayMarkDef(color=PROTECTED, size=45)).encode(y=_share("share")),
    ]
    if rows:
        layers.append(_label(rows[-1]["epsilon"], rows[-1]["share"], "through Tacit", PROTECTED))
    return _dressed(alt.layer(*layers), found.title, [found.words.measure, "dotted: the most that any attack can do"])


def _limit(found: Comparison, rows: list[dict[str, Any]]) -> list[dict[str, float]]:
    if not rows:
        return []
    at = np.geomspace(rows[0]["epsilon"], rows[-1]["epsilon"], 40)
    return [{"epsilon": float(epsilon), "share": found.limit(float(epsilon))} for epsilon in at]


def draw_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    title: str,
    subtitle: str,
    colours: Sequence[str] = (UNPROTECTED, PROTECTED),
    y: str = "",
    log: bool = False,
) -> Any:
    """A few lines, by name: of shares, or of numbers if ``y`` names them."""
    alt = altair()
    rows = [{"x": at, "share": share, "name": name} for name, points in curves.items() for at, share in points]
    colour = alt.Color(
        "name:N",
        scale=alt.Scale(domain=list(curves), range=list(colours)[: len(curves)]),
        legend=alt.Legend(orient="bottom", title=None, labelLimit=400, columns=2),
    )
    scale = _log(rows, "x") if log else alt.Scale(nice=False)
    chart = (
        alt.Chart(_values(rows))
        .mark_line(point=alt.OverlayMarkDef(size=45))
        .encode(
            x=alt.X("x:Q", title=x, scale=scale),
            y=_share("share") if not y else alt.Y("share:Q", title=y),
            color=colour,
        )
    )
    return _dressed(chart, title, subtitle)


def draw_shares(rows: Sequence[tuple[str, Mapping[str, float]]], *, title: str, subtitle: str) -> Any:
    """Bars that each add up to one, by shares with the same names in every row."""
    alt = altair()
    kinds = list(rows[0][1]) if rows else []
    flat = [
        {"row": name, "kind": kind, "share": share, "order": kinds.index(kind)}
        for name, shares in rows
        for kind, share in shares.items()
    ]
    chart = (
        alt.Chart(_values(flat))
        .mark_bar()
        .encode(
            y=alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
            x=alt.X("share:Q", title="share of rows", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=list(_SHADES)),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            order="order:O",
        )
    )
    return _dressed(chart, title, subtitle, height=34 * max(len(rows), 1))


def _share(field: str) -> Any:
    alt = altair()
    return alt.Y(f"{field}:Q", title="success", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1]))


def _level(share: float, name: str, colour: str, dash: list[int], *, right: bool = False) -> Any:
    alt = altair()
    data = _values([{"share": share, "name": name}])
    rule = alt.Chart(data).mark_rule(color=colour, strokeDash=dash, strokeWidth=2).encode(y=_share("share"))
    text = alt.Chart(data).mark_text(align="right" if right else "left", dx=-5 if right else 5, dy=10, color=colour)
    return rule + text.encode(x=alt.value(_WIDTH if right else 0), y=_share("share"), text="name:N")


def _label(x: float, y: float, name: str, colour: str) -> Any:
    alt = altair()
    mark = alt.Chart(_values([{"x": x, "y": y, "name": name}])).mark_text(
        align="right", dx=-8, dy=34 if y > 0.85 else -10, color=colour
    )
    return mark.encode(x="x:Q", y="y:Q", text="name:N")


def _log(rows: list[dict[str, Any]], field: str) -> Any:
    alt = altair()
    at = [row[field] for row in rows]
    return alt.Scale(type="log", domain=[min(at), max(at)], nice=False) if len(set(at)) > 1 else alt.Scale()


def _values(rows: list[dict[str, Any]]) -> Any:
    alt = altair()
    return alt.InlineData(values=rows)


def _dressed(chart: Any, title: str, subtitle: str | list[str], height: int = _HEIGHT) -> Any:
    alt = altair()
    heading = alt.TitleParams(title, subtitle=subtitle, anchor="start", fontSize=14, subtitleColor="#5b6472")
    return (
        chart.properties(width=_WIDTH, height=height, title=heading)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0", titleFontWeight="normal")
    )
