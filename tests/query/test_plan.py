"""Plans: what may be typed, what is refused, how accuracy is priced, and that a plan is a pure value."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from support.finals import Builder, K
from tacit.core.errors import InputError, InternalError
from tacit.core.events import ComposedEvent, PureEvent
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.parsing.parse import Options
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import make_plan, plan_query
from tacit.query.planning.pricing import check_charge, largest_rho_of, price
from tacit.query.planning.releases import PlanBudget, Priced
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER, TEXT, decimal

COUNT = Builder().add(K.COUNT_ROWS)


def count_plan(request: Request, keys: str = "public", options: Options | None = None):  # type: ignore[no-untyped-def]
    return plan_query(COUNT.query(keys=keys, options=options), ADD_REMOVE, request)


@pytest.mark.parametrize(
    ("request_", "guarantee"),
    [
        (Request(epsilon="0.5"), PureDP("0.5")),
        (Request(epsilon="0.5", account=Account("approx")), ApproxDP("0.5", 0)),
        (Request(epsilon="0.5", account=Account("zcdp")), ZCDP("0.125")),
        (Request(rho="0.3", delta="1e-6", account=Account("zcdp")), ZCDP("0.3")),
        (Request(mu="0.3", account=Account("gdp")), GDP("0.3")),
        (Request(epsilon="0.5", account=Account("gdp")), PureDP("0.5").to_gdp()),
    ],
)
def test_the_number_typed_is_the_guarantee(request_: Request, guarantee: object) -> None:
    assert count_plan(request_).guarantee == guarantee


def test_delta_is_charged_where_it_is_needed() -> None:
    zcdp = Request(epsilon="0.5", delta="1e-6", account=Account("zcdp"))
    # Half of the delta selects keys, the other half converts rho to epsilon.
    half = Fraction(1, 2 * 10**6)
    assert count_plan(zcdp, "private").guarantee == ZCDP(largest_rho_of(Fraction(1, 2), half), delta=half)
    approx = Request(epsilon="0.5", delta="1e-6", account=Account("approx"))
    assert count_plan(approx, "private").guarantee == ApproxDP("0.5", "1e-6")
    # Many groups per unit: Gaussian noise is worth its delta.
    many = plan_query(Builder(rows=1).add(K.COUNT_ROWS).query(keys="private", max_groups=64), ADD_REMOVE, approx)
    assert [r.mechanism for r in many.releases] == ["gaussian"]


def test_options_of_the_text_count_as_typed() -> None:
    plan = count_plan(Request(), options=Options(epsilon=Fraction(1, 4), confidence=Fraction(9, 10)))
    assert plan.guarantee == PureDP("0.25")
    assert plan.terms.confidence == Fraction(9, 10)
    with pytest.raises(InputError, match="state it once"):
        count_plan(Request(epsilon=1), options=Options(epsilon=Fraction(1, 4)))
    assert count_plan(Request(epsilon="0.25"), options=Options(epsilon=Fraction(1, 4))).guarantee == PureDP("0.25")


@pytest.mark.parametrize(
    ("request_", "parameter"),
    [
        (Request(), "epsilon"),
        (Request(epsilon=1, within=5), "within"),
        (Request(epsilon=1, rho=1, account=Account("zcdp")), "rho"),
        (Request(rho=1), "rho"),
        (Request(mu=1, account=Account("zcdp")), "mu"),
        (Request(epsilon=-1), "epsilon"),
        (Request(epsilon=1, delta="1e-6"), "delta"),
        (Request(epsilon=1, confidence=1), "confidence"),
        (Request(epsilon=1, max_groups=0), "max_groups"),
        (Request(epsilon=1, weights={"nothing": 2}), "weights"),
        (Request(epsilon=1, weights={"c0": 0}), "weights"),
        (Request(within={"nothing": 2}), "within"),
        (Request(within={}), "within"),
        (Request(within=0), "within"),
    ],
)
def test_contradictions_name_the_argument(request_: Request, parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        count_plan(request_)
    assert caught.value.parameter == parameter


def test_unknown_accounts_are_refused() -> None:
    with pytest.raises(InputError, match="pure, approx, zcdp, gdp"):
        Account("gold")


@pytest.mark.parametrize(
    "request_",
    [
        Request(epsilon=1),
        Request(mu=1, account=Account("gdp")),
        Request(epsilon=1, account=Account("zcdp")),
        Request(epsilon=1, delta=0, account=Account("approx")),
    ],
)
def test_private_keys_need_a_delta(request_: Request) -> None:
    with pytest.raises(Refusal) as caught:
        count_plan(request_, "private")
    assert caught.value.code == "query.option"
    assert "declared categories" in str(caught.value)


def test_an_account_may_supply_the_delta() -> None:
    plan = count_plan(Request(epsilon=1, account=Account("zcdp", delta="1e-9")), "private")
    assert plan.guarantee == ZCDP("0.5", delta="1e-9")
    assert count_plan(Request(epsilon=1, account=Account("zcdp", delta="1e-9"))).guarantee == ZCDP("0.5")


def test_public_groups_can_be_insisted_on() -> None:
    request = Request(epsilon=1, delta="1e-6", account=Account("zcdp"))
    with pytest.raises(Refusal, match="PUBLIC_GROUPS"):
        count_plan(request, "private", Options(group_selection="PUBLIC_GROUPS"))


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("LAPLACE_THRESHOLD", "laplace"),
        ("GAUSSIAN_THRESHOLD", "gaussian"),
        ("TRUNCATED_GEOMETRIC", "truncated_geometric"),
    ],
)
@pytest.mark.parametrize("kind", ["zcdp", "approx"])
def test_the_rule_of_key_selection_can_be_named(word: str, rule: str, kind: str) -> None:
    request = Request(epsilon=1, delta="1e-6", account=Account(kind))
    plan = count_plan(request, "private", Options(group_selection=word))
    assert plan.keys is not None
    assert plan.keys.rule == rule


@pytest.mark.parametrize("kind", ["pure", "approx", "zcdp", "gdp"])
@pytest.mark.parametrize("bound", [3, 40, 1000])
def test_accuracy_is_kept_and_not_overpaid(kind: str, bound: int) -> None:
    delta = "1e-6" if kind in ("approx", "zcdp") else None
    request = Request(within=bound, delta=delta, account=Account(kind))
    plan = count_plan(request)
    assert plan.errors[0].bound is not None
    assert plan.errors[0].bound <= bound
    guarantee = plan.guarantee
    match guarantee:
        case PureDP() | ApproxDP():
            less = Request(epsilon=guarantee.epsilon * Fraction(99, 100), delta=delta, account=Account(kind))
        case ZCDP():
            less = Request(rho=guarantee.rho * Fraction(98, 100), account=Account(kind))
        case _:
            less = Request(mu=guarantee.mu * Fraction(99, 100), account=Account(kind))
    cheaper = count_plan(less).errors[0].bound
    assert cheaper is not None
    assert cheaper > bound


def test_accuracy_of_every_aggregate_or_of_those_named() -> None:
    query = Builder().add(K.COUNT_ROWS).add(K.SUM).query()
    every = plan_query(query, ADD_REMOVE, Request(within=500))
    assert all(error.bound is not None and error.bound <= 500 for error in every.errors)
    named = plan_query(query, ADD_REMOVE, Request(within={"C0": 500}))
    assert named.errors[0].bound is not None
    assert named.errors[0].bound <= 500 < (named.errors[1].bound or 0)
    by_label = plan_query(query, ADD_REMOVE, Request(within={"count_rows(*)": 500}))
    assert by_label.guarantee == named.guarantee


def test_accuracy_of_an_average_needs_a_number_of_values() -> None:
    query = Builder().add(K.AVG).query()
    with pytest.raises(InputError, match="suppose"):
        plan_query(query, ADD_REMOVE, Request(within=2))
    plan = plan_query(query, ADD_REMOVE, Request(within=2, suppose=500))
    assert plan.errors[0].bound is not None
    assert plan.errors[0].bound <= 2
    # About 2h·rows·ln(2·2/β)/(ε·n): the joint release needs half of what two halves would.
    assert isinstance(plan.guarantee, PureDP)
    assert plan.guarantee.epsilon < Fraction(100 * 2 * 9, 2 * 2 * 500) * 2


def test_accuracy_of_ranks_must_be_asked_for_by_name() -> None:
    query = Builder().add(K.QUANTILE, parameter=Fraction(1, 2)).add(K.COUNT_ROWS).query()
    with pytest.raises(InputError, match="rank"):
        plan_query(query, ADD_REMOVE, Request(within=20))
    plan = plan_query(query, ADD_REMOVE, Request(within={"c0": 50}))
    assert plan.errors[0].kind == "rank"
    assert (plan.errors[0].bound or 0) <= 50


def test_an_absurd_accuracy_is_refused() -> None:
    with pytest.raises(InputError, match="sensible epsilon"):
        plan_query(Builder().add(K.SUM).query(), ADD_REMOVE, Request(within="1e-9", confidence="0.9999999"))


def test_weights_move_budget_and_nothing_else() -> None:
    query = Builder().add(K.COUNT_ROWS).add(K.SUM).query(keys="private")
    request = Request(epsilon=1, delta="1e-6", account=Account("zcdp"))
    even = plan_query(query, ADD_REMOVE, request)
    tilted = plan_query(query, ADD_REMOVE, replace(request, weights={"c0": 3, "keys": 2}))
    # Of equal weight they are released together.
    assert [r.share for r in even.releases] == [Fraction(49, 74)]
    assert [r.share for r in tilted.releases] == [Fraction(9, 14), Fraction(1, 14)]
    assert tilted.keys is not None
    assert tilted.keys.share == Fraction(4, 14)
    assert tilted.guarantee == even.guarantee


def test_fewer_groups_per_unit_mean_less_noise() -> None:
    wide, narrow = count_plan(Request(epsilon=1)), count_plan(Request(epsilon=1, max_groups=1))
    assert narrow.final.max_groups == 1
    assert (narrow.errors[0].bound or 0) < (wide.errors[0].bound or 0)
    ungrouped = count_plan(Request(epsilon=1, max_groups=1), "none")
    assert ungrouped.final.max_groups == 1


def test_equal_queries_have_equal_plans_and_others_do_not() -> None:
    base = count_plan(Request(epsilon=1))
    again = count_plan(Request(epsilon="1.0"))
    assert base == again
    assert hash(base) == hash(again)
    assert base.digest == again.digest
    others = [
        count_plan(Request(epsilon=2)),
        count_plan(Request(epsilon=1), "none"),
        count_plan(Request(epsilon=1, confidence="0.9")),
        count_plan(Request(epsilon=1, max_groups=2)),
        count_plan(Request(epsilon=1, account=Account("approx"))),
        plan_query(COUNT.query(keys="public"), REPLACE_ONE, Request(epsilon=1)),
    ]
    assert len({plan.digest for plan in [base, *others]}) == 1 + len(others)


def test_a_plan_that_costs_more_than_its_charge_is_not_handed_out() -> None:
    event = ComposedEvent((PureEvent(Fraction(1)), PureEvent(Fraction(1, 100))))
    for guarantee in (PureDP(1), ApproxDP(1, "1e-6"), ZCDP("0.5"), GDP(1)):
        with pytest.raises(InternalError):
            check_charge(event, guarantee)
    check_charge(event, PureDP("1.01"))


@pytest.mark.parametrize(
    ("kind", "free"), [("pure", PureDP(0)), ("approx", ApproxDP(0, 0)), ("zcdp", ZCDP(0)), ("gdp", GDP(0))]
)
def test_the_list_of_public_keys_is_free(kind: str, free: object) -> None:
    request = Request(epsilon=1, account=Account(kind))
    plan = plan_query(Builder().query(keys="public"), ADD_REMOVE, request)
    assert plan.guarantee == free
    assert explain(plan).releases == ()
    with pytest.raises(InputError, match="no aggregate"):
        plan_query(Builder().query(keys="public"), ADD_REMOVE, Request(within=1))
    request = Request(epsilon=1, delta="1e-6", account=Account("zcdp"))
    private = plan_query(Builder().query(keys="private"), ADD_REMOVE, request)
    half = Fraction(1, 2 * 10**6)
    assert private.guarantee == ZCDP(largest_rho_of(Fraction(1), half), delta=half)
    assert private.keys is not None
    assert private.keys.share == 1


def test_an_ambiguous_text_does_not_name_an_aggregate() -> None:
    query = Builder().add(K.COUNT_ROWS).add(K.COUNT_ROWS).query()
    with pytest.raises(InputError, match="those are: c0, c1"):
        plan_query(query, ADD_REMOVE, Request(epsilon=1, weights={"count_rows(*)": 2}))
    assert plan_query(query, ADD_REMOVE, Request(epsilon=1, weights={"c1": 2})).guarantee == PureDP(1)


def test_every_plan_is_checked_against_its_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planner that spends one part in a million too much is found out."""

    def generous(final: FinalAggregation, budget: PlanBudget, *args: Any, **more: Any) -> Priced:
        return price(final, replace(budget, amount=budget.amount * Fraction(1000001, 1000000)), *args, **more)

    monkeypatch.setattr("tacit.query.planning.pricing.price", generous)
    for kind in ("pure", "approx", "zcdp", "gdp"):
        with pytest.raises(InternalError):
            count_plan(Request(epsilon=1, account=Account(kind), bias_share=0))


CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient_id", INTEGER),
                Column("ward", TEXT, categories=("a", "b")),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(500))),
                Column("city", TEXT),
            ),
            population="patients",
            unit="patient_id",
            max_groups=2,
            max_rows=3,
        ),
    ),
    (Population("patients", REPLACE_ONE),),
)


def test_from_sql_to_plan() -> None:
    plan = make_plan(
        "SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward", CATALOG, Request(epsilon=1)
    )
    assert plan.guarantee == PureDP(1, relation=REPLACE_ONE)
    assert plan.catalog == CATALOG.digest
    weighed = Request(epsilon=1, weights={"n": 2})
    again = make_plan("SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM visits GROUP BY ward", CATALOG, weighed)
    assert again.releases[0].share > plan.releases[0].share


def test_private_keys_from_sql() -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6) city, COUNT(*) AS n FROM visits GROUP BY city"
    )
    plan = make_plan(sql, CATALOG, Request(account=Account("zcdp")))
    half = Fraction(1, 2 * 10**6)
    assert plan.guarantee == ZCDP(largest_rho_of(Fraction(1), half), delta=half, relation=REPLACE_ONE)
    assert plan.keys is not None
    assert plan.keys.groups == 2
