"""Values of public tables are public keys, and their ends are bounds, wherever nothing else is declared."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tacit
from engines.makers import MAKERS
from support.noiseless import without_noise
from tacit.core.errors import QueryError
from tacit.curator.curator import Curator
from tacit.engines.protocol import MeasurementTask
from tacit.project.public_sizes import PublicSizes
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.result import finish
from tacit.query.request import Request
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, MAX_VALUES, TEXT, TIMESTAMP, Range, decimal

VISITS = Table(
    "visits",
    (Column("person", INTEGER), Column("ward", TEXT), Column("cost", INTEGER, bounds=(0, 100))),
    population="people",
    unit="person",
    max_groups=3,
    max_rows=4,
)
WARDS = Table(
    "wards",
    (
        Column("ward", TEXT),
        Column("floor", INTEGER),
        Column("rate", decimal(2)),
        Column("area", DOUBLE),
        Column("opened", DATE),
        Column("checked", TIMESTAMP),
        Column("private", BOOLEAN),
        Column("beds", INTEGER, bounds=(0, 99)),
        Column("empty", TEXT),
    ),
    public=True,
)
CATALOG = Catalog((VISITS, WARDS), (Population("people"),))
FRAMES = {
    "visits": pa.table({"person": [1, 1, 2, 3, 3], "ward": ["a", "b", "b", "c", "x"], "cost": [10, 20, 30, 40, 50]}),
    "wards": pa.table(
        {
            "ward": ["a", "b", "c", None],
            "floor": [1, 7, 7, 3],
            "rate": pa.array([Decimal("1.50"), Decimal("2.25"), None, Decimal("2.25")], pa.decimal128(18, 2)),
            "area": [10.5, -2.0, 99.25, 7.0],
            "opened": [dt.date(2020, 1, 5), dt.date(2021, 2, 6), dt.date(2021, 2, 7), None],
            "checked": pa.array([dt.datetime(2024, 5, 1, 12), dt.datetime(2024, 5, 2), None, None], pa.timestamp("us")),
            "private": [True, None, True, True],
            "beds": [10, 20, 200, 5],
            "empty": pa.array([None] * 4, pa.string()),
        }
    ),
}


@pytest.fixture(scope="module", params=sorted(MAKERS))
def engine(request: pytest.FixtureRequest) -> Any:
    with MAKERS[request.param](CATALOG, FRAMES) as made:
        yield made


@pytest.fixture(scope="module")
def read(engine: Any) -> Catalog:
    return PublicSizes(CATALOG, engine, lambda _: "").now()[1]


def test_every_engine_reads_the_same_values_and_ranges(read: Catalog) -> None:
    size = read.tables[1].size
    assert size is not None
    known = size.domains
    assert known["ward"].values == ("a", "b", "c", None)
    assert known["floor"].values == (1, 3, 7)
    assert not known["floor"].nullable
    assert known["rate"].values == (Fraction("1.5"), Fraction("2.25"), None)
    assert (known["area"].values, known["area"].range) == (None, Range(Fraction(-2), Fraction("99.25")))
    assert known["opened"].values == (dt.date(2020, 1, 5), dt.date(2021, 2, 6), dt.date(2021, 2, 7), None)
    assert known["checked"].values == (dt.datetime(2024, 5, 1, 12), dt.datetime(2024, 5, 2), None)
    assert known["private"].values == (True, None)
    assert (known["empty"].values, known["empty"].nullable) == (None, True)
    # The owner's own word is kept.
    assert "beds" not in known


def exact(engine: Any, catalog: Catalog, sql: str) -> list[tuple[Any, ...]]:
    plan = make_plan(sql, catalog, Request(epsilon="1"))
    found = engine.measure(MeasurementTask(plan.final, b"secret"))
    return list(finish(plan.query, without_noise(plan, found), confidence="0.95").values)


LEFT = "FROM wards w LEFT JOIN visits v ON v.ward = w.ward"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT w.floor, COUNT(v.person), SUM(v.cost) {LEFT} GROUP BY 1", [(1, 1, 10), (3, 0, 0), (7, 3, 90)]),
        (f"SELECT w.ward, COUNT(v.person) {LEFT} GROUP BY 1", [("a", 1), ("b", 2), ("c", 1), (None, 0)]),
        (
            f"SELECT w.ward, w.floor, COUNT(v.person) {LEFT} WHERE w.floor < 7 GROUP BY 1, 2",
            [("a", 1, 1), (None, 3, 0)],
        ),
        (
            "SELECT k, COUNT(v.person) FROM visits v RIGHT JOIN (VALUES ('b'), ('q')) g(k) ON v.ward = k GROUP BY 1",
            [("b", 2), ("q", 0)],
        ),
    ],
)
def test_every_group_of_a_public_table_that_a_join_keeps(
    engine: Any, read: Catalog, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    plan = make_plan(sql, read, Request(epsilon="1"))
    found = without_noise(plan, engine.measure(MeasurementTask(plan.final, b"secret")), every_key=True)
    public = [engine.rows(relation, most=100) for relation in plan.query.reads]
    assert list(finish(plan.query, found, confidence="0.95", public=public).values) == expected


JOIN = "FROM visits v JOIN wards w ON v.ward = w.ward"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT w.floor, COUNT(*), SUM(cost) {JOIN} GROUP BY 1", [(1, 1, 10), (7, 3, 90)]),
        (f"SELECT v.ward, COUNT(*) {JOIN} GROUP BY 1", [("a", 1), ("b", 2), ("c", 1)]),
        ("SELECT ward, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY 1", [("a", 1), ("b", 2), ("c", 1)]),
        (
            "SELECT w.floor, COUNT(*) FROM visits v LEFT JOIN wards w ON v.ward = w.ward GROUP BY 1",
            [(1, 1), (7, 3), (None, 1)],
        ),
        (
            f"SELECT date_trunc('year', w.opened), COUNT(*) {JOIN} WHERE w.opened IS NOT NULL GROUP BY 1",
            [(dt.date(2020, 1, 1), 1), (dt.date(2021, 1, 1), 3)],
        ),
        (f"SELECT w.private, COUNT(*) {JOIN} GROUP BY 1", [(True, 2), (None, 2)]),
        (f"SELECT SUM(w.rate), SUM(w.floor), SUM(w.area) {JOIN}", [(Fraction(6), 22, 105.75)]),
    ],
)
def test_public_columns_are_keys_and_have_bounds(
    engine: Any, read: Catalog, sql: str, expected: list[tuple[Any, ...]]
) -> None:
    assert exact(engine, read, sql) == expected


def test_ranges_are_those_of_the_table(read: Catalog) -> None:
    (total,) = resolve(f"SELECT SUM(w.floor) {JOIN}", read).final.measures
    assert total.clamp == (0, 4 * 7)
    (area,) = resolve(f"SELECT SUM(w.area) {JOIN}", read).final.measures
    assert (area.low * area.step, area.high * area.step) == (-2, Fraction("99.25"))


PROJECT = """
[populations.people]
epsilon = "100"
[tables.visits]
source = "visits.csv"
population = "people"
unit = "person"
max_groups = 3
max_rows = 4
columns.person.type = "integer"
columns.ward.type = "text"
[tables.wards]
source = "wards.csv"
public = true
columns.ward.type = "text"
columns.site.type = "text"
"""
GROUPED = "SELECT site, COUNT(*) FROM visits JOIN wards USING (ward) GROUP BY site"


def opened(place: Path, wards: str) -> Curator:
    (place / "visits.csv").write_text("person,ward\n1,a\n2,b\n")
    (place / "wards.csv").write_text(wards)
    (place / "project.toml").write_text(PROJECT)
    return tacit.open(place / "project.toml")


def test_a_pure_account_answers_by_public_keys(tmp_path: Path) -> None:
    with opened(tmp_path, "ward,site\na,north\nb,south\n") as curator:
        answer = curator.sql(GROUPED, epsilon=1)
        assert [row[0] for row in answer.finished.values] == ["north", "south"]
        with pytest.raises(QueryError, match="delta"):
            curator.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1)


def test_a_changed_public_table_has_other_keys_and_is_another_query(tmp_path: Path) -> None:
    with opened(tmp_path, "ward,site\na,north\nb,south\n") as curator:
        before = curator.sql(GROUPED, epsilon=1)
        new = tmp_path / "new.csv"
        new.write_text("ward,site\na,north\nb,west\n")
        new.replace(tmp_path / "wards.csv")
        after = curator.sql(GROUPED, epsilon=1)
        assert [row[0] for row in after.finished.values] == ["north", "west"]
        assert not before.charge.repeated
        assert not after.charge.repeated


@pytest.mark.parametrize("wards", ["".join(f"a,s{i}\n" for i in range(MAX_VALUES + 1)), "a," + "x" * 600_000 + "\n"])
def test_values_that_are_too_many_or_too_long_are_no_public_keys(tmp_path: Path, wards: str) -> None:
    with opened(tmp_path, "ward,site\n" + wards) as curator:
        table = curator.context.measured_catalog.table("wards")
        assert table is not None
        assert table.size is not None
        assert table.size.domains["site"].values is None
