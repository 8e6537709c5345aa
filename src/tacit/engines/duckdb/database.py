"""Locked DuckDB database over one state of the declared sources, its sessions and their timeouts.

After opening: no file, network or Python object is reachable except the declared files, no extension can be installed
or loaded, the configuration is locked, and memory and threads are limited. The analyst's text never reaches the
database; the lock limits the damage if a bug in this package lets some of it through. One gap remains: statements run
here could write to declared files, so the process should have no permission to.

A locked database can open no further file, and it caches what it has read of a file. So if the files of any source
change (one is modified, added to a pattern, or removed), all sources are opened again for the next query, in a new
database. Running queries keep the database they started in.

Small files and frames are copied into memory when they are read a second time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import has_arrow
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.sources import DuckDBTable, check_identities, check_row_numbers, open_source
from tacit.engines.files import FileState, source_state
from tacit.engines.frames import arrow_arrays, block_arrays
from tacit.engines.protocol import Limits, SourceLike
from tacit.query.catalog import Catalog

if TYPE_CHECKING:
    import duckdb

#: Joins must run in the order of the plan, whose intermediate rows are bounded, and read all that it names: the first
#: four optimizers decide by the contents of tables and row groups. The last moves a filter below a join above the join,
#: together with the condition of an inner join, which only the fourth would move back: a cross product would remain.
_OPTIMIZERS_OFF: Final = (
    "join_order",
    "join_filter_pushdown",
    "statistics_propagation",
    "filter_pushdown",
    "filter_pullup",
)
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def open_locked(
    catalog: Catalog, sources: Mapping[str, SourceLike], limits: Limits
) -> tuple[duckdb.DuckDBPyConnection, dict[str, DuckDBTable]]:
    """Return a locked connection, and every table as it is read there."""
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        _set(connection, "autoinstall_known_extensions", "false")
        _set(connection, "autoload_known_extensions", "false")
        _set(connection, "python_enable_replacements", "false")
        tables: dict[str, DuckDBTable] = {}
        files: set[str] = set()
        by_name = {name.lower(): source for name, source in sources.items()}
        for index, table in enumerate(catalog.tables):
            if table.name.lower() not in by_name:
                raise InputError(f"sources.{table.name}", "is missing: every table of the catalog needs a source")
            check_row_numbers(connection, by_name[table.name.lower()], table)
            stored = open_source(connection, by_name[table.name.lower()], table, index)
            tables[table.name.lower()] = stored
            files |= set(stored.files)
        check_identities(connection, catalog, sources, tables)
        connection.execute(f"ATTACH ':memory:' AS {DATABASE} (COMPRESS true)")
        _lock(connection, sorted(files), limits)
    except Exception:
        connection.close()
        raise
    return connection, tables


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the memory limit of the database, in bytes."""
    ((shown,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = str(shown).split()
    return int(float(number) * 1024 ** _SIZES.index(unit))


def _lock(connection: duckdb.DuckDBPyConnection, files: list[str], limits: Limits) -> None:
    if limits.memory is not None:
        _set(connection, "memory_limit", DUCKDB.text(limits.memory))
    if limits.threads is not None:
        _set(connection, "threads", str(int(limits.threads)))
    _set(connection, "temp_directory", DUCKDB.text(limits.spill or ""))
    # No result depends on the order of rows, and preserving it costs memory.
    _set(connection, "preserve_insertion_order", "false")
    _set(connection, "disabled_optimizers", DUCKDB.text(",".join(_OPTIMIZERS_OFF)))
    _set(connection, "ieee_floating_point_ops", "true")
    _set(connection, "allow_community_extensions", "false")
    _set(connection, "allow_persistent_secrets", "false")
    _set(connection, "enable_logging", "false")
    _set(connection, "allowed_paths", f"[{', '.join(map(DUCKDB.text, files))}]")
    _set(connection, "enable_external_access", "false")
    if not files and limits.spill is None:
        # Attached databases are open already; no other file may be opened, nor these again for writing.
        _set(connection, "disabled_filesystems", "'LocalFileSystem'")
    _set(connection, "lock_configuration", "true")


def _set(connection: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    # GLOBAL: cursors take the settings of the database, not of the connection that created them.
    connection.execute(f"SET GLOBAL {name} = {value}")


class DuckDBSession:
    """Cursor of one query, with a flag that stops it; work between statements checks the flag."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor
        self._lock = threading.Lock()
        self._stopped = False
        self._ended = False

    def rows(self, sql: str) -> list[Any]:
        return self.cursor.execute(sql).fetchall()

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
        """Return the first columns, one per flag: objects with None for NULL if it is true, else floats with NaN."""
        if has_arrow():
            return arrow_arrays(self.cursor.sql(sql).to_arrow_table(), as_objects)
        return block_arrays([self.rows(sql)], as_objects)

    def interrupt(self) -> None:
        """Interrupt the query; may be called again."""
        with self._lock:
            self._stopped = True
            if not self._ended:
                self.cursor.interrupt()

    def end(self) -> None:
        """Mark the session finished so that a late interrupt cannot hit the next query."""
        with self._lock:
            self._ended = True

    def check(self) -> None:
        """Raise if the query was interrupted.

        Raises:
            InterruptedError: it was.
        """
        if self._stopped:
            raise InterruptedError("INTERRUPT between statements")


_TICK = 0.25


@contextmanager
def limited(session: DuckDBSession, seconds: float | None) -> Iterator[None]:
    """Interrupt the session after ``seconds``, inside this block."""
    if seconds is None:
        yield
        return
    ended, wait = threading.Event(), seconds

    def watch() -> None:
        # Repeated, because an interrupt between two statements has no effect.
        left = wait
        while not ended.wait(left):
            left = _TICK
            session.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


States = tuple[tuple[FileState | None, ...], ...]
#: Name of the database of copies; attached before the lock.
DATABASE = "tacit_resident"
#: Largest table that is copied: bytes of its files or frame, and number of values.
_MOST_BYTES, _MOST_VALUES = 20 * 2**20, 2**22
#: Number of rows of the smallest frame that is copied: fewer are read as quickly as a copy.
_LEAST_ROWS = 2**14
#: Bytes of the database's memory limit per value of a copy, so that copies, even while being made, take little of it.
_MEMORY = 128
_ROW = "r"


class OpenedSources:
    """A locked database over one state of the sources; safe to use from several threads.

    Args:
        catalog: the tables.
        data: where each table's rows are.
        limits: resource limits of the database.
        look: returns the states of the files of all sources.
    """

    def __init__(
        self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits, look: Callable[[], States]
    ) -> None:
        self._look, self.states = look, look()
        self.users = 0
        self.is_retired = False
        self._lock, self._copying = threading.Lock(), threading.Lock()
        self.connection: duckdb.DuckDBPyConnection
        self.tables: dict[str, DuckDBTable]
        self.connection, self.tables = open_locked(catalog, data, limits)
        self.memory = memory_limit(self.connection)
        self._read, self._reads = dict(self.tables), Counter[str]()

    def reading(self, names: Collection[str]) -> Mapping[str, DuckDBTable]:
        """Return all tables for a query that reads ``names``, small ones as copies from their second query on.

        A single query should not copy columns it does not need.
        """
        with self._copying:
            for name in names:
                self._reads[name] += 1
                if self._reads[name] == 2:
                    self._read[name] = self._copied(self.tables[name])
            return dict(self._read)

    def _copied(self, source: DuckDBTable) -> DuckDBTable:
        """Copy the declared columns as they are read; return the source if it is large or has changed since."""
        import duckdb

        is_frame = source.frame is not None and source.frame[1].num_rows >= _LEAST_ROWS
        if not (source.files or is_frame) or source.size > _MOST_BYTES:
            return source
        columns = {name: DUCKDB.quoted(f"c{i}") for i, name in enumerate(source.columns)}
        row = None if source.row is None else _ROW
        listed = [f"{sql} AS {columns[name]}" for name, sql in source.columns.items()]
        listed += [] if row is None else [f"{source.row} AS {row}"]
        most, scan = min(_MOST_VALUES, self.memory // _MEMORY) // len(listed), f"{DATABASE}.t{source.index}"
        with self.new_cursor() as cursor:
            if source.frame is not None:
                cursor.register(*source.frame)
            try:
                cursor.execute(f"CREATE TABLE {scan} AS SELECT {', '.join(listed)} FROM {source.scan} LIMIT {most + 1}")
                # Compresses the copy, after which texts are looked up once per distinct text.
                cursor.execute(f"CHECKPOINT {DATABASE}")
                ((count,),) = cursor.execute(f"SELECT count(*) FROM {scan}").fetchall()
            except duckdb.Error:
                # The query then reads the source, and fails with the error of the read.
                count = most + 1
            if count > most or self._look() != self.states:
                cursor.execute(f"DROP TABLE IF EXISTS {scan}")
                return source
        doubles = {name: columns[name] for name in source.doubles}
        return replace(source, scan=scan, columns=columns, row=row, doubles=doubles, frame=None)

    @contextmanager
    def session(self) -> Iterator[DuckDBSession]:
        """Open a session of one query."""
        session = DuckDBSession(self.new_cursor())
        try:
            yield session
        finally:
            session.end()
            session.cursor.close()

    def new_cursor(self) -> duckdb.DuckDBPyConnection:
        # Locked, because a connection keeps a list of its cursors.
        with self._lock:
            return self.connection.cursor()

    def close(self) -> None:
        self.connection.close()


class SourceStates:
    """The database over the current state of the sources; safe to use from several threads.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits) -> None:
        self._make: Callable[[], OpenedSources] = lambda: OpenedSources(catalog, data, limits, self._states)
        self._data = tuple(data.values())
        self._lock = threading.Lock()
        self._closed = False
        self.latest = self._make()

    @contextmanager
    def reading(self) -> Iterator[OpenedSources]:
        """Lend the current database to one query; after an internal error of DuckDB it is not used again.

        Raises:
            RuntimeError: the changed sources cannot be read. The message is for the operator.
        """
        import duckdb

        with self._lock:
            opened = self._current()
            opened.users += 1
        try:
            yield opened
        except (duckdb.FatalException, duckdb.InternalException):
            # After these errors DuckDB refuses all statements.
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
        before = self.latest
        if self._states() == before.states and not before.is_retired:
            return before
        try:
            self.latest = self._make()
        except InputError as problem:
            # The old state is not queried either: its files are gone or have changed.
            raise RuntimeError(f"a source has changed and cannot be read any more: {problem}") from None
        before.is_retired = True
        if not before.users:
            before.close()
        return self.latest

    def _states(self) -> States:
        return tuple(source_state(source.kind, source.path) for source in self._data)

    def close(self) -> None:
        """Close the latest database; earlier ones are closed by their last query."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.latest.close()
