"""Workloads on the ledger: counted by the engine, charged before data is read, alike for neighbours."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tacit
from synth.small_tables import COLUMNS, open_people, people
from tacit import Workload
from tacit.core.errors import BudgetError, InputError, QueryError
from tacit.curator.curator import Curator
from tacit.releases import workload as workload_release
from tacit.releases.keys import Keyring
from tacit.releases.workload import WORKLOAD
from tacit.synth import count_measurement, marginal_counts
from tacit.synth.marginal_counts import countable_rows
from tacit.synth.workload import workload_from_plain, workload_to_plain

PAIRS = Workload.marginals(["sex", "ward", "age", "smoker"], ways=2)

PURE = {"accounting": None, "rho": None, "delta": None, "epsilon": "3"}
APPROX = {"accounting": "approx", "rho": None, "epsilon": "5", "delta": "1e-3"}
GDP = {"accounting": "gdp", "rho": None, "epsilon": "5", "delta": "1e-3"}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """One secret for all curators, as neighbouring databases are compared under one."""
    monkeypatch.setattr(Keyring, "group_secret", lambda *_: b"the same for all")


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, np.ndarray]]:
    """Releases without noise; the inputs of every mechanism are recorded."""
    seen: list[tuple[Any, np.ndarray]] = []

    def unchanged(mechanism: Any, raw: np.ndarray) -> np.ndarray:
        seen.append((mechanism, raw.copy()))
        return raw

    monkeypatch.setattr(count_measurement, "add_noise", unchanged)
    return seen


def truth(rows: pa.Table, **wanted: Any) -> int:
    return sum(all(row[name] == value for name, value in wanted.items()) for row in rows.to_pylist())


def test_the_engine_counts_exactly(exact: list[tuple[Any, np.ndarray]]) -> None:
    rows = people()
    answer = open_people(rows).answer_workload("people", PAIRS + Workload.prefixes("age"), rho="1")
    assert answer.count().value == pytest.approx(400)
    assert answer.count(sex="f", ward="b").value == pytest.approx(truth(rows, sex="f", ward="b"))
    assert answer.count(age=3, smoker=True).value == pytest.approx(truth(rows, age=3, smoker=True))
    below = sum(age <= 4 for age in rows["age"].to_pylist())
    assert answer.count(age=(0, 4)).value == pytest.approx(below)
    table = answer.marginal("ward", "sex").to_arrow()
    assert table.column_names == ["sex", "ward", "count", "stddev", "low", "high"]
    assert table["count"].to_pylist() == pytest.approx(
        [truth(rows, sex=sex, ward=ward) for sex in "fm" for ward in "abc"]
    )


@pytest.mark.parametrize(("unit", "most"), [("integer", 1), ("integer", 3), ("text", 3)])
def test_marginals_of_more_cells_than_16_bits_count_are_exact(unit: str, most: int) -> None:
    """A marginal may have 250,000 cells, and a query in SQL 20,000 groups, whose numbers have 15 bits."""
    values = [f"{number:03}" for number in range(300)]
    made = np.random.default_rng(2).integers(0, 300, (2, 900))
    people = [f"{'p' * (unit == 'text')}{at // most}" for at in range(900)]
    ids = pa.array(people, pa.string()).cast(pa.int64() if unit == "integer" else pa.string())
    rows = pa.table({"id": ids, "a": np.array(values)[made[0]], "b": np.array(values)[made[1]]})
    listed = {"type": "text", "categories": values}
    curator = tacit.open(
        rows, table="t", unit="id", epsilon="1", max_rows=most,
        columns={"id": {"type": unit}, "a": listed, "b": listed},
    )  # fmt: skip
    counts = countable_rows(curator.context, "t", ["a", "b"])
    exact = np.zeros((300, 300), dtype=np.int64)
    np.add.at(exact, (made[0], made[1]), 1)
    assert (counts.count(curator.context, [("a", "b")])["a", "b"] == exact).all()


def test_expressions_and_conditions_are_columns(exact: list[tuple[Any, np.ndarray]]) -> None:
    sql = "SELECT FLOOR(age / 5) AS half, sex FROM people WHERE smoker"
    answer = open_people().answer_workload(sql, Workload.each("half") * Workload.each("SEX"), rho="1")
    ages = [row["age"] for row in people().to_pylist() if row["smoker"] and row["sex"] == "m"]
    assert answer.count(half=1, sex="m").value == pytest.approx(sum(age >= 5 for age in ages))


def test_one_charge_pays_and_a_repeat_is_free() -> None:
    curator = open_people()
    quote = curator.explain_workload("people", PAIRS, epsilon="1", delta="1e-6")
    assert curator.history() == ()
    answer = curator.answer_workload("people", PAIRS, epsilon="1", delta="1e-6")
    (entry,) = curator.history()
    assert entry.amounts == answer.charge.amounts
    assert quote.charge in answer.charge.text
    again = curator.answer_workload("people", PAIRS, epsilon="1", delta="1e-6")
    assert again.charge.repeated
    assert again.count(sex="f") == answer.count(sex="f")
    assert len(curator.history()) == 1
    other = curator.answer_workload("people", PAIRS, epsilon="1.5", delta="1e-6")
    assert not other.charge.repeated
    assert "root-mean-square error" in str(quote)
    assert quote.root_mean_square_error == answer.plan.root_mean_square_error


@pytest.mark.parametrize(
    ("terms", "price", "noise"),
    [
        ({}, {"epsilon": "1", "delta": "1e-6"}, "Gaussian"),
        (APPROX, {"epsilon": "1", "delta": "1e-6"}, "Laplace"),
        (GDP, {"epsilon": "1", "delta": "1e-6"}, "RoundedGaussian"),
        (GDP, {"mu": "0.5"}, "RoundedGaussian"),
        (PURE, {"epsilon": "1"}, "Laplace"),
    ],
)
def test_the_receipt_lists_every_measurement_and_holds(
    terms: dict[str, Any], price: dict[str, Any], noise: str
) -> None:
    curator = open_people(**terms)
    answer = curator.answer_workload("people", PAIRS, **price)
    report = curator.check_receipt(answer.receipt)
    assert report.ok, str(report)
    lines = answer.receipt["answers"][0]["mechanisms"]
    assert len(lines) == len(answer.plan.measurements)
    assert noise == "Laplace" or len(lines) == 1 + 4 + 6
    assert {line["mechanism"] for line in lines} == {noise}
    assert curator.released(curator.releases("workload")[0].position).count(sex="f") == answer.count(sex="f")
    assert curator.ledger.verify().ok


def test_an_approx_account_takes_the_noise_that_errs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laplace noise costs no delta; which one it is follows from public sizes and the price alone."""
    curator = open_people(**APPROX)
    few, many = Workload.each("sex"), PAIRS
    for work, delta, noise in ((few, "1e-6", "Laplace"), (many, "1e-6", "Laplace"), (many, "0.4", "Gaussian")):
        quote = curator.explain_workload("people", work, epsilon="1", delta=delta)
        assert (noise in str(quote), "delta" in quote.charge) == (True, noise == "Gaussian")
    assert curator.explain_workload("people", few, epsilon="1").charge == "epsilon 1"
    priced = {"epsilon": "1", "delta": "1e-6"}
    with monkeypatch.context() as patched:
        patched.setattr(workload_release, "count_prices", lambda *given: (count_measurement.count_price(*given),))
        gaussian = curator.explain_workload("people", PAIRS, **priced)
        stored = curator.answer_workload("people", PAIRS, **priced)
        assert stored.receipt["answers"][0]["mechanisms"][0]["mechanism"] == "Gaussian"
    assert curator.explain_workload("people", PAIRS, **priced).root_mean_square_error < gaussian.root_mean_square_error
    # What was released with the other noise is read by what was measured.
    assert curator.released(stored.receipt.position).count(sex="f") == stored.count(sex="f")
    fresh = curator.answer_workload("people", PAIRS, **priced)
    assert not fresh.charge.repeated
    assert fresh.charge.text == "Charged epsilon 1 to people"


@pytest.mark.parametrize(("rows", "terms"), [(1, {}), (2, {}), (2, PURE), (2, GDP), (2, APPROX)])
@pytest.mark.parametrize("person", [0, 17])
def test_neighbours_move_every_measurement_within_its_sensitivity(
    exact: list[tuple[Any, np.ndarray]], rows: int, terms: dict[str, Any], person: int
) -> None:
    """Record and replay: a person with many rows comes or goes; no vector moves further than it is priced for."""
    table = people(60)
    many = pa.concat_tables([table, *[people(60, seed).slice(0, 20) for seed in range(4)]])
    work = PAIRS + Workload.ranges("age") * Workload.each("sex")
    without = many.filter(pc.not_equal(many["person"], person))
    price = {"epsilon": "1"} if terms else {"rho": "1"}
    for data in (many, without):
        open_people(data, **terms).answer_workload("people", work, **price, max_rows=rows)
    half = len(exact) // 2
    moved = []
    for (mechanism, left), (other, right) in zip(exact[:half], exact[half:], strict=True):
        assert mechanism.variance == other.variance
        step = [int(x) for x in left - right]
        if terms in (PURE, APPROX):
            moved.append(sum(map(abs, step)) / mechanism.l1_sensitivity)
        else:
            reach = mechanism.l2_sensitivity**2 if terms else mechanism.l2_squared
            moved.append(sum(x * x for x in step) / reach)
    assert 0 < max(moved) <= 1


def test_row_order_changes_nothing() -> None:
    many = pa.concat_tables([people(50), people(50, 8), people(50, 9)])
    curator = open_people(many)
    turned = open_people(many.take(list(range(149, -1, -1))))
    sets = [("sex", "ward"), ("age",)]
    first, second = (
        countable_rows(c.context, "people", list(COLUMNS), max_rows=2).count(c.context, sets) for c in (curator, turned)
    )
    assert all(np.array_equal(first[names], second[names]) for names in sets)
    assert int(first["sex", "ward"].sum()) == 100


def test_undeclared_values_leave_all_marginals_alike(exact: list[tuple[Any, np.ndarray]]) -> None:
    rows = people(20).to_pylist()
    rows[0]["ward"], rows[1]["ward"], rows[2]["age"] = "elsewhere", None, 77
    answer = open_people(pa.Table.from_pylist(rows)).answer_workload("people", PAIRS, rho="1")
    for names in (("sex", "ward"), ("sex", "smoker"), ("age", "smoker")):
        assert answer.marginal(*names).values.sum() == pytest.approx(17)


def test_null_counts_where_it_is_given_a_value(exact: list[tuple[Any, np.ndarray]]) -> None:
    rows = people(20).to_pylist()
    rows[0]["ward"] = None
    sql = "SELECT COALESCE(ward, 'none') AS ward FROM people"
    answer = open_people(pa.Table.from_pylist(rows)).answer_workload(sql, Workload.each("ward"), rho="1")
    assert answer.count(ward="none").value == pytest.approx(1)
    assert answer.count().value == pytest.approx(20)


def refused(curator: Curator, source: Any = "people", workload: Any = PAIRS, **options: Any) -> str:
    with pytest.raises((InputError, QueryError)) as found:
        curator.answer_workload(source, workload, **(options or {"rho": "1"}))
    assert curator.history() == ()
    return str(found.value)


def test_what_cannot_be_answered_is_refused_before_it_is_charged() -> None:
    curator = open_people()
    assert "person is the unit" in refused(curator, "SELECT person FROM people", Workload.each("person"))
    assert "There is no column" in refused(curator, "SELECT sex FROM people", Workload.each("ward"))
    assert "not a public list" in refused(
        open_people(people().append_column("x", pa.array(["y"] * 400))), workload=Workload.each("x")
    )
    assert "delta" in refused(open_people(delta=None), epsilon="1")
    assert "within" in refused(curator, within=5)
    assert "must be a tacit.Workload" in refused(curator, workload=["sex"])
    assert "must be text" in refused(curator, source=7)
    assert "no table" in refused(curator, source="nowhere").lower()
    assert "one of epsilon" in refused(curator, epsilon=None)
    assert "too small" in refused(open_people(**PURE), epsilon="1e-12", workload=Workload.prefixes("age"))
    assert "delta" in refused(open_people(accounting="gdp", rho=None, delta=None, mu="3"), epsilon="1")
    wide = "SELECT age * 7 + 3 AS a, age AS b, age + 1 AS c, age + 2 AS d, age + 3 AS e, sex AS f FROM people"
    assert "noisy numbers" in refused(curator, wide, Workload.marginals([list("abcdef")]) + Workload.each("a"))
    factors = Workload.each("a") * Workload.each("b") * Workload.each("c") * Workload.each("d") * Workload.each("e")
    assert "combinations" in refused(curator, wide, factors * Workload.each("f"))


def test_the_budget_is_a_hard_stop() -> None:
    curator = open_people(rho="1")
    curator.answer_workload("people", PAIRS, rho="0.9")
    with pytest.raises(BudgetError):
        curator.answer_workload("people", PAIRS, rho="0.2")


def test_a_failed_run_stays_charged_and_stays_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_people()
    monkeypatch.setattr(curator.context.engine, "measure", lambda *_: 1 / 0)
    for _ in range(2):
        with pytest.raises(tacit.TacitError, match="failed"):
            curator.answer_workload("people", PAIRS, rho="1")
    assert len(curator.history()) == 1


def test_a_workload_is_read_again_from_the_ledger_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_people()
    workload = Workload.marginals(["Sex", "ward"], ways=2) + Workload.each("sex") * Workload.prefixes("age")
    workload += Workload.ranges("age")
    assert workload_from_plain(workload_to_plain(workload)) == workload
    made = curator.answer_workload("people", workload, rho="1")
    (told,) = curator.releases("workload")
    assert (told.source, told.names) == ("people", (str(workload),))
    monkeypatch.setattr(type(curator.context.engine), "measure", lambda *_: pytest.fail("data was read"))
    again = curator.released(told.position)
    assert again.charge.repeated
    assert [t.to_arrow() for t in again.tables()] == [t.to_arrow() for t in made.tables()]
    assert len(curator.history()) == 1
    with pytest.raises(InputError, match="no release at 99"):
        curator.released(99)


@pytest.mark.parametrize("terms", [{}, APPROX, GDP])
def test_a_workload_is_read_as_it_was_measured_whatever_the_project_states_now(terms: dict[str, Any]) -> None:
    """An epsilon is meant at a delta that the owner may edit; integers that are read on another scale are wrong."""
    curator = open_people(**terms)
    made = curator.answer_workload("people", PAIRS, epsilon="1")
    account = replace(curator.context.accounts["people"], delta=Fraction(1, 10**9), target_delta=Fraction(1, 10**9))
    edited = replace(curator.context, accounts={"people": account})
    position = curator.releases("workload")[0].position
    again = WORKLOAD.read(edited, position)
    assert [t.to_arrow() for t in again.tables()] == [t.to_arrow() for t in made.tables()]


def test_a_workload_that_would_be_measured_otherwise_now_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    curator = open_people()
    curator.answer_workload("people", PAIRS, rho="1")
    monkeypatch.setattr(count_measurement, "_LEAST_VARIANCE", 2**10)
    with pytest.raises(InputError, match="how Tacit measures"):
        curator.released(curator.releases("workload")[0].position)
    curator.answer_workload("people", PAIRS, rho="1")
    assert len(curator.history()) == 2


def test_all_statements_of_a_count_share_their_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    curator, seen = open_people(), list[float | None]()
    measure = type(curator.context.engine).measure

    def slow(self: Any, work: Any) -> Any:
        seen.append(work.timeout)
        time.sleep(0.02)
        return measure(self, replace(work, timeout=None))

    monkeypatch.setattr(type(curator.context.engine), "measure", slow)
    monkeypatch.setattr(marginal_counts, "MAX_KEYS", 1)
    sets = [("sex",), ("ward",), ("age",)]
    counts = countable_rows(curator.context, "people", ["sex", "ward", "age"])
    counts.count(curator.context, sets, seconds=0.03)
    assert seen[0] is not None
    assert seen[-1] is not None
    assert len(seen) == len(sets)
    assert seen[0] <= 0.03
    assert 0 < seen[-1] <= 0.01
