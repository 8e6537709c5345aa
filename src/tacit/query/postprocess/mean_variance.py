"""AVG, VARIANCE and STDDEV from a noisy count, a noisy centred sum and a noisy sum of centred squares.

In steps around the public centre, with n the count, s the sum, t the squares:

* mean = s/n, for n >= 1, cut to the public bounds;
* population variance = t/n - (s/n)², for n >= 1, cut to [0, (range/2)²];
* sample variance = that times n/(n-1), for n >= 2.

A noisy count below 1 (below 2 for the sample forms) gives NULL, as SQL does for an empty group; the interval then
still says what the group's mean could be. Intervals are the exact extremes of the formula over the box of integers
that the events leave.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from tacit.core.numbers import sqrt_bounds
from tacit.query.postprocess.cells import Cell, CellConfidence, Draw, Ends, Event, around
from tacit.query.postprocess.rounding import Direction, value_at, value_of_ratio
from tacit.query.types import Domain, Range, SqlType, Value

__all__ = ["MeanEstimate", "Spread"]

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


@dataclass(frozen=True, eq=False)
class Spread(_Moments):
    """VARIANCE or STDDEV.

    Args:
        noisy_squares: the noisy sum of centred squares, in squared steps.
        squares_draw: its noise.
        most: the largest population variance there can be, in squared steps.
        sample: whether to divide by n - 1.
        root: whether to take the square root.
    """

    noisy_squares: Fraction
    squares_draw: Draw
    most: Fraction
    sample: bool
    root: bool

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Count, sum and squares."""
        return frozenset((self.count_draw, self.sum_draw, self.squares_draw))

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
