"""The k-fold adaptive experiment to the letter: a family, checked neighbours, coins in the view, several databases."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

import tacit
from tacit.core.divergences import hockey_stick, kl_bound
from tacit.core.errors import AccountingError, InputError
from tacit.lab import (
    Adversary,
    CompositionExperiment,
    Move,
    RandomizedStrategy,
    Repeat,
    Strategy,
    azuma,
    azuma_points,
    chart_azuma,
    check_neighbours,
    composition_bounds,
    geometric,
    in_or_out,
    loss_path,
    loss_threshold,
    private,
    randomized_response,
)
from tacit.noise.uniform import sample_below

F = Fraction
WEAK = Move(randomized_response(ratio=2), 0, 1)
STRONG = Move(randomized_response(ratio=8), 0, 1)


class Mine:
    """A mechanism of one's own: something with a release method."""

    def release(self, rows: Any) -> int:
        return len(rows)


# ---- coins ----


def test_an_adversary_that_tosses_coins_in_choose_is_refused() -> None:
    """It used to get one of two numbers, 1/3 or 7/9, by luck."""
    hidden = Strategy(lambda view: STRONG if sample_below(2) else WEAK)
    with pytest.raises(AccountingError, match="its coins must be part of its view"):
        CompositionExperiment(hidden, rounds=1).exact()


def test_a_coin_that_hardly_ever_falls_otherwise_is_found() -> None:
    """One in a hundred; each run misses it with probability below 0.99^1000."""
    hidden = Strategy(lambda view: WEAK if sample_below(100) else STRONG)
    for _ in range(20):
        with pytest.raises(AccountingError, match="its coins must be part of its view"):
            CompositionExperiment(hidden, rounds=2).exact()


def test_an_adversary_with_a_memory_outside_its_state_is_refused() -> None:
    class Alternating(Adversary):
        turns = 0

        def choose(self, state: Any) -> Move:
            self.turns += 1
            return STRONG if self.turns % 2 else WEAK

    with pytest.raises(AccountingError, match="chose differently from one state"):
        CompositionExperiment(Alternating(), rounds=1).exact()

    class Forgetful(Adversary):
        def choose(self, state: Any) -> Move:
            return WEAK

        def observe(self, state: Any, output: Any) -> Any:
            return sample_below(10**9)

    with pytest.raises(AccountingError, match="memory is random"):
        CompositionExperiment(Forgetful(), rounds=2).exact()


def test_an_adversary_may_build_its_mechanism_anew() -> None:
    fresh = Strategy(lambda view: Move(randomized_response(ratio=2), 0, 1))
    assert CompositionExperiment(fresh, rounds=2).exact().ratio().value == 4


def test_declared_coins_are_averaged_and_stand_in_the_view(seeded: object) -> None:
    coins = {"heads": F(1, 4), "tails": F(3, 4)}
    adversary = RandomizedStrategy(coins, lambda view: STRONG if view[0] == "heads" else WEAK)
    experiment = CompositionExperiment(adversary, rounds=2)
    views = experiment.exact()
    p: dict[Any, Fraction] = {}
    q: dict[Any, Fraction] = {}
    for coin, chance in coins.items():
        table = (STRONG if coin == "heads" else WEAK).mechanism
        for a in (0, 1):
            for b in (0, 1):
                p[coin, a, b] = chance * table.distribution(0)[a].value * table.distribution(0)[b].value
                q[coin, a, b] = chance * table.distribution(1)[a].value * table.distribution(1)[b].value
    for ratio in (1, 2, 5, 20):
        assert views.delta(ratio=ratio).value == hockey_stick(p, q, ratio=ratio).value
    assert sum(views.left.values()) == 1
    seen = [experiment.view(0) for _ in range(400)]
    assert {view[0] for view in seen} == {"heads", "tails"}
    assert all(len(view) == 3 for view in seen)
    assert 60 < sum(view[0] == "heads" for view in seen) < 140


def test_coins_must_be_a_law() -> None:
    with pytest.raises(InputError, match="add up to exactly 1"):
        CompositionExperiment(RandomizedStrategy({"heads": F(1, 4)}, lambda view: WEAK), rounds=1)
    with pytest.raises(InputError, match="coins"):
        CompositionExperiment(RandomizedStrategy({None: 1}, lambda view: WEAK), rounds=1)


# ---- neighbours, checked wherever the experiment runs ----


@pytest.mark.parametrize(
    "move",
    [
        Move(geometric(ratio=2, rows=2), (), (1, 1)),
        Move(tacit.Laplace(epsilon=1, l1_sensitivity=1), 0, 2),
        Move(tacit.Laplace(epsilon=1, l1_sensitivity=1), [0, 0], [1, 1]),
        Move(tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1), [0, 0], [1, 1]),
        Move(tacit.RandomizedResponse(gamma="0.25"), True, "maybe"),
        Move(tacit.Exponential(epsilon=1, sensitivity=1), {"a": 0, "b": 0}, {"a": 0, "b": 3}),
        Move(tacit.Histogram(epsilon=1, bins=["a", "b"]), ["a"], ["a", "b", "b"]),
        Move(Mine(), (0,), (0, 1, 1), relation="add_remove"),
    ],
    ids=lambda move: type(move.mechanism).__name__,
)
def test_moves_between_databases_that_are_not_neighbours_are_refused(move: Move) -> None:
    experiment = CompositionExperiment(Repeat(move), rounds=1)
    with pytest.raises(InputError, match="are not neighbours"):
        experiment.view(0)


@pytest.mark.parametrize(
    "move",
    [
        Move(geometric(ratio=2, rows=2), (1,), (1,)),
        Move(tacit.Laplace(epsilon=1, l1_sensitivity=2), [0, 0], [1, 1]),
        Move(tacit.Gaussian(epsilon=1, delta="1e-6", l2_squared=2, dimension=2), [0, 0], [1, 1]),
        Move(tacit.RandomizedResponse(gamma="0.25"), True, False),
        Move(tacit.Exponential(epsilon=1, sensitivity=1), [0, 1], [1, 0]),
        Move(tacit.Histogram(epsilon=1, bins=["a", "b"]), ["a"], ["a", "b"]),
        Move(Mine(), (0,), (0, 1), relation="add_remove"),
    ],
    ids=lambda move: type(move.mechanism).__name__,
)
def test_moves_between_neighbours_run(move: Move) -> None:
    assert len(CompositionExperiment(Repeat(move), rounds=2).view(1)) == 2


STREAM = {"epsilon": 1, "sensitivity": 1, "threshold": 2}
SCORES = {"epsilon": 1, "sensitivity": 1}


@pytest.mark.parametrize(
    "move",
    [
        Move(tacit.SparseVector(**STREAM), [0, 3], [1, 4]),
        Move(tacit.SparseVector(**STREAM), [0, 3], [1, 2]),
        Move(tacit.SparseVector(**STREAM, monotone=True), [0, 3], [0, 4]),
        Move(tacit.SparseVector(**STREAM, monotone=True), [1, 4], [0, 3]),
        Move(tacit.NoisyMax(**SCORES, monotone=True), [0, 3], [1, 4]),
        Move(tacit.Exponential(**SCORES), {"a": 0, "b": 3}, {"a": 1, "b": 2}),
    ],
    ids=repr,
)
def test_neighbours_of_streams_and_selections_are_number_by_number(move: Move) -> None:
    check_neighbours(move)


@pytest.mark.parametrize(
    "move",
    [
        Move(tacit.SparseVector(**STREAM), [0], [0, 10**6]),
        Move(tacit.SparseVector(**STREAM), [0, 3], [2, 3]),
        Move(tacit.SparseVector(**STREAM), [0], [0, 0]),
        Move(tacit.SparseVector(**STREAM, monotone=True), [0, 3], [1, 2]),
        Move(tacit.NoisyMax(**SCORES, monotone=True), [0, 3], [1, 2]),
        Move(tacit.Exponential(**SCORES, monotone=True), {"a": 0, "b": 3}, {"a": 1, "b": 2}),
        Move(tacit.PermuteAndFlip(**SCORES, monotone=True), [1, 0], [0, 1]),
        Move(tacit.TopK(**SCORES, k=1, monotone=True), [1, 0], [0, 1]),
    ],
    ids=repr,
)
def test_other_streams_and_scores_are_no_neighbours(move: Move) -> None:
    with pytest.raises(InputError, match=r"not neighbours|in one world|declared monotone"):
        check_neighbours(move)


def test_work_without_end_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="1000"):
        composition_bounds(ratio="1.1", rounds=10_000, delta="1e-6")
    monkeypatch.setattr("tacit.lab.experiment._MOST_STEPS", 1000)
    CompositionExperiment(Repeat(WEAK), rounds=20).exact()
    with pytest.raises(AccountingError, match="fewer rounds"):
        CompositionExperiment(Repeat(WEAK), rounds=50).exact()


def test_a_mechanism_that_says_nothing_about_neighbours_needs_a_relation() -> None:
    with pytest.raises(InputError, match="relation='add_remove'"):
        check_neighbours(Move(Mine(), (0,), (0, 1)))
    with pytest.raises(InputError, match="other candidates"):
        check_neighbours(Move(tacit.Exponential(epsilon=1, sensitivity=1), {"a": 0}, {"b": 0}))
    with pytest.raises(InputError, match="must hold numbers"):
        check_neighbours(Move(tacit.Laplace(epsilon=1, l1_sensitivity=1), "a", "b"))
    with pytest.raises(InputError, match="must be a Move"):
        CompositionExperiment(Repeat(5), rounds=1).view(0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="more numbers"):
        check_neighbours(Move(tacit.Laplace(epsilon=1, l1_sensitivity=1), [0], [0, 1]))


# ---- the family ----


def test_a_move_outside_the_family_is_refused() -> None:
    for family in ([WEAK.mechanism], private(ratio=2), private(epsilon="0.7")):
        inside = CompositionExperiment(Repeat(WEAK), rounds=2, family=family)
        assert len(inside.view(0)) == 2
        assert inside.exact().ratio().value == 4
        outside = CompositionExperiment(Repeat(STRONG), rounds=2, family=family)
        for run in (outside.exact, lambda: outside.view(0)):  # noqa: B023
            with pytest.raises(InputError, match="outside the family"):
                run()
    with pytest.raises(InputError, match="family"):
        CompositionExperiment(Repeat(WEAK), rounds=1, family=[])


def test_the_family_of_private_mechanisms_reads_guarantees() -> None:
    family = private(epsilon=1, delta="1e-6")
    assert family(tacit.Laplace(epsilon=1, l1_sensitivity=1))
    assert not family(tacit.Laplace(epsilon=2, l1_sensitivity=1))
    assert family(tacit.Gaussian(epsilon=1, delta="1e-6", l2_sensitivity=1))
    assert not family(tacit.Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1))
    assert family(tacit.Gaussian.from_rho(rho="0.01", l2_sensitivity=1))
    assert not family(tacit.Gaussian.from_rho(rho="1", l2_sensitivity=1))
    assert not private(epsilon=1)(tacit.Gaussian.from_rho(rho="0.01", l2_sensitivity=1))
    assert not family(Mine())


# ---- several databases in one round ----


def test_one_person_in_or_out_of_several_databases() -> None:
    hospital, school = geometric(ratio=2, rows=3), geometric(ratio=3, rows=2)
    both = (in_or_out(hospital, [0, 1], person=1), in_or_out(school, [], person=1))
    views = CompositionExperiment(Repeat(both), rounds=1).exact()
    assert views.releases == 2
    p = {
        (a, b): hospital.distribution((0, 1, 1))[a].value * school.distribution((1,))[b].value
        for a in range(4)
        for b in range(3)
    }
    q = {
        (a, b): hospital.distribution((0, 1))[a].value * school.distribution(())[b].value
        for a in range(4)
        for b in range(3)
    }
    for ratio in (1, 2, 4):
        assert views.delta(ratio=ratio).value == max(
            hockey_stick(p, q, ratio=ratio).value, hockey_stick(q, p, ratio=ratio).value
        )
    # Both databases at once cost 2·3 in e^ε, and the bounds count two mechanisms, not one round.
    assert views.ratio().value == 6
    assert float(views.bounds(delta=0).basic) == pytest.approx(math.log(9))
    assert len(CompositionExperiment(Repeat(both), rounds=2).view(0)[0]) == 2
    with pytest.raises(InputError, match="not a database"):
        in_or_out(hospital, [0, 1, 1], person=1)
    with pytest.raises(InputError, match="must be a Move"):
        CompositionExperiment(Repeat(()), rounds=1).view(0)


# ---- the proof in numbers ----


def adaptive(view: tuple[Any, ...]) -> Move:
    return STRONG if view and view[-1] == 1 else WEAK


@pytest.mark.parametrize("tight", [False, True])
def test_azuma_holds_on_the_loss_of_an_adaptive_run(tight: bool) -> None:
    views = CompositionExperiment(Strategy(adaptive), rounds=8).exact()
    points = azuma_points(views, [0, "0.5", 1, 2, 3], tight=tight)
    assert all(point.holds for point in points)
    repeated = CompositionExperiment(Repeat(WEAK), rounds=60).exact()
    found = azuma_points(repeated, ["0.5", 1, 2, 3], tight=True)
    assert all(point.holds for point in found)
    assert 0 < found[1].probability.value < found[1].bound.low
    assert "Pr[loss >" in str(found[0])


def test_the_set_of_bad_views_by_hand() -> None:
    views = CompositionExperiment(Repeat(WEAK), rounds=3).exact()
    # The loss is (agreements - lies)·ln 2: 3 with probability 8/27, 1 with 12/27.
    assert views.bad_views(epsilon=1).value == F(8, 27)
    assert views.bad_views(epsilon="0.5").value == F(20, 27)
    assert views.bad_views(epsilon=3).value == 0
    for epsilon in ("0.5", 1, 2):
        assert views.bad_views(epsilon=epsilon).high >= views.delta(epsilon=epsilon).low


def test_the_loss_path_is_a_martingale() -> None:
    """Its expectation over the next output, under b = 0, is what it is now: for every view of two rounds."""
    experiment = CompositionExperiment(Strategy(adaptive), rounds=3)
    for first in (0, 1):
        for second in (0, 1):
            here = loss_path(experiment, [first, second])[-1].martingale
            move = adaptive((first, second))
            after = sum(
                float(move.mechanism.distribution(0)[output].value)
                * loss_path(experiment, [first, second, output])[-1].martingale
                for output in (0, 1)
            )
            assert after == pytest.approx(here, abs=1e-12)
    with pytest.raises(InputError, match="cannot give"):
        loss_path(experiment, [7])


def test_the_chart_of_the_bad_views_holds_the_numbers() -> None:
    views = CompositionExperiment(Repeat(WEAK), rounds=40).exact()
    rows = chart_azuma(views, zs=["0.25", "0.5", 1], tight=True).to_dict()["layer"][0]["data"]["values"]
    assert {row["curve"] for row in rows} == {"Azuma's bound", "bad views, exactly"}
    assert rows[2]["y"] == pytest.approx(math.exp(-0.5))
    with pytest.raises(InputError, match="zs"):
        chart_azuma(views, zs=[50, 60])


def test_azuma_numbers() -> None:
    assert float(azuma(steps=["0.1"] * 100, above=3).high) == pytest.approx(math.exp(-4.5))
    assert azuma(steps=[], above=1).value == 0
    # The textbook's form for differences in intervals of length r: exp(-2t²/Σr²).
    assert float(azuma(ranges=["0.3"] * 50, above=2).high) == pytest.approx(math.exp(-2 * 4 / (50 * 0.09)))
    assert azuma(ranges=[2] * 9, above=4) == azuma(steps=[1] * 9, above=4)
    for wrong in ({}, {"steps": [1], "ranges": [1]}):
        with pytest.raises(InputError, match="either steps or ranges"):
            azuma(above=1, **wrong)
    z = math.sqrt(2 * math.log(1e6))
    assert float(loss_threshold(rounds=100, z=z, epsilon="0.1").high) == pytest.approx(6.30823095051340823)
    assert float(kl_bound(epsilon="0.1", tight=False).high) == pytest.approx(0.1 * (math.exp(0.1) - 1))


def test_the_simple_form_is_a_method() -> None:
    found = tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6", method="simple")
    assert found.method == "simple"
    assert float(found.epsilon) == pytest.approx(0.1 * math.sqrt(200 * math.log(1e6)) + 100 * 0.01)
    exact = tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6", method="optimal")
    advanced = tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6", method="advanced")
    assert exact.epsilon < found.epsilon < advanced.epsilon
    few = tacit.compose([(tacit.PureDP("0.1"), 10)], delta="1e-6", method="simple")
    assert (few.method, few.epsilon) == ("basic", 1)
    with pytest.raises(AccountingError, match="epsilon < 1"):
        tacit.compose([(tacit.PureDP(1), 10)], delta="1e-6", method="simple")
    assert tacit.compose([(tacit.PureDP("0.1"), 100)], delta="1e-6").method != "simple"
