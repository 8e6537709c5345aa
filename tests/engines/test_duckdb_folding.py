"""Bounding in memory gives the integers of SQL: for every kind of unit, in small batches and blocks, and at its limits."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.engine_comparison import plain
from tacit.core.errors import EngineError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits, segments
from tacit.engines.duckdb.database import DuckDBSession
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.engine import DuckDBWriter
from tacit.engines.duckdb.segments import TooWideError
from tacit.engines.duckdb.totals import GroupSums, SpreadPlan, TotalsPlan, UnitGroups, UnitShare
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.bias import bias_table
from tacit.query.query import FinalAggregation
from tacit.query.resolve import resolve
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, SqlType

SECRET = b"folding"
COLOURS = tuple(f"colour {i}" for i in range(30))
QUERIES = (
    "SELECT k, COUNT(*), SUM(x), AVG(x), COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT k, n, COUNT(x), SUM(n), AVG(n) FROM t GROUP BY k, n",
    "SELECT k, VARIANCE(x), SUM(x) FILTER (WHERE n > 2), COUNT(*) FILTER (WHERE x IS NULL) FROM t GROUP BY k",
    "SELECT COUNT(*), SUM(x), AVG(n), COUNT(n) FROM t",
    "SELECT k, SUM(n, contribution_bounds_per_group => (2, 9)), COUNT(x) FROM t GROUP BY k",
    "SELECT n, SUM(CLAMP(w, -5, 1000)), AVG(x) FROM t WHERE x > 0.5 GROUP BY n",
    "SELECT n, SUM(w) FROM t GROUP BY n",
)
Units = Callable[[int], object]
UNITS: dict[str, tuple[SqlType, pa.DataType, Units]] = {
    "small": (INTEGER, pa.int64(), lambda i: i),
    "negative": (INTEGER, pa.int64(), lambda i: 7 - i),
    "narrow": (INTEGER, pa.int8(), lambda i: 127 - i),
    "wide": (INTEGER, pa.int64(), lambda i: (i * 0x9E3779B97F4A7C15) % 2**64 - 2**63),
    "text": (TEXT, pa.string(), lambda i: f"person {i}"),
    "day": (DATE, pa.date32(), lambda i: i),
}


def catalog(unit: SqlType, max_groups: int = 4) -> Catalog:
    columns = (
        Column("id", unit),
        Column("k", TEXT, categories=COLOURS),
        Column("n", INTEGER, bounds=(-3, 6)),
        Column("x", DOUBLE, bounds=(-1.0, 10.0)),
        Column("w", INTEGER, bounds=(-(2**61), 2**61)),
    )
    return Catalog(
        (Table("t", columns, population="p", unit="id", max_groups=max_groups, max_rows=3),), (Population("p"),)
    )


def frame(kind: pa.DataType, unit: Units, rows: int = 6000) -> pa.Table:
    """Some units in every group and some in one, NULL and not finite values, undeclared categories."""
    pick = random.Random(rows)
    ids = [min(pick.randrange(200), pick.randrange(200)) for _ in range(rows)]
    return pa.table(
        {
            "id": pa.array([unit(i) for i in ids], type=kind),
            "k": pa.array([pick.choice([*COLOURS[: 1 + i], None, "another"]) for i in ids]),
            "n": pa.array([pick.choice([None, *range(-9, 10)]) for _ in ids], type=pa.int64()),
            "x": pa.array(
                [
                    pick.choice([None, float("nan"), float("inf"), -float("inf"), -0.0, 3.25, 9.75, 1e300, -4.0])
                    for _ in ids
                ]
            ),
            "w": pa.array([pick.choice([None, 5, -(2**62), 2**59]) for _ in ids], type=pa.int64()),
        }
    )


def integers(found: Measurements) -> tuple[list[int], list[list[Any]], list[int] | None]:
    lost = None if found.raw_bias is None else found.raw_bias.tolist()
    _, units, cells = plain(found)
    return units, cells, lost


def task(final: FinalAggregation) -> MeasurementTask:
    """A query, and the table of what bounding leaves out of it."""
    return MeasurementTask(final, SECRET, bias=bias_table(final))


@pytest.mark.parametrize("name", UNITS)
def test_equals_sql(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, kind, unit = UNITS[name]
    data = {"t": DataSource("frame", None, frame(kind, unit))}
    finals = [resolve(sql, catalog(declared)).final for sql in QUERIES]
    with monkeypatch.context() as alone:
        alone.setattr("tacit.engines.duckdb.engine.MOST_ROWS", 0)
        with DuckDBEngine(catalog(declared), data) as by_sql:
            want = [integers(by_sql.measure(task(final))) for final in finals]
    monkeypatch.setattr("tacit.engines.duckdb.segments._BATCH", 2048)
    # In blocks of one unit and of many, one after the other and side by side.
    for threads, block, few in ((1, 1, 100), (2, 500, 100), (2, 2**17, 2**17)):
        monkeypatch.setattr(segments, "_BLOCK", block)
        monkeypatch.setattr(segments, "_FEW", few)
        with DuckDBEngine(catalog(declared), data, Limits(threads=threads)) as folded:
            assert [integers(folded.measure(task(final))) for final in finals] == want


def plan_of(final: FinalAggregation, engine: DuckDBEngine) -> TotalsPlan | None:
    plan = DuckDBWriter.of(DUCKDB, final, engine._tables, SECRET, bias_table(final)).row_plans()[0]
    assert not isinstance(plan, SpreadPlan)
    return plan


def shares_of(sql: str) -> tuple[UnitShare, ...]:
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 10))}
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        plan = plan_of(resolve(sql, catalog(INTEGER)).final, engine)
    assert plan is not None
    return plan.shares


def test_which_queries_are_folded() -> None:
    """All but the last of them, whose values are too wide; and it is the fold that answers, not SQL after it."""
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 500))}
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        for sql in QUERIES:
            plan = plan_of(resolve(sql, catalog(INTEGER)).final, engine)
            if sql == QUERIES[-1]:
                assert plan is None
                continue
            assert plan is not None, sql
            cursor = engine._connection.cursor()
            cursor.register(*engine._tables["t"].frame)  # type: ignore[misc]
            found = plan.measure(DuckDBSession(cursor), 10**6, 1)
            assert found is not None, sql
            assert found.totals, sql
            assert found.cells, sql
            again = plan_of(resolve(sql, catalog(INTEGER)).final, engine)
            assert again is not None
            assert again.measure(DuckDBSession(cursor), 20, 1) is None, sql


def test_the_rows_of_a_query_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For sums, places, distinct values and their sum; and for places alone, which tell the units as well."""
    read: list[str] = []
    real = segments.fetch
    monkeypatch.setattr(segments, "fetch", lambda *given, **more: (read.append(given[1]), real(*given, **more))[1])
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 500))}
    queries = (
        "SELECT k, SUM(x), MEDIAN(n), COUNT(DISTINCT n), SUM(DISTINCT n) FROM t GROUP BY k",
        "SELECT k, MEDIAN(x) FROM t GROUP BY k",
    )
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        for sql in queries:
            read.clear()
            final = resolve(sql, catalog(INTEGER)).final
            found = integers(engine.measure(MeasurementTask(final, SECRET)))
            assert len(read) == 1
            with monkeypatch.context() as alone:
                alone.setattr(engine, "_most_rows", 0)
                assert integers(engine.measure(MeasurementTask(final, SECRET))) == found


def test_memory_limits_the_rows_that_are_held() -> None:
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 10))}
    with DuckDBEngine(catalog(INTEGER), data, Limits(memory="64MiB")) as engine:
        assert engine._most_rows == 2**20
    with DuckDBEngine(catalog(INTEGER), data, Limits(memory="1TiB")) as engine:
        assert engine._most_rows == segments.MOST_ROWS


def test_interrupted_while_folding(monkeypatch: pytest.MonkeyPatch) -> None:
    final = resolve(QUERIES[0], catalog(INTEGER)).final
    with DuckDBEngine(catalog(INTEGER), {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i))}) as engine:
        real = segments.GroupedRows.of

        def interrupted(*arguments: object) -> object:
            engine.interrupt()
            return real(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as during:
            during.setattr(segments.GroupedRows, "of", interrupted)
            with pytest.raises(EngineError):
                engine.measure(MeasurementTask(final, SECRET))
        assert engine.measure(MeasurementTask(final, SECRET)).raw_units.any()


def test_running_sums_may_wrap_and_segments_may_not() -> None:
    lengths = np.array([1, 2, 1])
    values = np.array([2**62, 2**62, 0, 2**62])
    segments = UnitGroups(lambda _: values, (), lengths)
    assert segments.totals("y").tolist() == [2**62, 2**62, 2**62]
    assert segments.counts("y").tolist() == [1, 1, 1]


def test_squares_of_many_rows_are_exact_and_those_of_one_that_might_not_fit_are_given_back() -> None:
    squares = next(share for share in shares_of(QUERIES[2]) if share.measure.kind.value == "centred_squares")
    eight = UnitGroups(lambda _: np.full(9, 2**30 + 1), (), np.array([8, 1]))
    measure = replace(squares.measure, low=0, high=2**30, centre=0, rows=8, clamp=(0, 2**61))
    # Eight times 2^60 wrap in 64 bits, and are clamped.
    assert replace(squares, measure=measure).of(eight).tolist() == [2**61, 2**60]
    with pytest.raises(TooWideError):
        replace(squares, measure=replace(measure, high=2**31)).of(eight)


def test_shares_that_might_not_add_up_are_summed_by_halves() -> None:
    shares = np.array([2**62, 2**62, 2**62, -(2**62), -(2**62), -5])
    wide, narrow = GroupSums(2, wide=True), GroupSums(2, wide=False)
    for block in (slice(0, 4), slice(4, 6)):
        wide.add(np.array([0, 0, 0, 1, 1, 1])[block], shares[block])
        narrow.add(np.array([0, 0, 0, 1, 1, 1])[block], shares[block] >> 2)
    everyone = np.arange(2)
    assert wide.of(everyone).tolist() == [3 * 2**62, -(2**63) - 5]
    assert narrow.of(everyone).tolist() == [3 * 2**60, -(2**61) - 2]


def test_a_row_that_no_word_holds_is_told_by_its_number() -> None:
    """Units, groups and values that 64 bits do not hold together give the integers of SQL."""
    sql = "SELECT n, SUM(CLAMP(w, -1000000000000, 1000000000000)), VARIANCE(x) FROM t GROUP BY n"
    final = resolve(sql, catalog(INTEGER)).final
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i * 2**20))}
    sorted_rows: list[segments.SortedRows] = []
    with DuckDBEngine(catalog(INTEGER), data) as engine, pytest.MonkeyPatch.context() as patch:
        real = segments.SortedRows.of

        def kept(*arguments: Any) -> segments.SortedRows:
            sorted_rows.append(real(*arguments))
            return sorted_rows[-1]

        patch.setattr(segments.SortedRows, "of", kept)
        found = integers(engine.measure(task(final)))
        patch.setattr(engine, "_most_rows", 0)
        assert integers(engine.measure(task(final))) == found
    assert [bool(rows.apart) for rows in sorted_rows] == [True]


def test_rows_outside_the_public_list_are_read_for_bias_alone() -> None:
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i))}
    read: list[int] = []
    with DuckDBEngine(catalog(INTEGER), data) as engine, pytest.MonkeyPatch.context() as patch:
        real = segments.SortedRows.of

        def counted(rows: segments.GroupedRows, fields: Any) -> segments.SortedRows:
            read.append(sum(rows.sizes))
            return real(rows, fields)

        patch.setattr(segments.SortedRows, "of", counted)
        final = resolve(QUERIES[0], catalog(INTEGER)).final
        with_bias = engine.measure(task(final))
        alone = engine.measure(MeasurementTask(final, SECRET))
    assert integers(with_bias)[:2] == integers(alone)[:2]
    listed = sum(name in COLOURS for name in data["t"].frame["k"].to_pylist())
    assert read == [6000, listed]
