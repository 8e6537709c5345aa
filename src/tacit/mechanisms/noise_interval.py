"""Intervals for sums of discrete Gaussian noise with real coefficients, with proven coverage.

Proof: ``noise_interval.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tacit.core.normal import normal_cdf_bounds, normal_quantile_bounds
from tacit.core.numbers import Number, exact_probability, float_up

__all__ = ["interval_factor"]

#: Variance of the continuous noise that the proof adds to each term.
_SMOOTHING: Final = 2.0
#: Below this variance of a term the proof takes the subgaussian bound alone.
_LEAST_VARIANCE: Final = 40.0
#: Bound on (1 + e′)^m - 1 for up to 10⁷ terms.
_SLACK: Final = Fraction(1, 10**8)
_REACHES: Final = (Fraction(2), Fraction(5, 2), Fraction(3), Fraction(7, 2), Fraction(4), Fraction(5))


@lru_cache(maxsize=64)
def interval_factor(confidence: Number, least_variance: float) -> float:
    """Half-width of an interval over the standard deviation of the noise, for a sum of discrete Gaussian terms.

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
        # Chance that the added continuous noise is within its reach.
        within = 2 * normal_cdf_bounds(reach)[0] - 1
        tail = beta * within / (1 + _SLACK)
        quantile = float_up(normal_quantile_bounds(1 - tail / 2)[1])
        factor = min(factor, (quantile * math.sqrt(1 + share) + float(reach) * math.sqrt(share)) * (1 + 1e-12))
    return factor
