"""Boosted trees: integers per row, neighbours, interactions that are found, and convergence."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learn.replay import record, released_events
from tacit.core.events import DiscreteGaussianEvent, ExponentialEvent
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.learn import BoostedTreesClassifier, BoostedTreesRegressor
from tacit.learn.forest_plan import Forest
from tacit.learn.leaf_sums import ROW, raw_leaf_sums
from tacit.learn.losses import WHOLE, Softmax, clip_residuals
from tacit.learn.question_choice import question_scores, score_sensitivity
from tacit.learn.trees import DecisionTree, TreeQuestion, leaves_of
from tacit.learn.weights import SHARES, shared

CLIP = WHOLE

PLACES = arrays(np.int64, (5, 3), elements=st.integers(0, 63))


@given(PLACES, st.integers(0, 2), arrays(np.int64, (5, 3), elements=st.integers(-40_000, 40_000)))
def test_a_row_adds_no_more_than_declared(places: np.ndarray, label: int, logits: np.ndarray) -> None:
    plan = Forest(3, 3, 3, 11_585, 4, 3)
    questions = TreeQuestion(0, 10), TreeQuestion(2, 32, np.arange(64)[::-1]), TreeQuestion(0, 40)
    leaves = leaves_of(places, tuple((each,) for each in questions))
    assert ((leaves >= 0) & (leaves < 8)).all()
    residuals = clip_residuals(Softmax().residuals(logits, np.full((5, 1), label)), np.full(5, plan.clip))
    shares = np.array([1024, 0, 1, 700, 1024])
    parts = [raw_leaf_sums(leaves[i : i + 1], residuals[i : i + 1], 8, shares[i : i + 1]) for i in range(5)]
    assert (raw_leaf_sums(leaves, residuals, 8, shares) == sum(parts)).all()
    for part in parts:
        assert int((part.astype(object) ** 2).sum()) <= plan.phases()[1].l2_squared


ORDER = np.random.default_rng(5).permutation(64)
LEVELS = (
    (TreeQuestion(1, 30),),
    (TreeQuestion(0, 20, ORDER), TreeQuestion(2, 50)),
    (TreeQuestion(0, 40), TreeQuestion(1, 9), TreeQuestion(2, 33, ORDER), TreeQuestion(2, 7)),
)


@given(PLACES)
def test_rows_walk_from_the_root_to_their_leaf(places: np.ndarray) -> None:
    for row, leaf in zip(places, leaves_of(places, LEVELS), strict=True):
        node = 0
        for level in LEVELS:
            asked = level[node]
            bin_ = row[asked.feature] if asked.ranks is None else asked.ranks[row[asked.feature]]
            node = 2 * node + int(bin_ >= asked.first)
        assert leaf == node


def test_contrasts_are_those_of_each_node() -> None:
    """Only the leaves below the second node of the second level differ, and only by its question."""
    values = np.array([[0.0]] * 4 + [[1.0], [1.0], [3.0], [3.0]])
    found = DecisionTree(LEVELS, values).contrasts(3)
    assert found.tolist() == [0.0, (1 + 1 + 9 + 9) / 4, 4 / 2]


def test_a_bound_that_forgets_the_row_is_exceeded() -> None:
    """The test of the test: a residual of one with its row is longer than a residual of one."""
    part = raw_leaf_sums(np.zeros(1, np.int64), np.full((1, 1), WHOLE), 8)
    assert int((part**2).sum()) == WHOLE**2 + ROW**2 > WHOLE**2


def every_table(largest: int, outputs: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All tables of up to so many rows of few kinds, each a sorted tuple of kinds, and sums of what its rows add."""
    sides = [(0,) * outputs, (CLIP,) + (0,) * (outputs - 1), (-CLIP,) + (0,) * (outputs - 1)]
    sides += [(0, CLIP)] if outputs == 2 else []
    kinds = [(at, each, share) for at in range(4) for each in sides for share in (SHARES, 700)]
    added = np.zeros((len(kinds), 2, 2, outputs + 1), dtype=np.int64)
    for number, (at, residuals, share) in enumerate(kinds):
        parts = shared(np.array([[*residuals, SHARES]]), np.array([share]))
        added[(number, *divmod(at, 2))] = parts[0]
    tables = [table for size in range(largest + 1) for table in combinations_with_replacement(range(len(kinds)), size)]
    return tables, np.array([added[list(table)].sum(axis=0) for table in tables])


@pytest.mark.parametrize(("outputs", "largest"), [(1, 3), (2, 2)])
@pytest.mark.parametrize("ridge", [SHARES, 10 * SHARES])
def test_no_row_moves_scores_further_than_declared(outputs: int, largest: int, ridge: int) -> None:
    """Two nodes, each divided by a question: every neighbour of every small table, nodes taken together."""
    tables, sums = every_table(largest, outputs)
    lines = question_scores(sums, [(i, 1) for i in range(len(tables))], ridge).T
    scores = dict(zip(tables, lines, strict=True))
    moved, exchanged, apart = 0, 0, 0
    for table, score in scores.items():
        smaller = [np.abs(score - scores[table[:i] + table[i + 1 :]]) for i in range(len(table))]
        assert all(np.count_nonzero(gaps) <= 1 for gaps in smaller), "a row is in one node"
        moved = max([moved, *(int(gaps.sum()) for gaps in smaller)])
    assert CLIP * 0.7 < moved <= score_sensitivity(CLIP, outputs, ADD_REMOVE)
    for table in tables[: len(tables) // 8]:
        kinds = range(max(tables[-1]) + 1)
        others = [scores[tuple(sorted((*table[1:], kind)))] for kind in kinds] if table else []
        gaps = [np.abs(scores[table] - each) for each in others]
        exchanged = max([exchanged, *(int(each.sum()) for each in gaps)])
        apart = max([apart, *(np.count_nonzero(each) for each in gaps)])
    assert apart == 2, "an exchanged row leaves one node and enters another"
    assert score_sensitivity(CLIP, outputs, ADD_REMOVE) < exchanged <= score_sensitivity(CLIP, outputs, REPLACE_ONE)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("kind", ["classes", "more classes", "number"])
@pytest.mark.usefixtures("seeded")
def test_replay_of_choices_on_neighbours(monkeypatch: pytest.MonkeyPatch, kind: str, relation: str) -> None:
    """Frozen outputs: the same releases in the same order, and no score or sum moved further than its event says."""
    monkeypatch.setattr(
        "tacit.learn.boosting.drawn_candidates", lambda weights: [(i % 3, 9 * i + 1) for i in range(20)]
    )
    monkeypatch.setattr("tacit.learn.boosting.sample_below", lambda *_: 1)
    monkeypatch.setattr("tacit.learn.forest_plan.draw", lambda weights: int(np.argmax(weights)))
    made = np.random.default_rng(1)
    X, y = made.uniform(-1, 1, (40, 3)), made.integers(0, 2 if kind == "classes" else 3, 40)
    common = {"epsilon": 30, "delta": "1e-3", "bounds": (-1, 1), "trees": 3, "depth": 2, "relation": relation}

    def model() -> Any:
        if kind == "number":
            return BoostedTreesRegressor(**common, target_bounds=(0, 3))
        return BoostedTreesClassifier(**common, classes=[0, 1] if kind == "classes" else [0, 1, 2])

    limit = score_sensitivity(
        {"classes": WHOLE, "more classes": math.isqrt(2 * WHOLE**2), "number": 2 * WHOLE}[kind],
        3 if kind == "more classes" else 1,
        ADD_REMOVE if relation == "add_remove" else REPLACE_ONE,
    )
    for row, label in (([9.0, -9, 9], 1), ([float("nan")] * 3, 0)):
        left = np.vstack([X, [row]]), np.append(y, label)
        right = (X, y) if relation == "add_remove" else (np.vstack([X, [[-1.0, 1, -1]]]), np.append(y, 1 - label))
        first, second = model(), model()
        one = record(monkeypatch, lambda first=first, left=left: first.fit(*left))
        two = record(monkeypatch, lambda second=second, right=right: second.fit(*right), frozen=one)
        assert one.noise == two.noise
        assert first.event_ == second.event_
        assert [name for name, _ in one.noise].count("release_choices") == 2
        events = released_events(first.event_)
        gaussian = [event for event in events if isinstance(event, DiscreteGaussianEvent)]
        moves = [(name, a - b) for (name, _), a, b in zip(one.noise, one.raw, two.raw, strict=True)]
        sums = [gap.ravel().astype(object) for name, gap in moves if name == "release_gaussian"]
        for event, gap in zip(gaussian, sums, strict=True):
            assert gap.size == event.dimension
            assert int(gap @ gap) <= event.l2_squared
        choices = [np.abs(gap).max(axis=1).sum() for name, gap in moves if name == "release_choices"]
        assert 0 < max(choices) <= limit
        assert {noise for name, noise in one.noise if name == "release_choices"} == {
            event.epsilon for event in events if isinstance(event, ExponentialEvent)
        }


def crossing(rows: int) -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(0)
    X = made.uniform(-1, 1, (rows, 4))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.usefixtures("seeded")
def test_interactions_are_found_that_no_additive_model_can_have() -> None:
    X, y = crossing(6000)
    found = []
    for epsilon in ("0.5", 3, 100):
        model = BoostedTreesClassifier(epsilon=epsilon, delta="1e-5", bounds=(-1, 1), classes=[0, 1])
        found.append(model.fit(X[:4500], y[:4500]).score(X[4500:], y[4500:]))
        assert np.allclose(model.predict_proba(X[:5]).sum(axis=1), 1)
    assert found[0] > 0.7
    assert found[1] > 0.9
    assert found[2] > 0.96
    assert model.feature_importances_[:2].sum() > 0.7
    assert model.privacy_report().releases[1].startswith("400 × questions of a level: one of 256 candidates")


@pytest.mark.usefixtures("seeded")
def test_regression_follows_epsilon() -> None:
    made = np.random.default_rng(3)
    X = made.uniform(0, 1, size=(5000, 3))
    y = 8 * X[:, 0] * X[:, 1] + np.sin(6 * X[:, 2]) + 0.3 * made.normal(size=5000)
    possible = 1 - 0.09 / y.var()
    for epsilon, slack in ((1, 0.25), (100, 0.05)):
        model = BoostedTreesRegressor(epsilon=epsilon, delta="1e-5", bounds=(0, 1), target_bounds=(-2, 10))
        assert model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) > possible - slack
