"""Above the aggregation: with the noise switched off, every step gives what DuckDB gives for the same text.

The exact integers come from the toy engine and go through the plan, the estimates and the steps as released ones do;
only nothing is added to them. Values lie within their bounds and every person has one row, so bounding changes nothing.
"""

# ruff: noqa: E501 - a query is easier to read on one line
from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from support.bits import SeededBits
from support.toy_engine import ToyEngine, without_noise
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.plan import make_plan
from tacit.query.postprocess.result import Finished, finish
from tacit.query.release import release
from tacit.query.request import Request
from tacit.query.types import DATE, DOUBLE, INTEGER, TEXT, decimal

DAYS = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("person", INTEGER),
                Column("ward", TEXT, categories=("cardiology", "oncology", "surgery", "unused")),
                Column("floor", INTEGER, categories=(1, 2, 3)),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(2))),
                Column("weight", DOUBLE, bounds=(0.0, 64.0), step=Fraction(1, 8)),
                Column("age", INTEGER, bounds=(0, 99)),
                Column("day", DATE, bounds=DAYS),
            ),
            population="people",
            unit="person",
        ),
    ),
    (Population("people"),),
)


@cache
def rows() -> list[dict[str, Any]]:
    generator = np.random.Generator(np.random.PCG64(11))

    def maybe(value: Any) -> Any:
        return None if generator.random() < 0.1 else value

    return [
        {
            "person": number,
            "ward": str(generator.choice(["cardiology", "oncology", "surgery"], p=[0.5, 0.3, 0.2])),
            "floor": int(generator.integers(1, 4)),
            "cost": maybe(Fraction(int(generator.integers(0, 201)), 100)),
            "weight": maybe(float(generator.integers(0, 513)) / 8),
            "age": maybe(int(generator.integers(0, 100))),
            "day": DAYS[0] + dt.timedelta(days=int(generator.integers(0, 366))),
        }
        for number in range(400)
    ]


def plain(sql: str) -> list[tuple[Any, ...]]:
    kinds = {"cost": pa.decimal128(18, 2), "weight": pa.float64(), "age": pa.int64(), "day": pa.date32()}
    columns = {
        name: pa.array(
            [
                Decimal(int(row[name] * 100)).scaleb(-2) if isinstance(row[name], Fraction) else row[name]
                for row in rows()
            ],
            type=kinds.get(name),
        )
        for name in rows()[0]
    }
    connection = duckdb.connect()
    connection.register("visits", pa.table(columns))
    return [tuple(row) for row in connection.execute(sql).fetchall()]


def exact(sql: str) -> Finished:
    plan = make_plan(sql, CATALOG, Request(epsilon="1"))
    measured = ToyEngine({"visits": rows()}).measure(MeasurementTask(plan.final, b""))
    return finish(plan.query, without_noise(plan, measured), confidence="0.95")


def same(left: Any, right: Any) -> bool:
    if isinstance(left, (int, float, Fraction)) and isinstance(right, (int, float, Decimal)):
        return float(left) == pytest.approx(float(right), rel=1e-9, abs=1e-9)
    if isinstance(right, dt.datetime):
        right = right.date()
    return bool(left == right)


INNER = (
    "(SELECT ward, floor, COUNT(*) AS n, SUM(cost) AS s, AVG(age) AS a FROM visits WHERE ward <> 'unused' "
    "GROUP BY ward, floor HAVING COUNT(*) > 0)"
)
TOTAL = f"SELECT ward, floor, n, SUM(n) OVER (PARTITION BY ward) AS total FROM {INNER} ORDER BY ward, floor"
SHARE = f"SELECT ward, floor, 100.0 * n / SUM(n) OVER (PARTITION BY ward) AS share FROM {INNER} ORDER BY ward, floor"
QUERIES = [
    # estimates
    "SELECT ward, COUNT(*) AS n, COUNT(age) AS k FROM visits WHERE ward <> 'unused' GROUP BY ward HAVING COUNT(*) > 0 ORDER BY ward",
    "SELECT SUM(cost) AS s, SUM(age) AS t, SUM(weight) AS w FROM visits",
    "SELECT AVG(cost) AS a, AVG(age) AS b, AVG(weight) AS c FROM visits",
    "SELECT VAR_SAMP(age) AS a, VAR_POP(age) AS b, STDDEV(age) AS c, STDDEV_POP(weight) AS d FROM visits",
    "SELECT MEDIAN(age) AS m, QUANTILE_CONT(age, 0.25) AS q, MIN(age) AS lo, MAX(age) AS hi FROM visits",
    "SELECT MEDIAN(weight) AS m, QUANTILE_CONT(weight, 0.5) AS q, MIN(cost) AS lo, MAX(cost) AS hi FROM visits",
    "SELECT MIN(day) AS lo, MAX(day) AS hi FROM visits",
    "SELECT MODE(ward) AS m FROM visits",
    "SELECT AVG(age) AS a, MEDIAN(age) AS m, MIN(age) AS lo, STDDEV(age) AS s FROM visits WHERE age > 200",
    # expressions
    "SELECT ward, SUM(cost) / COUNT(*) AS r, COUNT(*) * 2 + 1 AS d FROM visits GROUP BY ward HAVING COUNT(*) > 1 ORDER BY r",
    "SELECT floor, CASE WHEN COUNT(*) > 130 THEN 'many' ELSE 'few' END AS size FROM visits GROUP BY floor ORDER BY floor",
    "SELECT floor, ROUND(AVG(weight), 1) AS w, FLOOR(AVG(age)) AS f FROM visits GROUP BY floor ORDER BY floor",
    "SELECT NULLIF(COUNT(*), COUNT(*)) AS nothing, COALESCE(AVG(age), 0) AS a FROM visits",
    "SELECT ward, UPPER(ward) AS u, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 0 ORDER BY u",
    # order, limits, distinct
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2",
    "SELECT ward, floor, COUNT(*) AS n FROM visits GROUP BY ward, floor ORDER BY n DESC, ward, floor LIMIT 3 OFFSET 1",
    "SELECT floor, AVG(age) AS a FROM visits WHERE floor < 3 GROUP BY floor HAVING COUNT(*) > 0 ORDER BY a DESC NULLS FIRST",
    "SELECT DISTINCT COUNT(*) > 20 AS large FROM visits WHERE ward <> 'unused' GROUP BY ward, floor HAVING COUNT(*) > 0 ORDER BY large",
    # aggregation of released cells
    f"SELECT ward, SUM(n) AS n, COUNT(*) AS floors, MAX(s) AS most, MIN(a) AS least FROM {INNER} GROUP BY ward ORDER BY ward",
    f"SELECT SUM(n) AS n, AVG(n) AS a, MEDIAN(n) AS m, STDDEV(n) AS sd, VAR_POP(n) AS v, COUNT(DISTINCT ward) AS w FROM {INNER}",
    f"SELECT COUNT(a) AS k, SUM(s) FILTER (WHERE n > 20) AS big FROM {INNER}",
    f"SELECT floor, QUANTILE_CONT(n, 0.3) AS q FROM {INNER} GROUP BY floor ORDER BY floor",
    # windows over released cells
    TOTAL,
    f"SELECT ward, floor, ROW_NUMBER() OVER (PARTITION BY ward ORDER BY n DESC, floor) AS place FROM {INNER} ORDER BY ward, floor",
    f"SELECT ward, floor, RANK() OVER (ORDER BY n) AS r, DENSE_RANK() OVER (ORDER BY n) AS d FROM {INNER} ORDER BY ward, floor",
    f"SELECT ward, floor, LAG(n) OVER (PARTITION BY ward ORDER BY floor) AS before, LEAD(n, 2) OVER (PARTITION BY ward ORDER BY floor) AS later FROM {INNER} ORDER BY ward, floor",
    f"SELECT ward, floor, SUM(n) OVER (PARTITION BY ward ORDER BY floor ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM {INNER} ORDER BY ward, floor",
    SHARE,
]  # fmt: skip


@pytest.mark.parametrize("sql", QUERIES)
def test_without_noise_the_answer_is_that_of_duckdb(sql: str) -> None:
    finished, expected = exact(sql), plain(sql)
    assert len(finished.values) == len(expected)
    for ours, theirs in zip(finished.values, expected, strict=True):
        assert all(same(x, y) for x, y in zip(ours, theirs, strict=True)), (ours, theirs)


@pytest.mark.parametrize("sql", QUERIES)
def test_with_noise_every_number_has_a_finite_interval_around_it(sql: str, seeded: SeededBits) -> None:
    plan = make_plan(sql, CATALOG, Request(epsilon="0.1"))
    measured = ToyEngine({"visits": rows()}).measure(MeasurementTask(plan.final, b""))
    for _ in range(3):
        finished = finish(plan.query, release(plan, measured), confidence="0.99")
        for values, ends in zip(finished.values, finished.intervals(), strict=True):
            for column, value, (low, high) in zip(finished.columns, values, ends, strict=True):
                if column.type.is_numeric or column.type.is_temporal:
                    # A NULL without noise (a constant, a row beyond the first) has no interval; nothing else may lack one.
                    assert (low is None) == (high is None)
                    assert low is not None or value is None
                    assert value is None or low is None or low <= value <= high  # type: ignore[operator]


def test_a_quotient_has_an_interval_although_its_divisor_may_be_zero(seeded: SeededBits) -> None:
    """A divisor that is a whole number is 0, which gives NULL, or at least 1 in size. Power: some may be 0."""
    plan, total = (make_plan(sql, CATALOG, Request(epsilon="0.1")) for sql in (SHARE, TOTAL))
    measured = ToyEngine({"visits": rows()}).measure(MeasurementTask(plan.final, b""))
    may_be_zero = 0
    for _ in range(20):
        released = release(plan, measured)
        shares = finish(plan.query, released, confidence="0.99").intervals()
        totals = finish(total.query, released, confidence="0.99").intervals()
        for share, divisor in zip(shares, totals, strict=True):
            assert share[-1][0] is not None
            assert share[-1][1] is not None
            may_be_zero += divisor[-1][0] <= 0 <= divisor[-1][1]  # type: ignore[operator]
    assert may_be_zero > 0


def test_interval_ends_in_sql_are_those_of_the_answer(seeded: SeededBits) -> None:
    sql = (
        "SELECT ward, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM visits GROUP BY ward "
        "ORDER BY DP_INTERVAL_HIGH(n) DESC"
    )
    plan = make_plan(sql, CATALOG, Request(epsilon="0.5", confidence="0.8"))
    measured = ToyEngine({"visits": rows()}).measure(MeasurementTask(plan.final, b""))
    finished = finish(plan.query, release(plan, measured), confidence=plan.terms.confidence)
    for values, ends in zip(finished.values, finished.intervals(), strict=True):
        assert (values[2], values[3]) == ends[1]
    highs = [values[3] for values in finished.values]
    assert highs == sorted(highs, reverse=True)  # type: ignore[type-var]
    # The confidence of the text stays, whatever the caller looks at.
    assert [row[2] for row in finished.intervals("0.99")] == [(values[2], values[2]) for values in finished.values]
    assert finished.has_interval == (False, True, False, False)


def test_division_by_zero_is_null() -> None:
    assert exact("SELECT AVG(age) / (COUNT(*) - COUNT(*)) AS nothing FROM visits").values == ((None,),)


def test_a_sum_of_many_cells_is_tighter_than_the_sum_of_their_intervals(seeded: SeededBits) -> None:
    inner = "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"
    outer = make_plan(f"SELECT SUM(n) AS total FROM ({inner})", CATALOG, Request(epsilon="1"))
    measured = ToyEngine({"visits": rows()}).measure(MeasurementTask(outer.final, b""))
    released = release(outer, measured)
    ((_, high),) = finish(outer.query, released, confidence="0.95").intervals()[0]
    (value,) = finish(outer.query, released, confidence="0.95").values[0]
    each = outer.priced.releases[0].law(0).error(Fraction(1, 20))
    assert 0 < high - value < 100 * each / 4  # type: ignore[operator]
