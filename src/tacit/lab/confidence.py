"""Confidence bounds on a probability from counted successes."""

from __future__ import annotations

import math

__all__ = ["probability_bounds"]


def probability_bounds(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson: each end holds with ``confidence`` on its own, whatever the true probability is."""
    from scipy.special import betaincinv

    tail = 1 - confidence
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    # The special function is good to a few units in the last place; give them away.
    return max(low * (1 - 1e-12), 0.0), min(math.nextafter(high * (1 + 1e-12), 2.0), 1.0)
