"""``max_groups`` and ``max_rows`` of a query: raised, lowered, without effect, above a ceiling, and hostile ones."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from query.corpus.clinic import CATALOG
from tacit.core.errors import InputError, InternalError
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.query.catalog import Catalog
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import Plan, make_plan, plan_query
from tacit.query.refusal import Refusal
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve

BY_DOCTOR = "SELECT doctor, COUNT(*) AS n FROM visits GROUP BY doctor"
TOTAL = "SELECT COUNT(*) AS n, SUM(nights) AS s FROM visits"
CLAUSES = {"max_groups": "max_groups_contributed", "max_rows": "max_rows_contributed"}


def planned(sql: str, catalog: Catalog = CATALOG, account: str = "approx", **asked: Any) -> Plan:
    paying = Account(account, "1e-6" if account in ("approx", "zcdp") else None)
    return make_plan(sql, catalog, Request(account=paying, **({"epsilon": 1} | asked)))


def stating(sql: str, **asked: int) -> str:
    """The query with numbers in its OPTIONS."""
    listed = ", ".join(f"{CLAUSES[name]} = {number}" for name, number in asked.items())
    return sql.replace("SELECT", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({listed})", 1)


def limited(table: str = "visits", **ceilings: int) -> Catalog:
    """The clinic with ceilings of one table."""
    tables = tuple(replace(t, **ceilings) if t.name == table else t for t in CATALOG.tables)  # type: ignore[arg-type]
    return Catalog(tables, CATALOG.populations)


def rows_of(plan: Plan) -> set[int]:
    return {measure.rows for measure in plan.final.measures}


@pytest.mark.parametrize("number", [1, 3, 8, 9, 100, 999_999_999])
def test_any_number_of_groups_is_used_as_stated(number: int) -> None:
    for plan in (planned(BY_DOCTOR, max_groups=number), planned(stating(BY_DOCTOR, max_groups=number))):
        assert plan.final.max_groups == number
        assert plan.keys is not None
        assert plan.keys.groups == number


@pytest.mark.parametrize("number", [1, 19, 20, 21, 500, 999_999_999])
def test_any_number_of_rows_is_used_as_stated(number: int) -> None:
    for plan in (planned(TOTAL, max_rows=number), planned(stating(TOTAL, max_rows=number))):
        assert rows_of(plan) == {number}
        assert [measure.clamp for measure in plan.final.measures] == [(0, number), (0, 60 * number)]


@pytest.mark.parametrize(
    "sql", [BY_DOCTOR, TOTAL, "SELECT ward, AVG(CLAMP(points, AUTO)) AS a FROM visits GROUP BY ward"]
)
def test_beside_the_text_or_in_it_the_release_is_the_same(sql: str) -> None:
    asked = {"max_groups": 11, "max_rows": 33}
    one, other = planned(sql, **asked), planned(stating(sql, **asked))
    assert one.final.text == other.final.text
    assert (one.priced.text, one.guarantee) == (other.priced.text, other.guarantee)
    both = planned(stating(sql, **asked), **asked)
    assert both.final.text == one.final.text
    assert (
        len({planned(sql, **asked).digest, planned(sql, **(asked | {"max_rows": 34})).digest, planned(sql).digest}) == 3
    )


@pytest.mark.parametrize("name", ["max_groups", "max_rows"])
def test_text_and_request_must_agree(name: str) -> None:
    with pytest.raises(InputError, match="is 2 in the query and 3 beside it; state it once") as caught:
        planned(stating(BY_DOCTOR, **{name: 2}), **{name: 3})
    assert caught.value.parameter == name


AGGREGATES = (
    "COUNT(*)",
    "SUM(nights)",
    "AVG(nights)",
    "VARIANCE(nights)",
    "MEDIAN(nights)",
    "MODE(ward)",
    "COUNT(DISTINCT doctor)",
)


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE], ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_sensitivity_and_noise_follow_the_numbers(aggregate: str, relation: Relation) -> None:
    sql = f"SELECT doctor, {aggregate} AS a FROM visits GROUP BY doctor"

    def plan(**asked: int) -> Plan:
        account = Account("approx", "1e-6")
        query = resolve(sql, CATALOG, max_rows=asked.get("max_rows"))
        return plan_query(query, relation, Request(epsilon=1, account=account, **asked))  # type: ignore[arg-type]

    declared, groups, rows = plan(), plan(max_groups=16), plan(max_rows=40)
    for one, other in zip(declared.releases, groups.releases, strict=True):
        assert other.block.sensitivity.l1 == 2 * one.block.sensitivity.l1
        assert other.block.sensitivity.l2_squared in (
            2 * one.block.sensitivity.l2_squared,
            4 * one.block.sensitivity.l2_squared,
        )
    for one, other in zip(declared.releases, rows.releases, strict=True):
        # A joint release of a variance has a slack for rounding that does not grow.
        slack = 8 * (4 * 30 + 2) if aggregate.startswith("VARIANCE") and len(one.block.forms) == 3 else 0
        assert other.block.sensitivity.l1 == 2 * one.block.sensitivity.l1 - slack


def test_the_noise_scale_and_the_expected_error_double() -> None:
    one, two = (planned(TOTAL, account="pure", max_rows=rows) for rows in (20, 40))
    assert [r.law(r.block.measures[0]).scale for r in two.releases] == [
        2 * r.law(r.block.measures[0]).scale for r in one.releases
    ]
    for error, larger in zip(one.errors, two.errors, strict=True):
        assert error.bound is not None
        assert larger.bound is not None
        assert larger.bound / error.bound == pytest.approx(2, rel=0.05)
    assert planned(TOTAL, account="pure").priced.text == one.priced.text, "the declared number, stated"


def test_within_buys_what_the_numbers_need() -> None:
    few, many = (
        planned("SELECT COUNT(*) AS n FROM visits", account="pure", epsilon=None, within=100, max_rows=rows)
        for rows in (5, 50)
    )
    assert float(many.priced.amount / few.priced.amount) == pytest.approx(10, rel=0.05)
    for plan in (few, many):
        assert plan.errors[0].bound is not None
        assert plan.errors[0].bound <= 100


def test_auto_bounds_of_more_rows() -> None:
    sql = "SELECT SUM(CLAMP(points, AUTO)) AS s FROM visits"
    one, two = planned(sql, max_rows=20), planned(sql, max_rows=40)
    assert (one.first is None, two.first is None) == (False, False)
    assert two.final.measures[0].clamp == tuple(2 * end for end in one.final.measures[0].clamp)
    # The search counts one value of a unit, whatever the number.
    assert one.priced.first == two.priced.first


def test_stated_contribution_bounds_stay() -> None:
    sql = "SELECT COUNT(*, contribution_bounds_per_group => (0, 20)) AS a, COUNT(*) AS b FROM visits"
    assert [measure.rows for measure in planned(sql).final.measures] == [20], "one measurement at the declared 20"
    assert [measure.rows for measure in planned(sql, max_rows=30).final.measures] == [20, 30]


ONE_GROUP = "SELECT sex, COUNT(*) AS n FROM patients GROUP BY sex"


def test_where_a_unit_is_in_one_group_a_larger_number_has_no_effect_and_explain_says_so() -> None:
    plain, stated = planned(ONE_GROUP), planned(ONE_GROUP, max_groups=7, max_rows=9)
    assert (stated.final.max_groups, rows_of(stated)) == (1, {1})
    assert stated.final.text == plain.final.text
    assert explain(stated).limits == (
        "max_groups 1 (7 stated, a unit is in one group anyway), "
        "max_rows 1 (9 stated, a unit has one row in each anyway)"
    )
    all_of_them = planned(TOTAL, max_groups=7)
    assert all_of_them.final.max_groups == 1
    assert "7 stated, a unit is in one group anyway" in explain(all_of_them).limits


@pytest.mark.parametrize(
    ("sql", "asked", "words"),
    [
        (BY_DOCTOR, {}, "max_groups 8 (declared), max_rows 20 (declared)"),
        (BY_DOCTOR, {"max_groups": 30}, "max_groups 30 (stated, 8 declared), max_rows 20 (declared)"),
        (BY_DOCTOR, {"max_rows": 2}, "max_groups 8 (declared), max_rows 2 (stated, 20 declared)"),
        (
            "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
            {},
            "max_groups 3 (8 declared, there are 3 groups), max_rows 20 (declared)",
        ),
        (
            "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
            {"max_groups": 9},
            "max_groups 3 (9 stated, 8 declared, there are 3 groups), max_rows 20 (declared)",
        ),
        (ONE_GROUP, {}, "max_groups 1 (a unit is in one group), max_rows 1 (a unit has one row in each)"),
        (
            ONE_GROUP,
            {"max_rows": 1},
            "max_groups 1 (a unit is in one group), max_rows 1 (stated, a unit has one row in each)",
        ),
    ],
)
def test_explain_says_where_numbers_come_from(sql: str, asked: dict[str, int], words: str) -> None:
    for plan in (planned(sql, **asked), planned(stating(sql, **asked) if asked else sql)):
        it = explain(plan)
        assert it.limits == words
        assert f"Limits      {words}" in str(it)
        assert '"limits": "max_groups' in it.to_json()


@pytest.mark.parametrize("name", ["max_groups", "max_rows"])
@pytest.mark.parametrize(("number", "words"), [
    (0, "must be a whole number from 1 to 999999999, got 0"), (-3, "from 1 to 999999999, got -3"),
    (10**30, "from 1 to 999999999"), (10**9, "from 1 to 999999999"), ("5", "must be a whole number or AUTO"),
    (True, "must be a whole number, not a truth value"), (2.0, "must be a whole number, not float"),
    (Fraction(2), "must be a whole number, not Fraction"), ([3], "must be a whole number, not list"),
    (float("nan"), "must be a whole number, not float"),
])  # fmt: skip
def test_hostile_numbers_are_refused_with_a_sentence(name: str, number: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        planned(BY_DOCTOR, **{name: number})
    assert caught.value.parameter == name


@pytest.mark.parametrize("clause", CLAUSES.values())
@pytest.mark.parametrize("number", ["0", "-1", "1000000000", "1" + "0" * 30, "1e3", "2.0", "'5'", "TRUE", "NULL", "x"])
def test_hostile_numbers_of_the_text_are_refused_with_a_sentence(clause: str, number: str) -> None:
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({clause} = {number}) COUNT(*) FROM visits"
    with pytest.raises(Refusal, match=f"{clause} must be |name = constant") as caught:
        resolve(sql, CATALOG)
    assert caught.value.reason == "option"


# -- ceilings


def test_more_than_the_ceiling_is_refused_with_the_number_and_the_table() -> None:
    catalog = limited(max_groups_limit=10, max_rows_limit=25)
    assert planned(BY_DOCTOR, catalog, max_groups=10, max_rows=25).final.max_groups == 10
    for asked, words in (
        (
            {"max_groups": 11},
            "max_groups = 11 is more than the 10 groups of one person that the owner of visits allows",
        ),
        ({"max_rows": 26}, "max_rows = 26 is more than the 25 rows of one person that the owner of visits allows"),
    ):
        for sql, beside in ((BY_DOCTOR, asked), (stating(BY_DOCTOR, **asked), {})):
            with pytest.raises(Refusal, match=f"{words}; state at most") as caught:
                planned(sql, catalog, **beside)
            assert caught.value.reason == "option"


def test_a_ceiling_changes_no_digest() -> None:
    catalog = limited(max_groups_limit=10, max_rows_limit=25)
    assert catalog.digest == CATALOG.digest
    for asked in ({}, {"max_groups": 9, "max_rows": 24}):
        assert planned(BY_DOCTOR, catalog, **asked).digest == planned(BY_DOCTOR, **asked).digest


def test_of_several_tables_the_smallest_ceiling_counts_but_less_than_declared_may_be_stated() -> None:
    sql = "SELECT drug, COUNT(*) AS n FROM visits v JOIN prescriptions p ON v.visit_id = p.visit_id GROUP BY drug"
    both = Catalog(
        tuple(
            replace(t, max_rows_limit={"visits": 30, "prescriptions": 60}[t.name])
            if t.name in ("visits", "prescriptions")
            else t
            for t in CATALOG.tables
        ),
        CATALOG.populations,
    )
    # Without a number 50 rows count, as prescriptions declares.
    assert rows_of(planned(sql, both)) == {50}
    for number in (1, 30, 40, 50):
        assert rows_of(planned(sql, both, max_rows=number)) == {number}
    with pytest.raises(
        Refusal, match="more than the 30 rows of one person that the owner of visits allows; state at most 50"
    ):
        planned(sql, both, max_rows=51)


def test_a_ceiling_holds_below_subqueries_and_where_a_number_has_no_effect() -> None:
    catalog = limited(max_rows_limit=20, max_groups_limit=8)
    inner = "SELECT n, COUNT(*) AS c FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) GROUP BY n"
    exists = "SELECT COUNT(*) AS n FROM patients p WHERE EXISTS (SELECT 1 FROM visits v WHERE v.patient_id = p.id)"
    for sql in (inner, exists, TOTAL):
        for asked in ({"max_rows": 21}, {"max_groups": 9}):
            with pytest.raises(Refusal, match="the owner of visits allows"):
                planned(sql, catalog, **asked)


def test_ceilings_of_a_table_are_checked() -> None:
    with pytest.raises(InputError, match="must be at least max_rows, which is 20; got 19"):
        limited(max_rows_limit=19)
    with pytest.raises(InputError, match="must be at least max_groups, which is 8; got 1"):
        limited(max_groups_limit=1)
    with pytest.raises(InputError, match="a public table has no persons"):
        limited("wards", max_groups_limit=1)
    for wrong in (0, -1, True, "9", 10**10):
        with pytest.raises(InputError, match=r"visits\.max_rows_limit"):
            limited(max_rows_limit=wrong)  # type: ignore[arg-type]


def test_a_query_that_was_resolved_for_another_number_is_not_planned() -> None:
    request = Request(epsilon=1, max_rows=5)
    with pytest.raises(InternalError, match="max_rows"):
        plan_query(resolve(TOTAL, CATALOG), ADD_REMOVE, request)
    assert rows_of(plan_query(resolve(TOTAL, CATALOG, max_rows=5), ADD_REMOVE, request)) == {5}
