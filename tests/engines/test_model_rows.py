"""Rows for a model: every engine hands over the same ones, and a fit releases the same integers before noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.makers import MAKERS
from support.bits import SeededBits
from support.spark import spark_engine
from support.toy_curators import toy_curator
from tacit.learn import (
    AdditiveRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GaussianNB,
    LinearRegression,
    LogisticRegression,
    release,
)
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve_rows
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, TEXT, decimal
from tacit.releases.model import _columns

SECRET = b"k" * 32
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-4", "bounds": [(0, 100), (-1, 1), (0, 1), (0, 100)]}
LISTED: dict[str, Any] = {"epsilon": 2, "delta": "1e-4", "bounds": [(0, 100)]}
FEATURES = "age, dose, risk, cost"
#: Estimator, and what is selected.
MODELS: dict[str, tuple[Any, str]] = {
    "bayes": (GaussianNB(**PRICE, classes=["ill", "well"]), f"{FEATURES}, outcome"),
    "softmax": (LogisticRegression(**PRICE, classes=[1, 2, 4.0], steps=2), f"{FEATURES}, ward"),
    "line": (LinearRegression(**PRICE, target_bounds=(0, 50), steps=2), f"{FEATURES}, stay"),
    "codes of a margin": (
        LogisticRegression(
            **LISTED, classes=[True, False], class_weight={True: 2}, steps=2, categories={1: ["ill", "well"], 2: [5, 2]}
        ),
        "age, outcome, ward, risk",
    ),
    "codes of shapes": (
        AdditiveRegressor(**LISTED, target_bounds=(0, 50), rounds=2, categories={0: ["ill", "well"], 2: [1, 2]}),
        "outcome, age, ward, stay",
    ),
    "codes of trees": (
        BoostedTreesClassifier(**LISTED, classes=[1, 2, 3], trees=2, categories={1: [1, 2], 2: [True], 3: 7}),
        "age, ward AS w, risk, outcome, ward",
    ),
}


def catalog() -> Catalog:
    columns = (
        Column("patient", INTEGER),
        Column("age", INTEGER),
        Column("dose", DOUBLE),
        Column("risk", BOOLEAN),
        Column("cost", decimal(2)),
        Column("outcome", TEXT),
        Column("ward", INTEGER),
        Column("stay", DOUBLE),
        Column("nothing", DOUBLE),
    )
    return Catalog((Table("visits", columns, population="p", unit="patient"),), (Population("p"),))


def visits(persons: int = 60) -> pa.Table:
    """Three visits each, and values at, beyond and between bounds, and none."""
    made = np.random.default_rng(3)
    count = persons * 3
    dose = made.normal(size=count)
    dose[:12] = [1e308, -1e308, 5e-324, -5e-324, 1.0, -1.0, 0.5 / 2**20, 1.5 / 2**20, np.nan, np.inf, 1e-310, 0.3]
    cost = np.round(made.uniform(-20, 120, size=count), 2)
    return pa.table(
        {
            "patient": np.repeat(np.arange(persons), 3),
            "age": pa.array([None if each % 17 == 0 else each for each in made.integers(-10, 110, count).tolist()]),
            "dose": pa.array(dose, from_pandas=False),
            "risk": pa.array([None if each == 2 else bool(each) for each in made.integers(0, 3, count).tolist()]),
            "cost": pa.array(cost).cast(pa.decimal128(10, 2), safe=False),
            "outcome": pa.array(made.choice(["ill", "well", "Well", "other"], size=count)),
            "ward": pa.array([None if each == 0 else each for each in made.integers(0, 6, count).tolist()]),
            "stay": made.gamma(2.0, 8.0, size=count),
            "nothing": pa.array([None] * count, pa.float64()),
        }
    )


def rows_of(engine: Any, name: str) -> Any:
    model, selected = MODELS[name]
    relation = resolve_rows(f"SELECT {selected} FROM visits", catalog())
    columns = _columns(relation, model)
    return columns.read(engine, relation, SECRET)


def integers(monkeypatch: pytest.MonkeyPatch, engine: Any, name: str) -> list[Any]:
    """What a fit to the rows of an engine releases, before noise; noise is the same every time."""
    X, y = rows_of(engine, name)
    kept: list[Any] = []
    bits, true = SeededBits(7), release.release_gaussian

    def recording(raw: Any, sigma2: Any) -> Any:
        kept.append(np.array(raw))
        return true(raw, sigma2)

    model = MODELS[name][0]
    with monkeypatch.context() as patched:
        patched.setattr(entropy, "current", lambda: bits)
        patched.setattr(release, "release_gaussian", recording)
        type(model)(**model.get_params()).fit(X, y)
    return kept


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Any]:
    with MAKERS["duckdb"](catalog(), {"visits": visits()}) as made:
        yield made


@pytest.fixture(scope="module", params=["postgres", pytest.param("spark", marks=pytest.mark.spark)])
def other(request: pytest.FixtureRequest) -> Iterator[Any]:
    with {**MAKERS, "spark": spark_engine}[request.param](catalog(), {"visits": visits()}) as made:
        yield made


@pytest.mark.parametrize("name", MODELS)
def test_rows_and_integers_are_those_of_duckdb(
    monkeypatch: pytest.MonkeyPatch, duckdb: Any, other: Any, name: str
) -> None:
    for ours, theirs in zip(rows_of(duckdb, name), rows_of(other, name), strict=True):
        assert list(map(repr, np.ravel(ours).tolist())) == list(map(repr, np.ravel(theirs).tolist()))
    here, there = (integers(monkeypatch, each, name) for each in (duckdb, other))
    assert len(here) == len(there) > 0
    for one, two in zip(here, there, strict=True):
        assert one.dtype == two.dtype == np.int64
        np.testing.assert_array_equal(one, two)
        assert one.any()


def test_the_order_of_rows_is_that_of_their_values(duckdb: Any) -> None:
    """Not of storage, which depends on when a row came."""
    X, y = rows_of(duckdb, "bayes")
    keys = [(*(np.where(np.isnan(row), np.inf, row)), label) for row, label in zip(X, y, strict=True)]
    assert keys == sorted(keys)
    assert len(keys) == 60


def test_a_column_of_nulls_is_read_like_any(duckdb: Any, other: Any) -> None:
    relation = resolve_rows("SELECT nothing, stay, ward FROM visits", catalog())
    shown = [slot for slot, part in enumerate(relation.fields) if part.name]
    for engine in (duckdb, other):
        raw, labels = engine.examples(relation, shown[:2], shown[2], SECRET)
        assert np.isnan(raw[:, 0]).all()
        assert not np.isnan(raw[:, 1]).any()
        assert len(raw) == len(labels) == 60


def test_a_curator_fits_to_rows_of_a_server() -> None:
    with MAKERS["postgres"](catalog(), {"visits": visits()}) as made:
        curator = toy_curator(catalog(), made, {"accounting": "approx", "epsilon": "10", "delta": "1e-2"})
        sql = "SELECT CLAMP(age, 0, 100) AS age, CLAMP(dose, -1, 1) AS dose, outcome FROM visits"
        fitted = curator.fit(GaussianNB(epsilon=2, delta="1e-4", classes=["ill", "well"]), sql)
        assert fitted.model.class_prior_.sum() == pytest.approx(1)
        assert (fitted.features, fitted.target) == (("age", "dose"), "outcome")
        # Text is categories.
        coded = "SELECT outcome, CLAMP(stay, 0, 50) AS stay FROM visits"
        trees = BoostedTreesRegressor(epsilon=2, delta="1e-4", trees=2, categories={"outcome": ["ill", "well"]})
        fitted = curator.fit(trees, coded)
        assert (fitted.features, fitted.target) == (("outcome",), "stay")
        assert fitted.model.predict([["ill"], ["well"]]).shape == (2,)
