"""The normal law, enclosed: every function returns rationals that the true value provably lies between.

``mpmath`` evaluates the error function at a precision far beyond what is returned; each result is then widened by
more than any rounding that happened on the way. The enclosures are what makes a computed delta a bound instead of
an estimate.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tacit.core.numbers import float_nearest

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["gaussian_delta_bounds", "gaussian_epsilon_up", "normal_cdf_bounds", "normal_quantile_bounds"]

_DIGITS = 60
_SLACK_DIGITS = 45


def normal_cdf_bounds(value: Fraction) -> tuple[Fraction, Fraction]:
    """Enclosure of Φ(value), the probability that a standard normal is at most ``value``."""
    return _enclose(lambda mp: mp.ncdf(_mpf(mp, value)))


def normal_quantile_bounds(probability: Fraction) -> tuple[Fraction, Fraction]:
    """Enclosure of Φ⁻¹(probability), for a probability strictly between 0 and 1."""

    def solve(mp: Any) -> Any:
        target = _mpf(mp, probability)
        tail, sign = (target, -1) if probability < Fraction(1, 2) else (1 - target, 1)
        # Newton from the float answer on ln of the upper tail, which is smooth and nearly quadratic.
        guess = mp.sqrt(max(-2 * mp.log(2 * tail), mp.mpf(0)))
        for _ in range(200):
            upper = mp.erfc(guess / mp.sqrt(2)) / 2
            step = upper * (mp.log(upper) - mp.log(tail)) / mp.npdf(guess)
            guess += step
            if abs(step) < mp.mpf(10) ** (-_DIGITS + 8):
                break
        return sign * guess

    return _enclose(solve)


def gaussian_delta_bounds(epsilon: Fraction, mu: Fraction) -> tuple[Fraction, Fraction]:
    """Enclosure of the delta of a Gaussian mechanism with ``mu`` = sensitivity / sigma at ``epsilon``.

    δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ); Balle and Wang (2018), the trade-off curve of μ-GDP.
    """
    if mu == 0:
        return Fraction(0), Fraction(0)

    def evaluate(mp: Any) -> Any:
        e, m = _mpf(mp, epsilon), _mpf(mp, mu)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)

    # The two terms may agree in many digits; the extra precision covers what their difference loses.
    low, high = _enclose(evaluate, extra=_lost_digits(epsilon, mu))
    return max(low, Fraction(0)), min(high, Fraction(1))


def gaussian_epsilon_up(mu: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon with δ(ε) <= ``delta`` for ``mu``, rounded up to about 15 digits.

    δ(ε) falls as ε grows, so bisection closes in on it; the end that is returned has been evaluated and holds.
    """
    if mu == 0 or gaussian_delta_bounds(Fraction(0), mu)[1] <= delta:
        return Fraction(0)
    low, high = 0.0, 1.0
    while gaussian_delta_bounds(Fraction(high), mu)[1] > delta:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high) and high - low > 1e-15 * high:
        if gaussian_delta_bounds(Fraction(middle), mu)[1] <= delta:
            high = middle
        else:
            low = middle
    return Fraction(high)


def _lost_digits(epsilon: Fraction, mu: Fraction) -> int:
    """Decimal digits that the subtraction in δ(ε) can lose, generously: the larger term over the difference."""
    e, m = float_nearest(epsilon), float_nearest(mu)
    tail = (e / m - m / 2) if e > m * m / 2 else 0.0
    return 20 + 4 * math.ceil(abs(math.log10(m))) + math.ceil(math.log10(2 + tail) * 4)


def _mpf(mp: Any, value: Fraction) -> Any:
    return mp.mpf(value.numerator) / mp.mpf(value.denominator)


def _enclose(evaluate: Callable[[Any], Any], extra: int = 0) -> tuple[Fraction, Fraction]:
    import mpmath

    context = mpmath.mp.clone()
    context.dps = _DIGITS + extra
    value = evaluate(context)
    sign, mantissa, exponent, _ = value._mpf_
    exactly = Fraction(-mantissa if sign else mantissa) * Fraction(2) ** exponent
    slack = abs(exactly) / 10**_SLACK_DIGITS
    return exactly - slack, exactly + slack
