"""In-memory copies of small sources, reused across questions.

A copy holds the declared columns as they are read, so it answers every question as its source does. It is of one state
of the files; before each question it is seen whether they are still in it. The first question of a state reads the
source itself: one question alone would pay for columns it does not need. A copy is dropped when its last question ends
after the files have changed. Frames of few rows are read as quickly as copies, and are not copied.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.sources import MOST_PLACES, DuckDBTable
from tacit.query.types import TEXT

if TYPE_CHECKING:
    import duckdb

#: The database of copies; attached by :mod:`tacit.engines.duckdb.database` before the lock.
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
    """A state of a source: its copy, None where it has none yet or is too large, and how many questions read that."""

    state: State
    table: DuckDBTable | None = None
    questions: int = 0
    users: int = 0


class TableCache:
    """Copies of small tables; safe to use from several threads."""

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
        """All tables as a question about those named is to read them."""
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
        known.questions += 1
        if known.questions == 2:
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
        # A text is looked up among the declared ones here, once, and not by every question that groups by it.
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
