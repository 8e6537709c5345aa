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
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.duckdb.database import DuckDBSession
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.engine import DuckDBWriter
from tacit.engines.duckdb.fast import array_totals
from tacit.engines.duckdb.fast import fetched_rows as fetching
from tacit.engines.duckdb.fast.array_totals import TooWideError, UnitGroups, UnitShare, dense_totals
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.left_out import loss_table
from tacit.query.question import FinalAggregation
from tacit.query.resolve import resolve
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, SqlType

SECRET = b"folding"
COLOURS = tuple(f"colour {i}" for i in range(30))
QUESTIONS = (
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
    lost = None if found.raw_left_out is None else found.raw_left_out.tolist()
    _, units, cells = plain(found)
    return units, cells, lost


def task(final: FinalAggregation) -> MeasurementTask:
    """A question, and the table of what bounding leaves out of it."""
    return MeasurementTask(final, SECRET, left_out=loss_table(final))


@pytest.mark.parametrize("name", UNITS)
def test_equals_sql(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, kind, unit = UNITS[name]
    data = {"t": DataSource("frame", None, frame(kind, unit))}
    finals = [resolve(sql, catalog(declared)).final for sql in QUESTIONS]
    with monkeypatch.context() as alone:
        alone.setattr("tacit.engines.duckdb.engine.MOST_ROWS", 0)
        with DuckDBEngine(catalog(declared), data) as by_sql:
            want = [integers(by_sql.measure(task(final))) for final in finals]
    monkeypatch.setattr("tacit.engines.duckdb.fast.handed_columns._BATCH", 2048)
    # In batches where there are more than a few rows, and else all at once.
    for threads, block, few in ((1, 64, 100), (2, 500, 2**18), (2, 2**17, 5999), (1, 2**17, 6000)):
        monkeypatch.setattr("tacit.engines.duckdb.fast.sorted_totals._BLOCK", block)
        monkeypatch.setattr("tacit.engines.duckdb.fast.fetched_rows.FEW", few)
        with DuckDBEngine(catalog(declared), data, Limits(threads=threads)) as folded:
            assert [integers(folded.measure(task(final))) for final in finals] == want


@pytest.mark.parametrize(("name", "taken"), [("small", 5), ("negative", 5), ("narrow", 5), ("wide", 0), ("text", 0)])
def test_units_that_keep_all_their_groups_are_added_up_in_cells(
    name: str, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dense totals are the integers of SQL and of the sort; the second question has too many groups for them."""
    declared, kind, unit = UNITS[name]
    whole = catalog(declared, max_groups=300)
    data = {"t": DataSource("frame", None, frame(kind, unit))}
    finals = [resolve(sql, whole).final for sql in QUESTIONS]
    found: list[object] = []

    def counted(rows: array_totals.FetchedRows, work: array_totals.Fold) -> array_totals.FoldedRows | None:
        found.append(dense_totals(rows, work))
        return dense_totals(rows, work)

    with DuckDBEngine(whole, data) as engine:
        with monkeypatch.context() as alone:
            alone.setattr(engine, "_most_rows", 0)
            want = [integers(engine.measure(task(final))) for final in finals]
        monkeypatch.setattr(fetching, "dense_totals", counted)
        assert [integers(engine.measure(task(final))) for final in finals] == want
        assert sum(each is not None for each in found) == taken
        monkeypatch.setattr(array_totals, "_CELLS_PER_ROW", 0)
        assert [integers(engine.measure(task(final))) for final in finals] == want
        assert sum(each is not None for each in found) == taken


def plan_of(final: FinalAggregation, engine: DuckDBEngine) -> fetching.RowPlan | None:
    return DuckDBWriter.of(DUCKDB, final, engine._tables, SECRET, loss_table(final)).statements()[0].rows


def shares_of(sql: str) -> tuple[UnitShare, ...]:
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 10))}
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        plan = plan_of(resolve(sql, catalog(INTEGER)).final, engine)
    assert plan is not None
    return plan.shares


def test_which_questions_are_folded() -> None:
    """All but the last of them, whose values are too wide; and it is the fold that answers, not SQL after it."""
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 500))}
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        for sql in QUESTIONS:
            plan = plan_of(resolve(sql, catalog(INTEGER)).final, engine)
            if sql == QUESTIONS[-1]:
                assert plan is None
                continue
            assert plan is not None, sql
            cursor = engine._connection.cursor()
            cursor.register(*engine._tables["t"].frame)  # type: ignore[misc]
            found = plan.measure(DuckDBSession(cursor), 10**6, 1)
            assert found is not None, sql
            assert found.totals, sql
            assert found.cells, sql
            assert plan.measure(DuckDBSession(cursor), 20, 1) is None, sql


def test_few_rows_are_read_at_once_and_many_or_inexact_ones_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 500))}
    read: list[int] = []
    real = fetching._batches

    def counted(*arguments: object) -> object:
        read.append(1)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(fetching, "_batches", counted)
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        plan = plan_of(resolve(QUESTIONS[0], catalog(INTEGER)).final, engine)
        assert plan is not None
        cursor = engine._connection.cursor()
        cursor.register(*engine._tables["t"].frame)  # type: ignore[misc]

        def rows(plan: fetching.RowPlan) -> tuple[object, int]:
            read.clear()
            return plan.measure(DuckDBSession(cursor), 10**6, 1), len(read)

        found, batches = rows(plan)
        assert batches == 0
        assert rows(replace(plan, large=True)) == (found, 1)
        wide = plan.sql.replace(" AS y0", "::HUGEINT AS y0")
        assert wide != plan.sql
        # As a column of numpy they would be floats.
        assert rows(replace(plan, sql=wide)) == (found, 1)
        monkeypatch.setattr(fetching, "FEW", 499)
        assert rows(plan) == (found, 1)


def test_memory_limits_the_rows_that_are_held() -> None:
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 10))}
    with DuckDBEngine(catalog(INTEGER), data, Limits(memory="64MiB")) as engine:
        assert engine._most_rows == 2**20
    with DuckDBEngine(catalog(INTEGER), data, Limits(memory="1TiB")) as engine:
        assert engine._most_rows == fetching.MOST_ROWS


def test_interrupted_while_folding(monkeypatch: pytest.MonkeyPatch) -> None:
    final = resolve(QUESTIONS[0], catalog(INTEGER)).final
    with DuckDBEngine(catalog(INTEGER), {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i))}) as engine:
        real = fetching.fold

        def interrupted(*arguments: object) -> object:
            engine.interrupt()
            return real(*arguments)  # type: ignore[arg-type]

        with monkeypatch.context() as during:
            during.setattr("tacit.engines.duckdb.fast.fetched_rows.fold", interrupted)
            with pytest.raises(EngineError):
                engine.measure(MeasurementTask(final, SECRET))
        assert engine.measure(MeasurementTask(final, SECRET)).raw_units.any()


def test_running_sums_may_wrap_and_segments_may_not() -> None:
    lengths = np.array([1, 2, 1])
    values = np.array([2**62, 2**62, -5, 2**62])
    segments = UnitGroups(lambda _: values, (), lengths)
    assert segments.totals("y").tolist() == [2**62, 2**62 - 5, 2**62]
    assert segments.counts("y").tolist() == [1, 1, 1]


def test_shares_that_might_not_fit_are_given_back() -> None:
    many = UnitGroups(lambda _: np.ones(1, dtype=np.int64), (), np.array([2**40]))
    squares = next(share for share in shares_of(QUESTIONS[2]) if share.measure.kind.value == "centred_squares")
    with pytest.raises(TooWideError):
        squares.of(many)


def test_cells_whose_shares_might_not_add_up_are_summed_by_halves() -> None:
    share = next(share for share in shares_of(QUESTIONS[2]) if share.measure.kind.value == "centred_squares")
    column = array_totals.ValueColumn(np.full(4, 3), 0)
    rows = array_totals.FetchedRows(np.arange(4), np.zeros(4, dtype=np.int16), {"y0": column}, array_totals.Beside())

    def added(largest: int) -> array_totals.FoldedRows | None:
        wide = replace(share, column="y0", measure=replace(share.measure, clamp=(0, largest)))
        return dense_totals(
            rows, array_totals.Fold(1, 1, 0, lambda _, codes: codes.astype(np.uint32), {"y0": 9}, (wide,))
        )

    # The same shares, with a clamp that lets their sum be wider than 64 bits and one that does not.
    narrow, wide = added(2**59), added(2**60)
    assert narrow is not None
    assert wide is not None
    assert wide.totals == narrow.totals
    shares = np.array([[2**62, 2**62, 2**62], [-(2**62), -(2**62), -5]])
    groups = np.array([0, 0, 0, 1, 1, 1])
    added_up = array_totals.group_sums(shares.ravel(), groups, 2, narrow=False)
    assert added_up.tolist() == [3 * 2**62, -(2**63) - 5]


@pytest.mark.parametrize(
    ("sql", "may_stop_early"),
    [
        ("SELECT COUNT(*) FROM t WHERE n > 1", True),
        ("SELECT COUNT(*) FROM t a JOIN t b ON a.id = b.id AND a.k <> b.k", False),
        ("SELECT COUNT(*) FROM (SELECT id FROM t UNION ALL SELECT id FROM t) AS s", False),
    ],
)
def test_no_limit_stands_over_what_is_read_twice(sql: str, may_stop_early: bool) -> None:
    """DuckDB waited for ever for the first rows of a join of one subquery with itself."""
    data = {"t": DataSource("frame", None, frame(pa.int64(), lambda i: i, 10))}
    with DuckDBEngine(catalog(INTEGER), data) as engine:
        plan = plan_of(resolve(sql, catalog(INTEGER)).final, engine)
    assert plan is not None
    assert plan.large is not may_stop_early
