"""Planning: round trips, hand-checked constants, bounds against exact laws, and errors that name the argument."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.planning import (
    MECHANISMS,
    SampleSizePlan,
    _poll_beta_up,
    _worst_choice,
    counting_rule,
    plan,
    polling_rule,
    query_of,
)
from tacit.mechanisms.randomized_response import RandomizedResponse

EXTRAS: dict[str, dict[str, object]] = {
    "laplace": {},
    "gaussian": {"delta": "1e-6"},
    "histogram": {"bins": 12},
    "mean": {},
    "selection": {"candidates": 7},
    "randomized_response": {},
}
CASES = [(name, relation) for name in EXTRAS for relation in (ADD_REMOVE, REPLACE_ONE)]
CASES = [(name, r) for name, r in CASES if name not in ("mean", "randomized_response") or r is REPLACE_ONE]


def test_every_mechanism_is_tried_here() -> None:
    assert set(EXTRAS) == set(MECHANISMS)


@pytest.mark.parametrize(("mechanism", "relation"), CASES)
def test_any_three_give_the_fourth_and_it_fits(mechanism: str, relation: object) -> None:
    extra = {**EXTRAS[mechanism], "relation": relation}
    first = plan(mechanism, within="0.02", confidence="0.9", epsilon="0.04", **extra)
    assert first.solved == "people"
    assert (first.within, first.confidence, first.epsilon) == (Fraction(1, 50), Fraction(9, 10), Fraction(1, 25))

    # Solving back for each of the other three can only do better than what was asked, and never much better.
    back = plan(mechanism, within="0.02", confidence="0.9", people=first.people, **extra)
    assert Fraction(39, 1000) < back.epsilon <= first.epsilon
    back = plan(mechanism, within="0.02", epsilon="0.04", people=first.people, **extra)
    assert first.confidence <= back.confidence < Fraction(905, 1000)
    back = plan(mechanism, confidence="0.9", epsilon="0.04", people=first.people, **extra)
    assert Fraction(195, 10000) < back.within <= first.within


@pytest.mark.parametrize(("mechanism", "relation"), CASES)
def test_what_is_found_is_enough_and_a_little_less_is_not(mechanism: str, relation: object) -> None:
    extra = {**EXTRAS[mechanism], "relation": relation}
    query = query_of(mechanism, **{"delta": None, "bins": None, "candidates": None, **extra})
    asked = {"within": Fraction(3, 100), "confidence": Fraction(19, 20), "epsilon": Fraction(1, 2), "people": 4000}
    for name in asked:
        found = plan(mechanism, **{key: value for key, value in asked.items() if key != name}, **extra)
        numbers = {"people": found.people, "epsilon": found.epsilon, "within": found.within, "beta": found.beta}
        if found.beta > Fraction(1, 10**12):
            assert query.is_enough(**numbers)
        less = dict(numbers)
        if name == "people":
            less["people"] -= 1
        elif name == "within":
            less["within"] -= Fraction(1, found.people) if query.whole else found.within / 10**6
        else:
            less["beta" if name == "confidence" else name] *= 1 - Fraction(1, 10**5)
        if found.people > 1 and found.beta > Fraction(1, 10**12):
            assert not query.is_enough(**less), name


def test_laplace_by_hand() -> None:
    """P(|X| > w) = 2q^(w+1)/(1+q) with q = e^-ε; the smallest w at ε = 0.1 and β = 0.05 is 30."""
    q = math.exp(-0.1)
    assert 2 * q**31 / (1 + q) <= 0.05 < 2 * q**30 / (1 + q)
    assert plan("laplace", within="0.01", confidence="0.95", epsilon="0.1").people == 3000
    assert plan("laplace", people=3000, confidence="0.95", epsilon="0.1").within == Fraction(30, 3000)
    solved = plan("laplace", within="0.01", people=3000, epsilon="0.1").confidence
    assert float(solved) == pytest.approx(1 - 2 * q**31 / (1 + q), abs=1e-11)
    assert solved <= 1 - Fraction(2 * q**31 / (1 + q)) + Fraction(1, 10**15)


def test_plans_are_those_of_the_mechanisms() -> None:
    assert plan("laplace", people=500, confidence="0.99", epsilon="0.3").off_by == Laplace(
        epsilon="0.3", l1_sensitivity=1
    ).error("0.01")
    assert plan("gaussian", people=500, confidence="0.99", epsilon="0.3", delta="1e-5").off_by == Gaussian(
        epsilon="0.3", delta="1e-5", l2_sensitivity=1
    ).error("0.01")
    assert plan("histogram", people=500, confidence="0.99", epsilon="0.3", bins=9, relation="replace_one").off_by == (
        Laplace(epsilon="0.3", l1_sensitivity=2).error("0.01", k=9)
    )


def test_the_counting_rule_is_two_over_alpha_epsilon() -> None:
    for within, epsilon in (("0.01", "0.1"), ("0.003", "0.7"), ("0.1", "0.05")):
        rule = counting_rule(within=within, epsilon=epsilon)
        assert rule.people == math.ceil(2 / (Fraction(within) * Fraction(epsilon)))
        # The 2 stands for β = e⁻²: whole numbers of people move it a little to either side.
        assert abs(float(rule.beta) - math.exp(-2)) < 0.25 * math.exp(-2)
    true_constant = plan("laplace", within="0.0001", confidence=1 - math.exp(-2), epsilon="0.001").people
    assert true_constant == pytest.approx(2 / (0.0001 * 0.001), rel=1e-3)
    at_95 = plan("laplace", within="0.0001", confidence="0.95", epsilon="0.001").people
    assert at_95 == pytest.approx(math.log(20) / (0.0001 * 0.001), rel=1e-3)


def test_the_polling_rule_is_one_over_gamma_alpha_squared() -> None:
    rule = polling_rule(within="0.05", gamma="0.25")
    assert rule.people == 6400
    assert rule.epsilon == RandomizedResponse(gamma="0.25").epsilon
    # Hoeffding alone proves 1 - 2e⁻⁸; the planner never proves less.
    assert rule.confidence >= 1 - 2 * Fraction(math.exp(-8))
    assert polling_rule(within="0.1", gamma="0.1").people == 10_000


def poll_miss(truth: float, n: int, yes: int, within: float) -> float:
    """The exact chance that the estimate is off by more than ``within`` when ``yes`` of ``n`` have the property."""
    ones = np.convolve(binom.pmf(range(yes + 1), yes, truth), binom.pmf(range(n - yes + 1), n - yes, 1 - truth))
    mean = yes * truth + (n - yes) * (1 - truth)
    off = np.abs(np.arange(n + 1) - mean)
    return float(ones[off > (2 * truth - 1) * within * n + 1e-9].sum())


@pytest.mark.parametrize("epsilon", ["0.2", "1", "3"])
@pytest.mark.parametrize("n", [5, 40, 200])
def test_the_polling_bound_holds_for_every_number_of_true_answers(epsilon: str, n: int) -> None:
    truth = RandomizedResponse(epsilon=epsilon).truth
    for within in (Fraction(1, 20), Fraction(1, 5), Fraction(3, 5), Fraction(1)):
        bound = float(_poll_beta_up(truth, n, within))
        worst = max(poll_miss(float(truth), n, yes, float(within)) for yes in range(0, n + 1, max(n // 20, 1)))
        assert worst <= bound + 1e-12


def test_the_polling_bound_is_nearly_tight_at_small_epsilon() -> None:
    found = plan("randomized_response", within="0.1", confidence="0.95", epsilon="0.5")
    truth = float(RandomizedResponse(epsilon="0.5").truth)
    worst = max(poll_miss(truth, found.people, yes, 0.1) for yes in (0, found.people // 2, found.people))
    assert 0.03 < worst <= 0.05
    assert found.people < RandomizedResponse(epsilon="0.5").sample_size("0.1", "0.05") * 0.65


@pytest.mark.parametrize("candidates", [2, 5, 40])
@pytest.mark.parametrize("short", [1, 4, 30])
def test_the_selection_bound_is_the_exact_law_of_the_worst_case(candidates: int, short: int) -> None:
    choice = PermuteAndFlip(epsilon="0.5", sensitivity=1)
    best = choice.probability_bounds([short] + [0] * (candidates - 1))[0]
    bound = _worst_choice(Fraction(math.exp(-short / 4)), candidates)
    assert float(1 - best[0]) == pytest.approx(float(bound), rel=1e-9)


def test_the_selection_bound_stays_sound_where_digits_cancel() -> None:
    for coin in (Fraction(1, 10**10), Fraction(1, 10**20), Fraction(1, 10**40)):
        bound = _worst_choice(coin, 1000)
        assert Fraction(99, 100) * 999 * coin / 2 < bound <= 999 * coin / 2
    assert _worst_choice(Fraction(1), 4) == Fraction(3, 4)


def test_selection_scores_are_monotone_only_under_add_remove() -> None:
    asked = {"within": "0.01", "confidence": "0.95", "epsilon": "0.5", "candidates": 10}
    add_remove = plan("selection", **asked)
    replace_one = plan("selection", **asked, relation="replace_one")
    assert replace_one.people == pytest.approx(2 * add_remove.people, rel=0.1)


def test_more_bins_and_surer_answers_need_more_people() -> None:
    asked = {"within": "0.01", "epsilon": "0.5"}
    people = [plan("histogram", confidence="0.95", bins=bins, **asked).people for bins in (1, 10, 1000)]
    assert people == sorted(people)
    assert people[0] == plan("laplace", confidence="0.95", **asked).people
    assert plan("laplace", confidence="0.999", **asked).people > people[0]


def test_a_plan_says_everything_in_words() -> None:
    found = plan("histogram", within="0.01", confidence="0.95", epsilon="0.1", bins=10)
    assert str(found) == (
        "With 5,300 people and epsilon 0.1, no bin of the histogram is off by more than 1% of the people (53), "
        "with probability 95%."
    )
    assert dict(found.rows()) == {
        "people": "5,300",
        "epsilon": "0.1",
        "within": "1%",
        "confidence": "95%",
        "bins": "10",
        "relation": "add_remove",
    }
    assert found.beta == Fraction(1, 20)
    for mechanism, extra in EXTRAS.items():
        assert "with probability" in str(plan(mechanism, within="0.1", confidence="0.9", epsilon=1, **extra))
    poll = plan("randomized_response", within="0.1", confidence="0.9", epsilon=1)
    assert dict(poll.rows())["gamma"] == "0.2311"


def test_confidence_is_shown_rounded_down_with_all_its_nines() -> None:
    def shown(confidence: str) -> str:
        made = SampleSizePlan("laplace", Fraction(1, 100), Fraction(confidence), Fraction(1), 10, "people")
        return dict(made.rows())["confidence"]

    assert shown("0.95") == "95%"
    assert shown("0.876599") == "87.65%"
    assert shown("0.99996789") == "99.99678%"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"mechanism": "laplase"}, r"^mechanism: must be one of laplace"),
        ({"epsilon": None}, r"^epsilon: state exactly three"),
        ({"people": 100}, r"^within: state exactly three"),
        ({"within": 1}, r"^within: must lie in \[0, 1\)"),
        ({"within": "-0.1"}, r"^within: "),
        ({"confidence": 1}, r"^confidence: "),
        ({"epsilon": 0}, r"^epsilon: must be greater than 0"),
        ({"delta": "1e-6"}, r"^delta: has no meaning for laplace"),
        ({"bins": 5}, r"^bins: has no meaning for laplace"),
        ({"candidates": 5}, r"^candidates: has no meaning for laplace"),
        ({"mechanism": "gaussian"}, r"^delta: is needed by gaussian"),
        ({"mechanism": "histogram"}, r"^bins: is needed by histogram"),
        ({"mechanism": "selection"}, r"^candidates: is needed by selection"),
        ({"mechanism": "mean", "relation": "add_remove"}, r"^relation: mean knows only"),
        ({"mechanism": "randomized_response", "relation": "add_remove"}, r"^relation: randomized_response knows only"),
        ({"relation": "near"}, r"^relation: must be"),
        ({"within": "1e-12", "epsilon": "1e-6"}, r"^people: more than"),
        ({"mechanism": "randomized_response", "within": 0, "epsilon": None, "people": 10}, r"^epsilon: even 400"),
        ({"within": None, "people": 3, "epsilon": "0.01"}, r"^within: nothing below 100%"),
        (
            {"mechanism": "randomized_response", "confidence": None, "people": 5, "within": "0.001"},
            r"^confidence: nothing can be promised",
        ),
        ({"people": 0, "epsilon": None}, r"^people: "),
    ],
)
def test_errors_name_the_argument(call: dict[str, object], message: str) -> None:
    asked = {"mechanism": "laplace", "within": "0.01", "confidence": "0.95", "epsilon": "0.1", **call}
    with pytest.raises(InputError, match=message):
        plan(**asked)


def test_a_hopeless_plan_is_honest_about_itself() -> None:
    assert plan("laplace", people=1, within="0.1", epsilon="1e-9").confidence < Fraction(1, 10**8)


def test_a_certain_plan_stops_at_eighteen_nines() -> None:
    found = plan("laplace", within="0.5", people=10**9, epsilon=1)
    assert 1 - Fraction(3, 10**18) < found.confidence < 1
