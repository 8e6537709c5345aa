"""The selection mechanisms: parameters, reading of scores, guarantees, bounds, and the winner and margin rules."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.bits import SeededBits
from tacit.core.errors import InputError
from tacit.core.events import ExponentialEvent, PureEvent, RepeatedEvent
from tacit.core.guarantees import ZCDP, PureDP
from tacit.mechanisms import noisy_max
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noisy_max import NoisyMax, Winner
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.selection_scores import LARGEST_GAP, read_scores
from tacit.mechanisms.top_k import TopK

SINGLE = [Exponential, PermuteAndFlip, NoisyMax]


def top_two(**parameters: Any) -> TopK:
    return TopK(k=1, **parameters)


EVERY: list[Callable[..., Any]] = [*SINGLE, top_two]
each_single = pytest.mark.parametrize("kind", SINGLE)
each = pytest.mark.parametrize("kind", EVERY)


# --- guarantees and events


def test_what_each_mechanism_promises() -> None:
    given: dict[str, Any] = {"epsilon": "0.5", "sensitivity": 3, "relation": "replace_one"}
    for kind in SINGLE:
        assert kind(**given).guarantee == PureDP("0.5", relation="replace_one")
    assert Exponential(**given).event == ExponentialEvent(Fraction(1, 2), relation="replace_one")
    assert Exponential(**given).zcdp == ZCDP("1/32", relation="replace_one")
    assert PermuteAndFlip(**given).event == PureEvent(Fraction(1, 2), "permute_and_flip", relation="replace_one")
    assert NoisyMax(**given).event == PureEvent(Fraction(1, 2), "noisy_max", relation="replace_one")
    for kind in (PermuteAndFlip, NoisyMax):
        assert kind(**given).zcdp == ZCDP("1/8", relation="replace_one")
        assert not isinstance(kind(**given).event, ExponentialEvent)


def test_top_k_is_k_exponential_mechanisms() -> None:
    best = TopK(epsilon=1, k=4, sensitivity=1)
    assert best.guarantee == PureDP(1)
    assert best.event == RepeatedEvent(ExponentialEvent(Fraction(1, 4)), 4)
    assert best.zcdp == ZCDP("1/32")
    assert best.scale == 8
    assert TopK(epsilon=1, k=4, sensitivity=1, monotone=True).scale == 4


@each
def test_the_scale_halves_for_monotone_scores(kind: Callable[..., Any]) -> None:
    assert kind(epsilon="0.5", sensitivity=3).scale == 12
    assert kind(epsilon="0.5", sensitivity=3, monotone=True).scale == 6


# --- what is refused, by name


@each
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0),
        ("epsilon", -1),
        ("epsilon", float("nan")),
        ("epsilon", float("inf")),
        ("epsilon", True),
        ("epsilon", None),
        ("sensitivity", 0),
        ("sensitivity", -2),
        ("sensitivity", "x"),
        ("monotone", 1),
        ("monotone", "yes"),
        ("relation", "cousins"),
    ],
)
def test_bad_parameters_are_refused_by_name(kind: Callable[..., Any], name: str, value: Any) -> None:
    given = {"epsilon": 1, "sensitivity": 1, name: value}
    with pytest.raises(InputError) as caught:
        kind(**given)
    assert caught.value.parameter == name


@each
def test_there_is_no_default_epsilon_or_sensitivity(kind: Callable[..., Any]) -> None:
    with pytest.raises(TypeError):
        kind(epsilon=1)
    with pytest.raises(TypeError):
        kind(sensitivity=1)
    with pytest.raises((TypeError, InputError), match=r"have no order|positional"):
        kind(1, 1)


@each
def test_monotone_needs_add_remove(kind: Callable[..., Any]) -> None:
    with pytest.raises(InputError) as caught:
        kind(epsilon=1, sensitivity=1, monotone=True, relation="replace_one")
    assert caught.value.parameter == "monotone"


@each
@pytest.mark.parametrize(
    "scores",
    [
        [],
        {},
        np.array([]),
        np.zeros((2, 2)),
        np.int64(3),
        3,
        None,
        "123",
        b"123",
        {1, 2},
        [[1, 2], [3, 4]],
        [1.0, float("nan")],
        np.array([1.0, np.nan]),
        [1, float("nan")],
        [1.0, float("inf")],
        np.array([1.0, -np.inf]),
        [Decimal("NaN")],
        [1, None],
        [True, False],
        np.array([True, False]),
        np.array([1 + 1j]),
        np.array(["a"]),
        ["one"],
    ],
)
def test_bad_scores_are_refused_by_name(kind: Callable[..., Any], scores: Any) -> None:
    with pytest.raises(InputError) as caught:
        kind(epsilon=1, sensitivity=1).release(scores)
    assert caught.value.parameter == "scores"
    assert "one'" not in str(caught.value)
    assert "nan" not in str(caught.value)


@each
@pytest.mark.parametrize(
    "scores",
    [
        [2**63, 0, 0],
        [10**5000, -(10**5000), 0],
        [0, -(2**63) - 1, -5],
        np.array([2**64 - 1, 0, 2**63], dtype=np.uint64),
        np.array([200, 0, 0], dtype=np.uint8),
        [1e300, 0.0, -1e300],
        np.array([1e300, 0.0, 0.0]),
        [1e300, 0, 0],
        [Fraction(2**60), Fraction(1, 3**40), Fraction(1, 7**500)],
        [Decimal("1e300"), Decimal("1e-300"), Fraction(1, 3)],
    ],
)
def test_no_size_of_a_score_is_refused(kind: Callable[..., Any], scores: Any) -> None:
    """The size of a score, and the length of its fraction, is up to the data; so is which of two is farther away."""
    assert kind(epsilon=100, sensitivity=1).release(scores) in (0, [0])


@each
def test_candidates_must_fit(kind: Callable[..., Any]) -> None:
    mechanism = kind(epsilon=1, sensitivity=1)
    for scores, candidates in (([1, 2], ["a"]), ([1, 2], "ab c"), ({"a": 1}, ["a"]), ([1], 7)):
        with pytest.raises(InputError) as caught:
            mechanism.release(scores, candidates)
        assert caught.value.parameter == "candidates"


def test_top_k_needs_k_candidates() -> None:
    with pytest.raises(InputError, match="at least k = 3"):
        TopK(epsilon=1, k=3, sensitivity=1).release([1, 2])
    for k in (0, -1, 1.5, True, None):
        with pytest.raises(InputError) as caught:
            TopK(epsilon=1, k=k, sensitivity=1)
        assert caught.value.parameter == "k"


def test_noisy_max_refuses_what_is_not_private() -> None:
    with pytest.raises(InputError, match="one-sided") as caught:
        NoisyMax(epsilon=1, sensitivity=1, noise="exponential", gap=True)
    assert caught.value.parameter == "gap"
    for name, value in (("noise", "gumbel"), ("gap", 1)):
        with pytest.raises(InputError) as caught:
            NoisyMax(epsilon=1, sensitivity=1, **{name: value})
        assert caught.value.parameter == name
    with pytest.raises(InputError, match="two candidates"):
        NoisyMax(epsilon=1, sensitivity=1, gap=True).release([5])


# --- what comes out

CLEAR = [0, 10**6, 5]


@each_single
@pytest.mark.parametrize(
    "scores",
    [
        CLEAR,
        tuple(CLEAR),
        np.array(CLEAR),
        np.array(CLEAR, dtype=np.uint32),
        np.array(CLEAR, dtype=np.float32),
        [float(score) for score in CLEAR],
        [Fraction(score, 3) for score in CLEAR],
        [Decimal(score) for score in CLEAR],
        [0, 1e6, Fraction(5)],
        [np.int64(0), np.int32(10**6), 5],
        [str(score) for score in CLEAR],
    ],
)
def test_a_clear_winner_wins_in_every_form(kind: Any, scores: Any) -> None:
    mechanism = kind(epsilon=1, sensitivity=1)
    assert mechanism.release(scores) == 1  # wrong with probability below e^-100000
    assert mechanism.release(scores, ["a", "b", "c"]) == "b"
    assert mechanism.release(scores, np.array(["a", "b", "c"])) == "b"


@each_single
def test_a_mapping_names_its_candidates(kind: Any) -> None:
    assert kind(epsilon=1, sensitivity=1).release({"flu": 3, "cold": 10**6}) == "cold"


@each
@pytest.mark.parametrize("score", [0, -5, 2**63 - 1, -(2**63), 1.5])
def test_one_candidate_is_the_answer(kind: Callable[..., Any], score: Any) -> None:
    found = kind(epsilon=1, sensitivity=1).release([score])
    assert found in (0, [0])


@each
def test_extreme_integers_do_not_wrap(kind: Callable[..., Any]) -> None:
    assert kind(epsilon=1, sensitivity=1).release([-(2**63), 2**63 - 1, 0]) in (1, [1])


def test_top_k_chooses_different_candidates_best_first() -> None:
    best = TopK(epsilon=1, k=3, sensitivity=1)
    assert best.release([0, 3 * 10**6, 10**6, 2 * 10**6]) == [1, 3, 2]
    assert best.release({"a": 0, "b": 10**6, "c": 2 * 10**6, "d": 3 * 10**6}) == ["d", "c", "b"]
    everything = TopK(epsilon="0.01", k=5, sensitivity=1).release([0, 1, 2, 3, 4])
    assert sorted(everything) == [0, 1, 2, 3, 4]


@each
def test_a_million_candidates(kind: Callable[..., Any]) -> None:
    scores = np.zeros(10**6, dtype=np.int64)
    scores[123_456] = 10**6
    assert kind(epsilon=1, sensitivity=1).release(scores) in (123_456, [123_456])


def test_top_k_of_a_million() -> None:
    scores = np.zeros(10**6, dtype=np.int64)
    scores[[5, 77, 123_456]] = 3 * 10**6, 2 * 10**6, 10**6
    assert TopK(epsilon=1, k=3, sensitivity=1).release(scores) == [5, 77, 123_456]


@each_single
def test_tiny_epsilon_is_served_or_refused_by_name(kind: Any) -> None:
    names = ["a", "b"]
    assert kind(epsilon="1e-9", sensitivity=1).release([0, 1], names) in names
    assert kind(epsilon="1e-9", sensitivity=1).release([0.5, 1.25], names) in names
    if kind is NoisyMax:
        with pytest.raises(InputError) as caught:
            kind(epsilon="1e-20", sensitivity=1).release([0, 1])
        assert caught.value.parameter == "epsilon"
    else:
        assert kind(epsilon="1e-20", sensitivity=1).release([0, 1], names) in names


def test_a_margin_is_whole_for_whole_scores_and_a_grid_float_otherwise() -> None:
    margins = NoisyMax(epsilon=1, sensitivity=1, gap=True)
    winner = margins.release([0, 1000], ["a", "b"])
    assert isinstance(winner, Winner)
    assert winner.candidate == "b"
    assert type(winner.margin) is int
    floats = margins.release([0.0, 1000.3])
    assert type(floats.margin) is float
    assert Fraction(floats.margin) % Grid.for_scale(Fraction(1)).step == 0


# --- the reading of scores


def test_gaps_are_exact() -> None:
    grid = Grid.for_scale(Fraction(1))
    whole = read_scores([3, -4, 10], None, grid=grid)
    assert (whole.gaps.tolist(), whole.step, whole.rounded) == ([7, 14, 0], 1, False)
    thirds = read_scores([Fraction(1, 3), "0.5", Decimal("0.25")], None, grid=grid)
    assert (thirds.gaps.tolist(), thirds.step, thirds.rounded) == ([2, 0, 3], Fraction(1, 12), False)
    floats = read_scores([0.1, 0.2], None, grid=grid)
    assert floats.rounded
    assert floats.step == grid.step
    expected = round(Fraction(0.2) / grid.step) - round(Fraction(0.1) / grid.step)
    assert floats.gaps.tolist() == [expected, 0]
    mixed = read_scores([0.1, Fraction(1, 5)], None, grid=grid)
    assert mixed.gaps.tolist() == [expected, 0]
    public = read_scores([Fraction(1, 3), Fraction(1, 2)], None, grid=grid, additive=True)
    assert public.rounded
    assert public.step == grid.step


def test_gaps_saturate_at_a_public_level() -> None:
    read = read_scores([-(2**63), 2**63 - 1, 2**63 - 2], None, grid=Grid.for_scale(Fraction(1)))
    assert read.gaps.tolist() == [LARGEST_GAP, 0, 1]


def test_rounding_enlarges_the_sensitivity() -> None:
    exact = Exponential(epsilon=2, sensitivity=1)
    step = Grid.for_scale(Fraction(1)).step
    low, high = exact.probability_bounds([0.0, 1.0])[0]
    whole_low, _ = exact.probability_bounds([0, 1])[0]
    assert low > whole_low  # flatter, because the float scores count as more sensitive
    assert high - whole_low < 2 * step


# --- the winner and its margin, for every noise in a box


@pytest.mark.parametrize("scores", [(0, 0), (1, 0), (0, 0, 0), (0, 2, 1)])
def test_winner_and_margin_follow_the_rule(scores: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = NoisyMax(epsilon=1, sensitivity=1, gap=True)
    best = max(scores)
    for noise in itertools.product(range(-2, 3), repeat=len(scores)):
        monkeypatch.setattr(noisy_max, "_draw", lambda *_, noise=noise: np.array(noise, dtype=np.int64))
        noisy = [score - best + extra for score, extra in zip(scores, noise, strict=True)]
        found = mechanism.release(list(scores))
        rivals = [value + (j < found.candidate) for j, value in enumerate(noisy) if j != found.candidate]
        assert found.margin == noisy[found.candidate] - max(rivals) >= 0
        losers = [i for i in range(len(noisy)) if i != found.candidate]
        for i in losers:
            assert any(noisy[i] < noisy[j] + (j < i) for j in range(len(noisy)) if j != i)


def test_geometric_noise_is_never_negative_at_any_scale(seeded: SeededBits) -> None:
    for scale in (Fraction(1, 3), Fraction(1000), Fraction(2**40)):
        drawn = noisy_max._draw("exponential", scale, 1000)
        assert len(drawn) == 1000
        assert drawn.min() >= 0
        assert 0.8 * float(scale) - 1 < drawn.mean() < 1.2 * float(scale)


# --- error bounds and their inverses


@each_single
def test_for_error_meets_its_target_and_not_with_epsilon_to_spare(kind: Any) -> None:
    given: dict[str, Any] = {"beta": "0.05", "candidates": 50}
    mechanism = kind.for_error(within=20, sensitivity=2, **given)
    assert mechanism.error(**given) <= 20
    weaker = kind(epsilon=mechanism.epsilon * Fraction(99, 100), sensitivity=2)
    assert weaker.error(**given) > 20 or kind is NoisyMax  # noisy max on integers moves in whole steps
    weaker = kind(epsilon=mechanism.epsilon * Fraction(9, 10), sensitivity=2)
    assert weaker.error(**given) > 20


def test_for_error_of_top_k() -> None:
    best = TopK.for_error(within=30, beta="0.1", candidates=50, k=3, sensitivity=1, monotone=True)
    assert best.error("0.1", 50) <= 30
    assert best.monotone
    assert best.k == 3
    assert TopK(epsilon=best.epsilon * Fraction(99, 100), k=3, sensitivity=1, monotone=True).error("0.1", 50) > 30


@each_single
def test_error_shrinks_with_epsilon_ties_and_monotone(kind: Any) -> None:
    base = kind(epsilon=1, sensitivity=1).error("0.05", 1000)
    assert kind(epsilon=2, sensitivity=1).error("0.05", 1000) < base
    assert kind(epsilon=1, sensitivity=1).error("0.05", 1000, optimal=100) < base
    assert kind(epsilon=1, sensitivity=1, monotone=True).error("0.05", 1000) < 0.6 * base
    assert kind(epsilon=1, sensitivity=1).error("0.5", 1000) < base


def test_permute_and_flip_is_bounded_tighter_than_exponential() -> None:
    for total in (2, 10, 10**6):
        flip = PermuteAndFlip(epsilon=1, sensitivity=1).error("0.05", total)
        assert flip < Exponential(epsilon=1, sensitivity=1).error("0.05", total)


@each_single
def test_bad_bounds_are_refused_by_name(kind: Any) -> None:
    mechanism = kind(epsilon=1, sensitivity=1)
    for name, given in (
        ("beta", {"beta": 0, "candidates": 5}),
        ("beta", {"beta": 1, "candidates": 5}),
        ("candidates", {"beta": "0.1", "candidates": 0}),
        ("optimal", {"beta": "0.1", "candidates": 5, "optimal": 6}),
    ):
        with pytest.raises(InputError) as caught:
            mechanism.error(**given)
        assert caught.value.parameter == name
    with pytest.raises(InputError) as caught:
        kind.for_error(within=0, beta="0.1", candidates=5, sensitivity=1)
    assert caught.value.parameter == "within"


@pytest.mark.parametrize("kind", [PermuteAndFlip, NoisyMax])
def test_a_bound_that_always_holds_fixes_no_epsilon(kind: Any) -> None:
    for candidates, optimal in ((3, 3), (1, 1), (2, 1)):
        with pytest.raises(InputError) as caught:
            kind.for_error(within=3, beta="0.6", candidates=candidates, optimal=optimal, sensitivity=1)
        assert caught.value.parameter == "beta"


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("beta", ["0.3", "0.05", "0.001"])
@pytest.mark.parametrize("optimal", [1, 3])
def test_the_bound_holds_in_its_worst_case(kind: Any, beta: str, optimal: int) -> None:
    """All rivals equally far below the best: just beyond the bound their chance is at most β, well before it above."""
    mechanism = kind(epsilon=1, sensitivity=1)
    bound = Fraction(mechanism.error(beta, 40, optimal))

    def chance(gap: Fraction) -> float:
        return sum(mechanism.probabilities([Fraction(0)] * optimal + [-round(gap, 4)] * (40 - optimal))[optimal:])

    assert chance(bound + Fraction(1, 1000)) <= float(beta)
    assert chance(bound - 3) > float(beta)


def law_of_noise(noise: str, scale: float) -> dict[int, float]:
    reach = range(-200 if noise == "laplace" else 0, 200)
    weights = {x: math.exp(-abs(x) / scale) for x in reach}
    return {x: weight / sum(weights.values()) for x, weight in weights.items()}


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(13, 3)])
def test_one_noise_beats_another_as_often_as_claimed(noise: str, scale: Fraction) -> None:
    law = law_of_noise(noise, float(scale))
    for by in (1, 2, 7):
        chance = sum(p * r for x, p in law.items() for y, r in law.items() if x - y >= by)
        assert float(noisy_max._beats(noise, scale, by)) == pytest.approx(chance, rel=1e-9)
    for allowed in (Fraction(1, 5), Fraction(1, 1000)):
        lost = noisy_max._steps_lost(noise, scale, allowed)
        assert noisy_max._beats(noise, scale, lost + 1) <= allowed
        assert lost == 0 or noisy_max._beats(noise, scale, lost) > allowed


def test_the_bound_of_noisy_max_counts_all_rivals() -> None:
    mechanism = NoisyMax(epsilon=1, sensitivity=1)
    steps = noisy_max._steps_lost("laplace", Fraction(2), Fraction(1, 20) / 9)
    assert steps <= mechanism.error("0.05", 10) < steps + 1
    assert mechanism.error("0.05", 12, optimal=3) == mechanism.error("0.05", 10)
    assert mechanism.error("0.05", 4, optimal=4) == 0


def test_repr_says_what_it_is() -> None:
    assert repr(Exponential(epsilon=1, sensitivity=2)) == "Exponential(PureDP(1), sensitivity=2)"
    assert "monotone" in repr(NoisyMax(epsilon=1, sensitivity=2, monotone=True))


def test_the_exact_law_has_a_limit() -> None:
    flip = PermuteAndFlip(epsilon=1, sensitivity=1)
    assert abs(sum(flip.probabilities(list(range(60)))) - 1) < 1e-12
    with pytest.raises(InputError, match="200"):
        flip.probabilities([0] * 201)
