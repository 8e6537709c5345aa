"""Released skewness and kurtosis: measurements, expected errors and estimates.

SKEWNESS and KURTOSIS come from noisy sums of the first powers of values. With n values, in their own units and counted
from the public centre: s, t, u, v = Σd, Σd², Σd³, Σd⁴. About any point α the sums A₁ = s - αn, A₂ = t - 2αs + α²n, A₃ =
u - 3αt + 3α²s - α³n and A₄ = v - 4αu + 6α²t - 4α³s + α⁴n are linear, and with e = A₁/n the moments about the mean are

    M₂ = A₂ - eA₁,    M₃ = A₃ - 3eA₂ + 2e²A₁,    M₄ = A₄ - 4eA₃ + 6e²A₂ - 3e³A₁.

With g = √n·M₃/M₂^(3/2) and k = n·M₄/M₂²: skewness g·√(n(n-1))/(n-2), for n >= 3; kurtosis of the population k - 3, for
n >= 2; kurtosis (n-1)/((n-2)(n-3))·((n+1)(k-3) + 6), for n >= 4. All are NULL where M₂ is not above 0. |g| is cut to √n
and to w/√(M₂/n), k to [1, n] and to w²/(M₂/n), where w is the distance of the bounds: no values have more.

*Intervals.* All draws are within their half-widths together (union bound). At every point of that box the identities
hold for the same α, which may be the noisy mean; e is then as small as the noise. Interval arithmetic encloses the
rest. ``shape_family.proof.md`` has the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tacit.core.numbers import sqrt_bounds
from tacit.query.aggregate_family import (
    AggregateCall,
    Bounds,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    no_bounds,
    noisy_steps,
)
from tacit.query.association_family import SumsEstimate, from_centre
from tacit.query.planning.measures import AggregateKind, Measure, MeasureKind, count_measure, grid_step, sum_measure
from tacit.query.postprocess.cells import CellConfidence, value_at
from tacit.query.question import Aggregate
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions import call, cast
from tacit.query.types import DOUBLE, Domain, Kind, Range, Value

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers

_ZERO, _ONE = Fraction(0), Fraction(1)
#: The fewest values that a form is about.
LEAST_VALUES = {"skewness": 3, "kurtosis": 4, "kurtosis_pop": 2}


@dataclass(frozen=True, eq=False)
class ShapeEstimate(SumsEstimate):
    """A standardised third or fourth moment.

    Args:
        sums: the noisy number of values, and sums of their powers about the centre, in the units of the values.
        reach: the largest distance of a value from the centre.
    """

    sums: tuple[Fraction, ...]
    reach: Fraction

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The estimate; None where the noisy count is too small, or the noisy variance is not above 0."""
        n, s, t = self.sums[:3]
        if n < LEAST_VALUES[self.form] or t <= s**2 / n:
            return None
        found = _enclosure(self.form, self.sums, [_ZERO] * len(self.sums), self.reach, (n, n)).ends
        return None if found is None else value_at((found[0] + found[1]) / 2, self.type)

    def _enclose(self, level: CellConfidence) -> Domain:
        widths = self._widths(level)
        counts = _counts(self.form, self.sums[0], widths[0])
        span = _enclosure(self.form, self.sums, widths, self.reach, counts)
        # Whether the values differ at all is not part of the events.
        return Domain(span, True, None, None)


def shape_error(form: str, values: int, noises: Sequence[Fraction], reach: Fraction) -> Fraction | None:
    """The error for so many values, spread evenly over their bounds, where each sum is off by at most its noise."""
    n = Fraction(values)
    if n - noises[0] < LEAST_VALUES[form]:
        return None
    even = (n, _ZERO, n * reach**2 / 3, _ZERO, n * reach**4 / 5)[: len(noises)]
    if not reach:
        return _ZERO
    true = _enclosure(form, even, [_ZERO] * len(even), reach, (n, n)).ends
    span = _enclosure(form, even, noises, reach, _counts(form, n, noises[0])).ends
    return None if true is None or span is None else max(true[1] - span[0], span[1] - true[0])


def _counts(form: str, n: Fraction, width: Fraction) -> tuple[Fraction, Fraction]:
    """The counts there may be; a count is a whole number, so the ends may be moved to the next one inside."""
    few = Fraction(max(math.ceil(n - width), LEAST_VALUES[form]))
    return few, max(Fraction(math.floor(n + width)), few)


def _enclosure(
    form: str,
    sums: Sequence[Fraction],
    widths: Sequence[Fraction],
    reach: Fraction,
    counts: tuple[Fraction, Fraction],
) -> Range:
    """The form for all sums that are within ``widths`` of ``sums``, with a number of values within ``counts``."""
    few, many = counts
    about = min(max(sums[1] / max(sums[0], _ONE), -reach), reach)
    powers = [_about(about, sums, widths, power) for power in range(1, len(sums))]
    first, second = powers[0], powers[1]
    mean, size = first * Range(1 / many, 1 / few), first.magnitude()
    square = mean.magnitude() * mean.magnitude()
    low = (second.low or _ZERO) - (size.high or _ZERO) ** 2 / few
    high = (second.high or _ZERO) - (size.low or _ZERO) ** 2 / many
    spread = Range(max(low, _ZERO), max(high, _ZERO))
    third = powers[2] - _times(3, mean * second) + _times(2, square * first)
    if form == "skewness":
        found = _standardised(third, spread, counts, 3, 2 * reach)
        factor = Range(_sample_factor(many)[0], _sample_factor(few)[1])
        return found * factor
    fourth = powers[3] - _times(4, mean * powers[2]) + _times(6, square * second) - _times(3, square * mean * first)
    excess = _standardised(fourth.clamped(_ZERO, None), spread, counts, 4, 2 * reach) - Range(Fraction(3), Fraction(3))
    if form == "kurtosis_pop":
        return excess
    # Both fall with n.
    slope = Range(*((n**2 - 1) / ((n - 2) * (n - 3)) for n in (many, few)))
    offset = Range(*(6 * (n - 1) / ((n - 2) * (n - 3)) for n in (many, few)))
    return excess * slope + offset


def _about(point: Fraction, sums: Sequence[Fraction], widths: Sequence[Fraction], power: int) -> Range:
    """Σ(d - point)^power over the box."""
    weights = [math.comb(power, j) * (-point) ** (power - j) for j in range(power + 1)]
    middle = sum((w * total for w, total in zip(weights, sums, strict=False)), _ZERO)
    wide = sum((abs(w) * width for w, width in zip(weights, widths, strict=False)), _ZERO)
    low, high = middle - wide, middle + wide
    return Range(max(low, _ZERO), max(high, _ZERO)) if power % 2 == 0 else Range(low, high)


def _times(number: int, span: Range) -> Range:
    return Range(Fraction(number), Fraction(number)) * span


def _standardised(
    moment: Range, spread: Range, counts: tuple[Fraction, Fraction], power: int, width: Fraction
) -> Range:
    """n^(power/2 - 1)·moment/spread^(power/2), cut to what values within ``width`` of each other can have."""
    few, many = counts
    most = sqrt_bounds(many)[1] if power == 3 else many
    found = Range(-most if power == 3 else _ONE, most)
    low, high = spread.low or _ZERO, spread.high or _ZERO
    if low <= 0:
        # Nothing but a sign is known of a quotient by something that may be 0.
        if power == 3 and moment.low is not None and moment.low >= 0:
            return Range(_ZERO, most)
        return Range(-most, _ZERO) if power == 3 and moment.high is not None and moment.high <= 0 else found
    if power == 3:
        bottom = Range(sqrt_bounds(low**3)[0], sqrt_bounds(high**3)[1])
        quotient = moment.divided_by(bottom) * Range(sqrt_bounds(few)[0], sqrt_bounds(many)[1])
        farthest = width * sqrt_bounds(many / low)[1]
    else:
        quotient = moment.divided_by(Range(low**2, high**2)) * Range(few, many)
        farthest = max(width**2 * many / low, _ONE)
    limit = min(most, farthest)
    return quotient.clamped(-limit if power == 3 else _ONE, limit)


def _sample_factor(n: Fraction) -> tuple[Fraction, Fraction]:
    """√(n(n-1))/(n-2), which falls with n."""
    low, high = sqrt_bounds(n * (n - 1))
    return low / (n - 2), high / (n - 2)


#: Powers of whole numbers up to here are exact; others are doubles on a grid as many times finer than the largest.
_EXACT_POWERS: Final = 2**44
#: A power beyond would not be a double.
_LARGEST: Final = Fraction(2) ** 200


class Shapes(Family):
    """SKEWNESS and KURTOSIS: the number of values, and their centred sum, squares, cubes and fourth powers."""

    error_kind = "even"

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Three measurements as for a variance, and one for each higher power: ``shape_family.proof.md``."""
        argument, shown = asked.value, asked.function.upper()
        if asked.auto:
            raise Refusal("bounds", f"{shown} takes stated bounds: write CLAMP(x, lo, hi).")
        if asked.per_group is not None or asked.per_row is not None:
            raise Refusal("contribution_bounds", f"{shown} takes CLAMP(x, lo, hi) instead of contribution bounds.")
        bounds = argument.range.ends
        if bounds is None:
            raise no_bounds(asked, argument, stated=True)
        step = grid_step(argument.step, argument.type, bounds)
        indices = [final.measure(count_measure(MeasureKind.VALUES, argument, asked.where, rows=final.rows))]
        for kind in (MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES):
            made = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
            indices.append(final.measure(made))
        powers = (3,) if asked.function == "skewness" else (3, 4)
        indices += [final.measure(_powers(argument, bounds, made, power)) for power in powers]
        return Aggregate(AggregateKind(asked.function), tuple(indices), None, DOUBLE, None, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """For a supposed number of evenly spread values."""
        if at.suppose is None or at.suppose < LEAST_VALUES[aggregate.kind.value]:
            return None
        each = at.beta / len(aggregate.measures)
        noises = [at.law(i).error(each) * at.final.measures[i].unit_of_value for i in aggregate.measures]
        return shape_error(aggregate.kind.value, at.suppose, noises, _reach(at.final.measures[aggregate.measures[1]]))

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:  # noqa: ARG002
        """Functions of the released sums."""
        measures = [released.plan.final.measures[index] for index in aggregate.measures]
        units = tuple(part.unit_of_value for part in measures)
        sums = [noisy_steps(released, index) for index in aggregate.measures]
        return lambda group: ShapeEstimate(
            form=aggregate.kind.value,
            sums=tuple(total[group] * unit for total, unit in zip(sums, units, strict=True)),
            draws=tuple(released.draw(index, group) for index in aggregate.measures),
            units=units,
            reach=_reach(measures[1]),
            type=aggregate.type,
        )


def _reach(measure: Measure) -> Fraction:
    return measure.reach * measure.step


def _powers(argument: Expression, bounds: Bounds, beside: Measure, power: int) -> Measure:
    """Powers of the clamped value less its centre, added up."""
    distance, reach = from_centre(argument, bounds, beside), _reach(beside)
    most = reach**power
    if most > _LARGEST:
        raise Refusal("bounds", "Fourth powers of values with such bounds are too large; CLAMP the value.")
    exact = argument.type.kind is Kind.INTEGER and beside.step == 1 and most <= _EXACT_POWERS
    factor = distance if exact else cast(distance, DOUBLE)
    raised = factor
    for _ in range(power - 1):
        raised = call("mul", raised, factor)
    step = Fraction(1) if exact or not most else Fraction(2) ** _exponent(most / _EXACT_POWERS)
    # Whole steps on both sides, so that the centre is 0.
    end = max(-(-most // step), 1) * step
    return sum_measure(MeasureKind.CENTRED_SUM, raised, beside.where, bounds=(-end, end), step=step, rows=beside.rows)


def _exponent(value: Fraction) -> int:
    """Of a power of two that is not above ``value``, or not by much."""
    return value.numerator.bit_length() - value.denominator.bit_length()
