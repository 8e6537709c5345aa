"""Composition of releases of which an (ε, δ) is known: basic, advanced and optimal.

*Basic: the ε add up, and so do the δ.* If the i-th release is (ε_i, δ_i)-DP, all together are (Σε_i, Σδ_i)-DP, whatever
the releases are and however each depends on the answers before it (Dwork, Kenthapadi, McSherry, Mironov and Naor 2006).

A Gaussian, zCDP or Renyi release states no pair. It is given an equal share of the δ that the other releases leave.

*Assumes.* One relation; parameters that were fixed beforehand (for parameters chosen adaptively the same sum is also
valid, see :mod:`tacit.accounting.filters`).

*Advanced: many small ε cost about the square root of their number.* If each of k releases is (ε_i, δ_i)-DP, then for
every δ' > 0 all together are (ε', Σδ_i + δ')-DP with

    ε' = √(2 ln(1/δ') Σε_i²) + Σ ε_i (e^{ε_i} - 1),

which for equal ε is √(2k ln(1/δ'))·ε + kε(e^ε - 1) (Dwork, Rothblum and Vadhan 2010). For ε < 1 there is a
shorter form with kε² as the last term, ``method="simple"``; see :func:`simple_epsilon`.

The theorem can give a *larger* ε than basic composition: ten releases of 0.1 at δ' = 1e-6 cost 1.77 instead of 1.
Both are true, so ``method="advanced"`` returns the smaller one, and the ``method`` of the result names it.

*Assumes.* ε_i and δ_i fixed beforehand; the releases themselves may be adaptive.

References: Dwork, Rothblum, Vadhan, "Boosting and differential privacy" (2010), Theorem III.3.

*Optimal: exact for equal (ε, δ) releases, by Kairouz, Oh and Viswanath.* The worst (ε, δ)-DP release is randomized
response: with probability δ it reveals everything, otherwise it tells the truth with odds e^ε. All k together are
(ε_g, δ_g)-DP exactly when

    δ_g >= 1 - (1-δ)^k (1 - δ_k(ε_g)),
    δ_k(ε_g) = (1+e^ε)^{-k} Σ_{l: (k-2l)ε > ε_g} C(k, l) (e^{(k-l)ε} - e^{ε_g+lε}),

so no accountant that knows only (ε, δ) and k can do better. For *different* pairs the exact answer is #P-hard (Murtagh
and Vadhan 2016); use ``method="pld"``, which brackets it.

``lower`` is the lower bound of the same computation. It holds for releases of which nothing else is known; an
event that states more (Laplace noise, the exponential mechanism) need not attain it, and there it is left out.

*Error.* The k+1 terms are added in floats with proven relative error; ε is rounded outward by it, about 1e-12 for a
thousand releases and 1e-9 for a million.

References: Kairouz, Oh, Viswanath, "The composition theorem for differential privacy" (2015), Theorem 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.composition_plan import Composed, CompositionPlan, Leaf, read_plan
from tacit.accounting.gaussian import gaussian_epsilon_high
from tacit.accounting.prices import amplified_epsilon, guarantees_of
from tacit.core.errors import AccountingError
from tacit.core.events import ApproxEvent, GaussianEvent, ParallelEvent, PoissonSampledEvent, PureEvent
from tacit.core.float_functions import log_factorials, recur
from tacit.core.guarantees import RDP, ZCDP, ApproxDP, PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact_nonnegative,
    exact_probability,
    exp_bounds,
    float_down,
    float_up,
    format_up,
    log_bounds,
    round_up,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE

#: An ε and a δ.
Pair = tuple[Fraction, Fraction]


def compose_basic(plan: CompositionPlan, delta: Fraction | None) -> Composed:
    """Return the sum of all ε and of all δ; releases that state no δ get equal shares of the rest of ``delta``."""
    pairs = pairs_at(plan, delta)
    epsilon = sum((count * e for (e, _), count in pairs), Fraction(0))
    spent = sum((count * d for (_, d), count in pairs), Fraction(0))
    return Composed(epsilon, min(max(spent, delta or Fraction(0)), Fraction(1)), relation=plan.relation, method="basic")


def pairs_at(plan: CompositionPlan, delta: Fraction | None) -> list[tuple[Pair, int]]:
    """Return an (ε, δ) for every item of the plan, with its count; the sum of all δ is at most ``delta``."""
    stated = [(item, stated_pair(item.release)) for item in plan.items]
    spent = sum((item.count * pair[1] for item, pair in stated if pair is not None), Fraction(0))
    sharing = sum(item.count for item, pair in stated if pair is None)
    if delta is None:
        if sharing:
            raise AccountingError("a Gaussian, zCDP or Renyi release has no epsilon without a delta; pass delta=…")
    elif spent > delta or (sharing and spent == delta):
        raise AccountingError(
            f"the releases already spend delta {format_up(spent)}; ask for a larger delta than {format_up(delta)}"
        )
    share = (delta - spent) / sharing if delta is not None and sharing else Fraction(0)
    return [(pair if pair is not None else _pair_at(item.release, share), item.count) for item, pair in stated]


def stated_pair(release: Leaf) -> Pair | None:
    """Return the (ε, δ) that a release has without a choice of δ, or ``None``."""
    match release:
        case RDP():
            return None
        case PoissonSampledEvent():
            return _sampled(release, _sum(release.event))
        case ParallelEvent():
            pairs = [_sum(part) for part in release.events]
            known = [pair for pair in pairs if pair is not None]
            return (max(e for e, _ in known), max(d for _, d in known)) if len(known) == len(pairs) else None
        case _:
            stated = [g for g in guarantees_of(release) if isinstance(g, PureDP | ApproxDP)]
            return (stated[0].epsilon, stated[0].delta) if stated else None


def stated_sum(plan: CompositionPlan) -> Pair | None:
    """Return the sums of the stated ε and δ of a plan's releases as listed; ``None`` if a release states none."""
    epsilon = delta = Fraction(0)
    for item in plan.stated:
        pair = _sum(item.release)
        if pair is None:
            return None
        epsilon, delta = epsilon + item.count * pair[0], delta + item.count * pair[1]
    return epsilon, delta


def _sum(event: object) -> Pair | None:
    total = (Fraction(0), Fraction(0))
    for item in read_plan([event]).items:  # type: ignore[list-item]
        pair = stated_pair(item.release)
        if pair is None:
            return None
        total = (total[0] + item.count * pair[0], total[1] + item.count * pair[1])
    return total[0], min(total[1], Fraction(1))


def _sampled(release: PoissonSampledEvent, inside: Pair | None) -> Pair | None:
    if inside is None:
        return None
    epsilon = amplified_epsilon(inside[0], release.rate) if release.relation is ADD_REMOVE else inside[0]
    return epsilon, release.rate * inside[1]


def _pair_at(release: Leaf, delta: Fraction) -> Pair:
    """Return the smallest known ε at ``delta``, with its δ, for a release that states no pair."""
    match release:
        case RDP():
            return release.to_approx(delta).epsilon, delta
        case GaussianEvent():
            return gaussian_epsilon_high(release.l2_sensitivity / release.sigma, delta), delta
        case PoissonSampledEvent():
            inner = CompositionPlan(read_plan([release.event]).items, release.relation)
            inside = compose_basic(inner, min(delta / release.rate, Fraction(1)))
            pair = _sampled(release, (inside.epsilon, inside.delta))
            if pair is None:
                raise AccountingError("a sampled release without a pair")
            return pair[0], min(pair[1], delta)
        case ParallelEvent():
            parts = (CompositionPlan(read_plan([part]).items, release.relation) for part in release.events)
            return max(compose_basic(part, delta).epsilon for part in parts), delta
        case _:
            for guarantee in guarantees_of(release):
                if isinstance(guarantee, ZCDP):
                    return guarantee.to_approx(delta).epsilon, delta
            raise AccountingError(f"no (epsilon, delta) is known for {type(release).__name__}")


_LARGEST = 10**5


def compose_advanced(plan: CompositionPlan, delta: Fraction) -> Composed:
    """Return the smaller of advanced and basic composition; ``method`` of the result names it."""
    return _smaller(plan, delta, "advanced", advanced_epsilon)


def compose_simple(plan: CompositionPlan, delta: Fraction) -> Composed:
    """Return the smaller of √(2 ln(1/δ')Σε²) + Σε², for each ε below 1, and basic composition."""
    return _smaller(plan, delta, "simple", simple_epsilon)


def _smaller(plan: CompositionPlan, delta: Fraction, method: str, theorem: Callable[..., Fraction]) -> Composed:
    basic = compose_basic(plan, delta)
    stated = all(stated_pair(item.release) is not None for item in plan.items)
    # Releases that state no δ get half of it, the theorem the other half.
    pairs = pairs_at(plan, delta if stated else delta / 2)
    slack = delta - sum((count * d for (_, d), count in pairs), Fraction(0))
    if slack > 0:
        epsilon = theorem(((e, count) for (e, _), count in pairs), delta=slack)
        if epsilon < basic.epsilon:
            return Composed(epsilon, delta, relation=plan.relation, method=method)
    return Composed(
        basic.epsilon, delta, relation=plan.relation, method="basic", note="basic composition is smaller here"
    )


def advanced_epsilon(epsilons: Iterable[tuple[Number, int]], *, delta: Number) -> Fraction:
    """Return ε' for releases given as ``(epsilon, count)``, at the extra ``delta`` δ', rounded up.

    >>> round(float(advanced_epsilon([("0.1", 100)], delta="1e-6")), 12)
    6.308230950513
    """
    extra = exact_probability(delta, "delta")
    squares = drift = Fraction(0)
    for value, times in epsilons:
        epsilon = exact_nonnegative(value, "epsilon")
        if epsilon > _LARGEST:
            raise AccountingError("advanced composition says nothing useful about such large epsilons; use basic")
        count = check_count(times, "count", minimum=0)
        squares += count * epsilon**2
        drift += count * epsilon * (exp_bounds(epsilon)[1] - 1)
    log_high = -log_bounds(extra)[0]
    return round_up(sqrt_bounds(2 * log_high * squares)[1] + drift)


def simple_epsilon(epsilons: Iterable[tuple[Number, int]], *, delta: Number) -> Fraction:
    """Return √(2 ln(1/δ')Σε²) + Σε² for releases given as ``(epsilon, count)``, each ε below 1, rounded up.

    It does not follow from the theorem above, since e^ε - 1 > ε, but it is true: the worst (ε, δ)-DP release is
    randomized response, whose expected loss is ε·tanh(ε/2) <= ε²/2, and the root term bounds the deviation from it.

    >>> round(float(simple_epsilon([("0.1", 100)], delta="1e-6")), 12)
    6.256521769757
    """
    extra = exact_probability(delta, "delta")
    squares = Fraction(0)
    for value, times in epsilons:
        epsilon = exact_nonnegative(value, "epsilon")
        if epsilon >= 1:
            raise AccountingError("the simple form of advanced composition is stated for epsilon < 1; use 'advanced'")
        squares += check_count(times, "count", minimum=0) * epsilon**2
    return round_up(sqrt_bounds(-2 * log_bounds(extra)[0] * squares)[1] + squares)


_LARGEST_COUNT = 10**7
#: Above this ε the losses leave the range of floats, and the plain sum is as good.
_LARGEST_EPSILON = 10**6
_UNIT = 2.0**-53


def compose_optimal(plan: CompositionPlan, delta: Fraction) -> Composed:
    """Return the exact ε of k equal (ε, δ) releases; refuse releases that differ or state no pair."""
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
    # The worst (ε, δ) release attains the lower bound, so it holds only if nothing else is known of the releases.
    generic = all(isinstance(item.release, PureEvent | ApproxEvent) for item in plan.items)
    return Composed(high, delta, relation=plan.relation, method="optimal", lower=low if generic else None)


def optimal_epsilon_bounds(
    *, epsilon: Number, count: int, delta: Number, delta_each: Number = 0
) -> tuple[Fraction, Fraction]:
    """Return bounds on the smallest ε_g such that ``count`` (ε, δ_each) releases are (ε_g, ``delta``)-DP."""
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
    """Return bounds on the δ that remains for δ_k after the k failures of probability δ: 1 - (1-δ_g)/(1-δ)^k."""
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
    """Return the losses (k-2l)ε from the largest down, their probabilities, and the relative error of these."""
    l = np.arange(k + 1, dtype=np.float64)  # noqa: E741 - the letter of the theorem
    logs = log_factorials(k)
    log_choose = logs[-1] - logs - logs[::-1]
    log_odds = math.log1p(math.exp(-epsilon))
    masses = np.exp(log_choose - l * epsilon - k * log_odds)
    # Logarithms of factorials and the products are accurate to a few units in the last place.
    size = 3 * float(logs[-1]) + k * (epsilon if epsilon < 1 else 1.0) * 2 + k * log_odds + 800
    return (k - 2 * l) * epsilon, masses, 8 * _UNIT * size + 4 * _UNIT * (k + 1)


def _solve(epsilon: float, k: int, delta: float, *, outward: int) -> Fraction:
    """Return the ε_g with δ_k(ε_g) = δ, moved ``outward`` by more than the arithmetic error."""
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
