"""Certified minimiser of a regularised loss.

F(w) = Σ ℓ(x_i·w, y_i) + ½Λ‖w‖² + b·w + ¼K·(‖w‖ - R)₊⁴ is Λ-strongly convex, so a point where its gradient has norm γ is
within γ/Λ of the minimiser. The last term is public: it leaves a ball alone in which all ordinary minimisers lie, and
keeps every other one where arithmetic is exact, so that a minimiser is never too long to be found. The gradient is
evaluated at weights on a fine grid with an error that is proven for any number of rows that fits a machine
(``solver.proof.md``). Nothing here raises an error on account of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import float_nearest
from tacit.learn.gradient import LARGEST_WEIGHT, GradientTable
from tacit.learn.integer_rows import UNIT, exact_product
from tacit.learn.smooth_losses import SmoothLoss

Floats = NDArray[np.float64]

#: The gradient at a point that is returned has at most this norm.
GAP: Final = Fraction(1, 1 << 12)
#: Target for the norm of the computed gradient; the rest of the gap is for the error of computing it.
_WANTED: Final = 2.0**-13
#: Beyond this number of outputs, which is public, the error bound would not hold.
MOST_OUTPUTS: Final = 1 << 8
#: R: weights of up to this norm are free of the penalty.
RADIUS: Final = LARGEST_WEIGHT // 2
#: K: no sum of 2³⁰ slopes and no tilt of 2³³ pulls a minimiser as far as LARGEST_WEIGHT against K·(‖w‖ - R)³.
STIFFNESS: Final = 4
#: Largest tilt for which this holds.
LARGEST_TILT: Final = 1 << 33
#: Half of the binary digits of weights; the other half is carried separately, so that sums are exact.
_HALF: Final = float(1 << 20)
#: Half of the binary digits of residuals, likewise.
_HALF_RESIDUAL: Final = float(1 << 25)
#: So many rows have sums of halves that fit an int64.
_CHUNK: Final = 1 << 23
_ROUNDS: Final = 500
_CONJUGATE: Final = 2000
_BISECTIONS: Final = 60


@dataclass(frozen=True)
class Problem:
    """A regularised loss over a table.

    Attributes:
        loss: of one row.
        table: integer rows of norm at most UNIT, targets, and which rows count.
        regularization: Λ, for the whole sum and not for its mean.
        tilt: b, a linear term, one column per output; zero for none.
    """

    loss: SmoothLoss
    table: GradientTable
    regularization: Fraction
    tilt: Floats

    def minimise(self) -> Floats:
        """A point at which the gradient has norm at most :data:`GAP`.

        Newton's method on the gradient, each step by conjugate gradients, shortened until the gradient gets smaller.
        Where no length of a step makes it smaller, F is followed along the step, or along the gradient, as far as it
        falls; that converges for every strongly convex F with Lipschitz gradients. Should it be cut off before, the
        best point found is the answer, as near to the minimiser as its gradient is short: an error would be an exact
        fact about the rows.
        """
        if self.loss.outputs > MOST_OUTPUTS:
            raise InputError("method", f"must be 'gradient' for more than {MOST_OUTPUTS} classes")
        rows, targets = self.table.rows[self.table.counts], self.table.targets[self.table.counts]
        with np.errstate(all="ignore"):
            return self._minimise(_Search(self, rows, targets))

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
        """The first of ever shorter steps that makes the gradient smaller; None if none does."""
        share = 1.0
        while share > 1e-9:
            tried = search.at(here.weights - share * step)
            if tried is not None and tried.size < here.size * (1 - share * 1e-4):
                return tried
            share /= 2
        return None

    def _gradient(self, rows: Floats, targets: NDArray[np.int64], weights: Floats) -> tuple[Floats, Floats]:
        """∇F at weights on the fine grid, and the logits there."""
        upper = np.floor(weights * _HALF)
        lower = (weights * _HALF - upper) * _HALF
        high, low = rows @ upper, rows @ lower
        if self.loss.shift_invariant:
            # Differences of logits are differences of whole numbers, so that large logits lose no digits.
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
    """Weights, the gradient there, its norm, and the logits."""

    weights: Floats
    gradient: Floats
    logits: Floats
    size: float


@dataclass(frozen=True)
class _Search:
    """The rows of a problem that count, and how to look at points."""

    problem: Problem
    rows: Floats
    targets: NDArray[np.int64]

    def at(self, weights: Floats) -> _Point | None:
        """Evaluate the objective at weights put on the grid; None where arithmetic would not be exact."""
        tried = on_fine_grid(weights)
        # A comparison that NaN fails as well.
        return self.look(tried) if float(np.linalg.norm(tried)) < LARGEST_WEIGHT else None

    def look(self, weights: Floats) -> _Point:
        """Evaluate the objective at weights that are on the grid and not too long."""
        gradient, logits = self.problem._gradient(self.rows, self.targets, weights)
        return _Point(weights, gradient, logits, float(np.linalg.norm(gradient)))

    def along(self, here: _Point, step: Floats) -> _Point | None:
        """As far from a point against ``step`` as F falls; None if it does not fall that way.

        F is convex, so its slope along a line grows: where it changes sign is found by halving.
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
    """Σ row·units, with units in steps of 2⁻⁵⁰; exact for each chunk of rows and for each half."""
    high = np.floor(units / _HALF_RESIDUAL)
    low = units - high * _HALF_RESIDUAL
    largest, total = UNIT << 25, np.zeros((rows.shape[1], units.shape[1]))
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        total += exact_product(rows[part], high[part], largest).astype(np.float64) / _HALF_RESIDUAL
        total += exact_product(rows[part], low[part], largest).astype(np.float64) / (_HALF_RESIDUAL * _HALF_RESIDUAL)
    return total


def _pull(weights: Floats) -> Floats:
    """The gradient of ¼K·(‖w‖ - R)₊⁴: K·(‖w‖ - R)³·w/‖w‖ outside of the ball, and zero inside."""
    steps = [int(each) for each in (weights * (_HALF * _HALF)).ravel()]
    square, radius = sum(each * each for each in steps), RADIUS << 40
    if square <= radius * radius:
        return np.zeros_like(weights)
    # Twenty digits more than the grid has, because a difference of norms is multiplied with large numbers.
    size = Fraction(math.isqrt(square << 40), 1 << 60)
    return float_nearest(STIFFNESS * (size - RADIUS) ** 3 / size) * weights


def on_fine_grid(weights: Floats) -> Floats:
    """Weights rounded to multiples of 2⁻⁴⁰."""
    return np.rint(weights * (_HALF * _HALF)) / (_HALF * _HALF)


def _conjugate_gradients(times: Callable[[Floats], Floats], right: Floats, *, tolerance: float) -> Floats:
    """An approximate solution of ``times(x) = right``, for a positive definite ``times``."""
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
