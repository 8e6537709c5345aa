"""Models on the ledger: rows stay inside, one of each person counts, and the fit is charged before it is read."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from support.bits import SeededBits
from support.clinic import open_clinic
from support.toy_curators import toy_curator
from tacit.accounting.compose import compose
from tacit.core.errors import BudgetError, FailedRunError, InputError, QueryError
from tacit.core.relations import REPLACE_ONE
from tacit.curator.curator import Curator
from tacit.engines.duckdb import DuckDBEngine
from tacit.engines.protocol import DataSource, Engine
from tacit.learn import PCA, BoostedTreesClassifier, GaussianNB, LogisticRegression, MinMaxScaler, Ridge
from tacit.ledger.errors import ConflictError
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, TEXT, decimal
from tacit.releases.payment import KeyLocks
from tacit.releases.receipt import verify_receipt

BUDGETS: dict[str, dict[str, Any]] = {
    "approx": {"accounting": "approx", "epsilon": "10", "delta": "1e-2"},
    "zcdp": {"accounting": "zcdp", "rho": "40", "delta": "1e-2"},
    "pure": {"epsilon": "40"},
}
SELECT = "SELECT age, dose, risk, outcome FROM visits"


def catalog(**population: Any) -> Catalog:
    columns = (
        Column("patient", INTEGER),
        Column("age", INTEGER, bounds=(0, 100)),
        Column("dose", DOUBLE, bounds=(-1.0, 1.0)),
        Column("risk", BOOLEAN),
        Column("cost", decimal(2), bounds=(Fraction(0), Fraction(100))),
        Column("outcome", TEXT, categories=("ill", "well")),
        Column("note", TEXT),
        Column("weight", DOUBLE),
    )
    visits = Table("visits", columns, population="patients", unit="patient")
    return Catalog((visits,), (Population("patients", **population),))


def rows_alone() -> Catalog:
    """The same rows, each of them a person."""
    single = Table("single", catalog().tables[0].columns[1:], population="patients", unit="row")
    return Catalog((single,), (Population("patients"),))


def frame(persons: int = 900, visits: int = 1) -> pa.Table:
    made = np.random.default_rng(5)
    patient = np.repeat(np.arange(persons), visits)
    age = made.integers(0, 100, size=len(patient))
    dose = made.uniform(-1, 1, size=len(patient))
    well = dose + (age - 50) / 60 + made.normal(size=len(patient)) * 0.1 > 0
    return pa.table(
        {
            "patient": patient,
            "age": age,
            "dose": dose,
            "risk": made.integers(0, 2, size=len(patient)).astype(bool),
            "cost": pa.array(np.round(50 + 30 * dose, 2)).cast(pa.decimal128(10, 2), safe=False),
            "outcome": np.where(well, "well", "ill"),
            "note": [f"secret {place}" for place in patient],
            "weight": dose,
        }
    )


def opened(rows: pa.Table, budget: str = "approx", *, described: Catalog | None = None) -> Any:
    known = described or catalog()
    return toy_curator(known, engine_of(rows, known), BUDGETS[budget])


def engine_of(rows: pa.Table, known: Catalog) -> DuckDBEngine:
    frames = {"visits": rows, "single": rows.drop_columns(["patient"])}
    return DuckDBEngine(known, {table.name: DataSource("frame", None, frames[table.name]) for table in known.tables})


def model(**changes: Any) -> LogisticRegression:
    return LogisticRegression(**({"epsilon": 2, "delta": "1e-4"} | changes))


def test_a_model_comes_back_charged_and_receipted(seeded: SeededBits) -> None:
    rows = frame()
    curator = opened(rows)
    plain = model()
    fitted = curator.fit(plain, SELECT, analyst="alice")
    assert not hasattr(plain, "coef_"), "a copy is fitted"
    assert fitted.model.classes_.tolist() == ["ill", "well"]
    X = np.column_stack([rows["age"], rows["dose"], rows["risk"]]).astype(float)
    assert fitted.model.score(X, rows["outcome"].to_numpy(zero_copy_only=False)) > 0.8
    report = verify_receipt(fitted.receipt, curator.public_key)
    assert report.ok, str(report)
    (answer,) = fitted.receipt["answers"]
    assert answer["query"] == SELECT
    assert "one row of each unit" in answer["bounding"]
    spent = {amount.currency: amount.amount for amount in curator.budget().spent}
    assert 1.9 < spent["epsilon"] <= 2
    assert spent["delta"] == Fraction(1, 10**4)
    assert fitted.model.guarantee_.epsilon <= spent["epsilon"] + Fraction(1, 10**9)
    (entry,) = curator.history()
    assert (entry.analyst, entry.committed) == ("alice", True)
    assert curator.ledger.verify().ok
    assert curator.check_receipt(fitted.receipt).ok


def test_text_is_categories_of_the_catalogue(seeded: SeededBits) -> None:
    curator = opened(frame())
    fitted = curator.fit(model(), "SELECT age, outcome, risk FROM visits")
    assert fitted.model.categories == {1: ["ill", "well"]}
    assert (fitted.features, fitted.target) == (("age", "outcome"), "risk")
    names = fitted.model.get_feature_names_out(fitted.features).tolist()
    assert names == ["age", "outcome=ill", "outcome=well"]
    assert fitted.model.predict([[40, "well"]]).shape == (1,)
    with pytest.raises(Refusal, match="models take numbers"):
        curator.fit(PCA(epsilon=1, delta="1e-4"), "SELECT age, outcome FROM visits")


def test_the_account_stops_it_before_data_is_read(seeded: SeededBits, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened(frame(100))
    monkeypatch.setattr(DuckDBEngine, "examples", lambda *_: pytest.fail("data was read"))
    with pytest.raises(BudgetError):
        curator.fit(model(epsilon=11), SELECT)
    assert curator.history() == ()


def test_a_fit_that_fails_stays_charged_and_says_nothing(seeded: SeededBits, monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened(frame(100))
    true = LogisticRegression.fit

    def failing(self: Any, X: Any, y: Any = None) -> Any:
        if len(X):
            raise InputError("X", f"row {X[0]} is odd")
        return true(self, X, y)

    monkeypatch.setattr(LogisticRegression, "fit", failing)
    with pytest.raises(FailedRunError) as caught:
        curator.fit(model(), SELECT)
    assert "odd" not in str(caught.value)
    assert curator.budget().spent[0].amount > 1


def test_an_estimator_that_releases_more_than_its_price_gets_nothing_out(
    seeded: SeededBits, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = opened(frame(100))
    true = LogisticRegression.fit

    def greedy(self: Any, X: Any, y: Any = None) -> Any:
        self.steps = 5 + len(X)
        return true(self, X, y)

    monkeypatch.setattr(LogisticRegression, "fit", greedy)
    with pytest.raises(FailedRunError):
        curator.fit(model(), SELECT)
    assert curator.budget().spent[0].amount > 1


@pytest.mark.parametrize("budget", ["approx", "zcdp"])
def test_kinds_of_account(budget: str, seeded: SeededBits) -> None:
    curator = opened(frame(200), budget)
    fitted = curator.fit(model(), SELECT)
    assert verify_receipt(fitted.receipt, curator.public_key).ok
    if budget == "zcdp":
        rho = curator.budget().spent[0].amount
        assert 0 < rho < Fraction(1, 2), "noise is charged as noise, not as what its (epsilon, delta) implies"
        assert compose([fitted.model.event_], delta="1e-4", method="zcdp").epsilon > 2 * Fraction(9, 10)


def test_pure_accounts_take_pure_fits(seeded: SeededBits) -> None:
    curator = opened(frame(200), "pure")
    fitted = curator.fit(LogisticRegression(epsilon=2, method="output"), SELECT)
    assert curator.budget().spent[0].amount == 2
    assert verify_receipt(fitted.receipt, curator.public_key).ok
    with pytest.raises(InputError, match=r"estimator: costs a delta, .* accounting = 'pure': fit without delta"):
        curator.fit(model(), SELECT)


def test_numbers_and_no_target(seeded: SeededBits) -> None:
    curator = opened(frame(400))
    line = curator.fit(Ridge(epsilon=2, delta="1e-4"), "SELECT dose, age, cost FROM visits")
    assert line.model.target_bounds == (0, 100)
    assert np.isfinite(line.model.predict([[0.5, 40]])).all()
    curator = opened(frame(), described=rows_alone())
    axes = curator.fit(PCA(n_components=1, epsilon=2, delta="1e-4"), "SELECT dose, age FROM single")
    assert axes.model.components_.shape == (1, 2)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT patient, age, outcome FROM visits", "patient is the unit itself"),
        ("SELECT note, age, outcome FROM visits", "text without declared categories"),
        ("SELECT weight, outcome FROM visits", "CLAMP\\(weight"),
        ("SELECT age, note FROM visits", "no declared categories"),
        ("SELECT age, dose FROM visits", "a class is a text"),
        ("SELECT outcome FROM visits", "at least one feature"),
        ("SELECT COUNT(*), outcome FROM visits GROUP BY outcome", "learns from rows"),
        ("SELECT age, outcome FROM visits LIMIT 5", "released results only"),
        ("SELECT a.age, b.outcome FROM visits a JOIN visits b ON a.age = b.age", "same person"),
        ("SELECT 1 AS x, 'ill' AS y", "public"),
        ("SELECT age, outcome FROM nowhere", "no table"),
    ],
)
def test_refused_rows(sql: str, words: str) -> None:
    curator = opened(frame(20))
    with pytest.raises(QueryError, match=words):
        curator.fit(model(), sql)
    assert curator.history() == ()


def test_refused_estimators(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = opened(frame(20))
    for wrong, words in (
        (object(), "one of tacit.learn"),
        (Plain(), "one of tacit.learn"),
        (model(classes="discover"), "declared"),
        (model(relation="replace_one"), "added or removed"),
        (model(epsilon=0), "epsilon"),
    ):
        with pytest.raises(InputError, match=words):
            curator.fit(wrong, SELECT)
    with pytest.raises(InputError, match="without them"):
        curator.fit(MinMaxScaler(), "SELECT age, dose FROM visits")
    replaced = opened(frame(20), described=catalog(relation=REPLACE_ONE))
    with pytest.raises(InputError, match="added or removed"):
        replaced.fit(model(), SELECT)
    clinic, toy = open_clinic(accounting="approx", epsilon="4", delta="1e-2")
    monkeypatch.setattr(type(toy), "check_examples", Engine.check_examples)
    with pytest.raises(InputError, match="cannot read rows"):
        clinic.fit(model(), "SELECT cost, ward FROM visits")
    assert curator.history() == replaced.history() == clinic.history() == ()


def read(curator: Any, sql: str) -> tuple[np.ndarray, Any]:
    """Rows that an estimator would see."""
    seen: list[Any] = []

    class Looking(LogisticRegression):
        def fit(self, X: Any, y: Any = None) -> Any:
            seen[:] = [X, y]
            return super().fit(X, y)

    curator.fit(Looking(epsilon=1, delta="1e-5"), sql)
    return seen[0], seen[1]


def lines(found: tuple[np.ndarray, Any]) -> list[tuple[Any, ...]]:
    return sorted((*map(float, row), label) for row, label in zip(found[0], found[1], strict=True))


def beside(curator: Curator, rows: pa.Table) -> Curator:
    """The same keys and account over other rows."""
    return Curator(replace(curator._context, engine=engine_of(rows, catalog())), "owner")


def test_one_row_of_each_person_whatever_the_order(seeded: SeededBits) -> None:
    rows = frame(60, visits=5)
    curator = opened(rows)
    whole = lines(read(curator, SELECT))
    assert len(whole) == 60
    shuffled = rows.take(np.random.default_rng(1).permutation(len(rows)))
    assert lines(read(beside(curator, shuffled), SELECT)) == whole
    # Without one person exactly that person's row is gone, and no other person's choice has changed.
    without = beside(curator, rows.filter(pa.compute.not_equal(rows["patient"], 7)))
    left = lines(read(without, SELECT))
    assert len(left) == 59
    assert set(left) < set(whole)


def test_rows_of_a_person_can_be_aggregated_first(seeded: SeededBits) -> None:
    curator = opened(frame(60, visits=5))
    found = read(
        curator,
        "SELECT CLAMP(a, 0, 100) AS a, well > 2 AS well FROM (SELECT patient, AVG(age) AS a, "
        "SUM(CASE WHEN outcome = 'well' THEN 1 ELSE 0 END) AS well FROM visits GROUP BY patient)",
    )
    assert found[0].shape == (60, 1)
    assert set(found[1].tolist()) == {True, False}


def test_missing_values_are_not_numbers_and_no_class(seeded: SeededBits) -> None:
    rows = frame(30)
    rows = rows.set_column(2, "dose", pa.array([None] * 30, pa.float64()))
    rows = rows.set_column(5, "outcome", pa.array([None] * 30, pa.string()))
    found = read(opened(rows), "SELECT dose, age, outcome FROM visits")
    assert np.isnan(found[0][:, 0]).all()
    assert set(found[1].tolist()) == {None}


def test_what_would_fail_for_any_rows_is_refused_before_it_is_paid_for(seeded: SeededBits) -> None:
    curator = opened(frame(20))
    for wrong, words in (
        (model(classes=[b"ill", b"well"]), "cannot be written"),
        (model(classes=[0, 1]), "outcome, which is TEXT, are of different types"),
        (model(bounds=[(0, 100), None, (0, 1)]), "list of such pairs"),
        (model(bounds=(0, float("inf")), categories={2: [True]}), "finite"),
    ):
        with pytest.raises(InputError, match=words):
            curator.fit(wrong, SELECT)
    assert curator.history() == ()
    fitted = curator.fit(GaussianNB(epsilon=Decimal("1"), delta="1e-4"), SELECT)
    assert curator.released(fitted.receipt.position).model.epsilon == 1


def test_of_two_processes_with_one_key_both_hand_out_the_first_model(seeded: SeededBits) -> None:
    rows = frame(60)
    slow = opened(rows)
    # Another process has locks of its own: it finds the charge without an outcome, and runs under it.
    quick = Curator(replace(slow._context, locks=KeyLocks()), "owner")
    found: list[Any] = []

    class Overtaken(DuckDBEngine):
        def examples(self, *args: Any) -> Any:
            found.append(quick.fit(GaussianNB(epsilon=1, delta="1e-4"), SELECT, idempotency_key="one"))
            return super().examples(*args)

    known = catalog()
    engine = Overtaken(known, {"visits": DataSource("frame", None, rows)})
    late = Curator(replace(slow._context, engine=engine), "owner").fit(
        GaussianNB(epsilon=1, delta="1e-4"), SELECT, idempotency_key="one"
    )
    (first,) = found
    assert late.text == first.text
    np.testing.assert_array_equal(late.model.theta_, first.model.theta_)
    assert len(slow.history()) == 1


def test_a_model_is_read_again_from_the_ledger_for_nothing(seeded: SeededBits) -> None:
    curator = opened(frame(200))
    fitted = curator.fit(model(steps=3), SELECT, idempotency_key="one")
    spent = curator.budget().spent
    again, sent_again = (
        curator.released(fitted.receipt.position),
        curator.fit(model(steps=3), SELECT, idempotency_key="one"),
    )
    for other in (again, sent_again):
        assert (other.text, other.features, other.target) == (fitted.text, ("age", "dose", "risk"), "outcome")
        assert other.receipt.statement == fitted.receipt.statement
        np.testing.assert_array_equal(other.model.coef_, fitted.model.coef_)
        assert str(other.model.privacy_report()) == str(fitted.model.privacy_report())
        assert "Fraction" not in str(other.model.privacy_report())
    (told,) = curator.releases("model")
    assert (told.position, told.title, told.source) == (fitted.receipt.position, "LogisticRegression", SELECT)
    assert curator.budget().spent == spent
    with pytest.raises(InputError, match="no release"):
        curator.released(fitted.receipt.position + 1)


def test_a_decimal_keeps_its_point() -> None:
    curator = opened(frame(50))
    raw, _ = read(curator, "SELECT cost, outcome FROM visits")
    assert 0 < raw[:, 0].min() < raw[:, 0].max() < 100


def test_a_key_stands_for_all_parameters(seeded: SeededBits) -> None:
    curator = opened(frame(100))
    first = curator.fit(model(steps=3), SELECT, idempotency_key="once")
    assert curator.fit(model(steps=3), SELECT, idempotency_key="once").text == first.text
    with pytest.raises(ConflictError):
        # The same releases, and another model.
        curator.fit(model(steps=3, classes=["well", "never"]), SELECT, idempotency_key="once")
    assert len(curator.history()) == 1


def test_columns_are_named_like_those_of_a_frame(seeded: SeededBits) -> None:
    curator = opened(frame(100))
    select = "SELECT age, dose, outcome FROM visits"
    by_name = curator.fit(GaussianNB(epsilon=1, delta="1e-4", bounds={"dose": (-1, 1), "age": (0, 100)}), select)
    assert by_name.model.bounds == [(0, 100), (-1, 1)]
    trees = BoostedTreesClassifier(epsilon=1, delta="1e-4", trees=2, categories={"risk": [0, 1]})
    coded = curator.fit(trees, "SELECT age, risk, outcome FROM visits")
    assert (coded.model.categories, coded.model.bounds) == ({1: [0, 1]}, [(0, 100)])
    spent = len(curator.history())
    for wrong in ({"bounds": {"age": (0, 1)}}, {"bounds": {"age": (0, 1), "other": (0, 1)}}):
        with pytest.raises(InputError, match="by name must be those of age, dose"):
            curator.fit(GaussianNB(epsilon=1, delta="1e-4", **wrong), select)
    with pytest.raises(InputError, match="name other; the features are age, dose"):
        curator.fit(BoostedTreesClassifier(epsilon=1, delta="1e-4", categories={"other": [0, 1]}), select)
    assert len(curator.history()) == spent


@pytest.mark.parametrize("label", ["cost", "weight", "DATE '2020-01-01'"])
def test_classes_are_texts_whole_numbers_or_truth_values(label: str) -> None:
    curator = opened(frame(10))
    with pytest.raises(Refusal, match="a class is a text"):
        curator.fit(GaussianNB(epsilon=1, delta="1e-4", classes=[0, 1]), f"SELECT age, {label} AS c FROM visits")
    assert curator.history() == ()
