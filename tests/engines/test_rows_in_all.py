"""``max_rows_total``: every path shares out the same rows, and no person counts with more than are stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines import clinic, slow_engine
from engines.fast_paths import only
from engines.makers import MAKERS, OTHERS
from support.engine_comparison import NOT_DONE, SECRET, final_of, plain
from support.spark import spark_engine
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql.relations import has_row_units
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.auto_limits import bounded_in_all, can_share
from tacit.query.planning.bias import bias_query, bias_table
from tacit.query.planning.plan import limits_of
from tacit.query.query import FinalAggregation
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

#: Rows in all, groups, rows in a group.
BOUNDS = ((1, 9, 9), (3, 9, 2), (7, 3, 7), (20, 30, 20), (400, 30, 30))
#: Units that are whole numbers and texts, public groups and private ones, everything that is added up.
COLUMNS = (
    Column("id", INTEGER), Column("name", TEXT), Column("k", TEXT, categories=tuple("abcde")), Column("free", TEXT),
    Column("n", INTEGER, bounds=(-3, 9)), Column("x", DOUBLE, bounds=(0.0, 10.0)),
)  # fmt: skip
QUERIES = (
    "SELECT k, COUNT(*), SUM(n), AVG(x), COUNT(DISTINCT {}) FROM t GROUP BY k",
    "SELECT k, n, COUNT(x), VARIANCE(n), COUNT(*) FILTER (WHERE n > 2) FROM t GROUP BY k, n",
    "SELECT free, COUNT(*), SUM(x), AVG(n) FROM t GROUP BY free",
    "SELECT free, n > 2, COUNT(n), SUM(n) FILTER (WHERE x > 1), VARIANCE(x) FROM t GROUP BY 1, 2",
)


def asked(catalog: Catalog, queries: tuple[str, ...]) -> Iterator[tuple[str, FinalAggregation]]:
    """The queries with each bound."""
    for sql in queries:
        final = final_of(sql, catalog)
        if can_share(final) and final.keys:
            for most, groups, rows in BOUNDS:
                bounded = bounded_in_all(replace(final, limits=limits_of(final)), most, groups, rows)
                if bounded.max_total is not None:
                    yield f"{sql} {most} {groups} {rows}", bounded


def test_every_engine_shares_out_the_same_rows() -> None:
    data = clinic.random_rows(5, 12, 160)
    tables, frames = clinic.canonical(data), clinic.arrow(data)
    bounded = 0
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS[OTHERS[0]](clinic.CATALOG, frames) as two:
        for name, final in asked(clinic.CATALOG, tuple(q for q in clinic.QUERIES if q not in NOT_DONE[OTHERS[0]])):
            work = MeasurementTask(final, SECRET)
            want = slow_engine.measure(final, tables, SECRET, numbered=has_row_units(final.nodes))
            assert plain(one.measure(work)) == want, name
            assert plain(two.measure(work)) == want, name
            bounded += plain(one.measure(replace(work, final=replace(final, max_total=None)))) != want
    assert bounded > 10, "the bound decides something"


@pytest.mark.spark
@pytest.mark.deep
def test_spark_shares_out_the_same_rows() -> None:
    data = clinic.random_rows(5, 12, 160)
    frames = clinic.arrow(data)
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, spark_engine(clinic.CATALOG, frames) as two:
        for name, final in list(asked(clinic.CATALOG, clinic.QUERIES))[::3]:
            work = MeasurementTask(final, SECRET, bias=bias_table(final))
            found, want = two.measure(work), one.measure(work)
            assert plain(found) == plain(want), name


def rows(seed: int) -> dict[str, list[Any]]:
    made = np.random.default_rng(seed)
    count = 300
    ids = made.choice([1, 2, 3, 4, 5, 2**62, -7], count, p=[0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05]).tolist()
    return {
        "id": ids,
        "name": [f"person {number}" for number in ids],
        "k": made.choice([*"abcde", "?"], count).tolist(),
        "free": [None if word == "n" else word for word in made.choice([*"ghiklmn"], count)],
        "n": made.integers(-5, 11, count).tolist(),
        "x": (made.random(count) * 12).tolist(),
    }


@pytest.mark.parametrize("unit", ["id", "name"])
def test_every_path_of_duckdb(unit: str, tmp_path: Path) -> None:
    catalog = Catalog((Table("t", COLUMNS, population="p", unit=unit, unit_rows=500),), (Population("p"),))
    pq.write_table(pa.table(rows(1)), tmp_path / "t.parquet")
    finals = list(asked(catalog, tuple(sql.format(unit) for sql in QUERIES)))
    assert len(finals) > 14

    def measured() -> list[object]:
        with DuckDBEngine(catalog, {"t": DataSource("parquet", str(tmp_path / "t.parquet"))}) as engine:
            found = [engine.measure(MeasurementTask(f, SECRET, bias=bias_table(f))) for _, f in finals]
            cells = [engine.measure(MeasurementTask(bias_query(f, t), SECRET)).raw[0].tolist()
                     for _, f in finals if (t := bias_table(f)) is not None]  # fmt: skip
        lost = [each.raw_bias.tolist() for each in found if each.raw_bias is not None]
        assert lost == cells, "the table of what is left out is that of its own query"
        return [plain(each) for each in found]

    with only(None):
        want = measured()
    for name in ("totals", "spreads", "bias", "columns"):
        with only(name):
            assert measured() == want, name


def test_no_person_counts_with_more_than_stated_and_groups_keep_their_part(tmp_path: Path) -> None:
    catalog = Catalog((Table("t", COLUMNS, population="p", unit="id", unit_rows=500),), (Population("p"),))
    own = {name: [cells[i] for i, id_ in enumerate(rows(2)["id"]) if id_ == 1] for name, cells in rows(2).items()}
    final = resolve("SELECT k, COUNT(*), SUM(n) FROM t GROUP BY k", catalog).final
    every = {f"secret {i}".encode(): np.zeros(5) for i in range(300)}
    with DuckDBEngine(catalog, {"t": DataSource("frame", None, pa.table(own))}) as engine:
        whole = engine.measure(MeasurementTask(bounded_in_all(final, 500, 500, 500), SECRET)).raw[0].astype(float)
        for secret in every:
            found = engine.measure(MeasurementTask(bounded_in_all(final, 33, 33, 33), secret))
            assert found.raw[0].sum() == 33
            assert np.abs(found.raw[1]).sum() <= 33 * 9
            assert np.abs(found.raw[0] - 33 * whole / whole.sum()).max() < 1, "each group keeps its part, rounded"
            every[secret] = found.raw[0]
    # Rounding favours no group: over secrets the mean is the part itself, to five standard errors of a rounding.
    mean = np.mean(list(every.values()), axis=0)
    assert np.abs(mean - 33 * whole / whole.sum()).max() < 5 * 0.5 / np.sqrt(len(every))
