"""The PostgreSQL engine: bounding and adding up happen in the database, and only exact integers come back.

Units are bounded by one sort. Sorted by unit and by the place of their group in the unit's order, rows are collected,
numbered and cut off as they pass, without another sort or a hash table of all pairs (unit, group). Where the place
costs a digest, it is computed for pairs instead: rows are sorted by unit and group, and then a unit's few pairs among
themselves.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.core.errors import InputError
from tacit.engines.plain_frames import PlainFrame
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.postgres.session import PostgresSession, Server, ServerAddress, place_of
from tacit.engines.postgres.tables import (
    Described,
    check_identities,
    describe,
    marks_of,
    open_table,
    server_identity,
    shapes,
    type_of,
)
from tacit.engines.protocol import Limits, Marks, MeasurementTask
from tacit.engines.sql.bias_cells import CellWriter
from tacit.engines.sql.engine import SqlEngine
from tacit.engines.sql.relations import StoredTable, tables_of
from tacit.engines.sql.unit_totals import Partials
from tacit.query.catalog import Catalog, Column, Table
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import Kind, SqlType


@dataclass(frozen=True)
class PostgresWriter(CellWriter):
    """Writes statements that bound units by one sort."""

    def _pairs(self, partials: Partials, read: frozenset[int]) -> str:
        """One row per unit and group that counts; sorted where a unit may have more groups than it keeps."""
        if not self.groups.is_public or not self.must_choose:
            return super()._pairs(partials, read)
        columns = "".join(f", {name}" for name in partials.rows)
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        listed = "" if self.has_others else " WHERE g IS NOT NULL"
        rows, by = f"SELECT * FROM {self.d.fenced(self.all_rows(partials.rows, read))}{listed}", "u, g"
        if self.places_rows:
            inner = f"SELECT *, {self.chooser.parameters(self.d, 'u')} AS h FROM {self.d.derived(rows)}"
            place = self.chooser.place("h", "g", self.groups.count)
            rows = f"SELECT u, CAST({place} AS SMALLINT) AS p, g{columns} FROM {self.d.fenced(inner)}"
            by = "u, p, g"
        return f"SELECT {by}{collected} FROM {self.d.fenced(f'{rows} ORDER BY {by}')} GROUP BY {by}"

    @property
    def places_rows(self) -> bool:
        """Whether the place of a group in the order of its unit is computed for each row."""
        return self.groups.is_public and self.must_choose and self.chooser.whole

    @property
    def pair_columns(self) -> tuple[str, ...]:
        """The unit, the place of the group if it was computed, and the group."""
        return ("u", *(("p",) if self.places_rows else ()), *self.groups.columns)

    def pair_order(self) -> str:
        """By the place that was computed for each row, if it was."""
        return "p" if self.places_rows else super().pair_order()


_OPERATOR = logging.getLogger("tacit.operator")
_OLDEST = 130000
_NAMES = """
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1
"""
#: Seconds for a look at names and types.
_LOOK = 60.0


class PostgresEngine(SqlEngine):
    """Measures tables and views of a PostgreSQL database.

    The progress of a statement is not known, so it is told once, as 0.

    Args:
        catalog: the tables.
        names: what each table of the catalog is called in the database, ``table`` or ``schema.table``.
        place: of the server: an address, or what :func:`place_of` made of one.
        limits: ``memory`` for one sort or hash table (more is spilled by the server), ``threads`` as helpers of one
            statement beside its own process, and seconds.

    Raises:
        InputError: the server cannot be reached or is not fit, or a table lacks a column or cannot be read as declared.
    """

    dialect = POSTGRES
    operation_seconds = 1e-7
    writer = PostgresWriter

    def __init__(
        self, catalog: Catalog, names: Mapping[str, str], place: str | ServerAddress, limits: Limits | None = None
    ) -> None:
        super().__init__(catalog, limits)
        if self._limits.spill is not None:
            raise InputError("limits.spill", "is for DuckDB: a PostgreSQL server has its own place for that")
        self._place = place_of(place) if isinstance(place, str) else place
        memory = (self._limits.memory or "256MB").replace(" ", "").replace("iB", "B").replace("KB", "kB")
        self._server = Server(self._place, memory=memory, workers=self._limits.threads)
        self._running = self._server.running
        self._pid = os.getpid()
        by_name = {name.lower(): text for name, text in names.items()}
        try:
            self._described: dict[str, Described] = self._prepared(catalog, by_name)
            self._stored = {
                table.name.lower(): open_table(self._described[table.name.lower()], table, index)
                for index, table in enumerate(catalog.tables)
            }
            check_identities(catalog, self._described)
        except BaseException:
            self._server.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresEngine({self._place.words!r})"

    def _prepared(self, catalog: Catalog, names: Mapping[str, str]) -> dict[str, Described]:
        """The tables as the server describes them; the first look at it."""
        with first_look(self._server) as session:
            self._identity = server_identity(session)
            found = {}
            for table in catalog.tables:
                where = f"tables.{table.name}.source"
                if table.name.lower() not in names:
                    raise InputError(where, "is missing: every table of the catalog needs a source")
                found[table.name.lower()] = describe(session, names[table.name.lower()], where)
            self._shapes = shapes(session, [described.scan for described in found.values()])
            return found

    @property
    def _tables(self) -> Mapping[str, StoredTable]:
        return self._stored

    def _named_tables(self) -> Mapping[str, StoredTable]:
        # Their names in the database say where rows come from, and hold no secret.
        return self._stored

    @contextmanager
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> Iterator[tuple[PostgresSession, Mapping[str, StoredTable]]]:
        if os.getpid() != self._pid:
            raise RuntimeError("connections cannot be used after a fork; open the project in the new process")
        if work is not None and work.progress is not None:
            work.progress(0.0)
        with self._server.session(self._seconds(work)) as session:
            self._same(session, relation)
            yield session, self._stored

    def _same(self, session: PostgresSession, relation: RelationNode) -> None:
        """Stop where a table was replaced or a view reads others than it did: whose budget it is was settled before."""
        scans = sorted(self._stored[name].scan for name in tables_of(relation))
        now = shapes(session, scans)
        changed = [scan for scan in scans if now.get(scan) != self._shapes[scan]]
        if changed:
            raise RuntimeError(f"{', '.join(changed)} is not what it was; open the project again")

    def marks(self, table: str) -> Marks:
        """Identity of a table, independent of its name in a project."""
        return marks_of(self._identity, self._described[table.lower()])

    def close(self) -> None:
        """Cancel what runs and close all connections; may be called twice."""
        self.interrupt()
        self._server.close()


def read_types(address: str, names: Mapping[str, str]) -> dict[str, dict[str, SqlType | None]]:
    """The columns of tables and their types, None for types Tacit does not read."""
    server = Server(place_of(address))
    try:
        with first_look(server) as session:
            found = {name: describe(session, text, f"tables.{name}.source") for name, text in names.items()}
    finally:
        server.close()
    return {
        name: {column: type_of(*stored) for column, stored in described.columns.items()}
        for name, described in found.items()
    }


def read_names(address: str) -> list[str]:
    """The tables and views that the role may read, as ``schema.table``; not those of the server itself."""
    server = Server(place_of(address))
    try:
        with first_look(server) as session:
            return [str(name) for (name,) in session.rows(_NAMES)]
    finally:
        server.close()


def read_first_values(address: str, text: str, column: Column, most: int) -> PlainFrame:
    """The values of a column in at most so many rows of a table, whichever come first; for its owner's eyes alone."""
    server, key = Server(place_of(address)), column.name.lower()
    try:
        with first_look(server) as session:
            stored = open_table(describe(session, text, "source"), Table("t", (column,), public=True), 0)
            rows = session.rows(f"SELECT {stored.columns[key]} FROM {stored.scan} LIMIT {int(most)}")
    finally:
        server.close()
    if column.type.kind is Kind.DECIMAL:
        rows = [(None if value is None else Fraction(int(value), 10**column.type.scale),) for (value,) in rows]
    return PlainFrame.of({column.stored_name: column.type}, rows)


@contextmanager
def first_look(server: Server) -> Iterator[PostgresSession]:
    """A session in which names and types may be read; what is wrong with the server is told without its words.

    Raises:
        InputError: it cannot be reached, or is not fit.
    """
    import psycopg
    from psycopg_pool import PoolTimeout

    try:
        server.reach()
        with server.session(_LOOK) as session:
            _check_server(session.rows)
            yield session
        return
    except (psycopg.Error, PoolTimeout, OSError) as problem:
        state = getattr(problem, "sqlstate", None) or type(problem).__name__
        _OPERATOR.error("cannot use the database %s: %s", server.place.words, problem)
    # Its own words are in the operator's log; psql shows them to the owner.
    why = "psql with the same address says why"
    raise InputError("engine", f"cannot use the database at {server.place.words} ({state}); {why}")


def _check_server(rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    ((version, encoding),) = rows(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
    )
    if version < _OLDEST:
        raise InputError("engine", f"needs PostgreSQL 13 or later; this server is {version // 10000}")
    if encoding != "UTF8":
        # Lengths, orders and digests of texts would be those of other bytes.
        raise InputError("engine", f"needs a database whose encoding is UTF8; this one has {encoding}")
