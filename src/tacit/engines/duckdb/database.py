"""Locked DuckDB database over one state of the declared sources, its sessions and their timeouts.

After opening: no file, network or Python object is reachable except the declared files, no extension can be installed
or loaded, the configuration is locked, and memory and threads are limited. The analyst's text never reaches the
database; the lock limits the damage if a bug in this package lets some of it through. One gap remains: statements run
here could write to declared files, so the process should have no permission to.

A locked database can open no further file, and it caches what it has read of a file. So if the files of any source
change (one is modified, added to a pattern, or removed), all sources are opened again for the next query, in a new
database. Running queries keep the database they started in.

Small files are copied into memory when they are read a second time (:class:`TableCache`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import has_arrow
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.sources import MOST_PLACES, DuckDBTable, check_identities, check_row_numbers, open_source
from tacit.engines.files import FileState, source_state
from tacit.engines.frames import arrow_arrays, block_arrays
from tacit.engines.protocol import Limits, SourceLike
from tacit.query.catalog import Catalog
from tacit.query.types import TEXT

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
            stored, read = open_source(connection, by_name[table.name.lower()], table, index)
            tables[table.name.lower()] = stored
            files |= set(read)
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


class OpenedSources:
    """A locked database over one state of the sources; safe to use from several threads.

    Args:
        catalog: the tables.
        data: where each table's rows are.
        limits: resource limits of the database.
        states: states of the files before they were opened.
    """

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits, states: States) -> None:
        self.states = states
        self.users = 0
        self.is_retired = False
        self._lock = threading.Lock()
        self.connection: duckdb.DuckDBPyConnection
        self.tables: dict[str, DuckDBTable]
        self.connection, self.tables = open_locked(catalog, data, limits)
        self.memory = memory_limit(self.connection)
        self.residents = TableCache(self.new_cursor, self.tables, self.memory)

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
        self._make: Callable[[States], OpenedSources] = lambda states: OpenedSources(catalog, data, limits, states)
        self._data = tuple(data.values())
        self._lock = threading.Lock()
        self._closed = False
        self.latest = self._make(self._states())

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
        states = self._states()
        before = self.latest
        if states == before.states and not before.is_retired:
            return before
        try:
            self.latest = self._make(states)
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


# In-memory copies of small sources, reused across queries -------------------------------------------------------------


#: Name of the database of copies; attached before the lock.
DATABASE = "tacit_resident"
#: Largest table that is copied: bytes of its files or frame, and number of values.
_MOST_BYTES = 20 * 2**20
_MOST_VALUES = 2**22
#: Number of rows of the smallest frame that is copied.
_LEAST_ROWS = 2**14
#: Bytes of the database's memory limit per value of a copy, so that copies, even while being made, take little of it.
_MEMORY = 128
_ROW = "r"

#: Inode, size, mtime and ctime of each file; ordinary means cannot set back the ctime.
State = tuple[tuple[int, int, int, int], ...]


@dataclass
class _Copy:
    """State of one source, its copy (None if not made or too large), its number of queries, and the copy's users."""

    state: State
    table: DuckDBTable | None = None
    queries: int = 0
    users: int = 0


class TableCache:
    """In-memory copies of small tables; safe to use from several threads.

    A copy holds the declared columns as they are read, so queries have the same results as on the source. It is a copy
    of one state of the files, which is checked before each query. The first query of a state reads the source itself:
    a single query should not copy columns it does not need. After the files have changed, a copy is dropped when its
    last query ends. Frames of few rows are read as quickly as copies, and are not copied.
    """

    def __init__(
        self, make: Callable[[], duckdb.DuckDBPyConnection], tables: Mapping[str, DuckDBTable], memory: int
    ) -> None:
        self._make = make
        self._tables = tables
        self._memory = memory
        self._lock = threading.Lock()
        self._copies: dict[str, _Copy] = {}
        self._made = 0

    @contextmanager
    def reading(self, names: Collection[str]) -> Iterator[Mapping[str, DuckDBTable]]:
        """Lend all tables to a query, those in ``names`` as their copies where these exist."""
        taken: list[_Copy] = []
        found = dict(self._tables)
        try:
            with self._lock:
                for name in sorted(names):
                    copy = self._current(name)
                    if copy is not None and copy.table is not None:
                        copy.users += 1
                        taken.append(copy)
                        found[name] = copy.table
            yield found
        finally:
            with self._lock:
                for copy in taken:
                    copy.users -= 1
                    if not copy.users and copy not in self._copies.values():
                        self._drop(copy)

    def _current(self, name: str) -> _Copy | None:
        source = self._tables[name]
        is_frame = source.frame is not None and source.frame[1].num_rows >= _LEAST_ROWS
        if not (source.files or is_frame) or source.size > _MOST_BYTES:
            return None
        state = _state(source.files)
        known = self._copies.get(name)
        if state is None or known is None or known.state != state:
            if known is not None:
                del self._copies[name]
                if not known.users:
                    self._drop(known)
            if state is None:
                return None
            known = self._copies[name] = _Copy(state)
        known.queries += 1
        if known.queries == 2:
            known.table = self._copied(source, state)
        return known

    def _copied(self, source: DuckDBTable, state: State) -> DuckDBTable | None:
        """Copy a source; None if it is too large, cannot be copied, or its files changed meanwhile."""
        import duckdb

        columns = {name: DUCKDB.quoted(f"c{i}") for i, name in enumerate(source.columns)}
        listed = [f"{sql} AS {columns[name]}" for name, sql in source.columns.items()]
        if source.row is not None:
            listed.append(f"{source.row} AS {_ROW}")
        most = min(_MOST_VALUES, self._memory // _MEMORY) // len(listed)
        # The index of a text among the declared values is stored here, not computed by every query that groups by it.
        places = {name: f"p{i}" for i, (name, values) in enumerate(source.listed.items()) if len(values) <= MOST_PLACES}
        for name, place in places.items():
            number = DUCKDB.place_among(source.columns[name], source.listed[name], TEXT)
            listed.append(f"CAST({number} AS SMALLINT) AS {place}")
        self._made += 1
        scan = f"{DATABASE}.t{self._made}"
        made = replace(
            source,
            scan=scan,
            columns=columns,
            row=None if source.row is None else _ROW,
            doubles={name: columns[name] for name in source.doubles},
            places=places,
            frame=None,
        )
        with self._make() as cursor:
            if source.frame is not None:
                cursor.register(*source.frame)
            try:
                cursor.execute(f"CREATE TABLE {scan} AS SELECT {', '.join(listed)} FROM {source.scan} LIMIT {most + 1}")
                # Compresses the copy, after which texts are looked up once per distinct text.
                cursor.execute(f"CHECKPOINT {DATABASE}")
                ((count,),) = cursor.execute(f"SELECT count(*) FROM {scan}").fetchall()
            except duckdb.Error:
                # The query then reads the files, and fails with the error of the read.
                cursor.execute(f"DROP TABLE IF EXISTS {scan}")
                return None
            if count > most or _state(source.files) != state:
                cursor.execute(f"DROP TABLE {scan}")
                return None
        return made

    def _drop(self, copy: _Copy) -> None:
        if copy.table is not None:
            with self._make() as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {copy.table.scan}")


def _state(files: tuple[str, ...]) -> State | None:
    """Return the state of files; None if one is gone."""
    try:
        found = [os.stat(file) for file in files]
    except OSError:
        return None
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in found)
