"""A search for queries whose work depends on one person by more than their plans state.

Queries are made to be much work if a person is there (``query/corpus/gated.py``). Those that are accepted run on a
database with a person of twenty times the declared number of rows, and on one without; the rows that the databases
report for all operators, pairs that were tried and dropped among them where they tell, must not differ by more than
twenty times the stated bound. Rows are counted, and no clock is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.makers import database, load
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE
from query.corpus.gated import PERSON, gated
from support.engine_comparison import corpus_frames, opened
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.engine import DuckDBWriter
from tacit.engines.postgres import PostgresEngine
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.postgres.engine import SETTINGS
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql import relations
from tacit.engines.sql.relations import tables_of
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning import work
from tacit.query.planning.work import unit_work
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER, TEXT

SECRET = b"secret"
DECLARED = 20
TIMES = 20
FEW = Catalog(
    tuple(t if t.public else replace(t, unit_rows=DECLARED) for t in CATALOG.tables), CATALOG.populations
).measured({"wards": CATALOG.tables[3].size})  # type: ignore[dict-item]
SEEDS = range(260)
#: A node of a plan is at most so many operators of a database.
OPERATORS = 4
Counting = Callable[[FinalAggregation], int]


def person() -> dict[str, list[dict[str, Any]]]:
    """A person with far more rows than declared, and texts that nearly fit a pattern many times."""
    visit = DATABASE["visits"][0]
    rows = [
        {**visit, "visit_id": 10**6 + n, "patient_id": PERSON, "nights": n % 50, "note": "a" * 40 * (1 + n % 9)}
        for n in range(DECLARED * TIMES)
    ]
    return {name: [*stored, *(rows if name == "visits" else [])] for name, stored in DATABASE.items()}


@cache
def made() -> list[tuple[str, FinalAggregation]]:
    """The queries that are accepted; resolving all of them takes seconds."""
    found = []
    for seed in SEEDS:
        sql = gated(seed)
        try:
            found.append((sql, resolve(sql, FEW).final))
        except Refusal as refused:
            if refused.reason not in ("work", "too_large"):
                raise
    return found


def test_the_search_meets_queries_of_both_kinds() -> None:
    accepted = made()
    assert 200 <= len(accepted) <= len(SEEDS) - 5
    assert sum(bool(work.cuts(final.source)) for _, final in accepted) >= 100


def total(node: Any, *names: str) -> int:
    """The numbers of some names, anywhere in a report."""
    if isinstance(node, list):
        return sum(total(part, *names) for part in node)
    if not isinstance(node, dict):
        return 0
    loops = int(node.get("Actual Loops", 1))
    own = sum(round(float(node.get(name, 0))) for name in names) * loops
    return own + sum(total(part, *names) for part in node.values() if isinstance(part, dict | list))


def by_duckdb(engine: DuckDBEngine, final: FinalAggregation) -> int:
    counted = 0
    with engine._sources.reading() as sources:
        cursor = sources.new_cursor()
        for name in tables_of(final.source):
            frame = sources.tables[name].frame
            if frame is not None:
                cursor.register(*frame)
        for statement in DuckDBWriter.of(DUCKDB, final, sources.tables, SECRET).statements():
            ((_, told),) = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {statement.sql}").fetchall()
            counted += total(json.loads(told), "intermediate_rows")
        cursor.close()
    return counted


Database = dict[str, list[dict[str, Any]]]


@contextmanager
def duckdb_pair(databases: tuple[Database, Database] | None = None) -> Iterator[tuple[Counting, Counting]]:
    without, there = databases or (DATABASE, person())
    with opened(FEW, corpus_frames(without)) as one, opened(FEW, corpus_frames(there)) as other:
        yield (lambda final: by_duckdb(one, final)), (lambda final: by_duckdb(other, final))


@contextmanager
def postgres_pair(databases: tuple[Database, Database] | None = None) -> Iterator[tuple[Counting, Counting]]:
    loaded = [load(corpus_frames(data)) for data in databases or (DATABASE, person())]
    engines = [PostgresEngine(FEW, names, database()) for names in loaded]
    with psycopg.connect(database(), autocommit=True) as connection:
        for name, value in SETTINGS.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

        def counting(engine: PostgresEngine) -> Counting:
            def count(final: FinalAggregation) -> int:
                told = [
                    connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {sql}".encode()).fetchall()
                    for sql in engine.explain(final)
                ]
                names = ("Actual Rows", "Rows Removed by Join Filter", "Rows Removed by Filter")
                return sum(total([json.loads(json.dumps(row[0])) for row in rows], *names) for rows in told)

            return count

        yield counting(engines[0]), counting(engines[1])
    for engine in engines:
        engine.close()


PAIRS = {"duckdb": duckdb_pair, "postgres": postgres_pair}


def excess(pair: tuple[Counting, Counting], final: FinalAggregation) -> float:
    """Excess of the rows on account of a person over the stated bound; at most 1 where the bound holds."""
    without, there = pair
    return (there(final) - without(final)) / (TIMES * unit_work(final) * OPERATORS)


@pytest.mark.parametrize("filtered", ["visits", "(SELECT * FROM visits WHERE urgent)"])
def test_an_inner_join_is_no_product(filtered: str) -> None:
    """A filter below a join stays there; taken above it, DuckDB would compare every row with every ward."""
    rows = len(DATABASE["visits"]) * 50
    data = {**DATABASE, "visits": DATABASE["visits"] * 50, "wards": DATABASE["wards"] * 40}
    sql = f"SELECT COUNT(*) FROM {filtered} v JOIN wards w ON w.ward = v.ward AND w.beds = v.nights"
    final = resolve(sql, FEW).final
    with opened(FEW, corpus_frames(data)) as engine:
        assert by_duckdb(engine, final) < 20 * rows


@pytest.mark.deep
@pytest.mark.parametrize("name", PAIRS)
def test_a_person_causes_no_more_rows_than_stated(name: str) -> None:
    step = 2 if name == "duckdb" else 5
    with PAIRS[name]() as pair:
        found = {sql: excess(pair, final) for sql, final in made()[::step]}
    assert {sql: ratio for sql, ratio in found.items() if ratio > 1} == {}
    # The person is noticed, so that there was something to find.
    assert sum(ratio > 0.001 for ratio in found.values()) > len(found) // 2


def test_without_the_cut_the_search_finds_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncut(_: object, node: RelationNode) -> RelationNode:
        return node

    monkeypatch.setattr(work._Cutting, "cut", uncut)
    sql = f"SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id) WHERE a.patient_id = {PERSON}"
    final = resolve(sql, FEW).final
    with duckdb_pair() as pair:
        assert excess(pair, final) > 1


@pytest.mark.deep
def test_answers_come_from_both_databases() -> None:
    """Whether there is an answer does not depend on the person: every accepted query is measured."""
    with opened(FEW, corpus_frames(DATABASE)) as one, opened(FEW, corpus_frames(person())) as other:
        for _, final in made()[::8]:
            assert (
                one.measure(MeasurementTask(final, SECRET)).keys == other.measure(MeasurementTask(final, SECRET)).keys
            )


@pytest.mark.deep
def test_a_side_that_is_computed_again_for_each_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PostgreSQL would do by itself: a value of public tables once more for each row of a person."""
    monkeypatch.setattr(type(POSTGRES), "computes_again", False)
    with postgres_pair() as pair:
        assert any(excess(pair, final) > 1 for _, final in made())


#: Rows of other people in the databases of :func:`crowds`.
CROWD = 3_000
#: Expressions over the rows of all people, and the row of one person.
ALL = "SELECT b.patient_id, b.nights, b.note FROM visits b WHERE b.note NOT LIKE '%q%z%'"
ONE = f"SELECT g.patient_id, g.nights, g.note FROM visits g WHERE g.note = 'gate' AND g.patient_id = {PERSON}"
GATES = (
    f"SELECT COUNT(*) FROM ({ALL}) x JOIN ({ONE}) g ON x.patient_id = g.patient_id",
    f"SELECT COUNT(*) FROM ({ONE}) g JOIN ({ALL}) x ON x.patient_id = g.patient_id AND x.nights >= g.nights",
    f"SELECT COUNT(*) FROM ({ALL}) x LEFT JOIN ({ONE}) g ON x.patient_id = g.patient_id WHERE g.nights >= 0",
    f"SELECT COUNT(*) FROM ({ONE}) g LEFT JOIN ({ALL}) x ON x.patient_id = g.patient_id",
    f"SELECT COUNT(*) FROM ({ALL}) x RIGHT JOIN ({ONE}) g ON x.patient_id = g.patient_id AND x.nights = 3",
    f"SELECT COUNT(*) FROM ({ALL}) x FULL JOIN ({ONE}) g ON x.patient_id = g.patient_id WHERE x.nights = g.nights",
    f"SELECT COUNT(*) FROM ({ALL}) x FULL JOIN ({ONE}) g ON x.patient_id = g.patient_id WHERE g.note LIKE 'g%'",
    f"SELECT COUNT(*) FROM ({ALL}) x WHERE x.patient_id IN (SELECT patient_id FROM ({ONE}) g)",
    f"SELECT COUNT(*) FROM ({ONE}) g WHERE g.patient_id IN (SELECT patient_id FROM ({ALL}) x)",
    f"SELECT COUNT(*) FROM ({ONE}) g WHERE g.patient_id NOT IN (SELECT patient_id FROM ({ALL}) x)",
    f"SELECT COUNT(*) FROM ({ALL}) x WHERE EXISTS (SELECT 1 FROM ({ONE}) g WHERE g.patient_id = x.patient_id)",
    f"SELECT COUNT(*) FROM ({ALL}) x WHERE NOT EXISTS (SELECT 1 FROM ({ONE}) g WHERE g.patient_id = x.patient_id)",
    f"SELECT COUNT(*) FROM ({ONE}) g WHERE EXISTS "
    f"(SELECT 1 FROM ({ALL}) x WHERE g.patient_id = x.patient_id AND x.nights > g.nights)",
    f"SELECT COUNT(*) FROM ({ALL}) x WHERE EXISTS "
    f"(SELECT 1 FROM ({ONE}) g WHERE g.patient_id = x.patient_id AND x.nights > g.nights)",
    f"SELECT COUNT(*) FROM ({ONE}) g WHERE g.nights < "
    f"(SELECT MAX(x.nights) FROM ({ALL}) x WHERE x.patient_id = g.patient_id)",
    f"SELECT COUNT(*) FROM ({ALL}) x JOIN ({ALL}) y ON x.patient_id = y.patient_id AND x.note = y.note "
    f"JOIN ({ONE}) g ON g.patient_id = y.patient_id WHERE x.nights + g.nights > 0",
    f"SELECT SUM(CLAMP(n, 0, 9)) FROM (SELECT x.patient_id, COUNT(*) AS n FROM ({ALL}) x JOIN ({ONE}) g "
    "ON x.patient_id = g.patient_id GROUP BY x.patient_id) q",
)


def crowds() -> tuple[Database, Database]:
    """Neighbours: many visits of other people, and the same with one visit more."""
    visit = DATABASE["visits"][0]
    others = [
        {**visit, "visit_id": 1000 + n, "patient_id": 1000 + n % 300, "nights": n % 7, "note": f"note {n % 50}"}
        for n in range(CROWD)
    ]
    one = {**visit, "visit_id": 10**6, "patient_id": PERSON, "nights": 2, "note": "gate"}
    without, there = ({**DATABASE, "visits": rows} for rows in (others, [*others, one]))
    return without, there


def rows_opened(pair: tuple[Counting, Counting]) -> dict[str, int]:
    """The rows that operators read more where the person is there, by query."""
    without, there = pair
    finals = {sql: resolve(sql, FEW).final for sql in GATES}
    return {sql: there(final) - without(final) for sql, final in finals.items()}


@pytest.mark.parametrize("pair", [duckdb_pair, postgres_pair], ids=["duckdb", "postgres"])
def test_no_person_decides_whether_rows_of_others_are_read(pair: Callable[..., Any]) -> None:
    with pair(crowds()) as engines:
        opened_by = rows_opened(engines)
    assert {sql: rows for sql, rows in opened_by.items() if abs(rows) > CROWD // 20} == {}


def operators(node: Any) -> Iterator[dict[str, Any]]:
    """The operators of a profile of DuckDB."""
    if isinstance(node, dict):
        if "intermediate_rows" in node:
            yield node
        for part in node.values():
            yield from operators(part)
    elif isinstance(node, list):
        for part in node:
            yield from operators(part)


def profiles(engine: DuckDBEngine, sql: str, catalog: Catalog = FEW) -> Iterator[dict[str, Any]]:
    """The operators of the statements of a query, with their profiles."""
    final = resolve(sql, catalog).final
    with engine._sources.reading() as sources:
        cursor = sources.new_cursor()
        for name in tables_of(final.source):
            frame = sources.tables[name].frame
            if frame is not None:
                cursor.register(*frame)
        for statement in DuckDBWriter.of(DUCKDB, final, sources.tables, SECRET).statements():
            ((_, told),) = cursor.execute(f"EXPLAIN (ANALYZE, FORMAT json) {statement.sql}").fetchall()
            yield from operators(json.loads(told))
        cursor.close()


BUSY = "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.nights < b.nights"


@pytest.mark.parametrize("sql", [*GATES, BUSY])
def test_no_hash_table_is_empty(sql: str) -> None:
    """DuckDB looks nothing up in an empty one: a person with a row there costs a look for each row of all others."""
    without, _ = crowds()
    with opened(FEW, corpus_frames(without)) as engine:
        joins = [node for node in profiles(engine, sql) if node["type"] == "HASH_JOIN"]
    assert joins
    for join in joins:
        sides = [entered(side) for side in join["children"]]
        assert min(sides) >= 1 or max(sides) <= 1


def entered(node: dict[str, Any]) -> int:
    """The rows of an operator; the profile has none for unions."""
    return sum(map(entered, node["children"])) if node["type"] == "UNION" else int(node["intermediate_rows"])


def test_no_row_group_is_left_unread_for_what_its_statistics_say(tmp_path: Any) -> None:
    """The last row group alone has a row of the person, who would decide whether it is read."""
    rows = 4_096
    read = []
    for own in (0, 1):
        columns = {
            "patient": pa.array([*range(1000, 1000 + rows), *[PERSON] * own], pa.int64()),
            "note": pa.array([*["z"] * rows, *["gate"] * own], pa.string()),
        }
        path = str(tmp_path / f"{own}.parquet")
        pq.write_table(pa.table(columns), path, row_group_size=2_048)
        declared = (Column("patient", INTEGER, nullable=False), Column("note", TEXT, nullable=False))
        catalog = Catalog(
            (Table("visits", declared, population="patients", unit="patient"),), (Population("patients"),)
        )
        with DuckDBEngine(catalog, {"visits": DataSource("parquet", path, None)}) as engine:
            found = profiles(engine, "SELECT COUNT(*) FROM visits WHERE note = 'gate'", catalog)
            read.append(max(node.get("rows_scanned", 0) for node in found))
    assert read == [rows, rows + 1]


@pytest.mark.parametrize("pair", [duckdb_pair, postgres_pair], ids=["duckdb", "postgres"])
def test_a_side_that_may_be_skipped_is_found(pair: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As databases join by themselves: the rows of all are read only where the person is there."""

    def as_written(d: Any, columns: Any, sides: tuple[str, str], kind: Any, condition: Expression, width: int) -> str:
        on = relations.condition_sql(d, condition, relations._sides(width))
        listed = relations._listed(columns)
        return f"SELECT {listed} FROM {sides[0]} AS l {kind.value.upper()} JOIN {sides[1]} AS r ON {on}"

    monkeypatch.setattr(relations, "_both_read", as_written)
    with pair(crowds()) as engines:
        opened_by = rows_opened(engines)
    assert any(rows > CROWD // 2 for rows in opened_by.values())
