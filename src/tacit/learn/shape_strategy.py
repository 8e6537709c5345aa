"""Strategy of an additive fit: which sums over bins are released, and how shapes are read from them.

A row is in one bin of a feature. A sum over many bins that is released itself is as noisy as a sum over one; added up
from noisy bins it is noisier by the root of their number. So a fit releases weighted sums over bins, with weights of
norm one for each bin: where noise rules, few smooth sums take all of the weight; where rows rule, each bin has its own.
Weights follow from noisy numbers of rows alone. ``additive.proof.md`` has the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tacit.learn.binned import BINS, Floats
from tacit.learn.integer_rows import Integers

#: Norm of the weights of a bin, in steps.
STRATEGY_UNIT: Final = 1 << 7
#: Sums of a feature: the first is over all bins alike.
SUMS: Final = BINS + 1
#: Sizes that differences of a shape from one bin to the next, and differences of these, are expected to have.
_SLOPE: Final = 0.25
_BEND: Final = 0.03
#: Precision of every bin of a shape beside these.
_FLAT: Final = 0.05
#: Size that the value of a category is expected to have.
_CATEGORY: Final = 1.0
#: Part of a bin's weight, squared, in the sum over all bins, whatever the number of features.
_OVERALL: Final = 0.08
#: Fewest rows of a bin, beside an equal share of them, with which weights are found.
_FEWEST: Final = 0.01
#: Part of the largest variance that every variance has at least, so that no matrix is singular.
_REGULAR: Final = 1e-9


def prior_precision(*, nominal: bool) -> Floats:
    """Inverse covariance of a shape before data is seen: near a straight line, or nothing in common for categories."""
    if nominal:
        return np.eye(BINS) / _CATEGORY**2
    slope, bend = np.diff(np.eye(BINS), axis=0), np.diff(np.eye(BINS), 2, axis=0)
    return slope.T @ slope / _SLOPE**2 + bend.T @ bend / _BEND**2 + _FLAT * np.eye(BINS)


@dataclass(frozen=True, eq=False)
class ShapeStrategy:
    """Weights of the sums of one feature, and how a shape follows from noisy ones.

    Attributes:
        whole: the weights as integers, by sum and bin; no bin has a norm of more than :data:`STRATEGY_UNIT`.
        overall: weight of every bin in the first sum, relative to the unit.
        read: from noisy sums of residuals to the slope of the loss in each bin, as far as they are to be trusted.
        bend: second derivative of the loss as it is read.
        spread: covariance of what is read.
    """

    whole: Integers
    overall: float
    read: Floats
    bend: Floats
    spread: Floats

    @classmethod
    def overall_only(cls) -> ShapeStrategy:
        """All weight in the sum over all bins: the constant is read with the least noise, and no shape."""
        whole = np.zeros((SUMS, BINS), dtype=np.int64)
        whole[0] = STRATEGY_UNIT
        nothing = np.zeros((BINS, BINS))
        return cls(whole, 1.0, np.zeros((BINS, SUMS)), nothing, nothing)

    def raw_sums(self, bins: Integers) -> Integers:
        """Weighted sums of exact sums per bin, exactly; one column per output."""
        return cast("Integers", self.whole @ bins)


@dataclass(frozen=True)
class Course:
    """Rounds of a descent without data: how large noise alone makes a shape.

    Steps are linear in the sums for a squared loss, and nearly so for others, so the average of the last half of the
    rounds is a weighted sum of all noises, with weights that follow from public numbers.

    Attributes:
        rounds: how many there are.
        momentum: of the steps.
        sigma: of the noise of a sum in a round.
        noise: that a strategy was made for.
    """

    rounds: int
    momentum: float
    sigma: float
    noise: float

    def size(self, strategy: ShapeStrategy, inverse: Floats, pull: Floats, shares: Floats) -> float:
        """Mean square of a shape that follows noise and sampling alone, over shares of the rows.

        Args:
            strategy: of the feature.
            inverse: of what a slope is divided by in a step.
            pull: precision of shapes.
            shares: of the rows, by bin.
        """
        root = np.linalg.cholesky(inverse)
        rates, axes = np.linalg.eigh(root.T @ (strategy.bend + pull) @ root)
        seen = axes.T @ root.T
        drawn = strategy.read @ strategy.read.T
        each, late = self._answers(rates), self.rounds // 2
        total = np.vstack([np.zeros_like(rates), np.cumsum(each, axis=0)])
        first = np.arange(self.rounds)
        averaged = (total[self.rounds - first] - total[np.maximum(late - first, 0)]) / (self.rounds - late)
        moved = (averaged.T @ averaged) * (self.sigma**2 * seen @ drawn @ seen.T)
        # What sampling moves is the same in all rounds.
        moved += np.outer(averaged.sum(axis=0), averaged.sum(axis=0)) * (
            seen @ (strategy.spread - self.noise**2 * drawn) @ seen.T
        )
        back = root @ axes
        centred = back - shares @ back
        return float(shares @ np.einsum("bi,ij,bj->b", centred, moved, centred))

    def _answers(self, rates: Floats) -> Floats:
        """Answers of a shape to a push in the first round, round by round, in directions that decay at these rates."""
        found = [np.ones_like(rates)]
        before = np.zeros_like(rates)
        for _ in range(self.rounds - 1):
            ahead = found[-1] + self.momentum * (found[-1] - before)
            before = found[-1]
            found.append((1 - rates) * ahead)
        return np.stack(found)


def believed_part(sizes: Floats, noises: Floats) -> Floats:
    """Factors for what was found with noise: the part of its mean square that noise does not explain (James, Stein).

    Args:
        sizes: mean squares of what was found.
        noises: mean squares that noise alone would have.
    """
    return cast("Floats", np.maximum(1 - noises / np.maximum(sizes, 1e-300), 0.0))


def strategy_of(
    counts: Floats, curvature: float, noise: float, precision: Floats, features: int, *, nominal: bool
) -> ShapeStrategy:
    """The strategy that noisy numbers of rows per bin ask for.

    Args:
        counts: of one feature, at least zero.
        curvature: of the loss.
        noise: of the average of all sums, for weights of one.
        precision: of shapes.
        features: how many there are; all tell the overall sum.
        nominal: whether bins are categories.
    """
    share = math.sqrt(_OVERALL + 0.5 / (features + 1))
    weights = np.eye(BINS) if nominal else _smooth_weights(counts, curvature, noise, precision)
    weights = np.vstack([np.full((1, BINS), share), math.sqrt(1 - share**2) * weights])
    # Beyond 64 bits, and of what is no number, an integer would be any, and its square in 64 bits small.
    steps = np.clip(np.nan_to_num(weights * STRATEGY_UNIT, nan=0.0), -STRATEGY_UNIT, STRATEGY_UNIT)
    whole = np.trunc(steps).astype(np.int64)
    # By integers: floats may be a little too long.
    whole = np.where((whole**2).sum(axis=0) <= STRATEGY_UNIT**2, whole, 0)
    used, steep = whole / STRATEGY_UNIT, curvature * counts
    seen = used * steep
    covariance = noise**2 * np.eye(SUMS) + seen @ used.T
    covariance += _REGULAR * max(float(np.diag(covariance).max()), 1e-9) * np.eye(SUMS)
    read = cast("Floats", np.linalg.solve(covariance, seen).T)
    return ShapeStrategy(whole, float(used[0].max()), read, read @ seen, read @ covariance @ read.T)


def _smooth_weights(counts: Floats, curvature: float, noise: float, precision: Floats) -> Floats:
    """Weights of norm one for each bin: directions of shapes, as much of each as equals their expected errors."""
    share = counts / max(float(counts.sum()), 1e-9) if counts.any() else np.full(BINS, 1 / BINS)
    steep = curvature * max(float(counts.sum()), 1.0) * np.maximum(share, _FEWEST / BINS)
    centred = np.eye(BINS) - share
    prior = centred @ np.linalg.inv(precision) @ centred.T
    root = np.sqrt(steep)
    sizes, directions = np.linalg.eigh(root[:, None] * prior * root)
    parts = _levelled(np.maximum(sizes, 1e-12), float(steep.sum()) / noise**2 if noise > 0 else math.inf)
    weights = np.sqrt(parts)[:, None] * directions.T / root
    return cast("Floats", weights / np.maximum(np.linalg.norm(weights, axis=0), 1e-300))


def _levelled(sizes: Floats, amount: float) -> Floats:
    """Parts of an amount of precision that bring all directions to one level, as far as it reaches."""
    floors = np.sort(1 / sizes)
    if amount > floors[-1] * 1e6:
        return np.ones(len(sizes))
    filled = [(amount + floors[: count + 1].sum()) / (count + 1) for count in range(len(floors))]
    count = max(place for place, level in enumerate(filled) if level >= floors[place])
    return cast("Floats", np.maximum(filled[count] - 1 / sizes, 0.0))
