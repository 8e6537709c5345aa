"""The adaptive composition experiment: exact views against brute force, the bounds, the estimates, the charts."""

from __future__ import annotations

import math
import runpy
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting.compose import compose
from tacit.audit import lower_bound
from tacit.core.divergences import hockey_stick
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import RandomizedResponseEvent
from tacit.core.guarantees import PureDP
from tacit.core.numbers import exp_bounds, round_up
from tacit.lab import (
    CompositionExperiment,
    FiniteMechanism,
    Move,
    Repeat,
    Strategy,
    chart_experiment,
    chart_profile,
    composition_bounds,
    geometric,
    leak,
    optimal_pair,
    probability_bounds,
    randomized_response,
    save_chart,
)
from tacit.mechanisms.laplace import Laplace

F = Fraction
COIN = Move(randomized_response(ratio=2), 0, 1)
DIE = Move(randomized_response(ratio=3, categories=(0, 1, 2)), 0, 2)
COUNT = Move(geometric(ratio="3/2", rows=2), (), (1,))


def adaptive(view: tuple[Any, ...]) -> Move | None:
    """Stops after two equal answers, orders a count after a lie, and coins otherwise."""
    if len(view) >= 2 and view[-1] == view[-2]:
        return None
    return COUNT if view and view[-1] == 1 else (DIE if len(view) == 2 else COIN)


def brute_force(choose: Any, rounds: int) -> dict[tuple[Any, ...], tuple[Fraction, Fraction]]:
    """The two probabilities of every single view, nothing merged."""
    views: dict[tuple[Any, ...], tuple[Fraction, Fraction]] = {(): (F(1), F(1))}
    for _ in range(rounds):
        longer: dict[tuple[Any, ...], tuple[Fraction, Fraction]] = {}
        for view, (p, q) in views.items():
            move = choose(view)
            if move is None or (view and view[-1] == "end"):
                longer[view] = p, q
                continue
            left, right = move.mechanism.distribution(move.left), move.mechanism.distribution(move.right)
            for output in left:
                longer[*view, output] = p * left[output].value, q * right[output].value
        views = longer
    return views


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 4])
def test_merged_views_say_what_all_views_say(rounds: int) -> None:
    views = CompositionExperiment(Strategy(adaptive), rounds=rounds).exact()
    # A view that has ended keeps its length, so the brute force leaves it alone when asked again.
    every = brute_force(adaptive, rounds)
    p, q = {v: a for v, (a, _) in every.items()}, {v: b for v, (_, b) in every.items()}
    for ratio in (1, F(3, 2), 2, 5, 9):
        worse = max(hockey_stick(p, q, ratio=ratio).value, hockey_stick(q, p, ratio=ratio).value)
        assert views.delta(ratio=ratio).value == worse
    assert sum(views.left.values()) == sum(views.right.values()) == 1
    assert len(views.left) <= len(every)


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_repeated_randomized_response_attains_optimal_composition(k: int) -> None:
    views = CompositionExperiment(Repeat(COIN), rounds=k).exact()
    assert len(views.left) == k + 1
    left, right = optimal_pair(ratio=2, rounds=k)
    for ratio in (1, 3, 2**k - 1):
        assert views.delta(ratio=ratio).value == hockey_stick(left, right, ratio=ratio).value
    assert views.ratio().value == 2**k
    assert views.ratio(delta="0.01").log().high == max(views.bounds(delta="0.01").optimal, F(0))
    assert views.kl().low <= k * CompositionExperiment(Repeat(COIN), rounds=1).exact().kl().high


def test_every_view_is_a_sequence_of_independent_answers() -> None:
    # (k - 2i)ε grid of Kairouz, Oh and Viswanath: δ_i = Σ_{l<i} C(k,l)(r^{k-l} - r^{k-2i+l})/(1+r)^k
    r, k, i = F(2), 6, 2
    delta = sum(math.comb(k, l) * (r ** (k - l) - r ** (k - 2 * i + l)) for l in range(i)) / (1 + r) ** k  # noqa: E741
    views = CompositionExperiment(Repeat(COIN), rounds=k).exact()
    assert views.delta(ratio=r ** (k - 2 * i)).value == delta


def test_no_adversary_beats_the_optimal_bound() -> None:
    for rounds in (2, 3, 4):
        views = CompositionExperiment(Strategy(adaptive), rounds=rounds).exact()
        for delta in ("0", "0.01", "0.1"):
            bounds = views.bounds(delta=delta)
            assert views.epsilon(delta=delta).low <= bounds.optimal <= bounds.basic


# ε at (ε each, k, δ): exact optimum | DRV advanced | basic. Source: the closed forms at 40 digits.
@pytest.mark.parametrize(
    ("each", "k", "delta", "optimal", "advanced"),
    [
        ("0.1", 10, "1e-6", "0.999370905721758725", "1.7674290543448"),
        ("0.1", 100, "1e-6", "4.77456758810798615", "6.3082309505134"),
        ("0.5", 20, "1e-6", "9.98679786964016406", "18.241152709385"),
        ("1", 2, "1e-6", "1.99999812890408392", "10.870408034618"),
    ],
)
def test_bounds_reproduce_the_literature(each: str, k: int, delta: str, optimal: str, advanced: str) -> None:
    ratio = round_up(exp_bounds(F(each))[1], 15)
    bounds = composition_bounds(ratio=ratio, rounds=k, delta=delta)
    assert 0 <= bounds.optimal - F(optimal) < F(1, 10**10)
    assert abs(bounds.advanced - F(advanced)) < F(1, 10**10)
    assert 0 <= bounds.basic - k * F(each) < F(1, 10**10)
    assert abs(bounds.optimal - compose([(PureDP(each), k)], delta=delta, method="optimal").epsilon) < F(1, 10**9)
    assert abs(bounds.zcdp - compose([(PureDP(each), k)], delta=delta, method="zcdp").epsilon) < F(1, 10**9)


def test_bounds_with_a_delta_of_their_own() -> None:
    bounds = composition_bounds(
        ratio=round_up(exp_bounds(F(1, 10))[1], 15), rounds=100, delta="1e-5", step_delta="1e-8"
    )
    assert 0 <= bounds.optimal - F("4.32963671401660593") < F(1, 10**10)
    assert abs(bounds.advanced - F("5.8721419373932")) < F(1, 10**10)
    nothing = composition_bounds(ratio=2, rounds=3, delta="0.001", step_delta="0.01")
    assert nothing.basic == nothing.advanced == nothing.zcdp == nothing.optimal == math.inf
    with pytest.raises(InputError, match="ratio: must be at least 1"):
        composition_bounds(ratio="0.9", rounds=1, delta=0)


def test_the_certified_distribution_encloses_the_experiment() -> None:
    views = CompositionExperiment(Repeat(COIN), rounds=20).exact()
    exactly = views.epsilon(delta="1e-3")
    pld = compose([(RandomizedResponseEvent(F(2, 3)), 20)], delta="1e-3", method="pld")
    assert exactly.low <= pld.epsilon <= exactly.high + F(1, 1000)


def test_a_round_without_finite_epsilon_needs_a_step_delta() -> None:
    experiment = CompositionExperiment(Repeat(Move(leak(delta="0.01"), 0, 1)), rounds=3)
    with pytest.raises(AccountingError, match="step_delta"):
        experiment.exact().bounds(delta="0.1")
    views = experiment.exact(step_delta="0.01")
    assert views.delta(epsilon=7).value == 1 - F(99, 100) ** 3
    assert views.bounds(delta="0.03").optimal == 0
    assert views.ratio().value == math.inf


def test_the_report_reads_like_a_report() -> None:
    report = CompositionExperiment(Repeat(COIN), rounds=4).exact().report(delta="0.01")
    assert report.splitlines() == [
        "4 rounds, each at most ε = 0.6931471806, δ = 0",
        "  max divergence of the views            2.772588722",
        "  0.01-approximate max divergence        2.720637317",
        "  expected loss (KL)                     0.9241962407",
        "  total variation                        13/27",
        "bounds on ε at δ = 0.01:",
        "     basic  ε <= 2.77259",
        "  advanced  ε <= 6.97979",
        "      zCDP  ε <= 4.22699",
        "   optimal  ε <= 2.72064",
    ]


def test_moves_must_be_between_neighbours() -> None:
    far = Move(geometric(ratio=2, rows=2), (), (1, 1))
    with pytest.raises(InputError, match="are not neighbours"):
        CompositionExperiment(Repeat(far), rounds=1).exact()
    with pytest.raises(AccountingError, match="finite mechanisms"):
        CompositionExperiment(Repeat(Move(Laplace(epsilon=1, l1_sensitivity=1), 0, 1)), rounds=1).exact()
    vague = FiniteMechanism.local({0: [("0.4", "0.6"), ("0.4", "0.6")], 1: ["1/2", "1/2"]})
    with pytest.raises(AccountingError, match="rational probabilities"):
        CompositionExperiment(Repeat(Move(vague, 0, 1)), rounds=1).exact()


def test_running_the_experiment_shows_the_adversary_what_it_asked_for(seeded: object) -> None:
    seen: list[tuple[Any, ...]] = []

    def watch(view: tuple[Any, ...]) -> Move | None:
        seen.append(view)
        return adaptive(view)

    experiment = CompositionExperiment(Strategy(watch), rounds=4)
    for bit in (0, 1):
        view = experiment.view(bit)
        assert view[: len(seen[-1])] == seen[-1]
        assert view in brute_force(adaptive, 4)
    with pytest.raises(InputError, match="bit: must be 0 or 1"):
        experiment.view(2)


def test_an_audit_of_views_is_below_the_truth_and_near_it(seeded: object) -> None:
    """At 99 % on a fixed seed: wrong in one seed out of a hundred, and this seed is right for ever."""
    experiment = CompositionExperiment(Repeat(COIN), rounds=4)
    found = lower_bound(lambda bit: sum(experiment.view(bit)), 0, 1, samples=8000)
    assert 0.6 * 4 * math.log(2) < found.epsilon <= 4 * math.log(2)
    with_delta = lower_bound(lambda bit: sum(experiment.view(bit)), 0, 1, samples=8000, delta="0.1")
    assert with_delta.epsilon < experiment.exact().epsilon(delta="0.1").up


def test_clopper_pearson_covers() -> None:
    # The exact coverage of the lower end, for every p on a grid: P(low > p) <= 1 - confidence.
    n, confidence = 20, 0.9
    for p in (0.01, 0.1, 0.37, 0.5, 0.9):
        law = [math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)]
        assert sum(w for x, w in enumerate(law) if probability_bounds(x, n, confidence)[0] > p) <= 0.1
        assert sum(w for x, w in enumerate(law) if probability_bounds(x, n, confidence)[1] < p) <= 0.1
    assert probability_bounds(0, 10, 0.95)[0] == 0
    assert probability_bounds(10, 10, 0.95)[1] == 1
    assert probability_bounds(0, 10, 0.95)[1] == pytest.approx(1 - 0.05**0.1)


def test_charts_hold_the_numbers_and_render(tmp_path: Path) -> None:
    experiment = chart_experiment(Repeat(COIN), rounds=[1, 2], delta="0.01")
    assert len(experiment.to_dict()["layer"][0]["data"]["values"]) == 10
    profile = chart_profile({"coin": randomized_response(ratio=2)}, epsilons=[0, "0.5", 1])
    save_chart(profile, tmp_path / "profile.svg")
    assert (tmp_path / "profile.svg").read_text().startswith("<svg")
    with pytest.raises(InputError, match="rounds: must list"):
        chart_experiment(Repeat(COIN), rounds=[], delta="0.01")


def test_all_outputs_of_a_product_are_covered() -> None:
    views = CompositionExperiment(Repeat(COUNT), rounds=2).exact()
    law = COUNT.mechanism.distribution(())  # type: ignore[attr-defined]
    other = COUNT.mechanism.distribution((1,))  # type: ignore[attr-defined]
    assert views.delta(ratio=1).value == sum(
        max(F(0), law[a].value * law[b].value - other[a].value * other[b].value) for a, b in product(law, repeat=2)
    )


def test_the_figures_of_the_documentation_can_be_drawn(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "docs" / "figures"
    script = runpy.run_path(str(folder / "composition.py"))
    for name, file in (("draw_profiles", "composition-profiles.svg"), ("draw_filters", "filters-queries.svg")):
        script[name](tmp_path)
        assert (tmp_path / file).read_text().startswith("<svg")
        assert (folder / file).read_text().startswith("<svg")
