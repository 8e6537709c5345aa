"""Sums are integers: the same for every order and number of threads, where sums of doubles are not (threats A4, A5)."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.edges import ref
from engines.fast_paths import only
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql.bounding import quantised_sql
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.measures import MeasureKind, quantise, sum_measure
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, decimal

LARGE = 2.0**53
CATALOG = Catalog(
    (
        Table("t", (Column("id", INTEGER), Column("x", DOUBLE, bounds=(0.0, LARGE), step=Fraction(2**14))), population="p", unit="id", max_rows=2000),
        Table("r", (Column("x", DOUBLE, bounds=(0.0, LARGE), step=Fraction(2**14)),), population="q", unit="row"),
    ),
    (Population("p"), Population("q")),
)  # fmt: skip


def totals(values: list[float], threads: int) -> list[object]:
    frames = {
        "t": pa.table({"id": pa.array([i % 3 for i in range(len(values))]), "x": pa.array(values)}),
        "r": pa.table({"x": pa.array(values)}),
    }
    sources = {name: DataSource("frame", None, frame) for name, frame in frames.items()}
    queries = [
        "SELECT SUM(x), AVG(x), COUNT(x) FROM t",
        "SELECT SUM(x), AVG(x), COUNT(x) FROM r",
        f"SELECT SUM(CLAMP(s, 0, {2**60})) FROM (SELECT id, SUM(x) AS s FROM t GROUP BY id)",
    ]
    with DuckDBEngine(CATALOG, sources, Limits(threads=threads)) as engine:
        found = [engine.measure(MeasurementTask(resolve(sql, CATALOG).final, b"k")) for sql in queries]
    return [array.tolist() for run in found for array in run.raw]


def test_large_and_small_numbers_in_every_order() -> None:
    values = [LARGE] + [1.0] * 999 + [8192.0] * 50
    orders = [values, values[::-1], *(random.Random(seed).sample(values, len(values)) for seed in range(4))]
    # Every order puts the same values into each unit, so that only their order changes.
    by_unit = [[v for i in range(3) for v in sorted(order)[i::3]] for order in orders]
    assert all(sorted(order) == sorted(values) for order in by_unit)
    rows_only = [totals(order, threads)[3:6] for order in orders for threads in (1, 2, 4)]
    assert all(found == rows_only[0] for found in rows_only)
    assert rows_only[0][0] == [sum(quantise(Fraction(v), Fraction(2**14)) for v in values)]


def test_a_units_doubles_are_added_in_one_order() -> None:
    pick = random.Random(1)
    values = [pick.choice((LARGE, 1.0, 0.1, 3e9)) for _ in range(9000)]
    ids = [i % 3 for i in range(9000)]
    first = None
    for threads in (1, 2, 4):
        order = pick.sample(range(9000), 9000)
        frame = pa.table({"id": pa.array([ids[i] for i in order]), "x": pa.array([values[i] for i in order])})
        sources = {
            "t": DataSource("frame", None, frame),
            "r": DataSource("frame", None, pa.table({"x": pa.array([1.0])})),
        }
        sql = f"SELECT SUM(CLAMP(s, 0, {2**62})) FROM (SELECT id, SUM(x) - FLOOR(SUM(x) / 16) * 16 AS s FROM t GROUP BY id)"
        with DuckDBEngine(CATALOG, sources, Limits(threads=threads)) as engine:
            final = resolve(sql, CATALOG).final
            found = engine.measure(MeasurementTask(final, b"k")).raw[0].tolist()
        first = first or found
        assert found == first


def measured(column: pa.Array, kind: object, bounds: tuple[Fraction, Fraction], step: Fraction) -> list[int | None]:
    measure = sum_measure(MeasureKind.SUM, ref(0, kind), None, bounds=bounds, step=step, rows=1)  # type: ignore[arg-type]
    with duckdb.connect() as made:
        made.register("v", pa.table({"c0": column}))
        return [row[0] for row in made.sql(f"SELECT {quantised_sql(DUCKDB, measure)} FROM v").fetchall()]


def clamped(value: int, bounds: tuple[Fraction, Fraction], step: Fraction) -> int:
    return min(max(value, quantise(bounds[0], step)), quantise(bounds[1], step))


HALVES = [0.0, 0.5, -0.5, 0.49999999999999994, -0.49999999999999994, 1.5, 2.5, -1.5, 1.4999999999999998, -0.5000000000000001,
          2.0**51 - 0.5, -(2.0**51) + 0.5, 2.0**52 + 1, 5e-324, -5e-324, 1e308, -1e308, 3.0]  # fmt: skip


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 4), Fraction(1, 2**20), Fraction(8)])
@pytest.mark.parametrize("bounds", [(-10, 10), (0, 10), (-(2**20), 2**20), (0, 2**51), (-(2**52), 2**52)])
def test_doubles_are_rounded_exactly_on_powers_of_two(step: Fraction, bounds: tuple[int, int]) -> None:
    ends = (Fraction(bounds[0]), Fraction(bounds[1]))
    values = [*HALVES, *(v * float(step) for v in HALVES if abs(v) < 1e300), 9.999999999999998, 10.000000000000002]
    got = measured(pa.array([*values, None]), DOUBLE, ends, step)
    assert got == [*(clamped(quantise(Fraction(v), step), ends, step) for v in values), None]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50), st.integers(-10, 30))
def test_any_double(values: list[float], exponent: int) -> None:
    step = Fraction(2) ** -exponent
    ends = (-1000 * step, 777 * step)
    assert measured(pa.array(values), DOUBLE, ends, step) == [
        clamped(quantise(Fraction(v), step), ends, step) for v in values
    ]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=50),
    st.fractions(Fraction(1, 100), Fraction(100), max_denominator=100),
    st.integers(-(2**40), 0), st.integers(0, 2**40),
)  # fmt: skip
def test_any_integer_on_any_step(values: list[int], step: Fraction, low: int, high: int) -> None:
    values = [*values, low, high, low - 1, high + 1, *range(-5, 6)]
    ends = (Fraction(low), Fraction(high))
    assert measured(pa.array(values, type=pa.int64()), INTEGER, ends, step) == [
        clamped(quantise(Fraction(v), step), ends, step) for v in values
    ]


@pytest.mark.parametrize("step", [Fraction(1, 100), Fraction(1, 20), Fraction(1), Fraction(3, 7), Fraction(1, 1000)])
def test_decimals(step: Fraction) -> None:
    mantissas = [0, 1, -1, 5, -5, 250, 251, -249, 9999, 10**18 - 1, 1 - 10**18]
    ends = (Fraction(-50), Fraction(99, 2))
    got = measured(pa.array(mantissas, type=pa.int64()), decimal(2), ends, step)
    assert got == [clamped(quantise(Fraction(m, 100), step), ends, step) for m in mantissas]


def test_what_is_not_finite_is_not_counted() -> None:
    values = [math.nan, math.inf, -math.inf, None, -0.0, LARGE]
    catalog = Catalog(
        (Table("r", (Column("x", DOUBLE, bounds=(-1.0, 1.0)),), population="q", unit="row"),), (Population("q"),)
    )
    source = {"r": DataSource("frame", None, pa.table({"x": pa.array(values)}))}
    with DuckDBEngine(catalog, source, Limits(threads=2)) as engine:
        found = engine.measure(
            MeasurementTask(resolve("SELECT COUNT(*), COUNT(x), SUM(x) FROM r", catalog).final, b"k")
        )
    assert [array.tolist() for array in found.raw] == [[6], [2], [2**20]]


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("path", [None, "spreads"])
@pytest.mark.parametrize("group", ["", "k"])
def test_a_person_adds_as_many_distinct_values_as_rows_count(rows: int, path: str | None, group: str) -> None:
    """The values of one person are powers of two, or these below 511, so that a sum has as many bits as values."""
    values = [2**i for i in range(9)]
    table = Table(
        "t",
        (Column("id", INTEGER), Column("k", INTEGER, bounds=(0, 1)), Column("n", INTEGER, bounds=(0, 2**16))),
        population="p",
        unit="id",
        max_groups=2,
        max_rows=rows,
    )
    declared = Catalog((table,), (Population("p"),))
    frame = pa.table({"id": [7] * 18, "k": [0] * 9 + [1] * 9, "n": [*values, *(2**9 - 1 - v for v in values)]})
    source = {"t": DataSource("frame", None, frame.slice(0, 18 if group else 9))}
    sql = f"SELECT {group + ', ' if group else ''}COUNT(DISTINCT n), SUM(DISTINCT n), AVG(DISTINCT n) FROM t"
    final = resolve(f"{sql} GROUP BY {group}" if group else sql, declared).final
    with only(path), DuckDBEngine(declared, source) as engine:
        found = engine.measure(MeasurementTask(final, b"k")).raw
    measured = dict(zip(final.measures, (array.tolist() for array in found), strict=True))
    counts = next(cells for measure, cells in measured.items() if measure.kind is MeasureKind.DISTINCT)
    assert counts == [rows] * (2 if group else 1)
    sums = [(measure, cells) for measure, cells in measured.items() if measure.kind is MeasureKind.DISTINCT_SUM]
    assert len(sums) == 2
    for measure, cells in sums:
        total = cells[0] + rows * measure.centre
        assert total.bit_count() == rows
        if group:
            assert (rows * (2**9 - 1) - cells[1] - rows * measure.centre).bit_count() == rows
