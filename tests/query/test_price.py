"""Blocks and prices: sensitivities by brute force, shares, and events that cost no more than what is charged."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.finals import Builder, K, column, measured
from tacit.accounting.compose import compose
from tacit.accounting.filters import ApproxFilter, GDPFilter, PureFilter, ZCDPFilter
from tacit.accounting.prices import gdp_price, pure_price, zcdp_price
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE, Relation
from tacit.query.planning.measures import MeasureKind
from tacit.query.planning.plan import Plan, plan_query
from tacit.query.planning.pricing import epsilon_of_mu2, largest_rho_of, price, split
from tacit.query.planning.releases import Block, PlanBudget, blocks_of
from tacit.query.query import FinalAggregation
from tacit.query.relational.expressions import literal
from tacit.query.relational.functions import call
from tacit.query.release import inputs
from tacit.query.request import Account, Request
from tacit.query.types import INTEGER

KINDS = [
    K.COUNT_ROWS, K.COUNT_UNITS, K.COUNT_VALUES, K.COUNT_DISTINCT, K.SUM, K.AVG, K.VAR_SAMP, K.STDDEV_POP, K.MIN,
    K.QUANTILE, K.MOST_COMMON,
]  # fmt: skip
REQUESTS = {
    "pure": Request(epsilon="0.7", account=Account("pure")),
    "approx": Request(epsilon="0.7", delta="1e-6", account=Account("approx")),
    "zcdp": Request(epsilon="0.7", delta="1e-6", account=Account("zcdp")),
    "rho": Request(rho="0.2", delta="1e-6", account=Account("zcdp")),
    "gdp": Request(mu="0.6", account=Account("gdp")),
    "gdp by epsilon": Request(epsilon="0.7", account=Account("gdp")),
}


def builder(kinds: list[K], **shape: int) -> Builder:
    made = Builder(**shape)
    for kind in kinds:
        parameter = {K.QUANTILE: Fraction(1, 4), K.MOST_COMMON: Fraction(1)}.get(kind)
        made.add(kind, parameter=parameter)
    return made


def assert_covered(plan: Plan) -> None:
    """Three ways to the same: the price of the events, the account's own filter, and composition."""
    event, guarantee, relation = plan.event, plan.guarantee, plan.relation
    match guarantee:
        case PureDP():
            assert pure_price(event, relation).amount == guarantee.epsilon
            PureFilter(epsilon=guarantee.epsilon, relation=relation).charge(event)
            assert compose([event], method="basic").epsilon <= guarantee.epsilon
        case ZCDP():
            spent = zcdp_price(event, relation)
            assert spent.delta == guarantee.delta
            assert guarantee.rho * (1 - Fraction(1, 10**9)) <= spent.amount <= guarantee.rho
            ZCDPFilter(rho=guarantee.rho, delta=guarantee.delta, relation=relation).charge(event)
        case GDP():
            spent = gdp_price(event, relation)
            assert spent.amount <= guarantee.mu**2
            if plan.priced.budget.currency == "epsilon":
                # Without a delta the answer is pure, and the charge is that of an epsilon.
                assert pure_price(event, relation).amount == Fraction("0.7")
            else:
                assert spent.amount >= guarantee.mu**2 * (1 - Fraction(1, 10**6))
            GDPFilter(mu=guarantee.mu, relation=relation).charge(guarantee)
        case ApproxDP():
            ApproxFilter(epsilon=guarantee.epsilon, delta=guarantee.delta, relation=relation).charge(guarantee)
            method = "basic" if plan.priced.budget.currency == "epsilon" else "zcdp"
            delta = guarantee.delta or None
            assert compose([event], delta=delta, method=method).epsilon <= guarantee.epsilon


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE_ONE])
@pytest.mark.parametrize("keys", ["none", "public", "private"])
def test_events_cost_what_is_charged(request_name: str, relation: Relation, keys: str) -> None:
    request = REQUESTS[request_name]
    if keys == "private" and request.account.kind in ("pure", "gdp"):
        return
    for kinds in ([K.COUNT_ROWS], [K.AVG], [K.COUNT_VALUES, K.AVG, K.VAR_SAMP, K.SUM], KINDS):
        assert_covered(plan_query(builder(list(kinds)).query(keys=keys), relation, request))


@settings(max_examples=60, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=5),
    rows=st.integers(1, 9),
    high=st.integers(0, 3000),
    groups=st.integers(1, 9),
    name=st.sampled_from(["pure", "approx", "zcdp", "gdp"]),
    relation=st.sampled_from([ADD_REMOVE, REPLACE_ONE]),
    keys=st.sampled_from(["none", "public"]),
)
def test_events_cost_what_is_charged_for_many_queries(
    kinds: list[K], rows: int, high: int, groups: int, name: str, relation: Relation, keys: str
) -> None:
    query = builder(kinds, rows=rows, low=-7, high=high).query(keys=keys, max_groups=groups)
    plan = plan_query(query, relation, REQUESTS[name])
    assert sum(r.share for r in plan.releases) == 1
    assert sorted(i for r in plan.releases for i in r.block.measures) == list(range(len(query.final.measures)))
    assert_covered(plan)


def unit_values(final: FinalAggregation, values: tuple[int, ...], rounding: int) -> list[int]:
    """Contribution of one unit with these row values to one group, as engines are told to compute it."""
    result = []
    n = len(values)
    for m in final.measures:
        power = {MeasureKind.VALUES: 0, MeasureKind.CENTRED_SUM: 1, MeasureKind.CENTRED_SQUARES: 2}[m.kind]
        if power == 0:
            total = n
        else:
            total = sum((v - m.centre) ** power for v in values)
            if n > m.rows:
                exact = Fraction(total * m.rows, n)
                total = [exact.__floor__(), exact.__ceil__(), round(exact)][rounding]
        result.append(min(max(total, m.clamp[0]), m.clamp[1]))
    return result


@pytest.mark.parametrize("kind", [K.AVG, K.VAR_SAMP])
@pytest.mark.parametrize(("low", "high", "rows"), [(0, 1, 1), (0, 1, 3), (-2, 3, 1), (0, 5, 2), (-1, 6, 3)])
def test_joint_movement_is_bounded_and_the_bound_is_reached(kind: K, low: int, high: int, rows: int) -> None:
    """Every unit with up to rows + 2 values, for every way to round: no block moves further than it says."""
    final = Builder(rows=rows, low=low, high=high).add(kind).final()
    blocks = blocks_of(final, ADD_REMOVE, concentrated=False)
    worst = dict.fromkeys(range(len(blocks)), 0)
    for count, rounding in product(range(rows + 3), range(3)):
        for values in combinations_with_replacement(range(low, high + 1), count):
            raw = [np.array([value], dtype=object) for value in unit_values(final, values, rounding)]
            for place, block in enumerate(blocks):
                moved = inputs(block, raw)
                worst[place] = max(worst[place], int(abs(moved).sum()))
                assert abs(moved).sum() <= block.sensitivity.l1
                assert (moved * moved).sum() <= block.sensitivity.l2_squared
    for place, block in enumerate(blocks):
        slack = 4 * max(high - low, 1) + 2 if len(block.forms) == 3 else 0
        assert worst[place] >= block.sensitivity.l1 - slack


def unit_rows(final: FinalAggregation, rows: tuple[tuple[int | None, bool], ...]) -> list[int]:
    """As :func:`unit_values`, of rows with a value or NULL, and whether the filter holds."""
    result = []
    for m in final.measures:
        counted = [value for value, holds in rows if m.where is None or holds]
        values = [value for value in counted if value is not None]
        match m.kind:
            case MeasureKind.ROWS:
                total = len(counted)
            case MeasureKind.UNITS:
                total = min(len(counted), 1)
            case MeasureKind.VALUES:
                total = len(values)
            case _:
                total = sum(value - m.centre for value in values)
                if m.kind is MeasureKind.CENTRED_SUM and len(values) > m.rows:
                    total = round(Fraction(total * m.rows, len(values)))
        result.append(min(max(total, m.clamp[0]), m.clamp[1]))
    return result


JOINED = [
    ([K.COUNT_ROWS, K.COUNT_VALUES], ()),
    ([K.COUNT_ROWS, K.COUNT_ROWS], (1,)),
    ([K.COUNT_UNITS, K.COUNT_UNITS], (1,)),
    ([K.COUNT_ROWS, K.AVG], ()),
    ([K.COUNT_ROWS, K.AVG], (1, 2)),
    ([K.COUNT_ROWS, K.SUM], ()),
    ([K.SUM, K.COUNT_VALUES], ()),
    ([K.COUNT_ROWS, K.SUM], (1,)),
]


@pytest.mark.parametrize("concentrated", [False, True])
@pytest.mark.parametrize(("low", "high", "rows"), [(0, 2, 1), (-3, -1, 2), (-1, 2, 2), (0, 1, 3)])
@pytest.mark.parametrize(("kinds", "filtered"), JOINED)
def test_a_count_and_its_parts_move_no_further_than_they_say(
    kinds: list[K], filtered: tuple[int, ...], low: int, high: int, rows: int, concentrated: bool
) -> None:
    """Every unit with up to rows + 1 rows, with and without values, inside and outside of the filter."""
    made = Builder(rows=rows, low=low, high=high)
    for kind in kinds:
        made.add(kind)
    if len(made.measures) == 1:
        made.measures.append(made.measures[0])
        made.aggregates[1] = replace(made.aggregates[1], measures=(1,))
    holds = call("gt", column(2, "cost"), literal(0, INTEGER))
    made.measures = [replace(m, where=holds) if i in filtered else m for i, m in enumerate(made.measures)]
    final = made.final()
    blocks = blocks_of(final, ADD_REMOVE, concentrated=concentrated)
    mixed = concentrated and (K.AVG in kinds or (K.SUM in kinds and low < 0 < high))
    assert mixed or len(blocks) == 1
    worst = dict.fromkeys(range(len(blocks)), 0)
    for count in range(rows + 2):
        for unit in combinations_with_replacement([*product([None, *range(low, high + 1)], [False, True])], count):
            raw = [np.array([value], dtype=object) for value in unit_rows(final, unit)]
            for place, block in enumerate(blocks):
                moved = inputs(block, raw)
                assert (moved >= 0).all() or len(block.forms) == 1
                assert abs(moved).sum() <= block.sensitivity.l1
                assert (moved * moved).sum() <= block.sensitivity.l2_squared
                worst[place] = max(worst[place], int(abs(moved).sum()))
                for index, readout in zip(block.measures, block.readouts, strict=True):
                    signs = np.array(readout.signs, dtype=object)
                    assert (moved @ signs)[0] * readout.unit == raw[index][0]
    assert [worst[place] for place in range(len(blocks))] == [block.sensitivity.l1 for block in blocks]


def joint(final: FinalAggregation) -> list[int]:
    return [len(block.forms) for block in blocks_of(final, ADD_REMOVE, concentrated=False)]


def test_which_measurements_are_released_together() -> None:
    assert joint(builder([K.AVG]).final()) == [2]
    assert joint(builder([K.COUNT_VALUES, K.AVG]).final()) == [2]
    assert joint(builder([K.AVG, K.VAR_SAMP]).final()) == [3]
    assert joint(builder([K.SUM, K.COUNT_ROWS]).final()) == [2]
    assert joint(builder([K.COUNT_ROWS, K.COUNT_VALUES]).final()) == [2]
    assert joint(builder([K.COUNT_ROWS, K.AVG]).final()) == [3]
    assert joint(builder([K.COUNT_ROWS, K.AVG, K.SUM]).final()) == [3, 1]
    assert joint(builder([K.COUNT_UNITS, K.SUM]).final()) == [1, 1]
    # Booleans, one row each: rounding slack would outweigh the gain.
    assert joint(builder([K.VAR_SAMP], rows=1, low=0, high=1).final()) == [2, 1]
    final = builder([K.AVG, K.VAR_SAMP]).final()
    assert {len(b.forms) for b in blocks_of(final, REPLACE_ONE, concentrated=False)} == {1}
    assert {len(b.forms) for b in blocks_of(final, ADD_REMOVE, concentrated=True)} == {1}


def test_measures_with_other_clamps_or_filters_are_not_joined() -> None:
    final = builder([K.AVG]).final()
    count, total = final.measures
    for changed in (
        (replace(count, clamp=(0, 9)), total),
        (count, replace(total, clamp=(-1, 500))),
        (count, replace(total, rows=3)),
        (replace(count, argument=None), total),
    ):
        assert joint(replace(final, measures=changed)) == [1, 1]


def test_joining_halves_the_variance() -> None:
    final = builder([K.AVG]).final()
    together = price(final, PlanBudget("epsilon", Fraction(1)), ADD_REMOVE)
    apart = price(final, PlanBudget("epsilon", Fraction(1)), REPLACE_ONE)
    for index, measure in enumerate(final.measures):
        halves = 2 * (2 * measure.sensitivity(max_groups=1).l1) ** 2
        assert together.release_of[index].law(index).variance_bound <= halves / 2 * Fraction(101, 100)
    assert len(apart.releases) == 2


@pytest.mark.parametrize("currency", ["epsilon", "rho", "mu2"])
def test_more_budget_is_never_less_accurate(currency: str) -> None:
    final = builder([K.COUNT_ROWS, K.AVG, K.SUM]).final(keys="public")
    errors = []
    for amount in ("0.01", "0.1", "0.5", "1", "2", "8"):
        priced = price(final, PlanBudget(currency, Fraction(amount)), ADD_REMOVE)
        errors.append([priced.release_of[i].law(i).error("0.05") for i in range(len(final.measures))])
    for before, after in pairwise(errors):
        assert all(b >= a for b, a in zip(before, after, strict=True))


def test_concentrated_budgets_choose_the_smaller_error() -> None:
    for rho in ("0.001", "0.5", "8", "32"):
        final = builder([K.COUNT_ROWS]).final()
        chosen = price(final, PlanBudget("rho", Fraction(rho)), ADD_REMOVE).releases[0]
        laplace = price(
            final, PlanBudget("epsilon", epsilon := Fraction(str(float(2 * Fraction(rho)) ** 0.5))), ADD_REMOVE
        )
        assert epsilon > 0
        assert chosen.law(0).error("0.05") <= laplace.releases[0].law(0).error("0.05")


def test_where_the_middle_counts_laplace_noise_wins() -> None:
    """A tenth of all draws: |Laplace| has more mass near 0 than a Gaussian of the same price."""
    request = Request(rho="0.001", confidence="0.1", account=Account("zcdp"))
    plan = plan_query(builder([K.COUNT_ROWS]).query(), ADD_REMOVE, request)
    assert plan.releases[0].mechanism == "laplace"
    assert_covered(plan)


def test_a_measurement_that_nothing_can_change_is_free() -> None:
    final = Builder().add(K.SUM).add(K.COUNT_ROWS).final()
    final = replace(final, measures=(replace(final.measures[0], clamp=(0, 0)), final.measures[1]))
    priced = price(final, PlanBudget("epsilon", Fraction(1)), ADD_REMOVE)
    assert [(r.mechanism, r.share) for r in priced.releases] == [("constant", 0), ("laplace", 1)]
    assert priced.release_of[0].law(0).error("0.05") == 0


def test_shares_follow_weights_and_coefficients() -> None:
    ones = [Fraction(1)] * 2
    assert split([Fraction(3), Fraction(1)], ones, squared=False) == (Fraction(3, 4), Fraction(1, 4))
    assert split([Fraction(3), Fraction(1)], ones, squared=True) == (Fraction(9, 10), Fraction(1, 10))
    assert split(ones, [Fraction(1), Fraction(4)], squared=False) == (Fraction(1, 5), Fraction(4, 5))
    assert split([Fraction(0)], [Fraction(1)], squared=False) == (0,)


@pytest.mark.parametrize("mu2", ["1e-6", "0.01", "0.5", "1", "9"])
def test_epsilon_of_mu2_fits_and_is_not_wasteful(mu2: str) -> None:
    epsilon = epsilon_of_mu2(Fraction(mu2))
    assert PureDP(epsilon).to_gdp().mu ** 2 <= Fraction(mu2)
    assert PureDP(epsilon * (1 + Fraction(1, 10**9))).to_gdp().mu ** 2 > Fraction(mu2)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "1e-6"), ("5", "1e-5")])
def test_largest_rho_fits_and_is_not_wasteful(epsilon: str, delta: str) -> None:
    """0.0243559703595, 0.000321047690346 and 0.550973474939 by the tight conversion."""
    rho = largest_rho_of(Fraction(epsilon), Fraction(delta))
    assert ZCDP(rho).to_approx(delta).epsilon <= Fraction(epsilon)
    known = {"1": 0.0243559703595, "0.1": 0.000321047690346, "5": 0.550973474939}
    assert float(rho) == pytest.approx(known[epsilon], rel=1e-9)


def test_tree_levels_multiply_the_norms() -> None:
    final = builder([K.MIN]).final(keys="public", max_groups=2)
    block: Block = blocks_of(final, ADD_REMOVE, concentrated=False)[0]
    assert block.tree is not None
    levels = len(block.tree.levels)
    assert levels > 1
    assert (block.sensitivity.l1, block.sensitivity.l2_squared) == (levels * 2 * 2, levels * 2 * 4)
    leaves = np.zeros((3, 101), dtype=np.int64)
    leaves[0, 5], leaves[2, 100] = 2, 2
    assert inputs(block, [leaves]).sum() == block.sensitivity.l1


def test_a_replaced_unit_moves_leaves_and_categories_by_twice_as_much() -> None:
    """Two units of one group in two categories: l1 = 2·rows although there is only one group."""
    final = builder([K.MOST_COMMON]).final()
    block = blocks_of(final, REPLACE_ONE, concentrated=False)[0]
    before, after = np.array([[2, 0, 0]]), np.array([[0, 0, 2]])
    assert abs(inputs(block, [before]) - inputs(block, [after])).sum() == block.sensitivity.l1 == 4
    assert measured(final).keys == ((),)
