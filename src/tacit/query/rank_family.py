"""Released quantiles and modes: measurements, expected errors and estimates.

*MODE*: the value is the category with the largest noisy count; equal counts go by the order of declaration, and a count
below 1 gives NULL, as SQL does for a group without values. When every noise is within w, a category can truly be the
most common only if its count, raised by w, reaches the largest lowered by w; the enclosure is the set of those. Numbers
and dates have an interval (the hull of that set), text has none.

*Quantiles, MEDIAN, MIN and MAX* come from a noisy tree of counts. Quantile q of n values is, as in PERCENTILE_CONT, at
rank (n-1)q between two neighbouring order statistics. The leaf of the r-th smallest value is the number of noisy prefix
counts that fall short of r: without noise that is its leaf, exactly, and with noise one early crossing by chance does
not upset it. A leaf wider than one step is represented by its middle. MIN and MAX cannot be had to the last person:
they are the first and last place at which noise lets one be sure that there is a value.

*Quantiles that were drawn.* The estimate is the place that the exponential mechanism drew
(:mod:`tacit.query.planning.rank_choice`); the tree counts cells around it.

*Interval.* By :class:`~tacit.query.planning.quantile_tree.NoisyTree`, which proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.mechanisms.base import per_output_beta
from tacit.query.aggregate_family import (
    AggregateCall,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    names_of,
    noisy_numbers,
    value_bounds,
    value_grid,
)
from tacit.query.planning.measures import AggregateKind, Measure, MeasureKind, categories_measure, leaves_measure
from tacit.query.planning.quantile_tree import Leaves, NoisyTree, rank_error
from tacit.query.planning.rank_choice import cuts_around, error_of_choice
from tacit.query.postprocess.cells import Cell, CellConfidence, Event, MeasureBias, value_at
from tacit.query.query import Aggregate
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import DOUBLE, UNKNOWN, Domain, Kind, Range, SqlType, Value, finite

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers

#: The chance with which the place of MIN or MAX may be empty.
_UNSEEN = Fraction(1, 20)


@dataclass(frozen=True, slots=True)
class LeafGrid:
    """Where the leaves lie: ``leaf`` steps wide each, from ``low`` to ``high`` (in steps)."""

    low: int
    high: int
    leaf: int
    step: Fraction

    def ends(self, index: int) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value of a leaf."""
        first = self.low + index * self.leaf
        return first * self.step, min(first + self.leaf - 1, self.high) * self.step

    def middle(self, index: int) -> Fraction:
        """The value that stands for a leaf."""
        low, high = self.ends(index)
        return (low + high) / 2


@dataclass(frozen=True, eq=False)
class Ranks:
    """One quantile in all groups; MIN and MAX are ``kind`` "min" and "max"."""

    tree: NoisyTree
    grid: LeafGrid
    kind: str
    fraction: Fraction
    _known: dict[Fraction, Leaves] = field(default_factory=dict)

    def leaves(self, beta: Fraction) -> Leaves:
        """The leaves of all groups, with intervals that fail with chance ``beta`` each."""
        if beta not in self._known:
            if self.kind == "quantile":
                found = self.tree.quantile(self.fraction, beta=beta)
            else:
                found = self.tree.minimum(beta=beta) if self.kind == "min" else self.tree.maximum(beta=beta)
            self._known[beta] = found
        return self._known[beta]

    def span(self, group: int, beta: Fraction) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value that the quantile may have, but for probability ``beta``."""
        leaves = self.leaves(beta)
        low, high = (int(end[group]) for end in (leaves.low, leaves.high))
        return self.grid.ends(low)[0], self.grid.ends(high)[1]

    def place(self, group: int) -> Fraction | None:
        """The estimate for a group; None when its noisy number of values is below 1."""
        total = int(self.tree.total[group])
        if total < 1:
            return None
        if self.kind != "quantile":
            return self.grid.middle(int(self.leaves(_UNSEEN).estimate[group]))
        place = (total - 1) * self.fraction
        rank = int(place) + 1
        low, high = (self.grid.middle(self._leaf(group, r)) for r in (rank, min(rank + 1, total)))
        return low + (place - (rank - 1)) * (high - low)

    @cached_property
    def _prefixes(self) -> NDArray[Any]:
        return self.tree.tree.sums(self.tree.noisy_nodes)[0][:, 1:]

    def _leaf(self, group: int, rank: int) -> int:
        short = int((self._prefixes[group] < rank).sum())
        return min(short, self.tree.tree.width - 1)


@dataclass(frozen=True, eq=False)
class DrawnRanks:
    """One quantile in all groups, drawn before the cells around it were counted.

    Args:
        tree: noisy counts of the cells, and what was drawn.
        grid: where the places lie.
        width: number of places.
        fractions: of all quantiles that were drawn, in the order of the draws.
        fraction: of this one.
    """

    tree: NoisyTree
    grid: LeafGrid
    width: int
    fractions: tuple[Fraction, ...]
    fraction: Fraction
    kind: str = "quantile"
    _known: dict[Fraction, Leaves] = field(default_factory=dict)

    def _drawn(self, group: int) -> list[int]:
        if self.tree.drawn is None:
            raise InternalError("no quantiles were drawn")
        found: list[int] = self.tree.drawn[group].tolist()
        return found

    def place(self, group: int) -> Fraction | None:
        """The estimate for a group; None when its noisy number of values is below 1."""
        if int(self.tree.total[group]) < 1:
            return None
        return self.grid.middle(self._drawn(group)[self.fractions.index(self.fraction)])

    def span(self, group: int, beta: Fraction) -> tuple[Fraction, Fraction]:
        """The smallest and the largest value that the quantile may have, but for probability ``beta``."""
        if beta not in self._known:
            self._known[beta] = self.tree.quantile(self.fraction, beta=beta)
        leaves = self._known[beta]
        cuts = cuts_around(self._drawn(group), self.width)
        first, last = cuts[int(leaves.low[group])], cuts[int(leaves.high[group]) + 1] - 1
        # Cells without places may stand at either end.
        first = min(first, self.width - 1)
        return self.grid.ends(first)[0], self.grid.ends(max(first, last))[1]


@dataclass(frozen=True, slots=True)
class RankEvent:
    """The event that the two tests of one quantile's true leaves go well."""

    measure: int
    group: int
    kind: str
    fraction: Fraction


@dataclass(frozen=True, eq=False)
class Rank(Cell):
    """A quantile, MIN or MAX of one group."""

    ranks: Ranks | DrawnRanks
    measure: int
    group: int
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The estimate; None when the noisy number of values is below 1."""
        place = self.ranks.place(self.group)
        return None if place is None else value_at(place, self.type)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """The one event of this quantile."""
        return frozenset((RankEvent(self.measure, self.group, self.ranks.kind, self.ranks.fraction),))

    def _enclose(self, level: CellConfidence) -> Domain:
        # Whether the group has any value at all is not part of the event.
        return Domain(Range(*self.ranks.span(self.group, level.beta)), True, None, None)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        return known if biases[self.measure].is_nothing else Domain(UNKNOWN, True, None, None)


@dataclass(frozen=True, slots=True)
class CommonEvent:
    """The event that the noises of all categories of a group are small."""

    measure: int
    group: int


@dataclass(frozen=True, eq=False)
class Common(Cell):
    """The most common of ``categories``.

    Args:
        noisy: released integers, one for each category.
        categories: in the order of their declaration.
        event: of all their noises.
        type: of the categories.
        unit: what a released integer is worth in values counted.
    """

    noisy: NDArray[Any]
    categories: tuple[Value | None, ...]
    event: CommonEvent
    type: SqlType
    unit: Fraction = Fraction(1)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """All counts of the group at once."""
        return frozenset((self.event,))

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The category; None when its noisy count is below 1."""
        chosen = min(range(len(self.categories)), key=lambda i: (-int(self.noisy[i]), i))
        return self.categories[chosen] if int(self.noisy[chosen]) * self.unit >= 1 else None

    def _enclose(self, level: CellConfidence) -> Domain:
        each = level.beta / len(self.categories)
        width = level.laws[self.event.measure].error(each)
        counts = [int(count) * self.unit for count in self.noisy]
        largest = max(counts)
        near = [c for c, count in zip(self.categories, counts, strict=True) if largest - count <= 2 * width]
        return finite(near, self.type, nullable=largest - width < 1)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        if biases[self.event.measure].is_nothing:
            return known
        return finite(self.categories, self.type, nullable=True)


_ZERO: Final = Fraction(0)
_KINDS: Final = {"min": AggregateKind.MIN, "max": AggregateKind.MAX, "quantile": AggregateKind.QUANTILE}


class Quantiles(Family):
    """MIN and MAX from one tree of counts; MEDIAN and quantiles drawn among the steps, with counts around them."""

    error_kind = "rank"

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Counts in leaves; for quantiles between the least and the largest value, in places."""
        argument = asked.value
        if not argument.type.is_numeric and not argument.type.is_temporal:
            raise Refusal(
                "raw_aggregate",
                f"{asked.function.upper()} of {argument.type} would return one person's value; use numbers or dates.",
            )
        bounds = value_bounds(asked, argument)
        step = value_grid(asked, argument, bounds)
        inner = asked.function == "quantile" and asked.parameter is not None and 0 < asked.parameter < 1
        shape = MeasureKind.PLACES if inner else MeasureKind.LEAVES
        measure = leaves_measure(shape, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
        index = final.measure(replace(measure, auto=asked.auto))
        between = asked.function == "quantile" and argument.type.is_numeric and not asked.discrete
        kind = DOUBLE if between else argument.type
        return Aggregate(
            _KINDS[asked.function], (index,), asked.parameter, kind, None if asked.auto else bounds, asked.label
        )

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """In values of rank."""
        index = aggregate.measures[0]
        release = at.priced.release_of(index)
        ends = {AggregateKind.MIN: _ZERO, AggregateKind.MAX: Fraction(1)}
        fraction = ends.get(aggregate.kind, aggregate.parameter)
        if release.block.tree is None or fraction is None or release.mechanism == "constant":
            return _ZERO
        if release.choice is not None:
            return error_of_choice(release.choice, fraction, at.beta)
        return rank_error(release.block.tree, release.law(index), fraction, at.beta / 2)

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Places in the tree, or drawn before it."""
        index = aggregate.measures[0]
        kind = {AggregateKind.MIN: "min", AggregateKind.MAX: "max"}.get(aggregate.kind, "quantile")
        grid = LeafGrid(measure.low, measure.high, measure.leaf, measure.step)
        tree = released.noisy[index]
        if not isinstance(tree, NoisyTree):
            raise InternalError("numbers where a tree was planned")
        if tree.drawn is not None:
            fractions = released.plan.priced.release_of(index).block.fractions
            drawn = DrawnRanks(tree, grid, measure.width, fractions, Fraction(aggregate.parameter or 0))
            return lambda group: Rank(drawn, index, group, aggregate.type)
        ranks = Ranks(tree, grid, kind, Fraction(aggregate.parameter or 0))
        return lambda group: Rank(ranks, index, group, aggregate.type)


class MostCommon(Family):
    """MODE, from counts of declared categories."""

    error_kind = "count"

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Counts of categories."""
        argument = asked.value
        values = final.categories(argument)
        if values is None or argument.type.kind is Kind.DOUBLE or not any(value is not None for value in values):
            raise Refusal(
                "no_categories",
                f"MODE chooses among declared categories; {names_of(argument)} has none. "
                "Ask the data owner to declare them, or use COUNT with GROUP BY.",
            )
        index = final.measure(categories_measure(argument, asked.where, values=values, rows=final.rows))
        return Aggregate(AggregateKind.MOST_COMMON, (index,), asked.parameter, argument.type, None, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Two noisy counts change places only if their noises together bridge the gap."""
        index = aggregate.measures[0]
        release, width = at.priced.release_of(index), at.final.measures[index].width
        if release.mechanism == "constant":
            return _ZERO
        return 2 * at.law(index).error(per_output_beta(at.beta, width))

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Categories by their noisy counts."""
        index = aggregate.measures[0]
        noisy = noisy_numbers(released, index)
        return lambda group: Common(
            noisy[group],
            measure.categories,
            CommonEvent(released.first + index, group),
            aggregate.type,
            released.laws[index].unit,
        )
