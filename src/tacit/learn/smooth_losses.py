"""Smooth convex losses for methods that need a minimiser.

The floats here find a minimiser and certify it; how far they may be off is bounded in ``solver.proof.md``, so that
rounding is part of the sensitivity. The constants are those of the mathematical functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tacit.learn.integer_rows import Integers
from tacit.mechanisms.gaussian_profile import check_exp

Floats = NDArray[np.float64]


class SmoothLoss(ABC):
    """A convex loss of the logits of one row.

    Attributes:
        outputs: how many logits.
        lipschitz_squared: the square of the largest norm of its gradient in the logits.
        curvature: the largest second derivative in any direction.
    """

    #: Whether adding one number to all logits of a row changes nothing.
    shift_invariant = False

    def __init__(self, outputs: int) -> None:
        check_exp()
        self.outputs = outputs

    @property
    @abstractmethod
    def lipschitz_squared(self) -> Fraction:
        """The square of the largest norm of its gradient."""

    @property
    @abstractmethod
    def curvature(self) -> Fraction:
        """The largest second derivative."""

    @abstractmethod
    def residuals(self, logits: Floats, targets: Integers) -> Floats:
        """The gradient in the logits, row by row, each entry right to 2⁻⁴⁰."""

    @abstractmethod
    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:
        """The second derivative in the logits, times ``along``; needs no accuracy."""


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
        """σ(z) - target, computed from e^-|z| so that nothing overflows."""
        return _sigmoid(logits) - targets

    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:  # noqa: ARG002 - not of the targets
        """σ(z)σ(-z) times ``along``."""
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
        """softmax(z) - the unit vector of the class."""
        result = _softmax(logits)
        result[np.arange(len(result)), targets[:, 0]] -= 1.0
        return result

    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:  # noqa: ARG002 - not of the targets
        """p·(v - p·v)."""
        p = _softmax(logits)
        return cast("Floats", p * (along - (p * along).sum(axis=1, keepdims=True)))


class SmoothHinge(SmoothLoss):
    """The hinge with a rounded corner of half width ½, one against the rest; targets ±1."""

    @property
    def lipschitz_squared(self) -> Fraction:
        """At most 1 for each output."""
        return Fraction(self.outputs)

    @property
    def curvature(self) -> Fraction:
        """From slope -1 to slope 0 over a width of one."""
        return Fraction(1)

    def residuals(self, logits: Floats, targets: Integers) -> Floats:
        """-target · min(max(3/2 - target·z, 0), 1)."""
        return cast("Floats", -targets * np.clip(1.5 - targets * logits, 0.0, 1.0))

    def curve(self, logits: Floats, targets: Integers, along: Floats) -> Floats:
        """``along`` where the corner is."""
        margins = targets * logits
        return cast("Floats", np.where((margins > 0.5) & (margins < 1.5), along, 0.0))


def _sigmoid(z: Floats) -> Floats:
    small = np.exp(-np.minimum(np.abs(z), 60.0))
    return np.where(z >= 0, 1.0, small) / (1.0 + small)


def _softmax(z: Floats) -> Floats:
    weights = np.exp(np.maximum(z - z.max(axis=1, keepdims=True), -60.0))
    return cast("Floats", weights / weights.sum(axis=1, keepdims=True))
