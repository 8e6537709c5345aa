"""The DuckDB engine: one locked database, one cursor per question, exact integers back.

Any failure (memory, time, a damaged file, a mistake of ours) becomes an EngineError that carries an id; DuckDB's own
words can quote data and go to the logger ``tacit.operator`` alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.closing import Closing
from tacit.engines.active_sessions import ActiveSessions
from tacit.engines.duckdb.connection import Limits
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.rows import MOST_ROWS, ROW_BYTES, folded_rows
from tacit.engines.duckdb.fast.statement_cache import CursorPool
from tacit.engines.duckdb.fast.table_cache import TableCache
from tacit.engines.duckdb.opened_sources import OpenedSources, SourceStates
from tacit.engines.duckdb.session import DuckDBSession
from tacit.engines.duckdb.sources import DuckDBTable, SourceLike
from tacit.engines.duckdb.statements import DuckDBStatement, statements
from tacit.engines.duckdb.timeouts import TimeoutWatcher
from tacit.engines.duckdb.training_rows import read_examples
from tacit.engines.error_hiding import opaquely
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.engines.sql.public_rows import check_public, public_rows, rows_sql
from tacit.engines.sql.read_measurements import read_measurements
from tacit.engines.sql.relations import check_windows, has_row_units, scanned
from tacit.engines.sql.training_rows import examples_sql
from tacit.engines.sql.unit_totals import check_width
from tacit.query.catalog import Catalog
from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import Value

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDBEngine"]

Result = TypeVar("Result")
_OPERATOR = logging.getLogger("tacit.operator")


class DuckDBEngine(Closing):
    """Measures files and frames with DuckDB.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: memory, threads, seconds, and whether to spill to disk.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._sources = SourceStates(catalog, data, self._limits)
        self._public = frozenset(table.name.lower() for table in catalog.tables if table.public)
        # Rows that are bounded outside the database keep to its limit as well.
        self._most_rows = min(MOST_ROWS, self._sources.latest.memory // ROW_BYTES)
        self._threads = self._limits.threads or os.cpu_count() or 1
        self._watch = TimeoutWatcher()
        self._running = ActiveSessions()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._sources.latest.connection

    @property
    def _tables(self) -> dict[str, DuckDBTable]:
        return self._sources.latest.tables

    @property
    def _residents(self) -> TableCache:
        return self._sources.latest.residents

    def check(self, final: FinalAggregation) -> None:
        """Refuse what cannot be computed exactly; reads no data."""
        for measure in final.measures:
            check_width(measure)
        check_windows(DUCKDB, final.source)
        if has_row_units(final.source) and any(self._tables[name].row is None for name in scanned(final.source)):
            # Rows of a view have no number; a statement that needs one cannot be written, and is refused.
            for statement in statements(final, self._tables, b""):
                _ = statement.sql

    def explain(self, final: FinalAggregation) -> tuple[str, ...]:
        """The statements for a final aggregation, for people: tables by name instead of by path, and no secret."""
        # Without sizes, by which the engine chooses between forms of a statement: they tell how much data there is.
        named = {
            name: replace(stored, scan=DUCKDB.quoted(name), size=0, rows=None) for name, stored in self._tables.items()
        }
        return tuple(_shown(statement) for statement in statements(final, named, b"secret"))

    def measure(self, work: MeasurementTask) -> Measurements:
        """Run the statements; progress is told about four times a second."""
        self.check(work.final)
        return self._opaquely(work.final.source, lambda: self._measure(work))

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """All rows of a public relation, sorted; refused where there are more than ``most``."""
        check_public(relation, self._public)
        check_windows(DUCKDB, relation)
        return self._opaquely(relation, lambda: self._rows(relation, most))

    def examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, key_secret: bytes
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        """One row of each unit, for a model that is trained in this process: ``numbers`` and ``label`` are slots."""
        check_windows(DUCKDB, relation)
        return self._opaquely(relation, lambda: self._examples(relation, numbers, label, key_secret))

    def _opaquely(self, relation: RelationNode, run: Callable[[], Result]) -> Result:
        return opaquely(run, lambda: "; ".join(self._tables[table].scan for table in sorted(scanned(relation))))

    def is_view(self, table: str) -> bool:
        """Whether a table of the catalog is a view of a DuckDB file, and so may have rows of any table in it."""
        return self._tables[table.lower()].row is None

    @property
    def limits(self) -> Limits:
        """What one question may use."""
        return self._limits

    def interrupt(self) -> None:
        """Stop all running statements."""
        self._running.interrupt()

    def close(self) -> None:
        """Interrupt what runs and close the database; may be called twice."""
        self.interrupt()
        self._sources.close()

    def _measure(self, work: MeasurementTask) -> Measurements:
        seconds = self._limits.seconds if work.timeout is None else work.timeout
        with (
            self._sources.reading() as opened,
            opened.residents.reading(scanned(work.final.source)) as reading,
            self._session(opened, seconds, work.progress, reading.cursors) as session,
        ):
            planned = statements(work.final, reading.tables, work.key_secret)
            _register(session.cursor, work.final.source, opened.tables)
            answered = [(statement, self._answer(session, statement)) for statement in planned]
        return read_measurements(work.final, answered)

    def _rows(self, relation: RelationNode, most: int) -> tuple[tuple[Value | None, ...], ...]:
        with self._sources.reading() as opened, self._session(opened, self._limits.seconds, None) as session:
            _register(session.cursor, relation, opened.tables)
            found = session.cursor.execute(rows_sql(DUCKDB, relation, most, opened.tables)).fetchall()
        return public_rows(found, relation, most)

    def _examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, secret: bytes
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        with self._sources.reading() as opened, self._session(opened, self._limits.seconds, None) as session:
            _register(session.cursor, relation, opened.tables)
            sql = examples_sql(DUCKDB, relation, numbers, label, secret, opened.tables)
            return read_examples(session.cursor, sql, len(numbers), labelled=label is not None)

    def _answer(self, session: DuckDBSession, statement: DuckDBStatement) -> list[Any]:
        """The rows of a statement, by its faster form if that can."""
        if statement.rows is not None:
            rows = folded_rows(session, statement.rows, self._most_rows, self._threads)
            if rows is not None:
                return rows
        return session.cursor.execute(statement.sql).fetchall()

    @contextmanager
    def _session(
        self,
        opened: OpenedSources,
        seconds: float | None,
        progress: Callable[[float], None] | None,
        cursors: CursorPool | None = None,
    ) -> Iterator[DuckDBSession]:
        with opened.cursor(cursors, watched=progress is not None) as session:
            try:
                with self._running.entered(session), self._watch.over(session, seconds, progress):
                    yield session
            finally:
                session.end()


def _register(cursor: duckdb.DuckDBPyConnection, relation: RelationNode, tables: Mapping[str, DuckDBTable]) -> None:
    """Show the frames that a relation reads to a cursor."""
    for name in scanned(relation):
        frame = tables[name].frame
        if frame is not None:
            cursor.register(*frame)


def _shown(statement: DuckDBStatement) -> str:
    if statement.rows is None:
        return statement.sql
    kept = (
        f"keeps its first {statement.rows.most} groups" if statement.rows.groups > statement.rows.most else "is bounded"
    )
    return (
        f"{statement.rows.sql}\n-- Of these rows each unit {kept}, in memory or by SQL; then its shares are added up."
    )
