"""Exact integers of queries about files, as text that two processes can compare; needs no Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog
from tacit.query.planning.bias import bias_table
from tacit.query.resolve import resolve

__all__ = ["measure_files"]

_SECRET = b"an owner's secret"


def measure_files(catalog: Catalog, folder: Path, queries: Sequence[str]) -> dict[str, list[str]]:
    """Measurements of each query on Parquet files, on CSV files and on tables of a DuckDB file."""
    kinds = {
        "parquet": lambda name: DataSource("parquet", str(folder / f"{name}.parquet")),
        "csv": lambda name: DataSource("csv", str(folder / f"{name}.csv")),
        "duckdb": lambda name: DataSource("duckdb", f"{folder / 'all.duckdb'}#{name}"),
    }
    found = {}
    for kind, source in kinds.items():
        with DuckDBEngine(catalog, {table.name: source(table.name) for table in catalog.tables}) as engine:
            finals = [resolve(sql, catalog).final for sql in queries]
            found[kind] = [
                _shown(engine.measure(MeasurementTask(final, _SECRET, bias=bias_table(final)))) for final in finals
            ]
    return found


def _shown(found: Measurements) -> str:
    cells = [
        [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in array.tolist()] for array in found.raw
    ]
    lost = None if found.raw_bias is None else found.raw_bias.tolist()
    return repr((list(found.keys), found.raw_units.tolist(), cells, lost))
