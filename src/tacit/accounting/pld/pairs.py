"""Dominating pairs of distributions, given by their privacy loss; among them the pairs of the noise that Tacit adds.

A pair (P, Q) *dominates* a mechanism when E_γ(M(D)‖M(D')) <= E_γ(P‖Q) for all γ >= 0 and all neighbours, where E_γ is
the hockey-stick divergence. Dominating pairs compose (Zhu, Dong and Wang 2022), and of a pair only the law of its loss
L = ln(dP/dQ) under P and under Q matters. So a pair here is four functions: P(L > l), P(L <= l), Q(L > l), Q(L <= l);
both tails, because differences are computed from the smaller one.

Every function has relative accuracy ``ACCURACY``; ``discretise`` rounds outward by that much. ``pld.proof.md``,
section 2, proves that each pair dominates its release.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.core.float_functions import normal_cdf
from tacit.core.numbers import float_nearest

Floats = NDArray[np.float64]

#: Relative accuracy of every tail function here; z² times the rounding of z is 3e-13 at 38 deviations.
ACCURACY: Final = 2.0**-40


class Sides(NamedTuple):
    """Probabilities that the loss is above, and at most, given values, under P and under Q."""

    p_above: Floats
    p_below: Floats
    q_above: Floats
    q_below: Floats


class LossPair(ABC):
    """A pair of distributions (P, Q), given by the law of its loss."""

    #: A loss that should lie on the grid: the largest atom, if the law has atoms.
    anchor: float = 0.0
    #: Distance between the atoms of the loss, if they and the anchor lie on a lattice.
    spacing: Fraction | float | None = None
    #: Distance that the grid follows instead if the lattice is much finer than the grid.
    span: Fraction | None = None
    #: The part of P's mass that no choice of grid can place on grid points.
    smooth_share: float = 1.0

    @abstractmethod
    def sides(self, losses: Floats) -> Sides:
        """Return the four functions at ``losses``."""

    @abstractmethod
    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return ``(low, high)``: P and Q put mass at most e^log_tail below low, and P as much above high."""


@dataclass(frozen=True)
class GaussianPair(LossPair):
    """N(0, 1) against N(μ, 1): the loss is normal with mean ±μ²/2 and standard deviation μ."""

    mu: float

    def sides(self, losses: Floats) -> Sides:
        scaled = losses / self.mu
        return Sides(*normal_sides(scaled - self.mu / 2), *normal_sides(scaled + self.mu / 2))

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends by Φ(-z) <= exp(-z²/2)."""
        z = math.sqrt(max(-2 * log_tail, 1.0))
        return -self.mu * (self.mu / 2 + z), self.mu * (self.mu / 2 + z)


class LaplacePair(LossPair):
    """Laplace noise of scale b on a number that moves by Δ; ``epsilon`` = Δ/b.

    Atoms at ±ε hold the outputs beyond either end; in between P(L <= l) = e^{-(ε-l)/2}/2 and Q(L > l) = e^{-(ε+l)/2}/2.
    """

    def __init__(self, epsilon: float, spacing: Fraction | float | None = None) -> None:
        self.epsilon = self.anchor = epsilon
        self.spacing = epsilon if spacing is None else spacing
        self.smooth_share = -math.expm1(-epsilon) / 2

    def sides(self, losses: Floats) -> Sides:
        inside = np.clip(losses, -self.epsilon, self.epsilon)
        p_below, q_above = np.exp((inside - self.epsilon) / 2) / 2, np.exp(-(inside + self.epsilon) / 2) / 2
        top, under = losses >= self.epsilon, losses < -self.epsilon
        p_below = np.where(top, 1.0, np.where(under, 0.0, p_below))
        q_above = np.where(top, 0.0, np.where(under, 1.0, q_above))
        return Sides(1 - p_below, p_below, q_above, 1 - q_above)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends of the support, which is finite."""
        del log_tail
        return -self.epsilon, self.epsilon


class BoundedRangePair(LossPair):
    """The worst case, at every l, of all releases whose loss has range ε: δ(l) = (e^{ε/2} - e^{l/2})²/(e^ε - 1)."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = self.anchor = epsilon

    def sides(self, losses: Floats) -> Sides:
        """Compute P(L > l) = (1 - e^{(l-ε)/2})/(1 - e^{-ε}) and Q(L > l) = e^{-ε}(e^{(ε-l)/2} - 1)/(1 - e^{-ε})."""
        inside = np.clip(losses, -self.epsilon, self.epsilon)
        scale = -math.expm1(-self.epsilon)
        p_above = -np.expm1((inside - self.epsilon) / 2) / scale
        p_below = np.exp(-self.epsilon) * np.expm1((inside + self.epsilon) / 2) / scale
        q_above = np.exp(-self.epsilon) * np.expm1((self.epsilon - inside) / 2) / scale
        q_below = -np.expm1(-(inside + self.epsilon) / 2) / scale
        return Sides(p_above, p_below, q_above, q_below)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends of the support, which is finite."""
        del log_tail
        return -self.epsilon, self.epsilon


class Atoms(LossPair):
    """Finitely many losses with their probabilities under P and under Q, in increasing order of loss."""

    def __init__(self, losses: Floats, p: Floats, q: Floats, *, spacing: Fraction | float | None = None) -> None:
        self.losses, self.spacing = losses, spacing
        self.anchor = float(losses[-1])
        self.smooth_share = 0.0 if spacing is not None else 1.0
        self._sides = [_cumulate(p[::-1])[::-1], _cumulate(p), _cumulate(q[::-1])[::-1], _cumulate(q)]

    def sides(self, losses: Floats) -> Sides:
        """Return cumulative sums, added up from either end."""
        at = np.searchsorted(self.losses, losses, side="right")
        p_above, p_below, q_above, q_below = self._sides
        return Sides(p_above[at], p_below[at], q_above[at], q_below[at])

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends of the support, which is finite."""
        del log_tail
        return float(self.losses[0]), float(self.losses[-1])


class TwoPoint(Atoms):
    """Loss ``high`` > 0 or -``low`` < 0: the only pair of distributions with these two losses."""

    def __init__(self, high: float, low: float, *, spacing: Fraction | float | None = None) -> None:
        self.high, self.low = high, low
        # P(high) = p and Q(high) = p e^{-high}; both laws sum to 1, which leaves one solution.
        top = math.expm1(-low) / math.expm1(-high - low)
        bottom = math.expm1(-high) / math.expm1(-high - low)
        p, q = np.array([bottom * math.exp(-low), top]), np.array([bottom, top * math.exp(-high)])
        super().__init__(np.array([-low, high]), p, q, spacing=high + low if spacing is None else spacing)


def response_pair(epsilon: float, neutral: float) -> Atoms:
    """Return the pair of randomized response with odds e^ε, whose loss is 0 with probability ``neutral``."""
    odds = 1 / (1 + math.exp(-epsilon)) * (1 - neutral)
    rest = odds * math.exp(-epsilon)
    p = np.array([rest, neutral, odds])
    return Atoms(np.array([-epsilon, 0.0, epsilon]), p, p[::-1].copy(), spacing=epsilon)


def normal_sides(z: Floats) -> tuple[Floats, Floats]:
    """Return 1 - Φ(z) and Φ(z): the smaller one is computed, the larger one is its complement."""
    small = normal_cdf(-np.abs(z))
    positive = z > 0
    return np.where(positive, small, 1 - small), np.where(positive, 1 - small, small)


def _cumulate(masses: Floats) -> Floats:
    result: Floats = np.concatenate(([0.0], np.cumsum(masses)))
    return result


class DiscreteLaplacePair(LossPair):
    """Discrete Laplace noise of ``scale`` t on an integer that moves by ``shift`` Δ.

    The loss is (Δ-2x)/t for x = 0…Δ. With a = e^{-1/t}: P(X > n) = a^{n+1}/(1+a) for n >= -1, and Q is P moved by Δ.
    """

    smooth_share = 0.0

    def __init__(self, scale: Fraction, shift: int) -> None:
        self.shift, self.scale = shift, float_nearest(scale)
        self.epsilon = self.anchor = float_nearest(shift / scale)
        self.spacing, self.span = 2 / scale, shift / scale

    def sides(self, losses: Floats) -> Sides:
        """Use that L > l exactly when x <= n with n = ceil((Δ - lt)/2) - 1."""
        last = _last_below(self.shift / 2, losses * self.scale / 2)
        total = 1 + math.exp(-1 / self.scale)
        inside = np.clip(last, 0, self.shift - 1)
        p_below = np.exp(-(inside + 1) / self.scale) / total
        q_above = np.exp(-(self.shift - inside) / self.scale) / total
        none, everything = last < 0, last >= self.shift
        p_below = np.where(none, 1.0, np.where(everything, 0.0, p_below))
        q_above = np.where(none, 0.0, np.where(everything, 1.0, q_above))
        return Sides(1 - p_below, p_below, q_above, 1 - q_above)

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends of the support, which is finite."""
        del log_tail
        return -self.epsilon, self.epsilon


def _last_below(middle: float, moved: Floats) -> Floats:
    """Return the largest integer below ``middle - moved``; if that is an integer up to rounding, the one below it.

    Without the allowance for rounding an atom could fall on the wrong side of a grid edge that was placed on it. This
    changes the loss by a few units in the last place of the largest loss, which the accountant's rounding covers.
    """
    # A sampled release evaluates infinite losses; any finite number beyond all atoms gives the same result.
    moved = np.clip(moved, -1e15, 1e15)
    allowance = 2.0**-51 * (middle + np.abs(moved))
    result: Floats = np.ceil(middle - moved - allowance) - 1
    return result


class DiscreteGaussianPair(LossPair):
    """Discrete Gaussian noise of parameter ``sigma2`` on one integer that moves by ``shift`` Δ.

    The loss is (Δ² - 2xΔ)/(2σ²): a lattice of spacing Δ/σ². A table holds the cumulative probabilities.
    """

    smooth_share = 0.0

    def __init__(self, sigma2: Fraction, shift: int) -> None:
        self.shift, self._sigma2 = shift, float_nearest(sigma2)
        self.spacing = shift / sigma2
        self.anchor = float_nearest(Fraction(shift * shift) / (2 * sigma2))
        # Beyond 39 standard deviations the probabilities leave the range of floats.
        self._far = math.ceil(39 * math.sqrt(self._sigma2)) + 2
        x = np.arange(-self._far, self._far + 1, dtype=np.float64)
        weights = np.exp(-x * x / (2 * self._sigma2))
        # Adding the small weights first keeps every partial sum accurate relative to itself.
        below = np.cumsum(weights)
        self._below = np.concatenate(([0.0], below / below[-1]))

    def sides(self, losses: Floats) -> Sides:
        """Use that L > l exactly when x <= n with n = ceil(Δ/2 - lσ²/Δ) - 1."""
        last = _last_below(self.shift / 2, losses * (self._sigma2 / self.shift))
        return Sides(
            self._up_to(last),
            self._up_to(-last - 1),
            self._up_to(last - self.shift),
            self._up_to(self.shift - last - 1),
        )

    def _up_to(self, n: Floats) -> Floats:
        """Return P(X <= n), which by symmetry is also P(X >= -n)."""
        at = np.clip(n + self._far + 1, 0, len(self._below) - 1).astype(np.int64)
        result: Floats = self._below[at]
        return result

    def reach(self, log_tail: float) -> tuple[float, float]:
        """Return the ends by P(X >= x) <= exp(-x²/(2σ²)) for x >= 0 (Canonne, Kamath and Steinke 2020, Prop. 25)."""
        z = math.ceil(math.sqrt(max(-2 * log_tail, 1.0) * self._sigma2)) + self.shift
        rate = self.shift / self._sigma2
        return self.anchor - rate * (z + self.shift), self.anchor + rate * z
