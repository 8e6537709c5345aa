"""Explanations: complete, stable, and made without data."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from support.finals import Builder, K
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import make_plan, plan_query
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER, TEXT

MIXED = (
    Builder()
    .add(K.COUNT_ROWS)
    .add(K.AVG)
    .add(K.QUANTILE, parameter=Fraction(1, 2))
    .add(K.MOST_COMMON, parameter=Fraction(1))
)


def test_as_an_object() -> None:
    plan = plan_query(MIXED.query(keys="public"), ADD_REMOVE, Request(epsilon=1, suppose=1000))
    it = explain(plan)
    assert it.charge == "epsilon 1"
    assert it.alone is None
    assert it.protected == ("visits",)
    assert it.unit == "visits.patient_id"
    assert it.digest == plan.digest
    assert it.engine_sql is None
    assert it.with_engine_sql("SELECT 1").engine_sql == "SELECT 1"
    assert [release.mechanism for release in it.releases] == ["laplace", "exponential", *["laplace"] * 3]
    assert (it.releases[-1].l1_sensitivity, it.releases[-1].share, it.releases[-1].scale) == ("1", "1/25", "25")
    assert sum(Fraction(release.share) for release in it.releases) == 1
    rows = it.releases[0]
    assert (rows.l1_sensitivity, rows.l2_sensitivity) == ("600", "346.411")
    assert rows.reason.endswith("a row without a value adds 100 to a third total")
    common = it.releases[-2]
    assert (common.l1_sensitivity, common.l2_sensitivity) == ("6", "3.46411")
    assert common.reason == "one unit adds at most 2 values to the categories of a group and is in at most 3 groups"
    # Named as the columns of the answer.
    assert [error.label for error in it.errors] == ["c0", "c1", "c2", "c3"]
    assert "supposing 1,000 values" in it.errors[1].meaning
    assert "in rank" in it.errors[2].meaning


def test_as_text() -> None:
    plan = plan_query(MIXED.query(keys="public"), ADD_REMOVE, Request(epsilon="0.5"))
    text = str(explain(plan).with_engine_sql("SELECT\n  1"))
    for needed in (
        "epsilon 0.5 (pure account)",
        "patients: visits.patient_id (add/remove)",
        "at most 2 rows of a unit count per group, in at most 4 groups",
        "all 3 values of ward",
        "sensitivity l1 600",
        "with probability 95%",
        "state suppose to see it",
        "  SELECT\n    1",
    ):
        assert needed in text
    assert max(map(len, text.splitlines())) < 300


def test_as_json_that_can_be_read_back() -> None:
    plan = plan_query(MIXED.query(keys="public"), REPLACE_ONE, Request(mu=1, account=Account("gdp")))
    it = explain(plan)
    read = json.loads(it.to_json())
    assert list(read) == sorted(read)
    assert set(read) == set(it.__dataclass_fields__)
    assert read["relation"] == "replace_one"
    assert read["charge"] == "mu 1"
    assert read["alone"].startswith("epsilon 4.8")
    assert len(read["releases"]) == len(plan.releases) + 2
    assert read["releases"][-1]["l1_sensitivity"] == "2", "one person replaces another"
    assert it.to_json() == explain(plan).to_json()


def test_private_keys_are_explained() -> None:
    request = Request(epsilon=1, delta="1e-8", account=Account("zcdp"))
    it = explain(plan_query(MIXED.query(keys="private"), REPLACE_ONE, request))
    assert it.charge == "epsilon 1 (rho 0.0164684, delta 5e-09)"
    assert it.alone is not None
    assert it.releases[0].name == "selection of keys"
    assert it.releases[0].l1_sensitivity == "8"
    assert "delta 5e-09" in it.releases[0].cost
    assert "is kept with probability 95%" in it.keys


def test_one_group_of_all_units() -> None:
    it = explain(plan_query(Builder(rows=1).add(K.COUNT_ROWS).query(), ADD_REMOVE, Request(epsilon=1)))
    assert it.keys == "one group of all units"
    assert it.bounding == "at most 1 row of a unit count per group"


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("row", "every row of visits"),
        ("patient_id", "visits.patient_id"),
        (None, "patients.id, reached from visits.patient_id"),
    ],
)
def test_who_is_protected(unit: str | None, words: str) -> None:
    people = Table("patients", (Column("id", INTEGER, unique=True),), population="people", unit="id")
    keys = () if unit else (ForeignKey("patient_id", "patients", "id"),)
    columns = (Column("patient_id", INTEGER), Column("ward", TEXT, categories=("a",)))
    visits = Table("visits", columns, population="people", unit=unit, foreign_keys=keys)
    # Rows are persons of no other table.
    tables = (visits,) if unit == "row" else (people, visits)
    plan = make_plan("SELECT COUNT(*) FROM visits", Catalog(tables, (Population("people"),)), Request(epsilon=1))
    assert explain(plan).unit == words
