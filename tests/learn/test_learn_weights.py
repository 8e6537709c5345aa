"""Weights of rows and classes, declared categories, and columns by name: bounded, exact, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from learn.replay import record, released_events
from tacit.core.errors import InputError
from tacit.learn import (
    AdditiveClassifier,
    AdditiveRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from tacit.learn.integer_rows import SHARES, shared, shared_squares
from tacit.learn.reading import Categories, Encoding

ROWS = arrays(np.int64, (4, 3), elements=st.integers(-(1 << 14), 1 << 14))
PRIVACY: dict[str, Any] = {"epsilon": 1, "delta": "1e-3", "bounds": [(-2, 2), None], "max_weight": 3}
TOWNS = ["a", "b", "c"]


@given(ROWS, arrays(np.int64, 4, elements=st.integers(0, SHARES)))
def test_a_share_of_a_row_is_no_longer_than_the_row(rows: np.ndarray, shares: np.ndarray) -> None:
    whole = (rows.astype(object) ** 2).sum(axis=1)
    for made, power in ((shared, 2), (shared_squares, 1)):
        found = (made(rows, shares).astype(object) ** 2).sum(axis=1)
        for part, row, share in zip(found, whole, shares, strict=True):
            # The square of the norm is at most the square of the share, or the share, of that of the row.
            assert part * SHARES**power <= row * int(share) ** power
    assert (shared(rows, np.full(4, SHARES)) == rows).all()
    assert (shared_squares(rows, np.full(4, SHARES)) == rows).all()


@pytest.mark.parametrize("largest", [Fraction(1, 10**400), "1e-151", "1e151", Fraction(10**400)])
def test_a_largest_weight_that_is_no_ordinary_float_is_refused(largest: Any) -> None:
    # As a float it would be zero or infinite, and zero over zero became a share of -2**63.
    model = LogisticRegression(epsilon=1, delta="1e-3", bounds=(0, 1), classes=[0, 1], max_weight=largest)
    for wrong in (lambda: model.price(1), lambda: model.fit([[0.5]], [1], sample_weight=[0.0])):
        with pytest.raises(InputError, match="max_weight"):
            wrong()


def mixed(rows: int = 60) -> tuple[list[list[Any]], list[int], list[float]]:
    made = np.random.default_rng(8)
    values = made.normal(size=rows)
    X = [[float(value), TOWNS[place]] for value, place in zip(values, made.integers(0, 3, rows), strict=True)]
    return X, (values > 0).astype(int).tolist(), made.uniform(0, 3, rows).tolist()


KINDS: dict[str, Callable[..., Any]] = {
    "logistic": lambda **more: LogisticRegression(**PRIVACY, classes=[0, 1], steps=4, class_weight={1: 4}, **more),
    "bounded": lambda **more: LogisticRegression(**PRIVACY, classes=[0, 1], steps=4, standardize=False, **more),
    "line": lambda **more: LinearRegression(**PRIVACY, target_bounds=(0, 1), steps=4, **more),
    "poisson": lambda **more: PoissonRegressor(**PRIVACY, target_bounds=(0, 1), steps=4, **more),
    "additive": lambda **more: AdditiveClassifier(**PRIVACY, classes=[0, 1], rounds=4, class_weight={0: 2}, **more),
    "additive regression": lambda **more: AdditiveRegressor(**PRIVACY, target_bounds=(0, 1), rounds=4, **more),
    "boosted": lambda **more: BoostedTreesClassifier(**PRIVACY, classes=[0, 1], trees=4, **more),
    "boosted regression": lambda **more: BoostedTreesRegressor(**PRIVACY, target_bounds=(0, 1), trees=4, **more),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("seeded")
def test_replay_on_neighbours(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A row of any weight and any category more: no input of the noise moves more than declared."""
    monkeypatch.setattr("tacit.learn.boosting.draw", lambda weights: int(np.argmax(weights)))
    monkeypatch.setattr("tacit.learn.boosting._shuffled", np.arange)
    X, y, weights = mixed()
    for row, weight in (([2.0, "c"], 3.0), ([math.nan, None], 1e300), ([-math.inf, [1]], math.nan), ([1, "?"], -1)):
        first, second = (KINDS[name](categories={1: TOWNS}) for _ in range(2))
        one = record(monkeypatch, partial(first.fit, [*X, row], [*y, 1], [*weights, weight]))
        two = record(monkeypatch, partial(second.fit, X, y, weights), frozen=one)
        assert one.noise == two.noise
        assert first.event_ == second.event_
        moved = 0
        for event, before, after in zip(released_events(first.event_), one.raw, two.raw, strict=True):
            gap = (before - after).ravel().astype(object)
            assert gap.size == event.dimension
            assert int(gap @ gap) <= event.l2_squared
            moved += int(gap @ gap)
        assert (moved > 0) == (weight > 0), "a weight of nothing moves nothing"


@pytest.mark.usefixtures("seeded")
def test_weights_do_what_copies_of_rows_do() -> None:
    """With plenty of privacy, a model of weighted rows is that of rows drawn as often as they weigh."""
    made = np.random.default_rng(5)
    X = made.uniform(-1, 1, (8000, 2))
    y = (made.random(8000) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    common: dict[str, Any] = {"epsilon": 500, "delta": "1e-5", "bounds": (-1, 1), "classes": [0, 1]}
    rare = np.where(y == 1, 1.0, 4.0)
    weighted = LogisticRegression(**common, max_weight=4).fit(X, y, sample_weight=rare)
    by_class = LogisticRegression(**common, class_weight={0: 4, 1: 1}).fit(X, y)
    plain = LogisticRegression(**common).fit(X, y)
    # Four times as many of class 0 lowers the constant by ln 4 and leaves the slopes.
    for model in (weighted, by_class):
        assert abs(plain.intercept_[0] - model.intercept_[0] - math.log(4)) < 0.1
        assert abs(plain.coef_[0][0] - model.coef_[0][0]) < 0.15


@pytest.mark.usefixtures("seeded")
def test_categories_are_learned_by_every_kind_of_model() -> None:
    made = np.random.default_rng(6)
    towns = np.array(TOWNS)[made.integers(0, 3, 6000)]
    frame = pd.DataFrame({"size": made.uniform(0, 5, 6000), "town": towns})
    y = (towns == "b").astype(int) ^ (made.random(6000) < 0.05)
    common: dict[str, Any] = {"epsilon": 2, "delta": "1e-5", "bounds": {"size": (0, 5)}, "classes": [0, 1]}
    kinds: dict[Any, dict[str, Any]] = {
        LogisticRegression: {},
        AdditiveClassifier: {},
        BoostedTreesClassifier: {"trees": 40},
    }
    for kind, more in kinds.items():
        for listed in (TOWNS, 50):
            model = kind(**common, **more, categories={"town": listed}).fit(frame, y)
            assert model.score(frame, y) > 0.93, (kind, listed)
            assert model.price(2).guarantee == model.guarantee_
            # The same frame from Polars gives the same bits.
            other = pl.DataFrame({"size": frame["size"].to_numpy(), "town": towns.tolist()})
            assert (model.predict_proba(other) == model.predict_proba(frame)).all()
    names = LogisticRegression(**common, categories={"town": TOWNS}).fit(frame, y).get_feature_names_out()
    assert names.tolist() == ["size", "town=a", "town=b", "town=c"]


def test_a_category_is_what_is_declared() -> None:
    listed = Categories.read(TOWNS, "town")
    assert listed.codes(["c", "a", None, 3, [1], math.nan, "b"]).tolist() == [2, 0, -1, -1, -1, -1, 1]
    hashed = Categories.read(7, "town")
    codes = hashed.codes(["c", 3, 3.0, True, None, math.nan, [1]])
    assert codes[1] == codes[2]
    assert (codes[:4] >= 0).all()
    assert (codes[4:] == -1).all()
    numbers = Encoding.of({1: [10, 20]}, [(0, 1), None], 2, None, one_hot=True)
    assert numbers.read(np.array([[0.5, 20.0], [0.25, 30.0]])).tolist() == [[0.5, 0.0, 1.0], [0.25, 0.0, 0.0]]
    assert Encoding.of({1: [10, 20]}, (0, 1), 2, None, one_hot=False).read([[0.5, 20], [1]])[0].tolist() == [0.5, 1.0]


def test_what_is_not_declared_is_asked_for() -> None:
    common: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "classes": [0, 1]}
    frame = pd.DataFrame({"size": [1.0, 2.0], "town": ["a", "b"]})
    for arguments, word in (
        ({"bounds": {"size": (0, 5)}, "categories": {"twon": TOWNS}}, "twon"),
        ({"bounds": {"width": (0, 5)}, "categories": {"town": TOWNS}}, "width"),
        ({"bounds": {"size": (0, 5)}}, "town"),
        ({"bounds": {"size": (0, 5)}, "categories": {"town": "abc"}}, "town"),
    ):
        with pytest.raises(InputError, match=word):
            LogisticRegression(**common, **arguments).fit(frame, [0, 1])
    with pytest.raises(InputError, match="max_weight"):
        LogisticRegression(**common, bounds=(0, 1)).fit([[0.0], [1.0]], [0, 1], sample_weight=[1, 2])
