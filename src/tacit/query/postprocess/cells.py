"""Released cell: value, noise events and interval.

An **event** is a statement about noise that fails with a chosen probability, such as "this count's noise is at most
w". A cell that depends on k distinct events has an interval at confidence 1-β if each event fails with probability β/k
(union bound). Events are shared: the count in ``SUM(x) / COUNT(*)`` and in ``COUNT(*)`` is one event.

*The truth* of a cell is the value of the same formula on the exact integers, before noise: after clamping, rounding to
the public step and dropping of groups, which an interval does not cover.

*Quotients.* For the true quotient r = a/b the sum a - r·b is 0, so that the released A - r·B is noise alone, whose law
is known. The interval contains every r at which that noise would be no larger than its 1-β quantile: one test at one
fixed but unknown r (Fieller 1954), instead of one interval for a and one for b. Draws that a and b share, as in a
share of a total, enter with their weight in the difference.

Quotients are parametrised as r = s·λ·v/(1-v) with a sign s, a public λ and v from 0 to 1, so that v = 1 is a divisor of
0. The range of v is cut into cells; the noise in a cell is that at its middle plus the effect of the change of weights
up to its ends, for which the proof uses a small part of β (``intervals.proof.md``).
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, Self

from tacit.core.numbers import float_nearest
from tacit.query.contribution import MOST_WIDENED
from tacit.query.planning.noise import NoiseLaw, NoiseTerm, independent_noises, sum_error
from tacit.query.types import (
    DECIMAL_DIGITS,
    INTEGER_RANGE,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    finite,
    from_ordinal,
    ordinal,
)

# -- rounding of exact places to values of a type


Direction = Literal["nearest", "down", "up"]


@lru_cache(maxsize=64)
def type_range(kind: SqlType) -> Range:
    """Return the range of all values of a type, as ordinals: the outermost ends of any interval."""
    match kind.kind:
        case Kind.BOOLEAN:
            return Range(Fraction(0), Fraction(1))
        case Kind.INTEGER:
            return Range(*map(Fraction, INTEGER_RANGE))
        case Kind.DECIMAL:
            most = Fraction(10**DECIMAL_DIGITS - 1, 10**kind.scale)
            return Range(-most, most)
        case Kind.DATE:
            return Range(ordinal(dt.date.min, kind), ordinal(dt.date.max, kind))
        case Kind.TIMESTAMP:
            return Range(ordinal(dt.datetime.min, kind), ordinal(dt.datetime.max, kind))
        case _:
            return Range(None, None)


def value_at(place: Fraction | None, kind: SqlType, direction: Direction = "nearest") -> Value | None:
    """Return the value of a type next to a place; beyond the type's range, its first or last value.

    ``None`` is an infinite place in the given direction.
    """
    if not kind.is_ordered:
        return None
    if place is not None:
        return value_of_ratio(place.numerator, place.denominator, kind, direction)
    if kind.kind is Kind.DOUBLE:
        return sys.float_info.max if direction == "up" else -sys.float_info.max
    low, high = _grid_ends(kind)
    return _on_grid(high if direction == "up" else low, kind)


def value_of_ratio(top: int, bottom: int, kind: SqlType, direction: Direction = "nearest") -> Value | None:
    """Return :func:`value_at` for the place ``top / bottom`` with ``bottom`` above 0; faster than with a Fraction."""
    if kind.kind is Kind.DOUBLE:
        return _double(top, bottom, direction)
    if kind.kind is Kind.INTEGER:
        return min(max(_whole(top, bottom, direction), INTEGER_RANGE[0]), INTEGER_RANGE[1])
    if kind.kind is Kind.DECIMAL:
        top *= 10**kind.scale
    low, high = _grid_ends(kind)
    return _on_grid(min(max(_whole(top, bottom, direction), low), high), kind)


@lru_cache(maxsize=64)
def _grid_ends(kind: SqlType) -> tuple[int, int]:
    """Return the first and the last place of a type, in its steps."""
    low, high = type_range(kind).ends or (Fraction(0), Fraction(0))
    step = kind.step or Fraction(1)
    return int(low / step), int(high / step)


def _on_grid(whole: int, kind: SqlType) -> Value | None:
    return from_ordinal(whole * (kind.step or Fraction(1)), kind)


def _double(top: int, bottom: int, direction: Direction) -> float:
    try:
        # Python rounds the quotient of two integers correctly.
        nearest = top / bottom
    except OverflowError:
        return sys.float_info.max if top > 0 else -sys.float_info.max
    if direction == "nearest":
        return nearest + 0.0
    over, under = nearest.as_integer_ratio()
    excess = over * bottom - top * under
    if direction == "down":
        return (math.nextafter(nearest, -sys.float_info.max) if excess > 0 else nearest) + 0.0
    return (math.nextafter(nearest, sys.float_info.max) if excess < 0 else nearest) + 0.0


def _whole(top: int, bottom: int, direction: Direction) -> int:
    if direction == "down":
        return top // bottom
    return -(-top // bottom) if direction == "up" else (2 * top + bottom) // (2 * bottom)


# -- cells


#: Any hashable value: two cells that depend on the same event have equal values for it.
Event = Hashable
#: The low and the high end of an interval.
Ends = tuple[Value | None, Value | None]


@dataclass(frozen=True, slots=True)
class Draw:
    """The event that the noise of one released integer is small: of measurement ``measure`` in group ``group``."""

    measure: int
    group: int


@dataclass(frozen=True, slots=True)
class MeasureBias:
    """Largest difference between the true and the noisy number of a measurement, beyond noise, in steps.

    Args:
        down: of a truth below the noisy number, in one cell.
        up: of a truth above the noisy number, in one cell.
        all_down: below, summed over all cells.
        all_up: above, summed over all cells.
        outside: whether values may be outside the clipping bounds of the measurement.
        relative: above, in one cell, per unit of its number; used where cells share the loss in proportion.
    """

    down: Fraction
    up: Fraction
    all_down: Fraction
    all_up: Fraction
    outside: bool = False
    relative: Fraction = Fraction(0)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing is left out."""
        return not (self.down or self.up or self.relative)

    def up_of(self, number: Fraction) -> Fraction:
        """Return the largest upward difference in a cell whose number, without noise, is at most this."""
        return self.up + self.relative * max(number, Fraction(0))


def as_shown(
    plain: Sequence[tuple[Ends, ...]],
    wide: Sequence[tuple[Ends, ...]],
    sure: Sequence[tuple[Ends, ...]],
    kinds: Sequence[SqlType],
) -> tuple[tuple[Ends, ...], ...]:
    """Return the shown interval per cell: with the bias, or with what is sure of it if that is three times as wide."""
    return tuple(
        tuple(
            known if not kind.is_ordered or exceeds(own, other, kind) else other
            for own, other, known, kind in zip(*ends, kinds, strict=True)
        )
        for ends in zip(plain, wide, sure, strict=True)
    )


def exceeds(own: Ends, wide: Ends, kind: SqlType) -> bool:
    """Whether ``wide`` is at least three times as wide as ``own``; true if only ``wide`` lacks an end."""
    if own[0] is None or own[1] is None:
        return False
    if wide[0] is None or wide[1] is None:
        return True
    (low, high), (lowest, highest) = ([ordinal(end, kind) for end in pair if end is not None] for pair in (own, wide))
    return highest - lowest >= MOST_WIDENED * (high - low) and highest - lowest > high - low


class CellConfidence:
    """A failure probability for each event of a cell, and the half-widths that follow from it.

    ``biases``, one per measurement, widen enclosures by the bias of bounding; None for noise alone.
    """

    def __init__(self, laws: Sequence[NoiseLaw], beta: Fraction, biases: Sequence[MeasureBias] | None = None) -> None:
        self.laws = tuple(laws)
        self.beta = beta
        self.biases = biases
        self.memory: dict[Cell, Domain] = {}
        self._widths: dict[int, Fraction] = {}
        self._sums = NoiseSums(self.laws, beta)
        self._others: dict[Fraction, CellConfidence] = {}
        self._tallies: dict[int, tuple[Affine, Counter[tuple[int, Fraction]]]] = {}

    def half_width(self, measure: int) -> Fraction:
        """Bound the error of one draw of this measurement, in steps."""
        if measure not in self._widths:
            self._widths[measure] = self.laws[measure].error(self.beta)
        return self._widths[measure]

    def sum_half_width(self, weights: Mapping[Draw, Fraction]) -> Fraction:
        """Bound the error of a weighted sum of draws."""
        return self._sums.half_width(weights)

    def tally(self, affine: Affine) -> Counter[tuple[int, Fraction]]:
        """Count the draws of each measurement and weight; cached, since many cells read the same long sum."""
        known = self._tallies.get(id(affine))
        if known is None:
            counted = Counter((draw.measure, weight) for draw, weight in affine.weights.items())
            # The sum is kept with its tally, so that its id stays its own.
            known = self._tallies[id(affine)] = affine, counted
        return known[1]

    def at(self, beta: Fraction) -> CellConfidence:
        """Return the confidence at another failure probability, for cells that divide theirs among several tests."""
        if beta not in self._others:
            self._others[beta] = CellConfidence(self.laws, beta, self.biases)
        return self._others[beta]


class NoiseSums:
    """Error bounds of weighted sums of draws, each at one failure probability.

    Entries of released vectors have independent noises (:class:`~tacit.query.planning.noise.NoiseLaw`), so that a sum
    of draws is a sum of independent noises once the weights of each entry are added up. Measurements whose vector is
    not known may share noise, so each gets a part of the failure probability (union bound).
    """

    def __init__(self, laws: Sequence[NoiseLaw], beta: Fraction) -> None:
        self.laws = laws
        self.beta = beta
        self._known: dict[Hashable, Fraction] = {}

    def half_width(self, weights: Mapping[Draw, Fraction]) -> Fraction:
        """Return the w that the sum exceeds in size with probability at most beta."""
        tally: dict[int, Counter[Fraction]] = {}
        for draw, weight in weights.items():
            tally.setdefault(draw.measure, Counter())[abs(weight)] += 1
        sources = [self.laws[measure].source for measure in tally]
        shared = len(set(sources)) < len(sources) - sources.count(None) + (None in sources)
        if shared or any(self.laws[measure].cells is not None for measure in tally):
            return self._shared(weights)
        shape = tuple((measure, tuple(sorted(counts.items()))) for measure, counts in sorted(tally.items()))
        if shape not in self._known:
            apart = {measure: counts for measure, counts in shape if self.laws[measure].source is None}
            parts = [_terms(self.laws[measure], counts) for measure, counts in apart.items()]
            together = [(measure, counts) for measure, counts in shape if measure not in apart]
            parts += [[term for measure, counts in together for term in _terms(self.laws[measure], counts)]]
            self._known[shape] = self._total([part for part in parts if part])
        return self._known[shape]

    def _shared(self, weights: Mapping[Draw, Fraction]) -> Fraction:
        """Return the half-width for measurements that share noise (one vector, or levels): collect the noises first."""
        known = {draw: weight for draw, weight in weights.items() if self.laws[draw.measure].source is not None}
        apart: dict[int, list[tuple[Fraction, int]]] = {}
        for draw, weight in weights.items():
            if draw not in known:
                apart.setdefault(draw.measure, []).append((abs(weight), 1))
        tally = independent_noises((known,), self.laws)
        together = sorted((kind, scale, abs(weight), count) for (kind, scale, (weight,)), count in tally.items())
        shape = (tuple(together), tuple(sorted((measure, tuple(sorted(part))) for measure, part in apart.items())))
        if shape not in self._known:
            parts = [_terms(self.laws[measure], counts) for measure, counts in shape[1]]
            self._known[shape] = self._total(
                [part for part in (*parts, [NoiseTerm(*term) for term in together]) if part]
            )
        return self._known[shape]

    def _total(self, parts: Sequence[Sequence[NoiseTerm]]) -> Fraction:
        return sum((sum_error(part, self.beta / len(parts)) for part in parts), Fraction(0))


def _terms(law: NoiseLaw, counts: Sequence[tuple[Fraction, int]]) -> list[NoiseTerm]:
    signs = law.terms // law.copies
    return [
        NoiseTerm(kind, scale, weight * law.unit * own, count * signs * number)
        for weight, count in counts
        for kind, scale, own, number in law.noises
    ]


@dataclass(frozen=True, slots=True)
class Affine:
    """``constant + Σ weight·draw``: the interval of a sum of released integers is tighter than that of a box."""

    weights: Mapping[Draw, Fraction]
    value: Fraction
    step: Fraction | None = None
    #: Whether the truth is 0 or more for certain.
    not_negative: bool = False

    def scaled(self, factor: Fraction) -> Affine:
        """Multiply every term by a public number."""
        step = None if self.step is None else abs(factor) * self.step
        weights = {draw: factor * weight for draw, weight in self.weights.items()}
        return Affine(weights, factor * self.value, step or None, self.not_negative and factor >= 0)

    def plus(self, other: Affine) -> Affine:
        """Return the sum; the weights of common draws add up."""
        return Affine.total((self, other))

    @staticmethod
    def total(parts: Sequence[Affine]) -> Affine:
        """Return the sum of at least one part; the weights of common draws add up."""
        weights: dict[Draw, Fraction] = {}
        for part in parts:
            for draw, weight in part.weights.items():
                weights[draw] = weights[draw] + weight if draw in weights else weight
        steps = {part.step for part in parts}
        kept = {draw: weight for draw, weight in weights.items() if weight}
        value = sum((part.value for part in parts), Fraction(0))
        step = steps.pop() if len(steps) == 1 else None
        return Affine(kept, value, step, all(part.not_negative for part in parts))

    def enclose(self, level: CellConfidence) -> Domain:
        """Return the value ± its half-width, widened by the bias if the level has biases."""
        width = level.sum_half_width(self.weights)
        around = Range(self.value - width, self.value + width)
        around = around.clamped(Fraction(0), None) if self.not_negative else around
        if level.biases is not None:
            down, up = self._bias(level.biases, width)
            around = Range(self.value - width - down, self.value + width + up)
            around = around.clamped(Fraction(0), None) if self.not_negative and not down else around
        return Domain(around, False, None, self.step)

    def _bias(self, biases: Sequence[MeasureBias], width: Fraction) -> tuple[Fraction, Fraction]:
        """Return the bias of the sum; cells of a measurement share its total bias, so the largest weight counts."""
        parts: dict[int, list[Fraction]] = {}
        for draw, weight in self.weights.items():
            parts.setdefault(draw.measure, []).append(weight)
        ends = [Fraction(0), Fraction(0)]
        for measure, weights in parts.items():
            bias, alone = biases[measure], len(weights) == 1
            largest = max(map(abs, weights))
            number = self.value / weights[0] if len(self.weights) == 1 else abs(self.value) / largest
            number += width / largest
            below, above = (bias.down, bias.up_of(number)) if alone else (bias.all_down, bias.all_up)
            least, most = min(*weights, Fraction(0)), max(*weights, Fraction(0))
            ends[0] += max(most * below, -least * above)
            ends[1] += max(most * above, -least * below)
        return ends[0], ends[1]


def linear_events(affine: Affine) -> frozenset[Event]:
    """Return the event that a weighted sum of noise is small; for one term, the event of its draw."""
    if len(affine.weights) <= 1:
        return frozenset(affine.weights)
    return frozenset((frozenset(affine.weights.items()),))


class Cell(ABC):
    """One cell: :attr:`value` is released; the other attributes serve its interval."""

    type: SqlType
    value: Value | None
    events: frozenset[Event]
    #: Number of events of each cell of the class; None if it varies or columns have no faster method.
    event_count: ClassVar[int | None] = None

    @property
    def affine(self) -> Affine | None:
        """The cell as a weighted sum of draws; None if it is not one."""
        return None

    @abstractmethod
    def _enclose(self, level: CellConfidence) -> Domain:
        """Return an enclosure of the truth, valid if all events of the cell hold at this level."""

    def enclose(self, level: CellConfidence) -> Domain:
        """Return :meth:`_enclose`, cached and widened by the bias."""
        known = level.memory.get(self)
        if known is None:
            known = self._enclose(level)
            if level.biases is not None:
                known = self._widened(known, level.biases)
            level.memory[self] = known
        return known

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:  # noqa: ARG002 - of released cells
        """Widen an enclosure by the bias of bounding; a cell made of other cells has the bias from them."""
        return known

    def ends(self, level: CellConfidence) -> Ends:
        """Return the enclosure as values of the cell's (ordered) type, widened to contain the value.

        Ends are rounded inwards if the truth is a multiple of the type's step, as a count is, and otherwise outwards.
        """
        span = self.enclose(level).range
        low, high = roundings(None if self.affine is None else self.affine.step, self.type)
        return around(self.value, value_at(span.low, self.type, low), value_at(span.high, self.type, high))

    @classmethod
    def column_ends(cls, cells: Sequence[Self], level: CellConfidence) -> list[Ends]:
        """Return the ends of many cells; a class with a faster method for columns sets :attr:`event_count`."""
        return [cell.ends(level) for cell in cells]


def roundings(step: Fraction | None, kind: SqlType) -> tuple[Direction, Direction]:
    """Return the rounding directions of the low and the high end, for a truth that is a multiple of ``step``."""
    whole = step is not None and kind.step is not None and (step / kind.step).denominator == 1
    return ("up", "down") if whole else ("down", "up")


def around(value: Value | None, low: Value | None, high: Value | None) -> Ends:
    """Return the ends, moved to include the value; rounded ends and the value are of one type."""
    if value is None or low is None or high is None:
        return low, high
    return min(low, value), max(high, value)


@dataclass(frozen=True, eq=False)
class Exact(Cell):
    """A public value: a key, a constant, a number of rows."""

    value: Value | None
    type: SqlType
    events: frozenset[Event] = field(default=frozenset(), init=False)

    @property
    def affine(self) -> Affine | None:
        """The constant, if it is a number; None otherwise."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float, Fraction)):
            return None
        return Affine({}, Fraction(self.value), None, self.value >= 0)

    def _enclose(self, level: CellConfidence) -> Domain:  # noqa: ARG002 - certain at every level
        if self.value is None:
            return Domain(UNKNOWN, True, (None,), self.type.step)
        return finite((self.value,), self.type, nullable=False)


# -- quotients of two sums


#: Cells of equal width into which [0, 1] is cut, on each side of 0.
_CELLS = 256
#: Parts of the failure probability: test at the middle of a cell, change up to its ends, size of the dividend.
_TEST, _WAY, _SIZE = Fraction(196, 200), Fraction(1, 200), Fraction(3, 200)
#: Relative and absolute margins far above the rounding error of floats.
_MARGIN, _SLACK = 1 + 1e-9, 1e-12
_NOWHERE = (1.0, 1.0)
#: The longest sum whose weights name its event.
_MOST_NAMED = 64
_Pair = tuple[str, Fraction, Fraction, Fraction]
_Span = tuple[Fraction, Fraction]


def ratio_event(top: Affine, bottom: Affine) -> Event:
    """Return the event that the test of the true quotient accepts it."""
    named = frozenset(bottom.weights.items()) if len(bottom.weights) <= _MOST_NAMED else id(bottom)
    return "ratio", frozenset(top.weights.items()), named


def ratio_range(top: Affine, bottom: Affine, level: CellConfidence) -> Range | None:
    """Return the range of all quotients that the test accepts; None if noises may be dependent or one side has none.

    Where the divisor may be 0, the truth is NULL, or the divisor is at least one step in size.
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
    """Return the independent noises with their weights in dividend and divisor, and the number of equal ones."""
    laws = level.laws
    draws = level.tally(bottom) + Counter({(draw.measure, Fraction(0)): 0 for draw in top.weights})
    measures = {measure for measure, _ in draws} | {draw.measure for draw in top.weights}
    sources = [laws[measure].source for measure in measures]
    if None in sources:
        return None
    found: Counter[_Pair] = Counter()
    if len(set(sources)) == len(sources) and all(laws[measure].cells is None for measure in measures):
        # No two measurements are read off one vector: the noises of any two draws are independent.
        for draw, weight in top.weights.items():
            other = bottom.weights.get(draw)
            if other is not None:
                draws[draw.measure, other] -= 1
            _add(found, laws[draw.measure], weight, other or Fraction(0), 1)
        for (measure, weight), count in draws.items():
            if count:
                _add(found, laws[measure], Fraction(0), weight, count)
    else:
        for (kind, scale, (above, below)), count in independent_noises((top.weights, bottom.weights), laws).items():
            found[_signed(kind, scale, above, below)] += count
    return tuple(sorted((pair, count) for pair, count in found.items() if count and (pair[2] or pair[3])))


def _add(found: Counter[_Pair], law: NoiseLaw, above: Fraction, below: Fraction, count: int) -> None:
    for kind, scale, own, number in law.noises:
        pair = _signed(kind, scale, above * law.unit * own, below * law.unit * own)
        found[pair] += count * number * law.terms // law.copies


def _signed(kind: str, scale: Fraction, above: Fraction, below: Fraction) -> _Pair:
    """Return the pair with a positive leading weight: noise is symmetric, so both signs may be flipped together."""
    return (kind, scale, above, below) if (above or below) > 0 else (kind, scale, -above, -below)


@dataclass(frozen=True, eq=False)
class _RatioTest:
    """Fieller test of quotients under one public noise law."""

    pairs: tuple[tuple[_Pair, int], ...]
    beta: Fraction
    known: dict[tuple[int, int], float]

    def error(self, above: Fraction, below: Fraction, beta: Fraction) -> Fraction:
        """Bound the error of ``above``·dividend + ``below``·divisor."""
        terms = [NoiseTerm(kind, scale, above * a + below * b, count) for (kind, scale, a, b), count in self.pairs]
        return sum_error(terms, beta)

    @cached_property
    def dividend_error(self) -> Fraction:
        """Half-width of the dividend alone, for the case that the divisor may be 0."""
        return self.error(Fraction(1), Fraction(0), self.beta * _SIZE)

    @cached_property
    def box(self) -> _Span:
        """Half-widths of dividend and divisor that hold jointly."""
        each = self.beta * (_TEST + _WAY) / 2
        return self.error(Fraction(1), Fraction(0), each), self.error(Fraction(0), Fraction(1), each)

    @cached_property
    def scale(self) -> Fraction:
        """λ: approximately the quotient at which the noises of dividend and divisor have equal weight."""
        above, below = self.box
        return Fraction(2) ** round(math.log2(float_nearest(above / below)))

    @cached_property
    def way(self) -> Fraction:
        """Bound on the change of the noise from the middle of a cell to its ends."""
        each = self.beta * _WAY / 2
        above, below = self.error(Fraction(1), Fraction(0), each), self.error(Fraction(0), Fraction(1), each)
        return (above + self.scale * below) / (2 * _CELLS)

    def width(self, cell: int, sign: int) -> float:
        """Return the largest absolute noise that the test accepts, for every place of a cell."""
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
        """Return the least and the largest accepted quotient, rounded outwards; None for an infinite end."""
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
        """Return the least and the largest accepted v on one side of 0: those with small |top·(1-v) - bottom·v|."""
        slope = -top - bottom
        # Far above the rounding error of the floats below.
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
    """Return the part of an interval of v in which |start + slope·v| <= width + growth·v."""
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
    """Return the range of quotients that a test at level ``beta`` accepts; ``pairs``: noises with both weights."""
    test = _test(pairs, beta)
    return (None, None) if test is None else test.quotients(top, bottom)


@lru_cache(maxsize=1024)
def _test(pairs: tuple[tuple[_Pair, int], ...], beta: Fraction) -> _RatioTest | None:
    test = _RatioTest(pairs, beta, {})
    return test if all(test.box) else None
