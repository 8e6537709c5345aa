"""Test of a variance against a noisy count, a noisy centred sum and noisy centred squares.

In units of a public H, which no value exceeds in distance from the centre: with n the count, s the sum, t the squares,
μ = s/n the mean and ν = t/n - μ² the population variance,

    t - 2μs + (μ² - ν)n = 0

so that the same combination of the released numbers is noise alone: T - 2μS + (μ² - ν)N for the noises of t, s and n.
The interval holds every ν for which some μ that the count and the sum leave possible makes this noise no larger than
noise of chance β explains: one test at one fixed if unknown (μ, ν), and a small part of β for μ. Places are cut into
cells as in :mod:`.ratios`; cells may be of any width, since each is given at least what its places need
(``intervals.proof.md``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

from tacit.core.numbers import float_nearest
from tacit.query.planning.noise_distribution import NoiseLaw, NoiseTerm, sum_error
from tacit.query.postprocess.ratios import quotient_range

#: Parts of the chance of failure: of the test, of the way through a cell (part of the test), of the mean, of the count.
_TEST, _WAY, _MEAN, _COUNT = Fraction(96, 100), Fraction(1, 100), Fraction(2, 100), Fraction(2, 100)
#: Width of the narrowest cell of means and of variances, and how many cells of means are looked at.
_NARROWEST, _MOST_CELLS = 512, 4

#: A mean range wider than this on each side leaves so many cells that a box is narrower; in units of H.
_WIDEST_MEAN = Fraction(16, 100)
#: Larger than the rounding of floats, by far.
_MARGIN, _SLACK = 1 + 1e-9, 1e-12

_Ends = tuple[float, float]
#: Law, scale, and the weights that one independent noise has in the count, the sum and the squares.
_Weights = tuple[str, Fraction, Fraction, Fraction, Fraction]
_ZERO, _ONE = Fraction(0), Fraction(1)


@lru_cache(maxsize=256)
def spread_test(laws: tuple[NoiseLaw, NoiseLaw, NoiseLaw], reach: int, beta: Fraction) -> SpreadTest:
    """The test for a count, a sum and squares with these laws; ``reach`` is H, in steps."""
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
    """The test of variances of one public law."""

    noises: tuple[tuple[_Weights, int], ...]
    beta: Fraction
    known: dict[tuple[int, int, int], float]

    def _error(self, count: Fraction, total: Fraction, squares: Fraction, part: Fraction) -> Fraction:
        """Bound the error of a combination of the three numbers."""
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
        """Bounds on the errors of count and sum, for the way from the middle of a cell to its ends."""
        return self._error(_ONE, _ZERO, _ZERO, _WAY / 2), self._error(_ZERO, _ONE, _ZERO, _WAY / 2)

    @cached_property
    def _box(self) -> tuple[Fraction, Fraction, Fraction]:
        """Bounds on the errors of the three, which together fail no more often than the test."""
        part = _TEST / 3
        return (
            self._error(_ONE, _ZERO, _ZERO, part),
            self._error(_ZERO, _ONE, _ZERO, part),
            self._error(_ZERO, _ZERO, _ONE, part),
        )

    @cached_property
    def fewest(self) -> int:
        """Count from which the test of a variance is narrower than a box; below it a box is the test."""
        return math.ceil(self._error(_ZERO, _ONE, _ZERO, _MEAN) / _WIDEST_MEAN)

    @property
    def box_beta(self) -> Fraction:
        """For each of the three numbers in a box."""
        return self.beta * (1 - _COUNT) / 3

    def _width(self, mean: int, variance: int, cells: int) -> float:
        """The largest noise that the test explains, for all places of a cell: the index-th of width 1/``cells``."""
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
        """The least and the largest variance from 0 to 1 that is kept, from the released numbers in units of H."""
        count, total, squares = map(float_nearest, noisy)
        if count <= 0:
            return 0.0, 1.0
        means = self._means(noisy[0], noisy[1])
        cells = _NARROWEST
        while cells > 1 and (means[1] - means[0]) * cells > _MOST_CELLS:
            cells //= 2
        # Larger than the rounding of the floats below, by far.
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
        # Numbers that no group can have leave nothing; every variance is as good.
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
        """The least variance that is kept with a mean of one cell; 0 where less than 0 may be kept."""
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
        """The largest variance that is kept with a mean of one cell."""
        for index in range(math.floor(most * at.cells), math.floor(least * at.cells) - 1, -1):
            place = min((at.high + self._width(at.mean, index, at.cells)) / at.size, (index + 1) / at.cells, most)
            if place >= index / at.cells:
                return place
        return None


class _Cell(NamedTuple):
    """A cell of means: its index among cells of width 1/``cells``, and the range of t - 2μs + μ²n in it."""

    mean: int
    cells: int
    size: float
    low: float
    high: float


def _squares_about(means: _Ends, count: float, total: float, squares: float) -> _Ends:
    """The least and the largest t - 2μs + μ²n over some means, for n above 0: a parabola."""
    ends = [squares - 2 * mu * total + mu * mu * count for mu in means]
    vertex = total / count
    low = squares - total * vertex if means[0] < vertex < means[1] else min(ends)
    return low, max(ends)


def laws_known(laws: Sequence[NoiseLaw]) -> bool:
    """Whether the vectors of all are known, so that their noises have a joint law."""
    return all(law.source is not None and law.kind != "none" for law in laws)
