"""Renyi divergence of the Poisson-sampled Gaussian mechanism, at every real order, with a proven error.

*Privacy.* A Gaussian release of noise σ (sensitivity 1) on a secret Poisson sample of rate q. For adding or removing a
unit the larger of the two divergences is that of the mixture (1-q)·N(0, σ²) + q·N(1, σ²) from N(0, σ²) (Mironov,
Talwar and Zhang 2019, Theorem 5), so

    (α-1)·D_α = ln A,    A = E_{x ~ N(0, σ²)} (1 - q + q e^{(2x-1)/(2σ²)})^α.

*Error.* A is an integral of a function that is analytic in the strip |Im x| < πσ², and there
|f(x+iy)| <= e^{y²/(2σ²)}·f(x). The trapezoidal rule of step h therefore has *relative* error at most
2e^{a²/(2σ²)}/(e^{2πa/h} - 1) for any a < πσ² (Trefethen and Weideman 2014, Theorem 5.1); steps are chosen to make it
below 1e-15. The tails that are cut off are bounded in closed form and added. See ``sampled_gaussian.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Above this order the divergence of the Gaussian without sampling is used.
_LARGEST_ORDER = 4096.0
_MOST_NODES = 200_000
_DIGITS = 37.0


def sampled_gaussian_renyi(rate: float, sigma: float) -> Callable[[Floats], Floats]:
    """Return D_α as a function of an array of orders, for sampling ``rate`` and noise ``sigma`` / sensitivity."""

    def curve(orders: Floats) -> Floats:
        result = orders / (2 * sigma * sigma)
        if rate < 1:
            for i, alpha in enumerate(orders):
                if alpha <= _LARGEST_ORDER:
                    result[i] = min(result[i], _divergence(float(alpha), rate, sigma))
        return result

    return curve


def _divergence(alpha: float, rate: float, sigma: float) -> float:
    # Beyond `reach` standard deviations on either side less than e^-40 of A is left (see the proof).
    reach = math.sqrt(2 * (alpha * -math.log(rate) + _DIGITS + 8))
    step = _step(sigma)
    if (2 * reach * sigma + alpha) / step > _MOST_NODES:
        return math.inf
    nodes = np.arange(math.floor(-reach * sigma / step), math.ceil((alpha + reach * sigma) / step) + 1) * step
    # ln of the integrand by cancellation-free parts: x²/(2σ²) and α·ln(1 - q + q e^u).
    u = (2 * nodes - 1) / (2 * sigma * sigma)
    inside = np.where(
        u < 30,
        np.log1p(rate * np.expm1(np.minimum(u, 30.0))),
        u + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-np.maximum(u, 0.0))),
    )
    logs = alpha * inside - nodes * nodes / (2 * sigma * sigma)
    peak = float(logs.max())
    if peak > 600:
        total = peak + math.log(float(np.exp(logs - peak).sum())) + math.log(step / (sigma * math.sqrt(2 * math.pi)))
        return total / (alpha - 1) * (1 + 1e-13)
    # A - 1 summed as (f - 1)·weight keeps the digits of a small divergence. The weights themselves sum to 1 (the same
    # rule applied to the constant function), with the same relative error.
    weights = np.exp(-nodes * nodes / (2 * sigma * sigma)) * step / (sigma * math.sqrt(2 * math.pi))
    with np.errstate(over="ignore"):
        # Where the power would overflow its weight underflows; the product is taken in the exponent.
        lifted = np.where(alpha * inside > 600, 0.0, np.expm1(np.minimum(alpha * inside, 600.0)) * weights)
        lifted += np.where(alpha * inside > 600, np.exp(logs) * step / (sigma * math.sqrt(2 * math.pi)), 0.0)
    # E[e^L - 1] = 0 over the same nodes: subtracting α times it removes the first-order term, and all that is left is
    # positive by convexity of t -> t^α.
    linear = np.where(u > 600, 0.0, rate * np.expm1(np.minimum(u, 600.0)) * weights)
    excess = float((lifted - alpha * linear).sum())
    slack = 2e-15 * float((np.abs(lifted) + alpha * np.abs(linear)).sum()) + 1e-18 * (1 + abs(excess))
    return math.log1p(max(excess, 0.0) + slack) / (alpha - 1)


def _step(sigma: float) -> float:
    """Return a step at which the trapezoidal rule has relative error e^-37, by the best strip up to 3σ² <= πσ²."""
    if sigma >= 3:
        return 0.7 * sigma
    return 6 * math.pi * sigma * sigma / (4.5 * sigma * sigma + _DIGITS + 1)
