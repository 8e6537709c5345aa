"""Charts of laws: density or masses.

Altair is imported when a chart is made, so that nothing else pays for it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from tacit.core.charts import altair
from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, float_nearest
from tacit.laws.law import ContinuousLaw, Law

#: Colours that stay apart for colour-blind readers and in grey.
_COLOURS: Final = ("#0072b2", "#d08700", "#00805a", "#c0392b", "#7b3294", "#4c566a")
_POINTS: Final = 240


def chart_laws(*laws: Law, reach: Number | None = None, title: str | None = None) -> Any:
    """Densities as lines and masses as bars with a dot, over ±``reach``; left out, all but a thousandth.

    A mass and a density share the axis because the cells between integers have width one.
    """
    alt = altair()
    _check(laws)
    ends = _reach(laws, reach)
    names = [law.name for law in laws]
    colour = _colour(alt, names)
    across = alt.X("x:Q", title="noise x", scale=alt.Scale(domain=[float_nearest(end) for end in ends], nice=False))
    layers = []
    for law in laws:
        data = alt.Chart(_data(alt, _heights(law, *ends)))
        upwards = alt.Y("y:Q", title="density, or probability of an integer")
        if isinstance(law, ContinuousLaw):
            layers.append(data.mark_line(strokeWidth=2).encode(x=across, y=upwards, color=colour))
        else:
            layers.append(data.mark_rule(strokeWidth=2, opacity=0.55).encode(x=across, y=upwards, color=colour))
            layers.append(data.mark_point(filled=True, size=28).encode(x=across, y=upwards, color=colour))
    return _finished(alt.layer(*layers), title or "Laws of noise")


def _check(laws: tuple[Law, ...]) -> None:
    if not 1 <= len(laws) <= len(_COLOURS):
        raise InputError("laws", f"must be one to {len(_COLOURS)} laws")
    if len({law.name for law in laws}) != len(laws):
        raise InputError("laws", "must not name one law twice")


def _reach(laws: tuple[Law, ...], reach: Number | None) -> tuple[Fraction, Fraction]:
    end = exact_positive(reach, "reach") if reach is not None else max(Fraction(_upper(law)) for law in laws)
    signed = any(law.weight(-1).high > 0 for law in laws)
    return (-end if signed else Fraction(0)), end


def _upper(law: Law) -> Fraction:
    found = law.quantile("0.9995")
    return Fraction(found if isinstance(found, int) else found.high) + 1


def _heights(law: Law, low: Fraction, high: Fraction) -> list[dict[str, Any]]:
    if isinstance(law, ContinuousLaw):
        step = (high - low) / _POINTS
        # The kink of a Laplace law at 0 is a point of the grid.
        places = sorted({low + step * i for i in range(_POINTS + 1)} | {Fraction(0)})
        if law.weight(-1).high == 0:
            places = [x for x in places if x >= 0]
    else:
        places = [Fraction(x) for x in range(math.ceil(low), math.floor(high) + 1)]
    return [{"x": float_nearest(x), "y": law.weight(x).up, "law": law.name} for x in places]


def _colour(alt: Any, names: list[str]) -> Any:
    scale = alt.Scale(domain=names, range=list(_COLOURS[: len(names)]))
    return alt.Color("law:N", scale=scale, legend=alt.Legend(title=None, orient="top", symbolType="square"))


def _data(alt: Any, rows: list[dict[str, Any]]) -> Any:
    return alt.Data(values=rows)


def _finished(chart: Any, title: str) -> Any:
    return (
        chart.properties(width=520, height=280, title=title)
        .configure_view(stroke=None)
        .configure_title(anchor="start", fontSize=14)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e5e9f0")
    )
