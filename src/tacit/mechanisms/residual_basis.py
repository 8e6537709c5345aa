"""Residual basis of tables of counts: marginals with noise of their own, and cells that agree with all of them.

A table over several axes is the sum of its *residuals*: one for each set A of axes, the part of the marginal on A that
no smaller marginal determines. Residuals are orthogonal, every marginal on B ⊇ A sees the residual of A, and noise of
precision p on each cell of that marginal, which adds up m cells of the table, sees it with precision p·m, whatever A
is. So the best linear estimate of the table from several noisy marginals is known in closed form: every residual is the
mean of what the marginals say of it, weighted by p·m (:class:`LevelBasis`), and a sum of cells on a set S of axes has
the variance Σ_{A⊆S} |residual A of the sum|²/u_A with u_A = Σ_{B⊇A} p_B·m_B.

:func:`best_levels` divides a budget among marginals, here called *levels*, so that the sum of variances of all cells of
some sets is least. Where persons are in one cell each and sets are those of CUBE or ROLLUP this is the optimum that
residuals with noise of their own reach, since the optimal precisions fall from smaller sets to larger ones; where
persons are in many cells a marginal of few cells moves far, and the finest cells may be best alone.

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

__all__ = ["Axes", "LevelBasis", "best_levels", "cell_count", "packed", "residual_variance", "rounded_table", "subsets"]

#: Places of axes, ascending.
Axes = tuple[int, ...]
Name = TypeVar("Name", bound=Hashable)
#: Parts in which weights of estimates, and shares of a budget, are whole.
_WEIGHT_PARTS: Final = 1 << 16
_SHARE_PARTS: Final = 512
#: A level with fewer parts than these is left out, unless a set needs it.
_LEAST_PARTS: Final = 4
#: Axes with more than one value; of more the finest cells are measured alone.
_MOST_AXES: Final = 6
#: Several levels are measured where the sum of variances is below this part of that of the finest cells alone.
_WORTH: Final = 0.9
_ITERATIONS: Final = 400
#: An iteration ends where no share changes by more than this.
_STILL: Final = 1e-7


def subsets(names: Sequence[Name]) -> list[tuple[Name, ...]]:
    """All subsets in the order of ``names``, smaller ones first."""
    return [below for size in range(len(names) + 1) for below in itertools.combinations(names, size)]


def cell_count(names: Sequence[Name], sizes: Mapping[Name, int]) -> int:
    """Number of cells of a marginal."""
    return math.prod(sizes[name] for name in names)


def residual_variance(below: Sequence[Name], names: Sequence[Name], sizes: Mapping[Name, int]) -> float:
    """Variance of a cell of the marginal on ``names`` for a residual of variance 1 on ``below``."""
    return math.prod((sizes[name] - 1) / sizes[name] if name in below else 1 / sizes[name] ** 2 for name in names)


def packed(groups: int, merged: int) -> int:
    """The largest Σ c² of whole numbers c from 0 to ``merged`` that add up to ``groups``.

    >>> packed(5, 2)
    9
    """
    full, rest = divmod(groups, merged)
    return full * merged**2 + rest**2


@dataclass(frozen=True)
class LevelBasis:
    """Estimates of the cells of a table from noisy marginals of it.

    Args:
        sizes: number of values along each axis.
        levels: the axes of each marginal that is measured.
        precisions: of the noise on a cell of each, relative to one another.
    """

    sizes: tuple[int, ...]
    levels: tuple[Axes, ...]
    precisions: tuple[Fraction, ...]

    @property
    def denominator(self) -> int:
        """By which estimates are multiplied, so that they are whole."""
        return _WEIGHT_PARTS * math.prod(self.sizes)

    def covers(self, axes: Sequence[int]) -> bool:
        """Whether cells on some axes are estimated without bias: one level has all of those with several values."""
        needed = {axis for axis in axes if self.sizes[axis] > 1}
        return any(needed <= set(level) for level in self.levels)

    def merged(self, level: int) -> int:
        """Number of cells of the table that a cell of a level adds up."""
        return math.prod(size for axis, size in enumerate(self.sizes) if axis not in self.levels[level])

    def measured(self, table: NDArray[Any], level: int) -> NDArray[Any]:
        """A level of a table whose first axes are these: exact sums; any further axes stay."""
        others = tuple(axis for axis in range(len(self.sizes)) if axis not in self.levels[level])
        return np.asarray(table.sum(axis=others)) if others else table

    def estimates(self, noisy: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The cells of the table times the denominator, in Python's own integers, from one array for each level."""
        table = np.zeros(self.sizes, dtype=object)
        for level, (axes, array) in enumerate(zip(self.levels, noisy, strict=True)):
            made = self._applied(level, np.asarray(array, dtype=object))
            table += made.reshape([size if axis in axes else 1 for axis, size in enumerate(self.sizes)])
        return table

    def noise_weights(self, weights: NDArray[Any]) -> list[NDArray[Any]]:
        """The weights of the noises of each level in a weighted sum of estimates, times the denominator."""
        return [self._applied(level, self.measured(weights, level)) for level in range(len(self.levels))]

    @lru_cache(maxsize=4096)  # noqa: B019 - bases are small, and few
    def set_noise(self, kept: Axes) -> tuple[tuple[int, int, int], ...]:
        """The noise of a cell on some axes: level, weight times the denominator, and how many noises have it."""
        place = tuple(0 if axis in kept else slice(None) for axis in range(len(self.sizes)))
        weights = np.zeros(self.sizes, dtype=np.int64)
        weights[place] = 1
        return self.tally(weights)

    def tally(self, weights: NDArray[Any]) -> tuple[tuple[int, int, int], ...]:
        """As :meth:`set_noise`, of any weighted sum of estimates."""
        found: list[tuple[int, int, int]] = []
        for level, noise in enumerate(self.noise_weights(weights)):
            sizes = Counter(abs(int(weight)) for weight in noise.ravel().tolist())
            found += [(level, weight, count) for weight, count in sorted(sizes.items()) if weight]
        return tuple(found)

    def _applied(self, level: int, array: NDArray[Any]) -> NDArray[Any]:
        """The symmetric map from a level to its own part of the estimates, times the denominator."""
        axes = self.levels[level]
        total: NDArray[Any] = np.zeros_like(array)
        for kept, factor in self._factors[level]:
            others = tuple(place for place, axis in enumerate(axes) if axis not in kept)
            total = np.asarray(total + factor * (array.sum(axis=others, keepdims=True) if others else array))
        return total

    @cached_property
    def _factors(self) -> tuple[tuple[tuple[Axes, int], ...], ...]:
        """For each level the sums over all but some of its axes, and how often each enters.

        Along an axis of A the residual is n·I - J, along others of the level J: multiplied out.
        """
        found = []
        for level, axes in enumerate(self.levels):
            factors: dict[Axes, int] = {}
            for residual in subsets(axes):
                weight = self._weights[residual].get(level, 0)
                for kept in subsets(residual):
                    sign = -1 if (len(residual) - len(kept)) % 2 else 1
                    spread = math.prod(self.sizes[axis] for axis in kept)
                    factors[kept] = factors.get(kept, 0) + sign * weight * spread
            found.append(tuple((kept, factor) for kept, factor in factors.items() if factor))
        return tuple(found)

    @cached_property
    def _weights(self) -> dict[Axes, dict[int, int]]:
        """For each residual the weights of the levels that see it, whole parts that add up to all of them."""
        found: dict[Axes, dict[int, int]] = {}
        for residual in {below for axes in self.levels for below in subsets(axes)}:
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
def best_levels(
    sizes: tuple[int, ...], sets: tuple[Axes, ...], groups: int, *, norm: int, power: int
) -> tuple[tuple[Axes, Fraction], ...] | None:
    """Levels and their shares of a budget with nearly the least sum of variances over the cells of some sets.

    Args:
        sizes: number of values along each axis.
        sets: axes of the cells that are wanted.
        groups: the most cells of the table that one person is in.
        norm: 2 where noise follows the l2 norm of a person's movement, 1 where it follows l1.
        power: with which power of its share the precision of a level grows.

    Returns:
        None where the finest cells alone are about as good, or there is nothing to choose.
    """
    axes = tuple(axis for axis, size in enumerate(sizes) if size > 1)
    if not axes or len(axes) > _MOST_AXES or 0 in sizes:
        return None
    wanted = sorted({tuple(axis for axis in kept if axis in axes) for kept in sets})
    merged = {below: math.prod(sizes[axis] for axis in axes if axis not in below) for below in subsets(axes)}
    needed = sorted({below for kept in wanted for below in subsets(kept)}, key=lambda each: (len(each), each))
    claims = {
        below: float(
            math.prod(sizes[axis] - 1 for axis in below) * sum(merged[s] for s in wanted if set(below) <= set(s))
        )
        for below in needed
    }
    levels = [*needed, *([] if axes in needed else [axes])]
    # How far one person moves a level, squared, in units of one cell's movement.
    costs = {each: float(packed(groups, merged[each]) if norm == 2 else groups**2) for each in levels}
    problem = _Division(claims, {each: merged[each] / costs[each] for each in levels}, power)
    shares = _whole(problem, wanted)
    alone = problem.variance({axes: 1.0})
    if problem.variance({each: share / _SHARE_PARTS for each, share in shares.items()}) > _WORTH * alone:
        return None
    found = tuple((each, Fraction(share, _SHARE_PARTS)) for each, share in shares.items())
    # The finest cells need not be measured, but where they are alone there is nothing to combine.
    return None if [each for each, _ in found] == [axes] else found


@dataclass(frozen=True)
class _Division:
    """Sum of variances Σ claims_A/u_A as a function of shares; u_A = Σ_{B⊇A} gains_B·share_B^power."""

    claims: Mapping[Axes, float]
    gains: Mapping[Axes, float]
    power: int

    def _seen(self, shares: Mapping[Axes, float]) -> dict[Axes, float]:
        precision = {each: self.gains[each] * share**self.power for each, share in shares.items()}
        return {
            below: math.fsum(p for each, p in precision.items() if set(below) <= set(each)) for below in self.claims
        }

    def variance(self, shares: Mapping[Axes, float]) -> float:
        seen = self._seen(shares)
        return math.fsum(c / seen[below] if seen[below] else math.inf for below, c in self.claims.items() if c)

    def best(self) -> dict[Axes, float]:
        """Multiplicative steps: at the optimum every level that has a share gains as much from a little more of it."""
        shares = {each: 1 / len(self.gains) for each in self.gains}
        for _ in range(_ITERATIONS):
            seen = self._seen(shares)
            moved = {
                each: share
                * (
                    self.gains[each]
                    * self.power
                    * share ** (self.power - 1)
                    * math.fsum(c / seen[below] ** 2 for below, c in self.claims.items() if set(below) <= set(each))
                )
                ** (1 / (self.power + 1))
                for each, share in shares.items()
            }
            total = math.fsum(moved.values())
            moved = {each: max(value / total, 1e-12) for each, value in moved.items()}
            still = max(abs(moved[each] - shares[each]) for each in shares) < _STILL
            shares = moved
            if still:
                break
        return shares


def _whole(problem: _Division, wanted: Sequence[Axes]) -> dict[Axes, int]:
    """The best shares in whole parts; levels with few are left out, unless a set needs them."""
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
    """Whole numbers near ``top / bottom`` whose sums along any axes are near those of the table too.

    Sums of all cells up to a place are rounded, and cells are their differences: a cell on d axes is off by at most
    2^(d-1), however many cells of the table it adds up, and the sum of all by at most a half.
    """
    sums = top.astype(object)
    for axis in range(sums.ndim):
        sums = sums.cumsum(axis=axis)
    whole = (2 * sums + bottom) // (2 * bottom)
    for axis in range(whole.ndim):
        whole = np.diff(whole, axis=axis, prepend=0)
    return np.asarray(whole)
