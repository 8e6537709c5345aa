"""Advanced composition: many small ε cost about the square root of their number.

*Privacy.* If each of k releases is (ε_i, δ_i)-DP, then for every δ' > 0 all together are (ε', Σδ_i + δ')-DP with

    ε' = √(2 ln(1/δ') Σε_i²) + Σ ε_i (e^{ε_i} - 1),

which for equal ε is √(2k ln(1/δ'))·ε + kε(e^ε - 1) (Dwork, Rothblum and Vadhan 2010). For ε < 1 there is a
shorter form with kε² as the last term, ``method="simple"``; see :func:`simple_epsilon`.

The theorem can say *more* than basic composition does: ten releases of 0.1 at δ' = 1e-6 come out as 1.77 instead of 1.
Both are true, so ``method="advanced"`` answers with the smaller and its ``method`` says which it was.

*Assumes.* ε_i and δ_i fixed beforehand; the releases themselves may be adaptive.

References: Dwork, Rothblum, Vadhan, "Boosting and differential privacy" (2010), Theorem III.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from tacit.accounting.basic import compose_basic, pairs_at
from tacit.accounting.composed import Composed
from tacit.accounting.composition_plan import CompositionPlan
from tacit.core.errors import AccountingError
from tacit.core.numbers import (
    Number,
    check_count,
    exact_nonnegative,
    exact_probability,
    exp_bounds,
    log_bounds,
    round_up,
    sqrt_bounds,
)

_LARGEST = 10**5


def compose_advanced(plan: CompositionPlan, delta: Fraction) -> Composed:
    """The smaller of advanced and basic composition; ``method`` names the one that was smaller."""
    return _smaller(plan, delta, "advanced", advanced_epsilon)


def compose_simple(plan: CompositionPlan, delta: Fraction) -> Composed:
    """The smaller of the simple form √(2 ln(1/δ')Σε²) + Σε², for ε below 1, and basic composition."""
    return _smaller(plan, delta, "simple", simple_epsilon)


def _smaller(plan: CompositionPlan, delta: Fraction, method: str, theorem: Callable[..., Fraction]) -> Composed:
    basic = compose_basic(plan, delta)
    stated = all(pair is not None for pair in (_stated(plan)))
    # Releases that need a δ of their own get half of it, the theorem the other half.
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
    """ε' for releases given as ``(epsilon, how often)``, at the extra ``delta`` δ', rounded up.

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
    """√(2 ln(1/δ')Σε²) + Σε² for releases given as ``(epsilon, how often)``, each ε below 1, rounded up.

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


def _stated(plan: CompositionPlan) -> list[object]:
    from tacit.accounting.basic import stated_pair

    return [stated_pair(item.release) for item in plan.items]
