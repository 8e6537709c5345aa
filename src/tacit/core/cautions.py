"""Cautions about parameters that are valid and protect little.

A guarantee of ε = 1000, or of δ = 0.1 for fifty people, is true and promises next to nothing. Such numbers are not
refused: tests, teaching and comparisons need them. Instead plans and mechanisms carry a sentence about each
(``plan.cautions``, ``mechanism.cautions()``), which ``tacit plan`` prints, and so do accounts (``budget.cautions``),
which a curator, ``tacit init``, ``tacit budget`` and ``tacit doctor`` show. No Python warning is raised, and the
stated number is used unchanged.

>>> for sentence in cautions(epsilon=1000, delta="0.1", people=50):
...     print(sentence)
epsilon 1000 protects little: an attacker may guess a yes-or-no secret with probability up to 100%; at 1 it is 73.2%.
delta 0.1 for 50 people protects little: publishing 5 whole records is as private; stay far below 1/people = 0.02.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final, SupportsIndex

from tacit.core.guarantees import ApproxDP, Guarantee, PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact_nonnegative,
    exact_probability,
    exp_bounds,
    float_nearest,
    format_up,
)

#: Probability of a right guess from which on a caution is given: ε about 4.6.
_GUESS: Final = Fraction(99, 100)
#: Value of δ·people from which on a caution is given: the expected number of records that δ allows to publish.
_PUBLISHED: Final = Fraction(1, 10)
#: The δ from which on a caution is given if the number of people is unknown.
_LARGE_DELTA: Final = Fraction(1, 1000)
#: The ε of an account, for all answers together, above which a caution is given.
_LARGE_ACCOUNT: Final = 10
#: The δ at which guarantees without a δ are converted to (ε, δ).
_USUAL_DELTA: Final = Fraction(1, 10**6)
_MOST_EPSILON: Final = 700


def guess_probability(epsilon: Number) -> Fraction:
    """Return e^ε/(1 + e^ε), rounded up: the largest probability of guessing one of two equally likely secrets."""
    value = exact_nonnegative(epsilon, "epsilon")
    if value > _MOST_EPSILON:
        return Fraction(1)
    odds = exp_bounds(value)[1]
    return odds / (1 + odds)


def cautions(
    *, epsilon: Number | None = None, delta: Number | None = None, people: SupportsIndex | None = None
) -> tuple[str, ...]:
    """Return cautions about an epsilon, or about a delta for a number of people; usually none."""
    found = []
    if epsilon is not None:
        loss = exact_nonnegative(epsilon, "epsilon")
        guess = guess_probability(loss)
        if guess >= _GUESS:
            usual = format_up(100 * guess_probability(1), 3)
            found.append(
                f"epsilon {format_up(loss)} protects little: an attacker may guess a yes-or-no secret "
                f"with probability up to {format_up(100 * guess, 4)}%; at 1 it is {usual}%."
            )
    if delta is not None:
        found += _about_delta(exact_probability(delta, "delta", zero=True, one=True), people)
    return tuple(found)


def cautions_about(guarantee: Guarantee, *, people: SupportsIndex | None = None) -> tuple[str, ...]:
    """Return the :func:`cautions` about a guarantee; one without an epsilon is converted at a delta of 1e-6.

    >>> from tacit.core.guarantees import ZCDP
    >>> cautions_about(ZCDP("0.01")), len(cautions_about(ZCDP(50)))
    ((), 1)
    """
    stated = guarantee if isinstance(guarantee, PureDP | ApproxDP) else guarantee.to_approx(_USUAL_DELTA)
    return cautions(epsilon=stated.epsilon, delta=stated.delta, people=people)


def cautions_about_account(guarantee: Guarantee, *, people: SupportsIndex | None = None) -> tuple[str, ...]:
    """Return cautions about the budget for all answers together: an epsilon above 10, a delta near 1/people.

    >>> from tacit.core.guarantees import ApproxDP
    >>> cautions_about_account(ApproxDP(8, "1e-6"), people=5000)
    ()
    >>> for sentence in cautions_about_account(ApproxDP(12, "1e-3"), people=500):
    ...     print(sentence.partition(":")[0])
    epsilon 12 protects little
    delta 0.001 for 500 people protects little
    """
    stated = guarantee
    if not isinstance(stated, PureDP | ApproxDP):
        own = Fraction(getattr(guarantee, "delta", 0))
        stated = guarantee.to_approx(max(_USUAL_DELTA, min(2 * own, (1 + own) / 2)))
    epsilon = stated.epsilon if stated.epsilon > _LARGE_ACCOUNT else None
    return cautions(epsilon=epsilon, delta=stated.delta, people=people)


def _about_delta(delta: Fraction, people: SupportsIndex | None) -> list[str]:
    if people is None:
        if delta < _LARGE_DELTA:
            return []
        return [f"delta {format_up(delta)} protects little: with that probability nothing is promised to any person."]
    count = check_count(people, "people")
    if delta * count < _PUBLISHED:
        return []
    published, share = format_up(delta * count, 3), float_nearest(Fraction(1, count))
    return [
        (
            f"delta {format_up(delta)} for {count:,} people protects little: "
            f"publishing {published} whole records is as private; stay far below 1/people = {share:.3g}."
        )
    ]
