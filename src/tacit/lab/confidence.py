"""Confidence bounds on a probability from counted successes."""

from __future__ import annotations

import math

from tacit.core.float_functions import success_limit


def probability_bounds(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson: each end holds with ``confidence`` on its own, whatever the true probability is."""
    tail = 1 - confidence
    low = float(success_limit(successes, trials, tail))
    high = 1 - float(success_limit(trials - successes, trials, tail))
    # Limits are good to a few units in the last place; give them away.
    return max(low * (1 - 1e-12), 0.0), min(math.nextafter(high * (1 + 1e-12), 2.0), 1.0)
