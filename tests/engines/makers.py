"""Every engine on the same Arrow tables: one maker each, for tests that compare engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import psycopg
import pyarrow as pa

from support.postgres import address
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.postgres import PostgresEngine
from tacit.engines.protocol import Engine
from tacit.query.catalog import Catalog

__all__ = ["MAKERS", "OTHERS", "load", "postgres_engine"]

Frames = Mapping[str, pa.Table]
Maker = Callable[[Catalog, Frames], AbstractContextManager[Engine]]
_numbers = itertools.count(1)


@contextmanager
def duckdb_engine(catalog: Catalog, frames: Frames) -> Iterator[Engine]:
    with DuckDBEngine(
        catalog, {name: DataSource("frame", None, frame) for name, frame in frames.items()}, Limits(threads=2)
    ) as engine:
        yield engine


@cache
def database() -> str:
    """A database in which every set of tables has a schema of its own."""
    return address()


def load(frames: Frames, place: str | None = None, *, text: str = "text") -> dict[str, str]:
    """Put Arrow tables into a new schema; their names there. ``text`` is the type of texts."""
    schema = f"data_{next(_numbers)}"
    with psycopg.connect(place or database(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        for name, frame in frames.items():
            columns = ", ".join(f'"{field.name}" {_type(field.type, text)}' for field in frame.schema)
            # Without statistics that the server gathers by itself after a minute: plans would depend on the time.
            made = f"CREATE TABLE {schema}.{name} ({columns}) WITH (autovacuum_enabled = false)"
            connection.execute(made.encode())
            with connection.cursor() as cursor, cursor.copy(f"COPY {schema}.{name} FROM STDIN".encode()) as copy:
                for row in zip(*(column.to_pylist() for column in frame.columns), strict=True):
                    copy.write_row(row)
    return {name: f"{schema}.{name}" for name in frames}


@contextmanager
def postgres_engine(catalog: Catalog, frames: Frames) -> Iterator[Engine]:
    with PostgresEngine(catalog, load(frames), database(), Limits()) as engine:
        yield engine


def _type(kind: pa.DataType, text: str) -> str:
    if pa.types.is_list(kind):
        return f"{_type(kind.value_type, text)}[]"
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    return {
        pa.bool_(): "boolean",
        pa.int64(): "bigint",
        pa.float64(): "double precision",
        pa.string(): text,
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp",
    }[kind]


#: By name; an engine that joins adds its maker here. Everything is compared with DuckDB and with the slow engine.
MAKERS: dict[str, Maker] = {"duckdb": duckdb_engine, "postgres": postgres_engine}
OTHERS = [name for name in MAKERS if name != "duckdb"]
