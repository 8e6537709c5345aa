"""Public tables beside released cells and as values: what is read, what it costs, what intervals say, what is refused.

That the rows are right is tested against plain DuckDB with the whole corpus (``test_against_duckdb.py``).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from query.corpus.clinic import CATALOG as CLINIC
from support.bits import SeededBits
from support.toy_engine import ToyEngine
from tacit.core.errors import InternalError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query import limits
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess import rows as matching
from tacit.query.postprocess.result import Finished, finish
from tacit.query.query import Match
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    FilterRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    UnitAggregate,
    is_public_throughout,
    reference,
    row_bounds,
)
from tacit.query.relational.expressions import TRUE
from tacit.query.release import NoisyRelease, release
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER, TEXT

CATALOG = Catalog(
    (
        Table(
            "visits",
            (Column("person", INTEGER), Column("ward", TEXT, categories=("a", "b", "c")), Column("doctor", TEXT)),
            population="people",
            unit="person",
        ),
        Table("wards", (Column("ward", TEXT), Column("floor", INTEGER), Column("beds", INTEGER)), public=True),
    ),
    (Population("people"),),
)
VISITS = [{"person": n, "ward": "aab"[n % 3], "doctor": f"dr {n % 2}"} for n in range(300)]
WARDS: list[dict[str, Any]] = [
    {"ward": "b", "floor": 2, "beds": 7},
    {"ward": "a", "floor": 1, "beds": 5},
    {"ward": "a", "floor": 3, "beds": None},
    {"ward": None, "floor": 4, "beds": 1},
    {"ward": "z", "floor": 5, "beds": 9},
]
COUNTS = "(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)"


class Asked:
    """A query, what was released for it, and the public rows it reads."""

    def __init__(self, sql: str, epsilon: str = "1", account: Account | None = None) -> None:
        engine = ToyEngine({"visits": VISITS, "wards": WARDS})
        self.plan = make_plan(sql, CATALOG, Request(epsilon=epsilon, account=account or Account("pure")))
        self.released = release(self.plan, engine.measure(MeasurementTask(self.plan.final, b"")))
        self.public = [engine.rows(relation, most=100) for relation in self.plan.query.reads]

    def finished(self, released: NoisyRelease | None = None) -> Finished:
        return finish(self.plan.query, released or self.released, confidence="0.95", public=self.public)


def test_rows_come_in_the_order_of_released_rows_and_then_of_public_ones(seeded: SeededBits) -> None:
    asked = Asked(f"SELECT s.ward, w.floor, s.n FROM {COUNTS} s LEFT JOIN wards w ON w.ward = s.ward")
    assert [row[:2] for row in asked.finished().values] == [("a", 1), ("a", 3), ("b", 2), ("c", None)]
    assert asked.public == [(("a", 1), ("a", 3), ("b", 2), ("z", 5), (None, 4))]


def test_public_rows_without_a_released_one_come_last_with_nulls_and_no_interval(seeded: SeededBits) -> None:
    asked = Asked(f"SELECT w.floor, s.n FROM wards w LEFT JOIN {COUNTS} s ON w.ward = s.ward")
    finished = asked.finished()
    assert [row[0] for row in finished.values] == [1, 3, 2, 5, 4]
    assert [row[1] is None for row in finished.values] == [False, False, False, True, True]
    assert [ends[1] for ends in finished.intervals()[3:]] == [(None, None), (None, None)]
    full = Asked(f"SELECT s.ward, w.floor FROM {COUNTS} s FULL JOIN wards w ON w.ward = s.ward").finished()
    assert [row for row in full.values if None in row] == [("c", None), (None, 5), (None, 4)]


def test_null_meets_nothing_and_a_join_of_no_keys_still_has_its_columns(seeded: SeededBits) -> None:
    account = Account("approx", "1e-6")
    inner = "(SELECT doctor, COUNT(*) AS n FROM visits GROUP BY 1)"
    sql = f"SELECT s.doctor, w.floor, s.n FROM wards w LEFT JOIN {inner} s ON s.doctor = w.ward"
    asked = Asked(sql, account=account)
    assert [row[::2] for row in asked.finished().values] == [(None, None)] * 5
    empty = replace(asked.released, keys=(), noisy=tuple(array[:0] for array in asked.released.noisy))  # type: ignore[index]
    assert [row[1] for row in asked.finished(empty).values] == [1, 3, 2, 5, 4]


def test_an_interval_is_the_same_beside_public_values_and_scales_with_them(seeded: SeededBits) -> None:
    plain = Asked("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    joined = Asked(
        f"SELECT s.n, s.n * w.floor AS m, w.floor FROM {COUNTS} s JOIN wards w ON w.ward = s.ward ORDER BY w.floor"
    )
    (low, high) = plain.finished().intervals()[1][1]
    finished = joined.finished(plain.released)
    assert finished.intervals()[1][0] == (low, high)
    assert finished.intervals()[1][1] == (2 * low, 2 * high)  # type: ignore[operator]
    assert finished.intervals()[1][2] == (2, 2)
    assert finished.has_interval == (True, True, False)


def test_a_cell_that_a_join_repeats_is_one_draw(seeded: SeededBits) -> None:
    """Ward a meets two public rows: its noise counts twice, not as two independent noises."""
    doubled = Asked(f"SELECT SUM(s.n) AS n FROM {COUNTS} s JOIN wards w ON w.ward = s.ward WHERE s.ward = 'a'")
    ((low, high),) = doubled.finished().intervals()[0]
    once = doubled.plan.priced.releases[0].law(0).error(Fraction(1, 20))
    assert high - low == 4 * once  # type: ignore[operator]


def test_steps_read_only_the_public_columns_they_need() -> None:
    (relation,) = resolve(f"SELECT w.floor FROM {COUNTS} s JOIN wards w ON w.ward = s.ward", CATALOG).reads
    assert isinstance(relation, Scan)
    assert relation.columns == ("ward", "floor")
    assert resolve(f"SELECT ward, (SELECT MAX(beds) FROM wards) AS m FROM {COUNTS}", CATALOG).reads != ()
    unread = f"SELECT ward FROM (SELECT ward, n > (SELECT MAX(beds) FROM wards) AS m FROM {COUNTS}) WHERE ward < 'c'"
    assert len(resolve(unread, CATALOG).reads) == 1
    assert resolve("SELECT COUNT(*) FROM visits WHERE person < (SELECT MAX(beds) FROM wards)", CATALOG).reads == ()


def test_a_value_written_twice_is_read_once() -> None:
    value = "(SELECT MAX(beds) FROM wards)"
    once = resolve(
        f"SELECT COUNT(*) AS n, {value} AS a, {value} + 1 AS b FROM visits HAVING COUNT(*) > {value}", CATALOG
    )
    assert len(once.reads) == 1
    below = resolve(f"SELECT COUNT(*) FROM visits WHERE person > {value} AND person < 2 * {value}", CATALOG)
    assert below.final.source.weight <= 6


def test_a_value_of_no_rows_is_null(seeded: SeededBits) -> None:
    asked = Asked("SELECT COUNT(*) AS n, (SELECT MAX(beds) FROM wards WHERE floor > 100) AS m FROM visits")
    assert asked.finished().values[0][1] is None
    having = "SELECT COUNT(*) AS n, (SELECT MAX(beds) FROM wards HAVING COUNT(*) > 100) AS m FROM visits"
    assert Asked(having).finished().values[0][1] is None
    none = "SELECT COUNT(*) AS n FROM visits WHERE person > (SELECT 1 WHERE FALSE)"
    assert Asked(none, epsilon="50").finished().values == ((0,),)


def test_joins_that_would_be_too_large_are_refused_and_say_that_the_release_is_kept(
    monkeypatch: pytest.MonkeyPatch, seeded: SeededBits
) -> None:
    cross = Asked(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON s.n > w.beds")
    equal = Asked(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON s.ward = w.ward")
    monkeypatch.setattr(matching.limits, "MAX_PAIRS", 14)
    assert len(equal.finished().rows) == 3
    with pytest.raises(Refusal, match=r"more than 14 pairs.*asking again with another join is free"):
        cross.finished()
    monkeypatch.setattr(matching.limits, "MAX_JOINED", 2)
    with pytest.raises(Refusal, match="more than 2 rows") as refusal:
        equal.finished()
    assert refusal.value.code == "query.too_large"


def test_the_rows_of_every_public_relation_are_needed(seeded: SeededBits) -> None:
    asked = Asked(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON s.ward = w.ward")
    with pytest.raises(InternalError):
        finish(asked.plan.query, asked.released, confidence="0.95")


# -- what is public, and how many rows it has


def _scan(name: str) -> RelationNode:
    table = CLINIC.table(name)
    assert table is not None
    return ownership.scan(CLINIC, table)


def _counted(source: RelationNode) -> UnitAggregate:
    made = ownership.group(source, [], [])
    assert isinstance(made, UnitAggregate)
    return made


def test_a_relation_that_only_looks_public_is_seen_through() -> None:
    visits, wards = _scan("visits"), _scan("wards")
    hidden = ProjectColumns(wards.fields, None, None, 1, 1, 2, visits, tuple(reference(visits, i) for i in range(3)))
    assert hidden.is_public
    assert not is_public_throughout(hidden)
    assert not is_public_throughout(replace(visits, unit=None))
    assert not is_public_throughout(replace(visits, unit=None, population=None))
    assert not is_public_throughout(replace(_scan("prescriptions"), unit=None, population=None, unit_source=None))  # type: ignore[call-arg]
    assert is_public_throughout(FilterRows(*_shape(wards), wards, TRUE))


def _shape(node: RelationNode) -> tuple[Any, ...]:
    return node.fields, node.unit, node.population, node.max_groups, node.max_rows, node.weight


def test_how_many_rows_a_relation_can_have_follows_from_its_tree() -> None:
    wards = _scan("wards")
    one = _counted(wards)
    assert row_bounds(wards) == (0, None)
    assert row_bounds(one) == (1, 1)
    assert row_bounds(FilterRows(*_shape(one), one, TRUE)) == (0, 1)
    assert row_bounds(ownership.group(wards, [("ward", reference(wards, 0))], [])) == (0, None)
    assert row_bounds(ownership.constants([()], ())) == (1, 1)
    assert row_bounds(ownership.stack([ownership.compute(one, []), ownership.compute(one, [])])) == (2, 2)
    both: dict[JoinKind, tuple[int, int | None]] = {}
    for kind in JoinKind:
        both[kind] = row_bounds(Join(*_shape(wards), one, one, kind, TRUE))
    assert both == {
        JoinKind.INNER: (1, 1),
        JoinKind.LEFT: (1, 1),
        JoinKind.RIGHT: (0, None),
        JoinKind.FULL: (0, None),
    }
    assert row_bounds(ownership.join(one, wards, JoinKind.LEFT, TRUE)) == (0, None)


def test_beside_a_public_value_every_row_is_still_its_own_unit() -> None:
    beside = resolve("SELECT COUNT(*) FROM log WHERE ms > (SELECT MAX(beds) FROM wards)", CLINIC).final.source
    assert beside.row_units
    many = resolve("SELECT COUNT(*) FROM log JOIN wards ON ms > beds", CLINIC).final.source
    assert not many.row_units
    owned = resolve("SELECT COUNT(*) FROM visits WHERE nights > (SELECT MAX(beds) FROM wards)", CLINIC).final.source
    assert not owned.row_units


def test_only_one_public_row_of_one_column_is_attached() -> None:
    visits, wards = _scan("visits"), _scan("wards")
    for value in (wards, visits, _counted(wards)):
        with pytest.raises(AssertionError):
            ownership.attach(visits, value)


def test_aggregates_of_public_tables_presume_nothing_about_their_size() -> None:
    final = resolve("SELECT SUM(CLAMP(nights - (SELECT COUNT(*) FROM wards), -9, 60)) FROM visits", CLINIC).final
    assert final.measures[0].clamp == (-20 * 9, 20 * 60)
    with pytest.raises(Refusal, match="needs bounds") as refusal:
        resolve(
            "SELECT CORR(c, c) FROM visits JOIN (SELECT ward, COUNT(*) AS c FROM wards GROUP BY ward) USING (ward)",
            CLINIC,
        )
    assert refusal.value.code == "query.bounds"


def test_refusals_of_two_populations_say_what_to_write() -> None:
    two = "SELECT a.n, b.m FROM (SELECT COUNT(*) AS n FROM visits) a, (SELECT COUNT(*) AS m FROM staff) b"
    with pytest.raises(Refusal, match="ask two queries and put their answers together"):
        resolve(two, CLINIC)
    with pytest.raises(Refusal, match="ask two queries"):
        resolve("SELECT (SELECT COUNT(*) FROM visits) / (SELECT COUNT(*) FROM staff)", CLINIC)


# -- the engine


def _engine() -> DuckDBEngine:
    import pyarrow as pa

    frames = {"visits": pa.Table.from_pylist(VISITS), "wards": pa.Table.from_pylist(WARDS)}
    return DuckDBEngine(CATALOG, {name: DataSource("frame", None, f) for name, f in frames.items()}, Limits(threads=1))


def test_the_engine_gives_sorted_rows_of_public_relations_and_of_nothing_else() -> None:
    (join,) = resolve(f"SELECT w.* FROM {COUNTS} s JOIN wards w ON w.ward = s.ward", CATALOG).reads
    final = resolve(f"SELECT * FROM {COUNTS}", CATALOG).final
    wards = CATALOG.table("wards")
    assert wards is not None
    secret = Scan(join.fields, None, None, 1, 1, 1, "visits", ("ward", "person", "person"), None, ())
    with _engine() as engine:
        assert engine.rows(join, most=5) == (("a", 1, 5), ("a", 3, None), ("b", 2, 7), ("z", 5, 9), (None, 4, 1))
        assert engine.rows(ownership.compute(join, []), most=5) == ((),) * 5
        with pytest.raises(Refusal, match="more than 4"):
            engine.rows(join, most=4)
        for protected in (final.source, replace(final.source, unit=None, population=None), secret):
            with pytest.raises(InternalError):
                engine.rows(protected, most=5)


def test_the_engine_and_the_interpreter_read_the_same_public_rows() -> None:
    other = (
        "(SELECT a.ward, a.beds * 1.5 AS x, MAX(b.floor) OVER (PARTITION BY a.ward) AS m "
        "FROM wards a LEFT JOIN wards b ON a.floor > b.floor)"
    )
    sql = f"SELECT s.n, t.* FROM {COUNTS} s JOIN {other} t USING (ward)"
    toy = ToyEngine({"visits": VISITS, "wards": WARDS})
    with _engine() as engine:
        for relation in resolve(sql, CATALOG).reads:
            assert engine.rows(relation, most=99) == toy.rows(relation, most=99)


def test_match_names_the_step() -> None:
    query = resolve(f"SELECT s.n FROM {COUNTS} s JOIN wards w ON s.n > w.beds", CATALOG)
    assert [type(step) for step in query.steps].count(Match) == 1
    assert limits.MAX_PUBLIC_ROWS >= 10_000
