"""Every estimator within scikit-learn's own: pipelines, searches, calibration, votes, one against the rest, joblib."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier, VotingRegressor
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from learn.every_estimator import SHOWN, estimators
from tacit.learn import MinMaxScaler, Ridge
from tacit.learn.estimator import UnpaidReadingWarning

pytestmark = pytest.mark.usefixtures("seeded")
X = np.random.default_rng(3).uniform(-10, 10, (300, 3))
TWO = (X[:, 0] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-3, 3])
TARGET = np.clip(3 * X[:, 0], 0, 100)

SEARCHES: dict[str, Callable[[Any], Any]] = {
    "GridSearchCV": lambda model: GridSearchCV(model, {"epsilon": [500, 1000]}, cv=2),
    "RandomizedSearchCV": lambda model: RandomizedSearchCV(
        model, {"epsilon": [500, 900, 1000]}, n_iter=2, cv=2, random_state=0
    ),
}
OF_CLASSIFIERS: dict[str, Callable[[Any], Any]] = {
    "CalibratedClassifierCV": lambda model: CalibratedClassifierCV(model, cv=2),
    "VotingClassifier": lambda model: VotingClassifier([("a", model), ("b", clone(model))]),
    "BaggingClassifier": lambda model: BaggingClassifier(model, n_estimators=2),
}
PREDICTORS = [
    pytest.param(each, id=type(each).__name__, marks=[] if isinstance(each, SHOWN) else [pytest.mark.deep])
    for each in estimators()
    if is_classifier(each) or is_regressor(each)
]
TRANSFORMERS = [each for each in estimators() if not (is_classifier(each) or is_regressor(each))]


@pytest.mark.parametrize("estimator", PREDICTORS)
def test_a_predictor_within_scikit_learn(estimator: Any) -> None:
    y = TWO if is_classifier(estimator) else TARGET
    within = make_pipeline(MinMaxScaler(bounds=(-10, 10)), clone(estimator).set_params(bounds=(0, 1)))
    assert within.fit(X, y).score(X, y) > 0.5
    for search in SEARCHES.values():
        with pytest.warns(UnpaidReadingWarning, match="PrivateSearch"):
            assert search(clone(estimator)).fit(X, y).best_score_ > 0.5
    with joblib.parallel_backend("threading"), pytest.warns(UnpaidReadingWarning, match="PrivateSearch"):
        assert cross_val_score(clone(estimator), X, y, cv=2, n_jobs=2).mean() > 0.5
    wrappers = (
        OF_CLASSIFIERS if is_classifier(estimator) else {"VotingRegressor": lambda e: VotingRegressor([("a", e)])}
    )
    for name, wrapped in wrappers.items():
        with pytest.warns(UnpaidReadingWarning, match=f"^{name} fits this estimator several times"):
            fitted = wrapped(clone(estimator)).fit(X, y)
        assert fitted.score(X, y) > 0.5, name
    if is_classifier(estimator):
        with pytest.warns(UnpaidReadingWarning, match="^OneVsRestClassifier fits"):
            assert OneVsRestClassifier(clone(estimator)).fit(X, THREE).score(X, THREE) > 0.5
    stored = io.BytesIO()
    joblib.dump(within, stored)
    stored.seek(0)
    assert (joblib.load(stored).predict(X) == within.predict(X)).all()


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=lambda each: type(each).__name__)
def test_a_transformer_within_scikit_learn(estimator: Any) -> None:
    model = Ridge(epsilon=100, delta="1e-5", bounds=(-100, 100), target_bounds=(0, 100))
    within = make_pipeline(clone(estimator), model).fit(X, TARGET)
    assert np.isfinite(within.predict(X)).all()
    if hasattr(estimator, "epsilon"):
        name = f"{type(estimator).__name__.lower()}__epsilon"
        with pytest.warns(UnpaidReadingWarning, match="PrivateSearch"):
            assert set(GridSearchCV(within, {name: [500, 1000]}, cv=2).fit(X, TARGET).best_params_) == {name}
