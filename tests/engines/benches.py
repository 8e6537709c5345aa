"""Expressions on rows of canonical values, in every database: one class each, for tests of single functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import duckdb
import psycopg

from engines.edges import storage_table, stored
from support.postgres import address
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.postgres.engine import SETTINGS
from tacit.engines.sql.dialect import Dialect
from tacit.query.types import SqlType, Value

__all__ = ["BENCHES", "Bench", "open_bench"]

Rows = Sequence[Sequence[Value | None]]


class Bench(Protocol):
    """A database with a table of rows whose columns are c0, c1, … in storage types."""

    dialect: Dialect

    def answers(self, expressions: Sequence[str], kinds: Sequence[SqlType], rows: Rows) -> list[tuple[Any, ...]]:
        """The expressions for every row, in order."""

    def close(self) -> None:
        """Give everything back."""


class DuckDBBench:
    dialect: Dialect = DUCKDB

    def __init__(self) -> None:
        self._connection = duckdb.connect()

    def answers(self, expressions: Sequence[str], kinds: Sequence[SqlType], rows: Rows) -> list[tuple[Any, ...]]:
        self._connection.register("edges", storage_table(kinds, rows))
        listed = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(expressions))
        return self._connection.sql(f"SELECT {listed} FROM edges").fetchall()

    def close(self) -> None:
        self._connection.close()


class PostgresBench:
    dialect: Dialect = POSTGRES

    def __init__(self) -> None:
        self._connection = psycopg.connect(address(), autocommit=True)
        self._tables: dict[str, str] = {}
        for name, value in SETTINGS.items():
            self._connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def answers(self, expressions: Sequence[str], kinds: Sequence[SqlType], rows: Rows) -> list[tuple[Any, ...]]:
        listed = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(expressions))
        table = self._table(kinds, rows)
        return self._connection.execute(f"SELECT {listed} FROM {table} AS edges ORDER BY i".encode()).fetchall()

    def _table(self, kinds: Sequence[SqlType], rows: Rows) -> str:
        key = repr((kinds, rows))
        if key not in self._tables:
            name = self._tables[key] = f"public.edges_{len(self._tables)}"
            columns = [f"c{i} {POSTGRES.storage(kind)}{_collation(kind)}" for i, kind in enumerate(kinds)]
            self._connection.execute(f"CREATE TABLE {name} ({', '.join(['i bigint', *columns])})".encode())
            with self._connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for number, row in enumerate(rows):
                    copy.write_row((number, *(stored(cell, kind) for cell, kind in zip(row, kinds, strict=True))))
        return self._tables[key]

    def close(self) -> None:
        self._connection.close()


def _collation(kind: SqlType) -> str:
    return ' COLLATE "C"' if POSTGRES.storage(kind) == "TEXT" else ""


#: By name; an engine that joins adds its class here.
BENCHES: dict[str, type[Bench]] = {"duckdb": DuckDBBench, "postgres": PostgresBench}


@contextmanager
def open_bench(name: str) -> Iterator[Bench]:
    made = BENCHES[name]()
    try:
        yield made
    finally:
        made.close()
