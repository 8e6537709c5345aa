"""Intervals for sums of independent noises with real coefficients, with proven coverage.

Proof: ``noise_interval.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tacit.core.normal import normal_cdf_bounds, normal_quantile_bounds
from tacit.core.numbers import Number, exact_probability, float_up

#: Variance of the continuous noise that the proof adds to each term.
_SMOOTHING: Final = 2.0
#: Below this variance of a term the proof takes the subgaussian bound alone.
_LEAST_VARIANCE: Final = 40.0
#: Bound on (1 + e′)^m - 1 for up to 10⁷ terms.
_SLACK: Final = Fraction(1, 10**8)
#: Part of the failure probability that is reserved for the effect of rounding to integers.
_FOR_ROUNDING: Final = Fraction(1, 1000)
#: Steps of the sum that bounds the tail of a mixture of normals, and what their roundings may add.
_STEPS: Final = 1_000
_ROUNDINGS: Final = 1e-9
_REACHES: Final = (Fraction(2), Fraction(5, 2), Fraction(3), Fraction(7, 2), Fraction(4), Fraction(5))


@lru_cache(maxsize=64)
def interval_factor(confidence: Number, least_variance: float) -> float:
    """Return half-width / standard deviation of an interval for a sum of discrete Gaussian terms.

    Args:
        confidence: probability that the interval holds the value, over the noise.
        least_variance: the smallest σ² of the terms.

    >>> 1.95 < interval_factor("0.95", 10**6) < 1.97
    True
    """
    sure = exact_probability(confidence, "confidence")
    beta = 1 - sure
    # A discrete Gaussian is subgaussian with its own σ².
    factor = math.sqrt(2 * math.log(2 / float(beta))) * (1 + 1e-12)
    if least_variance < _LEAST_VARIANCE:
        return factor
    share = _SMOOTHING / least_variance
    for reach in _REACHES:
        # Probability that the added continuous noise is within its reach.
        within = 2 * normal_cdf_bounds(reach)[0] - 1
        tail = beta * within / (1 + _SLACK)
        quantile = float_up(normal_quantile_bounds(1 - tail / 2)[1])
        factor = min(factor, (quantile * math.sqrt(1 + share) + float(reach) * math.sqrt(share)) * (1 + 1e-12))
    return factor


@lru_cache(maxsize=64)
def rounded_normal_factor(confidence: Number, least_variance: float) -> float:
    """Return :func:`interval_factor` for normal terms that are rounded to integers; σ² is that before rounding.

    >>> 1.95 < rounded_normal_factor("0.95", 10**6) < 1.98
    True
    """
    beta = 1 - exact_probability(confidence, "confidence")
    quantile = float_up(normal_quantile_bounds(1 - beta * (1 - _FOR_ROUNDING) / 2)[1])
    rounding = math.sqrt(math.log(2 / float(beta * _FOR_ROUNDING)) / (2 * least_variance))
    return (quantile + rounding) * (1 + 1e-12)


@lru_cache(maxsize=64)
def laplace_factor(confidence: Number, least_scale: float) -> float:
    """Return :func:`interval_factor` for discrete Laplace terms; a term of scale s counts with variance 2s².

    Args:
        confidence: probability that the interval holds the value, over the noise.
        least_scale: the smallest scale of the terms.

    >>> 2.1 < laplace_factor("0.95", 10**6) < 2.3
    True
    """
    beta = float(1 - exact_probability(confidence, "confidence"))
    allowed = beta * (1 - float(_FOR_ROUNDING)) - _ROUNDINGS
    if allowed <= 0:
        # Chernoff's bound: 2·inf e^(-tc)/(1 - t²/2), at a t that is nearly optimal for small β.
        t = math.sqrt(2) * (1 - 1 / max(math.log(2 / beta), 2.0))
        middle = (math.log(2 / (beta * (1 - float(_FOR_ROUNDING)))) - math.log1p(-t * t / 2)) / t
    else:
        low, high = 0.5, math.log(1 / beta) + 4.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if _mixture_tail(middle) <= allowed else (middle, high)
        middle = high
    rounding = math.sqrt(math.log(2 / (beta * float(_FOR_ROUNDING)))) / least_scale
    return (middle + rounding) * (1 + 1e-12)


def _mixture_tail(reach: float) -> float:
    """Return a bound on P(|Y| > reach) for every sum Y of independent Laplace terms whose total variance is 1."""
    turn = reach**2 / 3
    ends = [turn * step / _STEPS for step in range(1, _STEPS + 1)]
    below = [math.erfc(reach / math.sqrt(2 * end)) for end in ends]
    width = -math.expm1(-turn / _STEPS)
    total = math.fsum(g * math.exp(turn / _STEPS - end) * width for g, end in zip(below, ends, strict=True))
    slope = 3**1.5 * math.exp(-1.5) / math.sqrt(2 * math.pi) / reach**2
    return total + math.exp(-turn) * (below[-1] + slope)
