"""Pairs of the noise that Tacit adds: discrete Laplace and discrete Gaussian on the integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pld.pairs import LossPair, Sides
from tacit.core.numbers import float_nearest

Floats = NDArray[np.float64]


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
        """L > l exactly when x <= n with n = ceil((Δ - lt)/2) - 1."""
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
        """Return the whole support, which is finite."""
        del log_tail
        return -self.epsilon, self.epsilon


def _last_below(middle: float, moved: Floats) -> Floats:
    """The largest integer below ``middle - moved``, where that is an integer but for rounding the one below it.

    Without the allowance an atom could slip past an edge that was put on it. The loss is changed by a few units in the
    last place of the largest, which the accountant's last digits cover.
    """
    # A sampled release asks for losses that are infinite; any finite number beyond all atoms says the same.
    moved = np.clip(moved, -1e15, 1e15)
    allowance = 2.0**-51 * (middle + np.abs(moved))
    result: Floats = np.ceil(middle - moved - allowance) - 1
    return result


class DiscreteGaussianPair(LossPair):
    """Discrete Gaussian noise of parameter ``sigma2`` on one integer that moves by ``shift`` Δ.

    The loss is (Δ² - 2xΔ)/(2σ²): a lattice of spacing Δ/σ². Sums of the probabilities are kept in a table.
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
        """L > l exactly when x <= n with n = ceil(Δ/2 - lσ²/Δ) - 1."""
        last = _last_below(self.shift / 2, losses * (self._sigma2 / self.shift))
        return Sides(
            self._up_to(last),
            self._up_to(-last - 1),
            self._up_to(last - self.shift),
            self._up_to(self.shift - last - 1),
        )

    def _up_to(self, n: Floats) -> Floats:
        """P(X <= n), which by symmetry is also P(X >= -n)."""
        at = np.clip(n + self._far + 1, 0, len(self._below) - 1).astype(np.int64)
        result: Floats = self._below[at]
        return result

    def reach(self, log_tail: float) -> tuple[float, float]:
        """By P(X >= x) <= exp(-x²/(2σ²)) for x >= 0 (Canonne, Kamath and Steinke 2020, Proposition 25)."""
        z = math.ceil(math.sqrt(max(-2 * log_tail, 1.0) * self._sigma2)) + self.shift
        rate = self.shift / self._sigma2
        return self.anchor - rate * (z + self.shift), self.anchor + rate * z
