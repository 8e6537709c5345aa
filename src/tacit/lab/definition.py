"""The definition of (ε, δ)-DP for a pair: both output laws, e^ε times one of them, and the excess mass δ.

The definition requires P(S) <= e^ε·Q(S) + δ for every event S. The event that requires the largest δ is the set of
outputs where P exceeds e^ε·Q, and that δ is the area between the two. :func:`definition` computes it, exactly for
finite mechanisms and as an enclosure for laws of noise, and charts it.

>>> from tacit.lab.distributions import GaussianLaw
>>> print(definition(GaussianLaw(sigma=1), 0, 1, epsilon=1))
P = Gaussian(1) around 0, Q around 1, ε = 1: the worst event is x < -0.5, δ = 0.1269367375

The chart is static, or has a slider for ε. Altair is imported when a chart is made, so that nothing else pays for it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.core.charts import altair, offline
from tacit.core.divergences import Enclosure, hockey_stick, ratio_bounds
from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact, exact_probability, float_nearest, format_up
from tacit.lab.distributions import (
    ContinuousLaw,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ExponentialLaw,
    GaussianLaw,
    LaplaceLaw,
    Law,
    law_of,
)
from tacit.lab.experiment import Move, check_neighbours
from tacit.lab.finite import FiniteMechanism
from tacit.mechanisms.additive import AdditiveNoise
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import WeightedSelection

_ZERO: Final = Fraction(0)
_NEVER: Final = Enclosure(_ZERO, _ZERO)
#: Number of points of a drawn density.
_POINTS: Final = 400
#: Largest number of outputs of an event that are listed in text.
_NAMED: Final = 12


@dataclass(frozen=True)
class Definition:
    """The definition of (ε, δ)-DP for one pair of output laws P and Q at one ε.

    Attributes:
        left: description of P.
        right: description of Q.
        epsilon: ε, as an enclosure if e^ε was given.
        delta: smallest δ with P(S) <= e^ε·Q(S) + δ for every event S.
        event: worst event of a finite mechanism: the outputs where P exceeds e^ε·Q; ``None`` for noise.
        between: for noise, the interval where P exceeds e^ε·Q, or ``None`` if there is none.
        outputs: outputs of the chart, each with its weights under P and Q.
        is_density: whether P and Q are densities.
    """

    left: str
    right: str
    epsilon: Enclosure
    delta: Enclosure
    event: frozenset[Hashable] | None
    between: tuple[Fraction | None, Fraction | None] | None
    outputs: tuple[tuple[Hashable, Enclosure, Enclosure], ...]
    is_density: bool

    def holds(self, delta: Number = 0) -> bool:
        """Return whether (ε, ``delta``) is proven for this pair, in this direction."""
        return self.delta.high <= exact_probability(delta, "delta", zero=True)

    @property
    def words(self) -> str:
        """Worst event, as text."""
        if self.event is not None:
            if len(self.event) > _NAMED:
                return f"{len(self.event):,} outputs"
            return "{" + ", ".join(sorted(map(str, self.event))) + "}" if self.event else "empty"
        if self.between is None:
            return "empty"
        low, high = self.between
        if not self.is_density:
            low = None if low is None else Fraction(math.floor(low) + 1 if high is None else low)
            high = None if high is None else Fraction(math.ceil(high) - 1)
        sign = "<" if self.is_density else "<="
        if low is None:
            return f"x {sign} {float_nearest(high or _ZERO):g}"
        if high is None:
            return f"x {'>' if self.is_density else '>='} {float_nearest(low):g}"
        return f"{float_nearest(low):g} <= x {sign} {float_nearest(high):g}"

    def chart(self) -> Any:
        """Return the static Altair chart."""
        return offline(chart_definition(self))

    def interactive(self) -> Any:
        """Return the Altair chart with a slider for ε, for a notebook or a saved web page."""
        return chart_definition(self, interactive=True)

    def __str__(self) -> str:
        return (
            f"P = {self.left}, Q {self.right}, ε = {_number(self.epsilon)}: "
            f"the worst event is {self.words}, δ = {self.delta}"
        )


def definition(
    mechanism: FiniteMechanism | RandomizedResponse | WeightedSelection | AdditiveNoise | Law,
    left: Any,
    right: Any,
    *,
    epsilon: Number | None = None,
    ratio: Number | None = None,
) -> Definition:
    """Evaluate the definition for one mechanism and one ordered pair: P is the law on ``left``, Q on ``right``.

    Args:
        mechanism: a finite mechanism or randomized response with two of its databases or answers; the exponential
            mechanism or permute-and-flip with two lists of scores; noise, or a mechanism that adds noise, with the two
            values before noise.
        left: input of P.
        right: input of Q; the inputs must be neighbours of the mechanism; a law of noise takes any two values.
        epsilon: ε.
        ratio: instead of ε, e^ε as a rational; finite mechanisms are then exact.
    """
    factor = ratio_bounds(epsilon=epsilon, ratio=ratio)
    chosen = Enclosure(exact(epsilon, "epsilon"), exact(epsilon, "epsilon")) if epsilon is not None else factor.log()
    if chosen.low < 0:
        raise InputError("epsilon", "must not be negative")
    if isinstance(mechanism, RandomizedResponse):
        table = {
            answer: {told: mechanism.truth if told == answer else mechanism.lie for told in mechanism.categories}
            for answer in mechanism.categories
        }
        mechanism = FiniteMechanism.local(table)
    if isinstance(mechanism, WeightedSelection):
        check_neighbours(Move(mechanism, left, right))
        laws = [_choice(mechanism, scores) for scores in (left, right)]
        mechanism, left, right = FiniteMechanism.local({"P": laws[0], "Q": laws[1]}), "P", "Q"
    if isinstance(mechanism, FiniteMechanism):
        return _finite(mechanism, left, right, chosen, factor, epsilon, ratio)
    if isinstance(mechanism, AdditiveNoise):
        check_neighbours(Move(mechanism, left, right))
        if isinstance(mechanism, Laplace) and mechanism.l1_sensitivity.denominator != 1:
            raise InputError(
                "mechanism", "is drawn on integers, with a whole sensitivity; for floats draw a law such as LaplaceLaw"
            )
        mechanism = law_of(mechanism)
    if not isinstance(mechanism, Law):
        raise InputError(
            "mechanism", "must be a finite mechanism, randomized response, a weighted choice, or additive noise"
        )
    return _noise(mechanism, exact(left, "left"), exact(right, "right"), chosen, factor)


def _finite(
    mechanism: FiniteMechanism,
    left: Any,
    right: Any,
    chosen: Enclosure,
    factor: Enclosure,
    epsilon: Number | None,
    ratio: Number | None,
) -> Definition:
    check_neighbours(Move(mechanism, left, right))
    p, q = mechanism.distribution(left), mechanism.distribution(right)
    delta = hockey_stick(p, q, epsilon=epsilon, ratio=ratio)
    rows = tuple((o, p.get(o, _NEVER), q.get(o, _NEVER)) for o in {**p, **q})
    event = frozenset(o for o, a, b in rows if a.low > factor.high * b.high)
    return Definition(f"output on {left!r}", f"on {right!r}", chosen, delta, event, None, rows, False)


def _choice(mechanism: WeightedSelection, scores: Any) -> dict[Hashable, tuple[Fraction, Fraction]]:
    """Return bounds on the probability of every candidate, by name or by index."""
    names = list(scores) if isinstance(scores, Mapping) else range(len(scores))
    return dict(zip(names, mechanism.probability_bounds(scores), strict=True))


def _noise(law: Law, left: Fraction, right: Fraction, chosen: Enclosure, factor: Enclosure) -> Definition:
    is_density = isinstance(law, ContinuousLaw)
    if not is_density and (left.denominator != 1 or right.denominator != 1):
        raise InputError("left", "must be a whole number, as right must: the noise is discrete")
    delta = _NEVER
    between = _exceeds(law, left, right, Fraction(chosen.high))
    if between is not None:
        p, q = (_probability(law, *between, centre) for centre in (left, right))
        delta = Enclosure(max(p.low - factor.high * q.high, _ZERO), max(p.high - factor.low * q.low, _ZERO))
    name = f"{law} around {format_up(left) if left >= 0 else float_nearest(left)}"
    other = f"around {format_up(right) if right >= 0 else float_nearest(right)}"
    rows = tuple((x, law.weight(x - left), law.weight(x - right)) for x in _places(law, left, right))
    return Definition(name, other, chosen, delta, None, between, rows, is_density)


def _exceeds(
    law: Law, left: Fraction, right: Fraction, epsilon: Fraction
) -> tuple[Fraction | None, Fraction | None] | None:
    """Return the interval where the weight around ``left`` exceeds e^ε times that around ``right``, None if empty.

    The likelihood ratio of a symmetric law and its shift is monotone, so the set is a half-line; an exponential law
    has no probability below its start.
    """
    gap = right - left
    if gap == 0:
        return None
    if isinstance(law, ExponentialLaw):
        if gap > 0:
            return left, right
        return (left, None) if -gap / law.scale > epsilon else None
    middle = (left + right) / 2
    if isinstance(law, LaplaceLaw | DiscreteLaplaceLaw):
        if abs(gap) / law.scale <= epsilon:
            return None
        shift = epsilon * law.scale / 2
    elif isinstance(law, GaussianLaw | DiscreteGaussianLaw):
        shift = epsilon * law.sigma2 / abs(gap)
    else:
        raise InputError("mechanism", "has a law whose likelihood ratio is not known here")
    return (None, middle - shift) if gap > 0 else (middle + shift, None)


def _probability(law: Law, low: Fraction | None, high: Fraction | None, centre: Fraction) -> Enclosure:
    """Return the probability of an interval under the law around ``centre``: below ``high``, and above ``low``.

    The interval is open, which matters for discrete laws only, except that it contains ``low`` for an exponential law.
    """
    one = Enclosure(Fraction(1), Fraction(1))
    top = one if high is None else _below(law, high - centre)
    if low is None:
        return top
    starts = isinstance(law, ExponentialLaw)
    bottom = _below(law, low - centre) if starts else law.cdf(low - centre)
    return Enclosure(max(top.low - bottom.high, _ZERO), min(top.high - bottom.low, Fraction(1)))


def _below(law: Law, x: Fraction) -> Enclosure:
    """Pr[X < x]."""
    return law.cdf(x) if isinstance(law, ContinuousLaw) else law.cdf(math.ceil(x) - 1)


def _places(law: Law, left: Fraction, right: Fraction) -> list[Fraction]:
    """Return the points at which the laws are drawn, over all but about a thousandth of the probability of each."""
    far = law.quantile("0.9995")
    reach = Fraction(far if isinstance(far, int) else far.high) + 1
    one_sided = isinstance(law, ExponentialLaw)
    low, high = min(left, right) - (1 if one_sided else reach), max(left, right) + reach
    if not isinstance(law, ContinuousLaw):
        step = max((math.floor(high) - math.ceil(low)) // _POINTS, 1)
        return [Fraction(x) for x in range(math.ceil(low), math.floor(high) + 1, step)]
    step_width = (high - low) / _POINTS
    return sorted({low + step_width * i for i in range(_POINTS + 1)} | {left, right})


def _number(value: Enclosure) -> str:
    return f"{value.up:.6g}" if value.is_exact else str(value)


_P, _Q, _CAP, _REST = "P, the law on the left", "Q, the law on the right", "e^ε·Q", "δ: P beyond e^ε·Q"
_FLOOR: Final = "e^-ε·Q"
#: Colours that colour-blind readers can distinguish, also in greyscale.
_COLOURS: Final = {_P: "#0072b2", _Q: "#d08700", _CAP: "#4c566a", _FLOOR: "#7b3294", _REST: "#c0392b"}


def chart_definition(picture: Definition, *, interactive: bool = False) -> Any:
    """Chart P, e^-ε·Q and e^ε·Q, with the worst event's excess shaded; ``interactive`` adds a slider for ε."""
    alt = altair()
    rows = _rows(picture)
    start = round(min(picture.epsilon.up, 20.0), 4)
    slider = alt.binding_range(min=0, max=max(2 * start, 2.0), step=0.01, name="ε ")
    epsilon = alt.param(name="epsilon", value=start, bind=slider) if interactive else None
    values: Any = alt.Data  # it has no type hints of its own
    data: Any = alt.Chart(values(values=rows))
    if epsilon is not None:
        data = data.transform_calculate(
            cap="exp(epsilon) * datum.q",
            floor="exp(-epsilon) * datum.q",
            kept="min(datum.p, exp(epsilon) * datum.q)",
        )
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
        row = {"p": p.up, "q": q.up, "cap": cap, "floor": q.up / factor, "kept": min(p.up, cap), "width": 1.0}
        rows.append({"x": _place(output), **row})
    if picture.is_density:
        # Widths of the trapezoidal rule: half of the distance to each neighbouring point.
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
        for field, name, dashes in (
            ("q", _Q, [1, 0]),
            ("cap", _CAP, [5, 3]),
            ("floor", _FLOOR, [2, 3]),
            ("p", _P, [1, 0]),
        )
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
        _named(data, _FLOOR).mark_tick(thickness=3, size=size).encode(x=across, y=upwards("floor"), color=colour),
        _named(data, _Q).mark_point(filled=True, size=45).encode(x=across, y=upwards("q"), color=colour),
    ]


def _delta(alt: Any, data: Any) -> Any:
    """Return a text layer with δ at the slider's ε, summed over the drawn points."""
    return (
        data.transform_calculate(rest="max(datum.p - datum.kept, 0) * datum.width")
        .transform_aggregate(total="sum(rest)")
        .transform_calculate(words="'δ ≈ ' + format(datum.total, '.4f')")
        .mark_text(align="right", fontSize=14, fontWeight="bold", color=_COLOURS[_REST])
        .encode(x=alt.value(530), y=alt.value(14), text="words:N")
    )


def _named(data: Any, name: str) -> Any:
    """Return the chart's data with the layer's name in a column, for colour and legend."""
    return data.transform_calculate(layer=f"'{name}'")


def _colour(alt: Any) -> Any:
    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    legend = alt.Legend(
        title=None, orient="top", symbolType="square", symbolOpacity=1, labelLimit=220, columns=3, columnPadding=40
    )
    return alt.Color("layer:N", scale=scale, legend=legend)


def _title(alt: Any, picture: Definition, interactive: bool) -> Any:
    if interactive:
        return alt.Title("The definition of differential privacy", subtitle=f"P = {picture.left}, Q {picture.right}")
    return alt.Title(
        f"ε = {picture.epsilon.up:.4g} needs δ = {picture.delta.up:.4g}; the worst event: {picture.words}",
        subtitle=f"P = {picture.left}, Q {picture.right}",
    )
