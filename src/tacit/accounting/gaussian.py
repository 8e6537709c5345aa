"""Exact composition of Gaussian mechanisms in closed form.

μ₁-GDP and μ₂-GDP compose to √(μ₁²+μ₂²)-GDP, and δ(ε) of μ-GDP is known (Balle and Wang 2018; Dong, Roth and Su
2022). It remains to solve δ(ε) = δ for ε: Newton's method in floats finds a candidate, and two enclosed
evaluations of δ(ε) prove a bracket around it.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.core.float_functions import scaled_normal_tail
from tacit.core.normal import LARGEST_MU, concentrated_epsilon_up, gaussian_delta_bounds
from tacit.core.numbers import float_nearest

_WIDENINGS = 60
_LOG_ROOT_TAU = math.log(2 * math.pi) / 2


def gaussian_epsilon_high(mu: Fraction, delta: Fraction) -> Fraction:
    """Return an ε for which δ(ε) <= ``delta`` has been checked."""
    if mu > LARGEST_MU:
        return concentrated_epsilon_up(mu, delta)
    guess = _solve(mu, delta)
    if guess is None:
        return Fraction(0)
    high = Fraction(guess)
    for widening in range(_WIDENINGS):
        high = Fraction(guess * (1 + 1e-13 * 4**widening))
        if gaussian_delta_bounds(high, mu)[1] <= delta:
            break
    return high


def gaussian_epsilon_low(mu: Fraction, delta: Fraction) -> Fraction:
    """Return an ε for which δ(ε) >= ``delta`` has been checked, or zero."""
    # With such a large μ the guarantee is too weak for its exact ε to matter.
    guess = None if mu > LARGEST_MU else _solve(mu, delta)
    if guess is None:
        return Fraction(0)
    low = Fraction(guess)
    for widening in range(_WIDENINGS):
        low = Fraction(max(guess * (1 - 1e-13 * 4**widening), 0.0))
        if low == 0 or gaussian_delta_bounds(low, mu)[0] >= delta:
            break
    return low


def log_gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the logarithm of δ(ε) in floats: an estimate for searches, never a bound.

    With a = ε/μ - μ/2 and r(x) = Φ(-x)/φ(x) falling, δ(ε) = φ(a)·(r(a) - r(a+μ)), because e^ε φ(a+μ) = φ(a).
    """
    a = epsilon / mu - mu / 2
    if a < -5:
        far = a + mu  # positive, because ε is no less than 0
        taken = epsilon - far * far / 2 - _LOG_ROOT_TAU + math.log(scaled_normal_tail(far))
        return math.log(max(math.erfc(a / math.sqrt(2)) / 2 - math.exp(min(taken, 0.0)), 1e-300))
    gap = scaled_normal_tail(a) - scaled_normal_tail(a + mu)
    if mu < 1e-4:
        # The two values agree in most digits; the derivative of r is x·r(x) - 1.
        middle = a + mu / 2
        gap = mu * (1 - middle * scaled_normal_tail(middle))
    return -a * a / 2 - _LOG_ROOT_TAU + math.log(max(gap, 1e-300))


def _solve(mu: Fraction, delta: Fraction) -> float | None:
    """Return a float near the solution; ``None`` if ε = 0 is proven to be the solution."""
    if mu == 0:
        return None
    m, log_delta = float_nearest(mu), math.log(delta.numerator) - math.log(delta.denominator)
    # Where the estimate at zero is not clearly above δ, zero itself is checked with enclosures.
    if log_gaussian_delta(0.0, m) < log_delta + 1e-3 and gaussian_delta_bounds(Fraction(0), mu)[1] <= delta:
        return None
    low, high = 0.0, m * m / 2 + m * math.sqrt(max(-2 * log_delta, 1.0)) + m
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if log_gaussian_delta(middle, m) > log_delta:
            low = middle
        else:
            high = middle
    return high
