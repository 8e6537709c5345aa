"""Every estimator, and one of each kind."""

from __future__ import annotations

from typing import Any

from tacit.learn import (
    PCA,
    AdditiveClassifier,
    AdditiveRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GaussianNB,
    KMeans,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MinMaxScaler,
    PoissonRegressor,
    Ridge,
    StandardScaler,
)


def estimators() -> list[Any]:
    """Every estimator, with so much epsilon that what the checks expect of a fit can be seen through the noise."""
    plenty = {"epsilon": 1000, "delta": "1e-3", "bounds": (-10, 10)}
    classes = plenty | {"classes": "discover", "max_weight": 10}
    target = plenty | {"target_bounds": (-100, 100), "max_weight": 10}
    positive = plenty | {"max_weight": 10}
    return [
        LogisticRegression(**classes),
        LinearSVC(**classes),
        GaussianNB(**plenty, classes="discover"),
        AdditiveClassifier(**classes, rounds=20),
        AdditiveRegressor(**target, rounds=20),
        BoostedTreesClassifier(**classes, trees=40, depth=2),
        BoostedTreesRegressor(**target, trees=40, depth=2),
        LinearRegression(**target),
        Ridge(**target),
        PoissonRegressor(**positive, target_bounds=(0, 100)),
        PCA(**plenty),
        KMeans(**plenty, n_clusters=2),
        StandardScaler(**plenty),
        MinMaxScaler(bounds=(-10, 10)),
    ]


#: One estimator of each kind; tests of all others are deep.
SHOWN = (AdditiveClassifier, Ridge, KMeans, StandardScaler)
