"""Spellings of other databases ask the same query as the usual ones, and join no more rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from query.corpus.clinic import CATALOG, VISITS
from query.corpus.spellings import SPELLINGS, UNCONNECTED
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.work import matching
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import Join, RelationNode, sources
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER, TEXT


@pytest.mark.parametrize(("written", "usual"), SPELLINGS)
def test_a_spelling_asks_the_same_query(written: str, usual: str) -> None:
    assert resolve(written, CATALOG).text == resolve(usual, CATALOG).text


def _joins(node: RelationNode) -> Iterator[Join]:
    if isinstance(node, Join):
        yield node
    for part in sources(node):
        yield from _joins(part)


@pytest.mark.parametrize(
    "written", [text for text, _ in SPELLINGS if "FROM" in text and (", " in text.split("FROM")[1])]
)
def test_commas_with_an_equality_look_rows_up(written: str) -> None:
    """Pairs are found by the value of a column, never by trying all of them."""
    for join in _joins(resolve(written, CATALOG).final.source):
        assert matching(join.condition, len(join.left.fields)).is_looked_up, written


@pytest.mark.parametrize(("reason", "sql"), UNCONNECTED)
def test_commas_without_an_equality_are_refused(reason: str, sql: str) -> None:
    with pytest.raises(Refusal) as refusal:
        resolve(sql, CATALOG)
    assert refusal.value.reason == reason


def test_columns_of_a_star_come_in_the_order_of_the_text() -> None:
    """Whichever table is joined first."""
    sql = (
        "SELECT MAX(x) AS m FROM (SELECT * FROM patients p, wards w, visits v "
        "WHERE p.id = v.patient_id AND w.ward = v.ward) AS t(a, b, c, d, e, f, g, x)"
    )
    (measure,) = resolve(sql, CATALOG).final.measures[:1]
    assert measure.argument is not None
    assert measure.argument.type == INTEGER
    assert measure.argument.range.ends == (0, 9)  # floor, the second column of wards


def test_a_declared_schema_is_accepted_and_no_other() -> None:
    catalog = Catalog((replace(VISITS, schema="hospital"),), (Population("patients"),))
    same = {
        resolve(f"SELECT COUNT(*) FROM {name}", catalog).text for name in ("visits", "Hospital.visits", "main.visits")
    }
    assert len(same) == 1
    for name in ("other.visits", "hospital.public.visits", "pg_catalog.visits", "information_schema.visits"):
        with pytest.raises(Refusal, match=r"There is no table|without the name of a database"):
            resolve(f"SELECT COUNT(*) FROM {name}", catalog)


def test_the_unit_that_an_option_names_is_checked_and_decides_nothing() -> None:
    with pytest.raises(Refusal, match=r"declared are visits\.patient_id"):
        resolve("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = doctor) COUNT(*) FROM visits", CATALOG)
    for stated in (
        "'patient_id'",
        "patient_id + 1",
        "x.patient_id",
        "f(patient_id)",
        "patient_id, privacy_unit_column = id",
    ):
        with pytest.raises(Refusal) as refusal:
            resolve(
                f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = {stated}) COUNT(*) FROM visits",
                CATALOG,
            )
        assert refusal.value.reason == "option", stated
    with pytest.raises(Refusal, match="declare no unit column"):
        resolve("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(privacy_unit_column = level) COUNT(*) FROM log", CATALOG)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward FETCH FIRST 2 ROWS WITH TIES",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward FETCH FIRST 50 PERCENT ROWS ONLY",
        "SELECT * EXCLUDE (missing) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)",
        "SELECT COUNT(*) FROM visits JOIN (patients p CROSS JOIN wards) ON cost > 1",
    ],
)
def test_what_a_spelling_cannot_mean_is_refused(sql: str) -> None:
    with pytest.raises(Refusal):
        resolve(sql, CATALOG)


def test_quoted_names_of_the_source_stand_for_their_columns() -> None:
    columns = (
        Column("id", INTEGER, nullable=False),
        Column("ward", TEXT, categories=("a", "b"), stored="ward.name"),
        Column("cost", INTEGER, bounds=(0, 9), stored="Total cost"),
        Column("total", INTEGER, bounds=(0, 9), stored="cost"),
    )
    catalog = Catalog((Table("visits", columns, population="people", unit="id"),), (Population("people"),))
    for written in (
        'SELECT "ward.name" AS k, AVG("Total cost") FROM visits GROUP BY "ward.name"',
        'SELECT v."Ward.Name" AS k, SUM(v."total COST") FROM visits v GROUP BY v."ward.name"',
        'SELECT COUNT(*) FROM visits WHERE "Total cost" > 3',
        'SELECT AVG(x) FROM (SELECT "Total cost" AS x FROM visits WHERE "ward.name" = \'a\')',
    ):
        plain = re.sub('"ward.name"', "ward", re.sub('"total cost"', "cost", written, flags=re.I), flags=re.I)
        found, usual = resolve(written, catalog).final, resolve(plain, catalog).final
        assert (found.measures, found.source) == (usual.measures, usual.source), written
        assert [key.expression for key in found.keys] == [key.expression for key in usual.keys], written
    # A column's own name wins over another's name in the source.
    assert "cost" in repr(resolve("SELECT SUM(cost) FROM visits", catalog).final.measures[0].argument)
    with pytest.raises(Refusal, match="no column"):
        resolve('SELECT t."Total cost" FROM (SELECT SUM(cost) AS n FROM visits) t', catalog)
