"""AVG from two jointly released totals with Laplace noise.

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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from tacit.core.numbers import float_nearest
from tacit.query.postprocess.cells import CellConfidence, Ends, Event, around
from tacit.query.postprocess.mean_variance import MeanEstimate
from tacit.query.postprocess.rounding import Direction
from tacit.query.types import Domain, Range, Value

__all__ = ["JointMean"]

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
