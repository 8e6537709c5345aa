"""Private choice among models: the total is stated, rows have one use each, and the better candidate wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.accounting.compose import compose
from tacit.learn import LinearRegression, LogisticRegression, PrivateSearch, Ridge
from tacit.learn import search as searching
from tacit.mechanisms.permute_and_flip import PermuteAndFlip

COMMON: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "bounds": (-3, 3), "classes": [0, 1], "steps": 10}


def table(rows: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    made = np.random.default_rng(1)
    X = made.normal(size=(rows, 3))
    return X, (X[:, 0] + 0.3 * made.normal(size=rows) > 0).astype(int)


@pytest.mark.usefixtures("seeded")
def test_the_better_candidate_is_chosen_and_all_are_paid_for() -> None:
    X, y = table()
    # The first is held so tightly that it learns nothing.
    candidates = [LogisticRegression(**COMMON, regularization=2**20), LogisticRegression(**COMMON)]
    found = PrivateSearch(candidates=candidates, epsilon=1).fit(X, y)
    assert found.best_index_ == 1
    assert found.score(X, y) > 0.85
    assert (found.predict(X) == found.best_estimator_.predict(X)).all()
    total = compose([*(each.event_ for each in found.candidates_), found.event_.events[-1]], delta="1e-5")  # type: ignore[attr-defined]
    assert found.guarantee_.epsilon <= total.epsilon
    assert found.guarantee_.epsilon > 1.5, "two fits and a choice cost more than one"
    assert "choice among 2" in str(found.privacy_report())


@pytest.mark.usefixtures("seeded")
def test_regressions_are_judged_by_distance() -> None:
    X, _ = table()
    y = X @ [1.0, -1.0, 0.5]
    line = {"epsilon": 1, "delta": "1e-5", "bounds": (-3, 3), "target_bounds": (-8, 8)}
    candidates = [Ridge(**line, alpha=10**7), LinearRegression(**line, steps=10)]  # type: ignore[arg-type]
    assert PrivateSearch(candidates=candidates, epsilon=1).fit(X, y).best_index_ == 1
    assert searching._points(1.0, 1.0, 2.0) == 100
    assert searching._points(1.0, float("nan"), 2.0) == 0
    assert searching._points(-9.0, 9.0, 2.0) == 0


@pytest.mark.usefixtures("seeded")
def test_a_row_that_judges_moves_scores_by_one_and_trains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table(60)
    seen: list[list[int]] = []
    fitted: list[int] = []
    monkeypatch.setattr(searching, "sample_rows", lambda count, _: np.arange(count) >= 50)
    monkeypatch.setattr(PermuteAndFlip, "release", lambda _, scores: seen.append(list(scores)) or 0)
    true = LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, X, y: (fitted.append(len(X)), true(self, X, y))[1])
    rows = np.vstack([X, [[np.nan, np.inf, 1e9]]])
    for labels in ([*y.tolist(), 1], [*y.tolist(), [3, "x"]]):
        model = PrivateSearch(candidates=[LogisticRegression(**COMMON)] * 2, epsilon=1)
        model.fit(rows, labels)
        again = model._score(model.candidates_[0], [(X[i : i + 1], y[i]) for i in range(50, 60)])
        assert 0 <= seen[-1][0] - again <= 1
    assert fitted == [50] * 4
