"""One person in two tables that store ids otherwise: whatever meets in a query, they have one share of it.

Every person is taken out in turn, from all tables at once; no count may move by more than one unit's rows, in at most as
many groups as one unit has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from engines.makers import database
from support.engine_comparison import final_of
from support.spark import spark_engine
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.postgres import PostgresEngine
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.query.catalog import Catalog, Column, ForeignKey, Population, Table
from tacit.query.types import INTEGER, TEXT, decimal

X = Column("x", INTEGER, bounds=(0, 9))
MOST_ROWS, MOST_GROUPS = 2, 2
#: Ids as they are stored in two tables, by the type that both are declared with: Arrow, and PostgreSQL.
FORMS = {
    "numbers and texts": (INTEGER, (lambda i: i, pa.int64(), "bigint"), (lambda i: f"{i:03d}", pa.string(), "text")),
    "narrow and wide": (
        INTEGER,
        (lambda i: i, pa.int8(), "int2"),
        (lambda i: i, pa.decimal128(20, 0), "numeric(20,0)"),
    ),
    "texts with signs": (INTEGER, (lambda i: f" +{i} ", pa.string(), "text"), (lambda i: str(i), pa.string(), "text")),
    "decimals": (decimal(2), (lambda i: i, pa.decimal128(20, 1), "numeric(9,1)"), (lambda i: i, pa.int64(), "bigint")),
    "texts": (TEXT, (lambda i: f"é{i}", pa.string(), "text"), (lambda i: f"é{i}", pa.large_string(), "varchar(9)")),
}
QUERIES = [
    "SELECT COUNT(*), SUM(x) FROM (SELECT x FROM a UNION ALL SELECT x FROM b)",
    "SELECT COUNT(*) FROM (SELECT x FROM a UNION ALL SELECT x FROM b UNION ALL SELECT x FROM c)",
    "SELECT MEDIAN(x) FROM (SELECT x FROM a UNION ALL SELECT x FROM b)",
    "SELECT x, COUNT(*) FROM (SELECT x FROM a UNION ALL SELECT x FROM b) GROUP BY x",
    "SELECT x + 1000, COUNT(*) FROM (SELECT x FROM a UNION ALL SELECT x FROM b) GROUP BY x + 1000",
    "SELECT COUNT(DISTINCT x) FROM (SELECT x FROM a UNION ALL SELECT x FROM b)",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.id = b.id",
    "SELECT COUNT(*) FROM (SELECT COALESCE(a.x, b.x) AS x FROM a FULL JOIN b ON a.id = b.id UNION ALL SELECT x FROM c)",
    "SELECT COUNT(*) FROM (SELECT id, MAX(x) AS m FROM a GROUP BY id UNION ALL SELECT id, MAX(x) FROM b GROUP BY id)",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",
    "SELECT COUNT(*) FROM a WHERE id IN (SELECT id FROM b)",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY id ORDER BY x) AS n FROM a UNION ALL SELECT x FROM b)",
]


@cache
def catalog(kind: Any) -> Catalog:
    said: dict[str, Any] = {"population": "p", "max_rows": MOST_ROWS, "max_groups": MOST_GROUPS}
    return Catalog(
        (
            Table("a", (Column("id", kind), X), unit="id", **said),
            Table("b", (Column("id", kind), Column("key", INTEGER, unique=True), X), unit="id", **said),
            Table("c", (Column("b_key", INTEGER), X), foreign_keys=(ForeignKey("b_key", "b", "key"),), **said),
        ),
        (Population("p"),),
    )


def frames(form: str, without: int | None) -> dict[str, pa.Table]:
    _, first, second = FORMS[form]
    a = [(i, n % 10) for i in range(1, 9) for n in range(i % 4 * 3 + 1) if i != without]
    b = [(i, i * 10 + n, (i + n) % 10) for i in range(3, 12) for n in range(i % 3 + 1) if i != without]

    def ids(form: Any, persons: list[int]) -> pa.Array:
        values = [form[0](i) for i in persons]
        return pa.array(values).cast(form[1]) if isinstance(values[0], int) else pa.array(values, form[1])

    def whole(values: list[int]) -> pa.Array:
        return pa.array(values, pa.int64())

    return {
        "a": pa.table({"id": ids(first, [i for i, _ in a]), "x": whole([x for _, x in a])}),
        "b": pa.table({"id": ids(second, [i for i, *_ in b]), "key": whole([k for _, k, _ in b]), "x": whole([x for *_, x in b])}),
        "c": pa.table({"b_key": whole([k for _, k, _ in b for _ in range(2)]), "x": whole([x for *_, x in b for _ in range(2)])}),
    }  # fmt: skip


@contextmanager
def on_duckdb(known: Catalog, form: str, without: int | None) -> Iterator[Engine]:
    sources = {name: DataSource("frame", None, frame) for name, frame in frames(form, without).items()}
    with DuckDBEngine(known, sources, Limits(threads=2)) as engine:
        yield engine


@contextmanager
def on_postgres(known: Catalog, form: str, without: int | None) -> Iterator[Engine]:
    _, first, second = FORMS[form]
    types = {
        "a": f"id {first[2]}, x bigint",
        "b": f"id {second[2]}, key bigint, x bigint",
        "c": "b_key bigint, x bigint",
    }
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS one_person CASCADE; CREATE SCHEMA one_person")
        for name, frame in frames(form, without).items():
            connection.execute(f"CREATE TABLE one_person.{name} ({types[name]})".encode())
            with connection.cursor() as cursor, cursor.copy(f"COPY one_person.{name} FROM STDIN".encode()) as copy:
                for row in zip(*(column.to_pylist() for column in frame.columns), strict=True):
                    copy.write_row(row)
    with PostgresEngine(known, {name: f"one_person.{name}" for name in "abc"}, database()) as engine:
        yield engine


@contextmanager
def on_spark(known: Catalog, form: str, without: int | None) -> Iterator[Engine]:
    with spark_engine(known, frames(form, without)) as engine:
        yield engine


def measured(engine: Engine, sql: str, known: Catalog) -> dict[Any, tuple[int, tuple[int, ...]]]:
    found = engine.measure(MeasurementTask(final_of(sql, known), b"k"))
    raw = [
        [int(pairs[:, 1].sum()) for pairs in array]
        if array.dtype == object and len(array) and isinstance(array[0], np.ndarray)
        else array.reshape(len(found.keys), -1).sum(axis=1).tolist()
        for array in found.raw
    ]
    return {key: (int(found.raw_units[i]), tuple(int(each[i]) for each in raw)) for i, key in enumerate(found.keys)}


def check(before: dict[Any, Any], after: dict[Any, Any], what: str) -> bool:
    """Whether anything moved; more than one person's share must not."""
    nothing = (0, (0,) * 9)
    moved = {key: (before.get(key, nothing), after.get(key, nothing)) for key in {*before, *after}}
    moved = {key: pair for key, pair in moved.items() if pair[0] != pair[1]}
    assert len(moved) <= MOST_GROUPS, (what, moved)
    for one, other in moved.values():
        assert abs(one[0] - other[0]) <= 1, (what, moved)
        # Sums are of values of at most 9.
        assert all(abs(x - y) <= MOST_ROWS * 9 for x, y in zip(one[1], other[1], strict=False)), (what, moved)
    return bool(moved)


def take_out_in_turn(engine_of: Any, form: str, persons: list[int], queries: list[str]) -> None:
    known = catalog(FORMS[form][0])
    with engine_of(known, form, None) as engine:
        before = [measured(engine, sql, known) for sql in queries]
    moved = set()
    for person in persons:
        with engine_of(known, form, person) as engine:
            for sql, was in zip(queries, before, strict=True):
                if check(was, measured(engine, sql, known), f"{person}: {sql}"):
                    moved.add(sql)
    assert moved == set(queries), "every query is about some person"


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=() if form == "numbers and texts" else pytest.mark.deep) for form in FORMS]
)
def test_on_duckdb(form: str) -> None:
    everybody = form == "numbers and texts"
    take_out_in_turn(on_duckdb, form, list(range(1, 12)) if everybody else [3, 5, 8], QUERIES)


@pytest.mark.deep
@pytest.mark.parametrize("form", FORMS)
def test_on_postgres(form: str) -> None:
    take_out_in_turn(on_postgres, form, [5, 8], QUERIES)


@pytest.mark.spark
@pytest.mark.deep
def test_on_spark() -> None:
    take_out_in_turn(on_spark, "texts with signs", [5, 8], QUERIES[:6])


def test_the_check_finds_a_person_under_two_names() -> None:
    """Of texts that are declared as texts, 5 and 005 are two persons: the check objects."""
    known = catalog(TEXT)
    made = {person: frames("numbers and texts", person) for person in (None, 5)}

    def source(frame: pa.Table) -> DataSource:
        fields = [field.with_type(pa.string()) if field.name == "id" else field for field in frame.schema]
        return DataSource("frame", None, frame.cast(pa.schema(fields)))

    found = []
    for tables in made.values():
        with DuckDBEngine(known, {name: source(frame) for name, frame in tables.items()}) as engine:
            found.append(measured(engine, QUERIES[0], known))
    with pytest.raises(AssertionError, match="SELECT"):
        check(*found, what=QUERIES[0])
