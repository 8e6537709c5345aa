"""Files in which persons stand under ids of many types, and how many of them an engine counts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tacit.engines.protocol import Engine, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER, SqlType

BIG = 2**53


def people(kind: SqlType, *names: str) -> Catalog:
    columns = (Column("id", kind), Column("x", INTEGER, bounds=(0, 9)))
    return Catalog(
        tuple(Table(name, columns, population="p", unit="id") for name in names or ("t",)), (Population("p"),)
    )


def rows(unit: str = "row") -> Catalog:
    columns = (Column("id", INTEGER), Column("x", INTEGER, bounds=(0, 9)))
    return Catalog((Table("t", columns, population="p", unit=unit),), (Population("p"),))


def write(place: Path, ids: pa.Array) -> None:
    pq.write_table(pa.table({"id": ids, "x": pa.array([1] * len(ids), pa.int64())}), place)


def counted(engine: Engine, sql: str, catalog: Catalog) -> list[list[int]]:
    found = engine.measure(MeasurementTask(resolve(sql, catalog).final, b"k"))
    return [found.raw_units.tolist(), *(array.tolist() for array in found.raw)]
