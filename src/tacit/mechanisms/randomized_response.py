"""Randomized response: each person perturbs their own answer.

See ``randomized_response.proof.md`` for the privacy proof, the law of the estimate and the coverage of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.float_functions import success_limit
from tacit.core.guarantees import PureDP
from tacit.core.numbers import (
    Number,
    check_count,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_up,
    log_bounds,
    round_down,
    round_up,
    sqrt_bounds,
)
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.base import Mechanism
from tacit.noise import entropy
from tacit.noise.bernoulli import Coin, sample_bernoulli
from tacit.noise.uniform import sample_below, sample_below_many

#: Above this epsilon the odds of a lie stay just below 10⁻²⁰⁰; lying more often than ε requires is always private.
_LARGEST_EPSILON: Final = 500
#: Float quantiles of the beta law are good to about this; the interval is widened by it.
_QUANTILE_SLACK: Final = 1e-12


@dataclass(frozen=True)
class FrequencyEstimate:
    """Estimated frequency of one category, from the reports.

    Attributes:
        frequency: unbiased estimate of the share of respondents whose true answer is the category. Unbiased means
            that it may fall a little outside [0, 1]; clipping it would move the mean.
        standard_error: its standard deviation over the coins, estimated from the reports.
        low: lower end of the interval.
        high: upper end of the interval, which holds the true share with probability at least ``confidence``.
        confidence: the coverage asked for.
        n: number of reports.
        reported: the share of *reports* that name the category. It leans towards 1/k: for a true share f its
            expectation is q + (p - q)·f, and :meth:`RandomizedResponse.bias` is the difference.
    """

    frequency: float
    standard_error: float
    low: float
    high: float
    confidence: float
    n: int
    reported: float

    @property
    def bias(self) -> float:
        """Estimated bias of the share of reports: ``reported`` less ``frequency``."""
        return self.reported - self.frequency


class RandomizedResponse(Mechanism):
    """Releases one of k categories: the true one with probability p, otherwise a uniformly random false one.

    State either ``epsilon`` or, for two categories, the noise rate ``gamma``: a report is true with probability 1/2 +
    γ. It is the mechanism of the local model, where each person runs it and no party need be trusted with the true
    answers.

    Privacy:
        relation: replace-one (a person answers x or answers y; there is no "absent" report).
        guarantee: ε-DP with e^ε = p/q,

        where
          * p is the probability of the true category, q = (1 - p)/(k - 1) that of each other, k the categories;
          * given ``gamma``: p = 1/2 + γ exactly, and ε = ln((1/2 + γ)/(1/2 - γ)) rounded up;
          * given ``epsilon``: p is the rational number of 36 digits of p - 1/k just below e^ε/(e^ε + k - 1), so
            that the coin is exact, the event is true and the guarantee is a hair stronger than stated.

        One person in many reports of :meth:`release_many` is many persons' worth of privacy: one report each.

    Sensitivity:
        none to state: an answer may change to any other.

    Error:
        the estimated frequency from n reports is off by more than √(ln(2/β)/(2n))/(p - q) with probability at most
        β (Hoeffding); p - q = 2γ for two categories, so the error is √(ln(2/β)/8)/(γ√n). See :meth:`error`.

    Assumes:
        respondents follow the protocol; estimates are not robust to those who lie on purpose.

    References:
        Warner (1965), *Randomized response*; Kairouz, Bonawitz and Ramage (2016) for k categories;
        Hoeffding (1956) for sums of unlike coins; Clopper and Pearson (1934).

    >>> poll = RandomizedResponse(gamma="0.25")
    >>> poll.truth, poll.guarantee
    (Fraction(3, 4), PureDP(1.09862, relation=REPLACE_ONE))
    """

    def __init__(
        self,
        *,
        epsilon: Number | None = None,
        gamma: Number | None = None,
        categories: SupportsIndex | Sequence[Hashable] | None = None,
    ) -> None:
        self._categories = _as_categories(categories)
        self._binary = categories is None
        self._place = {category: index for index, category in enumerate(self._categories)}
        if (epsilon is None) == (gamma is None):
            raise InputError("epsilon", "state either epsilon or gamma, not both and not neither")
        if epsilon is not None:
            self._epsilon = exact_positive(epsilon, "epsilon")
            self._truth = truth_for(self._epsilon, Fraction(self.k - 1))
        elif gamma is not None:
            rate = _check_gamma(gamma, self.k)
            self._truth = Fraction(1, 2) + rate
            self._epsilon = round_up(log_bounds(self._truth / (1 - self._truth))[1])

    @classmethod
    def for_error(
        cls,
        *,
        within: Number,
        beta: Number,
        n: SupportsIndex,
        categories: SupportsIndex | Sequence[Hashable] | None = None,
    ) -> RandomizedResponse:
        """Return the response of the smallest ε whose frequency from ``n`` reports is off by at most ``within``.

        The error exceeds ``within`` with probability at most ``beta``, for any one category.
        """
        bound = exact_positive(within, "within")
        n = check_count(n, "n")
        lean = sqrt_bounds(_log_ratio(beta, 1) / (2 * n))[1] / bound
        if lean >= 1:
            needed = math.ceil(_log_ratio(beta, 1) / (2 * bound**2)) + 1
            raise InputError(
                "within", f"cannot be reached with {n} reports even without privacy; have {needed} or more"
            )
        k = len(_as_categories(categories))
        truth = (1 + (k - 1) * lean) / k
        epsilon = round_up(log_bounds(truth * (k - 1) / (1 - truth))[1] * (1 + Fraction(1, 10**12)), 13)
        return cls(epsilon=epsilon, categories=categories)

    @property
    def guarantee(self) -> PureDP:
        """ε-DP of one report, for the person who gives it."""
        return PureDP(self._epsilon, relation=REPLACE_ONE)

    @property
    def event(self) -> RandomizedResponseEvent:
        """Event of one report, for accountants."""
        return RandomizedResponseEvent(truth=self._truth, categories=self.k, relation=REPLACE_ONE)

    @property
    def epsilon(self) -> Fraction:
        return self._epsilon

    @property
    def truth(self) -> Fraction:
        """p, the exact probability that a report is true."""
        return self._truth

    @property
    def lie(self) -> Fraction:
        """q, the exact probability that a report is a given false category."""
        return (1 - self._truth) / (self.k - 1)

    @property
    def gamma(self) -> Fraction:
        """The noise rate of a two-category response: p - 1/2."""
        if self.k != 2:
            raise InputError("gamma", f"is defined for two categories; this response has {self.k}")
        return self._truth - Fraction(1, 2)

    @property
    def k(self) -> int:
        """Number of categories."""
        return len(self._categories)

    @property
    def categories(self) -> tuple[Hashable, ...]:
        """Categories: all possible answers, and all possible reports."""
        return self._categories

    def release(self, answer: Hashable) -> Hashable:
        """Return the randomized report of a person whose true answer is ``answer``."""
        place = self._find(answer, "answer")
        if sample_bernoulli(self._truth):
            return self._categories[place]
        # Uniform over the k - 1 false categories: skip the index of the true one.
        other = sample_below(self.k - 1)
        return self._categories[other + (other >= place)]

    def release_many(self, answers: Iterable[Hashable]) -> list[Hashable]:
        """Return one report per person, in the order of ``answers``, with independent coins."""
        places = self._find_many(answers, "answers")
        source = entropy.current()
        lies = ~Coin(self._truth).toss_many(len(places), source)
        others = sample_below_many(self.k - 1, int(lies.sum()), source)
        others += others >= places[lies]
        places[lies] = others
        return [self._categories[place] for place in places.tolist()]

    def estimate(
        self, reports: Iterable[Hashable], confidence: Number = "0.95"
    ) -> FrequencyEstimate | dict[Hashable, FrequencyEstimate]:
        """Estimate the share of each true answer from the reports alone, at no cost.

        Without ``categories``, for a yes/no response, the result is one estimate, of the share of ``True``. Otherwise
        it maps every category to its estimate; each interval individually contains its share with probability at least
        ``confidence``. Joint coverage of all intervals needs a higher confidence. The interval is Clopper and Pearson's
        for the expected share of reports, mapped through (λ - q)/(p - q); for ``confidence`` of at least one half it
        covers at every n, also for a fixed group of respondents, whose coins have unequal probabilities.
        """
        places = self._find_many(reports, "reports")
        if not len(places):
            raise InputError("reports", "must hold at least one report")
        level = exact_probability(confidence, "confidence")
        if level < Fraction(1, 2):
            raise InputError("confidence", "must be at least 0.5: the interval's coverage is proven from there on")
        counts = np.bincount(places, minlength=self.k).tolist()
        found = [self._estimate(count, len(places), float(level)) for count in counts]
        return found[1] if self._binary else dict(zip(self._categories, found, strict=True))

    def bias(self, frequency: Number) -> Fraction:
        """Return the bias of the share of reports: its expectation less the true share ``frequency``.

        q + (p - q)·f - f; for two categories (1/2 - γ)·(1 - 2f). No number of people makes it smaller.

        >>> RandomizedResponse(gamma="0.25").bias("0.1")
        Fraction(1, 5)
        """
        share = exact_probability(frequency, "frequency", zero=True, one=True)
        return self.lie + (self._truth - self.lie) * share - share

    def error(self, beta: Number, n: SupportsIndex, k: SupportsIndex = 1) -> float:
        """Return the error of the share that any of ``k`` categories exceeds with probability at most ``beta``."""
        n = check_count(n, "n")
        return float_up(sqrt_bounds(_log_ratio(beta, k) / (2 * n))[1] / (self._truth - self.lie))

    def sample_size(self, within: Number, beta: Number, k: SupportsIndex = 1) -> int:
        """Return the number of reports for which :meth:`error` is at most ``within``."""
        bound = exact_positive(within, "within")
        return max(1, math.ceil(_log_ratio(beta, k) / (2 * (bound * (self._truth - self.lie)) ** 2)))

    def __repr__(self) -> str:
        return f"RandomizedResponse(truth={float(self._truth):.6g}, categories={self.k}, {self.guarantee!r})"

    def _estimate(self, count: int, n: int, confidence: float) -> FrequencyEstimate:
        p, q = self._truth, self.lie
        exact_share = (Fraction(count, n) - q) / (p - q)
        # Given the true answers each coin's variance is p(1-p) or q(1-q), mixed by the share; see the proof file.
        mixed = q * (1 - q) + min(max(exact_share, Fraction(0)), Fraction(1)) * (p * (1 - p) - q * (1 - q))
        low, high = (float(each) for each in clopper_pearson(count, n, (1 - confidence) / 2))
        lean = float(p - q)
        return FrequencyEstimate(
            frequency=float(exact_share),
            standard_error=math.sqrt(float(mixed / n)) / lean,
            low=min(max((low - float(q)) / lean, 0.0), 1.0),
            high=min(max((high - float(q)) / lean, 0.0), 1.0),
            confidence=confidence,
            n=n,
            reported=count / n,
        )

    def _find(self, answer: Hashable, parameter: str) -> int:
        try:
            place = self._place.get(answer)
        except TypeError:
            place = None
        if place is None:
            shown = ", ".join(repr(category) for category in self._categories[:6])
            more = ", …" if self.k > 6 else ""
            raise InputError(parameter, f"must be one of the categories {shown}{more}")
        return place

    def _find_many(self, answers: Iterable[Hashable], parameter: str) -> NDArray[np.int64]:
        if isinstance(answers, str | bytes | Set) or not isinstance(answers, Iterable):
            raise InputError(parameter, "must be a list of categories, one per person")
        listed = answers.tolist() if isinstance(answers, np.ndarray) else list(answers)
        if not all(isinstance(answer, Hashable) for answer in listed):
            raise InputError(parameter, "must be a flat list of categories, one per person")
        return np.array([self._find(answer, parameter) for answer in listed], dtype=np.int64)


def _as_categories(categories: SupportsIndex | Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    if categories is None:
        return (False, True)
    if isinstance(categories, SupportsIndex):
        return tuple(range(check_count(categories, "categories", minimum=2, maximum=10**6)))
    if isinstance(categories, str | bytes | Set) or not isinstance(categories, Iterable):
        raise InputError("categories", "must be a whole number of them or a list of them")
    listed = tuple(categories)
    if not all(isinstance(category, Hashable) for category in listed) or any(c != c for c in listed):
        raise InputError("categories", "must be plain values such as text or whole numbers")
    if len(listed) < 2 or len(set(listed)) != len(listed):
        raise InputError("categories", "must list at least two, none of them twice")
    return listed


def _check_gamma(gamma: Number, k: int) -> Fraction:
    if k != 2:
        raise InputError("gamma", f"is defined for two categories, not {k}; state epsilon instead")
    rate = exact_positive(gamma, "gamma")
    if rate >= Fraction(1, 2):
        raise InputError("gamma", "must be below 1/2; at 1/2 every report is the truth and nothing is private")
    return rate


def truth_for(epsilon: Fraction, others: Fraction, digits: int = 36) -> Fraction:
    """Return a rational just below e^ε/(e^ε + others); its distance from 1/(1 + others) is right to ``digits`` digits.

    It is the total probability of the outputs that are e^ε times as likely as the rest, where there are ``others`` of
    the rest for each of them; rounded to the private side.
    """
    odds = exp_bounds(min(epsilon, Fraction(_LARGEST_EPSILON)), digits + 42 + 2 * len(str(1 / epsilon)))[0]
    return 1 / (1 + others) + round_down((odds - 1) * others / ((1 + others) * (odds + others)), digits)


def _log_ratio(beta: Number, k: SupportsIndex) -> Fraction:
    """Return ln(2k/β), rounded up."""
    return log_bounds(2 * check_count(k, "k") / exact_probability(beta, "beta"))[1]


def clopper_pearson(
    counts: NDArray[np.int64] | int, n: int, tail: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return confidence limits for the expected shares of counts of successes among n independent coins.

    The coins may have unequal probabilities. Each limit fails with probability at most ``tail``. Limits next to 0 or 1
    are moved onto it: only there could coins of unequal probabilities undercut the binomial tail. Quantiles are floats;
    both limits are moved outwards a little.
    """
    found = np.asarray(counts, dtype=np.float64)
    from_below, from_above = success_limit(np.stack((found, n - found)), n, tail)
    low = np.where(found <= min(1, n - 1), 0.0, from_below)
    high = np.where(found >= max(n - 1, 1), 1.0, 1 - from_above)
    return low - _QUANTILE_SLACK, high + _QUANTILE_SLACK
