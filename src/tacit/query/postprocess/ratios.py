"""Quotients of two sums of released integers: shares, rates and means of cells.

For the true quotient r = a/b the sum a - r·b is 0, so that the released A - r·B is noise alone, whose law is known. The
interval holds every r at which that noise would be no larger than noise of chance β explains: one test, at one fixed if
unknown place (Fieller 1954), instead of one interval for a and one for b. Draws that a and b share, as in a share of a
total, enter with the weight they have in the difference.

Places are r = s·λ·v/(1-v) with a sign s, a public λ and v from 0 to 1, so that v = 1 is a divisor of 0. They are cut
into cells of v; in a cell the noise is that of its middle plus what the weights change up to its ends, which the proof
pays for with a small part of β (``intervals.proof.md``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from tacit.core.numbers import float_nearest
from tacit.query.planning.noise_distribution import NoiseLaw, NoiseTerm, sum_error
from tacit.query.postprocess.cells import Affine, CellConfidence, Draw, Event
from tacit.query.postprocess.level_noises import independent_noises
from tacit.query.types import Range

#: Cells of equal width into which [0, 1] is cut, on each side of 0.
_CELLS = 256
#: Parts of the chance of failure: of the test in the middle of a cell, of the way to its ends, of the dividend's size.
_TEST, _WAY, _SIZE = Fraction(196, 200), Fraction(1, 200), Fraction(3, 200)
#: Larger than the rounding of floats, by far.
_MARGIN, _SLACK = 1 + 1e-9, 1e-12
_NOWHERE = (1.0, 1.0)
#: The longest sum whose weights name its event.
_MOST_NAMED = 64

_Pair = tuple[str, Fraction, Fraction, Fraction]
_Span = tuple[Fraction, Fraction]


def ratio_event(top: Affine, bottom: Affine) -> Event:
    """The event that the test of the true quotient goes well."""
    named = frozenset(bottom.weights.items()) if len(bottom.weights) <= _MOST_NAMED else id(bottom)
    return "ratio", frozenset(top.weights.items()), named


def ratio_range(top: Affine, bottom: Affine, level: CellConfidence) -> Range | None:
    """Every quotient that the test leaves; None where noises may depend on each other, or one side has none.

    Where 0 is a possible divisor the truth is NULL there, or the divisor is at least a step in size.
    """
    pairs = _pairs(top, bottom, level)
    test = None if pairs is None else _test(pairs, level.beta)
    if test is None:
        return None
    low, high = test.quotients(top.value, bottom.value)
    if low is None or high is None:
        if bottom.step is None:
            return Range(None, None)
        most = (abs(top.value) + test.dividend_error) / bottom.step
        low, high = (-most if low is None else max(low, -most)), (most if high is None else min(high, most))
    if top.not_negative and bottom.not_negative:
        low, high = max(low, Fraction(0)), max(high, Fraction(0))
    return Range(low, high)


def _pairs(top: Affine, bottom: Affine, level: CellConfidence) -> tuple[tuple[_Pair, int], ...] | None:
    """Each independent noise with its weights in dividend and divisor, and how many of them are alike."""
    laws = level.laws
    draws = level.tally(bottom) + Counter({(draw.measure, Fraction(0)): 0 for draw in top.weights})
    measures = {measure for measure, _ in draws} | {draw.measure for draw in top.weights}
    sources = [laws[measure].source for measure in measures]
    if None in sources:
        return None
    found: Counter[_Pair] = Counter()
    if any(laws[measure].cells is not None for measure in measures):
        for (kind, scale, (above, below)), count in independent_noises((top.weights, bottom.weights), laws).items():
            found[_signed(kind, scale, above, below)] += count
    elif len(set(sources)) == len(sources):
        # No two measurements are read off one vector: draws are sums of noises of their own.
        for draw, weight in top.weights.items():
            other = bottom.weights.get(draw)
            if other is not None:
                draws[draw.measure, other] -= 1
            _add(found, laws[draw.measure], weight, other or Fraction(0), 1)
        for (measure, weight), count in draws.items():
            if count:
                _add(found, laws[measure], Fraction(0), weight, count)
    else:
        places: dict[tuple[int, int, int], list[Fraction]] = {}
        for side, affine in enumerate((top, bottom)):
            for draw, weight in affine.weights.items():
                for place, part in _places(laws, draw, weight):
                    places.setdefault(place, [Fraction(0), Fraction(0)])[side] += part
        by_source = {laws[measure].source: laws[measure] for measure in measures}
        for (source, _, _), (above, below) in places.items():
            for kind, scale, own, number in by_source[source].noises:
                found[_signed(kind, scale, own * above, own * below)] += number
    return tuple(sorted((pair, count) for pair, count in found.items() if count and (pair[2] or pair[3])))


def _places(laws: Sequence[NoiseLaw], draw: Draw, weight: Fraction) -> Iterator[tuple[tuple[int, int, int], Fraction]]:
    law = laws[draw.measure]
    if law.source is not None:
        for place, sign in enumerate(law.signs):
            yield (law.source, place, draw.group), sign * weight * law.unit


def _add(found: Counter[_Pair], law: NoiseLaw, above: Fraction, below: Fraction, count: int) -> None:
    for kind, scale, own, number in law.noises:
        pair = _signed(kind, scale, above * law.unit * own, below * law.unit * own)
        found[pair] += count * number * law.terms // law.copies


def _signed(kind: str, scale: Fraction, above: Fraction, below: Fraction) -> _Pair:
    """Noise is symmetric, so that both signs may be turned around together."""
    return (kind, scale, above, below) if (above or below) > 0 else (kind, scale, -above, -below)


@dataclass(frozen=True, eq=False)
class _RatioTest:
    """The test of quotients of one public law."""

    pairs: tuple[tuple[_Pair, int], ...]
    beta: Fraction
    known: dict[tuple[int, int], float]

    def error(self, above: Fraction, below: Fraction, beta: Fraction) -> Fraction:
        """Bound the error of ``above``·dividend + ``below``·divisor."""
        terms = [NoiseTerm(kind, scale, above * a + below * b, count) for (kind, scale, a, b), count in self.pairs]
        return sum_error(terms, beta)

    @cached_property
    def dividend_error(self) -> Fraction:
        """Its own half-width, for the case that the divisor may be 0."""
        return self.error(Fraction(1), Fraction(0), self.beta * _SIZE)

    @cached_property
    def box(self) -> _Span:
        """Half-widths of dividend and divisor that hold together."""
        each = self.beta * (_TEST + _WAY) / 2
        return self.error(Fraction(1), Fraction(0), each), self.error(Fraction(0), Fraction(1), each)

    @cached_property
    def scale(self) -> Fraction:
        """λ: about where noise of the dividend and of the divisor weigh alike."""
        above, below = self.box
        return Fraction(2) ** round(math.log2(float_nearest(above / below)))

    @cached_property
    def way(self) -> Fraction:
        """Bound on the change of the noise from the middle of a cell to its ends."""
        each = self.beta * _WAY / 2
        above, below = self.error(Fraction(1), Fraction(0), each), self.error(Fraction(0), Fraction(1), each)
        return (above + self.scale * below) / (2 * _CELLS)

    def width(self, cell: int, sign: int) -> float:
        """The largest size of the noise that the test explains, for every place of a cell."""
        key = cell, sign
        if key not in self.known:
            middle = Fraction(2 * cell + 1, 2 * _CELLS)
            width = self.error(1 - middle, -sign * self.scale * middle, self.beta * _TEST)
            self.known[key] = float_nearest(width + self.way) * _MARGIN
        return self.known[key]

    @cached_property
    def _floats(self) -> tuple[float, float, float]:
        above, below = self.box
        return float_nearest(self.scale), float_nearest(above) * _MARGIN, float_nearest(below * self.scale) * _MARGIN

    def quotients(self, top: Fraction, bottom: Fraction) -> tuple[Fraction | None, Fraction | None]:
        """The least and the largest quotient that is kept, a little outwards; None for one without end."""
        above, below = float_nearest(top), self._floats[0] * float_nearest(bottom)
        left, right = self._side(above, -below, -1), self._side(above, below, 1)
        if left is None and right is None:
            return None, None
        low = self._at(left[1], -1) if left is not None else self._at((right or _NOWHERE)[0], 1)
        high = self._at(right[1], 1) if right is not None else self._at((left or _NOWHERE)[0], -1)
        return low, high

    def _at(self, place: float, sign: int) -> Fraction | None:
        return None if place >= 1 else Fraction(sign * self._floats[0] * place / (1 - place))

    def _side(self, top: float, bottom: float, sign: int) -> tuple[float, float] | None:
        """The least and the largest v that is kept on one side: |top·(1-v) - bottom·v| is not too large there."""
        slope = -top - bottom
        # Larger than the rounding of the floats below, by far.
        slack = _SLACK * (abs(top) + abs(bottom))
        _, above, below = self._floats
        whole = _between((0.0, 1.0), top, slope, above + slack, below - above)
        if whole is None:
            return None
        first, last = int(whole[0] * _CELLS), min(int(whole[1] * _CELLS), _CELLS - 1)

        def kept(cells: range) -> tuple[float, float] | None:
            for cell in cells:
                span = max(whole[0], cell / _CELLS), min(whole[1], (cell + 1) / _CELLS)
                found = _between(span, top, slope, self.width(cell, sign) + slack, 0.0)
                if found is not None:
                    return found
            return None

        lowest, highest = kept(range(first, last + 1)), kept(range(last, first - 1, -1))
        return None if lowest is None or highest is None else (lowest[0], highest[1])


def _between(
    span: tuple[float, float], start: float, slope: float, width: float, growth: float
) -> tuple[float, float] | None:
    """The part of a span of v in which |start + slope·v| <= width + growth·v."""
    low, high = span
    for constant, factor in ((start - width, slope - growth), (-start - width, -slope - growth)):
        # constant + factor·v <= 0
        if factor > 0:
            high = min(high, -constant / factor)
        elif factor < 0:
            low = max(low, -constant / factor)
        elif constant > 0:
            return None
    return (low, high) if low <= high else None


def quotient_range(
    pairs: tuple[tuple[_Pair, int], ...], beta: Fraction, top: Fraction, bottom: Fraction
) -> tuple[Fraction | None, Fraction | None]:
    """The quotients that a test at level ``beta`` leaves; ``pairs`` are independent noises with both their weights."""
    test = _test(pairs, beta)
    return (None, None) if test is None else test.quotients(top, bottom)


@lru_cache(maxsize=1024)
def _test(pairs: tuple[tuple[_Pair, int], ...], beta: Fraction) -> _RatioTest | None:
    test = _RatioTest(pairs, beta, {})
    return test if all(test.box) else None
