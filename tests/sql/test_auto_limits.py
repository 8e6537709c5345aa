"""AUTO ``max_groups`` and ``max_rows``: when they are sought, in which cells, which are chosen, and at what price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from support.toy_engine import ToyEngine
from tacit.core.errors import InputError
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.parsing.parse import parse
from tacit.query.planning.auto_limits import FoundLimits, cells_of, choose, search_of
from tacit.query.planning.explain import explain
from tacit.query.planning.found_parts import with_bounds, with_limits
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.planning.plan import Plan, make_plan
from tacit.query.refusal import Refusal
from tacit.query.request import ACCOUNTS, Account, Request
from tacit.query.types import INTEGER, TEXT
from tacit.releases.receipt import mechanisms_of

LETTERS = ("a", "b", "c", "d", "e")


def catalog(**declared: Any) -> Catalog:
    columns = (
        Column("id", INTEGER),
        Column("k", TEXT, categories=LETTERS),
        Column("free", TEXT),
        Column("x", INTEGER, bounds=(0, 10)),
        Column("y", INTEGER),
    )
    said: dict[str, Any] = {"max_groups": "auto", "max_rows": "auto", "unit_rows": 64, **declared}
    people = Table("people", (Column("id", INTEGER, unique=True), Column("x", INTEGER, bounds=(0, 9))),
                   population="p", unit="id", max_groups="auto", max_rows="auto")  # fmt: skip
    return Catalog((Table("t", columns, population="p", unit="id", **said), people), (Population("p"),))


def planned(sql: str, where: Catalog | None = None, **more: Any) -> Plan:
    return make_plan(sql, where or catalog(), Request(**{"epsilon": "1", "bias_share": "0", **more}))


BY_LETTER = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
PEOPLE_BY_LETTER = "SELECT k, COUNT(DISTINCT id) AS n FROM t GROUP BY k"


@pytest.mark.parametrize(
    ("sql", "sought"),
    [
        ("SELECT COUNT(*) FROM t", (False, True)),
        ("SELECT COUNT(DISTINCT id) FROM t", (False, False)),
        (BY_LETTER, (True, True)),
        (PEOPLE_BY_LETTER, (True, False)),
        ("SELECT SUM(x) FROM t", (False, True)),
        ("SELECT SUM(x, contribution_bounds_per_group => (0, 50)) FROM t", (False, False)),
        ("SELECT COUNT(*, contribution_bounds_per_group => (0, 5)), AVG(x) FROM t", (False, True)),
        ("SELECT COUNT(*), AVG(x) FROM people", (False, False)),
        ("SELECT x, COUNT(*) FROM people GROUP BY x", (False, False)),
        ("SELECT AVG(CLAMP(n, 0, 9)) FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id)", (False, False)),
        ("SELECT DISTINCT k FROM t", (False, False)),
        ("SELECT k, COUNT(*) FROM t WHERE k = 'a' GROUP BY k", (False, True)),
    ],
)
def test_a_search_is_bought_where_declarations_do_not_decide(sql: str, sought: tuple[bool, bool]) -> None:
    plan = planned(sql)
    assert (plan.final.auto_groups, plan.final.auto_rows) == sought
    assert plan.seeks_limits == any(sought) == (plan.first is not None)
    assert len(mechanisms_of(plan)) == len(plan.releases) + any(sought)


def test_a_question_states_auto_or_a_number_over_what_is_declared() -> None:
    declared = catalog(max_groups=3, max_rows=4)
    assert not planned(BY_LETTER, declared).seeks_limits
    for options in ({"max_rows": "auto"}, {"max_rows": "AUTO"}):
        plan = planned(BY_LETTER, declared, **options)
        assert (plan.final.auto_groups, plan.final.auto_rows, plan.final.max_groups) == (False, True, 3)
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = auto, max_rows_contributed = AUTO)"
    inside = planned(BY_LETTER.replace("SELECT", clause), declared)
    beside = planned(BY_LETTER, declared, max_groups="auto", max_rows="auto")
    assert inside.priced == beside.priced
    assert inside.final.text == beside.final.text
    assert parse(BY_LETTER.replace("SELECT", clause)).options.max_rows == "auto"
    numbers = planned(BY_LETTER, catalog(), max_groups=2, max_rows=3)
    assert not numbers.seeks_limits
    assert numbers.releases[0].block.sensitivity.l1 == 6
    with pytest.raises(InputError, match="max_rows: is AUTO in the query and 3 beside it; state it once"):
        planned(BY_LETTER.replace("SELECT", clause), declared, max_rows=3)
    with pytest.raises(InputError, match="max_rows: must be a whole number or AUTO, got 'many'"):
        planned(BY_LETTER, max_rows="many")
    with pytest.raises(Refusal, match=r"max_rows_contributed must be a whole number .*, or AUTO"):
        parse(BY_LETTER.replace("SELECT", clause.replace("= AUTO)", "= many)")))


def test_cells_are_powers_of_two_up_to_what_is_declared() -> None:
    cells = cells_of(planned(BY_LETTER).final)
    assert cells.groups == (1, 2, 4, 5)
    assert cells.rows == (1, 2, 4, 8, 16, 32, 64)
    assert cells_of(planned(PEOPLE_BY_LETTER).final).rows == (1,)
    limited = catalog(max_rows_limit=6, max_groups_limit=2)
    assert cells_of(planned(BY_LETTER, limited).final).rows == (1, 2, 4, 6)
    assert cells_of(planned(BY_LETTER, limited).final).groups == (1, 2)
    private = "SELECT free, COUNT(*) FROM t GROUP BY free"
    assert cells_of(planned(private, account=Account("zcdp", "1e-6")).final).groups == (1, 2, 4, 8, 16, 32, 64)
    stated = planned(BY_LETTER, max_groups=3)
    assert cells_of(stated.final).groups == (1, 2, 3), "rows of the groups that count"


def test_every_person_is_in_the_cell_of_one_of_their_groups() -> None:
    rows = [{"id": 1, "k": "a"}] * 3 + [{"id": 1, "k": "b"}] * 3 + [{"id": 2, "k": "c"}]
    rows += [{"id": 3, "k": letter} for letter in ("a", "b", "c", "d", "e", "?", None)]
    rows += [{"id": 4, "k": letter} for letter in ("a", "?", None)]
    rows = [{"free": None, "x": 1, "y": 1, **row} for row in rows]
    plan = planned(BY_LETTER)
    cells = cells_of(plan.final)
    (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(plan.final), b"s")).raw
    places = [divmod(i, len(cells.rows)) for i, count in enumerate(counts[0]) for _ in range(count)]
    assert sorted((cells.groups[g], cells.rows[r]) for g, r in places) == [(1, 1), (1, 1), (2, 4), (5, 1)]


def test_rows_that_a_filter_leaves_out_are_not_counted() -> None:
    rows = [{"id": 1, "k": "a", "free": None, "x": x, "y": 1} for x in (None, 1, 2, 3, 9, 9, 9, 9, 9)]
    for sql, edge in (
        ("SELECT COUNT(*) FROM t", 16), ("SELECT COUNT(*) FILTER (WHERE x < 3) FROM t", 2), ("SELECT SUM(x) FROM t", 8),
        ("SELECT COUNT(DISTINCT x) FROM t", 4), ("SELECT SUM(x), COUNT(*) FROM t", 16),
    ):  # fmt: skip
        plan = planned(sql)
        (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(plan.final), b"s")).raw
        assert cells_of(plan.final).rows[list(counts[0]).index(1)] == edge, sql


def chosen(sql: str, people: dict[tuple[int, int], int], noise: float = 3.0, **more: Any) -> FoundLimits:
    """The limits chosen from exact counts of people by (groups, rows), with noise of scale 10 in mind."""
    plan = planned(sql, **more)
    cells = cells_of(plan.final)
    counts = [people.get((g, r), 0) for g in cells.groups for r in cells.rows]
    return choose(plan.final, counts, NoiseLaw("laplace", Fraction(10)), noise=noise, squared=False)


def test_the_choice_weighs_noise_against_loss() -> None:
    alone = "SELECT COUNT(*) FROM t"
    assert chosen(alone, {(1, 1): 20_000}) == FoundLimits(None, 1)
    assert chosen(alone, {(1, 1): 20_000, (1, 8): 3000}) == FoundLimits(None, 8)
    few = {(1, 1): 20_000, (1, 64): 90}
    assert chosen(alone, few) == FoundLimits(None, 64), "a few with many rows matter where noise is small"
    assert chosen(alone, few, noise=2000.0) == FoundLimits(None, 1), "and do not where it is large"
    assert chosen(BY_LETTER, {(1, 1): 900, (5, 2): 9000}) == FoundLimits(5, 2)
    assert chosen(PEOPLE_BY_LETTER, {(2, 1): 9000}) == FoundLimits(2, None)
    nothing = chosen(BY_LETTER, {(1, 1): 30})
    assert nothing == FoundLimits(1, 1, seen=False)
    assert "too few people" in str(nothing)
    assert chosen(BY_LETTER, {(2, 2): 9000}, max_groups=2) == FoundLimits(None, 2)


def test_empty_cells_far_from_people_do_not_count() -> None:
    assert chosen("SELECT COUNT(*) FROM t", {(1, 1): 20_000, (1, 64): 60}) == FoundLimits(None, 1), (
        "below what noise reaches"
    )
    assert chosen("SELECT COUNT(*) FROM t", {(1, 1): 20_000, (1, 2): 40}).rows == 2, (
        "beside people a smaller count does"
    )


@pytest.mark.parametrize("kind", ACCOUNTS)
def test_the_number_typed_is_the_guarantee_of_both_stages(kind: str) -> None:
    account = Account(kind, None if kind in ("pure", "gdp") else "1e-6")
    plan = make_plan(
        "SELECT k, COUNT(*), SUM(CLAMP(y, AUTO)) FROM t GROUP BY k",
        catalog(),
        Request(epsilon="1", bias_share="0", account=account),
    )
    stated = make_plan(
        "SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k",
        catalog(max_groups=1, max_rows=1),
        Request(epsilon="1", bias_share="0", account=account),
    )
    assert plan.guarantee == stated.guarantee
    assert [len(search.releases) for search in plan.searches] == [1, 1]
    assert plan.priced.amount == stated.priced.amount
    shares = [search.budget.amount / plan.priced.amount for search in plan.priced.searches]
    assert shares == [Fraction(1, 11), Fraction(1, 11)]
    rest = with_limits(plan, FoundLimits(4, 8))
    assert (rest.guarantee, rest.final.max_groups, rest.limits) == (plan.guarantee, 4, FoundLimits(4, 8))
    assert rest.first is not None
    assert rest.first.final == plan.searches[1].final, "bounds are sought next, over the same rows"
    done = with_bounds(rest, [(Fraction(0), Fraction(100))])
    assert (done.first, done.guarantee) == (None, plan.guarantee)
    assert [measure.rows for measure in done.final.measures] == [8, 8]
    assert done.final.measures[1].clamp == (0, 800)
    assert len({plan.digest, rest.digest, done.digest}) == 3


@pytest.mark.parametrize("kind", ACCOUNTS)
def test_the_table_of_what_is_left_out_comes_last_with_the_limits_found(kind: str) -> None:
    account = Account(kind, None if kind in ("pure", "gdp") else "1e-6")
    plan = make_plan(BY_LETTER, catalog(), Request(epsilon="1", account=account))
    assert [stage.final.aggregates[0].label for stage in plan.stages] == [
        "max_groups up to 5 and max_rows up to 64", "count_rows(*)", "people by what was left out",
    ]  # fmt: skip
    rest = with_limits(plan, FoundLimits(4, 8))
    assert (rest.guarantee, rest.priced.amount) == (plan.guarantee, plan.priced.amount)
    assert rest.priced.left_out == plan.priced.left_out
    assert len(rest.stages) == 2
    assert rest.stages[1].final.text != plan.stages[2].final.text, "it speaks of the limits found"
    assert [table is not None for _, table in plan.measured] == [False, True]


def test_the_rest_is_priced_as_if_the_numbers_had_been_typed() -> None:
    for sql in (BY_LETTER, "SELECT k, AVG(x), COUNT(*), MEDIAN(x) FROM t GROUP BY k", "SELECT VARIANCE(x) FROM t"):
        plan = planned(sql)
        groups = 3 if plan.final.auto_groups else None
        rest = with_limits(plan, FoundLimits(groups, 6))
        typed = planned(sql, max_rows=6, max_groups=groups, epsilon="0.9")
        plain = tuple(replace(measure, auto_rows=False) for measure in rest.final.measures)
        assert plain == typed.final.measures
        assert [r.block.sensitivity for r in rest.releases] == [r.block.sensitivity for r in typed.releases]
        assert [(r.epsilon, r.mechanism) for r in rest.releases] == [(r.epsilon, r.mechanism) for r in typed.releases]


def test_another_ceiling_is_another_release() -> None:
    texts = {planned("SELECT COUNT(*) FROM t", catalog(max_rows_limit=most)).priced.text for most in (5, 6, None)}
    assert len(texts) == 3


def test_the_search_may_be_weighed() -> None:
    heavy = planned(BY_LETTER, weights={"limits": 3})
    assert heavy.priced.limits is not None
    assert heavy.priced.limits.budget.amount == Fraction(3, 12)


def test_accuracy_cannot_be_promised_beforehand() -> None:
    with pytest.raises(InputError, match="within: cannot be promised before AUTO finds max_groups and max_rows"):
        planned(BY_LETTER, epsilon=None, within=10)
    assert planned(BY_LETTER, epsilon=None, within=10, max_groups=1, max_rows=1).guarantee


def test_explain_says_so_before_and_after() -> None:
    plan = planned(BY_LETTER)
    said = explain(plan)
    assert "max_groups AUTO (declared: found privately within the price), max_rows AUTO" in said.limits
    assert "28 cells of powers of two, each unit in one" in said.limits
    assert said.bounding.startswith("as many rows as AUTO finds of a unit count per group, in as many groups as AUTO")
    assert said.releases[0].name == "categories for max_groups up to 5 and max_rows up to 64"
    assert (said.releases[0].share, said.releases[0].l1_sensitivity) == ("1/10", "1")
    assert "more with the limits that AUTO finds" in said.errors[0].meaning
    found = explain(with_limits(plan, FoundLimits(4, 8)))
    assert found.limits == "max_groups 4 (found: AUTO declared), max_rows 8 (found: AUTO declared)"
    assert found.bounding.startswith("at most 8 rows of a unit count per group, in at most 4 groups")
    assert "AUTO" not in found.errors[0].meaning
    blind = explain(with_limits(plan, FoundLimits(1, 1, seen=False)))
    assert blind.limits.endswith("too few people for a search at this price: state numbers")


def test_words_of_plans_without_auto_are_what_they_were() -> None:
    """The key of a repeat must not change for answers that are stored already."""
    plan = planned(BY_LETTER, catalog(max_groups=2, max_rows=3))
    assert "limits" not in plan.priced.text
    assert "auto" not in plan.final.text
    assert "auto" in planned(BY_LETTER).final.text


def choices(sql: str) -> Sequence[int]:
    """Widths that an engine is asked about beforehand."""
    return [measure.rows for measure in planned(sql).measured[-1][0].measures]


def test_an_engine_is_asked_about_the_largest_limits_beforehand() -> None:
    assert choices("SELECT SUM(x) FROM t") == [64]
    assert planned(BY_LETTER).measured[-1][0].max_groups == 5
    assert len(planned(BY_LETTER).measured) == 2
