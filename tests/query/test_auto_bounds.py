"""CLAMP(x, AUTO): cells, the choice of bounds, and a plan whose price, shape and refusals know nothing of the data."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from fractions import Fraction
from typing import Any

import pytest

from engines.edges import EDGES
from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from tacit.core.errors import InputError
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.engines.sql.bounding import check_width
from tacit.query.planning.auto_bounds import MOST_STEPS, choose, edges_of, provisional, search_of, sought
from tacit.query.planning.explain import explain
from tacit.query.planning.measures import MeasureKind
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan, make_plan, with_bounds
from tacit.query.relational.expressions import Expression, Reference
from tacit.query.relational.functions import evaluate
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, Domain, Range, SqlType, decimal, ordinal

AVG = "SELECT AVG(CLAMP(score, AUTO)) FROM visits"
TWO = (
    "SELECT ward, AVG(CLAMP(score, AUTO)) AS a, SUM(CLAMP(points, AUTO)) AS s, COUNT(*) AS n FROM visits GROUP BY ward"
)
#: Far cells are seen from 136 on, neighbours from 24 on.
LAW = NoiseLaw("laplace", Fraction(10))


def column(kind: SqlType, low: int | None = None, high: int | None = None) -> Expression:
    span = Range(None if low is None else Fraction(low), None if high is None else Fraction(high))
    return Reference(kind, Domain(span), 0, "x")


def planned(sql: str, account: str = "pure", **asked: Any) -> Plan:
    delta = "1e-6" if account in ("approx", "zcdp") else None
    # An account too small for the larger rho at which Gaussian noise that is fixed beforehand is (ε, δ)-DP.
    paying = Account(account, delta, delta, Fraction(1, 10**6))
    return make_plan(sql, CATALOG, Request(account=paying, **({"epsilon": 1} | asked)))


# -- cells


def test_cells_are_powers_of_two_around_zero() -> None:
    whole = edges_of(column(INTEGER))
    assert whole[:2] == (-(2**62), -(2**61))
    assert whole[60:68] == (-4, -2, -1, 0, 0, 1, 2, 4)
    assert len(whole) == 128
    assert edges_of(column(DOUBLE))[-1] == 2**62
    assert min(edge for edge in edges_of(column(DOUBLE)) if edge > 0) == Fraction(1, 2**32)
    cents = edges_of(column(decimal(2)))
    assert Fraction(1, 100) in cents
    assert Fraction(16384, 100) in cents
    assert cents[-1] == Fraction(2**59, 100)


@pytest.mark.parametrize(
    ("low", "high", "edges"),
    [
        (0, None, (0, 0, 1, 2, 4)),
        (3, None, (0, 0, 1, 2, 4)),
        (0, 5, (0, 0, 1, 2, 4, 8)),
        (-3, 2, (-4, -2, -1, 0, 0, 1, 2, 4)),
        (-3, 0, (-4, -2, -1, 0, 0)),
        (0, 0, (0, 0)),
    ],
)
def test_cells_outside_a_presumed_range_are_bias(low: int, high: int | None, edges: tuple[int, ...]) -> None:
    found = edges_of(column(INTEGER, low, high))
    assert found[: len(edges)] == edges
    assert high is None or len(found) == len(edges)


@pytest.mark.parametrize("kind", [INTEGER, DOUBLE, decimal(0), decimal(2), decimal(9)], ids=str)
def test_every_value_falls_into_its_cell(kind: SqlType) -> None:
    """The expression that an engine is given, against its definition."""
    sql = {"INTEGER": "points", "DOUBLE": "score"}.get(str(kind), f"CAST(score AS DECIMAL(18, {kind.scale}))")
    final = resolve(f"SELECT SUM(CLAMP({sql}, AUTO)) FROM visits", CATALOG).final
    numbered: Any = search_of(final).source
    edges = edges_of(sought(final)[0].argument)
    for value in [*EDGES[kind], 1, 2, 3, 4, -1, -2, -3, -4, 5, 128, 129]:
        if kind == DOUBLE and value is not None:
            value = float(value)  # type: ignore[arg-type]
        found = evaluate(numbered.expressions[0], (value,))
        if value is None:
            assert found is None
            continue
        place = ordinal(value, kind)
        if place == 0:
            assert edges[found : found + 2] == (0, 0)  # type: ignore[operator, misc]
        elif place > 0:
            assert found == min(bisect_left(edges, place), len(edges) - 1) - 1
        else:
            assert found == max(bisect_right(edges, place), 1) - 1


# -- the choice


def chosen(counts: dict[int, int], kind: SqlType = INTEGER, low: int | None = None, high: int | None = None) -> Any:
    """Bounds from counts by the upper edge of a cell (below zero: the lower one); other cells are empty."""
    argument = column(kind, low, high)
    edges = edges_of(argument)
    noisy = [0] * (len(edges) - 1)
    for edge, count in counts.items():
        noisy[edges.index(Fraction(edge)) - (edge > 0)] = count
    return choose(argument, noisy, LAW)


def test_bounds_hold_the_inhabited_cells() -> None:
    assert chosen({128: 9000}) == (64, 128)
    assert chosen({64: 5000, 128: 9000}) == (0, 128)
    assert chosen({8: 5000, 128: 9000}) == (0, 128)
    assert chosen({-8: 5000, 128: 9000}) == (-8, 128)
    assert chosen({-128: 9000}) == (-128, -64)
    assert chosen({-8: 5000, -128: 9000}) == (-128, 0)
    assert chosen({0: 5000}) == (0, 0)


def test_a_lone_count_needs_to_be_sure_and_a_neighbour_only_likely() -> None:
    assert chosen({64: 9000, 4096: 100}) == (32, 64)
    assert chosen({64: 9000, 4096: 200}) == (0, 4096)
    assert chosen({64: 9000, 128: 30, 256: 25, 512: 20}) == (0, 256)
    assert chosen({64: 9000, 256: 30}) == (32, 64)
    assert chosen({64: 9000, 32: 30, 16: 30}) == (0, 64)


def test_where_noise_may_hide_a_hundredth_the_next_cell_is_taken_in() -> None:
    assert chosen({64: 2400}) == (32, 64)
    assert chosen({64: 2200}) == (0, 128)


def test_nothing_found_is_the_default_or_what_is_declared() -> None:
    assert chosen({64: 50}) == (-1, 1)
    assert chosen({64: 50}, low=0) == (0, 1)
    assert chosen({-64: 50}, high=0) == (-1, 0)
    assert chosen({}, low=5) == (5, 5)
    assert chosen({}, low=5, high=80) == (5, 80)


def test_bounds_stay_inside_a_presumed_range() -> None:
    assert chosen({128: 9000}, low=0, high=100) == (64, 100)
    assert chosen({128: 9000, 16: 9000}, low=10, high=100) == (10, 100)


def test_the_thresholds_are_quantiles_of_the_noise() -> None:
    """One less count than needed is not seen."""
    empty = [0] * 127
    edges = edges_of(column(INTEGER))
    at = edges.index(Fraction(2**40)) - 1

    def seen(count: int) -> bool:
        return choose(column(INTEGER), [*empty[:at], count, *empty[at + 1 :]], LAW) != (-1, 1)

    smallest = next(count for count in range(1000) if seen(count))
    tail = math.exp(-(smallest) / 10) / (1 + math.exp(-1 / 10))
    assert tail <= 1 - (1 - 1e-3) ** (1 / 127) < tail * math.exp(1 / 10)


# -- the plan


@pytest.mark.parametrize("account", ["pure", "approx", "zcdp", "gdp"])
def test_both_stages_together_cost_what_was_typed(account: str) -> None:
    plan = planned(TWO, account)
    plain = planned(TWO.replace("AUTO", "0, 10"), account)
    assert plan.guarantee == plain.guarantee
    assert isinstance(plan.guarantee, PureDP | ApproxDP | ZCDP | GDP)
    search = plan.priced.first
    assert search is not None
    assert plan.priced.amount == plain.priced.amount
    last = plan.priced.bias
    assert last is not None
    assert last.priced.amount * 25 == plan.priced.amount
    assert search.amount * 10 == plan.priced.amount - last.priced.amount
    assert search.keys is None
    assert len(search.releases) == 2
    assert len(plan.event.events) == len(search.releases) + len(plan.releases) + len(last.priced.releases)


@pytest.mark.parametrize("account", ["pure", "approx", "zcdp", "gdp"])
@pytest.mark.parametrize("bounds", [(0, 0), (-1, 1), (0, 128), (-(2**62), 2**62), (Fraction(1, 2**32), 1)])
def test_whatever_is_found_the_charge_and_the_search_stay(account: str, bounds: tuple[Fraction, Fraction]) -> None:
    plan = planned(TWO.replace("AVG", "VARIANCE"), account)
    pairs = [(Fraction(bounds[0]), Fraction(bounds[1])), (Fraction(-4), Fraction(4))]
    rest = with_bounds(plan, pairs)
    assert rest.guarantee == plan.guarantee
    assert rest.priced.first == plan.priced.first
    assert rest.priced.budget == plan.priced.budget
    assert rest.first is None
    assert [(f.low, f.high) for f in rest.found] == pairs
    assert [m.kind for m in rest.final.measures] == [m.kind for m in plan.final.measures]
    assert [(a.kind, a.measures, a.type) for a in rest.final.aggregates] == [
        (a.kind, a.measures, a.type) for a in plan.final.aggregates
    ]
    assert len(rest.errors) == len(plan.errors)
    assert rest.digest != plan.digest


def test_private_keys_and_their_delta_are_paid_by_the_rest() -> None:
    sql = "SELECT doctor, SUM(CLAMP(score, AUTO)) FROM visits GROUP BY doctor"
    for account in ("approx", "zcdp"):
        plan = planned(sql, account)
        assert plan.priced.first is not None
        assert plan.priced.first.budget.delta == 0
        assert plan.keys is not None
        assert with_bounds(plan, [(Fraction(0), Fraction(9))]).keys == plan.keys


@pytest.mark.parametrize(("account", "share"), [("pure", Fraction(2, 11)), ("zcdp", Fraction(4, 13))])
def test_the_search_can_be_weighed(account: str, share: Fraction) -> None:
    plan = planned(AVG, account, weights={"bounds": 2}, bias_share=0)
    assert plan.priced.first is not None
    assert plan.priced.first.amount == share * plan.priced.amount


def test_one_value_of_a_unit_is_in_the_search() -> None:
    plan = planned("SELECT ward, AVG(CLAMP(score, AUTO)) FILTER (WHERE urgent) AS a FROM visits GROUP BY ward")
    assert plan.first is not None
    (measure,) = plan.first.final.measures
    assert (measure.kind, measure.rows, measure.clamp, measure.where) == (MeasureKind.CATEGORIES, 1, (0, 1), None)
    assert (plan.first.final.keys, plan.first.final.max_groups) == ((), 1)
    assert plan.first.priced.releases[0].block.sensitivity.l1 == 1


def test_columns_are_sought_once_each() -> None:
    sql = (
        "SELECT AVG(CLAMP(score, AUTO)), STDDEV((CLAMP(score, auto))), MEDIAN(CLAMP(score, AUTO)), "
        "SUM(CLAMP(score, AUTO)) FILTER (WHERE urgent), AVG(CLAMP(score, 0, 1)), AVG(cost) FROM visits"
    )
    names = [value.name for value in sought(resolve(sql, CATALOG).final)]
    assert names == ["avg(score), stddev_samp(score), quantile(score)", "sum(score)"]


def test_an_auto_column_is_another_than_a_bounded_one() -> None:
    first, second = resolve("SELECT SUM(CLAMP(cost, AUTO)), SUM(cost) FROM visits", CATALOG).final.measures
    assert first.auto
    assert not second.auto
    assert first.text != second.text


def test_coarse_steps_keep_wide_bounds_narrow_in_steps() -> None:
    plan = planned("SELECT SUM(CLAMP(points, AUTO)), AVG(CLAMP(cost + score * 0, AUTO)) FROM visits")
    rest = with_bounds(plan, [(Fraction(-(2**62)), Fraction(2**62)), (Fraction(0), Fraction(2**40))])
    whole, double = (m for m in rest.final.measures if m.auto)
    assert whole.step == 2**30
    assert whole.high == MOST_STEPS
    assert double.high <= 2**21
    cents = planned("SELECT SUM(CLAMP(CAST(score AS DECIMAL(18, 2)), AUTO)) FROM visits")
    wide = with_bounds(cents, [(Fraction(0), Fraction(2**59, 100))]).final.measures[0]
    assert wide.step == Fraction(2**27, 100)


def test_an_engine_that_accepts_the_quote_accepts_whatever_is_found() -> None:
    """Refusing after the search would tell something that was not paid for."""
    for text in ("score", "points", "CAST(score AS DECIMAL(18, 2))", "CAST(score AS DECIMAL(18, 9))"):
        plan = planned(f"SELECT VARIANCE(CLAMP({text}, AUTO)), SUM(CLAMP({text}, AUTO)) FROM visits")
        for measure in plan.final.measures:
            check_width(measure)
        edges = edges_of(sought(plan.final)[0].argument)
        for i in range(0, len(edges) - 1, 3):
            for pair in ((edges[i], edges[-1]), (edges[0], edges[i + 1]), (edges[i], edges[i + 1])):
                rest = with_bounds(plan, [pair])
                for found, sure in zip(rest.final.measures, plan.final.measures, strict=True):
                    check_width(found)
                    assert max(map(abs, (found.low, found.high))) <= MOST_STEPS
                    assert abs(found.clamp[1]) <= abs(sure.clamp[1])


@pytest.mark.parametrize(
    "sql",
    [
        *(sql for sql in ACCEPTED if "AUTO)" in sql),
        "SELECT SUM(CLAMP(y, AUTO)) FROM (SELECT GREATEST(score, 0) AS y FROM visits)",
        "SELECT SUM(CLAMP(y + 1, AUTO)) FROM (SELECT -ABS(points) - 2 AS y FROM visits WHERE points > 3)",
    ],
)
def test_no_rewriting_forgets_the_sign_that_the_quote_presumes(sql: str) -> None:
    """Cells are made after the rules, provisional bounds before them; both read one presumed range."""
    for measure in resolve(sql, CATALOG).final.measures:
        if measure.auto and measure.argument is not None:
            assert provisional(measure.argument) == (measure.low, measure.high)
            assert measure.step == 1


@pytest.mark.parametrize("asked", [{"within": 5}, {"within": {"a": 5}, "suppose": 100}])
def test_an_accuracy_cannot_be_promised(asked: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match=r"within: cannot be promised before AUTO bounds are found.*CLAMP\(x, lo, hi\)"
    ):
        planned(TWO, epsilon=None, **asked)


@pytest.mark.parametrize("call", ["AVG", "SUM", "STDDEV", "MEDIAN", "MAX"])
def test_a_value_without_bounds_means_auto(call: str) -> None:
    written = resolve(f"SELECT {call}(CLAMP(score, AUTO)) FROM visits", CATALOG)
    assert resolve(f"SELECT {call}(score) FROM visits", CATALOG).final == written.final
    plan = make_plan(f"SELECT {call}(score) FROM visits", CATALOG, Request(epsilon="1"))
    (sentence,) = explain(plan).advice
    assert re.search(r"Clipping bounds of \w+\(score\): 9.6% of the budget finds them", sentence)


def test_the_digest_of_a_query_knows_auto() -> None:
    assert resolve(AVG, CATALOG).digest != resolve(AVG.replace("AUTO", "-4294967296, 4294967296"), CATALOG).digest
    assert resolve(AVG, CATALOG) == resolve(AVG.replace("AUTO", "auto"), CATALOG)


# -- words


def test_explain_says_what_happens_in_both_stages() -> None:
    asked = {"suppose": 10**5, "bias_share": 0}
    it = explain(planned(TWO.replace(", COUNT", ", VARIANCE(CLAMP(points, AUTO)) AS v, COUNT"), **asked))
    search, *_ = it.releases
    assert sum(Fraction(release.share) for release in it.releases) == 1
    assert (search.share, search.l1_sensitivity, search.scale, search.cost) == ("1/20", "1", "20", "epsilon 0.05")
    scales = {release.name: release.scale for release in it.releases}
    assert [name for name, scale in scales.items() if scale.endswith(" b")] == [
        "values, centred sum, rows for avg(score), count_rows(*)",
        "sum for sum(points)",
    ]
    assert [name for name, scale in scales.items() if scale.endswith(" b²")] == [
        "values, centred sum, centred squares for var_samp(points)"
    ]
    text = str(it)
    for needed in (
        "AUTO for avg(score); sum(points), var_samp(points): found first",
        "with probability at most 0.1%",
        "times the larger bound",
        "times its square",
        "within the bounds found",
    ):
        assert needed in text
    assert it.bounds is not None


def test_the_stated_multiple_of_b_is_the_scale_with_bounds_found() -> None:
    """120 b for bounds of b = 2^20 steps: what explain says beforehand is what happens afterwards."""
    plan = planned("SELECT SUM(CLAMP(points, AUTO)) AS s, AVG(CLAMP(points, AUTO)) AS a FROM visits", suppose=10**6)
    before = explain(plan)
    rest = with_bounds(plan, [(Fraction(-(2**20)), Fraction(2**20))])
    after = explain(rest)
    for one, two in zip(before.releases, after.releases, strict=True):
        if one.scale.endswith(" b"):
            assert float(one.scale[:-2]) * 2**20 == pytest.approx(float(two.scale), rel=1e-4)
        else:
            assert one.scale == two.scale
        assert (one.share, one.cost, one.mechanism) == (two.share, two.cost, two.mechanism)
    for error, exact in zip(plan.errors, rest.errors, strict=True):
        assert error.bound is not None
        assert exact.bound is not None
        assert float(error.bound * 2**20) == pytest.approx(float(exact.bound), rel=1e-3)
    assert after.bounds == "found: values of sum(points), avg(points) within [-1048576, 1048576]"
    assert before.charge == after.charge


def test_a_query_without_auto_says_nothing_of_it() -> None:
    plan = planned("SELECT COUNT(*) FROM visits")
    assert plan.first is None
    assert plan.found == ()
    assert explain(plan).bounds is None
