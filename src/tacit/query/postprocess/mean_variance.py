"""AVG, VARIANCE and STDDEV from a noisy count, a noisy centred sum and a noisy sum of centred squares.

In steps around the public centre, with n the count, s the sum, t the squares:

* mean = s/n, for n >= 1, cut to the public bounds;
* population variance = t/n - (s/n)², for n >= 1, cut to [0, (range/2)²];
* sample variance = that times n/(n-1), for n >= 2.

A noisy count below 1 (below 2 for the sample forms) gives NULL, as SQL does for an empty group; the interval then
still says what the group's mean could be. Intervals are the exact extremes of the formula over the box of integers
that the events leave.

*AVG from a count and a sum with noises of their own.* One test of their quotient (:mod:`.ratios`).

*AVG from two jointly released totals with Laplace noise.*

The mean's place between the bounds is r = (A - B)/(A + B), from -1 to 1, so that A(1-r) = B(1+r). For the true r the
noisy difference A′(1-r) - B′(1+r) is pure noise, X(1-r) - Y(1+r). The interval holds every r for which that noise would
be no larger than noise of chance β explains: one test, at one fixed if unknown place.

``intervals.proof.md`` shows that P(|aX + bY| > w + (a+b)/2) <= P(|aL + bM| > w) for continuous Laplace L, M of the same
scale, and that this grows with a and with b. So the noise for all r of a narrow cell is bounded by the largest weights
in the cell, and

    P(|aL + bM| > w) = (b²·exp(-w/(b·scale)) - a²·exp(-w/(a·scale)))/(b² - a²) for a < b.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from tacit.core.numbers import float_nearest, sqrt_bounds
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
    value_at,
    value_of_ratio,
)
from tacit.query.postprocess.ratios import ratio_range
from tacit.query.postprocess.spread_test import spread_test
from tacit.query.types import Domain, Range, SqlType, Value, hull

_Span = tuple[Fraction, Fraction]


@dataclass(frozen=True, eq=False)
class _Moments(Cell):
    """Common parts of means and spreads: a noisy count, a noisy centred sum, and the step they are counted in."""

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
        """The counts from ``least`` up, and the sums, that the events leave possible."""
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
    """AVG.

    Args:
        centre: the public midpoint, in steps.
        bounds: the smallest and largest value, in steps.
    """

    centre: int
    bounds: tuple[int, int]
    event_count: ClassVar[int | None] = 2

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Count and sum."""
        return frozenset((self.count_draw, self.sum_draw))

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The estimate; None when the noisy count is too small."""
        count, total = self.noisy_count, self.noisy_sum
        if count.numerator < count.denominator:
            return None
        return self.value_beside(total.numerator * count.denominator, total.denominator * count.numerator, "nearest")

    def value_beside(self, top: int, bottom: int, direction: Direction) -> Value | None:
        """The value ``top / bottom`` steps from the centre (``bottom`` above 0), cut to the bounds."""
        place = min(max(self.centre * bottom + top, self.bounds[0] * bottom), self.bounds[1] * bottom)
        return value_of_ratio(place * self.step.numerator, bottom * self.step.denominator, self.type, direction)

    def _estimate(self) -> Fraction | None:
        return self._place(self.noisy_sum / self.noisy_count) if self.noisy_count >= 1 else None

    @classmethod
    def column_ends(cls, cells: Sequence[MeanEstimate], level: CellConfidence) -> list[Ends]:
        """As :meth:`ends`, in integers: s/n is extreme at corners of the box, and rounding keeps the order."""
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
        """The mean of n values, and of so many more that are at most h from the centre: 2h·more/(n + more) apart.

        Values that were moved to a bound add to the sum without being more; see ``bias.proof.md``.
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
        """The one test."""
        return frozenset(((self.count_draw, self.sum_draw),))

    @classmethod
    def column_ends(cls, cells: Sequence[MeanEstimate], level: CellConfidence) -> list[Ends]:
        """As :meth:`ends`, cell by cell."""
        return [cell.ends(level) for cell in cells]

    def _enclose(self, level: CellConfidence) -> Domain:
        one = Fraction(1)
        count = Affine({self.count_draw: one}, self.noisy_count, one, not_negative=True)
        span = ratio_range(Affine({self.sum_draw: one}, self.noisy_sum, one), count, level)
        if span is None or span.low is None or span.high is None:
            # Without noise on one side there is nothing to test; count and sum share the chance.
            return super()._enclose(level.at(level.beta / 2))
        # Whether the group has any value at all is not part of the event.
        return Domain(Range(self._place(span.low), self._place(span.high)), True, None, None)


@dataclass(frozen=True, eq=False)
class Spread(_Moments):
    """VARIANCE or STDDEV.

    Args:
        noisy_squares: the noisy sum of centred squares, in squared steps.
        squares_draw: its noise.
        most: the largest population variance there can be, in squared steps.
        sample: whether to divide by n - 1.
        root: whether to take the square root.
        joint: whether the joint law of the three noises is known, so that one test does for all.
    """

    noisy_squares: Fraction
    squares_draw: Draw
    most: Fraction
    sample: bool
    root: bool
    joint: bool = False

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """The one test; else count, sum and squares."""
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
        """The result for a variance in squared steps: itself, or enclosures of its root."""
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
            # A group that may be small is tested by a box; which of the two tests is made depends on the true count.
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
    """The least and largest t·u - (s·u)² over the box, with u = 1/n.

    It rises with t and falls with |s|. In u it is concave, so the least is at an end and the largest at an end or at
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
_CELLS = 32
#: Rows that are looked at together.
_AT_ONCE = 16_384
#: Larger than the rounding of the floats below, by far.
_MARGIN = 1 + 1e-9
_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class PlaceEvent:
    """The event that the test of a mean's true place goes well."""

    measure: int
    group: int


@dataclass(frozen=True, eq=False)
class JointMean(MeanEstimate):
    """AVG from two totals.

    Args:
        half: h, the largest distance from the centre, in steps.
        scale: of the noise of each total; 0 for none.
    """

    half: int
    scale: Fraction
    event_count: ClassVar[int | None] = 1

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """The one test."""
        return frozenset((PlaceEvent(self.sum_draw.measure, self.sum_draw.group),))

    @classmethod
    def column_ends(cls, cells: Sequence[JointMean], level: CellConfidence) -> list[Ends]:  # type: ignore[override]
        """As :meth:`ends`, with the places of all cells found at once."""
        found: list[Ends] = []
        for cell, (low, high) in zip(cells, _all_places(cells, level), strict=True):
            ends = (cell._value_at(low, "down"), cell._value_at(high, "up"))
            found.append(around(cell.value, *ends))
        return found

    def _ratios(self) -> tuple[float, float]:
        """The released place, and one over the total; of no meaning where the total is not above 0."""
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
        difference, total = 2 * self.noisy_sum, 2 * self.half * self.noisy_count
        low, high = _places(difference, total, half_widths(self.scale, level.beta))
        span = Range(self._place(low * self.half), self._place(high * self.half))
        # Whether the group has any value at all is not part of the event.
        return Domain(span, True, None, None)


def _places(difference: Fraction, total: Fraction, widths: tuple[Fraction, ...]) -> tuple[Fraction, Fraction]:
    """The least and the largest r with |difference - r·total| at most the half-width of its cell, a little outwards."""
    if total <= 0:
        return Fraction(-1), Fraction(1)
    middle, scale = float_nearest(difference / total), float_nearest(1 / total)
    ends: list[float] = []
    for index, width in enumerate(_floats(widths)):
        reach = width * scale * _MARGIN + _SLACK
        near, far = index / _CELLS, (index + 1) / _CELLS
        for first, last in ((near, far), (-far, -near)):
            low, high = max(first, middle - reach), min(last, middle + reach)
            if low <= high:
                ends += (low, high)
    # Totals beyond what any group can have leave no place; the nearest end of the bounds is all there is to say.
    edge = Fraction(1 if difference > 0 else -1)
    return (Fraction(min(ends)), Fraction(max(ends))) if ends else (edge, edge)


def _all_places(cells: Sequence[JointMean], level: CellConfidence) -> list[tuple[float, float]]:
    """As :func:`_places`, for many cells: the same operations on the same floats, a column at a time."""
    near = np.arange(_CELLS) / _CELLS
    far = near + 1 / _CELLS
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
    """For each cell of |r| a w that |X(1-r) - Y(1+r)| exceeds with chance at most ``beta``, for every r in the cell."""
    if not scale:
        return (Fraction(0),) * _CELLS
    chance = float_nearest(beta)
    widths = []
    for index in range(_CELLS):
        small, large = 1 - index / _CELLS, 1 + (index + 1) / _CELLS
        width = _tail_quantile(small, large, chance) * float_nearest(scale) * _MARGIN
        widths.append(Fraction(width) + Fraction((small + large) / 2))
    return tuple(widths)


def _tail_quantile(small: float, large: float, chance: float) -> float:
    """The w with P(|aL + bM| > w) = ``chance`` for Laplace noises of scale 1, a little more."""

    def tail(w: float) -> float:
        return (large**2 * math.exp(-w / large) - small**2 * math.exp(-w / small)) / (large**2 - small**2)

    low, high = 0.0, 1.0
    while tail(high) > chance:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > chance else (low, middle)
    return high
