"""AVG whose count n and centred sum s were released as two totals, A = hn + s and B = hn - s, with Laplace noise each.

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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from tacit.core.numbers import float_nearest
from tacit.query.after.cells import Event, Level
from tacit.query.after.moments import Mean
from tacit.query.domains import Domain, Range

__all__ = ["JointMean", "PlaceEvent"]

#: Cells of equal width into which [0, 1] is cut; each enlarges the interval by at most its width, relatively.
_CELLS = 32
#: Larger than the rounding of the floats below, by far.
_MARGIN = 1 + 1e-9
_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class PlaceEvent:
    """The event that the test of a mean's true place goes well."""

    measure: int
    group: int


@dataclass(frozen=True, eq=False)
class JointMean(Mean):
    """AVG from two totals.

    Args:
        half: h, the largest distance from the centre, in steps.
        scale: of the noise of each total; 0 for none.
    """

    half: int
    scale: Fraction

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """The one test."""
        return frozenset((PlaceEvent(self.sum_draw.measure, self.sum_draw.group),))

    def _enclose(self, level: Level) -> Domain:
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
