"""Linear models of tables in which noise explains the fit: no worse than the base rate, and they say so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import log_loss

from support.bits import SeededBits
from tacit.learn import LinearRegression, LinearSVC, LogisticRegression, PoissonRegressor, Ridge
from tacit.learn.estimator import NOISE_RULES
from tacit.learn.gradient import shrunk
from tacit.noise import entropy

SMALL: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "bounds": (-4, 4)}


def table(rows: int, told: float, seed: int) -> tuple[Any, Any]:
    made = np.random.default_rng(seed)
    X = made.normal(size=(rows, 10))
    return X, (made.random(rows) < 1 / (1 + np.exp(-told * X[:, 0]))).astype(int)


def seeded(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    bits = SeededBits(seed)
    monkeypatch.setattr(entropy, "current", lambda: bits)


@pytest.mark.parametrize(("method", "worst"), [("gradient", 0.72), ("output", 0.70)])
def test_labels_that_nothing_tells_are_told_no_worse_than_by_a_coin(
    monkeypatch: pytest.MonkeyPatch, method: str, worst: float
) -> None:
    losses = []
    for seed in range(9):
        seeded(monkeypatch, seed)
        X, y = table(300, 0.0, seed)
        model = LogisticRegression(**SMALL, classes=[0, 1], method=method).fit(X, y)
        others, theirs = table(2000, 0.0, 99)
        losses.append(log_loss(theirs, model.predict_proba(others)))
    assert float(np.median(losses)) < worst
    assert float(np.median(losses)) > math.log(2) - 0.01


def test_objective_perturbation_shrinks_by_a_declared_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few rows it comes near the base rate; with many nothing is lost."""

    def loss(rows: int, told: float, epsilon: str, n: int | None) -> float:
        losses = []
        for seed in range(7):
            seeded(monkeypatch, seed)
            settings = {**SMALL, "epsilon": epsilon, "method": "objective", "n": n}
            model = LogisticRegression(**settings, classes=[0, 1]).fit(*table(rows, told, seed))
            others, theirs = table(2000, told, 99)
            losses.append(log_loss(theirs, model.predict_proba(others)))
        return float(np.mean(losses))

    assert loss(60, 0.0, "0.3", 60) < math.log(2) + 0.1 < loss(60, 0.0, "0.3", None) - 0.1
    assert loss(3000, 3.0, "1", 3000) < loss(3000, 3.0, "1", None) + 0.005


def test_what_can_be_told_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    seeded(monkeypatch, 5)
    model = LogisticRegression(**SMALL, classes=[0, 1]).fit(*table(2000, 3.0, 1))
    assert model.privacy_report().cautions == ()
    assert model.score(*table(2000, 3.0, 2)) > 0.8


@pytest.mark.parametrize("kind", [LinearRegression, Ridge, PoissonRegressor, LinearSVC, LogisticRegression])
def test_a_fit_that_noise_explains_carries_a_caution(monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    told = []
    for seed in range(5):
        seeded(monkeypatch, seed)
        X, y = table(100, 0.0, seed)
        more = {"classes": [0, 1]} if kind in (LinearSVC, LogisticRegression) else {"target_bounds": (0, 1)}
        told.append(NOISE_RULES in kind(**SMALL, **more).fit(X, y).privacy_report().cautions)
    assert sum(told) >= 3, told


def test_shrinkage_by_hand() -> None:
    """Slopes of squared length 8 with noise of 1 in each of two lose a quarter; shorter ones keep a tenth."""
    weights = np.array([[2.0], [2.0], [3.0]])
    found, kept = shrunk(weights, 1.0)
    assert kept == 0.75
    assert found.ravel().tolist() == pytest.approx([1.5, 1.5, 2.7])
    assert shrunk(weights / 4, 1.0)[0][:-1].ravel().tolist() == pytest.approx([0.05, 0.05])
    assert shrunk(weights, 0.0)[0].tolist() == weights.tolist()
