"""AUTO contribution bounds, found privately within the stated cost.

1. *Search.* A share of the cost buys noisy counts of units in fixed, public cells, each unit in one: sensitivity 1.
   Where one number bounds a unit, the cell is that number in powers of two: rows of the unit where there is one group
   (``max_rows``; of a sum alone, its total in the largest values), rows in all groups together (``max_rows_total``), or
   groups where people are counted (``max_groups``). Elsewhere it is a pair, (groups of the unit, its rows in one of
   them, chosen by a keyed hash).
2. *Choice.* The limit is the cell edge at which noise and loss together make the narrowest interval (:func:`choose`):
   post-processing, free. The loss is estimated *in rows* from the same counts (:func:`rows_beyond`), and the interval
   that is shown includes it.
3. *The rest* of the cost pays for the query as if the analyst had stated these numbers.

Where the cost is too small to detect any unit, the number is a public default (:data:`DEFAULT_ROWS`), and the answer
says so. ``within`` promises an error before anything runs: with it AUTO means that default, without a search.

The share, the cells, the charge and every refusal are functions of text and metadata. The numbers found are released
values; stage 3 depends on the data only through them and its own noise. No search is bought where declarations decide:
a unit that is in one group, or has one row in each, has the limit 1, and a query that counts only units needs no
``max_rows``.

Why a total: rows of a unit in all groups together are at most ``max_groups`` times ``max_rows``, usually many times
fewer, and Laplace noise is proportional to the total T. Gaussian noise is proportional to √(T·m), with m the rows in
one group: where it may be used, the cells of a second number of each unit are counted too, the rows in the group of its
typical row (Σn²/Σn, n its rows in each group). With private keys, grouping sets, counts of both people and rows,
distinct values or quantiles in groups, the pair is searched.

*``max_rows_total``*, a bound on the rows of one unit in all groups together, stated or found. Where a unit has more
rows than the bound T, they are divided among its groups in proportion (by :mod:`tacit.engines.sql.bounding`): group
g keeps b_g of its rows, and the b_g add up to T, so that one unit moves counts by at most T in l1. Where ``max_groups``
and ``max_rows`` are stated as well, all three hold, and the noise follows the tightest bound. It bounds counts of rows
and values, sums, and the sums behind means and variances; people are counted once in a group, in at most T groups.

Proofs: ``auto_limits.proof.md``, ``total_bound.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tacit.core.numbers import float_nearest, sqrt_bounds
from tacit.mechanisms.base import per_output_beta
from tacit.query.contribution import AUTO, ContributionNumber
from tacit.query.planning.auto_bounds import by_halving
from tacit.query.planning.measures import (
    MOST_COMMON,
    ContributionLimit,
    ContributionLimits,
    Measure,
    MeasureKind,
    categories_measure,
    ceiling,
)
from tacit.query.planning.noise import NoiseLaw, NoiseTerm, sum_error
from tacit.query.planning.work import Sizes
from tacit.query.query import Aggregate, FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, UnitCall, WindowCall, WindowFrame, reference
from tacit.query.relational.expressions import Expression, Reference, literal
from tacit.query.relational.functions import call, in_list
from tacit.query.types import INTEGER, Domain, Kind, Range, SqlType, from_ordinal

if TYPE_CHECKING:
    from tacit.query.planning.releases import Priced


#: Largest limit that a search can find.
MOST_FOUND: Final = 2**16
#: Probability, at most, that any empty cell is mistaken for an inhabited one.
_FALSE_CELL: Final = Fraction(1, 1000)
#: Probability, at most, that an empty cell next to an inhabited one is mistaken for inhabited.
_FALSE_NEIGHBOUR: Final = Fraction(1, 20)
#: Factor of the loss of a pair relative to noise of the same size: the loss recurs in every answer.
_LOSS: Final = 3
#: Confidence level of the upper bounds of losses that are compared.
_BOUNDED: Final = Fraction(9, 10)
#: Default limit of rows, or groups, where nothing is known of the units: public, never derived from data.
DEFAULT_ROWS: Final = 16
#: Default limits of groups, and of rows in each, where both are searched.
DEFAULT_PAIR: Final = (4, 4)
#: Number of cells beyond the last inhabited one in which noise may hide units.
_HIDING: Final = 3
#: Each of these cells is taken to hold this many times fewer units than the previous one.
_FEWER: Final = 3
#: The share of rows left out of one group is at most this many times the share left out of all groups together: each
#: group of a unit loses the same share of rows (``total_bound.proof.md``).
LARGER: Final = 2
#: The loss in an answer without groups is at most this many times the noise, if it can be.
_MOST_LOST: Final = 3
#: Factor of the loss for means: scaling a unit's values down does not change their mean, so the loss matters less.
_OF_MEANS: Final = Fraction(1, 4)
#: Numbers of adjacent cells that are tested together if no single count is significant.
_WINDOWS: Final = (2, 4, 8)
#: Square roots of the limits for which the error is shown before the search.
_LADDER: Final = (1, 2, 4)
#: Factor by which the grid is refined on which errors are compared.
_FINE: Final = 1024
#: The search does not filter rows by longer lists of public keys; undeclared keys then count among a unit's groups.
_MOST_LISTED: Final = 500


@dataclass(frozen=True, slots=True)
class FoundLimits:
    """AUTO limits that a search found: a released value.

    Args:
        groups: ``max_groups``; None if it was not searched.
        rows: ``max_rows``; None if it was not searched.
        seen: whether the count of any cell is significant; if not, the numbers are public defaults.
        total: ``max_rows_total``; None if it was not searched.
        counts: the noisy counts of the search, from which the loss is estimated.
    """

    groups: int | None
    rows: int | None
    seen: bool = True
    total: int | None = None
    counts: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        named = (("max_groups", self.groups), ("max_rows", self.rows), (TOTAL, self.total))
        words = ", ".join(f"{name} {number}" for name, number in named if number is not None)
        return words if self.seen else f"{words} (a default: too few people for a search at this cost)"


@dataclass(frozen=True, slots=True)
class LimitCells:
    """The public cells of a search for AUTO limits.

    Args:
        groups: upper edges of the cells by number of groups, or by rows in all groups where rows in the group of a
            typical row are searched too; (1,) if each unit is in one group.
        rows: upper edges of the cells by rows in a group, or in all groups; (1,) if neither is searched.

    The last cell of each has no upper end.
    """

    groups: tuple[int, ...]
    rows: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.groups) * len(self.rows)

    @property
    def edges(self) -> tuple[int, ...] | None:
        """The upper edges if a cell is a range of one number; None if it is a pair of ranges."""
        return self.rows if len(self.groups) == 1 else self.groups if len(self.rows) == 1 else None


def seeking_total(final: FinalAggregation, *, both: bool) -> FinalAggregation:
    """Return the aggregation with a search for ``max_rows_total``, if the noise follows that number.

    ``both``: whether noise may be Gaussian, and so follows ``max_rows`` too: that is then searched beside it.
    """
    counted = [measure for measure in final.measures if measure.kind is not MeasureKind.UNITS]
    single = len(counted) == len(final.measures) and all(measure.auto_rows for measure in counted)
    if final.limits is None or not (final.keys and final.public_keys and single and can_share(final)):
        return final
    single = final.group_count == 1 or final.limits.groups.single
    if both and (single or _most_of_each(final, final.limits)[1] == 1):
        return final
    sought = replace(final, limits=replace(final.limits, total=ContributionLimit(TOTAL, AUTO), both=both))
    return bounded_in_all(sought, 1, 1, 1) if final.group_count != 1 else final


def searched_cause(final: FinalAggregation) -> str | None:
    """Return the name of the limit whose loss the search itself estimates; None without a search or for a pair."""
    if final.auto_total:
        return TOTAL
    if not final.seeks_limits or cells_of(final).edges is None:
        return None
    return "max_groups" if final.auto_groups else "max_rows"


def search_weight(final: FinalAggregation) -> Fraction:
    """Return the weight of a search: the fewer groups share the loss, the more exact the estimate must be."""
    single = final.auto_total or cells_of(final).edges is not None
    return 1 + Fraction(2, max(final.group_count or 9, 1)) if single else Fraction(1)


def cells_of(final: FinalAggregation) -> LimitCells:
    """Return the cells of a search: powers of two up to the largest number that declarations and ceilings allow."""
    limits, sizes = final.limits, Sizes()
    groups, rows = final.max_groups, 1
    if final.auto_total and limits is not None:
        most_groups, most_rows = _most_of_each(final, limits)
        totals = _edges(min(MOST_FOUND, sizes.rows(final.source), most_groups * most_rows))
        return LimitCells(totals, _edges(min(most_rows, totals[-1]))) if limits.both else LimitCells((1,), totals)
    if final.auto_groups:
        known = [MOST_FOUND, sizes.rows(final.source), final.group_count, limits.groups.most if limits else None]
        groups = min(number for number in known if number is not None)
    if final.auto_rows:
        plain = frozenset(key.expression.slot for key in final.keys if isinstance(key.expression, Reference))
        known = [MOST_FOUND, sizes.repeats(final.source, plain), limits.rows.most if limits else None]
        rows = min(number for number in known if number is not None)
    return LimitCells(_edges(groups), _edges(rows))


def _most_of_each(final: FinalAggregation, limits: ContributionLimits) -> tuple[int, int]:
    """Return the largest ``max_groups`` and ``max_rows`` that declarations, ceilings and the text allow."""
    groups, rows = (
        number_beside(limit, MOST_FOUND, final) if limit.is_auto else limit.number
        for limit in (limits.groups, limits.rows)
    )
    return min(groups, final.group_count or groups), rows


def _edges(most: int) -> tuple[int, ...]:
    """Return the powers of two below ``most``, then ``most``."""
    powers = [2**i for i in range(most.bit_length()) if 2**i < most]
    return (*powers, max(most, 1))


def search_of(final: FinalAggregation) -> FinalAggregation:
    """Return the search: the number of units in each cell, over the same rows, without groups."""
    cells = cells_of(final)
    source = _pairs(final)
    pairs = bool(final.keys) and (not final.auto_total or final.auto_rows)
    rows = len(source.fields) - (2 if pairs else 1)
    # In two steps, so that an engine computes each number once per row.
    mean = reference(source, rows + 1) if pairs and final.auto_total else None
    columns = [_place(source, rows, cells.rows, 1, _summed(final), mean)]
    if pairs:
        columns.append(_place(source, rows + 1, cells.groups, 1 if final.auto_total else len(cells.rows)))
    source = ownership.compute(source, [(None, column) for column in columns])
    # The largest limit follows from declarations that no digest contains, so the name of the release states it.
    names = [f"max_groups up to {cells.groups[-1]}"] if final.auto_groups else []
    names += [f"{TOTAL} up to {(cells.groups if pairs else cells.rows)[-1]}"] if final.auto_total else []
    names += [f"max_rows up to {cells.rows[-1]}"] if final.auto_rows else []
    sought: list[tuple[int, Sequence[int], str]]
    if pairs and final.auto_total:
        sought = [(1, cells.groups, names[0]), (0, cells.rows, names[1])]
    else:
        cell: Expression = reference(source, 0)
        if pairs:
            source = ownership.compute(source, [(None, call("add", cell, reference(source, 1)))])
        sought = [(0, range(cells.count), " and ".join(names))]
    measures = tuple(
        categories_measure(reference(source, slot), None, values=tuple(range(len(edges))), rows=1)
        for slot, edges, _ in sought
    )
    aggregates = tuple(
        Aggregate(MOST_COMMON, (index,), Fraction(1), INTEGER, None, name) for index, (_, _, name) in enumerate(sought)
    )
    return FinalAggregation(source, (), measures, aggregates, 1, True, 1)


def _pairs(final: FinalAggregation) -> RelationNode:
    """Return one row per unit and group: the unit's rows in the group and, if there are groups, its number of groups.

    If ``max_rows_total`` is searched: one row per unit, the number of its rows in listed groups; with ``max_rows``, the
    sum of the squares of its rows in each of them comes before it.
    """
    source = final.source
    if final.keys and final.public_keys:
        for key in final.keys:
            if key.values is not None and len(key.values) <= _MOST_LISTED:
                source = ownership.keep(source, _listed(key.expression, key.values))
    if source.unit is None:
        raise AssertionError("a final aggregation is over owned rows")
    unit = reference(source, source.unit)
    most = Domain(Range(Fraction(0), Fraction(2**62)), False, None, Fraction(1))
    both = final.auto_total and final.auto_rows
    keys = [(None, unit), *((None, key.expression) for key in final.keys if both or not final.auto_total)]
    summed = _summed(final)
    if summed is not None:
        total = UnitCall("sum", summed.argument, summed.where, None, summed.type)
        return ownership.group(source, keys, [(total, Domain())])
    pairs = ownership.group(source, keys, [(_counted(final), most)])
    if len(keys) == 1 or pairs.unit is None:
        return pairs
    if both:
        number = reference(pairs, len(pairs.fields) - 1)
        sums = (call("mul", number, number), number)
        calls = [(UnitCall("sum", part, None, None, INTEGER), most) for part in sums]
        return ownership.group(pairs, [(None, reference(pairs, pairs.unit))], calls)
    own = (reference(pairs, pairs.unit),)
    return ownership.window(
        pairs, [(WindowCall("count_rows", None, None, own, (), WindowFrame.PARTITION, INTEGER), most)]
    )


class _Summed(NamedTuple):
    """A sum without groups, where the limit of a unit bounds its total, in multiples of the largest value."""

    argument: Expression
    where: Expression | None
    type: SqlType
    largest: Fraction


def _summed(final: FinalAggregation) -> _Summed | None:
    """Return the only sum of an answer without groups, of non-negative values; None if rows are counted."""
    from tacit.query.planning.bias import moves_to_bounds, total_argument, total_type

    measure = final.measures[0]
    if final.keys or len(final.measures) > 1 or measure.kind is not MeasureKind.SUM or measure.argument is None:
        return None
    known = measure.low >= 0 < measure.high and not measure.auto and measure.argument.type.kind is not Kind.DOUBLE
    if not (known and moves_to_bounds(measure)):
        return None
    return _Summed(total_argument(measure), measure.where, total_type(measure), measure.high * measure.step)


def _listed(key: Expression, values: Sequence[Any]) -> Expression:
    """Return whether a row has one of the public keys."""
    parts = (
        [in_list(key, [literal(value, key.type) for value in values if value is not None])]
        if any(value is not None for value in values)
        else []
    )
    if None in values:
        parts.append(call("is_null", key))
    return parts[0] if len(parts) == 1 else call("or", *parts)


def _counted(final: FinalAggregation) -> UnitCall:
    """Return the count per unit and group: of rows, or of values if all measurements count the same values."""
    forms = {_form(measure) for measure in final.measures if measure.auto_rows or final.auto_total}
    return forms.pop() if len(forms) == 1 else UnitCall("count_rows", None, None, None, INTEGER)


def _form(measure: Measure) -> UnitCall:
    function = "count_rows" if measure.argument is None else "count"
    if measure.kind.traits.unites:
        function = "count_distinct"
    return UnitCall(function, measure.argument, measure.where, None, INTEGER)


def _place(
    source: RelationNode,
    slot: int,
    edges: tuple[int, ...],
    factor: int,
    summed: _Summed | None = None,
    over: Expression | None = None,
) -> Expression:
    """Return the number of the cell that holds a column's number, times ``factor``, by binary search.

    The number may be divided by another, ``over``.
    """
    value: Expression = reference(source, slot)
    if summed is not None:
        # The total over no value is NULL.
        value = call("coalesce", value, literal(from_ordinal(Fraction(0), summed.type), summed.type))

    def below(cell: int) -> Expression:
        edge = Fraction(edges[cell - 1]) * (1 if summed is None else summed.largest)
        kind = INTEGER if summed is None else summed.type
        most: Expression = literal(from_ordinal(edge, kind), kind)
        return call("le", value, most if over is None else call("mul", over, most))

    return by_halving(len(edges), below, factor)


def find_limits(
    final: FinalAggregation, priced: Priced, noisy: Sequence[Any], laws: Sequence[NoiseLaw], beta: Fraction
) -> FoundLimits:
    """Return the limits from the noisy counts of the search.

    Args:
        final: the aggregation whose limits are searched.
        priced: its releases at one group and one row.
        noisy: the noisy counts of the search.
        laws: of the noise in them.
        beta: noise is compared by the error that it exceeds with this probability.
    """
    counts = [int(count) for part in noisy for count in part[0]]
    return choose(final, counts, laws[0], noise=_noise_of_one(final, priced, beta), squared=priced.budget.concentrated)


def _noise_of_one(final: FinalAggregation, priced: Priced, beta: Fraction) -> float:
    """Return the error of a cell, in rows, at the stated limits, and at 1 for each limit that is searched."""
    errors = [Fraction(0)]
    for index, measure in enumerate(final.measures):
        release = priced.release_of[index]
        counts = measure.auto_rows or not final.auto_rows
        if not release.is_constant and counts and not measure.kind.traits.adds_values:
            errors.append(release.law(index).smooth_error(beta, _FINE))
        elif not release.is_constant and counts:
            value = Fraction(max(map(abs, measure.clamp)), max(measure.rows, 1))
            errors.append(release.law(index).smooth_error(beta, _FINE) / max(value, Fraction(1)))
    return float_nearest(max(errors))


def choose(final: FinalAggregation, noisy: Sequence[int], law: NoiseLaw, *, noise: float, squared: bool) -> FoundLimits:
    """Return the limits with the smallest sum of noise and loss, from noisy counts of cells.

    A cell counts as inhabited if its count exceeds what noise reaches in any of as many empty cells with probability
    1/1000, or if it is next to an inhabited cell and its count exceeds what noise reaches in one cell with probability
    1/20. If no cell is inhabited, the limits are public defaults.

    Args:
        final: the aggregation whose limits are searched.
        noisy: noisy count of each cell.
        law: of the noise in the counts.
        noise: the error of a cell of the answer, in rows, with the current limits of the aggregation.
        squared: whether that error grows with the square root of the number of groups.
    """
    cells = cells_of(final)
    both = final.auto_total and final.auto_rows
    inhabited = dict(_inhabited(LimitCells((1,), cells.groups) if both else cells, noisy, law))
    counts = tuple(noisy)
    if not inhabited:
        return replace(default_limits(final), seen=False, counts=counts)
    if both:
        tried = [
            FoundLimits(None, most, total=total, counts=counts)
            for total in cells.groups
            for most in cells.rows
            if most <= total
        ]

        def worth(found: FoundLimits) -> float:
            total, most = found.total or 1, found.rows or 1
            error = noise * (math.sqrt(total * most) if squared else total)
            return error + _lost_in_groups(final, loss_of(final, found, law, _BOUNDED), error) / 2

        return min(tried, key=worth)
    if cells.edges is None:
        return replace(_pair(final, cells, inhabited, noise, squared=squared), counts=counts)
    found = _one(final, cells.edges, counts, law, noise, squared=squared)
    return replace(_named(final, found), counts=counts)


def default_limits(final: FinalAggregation) -> FoundLimits:
    """Return the public default limits, where nothing is known of the units: at most the largest cell."""
    cells = cells_of(final)
    if cells.edges is not None:
        return _named(final, min(DEFAULT_ROWS, cells.edges[-1]))
    if final.auto_total:
        return FoundLimits(None, min(DEFAULT_PAIR[1], cells.rows[-1]), total=min(DEFAULT_ROWS, cells.groups[-1]))
    return FoundLimits(min(DEFAULT_PAIR[0], cells.groups[-1]), min(DEFAULT_PAIR[1], cells.rows[-1]))


def ladder(final: FinalAggregation) -> Iterator[tuple[int, FoundLimits]]:
    """Yield some limits that a search may find, with their number of rows or groups, to show errors beforehand."""
    cells = cells_of(final)
    for root in _LADDER:
        number = root * root
        if cells.edges is not None and number <= cells.edges[-1]:
            yield number, _named(final, number)
        elif cells.edges is None:
            groups, rows = min(root, cells.groups[-1]), min(root, cells.rows[-1])
            if final.auto_total and number <= cells.groups[-1]:
                yield number, FoundLimits(None, rows, total=number)
            elif not final.auto_total and groups * rows == number:
                yield number, FoundLimits(groups, rows)


def _named(final: FinalAggregation, number: int) -> FoundLimits:
    """Return the limits with ``number`` for the only limit that is searched."""
    if final.auto_total:
        return FoundLimits(None, None, total=number)
    # A limit that declarations decide is 1.
    groups = (number if not final.auto_rows else 1) if final.auto_groups else None
    return FoundLimits(groups, number if final.auto_rows else None)


def _one(
    final: FinalAggregation,
    edges: tuple[int, ...],
    counts: Sequence[int],
    law: NoiseLaw,
    noise: float,
    *,
    squared: bool,
) -> int:
    """Return the edge with the narrowest interval, which includes the loss; in groups, that with the nearest upper end.

    The loss lengthens an interval on one side: with several groups, its upper end by the loss in all groups together
    relative to what is kept, doubled (:data:`LARGER`).
    """
    found: list[tuple[bool, float, int]] = []
    for edge in edges:
        growth = edge / final.max_groups if final.auto_groups and not final.auto_total else edge
        error = noise * (math.sqrt(growth) if squared and not final.auto_rows and not final.auto_total else growth)
        beyond = rows_beyond(edges, counts, law, edge, _BOUNDED)
        if final.keys:
            found.append((False, error + _lost_in_groups(final, beyond, error), edge))
        else:
            lost = float_nearest(beyond.most) * _weight_of_loss(final)
            found.append((lost > _MOST_LOST * error, error + lost / 2, edge))
    return min(found)[2]


def _lost_in_groups(final: FinalAggregation, beyond: RowsBeyond, error: float) -> float:
    """Return how far the loss moves the upper end of the interval of a group."""
    answered, kept = max(final.group_count or 9, 1), max(float_nearest(beyond.kept), 1.0)
    return LARGER * (1 / answered + error / kept) * float_nearest(beyond.most) * _weight_of_loss(final)


def _weight_of_loss(final: FinalAggregation) -> float:
    means = all(len(aggregate.measures) > 1 for aggregate in final.aggregates)
    return float(_OF_MEANS) if means else 1.0


class RowsBeyond(NamedTuple):
    """Estimate of the rows, or groups, of units beyond a bound.

    Args:
        people: estimated number of units with more than the bound, at least 0.
        error: of that number.
        rows: estimated number of their rows, or groups, beyond the bound.
        most: upper bound of that number.
        kept: estimated number of the rows, or groups, of all units within the bound.
    """

    people: int
    error: Fraction
    rows: Fraction
    most: Fraction
    kept: Fraction


def rows_beyond(
    edges: tuple[int, ...], counts: Sequence[int], law: NoiseLaw, bound: int, confidence: Fraction
) -> RowsBeyond:
    """Estimate the rows of units beyond a bound from the noisy counts of a search.

    Each unit of a cell is taken to have the average of the integers in the cell. Noise hides units beyond the last
    inhabited cell: the upper bound includes as many units as noise of this probability explains in the next cell, and a
    third of the previous number in each of the two cells after it.
    """
    seen = [place for place, _ in _inhabited(LimitCells((1,), edges), counts, law)]
    above = [place for place in seen if edges[place] > bound]
    last = max([*seen, *(place for place, edge in enumerate(edges) if edge <= bound)])
    beyond = [Fraction(_middle(edges, place)) - bound for place in range(len(edges))]
    rows = sum((beyond[place] * max(counts[place], 0) for place in above), Fraction(0))
    error = law.error(min(2 * (1 - confidence), Fraction(99, 100)))
    size = sqrt_bounds(sum((beyond[place] ** 2 for place in above), Fraction(0)))[1]
    most = rows + error * size
    if last + 1 < len(edges):
        hidden = max(counts[last + 1] + error, Fraction(0))
        for place in range(last + 1, min(last + 1 + _HIDING, len(edges))):
            most += hidden * beyond[place]
            hidden /= _FEWER
    several = sqrt_bounds(Fraction(max(len(above), 1)))[1]
    kept = sum((min(Fraction(_middle(edges, i)), Fraction(bound)) * max(counts[i], 0) for i in seen), Fraction(0))
    people = sum(max(counts[place], 0) for place in above)
    return RowsBeyond(people, error * several, rows, most, kept)


def loss_of(final: FinalAggregation, found: FoundLimits, law: NoiseLaw, confidence: Fraction) -> RowsBeyond:
    """Estimate the rows, or groups, of units beyond the limit that a search found, or beyond both."""
    cells, counts = cells_of(final), found.counts
    if not (final.auto_total and final.auto_rows):
        number = found.total or found.rows or found.groups or 1
        return rows_beyond(cells.edges or (1,), counts, law, number, confidence)
    total, most, width = found.total or 1, found.rows or 1, len(cells.groups)
    whole = rows_beyond(cells.groups, counts[:width], law, total, confidence)
    each = rows_beyond(cells.rows, counts[width:], law, most, confidence)
    # A unit has at most this many groups with as many rows as that of its typical row.
    groups = min(Fraction(total, most), Fraction(final.group_count or total))
    # Units beyond one bound are mostly beyond the other, and lose the larger number of rows.
    return whole._replace(rows=max(whole.rows, groups * each.rows), most=max(whole.most, groups * each.most))


def _pair(
    final: FinalAggregation, cells: LimitCells, inhabited: Mapping[int, int], noise: float, *, squared: bool
) -> FoundLimits:
    """Return the pair of limits with the smallest sum of noise and loss.

    Each unit of a cell is taken to have the average of the integers in the cell. The loss of a pair is the number of
    rows that it leaves out, over all inhabited cells, divided by the number of groups of the answer; with private keys,
    that number is taken from the inhabited cell with the most groups.
    """
    groups = cells.groups if final.auto_groups else (final.max_groups,)
    rows = cells.rows if final.auto_rows else (1,)
    busiest = max(cells.groups[place // len(cells.rows)] for place in inhabited)
    answered = max(final.group_count if final.group_count is not None else busiest, 1)
    people = [
        (count, _middle(cells.groups, place // len(cells.rows)), _rows_of(final, cells, place % len(cells.rows)))
        for place, count in inhabited.items()
    ]

    def worth(most_groups: int, most_rows: int) -> float:
        growth = most_groups / final.max_groups
        scale = noise * (math.sqrt(growth) if squared else growth) * most_rows
        lost = sum(
            count * (own * each - min(own, most_groups) * (min(each, most_rows) if final.auto_rows else each))
            for count, own, each in people
        )
        return scale + _LOSS * lost / answered

    best = min(((g, r) for g in groups for r in rows), key=lambda pair: (worth(*pair), pair))
    return FoundLimits(best[0] if final.auto_groups else None, best[1] if final.auto_rows else None)


def _inhabited(cells: LimitCells, noisy: Sequence[int], law: NoiseLaw) -> Iterator[tuple[int, int]]:
    """Yield the cells that count as inhabited, with their noisy counts."""
    sure = law.error(2 * per_output_beta(_FALSE_CELL, len(noisy)))
    likely = law.error(2 * _FALSE_NEIGHBOUR)
    width = len(cells.rows)
    unseen = [place for place, count in enumerate(noisy) if count > sure] or _in_window(cells, noisy, law)
    known = set(unseen)
    while unseen:
        place = unseen.pop()
        yield place, noisy[place]
        group, row = divmod(place, width)
        for other_group, other_row in ((group - 1, row), (group + 1, row), (group, row - 1), (group, row + 1)):
            other = other_group * width + other_row
            inside = 0 <= other_group < len(cells.groups) and 0 <= other_row < width
            if inside and other not in known and noisy[other] > likely:
                known.add(other)
                unseen.append(other)


def _in_window(cells: LimitCells, noisy: Sequence[int], law: NoiseLaw) -> list[int]:
    """Return consecutive cells that together hold more units than noise explains, if no single cell does."""
    if cells.edges is None or law.layers:
        return []
    for length in _WINDOWS:
        chance = 2 * per_output_beta(_FALSE_CELL, len(noisy))
        sure = law.unit * sum_error([NoiseTerm(law.kind, law.scale, Fraction(1), length)], chance)
        sums = [sum(noisy[start : start + length]) for start in range(len(noisy) - length + 1)]
        if sums and max(sums) > sure:
            start = sums.index(max(sums))
            return [*range(start, start + length)]
    return []


def _middle(edges: tuple[int, ...], place: int) -> float:
    """Return the average of the integers in a cell."""
    return ((edges[place - 1] + 1 if place else 1) + edges[place]) / 2


def _rows_of(final: FinalAggregation, cells: LimitCells, place: int) -> float:
    """Return the rows of a unit in one of its groups; if rows are not searched, half of the most that count."""
    if final.auto_rows:
        return _middle(cells.rows, place)
    most = max((measure.rows for measure in final.measures), default=1)
    return (most + 1) / 2


def limited(final: FinalAggregation, found: FoundLimits) -> FinalAggregation:
    """Return the aggregation with the limits found; everything else stays, in its order."""
    groups, rows = found.groups, found.rows
    if found.total is not None and final.limits is not None:
        most_groups, most_rows = _most_of_each(final, final.limits)
        known = replace(final, limits=final.limits.found(None, found.rows, found.total))
        known = bounded_in_all(known, found.total, most_groups, min(rows or most_rows, most_rows))
        # One group with one row of a unit is a total too: the loss is that of rows in all groups.
        return known if rows is None else replace(known, max_total=found.total)
    measures = final.measures
    if rows is not None:
        measures = tuple(measure.of_rows(rows) if measure.auto_rows else measure for measure in measures)
    limits = None if final.limits is None else final.limits.found(groups, rows)
    return replace(final, measures=measures, max_groups=groups or final.max_groups, limits=limits)


def stated(final: FinalAggregation, limits: FoundLimits) -> FinalAggregation:
    """Return the aggregation with these default limits as if the query stated them, without a search."""
    known = limited(final, limits)
    if known.limits is None:
        return known
    numbers: dict[str, Any] = {
        name: replace(limit, stated=limit.number, default=True)
        for name, limit in (("groups", known.limits.groups), ("rows", known.limits.rows), ("total", known.limits.total))
        if limit is not None and limit.is_auto
    }
    if limits.total is not None:
        numbers["groups"] = replace(known.limits.groups, stated=known.max_groups)
        numbers["rows"] = replace(known.limits.rows, stated=known.most_in_group)
    measures = tuple(replace(measure, auto_rows=False) for measure in known.measures)
    return replace(known, measures=measures, limits=replace(known.limits, **numbers))


def widest(final: FinalAggregation) -> FinalAggregation:
    """Return the aggregation with the largest limits a search can find; an engine that accepts it accepts any."""
    cells = cells_of(final)
    if final.auto_total and final.auto_rows:
        return limited(final, FoundLimits(None, cells.rows[-1], total=cells.groups[-1]))
    if final.auto_total:
        return limited(final, FoundLimits(None, None, total=cells.rows[-1]))
    return limited(
        final,
        FoundLimits(cells.groups[-1] if final.auto_groups else None, cells.rows[-1] if final.auto_rows else None),
    )


#: Name of the bound on a unit's rows in all groups together.
TOTAL = "max_rows_total"


def can_share(final: FinalAggregation) -> bool:
    """Whether the rows of a unit in all groups together can be bounded: every clamp follows from a number of rows."""
    rows = [measure for measure in final.measures if measure.kind is not MeasureKind.UNITS]
    return bool(rows) and all(measure.per_row is not None for measure in rows)


def with_stated_total(final: FinalAggregation, stated: int, limits: ContributionLimits) -> FinalAggregation:
    """Return the aggregation with a stated ``max_rows_total``; other limits bind only if the query states them too.

    Raises:
        Refusal: the aggregation has a measurement that this bound does not limit.
    """
    if not can_share(final):
        raise Refusal(
            "option",
            "max_rows_total bounds counts of rows, sums, averages and variances; for other aggregates state max_groups "
            "and max_rows.",
        )
    groups, rows = (number_beside(limit, stated, final) for limit in (limits.groups, limits.rows))
    known = replace(limits, total=ContributionLimit(TOTAL, stated, stated=stated))
    known = replace(known, groups=_settled(limits.groups, groups), rows=_settled(limits.rows, rows))
    measures = tuple(replace(measure, auto_rows=False) for measure in final.measures)
    return bounded_in_all(replace(final, measures=measures, limits=known), stated, groups, rows)


def number_beside(limit: ContributionLimit, most: int, final: FinalAggregation) -> int:
    """Return the limit that holds besides the total: stated, a ceiling, or implied by declared uniqueness."""
    if limit.single:
        return 1
    known = ceiling(final.source, limit.name)
    most = most if known is None else min(most, known[0])
    return most if limit.stated is None or limit.stated == AUTO else min(int(limit.stated), most)


def _settled(limit: ContributionLimit, number: int) -> ContributionLimit:
    stated: ContributionNumber = number if limit.stated is None or limit.stated == AUTO else limit.stated
    return replace(limit, stated=stated)


def bounded_in_all(final: FinalAggregation, most: int, groups: int, rows: int) -> FinalAggregation:
    """Bound the rows of a unit: at most ``most`` in all, in at most ``groups`` groups, at most ``rows`` in each."""
    groups = min(groups, most, final.group_count or most) if final.keys else 1
    rows = min(rows, most)
    measures = tuple(_of_rows(measure, rows) for measure in final.measures)
    # The product of max_groups and max_rows already implies the total: no rows to divide.
    total = None if groups * rows <= most else most
    return replace(final, measures=measures, max_groups=groups, max_total=total)


def _of_rows(measure: Measure, rows: int) -> Measure:
    """Return the same measurement with at most ``rows`` rows of a unit in a group."""
    if measure.per_row is None:
        return measure
    low, high = (rows * (end // measure.rows) for end in measure.clamp)
    return replace(measure, rows=rows, clamp=(low, high))
