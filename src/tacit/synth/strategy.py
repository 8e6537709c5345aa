"""Strategies: the integer queries that get noise, chosen so that the answers to others have the least variance.

For queries W over n cells and a strategy S with noise of variance σ² on every row, the least-squares answers have the
variances σ²·w(SᵀS)⁻¹wᵀ, and σ² grows with the largest squared column of S. With X = SᵀS scaled to unit columns, the
sum of variances is tr(WᵀW·X⁻¹), a convex function of X. Its minimum over diag(X) = 1 has a closed form given the
multipliers λ of the n constraints, X = D^-½ (D^½ WᵀW D^½)^½ D^-½ with D = diag(λ), and λ is found by the iteration
λ ← diag((D^½ WᵀW D^½)^½). Every λ >= 0 also gives a lower bound on what any strategy can reach, so the result comes
with a proof of how good it is.

Everything in this module works on public sizes in floats: a strategy is public, and a bad one costs accuracy, never
privacy. The strategy itself is rounded to integers; see ``strategy.proof.md`` for what rests on that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.synth.workload import Factor

#: Largest number of values of a factor whose strategy is optimised.
LARGEST_FACTOR: Final = 2_048
#: Bits of the largest entries of all dense factors of a product together.
_BITS: Final = 20
_ITERATIONS: Final = 60
#: Number of cells above which the iteration starts from the multipliers of a coarser problem.
_COARSE: Final = 96
#: Distance from the lower bound at which the iteration ends.
_CLOSE: Final = 0.005
#: Ridge, as a share of the mean diagonal, so that workloads of less than full rank have a strategy too.
_RIDGE: Final = 1e-9
#: Branching factors of the trees of sums that are compared.
_BRANCHES: Final = (2, 4, 8, 16, 32)
#: Largest number of values for which the l2 strategy is among the candidates for l1.
_SMALL: Final = 64


class IntegerStrategy(ABC):
    """Integer strategy matrix S, applied to counts along one axis."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Number of columns of S: cells that it reads."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of rows of S: integers that it returns."""

    @property
    @abstractmethod
    def column_squares(self) -> tuple[int, int]:
        """Exact smallest and largest entry of SᵀS; the largest is the largest squared l2 norm of a column."""

    @property
    @abstractmethod
    def column_size(self) -> int:
        """Exact largest l1 norm of a column of S."""

    @property
    @abstractmethod
    def covariance(self) -> NDArray[np.float64]:
        """Covariance of the least-squares counts for noise of variance 1: the pseudo-inverse of SᵀS."""

    @abstractmethod
    def apply(self, counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """Return S applied to counts along an axis, in integers."""

    @abstractmethod
    def solve(self, noisy: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Return the least-squares estimates of the counts along an axis."""


@dataclass(frozen=True)
class SquareStrategy(IntegerStrategy):
    """Strategy with a square matrix: as many integers as cells."""

    size: int

    @property
    def inputs(self) -> int:
        """Number of cells."""
        return self.size

    @property
    def outputs(self) -> int:
        """Number of integers."""
        return self.size


@dataclass(frozen=True)
class CentredStrategy(SquareStrategy):
    """Strategy n·I - J: n times each count, minus the sum of all. It measures differences of counts, not their sum."""

    @property
    def column_squares(self) -> tuple[int, int]:
        """(n-1)² + (n-1) = n(n-1) for a column with itself; -n for two different columns."""
        return (-self.size if self.size > 1 else 0), self.size * (self.size - 1)

    @property
    def column_size(self) -> int:
        """One entry n-1, and n-1 entries of absolute value 1."""
        return 2 * (self.size - 1)

    def apply(self, counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """Return n times each count, minus the sum of all."""
        return np.asarray(self.size * counts - counts.sum(axis=axis, keepdims=True))

    def solve(self, noisy: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Return the centred counts: (noisy - mean) / n."""
        return np.asarray((noisy - noisy.mean(axis=axis, keepdims=True)) / self.size)

    @property
    def covariance(self) -> NDArray[np.float64]:
        """(I - J/n)/n²."""
        return (np.eye(self.size) - 1 / self.size) / self.size**2


@dataclass(frozen=True)
class IdentityStrategy(SquareStrategy):
    """Identity strategy: the counts themselves."""

    @property
    def column_squares(self) -> tuple[int, int]:
        """1 for a column with itself; 0 for two different columns."""
        return (0 if self.size > 1 else 1), 1

    @property
    def column_size(self) -> int:
        """A single 1."""
        return 1

    def apply(self, counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:  # noqa: ARG002 - the same along all
        return counts

    def solve(self, noisy: NDArray[np.float64], axis: int) -> NDArray[np.float64]:  # noqa: ARG002
        return noisy

    @property
    def covariance(self) -> NDArray[np.float64]:
        return np.eye(self.size)


@dataclass(frozen=True, eq=False)
class DenseStrategy(IntegerStrategy):
    """Strategy given by an integer matrix of full column rank.

    Args:
        rows: the matrix S.
        bound: ratio of a lower bound on the total variance of the queries to that of this strategy; 1 where optimal.
    """

    rows: NDArray[np.int64]
    bound: float = 1.0

    @property
    def inputs(self) -> int:
        """Number of cells."""
        return int(self.rows.shape[1])

    @property
    def outputs(self) -> int:
        """Number of integers."""
        return int(self.rows.shape[0])

    @cached_property
    def column_squares(self) -> tuple[int, int]:
        """Exact, from the products of all pairs of columns."""
        gram = self._gram
        return int(gram.min()), int(gram.diagonal().max())

    @cached_property
    def column_size(self) -> int:
        """Exact, from the integer sums of all columns."""
        return int(np.abs(self.rows).sum(axis=0).max())

    @cached_property
    def _gram(self) -> NDArray[np.int64]:
        # Entries have at most 20 bits and there are at most 2,048 rows: no partial sum reaches 2⁵³, so that doubles,
        # which numpy multiplies a hundred times faster than integers, are exact.
        rows = self.rows.astype(np.float64)
        return (rows.T @ rows).astype(np.int64)

    def apply(self, counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """Return S applied along an axis, in 64-bit integers."""
        return np.moveaxis(np.tensordot(self.rows, counts, axes=([1], [axis])), 0, axis)

    def solve(self, noisy: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Return (SᵀS)⁻¹Sᵀ applied along an axis."""
        seen = np.tensordot(self.rows.astype(np.float64), noisy, axes=([0], [axis]))
        return np.moveaxis(np.tensordot(self.covariance, seen, axes=([1], [0])), 0, axis)

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        """The inverse of SᵀS."""
        return np.linalg.inv(self._gram.astype(np.float64))


def strategy_for(factor: Factor, size: int, *, factors: int = 1, norm: int = 2) -> IdentityStrategy | DenseStrategy:
    """Return a strategy with a small total variance for the queries of a factor over ``size`` values.

    For noise calibrated to l2 it is near the optimum. For noise calibrated to l1 it is the best of the identity,
    trees of sums with branching factor 2, 4, 8, 16 or 32, and the l2 strategy.

    Args:
        factor: the queries.
        size: number of values.
        factors: number of factors of the product, which share the bits of integers.
        norm: 2 where noise is calibrated to the largest column in l2, 1 where in l1.

    Raises:
        InputError: there are too many values.
    """
    if factor.kind == "each":
        return IdentityStrategy(size)
    if factor.kind == "total":
        raise InputError("workload", "a total needs no strategy; it is a sum of counts")
    if size > LARGEST_FACTOR:
        raise InputError(
            "workload",
            f"{factor.column} has {size:,} values, and at most {LARGEST_FACTOR:,} can be optimised; group them first, "
            "such as FLOOR(x / 10)",
        )
    return _optimised(factor, size, factors) if norm == 2 else _best_for_l1(factor, size, factors)


@lru_cache(maxsize=16)
def _optimised(factor: Factor, size: int, factors: int) -> DenseStrategy:
    gram = factor.gram(size)
    gram = gram + np.eye(size) * _RIDGE * max(gram.diagonal().mean(), 1.0)
    shape, bound = optimal_gram(gram)
    values, vectors = np.linalg.eigh(shape)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    scale = 2.0 ** (min(_BITS, 14 * factors) // factors) / np.abs(root).max()
    made = DenseStrategy(np.rint(root * scale).astype(np.int64))
    reached = float(np.einsum("ij,ji->", gram, made.covariance)) * made.column_squares[1]
    return DenseStrategy(made.rows, min(1.0, bound / reached))


@lru_cache(maxsize=16)
def _best_for_l1(factor: Factor, size: int, factors: int) -> IdentityStrategy | DenseStrategy:
    gram = factor.gram(size)
    able: list[IdentityStrategy | DenseStrategy] = [IdentityStrategy(size)]
    able += [tree_strategy(size, branches) for branches in _BRANCHES if branches < size]
    if size <= _SMALL:
        able.append(_optimised(factor, size, factors))
    # Total variance, for Laplace noise whose scale is the l1 sensitivity of each strategy.
    return min(able, key=lambda made: float(np.einsum("ij,ji->", gram, made.covariance)) * made.column_size**2)


@lru_cache(maxsize=32)
def tree_strategy(size: int, branches: int) -> DenseStrategy:
    """Return the strategy of all cells and a tree of sums: for 4 branches, over runs of 4, 16, 64, … cells.

    >>> tree_strategy(5, 4).rows.tolist()[5:]
    [[1, 1, 1, 1, 0], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]]
    """
    at, run, rows = np.arange(size), 1, []
    while True:
        groups = -(-size // run)
        rows.append((at // run == np.arange(groups)[:, None]).astype(np.int64))
        if groups == 1:
            return DenseStrategy(np.concatenate(rows))
        run *= branches


def optimal_gram(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return X with unit diagonal that nearly minimises tr(gram·X⁻¹), and a lower bound on that trace for any X.

    The bound is (Σ singular values)² at the multipliers found: for λ >= 0 with Σλ = 1, tr(gram·X⁻¹) >=
    (tr (D^½ gram D^½)^½)² for every X with diag(X) <= 1, by Cauchy and Schwarz.
    """
    shape, bound, _ = _iterate(gram)
    return shape, bound


def _iterate(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """Return X, the lower bound and the multipliers; the start is the solution for every fourth cell."""
    size = len(gram)
    weights = np.full(size, 1.0 / size)
    if size > _COARSE:
        chosen = np.linspace(0, size - 1, size // 4).round().astype(np.int64)
        _, _, coarse = _iterate(gram[np.ix_(chosen, chosen)])
        weights = np.interp(np.arange(size), chosen, coarse)
        weights = weights / weights.sum()
    best, shape = 0.0, np.eye(size)
    for _ in range(_ITERATIONS):
        half = np.sqrt(weights)
        values, vectors = np.linalg.eigh(half[:, None] * gram * half[None, :])
        roots = np.sqrt(np.maximum(values, 0.0))
        middle = (vectors * roots) @ vectors.T
        total = float(roots.sum())
        best = max(best, total**2)
        shape = middle / np.outer(half, half)
        shape = shape / np.sqrt(np.outer(shape.diagonal(), shape.diagonal()))
        try:
            reached = float(np.trace(np.linalg.solve(shape, gram)))
        except np.linalg.LinAlgError:
            reached = math.inf
        if reached <= (1 + _CLOSE) * best:
            break
        weights = np.maximum(middle.diagonal(), total * 1e-12)
        weights = weights / weights.sum()
    return shape, best, weights


def least(parts: Sequence[tuple[int, int]]) -> int:
    """Return the smallest product of one number from each interval."""
    low, high = 1, 1
    for small, large in parts:
        ends = [low * small, low * large, high * small, high * large]
        low, high = min(ends), max(ends)
    return low
