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

*Surveys by randomized response.* Each of n people tells the truth with probability 1/2 + γ. The estimate of the share
of yes is unbiased with a variance of (1/4 - γ²)/(4γ²n) <= 1/(16γ²n). Chebyshev's inequality turns this into an error of
at most 1/(2γ√n) with probability 3/4; lectures round it up to 1/(γ√n), so that n >= 1/(γ²α²) people are enough for an
error of α. Hoeffding's inequality says that the rounded bound holds with probability 1 - 2e⁻⁸, far more than 3/4.

>>> print(survey_bounds(gamma="0.25", people=6400))
γ = 0.25, 6,400 people: off by at most 0.05 = 1/(γ√n),
with probability 3/4 as lectures say, 0.999329 as Hoeffding proves;
with probability 3/4: Chebyshev 0.0216507, Hoeffding 0.0254917
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, SupportsIndex

from tacit.core import sensitivity
from tacit.core.cautions import cautions
from tacit.core.cautions import guess_probability as guess_probability  # also a textbook rule
from tacit.core.errors import InputError
from tacit.core.normal import normal_cdf_bounds
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_nearest,
    format_up,
    log_bounds,
    round_down,
    round_up,
    sqrt_bounds,
)
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation, as_relation
from tacit.mechanisms.base import smallest_that
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse

#: Mechanisms, and the description of their error; ``{share}`` is a percentage, ``{off}`` a number of people.
MECHANISMS: Final = {
    "laplace": "a count is off by at most {share} of the people ({off})",
    "gaussian": "a count is off by at most {share} of the people ({off})",
    "histogram": "no bin of the histogram is off by more than {share} of the people ({off})",
    "mean": "the mean is off by at most {share} of the width of its bounds",
    "selection": "the chosen candidate has at most {share} of the people ({off}) fewer than the most frequent one",
    "randomized_response": "the share of people who say yes is off by at most {share} of the people",
}

#: Largest epsilon of a plan; a larger one would protect nothing.
MOST_EPSILON: Final = 400
_DIGITS: Final = 12


@dataclass
class SampleSizeQuery:
    """Sample-size query for one mechanism: whether given people, epsilon, error and beta are feasible.

    Attributes:
        mechanism: one of :data:`MECHANISMS`.
        relation: the neighbouring relation of epsilon.
        delta: for Gaussian noise.
        outputs: how many bins or candidates there are.
    """

    mechanism: str
    relation: Relation
    delta: Fraction | None = None
    outputs: int = 1
    _noise: Laplace | Gaussian | None = None
    _epsilon: Fraction = Fraction(0)

    @property
    def whole(self) -> bool:
        """Whether errors are whole numbers of people."""
        return self.mechanism not in ("mean", "randomized_response")

    def is_enough(self, *, people: int, epsilon: Fraction, within: Fraction, beta: Fraction) -> bool:
        """Return whether an error above ``within``·``people`` provably has probability at most ``beta``.

        The result is monotone: more people, more epsilon, a larger error or a larger beta never turn True into False.
        """
        match self.mechanism:
            case "mean":
                return Mean(epsilon=epsilon, bounds=(0, 1), n=people, relation=self.relation).error(beta) <= within
            case "randomized_response":
                return _poll_beta_up(RandomizedResponse(epsilon=epsilon).truth, people, within) <= beta
            case "selection":
                monotone = self.relation is ADD_REMOVE
                choice = PermuteAndFlip(epsilon=epsilon, sensitivity=1, monotone=monotone, relation=self.relation)
                short = math.floor(within * people) + 1
                return _worst_choice(exp_bounds(-short / choice.scale)[1], self.outputs) <= beta
            case _:
                # Calibrating Gaussian noise is slow, and only a search for epsilon needs it repeatedly.
                if self._noise is None or epsilon != self._epsilon:
                    self._noise, self._epsilon = self._count_noise(epsilon), epsilon
                return Fraction(self._noise.error(beta, k=self.outputs)) <= within * people

    def smallest_epsilon(self, *, people: int, within: Fraction, beta: Fraction) -> Fraction:
        """Return the smallest epsilon that is enough, rounded up to twelve digits."""
        off = math.floor(within * people)
        if self.delta is not None and off:
            # The mechanism's own search starts from the normal law and needs fewer of the costly calibrations.
            promise = Gaussian.for_error(
                within=off,
                beta=beta,
                delta=self.delta,
                l2_squared=self._moves.l2_squared,
                k=self.outputs,
                dimension=self.outputs,
            ).guarantee
            return promise.to_approx(self.delta).epsilon

        def holds(epsilon: Fraction) -> bool:
            return self.is_enough(people=people, epsilon=epsilon, within=within, beta=beta)

        if not holds(Fraction(MOST_EPSILON)):
            raise InputError("epsilon", f"even {MOST_EPSILON} is not enough; allow a larger error or have more people")
        return smallest_that(holds, Fraction(1), digits=_DIGITS)

    @property
    def _moves(self) -> sensitivity.Sensitivity:
        return sensitivity.histogram(bins=self.outputs, relation=self.relation)

    def _count_noise(self, epsilon: Fraction) -> Laplace | Gaussian:
        """Return the noise mechanism for ``outputs`` counts released together."""
        if self.delta is None:
            return Laplace(epsilon=epsilon, l1_sensitivity=self._moves.l1, relation=self.relation)
        return Gaussian(
            epsilon=epsilon,
            delta=self.delta,
            l2_squared=self._moves.l2_squared,
            dimension=self.outputs,
            relation=self.relation,
        )


def _worst_choice(coin: Fraction, candidates: int) -> Fraction:
    """Return the largest probability that permute-and-flip picks a candidate of coin ``coin``, rounded up.

    In the worst case one candidate is best and all others have that probability. If B of them succeed the best is taken
    with probability 1/(B + 1), and E[1/(B + 1)] = (1 - (1 - coin)^k)/(k·coin) for k candidates in all. By the first two
    terms of the binomial series it is also below (k - 1)·coin/2, which is used where digits cancel.
    """
    simple = (candidates - 1) * coin / 2
    if coin >= 1 or simple < Fraction(1, 10**15):
        return min(simple, Fraction(candidates - 1, candidates))
    none_high = exp_bounds(candidates * log_bounds(1 - coin)[1])[1]
    return min(simple, 1 - (1 - none_high) / (candidates * coin))


def _poll_beta_up(truth: Fraction, people: int, within: Fraction) -> Fraction:
    """Return a bound on the probability that the estimated share is off by more than ``within``, for any true answers.

    The number of yes reports is a sum of independent coins of probability p or q = 1 - p, and the share is off by
    more than α when that number is off its mean by more than h = (p - q)·α·n. The result is the smallest of three
    proven bounds:

    * Hoeffding (1963): 2·exp(-2h²/n);
    * Chernoff: 2·exp(-n·KL(q + h/n ‖ q)); the worst case is that all coins have probability q;
    * 2Φ(-2(h - 1)/√n) for h >= 1: coins of unequal probabilities deviate from their mean no more than
      equal ones (Hoeffding 1956), which obey Zubkov and Serov's normal bound (2013).
    """
    lie = 1 - truth
    tilt = (truth - lie) * within
    h = tilt * people
    bounds = [2 * exp_bounds(-2 * h * h / people)[1]]
    if 0 < tilt < 1 - lie:
        divergence = _kl_down(lie + tilt, lie)
        bounds.append(2 * exp_bounds(-people * divergence)[1])
    if h >= 1:
        bounds.append(2 * normal_cdf_bounds(-2 * (h - 1) / sqrt_bounds(Fraction(people))[1])[1])
    return min(bounds)


def _kl_down(x: Fraction, y: Fraction) -> Fraction:
    """Return the Kullback-Leibler divergence KL(x ‖ y) of Bernoulli laws, rounded down."""
    return max(x * log_bounds(x / y)[0] + (1 - x) * log_bounds((1 - x) / (1 - y))[0], Fraction(0))


def query_of(
    mechanism: str,
    *,
    delta: Number | None,
    bins: SupportsIndex | None,
    candidates: SupportsIndex | None,
    relation: Relation | str | None,
) -> SampleSizeQuery:
    """Return the query for ``mechanism``; check its parameters, and refuse those that do not apply to it."""
    if mechanism not in MECHANISMS:
        raise InputError("mechanism", f"must be one of {', '.join(MECHANISMS)}, got {mechanism!r}")
    outputs = _only_for("histogram", mechanism, bins, "bins") or _only_for(
        "selection", mechanism, candidates, "candidates"
    )
    if (delta is not None) != (mechanism == "gaussian"):
        raise InputError("delta", "is needed by gaussian" if delta is None else f"has no meaning for {mechanism}")
    chosen = None if relation is None else as_relation(relation)
    if mechanism in ("mean", "randomized_response"):
        if chosen is ADD_REMOVE:
            raise InputError("relation", f"{mechanism} knows only 'replace_one': the number of people is public")
        return SampleSizeQuery(mechanism, REPLACE_ONE)
    price = None if delta is None else exact_probability(delta, "delta")
    return SampleSizeQuery(mechanism, chosen or ADD_REMOVE, price, outputs or 1)


def _only_for(owner: str, mechanism: str, value: SupportsIndex | None, parameter: str) -> int:
    """Return the number of bins or candidates if ``mechanism`` is ``owner``, else 0; refuse one that does not apply."""
    if mechanism != owner:
        if value is not None:
            raise InputError(parameter, f"has no meaning for {mechanism}")
        return 0
    if value is None:
        raise InputError(parameter, f"is needed by {mechanism}: say how many there are")
    return check_count(value, parameter, minimum=1 if owner == "histogram" else 2, maximum=10**9)


@dataclass(frozen=True)
class SurveyBounds:
    """Bounds on the error of the unbiased estimate from ``people`` reports, each true with probability 1/2 + γ."""

    gamma: Fraction
    people: int

    @property
    def textbook(self) -> Fraction:
        """Textbook bound on the error, 1/(γ√n), rounded up; it holds with probability far above 3/4."""
        return round_up(1 / (self.gamma * sqrt_bounds(Fraction(self.people))[0]))

    @property
    def textbook_confidence(self) -> Fraction:
        """Probability of the textbook bound by Hoeffding's inequality, 1 - 2e⁻⁸, rounded down."""
        return round_down(1 - 2 * exp_bounds(Fraction(-8))[1])

    @property
    def variance(self) -> Fraction:
        """The variance of the estimate given the true answers: (1/4 - γ²)/(4γ²n)."""
        return (Fraction(1, 4) - self.gamma**2) / (4 * self.gamma**2 * self.people)

    def chebyshev(self, beta: Number = "1/4") -> Fraction:
        """Return √(variance/β), rounded up: the error exceeds it with probability at most ``beta``."""
        return round_up(sqrt_bounds(self.variance / exact_probability(beta, "beta"))[1])

    def hoeffding(self, beta: Number = "1/4") -> Fraction:
        """Return √(ln(2/β)/8)/(γ√n), rounded up: the error exceeds it with probability at most ``beta``."""
        spread = log_bounds(2 / exact_probability(beta, "beta"))[1] / (8 * self.people)
        return round_up(sqrt_bounds(spread)[1] / self.gamma)

    def __str__(self) -> str:
        return (
            f"γ = {format_up(self.gamma)}, {self.people:,} people: "
            f"off by at most {format_up(self.textbook)} = 1/(γ√n),\n"
            f"with probability 3/4 as lectures say, {float_nearest(round_down(self.textbook_confidence, 6)):g} "
            f"as Hoeffding proves;\nwith probability 3/4: Chebyshev {format_up(self.chebyshev())}, "
            f"Hoeffding {format_up(self.hoeffding())}"
        )


def survey_bounds(*, gamma: Number, people: SupportsIndex) -> SurveyBounds:
    """Return the bounds for a survey of ``people`` who tell the truth with probability 1/2 + ``gamma``."""
    return SurveyBounds(RandomizedResponse(gamma=gamma).gamma, check_count(people, "people"))


def survey_size(*, gamma: Number, within: Number) -> int:
    """Return the textbook sample size n >= 1/(γ²α²), for an error of α = ``within`` with probability 3/4 or more.

    >>> survey_size(gamma="0.25", within="0.05")
    6400
    """
    return math.ceil(1 / (RandomizedResponse(gamma=gamma).gamma * exact_positive(within, "within")) ** 2)


MOST_PEOPLE: Final = 10**12
#: Aliases of mechanisms.
ALSO_CALLED: Final = {"count": "laplace", "survey": "randomized_response", "poll": "randomized_response"}
#: Smallest failure probability that a plan distinguishes.
SMALLEST_BETA: Final = Fraction(1, 10**18)


@dataclass(frozen=True)
class SampleSizePlan:
    """A feasible combination of four numbers: with probability ``confidence`` the error is at most ``within``.

    Attributes:
        mechanism: one of :data:`MECHANISMS`.
        within: the largest error, as a share of the people.
        confidence: the probability of staying within it, over the noise alone.
        epsilon: ε of each person.
        people: number of people who take part.
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
        """Largest error, as a number of people."""
        return self.within * self.people

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings about an epsilon or delta of the plan that protects little; usually none."""
        return cautions(epsilon=self.epsilon, delta=self.delta, people=self.people)

    def rows(self) -> list[tuple[str, str]]:
        """Return label and text of every number, rounded to the safe side."""
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
    """Compute the missing one of ``within``, ``confidence``, ``epsilon`` and ``people``.

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
    """Plan a count with Laplace noise for n = ⌈2/(αε)⌉ people; the resulting confidence is about 86%.

    >>> counting_rule(within="0.01", epsilon="0.1").people
    2000
    """
    share, price = exact_positive(within, "within"), exact_positive(epsilon, "epsilon")
    return plan("laplace", within=share, epsilon=price, people=math.ceil(2 / (share * price)))


def polling_rule(*, within: Number, gamma: Number) -> SampleSizePlan:
    """Plan randomized response for n = ⌈1/(γ²α²)⌉ people; the resulting confidence is at least 99.9%.

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
    """Compute the number called ``missing``, rounded so that the error bound holds."""
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
    """Return the smallest feasible error, as a share; with ``people``, it is a whole number of them over ``people``."""
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
    """Return the smallest integer from ``least`` to ``most`` at which the monotone ``holds`` is true, or None."""
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
    """Format a percentage, rounded down, with four digits or more: enough to show all leading nines."""
    digits = 4 if confidence < Fraction(99, 100) else 4 - 2 + len(str(int(1 / (1 - confidence))))
    return f"{float_nearest(round_down(100 * confidence, digits)):.{digits}g}"
