"""The one composition that is exact in closed form: Gaussians compose to a Gaussian.

μ₁-GDP and μ₂-GDP compose to √(μ₁²+μ₂²)-GDP, and δ(ε) of μ-GDP is known (Balle and Wang 2018; Dong, Roth and Su
2022). What remains is to solve δ(ε) = δ for ε: Newton's method in floats finds a candidate, and two enclosed
evaluations of δ(ε) prove a bracket around it.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.core.normal import gaussian_delta_bounds
from tacit.core.numbers import float_nearest

__all__ = ["gaussian_epsilon_bounds", "log_gaussian_delta"]

_WIDENINGS = 60


def gaussian_epsilon_bounds(mu: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals ``(low, high)`` around the smallest ε with δ(ε) <= ``delta``, usually twelve digits apart."""
    if mu == 0 or gaussian_delta_bounds(Fraction(0), mu)[1] <= delta:
        return Fraction(0), Fraction(0)
    guess = _solve(float_nearest(mu), math.log(delta.numerator) - math.log(delta.denominator))
    high = low = Fraction(guess)
    for widening in range(_WIDENINGS):
        high = Fraction(guess * (1 + 1e-13 * 4**widening))
        if gaussian_delta_bounds(high, mu)[1] <= delta:
            break
    for widening in range(_WIDENINGS):
        low = Fraction(max(guess * (1 - 1e-13 * 4**widening), 0.0))
        if low == 0 or gaussian_delta_bounds(low, mu)[0] >= delta:
            break
    return low, high


def log_gaussian_delta(epsilon: float, mu: float) -> float:
    """The logarithm of δ(ε) in floats: an estimate for searches, never a bound.

    With a = ε/μ - μ/2 and r(x) = Φ(-x)/φ(x) falling, δ(ε) = φ(a)·(r(a) - r(a+μ)), because e^ε φ(a+μ) = φ(a).
    """
    from scipy.special import erfcx

    a = epsilon / mu - mu / 2
    root = math.sqrt(2)
    if a < -5:
        from scipy.special import log_ndtr, ndtr

        return math.log(max(float(ndtr(-a)) - math.exp(min(epsilon + float(log_ndtr(-a - mu)), 0.0)), 1e-300))
    gap = math.sqrt(math.pi / 2) * (float(erfcx(a / root)) - float(erfcx((a + mu) / root)))
    if mu < 1e-4:
        # The two values agree in most digits; the derivative of r is x·r(x) - 1.
        middle = a + mu / 2
        gap = mu * (1 - middle * math.sqrt(math.pi / 2) * float(erfcx(middle / root)))
    return -a * a / 2 - math.log(math.sqrt(2 * math.pi)) + math.log(max(gap, 1e-300))


def _solve(mu: float, log_delta: float) -> float:
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(max(-2 * log_delta, 1.0)) + mu
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if log_gaussian_delta(middle, mu) > log_delta:
            low = middle
        else:
            high = middle
    return high
