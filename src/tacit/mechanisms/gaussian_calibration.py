"""Finding the standard deviation of Gaussian noise for an (epsilon, delta), always rounded to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tacit.core.errors import AccountingError, InputError
from tacit.core.normal import gaussian_delta_bounds
from tacit.core.numbers import (
    Number,
    exact_positive,
    exact_probability,
    float_nearest,
    format_up,
    log_bounds,
    round_up,
    sqrt_bounds,
)
from tacit.mechanisms.base import smallest_that
from tacit.mechanisms.gaussian_profile import gives_at_most

__all__ = [
    "analytic_gaussian_sigma",
    "calibrate_discrete_sigma",
    "check_discrete_sigma",
    "check_epsilon",
    "classic_gaussian_sigma",
]

LARGEST_EPSILON: Final = 10_000


def check_epsilon(epsilon: Number) -> Fraction:
    """A positive ε that is not absurd: exp(ε) has to be written down."""
    value = exact_positive(epsilon, "epsilon")
    if value > LARGEST_EPSILON:
        raise InputError("epsilon", f"must be at most {LARGEST_EPSILON}; a larger one protects no person")
    return value


def analytic_gaussian_sigma(epsilon: Number, delta: Number, l2_sensitivity: Number) -> Fraction:
    """The smallest σ for which *continuous* normal noise is (ε, δ)-DP, rounded up to twelve digits.

    It solves Φ(Δ/(2σ) - εσ/Δ) - e^ε·Φ(-Δ/(2σ) - εσ/Δ) = δ (Balle and Wang 2018). Discrete noise has another
    δ(ε); :func:`calibrate_discrete_sigma` is for that.
    """
    e, d = check_epsilon(epsilon), exact_probability(delta, "delta")
    sensitivity = exact_positive(l2_sensitivity, "l2_sensitivity")
    return round_up(_analytic_multiplier(e, d) * sensitivity, 13)


def classic_gaussian_sigma(epsilon: Number, delta: Number, l2_sensitivity: Number) -> Fraction:
    """σ = √(2 ln(1.25/δ))·Δ/ε, rounded up; refused for ε > 1, where it does not give (ε, δ)-DP."""
    e, d = check_epsilon(epsilon), exact_probability(delta, "delta")
    sensitivity = exact_positive(l2_sensitivity, "l2_sensitivity")
    if e > 1:
        raise AccountingError(
            f"the classic calibration is not private for epsilon = {format_up(e)} > 1; use calibration='analytic'"
        )
    root = sqrt_bounds(2 * log_bounds(Fraction(5, 4) / d)[1])[1]
    return round_up(root * sensitivity / e, 13)


@lru_cache(maxsize=1024)
def calibrate_discrete_sigma(epsilon: Fraction, delta: Fraction, l2_squared: int, dimension: int = 1) -> Fraction:
    """A σ of ten digits for which discrete Gaussian noise on ``dimension`` integers is (ε, δ)-DP.

    The smallest one that the bounds of :mod:`tacit.mechanisms.gaussian_profile` prove, found by bisection; the
    number that is returned has itself been checked.
    """

    def holds(sigma: Fraction) -> bool:
        return gives_at_most(epsilon, delta, sigma2=sigma * sigma, l2_squared=l2_squared, dimension=dimension)

    guess = _multiplier_estimate(epsilon, delta) * sqrt_bounds(Fraction(l2_squared))[1]
    return smallest_that(holds, guess, near=Fraction(1, 10**6))


def check_discrete_sigma(
    sigma: Fraction, *, epsilon: Fraction, delta: Fraction, l2_squared: int, dimension: int
) -> None:
    """Raise unless discrete Gaussian noise of ``sigma`` is proven (ε, δ)-DP."""
    if not gives_at_most(epsilon, delta, sigma2=sigma * sigma, l2_squared=l2_squared, dimension=dimension):
        raise AccountingError(
            f"discrete noise of sigma = {format_up(sigma)} is not proven ({format_up(epsilon)}, {format_up(delta)})-DP "
            f"in dimension {dimension}; use calibration='analytic'"
        )


@lru_cache(maxsize=1024)
def _analytic_multiplier(epsilon: Fraction, delta: Fraction) -> Fraction:
    """σ/Δ for continuous noise, rounded up."""

    def holds(multiplier: Fraction) -> bool:
        return gaussian_delta_bounds(epsilon, 1 / multiplier)[1] <= delta

    return smallest_that(holds, _multiplier_estimate(epsilon, delta), digits=13, near=Fraction(1, 10**9))


def _multiplier_estimate(epsilon: Fraction, delta: Fraction) -> Fraction:
    """σ/Δ for continuous noise, by bisection in floats: a first guess only."""
    e, target = float_nearest(epsilon), float_nearest(delta)

    def log_upper(x: float) -> float:
        """The logarithm of a normal's tail beyond ``x``, or its leading term where floats underflow."""
        return math.log(math.erfc(x / math.sqrt(2)) / 2) if x < 37 else -x * x / 2 - math.log(x * 2.5066)

    def delta_at(m: float) -> float:
        return math.exp(log_upper(e * m - 0.5 / m)) - math.exp(min(e + log_upper(e * m + 0.5 / m), 0.0))

    low, high = 1e-200, 1e200
    for _ in range(700):
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (middle, high) if delta_at(middle) > target else (low, middle)
        if high <= low * (1 + 1e-15):
            break
    return Fraction(high)
