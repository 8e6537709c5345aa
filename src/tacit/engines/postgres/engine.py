"""The PostgreSQL engine: bounding and adding up happen in the database, and only exact integers come back.

Any failure (a connection cut, a statement timed out, a right missing, a mistake of ours) becomes an EngineError that
carries an id; PostgreSQL's own words can quote data and go to the logger ``tacit.operator`` alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.closing import Closing
from tacit.core.errors import InputError
from tacit.engines.error_hiding import opaquely
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.postgres.session import PostgresSession, Server, ServerAddress, place_of
from tacit.engines.postgres.statements import statements
from tacit.engines.postgres.table_identity import marks_of, server_identity
from tacit.engines.postgres.tables import Described, describe, open_table, shapes, type_of
from tacit.engines.postgres.unit_columns import check_identities
from tacit.engines.protocol import Marks, Measurements, MeasurementTask
from tacit.engines.sql.public_rows import check_public, public_rows, rows_sql
from tacit.engines.sql.read_measurements import read_measurements
from tacit.engines.sql.relations import check_windows, scanned
from tacit.engines.sql.training_rows import examples_sql
from tacit.engines.sql.unit_totals import check_width
from tacit.query.catalog import Catalog
from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import SqlType, Value

__all__ = ["PostgresEngine", "PostgresLimits", "first_look", "read_names", "read_types"]

Result = TypeVar("Result")
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


@dataclass(frozen=True)
class PostgresLimits:
    """What one question may use of the server.

    Args:
        memory: for one sort or hash table, such as ``"256MB"``; more is spilled by the server.
        threads: helpers of one statement beside its own process; None for the server's limit.
        seconds: how long one question may take; None for no limit.
    """

    memory: str | None = None
    threads: int | None = None
    seconds: float | None = None


class PostgresEngine(Closing):
    """Measures tables and views of a PostgreSQL database.

    Args:
        catalog: the tables.
        names: what each table of the catalog is called in the database, ``table`` or ``schema.table``.
        place: of the server: an address, or what :func:`place_of` made of one.
        limits: memory, helpers and seconds.

    Raises:
        InputError: the server cannot be reached or is not fit, or a table lacks a column or cannot be read as declared.
    """

    def __init__(
        self,
        catalog: Catalog,
        names: Mapping[str, str],
        place: str | ServerAddress,
        limits: PostgresLimits | None = None,
    ) -> None:
        self._limits = limits or PostgresLimits()
        self._place = place_of(place) if isinstance(place, str) else place
        memory = (self._limits.memory or "256MB").replace(" ", "").replace("iB", "B").replace("KB", "kB")
        self._server = Server(self._place, memory=memory, workers=self._limits.threads)
        self._pid = os.getpid()
        self._public = frozenset(table.name.lower() for table in catalog.tables if table.public)
        by_name = {name.lower(): text for name, text in names.items()}
        try:
            self._described: dict[str, Described] = self._prepared(catalog, by_name)
            self._tables = {
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
        """What the tables are; the first look at the server."""
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

    def check(self, final: FinalAggregation) -> None:
        """Refuse what cannot be computed exactly; reads no data. Whatever cannot be written is refused here as well."""
        for measure in final.measures:
            check_width(measure)
        check_windows(POSTGRES, final.source)
        for statement in statements(final, self._tables, b""):
            _ = statement.sql

    def explain(self, final: FinalAggregation) -> tuple[str, ...]:
        """The statements for a final aggregation, for people, without the secret."""
        return tuple(statement.sql for statement in statements(final, self._tables, b"secret"))

    def measure(self, work: MeasurementTask) -> Measurements:
        """Run the statements, all on one snapshot; how far they are is not known, so progress is told once, as 0."""
        self.check(work.final)
        return self._opaquely(work.final.source, lambda: self._measure(work))

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """All rows of a public relation, sorted; refused where there are more than ``most``."""
        check_public(relation, self._public)
        check_windows(POSTGRES, relation)
        sql = rows_sql(POSTGRES, relation, most, self._tables)
        return public_rows(self._opaquely(relation, lambda: self._run(relation, sql)), relation, most)

    def examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, key_secret: bytes
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        """One row of each unit, for a model that is trained in this process: ``numbers`` and ``label`` are slots."""
        check_windows(POSTGRES, relation)
        sql = examples_sql(POSTGRES, relation, numbers, label, key_secret, self._tables)
        found = self._opaquely(relation, lambda: self._run(relation, sql))
        raw = np.full((len(found), len(numbers)), np.nan)
        for place, row in enumerate(found):
            raw[place] = [np.nan if cell is None else cell for cell in row[: len(numbers)]]
        if label is None:
            return raw, None
        labels = np.empty(len(found), dtype=object)
        labels[:] = [row[len(numbers)] for row in found]
        return raw, labels

    def marks(self, table: str) -> Marks:
        """By what a table is recognised, whatever it is called; see :mod:`identity`."""
        return marks_of(self._identity, self._described[table.lower()])

    @property
    def limits(self) -> PostgresLimits:
        """What one question may use."""
        return self._limits

    def interrupt(self) -> None:
        """Cancel all running statements."""
        self._server.interrupt()

    def close(self) -> None:
        """Cancel what runs and close all connections; may be called twice."""
        self.interrupt()
        self._server.close()

    def _measure(self, work: MeasurementTask) -> Measurements:
        planned = statements(work.final, self._tables, work.key_secret)
        seconds = self._limits.seconds if work.timeout is None else work.timeout
        if work.progress is not None:
            work.progress(0.0)
        with self._server.session(seconds) as session:
            self._same(session, work.final.source)
            answered = [(statement, session.rows(statement.sql)) for statement in planned]
        return read_measurements(work.final, answered)

    def _run(self, relation: RelationNode, sql: str) -> list[tuple[Any, ...]]:
        with self._server.session(self._limits.seconds) as session:
            self._same(session, relation)
            return session.rows(sql)

    def _same(self, session: PostgresSession, relation: RelationNode) -> None:
        """Stop where a table was replaced or a view reads others than it did: whose budget it is was settled before."""
        scans = sorted(self._tables[name].scan for name in scanned(relation))
        now = shapes(session, scans)
        changed = [scan for scan in scans if now.get(scan) != self._shapes[scan]]
        if changed:
            raise RuntimeError(f"{', '.join(changed)} is not what it was; open the project again")

    def _opaquely(self, relation: RelationNode, run: Callable[[], Result]) -> Result:
        def checked() -> Result:
            if os.getpid() != self._pid:
                raise RuntimeError("connections cannot be used after a fork; open the project in the new process")
            return run()

        return opaquely(checked, lambda: "; ".join(self._tables[table].scan for table in sorted(scanned(relation))))


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
    raise InputError("engine", f"cannot use the database at {server.place.words} ({state})")


def _check_server(rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    ((version, encoding),) = rows(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
    )
    if version < _OLDEST:
        raise InputError("engine", f"needs PostgreSQL 13 or later; this server is {version // 10000}")
    if encoding != "UTF8":
        # Lengths, orders and digests of texts would be those of other bytes.
        raise InputError("engine", f"needs a database whose encoding is UTF8; this one has {encoding}")
