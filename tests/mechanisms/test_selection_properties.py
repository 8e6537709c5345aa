"""Laws for all scores: laws are laws, invariances, exact rounding, bounds that invert."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.core.numbers import exp_bounds
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.selection_scores import LARGEST_GAP, read_scores
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.mechanisms.top_k import TopK

LAWS = [Exponential, PermuteAndFlip]
each_law = pytest.mark.parametrize("kind", LAWS)
small_scores = st.lists(st.integers(-50, 50), min_size=1, max_size=6)
int64 = st.integers(-(2**63), 2**63 - 1)
epsilons = st.fractions("1/100", 5, max_denominator=1000)


@each_law
@given(scores=small_scores, epsilon=epsilons, monotone=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_law_is_a_law(kind: Any, scores: list[int], epsilon: Fraction, monotone: bool) -> None:
    bounds = kind(epsilon=epsilon, sensitivity=1, monotone=monotone).probability_bounds(scores)
    assert sum(low for low, _ in bounds) <= 1 <= sum(high for _, high in bounds)
    assert all(0 < low <= high <= 1 + Fraction(1, 10**30) for low, high in bounds)


@each_law
@given(scores=small_scores, shift=st.integers(-1000, 1000), factor=st.fractions("1/7", 9, max_denominator=20))
@settings(max_examples=40, deadline=None)
def test_only_differences_over_the_sensitivity_matter(
    kind: Any, scores: list[int], shift: int, factor: Fraction
) -> None:
    plain = kind(epsilon=1, sensitivity=1).probability_bounds(scores)
    moved = [(score + shift) * factor for score in scores]
    assert kind(epsilon=1, sensitivity=factor).probability_bounds(moved) == plain


@each_law
@given(
    scores=small_scores,
    epsilon=epsilons,
    monotone=st.booleans(),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_neighbours_are_within_epsilon(
    kind: Any, scores: list[int], epsilon: Fraction, monotone: bool, data: st.DataObject
) -> None:
    sign = data.draw(st.sampled_from((-1, 1)))
    low = 0 if monotone else -3
    moves = data.draw(st.lists(st.integers(low, 3), min_size=len(scores), max_size=len(scores)))
    mechanism = kind(epsilon=epsilon, sensitivity=3, monotone=monotone)
    mine = mechanism.probability_bounds(scores)
    theirs = mechanism.probability_bounds([score + sign * move for score, move in zip(scores, moves, strict=True)])
    limit = exp_bounds(epsilon)[1] * (1 + Fraction(1, 10**25))
    for (low_here, _), (_, high_there) in zip(mine, theirs, strict=True):
        assert low_here <= limit * high_there


@given(scores=st.lists(int64, min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_gaps_of_any_int64_are_exact(scores: list[int]) -> None:
    read = read_scores(scores, None, grid=Grid.for_scale(Fraction(1)))
    assert read.gaps.tolist() == [min(max(scores) - score, LARGEST_GAP) for score in scores]
    same = read_scores(np.array(scores, dtype=np.int64), None, grid=Grid.for_scale(Fraction(1)))
    assert same.gaps.tolist() == read.gaps.tolist()


@given(
    scores=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    moves=st.lists(st.floats(-1, 1), min_size=8, max_size=8),
    sensitivity=st.fractions("1/1000", 1000, max_denominator=1000),
)
@settings(max_examples=60, deadline=None)
def test_rounded_scores_move_by_at_most_one_step_more(
    scores: list[float], moves: list[float], sensitivity: Fraction
) -> None:
    grid = Grid.for_scale(sensitivity)
    others = [score + move * float(sensitivity) for score, move in zip(scores, moves, strict=False)]
    moved = max(abs(Fraction(a) - Fraction(b)) for a, b in zip(scores, others, strict=True))
    here, there = (read_scores([*values, -2e6], None, grid=grid) for values in (scores, others))
    # Differences to a fixed candidate are scores on the grid, up to one constant.
    a, b = (read.gaps[-1] - read.gaps[:-1] for read in (here, there))
    assert max(abs(int(x) - int(y)) for x, y in zip(a, b, strict=True)) <= moved / grid.step + 1


@given(epsilon=epsilons, beta=st.fractions("1/1000", "9/10", max_denominator=1000), total=st.integers(2, 10**6))
@settings(max_examples=30, deadline=None)
def test_error_bounds_invert(epsilon: Fraction, beta: Fraction, total: int) -> None:
    error = Exponential(epsilon=epsilon, sensitivity=2).error(beta, total)
    again = Exponential.for_error(within=Fraction(error), beta=beta, candidates=total, sensitivity=2)
    assert again.epsilon == pytest.approx(epsilon, rel=1e-6)


@given(
    epsilon=epsilons,
    scores=st.lists(st.integers(-5, 5), min_size=3, max_size=6),
    k=st.integers(1, 3),
)
@settings(max_examples=30, deadline=None)
def test_selections_are_valid_candidates(epsilon: Fraction, scores: list[int], k: int) -> None:
    names = [f"candidate {i}" for i in range(len(scores))]
    for kind in (Exponential, PermuteAndFlip, NoisyMax):
        assert kind(epsilon=epsilon, sensitivity=1).release(scores, names) in names
    chosen = TopK(epsilon=epsilon, sensitivity=1, k=k).release(scores, names)
    assert len(set(chosen)) == k
    assert set(chosen) <= set(names)
    winner = NoisyMax(epsilon=epsilon, sensitivity=1, gap=True).release(scores, names)
    assert winner.margin >= 0


@given(
    epsilon=st.fractions("1/1000", 20, max_denominator=10**4),
    values=st.one_of(st.none(), st.just("1/10000")),
    positives=st.integers(1, 10**6),
    sensitivity=st.fractions("1/100", 1000, max_denominator=100),
    monotone=st.booleans(),
    whole=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_sparse_vector_spends_no_more_than_epsilon(
    epsilon: Fraction, values: str | None, positives: int, sensitivity: Fraction, monotone: bool, whole: bool
) -> None:
    """The three prices, recomputed from the scales that are really drawn from."""
    made = SparseVector(
        epsilon=epsilon,
        sensitivity=sensitivity,
        threshold=7,
        positives=positives,
        monotone=monotone,
        epsilon_values=values,
        whole=whole,
    )
    moved = math.floor(sensitivity) if whole else math.floor(sensitivity / made._step) + 1
    factor = 1 if monotone else 2
    spent = moved / made._threshold_scale + positives * (factor * moved / made._query_scale)
    if made._value_noise is not None:
        spent += positives * (moved / made._value_noise.scale)
    assert spent <= epsilon


@given(epsilon=st.fractions("1/1000", 30, max_denominator=10**4), k=st.integers(2, 2000))
@settings(max_examples=60, deadline=None)
def test_randomized_response_never_exceeds_epsilon(epsilon: Fraction, k: int) -> None:
    response = RandomizedResponse(epsilon=epsilon, categories=k)
    assert response.truth / response.lie <= exp_bounds(epsilon, 60)[1]
    assert response.truth + (k - 1) * response.lie == 1
    assert response.truth > Fraction(1, k)
