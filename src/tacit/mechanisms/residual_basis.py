"""Residual basis of tables of counts: marginals with noise of their own, and cells that agree with all of them.

A table over several axes is the sum of its *residuals*: one for each set A of axes, the part of the marginal on A that
no smaller marginal determines. Residuals are orthogonal, every marginal on B ⊇ A sees the residual of A, and noise of
precision p on each cell of that marginal, which adds up m cells of the table, sees it with precision p·m, whatever A
is. So the best linear estimate of the table from several noisy marginals is known in closed form: every residual is
the mean of its estimates from the marginals, weighted by p·m (:class:`LevelBasis`), and a sum of cells on a set S of
axes has the variance Σ_{A⊆S} |residual A of the sum|²/u_A with u_A = Σ_{B⊇A} p_B·m_B.

:func:`best_levels` divides a budget among marginals, here called *levels*, so that the sum of variances of all cells of
some sets is least. Where each person is in one cell and the sets are those of CUBE or ROLLUP, this sum equals the
optimum of residuals that are noised individually, since the optimal precisions fall from smaller sets to larger ones;
where persons are in many cells a marginal of few cells moves far, and the finest cells alone may be best.

Candidate levels are the wanted sets, the finest cells and all their intersections: residuals that the same wanted sets
see need the same precision and are treated together, so the number of axes is not limited.

Everything here is a function of public sizes. Proof: ``residual_basis.proof.md``.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.sensitivity import Sensitivity, contributions

#: Indices of axes, ascending.
Axes = tuple[int, ...]
Name = TypeVar("Name", bound=Hashable)
#: Denominators of the weights of estimates and of the shares of a budget.
_WEIGHT_PARTS: Final = 1 << 16
_SHARE_PARTS: Final = 512
#: A level with fewer parts than these is left out, unless a set needs it.
_LEAST_PARTS: Final = 4
#: Wanted sets and their intersections: CUBE of seven keys. Of more the finest cells are measured alone.
_MOST_LEVELS: Final = 128
#: Several levels are measured where the sum of variances is below this part of that of the finest cells alone.
_WORTH: Final = 0.9
_ITERATIONS: Final = 400
#: An iteration ends where no share changes by more than this.
_STILL: Final = 1e-7


def subsets(names: Sequence[Name]) -> list[tuple[Name, ...]]:
    """Return all subsets in the order of ``names``, smaller ones first."""
    return [below for size in range(len(names) + 1) for below in itertools.combinations(names, size)]


def cell_count(names: Sequence[Name], sizes: Mapping[Name, int]) -> int:
    """Return the number of cells of the marginal on ``names``."""
    return math.prod(sizes[name] for name in names)


def residual_variance(below: Sequence[Name], names: Sequence[Name], sizes: Mapping[Name, int]) -> float:
    """Return the variance that a residual of variance 1 on ``below`` adds to a cell of the marginal on ``names``."""
    return math.prod((sizes[name] - 1) / sizes[name] if name in below else 1 / sizes[name] ** 2 for name in names)


def packed(groups: int, merged: int) -> int:
    """Return the largest Σ c² of whole numbers c from 0 to ``merged`` that add up to ``groups``.

    >>> packed(5, 2)
    9
    """
    full, rest = divmod(groups, merged)
    return full * merged**2 + rest**2


def intersections(sets: Sequence[Axes], most: int | None = None) -> list[Axes] | None:
    """Return all intersections of ``sets``, themselves included, smaller ones first; None if more than ``most``.

    >>> intersections([(0, 1), (1, 2)])
    [(1,), (0, 1), (1, 2)]
    """
    found: set[frozenset[int]] = set()
    for each in sets:
        own = frozenset(each)
        found |= {own} | {own & other for other in found}
        if most is not None and len(found) > most:
            return None
    return sorted((tuple(sorted(each)) for each in found), key=lambda each: (len(each), each))


@dataclass(frozen=True)
class UnitMovement:
    """Contribution of one unit to a table, for the sensitivity of the table and of sums of its cells.

    Args:
        groups: the most cells of the table that a unit is in.
        bounds: clipping bounds of a unit's contribution to one cell.
        relation: which databases are neighbours.
        spread: whether a cell is a vector of counts, to which one unit adds at most ``bounds[1]`` in total.
    """

    groups: int
    bounds: tuple[Fraction, Fraction]
    relation: Relation = ADD_REMOVE
    spread: bool = False

    def at(self, merged: int, cells: int) -> Sensitivity:
        """Return the sensitivity of ``cells`` sums, each over ``merged`` cells of the table."""
        if merged == 1:
            known = None if self.spread else cells
            return contributions(bounds=self.bounds, max_groups=self.groups, groups=known, relation=self.relation)
        largest, least = self.largest, min(abs(self.bounds[0]), abs(self.bounds[1]))
        most, square = min(self.groups, merged), packed(self.groups, merged)
        if self.relation is ADD_REMOVE:
            return Sensitivity(self.groups * largest, square * largest**2, most * largest, ADD_REMOVE)
        if self.spread:
            return Sensitivity(2 * self.groups * largest, 2 * square * largest**2, most * largest, self.relation)
        # Both units may be in one cell, with values of opposite signs.
        far = most * (largest + least)
        return Sensitivity(
            min(2 * self.groups * largest, cells * far),
            min(2 * square * (largest**2 + least**2), cells * far**2),
            far,
            self.relation,
        )

    @property
    def largest(self) -> Fraction:
        """Largest absolute contribution of a unit to one cell."""
        return max(abs(self.bounds[0]), abs(self.bounds[1]))


@dataclass(frozen=True)
class LevelBasis:
    """Estimates of the cells of a table from noisy marginals of it.

    Args:
        sizes: number of values along each axis.
        levels: the axes of each marginal that is measured.
        precisions: precision (1/variance) of the noise on a cell of each level, up to a common factor.
    """

    sizes: tuple[int, ...]
    levels: tuple[Axes, ...]
    precisions: tuple[Fraction, ...]

    @property
    def denominator(self) -> int:
        """Factor that makes all estimates whole numbers."""
        return _WEIGHT_PARTS * math.prod(self.sizes)

    def merged(self, level: int) -> int:
        """Return the number of cells of the table that one cell of the level adds up."""
        return math.prod(size for axis, size in enumerate(self.sizes) if axis not in self.levels[level])

    def measured(self, table: NDArray[Any], level: int) -> NDArray[Any]:
        """Return the exact marginal of a level; axes of ``table`` beyond ``sizes`` are kept."""
        others = tuple(axis for axis in range(len(self.sizes)) if axis not in self.levels[level])
        return np.asarray(table.sum(axis=others)) if others else table

    def estimates(self, noisy: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return estimates of the cells, times the denominator, as Python integers, from one noisy array per level."""
        # Axes beyond ``sizes`` are kept, as in :meth:`measured`.
        further = noisy[0].shape[len(self.levels[0]) :]
        table = np.zeros((*self.sizes, *further), dtype=object)
        for level, (axes, array) in enumerate(zip(self.levels, noisy, strict=True)):
            made = self._applied(level, np.asarray(array, dtype=object))
            spread = [size if axis in axes else 1 for axis, size in enumerate(self.sizes)]
            table += made.reshape((*spread, *further))
        return table

    def noise_weights(self, weights: NDArray[Any]) -> list[NDArray[Any]]:
        """Return, per level, the weight of each noise in a weighted sum of estimates, times the denominator."""
        return [self._applied(level, self.measured(weights, level)) for level in range(len(self.levels))]

    @lru_cache(maxsize=4096)  # noqa: B019 - bases are small, and few
    def set_noise(self, kept: Axes) -> tuple[tuple[int, int, int], ...]:
        """Return the noises in a cell of the marginal on ``kept``: level, weight times the denominator, and number."""
        place = tuple(0 if axis in kept else slice(None) for axis in range(len(self.sizes)))
        weights = np.zeros(self.sizes, dtype=np.int64)
        weights[place] = 1
        found: list[tuple[int, int, int]] = []
        for level, noise in enumerate(self.noise_weights(weights)):
            sizes = Counter(abs(int(weight)) for weight in noise.ravel().tolist())
            found += [(level, weight, count) for weight, count in sorted(sizes.items()) if weight]
        return tuple(found)

    def _applied(self, level: int, array: NDArray[Any]) -> NDArray[Any]:
        """Map a level's marginal to its term of the estimates, times the denominator; the map is symmetric."""
        axes = self.levels[level]
        total: NDArray[Any] = np.zeros_like(array)
        for kept, factor in self._factors[level]:
            others = tuple(place for place, axis in enumerate(axes) if axis not in kept)
            total = np.asarray(total + factor * (array.sum(axis=others, keepdims=True) if others else array))
        return total

    @cached_property
    def _factors(self) -> tuple[tuple[tuple[Axes, int], ...], ...]:
        """For each level, pairs of axes to keep and the factor of the sums over its remaining axes.

        The residuals whose smallest enclosing intersection of levels is C are, in total, the means over all axes
        outside C, less those of smaller intersections.
        """
        found = []
        for level, axes in enumerate(self.levels):
            factors: dict[Axes, int] = {}
            for seen, weight in ((seen, weights.get(level, 0)) for seen, weights in self._weights.items()):
                for kept, sign in _alone(tuple(self._weights))[seen].items() if set(seen) <= set(axes) else ():
                    spread = math.prod(self.sizes[axis] for axis in kept)
                    factors[kept] = factors.get(kept, 0) + sign * weight * spread
            found.append(tuple((kept, factor) for kept, factor in factors.items() if factor))
        return tuple(found)

    @cached_property
    def _weights(self) -> dict[Axes, dict[int, int]]:
        """For each intersection of levels, the weight of each level that contains it, in parts of ``_WEIGHT_PARTS``.

        A residual is seen by the levels that contain its smallest enclosing intersection.
        """
        found: dict[Axes, dict[int, int]] = {}
        for residual in intersections(self.levels) or ():
            seen = {
                level: self.precisions[level] * self.merged(level)
                for level, axes in enumerate(self.levels)
                if set(residual) <= set(axes)
            }
            total = sum(seen.values())
            parts = {level: int(_WEIGHT_PARTS * each / total) for level, each in seen.items()}
            most = max(seen, key=lambda level: (seen[level], -level))
            parts[most] += _WEIGHT_PARTS - sum(parts.values())
            found[residual] = parts
        return found


@lru_cache(maxsize=512)
def _alone(sets: tuple[Axes, ...]) -> dict[Axes, dict[Axes, int]]:
    """Return, for each set, its Möbius coefficients: itself less the parts of its subsets; ``sets`` ascend in size."""
    found: dict[Axes, dict[Axes, int]] = {}
    for each in sets:
        own: Counter[Axes] = Counter({each: 1})
        for below, entering in found.items():
            if set(below) < set(each):
                own.subtract(entering)
        found[each] = {kept: number for kept, number in own.items() if number}
    return found


@lru_cache(maxsize=512)
def best_levels(
    sizes: tuple[int, ...], sets: tuple[Axes, ...], moved: UnitMovement, *, norm: int, power: int
) -> tuple[tuple[Axes, Fraction], ...] | None:
    """Return levels and their shares of a budget, with nearly the least sum of variances over the cells of ``sets``.

    Args:
        sizes: number of values along each axis.
        sets: axes of the cells that are wanted.
        moved: how far one person moves the table.
        norm: 2 where noise follows the l2 norm of a person's movement, 1 where it follows l1.
        power: p, where the precision of a level is proportional to its share to the power of p.

    Returns:
        None where the finest cells alone are about as good, there is nothing to choose, or there are too many sets.
    """
    axes = tuple(axis for axis, size in enumerate(sizes) if size > 1)
    wanted = sorted({tuple(axis for axis in kept if axis in axes) for kept in sets})
    levels = intersections([*wanted, axes], _MOST_LEVELS)
    if not axes or 0 in sizes or levels is None:
        return None
    cells = {each: cell_count(each, dict(enumerate(sizes))) for each in levels}
    merged = {each: cells[axes] // cells[each] for each in levels}
    # Residuals with the same smallest enclosing level, in total: their number, and the number of sets that see them.
    alone = _alone(tuple(levels))
    claims = {
        each: float(
            sum(number * cells[kept] for kept, number in alone[each].items())
            * sum(merged[s] for s in wanted if set(each) <= set(s))
        )
        for each in levels
    }
    # How far one person moves a level, squared, in units of one cell's movement.
    unit = moved.largest
    moves = {each: moved.at(merged[each], cells[each]) for each in levels}
    costs = {
        each: float_nearest(far.l2_squared / unit**2 if norm == 2 else (far.l1 / unit) ** 2)
        for each, far in moves.items()
    }
    problem = _Division(claims, {each: merged[each] / costs[each] for each in levels}, power)
    shares = _whole(problem, wanted)
    finest = problem.variance({axes: 1.0})
    if problem.variance({each: share / _SHARE_PARTS for each, share in shares.items()}) > _WORTH * finest:
        return None
    found = tuple((each, Fraction(share, _SHARE_PARTS)) for each, share in shares.items())
    # The finest cells need not be a level; but where they are the only level there is nothing to combine.
    return None if [each for each, _ in found] == [axes] else found


@dataclass(frozen=True)
class _Division:
    """Sum of variances Σ claims_A/u_A as a function of shares; u_A = Σ_{B⊇A} gains_B·share_B^power."""

    claims: Mapping[Axes, float]
    gains: Mapping[Axes, float]
    power: int

    @cached_property
    def _sees(self) -> NDArray[np.float64]:
        """1 where a level (row) sees residuals (column), else 0."""
        return np.array([[float(set(below) <= set(each)) for below in self.claims] for each in self.gains])

    def variance(self, shares: Mapping[Axes, float]) -> float:
        seen = np.array([gain * shares.get(each, 0.0) ** self.power for each, gain in self.gains.items()]) @ self._sees
        pairs = zip(self.claims.values(), seen.tolist(), strict=True)
        return math.fsum(claim / each if each else math.inf for claim, each in pairs if claim)

    def best(self) -> dict[Axes, float]:
        """Return the best shares, by multiplicative steps.

        At the optimum all levels of positive share gain equally from a small increase of their share.
        """
        gains, claims = np.array([*self.gains.values()]), np.array([*self.claims.values()])
        shares = np.full(len(gains), 1 / len(gains))
        for _ in range(_ITERATIONS):
            seen = (gains * shares**self.power) @ self._sees
            worth = gains * self.power * shares ** (self.power - 1) * (self._sees @ (claims / seen**2))
            moved = shares * worth ** (1 / (self.power + 1))
            moved = np.maximum(moved / moved.sum(), 1e-12)
            still = np.abs(moved - shares).max() < _STILL
            shares = moved
            if still:
                break
        return dict(zip(self.gains, shares.tolist(), strict=True))


def _whole(problem: _Division, wanted: Sequence[Axes]) -> dict[Axes, int]:
    """Return the best shares in whole parts; levels with few parts are left out, unless a set needs them."""
    best = problem.best()
    parts = {each: round(share * _SHARE_PARTS) for each, share in best.items()}
    parts = {each: part if part >= _LEAST_PARTS else 0 for each, part in parts.items()}
    for kept in wanted:
        if not any(part and set(kept) <= set(each) for each, part in parts.items()):
            parts[kept] = 1
    parts = {each: part for each, part in parts.items() if part}
    parts[max(parts, key=lambda each: (parts[each], each))] += _SHARE_PARTS - sum(parts.values())
    return parts


def rounded_table(top: NDArray[Any], bottom: int) -> NDArray[Any]:
    """Round ``top / bottom`` to whole numbers so that sums along any axes stay near the exact ones.

    Cumulative sums along all axes are rounded, and cells are their differences: a cell on d axes is off by at most
    2^(d-1), however many cells of the table it adds up, and the sum of all by at most a half.
    """
    sums = top.astype(object)
    for axis in range(sums.ndim):
        sums = sums.cumsum(axis=axis)
    whole = (2 * sums + bottom) // (2 * bottom)
    for axis in range(whole.ndim):
        whole = np.diff(whole, axis=axis, prepend=0)
    return np.asarray(whole)
