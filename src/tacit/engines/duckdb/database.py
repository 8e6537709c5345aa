"""Locked DuckDB database over one state of the declared sources, its sessions and their timeouts.

After opening: no file, network or Python object is reachable except the declared files, no extension can be installed
or loaded, the configuration is locked, and memory and threads are limited. The analyst's text never comes here; the
lock is for the day a mistake in this package lets some of it through. One gap is left: statements run here could
write to declared files, so the process should not be able to.

A locked database can open no further file, and it holds on to what it has seen of a file. So when the files of any
source are not what they were (one changed, joined a pattern, or left it), all sources are opened anew for the next
query, in a database of its own. Queries that still run keep the one they began in.

Small files are copied into memory when they are read again (:class:`TableCache`).
"""

from __future__ import annotations

import math
import os
import threading
import time
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

#: Joins run in the order of the plan, whose intermediate rows are bounded, and read what it says: the first four decide
#: by what tables and row groups hold. The last takes a filter below a join above it, and the condition of an inner join
#: with it, which only the fourth would bring back: a product of both sides would remain.
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
) -> tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyConnection, dict[str, DuckDBTable]]:
    """A locked connection, a cursor of it that can tell progress, and every table as it is read there."""
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
        watched = _watched(connection)
        _lock(connection, sorted(files), limits)
    except Exception:
        connection.close()
        raise
    return connection, watched, tables


def _watched(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Progress is counted only where a cursor says so, and after the lock none can; DuckDB itself prints nothing."""
    cursor = connection.cursor()
    cursor.execute("SET enable_progress_bar = true")
    cursor.execute("SET enable_progress_bar_print = false")
    return cursor


def memory_limit(connection: duckdb.DuckDBPyConnection) -> int:
    """Bytes that the database may use."""
    ((shown,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
    number, unit = str(shown).split()
    return int(float(number) * 1024 ** _SIZES.index(unit))


def _lock(connection: duckdb.DuckDBPyConnection, files: list[str], limits: Limits) -> None:
    if limits.memory is not None:
        _set(connection, "memory_limit", DUCKDB.text(limits.memory))
    if limits.threads is not None:
        _set(connection, "threads", str(int(limits.threads)))
    _set(connection, "temp_directory", DUCKDB.text(limits.spill or ""))
    # The order of rows decides nothing, and keeping it costs memory.
    _set(connection, "preserve_insertion_order", "false")
    _set(connection, "disabled_optimizers", DUCKDB.text(",".join(_OPTIMIZERS_OFF)))
    _set(connection, "ieee_floating_point_ops", "true")
    _set(connection, "allow_community_extensions", "false")
    _set(connection, "allow_persistent_secrets", "false")
    _set(connection, "enable_logging", "false")
    _set(connection, "allowed_paths", f"[{', '.join(map(DUCKDB.text, files))}]")
    _set(connection, "enable_external_access", "false")
    if not files and limits.spill is None:
        # Attached databases are open already; nothing else is to be opened, and they cannot be opened again for
        # writing.
        _set(connection, "disabled_filesystems", "'LocalFileSystem'")
    _set(connection, "lock_configuration", "true")


def _set(connection: duckdb.DuckDBPyConnection, name: str, value: str) -> None:
    # GLOBAL: cursors start from the database's settings, not from those of the connection they are made of.
    connection.execute(f"SET GLOBAL {name} = {value}")


class DuckDBSession:
    """A cursor of one query, and whether it has been told to stop: work between statements asks for itself.

    The cursor that tells progress serves other queries afterwards.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self.cursor = cursor
        self._lock = threading.Lock()
        self._stopped = False
        self._ended = False

    def rows(self, sql: str) -> list[Any]:
        """All rows of a statement."""
        return self.cursor.execute(sql).fetchall()

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
        """Its first columns, each as objects with None for NULL or as floats with NaN for it."""
        if has_arrow():
            return arrow_arrays(self.cursor.sql(sql).to_arrow_table(), as_objects)
        return block_arrays([self.rows(sql)], as_objects)

    def interrupt(self) -> None:
        """Stop it; may be called again."""
        with self._lock:
            self._stopped = True
            if not self._ended:
                self.cursor.interrupt()

    def end(self) -> None:
        """Mark the session finished so that a late interrupt cannot hit the next query."""
        with self._lock:
            self._ended = True

    def percent(self) -> float:
        """Percentage of the running statement that is done."""
        return max(0.0, self.cursor.query_progress())

    def check(self) -> None:
        """Stop here, if it has been told to.

        Raises:
            InterruptedError: it has.
        """
        if self._stopped:
            raise InterruptedError("INTERRUPT between statements")


_TICK = 0.25


@contextmanager
def watched(session: DuckDBSession, seconds: float | None, progress: Callable[[float], None] | None) -> Iterator[None]:
    """Stop a session of this block after so many seconds, and tell how far it is four times a second."""
    if seconds is None and progress is None:
        yield
        return
    ended, end = threading.Event(), time.monotonic() + (math.inf if seconds is None else seconds)

    def watch() -> None:
        while not ended.wait(max(0.0, min(_TICK, end - time.monotonic())) or _TICK):
            if time.monotonic() >= end:
                # Again and again: an interrupt between two statements would be forgotten.
                session.interrupt()
            elif progress is not None:
                progress(session.percent())

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
    def session(self, *, watched: bool) -> Iterator[DuckDBSession]:
        """A session of one query; with the cursor that can tell progress, if that is asked for and it is free."""
        alone = not (watched and self.free.acquire(blocking=False))
        session = DuckDBSession(self.new_cursor() if alone else self.watched)
        try:
            yield session
        finally:
            session.end()
            if alone:
                session.cursor.close()
            else:
                self.free.release()

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
        self.connection.close()


class SourceStates:
    """The sources as they are now; safe to use from several threads.

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
        """For one query; a failure of the database itself is the last thing that happens in it.

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
        """Close the latest; those before it are closed by their last query."""
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self.latest.close()


# In-memory copies of small sources, reused across queries -------------------------------------------------------------


#: The database of copies; attached before the lock.
DATABASE = "tacit_resident"
#: Bytes of files or of a frame, and values, of the largest table that is copied.
_MOST_BYTES = 20 * 2**20
_MOST_VALUES = 2**22
#: Rows of the smallest frame that is copied.
_LEAST_ROWS = 2**14
#: Bytes of the database's memory per value: a copy takes a small part of it, also while it is made.
_MEMORY = 128
_ROW = "r"

#: Numbers that change when a file does; the last cannot be set back by ordinary means.
State = tuple[tuple[int, int, int, int], ...]


@dataclass
class _Copy:
    """A state of a source: its copy, None where it has none yet or is too large, and how many queries read that."""

    state: State
    table: DuckDBTable | None = None
    queries: int = 0
    users: int = 0


class TableCache:
    """Copies of small tables; safe to use from several threads.

    A copy holds the declared columns as they are read, so it answers every query as its source does. It is of one state
    of the files; before each query it is seen whether they are still in it. The first query of a state reads the source
    itself: one query alone would pay for columns it does not need. A copy is dropped when its last query ends after the
    files have changed. Frames of few rows are read as quickly as copies, and are not copied.
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
        """All tables as a query about those named is to read them."""
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
        """A copy of a source; None where it is too large, cannot be made, or the files changed meanwhile."""
        import duckdb

        columns = {name: DUCKDB.quoted(f"c{i}") for i, name in enumerate(source.columns)}
        listed = [f"{sql} AS {columns[name]}" for name, sql in source.columns.items()]
        if source.row is not None:
            listed.append(f"{source.row} AS {_ROW}")
        most = min(_MOST_VALUES, self._memory // _MEMORY) // len(listed)
        # A text is looked up among the declared ones here, once, and not by every query that groups by it.
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
                # Compresses, after which texts are looked up once for each different one.
                cursor.execute(f"CHECKPOINT {DATABASE}")
                ((count,),) = cursor.execute(f"SELECT count(*) FROM {scan}").fetchall()
            except duckdb.Error:
                # The files can still be asked, and have their own words for what is wrong with them.
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
    """None where a file is gone."""
    try:
        found = [os.stat(file) for file in files]
    except OSError:
        return None
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in found)
