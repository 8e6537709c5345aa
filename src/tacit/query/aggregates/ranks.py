"""Quantiles, MEDIAN, MIN, MAX and MODE: trees of counts, drawn quantiles, and estimates.

*MODE*: the value is the category with the largest noisy count; equal counts go by the order of declaration, and a count
below 1 gives NULL, as SQL does for a group without values. If every noise is within w, a category can be the true mode
only if its count plus w is at least the largest count minus w; the enclosure is the set of these categories. Numbers
and dates have an interval (the hull of that set), text has none.

*Quantiles, MEDIAN, MIN and MAX* come from a noisy tree of counts. Quantile q of n values is, as in PERCENTILE_CONT, at
rank (n-1)q between two neighbouring order statistics. The leaf of the r-th smallest value is the number of noisy prefix
counts below r: without noise that is exactly its leaf, and with noise it is robust to one early crossing by chance. A
leaf wider than one step is represented by its middle. The exact MIN and MAX, which depend on one person,
cannot be released: the estimates are the first and last place at which the noisy counts show that there is a value.

*Drawn quantiles.* The estimate is the place that the exponential mechanism drew
(:class:`RankChoice`); the tree counts cells around it.

*Tree.* A bounded column is cut into ``width`` leaves. Counts are released on several levels: the leaves, nodes of
``arity`` leaves, nodes of ``arity`` such nodes, …, up to a level of at most ``arity`` nodes. A unit's values are
counted once on every level, so one level has the sensitivity of the leaves and all levels that sensitivity times their
number. In return the number of values below a leaf is the sum of few nodes instead of many leaves. Noise on the leaves
alone is the tree of one level, which is best for few leaves.

*Rank of a place.* For a fraction p and j leaves, let D_j = (1-p)·(values in the first j leaves) - p·(values in the
others): the excess of values in the first j leaves over the share p of all. Both parts are sums over disjoint nodes, so
the noise in D_j is a sum of independent noises with weights 1-p and p.

*Intervals.* A continuous quantile lies between two neighbouring values, in leaves k <= k′ (a discrete one is the
first or the second). Then D_{k+1} >= -p and D_{k′} < 2-p. With s_j the one-sided bound of the noise in D_j at β/2,
each of "noisy D_{k+1} < -p-s" and "noisy D_{k′} >= 2-p+s" has probability at most β/2. So both leaves lie, but for
probability β, from the first leaf that passes the first test to the last that passes the second. No union bound over
leaves is needed: both tests are at fixed but unknown places. The same holds for the least value, in leaf k, with the
tests: at least 1 in the first k+1 leaves, 0 in the first k.

*Choice.* The places of a group are the steps (or leaves of several steps) of the bounded value, 0 … width - 1. For a
fraction p = a/b, with B(y) values below place y, A(y) at it and n in all, place y falls short by

    gap(y) = max(high·(b·B(y) - a·n), low·(a·n - b·(B(y) + A(y)))),

which is at most 0 at the quantile and above 0 elsewhere. A place is drawn with probability proportional to
exp(-rate·gap), exactly. All places between two neighbouring values have the same gap, so that the time of a draw grows
with the number of distinct values, not with the number of steps.

*Sides.* ``high`` and ``low`` are 1 at the median. Beyond the quantile 0.9 lies a tenth of the values, and often most of
the range: a draw is far more likely to have a large error there than on the other side. So the side with fewer values
has weight 1.1 and the other 0.9, which costs no privacy, and a fiftieth of the accuracy if values are spread evenly.

*Cells.* Around the drawn places, the range is cut into :func:`cells` cells: the place itself, then 4, 16, 64, …
places on each side. They are a function of the drawn places, and their noisy counts give an interval by the same tests
as the leaves of a tree (:class:`NoisyTree`), whose leaves may be of any width.

Proof: ``ranks.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.events import ExponentialEvent, RepeatedEvent
from tacit.core.numbers import Number, exact_probability, log_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.base import per_output_beta
from tacit.noise.runs import select_run
from tacit.query.aggregates.family import (
    AggregateCall,
    AggregateEntry,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    SqlName,
    between_the_values,
    called,
    names_of,
    noisy_numbers,
    value_bounds,
    value_grid,
)
from tacit.query.planning.measures import (
    MOST_COMMON,
    Measure,
    MeasureKind,
    categories_measure,
    leaves_measure,
)
from tacit.query.planning.noise import NoiseLaw, NoiseTerm, one_sided_errors, sum_error
from tacit.query.postprocess.cells import Cell, CellConfidence, Event, MeasureBias, value_at
from tacit.query.query import Aggregate
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression
from tacit.query.types import (
    BOOLEAN,
    DOUBLE,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    finite,
)

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers


# -- trees of counts


#: Arities that are tried, besides the number of leaves itself.
_ARITIES = (*range(2, 17), 20, 24, 32, 48, 64)
#: Largest number of distinct sums of nodes whose noise is bounded individually; more are bounded by one inequality.
_MOST_EXACT = 64


@dataclass(frozen=True, slots=True)
class Tree:
    """Shape of a tree of counts: ``width`` leaves, merged ``arity`` at a time."""

    width: int
    arity: int

    @property
    def levels(self) -> tuple[int, ...]:
        """Number of nodes of each level, the leaves first."""
        sizes = [self.width]
        while sizes[-1] > self.arity:
            sizes.append(-(-sizes[-1] // self.arity))
        return tuple(sizes)

    @property
    def nodes(self) -> int:
        return sum(self.levels)

    def fill(self, leaves: NDArray[Any]) -> NDArray[Any]:
        """Return all nodes for each row of leaves: the leaves, then the level above, and so on; exact integers."""
        parts, here = [leaves], leaves
        for size in self.levels[1:]:
            padded = np.zeros((len(here), size * self.arity), dtype=here.dtype)
            padded[:, : here.shape[1]] = here
            here = padded.reshape(len(here), size, self.arity).sum(axis=2)
            parts.append(here)
        return np.concatenate(parts, axis=1)

    def terms(self, leaves: int) -> tuple[int, int]:
        """Return the number of nodes that sum the first ``leaves`` leaves, and of those that sum the rest."""
        before = after = 0
        left = right = leaves
        sizes = self.levels
        for size in sizes[:-1]:
            before += left % self.arity
            after += min(-(-right // self.arity) * self.arity, size) - right
            left, right = left // self.arity, -(-right // self.arity)
        return before + left, after + sizes[-1] - right

    def sums(self, nodes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return, per row of nodes and j from 0 to ``width``, the sums of the first j leaves and of the rest."""
        places = np.arange(self.width + 1)
        left, right = places, places
        before = np.zeros((len(nodes), self.width + 1), dtype=nodes.dtype)
        after = before.copy()
        start = 0
        for depth, size in enumerate(self.levels):
            totals = np.zeros((len(nodes), size + 1), dtype=nodes.dtype)
            np.cumsum(nodes[:, start : start + size], axis=1, out=totals[:, 1:])
            start += size
            top = depth == len(self.levels) - 1
            below = np.zeros_like(left) if top else left // self.arity * self.arity
            above = np.full_like(right, size) if top else np.minimum(-(-right // self.arity) * self.arity, size)
            before += totals[:, left] - totals[:, below]
            after += totals[:, above] - totals[:, right]
            left, right = left // self.arity, -(-right // self.arity)
        return before, after


@lru_cache(maxsize=256)
def best_tree(width: int, *, gaussian: bool) -> Tree:
    """Return the tree with the least noise in ranks: levels² (Laplace) or levels (Gaussian) × the nodes of a rank."""

    def cost(tree: Tree) -> int:
        count = len(tree.levels)
        nodes = (count - 1) * (tree.arity - 1) + tree.levels[-1]
        return (count if gaussian else count * count) * nodes

    return min((Tree(width, arity) for arity in {*_ARITIES, width} if 2 <= arity <= max(width, 2)), key=cost)


class Leaves(NamedTuple):
    """Leaf numbers, one per group: an estimate, and an interval that contains the true leaf."""

    estimate: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@dataclass(frozen=True)
class NoisyTree:
    """Noisy counts of all nodes, one row per group, with quantiles computed from them at no further cost.

    A leaf number i stands for the row values from ``measure.low + i·leaf`` on, ``leaf`` steps of them, or for the
    places of the i-th cell around quantiles that were drawn.

    Args:
        tree: the shape.
        noisy_nodes: integers, groups × ``tree.nodes``.
        law: of the noise in each of them.
        drawn: where leaves are cells around quantiles that were drawn before, their places, groups × fractions.
    """

    tree: Tree
    noisy_nodes: NDArray[Any]
    law: NoiseLaw
    drawn: NDArray[np.int64] | None = None

    @cached_property
    def _sums(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.tree.sums(self.noisy_nodes)

    @property
    def total(self) -> NDArray[Any]:
        """The noisy number of values in each group; its noise is that of ``tree.levels[-1]`` nodes."""
        total: NDArray[Any] = self._sums[0][:, -1]
        return total

    def quantile(self, fraction: Number, *, beta: Number) -> Leaves:
        """Return the leaf of a quantile, with an interval that fails with probability at most ``beta``."""
        p = exact_probability(fraction, "fraction", zero=True, one=True)
        chance = exact_probability(beta, "beta")
        over, under = p.denominator - p.numerator, p.numerator
        before, after = self._sums
        # D_j times the denominator of p, in integers.
        noisy = over * _roomy(before, p.denominator) - under * _roomy(after, p.denominator)
        slack = self._slack(p, chance / 2, p.denominator)
        below = noisy[:, 1:] < 0
        low = _first(noisy[:, 1:] >= -under - slack[1:])
        high = _last(noisy[:, :-1] < 2 * p.denominator - under + slack[:-1])
        return _tidy(below.sum(axis=1), low, high, self.tree.width)

    def rank_error(self, fraction: Number, *, beta: Number) -> Fraction:
        """Return the error of a quantile in values by rank, exceeded with probability at most ``beta``."""
        p = exact_probability(fraction, "fraction", zero=True, one=True)
        return rank_error(self.tree, self.law, p, exact_probability(beta, "beta") / 2)

    def minimum(self, *, beta: Number) -> Leaves:
        """Return the leaf of the least value.

        The estimate is the first leaf such that it and the leaves before it certainly contain a value; a single small
        value is not detected, as privacy requires.
        """
        slack = self._slack(Fraction(0), exact_probability(beta, "beta") / 2)
        noisy = _roomy(self._sums[0])
        estimate = _first(noisy[:, 1:] > slack[1:])
        return _tidy(
            estimate, _first(noisy[:, 1:] >= 1 - slack[1:]), _last(noisy[:, :-1] <= slack[:-1]), self.tree.width
        )

    def maximum(self, *, beta: Number) -> Leaves:
        """Return the leaf of the largest value; as :meth:`minimum`, from the other end."""
        slack = self._slack(Fraction(1), exact_probability(beta, "beta") / 2)
        noisy = _roomy(self._sums[1])
        estimate = _last(noisy[:, :-1] > slack[:-1])
        return _tidy(
            estimate, _first(noisy[:, 1:] <= slack[1:]), _last(noisy[:, :-1] >= 1 - slack[:-1]), self.tree.width
        )

    def _slack(self, p: Fraction, beta: Fraction, times: int = 1) -> NDArray[Any]:
        """Return one noise bound per j, times ``times`` and rounded up to an integer.

        With p = 0 or 1 it is the bound for the first j leaves alone, or for the rest alone.
        """
        bounds = [math.ceil(times * error) for error in _errors(self.tree, self.law, p, beta)]
        return _roomy(np.array(bounds, dtype=object))


def _roomy(noisy: NDArray[Any], times: int = 1) -> NDArray[Any]:
    """Return the integers as 64-bit if ``times`` their largest fits with room to spare, otherwise as Python integers.

    They are already released, so the choice may depend on them.
    """
    if noisy.size and max(abs(int(noisy.min())), abs(int(noisy.max()))) * times >= 1 << 60:
        return noisy.astype(object)
    return noisy.astype(np.int64)


@lru_cache(maxsize=1024)
def _errors(tree: Tree, law: NoiseLaw, p: Fraction, beta: Fraction) -> tuple[Fraction, ...]:
    """Return, for each j from 0 to ``width``, a bound the noise in D_j exceeds with probability at most ``beta``."""
    terms = [tree.terms(j) for j in range(tree.width + 1)]
    distinct = sorted(set(terms))
    if len(distinct) <= _MOST_EXACT:
        # Noise is symmetric: a one-sided bound is the two-sided bound at twice the probability.
        found = [
            sum_error([NoiseTerm(law.kind, law.scale, w, n) for w, n in ((1 - p, before), (p, after)) if n], 2 * beta)
            for before, after in distinct
        ]
    else:
        found = one_sided_errors(law.kind, law.scale, (1 - p, p), distinct, beta)
    known = dict(zip(distinct, found, strict=True))
    return tuple(known[each] for each in terms)


def rank_error(tree: Tree, law: NoiseLaw, p: Fraction, beta: Fraction) -> Fraction:
    """Return a bound that the noise in D_j exceeds with probability at most ``beta``, for the j of widest noise."""
    return max(_errors(tree, law, p, beta))


def _first(passed: NDArray[Any]) -> NDArray[np.int64]:
    """Return the first index that passed in each row; the last index if none did."""
    found = passed.astype(np.bool_)
    places: NDArray[np.int64] = np.where(found.any(axis=1), found.argmax(axis=1), found.shape[1] - 1)
    return places


def _last(passed: NDArray[Any]) -> NDArray[np.int64]:
    """Return the last index that passed in each row; the first index if none did."""
    found = passed.astype(np.bool_)
    width = found.shape[1]
    backwards = found[:, ::-1].argmax(axis=1)
    places: NDArray[np.int64] = np.where(found.any(axis=1), width - 1 - backwards, 0)
    return places


def _tidy(estimate: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64], width: int) -> Leaves:
    """Return the leaves with ends in order and the estimate clipped to them."""
    lower, upper = np.minimum(low, high), np.maximum(low, high)
    return Leaves(np.clip(np.minimum(estimate.astype(np.int64), width - 1), lower, upper), lower, upper)


# -- quantiles drawn


#: Denominators of fractions from which gaps are Python's integers: 11 times 2¹⁸ times 2⁴⁰ rows still fit 64 bits.
_LONG: Final = 1 << 18
#: Denominator of the weights of the two sides of a quantile; numerators for the side with more and with fewer values.
_PARTS, _LONGER, _SHORTER = 10, 9, 11


@dataclass(frozen=True, slots=True)
class RankChoice:
    """The draws of quantiles of one measurement in all groups, by the exponential mechanism.

    Args:
        measure: index of the measurement.
        fractions: of the quantiles, ascending.
        epsilon: of one draw, if one unit adds ``rows`` values to the group (and removes as many, under replace-one).
        rows: the most values of one unit in a group.
        groups: the most groups that one unit is in.
        width: number of places.
        share: of the budget.
        relation: which databases are neighbours.
        name: text for explanations.
    """

    measure: int
    fractions: tuple[Fraction, ...]
    epsilon: Fraction
    rows: int
    groups: int
    width: int
    share: Fraction
    relation: Relation
    name: str

    @property
    def draws(self) -> int:
        """The most draws that one unit can affect."""
        return self.groups * len(self.fractions)

    @property
    def line(self) -> dict[str, Any]:
        """What a receipt says of the draws."""
        return {
            "name": f"quantiles, {self.name}",
            "mechanism": "exponential",
            "reason": self.reason,
            "epsilon": str(self.epsilon),
            "draws": str(self.draws),
            "event": self.event,
        }

    @property
    def event(self) -> RepeatedEvent:
        return RepeatedEvent(ExponentialEvent(self.epsilon, relation=self.relation), self.draws, relation=self.relation)

    @property
    def reason(self) -> str:
        """Reason for the sensitivity of the scores, as text."""
        ranks = ", ".join(map(str, self.fractions))
        replaced = "" if self.relation is ADD_REMOVE else "; replacing it takes as many away and adds as many"
        groups = f"{self.groups} group{'' if self.groups == 1 else 's'}"
        return (
            f"one unit adds at most {self.rows} values to a group, each of which moves the weighted ranks of places "
            f"against one another by at most twice the larger of p and 1-p, and is in at most {groups}; "
            f"p = {ranks}{replaced}"
        )

    def moved(self, fraction: Fraction) -> Fraction:
        """Return half of the most by which one unit changes the difference of two gaps, in values by rank."""
        return max(fraction, 1 - fraction) * self.rows * (1 if self.relation is ADD_REMOVE else 2)

    def scale(self, fraction: Fraction) -> Fraction:
        """Return the gap, in values by rank, that lowers the probability of a place by a factor e."""
        return 2 * self.moved(fraction) / self.epsilon

    def choose(self, raw: NDArray[Any]) -> NDArray[np.int64]:
        """Draw the places, groups × fractions; ``raw`` has one array of places and counts per group."""
        drawn = np.zeros((len(raw), len(self.fractions)), dtype=np.int64)
        for group, counted in enumerate(raw):
            for index, fraction in enumerate(self.fractions):
                drawn[group, index] = choose_place(counted, self.width, fraction, 1 / self.scale(fraction))
        return drawn


def sides(fraction: Fraction) -> tuple[int, int]:
    """Return the weights of places below and above a quantile, in tenths; see the module.

    The side with fewer values has the larger weight if p differs from 1/2 by at least 1/20, as the proof requires.
    """
    if abs(2 * fraction - 1) * _PARTS < _SHORTER - _PARTS:
        return _PARTS, _PARTS
    return (_LONGER, _SHORTER) if 2 * fraction > 1 else (_SHORTER, _LONGER)


def part_that_draws(fractions: Sequence[Fraction]) -> Fraction:
    """Return the part of the epsilon of quantiles for the draws; the rest counts the cells for the intervals.

    Away from the median a draw has larger errors, and so needs a larger part.
    """
    even = all(sides(fraction) == (_PARTS, _PARTS) for fraction in fractions)
    return Fraction(8, 9) if even else Fraction(14, 15)


def choose_place(counted: NDArray[np.int64], width: int, fraction: Fraction, rate: Fraction) -> int:
    """Sample a place by the exponential mechanism: P(y) ∝ exp(-rate · gap(y)).

    Args:
        counted: the places that occur, ascending, and the number of values at each: two columns.
        width: number of places.
        fraction: of the quantile.
        rate: factor of the gap, in values by rank, in the exponent.
    """
    low, high = sides(fraction)
    places, counts = counted[:, 0], counted[:, 1]
    above, below = fraction.numerator, fraction.denominator
    upto = np.cumsum(counts)
    total = int(upto[-1]) if len(upto) else 0
    # Runs alternate: the places before a value, the value itself, …, the places after the last value.
    edges = np.empty(2 * len(places) + 2, dtype=np.int64)
    edges[0], edges[1:-1:2], edges[2:-1:2], edges[-1] = 0, places, places + 1, width
    under = np.zeros(2 * len(places) + 1, dtype=np.int64)
    reached = under.copy()
    under[2::2], reached[2::2], reached[1::2] = upto, upto, upto
    under[1::2] = upto - counts
    if below >= _LONG:
        under, reached = under.astype(object), reached.astype(object)
    gaps = np.maximum(high * (below * under - above * total), low * (above * total - below * reached))
    run, offset = select_run(np.diff(edges), gaps, rate / (_PARTS * below))
    return int(edges[run]) + offset


def error_of_choice(choice: RankChoice, fraction: Fraction, beta: Fraction) -> Fraction:
    """Return the error of a drawn place in values by rank, exceeded with probability at most ``beta``."""
    longest = choice.scale(fraction) * max(log_bounds(choice.width / beta)[1], Fraction(0))
    return longest * _PARTS / min(sides(fraction))


def _distances(width: int) -> list[int]:
    """Return the distances from a drawn place at which cells end: 0, 4, 4 + 16, …, while below ``width``."""
    found = [0]
    while found[-1] + 1 < width:
        found.append(4 * found[-1] + 4)
    return found[:-1] or [0]


def cells(width: int, fractions: int) -> int:
    """Return the number of cells around the drawn places of ``fractions`` quantiles."""
    return min(2 * len(_distances(width)) * fractions + 1, width) if width > 1 else 1


def cuts_around(drawn: Sequence[int], width: int) -> list[int]:
    """Return the first place of every cell, then ``width``: :func:`cells` + 1 integers, not descending."""
    count = cells(width, len(drawn))
    if count == width:
        return list(range(width + 1))
    distances = _distances(width)
    cuts = [min(max(cut, 0), width) for place in drawn for d in distances for cut in (place - d, place + d + 1)]
    return [0, *sorted(cuts), width]


def count_cells(counted: NDArray[np.int64], cuts: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of values in each cell."""
    upto = np.concatenate(([0], np.cumsum(counted[:, 1])))
    counts: NDArray[np.int64] = np.diff(upto[np.searchsorted(counted[:, 0], cuts)])
    return counts


# -- estimates and families


#: Largest probability that the range up to the estimate of MIN, or from that of MAX, is empty.
_UNSEEN = Fraction(1, 20)


@dataclass(frozen=True, slots=True)
class LeafGrid:
    """Positions of leaves: ``leaf`` steps wide each, from ``low`` to ``high`` (in steps)."""

    low: int
    high: int
    leaf: int
    step: Fraction

    def ends(self, index: int) -> tuple[Fraction, Fraction]:
        """Return the smallest and the largest value of a leaf."""
        first = self.low + index * self.leaf
        return first * self.step, min(first + self.leaf - 1, self.high) * self.step

    def middle(self, index: int) -> Fraction:
        """Return the value that represents a leaf: its middle."""
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
        """Return the leaves of all groups, with intervals that each fail with probability at most ``beta``."""
        if beta not in self._known:
            if self.kind == "quantile":
                found = self.tree.quantile(self.fraction, beta=beta)
            else:
                found = self.tree.minimum(beta=beta) if self.kind == "min" else self.tree.maximum(beta=beta)
            self._known[beta] = found
        return self._known[beta]

    def span(self, group: int, beta: Fraction) -> tuple[Fraction, Fraction]:
        """Return the range that contains the quantile except with probability ``beta``."""
        leaves = self.leaves(beta)
        low, high = (int(end[group]) for end in (leaves.low, leaves.high))
        return self.grid.ends(low)[0], self.grid.ends(high)[1]

    def place(self, group: int) -> Fraction | None:
        """Return the estimate for a group; None if its noisy number of values is below 1."""
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
        tree: noisy counts of the cells, and the drawn places.
        grid: positions of the places.
        width: number of places.
        fractions: of all drawn quantiles, in the order of the draws.
        fraction: of this quantile.
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
        """Return the estimate for a group; None if its noisy number of values is below 1."""
        if int(self.tree.total[group]) < 1:
            return None
        return self.grid.middle(self._drawn(group)[self.fractions.index(self.fraction)])

    def span(self, group: int, beta: Fraction) -> tuple[Fraction, Fraction]:
        """Return the range that contains the quantile except with probability ``beta``."""
        if beta not in self._known:
            self._known[beta] = self.tree.quantile(self.fraction, beta=beta)
        leaves = self._known[beta]
        cuts = cuts_around(self._drawn(group), self.width)
        first, last = cuts[int(leaves.low[group])], cuts[int(leaves.high[group]) + 1] - 1
        # Cells at either end may contain no places.
        first = min(first, self.width - 1)
        return self.grid.ends(first)[0], self.grid.ends(max(first, last))[1]


@dataclass(frozen=True, slots=True)
class RankEvent:
    """The event that the two tests of one quantile accept its true leaves."""

    measure: int
    group: int
    kind: str
    fraction: Fraction


@dataclass(frozen=True, eq=False)
class Rank(Cell):
    """Cell of a quantile, MIN or MAX of one group."""

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
        return frozenset((RankEvent(self.measure, self.group, self.ranks.kind, self.ranks.fraction),))

    def _enclose(self, level: CellConfidence) -> Domain:
        # The event does not decide whether the group has any value.
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
    """Cell of MODE: the most common of ``categories``.

    Args:
        noisy: released integers, one for each category.
        categories: in the order of their declaration.
        event: of the noises of all categories.
        type: of the categories.
        unit: number of values that one released integer stands for.
    """

    noisy: NDArray[Any]
    categories: tuple[Value | None, ...]
    event: CommonEvent
    type: SqlType
    unit: Fraction = Fraction(1)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
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


class Quantiles(Family):
    """MIN and MAX from one tree of counts; MEDIAN and quantiles drawn among the steps, with counts around them."""

    error_kind = "rank"

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Add counts in leaves; for quantiles with a fraction between 0 and 1, in places."""
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
        known = None if asked.auto else bounds
        return Aggregate(asked.function, (index,), asked.parameter, kind, known, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return the error in values by rank."""
        index = aggregate.measures[0]
        release = at.priced.release_of[index]
        fraction = {"min": _ZERO, "max": Fraction(1)}.get(aggregate.kind, aggregate.parameter)
        if release.block.tree is None or fraction is None or release.is_constant:
            return _ZERO
        if release.choice is not None:
            return error_of_choice(release.choice, fraction, at.beta)
        return rank_error(release.block.tree, release.law(index), fraction, at.beta / 2)

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Return cells of places in the tree, or of drawn places."""
        index = aggregate.measures[0]
        grid = LeafGrid(measure.low, measure.high, measure.leaf, measure.step)
        tree = released.noisy[index]
        if not isinstance(tree, NoisyTree):
            raise InternalError("numbers where a tree was planned")
        if tree.drawn is not None:
            fractions = released.plan.priced.release_of[index].block.fractions
            drawn = DrawnRanks(tree, grid, measure.width, fractions, Fraction(aggregate.parameter or 0))
            return lambda group: Rank(drawn, index, group, aggregate.type)
        ranks = Ranks(tree, grid, aggregate.kind, Fraction(aggregate.parameter or 0))
        return lambda group: Rank(ranks, index, group, aggregate.type)


class MostCommon(Family):
    """MODE, from counts of declared categories."""

    error_kind = "count"

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Add counts of categories."""
        argument = asked.value
        values = final.categories(argument)
        if values is None or argument.type.kind is Kind.DOUBLE or not any(value is not None for value in values):
            raise Refusal(
                "no_categories",
                f"MODE chooses among declared categories; {names_of(argument)} has none. "
                "Ask the data owner to declare them, or use COUNT with GROUP BY.",
            )
        index = final.measure(categories_measure(argument, asked.where, values=values, rows=final.rows))
        return Aggregate(MOST_COMMON, (index,), asked.parameter, argument.type, None, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return the error in values: two noisy counts change order only if their noises together exceed the gap."""
        index = aggregate.measures[0]
        release, width = at.priced.release_of[index], at.final.measures[index].width
        if release.is_constant:
            return _ZERO
        return 2 * at.law(index).error(per_output_beta(at.beta, width))

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Return cells of the categories with their noisy counts."""
        index = aggregate.measures[0]
        noisy = noisy_numbers(released, index)
        return lambda group: Common(
            noisy[group],
            measure.categories,
            CommonEvent(released.first + index, group),
            aggregate.type,
            released.laws[index].unit,
        )


# -- exact, inside one unit's rows and over released cells


def one_of_the_values(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Return the type and range of the smallest or largest value."""
    return argument.type, argument.range


def true_or_false(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Return the type and range of a condition on all or on some rows."""
    return BOOLEAN, UNKNOWN


def least(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    return min(places)


def greatest(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    return max(places)


def quantile_of(places: list[Fraction], fraction: Fraction | None) -> Fraction:
    """Return a quantile of places by linear interpolation; the median if no fraction is stated."""
    order = sorted(places)
    place = (len(order) - 1) * (fraction if fraction is not None else Fraction(1, 2))
    below = math.floor(place)
    above = min(below + 1, len(order) - 1)
    return order[below] + (place - below) * (order[above] - order[below])


_TELLS: Final = "BOOL_AND and BOOL_OR would tell whether one person differs; use COUNT with FILTER."
_OF_FRACTION: Final = (
    "quantile",
    "quantile_cont",
    "percentile_cont",
    "percentile",
    "approx_quantile",
    "approx_percentile",
)
_QUANTILES: Final = Quantiles()
ENTRIES: Final = {
    "min": AggregateEntry(called("min", "min"), one_of_the_values, least, ("min",), _QUANTILES, bounded=True),
    "max": AggregateEntry(called("max", "max"), one_of_the_values, greatest, ("max",), _QUANTILES, bounded=True),
    "quantile": AggregateEntry(
        {"median": SqlName("quantile", 1, Fraction(1, 2))}
        | {name: SqlName("quantile", 2, "fraction") for name in _OF_FRACTION}
        | {name: SqlName("quantile", 2, "discrete") for name in ("percentile_disc", "quantile_disc")}
        | {"approx_quantiles": SqlName("quantile", 2, "parts")},
        between_the_values, quantile_of, ("quantile",), _QUANTILES, takes="number", bounded=True, sorts=True),
    "mode": AggregateEntry(
        {"mode": SqlName("mode", 1, Fraction(1))}, None, None, (MOST_COMMON,), MostCommon(), adds_up=True,
        refusal="MODE inside one person's rows is not supported; ties have no one answer."),
    "bool_and": AggregateEntry(
        called("bool_and", "bool_and", "every"), true_or_false, least, (), None, takes="condition", refusal=_TELLS),
    "bool_or": AggregateEntry(
        called("bool_or", "bool_or"), true_or_false, greatest, (), None, takes="condition", refusal=_TELLS),
}  # fmt: skip
