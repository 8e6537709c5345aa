"""Gradient perturbation: noisy gradient descent in which every number that depends on data is an integer.

Each step releases Σ r_i ⊗ x_i + noise, where x_i is an integer row, r_i its integer residuals, clipped so that
‖r_i‖·‖x_i‖ is at most a public number, and the noise discrete Gaussian. Logits and sums are exact
(:func:`exact_product`); weights are rounded to a public grid before each step. Further computation on the noisy sums is
post-processing, in ordinary floats.
``gradient.proof.md`` has the proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest
from tacit.learn import release
from tacit.learn.integer_rows import UNIT, Integers, ceil_sqrt, exact_product, shared, square_norms
from tacit.learn.losses import GRID, WHOLE, Loss, clip_residuals
from tacit.learn.release import progress
from tacit.noise import entropy

#: Number of grid steps of a weight per unit.
WEIGHTS: Final = 1 << 20
#: Largest norm of a column of weights, with which logits are below 2⁴⁶ steps, and exact.
LARGEST_WEIGHT: Final = 1 << 12
#: Sampling rates are multiples of one over this, so that one comparison of a random word draws a member exactly.
RATE_STEPS: Final = 1 << 32
#: Momentum of the steps where the gradients are hardly noisy: a curvature of a hundredth of its bound converges.
MOMENTUM: Final = 0.8
#: Largest number of steps with which the noise of their average is estimated from the curvature too.
_FEW_STEPS: Final = 200
#: Least factor by which slopes are shrunk.
_LEAST_KEPT: Final = 0.1


@dataclass(frozen=True)
class GradientTable:
    """Input of a descent: mapped integer rows, targets, and relative weights, if any."""

    rows: NDArray[np.float64]
    targets: Integers
    shares: Integers | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.rows), self.rows.shape[1]


@dataclass(frozen=True, eq=False)
class Descent:
    """Noisy gradient descent with calibrated noise.

    The objective is the sum of the losses and ½·wᵀ·penalty·w. A step is (bound + penalty)⁻¹ times the noisy gradient,
    where ``bound`` is an upper bound of the second derivative of the losses; such steps never overshoot.

    Attributes:
        loss: loss of the model.
        outputs: number of columns of the weights.
        clip: clipping bound on the norm of a row's contribution, in steps of the loss times UNIT.
        steps: number of noisy gradients; a public number, which never depends on the data.
        rate: rate of the secret Poisson sample of each step.
        sigma2: variance of the noise, in squared integer steps.
        bound: upper bound of the second derivative of the sum of the losses in any direction.
        penalty: positive semidefinite matrix of the quadratic penalty.
        momentum: momentum of the steps, between 0 and 1.
        settled: share of the steps after which weights are averaged.
    """

    loss: Loss
    outputs: int
    clip: int
    steps: int
    rate: Fraction
    sigma2: Fraction
    bound: float
    penalty: NDArray[np.float64]
    momentum: float = 0.0
    settled: float = 0.5

    def run(self, table: GradientTable, *, title: str = "fit") -> tuple[NDArray[np.float64], float]:
        """Return the shrunk average of the last steps' weights, one column per output, and the factor of its slopes.

        The variance of its noise is the larger of two estimates: one from the curvature of the observed gradients
        (:meth:`_noise_of_average`), for few steps, and one from the difference between the average of the first half of
        these last steps and the average of all of them.
        """
        weights = np.zeros((table.shape[1], self.outputs))
        ahead, path, gradients, seen = weights, [], [], []
        inverse = np.linalg.inv(self.penalty + self.bound * np.eye(len(weights)))
        unit = WHOLE * UNIT * float_nearest(self.rate)
        late = int(self.steps * self.settled)
        for step in progress(range(self.steps), title):
            noisy = release.release_gaussian(self.raw_sum(table, to_grid(ahead)), self.sigma2) / unit
            if self.steps <= _FEW_STEPS:
                path.append(ahead)
                gradients.append(noisy)
            found = shorten(ahead - inverse @ (noisy + self.penalty @ ahead))
            ahead, weights = shorten(found + self.momentum * (found - weights)), found
            if step >= late:
                seen.append(weights)
        middle = np.mean(seen, axis=0)
        apart = middle - np.mean(seen[: (len(seen) + 1) // 2], axis=0)
        variance = float((apart**2).mean())
        if path:
            noise = float_nearest(self.sigma2) / unit**2
            variance = max(variance, self._noise_of_average(np.array(path), np.array(gradients), noise))
        return shrunk(middle, variance)

    def _noise_of_average(self, path: NDArray[np.float64], gradients: NDArray[np.float64], variance: float) -> float:
        """Return the noise variance of a weight in the average of the last steps, given that of a gradient.

        It depends on the curvature of the losses: the slope of the gradients against the weights, by least squares. The
        noise of a gradient moves later weights and so their mean, which biases this slope, the more so the smaller the
        curvature. So the largest curvature is taken that is consistent with the observed covariance.
        """
        away = path - path.mean(axis=0)
        squares, seen = float((away**2).sum()), float((away * gradients).sum())
        late = int(self.steps * self.settled) + 1
        for curvature in (*(self.bound * np.logspace(0, -3, 31)), 0.0):
            response = self._responses(float(curvature))
            by_noise = -variance * path[0].size * float(response[:-1].mean(axis=0).sum())
            if curvature * squares + by_noise <= seen:
                break
        return float((response[late:].mean(axis=0) ** 2).sum()) * variance

    def _responses(self, curvature: float) -> NDArray[np.float64]:
        """Return the effect of unit noise in one step (column) on the weights before each step (row) and at the end."""
        held = float(np.trace(self.penalty)) / len(self.penalty)
        ahead = weights = np.zeros(self.steps)
        rows = [ahead]
        for noise in np.eye(self.steps):
            found = ahead - ((curvature + held) * ahead + noise) / (held + self.bound)
            ahead, weights = found + self.momentum * (found - weights), found
            rows.append(ahead)
        return np.array(rows)

    def raw_sum(self, table: GradientTable, weights: NDArray[np.float64]) -> Integers:
        """Return the exact sum of a sample's clipped gradients before noise; a row moves it by at most clip·UNIT."""
        chosen = np.flatnonzero(sample_rows(len(table), self.rate))
        total = np.zeros((table.rows.shape[1], self.outputs), dtype=np.int64)
        for block in _blocks(chosen):
            rows = table.rows[block]
            residuals = self.loss.residuals(logits_of(rows, weights), table.targets[block])
            residuals = shared(residuals, None if table.shares is None else table.shares[block])
            clipped = clip_residuals(residuals, self.clip * UNIT // lengths(rows))
            total += exact_product(rows, clipped.astype(np.float64), self.clip * UNIT)
        return total


def shrunk(weights: NDArray[np.float64], variance: float) -> tuple[NDArray[np.float64], float]:
    """Shrink weights by a James-Stein factor for noise of ``variance`` in each; return them and the slopes' factor.

    This is post-processing. Slopes that are no longer than noise alone keep a tenth: the model falls back to its
    constants, the base rate, and still ranks by the remaining signal.

    Args:
        weights: one line per feature, and a last one of constants.
        variance: variance of the noise in each weight.
    """
    slopes, constants = weights[:-1], weights[-1:]
    kept = max(1 - slopes.size * variance / max(float((slopes**2).sum()), 1e-300), _LEAST_KEPT)
    return np.vstack([slopes * kept, constants**3 / (constants**2 + variance + 1e-300)]), kept


def lengths(rows: NDArray[np.float64]) -> Integers:
    """Return the norms of rows of integer-valued floats, rounded up, at least 1."""
    return cast("Integers", np.maximum(ceil_sqrt(square_norms(rows.astype(np.int64))), 1))


def logits_of(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> Integers:
    """Return the exact logits of integer rows under weights on the grid, rounded down to the grid of the losses."""
    exact = (rows @ weights).astype(np.int64)
    return exact // (UNIT * WEIGHTS // GRID)


def to_grid(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights rounded to integer steps."""
    return cast("NDArray[np.float64]", np.rint(weights * WEIGHTS))


def shorten(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights with each column clipped to a norm below :data:`LARGEST_WEIGHT`."""
    norms = np.linalg.norm(weights, axis=0)
    return cast("NDArray[np.float64]", weights / np.maximum(norms / (LARGEST_WEIGHT - 1), 1.0))


def sample_rows(count: int, rate: Fraction) -> NDArray[np.bool_]:
    """Draw a Poisson sample: a mask with each row independently in it with probability ``rate``, a multiple of 2⁻³²."""
    threshold = int(rate * RATE_STEPS)
    if threshold == RATE_STEPS:
        return np.ones(count, dtype=np.bool_)
    words = entropy.current().words(count)
    return (words >> np.uint64(32)) < np.uint64(threshold)


def rate_on_grid(rate: Fraction) -> Fraction:
    """Return ``rate`` rounded down to a multiple of 2⁻³², which can be sampled exactly; at least 2⁻³²."""
    return max(Fraction(math.floor(rate * RATE_STEPS), RATE_STEPS), Fraction(1, RATE_STEPS))


def _blocks(chosen: NDArray[np.intp], size: int = 1 << 15) -> Iterator[NDArray[np.intp]]:
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]
