"""Objective perturbation for one output: the minimiser of a loss with a random linear term.

F(w) = Σ ℓ(x_i·w, y_i) + ½Λ‖w‖² + b·w with b normal. The loss of privacy has three parts: the linear term hides a row's
gradient, the change of volume costs ln(1 + β/Λ), and a last, small noise on the weights hides how the solver stopped
and how b was rounded, so that neither a tolerance nor a grid can void the guarantee.
``objective_perturbation.proof.md`` derives all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, ComposedEvent, DiscreteGaussianEvent
from tacit.core.normal import gaussian_delta_bounds
from tacit.core.numbers import exp_bounds, float_nearest, log_bounds, round_up, sqrt_bounds
from tacit.learn import release
from tacit.learn.gradient import GradientTable
from tacit.learn.smooth_losses import SmoothLoss
from tacit.learn.solver import GAP, LARGEST_TILT, Problem
from tacit.mechanisms.base import smallest_that
from tacit.mechanisms.gaussian import Gaussian

#: Of ε, what the last noise takes; and of δ.
_LAST_EPSILON: Final = Fraction(1, 20)
_LAST_DELTA: Final = Fraction(1, 10)
#: b has this many steps in its standard deviation, about.
_STEPS: Final = 1 << 30


def objective_gives_at_most(
    epsilon: Fraction, delta: Fraction, *, sigma: Fraction, volume: Fraction, dimension: int
) -> bool:
    """Whether the minimiser for b of standard deviation ``sigma`` (in units of L) is proven (ε, δ)-DP.

    Args:
        epsilon: of the claim.
        delta: of the claim.
        sigma: σ/L.
        volume: β/Λ.
        dimension: how many coordinates b has.
    """
    mu = 1 / sigma
    steps2 = Fraction(_STEPS**2, 4)
    # The discrete b against a rounded normal one: as in gaussian.proof.md, section 3.
    t = math.ceil(20 + epsilon + log_bounds(1 / delta)[1])
    radius2 = dimension + 2 * sqrt_bounds(Fraction(dimension * t))[1] + 2 * t
    radius2 += sqrt_bounds(radius2 * dimension / steps2)[1] + dimension / (4 * steps2)
    rounding = (dimension + radius2) / (24 * steps2) + Fraction(dimension, 1 << 900)
    left = epsilon - log_bounds(1 + volume)[1] - rounding
    left = Fraction(math.floor(left * (1 << 120)), 1 << 120)
    if left < mu * mu / 2:
        return False
    factor = exp_bounds(dimension / (24 * steps2))[1]
    return factor * (2 * gaussian_delta_bounds(left, mu)[1] + delta * exp_bounds(Fraction(-20))[1]) <= delta


@dataclass(frozen=True)
class ObjectiveRelease:
    """One release by objective perturbation, set up for (ε, δ).

    Attributes:
        loss: of one row, with one output.
        regularization: Λ, of the whole sum.
        epsilon, delta: of the whole release.
        dimension: how many weights.
    """

    loss: SmoothLoss
    regularization: Fraction
    epsilon: Fraction
    delta: Fraction
    dimension: int

    def __post_init__(self) -> None:
        if self.loss.outputs != 1:
            raise InputError("method", "must not be 'objective' for several outputs; use 'gradient' or 'output'")
        # A norm of 16·σ·√D is exceeded with a probability below e^-100, whatever D is.
        if 16 * self.sigma * sqrt_bounds(Fraction(self.dimension))[1] > LARGEST_TILT:
            raise InputError("epsilon", "is too small for method='objective' with so many columns")

    @property
    def sigma(self) -> Fraction:
        """The standard deviation of b; L is 1 for a loss of one output."""
        volume = self.loss.curvature / self.regularization
        return _sigma(self.epsilon * (1 - _LAST_EPSILON), self.delta * (1 - _LAST_DELTA), volume, self.dimension)

    @property
    def step(self) -> Fraction:
        """The grid of b, a power of two: between 2²⁹ and 2³⁰ of them in σ."""
        return Fraction(2) ** (math.floor(math.log2(self.sigma)) - 29)

    @property
    def last_noise(self) -> Gaussian:
        """Noise that hides the solver's tolerance and the grid of b: they move weights by <= 2·(GAP + √D·step/2)/Λ."""
        gap = GAP + sqrt_bounds(Fraction(self.dimension))[1] * self.step / 2
        return Gaussian(
            epsilon=self.epsilon * _LAST_EPSILON,
            delta=self.delta * _LAST_DELTA,
            l2_sensitivity=round_up(2 * gap / self.regularization),
            dimension=self.dimension,
            whole=False,
        )

    @property
    def event(self) -> ComposedEvent:
        """The perturbed minimiser, and the last noise."""
        first = ApproxEvent(
            self.epsilon * (1 - _LAST_EPSILON), self.delta * (1 - _LAST_DELTA), "objective_perturbation"
        )
        return ComposedEvent((first, self._last_event))

    @property
    def _last_event(self) -> DiscreteGaussianEvent:
        event = self.last_noise.on_grid(self.dimension).event
        assert isinstance(event, DiscreteGaussianEvent)  # noqa: S101 - for the type checker
        return event

    def release(self, table: GradientTable) -> NDArray[np.float64]:
        """The weights, one column."""
        steps2 = Fraction(math.ceil((self.sigma / self.step) ** 2))
        drawn = release.release_gaussian(np.zeros((self.dimension, 1), dtype=np.int64), steps2)
        # A power of two times a whole float: exact.
        tilt = drawn * float_nearest(self.step)
        found = Problem(self.loss, table, self.regularization, tilt).minimise()
        grid = self.last_noise.on_grid(self.dimension).grid
        noisy = release.release_gaussian(grid.to_units(found.ravel()), self._last_event.sigma2)
        return cast("NDArray[np.float64]", (noisy * float_nearest(grid.step)).reshape(found.shape))


@lru_cache(maxsize=256)
def _sigma(epsilon: Fraction, delta: Fraction, volume: Fraction, dimension: int) -> Fraction:
    if log_bounds(1 + volume)[1] >= epsilon:
        raise InputError("regularization", "is too small for this epsilon: ln(1 + curvature/regularization) exceeds it")

    def holds(sigma: Fraction) -> bool:
        return objective_gives_at_most(epsilon, delta, sigma=sigma, volume=volume, dimension=dimension)

    guess = math.sqrt(2 * math.log(2.5 / float(delta))) / float(epsilon)
    return smallest_that(holds, Fraction(guess), digits=8, near=Fraction(1, 10))
