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
from tacit.learn.stored_rows import StoredRows
from tacit.noise import entropy
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
}
#: A statement of Spark takes a third of a second; these hold every kind of expression.
FEW = ("bayes", "logistic")


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

    monkeypatch.setattr(release, "release_gaussian", recording)
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
    relation = resolve_rows(f"SELECT age, dose, risk, cost{target and ', '}{target} FROM visits", known)
    shown = [slot for slot, part in enumerate(relation.fields) if part.name]
    classed = target in ("outcome", "ward", "risk")
    numbers, label = (shown[:-1], shown[-1]) if classed else (shown, None)
    raw, labels = engine.examples(relation, numbers, label, SECRET)
    X, y = (raw, labels) if classed or not target else (raw[:, :-1], raw[:, -1])
    here = learned(kept, model, lambda each: each.fit(X, y))
    assert model.sums_only()
    with engine.summing(relation, numbers, label, SECRET) as run:
        rows = StoredRows(len(numbers), run)
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
        # A model that needs rows reads them, and a failure of the database says nothing.
        with pytest.raises(BaseException, match="a row was read"):
            curator.fit(AdditiveClassifier(epsilon=2, delta="1e-4", classes=["ill", "well"]), sql)


def test_wide_rows_nest_no_deeper_than_databases_allow() -> None:
    written: list[str] = []

    def run(wanted: WholeSums) -> Any:
        written.extend(sql for _, sql in sum_statements(DuckDB(), wanted, "SELECT 1", None))
        return np.zeros((wanted.groups, len(wanted.sums)), dtype=np.int64)

    wide = StoredRows(1_500, run).to_steps(np.zeros(1), np.ones(1), 1 << 10).with_length()
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
