"""The minimiser of a regularised loss, with a certificate: how far the point found is from the true one, at most.

F(w) = Σ ℓ(x_i·w, y_i) + ½Λ‖w‖² + b·w is Λ-strongly convex, so a point where its gradient has norm γ is within γ/Λ of
the minimiser. The gradient is evaluated at weights on a fine grid with an error that is proven (``minimise.proof.md``),
and a point is only returned when the gradient found there is small enough; otherwise nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError, InternalError
from tacit.core.numbers import float_nearest
from tacit.learn.gradient import LARGEST_WEIGHT, Table
from tacit.learn.rows import UNIT, exact_product
from tacit.learn.smooth import SmoothLoss

__all__ = ["GAP", "MOST_OUTPUTS", "MOST_ROWS", "Problem"]

Floats = NDArray[np.float64]

#: The gradient at a point that is returned has at most this norm.
GAP: Final = Fraction(1, 1 << 12)
#: What is asked of the gradient as computed; the rest of the gap is for the error of computing it.
_WANTED: Final = 2.0**-13
#: Beyond these sizes the error bound would not hold.
MOST_ROWS: Final = 1 << 22
MOST_OUTPUTS: Final = 1 << 8
#: Half of the binary digits of weights and residuals; the other half is carried separately, so that sums are exact.
_HALF: Final = float(1 << 20)
_ROUNDS: Final = 500
_CONJUGATE: Final = 2000


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
    table: Table
    regularization: Fraction
    tilt: Floats

    def minimise(self) -> Floats:
        """A point at which the gradient has norm at most :data:`GAP`; raises if none is found.

        Newton's method on the gradient, each step by conjugate gradients, shortened until the gradient gets smaller.
        """
        if len(self.table) > MOST_ROWS or self.loss.outputs > MOST_OUTPUTS:
            raise InputError("method", f"must be 'gradient' for more than {MOST_ROWS} rows or {MOST_OUTPUTS} outputs")
        rows, targets = self.table.rows[self.table.counts], self.table.targets[self.table.counts]
        weights = np.zeros_like(self.tilt)
        gradient, logits = self._gradient(rows, targets, weights)
        size = float(np.linalg.norm(gradient))
        for _ in range(_ROUNDS):
            if size <= _WANTED:
                return weights
            step = self._newton_step(rows, targets, logits, gradient, size)
            share = 1.0
            while share > 1e-9:
                tried = on_fine_grid(weights - share * step)
                if float(np.linalg.norm(tried, axis=0).max()) < LARGEST_WEIGHT:
                    found, there = self._gradient(rows, targets, tried)
                    length = float(np.linalg.norm(found))
                    if length < size * (1 - share * 1e-4):
                        break
                share /= 2
            else:
                break
            weights, gradient, logits, size = tried, found, there, length
        raise InternalError("the minimiser was not found to the accuracy that the guarantee needs; nothing is released")

    def _gradient(self, rows: Floats, targets: NDArray[np.int64], weights: Floats) -> tuple[Floats, Floats]:
        """∇F at weights on the fine grid, and the logits there."""
        upper = np.floor(weights * _HALF)
        lower = (weights * _HALF - upper) * _HALF
        logits = (rows @ upper + (rows @ lower) / _HALF) / (_HALF * UNIT)
        units = np.rint(self.loss.residuals(logits, targets) * (_HALF * _HALF))
        high = np.floor(units / _HALF)
        low = units - high * _HALF
        largest = UNIT << 21
        total = exact_product(rows, high, largest).astype(np.float64)
        total += exact_product(rows, low, largest).astype(np.float64) / _HALF
        scale = float_nearest(self.regularization)
        return total / (_HALF * UNIT) + scale * weights + self.tilt, logits

    def _newton_step(
        self, rows: Floats, targets: NDArray[np.int64], logits: Floats, gradient: Floats, size: float
    ) -> Floats:
        scale = float_nearest(self.regularization)

        def times(along: Floats) -> Floats:
            bent = self.loss.curve(logits, targets, (rows @ along) / UNIT)
            return (rows.T @ bent) / UNIT + scale * along

        return _conjugate_gradients(times, gradient, tolerance=min(0.1, size) * 1e-2)


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
