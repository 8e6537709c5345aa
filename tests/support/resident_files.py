"""A file of visits that DuckDB keeps in memory when it is asked again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import DOUBLE, INTEGER, TEXT

COLUMNS = (Column("id", INTEGER), Column("k", TEXT, categories=("a", "b")), Column("x", DOUBLE, bounds=(0.0, 9.0)))


CATALOG = Catalog((Table("t", COLUMNS, population="p", unit="id"),), (Population("p"),))


def write(path: Path, people: int, keys: tuple[str, str] = ("a", "b")) -> Path:
    table = pa.table(
        {"id": list(range(people)), "k": [*keys] * (people // 2), "x": [1.0, float("nan")] * (people // 2)}
    )
    (pq.write_table if path.suffix == ".parquet" else pc.write_csv)(table, path)
    return path


def engine_on(path: Path, catalog: Catalog = CATALOG) -> DuckDBEngine:
    return DuckDBEngine(catalog, {"t": DataSource(path.suffix[1:], str(path))})
