"""Optimal composition of equal (ε, δ) releases: exact, by Kairouz, Oh and Viswanath.

*Privacy.* The worst (ε, δ)-DP release is randomized response: with probability δ it gives everything away, otherwise
it tells the truth with odds e^ε. All k together are (ε_g, δ_g)-DP exactly when

    δ_g >= 1 - (1-δ)^k (1 - δ_k(ε_g)),
    δ_k(ε_g) = (1+e^ε)^{-k} Σ_{l: (k-2l)ε > ε_g} C(k, l) (e^{(k-l)ε} - e^{ε_g+lε}),

so no accountant that knows only (ε, δ) and k can do better. For *different* pairs the exact answer is #P-hard (Murtagh
and Vadhan 2016); use ``method="pld"``, which brackets it.

``lower`` is the other side of the same computation. It is a statement about releases of which nothing else is known; an
event that says more (Laplace noise, the exponential mechanism) need not attain it, and there it is left out.

*Error.* The k+1 terms are added in floats with proven relative error; ε is rounded outward by it, about 1e-12 for a
thousand releases and 1e-9 for a million.

References: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015), Theorem 3.3.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.basic import stated_pair
from tacit.accounting.composed import Composed
from tacit.accounting.composition_plan import CompositionPlan
from tacit.core.errors import AccountingError
from tacit.core.events import ApproxEvent, PureEvent
from tacit.core.float_functions import log_factorials, recur
from tacit.core.numbers import (
    Number,
    check_count,
    exact_nonnegative,
    exact_probability,
    float_down,
    float_up,
    format_up,
)

_LARGEST_COUNT = 10**7
#: Above this the losses leave the range of floats; the plain sum says as much.
_LARGEST_EPSILON = 10**6
_UNIT = 2.0**-53


def compose_optimal(plan: CompositionPlan, delta: Fraction) -> Composed:
    """The exact ε of k equal (ε, δ) releases; refuses releases that differ or state no pair."""
    pairs = {stated_pair(item.release) for item in plan.items}
    if len(pairs) > 1 or None in pairs:
        raise AccountingError(
            "optimal composition is defined for releases that all state the same (epsilon, delta); these do not. "
            "Use method='pld', which brackets the exact value of any list, or 'best'"
        )
    if not pairs:
        return Composed(0, delta, relation=plan.relation, method="optimal", lower=Fraction(0))
    epsilon, each = next(pair for pair in pairs if pair is not None)
    if plan.count > _LARGEST_COUNT:
        raise AccountingError(f"optimal composition adds up one term per release, up to {_LARGEST_COUNT} of them")
    low, high = optimal_epsilon_bounds(epsilon=epsilon, delta_each=each, count=plan.count, delta=delta)
    # Only of releases about which nothing but (ε, δ) is known does the worst one with that pair speak.
    generic = all(isinstance(item.release, PureEvent | ApproxEvent) for item in plan.items)
    return Composed(high, delta, relation=plan.relation, method="optimal", lower=low if generic else None)


def optimal_epsilon_bounds(
    *, epsilon: Number, count: int, delta: Number, delta_each: Number = 0
) -> tuple[Fraction, Fraction]:
    """``(low, high)`` around the smallest ε_g such that ``count`` (ε, δ_each) releases are (ε_g, ``delta``)-DP."""
    e, each = exact_nonnegative(epsilon, "epsilon"), exact_probability(delta_each, "delta_each", zero=True, one=True)
    total = exact_probability(delta, "delta", zero=True)
    k = check_count(count, "count", maximum=_LARGEST_COUNT)
    low, high = _room(total, each, k)
    if e == 0:
        return Fraction(0), Fraction(0)
    if e > _LARGEST_EPSILON:
        return Fraction(0), k * e
    upper = _solve(float_up(e), k, low, outward=1)
    lower = _solve(float_down(e), k, high, outward=-1)
    return min(max(lower, Fraction(0)), k * e), min(max(upper, Fraction(0)), k * e)


def _room(total: Fraction, each: Fraction, k: int) -> tuple[float, float]:
    """Bounds on the δ that is left for δ_k once the k chances of total failure are paid: 1 - (1-δ_g)/(1-δ)^k."""
    if each == 0:
        return float_down(total), float_up(total)
    if each == 1:
        raise AccountingError("a release with delta 1 promises nothing, and neither does any composition of it")
    if k * each.denominator.bit_length() < 10**6:
        low = high = 1 - (1 - total) / (1 - each) ** k
    else:
        # 1 >= (1-δ)^k >= 1 - kδ; the smaller room makes the larger ε.
        low = 1 - (1 - total) / (1 - k * each) if k * each < 1 else Fraction(-1)
        high = total
    if low < 0:
        raise AccountingError(f"the releases already spend delta {format_up(min(k * each, Fraction(1)))}; ask for more")
    return float_down(low), float_up(high)


def _losses(epsilon: float, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Losses (k-2l)ε from the largest down, their probabilities, and the relative error of the latter."""
    l = np.arange(k + 1, dtype=np.float64)  # noqa: E741 - the letter of the theorem
    logs = log_factorials(k)
    log_choose = logs[-1] - logs - logs[::-1]
    log_odds = math.log1p(math.exp(-epsilon))
    masses = np.exp(log_choose - l * epsilon - k * log_odds)
    # Logarithms of factorials and the products are good to a few units in the last place of their own size.
    size = 3 * float(logs[-1]) + k * (epsilon if epsilon < 1 else 1.0) * 2 + k * log_odds + 800
    return (k - 2 * l) * epsilon, masses, 8 * _UNIT * size + 4 * _UNIT * (k + 1)


def _solve(epsilon: float, k: int, delta: float, *, outward: int) -> Fraction:
    """The ε_g with δ_k(ε_g) = δ, moved ``outward`` by more than the arithmetic can have been off."""
    losses, masses, error = _losses(epsilon, k)
    wanted = delta * (1 - outward * error)
    if wanted <= 0:
        return Fraction(float(losses[0])) * (1 + Fraction(outward, 2**50))
    step = -math.expm1(-2 * epsilon)
    # δ at the j-th loss by a recurrence of positive terms: (1 - e^{-2ε}) A_j + e^{-2ε} δ at the loss above.
    above = np.concatenate(([0.0], np.cumsum(masses)))[:-1]
    deltas = recur(step * above, math.exp(-2 * epsilon))
    at = int(np.searchsorted(deltas, wanted, side="right"))
    if at > k:
        return Fraction(float(losses[-1]))
    # Between two losses δ is A - e^ε B; the solution lies above the at-th loss, where δ still exceeds what is wanted.
    gap = max(deltas[at] - wanted, 0.0)
    rest = above[at] - deltas[at]
    if rest <= 0:
        return Fraction(float(losses[max(at - 1, 0)]))
    found = float(losses[at]) + math.log1p(gap / rest)
    slack = 1e-14 * abs(found) + 8 * _UNIT * abs(float(losses[0])) / max(k, 1) + 4 * error * deltas[at] / rest
    return Fraction(found + outward * slack)
