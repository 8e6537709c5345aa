"""``CLAMP(x, AUTO)``: clipping bounds found privately within the stated cost.

1. *Search.* A share of the cost, a tenth unless weighed otherwise, buys noisy counts of the values of x in fixed,
   public cells: powers of two (times the step of a type that has one), zero, and the same below zero. Each unit adds
   one value, chosen by a keyed hash; there are no groups. More values per unit would not help: noise grows with the
   number of values that a unit may add, counts only with the number that it has.
2. *Choice.* Bounds are read off the noisy counts (:func:`choose`): post-processing, free.
3. *The rest* of the cost pays for the query as if the analyst had stated these bounds.

The share, the cells, the charge and every refusal are functions of text and metadata. The bounds found are released
values; stage 3 depends on the data only through them and its own noise. Several AUTO columns share the search.

Until bounds are found, measurements have bounds of :data:`MOST_STEPS` steps of 1, the largest that a search can find,
so that an engine that accepts a quote also accepts the query.

Proof: ``auto_bounds.proof.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tacit.mechanisms.base import per_output_beta
from tacit.query.planning.measures import (
    MOST_COMMON,
    Measure,
    MeasureKind,
    categories_measure,
    grid_step,
    leaves_measure,
    sum_measure,
)
from tacit.query.planning.noise import NoiseLaw
from tacit.query.query import Aggregate, FinalAggregation
from tacit.query.relational import ownership
from tacit.query.relational.algebra import reference
from tacit.query.relational.expressions import Case, Expression, Reference, literal
from tacit.query.relational.functions import call, case
from tacit.query.types import INTEGER, Domain, Kind, Range, SqlType, from_ordinal

#: Lower and upper clipping bound of one value, in ordinals.
Bounds = tuple[Fraction, Fraction]
#: Weight of the remaining query relative to a search of weight 1: a tenth of the cost goes to the search.
_REST: Final = 9
#: Probability, at most, that any empty cell is mistaken for an inhabited one.
FALSE_CELL: Final = Fraction(1, 1000)
#: Probability, at most, that an empty cell next to an inhabited one is mistaken for inhabited: an error that only
#: doubles a bound may be more likely than one that puts it anywhere.
_FALSE_NEIGHBOUR: Final = Fraction(1, 20)
#: If noise may hide more than this share of the values in the next cell, the bounds include that cell.
_HIDDEN: Final = Fraction(1, 100)
#: A lower bound of at most this share of the upper one gains little and is replaced by 0.
_NEAR_ZERO: Final = Fraction(1, 4)
#: Bounds found are at most this many steps from zero; a finer step is made coarser by powers of two.
MOST_STEPS: Final = 2**32
#: Upper edge of the smallest nonzero cell of a DOUBLE; of the largest cell of INTEGER and DOUBLE; and of the largest
#: cell of DECIMAL, in steps.
_SMALLEST: Final = Fraction(1, 2**32)
_LARGEST: Final = 2**62
_LARGEST_DECIMAL: Final = 2**59


@dataclass(frozen=True, slots=True)
class Sought:
    """A value whose bounds are searched: argument and FILTER of measurements, and the labels of the aggregates."""

    argument: Expression
    where: Expression | None
    name: str = field(compare=False, default="")

    @property
    def counted(self) -> Expression:
        """The value, NULL where the FILTER does not hold."""
        if self.where is None:
            return self.argument
        return case([(self.where, self.argument)], literal(None, self.argument.type))


@dataclass(frozen=True, slots=True)
class Found:
    """Bounds that a search found for the value ``name``: a released value."""

    name: str
    low: Fraction
    high: Fraction

    def __str__(self) -> str:
        return f"values of {self.name} within [{_shown(self.low)}, {_shown(self.high)}]"


def _shown(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"


def sought(final: FinalAggregation) -> tuple[Sought, ...]:
    """Return the values of a query whose bounds are searched, each once, in order."""
    readers: dict[Sought, list[str]] = {}
    for index, measure in enumerate(final.measures):
        if measure.auto and measure.argument is not None:
            labels = [a.label for a in final.aggregates if index in a.measures]
            readers.setdefault(Sought(measure.argument, measure.where), []).extend(labels)
    return tuple(replace(value, name=", ".join(dict.fromkeys(labels))) for value, labels in readers.items())


def provisional(argument: Expression) -> Bounds:
    """Return provisional bounds of a value, in steps of 1, which hold until its bounds are found."""
    span, most = argument.range, Fraction(MOST_STEPS)
    return (Fraction(0) if _is_positive(span) else -most, Fraction(0) if _is_negative(span) else most)


def _is_positive(span: Range) -> bool:
    return span.low is not None and span.low >= 0


def _is_negative(span: Range) -> bool:
    return span.high is not None and span.high <= 0


def search_shares(weights: Sequence[tuple[Fraction, Fraction]], *, squared: bool) -> tuple[Fraction, ...]:
    """Return the shares of a budget for searches, from pairs (stated weight, weight of the kind of search).

    ``squared``: whether the currency composes squares; see :mod:`tacit.query.planning.pricing`.
    """
    claims = [worth * (weight * weight if squared else weight) for weight, worth in weights]
    return tuple(claim / (sum(claims) + _REST) for claim in claims)


def edges_of(argument: Expression) -> tuple[Fraction, ...]:
    """Return the edges of the public cells of a value; cell i lies between edges i and i + 1.

    Sizes of edges are 0 and the smallest step times powers of two. Zero is a separate cell, so that 0 occurs twice
    among the edges. A cell contains its edge that is further from zero. Values beyond the last edge count in the last
    cell.
    """
    span, step = argument.range, argument.type.step
    first = _SMALLEST if step is None else step
    largest = first * _LARGEST_DECIMAL if argument.type.kind is Kind.DECIMAL else _LARGEST
    if span.ends is not None:
        largest = min(largest, max(abs(end) for end in span.ends))
    sizes = [first]
    while sizes[-1] < largest:
        sizes.append(2 * sizes[-1])
    below = [] if _is_positive(span) else [-size for size in reversed(sizes)]
    above = [] if _is_negative(span) else sizes
    return (*below, Fraction(0), Fraction(0), *above)


def search_of(final: FinalAggregation) -> FinalAggregation:
    """Return the search: counts in the cells of every searched value, over the same rows, without groups."""
    values = sought(final)
    # In two steps, so that an engine computes a value once per row, and then the number of its cell once.
    source = ownership.compute(final.source, [(None, value.counted) for value in values])
    cells = [(None, _cell(i, value.argument.type, edges_of(value.argument))) for i, value in enumerate(values)]
    source = ownership.compute(source, cells)
    measures = tuple(
        categories_measure(reference(source, i), None, values=tuple(range(len(edges_of(value.argument)) - 1)), rows=1)
        for i, value in enumerate(values)
    )
    aggregates = tuple(
        Aggregate(MOST_COMMON, (i,), Fraction(1), INTEGER, None, f"the bounds of {value.name}")
        for i, value in enumerate(values)
    )
    return FinalAggregation(source, (), measures, aggregates, 1, True, 1)


def by_halving(cells: int, below: Callable[[int], Expression], factor: int = 1) -> Expression:
    """Return the number of a value's cell, times ``factor``; ``below(i)`` tests if the value is in a cell before i."""

    def among(first: int, last: int) -> Expression:
        if first == last:
            return literal(factor * first, INTEGER)
        middle = (first + last + 1) // 2
        known = Domain(Range(Fraction(factor * first), Fraction(factor * last)), False, None, Fraction(1))
        return Case(INTEGER, known, ((below(middle), among(first, middle - 1)),), among(middle, last))

    return among(0, cells - 1)


@lru_cache(maxsize=64)
def _cell(slot: int, kind: SqlType, edges: tuple[Fraction, ...]) -> Expression:
    """Return the number of the cell of a column's value by binary search; NULL for NULL."""
    zero, value = edges.index(0), Reference(kind, Domain(), slot, "value")

    def below(cell: int) -> Expression:
        return call("lt" if cell <= zero else "le", value, literal(from_ordinal(edges[cell], kind), kind))

    number = by_halving(len(edges) - 1, below)
    known = Domain(number.range, True, None, Fraction(1))
    return Case(INTEGER, known, ((call("is_null", value), literal(None, INTEGER)),), number)


def find(final: FinalAggregation, noisy: Sequence[Any], laws: Sequence[NoiseLaw]) -> tuple[Bounds, ...]:
    """Return the bounds of every searched value, from the noisy counts of the search."""
    return tuple(
        choose(value.argument, [int(count) for count in counts[0]], law)
        for value, counts, law in zip(sought(final), noisy, laws, strict=True)
    )


def choose(argument: Expression, noisy: Sequence[int], law: NoiseLaw) -> Bounds:
    """Return bounds from the noisy counts of cells.

    A cell counts as inhabited if its count exceeds what noise reaches in any of as many empty cells with probability
    :data:`FALSE_CELL`. From the outermost inhabited cells the bounds move outwards while the next count exceeds what
    noise reaches in one empty cell with probability 1/20, and by one more cell if noise may hide more than a
    hundredth of the values there. A lower bound near zero becomes 0, which costs little. If no cell is inhabited, the
    bounds are the ends of the value's range, or, without both ends, [-1, 1] cut to the end that there is.
    """
    edges = edges_of(argument)
    sure = law.error(2 * per_output_beta(FALSE_CELL, len(noisy)))
    likely = law.error(2 * _FALSE_NEIGHBOUR)
    inhabited = [i for i, count in enumerate(noisy) if count > sure]
    if not inhabited:
        return argument.range.ends or _within(argument.range, Fraction(-1), Fraction(1))
    first, last = inhabited[0], inhabited[-1]
    while first > 0 and noisy[first - 1] > likely:
        first -= 1
    while last + 1 < len(noisy) and noisy[last + 1] > likely:
        last += 1
    if likely > _HIDDEN * sum(noisy[first : last + 1]):
        first, last = max(first - 1, 0), min(last + 1, len(noisy) - 1)
    low, high = edges[first], edges[last + 1]
    if 0 < low <= _NEAR_ZERO * high:
        low = Fraction(0)
    if 0 > high >= _NEAR_ZERO * low:
        high = Fraction(0)
    return _within(argument.range, low, high)


def _within(span: Range, low: Fraction, high: Fraction) -> Bounds:
    """Return the part of [low, high] inside a value's range, or the nearest end of the range."""
    kept = Range(low, high).clamped(span.low, span.high)
    return kept.ends or (low, high)


def bounded(final: FinalAggregation, bounds: Sequence[Bounds]) -> FinalAggregation:
    """Return the aggregation with the bounds found; everything else stays, in its order."""
    known = dict(zip(sought(final), bounds, strict=True))

    def settled(measure: Measure) -> Measure:
        if not measure.auto or measure.argument is None:
            return measure
        return _measured(measure, measure.argument, known[Sought(measure.argument, measure.where)])

    return replace(final, measures=tuple(map(settled, final.measures)))


def with_known_ranges(final: FinalAggregation) -> FinalAggregation:
    """Return the aggregation with known ranges instead of a search where there are any: at no cost, but wider."""

    def known(measure: Measure) -> Measure:
        ends = None if measure.argument is None or not measure.auto else measure.argument.range.ends
        if ends is None or measure.argument is None:
            return measure
        return replace(_measured(measure, measure.argument, ends), auto=False)

    return replace(final, measures=tuple(map(known, final.measures)))


def _measured(measure: Measure, argument: Expression, bounds: Bounds) -> Measure:
    step = _step(argument, bounds)
    if measure.kind in (MeasureKind.LEAVES, MeasureKind.PLACES):
        made = leaves_measure(measure.kind, argument, measure.where, bounds=bounds, step=step, rows=measure.rows)
    else:
        made = sum_measure(measure.kind, argument, measure.where, bounds=bounds, step=step, rows=measure.rows)
    return replace(made, auto=True, auto_rows=measure.auto_rows)


def _step(argument: Expression, bounds: Bounds) -> Fraction:
    """Return the grid of the value, coarsened by powers of two until :data:`MOST_STEPS` steps reach the bounds."""
    step = argument.step or argument.type.step
    if step is None:
        return grid_step(None, argument.type, bounds)
    while max(abs(bounds[0]), abs(bounds[1])) > step * MOST_STEPS:
        step *= 2
    return step
