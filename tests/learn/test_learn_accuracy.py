"""Accuracy follows epsilon: more of it is better on average, and with plenty the private score is the plain one.

A rival's logistic regression once ignored epsilon altogether, and no test noticed.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler as PlainScaler

from tacit.learn import LogisticRegression


@pytest.mark.usefixtures("seeded")
def test_binary_accuracy_grows_with_epsilon() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    bounds = list(zip(X.min(axis=0), X.max(axis=0), strict=True))
    scores = []
    for epsilon in ("0.02", "0.2", 2, 200):
        found = []
        for fold in range(6):
            train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=fold, stratify=y)
            fitted = LogisticRegression(epsilon=epsilon, delta="2e-4", bounds=bounds, classes=[0, 1])
            found.append(fitted.fit(train, y_train).score(test, y_test))
        scores.append(float(np.mean(found)))
    assert scores[0] < scores[1] < scores[2] < scores[3] + 0.01
    assert scores[0] < 0.85, "noise must be felt"
    assert scores[1] > 0.82
    assert scores[2] > 0.94
    scaled = PlainScaler().fit_transform(X)
    train, test, y_train, y_test = train_test_split(scaled, y, test_size=0.3, random_state=0, stratify=y)
    assert scores[3] > Plain(max_iter=1000).fit(train, y_train).score(test, y_test) - 0.02


@pytest.mark.usefixtures("seeded")
def test_multinomial_accuracy_grows_with_epsilon() -> None:
    X, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=1, stratify=y)
    scores = [
        LogisticRegression(epsilon=epsilon, delta="1e-4", bounds=(0, 16), classes=range(10))
        .fit(train, y_train)
        .score(test, y_test)
        for epsilon in ("0.1", 1, 100)
    ]
    assert scores == sorted(scores)
    assert scores[1] > 0.85
    assert scores[2] > 0.93, "without privacy it is .96"


@pytest.mark.usefixtures("seeded")
def test_mini_batches_learn_as_well() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    bounds = list(zip(X.min(axis=0), X.max(axis=0), strict=True))
    fitted = LogisticRegression(epsilon=2, delta="2e-4", bounds=bounds, classes=[0, 1], batch_rate="0.25", steps=80)
    assert fitted.fit(X, y).score(X, y) > 0.92
    assert fitted.guarantee_.epsilon <= 2
