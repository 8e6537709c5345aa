"""Sums for a model where the rows are stored: integer by integer those of rows that are read into this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engines.makers import MAKERS
from support.bits import SeededBits
from support.spark import spark_engine
from support.toy_curators import toy_curator
from tacit.core.errors import InternalError
from tacit.core.row_sums import Whole, WholeSums, looked_up
from tacit.engines.duckdb.dialect import DuckDB
from tacit.engines.sql.row_sums import sum_statements
from tacit.learn import (
    PCA,
    AdditiveClassifier,
    AdditiveRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GammaRegressor,
    GaussianNB,
    KMeans,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    Ridge,
    StandardScaler,
    release,
)
from tacit.learn.integer_rows import Box
from tacit.learn.stored_rows import StoredRows
from tacit.noise import entropy
from tacit.paid_work.model_fit import _columns
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve_rows
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, TEXT, decimal

SECRET = b"k" * 32
BOUNDS = [(0, 100), (-1, 1), (0, 1), (0, 100)]
PRICE: dict[str, Any] = {"epsilon": 2, "delta": "1e-4", "bounds": BOUNDS}
NUMBER = PRICE | {"target_bounds": (0, 50)}
MODELS: dict[str, tuple[Any, str]] = {
    "scaler": (StandardScaler(**PRICE), ""),
    "bayes": (GaussianNB(**PRICE, classes=["ill", "well"]), "outcome"),
    "components": (PCA(**PRICE), ""),
    "clusters": (KMeans(**PRICE, n_clusters=3, steps=3), ""),
    "moments": (LinearRegression(**NUMBER, method="statistics"), "stay"),
    "ridge": (Ridge(**NUMBER, alpha="auto"), "stay"),
    "line": (LinearRegression(**NUMBER, steps=2), "stay"),
    "counts": (PoissonRegressor(**NUMBER, steps=2), "stay"),
    "amounts": (GammaRegressor(**NUMBER | {"target_bounds": (1, 50)}, steps=2), "stay"),
    "quantile": (QuantileRegressor(**NUMBER, steps=2), "stay"),
    "logistic": (LogisticRegression(**PRICE, classes=["ill", "well"], steps=2), "outcome"),
    "softmax": (LogisticRegression(**PRICE, classes=[1, 2, 4.0], steps=2), "ward"),
    "margin": (LinearSVC(**PRICE, classes=[True, False], steps=2), "risk"),
    "margins": (LinearSVC(**PRICE, classes=[1, 2, 3], steps=2), "ward"),
    "shapes": (AdditiveClassifier(**PRICE, classes=["ill", "well"], rounds=2), "outcome"),
    "more shapes": (AdditiveClassifier(**PRICE, classes=[1, 2, 4.0], class_weight={1: 3}, rounds=2), "ward"),
    "bends": (AdditiveRegressor(**NUMBER, rounds=2), "stay"),
    "trees": (BoostedTreesClassifier(**PRICE, classes=["ill", "well"], trees=3), "outcome"),
    "more trees": (BoostedTreesClassifier(**PRICE, classes=[1, 2, 4.0], class_weight={2: 3}, trees=3), "ward"),
    "leaves": (BoostedTreesRegressor(**NUMBER, trees=3), "stay"),
    "sure shapes": (
        AdditiveClassifier(**PRICE | {"epsilon": 3}, classes=[1, 2, 4.0], class_weight={1: 3}, rounds=2),
        "ward",
    ),
    "chosen trees": (BoostedTreesClassifier(**PRICE | {"epsilon": 30}, classes=["ill", "well"], trees=3), "outcome"),
    "chosen leaves": (BoostedTreesRegressor(**NUMBER | {"epsilon": 30}, trees=2, depth=2), "stay"),
    "sure trees": (BoostedTreesClassifier(**PRICE | {"epsilon": 3}, classes=["ill", "well"], trees=2), "outcome"),
    "weights": (LogisticRegression(**PRICE, classes=["ill", "well"], class_weight={"ill": 3}, steps=2), "outcome"),
}
#: Categories of text and of numbers, and weights of rows: what is selected beside the target, and the weight.
CODED: dict[str, tuple[str, str]] = {
    "codes of a line": ("age, outcome, ward", "dose"),
    "codes of a margin": ("age, outcome, ward", "dose"),
    "codes of shapes": ("outcome, age, ward", "cost"),
    "codes of trees": ("age, ward, risk, outcome", "cost"),
    "codes of chosen trees": ("age, ward, risk, outcome", "cost"),
    "codes of leaves": ("outcome, age", "dose"),
}
LISTED: dict[str, Any] = {"epsilon": 2, "delta": "1e-4", "bounds": [(0, 100)], "max_weight": "0.7"}
MODELS |= {
    "codes of a line": (
        LinearRegression(**LISTED, target_bounds=(0, 50), steps=2, categories={1: ["well", "no"], 2: [1, 3.0, 9]}),
        "stay",
    ),
    "codes of a margin": (
        LogisticRegression(
            **LISTED, classes=[True, False], class_weight={True: 2}, steps=2, categories={1: ["ill", "well"], 2: [5, 2]}
        ),
        "risk",
    ),
    "codes of shapes": (
        AdditiveRegressor(
            **LISTED | {"max_weight": 80}, target_bounds=(0, 50), rounds=2, categories={0: ["ill", "well"], 2: [1, 2]}
        ),
        "stay",
    ),
    "codes of trees": (
        BoostedTreesClassifier(
            **LISTED | {"max_weight": 80}, classes=[1, 2, 3], trees=2, categories={1: [1, 2], 2: [True], 3: ["ill"]}
        ),
        "ward",
    ),
    "codes of chosen trees": (
        BoostedTreesClassifier(
            **LISTED | {"max_weight": 80, "epsilon": 30},
            classes=[1, 2, 3],
            trees=2,
            depth=2,
            categories={1: [1, 2], 2: [True], 3: ["ill"]},
        ),
        "ward",
    ),
    "codes of leaves": (
        BoostedTreesRegressor(**LISTED, target_bounds=(0, 50), trees=3, categories={0: ["well", "other"]}),
        "stay",
    ),
}
#: A statement of Spark takes a third of a second; these hold every kind of expression.
FEW = ("bayes", "logistic", "codes of shapes", "codes of trees")


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


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything that gets noise, before it does."""
    kept: list[Any] = []
    true = release.release_gaussian

    def recording(raw: Any, sigma2: Any) -> Any:
        kept.append(np.array(raw))
        return true(raw, sigma2)

    chosen = release.release_choices

    def choosing(raw: Any, *more: Any) -> list[int]:
        kept.append(np.array(raw))
        return chosen(raw, *more)

    monkeypatch.setattr(release, "release_gaussian", recording)
    monkeypatch.setattr(release, "release_choices", choosing)
    return kept


def learned(kept: list[Any], model: Any, fit: Callable[[Any], Any]) -> list[Any]:
    kept.clear()
    with pytest.MonkeyPatch.context() as patched:
        bits = SeededBits(7)
        patched.setattr(entropy, "current", lambda: bits)
        fit(type(model)(**model.get_params()))
    return list(kept)


def compared(engine: Any, known: Catalog, name: str, kept: list[Any]) -> None:
    model, target = MODELS[name]
    features, weight = CODED.get(name, ("age, dose, risk, cost", ""))
    selected = ", ".join(each for each in (features, weight, target) if each)
    relation = resolve_rows(f"SELECT {selected} FROM visits", known)
    columns = _columns(relation, model, weight or None)
    X, y, weights = columns.read(engine, relation, SECRET)
    weighted = {} if weights is None else {"sample_weight": weights}
    here = learned(kept, model, lambda each: each.fit(X, y, **weighted))
    assert model.sums_only()
    with engine.summing(relation, columns.numbers, columns.classes, SECRET) as run:
        rows = columns.stored(run)
        there = learned(kept, model, lambda each: each.fit(rows, rows))
    assert len(here) == len(there) > 0
    for one, other in zip(here, there, strict=True):
        assert one.dtype == other.dtype == np.int64
        np.testing.assert_array_equal(one.ravel(), other.ravel())
        assert one.any()


def engine_of(name: str, known: Catalog) -> AbstractContextManager[Any]:
    return {**MAKERS, "spark": spark_engine}[name](known, {"visits": visits()})


@pytest.fixture(scope="module", params=["duckdb", "postgres", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    with engine_of(request.param, catalog()) as made:
        yield request.param, made


@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_the_rows(name: str, engine: Any, recorded: list[Any]) -> None:
    kind, made = engine
    if kind != "spark" or name in FEW:
        compared(made, catalog(), name, recorded)


def test_a_column_of_nulls_is_read_like_any(engine: Any) -> None:
    kind, made = engine
    if kind != "spark":
        relation = resolve_rows("SELECT nothing, stay, ward FROM visits", catalog())
        shown = [slot for slot, part in enumerate(relation.fields) if part.name]
        raw, labels = made.examples(relation, shown[:2], shown[2], SECRET)
        assert np.isnan(raw[:, 0]).all()
        assert not np.isnan(raw[:, 1]).any()
        assert len(raw) == len(labels) == 60


def test_a_curator_reads_no_row_of_a_database_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with MAKERS["postgres"](catalog(), {"visits": visits()}) as made:
        monkeypatch.setattr(type(made), "examples", lambda *_: pytest.fail("a row was read"))
        curator = toy_curator(catalog(), made, {"accounting": "approx", "epsilon": "10", "delta": "1e-2"})
        sql = "SELECT CLAMP(age, 0, 100) AS age, CLAMP(dose, -1, 1) AS dose, outcome FROM visits"
        fitted = curator.fit(GaussianNB(epsilon=2, delta="1e-4", classes=["ill", "well"]), sql)
        assert fitted.model.class_prior_.sum() == pytest.approx(1)
        assert (fitted.features, fitted.target) == (("age", "dose"), "outcome")
        # Text is categories, another column the weight; and hashed categories need rows.
        coded = "SELECT outcome, CLAMP(cost, 0, 100) AS cost, CLAMP(stay, 0, 50) AS stay FROM visits"
        trees = BoostedTreesRegressor(epsilon=2, delta="1e-4", trees=2, categories={"outcome": ["ill", "well"]})
        fitted = curator.fit(trees, coded, weight="cost")
        assert (fitted.features, fitted.target, fitted.model.max_weight) == (("outcome",), "stay", 100)
        assert "counts by cost" in fitted.receipt["answers"][0]["bounding"]
        assert fitted.model.predict([["ill"], ["well"]]).shape == (2,)
        with pytest.raises(BaseException, match="a row was read"):
            curator.fit(trees.set_params(categories={"outcome": 7}), coded, weight="cost")


def test_wide_rows_nest_no_deeper_than_databases_allow() -> None:
    written: list[str] = []

    def run(wanted: WholeSums) -> Any:
        written.extend(sql for _, sql in sum_statements(DuckDB(), wanted, "SELECT 1", []))
        return np.zeros((wanted.groups, len(wanted.sums)), dtype=np.int64)

    wide = StoredRows(1_500, run).to_steps(Box.read((-1, 1), None), 1 << 10).with_length()
    wide.sums([wide.columns[-1]])
    (text,) = written
    assert "(" * 20 not in text


def test_what_is_too_wide_for_a_statement_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with MAKERS["postgres"](catalog(), {"visits": visits()}) as made:
        monkeypatch.setattr(type(made), "summing", lambda *_: pytest.fail("1,700 columns in one statement"))
        curator = toy_curator(catalog(), made, {"accounting": "approx", "epsilon": "10", "delta": "1e-2"})
        many = GaussianNB(epsilon=2, delta="1e-4", bounds=(0, 100), classes=range(1_700))
        assert len(curator.fit(many, "SELECT age, ward FROM visits").model.classes_) == 1_700
    assert KMeans(**PRICE, n_clusters=64).sums_only()
    assert not KMeans(**PRICE, n_clusters=65).sums_only()


def test_numbers_that_could_fail_for_a_row_are_refused_before() -> None:
    number = Whole.column(0, -(2**40), 2**40)
    for wrong in (
        lambda: number * number,
        lambda: number.over(number),
        lambda: number.root(),
        lambda: looked_up([1, 2, 3], number.between(0, 3)),
    ):
        with pytest.raises(InternalError):
            wrong()
    assert (number.over(3).low, number.over(3).high) == (-(2**40 // 3), 2**40 // 3)
    assert (number.floored(4).low, number.between(-3, 5).high) == (-(2**36), 5)
