"""AUTO ``max_groups`` and ``max_rows``: contribution limits found privately within the stated price.

1. *Search.* A share of the price, a tenth unless weighed otherwise, buys noisy counts of units in fixed, public cells.
   The cell of a unit is (how many groups it is in, how many of its rows count in one of them), both in powers of two.
   That group is one of the unit's own, chosen by a keyed hash, so that a unit is in one cell: sensitivity 1.
2. *Choice.* Of all pairs (``max_groups``, ``max_rows``) on the edges of the cells the one is taken whose noise and
   estimated loss are smallest together (:func:`choose`): post-processing, free.
3. *The rest* of the price pays for the query as if the analyst had typed these numbers.

The share, the cells, the charge and every refusal are functions of text and metadata. The numbers found are released
values; stage 3 depends on the data through them and its own noise alone. No search is bought where declarations decide:
a unit that is in one group or has one row in each has the number 1, and a question that counts units alone needs no
``max_rows``.

Why one of the groups, and not the largest or the mean of a unit: the average over units of (groups of the unit) times
(rows that one of its groups, picked at random, loses) is the average loss of a unit, without bias.

Proof: ``auto_limits.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.core.numbers import float_nearest
from tacit.mechanisms.base import per_output_beta
from tacit.query.planning.auto_bounds import by_halving
from tacit.query.planning.measures import AggregateKind, Measure, categories_measure
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.planning.work import Sizes
from tacit.query.question import Aggregate, FinalAggregation
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, UnitCall, reference
from tacit.query.relational.expressions import Expression, Reference, literal
from tacit.query.relational.functions import call, in_list
from tacit.query.relational.window_calls import WindowCall, WindowFrame
from tacit.query.types import INTEGER, Domain, Range

if TYPE_CHECKING:
    from tacit.query.planning.releases import Priced

#: Numbers found are at most this.
MOST_FOUND: Final = 2**16
#: An empty cell is taken for an inhabited one, anywhere, with at most this probability.
_FALSE_CELL: Final = Fraction(1, 1000)
#: Beside an inhabited cell an empty one is taken for inhabited with at most this probability.
_FALSE_NEIGHBOUR: Final = Fraction(1, 20)
#: A loss counts so many times as much as noise of the same size: it is in every answer again, and in no interval.
_LOSS: Final = 3
#: Longer lists of public keys are not filtered by before the search; undeclared keys then count among a unit's groups.
_MOST_LISTED: Final = 500


@dataclass(frozen=True, slots=True)
class FoundLimits:
    """Limits that were found: a released value.

    Args:
        groups: ``max_groups``; None where it was not sought.
        rows: ``max_rows``; None where it was not sought.
        seen: whether any cell was inhabited beyond doubt; without one the numbers are 1.
    """

    groups: int | None
    rows: int | None
    seen: bool = True

    def __str__(self) -> str:
        named = (("max_groups", self.groups), ("max_rows", self.rows))
        words = ", ".join(f"{name} {number}" for name, number in named if number is not None)
        return words if self.seen else f"{words} (too few people for a search at this price: state numbers)"


@dataclass(frozen=True, slots=True)
class LimitCells:
    """The public cells of a search.

    Args:
        groups: upper edges of the cells by number of groups; (1,) where a unit is in one.
        rows: upper edges of the cells by rows in a group; (1,) where ``max_rows`` is not sought.

    The last cell of each is open.
    """

    groups: tuple[int, ...]
    rows: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of cells."""
        return len(self.groups) * len(self.rows)


def cells_of(final: FinalAggregation) -> LimitCells:
    """The cells of a search: powers of two up to the number that declarations and ceilings allow."""
    limits, sizes = final.limits, Sizes()
    groups, rows = final.max_groups, 1
    if final.auto_groups:
        known = [MOST_FOUND, sizes.rows(final.source), final.group_count, limits.groups.most if limits else None]
        groups = min(number for number in known if number is not None)
    if final.auto_rows:
        plain = frozenset(key.expression.slot for key in final.keys if isinstance(key.expression, Reference))
        known = [MOST_FOUND, sizes.repeats(final.source, plain), limits.rows.most if limits else None]
        rows = min(number for number in known if number is not None)
    return LimitCells(_edges(groups), _edges(rows))


def _edges(most: int) -> tuple[int, ...]:
    """1, 2, 4, … and the most."""
    powers = [2**i for i in range(most.bit_length()) if 2**i < most]
    return (*powers, max(most, 1))


def search_of(final: FinalAggregation) -> FinalAggregation:
    """The search: the number of units in each cell, over the same rows, without groups."""
    cells = cells_of(final)
    source = _pairs(final)
    rows = len(source.fields) - (2 if final.keys else 1)
    # In two steps, so that an engine computes each number once per row.
    columns = [_place(source, rows, cells.rows, 1)]
    if final.keys:
        columns.append(_place(source, len(source.fields) - 1, cells.groups, len(cells.rows)))
    source = ownership.compute(source, [(None, column) for column in columns])
    cell: Expression = reference(source, 0)
    if final.keys:
        cell = call("add", cell, reference(source, 1))
    source = ownership.compute(source, [(None, cell)])
    measure = categories_measure(reference(source, 0), None, values=tuple(range(cells.count)), rows=1)
    # The most that can be found follows from declarations which are in no digest: the name of the release has it.
    named = [f"max_groups up to {cells.groups[-1]}"] if final.auto_groups else []
    named += [f"max_rows up to {cells.rows[-1]}"] if final.auto_rows else []
    aggregate = Aggregate(AggregateKind.MOST_COMMON, (0,), Fraction(1), INTEGER, None, " and ".join(named))
    return FinalAggregation(source, (), (measure,), (aggregate,), 1, True, 1)


def _pairs(final: FinalAggregation) -> RelationNode:
    """One row per unit and group: the number of its rows there and, where there are groups, of the unit's groups."""
    source = final.source
    if final.keys and final.public_keys:
        for key in final.keys:
            if key.values is not None and len(key.values) <= _MOST_LISTED:
                source = ownership.keep(source, _listed(key.expression, key.values))
    if source.unit is None:
        raise AssertionError("a final aggregation is over owned rows")
    unit = reference(source, source.unit)
    most = Domain(Range(Fraction(0), Fraction(2**62)), False, None, Fraction(1))
    keys = [(None, unit), *((None, key.expression) for key in final.keys)]
    pairs = ownership.group(source, keys, [(_counted(final), most)])
    if not final.keys or pairs.unit is None:
        return pairs
    own = (reference(pairs, pairs.unit),)
    return ownership.window(
        pairs, [(WindowCall("count_rows", None, None, own, (), WindowFrame.PARTITION, INTEGER), most)]
    )


def _listed(key: Expression, values: Sequence[Any]) -> Expression:
    """Whether a row has one of the public keys."""
    parts = (
        [in_list(key, [literal(value, key.type) for value in values if value is not None])]
        if any(value is not None for value in values)
        else []
    )
    if None in values:
        parts.append(call("is_null", key))
    return parts[0] if len(parts) == 1 else call("or", *parts)


def _counted(final: FinalAggregation) -> UnitCall:
    """Count of a unit in a group: of rows, or where all measurements count the same values, of these."""
    forms = {_form(measure) for measure in final.measures if measure.auto_rows}
    return forms.pop() if len(forms) == 1 else UnitCall("count_rows", None, None, None, INTEGER)


def _form(measure: Measure) -> UnitCall:
    function = "count_rows" if measure.argument is None else "count"
    if measure.kind.traits.unites:
        function = "count_distinct"
    return UnitCall(function, measure.argument, measure.where, None, INTEGER)


def _place(source: RelationNode, slot: int, edges: tuple[int, ...], factor: int) -> Expression:
    """The number of the cell of a whole number in a column, times ``factor``, by halving."""
    value = reference(source, slot)
    return by_halving(len(edges), lambda cell: call("le", value, literal(edges[cell - 1], INTEGER)), factor)


def find_limits(
    final: FinalAggregation, priced: Priced, noisy: Sequence[Any], laws: Sequence[NoiseLaw], beta: Fraction
) -> FoundLimits:
    """The limits, from what the search released.

    Args:
        final: whose limits are sought.
        priced: its releases while it stands for one group and one row.
        noisy: what the search released.
        laws: of the noise in it.
        beta: noise is compared by the error that it exceeds with this probability.
    """
    counts = [int(count) for count in noisy[0][0]]
    return choose(final, counts, laws[0], noise=_noise_of_one(final, priced, beta), squared=priced.budget.concentrated)


def _noise_of_one(final: FinalAggregation, priced: Priced, beta: Fraction) -> float:
    """The error of a cell, in rows, while a unit is in as many groups, and has as many rows, as stated or 1."""
    errors = [Fraction(0)]
    for index, measure in enumerate(final.measures):
        release = priced.release_of(index)
        counts = measure.auto_rows or not final.auto_rows
        if release.mechanism != "constant" and counts and not measure.kind.traits.adds_values:
            errors.append(release.law(index).error(beta))
        elif release.mechanism != "constant" and counts:
            value = Fraction(max(map(abs, measure.clamp)), max(measure.rows, 1))
            errors.append(release.law(index).error(beta) / max(value, Fraction(1)))
    return float_nearest(max(errors))


def choose(final: FinalAggregation, noisy: Sequence[int], law: NoiseLaw, *, noise: float, squared: bool) -> FoundLimits:
    """The limits with the smallest sum of noise and loss, from noisy counts of cells.

    A cell is inhabited if its count exceeds what noise reaches in any of as many empty cells with probability 1/1000,
    or if it is beside an inhabited one and its count exceeds what noise reaches in one cell with probability 1/20.
    A unit of a cell has the average of the whole numbers in it. The loss of a pair of limits is the number of rows
    that they leave out, over all inhabited cells, for each group of the answer; where keys are private, there are
    taken to be as many groups as the busiest inhabited cell has.

    Args:
        final: whose limits are sought.
        noisy: count of each cell.
        law: of their noise.
        noise: the error of a cell of the answer, in rows, with the limits that the aggregation has now.
        squared: whether it grows with the root of the number of groups.
    """
    cells = cells_of(final)
    inhabited = dict(_inhabited(cells, noisy, law))
    seen = bool(inhabited)
    groups = cells.groups if final.auto_groups else (final.max_groups,)
    rows = cells.rows if final.auto_rows else (1,)
    if not seen:
        return FoundLimits(1 if final.auto_groups else None, 1 if final.auto_rows else None, seen=False)
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
    """The cells that are taken for inhabited, with their counts."""
    sure = law.error(2 * per_output_beta(_FALSE_CELL, len(noisy)))
    likely = law.error(2 * _FALSE_NEIGHBOUR)
    width = len(cells.rows)
    unseen = [place for place, count in enumerate(noisy) if count > sure]
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


def _middle(edges: tuple[int, ...], place: int) -> float:
    """The average of the whole numbers in a cell."""
    return ((edges[place - 1] + 1 if place else 1) + edges[place]) / 2


def _rows_of(final: FinalAggregation, cells: LimitCells, place: int) -> float:
    """Rows of a unit in one of its groups; where they were not looked at, half of those that count."""
    if final.auto_rows:
        return _middle(cells.rows, place)
    most = max((measure.rows for measure in final.measures), default=1)
    return (most + 1) / 2


def limited(final: FinalAggregation, found: FoundLimits) -> FinalAggregation:
    """The aggregation with the limits found in place of those sought; everything else stays, in its order."""
    groups, rows = found.groups, found.rows
    measures = final.measures
    if rows is not None:
        measures = tuple(measure.of_rows(rows) if measure.auto_rows else measure for measure in measures)
    limits = None if final.limits is None else final.limits.found(groups, rows)
    return replace(final, measures=measures, max_groups=groups or final.max_groups, limits=limits)


def widest(final: FinalAggregation) -> FinalAggregation:
    """The aggregation with the largest limits that a search can find: an engine that accepts it accepts all others."""
    cells = cells_of(final)
    return limited(
        final,
        FoundLimits(cells.groups[-1] if final.auto_groups else None, cells.rows[-1] if final.auto_rows else None),
    )
