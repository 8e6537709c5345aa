"""AUTO ``max_groups`` and ``max_rows``: when they are sought, in which cells, which are chosen, and at what price."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from support.toy_engine import ToyEngine
from tacit.core.errors import InputError
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.parsing.parse import parse
from tacit.query.planning.auto_limits import FoundLimits, cells_of, choose, rows_beyond, search_of
from tacit.query.planning.explain import explain
from tacit.query.planning.noise import NoiseLaw
from tacit.query.planning.plan import Plan, make_plan, with_bounds, with_found, with_limits
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


CONCENTRATED = Account("zcdp", "1e-6")


def planned(sql: str, where: Catalog | None = None, **more: Any) -> Plan:
    return make_plan(sql, where or catalog(), Request(**{"epsilon": "1", "bias_share": "0", **more}))


BY_LETTER = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
PAIR = "SELECT k, COUNT(*) AS n, COUNT(DISTINCT id) AS p FROM t GROUP BY k"
PEOPLE_BY_LETTER = "SELECT k, COUNT(DISTINCT id) AS n FROM t GROUP BY k"


@pytest.mark.parametrize(
    ("sql", "sought"),
    [
        ("SELECT COUNT(*) FROM t", "rows"),
        ("SELECT COUNT(DISTINCT id) FROM t", ""),
        (BY_LETTER, "total"),
        ("SELECT k, AVG(x), SUM(x) FROM t GROUP BY k", "total"),
        ("SELECT k, COUNT(*), COUNT(DISTINCT id) FROM t GROUP BY k", "groups rows"),
        ("SELECT k, MEDIAN(x) FROM t GROUP BY k", "groups rows"),
        ("SELECT k, COUNT(*) FROM t GROUP BY ROLLUP(k)", "groups rows"),
        (PEOPLE_BY_LETTER, "groups"),
        ("SELECT SUM(x) FROM t", "rows"),
        ("SELECT SUM(x, contribution_bounds_per_group => (0, 50)) FROM t", ""),
        ("SELECT COUNT(*, contribution_bounds_per_group => (0, 5)), AVG(x) FROM t", "rows"),
        ("SELECT COUNT(*), AVG(x) FROM people", ""),
        ("SELECT x, COUNT(*) FROM people GROUP BY x", ""),
        ("SELECT AVG(CLAMP(n, 0, 9)) FROM (SELECT id, COUNT(*) AS n FROM t GROUP BY id)", ""),
        ("SELECT DISTINCT k FROM t", ""),
        ("SELECT k, COUNT(*) FROM t WHERE k = 'a' GROUP BY k", "rows"),
    ],
)
def test_a_search_is_bought_where_declarations_do_not_decide(sql: str, sought: str) -> None:
    plan = planned(sql)
    assert " ".join(name for name in ("groups", "rows", "total") if getattr(plan.final, f"auto_{name}")) == sought
    assert plan.seeks_limits == bool(sought) == (plan.first is not None)
    assert len(mechanisms_of(plan)) == len(plan.priced.event(plan.relation).events)


def test_a_query_states_auto_or_a_number_over_what_is_declared() -> None:
    declared = catalog(max_groups=3, max_rows=4)
    assert not planned(BY_LETTER, declared).seeks_limits
    for options in ({"max_rows": "auto"}, {"max_rows": "AUTO"}):
        plan = planned(BY_LETTER, declared, **options, account=CONCENTRATED)
        assert (plan.final.auto_groups, plan.final.auto_rows, plan.final.auto_total) == (False, True, True)
        both = with_limits(plan, FoundLimits(None, 5, total=40)).final
        assert (both.max_groups, both.max_total, both.most_in_group) == (3, 40, 5)
        total = with_limits(planned(BY_LETTER, declared, **options), FoundLimits(None, None, total=40)).final
        assert (total.max_groups, total.max_total, total.most_in_group) == (3, 40, 40)
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
    assert cells_of(planned(BY_LETTER).final).rows == (1, 2, 4, 8, 16, 32, 64), "of all groups together"
    cells = cells_of(planned(BY_LETTER, account=CONCENTRATED).final)
    assert cells.groups == cells.rows == (1, 2, 4, 8, 16, 32, 64), "of all groups, and of the group of a typical row"
    pair = cells_of(planned(PAIR, account=CONCENTRATED).final)
    assert pair.groups == (1, 2, 4, 5)
    assert pair.rows == (1, 2, 4, 8, 16, 32, 64)
    assert cells_of(planned(PEOPLE_BY_LETTER).final).rows == (1,)
    limited = catalog(max_rows_limit=6, max_groups_limit=2)
    assert cells_of(planned(BY_LETTER, limited).final).rows == (1, 2, 4, 8, 12), "6 in each of 2"
    assert cells_of(planned(BY_LETTER, limited, account=CONCENTRATED).final).rows == (1, 2, 4, 6)
    assert cells_of(planned(BY_LETTER, limited, account=CONCENTRATED).final).groups == (1, 2, 4, 8, 12)
    assert cells_of(planned(PAIR, limited, account=CONCENTRATED).final).groups == (1, 2)
    private = "SELECT free, COUNT(*) FROM t GROUP BY free"
    assert cells_of(planned(private, account=Account("zcdp", "1e-6")).final).groups == (1, 2, 4, 8, 16, 32, 64)
    stated = planned(PAIR, max_groups=3, account=CONCENTRATED)
    assert cells_of(stated.final).groups == (1, 2, 3), "rows of the groups that count"


def test_every_person_is_in_the_cell_of_one_of_their_groups() -> None:
    rows = [{"id": 1, "k": "a"}] * 3 + [{"id": 1, "k": "b"}] * 3 + [{"id": 2, "k": "c"}]
    rows += [{"id": 3, "k": letter} for letter in ("a", "b", "c", "d", "e", "?", None)]
    rows += [{"id": 4, "k": letter} for letter in ("a", "?", None)]
    rows = [{"free": None, "x": 1, "y": 1, **row} for row in rows]
    total = planned(BY_LETTER).final
    (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(total), b"s")).raw
    found = [edge for edge, count in zip(cells_of(total).rows, counts[0], strict=True) for _ in range(count)]
    assert found == [1, 1, 8, 8], "rows of listed groups: 1 of two people, 6 and 5 of the others"
    both = planned(BY_LETTER, account=CONCENTRATED).final
    rows += [{"free": None, "x": 1, "y": 1, "id": 5, "k": letter} for letter in "aaaaaaab"]
    totals, typical = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(both), b"s")).raw
    for counts, edges, wanted in ((totals, cells_of(both).groups, [1, 1, 8, 8, 8]),
                                  (typical, cells_of(both).rows, [1, 1, 1, 4, 8])):  # fmt: skip
        found = [edge for edge, count in zip(edges, counts[0], strict=True) for _ in range(count)]
        assert found == wanted, "3² + 3² of 6 rows, 7² + 1² of 8"
    rows = [row for row in rows if row["id"] != 5]
    plan = planned(PAIR, account=CONCENTRATED)
    cells = cells_of(plan.final)
    (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(plan.final), b"s")).raw
    places = [divmod(i, len(cells.rows)) for i, count in enumerate(counts[0]) for _ in range(count)]
    assert sorted((cells.groups[g], cells.rows[r]) for g, r in places) == [(1, 1), (1, 1), (2, 4), (5, 1)]


def test_rows_that_a_filter_leaves_out_are_not_counted() -> None:
    rows = [{"id": 1, "k": "a", "free": None, "x": x, "y": 1} for x in (None, 1, 2, 3, 9, 9, 9, 9, 9)]
    for sql, edge in (
        ("SELECT COUNT(*) FROM t", 16), ("SELECT COUNT(*) FILTER (WHERE x < 3) FROM t", 2), ("SELECT AVG(x) FROM t", 8),
        ("SELECT COUNT(DISTINCT x) FROM t", 4), ("SELECT SUM(x), COUNT(*) FROM t", 16),
    ):  # fmt: skip
        plan = planned(sql)
        (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(plan.final), b"s")).raw
        assert cells_of(plan.final).rows[list(counts[0]).index(1)] == edge, sql


def test_of_a_sum_the_search_is_about_the_total_of_a_person() -> None:
    """Values up to 10: a total of 51 is that of 6 rows, however many rows there are; no value is 0."""
    rows = [{"id": 1, "k": "a", "free": None, "x": x, "y": 1} for x in (None, 1, 2, 3, 9, 9, 9, 9, 9)]
    rows += [{"id": 2, "k": "a", "free": None, "x": 1, "y": 1}] * 12 + [
        {"id": 3, "k": "a", "free": None, "x": None, "y": 1}
    ]
    for sql, edges in (
        ("SELECT SUM(x) FROM t", [1, 2, 8]),
        ("SELECT SUM(x) FILTER (WHERE x < 3) FROM t", [1, 1, 2]),
        ("SELECT SUM(x), COUNT(*) FROM t", [1, 16, 16]),
    ):
        plan = planned(sql)
        (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(search_of(plan.final), b"s")).raw
        found = [edge for edge, count in zip(cells_of(plan.final).rows, counts[0], strict=True) for _ in range(count)]
        assert found == edges, sql


def chosen(
    sql: str, people: dict[tuple[int, int], int], where: Catalog | None = None, noise: float = 3.0, **more: Any
) -> FoundLimits:
    """The limits chosen from exact counts of people by (groups, rows), with noise of scale 10 in mind."""
    plan = planned(sql, where, **more)
    cells = cells_of(plan.final)
    counts = [people.get((g, r), 0) for g in cells.groups for r in cells.rows]
    return choose(plan.final, counts, NoiseLaw("laplace", Fraction(10)), noise=noise, squared=False)


def test_the_choice_weighs_noise_against_loss() -> None:
    alone = "SELECT COUNT(*) FROM t"
    few = {(1, 1): 20_000, (1, 64): 90}
    assert chosen(alone, few) == FoundLimits(None, 64), "a few with many rows matter where noise is small"
    assert chosen(alone, few, noise=2000.0) == FoundLimits(None, 1), "and do not where it is large"
    assert chosen(alone, {(1, 1): 20_000, (1, 8): 3000}, noise=90.0) == FoundLimits(None, 8)
    assert chosen(PEOPLE_BY_LETTER, {(2, 1): 9000}, noise=90.0) == FoundLimits(2, None)
    both = {(1, 1): 900, (5, 2): 9000}
    assert chosen(PAIR, both, account=CONCENTRATED) == FoundLimits(5, 2)
    assert chosen(PAIR, {(2, 2): 9000}, max_groups=2, account=CONCENTRATED) == FoundLimits(None, 2)
    total = {(1, 1): 9000, (1, 32): 2000}
    assert chosen(BY_LETTER, total, noise=30.0) == FoundLimits(None, None, total=32)
    assert chosen(BY_LETTER, {(1, 1): 20_000, (1, 64): 90}, noise=10.0).total == 64, "of few groups each lacks much"
    many = BY_LETTER.replace("k,", "k, x,").replace("BY k", "BY k, x")
    assert chosen(many, {(1, 1): 20_000, (1, 64): 90}, noise=300.0).total == 1, "and of many little"


def test_with_gaussian_noise_the_rows_in_all_and_in_a_group_are_chosen_together() -> None:
    """The l2 norm is the root of their product: with Laplace noise the rows in a group cost nothing more."""
    final = planned(BY_LETTER, account=CONCENTRATED).final
    counts = [900, 0, 0, 0, 9000, 0, 0, 900, 9000, 0, 0, 0, 0, 0]
    law = NoiseLaw("laplace", Fraction(10))
    gaussian = choose(final, counts, law, noise=90.0, squared=True)
    assert gaussian == FoundLimits(None, 2, total=16)
    assert choose(final, counts, law, noise=90.0, squared=False).total == 16
    (release,) = with_limits(planned(BY_LETTER, account=CONCENTRATED), gaussian).priced.releases
    assert release.block.sensitivity.l2_squared == 5 * 2**2, "5 groups of 2 rows are less than 16 · 2"
    heat = BY_LETTER.replace("k,", "k, x,").replace("BY k", "BY k, x")
    (release,) = with_limits(planned(heat, account=CONCENTRATED), gaussian).priced.releases
    assert release.block.sensitivity.l2_squared == 16 * 2


def test_noise_of_one_row_is_not_taken_for_none() -> None:
    """At a large epsilon the error of one row is rounded to 0, and noise of 64 rows is not 64 times that."""
    plan = planned("SELECT COUNT(*) FROM t", epsilon="5")
    assert plan.priced.limits is not None
    assert plan.releases[0].law(0).error(Fraction(1, 20)) == 0
    counts = np.array([[20_000, 0, 0, 0, 0, 0, 0]])
    found = with_found(plan, [counts], [plan.priced.limits.releases[0].law(0)])
    assert found.limits is not None
    assert found.limits.rows in (1, 2)


def test_where_nobody_is_seen_a_public_default_counts_and_says_so() -> None:
    nothing = chosen("SELECT COUNT(*) FROM t", {(1, 1): 30})
    assert nothing == FoundLimits(None, 16, seen=False)
    assert str(nothing) == "max_rows 16 (a default: too few people for a search at this cost)"
    assert chosen(BY_LETTER, {(1, 1): 30}) == FoundLimits(None, None, total=16, seen=False)
    assert chosen(BY_LETTER, {(1, 1): 30}, account=CONCENTRATED) == FoundLimits(None, 4, total=16, seen=False)
    assert chosen(PAIR, {(1, 1): 30}, account=CONCENTRATED) == FoundLimits(4, 4, seen=False)
    assert chosen("SELECT COUNT(*) FROM t", {(1, 1): 30}, catalog(max_rows_limit=3)).rows == 3, "never above a ceiling"


def test_cells_that_no_one_of_them_shows_are_seen_together() -> None:
    spread = {(1, edge): 60 for edge in (1, 2, 4, 8)}
    assert not chosen("SELECT COUNT(*) FROM t", {(1, 1): 60}).seen
    assert chosen("SELECT COUNT(*) FROM t", spread).seen


def test_empty_cells_far_from_people_do_not_count() -> None:
    far = {(1, 1): 20_000, (1, 64): 60}
    assert chosen("SELECT COUNT(*) FROM t", far, noise=300.0) == FoundLimits(None, 1), "below what noise reaches"


def test_the_loss_is_estimated_in_rows() -> None:
    edges, law = (1, 2, 4, 8, 16), NoiseLaw("laplace", Fraction(1))
    beyond = rows_beyond(edges, (500, 200, 0, 0, 40), law, 1, Fraction(19, 20))
    assert (beyond.people, beyond.rows, beyond.kept) == (240, 200 * 1 + 40 * Fraction(23, 2), 740)
    assert beyond.rows < beyond.most < beyond.rows + 60
    none = rows_beyond(edges, (500, 200, 0, 0, 0), law, 16, Fraction(19, 20))
    assert (none.people, none.rows, none.most) == (0, 0, 0), "nothing is beyond the last edge"
    hidden = rows_beyond(edges, (500, 200, 0, 0, 0), law, 2, Fraction(19, 20))
    assert hidden.rows == 0
    assert 0 < hidden.most < 10, "as many as noise may hide"


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
    assert [len(search.priced.releases) for search in plan.searches] == [1 if kind == "pure" else 2, 1]
    assert plan.priced.amount == stated.priced.amount
    shares = [search.budget.amount / plan.priced.amount for search in plan.priced.searches]
    worth = Fraction(7, 5)
    assert shares == [worth / (worth + 10), 1 / (worth + 10)], "of rows in all groups the search is worth more"
    if kind == "pure":
        return
    limits = FoundLimits(None, 8, total=40)
    rest = with_limits(plan, limits)
    assert (rest.guarantee, rest.final.max_total, rest.limits) == (plan.guarantee, 40, limits)
    assert rest.first is not None
    assert rest.first.final == plan.searches[1].final, "bounds are sought next, over the same rows"
    done = with_bounds(rest, [(Fraction(0), Fraction(100))])
    assert (done.first, done.guarantee) == (None, plan.guarantee)
    assert [measure.rows for measure in done.final.measures] == [8, 8]
    assert done.final.measures[1].clamp == (0, 800)
    assert len({plan.digest, rest.digest, done.digest}) == 3


@pytest.mark.parametrize("kind", ACCOUNTS)
def test_the_table_of_what_is_bias_comes_last_with_the_limits_found(kind: str) -> None:
    account = Account(kind, None if kind in ("pure", "gdp") else "1e-6")
    total = make_plan(BY_LETTER, catalog(), Request(epsilon="1", account=account))
    assert [aggregate.label for aggregate in total.stages[0].final.aggregates] == [
        "max_rows_total up to 64",
        *(["max_rows up to 64"] if kind != "pure" else []),
    ]
    assert total.losses is not None
    assert total.losses.causes == ("keys",), "the search itself tells what the numbers leave out"
    plan = make_plan(PAIR, catalog(), Request(epsilon="1", account=account))
    assert [stage.final.aggregates[0].label for stage in plan.stages] == [
        "max_groups up to 5 and max_rows up to 64",
        "count_rows(*)",
        "people by cause of bias",
    ]
    rest = with_limits(plan, FoundLimits(4, 8))
    assert (rest.guarantee, rest.priced.amount) == (plan.guarantee, plan.priced.amount)
    assert rest.priced.bias == plan.priced.bias
    assert len(rest.stages) == 2
    assert rest.stages[1].final.text != plan.stages[2].final.text, "it speaks of the limits found"
    assert [table is not None for _, table in plan.measured] == [False, True]


def test_the_rest_is_priced_as_if_the_numbers_had_been_typed() -> None:
    for sql in (PAIR, "SELECT k, AVG(x), COUNT(*), MEDIAN(x) FROM t GROUP BY k", "SELECT VARIANCE(x) FROM t"):
        plan = planned(sql, weights={"limits": "1e-6"}, account=CONCENTRATED)
        groups = 3 if plan.final.auto_groups else None
        rest = with_limits(plan, FoundLimits(groups, 6))
        typed = planned(sql, max_rows=6, max_groups=groups, account=CONCENTRATED)
        plain = tuple(replace(measure, auto_rows=False) for measure in rest.final.measures)
        assert plain == typed.final.measures
        assert [r.block.sensitivity for r in rest.releases] == [r.block.sensitivity for r in typed.releases]
        assert [r.mechanism for r in rest.releases] == [r.mechanism for r in typed.releases]


def test_a_total_that_was_found_is_priced_as_if_it_had_been_typed() -> None:
    for sql in (BY_LETTER, "SELECT k, AVG(x), COUNT(*) FROM t GROUP BY k", "SELECT k, SUM(x) FROM t GROUP BY k"):
        rest = with_limits(planned(sql), FoundLimits(None, None, total=9))
        typed = planned(sql, max_rows_total=9)
        assert [r.block.sensitivity for r in rest.releases] == [r.block.sensitivity for r in typed.releases]
        assert (rest.final.max_total, rest.final.max_groups) == (9, 5)
        assert (rest.guarantee, rest.priced.limits) == (planned(sql).guarantee, planned(sql).priced.limits)


def test_another_ceiling_is_another_release() -> None:
    texts = {planned("SELECT COUNT(*) FROM t", catalog(max_rows_limit=most)).priced.text for most in (5, 6, None)}
    assert len(texts) == 3


def test_a_total_may_be_stated_as_auto() -> None:
    assert planned(BY_LETTER, max_rows_total="auto").priced == planned(BY_LETTER).priced
    with pytest.raises(Refusal, match="max_rows_total = AUTO has nothing to find"):
        planned(BY_LETTER, catalog(max_rows=3), max_rows_total="auto")


def test_the_search_may_be_weighed() -> None:
    shares = []
    for weight in (1, 3):
        plan = planned(BY_LETTER, weights={"limits": weight})
        assert plan.priced.limits is not None
        shares.append(plan.priced.limits.budget.amount)
    few = Fraction(7, 5)
    assert shares == [few / (few + 9), 3 * few / (3 * few + 9)]


def test_accuracy_is_promised_with_public_defaults() -> None:
    """Within is about noise, which AUTO would decide later: the default counts, and nothing is searched."""
    plan = planned(BY_LETTER, epsilon=None, within=50)
    assert plan.first is None
    assert (plan.final.max_total, plan.final.max_groups) == (16, 5)
    assert plan.errors[0].bound is not None
    assert plan.errors[0].bound <= 50
    assert plan.guarantee == planned(BY_LETTER, epsilon=None, within=50, max_rows_total=16).guarantee
    assert [m.rows for m in planned("SELECT COUNT(*) FROM t", epsilon=None, within=50).final.measures] == [16]
    rows = explain(planned("SELECT COUNT(*) AS n FROM t", epsilon=None, within=50)).limits
    assert "16 (the default: with within, AUTO searches nothing)" in rows
    assert "stated" not in rows
    pair = planned(BY_LETTER, epsilon=None, within=50, account=CONCENTRATED)
    assert (pair.first, pair.final.max_total, pair.final.max_groups, pair.final.most_in_group) == (None, 16, 5, 4)


def test_explain_says_so_before_and_after() -> None:
    plan = planned(PAIR, account=CONCENTRATED)
    said = explain(plan)
    assert "max_groups AUTO (declared: found privately within the cost), max_rows AUTO" in said.limits
    assert "28 cells of powers of two, each unit in one" in said.limits
    assert said.bounding.startswith("as many rows as AUTO finds of a unit count per group, in as many groups as AUTO")
    assert said.releases[0].name == "categories for max_groups up to 5 and max_rows up to 64"
    assert (said.releases[0].share, said.releases[0].l1_sensitivity) == ("1/10", "1")
    found = explain(with_limits(plan, FoundLimits(4, 8)))
    assert found.limits == "max_groups 4 (found: AUTO declared), max_rows 8 (found: AUTO declared)"
    assert found.bounding.startswith("at most 8 rows of a unit count per group, in at most 4 groups")
    assert "AUTO" not in found.errors[0].meaning
    blind = explain(with_limits(plan, FoundLimits(4, 4, seen=False)))
    assert blind.limits.endswith("a default: too few people for a search at this cost")
    total = planned(BY_LETTER)
    assert explain(total).limits.startswith("max_rows_total AUTO (declared: found privately within the cost); AUTO")
    assert explain(total).bounding == (
        "as many rows as AUTO finds of a unit count, shared out among its groups in proportion"
    )
    known = explain(with_limits(total, FoundLimits(None, None, total=64)))
    assert known.limits == "max_rows_total 64 (found: AUTO declared), max_groups 5, max_rows 64"


def test_explain_foresees_the_error_that_auto_will_have() -> None:
    for sql, options, one in (
        ("SELECT COUNT(*) FROM t", {}, "rows"),
        (BY_LETTER, {}, "rows"),
        (BY_LETTER, {"account": CONCENTRATED}, "rows"),
    ):
        plan = planned(sql, **options, epsilon="0.5")
        (error,) = explain(plan).errors
        assert error.meaning.endswith(f", where AUTO lets 1, 4, 16 {one} of a person count"), error.meaning
        numbers = [int(part) for part in re.findall(r"\d+", error.meaning.partition(", where")[0])]
        found = FoundLimits(None, None, total=16) if plan.final.auto_total else FoundLimits(4, 4)
        found = found if plan.final.keys else FoundLimits(None, 16)
        assert numbers[-1] == with_limits(plan, found).errors[0].bound, "what is said is what comes"
        assert numbers[0] < numbers[1] < numbers[2]
    (people,) = explain(planned(PEOPLE_BY_LETTER)).errors
    assert people.meaning.endswith("where AUTO lets 1, 4 groups of a person count")


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
