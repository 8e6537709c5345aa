"""Opened state of all sources in one locked database.

A locked database can open no further file, and it holds on to what it has seen of a file. So when the files of any
source are not what they were (one changed, joined a pattern, or left it), all sources are opened anew for the next
question, in a database of its own. Questions that still run keep the one they began in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.engines.duckdb.connection import Limits, memory_limit, open_locked
from tacit.engines.duckdb.fast.statement_cache import CursorPool
from tacit.engines.duckdb.fast.table_cache import TableCache
from tacit.engines.duckdb.session import DuckDBSession
from tacit.engines.duckdb.sources import SourceLike
from tacit.engines.source_files import FileState, source_state
from tacit.query.catalog import Catalog

if TYPE_CHECKING:
    import duckdb

    from tacit.engines.duckdb.sources import DuckDBTable

__all__ = ["OpenedSources", "SourceStates"]

States = tuple[tuple[FileState | None, ...], ...]


class OpenedSources:
    """A locked database over one state of the sources; safe to use from several threads.

    Args:
        catalog: the tables.
        data: where each table's rows are.
        limits: of the database.
        states: of the files, as they were before they were opened.
    """

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits, states: States) -> None:
        self.states = states
        self.users = 0
        self.is_retired = False
        self._lock = threading.Lock()
        #: Held while the cursor that reports progress is in use.
        self.free = threading.Lock()
        self.connection: duckdb.DuckDBPyConnection
        self.tables: dict[str, DuckDBTable]
        self.connection, self.watched, self.tables = open_locked(catalog, data, limits)
        self.memory = memory_limit(self.connection)
        self.residents = TableCache(self.new_cursor, self.tables, self.memory)

    @contextmanager
    def cursor(self, cursors: CursorPool | None, *, watched: bool) -> Iterator[DuckDBSession]:
        """A cursor for one question; the one that can tell progress, if that is asked for and it is free."""
        if watched and self.free.acquire(blocking=False):
            try:
                yield DuckDBSession(self.watched)
            finally:
                self.free.release()
        elif cursors is not None:
            with cursors.one() as planned:
                yield DuckDBSession(planned.cursor, planned.ask)
        else:
            cursor = self.new_cursor()
            try:
                yield DuckDBSession(cursor)
            finally:
                cursor.close()

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor of the database."""
        # One after the other: a connection remembers the cursors that it made.
        with self._lock:
            return self.connection.cursor()

    def close(self) -> None:
        """Close the database."""
        # The user of the watched cursor has been interrupted.
        with self.free:
            self.watched.close()
        self.residents.close()
        self.connection.close()


class SourceStates:
    """The sources as they are now; safe to use from several threads.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: of each database.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits) -> None:
        self._make: Callable[[States], OpenedSources] = lambda states: OpenedSources(catalog, data, limits, states)
        self._data = tuple(data.values())
        self._lock = threading.Lock()
        self._closed = False
        self.latest = self._make(self._states())

    @contextmanager
    def reading(self) -> Iterator[OpenedSources]:
        """For one question; a failure of the database itself is the last thing that happens in it.

        Raises:
            RuntimeError: what the sources have become cannot be read. Its words are for the operator.
        """
        import duckdb

        with self._lock:
            opened = self._current()
            opened.users += 1
        try:
            yield opened
        except (duckdb.FatalException, duckdb.InternalException):
            # After these DuckDB answers nothing any more.
            with self._lock:
                opened.is_retired = True
            raise
        finally:
            with self._lock:
                opened.users -= 1
                last = opened.is_retired and not opened.users and opened is not self.latest
            if last:
                opened.close()

    def _current(self) -> OpenedSources:
        if self._closed:
            raise RuntimeError("the engine is closed")
        states = self._states()
        before = self.latest
        if states == before.states and not before.is_retired:
            return before
        try:
            self.latest = self._make(states)
        except InputError as problem:
            # Nothing of the old state is answered either: its files are gone or are not what they were.
            raise RuntimeError(f"a source has changed and cannot be read any more: {problem}") from None
        before.is_retired = True
        if not before.users:
            before.close()
        return self.latest

    def _states(self) -> States:
        return tuple(source_state(source.kind, source.path) for source in self._data)

    def close(self) -> None:
        """Close the latest; those before it are closed by their last question."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.latest.close()
