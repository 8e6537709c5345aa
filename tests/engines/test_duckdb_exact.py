"""DuckDB's integers equal those of the slow engine, for every order of rows and every number of threads."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engines import clinic, slow_engine
from support.engine_comparison import final_of, plain
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.engines.sql.relations import has_row_units
from tacit.query.resolve import resolve

SECRET = b"an owner's secret"


def engine(data: dict[str, list[tuple[object, ...]]], threads: int = 2) -> DuckDBEngine:
    frames = {name: DataSource("frame", None, frame) for name, frame in clinic.arrow(data).items()}
    return DuckDBEngine(clinic.CATALOG, frames, Limits(threads=threads))


@pytest.fixture
def by_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row may be held in memory, so that SQL does everything."""
    monkeypatch.setattr("tacit.engines.duckdb.engine.MOST_ROWS", 0)


SIZES = pytest.mark.parametrize(
    ("seed", "people", "rows"),
    [
        (0, 3, 0),
        pytest.param(1, 1, 12, marks=pytest.mark.deep),
        (2, 6, 60),
        pytest.param(3, 40, 120, marks=pytest.mark.deep),
    ],
)


@SIZES
def test_equals_the_slow_engine(seed: int, people: int, rows: int) -> None:
    check_equal(seed, people, rows)


@SIZES
@pytest.mark.usefixtures("by_sql")
def test_sql_alone_equals_the_slow_engine(seed: int, people: int, rows: int) -> None:
    check_equal(seed, people, rows)


def check_equal(seed: int, people: int, rows: int) -> None:
    data = clinic.random_rows(seed, people, rows)
    tables = clinic.canonical(data)
    with engine(data) as fast:
        assert isinstance(fast, Engine)
        for sql in clinic.QUERIES:
            final = final_of(sql, clinic.CATALOG)
            want = slow_engine.measure(final, tables, SECRET, numbered=has_row_units(final.nodes))
            assert plain(fast.measure(MeasurementTask(final, SECRET))) == want, sql


def test_order_of_rows_and_threads_change_nothing() -> None:
    data = clinic.random_rows(7, 30, 150)
    first = None
    for threads, seed in ((1, 0), (2, 1), (4, 2)):
        shuffled = {name: random.Random(seed).sample(rows, len(rows)) for name, rows in data.items()}
        with engine(shuffled, threads) as fast:
            found = [
                plain(fast.measure(MeasurementTask(final_of(sql, clinic.CATALOG), SECRET))) for sql in clinic.QUERIES
            ]
        first = first or found
        for sql, old, new in zip(clinic.QUERIES, first, found, strict=True):
            assert old == new, sql


def test_another_secret_keeps_other_groups() -> None:
    data = clinic.random_rows(3, 40, 200)
    final = resolve("SELECT team, COUNT(*) FROM members GROUP BY team", clinic.CATALOG).final
    with engine(data) as fast:
        counts = {plain(fast.measure(MeasurementTask(final, secret)))[1].__repr__() for secret in (b"a", b"b", b"c")}
        assert len(counts) == 3
        assert plain(fast.measure(MeasurementTask(final, b"a"))) == plain(fast.measure(MeasurementTask(final, b"a")))


def test_every_query_is_measured_without_rows() -> None:
    with engine(clinic.random_rows(0, 0, 0)) as fast:
        for sql in clinic.QUERIES:
            final = final_of(sql, clinic.CATALOG)
            found = fast.measure(MeasurementTask(final, SECRET))
            assert not any(np.any(cell) for array in found.raw for cell in array), sql
            assert len(found.keys) == (final.group_count if final.public_keys or not final.keys else 0), sql
