"""What newcomers get wrong is refused or said in words, by types and declarations alone."""

from __future__ import annotations

import multiprocessing
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from tacit.core.errors import InputError
from tacit.learn import (
    PCA,
    AdditiveClassifier,
    BoostedTreesRegressor,
    GaussianNB,
    KMeans,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    StandardScaler,
)
from tacit.learn.estimator import NOISE_RULES, UnpaidReadingWarning

TWO: dict[str, Any] = {"epsilon": 1, "delta": "1e-5"}
X, Y = np.random.default_rng(1).uniform(0, 1, (60, 2)), np.arange(60) % 2


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(**TWO, bounds=[(0, 1)], classes=[0, 1]),
        GaussianNB(**TWO, bounds=[(0, 1)], classes=[0, 1]),
        AdditiveClassifier(**TWO, bounds=np.array([[0, 1]]), classes=[0, 1]),
        LinearRegression(**TWO, bounds=((0, 1),), target_bounds=(0, 1)),
        KMeans(**TWO, bounds=[(0, 1)]),
        PCA(**TWO, bounds=[(0, 1)]),
        StandardScaler(**TWO, bounds=[(0, 1)]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_one_pair_in_a_list_is_of_one_column(model: Any) -> None:
    for rows in (X, X.tolist(), pd.DataFrame(X, columns=["a", "b"])):
        with pytest.raises(InputError, match=r"bounds: list one pair, but the data has 2 columns; write \(low, high\)"):
            model.fit(rows, Y)
    with pytest.raises(InputError, match="one pair"):
        model.price(2)
    assert model.price(1).guarantee.epsilon <= 1


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_text_needs_categories(frame: Any) -> None:
    rows = frame(
        {
            "age": [0.5] * 60,
            "town": pd.Series(["A", "B"] * 30, dtype="string") if frame is pd.DataFrame else ["A", "B"] * 30,
        }
    )
    model = LogisticRegression(**TWO, bounds={"age": (0, 1), "town": (0, 1)}, classes=[0, 1])
    with pytest.raises(InputError, match=r"column town of the type (?i:str).*categories=\{'town': \[\.\.\.\]\}"):
        model.fit(rows, Y)
    encoded = LogisticRegression(**TWO, bounds={"age": (0, 1)}, categories={"town": ["A", "B"]}, classes=[0, 1])
    assert encoded.fit(rows, Y).coef_.shape == (1, 3)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        ([0, 1], np.array(["no", "yes"] * 30)),
        (["no", "yes"], Y),
        ([0, 1], pd.Series(["no", "yes"] * 30, dtype="string")),
    ],
)
def test_labels_of_another_type_than_the_classes_are_refused(classes: Any, labels: Any) -> None:
    with pytest.raises(InputError, match="give both as one kind"):
        GaussianNB(**TWO, bounds=(0, 1), classes=classes).fit(X, labels)


def test_a_large_delta_is_questioned_at_once_and_in_the_report() -> None:
    with pytest.warns(UserWarning, match=r"^delta = 0.1 allows a fit that publishes one row in 10;"):
        fitted = StandardScaler(epsilon=1, delta="0.1", bounds=(0, 1)).fit(X)
    (caution,) = fitted.privacy_report().cautions
    assert caution.startswith("delta = 0.1 allows a fit that publishes one row in 10;")
    assert not StandardScaler(**TWO, bounds=(0, 1)).fit(X).privacy_report().cautions


def test_errors_name_the_class_that_was_called_and_seeds_are_explained() -> None:
    with pytest.raises(TypeError, match=r"LogisticRegression\.__init__\(\) missing 1 required keyword-only.*epsilon"):
        LogisticRegression()
    with pytest.raises(TypeError, match=r"PoissonRegressor\.fit\(\) missing 1 required positional argument: 'y'"):
        PoissonRegressor(**TWO, bounds=(0, 1), target_bounds=(0, 1)).fit(X)
    for kind in (LogisticRegression, BoostedTreesRegressor):
        with pytest.raises(InputError, match="random_state: is no parameter: whoever knows a seed"):
            kind(epsilon=1, random_state=0)


def test_unpaid_reading_is_said_once() -> None:
    model = GaussianNB(**TWO, bounds=(0, 1), classes=[0, 1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        GridSearchCV(model, {"epsilon": [1, 2, 3]}, cv=3).fit(X, Y)
        assert [each.category for each in said] == [UnpaidReadingWarning]
        cross_val_score(model, X, Y)
    assert [each.category for each in said] == [UnpaidReadingWarning] * 2


def test_a_worker_says_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers get a copy of the estimator for each fold, and the filters of the process that sent it."""
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
    monkeypatch.setattr("tacit.learn.estimator._SAID_BY_WORKER", set())
    model = GaussianNB(**TWO, bounds=(0, 1), classes=[0, 1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            cross_val_score(clone(model), X, Y)
    assert [each.category for each in said] == [UnpaidReadingWarning]


def test_centres_stay_in_the_declared_box() -> None:
    bounds = [(0, 1), (10, 12)]
    for _ in range(5):
        centers = (
            KMeans(epsilon="0.05", delta="1e-5", bounds=bounds, n_clusters=6).fit(X * [1, 2] + [0, 10]).cluster_centers_
        )
        assert (centers >= [-1e-3, 10 - 1e-3]).all()
        assert (centers <= [1 + 1e-3, 12 + 1e-3]).all()


@pytest.mark.usefixtures("seeded")
def test_reports_say_where_noise_explains_the_fit() -> None:
    """By released numbers: nothing is said where rows rule."""
    drawn = np.random.default_rng(2)
    labels = drawn.integers(0, 2, 3000)
    rows = np.clip(drawn.normal(0.3 + 0.4 * labels[:, None], 0.05, (3000, 2)), 0, 1)
    for epsilon, hidden in (("0.01", True), (3, False)):
        bayes = GaussianNB(epsilon=epsilon, delta="1e-5", bounds=(0, 1), classes=[0, 1]).fit(rows, labels)
        assert bayes.privacy_report().cautions == ((NOISE_RULES,) if hidden else ())
        clusters = KMeans(epsilon=epsilon, delta="1e-5", bounds=(0, 1), n_clusters=2).fit(rows)
        assert ("clusters hold no more rows than noise" in str(clusters.privacy_report())) is hidden
