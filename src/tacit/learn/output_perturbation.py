"""Output perturbation: the minimiser itself, rounded to a grid, with noise for how far one row can move it.

*Sensitivity.* Adding a row changes the gradient of F by at most L in norm, and F is Λ-strongly convex, so the true
minimiser moves by at most L/Λ. The point found is within GAP/Λ of it on either table. In steps of size s both are
rounded, which adds √D: the released integers move by at most (L + 2·GAP)/(Λ·s) + √D. See
``output_perturbation.proof.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest, round_up, sqrt_bounds
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.learn import release
from tacit.learn.integer_rows import Integers
from tacit.learn.smooth_losses import SmoothLoss
from tacit.learn.solver import GAP, Problem

#: Steps that the minimiser moves by at most, before rounding.
RESOLUTION: Final = 1 << 24


def moved_steps(dimension: int) -> int:
    """Bound on the steps by which one row more or less moves the rounded minimiser of ``dimension`` weights."""
    return RESOLUTION + math.isqrt(dimension - 1) + 1


@dataclass(frozen=True)
class OutputRelease:
    """The minimiser on a grid whose step fits how far it can move.

    Attributes:
        loss: of one row.
        regularization: Λ, of the whole sum.
    """

    loss: SmoothLoss
    regularization: Fraction

    @property
    def l2_sensitivity(self) -> Fraction:
        """(L + 2·GAP)/Λ, rounded up: how far the point found moves when a row comes or goes."""
        return round_up((sqrt_bounds(self.loss.lipschitz_squared)[1] + 2 * GAP) / self.regularization)

    @property
    def step(self) -> Fraction:
        """The grid: :data:`RESOLUTION` steps in the sensitivity."""
        return self.l2_sensitivity / RESOLUTION

    def raw_steps(self, problem: Problem) -> Integers:
        """The minimiser in whole steps."""
        found = problem.minimise()
        # One exact division per weight; rounding a quotient of floats could be off by a step at ties.
        units = [round(Fraction(float(value)) / self.step) for value in found.ravel()]
        return np.array(units, dtype=np.int64).reshape(found.shape)

    def release_laplace(self, problem: Problem, scale: Fraction) -> NDArray[np.float64]:
        """Weights with discrete Laplace noise of ``scale``, in steps."""
        return release.release_laplace(self.raw_steps(problem), scale) * float_nearest(self.step)


def laplace_sensitivity(dimension: int, relation: Relation) -> int:
    """In the l1 norm: at most √D times the l2 norm, in whole steps."""
    one = math.isqrt(dimension * moved_steps(dimension) ** 2 - 1) + 1
    return one if relation is ADD_REMOVE else 2 * one
