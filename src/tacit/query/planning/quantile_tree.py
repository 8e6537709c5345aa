"""Quantile tree: several ranks from one tree of noisy counts.

A bounded column is cut into ``width`` leaves. Counts are released on several levels: the leaves, nodes of ``arity``
leaves, nodes of ``arity`` such nodes, …, up to a level of at most ``arity`` nodes. A unit's values are counted once
on every level, so one level has the sensitivity of the leaves and all of them that times their number. In return the
number of values below a leaf is the sum of few nodes instead of many leaves. Noise on the leaves alone is the tree of
one level, and wins where leaves are few.

*Rank of a place.* For a fraction p and j leaves, let D_j = (1-p)·(values in the first j leaves) - p·(values in the
others): what the first j leaves hold beyond the share p of all. Both parts are sums over nodes that do not overlap,
so the noise in D_j is a sum of independent noises with weights 1-p and p.

*Intervals.* A continuous quantile lies between two neighbouring values, in leaves k <= k′ (a discrete one is the
first or the second). Then D_{k+1} >= -p and D_{k′} < 2-p. With s_j the one-sided bound of the noise in D_j at β/2,
each of "noisy D_{k+1} < -p-s" and "noisy D_{k′} >= 2-p+s" has probability at most β/2. So both leaves lie, but for
probability β, from the first leaf that passes the one test to the last that passes the other. No union over leaves is
needed: both tests are at fixed, if unknown, places. The least value, in leaf k, likewise: at least 1 in the first k+1
leaves, 0 in the first k.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import Number, exact_probability
from tacit.query.planning.noise_distribution import NoiseLaw, NoiseTerm, one_sided_errors, sum_error

#: Arities that are tried, besides the number of leaves itself.
_ARITIES = (*range(2, 17), 20, 24, 32, 48, 64)
#: Sums of nodes whose noise is bounded one by one; of more kinds of them by one inequality.
_MOST_EXACT = 64


@dataclass(frozen=True, slots=True)
class Tree:
    """The shape: ``width`` leaves, joined ``arity`` at a time."""

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
        """Number of nodes."""
        return sum(self.levels)

    def fill(self, leaves: NDArray[Any]) -> NDArray[Any]:
        """All nodes of each row of leaves: the leaves, then the level above, and so on; exact integers."""
        parts, here = [leaves], leaves
        for size in self.levels[1:]:
            padded = np.zeros((len(here), size * self.arity), dtype=here.dtype)
            padded[:, : here.shape[1]] = here
            here = padded.reshape(len(here), size, self.arity).sum(axis=2)
            parts.append(here)
        return np.concatenate(parts, axis=1)

    def terms(self, leaves: int) -> tuple[int, int]:
        """Number of nodes that make up the first ``leaves`` leaves, and of those for the others."""
        before = after = 0
        left = right = leaves
        sizes = self.levels
        for size in sizes[:-1]:
            before += left % self.arity
            after += min(-(-right // self.arity) * self.arity, size) - right
            left, right = left // self.arity, -(-right // self.arity)
        return before + left, after + sizes[-1] - right

    def sums(self, nodes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Per row of nodes, for each j from 0 to ``width``: the first j leaves, and the others, from fewest nodes."""
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
    """The tree whose ranks carry the least noise: levels² (Laplace) or levels (Gaussian) times the nodes of a rank."""

    def cost(tree: Tree) -> int:
        count = len(tree.levels)
        nodes = (count - 1) * (tree.arity - 1) + tree.levels[-1]
        return (count if gaussian else count * count) * nodes

    return min((Tree(width, arity) for arity in {*_ARITIES, width} if 2 <= arity <= max(width, 2)), key=cost)


class Leaves(NamedTuple):
    """Leaf numbers, one per group: an estimate, and an interval that holds the true leaf."""

    estimate: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@dataclass(frozen=True)
class NoisyTree:
    """Noisy counts of all nodes, one row per group, and what can be read off them without further cost.

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
        """The leaf of a quantile, with an interval that fails with probability at most ``beta``."""
        p = exact_probability(fraction, "fraction", zero=True, one=True)
        chance = exact_probability(beta, "beta")
        over, under = p.denominator - p.numerator, p.numerator
        before, after = self._sums
        # D_j times the denominator of p, in whole numbers.
        noisy = over * _roomy(before, p.denominator) - under * _roomy(after, p.denominator)
        slack = self._slack(p, chance / 2, p.denominator)
        below = noisy[:, 1:] < 0
        low = _first(noisy[:, 1:] >= -under - slack[1:])
        high = _last(noisy[:, :-1] < 2 * p.denominator - under + slack[:-1])
        return _tidy(below.sum(axis=1), low, high, self.tree.width)

    def rank_error(self, fraction: Number, *, beta: Number) -> Fraction:
        """Number of values, by rank, by which a quantile may be off, but for probability ``beta``."""
        p = exact_probability(fraction, "fraction", zero=True, one=True)
        return rank_error(self.tree, self.law, p, exact_probability(beta, "beta") / 2)

    def minimum(self, *, beta: Number) -> Leaves:
        """The leaf of the least value.

        The estimate is the first leaf up to which there is certainly something; a lone small value goes unseen, as it
        must.
        """
        slack = self._slack(Fraction(0), exact_probability(beta, "beta") / 2)
        noisy = _roomy(self._sums[0])
        estimate = _first(noisy[:, 1:] > slack[1:])
        return _tidy(
            estimate, _first(noisy[:, 1:] >= 1 - slack[1:]), _last(noisy[:, :-1] <= slack[:-1]), self.tree.width
        )

    def maximum(self, *, beta: Number) -> Leaves:
        """The leaf of the largest value; as :meth:`minimum`, from the other end."""
        slack = self._slack(Fraction(1), exact_probability(beta, "beta") / 2)
        noisy = _roomy(self._sums[1])
        estimate = _last(noisy[:, :-1] > slack[:-1])
        return _tidy(
            estimate, _first(noisy[:, 1:] <= slack[1:]), _last(noisy[:, :-1] >= 1 - slack[:-1]), self.tree.width
        )

    def _slack(self, p: Fraction, beta: Fraction, times: int = 1) -> NDArray[Any]:
        """One bound per j, ``times`` as large and rounded up to whole numbers.

        With p = 0 or 1 it is that of the first j leaves alone, or of the others alone.
        """
        bounds = [math.ceil(times * error) for error in _errors(self.tree, self.law, p, beta)]
        return _roomy(np.array(bounds, dtype=object))


def _roomy(noisy: NDArray[Any], times: int = 1) -> NDArray[Any]:
    """The same integers in 64 bits where ``times`` them fit with room to spare, else of any size.

    They are released already, so the choice may depend on them.
    """
    if noisy.size and max(abs(int(noisy.min())), abs(int(noisy.max()))) * times >= 1 << 60:
        return noisy.astype(object)
    return noisy.astype(np.int64)


@lru_cache(maxsize=1024)
def _errors(tree: Tree, law: NoiseLaw, p: Fraction, beta: Fraction) -> tuple[Fraction, ...]:
    """For each j from 0 to ``width``, what the noise in D_j exceeds with probability at most ``beta``."""
    terms = [tree.terms(j) for j in range(tree.width + 1)]
    distinct = sorted(set(terms))
    if len(distinct) <= _MOST_EXACT:
        # Noise is symmetric: a bound of its size at twice the chance.
        found = [
            sum_error([NoiseTerm(law.kind, law.scale, w, n) for w, n in ((1 - p, before), (p, after)) if n], 2 * beta)
            for before, after in distinct
        ]
    else:
        found = one_sided_errors(law.kind, law.scale, (1 - p, p), distinct, beta)
    known = dict(zip(distinct, found, strict=True))
    return tuple(known[each] for each in terms)


def rank_error(tree: Tree, law: NoiseLaw, p: Fraction, beta: Fraction) -> Fraction:
    """Bound that the noise in D_j exceeds with probability at most ``beta``, at the j where it is widest."""
    return max(_errors(tree, law, p, beta))


def _first(passed: NDArray[Any]) -> NDArray[np.int64]:
    """The first place that passed in each row; the last place where none did."""
    found = passed.astype(np.bool_)
    places: NDArray[np.int64] = np.where(found.any(axis=1), found.argmax(axis=1), found.shape[1] - 1)
    return places


def _last(passed: NDArray[Any]) -> NDArray[np.int64]:
    """The last place that passed in each row; the first place where none did."""
    found = passed.astype(np.bool_)
    width = found.shape[1]
    backwards = found[:, ::-1].argmax(axis=1)
    places: NDArray[np.int64] = np.where(found.any(axis=1), width - 1 - backwards, 0)
    return places


def _tidy(estimate: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64], width: int) -> Leaves:
    """Ends in order, the estimate between them."""
    lower, upper = np.minimum(low, high), np.maximum(low, high)
    return Leaves(np.clip(np.minimum(estimate.astype(np.int64), width - 1), lower, upper), lower, upper)
