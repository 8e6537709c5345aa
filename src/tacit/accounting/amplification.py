"""Privacy amplification by Poisson sampling.

*Privacy.* Let M be (ε, δ)-DP for adding or removing a unit, and let it run on a sample that holds every unit
independently with probability q and that stays secret. Then the whole is (ln(1 + q(e^ε - 1)), qδ)-DP for adding or
removing a unit (Balle, Barthe and Gaboardi 2018), and this cannot be improved knowing only (ε, δ).

For *replacing* a unit there is no such gain: the two neighbours agree on samples that miss the unit and may give
disjoint outputs otherwise, so ε stays and only δ shrinks to qδ (the hockey-stick divergence is jointly convex).

*Assumes.* The sample is secret, fresh for each release, and drawn unit by unit. Shuffled or fixed-size batches are
something else, and no function here accounts for them.

References: Balle, Barthe, Gaboardi, "Privacy amplification by subsampling" (2018).
"""

from __future__ import annotations

from fractions import Fraction

from tacit.core.guarantees import ApproxDP
from tacit.core.numbers import Number, exact_nonnegative, exact_probability, exp_bounds, log_bounds, round_up
from tacit.core.relations import ADD_REMOVE, Relation, as_relation


def amplify(*, epsilon: Number, delta: Number = 0, rate: Number, relation: Relation | str = ADD_REMOVE) -> ApproxDP:
    """The guarantee of an (ε, δ)-DP release that runs on a secret Poisson sample of ``rate``, rounded up.

    >>> amplify(epsilon=1, rate="0.01")
    ApproxDP(0.0170369, 0)
    """
    e = exact_nonnegative(epsilon, "epsilon")
    d = exact_probability(delta, "delta", zero=True, one=True)
    q = exact_probability(rate, "rate", zero=True, one=True)
    which = as_relation(relation)
    if which is ADD_REMOVE:
        e = amplified_epsilon(e, q)
    elif q == 0:
        e = Fraction(0)
    return ApproxDP(e, q * d, relation=which)


def amplified_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """ln(1 + q(e^ε - 1)), rounded up and never above ε."""
    if epsilon == 0 or rate == 0:
        return Fraction(0)
    if rate == 1 or epsilon > 10**5:
        return epsilon
    # Digits enough that e^ε - 1 keeps forty of its own, however small ε is.
    digits = 45 + max(0, 2 * (epsilon.denominator.bit_length() - epsilon.numerator.bit_length()) // 3)
    odds = 1 + rate * (exp_bounds(epsilon, digits)[1] - 1)
    return min(round_up(log_bounds(odds, digits)[1]), epsilon)
