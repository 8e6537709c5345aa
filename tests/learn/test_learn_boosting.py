"""Boosted trees: integers per row, neighbours, interactions that are found, and convergence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.learn import BoostedTreesClassifier, BoostedTreesRegressor
from tacit.learn.boosting import DRAWN_QUESTIONS, ROW, DecisionTree, Forest, TreeQuestion, leaves_of, raw_leaf_sums
from tacit.learn.losses import WHOLE, Softmax, clip_residuals

PLACES = arrays(np.int64, (5, 3), elements=st.integers(0, 63))


@given(PLACES, st.integers(0, 2), arrays(np.int64, (5, 3), elements=st.integers(-40_000, 40_000)))
def test_a_row_adds_no_more_than_declared(places: np.ndarray, label: int, logits: np.ndarray) -> None:
    plan = Forest(3, 3, 3, 11_585, 4, 3)
    questions = TreeQuestion(0, 10), TreeQuestion(2, 32, np.arange(64)[::-1]), TreeQuestion(0, 40)
    leaves = leaves_of(places, questions)
    assert ((leaves >= 0) & (leaves < 8)).all()
    residuals = clip_residuals(Softmax().residuals(logits, np.full((5, 1), label)), np.full(5, plan.clip))
    shares = np.array([1024, 0, 1, 700, 1024])
    parts = [raw_leaf_sums(leaves[i : i + 1], residuals[i : i + 1], 8, shares[i : i + 1]) for i in range(5)]
    assert (raw_leaf_sums(leaves, residuals, 8, shares) == sum(parts)).all()
    for part in parts:
        assert int((part.astype(object) ** 2).sum()) <= plan.phases()[1].l2_squared


QUESTIONS = TreeQuestion(1, 30), TreeQuestion(0, 20, np.random.default_rng(5).permutation(64)), TreeQuestion(2, 50)


@given(PLACES)
def test_rows_walk_from_the_root_to_their_leaf(places: np.ndarray) -> None:
    for row, leaf in zip(places, leaves_of(places, QUESTIONS), strict=True):
        node = 0
        for asked in QUESTIONS:
            bin_ = row[asked.feature] if asked.ranks is None else asked.ranks[row[asked.feature]]
            node = 2 * node + int(bin_ >= asked.first)
        assert leaf == node


def test_contrasts_are_those_of_each_question() -> None:
    """Leaves differ by the first question, and below its yes by the second."""
    values = np.array([[0.0]] * 4 + [[1.0], [1.0], [3.0], [3.0]])
    found = DecisionTree(QUESTIONS, values).contrasts(3)
    assert found.tolist() == [4 / 2, (1 + 1 + 9 + 9) / 4, 0.0]


def test_a_bound_that_forgets_the_row_is_exceeded() -> None:
    """The test of the test: a residual of one with its row is longer than a residual of one."""
    part = raw_leaf_sums(np.zeros(1, np.int64), np.full((1, 1), WHOLE), 8)
    assert int((part**2).sum()) == WHOLE**2 + ROW**2 > WHOLE**2


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
    assert found[2] > 0.94
    assert model.feature_importances_[:2].sum() > 0.7
    assert model.privacy_report().releases[1].startswith("316 × leaves: 32 numbers")
    assert model.privacy_report().cautions == (DRAWN_QUESTIONS,)


@pytest.mark.usefixtures("seeded")
def test_regression_follows_epsilon() -> None:
    made = np.random.default_rng(3)
    X = made.uniform(0, 1, size=(5000, 3))
    y = 8 * X[:, 0] * X[:, 1] + np.sin(6 * X[:, 2]) + 0.3 * made.normal(size=5000)
    possible = 1 - 0.09 / y.var()
    for epsilon, slack in ((1, 0.25), (100, 0.05)):
        model = BoostedTreesRegressor(epsilon=epsilon, delta="1e-5", bounds=(0, 1), target_bounds=(-2, 10))
        assert model.fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) > possible - slack
