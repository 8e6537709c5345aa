"""Planning: any three of people, privacy, error and confidence give the fourth.

:func:`plan` answers for the mechanisms of the lecture hall with the constants of the noise that Tacit really draws.
Every answer is rounded so that the promise holds: people, epsilon and error up, confidence down.

======================= =========================================================== ==========================
mechanism               what is released about n people, error as a share of n       the bound
======================= =========================================================== ==========================
``laplace``             a count (the share of people with a property)                exact
``gaussian``            the same with Gaussian noise; needs ``delta``                exact for sigma up to 2¹⁵
``histogram``           all ``bins`` at once                                         exact
``mean``                the mean of values in [0, 1], n public                       exact, rounding included
``selection``           the most frequent of ``candidates``; the count it misses     exact in the worst case
``randomized_response`` the share of people with a property, no trusted party      proven, nearly tight
======================= =========================================================== ==========================

The rules one writes on a blackboard are special cases. :func:`counting_rule` is n >= 2/(αε): the noise exceeds αn
with probability e^(-αεn), so in general n = ln(1/β)/(αε), and the 2 stands for β = e⁻², a confidence of 86 percent;
at 95 percent it would be a 3. :func:`polling_rule` is n >= 1/(γ²α²) for randomized response with P[truth] = 1/2 + γ:
in general ln(2/β)/(8γ²α²) is enough, so the rule stands for β = 2e⁻⁸, a confidence of 99.9 percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, SupportsIndex

from tacit.core.cautions import cautions, guess_probability
from tacit.core.errors import InputError
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    float_nearest,
    format_up,
    round_down,
)
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.base import smallest_that
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.sample_size_formulas import (
    MECHANISMS,
    SampleSizeQuery,
    SurveyBounds,
    query_of,
    survey_bounds,
    survey_size,
)

__all__ = [
    "MECHANISMS",
    "SampleSizePlan",
    "SurveyBounds",
    "cautions",
    "counting_rule",
    "guess_probability",
    "plan",
    "polling_rule",
    "survey_bounds",
    "survey_size",
]

MOST_PEOPLE: Final = 10**12
#: Other words for what can be planned.
ALSO_CALLED: Final = {"count": "laplace", "survey": "randomized_response", "poll": "randomized_response"}
#: A chance of failure below this is not told apart from it.
SMALLEST_BETA: Final = Fraction(1, 10**18)
_DIGITS: Final = 12


@dataclass(frozen=True)
class SampleSizePlan:
    """Four numbers that fit together: with probability ``confidence`` the error is at most ``within``.

    Attributes:
        mechanism: one of :data:`MECHANISMS`.
        within: the largest error, as a share of the people.
        confidence: the probability of staying within it, over the noise alone.
        epsilon: the privacy each person keeps.
        people: how many people take part.
        solved: which of the four was computed from the other three.
        relation: the neighbouring relation of epsilon.
        delta: for Gaussian noise.
        outputs: how many bins or candidates there are.
    """

    mechanism: str
    within: Fraction
    confidence: Fraction
    epsilon: Fraction
    people: int
    solved: str
    relation: Relation = ADD_REMOVE
    delta: Fraction | None = None
    outputs: int = 1

    @property
    def beta(self) -> Fraction:
        """The probability that the error is larger."""
        return 1 - self.confidence

    @property
    def off_by(self) -> Fraction:
        """The largest error in people."""
        return self.within * self.people

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences about an epsilon or delta of the plan that protects little; usually none."""
        return cautions(epsilon=self.epsilon, delta=self.delta, people=self.people)

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of every number, rounded the safe way."""
        rows = [
            ("people", f"{self.people:,}"),
            ("epsilon", format_up(self.epsilon)),
            ("within", f"{format_up(100 * self.within, 4)}%"),
            ("confidence", f"{_percent_down(self.confidence)}%"),
        ]
        if self.delta is not None:
            rows.append(("delta", format_up(self.delta)))
        if self.outputs > 1:
            rows.append(("candidates" if self.mechanism == "selection" else "bins", f"{self.outputs:,}"))
        if self.mechanism == "randomized_response":
            rows.append(("gamma", f"{float_nearest(RandomizedResponse(epsilon=self.epsilon).gamma):.4g}"))
        return [*rows, ("relation", self.relation.value)]

    def __str__(self) -> str:
        numbers = dict(self.rows())
        error = MECHANISMS[self.mechanism].format(share=numbers["within"], off=format_up(self.off_by, 4))
        return (
            f"With {numbers['people']} people and epsilon {numbers['epsilon']}, {error}, "
            f"with probability {numbers['confidence']}."
        )


def plan(
    mechanism: str,
    *,
    within: Number | None = None,
    confidence: Number | None = None,
    epsilon: Number | None = None,
    people: SupportsIndex | None = None,
    delta: Number | None = None,
    bins: SupportsIndex | None = None,
    candidates: SupportsIndex | None = None,
    relation: Relation | str | None = None,
) -> SampleSizePlan:
    """The missing one of ``within``, ``confidence``, ``epsilon`` and ``people``.

    Args:
        mechanism: one of :data:`MECHANISMS`; ``count`` and ``survey`` are other words for two of them.
        within: the error to stay within, as a share of the people, such as ``"0.01"``.
        confidence: the probability of staying within it, such as ``"0.95"``.
        epsilon: the privacy of each person.
        people: how many take part.
        delta: the delta of Gaussian noise.
        bins: how many bins the histogram has.
        candidates: how many candidates there are to choose from.
        relation: add/remove unless the mechanism knows only replace-one.

    >>> plan("laplace", within="0.01", confidence="0.95", epsilon="0.1").people
    3000
    """
    mechanism = ALSO_CALLED.get(mechanism, mechanism)
    query = query_of(mechanism, delta=delta, bins=bins, candidates=candidates, relation=relation)
    given = {"within": within, "confidence": confidence, "epsilon": epsilon, "people": people}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) != 1:
        wrong = missing[0] if missing else "within"
        raise InputError(wrong, "state exactly three of within, confidence, epsilon and people; the fourth is computed")
    known = {name: _READ[name](value) for name, value in given.items() if value is not None}
    known[missing[0]] = _solve(query, missing[0], known)
    return SampleSizePlan(
        mechanism=mechanism,
        **known,
        solved=missing[0],
        relation=query.relation,
        delta=query.delta,
        outputs=query.outputs,
    )


def counting_rule(*, within: Number, epsilon: Number) -> SampleSizePlan:
    """Takes n = ⌈2/(αε)⌉ people for a count with Laplace noise; the plan says what confidence that buys, about 86%.

    >>> counting_rule(within="0.01", epsilon="0.1").people
    2000
    """
    share, price = exact_positive(within, "within"), exact_positive(epsilon, "epsilon")
    return plan("laplace", within=share, epsilon=price, people=math.ceil(2 / (share * price)))


def polling_rule(*, within: Number, gamma: Number) -> SampleSizePlan:
    """Takes n = ⌈1/(γ²α²)⌉ people for randomized response; the plan says what confidence that buys, at least 99.9%.

    >>> polling_rule(within="0.05", gamma="0.25").people
    6400
    """
    share, lean = exact_positive(within, "within"), exact_positive(gamma, "gamma")
    epsilon = RandomizedResponse(gamma=lean).epsilon
    return plan("randomized_response", within=share, epsilon=epsilon, people=math.ceil(1 / (lean * share) ** 2))


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "within": lambda value: exact_probability(value, "within", zero=True),
    "confidence": lambda value: exact_probability(value, "confidence"),
    "epsilon": lambda value: exact_positive(value, "epsilon"),
    "people": lambda value: check_count(value, "people", maximum=MOST_PEOPLE),
}


def _solve(query: SampleSizeQuery, missing: str, known: dict[str, Any]) -> Fraction | int:
    """The number called ``missing``, rounded so that the promise holds."""
    fixed = {name: value for name, value in known.items() if name != "confidence"}
    if "confidence" in known:
        fixed["beta"] = 1 - known["confidence"]
    unknown = "beta" if missing == "confidence" else missing

    def holds(value: Any) -> bool:
        return query.is_enough(**fixed, **{unknown: value})

    if missing == "people":
        return _find_people(holds)
    if missing == "epsilon":
        return query.smallest_epsilon(**fixed)
    if missing == "within":
        return _find_within(holds, known["people"] if query.whole else None)
    return round_down(1 - _find_beta(holds))


def _find_people(holds: Callable[[int], bool]) -> int:
    found = _smallest_whole(holds, 1, MOST_PEOPLE)
    if found is None:
        raise InputError("people", f"more than {MOST_PEOPLE:,} would be needed; allow a larger error or epsilon")
    return found


def _find_within(holds: Callable[[Fraction], bool], people: int | None) -> Fraction:
    """The smallest error; where errors are whole numbers of ``people``, one of those."""
    parts = 10**_DIGITS if people is None else people
    found = _smallest_whole(lambda off: holds(Fraction(off, parts)), 0, parts - 1)
    if found is None:
        raise InputError(
            "within", "nothing below 100% can be promised; have more people, more epsilon or less confidence"
        )
    return Fraction(found, parts)


def _find_beta(holds: Callable[[Fraction], bool]) -> Fraction:
    beta = smallest_that(lambda b: b >= 1 or (b >= SMALLEST_BETA and holds(b)), Fraction(1, 20), digits=_DIGITS)
    if beta >= 1:
        raise InputError(
            "confidence", "nothing can be promised; have more people, more epsilon or allow a larger error"
        )
    return beta


def _smallest_whole(holds: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest whole number from ``least`` to ``most`` at which ``holds``, true from some point on, is true."""
    if holds(least):
        return least
    low, high = least, 2 * least + 1
    while not holds(min(high, most)):
        if high >= most:
            return None
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _percent_down(confidence: Fraction) -> str:
    """At least four digits, and as many nines as there are."""
    digits = 4 if confidence < Fraction(99, 100) else 4 - 2 + len(str(int(1 / (1 - confidence))))
    return f"{float_nearest(round_down(100 * confidence, digits)):.{digits}g}"
