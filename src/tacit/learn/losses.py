"""Losses of linear models: their derivatives as integers for gradients, and as floats for a certified minimiser.

A linear model scores a row by its logits, one per output; the gradient of the loss of a row is the outer product of the
*residuals* (the derivatives of the loss in the logits) and the row. For gradients, logits are exact integers, rounded
to a grid of 2⁻¹⁰, and a public table maps them to integer residuals in units of 1/:data:`WHOLE`: the contribution of a
row depends on that row and public weights alone, and no float is computed from data.

A smooth loss is computed in floats, to find a minimiser and to certify it; their error is bounded in
``solver.proof.md``, so that rounding is part of the sensitivity. Lipschitz constants and curvatures are those of the
mathematical functions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import cache
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.learn.integer_rows import Integers, ceil_sqrt, square_norms
from tacit.mechanisms.gaussian_profile import check_exp

#: Number of grid steps of a logit per unit.
GRID: Final = 1 << 10
#: Residual of one, in integer steps.
WHOLE: Final = 1 << 13
#: Clipping bound of logits, in steps; there the logistic residual is 0 or 1 to all digits.
_FARTHEST: Final = 20 * GRID
#: Clipping bound of logarithms of means, ±5 in steps: means up to 148 times that of the table.
_LARGEST_LOG: Final = 5 * GRID
#: Clipping bound of the residuals of a mean, in steps.
_LARGEST_RESIDUAL: Final = 1 << 20
#: Fixed point of the exponentials of a softmax.
_EXPONENTIAL: Final = 1 << 30


class Loss(ABC):
    """Loss of a linear model, given by its integer derivatives in the logits.

    Attributes:
        curvature: largest second derivative in any direction of the logits.
    """

    curvature: float

    @abstractmethod
    def residuals(self, logits: Integers, targets: Integers) -> Integers:
        """Return the residuals of every row, in steps of 1/WHOLE; shape (rows, outputs).

        Args:
            logits: logits in steps of 1/GRID, shape (rows, outputs).
            targets: integer targets, one line per row; the caller drops rows that must not count.
        """


class Logistic(Loss):
    """ln(1 + e^-z) for targets 1, ln(1 + e^z) for targets 0; one output."""

    curvature = 0.25

    def residuals(self, logits: Integers, targets: Integers) -> Integers:
        """Return σ(z) - target."""
        places = np.clip(logits, -_FARTHEST, _FARTHEST) + _FARTHEST
        return cast("Integers", _sigmoids()[places] - targets * WHOLE)


class Softmax(Loss):
    """The cross-entropy of a softmax; targets are class numbers, one output per class."""

    curvature = 0.5

    def residuals(self, logits: Integers, targets: Integers) -> Integers:
        """Return softmax(z) minus the unit vector of the class."""
        below = np.minimum(logits.max(axis=1, keepdims=True) - logits, _FARTHEST)
        weights = _exponentials()[below]
        total = weights.sum(axis=1, keepdims=True)
        result = (2 * weights * WHOLE + total) // (2 * total)
        result[np.arange(len(result)), targets[:, 0]] -= WHOLE
        return cast("Integers", result)


class HuberHinge(Loss):
    """The hinge loss with a rounded corner, for targets of ±1, any number of outputs (one against the rest).

    With the margin m = target·z its derivative is -1 below m = 1 - h, 0 above 1 + h and a straight line between; h = ½.
    """

    curvature = 1.0

    def residuals(self, logits: Integers, targets: Integers) -> Integers:
        """Return -target · min(max(3/2 - m, 0), 1)."""
        margins = targets * logits
        slopes = np.clip((3 * GRID // 2 - margins) * (WHOLE // GRID), 0, WHOLE)
        return cast("Integers", -targets * slopes)


class Squared(Loss):
    """(z - target)²/2; targets in steps of 1/GRID, one output."""

    curvature = 1.0

    def residuals(self, logits: Integers, targets: Integers) -> Integers:
        """Return the logit minus the target."""
        return cast("Integers", (np.clip(logits, -_FARTHEST, _FARTHEST) - targets) * (WHOLE // GRID))


class PoissonDeviance(Loss):
    """e^z - target·z, for means e^z; targets in steps of 1/GRID of the mean of the table, one output."""

    #: Approximate: for rows with means up to about e times that of the table; clipping bounds longer steps.
    curvature = 3.0

    def residuals(self, logits: Integers, targets: Integers) -> Integers:
        """Return the mean e^z minus the target."""
        means = _means()[np.clip(logits, -_LARGEST_LOG, _LARGEST_LOG) + _LARGEST_LOG]
        return _cut(means - targets * (WHOLE // GRID))


def _cut(residuals: Integers) -> Integers:
    return cast("Integers", np.clip(residuals, -_LARGEST_RESIDUAL, _LARGEST_RESIDUAL))


def clip_residuals(residuals: Integers, norms: Integers) -> Integers:
    """Clip each row's residuals to a norm of at most its entry of ``norms``, in steps; shorter ones are unchanged."""
    # No residual of a loss is longer than 2²⁰, so that products with norms stay far below 2⁶³.
    allowed = np.minimum(norms, 1 << 30)[:, None]
    lengths = ceil_sqrt(square_norms(residuals))[:, None]
    shrunk = np.sign(residuals) * (np.abs(residuals) * allowed // np.maximum(lengths, 1))
    return cast("Integers", np.where(lengths > allowed, shrunk, residuals))


@cache
def _sigmoids() -> NDArray[np.int64]:
    """Return the public table of σ on the grid of logits, in steps of 1/WHOLE."""
    return np.array(
        [round(WHOLE / (1 + math.exp(-place / GRID))) for place in range(-_FARTHEST, _FARTHEST + 1)], dtype=np.int64
    )


@cache
def _means() -> NDArray[np.int64]:
    """Return the public table of e^z on the grid of logits, in steps of 1/WHOLE."""
    return np.array(
        [round(WHOLE * math.exp(place / GRID)) for place in range(-_LARGEST_LOG, _LARGEST_LOG + 1)], dtype=np.int64
    )


@cache
def _exponentials() -> NDArray[np.int64]:
    """Return the public table of e^-x on the grid, in steps of 2⁻³⁰, never 0, so that no total vanishes."""
    return np.array(
        [max(round(_EXPONENTIAL * math.exp(-place / GRID)), 1) for place in range(_FARTHEST + 1)], dtype=np.int64
    )


Floats = NDArray[np.float64]


class SmoothLoss(ABC):
    """Convex loss of the logits of one row, in floats.

    Attributes:
        outputs: number of logits.
        lipschitz_squared: square of the largest norm of its gradient in the logits.
        curvature: largest second derivative in any direction.
    """

    #: Whether adding one number to all logits of a row leaves the loss unchanged.
    shift_invariant = False

    def __init__(self, outputs: int) -> None:
        check_exp()
        self.outputs = outputs

    @property
    @abstractmethod
    def lipschitz_squared(self) -> Fraction:
        """Square of the largest norm of the gradient in the logits."""

    @property
    @abstractmethod
    def curvature(self) -> Fraction:
        """Largest second derivative in any direction of the logits."""

    @abstractmethod
    def residuals(self, logits: Floats, targets: Integers) -> Floats:
        """Return the gradient in the logits, row by row, each entry with an error of at most 2⁻⁴⁰."""

    @abstractmethod
    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:
        """Return the second derivative in the logits times ``along``; its accuracy does not affect privacy."""


class SmoothLogistic(SmoothLoss):
    """ln(1 + e^z) - target·z, for targets 0 and 1."""

    @property
    def lipschitz_squared(self) -> Fraction:
        """|σ(z) - target| < 1."""
        return Fraction(1)

    @property
    def curvature(self) -> Fraction:
        """σ′ <= ¼."""
        return Fraction(1, 4)

    def residuals(self, logits: Floats, targets: Integers) -> Floats:
        """Return σ(z) - target, computed from e^-|z| so that nothing overflows."""
        return _sigmoid(logits) - targets

    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:  # noqa: ARG002 - not of the targets
        """Return σ(z)σ(-z) times ``along``."""
        return _sigmoid(logits) * _sigmoid(-logits) * along


class SmoothSoftmax(SmoothLoss):
    """The cross-entropy of a softmax; targets are class numbers."""

    shift_invariant = True

    @property
    def lipschitz_squared(self) -> Fraction:
        """‖p - e‖² <= (1 - p_y)² + (Σ_{j≠y} p_j)² <= 2."""
        return Fraction(2)

    @property
    def curvature(self) -> Fraction:
        """The matrix diag(p) - ppᵀ has no eigenvalue above ½."""
        return Fraction(1, 2)

    def residuals(self, logits: Floats, targets: Integers) -> Floats:
        """Return softmax(z) minus the unit vector of the class."""
        result = _softmax(logits)
        result[np.arange(len(result)), targets[:, 0]] -= 1.0
        return result

    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:  # noqa: ARG002 - not of the targets
        """Return p·(v - ⟨p, v⟩), for p = softmax(z) and v = ``along``."""
        p = _softmax(logits)
        return cast("Floats", p * (along - (p * along).sum(axis=1, keepdims=True)))


class SmoothHinge(SmoothLoss):
    """The hinge with a rounded corner of half width ½, one against the rest; targets ±1."""

    @property
    def lipschitz_squared(self) -> Fraction:
        """One per output: each slope is at most 1 in absolute value."""
        return Fraction(self.outputs)

    @property
    def curvature(self) -> Fraction:
        """1: the slope rises from -1 to 0 over a width of one."""
        return Fraction(1)

    def residuals(self, logits: Floats, targets: Integers) -> Floats:
        """Return -target · min(max(3/2 - target·z, 0), 1)."""
        return cast("Floats", -targets * np.clip(1.5 - targets * logits, 0.0, 1.0))

    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:
        """Return ``along`` where the margin lies in the rounded corner, between ½ and 3/2, and 0 elsewhere."""
        margins = targets * logits
        return cast("Floats", np.where((margins > 0.5) & (margins < 1.5), along, 0.0))


def _sigmoid(z: Floats) -> Floats:
    small = np.exp(-np.minimum(np.abs(z), 60.0))
    return np.where(z >= 0, 1.0, small) / (1.0 + small)


def _softmax(z: Floats) -> Floats:
    weights = np.exp(np.maximum(z - z.max(axis=1, keepdims=True), -60.0))
    return cast("Floats", weights / weights.sum(axis=1, keepdims=True))
