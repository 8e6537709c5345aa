"""Calibration: the smallest noise whose composition meets a target (ε, δ).

*Privacy.* The releases at the returned scale have been composed by the chosen method, and ε was at most the target. The
search only decides how close to the smallest scale it is, never whether the guarantee holds.

*Error.* The next smaller scale that was tried, at most ``tolerance`` below in relative terms, missed the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from tacit.accounting.compose import METHODS, compose_plan
from tacit.accounting.composition_plan import Release, read_plan
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import Event, GaussianEvent, LaplaceEvent, PoissonSampledEvent
from tacit.core.numbers import Number, check_count, exact_positive, exact_probability, float_nearest, round_up
from tacit.core.relations import ADD_REMOVE, Relation, as_relation

#: Accepted plans: anything that compose takes.
Plannable = Release | Iterable[Release | tuple[Release, int]]

_EVALUATIONS = 120
_DIGITS = 12
_LARGEST, _SMALLEST = 1e30, 1e-30


def calibrate(
    build: Callable[[Fraction], Plannable],
    *,
    epsilon: Number,
    delta: Number,
    method: str = "best",
    start: Number = 1,
    tolerance: float = 1e-5,
) -> Fraction:
    """Return the smallest ``scale`` such that ``build(scale)`` composes to at most (ε, δ).

    Args:
        build: the planned releases as a function of the scale of noise; more noise must not cost more.
        epsilon: the target ε.
        delta: the target δ.
        method: as in :func:`~tacit.accounting.compose.compose`.
        start: a first guess; a good one saves a few evaluations.
        tolerance: relative amount by which the scale may exceed the smallest one.
    """
    target, d = exact_positive(epsilon, "epsilon"), exact_probability(delta, "delta", zero=True)
    if method not in METHODS:
        raise InputError("method", f"must be one of {', '.join(METHODS)}, got {method!r}")
    if not 0 < tolerance < 1:
        raise InputError("tolerance", f"must lie in (0, 1), got {tolerance}")

    def excess(scale: Fraction) -> float:
        """Return ln(ε/target): at most zero exactly when the target is met."""
        spent = compose_plan(read_plan(build(scale)), d, method, bracket=False).epsilon
        if spent <= target:
            return min(_log(spent / target), 0.0) if spent else -math.inf
        return max(_log(spent / target), 5e-324)

    return _search(excess, exact_positive(start, "start"), tolerance)


def calibrate_gaussian(
    *,
    count: int,
    epsilon: Number,
    delta: Number,
    rate: Number = 1,
    l2_sensitivity: Number = 1,
    method: str = "best",
    relation: Relation | str = ADD_REMOVE,
    tolerance: float = 1e-5,
) -> Fraction:
    """Return the σ of ``count`` Gaussian releases, each on a secret Poisson sample of ``rate``, for (ε, δ) in total.

    >>> round(float(calibrate_gaussian(count=1, epsilon=1, delta="1e-6", method="pld")), 3)
    4.225
    """
    k, which = check_count(count, "count"), as_relation(relation)
    moved, q = exact_positive(l2_sensitivity, "l2_sensitivity"), _rate(rate)
    target, d = exact_positive(epsilon, "epsilon"), exact_probability(delta, "delta")

    def build(sigma: Fraction) -> list[tuple[Release, int]]:
        return [(_sampled(GaussianEvent(sigma, moved, relation=which), q), k)]

    # The classical formula with σ scaled by the rate: only a first guess.
    guess = float_nearest(moved) * math.sqrt(float_nearest(k * q * q) * -2 * _log(d)) / float_nearest(target)
    return calibrate(build, epsilon=target, delta=d, method=method, start=max(guess, 1e-9), tolerance=tolerance)


def calibrate_laplace(
    *,
    count: int,
    epsilon: Number,
    delta: Number = 0,
    rate: Number = 1,
    l1_sensitivity: Number = 1,
    method: str = "best",
    relation: Relation | str = ADD_REMOVE,
    tolerance: float = 1e-5,
) -> Fraction:
    """Return the scale of ``count`` Laplace releases for (ε, δ) in all, each on a secret Poisson sample of ``rate``."""
    k, which = check_count(count, "count"), as_relation(relation)
    moved, q = exact_positive(l1_sensitivity, "l1_sensitivity"), _rate(rate)
    target, d = exact_positive(epsilon, "epsilon"), exact_probability(delta, "delta", zero=True)
    if d == 0 and q == 1:
        return k * moved / target

    def build(scale: Fraction) -> list[tuple[Release, int]]:
        return [(_sampled(LaplaceEvent(scale, moved, relation=which), q), k)]

    return calibrate(
        build, epsilon=target, delta=d, method=method, start=round_up(k * moved * q / target, 6), tolerance=tolerance
    )


def _search(excess: Callable[[Fraction], float], start: Fraction, tolerance: float) -> Fraction:
    """Search by regula falsi in the logarithms of scale and ε, where the relation is nearly linear."""
    high, high_excess = _rounded(min(max(float_nearest(start), _SMALLEST), _LARGEST)), 0.0
    low: Fraction | None = None
    low_excess = 0.0
    value = excess(high)
    # First a bracket: ε falls about as one over the scale, so the excess itself is the length of the step.
    for _ in range(_EVALUATIONS):
        if value <= 0 and low is not None:
            high_excess = value
            break
        jump = min(max(abs(value) * 1.2, tolerance * 4), 6.0)
        if value > 0:
            low, low_excess = high, value
            high = _rounded(float_nearest(high) * math.exp(jump))
        else:
            smaller = _rounded(float_nearest(high) * math.exp(-jump))
            below = excess(smaller)
            if below > 0:
                low, low_excess, high_excess = smaller, below, value
                break
            high, value = smaller, below
            if high < _SMALLEST:
                return high
            continue
        if high > _LARGEST:
            raise AccountingError("no scale of noise up to 1e30 meets this target; allow a larger epsilon or delta")
        value = excess(high)
    return _close_in(excess, low or high, low_excess, high, high_excess, tolerance)


def _close_in(
    excess: Callable[[Fraction], float],
    low: Fraction,
    low_excess: float,
    high: Fraction,
    high_excess: float,
    tolerance: float,
) -> Fraction:
    stuck = 0
    for _ in range(_EVALUATIONS):
        left, right = _log(low), _log(high)
        if right - left <= tolerance:
            break
        share = low_excess / (low_excess - high_excess) if math.isfinite(high_excess) and stuck < 3 else 0.5
        # A little beyond the estimated root, so that the next scale probably meets the target.
        share = min(max(share + 0.3 * tolerance / (right - left), 0.02), 0.98)
        middle = _rounded(math.exp(left + share * (right - left)))
        if not low < middle < high:
            break
        value = excess(middle)
        if value <= 0:
            stuck = stuck + 1 if right - left < 4 * (_log(middle) - left) else 0
            high, high_excess = middle, value
            low_excess /= 2 if stuck else 1
        else:
            stuck = stuck + 1 if right - left < 4 * (right - _log(middle)) else 0
            low, low_excess = middle, value
            high_excess /= 2 if stuck else 1
    return high


def _sampled(event: Event, rate: Fraction) -> Event:
    return event if rate == 1 else PoissonSampledEvent(rate, event, relation=event.relation)


def _rate(rate: Number) -> Fraction:
    return exact_probability(rate, "rate", one=True)


def _rounded(value: float) -> Fraction:
    return round_up(Fraction(value), _DIGITS)


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)
