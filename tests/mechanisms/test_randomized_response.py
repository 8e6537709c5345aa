"""Randomized response: exact probabilities, estimates, intervals that cover, and sample sizes."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.bits import ListedBits, SeededBits, enumerate_outputs
from tacit.core.errors import InputError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.numbers import exp_bounds
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms import randomized_response
from tacit.mechanisms.randomized_response import FrequencyEstimate, RandomizedResponse
from tacit.noise import entropy
from tacit.noise.bernoulli import Coin

# --- parameters and guarantees


@pytest.mark.parametrize("gamma", ["0.25", "0.1", "0.4", "0.01", "1/3", "0.4999999"])
def test_gamma_is_the_exact_coin_and_epsilon_is_rounded_up(gamma: str) -> None:
    poll = RandomizedResponse(gamma=gamma)
    assert poll.truth == Fraction(1, 2) + Fraction(gamma)
    assert poll.gamma == Fraction(gamma)
    odds = poll.truth / poll.lie
    assert exp_bounds(poll.epsilon, 60)[0] >= odds
    assert exp_bounds(poll.epsilon * (1 - Fraction(1, 10**15)), 60)[1] < odds
    assert poll.event == RandomizedResponseEvent(truth=poll.truth, categories=2, relation=REPLACE_ONE)
    assert poll.relation is REPLACE_ONE


@pytest.mark.parametrize("epsilon", ["1e-30", "0.001", "0.5", "1", "3", "20", "1000", "1e9"])
@pytest.mark.parametrize("k", [2, 3, 10, 1000])
def test_epsilon_is_never_exceeded_and_hardly_undershot(epsilon: str, k: int) -> None:
    response = RandomizedResponse(epsilon=epsilon, categories=k)
    assert response.guarantee.epsilon == Fraction(epsilon)
    assert 0 < response.lie < response.truth < 1
    assert response.truth + (k - 1) * response.lie == 1
    if Fraction(epsilon) < 10**6:
        assert response.truth / response.lie <= exp_bounds(Fraction(epsilon), 200)[0]
    if Fraction(epsilon) <= 20:
        nearly = Fraction(epsilon) * (1 - Fraction(1, 10**6))
        assert response.truth / response.lie > exp_bounds(nearly, 80)[1]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("epsilon", {}),
        ("epsilon", {"epsilon": 1, "gamma": "0.1"}),
        ("epsilon", {"epsilon": 0}),
        ("epsilon", {"epsilon": float("nan")}),
        ("gamma", {"gamma": 0}),
        ("gamma", {"gamma": "0.5"}),
        ("gamma", {"gamma": "-0.1"}),
        ("gamma", {"gamma": "0.1", "categories": 3}),
        ("categories", {"epsilon": 1, "categories": 1}),
        ("categories", {"epsilon": 1, "categories": True}),
        ("categories", {"epsilon": 1, "categories": ["a"]}),
        ("categories", {"epsilon": 1, "categories": ["a", "a"]}),
        ("categories", {"epsilon": 1, "categories": "ab"}),
        ("categories", {"epsilon": 1, "categories": {"a", "b"}}),
        ("categories", {"epsilon": 1, "categories": [["a"], ["b"]]}),
        ("categories", {"epsilon": 1, "categories": [float("nan"), 1]}),
        ("categories", {"epsilon": 1, "categories": 2.5}),
    ],
)
def test_bad_parameters_are_refused_by_name(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        RandomizedResponse(**given)
    assert caught.value.parameter == name


def test_gamma_is_for_two_categories() -> None:
    assert RandomizedResponse(gamma="0.1", categories=["no", "yes"]).truth == Fraction(6, 10)
    with pytest.raises(InputError):
        _ = RandomizedResponse(epsilon=1, categories=3).gamma


# --- releases


@pytest.mark.parametrize("answer", [2, None, "yes", [], float("nan"), -1])
def test_unknown_answers_are_refused(answer: Any) -> None:
    poll = RandomizedResponse(epsilon=1)
    with pytest.raises(InputError) as caught:
        poll.release(answer)
    assert caught.value.parameter == "answer"
    with pytest.raises(InputError) as caught:
        poll.release_many([True, answer])
    assert caught.value.parameter == "answers"
    with pytest.raises(InputError) as caught:
        poll.estimate([True, answer])
    assert caught.value.parameter == "reports"


@pytest.mark.parametrize("answers", ["yes", 3, None, {True, False}])
def test_answers_must_be_a_list(answers: Any) -> None:
    with pytest.raises(InputError):
        RandomizedResponse(epsilon=1).release_many(answers)


def test_reports_are_categories() -> None:
    poll = RandomizedResponse(epsilon=1)
    assert type(poll.release(1)) is bool
    assert set(poll.release_many([True] * 200 + [False] * 200)) == {False, True}
    named = RandomizedResponse(epsilon=1, categories=["a", "b", "c"])
    assert set(named.release_many(["a"] * 300)) == {"a", "b", "c"}
    assert set(named.release_many(np.array(["a", "b"] * 200))) == {"a", "b", "c"}
    assert set(RandomizedResponse(epsilon=1, categories=4).release_many(np.arange(4).repeat(100))) == {0, 1, 2, 3}
    assert named.release_many([]) == []


def test_exact_law_of_one_report_over_all_bit_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    response = RandomizedResponse(gamma="3/8", categories=["no", "yes"])

    def report(bits: Any) -> Any:
        monkeypatch.setattr(entropy, "current", lambda: bits)
        return response.release("yes")

    law, undecided = enumerate_outputs(report, depth=8)
    assert undecided == 0
    assert law == {"yes": Fraction(7, 8), "no": Fraction(1, 8)}


def test_exact_law_of_three_categories_over_all_bit_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    response = RandomizedResponse(epsilon=1, categories=3)
    depth = 14

    def report(bits: Any) -> Any:
        monkeypatch.setattr(entropy, "current", lambda: bits)
        return response.release(1)

    law, undecided = enumerate_outputs(report, depth)
    assert undecided < Fraction(3, 2 ** (depth - 1))
    for place, chance in ((0, response.lie), (1, response.truth), (2, response.lie)):
        assert law[place] <= chance <= law[place] + undecided


def test_coins_settle_undecided_digits_exactly() -> None:
    """Digits equal to the leading ones of p decide nothing; the digits after them do."""
    p = Fraction(1, 3)
    cut, short_cut = math.floor(p * 2**64), math.floor(p * 2**16)

    class Rest(SeededBits):
        def __init__(self, digits: int) -> None:
            self.digits = digits

        def bits(self, count: int) -> int:
            return self.digits

    for digits, expected in ((0, True), (2**64 - 1, False)):
        drawn = [cut - 1, cut, cut + 1]
        assert [Coin(p).toss(ListedBits([word], Rest(digits))) for word in drawn] == [True, expected, False]
        packed = sum((short_cut + step) << 16 * place for place, step in enumerate((-1, 0, 1)))
        assert Coin(p).toss_many(3, ListedBits([packed], Rest(digits))).tolist() == [True, expected, False]
    assert Coin(Fraction(1)).toss_many(5).all()
    assert not Coin(Fraction(0)).toss_many(5).any()
    assert Coin(Fraction(1)).toss()
    assert not Coin(Fraction(0)).toss()


# --- estimates


def test_the_estimate_is_unbiased_for_every_true_count() -> None:
    poll = RandomizedResponse(gamma="0.2")
    n = 6
    for yes in range(n + 1):
        mean = sum(
            chance * Fraction(poll.estimate([True] * count + [False] * (n - count)).frequency)
            for count, chance in enumerate(report_law(poll, yes, n))
        )
        assert abs(mean - Fraction(yes, n)) < Fraction(1, 10**12)


def report_law(response: RandomizedResponse, members: int, n: int) -> list[Fraction]:
    """P(count reports of a category), when ``members`` of n hold it: Bin(m, p) + Bin(n - m, q)."""
    law = [Fraction(1)]
    for place in range(n):
        p = response.truth if place < members else response.lie
        law = [a * (1 - p) + b * p for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    return law


def limits(response: RandomizedResponse, count: int, n: int, confidence: str) -> tuple[float, float]:
    other = 1 if response.k > 2 else 0
    reports = [1] * count + [0 if other == 0 else 2] * (n - count)
    found = response.estimate(reports, confidence)
    single = found if isinstance(found, FrequencyEstimate) else found[1]
    return single.low, single.high


@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.95", "0.999"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 25])
@pytest.mark.parametrize(
    "response",
    [
        RandomizedResponse(gamma="0.05"),
        RandomizedResponse(gamma="0.25"),
        RandomizedResponse(gamma="0.499"),
        RandomizedResponse(epsilon=3, categories=5),
        RandomizedResponse(epsilon=12, categories=3),
    ],
    ids=repr,
)
def test_intervals_cover_at_every_small_n(response: RandomizedResponse, n: int, confidence: str) -> None:
    intervals = [limits(response, count, n, confidence) for count in range(n + 1)]
    for members in range(n + 1):
        law = report_law(response, members, n)
        covered = sum(p for p, (low, high) in zip(law, intervals, strict=True) if low <= members / n <= high)
        assert covered >= Fraction(confidence), (members, float(covered))


def test_an_interval_from_the_normal_law_would_not_cover() -> None:
    """The check above can fail: estimate ± 1.96 standard errors of the plain binomial loses coverage."""
    response, n = RandomizedResponse(gamma="0.499"), 10
    worst = Fraction(1)
    for members in range(n + 1):
        covered = Fraction(0)
        for count, chance in enumerate(report_law(response, members, n)):
            share = count / n
            centre = (share - float(response.lie)) / float(response.truth - response.lie)
            half = 1.96 * math.sqrt(share * (1 - share) / n) / float(response.truth - response.lie)
            covered += chance * (centre - half <= members / n <= centre + half)
        worst = min(worst, covered)
    assert worst < Fraction(95, 100)


def test_unlike_coins_are_why_the_ends_are_moved() -> None:
    """Nine certain coins and one of 0.9748: the plain limit for 9 of 10 is missed with probability above α/2."""
    from scipy.stats import beta

    coin, tail = 0.9748, 0.025
    mean = (9 + coin) / 10
    assert mean > beta.ppf(1 - tail, 10, 1)
    assert 1 - coin > tail
    assert randomized_response.clopper_pearson(9, 10, 0.025)[1] >= 1.0
    assert randomized_response.clopper_pearson(1, 10, 0.025)[0] <= 0.0
    assert 0 < randomized_response.clopper_pearson(2, 10, 0.025)[0] < 0.2
    assert randomized_response.clopper_pearson(1, 1, 0.025)[0] == pytest.approx(tail)


def test_measured_coverage_with_seeded_bits(seeded: SeededBits) -> None:
    """400 polls of 200 people; with 95% coverage fewer than 360 successes have probability below 1e-6."""
    poll = RandomizedResponse(gamma="0.25")
    answers = [True] * 60 + [False] * 140
    hits = 0
    for _ in range(400):
        found = poll.estimate(poll.release_many(answers))
        assert isinstance(found, FrequencyEstimate)
        hits += found.low <= 0.3 <= found.high
    assert hits >= 360


def test_categories_have_an_estimate_each(seeded: SeededBits) -> None:
    response = RandomizedResponse(epsilon=2, categories=["a", "b", "c"])
    found = response.estimate(response.release_many(["a"] * 6000 + ["b"] * 3000 + ["c"] * 1000), confidence="0.9999")
    assert isinstance(found, dict)
    assert list(found) == ["a", "b", "c"]
    assert sum(one.frequency for one in found.values()) == pytest.approx(1)
    for category, share in (("a", 0.6), ("b", 0.3), ("c", 0.1)):
        assert found[category].low <= share <= found[category].high
        assert abs(found[category].frequency - share) < 5 * found[category].standard_error
        assert found[category].n == 10_000


def test_the_standard_error_of_two_categories_is_known() -> None:
    """√(p(1-p)/n)/(p-q) whatever the answers; a million bits per person cannot change that."""
    poll = RandomizedResponse(gamma="0.25")
    for count in (0, 30, 50, 100):
        found = poll.estimate([True] * count + [False] * (100 - count))
        assert isinstance(found, FrequencyEstimate)
        assert found.standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 100) / 0.5)


def test_estimates_refuse_nonsense() -> None:
    poll = RandomizedResponse(epsilon=1)
    for name, given in (
        ("reports", {"reports": []}),
        ("reports", {"reports": "yes"}),
        ("confidence", {"reports": [True], "confidence": 1}),
        ("confidence", {"reports": [True], "confidence": "0.4"}),
    ):
        with pytest.raises(InputError) as caught:
            poll.estimate(**given)
        assert caught.value.parameter == name


# --- error and sample size


def test_the_error_law_and_its_constant() -> None:
    """√(ln(2/β)/8)/(γ√n) for two categories."""
    poll = RandomizedResponse(gamma="0.1")
    assert poll.error("0.05", 1000) == pytest.approx(math.sqrt(math.log(40) / 8) / (0.1 * math.sqrt(1000)), rel=1e-12)
    assert poll.error("0.05", 4000) == pytest.approx(poll.error("0.05", 1000) / 2, rel=1e-12)
    assert poll.error("0.05", 1000, k=10) > poll.error("0.05", 1000)


@pytest.mark.parametrize("beta", ["0.3", "0.05"])
def test_the_error_bound_holds_exactly(beta: str) -> None:
    for response in (RandomizedResponse(gamma="0.25"), RandomizedResponse(epsilon=1, categories=4)):
        n = 40
        bound = response.error(beta, n)
        for members in (0, 1, 13, 20, 40):
            beyond = sum(
                chance
                for count, chance in enumerate(report_law(response, members, n))
                if abs((Fraction(count, n) - response.lie) / (response.truth - response.lie) - Fraction(members, n))
                > bound
            )
            assert beyond <= Fraction(beta)


@pytest.mark.parametrize("response", [RandomizedResponse(gamma="0.1"), RandomizedResponse(epsilon=1, categories=10)])
def test_sample_size_is_the_smallest(response: RandomizedResponse) -> None:
    n = response.sample_size(within="0.02", beta="0.05")
    assert response.error("0.05", n) <= 0.02 + 1e-15
    assert response.error("0.05", n - 1) > 0.02


@pytest.mark.parametrize("categories", [None, 2, 10, ["x", "y", "z"]])
def test_for_error_meets_its_target(categories: Any) -> None:
    response = RandomizedResponse.for_error(within="0.05", beta="0.05", n=20_000, categories=categories)
    assert response.error("0.05", 20_000) <= 0.05
    weaker = RandomizedResponse(epsilon=response.epsilon * Fraction(999, 1000), categories=categories)
    assert weaker.error("0.05", 20_000) > 0.05
    with pytest.raises(InputError, match="even without privacy"):
        RandomizedResponse.for_error(within="0.01", beta="0.05", n=10, categories=categories)


def test_every_release_tosses_its_own_coin(seeded: SeededBits) -> None:
    poll = RandomizedResponse(gamma="0.25")
    assert len(Counter(poll.release(True) for _ in range(100))) == 2
