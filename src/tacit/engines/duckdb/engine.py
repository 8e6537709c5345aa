"""The DuckDB engine: one locked database, one cursor per question, exact integers back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tacit.engines.duckdb.database import DuckDBSession, SourceStates, TimeoutWatcher
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.array_spreads import SpreadPlan
from tacit.engines.duckdb.fast.fetched_rows import MOST_ROWS, ROW_BYTES
from tacit.engines.duckdb.sources import DuckDBTable
from tacit.engines.duckdb.statements import DuckDBStatement, DuckDBWriter
from tacit.engines.protocol import Limits, MeasurementTask, SourceLike
from tacit.engines.sql.engine import Answered, SqlEngine
from tacit.engines.sql.relations import StoredTable, has_row_units, scanned
from tacit.engines.sql.statements import Statement
from tacit.query.catalog import Catalog
from tacit.query.planning.left_out import LossTable
from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import RelationNode

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDBEngine"]


class DuckDBEngine(SqlEngine):
    """Measures files and frames with DuckDB.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: memory, threads, seconds, and whether to spill to disk.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    dialect = DUCKDB
    writer = DuckDBWriter

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits | None = None) -> None:
        super().__init__(catalog, limits)
        self._sources = SourceStates(catalog, data, self._limits)
        # Rows that are bounded outside the database keep to its limit as well.
        self._most_rows = min(MOST_ROWS, self._sources.latest.memory // ROW_BYTES)
        self._threads = self._limits.threads or os.cpu_count() or 1
        self._watch = TimeoutWatcher()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        return self._sources.latest.connection

    @property
    def _tables(self) -> dict[str, DuckDBTable]:
        return self._sources.latest.tables

    def is_view(self, table: str) -> bool:
        """Whether a table of the catalog is a view of a DuckDB file, and so may have rows of any table in it."""
        return self._tables[table.lower()].row is None

    def close(self) -> None:
        """Interrupt what runs and close the database; may be called twice."""
        self.interrupt()
        self._sources.close()

    def _written(self, final: FinalAggregation, left_out: LossTable | None = None) -> tuple[Statement, ...]:
        # Rows of a view have no number; a statement that needs one cannot be written. Every other statement can, and is
        # written when it is known whether it reads files or their copies.
        if has_row_units(final.source) and any(self._tables[name].row is None for name in scanned(final.source)):
            super()._written(final, left_out)
        return ()

    def _named_tables(self) -> Mapping[str, StoredTable]:
        # Without sizes, by which the engine chooses between forms of a statement: they tell how much data there is.
        return {name: replace(stored, size=0, rows=None) for name, stored in super()._named_tables().items()}

    def _shown(self, statement: DuckDBStatement) -> str:
        rows = statement.rows
        if rows is None:
            return statement.sql
        kept = f"keeps its first {rows.kept_groups} groups" if rows.kept_groups is not None else "is bounded"
        then = "its values are counted" if isinstance(rows, SpreadPlan) else "its shares are added up"
        shown = f"{rows.sql}\n-- Of these rows each unit {kept}, in memory or by SQL; then {then}."
        lost = "\n-- The same rows tell what was left out of each unit, and so its cell in the table of that."
        return shown + lost if statement.tells_left_out else shown

    def _answer(self, session: DuckDBSession, statement: DuckDBStatement) -> Answered:
        """The rows of a statement, by its faster form if that can."""
        if statement.rows is not None:
            found = statement.rows.measure(session, self._most_rows, self._threads)
            if found is not None:
                return Answered(statement, found.totals, found.cells)
        return super()._answer(session, statement)

    def check_left_out(self, final: FinalAggregation, table: LossTable) -> None:
        """Nothing is refused: no row is a unit, the windows of the question were checked, and counts are narrow."""

    @contextmanager
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> Iterator[tuple[DuckDBSession, Mapping[str, StoredTable]]]:
        names = scanned(relation)
        progress = None if work is None else work.progress
        with (
            self._sources.reading() as opened,
            # Copies are for measuring alone; other readers are few.
            opened.residents.reading(names if work is not None else ()) as tables,
            opened.session(watched=progress is not None) as session,
            self._running.entered(session),
            self._watch.over(session, self._seconds(work), progress),
        ):
            for name in names:
                frame = tables[name].frame
                if frame is not None:
                    session.cursor.register(*frame)
            yield session, tables
