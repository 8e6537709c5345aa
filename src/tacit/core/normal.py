"""Certified bounds on the normal distribution.

``mpmath`` evaluates the error function with more digits than are claimed, and each result is widened by more than all
rounding errors of the computation. Where two nearly equal tails are subtracted, each is enclosed individually, so the
cancellation shows as a wider enclosure, which more digits make narrower. Because of the enclosures a computed delta is
a bound and not an estimate.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tacit.core.numbers import exp_bounds, log_bounds, round_up, sqrt_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

#: Digits of mpmath's arithmetic beyond those that are claimed.
_SPARE: Final = 15
#: Binary exponent below which a number is enclosed by [0, _TINY]; written out it would fill memory.
_TINY_EXPONENT: Final = -(10**5)
_TINY: Final = Fraction(1, 2**-_TINY_EXPONENT)
#: Arguments of Φ beyond this have a tail below _TINY: e^{-400²/2} < 2^-115000.
_FAR: Final = 400
#: Probabilities nearer to 1/2 than this have a quantile with closed-form bounds.
_NEAR_DIGITS: Final = 25
_NEAR: Final = Fraction(1, 10**_NEAR_DIGITS)
#: Above this μ the exact ε of a Gaussian is at most a part in a thousand below the one by its zCDP.
LARGEST_MU: Final = 10**4
#: Relative width up to which enclosures of a difference are refined, unless they are tiny.
_CLOSE: Final = Fraction(1, 10**30)


def normal_cdf_bounds(value: Fraction, digits: int = 45) -> tuple[Fraction, Fraction]:
    """Return an enclosure of Φ(value), the probability that a standard normal is at most ``value``."""
    if abs(value) > _FAR:
        # Φ(-x) <= exp(-x²/2), which is below the smallest number that is told apart from zero.
        return (Fraction(0), _TINY) if value < 0 else (1 - _TINY, Fraction(1))
    return _enclose(lambda mp: mp.ncdf(_mpf(mp, value)), digits)


def normal_quantile_bounds(probability: Fraction) -> tuple[Fraction, Fraction]:
    """Return an enclosure of Φ⁻¹(probability), for a probability strictly between 0 and 1."""
    digits, off = 45, probability - Fraction(1, 2)
    if abs(off) < _NEAR:
        return _quantile_near_half(off)

    def solve(mp: Any) -> Any:
        # The smaller tail, subtracted while it is still exact.
        tail, sign = _mpf(mp, min(probability, 1 - probability)), -1 if probability < Fraction(1, 2) else 1
        # Newton on ln of the upper tail, which is smooth and nearly quadratic.
        guess = mp.sqrt(max(-2 * mp.log(2 * tail), mp.mpf(0)))
        for _ in range(200):
            upper = mp.erfc(guess / mp.sqrt(2)) / 2
            step = upper * (mp.log(upper) - mp.log(tail)) / mp.npdf(guess)
            guess += step
            if abs(step) < abs(guess) * mp.mpf(10) ** (-digits - _SPARE // 2):
                break
        return sign * guess

    # Near 1/2 the tail differs from 1/2 by `off` only, and its leading zeros cost as many digits.
    return _enclose(solve, digits, spare=_SPARE + _NEAR_DIGITS)


def _quantile_near_half(off: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds on Φ⁻¹(1/2 + t) for a small t: s and s(1 + 4t²) with s = √(2π)·t.

    With x the quantile, t = ∫₀ˣ φ lies between x(1 - x²/6)/√(2π) and x/√(2π), because 1 - u²/2 <= e^{-u²/2} <= 1.
    """
    low, high = _enclose(lambda mp: mp.sqrt(2 * mp.pi), 60)
    size = abs(off)
    ends = low * size, high * size * (1 + 4 * size**2)
    return ends if off >= 0 else (-ends[1], -ends[0])


@lru_cache(maxsize=4096)
def gaussian_delta_bounds(epsilon: Fraction, mu: Fraction) -> tuple[Fraction, Fraction]:
    """Return an enclosure of the delta of a Gaussian mechanism with ``mu`` = sensitivity / sigma at ``epsilon``.

    δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ); Balle and Wang (2018), the trade-off curve of μ-GDP.
    """
    if mu == 0:
        return Fraction(0), Fraction(0)
    digits = 45
    while True:
        first = normal_cdf_bounds(mu / 2 - epsilon / mu, digits)
        second = normal_cdf_bounds(-mu / 2 - epsilon / mu, digits)
        if second[1] <= _TINY:
            # The second term, its product with e^ε, is negligible beside the first one.
            return max(first[0] - _TINY, Fraction(0)) if epsilon == 0 else Fraction(0), first[1]
        growth = exp_bounds(epsilon, digits)
        low, high = first[0] - growth[1] * second[1], first[1] - growth[0] * second[0]
        if high - low <= high * _CLOSE or high <= _TINY:
            return max(low, Fraction(0)), min(high, Fraction(1))
        digits *= 2


def gaussian_epsilon_up(mu: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon with δ(ε) <= ``delta`` for ``mu``, rounded up to about 15 digits.

    δ(ε) falls as ε grows, so bisection finds it; the inequality has been checked at the returned end.
    """
    if mu == 0 or gaussian_delta_bounds(Fraction(0), mu)[1] <= delta:
        return Fraction(0)
    if mu > LARGEST_MU:
        return concentrated_epsilon_up(mu, delta)
    low, high = 0.0, 1.0
    while gaussian_delta_bounds(Fraction(high), mu)[1] > delta:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-15 * high:
        if gaussian_delta_bounds(Fraction(middle), mu)[1] <= delta:
            high = middle
        else:
            low = middle
    return Fraction(high)


def concentrated_epsilon_up(mu: Fraction, delta: Fraction) -> Fraction:
    """Return ε = μ²/2 + μ√(2 ln(1/δ)), from the zCDP of a Gaussian; for a large μ the first term dominates."""
    return round_up(mu * mu / 2 + mu * sqrt_bounds(-2 * log_bounds(delta)[0])[1])


def _mpf(mp: Any, value: Fraction) -> Any:
    return mp.mpf(value.numerator) / mp.mpf(value.denominator)


def _enclose(evaluate: Callable[[Any], Any], digits: int, *, spare: int = _SPARE) -> tuple[Fraction, Fraction]:
    """Return ``evaluate``'s value at ``digits`` and some spare digits, plus or minus one part in 10^``digits``."""
    value = evaluate(_context(digits + spare))
    sign, mantissa, exponent, bits = value._mpf_
    if exponent + bits < _TINY_EXPONENT:
        return (-_TINY, Fraction(0)) if sign else (Fraction(0), _TINY)
    size = Fraction(mantissa) * Fraction(2) ** exponent
    slack = size / 10**digits
    return (-size - slack, slack - size) if sign else (size - slack, size + slack)


class _Contexts(threading.local):
    """Contexts of mpmath by their digits, one set per thread, because the precision is a setting of the context."""

    def __init__(self) -> None:
        self.by_digits: dict[int, Any] = {}


_CONTEXTS = _Contexts()


def _context(digits: int) -> Any:
    """Return this thread's context of this many digits; creating one takes longer than most computations in it."""
    found = _CONTEXTS.by_digits.get(digits)
    if found is None:
        import mpmath

        found = _CONTEXTS.by_digits[digits] = mpmath.mp.clone()
    # Set each time: a function that was interrupted may have left another precision.
    found.dps = digits
    return found
