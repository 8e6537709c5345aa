"""Charts of privacy loss, as Altair objects: they show in a notebook and save as SVG or PNG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tacit.core.charts import altair, offline
from tacit.core.divergences import Enclosure
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.lab.experiment import Adversary, CompositionExperiment, Views, azuma_points
from tacit.lab.finite import CompositionBounds, FiniteMechanism

#: Colours that colour-blind readers can distinguish, also in greyscale.
_COLOURS = ("#4c566a", "#d08700", "#7b3294", "#0072b2", "#c0392b", "#00805a")


def chart_experiment(adversary: Adversary, *, rounds: Sequence[int], delta: Number) -> Any:
    """Chart the exact ε of the adversary's view against k, with the bounds for the worst mechanism it used."""
    views = {k: CompositionExperiment(adversary, rounds=k).exact() for k in _check_rounds(rounds)}
    exact = [(float(k), view.epsilon(delta=delta).up) for k, view in views.items()]
    return chart_curves(
        {**_bound_curves({k: view.bounds(delta=delta) for k, view in views.items()}), "this adversary, exactly": exact},
        x="rounds k",
        y="ε of the view",
        title=f"The exact privacy loss of one adversary beside the bounds, δ = {delta}",
    )


def chart_azuma(views: Views, *, zs: Iterable[Number], tight: bool = False) -> Any:
    """Chart the exact probability that the views' loss exceeds its drift by z√k·ε, with Azuma's bound e^(-z²/2)."""
    points = [point for point in azuma_points(views, zs, tight=tight) if point.probability.high > 0]
    if len(points) < 2:
        raise InputError("zs", "must hold at least two values at which such a loss is possible at all")
    return chart_curves(
        {
            "Azuma's bound": [(float(point.z), point.bound.up) for point in points],
            "bad views, exactly": [(float(point.z), point.probability.up) for point in points],
        },
        x="z",
        y="Pr[loss > kβ + z√k·ε]",
        title=f"The probability of bad views in {views.rounds} rounds",
        log=True,
    )


def chart_profile(mechanisms: Mapping[str, FiniteMechanism], *, epsilons: Iterable[Number]) -> Any:
    """Chart the exact privacy profiles δ(ε) of finite mechanisms."""
    points = list(epsilons)
    curves = {
        name: [(float(e), mechanism.delta(epsilon=e).up) for e in points] for name, mechanism in mechanisms.items()
    }
    return chart_curves(curves, x="ε", y="δ(ε)", title="Exact privacy profiles", label_first=True)


def chart_curves(
    curves: Mapping[str, Iterable[tuple[float, float]]],
    *,
    x: str,
    y: str,
    title: str,
    log: bool = False,
    label_first: bool = False,
) -> Any:
    """Chart named curves, each labelled at its last point, or at its first with ``label_first``."""
    alt = altair()
    values: Any = alt.Data  # it has no type hints of its own
    rows: list[dict[str, Any]] = [
        {"x": a, "y": b, "curve": name} for name, points in curves.items() for a, b in points if b != math.inf
    ]
    names, places = list(curves), _label_places(rows, log=log, first=label_first)
    colour = alt.Color("curve:N", scale=alt.Scale(domain=names, range=list(_COLOURS[: len(names)])), legend=None)
    ends = [min(row["x"] for row in rows), max(row["x"] for row in rows)]
    across = alt.X("x:Q", title=x, scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(grid=False, tickCount=8))
    ticks = alt.Axis(tickCount=5, grid=not log)
    upwards = alt.Y("y:Q", title=y, scale=alt.Scale(type="log" if log else "linear"), axis=ticks)
    lines = alt.Chart(values(values=rows)).mark_line(strokeWidth=2).encode(x=across, y=upwards, color=colour)
    labels = (
        alt.Chart(values(values=places))
        .mark_text(align="left", dx=6, dy=-8 if label_first else 0, fontSize=12)
        .encode(x="x:Q", y="y:Q", text="curve:N", color=colour)
    )
    return offline(
        (lines + labels)
        .properties(width=480, height=300, title=title)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=14)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0")
    )


def _check_rounds(rounds: Sequence[int]) -> Sequence[int]:
    if not rounds:
        raise InputError("rounds", "must list at least one number of rounds")
    return rounds


def _bound_curves(bounds: Mapping[int, CompositionBounds]) -> dict[str, list[tuple[float, float]]]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for k, found in bounds.items():
        for name, value in found.by_name.items():
            curves.setdefault(name, []).append((k, Enclosure(value, value).up))
    return curves


def _label_places(rows: Sequence[Mapping[str, Any]], *, log: bool, first: bool) -> list[dict[str, Any]]:
    """Return the position of each curve's label, at its last or first point, moved up so that no two overlap."""
    ends: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if not first or row["curve"] not in ends:
            ends[row["curve"]] = row
    heights = [math.log(row["y"]) if log else row["y"] for row in rows]
    gap, last, places = (max(heights) - min(heights)) / 18, -math.inf, []
    for name, end in sorted(ends.items(), key=lambda item: float(item[1]["y"])):
        last = max(math.log(end["y"]) if log else end["y"], last + gap)
        places.append({"x": end["x"], "y": math.exp(last) if log else last, "curve": name})
    return places
