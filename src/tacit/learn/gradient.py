"""Gradient perturbation: noisy gradient descent in which every number that depends on data is an integer.

Each step releases Σ r_i ⊗ x_i + noise, where x_i is an integer row of norm at most UNIT, r_i its integer residuals,
clipped to a public norm, and the noise discrete Gaussian. Logits and sums are exact (:func:`exact_product`); weights
live on a public grid between steps. Later work on the noisy sums is post-processing, in ordinary floats.
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
from tacit.learn.integer_rows import UNIT, Integers, exact_product
from tacit.learn.losses import GRID, Loss, clip_residuals
from tacit.learn.progress import progress
from tacit.noise import entropy

__all__ = ["LONGEST", "RATE_STEPS", "Descent", "GradientTable", "logits_of", "rate_on_grid", "sample_rows", "to_grid"]

#: Steps of the grid of weights per unit.
WEIGHTS: Final = 1 << 20
#: No column of weights is longer than this; logits are then below 2⁴⁶ steps, and exact.
LARGEST_WEIGHT: Final = 1 << 12
#: Sampling rates are multiples of one over this, so that one comparison of a random word draws a member exactly.
RATE_STEPS: Final = 1 << 32
#: Steps times step size, at most: where the noise would allow more, fitting further gains nothing measurable.
LONGEST: Final = 1280.0
#: The standard deviation that the noise of all steps together may have in a logit; measured, see docs/learning.md.
NOISE: Final = 2.0


@dataclass(frozen=True)
class GradientTable:
    """Input of a descent: finished integer rows, targets, and which rows count at all."""

    rows: NDArray[np.float64]
    targets: Integers
    counts: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Descent:
    """A run of noisy gradient descent, its privacy already paid for.

    Attributes:
        loss: of the model.
        outputs: how many columns the weights have.
        clip: the norm that residuals are clipped to, in steps of the loss.
        steps: how many noisy gradients are taken; a public number, never cut short by looking at the data.
        rate: of the secret sample each step sees.
        sigma2: of the noise, in integer steps.
        rows_estimate: roughly how many rows there are, from a noisy count or declared.
        noise: the standard deviation that the noise of all steps together may have in a logit.
        longest: steps times step size, at most, in units of the clip.
    """

    loss: Loss
    outputs: int
    clip: int
    steps: int
    rate: Fraction
    sigma2: Fraction
    rows_estimate: float
    noise: float = NOISE
    longest: float = LONGEST

    def run(self, table: GradientTable, *, title: str = "fit") -> NDArray[np.float64]:
        """The weights, one column per output: the average over the second half of the steps."""
        weights = np.zeros((table.rows.shape[1], self.outputs))
        total = np.zeros_like(weights)
        late = self.steps // 2
        for step in progress(range(self.steps), title):
            noisy = release.release_gaussian(self.raw_sum(table, to_grid(weights)), self.sigma2)
            weights = shorten(weights - self.step_size * noisy)
            if step >= late:
                total += weights
        return total / (self.steps - late)

    @property
    def step_size(self) -> float:
        """Factor for a noisy sum.

        Noise of σ in each of T steps leaves noise of f in every weight if each step moves by f/(σ√T) of the sum. With
        f = 2 a logit, or the difference of two, is as noisy as it is useful; that is how far the noise lets the
        weights go. With many rows the limit is ``longest`` instead.
        """
        sigma = math.sqrt(float_nearest(self.sigma2))
        noise = self.noise if self.outputs == 1 else self.noise / math.sqrt(2)
        by_noise = noise / (sigma * math.sqrt(self.steps))
        unit = self.clip * UNIT * float_nearest(self.rate) * max(self.rows_estimate, 1.0)
        return min(by_noise, self.longest / self.steps / unit)

    def raw_sum(self, table: GradientTable, weights: NDArray[np.float64]) -> Integers:
        """The sum of clipped gradients of a sample before noise, exactly; a row moves it by at most clip·UNIT."""
        if self.rate < 1:
            chosen = np.flatnonzero(sample_rows(len(table), self.rate) & table.counts)
        else:
            chosen = np.flatnonzero(table.counts)
        total = np.zeros((table.rows.shape[1], self.outputs), dtype=np.int64)
        for block in _blocks(chosen):
            rows = table.rows[block]
            residuals = clip_residuals(self.loss.residuals(logits_of(rows, weights), table.targets[block]), self.clip)
            total += exact_product(rows, residuals.astype(np.float64), self.clip * UNIT)
        return total


def logits_of(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> Integers:
    """Exact logits of integer rows under weights on the grid, cut down to the grid of the losses."""
    exact = (rows @ weights).astype(np.int64)
    return exact // (UNIT * WEIGHTS // GRID)


def to_grid(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights as whole numbers of steps."""
    return cast("NDArray[np.float64]", np.rint(weights * WEIGHTS))


def shorten(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns no longer than :data:`LARGEST_WEIGHT`."""
    norms = np.linalg.norm(weights, axis=0)
    return cast("NDArray[np.float64]", weights / np.maximum(norms / (LARGEST_WEIGHT - 1), 1.0))


def sample_rows(count: int, rate: Fraction) -> NDArray[np.bool_]:
    """A Poisson sample: each row independently with probability exactly ``rate``, a multiple of 2⁻³²."""
    threshold = int(rate * RATE_STEPS)
    if threshold == RATE_STEPS:
        return np.ones(count, dtype=np.bool_)
    words = entropy.current().words(count)
    return (words >> np.uint64(32)) < np.uint64(threshold)


def rate_on_grid(rate: Fraction) -> Fraction:
    """The largest rate that can be drawn exactly and is not above ``rate``, or the smallest that can be drawn."""
    return max(Fraction(math.floor(rate * RATE_STEPS), RATE_STEPS), Fraction(1, RATE_STEPS))


def _blocks(chosen: NDArray[np.intp], size: int = 1 << 15) -> Iterator[NDArray[np.intp]]:
    for start in range(0, len(chosen), size):
        yield chosen[start : start + size]
