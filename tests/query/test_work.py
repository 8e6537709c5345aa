"""Work on account of one person's rows is bounded by the text: the number, the cut, and the refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from query.corpus.multiplied import CUT, TOO_MUCH
from support.each import check_each
from tacit.query.catalog import Catalog, Column, PublicSize, Table
from tacit.query.limits import MAX_UNIT_WORK
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import make_plan
from tacit.query.planning.work import cuts, unit_work
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import FirstRows, RelationNode, sources
from tacit.query.request import Request
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER


def with_table(name: str, **words: Any) -> Catalog:
    """The catalog with something else declared of a table."""
    tables = tuple(replace(table, **words) if table.name == name else table for table in CATALOG.tables)
    return Catalog(tables, CATALOG.populations)


def work_of(sql: str, catalog: Catalog = CATALOG) -> int:
    return unit_work(resolve(sql, catalog).final)


def first_rows(node: RelationNode) -> list[FirstRows]:
    own = [node] if isinstance(node, FirstRows) else []
    return own + [found for part in sources(node) for found in first_rows(part)]


@pytest.mark.parametrize("sql", TOO_MUCH)
def test_a_refusal_names_the_number_and_what_to_do(sql: str) -> None:
    with pytest.raises(Refusal) as refused:
        resolve(sql, CATALOG)
    said = str(refused.value)
    numbers = [int(word.strip(";,:")) for word in said.split() if word.strip(";,:").isdigit()]
    assert numbers[0] > min(numbers) >= MAX_UNIT_WORK
    assert "row operations" in said
    assert "unique" in said or "max_rows_joined" in said or "too large" in said


def test_no_accepted_query_exceeds_the_limit() -> None:
    def check(sql: str) -> None:
        assert 0 < work_of(sql) <= MAX_UNIT_WORK

    check_each(ACCEPTED, check)


@pytest.mark.parametrize(("sql", "most"), CUT)
def test_rows_are_cut_before_they_are_multiplied(sql: str, most: int) -> None:
    found = first_rows(resolve(sql, CATALOG).final.source)
    assert found
    assert {cut.most for cut in found} == {most}


def test_what_multiplies_nothing_is_not_cut() -> None:
    for sql in (
        "SELECT COUNT(*) FROM visits",
        "SELECT sex, COUNT(*) FROM visits v JOIN patients p ON v.patient_id = p.id GROUP BY sex",
        "SELECT ward, AVG(dose) FROM visits JOIN prescriptions USING (visit_id) GROUP BY ward",
        "SELECT floor, SUM(cost) FROM visits JOIN wards USING (ward) GROUP BY floor",
        "SELECT COUNT(*) FROM visits WHERE nights > (SELECT MAX(beds) FROM wards)",
        "SELECT COUNT(*) FROM visits WHERE ward NOT IN (SELECT ward FROM wards)",
        "SELECT COUNT(*) FROM visits WHERE patient_id NOT IN (SELECT id FROM patients WHERE sex = 'F')",
        "SELECT COUNT(*) FROM visits JOIN (SELECT patient_id, MAX(cost) m FROM visits GROUP BY 1) USING (patient_id)",
        "SELECT COUNT(k) FROM visits JOIN (VALUES ('surgery', 'a'), ('oncology', 'b')) t(w, k) ON ward = w",
        "SELECT COUNT(*) FROM log CROSS JOIN wards",
        "SELECT COUNT(*) FROM visits v, wards w WHERE v.ward = w.ward AND w.beds > v.nights",
    ):
        assert cuts(resolve(sql, CATALOG).final.source) == (), sql


def test_the_owner_decides_how_many_rows_a_person_enters_with() -> None:
    sql = "SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id) JOIN visits c USING (patient_id)"
    with pytest.raises(Refusal):
        resolve(sql, CATALOG)
    fewer = with_table("visits", unit_rows=50)
    assert 50**3 <= work_of(sql, fewer) <= MAX_UNIT_WORK
    assert cuts(resolve(sql, fewer).final.source) == (("visits", 50),)
    # What was answered is another query with another cut, and the same where there is none.
    assert resolve(CUT[0][0], CATALOG).digest != resolve(CUT[0][0], fewer).digest
    assert CATALOG.digest == fewer.digest
    assert (
        resolve("SELECT COUNT(*) FROM visits", CATALOG).digest == resolve("SELECT COUNT(*) FROM visits", fewer).digest
    )


def test_public_sizes_decide_what_a_join_with_a_public_table_multiplies() -> None:
    sql = "SELECT COUNT(*) FROM visits JOIN wards USING (ward)"
    small = work_of(sql)
    many = CATALOG.measured({"wards": PublicSize(600, {"ward": 200, "floor": 60, "beds": 6})})
    assert cuts(resolve(sql, many).final.source) == (("visits", 256),)
    assert work_of(sql, many) > small + 200 * 256
    crossed = "SELECT COUNT(*) FROM visits CROSS JOIN wards"
    assert work_of(crossed, many) > 600 * 256
    huge = CATALOG.measured({"wards": PublicSize(10**6, {"ward": 10**5, "floor": 10**6, "beds": 10**6})})
    with pytest.raises(Refusal, match="visits with wards"):
        resolve(sql, huge)
    # Two equalities leave no more than the better one.
    both = "SELECT COUNT(*) FROM visits JOIN wards ON visits.ward = wards.ward AND nights = beds"
    assert work_of(both, many) < work_of(sql, many)
    # An owner's word needs no counting.
    said = Table("wards", (Column("ward", INTEGER, unique=True), Column("floor", INTEGER)), public=True)
    one = Catalog((*(t for t in CATALOG.tables if t.name != "wards"), said), CATALOG.populations)
    assert cuts(resolve("SELECT COUNT(*) FROM visits JOIN wards ON nights = wards.ward", one).final.source) == ()


def test_equal_values_of_a_list_are_counted() -> None:
    def listed(values: Sequence[str]) -> str:
        return f"SELECT COUNT(*) FROM visits JOIN (VALUES {', '.join(values)}) t(k, l) ON nights = k"

    once, thrice = listed(["(1, 1)", "(2, 1)"]), listed(["(1, 1)", "(1, 2)", "(1, 3)", "(NULL, 1)", "(NULL, 2)"])
    assert cuts(resolve(once, CATALOG).final.source) == ()
    assert cuts(resolve(thrice, CATALOG).final.source) == (("visits", 256),)
    assert work_of(thrice) > work_of(once) + 2 * 256


def test_statements_of_their_own_read_everything_again() -> None:
    sums = work_of("SELECT COUNT(*) FROM visits JOIN wards ON beds > nights")
    spread = work_of("SELECT COUNT(*), MEDIAN(cost), COUNT(DISTINCT doctor) FROM visits JOIN wards ON beds > nights")
    assert spread > 2.5 * sums
    auto = "SELECT SUM(CLAMP(points, AUTO)) FROM visits"
    plan = make_plan(auto, CATALOG, Request(epsilon=1))
    assert plan.bias is not None
    assert plan.unit_work == 2 * work_of(auto) + unit_work(plan.bias.final)


def test_a_plan_knows_its_work() -> None:
    sql = "SELECT COUNT(*) FROM visits"
    plan = make_plan(sql, CATALOG, Request(epsilon=1))
    assert plan.bias is not None
    assert plan.unit_work == work_of(sql) + unit_work(plan.bias.final) >= 512
    assert make_plan(sql, CATALOG, Request(epsilon=1, bias_share=0)).unit_work == work_of(sql)
    log = make_plan("SELECT COUNT(*) FROM log", CATALOG, Request(epsilon=1))
    assert log.unit_work <= 8, "a row that is a unit of its own is one row"


GROWING: Mapping[str, tuple[str, str]] = {
    "rows twice": (
        "SELECT COUNT(*) FROM visits",
        "SELECT COUNT(*) FROM (SELECT * FROM visits UNION ALL SELECT * FROM visits)",
    ),
    "a window": (
        "SELECT COUNT(*) FROM visits",
        "SELECT SUM(CLAMP(r, 0, 9)) FROM (SELECT rank() OVER (PARTITION BY patient_id ORDER BY cost) r FROM visits)",
    ),
    "a sorted aggregate": (
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(*) n FROM visits GROUP BY 1)",
        "SELECT AVG(n) FROM (SELECT patient_id, COUNT(DISTINCT note) n FROM visits GROUP BY 1)",
    ),
    "functions of text": (
        "SELECT COUNT(*) FROM visits WHERE note = 'a'",
        "SELECT COUNT(*) FROM visits WHERE upper(replace(note || note || note, 'a', 'bbbb')) ILIKE '%x_y%z%'",
    ),
    "a long pattern": (
        "SELECT COUNT(*) FROM visits WHERE contains(note, 'a')",
        f"SELECT COUNT(*) FROM visits WHERE contains(note, '{'a' * 1500}')",
    ),
}


@pytest.mark.parametrize("name", GROWING)
def test_more_work_is_a_larger_number(name: str) -> None:
    less, more = GROWING[name]
    assert work_of(more) > work_of(less)


def test_an_explanation_says_where_rows_are_cut() -> None:
    told = explain(make_plan(CUT[0][0], CATALOG, Request(epsilon=1))).bounding
    assert told.endswith("of those that enter joins which multiply them, chosen by a keyed hash: 256 of visits")
    assert "multiply" not in explain(make_plan("SELECT COUNT(*) FROM visits", CATALOG, Request(epsilon=1))).bounding


@pytest.mark.parametrize("function", ["MAX({})", "MIN({})", "MAX({}) OVER (PARTITION BY patient_id)"])
def test_texts_cannot_grow_through_aggregates(function: str) -> None:
    """Sixty copies, of which the largest is taken, sixty copies of that, and so on: 60^4 copies of a text."""
    inner, copies = "SELECT patient_id, note AS t FROM visits", " || ".join(["t"] * 60)
    group = "" if "OVER" in function else " GROUP BY patient_id"
    for _ in range(4):
        inner = f"SELECT patient_id, {function.format(copies)} AS t FROM ({inner}){group}"
    with pytest.raises(Refusal, match="very long text"):
        resolve(f"SELECT COUNT(*) FROM ({inner}) WHERE length(t) > 5", CATALOG)


def test_a_query_may_enter_with_fewer_rows() -> None:
    joins = "COUNT(*) FROM visits a JOIN visits b USING (patient_id) JOIN visits c USING (patient_id)"
    with pytest.raises(Refusal, match="max_rows_joined"):
        resolve(f"SELECT {joins}", CATALOG)
    fewer = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_joined = 30) {joins}"
    assert cuts(resolve(fewer, CATALOG).final.source) == (("visits", 30),)
    assert 30**3 <= work_of(fewer) <= MAX_UNIT_WORK
    # It can only be less than what is declared, and says nothing where nothing is multiplied.
    more = fewer.replace("30", "9999").replace(" JOIN visits c USING (patient_id)", "")
    assert cuts(resolve(more, CATALOG).final.source) == (("visits", 256),)
    plain, said = "SELECT {}COUNT(*) FROM visits", "WITH DIFFERENTIAL_PRIVACY OPTIONS(max_rows_joined = 3) "
    assert resolve(plain.format(""), CATALOG).digest == resolve(plain.format(said), CATALOG).digest
