"""AVG, VARIANCE and STDDEV from a noisy count, a noisy centred sum and a noisy sum of centred squares.

*Expected error*, stated for a number V of values that is supposed. With noise of at most v, c, s steps in their number,
centred sum and squares, and h the largest distance from the centre:

* average: |C/V - C′/V′| <= (c + h·v)/(V - v); released jointly, at most w/V, where w bounds both noises of the block
  (as in ``mechanisms/mean.proof.md``);
* variance: with a the bound of the average, (s + h²·v)/(V - v) + 2h·a + a²; times V/(V-1) for the sample form;
* standard deviation: |√x - √y| <= √|x - y|.

In steps around the public centre, with n the count, s the sum, t the squares:

* mean = s/n, for n >= 1, cut to the public bounds;
* population variance = t/n - (s/n)², for n >= 1, cut to [0, (range/2)²];
* sample variance = that times n/(n-1), for n >= 2.

A noisy count below 1 (below 2 for the sample forms) gives NULL, as SQL does for an empty group; the interval then still
contains the possible means of the group. Intervals are the exact extremes of the formula over the box of integers that
the events allow.

*AVG from a count and a sum with separate noises.* One test of their quotient (:mod:`tacit.query.postprocess.cells`).

*AVG from two jointly released totals with Laplace noise.*

The mean's place between the bounds is r = (A - B)/(A + B), from -1 to 1, so that A(1-r) = B(1+r). For the true r the
noisy difference A′(1-r) - B′(1+r) is pure noise, X(1-r) - Y(1+r). The interval contains every r for which that noise
would be no larger than its 1-β quantile: one test, at one fixed but unknown place.

``intervals.proof.md`` shows that P(|aX + bY| > w + (a+b)/2) <= P(|aL + bM| > w) for continuous Laplace L, M of the same
scale, and that this increases in a and in b. So the noise for all r of a narrow cell is bounded by the largest weights
in the cell, and

    P(|aL + bM| > w) = (b²·exp(-w/(b·scale)) - a²·exp(-w/(a·scale)))/(b² - a²) for a < b.

*VARIANCE and STDDEV: one test.*

In units of a public H, which no value exceeds in distance from the centre: with n the count, s the sum, t the squares,
μ = s/n the mean and ν = t/n - μ² the population variance,

    t - 2μs + (μ² - ν)n = 0

so that the same combination of the released numbers is noise alone: T - 2μS + (μ² - ν)N for the noises of t, s and n.
The interval contains every ν for which this noise is no larger than its 1-β quantile at some μ that the count and the
sum allow: one test at one fixed but unknown (μ, ν), and a small part of β for μ. As for quotients, the places are cut
into cells, of any width: each cell uses a noise bound that holds at all its places (``intervals.proof.md``).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from tacit.core.numbers import exp_bounds, float_nearest, log_bounds, sqrt_bounds
from tacit.mechanisms.base import per_output_beta
from tacit.query.aggregates.counts_and_sums import (
    APART,
    distinct_value,
)
from tacit.query.aggregates.family import (
    AggregateCall,
    AggregateEntry,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    SpreadForm,
    SqlName,
    between_the_values,
    called,
    names_of,
    noisy_steps,
    value_bounds,
    value_grid,
)
from tacit.query.planning.measures import (
    Measure,
    MeasureKind,
    count_measure,
    sum_measure,
)
from tacit.query.planning.noise import NoiseLaw, NoiseTerm, sum_error
from tacit.query.postprocess.cells import (
    Affine,
    Cell,
    CellConfidence,
    Direction,
    Draw,
    Ends,
    Event,
    MeasureBias,
    around,
    quotient_range,
    ratio_range,
    value_at,
    value_of_ratio,
)
from tacit.query.query import Aggregate
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call, cast
from tacit.query.types import (
    DOUBLE,
    UNKNOWN,
    Domain,
    Range,
    SqlType,
    Value,
    hull,
)

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers


class Moments(Family):
    """AVG, VARIANCE and STDDEV: the number of values, their centred sum and their centred squares."""

    def __init__(self, spread: SpreadForm | None = None) -> None:
        self.spread = spread

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Add two measurements for a mean, three for a variance."""
        argument, spread = asked.value, self.spread
        bounds = value_bounds(asked, argument)
        step = value_grid(asked, argument, bounds)
        kinds = [MeasureKind.CENTRED_SUM] + ([] if spread is None else [MeasureKind.CENTRED_SQUARES])
        indices = [final.measure(count_measure(MeasureKind.VALUES, argument, asked.where, rows=final.rows))]
        for kind in kinds:
            measure = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
            indices.append(final.measure(replace(measure, auto=asked.auto)))
        known = bounds if spread is None else (_ZERO, spread.largest(bounds[1] - bounds[0]))
        return Aggregate(asked.function, tuple(indices), None, DOUBLE, None if asked.auto else known, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return the error by the formulas of the module, for a supposed number of values."""
        beta, suppose = at.beta, at.suppose
        if suppose is None:
            return None
        total = at.final.measures[aggregate.measures[1]]
        half = total.reach
        each = beta / len(aggregate.measures)
        noises = [at.law(index).error(each) for index in aggregate.measures]
        left = suppose - noises[0]
        if left <= 0:
            return None
        mean = (noises[1] + half * noises[0]) / left
        release, spread = at.priced.release_of[aggregate.measures[1]], self.spread
        if spread is None:
            if at.is_one_group and not release.levels and release.block.is_mean(*aggregate.measures):
                law = release.law(aggregate.measures[1])
                mean = min(mean, NoiseLaw(law.kind, law.scale).error(per_output_beta(beta, 2)) / suppose)
            return min(mean, Fraction(2 * half)) * total.step
        squared = (noises[2] + half**2 * noises[0]) / left + 2 * half * mean + mean**2
        if spread.sample:
            if suppose < 2:
                return None
            squared *= Fraction(suppose, suppose - 1)
        squared *= total.step**2
        return sqrt_bounds(squared)[1] if spread.root else squared

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Return cells of quotients of released numbers."""
        if self.spread is None:
            return _means(aggregate, measure, released)
        return _spreads(aggregate, measure, released, self.spread)


class GeometricMeans(Moments):
    """GEOMETRIC_MEAN: the exponential of the average of logarithms, of values whose bounds are above 0."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:
        """Add the measurements of the average of logarithms."""
        low, high = value_bounds(asked, asked.value)
        if asked.auto or low <= 0:
            raise Refusal(
                "bounds",
                f"GEOMETRIC_MEAN needs bounds above 0 for {names_of(asked.value)}: write CLAMP(x, lo, hi) with lo > 0.",
            )
        # Wider than the bounds, so that the measurement clips and counts clipped values; above 0 for the logarithm.
        ends = (literal(float(low) / 2, DOUBLE), literal(2 * float(high), DOUBLE))
        logarithm = call("ln", call("clamp", cast(asked.value, DOUBLE), *ends))
        within = log_bounds(low)[0], log_bounds(high)[1]
        made = super().measured(replace(asked, argument=logarithm, per_row=within, per_group=None), source, final)
        return replace(made, bounds=(low, high), label=asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return high·(1 - exp(-e)): the error of a number up to ``high`` whose logarithm is off by at most e."""
        apart = super().error(aggregate, at)
        return None if apart is None or aggregate.bounds is None else aggregate.bounds[1] * (1 - exp_bounds(-apart)[0])

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Return the exponentials of the averages of logarithms."""
        averages = super().column(aggregate, measure, released)
        return lambda group: Exponential(averages(group))


def _means(aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
    count, total = aggregate.measures
    counts, sums = noisy_steps(released, count), noisy_steps(released, total)
    shared = (measure.step, aggregate.type, measure.centre, (measure.low, measure.high))
    half = measure.reach
    law, block = released.laws[total], released.plan.priced.release_of[count].block
    # Whether the count and the sum were released as two totals, with Laplace noise or none.
    joint = block.is_mean(count, total) and law.has_laplace_tails and law.copies == 1

    one_by_one = QuotientMean if not joint and laws_known([released.laws[count], law]) else MeanEstimate

    def cell(group: int) -> Cell:
        parts = (counts[group], sums[group], released.draw(count, group), released.draw(total, group), *shared)
        return JointMean(*parts, half, law.scale) if joint else one_by_one(*parts)

    return cell


def _spreads(aggregate: Aggregate, measure: Measure, released: CellNumbers, spread: SpreadForm) -> Column:
    count, total, squares = aggregate.measures
    counts, sums, noisy_squares = (noisy_steps(released, index) for index in aggregate.measures)
    most = Fraction((measure.high - measure.low) ** 2, 4)
    joint = laws_known([released.laws[index] for index in aggregate.measures])
    return lambda group: Spread(
        noisy_count=counts[group],
        noisy_sum=sums[group],
        count_draw=released.draw(count, group),
        sum_draw=released.draw(total, group),
        step=measure.step,
        type=aggregate.type,
        noisy_squares=noisy_squares[group],
        squares_draw=released.draw(squares, group),
        most=most,
        sample=spread.sample,
        root=spread.root,
        joint=joint,
    )


class DistinctMeans(Moments):
    """AVG of distinct values: their number and their centred sum, released separately."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Add two measurements of the same union of values."""
        argument, bounds, step = distinct_value(asked)
        count = count_measure(MeasureKind.DISTINCT, argument, asked.where, rows=final.rows)
        total = sum_measure(MeasureKind.DISTINCT_SUM, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
        indices = (final.measure(count), final.measure(total))
        return Aggregate("avg_distinct", indices, None, DOUBLE, bounds, asked.label)


# -- exact, inside one unit's rows and over released cells


def width(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Return the type and range of a standard deviation."""
    ends = argument.range.ends
    return DOUBLE, UNKNOWN if ends is None else Range(_ZERO, ends[1] - ends[0])


def squared_width(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:
    """Return the type and range of a variance."""
    widest = width(argument, rows)[1].high
    # The sample variance is largest for two values at the ends: width²/2.
    return DOUBLE, UNKNOWN if widest is None else Range(_ZERO, widest**2 / 2)


def mean_of(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    return sum(places, _ZERO) / len(places)


# -- estimates


_Span = tuple[Fraction, Fraction]


@dataclass(frozen=True, eq=False)
class _Moments(Cell):
    """Common fields of means and variances: a noisy count, a noisy centred sum, and their step."""

    noisy_count: Fraction
    noisy_sum: Fraction
    count_draw: Draw
    sum_draw: Draw
    step: Fraction
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The estimate; None when the noisy count is too small."""
        place = self._estimate()
        return None if place is None else value_at(place, self.type)

    @abstractmethod
    def _estimate(self) -> Fraction | None: ...

    def _box(self, level: CellConfidence, least: int) -> tuple[_Span, _Span]:
        """Return the ranges of the count, from ``least`` on, and of the sum that the events leave possible."""
        width = level.half_width(self.count_draw.measure)
        # A count is a whole number, so the ends may be moved to the next one inside.
        fewest, most = math.ceil(self.noisy_count - width), math.floor(self.noisy_count + width)
        counts = (Fraction(max(fewest, least)), Fraction(max(most, least)))
        slack = level.half_width(self.sum_draw.measure)
        return counts, (self.noisy_sum - slack, self.noisy_sum + slack)

    def _maybe_null(self, level: CellConfidence, least: int) -> bool:
        return self.noisy_count - level.half_width(self.count_draw.measure) < least


@dataclass(frozen=True, eq=False)
class MeanEstimate(_Moments):
    """Cell of AVG.

    Args:
        centre: the public midpoint, in steps.
        bounds: the smallest and largest value, in steps.
    """

    centre: int
    bounds: tuple[int, int]
    event_count: ClassVar[int | None] = 2

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Draws of the count and the sum."""
        return frozenset((self.count_draw, self.sum_draw))

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The estimate; None when the noisy count is too small."""
        count, total = self.noisy_count, self.noisy_sum
        if count.numerator < count.denominator:
            return None
        return self.value_beside(total.numerator * count.denominator, total.denominator * count.numerator, "nearest")

    def value_beside(self, top: int, bottom: int, direction: Direction) -> Value | None:
        """Return the value ``top / bottom`` steps from the centre (``bottom`` above 0), cut to the bounds."""
        place = min(max(self.centre * bottom + top, self.bounds[0] * bottom), self.bounds[1] * bottom)
        return value_of_ratio(place * self.step.numerator, bottom * self.step.denominator, self.type, direction)

    def _estimate(self) -> Fraction | None:
        return self._place(self.noisy_sum / self.noisy_count) if self.noisy_count >= 1 else None

    @classmethod
    def column_ends(cls, cells: Sequence[MeanEstimate], level: CellConfidence) -> list[Ends]:
        """Return :meth:`ends` of each cell in integers: s/n is extreme at corners of the box; rounding is monotone."""
        found: list[Ends] = []
        for cell in cells:
            width, slack = level.half_width(cell.count_draw.measure), level.half_width(cell.sum_draw.measure)
            count, total = cell.noisy_count, cell.noisy_sum
            middle, reach = count.numerator * width.denominator, width.numerator * count.denominator
            unit = count.denominator * width.denominator
            fewest, most = max(-((reach - middle) // unit), 1), max((middle + reach) // unit, 1)
            top, by = total.numerator * slack.denominator, slack.numerator * total.denominator
            bottom = total.denominator * slack.denominator
            low = cell.value_beside(top - by, bottom * (most if top >= by else fewest), "down")
            high = cell.value_beside(top + by, bottom * (fewest if top >= -by else most), "up")
            found.append(around(cell.value, low, high))
        return found

    def _place(self, offset: Fraction) -> Fraction:
        low, high = self.bounds
        return min(max(self.centre + offset, Fraction(low)), Fraction(high)) * self.step

    def _enclose(self, level: CellConfidence) -> Domain:
        counts, sums = self._box(level, 1)
        # s/n rises with s; for s >= 0 it falls with n, for s < 0 it rises: the extremes are at corners.
        low = min(sums[0] / count for count in counts)
        high = max(sums[1] / count for count in counts)
        return Domain(Range(self._place(low), self._place(high)), self._maybe_null(level, 1), None, None)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        """Widen by the largest effect of the bias on a mean.

        ``more`` values beyond n, each at most h from the centre, shift the mean by at most 2h·more/(n + more). Clipped
        values add to the sum but not to the count; see ``bias.proof.md``.
        """
        bias, more = biases[self.sum_draw.measure], biases[self.count_draw.measure].up_of(self.noisy_count)
        if known.range.ends is None or bias.is_nothing:
            return known
        low, high = known.range.ends
        number = max(self.noisy_count, Fraction(1))
        shift = (bias.up / number if bias.outside else 0) + 2 * self._reach * more / (number + more)
        span = Range(low - shift * self.step, high + shift * self.step)
        if not bias.outside:
            span = span.clamped(self.bounds[0] * self.step, self.bounds[1] * self.step)
        return Domain(span, known.nullable, None, None)

    @property
    def _reach(self) -> int:
        return max(self.bounds[1] - self.centre, self.centre - self.bounds[0])


@dataclass(frozen=True, eq=False)
class QuotientMean(MeanEstimate):
    """AVG from a count and a sum whose noises are independent, of any law: one test of their quotient."""

    event_count: ClassVar[int | None] = 1

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """The event of the quotient test."""
        return frozenset(((self.count_draw, self.sum_draw),))

    @classmethod
    def column_ends(cls, cells: Sequence[MeanEstimate], level: CellConfidence) -> list[Ends]:
        """Return :meth:`ends` of each cell."""
        return [cell.ends(level) for cell in cells]

    def _enclose(self, level: CellConfidence) -> Domain:
        one = Fraction(1)
        count = Affine({self.count_draw: one}, self.noisy_count, one, not_negative=True)
        span = ratio_range(Affine({self.sum_draw: one}, self.noisy_sum, one), count, level)
        if span is None or span.low is None or span.high is None:
            # Without noise on one side there is no test; count and sum share the failure probability.
            return super()._enclose(level.at(level.beta / 2))
        # The event does not decide whether the group has any value.
        return Domain(Range(self._place(span.low), self._place(span.high)), True, None, None)


@dataclass(frozen=True, eq=False)
class Spread(_Moments):
    """Cell of VARIANCE or STDDEV.

    Args:
        noisy_squares: the noisy sum of centred squares, in squared steps.
        squares_draw: the draw of its noise.
        most: the largest possible population variance, in squared steps.
        sample: whether to divide by n - 1.
        root: whether to take the square root.
        joint: whether the joint law of the three noises is known, so that one test covers them.
    """

    noisy_squares: Fraction
    squares_draw: Draw
    most: Fraction
    sample: bool
    root: bool
    joint: bool = False

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """The event of the joint test, or else the draws of count, sum and squares."""
        draws = self.count_draw, self.sum_draw, self.squares_draw
        return frozenset((draws,)) if self.joint else frozenset(draws)

    @property
    def _least(self) -> int:
        return 2 if self.sample else 1

    def _estimate(self) -> Fraction | None:
        count = self.noisy_count
        if count < self._least:
            return None
        population = self._cut(self.noisy_squares / count - (self.noisy_sum / count) ** 2)
        low, high = self._scaled(population * (count / (count - 1) if self.sample else 1))
        return (low + high) / 2

    def _cut(self, variance: Fraction) -> Fraction:
        return min(max(variance, Fraction(0)), self.most)

    def _scaled(self, variance: Fraction) -> _Span:
        """Return the result for a variance in squared steps twice, or lower and upper bounds of its root."""
        square = variance * self.step**2
        return sqrt_bounds(square) if self.root and square else (square, square)

    def _enclose(self, level: CellConfidence) -> Domain:
        return self._tested(level) if self.joint else self._boxed(level)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        lost = biases[self.squares_draw.measure]
        return known if lost.is_nothing else Domain(Range(Fraction(0), None), known.nullable, None, None)

    def _tested(self, level: CellConfidence) -> Domain:
        first, second, third = (draw.measure for draw in (self.count_draw, self.sum_draw, self.squares_draw))
        # No value is farther from the centre: the bounds are 2√most apart, and the centre is their middle, rounded.
        reach = math.isqrt(math.ceil(self.most)) + 2
        test = spread_test((level.laws[first], level.laws[second], level.laws[third]), reach, level.beta)
        count = self.noisy_count
        fewest, most = math.ceil(count - test.count_error), math.floor(count + test.count_error)
        spans = []
        if fewest < test.fewest:
            # A group that may be small is tested by a box; the true count decides which of the two tests applies.
            spans.append(self._boxed(level.at(test.box_beta)).range)
        if most >= test.fewest or not spans:
            found = test.variances((count, self.noisy_sum / reach, self.noisy_squares / reach**2))
            low, high = (self._cut(Fraction(end) * reach**2) for end in found)
            if self.sample:
                few = max(fewest, 2)
                many = max(most, few)
                low, high = low * many / (many - 1), high * few / (few - 1)
            spans.append(Range(self._scaled(low)[0], self._scaled(high)[1]))
        return Domain(hull(spans), fewest < self._least, None, None)

    def _boxed(self, level: CellConfidence) -> Domain:
        counts, sums = self._box(level, self._least)
        slack = level.half_width(self.squares_draw.measure)
        squares = (self.noisy_squares - slack, self.noisy_squares + slack)
        low, high = (self._cut(end) for end in _population_extremes(counts, sums, squares))
        if self.sample:
            # n/(n-1) falls with n.
            low, high = low * counts[1] / (counts[1] - 1), high * counts[0] / (counts[0] - 1)
        span = Range(self._scaled(low)[0], self._scaled(high)[1])
        return Domain(span, self._maybe_null(level, self._least), None, None)


def _population_extremes(counts: _Span, sums: _Span, squares: _Span) -> _Span:
    """Return the least and the largest t·u - (s·u)² over the box, with u = 1/n.

    It rises with t and falls with |s|. It is concave in u, so the least is at an end and the largest at an end or at
    the vertex u = t/(2s²).
    """
    largest_sum = max(abs(sums[0]), abs(sums[1]))
    smallest_sum = Fraction(0) if sums[0] <= 0 <= sums[1] else min(abs(sums[0]), abs(sums[1]))
    ends = [1 / count for count in counts]
    low = min(squares[0] * u - (largest_sum * u) ** 2 for u in ends)
    tops = list(ends)
    if smallest_sum:
        vertex = squares[1] / (2 * smallest_sum**2)
        tops += [vertex] if min(ends) < vertex < max(ends) else []
    return low, max(squares[1] * u - (smallest_sum * u) ** 2 for u in tops)


# -- two jointly released totals


#: Cells of equal width into which [0, 1] is cut; each enlarges the interval by at most its width, relatively.
_MEAN_CELLS = 32
#: Number of rows that are processed together.
_AT_ONCE = 16_384


@dataclass(frozen=True, slots=True)
class PlaceEvent:
    """The event that the test of a mean accepts its true place between the bounds."""

    measure: int
    group: int


@dataclass(frozen=True, eq=False)
class JointMean(MeanEstimate):
    """Cell of AVG from two jointly released totals.

    Args:
        half: h, the largest distance from the centre, in steps.
        scale: of the noise of each total; 0 for none.
    """

    half: int
    scale: Fraction
    event_count: ClassVar[int | None] = 1

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset((PlaceEvent(self.sum_draw.measure, self.sum_draw.group),))

    @classmethod
    def column_ends(cls, cells: Sequence[JointMean], level: CellConfidence) -> list[Ends]:  # type: ignore[override]
        """Return :meth:`ends` of each cell, with the places of all cells computed together."""
        found: list[Ends] = []
        for cell, (low, high) in zip(cells, _places(cells, level), strict=True):
            ends = (cell._value_at(low, "down"), cell._value_at(high, "up"))
            found.append(around(cell.value, *ends))
        return found

    def _ratios(self) -> tuple[float, float]:
        """Return the released place r and 1/total; (0, 0) if the total is not above 0."""
        count, total = self.noisy_count, self.noisy_sum
        whole = self.half * count.numerator
        if whole <= 0:
            return 0.0, 0.0
        middle = Fraction(total.numerator * count.denominator, total.denominator * whole)
        return float_nearest(middle), float_nearest(Fraction(count.denominator, 2 * whole))

    def _value_at(self, place: float, direction: Direction) -> Value | None:
        top, bottom = place.as_integer_ratio()
        return self.value_beside(top * self.half, bottom, direction)

    def _enclose(self, level: CellConfidence) -> Domain:
        ((low, high),) = _places([self], level)
        span = Range(*(self._place(Fraction(end) * self.half) for end in (low, high)))
        # The event does not decide whether the group has any value.
        return Domain(span, True, None, None)


def _places(cells: Sequence[JointMean], level: CellConfidence) -> list[tuple[float, float]]:
    """Return the least and largest r with |difference - r·total| <= the half-width of its cell, rounded outwards.

    Totals that no group can have leave no place; then both ends are the nearest end of the bounds.
    """
    near = np.arange(_MEAN_CELLS) / _MEAN_CELLS
    far = near + 1 / _MEAN_CELLS
    found: list[tuple[float, float]] = []
    for start in range(0, len(cells), _AT_ONCE):
        part = cells[start : start + _AT_ONCE]
        widths = np.array(_all_widths(part, level))
        ratios = [cell._ratios() for cell in part]
        middle = np.array([ratio[0] for ratio in ratios])[:, None]
        reach = widths * np.array([ratio[1] for ratio in ratios])[:, None] * _MARGIN + _SLACK
        lowest, highest = np.full(len(part), np.inf), np.full(len(part), -np.inf)
        for first, last in ((near, far), (-far, -near)):
            low, high = np.maximum(first, middle - reach), np.minimum(last, middle + reach)
            inside = low <= high
            lowest = np.minimum(lowest, np.where(inside, low, np.inf).min(axis=1))
            highest = np.maximum(highest, np.where(inside, high, -np.inf).max(axis=1))
        for cell, low_end, high_end in zip(part, lowest.tolist(), highest.tolist(), strict=True):
            if cell.half <= 0 or cell.noisy_count.numerator <= 0:
                found.append((-1.0, 1.0))
            elif low_end > high_end:
                edge = 1.0 if cell.noisy_sum.numerator > 0 else -1.0
                found.append((edge, edge))
            else:
                found.append((low_end, high_end))
    return found


def _all_widths(cells: Sequence[JointMean], level: CellConfidence) -> list[tuple[float, ...]]:
    found: list[tuple[float, ...]] = []
    scale: Fraction | None = None
    widths: tuple[float, ...] = ()
    for cell in cells:
        # A column shares one scale, the same object; hashing it for each cell would take longer than the rest.
        if cell.scale is not scale:
            scale, widths = cell.scale, _floats(half_widths(cell.scale, level.beta))
        found.append(widths)
    return found


@lru_cache(maxsize=1024)
def _floats(widths: tuple[Fraction, ...]) -> tuple[float, ...]:
    return tuple(map(float_nearest, widths))


@lru_cache(maxsize=1024)
def half_widths(scale: Fraction, beta: Fraction) -> tuple[Fraction, ...]:
    """Return, per cell of |r|, a w that |X(1-r) - Y(1+r)| exceeds with probability at most ``beta`` for all its r."""
    if not scale:
        return (Fraction(0),) * _MEAN_CELLS
    chance = float_nearest(beta)
    widths = []
    for index in range(_MEAN_CELLS):
        small, large = 1 - index / _MEAN_CELLS, 1 + (index + 1) / _MEAN_CELLS
        width = _tail_quantile(small, large, chance) * float_nearest(scale) * _MARGIN
        widths.append(Fraction(width) + Fraction((small + large) / 2))
    return tuple(widths)


def _tail_quantile(small: float, large: float, chance: float) -> float:
    """Return the w, rounded up, with P(|aL + bM| > w) = ``chance`` for Laplace noises of scale 1."""

    def tail(w: float) -> float:
        return (large**2 * math.exp(-w / large) - small**2 * math.exp(-w / small)) / (large**2 - small**2)

    low, high = 0.0, 1.0
    while tail(high) > chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > chance else (low, middle)
    return high


@dataclass(frozen=True, eq=False)
class Exponential(Cell):
    """Exponential of another cell; it is increasing, so the ends are the exponentials of the ends."""

    power: Cell
    type: SqlType = DOUBLE

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        power = self.power.value
        return None if power is None else value_at(exp_bounds(Fraction(power))[0], self.type)  # type: ignore[arg-type]

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return self.power.events

    def _enclose(self, level: CellConfidence) -> Domain:
        known = self.power.enclose(level)
        low, high = (None if end is None else exp_bounds(end) for end in (known.range.low, known.range.high))
        return Domain(Range(low[0] if low else _ZERO, high[1] if high else None), known.nullable, None, None)


# -- test of a variance


#: Parts of the failure probability: test, change within a cell (part of the test), mean, count.
_TEST, _WAY, _MEAN, _COUNT = Fraction(96, 100), Fraction(1, 100), Fraction(2, 100), Fraction(2, 100)
#: Number of cells per unit at the narrowest width, and the number of cells of means that the width aims at.
_NARROWEST, _MOST_CELLS = 512, 4
#: If the half-width of the mean, in units of H, exceeds this, a box is narrower than the test.
_WIDEST_MEAN = Fraction(16, 100)
#: Relative and absolute margins far above the rounding error of floats.
_MARGIN, _SLACK = 1 + 1e-9, 1e-12
_Ends = tuple[float, float]
#: Law, scale, and the weights that one independent noise has in the count, the sum and the squares.
_Weights = tuple[str, Fraction, Fraction, Fraction, Fraction]
_ZERO, _ONE = Fraction(0), Fraction(1)


@lru_cache(maxsize=256)
def spread_test(laws: tuple[NoiseLaw, NoiseLaw, NoiseLaw], reach: int, beta: Fraction) -> SpreadTest:
    """Return the test for a count, a sum and squares with these noise laws; ``reach`` is H, in steps."""
    units = _ONE, Fraction(1, reach), Fraction(1, reach**2)
    found: dict[tuple[int, int], list[Fraction]] = {}
    for index, (law, unit) in enumerate(zip(laws, units, strict=True)):
        if law.source is None:
            raise ValueError("noises of unknown vectors have no joint law")
        for place, sign in enumerate(law.signs):
            found.setdefault((law.source, place), [_ZERO] * 3)[index] += sign * law.unit * unit
    kinds = {law.source: law for law in laws}
    tally: Counter[_Weights] = Counter()
    for (source, _), (count, total, squares) in found.items():
        for kind, scale, weight, number in kinds[source].noises:
            tally[kind, scale, weight * count, weight * total, weight * squares] += number
    return SpreadTest(tuple(tally.items()), beta, {})


@dataclass(frozen=True, eq=False)
class SpreadTest:
    """Test of variances under one public noise law."""

    noises: tuple[tuple[_Weights, int], ...]
    beta: Fraction
    known: dict[tuple[int, int, int], float]

    def _error(self, count: Fraction, total: Fraction, squares: Fraction, part: Fraction) -> Fraction:
        """Bound the error of a linear combination of the three numbers."""
        terms = [
            NoiseTerm(kind, scale, count * n + total * s + squares * t, number)
            for (kind, scale, n, s, t), number in self.noises
        ]
        return sum_error(terms, self.beta * part)

    @cached_property
    def count_error(self) -> Fraction:
        """Bound on the error of the count."""
        return self._error(_ONE, _ZERO, _ZERO, _COUNT)

    @cached_property
    def _way(self) -> tuple[Fraction, Fraction]:
        """Bounds on the errors of count and sum, for the change from the middle of a cell to its ends."""
        return self._error(_ONE, _ZERO, _ZERO, _WAY / 2), self._error(_ZERO, _ONE, _ZERO, _WAY / 2)

    @cached_property
    def _box(self) -> tuple[Fraction, Fraction, Fraction]:
        """Bounds on the errors of the three numbers, which jointly fail no more often than the test."""
        part = _TEST / 3
        return (
            self._error(_ONE, _ZERO, _ZERO, part),
            self._error(_ZERO, _ONE, _ZERO, part),
            self._error(_ZERO, _ZERO, _ONE, part),
        )

    @cached_property
    def fewest(self) -> int:
        """Count from which the test of a variance is narrower than a box; below it the box is used."""
        return math.ceil(self._error(_ZERO, _ONE, _ZERO, _MEAN) / _WIDEST_MEAN)

    @property
    def box_beta(self) -> Fraction:
        """Failure probability of each of the three numbers in a box."""
        return self.beta * (1 - _COUNT) / 3

    def _width(self, mean: int, variance: int, cells: int) -> float:
        """Return the largest noise that the test accepts, for all places of the cells ``mean`` and ``variance``."""
        key = mean, variance, cells
        if key not in self.known:
            half = Fraction(1, 2 * cells)
            mu, nu = (2 * mean + 1) * half, (2 * variance + 1) * half
            middle = self._error(mu * mu - nu, -2 * mu, _ONE, _TEST - _WAY)
            count, total = self._way
            # |μ² - μ′²| <= (|μ| + |μ′|)·half, and the variance moves by half as well.
            width = middle + 2 * half * total + ((2 * abs(mu) + half) * half + half) * count
            self.known[key] = float_nearest(width) * _MARGIN
        return self.known[key]

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        count, total, squares = (float_nearest(width) * _MARGIN for width in self._box)
        return count, total, squares

    def variances(self, noisy: tuple[Fraction, Fraction, Fraction]) -> _Ends:
        """Return the least and the largest accepted variance in [0, 1], from the released numbers in units of H."""
        count, total, squares = map(float_nearest, noisy)
        if count <= 0:
            return 0.0, 1.0
        means = self._means(noisy[0], noisy[1])
        cells = _NARROWEST
        while cells > 1 and (means[1] - means[0]) * cells > _MOST_CELLS:
            cells //= 2
        # Far above the rounding error of the floats below.
        slack = _SLACK * (count + 2 * abs(total) + abs(squares))
        lows, highs = [], []
        for index in range(math.floor(means[0] * cells), math.floor(means[1] * cells) + 1):
            span = max(means[0], index / cells), min(means[1], (index + 1) / cells)
            low, high = _squares_about(span, count, total, squares)
            at = _Cell(index, cells, count, low - slack, high + slack)
            wide = self._floats[2] + 2 * max(abs(span[0]), abs(span[1])) * self._floats[1] + self._floats[0]
            least, most = max((at.low - wide) / count, 0.0), min(max((at.high + wide) / count, 0.0), 1.0)
            if least <= most:
                lows.append(self._low_end(at, least, most))
                highs.append(self._high_end(at, least, most))
        ends = [end for end in lows if end is not None], [end for end in highs if end is not None]
        # Numbers that no group can have leave no variance: return the whole range.
        return (min(ends[0]), max(ends[1])) if ends[0] and ends[1] else (0.0, 1.0)

    @cached_property
    def _pairs(self) -> tuple[tuple[tuple[str, Fraction, Fraction, Fraction], int], ...]:
        pairs: Counter[tuple[str, Fraction, Fraction, Fraction]] = Counter()
        for (kind, scale, n, s, _), number in self.noises:
            pairs[kind, scale, s, n] += number
        return tuple(sorted(pairs.items()))

    def _means(self, count: Fraction, total: Fraction) -> _Ends:
        low, high = quotient_range(self._pairs, self.beta * _MEAN, total, count)
        least, most = (-1.0 if low is None else max(float(low), -1.0)), (1.0 if high is None else min(float(high), 1.0))
        return (least, most) if least <= most else (-1.0, 1.0)

    def _low_end(self, at: _Cell, least: float, most: float) -> float | None:
        """Return the least accepted variance with a mean of one cell; 0 if less than 0 may be accepted."""
        # Rounding of heavy contributors can make the exact numbers give a little less than 0, which is shown as 0.
        lowest = max((at.low - self._floats[2] - 2 * self._floats[1] - 2 * self._floats[0]) / at.size, -1.0)
        for index in range(-1, math.floor(lowest * at.cells) - 1, -1):
            if (at.low - self._width(at.mean, index, at.cells)) / at.size <= (index + 1) / at.cells:
                return 0.0
        for index in range(math.floor(least * at.cells), math.floor(most * at.cells) + 1):
            place = max((at.low - self._width(at.mean, index, at.cells)) / at.size, index / at.cells, least)
            if place <= (index + 1) / at.cells:
                return place
        return None

    def _high_end(self, at: _Cell, least: float, most: float) -> float | None:
        """Return the largest accepted variance with a mean of one cell."""
        for index in range(math.floor(most * at.cells), math.floor(least * at.cells) - 1, -1):
            place = min((at.high + self._width(at.mean, index, at.cells)) / at.size, (index + 1) / at.cells, most)
            if place >= index / at.cells:
                return place
        return None


class _Cell(NamedTuple):
    """A cell of means: its index among cells of width 1/``cells``, the count n, and its range of t - 2μs + μ²n."""

    mean: int
    cells: int
    size: float
    low: float
    high: float


def _squares_about(means: _Ends, count: float, total: float, squares: float) -> _Ends:
    """Return the least and the largest t - 2μs + μ²n over a range of means, for n above 0: a parabola."""
    ends = [squares - 2 * mu * total + mu * mu * count for mu in means]
    vertex = total / count
    low = squares - total * vertex if means[0] < vertex < means[1] else min(ends)
    return low, max(ends)


def laws_known(laws: Sequence[NoiseLaw]) -> bool:
    """Whether the vectors of all noises are known, so that the noises have a joint law."""
    return all(law.source is not None and not law.is_exact for law in laws)


def _variance(function: str, spread: SpreadForm, *names: str) -> AggregateEntry:
    return AggregateEntry(
        called(function, *names), width if spread.root else squared_width, None, (function,), Moments(spread),
        takes="number", bounded=True, spread=spread, sorts=True, power=1 if spread.root else 2, adds_up=True,
    )  # fmt: skip


ENTRIES: Final = {
    "avg": AggregateEntry(
        called("avg", "avg", "mean", "anon_avg")
        | {"regr_avgy": SqlName("avg", 2, "first"), "regr_avgx": SqlName("avg", 2, "second")},
        between_the_values, mean_of, ("avg",), Moments(), takes="number", bounded=True, linear=True, adds_up=True),
    "geometric_mean": AggregateEntry(
        called("geometric_mean", "geometric_mean", "geomean"), None, None, ("geometric_mean",), GeometricMeans(),
        takes="number", adds_up=True,
        refusal="GEOMETRIC_MEAN is released over people; inside one person's rows, over public or over released rows, "
        "write EXP(AVG(LN(x)))."),
    "avg_distinct": AggregateEntry({}, None, None, ("avg_distinct",), DistinctMeans(), takes="number", refusal=APART),
    "var_samp": _variance("var_samp", SpreadForm(True, False), "variance", "var_samp", "var"),
    "var_pop": _variance("var_pop", SpreadForm(False, False), "var_pop", "varp", "anon_var_pop"),
    "stddev_samp": _variance("stddev_samp", SpreadForm(True, True), "stddev", "stddev_samp", "stdev", "std"),
    "stddev_pop": _variance("stddev_pop", SpreadForm(False, True), "stddev_pop", "stdevp", "anon_stddev_pop"),
}  # fmt: skip
