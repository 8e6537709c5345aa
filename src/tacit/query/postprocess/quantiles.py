"""Quantiles, MEDIAN, MIN and MAX from a noisy tree of counts.

*Value.* Quantile q of n values is, as in PERCENTILE_CONT, at rank (n-1)q between two neighbouring order statistics.
The leaf of the r-th smallest value is the number of noisy prefix counts that fall short of r: without noise that is
its leaf, exactly, and with noise one early crossing by chance does not upset it. A leaf wider than one step is
represented by its middle. MIN and MAX cannot be had to the last person: they are the first and last place at which
noise lets one be sure that there is a value.

*Quantiles that were drawn.* The estimate is the place that the exponential mechanism drew
(:mod:`tacit.query.planning.rank_choice`); the tree counts cells around it.

*Interval.* By :class:`~tacit.query.planning.quantile_tree.NoisyTree`, which proves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.query.planning.quantile_tree import Leaves, NoisyTree
from tacit.query.planning.rank_choice import cuts_around
from tacit.query.postprocess.cells import Cell, CellConfidence, Event, MeasureBias, value_at
from tacit.query.types import UNKNOWN, Domain, Range, SqlType, Value

__all__ = ["DrawnRanks", "LeafGrid", "Rank", "Ranks"]

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
