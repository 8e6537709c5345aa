"""Statistics that a file states about its values decide nothing.

Writers leave NaN out of the smallest and largest value they state, and a database that believes these drops the tests
that would have found it. A query that fails, or counts, by that tells whether a NaN is there.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines import clinic
from engines.makers import duckdb_engine
from support.engine_comparison import final_of, shown
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.engines.protocol import MeasurementTask

SECRET = b"statistics"


def mostly_plain(frame: pa.Table) -> pa.Table:
    """The same with doubles that are NaN or lie inside all bounds, and nothing else."""
    pick = random.Random(1)

    def column(name: str) -> pa.Array:
        found = frame[name]
        if not pa.types.is_floating(found.type):
            return found
        return pa.array([pick.choice((math.nan, 0.5, 0.25, 0.75)) for _ in found], type=found.type)

    return pa.table({name: column(name) for name in frame.schema.names})


@pytest.fixture(scope="module")
def frames() -> dict[str, pa.Table]:
    return {name: mostly_plain(frame) for name, frame in clinic.arrow(clinic.random_rows(5, 30, 200)).items()}


def sources(kind: str, frames: dict[str, pa.Table], folder: Path) -> dict[str, DataSource]:
    if kind == "parquet":
        for name, frame in frames.items():
            pq.write_table(frame, folder / f"{name}.parquet")
        return {name: DataSource(kind, str(folder / f"{name}.parquet")) for name in frames}
    with duckdb.connect(str(folder / "all.duckdb")) as database:
        for name, frame in frames.items():
            database.register("rows", frame)
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            database.unregister("rows")
    return {name: DataSource(kind, f"{folder / 'all.duckdb'}#{name}") for name in frames}


@pytest.mark.parametrize("kind", ["parquet", "duckdb"])
def test_a_few_nan_among_plain_doubles(
    kind: str, frames: dict[str, pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The files themselves are asked, every time.
    monkeypatch.setattr("tacit.engines.duckdb.database._MOST_BYTES", 0)
    files = sources(kind, frames, tmp_path)
    with duckdb_engine(clinic.CATALOG, frames) as plain, DuckDBEngine(clinic.CATALOG, files) as engine:
        for sql in clinic.QUERIES:
            work = MeasurementTask(final_of(sql, clinic.CATALOG), SECRET)
            assert shown(engine.measure(work)) == shown(plain.measure(work)), sql
