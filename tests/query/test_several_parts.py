"""Queries with several released parts: which parts there are, their price, its division, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from query.corpus.clinic import CATALOG
from query.corpus.several import SEVERAL, SEVERAL_REFUSED
from tacit.accounting.currencies import currency_of
from tacit.core.errors import InputError, QueryError
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import Plan, make_plan
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.releases.receipt import mechanisms_of

WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
RATIO = "SELECT (SELECT COUNT(*) FROM visits) * 1.0 / (SELECT COUNT(*) FROM patients) AS r"
YEARS = (
    "WITH a AS (SELECT ward, COUNT(*) AS n FROM visits WHERE nights > 1 GROUP BY ward), "
    "b AS (SELECT ward, COUNT(*) AS n FROM visits WHERE nights > 2 GROUP BY ward) "
    "SELECT a.ward, a.n AS more, b.n AS most, a.n - b.n AS d FROM a JOIN b USING (ward)"
)
#: Where prices of all kinds of account are typed in epsilon.
ACCOUNTS = {
    "pure": Account("pure"),
    "approx": Account("approx", "1e-6"),
    "zcdp": Account("zcdp", "1e-6"),
    "gdp": Account("gdp"),
}


def planned(sql: str, kind: str = "pure", **options: Any) -> Plan:
    if not {"epsilon", "within"} & set(options):
        options["epsilon"] = "1"
    return make_plan(sql, CATALOG, Request(**options, account=ACCOUNTS[kind]))


def test_there_are_queries_of_every_kind() -> None:
    counts = [len(resolve(sql, CATALOG).finals) for sql in SEVERAL]
    assert len(SEVERAL) >= 40
    assert sum(count > 1 for count in counts) >= 25
    assert max(counts) == 3


@pytest.mark.parametrize("kind", ACCOUNTS)
def test_the_price_typed_is_the_price_of_all_parts(kind: str) -> None:
    alone = planned(WARDS, kind)
    for sql in (RATIO, YEARS, SEVERAL[22]):
        plan = planned(sql, kind)
        assert len(plan.others) >= 1
        assert type(plan.guarantee) is type(alone.guarantee)
        if kind != "approx":
            cost = currency_of(plan.guarantee).cost(plan.event, plan.relation)
            assert currency_of(plan.guarantee).covers(plan.guarantee, cost)
        if kind in ("pure", "gdp"):
            assert sum(part.priced.amount for part in plan.parts) == alone.priced.amount
        assert len(plan.event.events) == sum(len(part.event.events) for part in plan.parts)
        assert {part.guarantee for part in plan.parts} == {plan.guarantee}


def test_parts_have_equal_errors_unless_they_are_weighed() -> None:
    plan = planned(YEARS)
    assert [part.priced.amount for part in plan.parts] == [Fraction(1, 2)] * 2
    more = planned(YEARS, weights={"more": 3})
    assert [part.priced.amount for part in more.parts] == [Fraction(3, 4), Fraction(1, 4)]
    both = planned("SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM patients", weights={"n": 5})
    assert [part.priced.amount for part in both.parts] == [Fraction(1, 2)] * 2, (
        "a column of a UNION is one of each part"
    )
    with pytest.raises(InputError, match="those are: more, most"):
        planned(YEARS, weights={"d": 2})


def test_labels_that_occur_in_two_parts_name_neither() -> None:
    with pytest.raises(InputError, match="names 'count"):
        planned(YEARS, weights={"count(*)": 2})


def test_within_holds_for_every_part() -> None:
    plan = planned(YEARS, within=50)
    assert all(error.bound is not None and error.bound <= 50 for part in plan.parts for error in part.errors)
    one = planned(YEARS, within={"more": 50})
    assert one.parts[0].errors[0].bound is not None
    assert one.parts[0].errors[0].bound <= 50
    assert plan.guarantee == planned(YEARS, within={"more": 50, "most": 50}).guarantee


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        (f"WITH t AS ({WARDS}) SELECT a.ward, a.n + b.n AS d FROM t a JOIN t b USING (ward)", 1),
        (f"WITH t AS ({WARDS}) SELECT ward, n * 1.0 / (SELECT SUM(n) FROM t) AS s FROM t", 1),
        # The same part, written twice under other names and in another order.
        (
            (
                f"SELECT a.n, b.m FROM ({WARDS}) a "
                "JOIN (SELECT v.ward AS w, COUNT(*) AS m FROM visits AS v GROUP BY 1) b ON a.ward = b.w"
            ),
            1,
        ),
        (
            (
                "SELECT (SELECT COUNT(*) FROM visits WHERE urgent AND nights > 1) - "
                "(SELECT COUNT(*) FROM visits WHERE nights > 1 AND urgent) AS zero"
            ),
            1,
        ),
        (RATIO, 2),
    ],
)
def test_equal_parts_are_taken_and_paid_once(sql: str, count: int) -> None:
    plan = planned(sql)
    assert len(plan.parts) == count
    assert sum(part.priced.amount for part in plan.parts) == 1


def test_work_adds_up() -> None:
    plan = planned(YEARS)
    assert plan.unit_work == sum(part.unit_work for part in plan.parts)
    heavy = (
        "SELECT COUNT(*) AS n FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.cost < b.cost "
        "WHERE a.nights > {}"
    )
    make_plan(heavy.format(1), CATALOG, Request(epsilon="1"))
    with pytest.raises(QueryError, match="row operations"):
        planned(" UNION ALL ".join(heavy.format(nights) for nights in (1, 2, 3)))


def test_explain_shows_every_part_and_shares_of_the_whole() -> None:
    plan = planned(YEARS, "zcdp")
    told = explain(plan)
    assert {release.name[:7] for release in told.releases} == {"part 1:", "part 2:"}
    assert sum(Fraction(release.share) for release in told.releases) == 1
    assert [error.label[:7] for error in told.errors] == ["part 1:", "part 2:"]
    assert "part 2: " in told.bounding
    assert {line["part"] for line in mechanisms_of(plan)} == {"1", "2"}
    assert "part" not in mechanisms_of(planned(WARDS))[0]


def test_auto_limits_and_bounds_are_sought_by_each_part() -> None:
    plan = planned(RATIO, max_rows="auto")
    assert [len(part.searches) for part in plan.parts] == [1, 0], "a patient has one row in patients"
    assert len(plan.stages) == sum(len(part.stages) for part in plan.parts)


def test_private_keys_share_the_delta() -> None:
    plan = planned(next(sql for sql in SEVERAL if "doctor" in sql), "zcdp", delta="1e-6")
    deltas = [part.keys.delta for part in plan.parts if part.keys is not None]
    assert len(deltas) == 2
    assert sum(deltas) <= Fraction(1, 10**6)


@pytest.mark.parametrize("case", SEVERAL_REFUSED, ids=[code for code, _, _ in SEVERAL_REFUSED])
def test_refusals_name_the_reason_and_the_nearest_query_is_accepted(case: tuple[str, str, str]) -> None:
    code, sql, nearest = case
    with pytest.raises(QueryError) as caught:
        resolve(sql, CATALOG)
    assert caught.value.code == f"query.{code}"
    assert resolve(nearest, CATALOG).finals
