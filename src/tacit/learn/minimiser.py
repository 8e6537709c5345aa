"""Certified minimiser of a regularised loss, released with noise: output and objective perturbation.

F(w) = Σ ℓ(x_i·w, y_i) + ½Λ‖w‖² + b·w + ¼K·(‖w‖ - R)₊⁴ is Λ-strongly convex, so a point where its gradient has norm γ is
within γ/Λ of the minimiser. The last term is public: it is zero in a ball that contains all ordinary minimisers, and
keeps any other minimiser short enough for exact arithmetic. The gradient is evaluated at weights on a fine grid with an
error that is proven for any number of rows that fits a machine (``solver.proof.md``). No error is raised because of the
rows.

*Output perturbation* (b = 0). Adding a row changes the gradient of F by at most L in norm, so the true minimiser moves
by at most L/Λ. The computed point is within GAP/Λ of it on either table. Rounding both to steps of size s adds √D: the
integers before noise move by at most (L + 2·GAP)/(Λ·s) + √D. See ``output_perturbation.proof.md``.

*Objective perturbation* (b normal, one output). The privacy loss has three parts: the linear term hides a row's
gradient, the Jacobian (change of volume) costs ln(1 + β/Λ), and a last, small noise on the weights hides the solver's
tolerance and the rounding of b, so that neither can void the guarantee. The proof is in
``objective_perturbation.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn import release
from tacit.learn.gradient import LARGEST_WEIGHT, GradientTable
from tacit.learn.integer_rows import UNIT, Integers, exact_product
from tacit.learn.losses import SmoothLoss
from tacit.mechanisms.base import smallest_that
from tacit.mechanisms.gaussian import Gaussian

Floats = NDArray[np.float64]

#: Largest norm of the gradient at a returned point.
GAP: Final = Fraction(1, 1 << 12)
#: Target for the norm of the computed gradient; the rest of GAP is for its numerical error.
_WANTED: Final = 2.0**-13
#: Largest number of outputs (a public number) for which the error bound holds.
MOST_OUTPUTS: Final = 1 << 8
#: R: norm of weights up to which the last term of F is zero.
RADIUS: Final = LARGEST_WEIGHT // 2
#: K: with it, no sum of 2³⁰ slopes and no tilt of 2³³ makes a minimiser as long as LARGEST_WEIGHT.
STIFFNESS: Final = 4
#: Largest norm of the tilt b for which this holds.
LARGEST_TILT: Final = 1 << 33
#: Weights are split into two halves of 20 binary digits each, so that sums of products are exact.
_HALF: Final = float(1 << 20)
#: Residuals are split into two halves of 25 binary digits each.
_HALF_RESIDUAL: Final = float(1 << 25)
#: Largest number of rows whose sums of halves fit an int64.
_CHUNK: Final = 1 << 23
_ROUNDS: Final = 500
_CONJUGATE: Final = 2000
_BISECTIONS: Final = 60


@dataclass(frozen=True)
class Problem:
    """A regularised loss over a table.

    Attributes:
        loss: loss of one row.
        table: integer rows of norm at most UNIT, and targets.
        regularization: Λ, relative to the sum of the losses, not to their mean.
        tilt: b, the linear term, one column per output; zeros for none.
    """

    loss: SmoothLoss
    table: GradientTable
    regularization: Fraction
    tilt: Floats

    def minimise(self) -> Floats:
        """Return a point at which the gradient has norm at most :data:`GAP`.

        This is Newton's method, each step solved by conjugate gradients and halved until the gradient's norm falls.
        If no step length lowers it, F is minimised along the step, or along the gradient; that converges for every
        strongly convex F with Lipschitz gradients. If the rounds run out, the best point so far is returned, within
        ‖∇F‖/Λ of the minimiser: an error would reveal an exact fact about the rows.
        """
        if self.loss.outputs > MOST_OUTPUTS:
            raise InputError("method", f"must be 'gradient' for more than {MOST_OUTPUTS} classes")
        with np.errstate(all="ignore"):
            return self._minimise(_Search(self, self.table.rows, self.table.targets))

    def _minimise(self, search: _Search) -> Floats:
        here = best = search.look(np.zeros_like(self.tilt))
        for _ in range(_ROUNDS):
            if best.size <= _WANTED:
                break
            step = self._newton_step(search, here)
            found = (
                self._shortened(search, here, step)
                or search.along(here, step)
                or search.along(here, here.gradient / max(here.size, 1.0))
            )
            if found is None:
                break
            here = found
            best = here if here.size < best.size else best
        return best.weights

    def _shortened(self, search: _Search, here: _Point, step: Floats) -> _Point | None:
        """Halve the step until the gradient gets smaller; return that point, or None."""
        share = 1.0
        while share > 1e-9:
            tried = search.at(here.weights - share * step)
            if tried is not None and tried.size < here.size * (1 - share * 1e-4):
                return tried
            share /= 2
        return None

    def _gradient(self, rows: Floats, targets: NDArray[np.int64], weights: Floats) -> tuple[Floats, Floats]:
        """Return ∇F and the logits at weights on the fine grid."""
        upper = np.floor(weights * _HALF)
        lower = (weights * _HALF - upper) * _HALF
        high, low = rows @ upper, rows @ lower
        if self.loss.shift_invariant:
            # Differences of logits are computed as differences of integers, so that large logits lose no digits.
            place = (high + low / _HALF).argmax(axis=1)[:, None] if len(rows) else np.zeros((0, 1), dtype=np.intp)
            high -= np.take_along_axis(high, place, axis=1)
            low -= np.take_along_axis(low, place, axis=1)
        logits = (high + low / _HALF) / (_HALF * UNIT)
        units = np.rint(self.loss.residuals(logits, targets) * (_HALF_RESIDUAL * _HALF_RESIDUAL))
        total = _sum(rows, units)
        return total / UNIT + float_nearest(self.regularization) * weights + self.tilt + _pull(weights), logits

    def _newton_step(self, search: _Search, here: _Point) -> Floats:
        scale, rows = float_nearest(self.regularization), search.rows
        size = float(np.linalg.norm(here.weights))
        beyond = max(size - RADIUS, 0.0)

        def times(along: Floats) -> Floats:
            bent = self.loss.curve(here.logits, search.targets, (rows @ along) / UNIT)
            bent = (rows.T @ bent) / UNIT + scale * along
            if beyond:
                outward = here.weights * (float((here.weights * along).sum()) / size**2)
                bent += STIFFNESS * (3 * beyond**2 * outward + beyond**3 / size * (along - outward))
            return bent

        return _conjugate_gradients(times, here.gradient, tolerance=min(0.1, here.size) * 1e-2)


@dataclass(frozen=True, eq=False)
class _Point:
    """Weights, with the gradient, the logits and the gradient's norm at these weights."""

    weights: Floats
    gradient: Floats
    logits: Floats
    size: float


@dataclass(frozen=True)
class _Search:
    """Evaluation of a problem's gradient at points, and line search."""

    problem: Problem
    rows: Floats
    targets: NDArray[np.int64]

    def at(self, weights: Floats) -> _Point | None:
        """Evaluate the gradient at weights rounded to the grid; None where arithmetic would not be exact."""
        tried = on_fine_grid(weights)
        # The comparison is also false for NaN.
        return self.look(tried) if float(np.linalg.norm(tried)) < LARGEST_WEIGHT else None

    def look(self, weights: Floats) -> _Point:
        """Evaluate the gradient at weights that are on the grid and not too long."""
        gradient, logits = self.problem._gradient(self.rows, self.targets, weights)
        return _Point(weights, gradient, logits, float(np.linalg.norm(gradient)))

    def along(self, here: _Point, step: Floats) -> _Point | None:
        """Minimise F along -``step`` from a point; return None if F does not fall in this direction.

        F is convex, so its slope along the line is increasing: bisection finds where it changes sign.
        """
        near, far, best = 0.0, 1.0, None
        for _ in range(_BISECTIONS):
            tried = self.at(here.weights - far * step)
            if tried is None or float((tried.gradient * step).sum()) <= 0:
                break
            near, far, best = far, 2 * far, tried
        for _ in range(_BISECTIONS):
            middle = (near + far) / 2
            tried = self.at(here.weights - middle * step)
            if tried is not None and float((tried.gradient * step).sum()) > 0:
                near, best = middle, tried
            else:
                far = middle
        return None if best is None or np.array_equal(best.weights, here.weights) else best


def _sum(rows: Floats, units: Floats) -> Floats:
    """Return Σ row·units, with units in steps of 2⁻⁵⁰; exact for each chunk of rows and for each half."""
    high = np.floor(units / _HALF_RESIDUAL)
    low = units - high * _HALF_RESIDUAL
    largest, total = UNIT << 25, np.zeros((rows.shape[1], units.shape[1]))
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        total += exact_product(rows[part], high[part], largest).astype(np.float64) / _HALF_RESIDUAL
        total += exact_product(rows[part], low[part], largest).astype(np.float64) / (_HALF_RESIDUAL * _HALF_RESIDUAL)
    return total


def _pull(weights: Floats) -> Floats:
    """Return the gradient of ¼K·(‖w‖ - R)₊⁴: K·(‖w‖ - R)³·w/‖w‖ outside of the ball, zero inside."""
    steps = [int(each) for each in (weights * (_HALF * _HALF)).ravel()]
    square, radius = sum(each * each for each in steps), RADIUS << 40
    if square <= radius * radius:
        return np.zeros_like(weights)
    # Twenty binary digits more than the grid has, because a difference of norms is multiplied by large numbers.
    size = Fraction(math.isqrt(square << 40), 1 << 60)
    return float_nearest(STIFFNESS * (size - RADIUS) ** 3 / size) * weights


def on_fine_grid(weights: Floats) -> Floats:
    """Return weights rounded to multiples of 2⁻⁴⁰."""
    return np.rint(weights * (_HALF * _HALF)) / (_HALF * _HALF)


def _conjugate_gradients(times: Callable[[Floats], Floats], right: Floats, *, tolerance: float) -> Floats:
    """Solve ``times(x) = right`` approximately by conjugate gradients, for a positive definite ``times``."""
    solution, rest = np.zeros_like(right), right.copy()
    along, square = rest.copy(), float((rest * rest).sum())
    goal = square * tolerance**2
    for _ in range(_CONJUGATE):
        if square <= goal:
            break
        image = times(along)
        length = square / float((along * image).sum())
        solution += length * along
        rest -= length * image
        previous, square = square, float((rest * rest).sum())
        along = rest + square / previous * along
    return solution


#: Sensitivity of the minimiser before rounding, in steps.
RESOLUTION: Final = 1 << 24


def moved_steps(dimension: int) -> int:
    """Return the L2 sensitivity, in steps, of the rounded minimiser of ``dimension`` weights under add-remove."""
    return RESOLUTION + math.isqrt(dimension - 1) + 1


@dataclass(frozen=True)
class OutputRelease:
    """Release of the minimiser by output perturbation, on a grid proportional to its sensitivity.

    Attributes:
        loss: loss of one row.
        regularization: Λ, relative to the sum of the losses.
    """

    loss: SmoothLoss
    regularization: Fraction

    @property
    def l2_sensitivity(self) -> Fraction:
        """(L + 2·GAP)/Λ, rounded up: L2 sensitivity of the computed minimiser under add-remove."""
        return round_up((sqrt_bounds(self.loss.lipschitz_squared)[1] + 2 * GAP) / self.regularization)

    @property
    def step(self) -> Fraction:
        """Step of the grid: the sensitivity over :data:`RESOLUTION`."""
        return self.l2_sensitivity / RESOLUTION

    def raw_steps(self, problem: Problem) -> Integers:
        """Return the minimiser in integer steps, before noise."""
        found = problem.minimise()
        # One exact division per weight; rounding a quotient of floats could be off by a step at ties.
        units = [round(Fraction(float(value)) / self.step) for value in found.ravel()]
        return np.array(units, dtype=np.int64).reshape(found.shape)

    def release_laplace(self, problem: Problem, scale: Fraction) -> NDArray[np.float64]:
        """Return the weights plus discrete Laplace noise of ``scale`` steps."""
        return release.release_laplace(self.raw_steps(problem), scale) * float_nearest(self.step)


def laplace_sensitivity(dimension: int, relation: Relation) -> int:
    """Return the L1 sensitivity of the rounded minimiser, in steps: √D times its L2 sensitivity, rounded up."""
    one = math.isqrt(dimension * moved_steps(dimension) ** 2 - 1) + 1
    return one if relation is ADD_REMOVE else 2 * one


#: Shares of ε and of δ for the last noise.
_LAST_EPSILON: Final = Fraction(1, 20)
_LAST_DELTA: Final = Fraction(1, 10)
#: Approximate number of grid steps in the standard deviation of b.
_STEPS: Final = 1 << 30


def objective_gives_at_most(
    epsilon: Fraction, delta: Fraction, *, sigma: Fraction, volume: Fraction, dimension: int
) -> bool:
    """Return whether the minimiser for b of standard deviation ``sigma`` (in units of L) is proven (ε, δ)-DP.

    Args:
        epsilon: ε of the claim.
        delta: δ of the claim.
        sigma: σ/L.
        volume: β/Λ.
        dimension: number of coordinates of b.
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
    """Release of the minimiser by objective perturbation, calibrated to (ε, δ).

    Attributes:
        loss: loss of one row, with one output.
        regularization: Λ, relative to the sum of the losses.
        epsilon, delta: guarantee of the whole release.
        dimension: number of weights.
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
        """Standard deviation of b; L is 1 for a loss of one output."""
        volume = self.loss.curvature / self.regularization
        return _sigma(self.epsilon * (1 - _LAST_EPSILON), self.delta * (1 - _LAST_DELTA), volume, self.dimension)

    @property
    def step(self) -> Fraction:
        """Grid step of b, a power of two: σ is between 2²⁹ and 2³⁰ steps."""
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
        """Composition of the perturbed minimiser and the last noise."""
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
        """Draw b, minimise, and return the noisy weights in one column."""
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
