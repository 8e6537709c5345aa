"""SQLite storage of a ledger.

*Durable.* Write-ahead log with ``synchronous=FULL``: a commit returns when the log is synced. Checkpoints are made here
and not by SQLite on the side, because it would keep their errors to itself, and a failed sync must stop the ledger.
Opening starts with a checkpoint: whatever an earlier failed sync left in the page cache alone is written anew.

*Group commit.* Threads that wait for the disk are served together: whoever gets the writer carries out all steps that
are queued, in one transaction. Each step still decides on the state that the steps before it left.

*Fair.* Writers of all processes pass a gate, a file lock that the kernel hands over in order; SQLite's own waiting is
by sleeping and retrying, and starves one of eight writers.

*Honest.* Every row of a pocket has a seal over its contents, entries are checked against the chain when they are read.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, Self

from tacit.ledger.disk import Disk, HeldError
from tacit.ledger.hash_chain import link
from tacit.ledger.migrations.sqlite import MIGRATIONS
from tacit.ledger.protocol import (
    GENESIS,
    TRAIL,
    AlreadyTaken,
    Appended,
    BalanceKey,
    BalanceState,
    Head,
    InsufficientBudget,
    Name,
    Reader,
    RecentHeads,
    Step,
    StorageError,
    StoreBusy,
)
from tacit.ledger.sqlite_reader import SqliteReader, failures, sealed

__all__ = ["SqliteStore"]

_APPLICATION: Final = 0x74616369  # "taci"
_PATIENCE: Final = 30.0
#: So many steps of this process between two checkpoints; a step writes about six pages.
_CHECKPOINT_EVERY: Final = 1000
_LARGEST_BATCH: Final = 256
_LAST: Final = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT ?"

#: How to get a connection to a path, for tests that put something between.
Connect = Callable[[Path], sqlite3.Connection]

_Result = Appended | AlreadyTaken | InsufficientBudget


class _Ticket:
    """A step in the queue, and later what became of it."""

    __slots__ = ("problem", "result", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.result: _Result | None = None
        self.problem: Exception | None = None

    @property
    def done(self) -> bool:
        return self.result is not None or self.problem is not None


class SqliteStore(SqliteReader):
    """The store protocol on a SQLite file; any number of threads and processes."""

    def __init__(self, path: Path, connect: Connect, disk: Disk, migrated: tuple[int, int] | None) -> None:
        super().__init__(connect(path))
        self._path = path
        self._gate = _gate_of(path)
        self._connect = connect
        self._disk = disk
        self._migrated = migrated
        self._writer = connect(path)
        self._writing = threading.Lock()
        self._queue: deque[_Ticket] = deque()
        self._since_checkpoint = 0
        self._pid = os.getpid()

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        create: bool = True,
        connect: Connect | None = None,
        disk: Disk | None = None,
        migrations: Sequence[Sequence[str]] = MIGRATIONS,
    ) -> Self:
        """Open the file, making it or bringing it up to date first."""
        path = Path(place).resolve()
        connect, disk = connect or connect_to, disk or Disk()
        with failures(f"the ledger {path}"):
            exists = path.exists()
            if not exists and not create:
                raise StorageError(f"there is no ledger at {path}")
            if exists and path.stat().st_nlink > 1:
                raise StorageError(f"the ledger {path} has a second name (hard link); each would get a log of its own")
            disk.make_folder(path.parent)
            migrated: list[tuple[int, int] | None] = []
            _pass_gate(disk, _gate_of(path), lambda: migrated.append(_prepare(connect(path), migrations)))
            disk.sync_folder(path.parent)
            return cls(path, connect, disk, migrated[0])

    @property
    def place(self) -> str:
        """The file, without links."""
        return str(self._path)

    @property
    def migrated(self) -> tuple[int, int] | None:
        """Versions before and after, where opening has changed them; a new file has not been migrated."""
        return self._migrated

    def append(self, step: Step) -> _Result:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        self._check_process()
        ticket = _Ticket(step)
        self._queue.append(ticket)
        with self._writing:
            # Whoever held the writer while we waited may have done our step along with theirs.
            if not ticket.done:
                self._lead()
        if ticket.problem is not None:
            raise ticket.problem
        if ticket.result is None:
            raise StorageError("a step was left undone")
        return ticket.result

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A second reader, in one read transaction."""
        with failures("the ledger"):
            reader = SqliteReader(self._connect(self._path))
            try:
                reader.hold()
                yield reader
            finally:
                reader.close()

    def close(self) -> None:
        """Close both connections."""
        with self._writing, suppress(sqlite3.Error):
            self._writer.close()
        super().close()

    def _lead(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
        try:
            with failures("the ledger"):
                _pass_gate(self._disk, self._gate, lambda: self._transact(batch))
        except Exception as problem:
            for ticket in batch:
                ticket.result, ticket.problem = None, problem

    def _transact(self, batch: Sequence[_Ticket]) -> None:
        run = self._writer.execute
        try:
            run("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise StoreBusy("another program holds the ledger's file, and nothing was charged") from None
            raise
        try:
            heads = [Head(seq, hashed.hex()) for seq, hashed in run(_LAST, (TRAIL,)).fetchall()]
            for ticket in batch:
                ticket.result = self._carry_out(ticket.step, heads[0] if heads else GENESIS)
                if isinstance(ticket.result, Appended):
                    heads.insert(0, ticket.result.head)
            run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                run("ROLLBACK")
            raise
        if heads:
            newest = RecentHeads.of(heads[0], [head.hash for head in heads[1:]])
            for ticket in batch:
                if isinstance(ticket.result, Appended):
                    ticket.result = ticket.result._replace(newest=newest)
        self._since_checkpoint += len(batch)
        if self._since_checkpoint >= _CHECKPOINT_EVERY:
            self._since_checkpoint = 0
            run("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _carry_out(self, step: Step, head: Head) -> _Result:
        taken = self._taken((*step.bars, *step.claims))
        if taken is not None:
            return taken
        levels = self._held([cap.pocket for cap in step.caps] + [move.pocket for move in step.moves])
        for move in step.moves:
            if move.pocket not in levels and not move.opens:
                raise StorageError(f"the pocket {'/'.join(move.pocket)} is gone")
        changed = [
            BalanceState(pocket, levels[pocket].spent if pocket in levels else 0, cap) for pocket, cap in step.caps
        ]
        short = []
        for move in step.moves:
            level = levels.get(move.pocket, BalanceState(move.pocket, 0, None))
            changed.append(BalanceState(move.pocket, level.spent + move.amount, level.cap))
            if level.cap is not None and level.spent + move.amount > level.cap:
                short.append(level)
        if short:
            return InsufficientBudget(tuple(short))
        placed = Head(head.seq + 1, link(head.hash, step.body))
        self._put(step, changed, placed)
        return Appended(placed, head.hash, RecentHeads(placed))

    def _taken(self, names: Sequence[Name]) -> AlreadyTaken | None:
        if not names:
            return None
        one = "SELECT space, key, seq FROM names WHERE space = ? AND key = ?"
        rows = self._writer.execute(_union(one, len(names)), [part for name in names for part in name]).fetchall()
        found = {Name(space, key): seq for space, key, seq in rows}
        return next((AlreadyTaken(name, found[name]) for name in names if name in found), None)

    def _held(self, pockets: Sequence[BalanceKey]) -> dict[BalanceKey, BalanceState]:
        if not pockets:
            return {}
        one = self._pockets + "WHERE account = ? AND owner = ? AND currency = ?"
        values = [part for pocket in pockets for part in pocket]
        rows = self._writer.execute(_union(one, len(pockets)), values).fetchall()
        return {level.pocket: level for level in map(self._level, rows)}

    def _put(self, step: Step, levels: Sequence[BalanceState], head: Head) -> None:
        run, each = self._writer.execute, self._writer.executemany
        run("INSERT INTO entries VALUES (?, ?, ?)", (head.seq, step.body, bytes.fromhex(head.hash)))
        if levels:
            each("INSERT OR REPLACE INTO pockets VALUES (?, ?, ?, ?, ?, ?, ?)", [sealed(lv, head.seq) for lv in levels])
        if step.claims or step.puts:
            names = [(*name, head.seq) for name in (*step.claims, *step.puts)]
            each("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", names)
        if step.drops:
            each("DELETE FROM names WHERE space = ? AND key = ?", step.drops)
        if step.papers:
            each("INSERT INTO papers VALUES (?, ?, ?)", [(head.seq, *paper) for paper in step.papers.items()])

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StorageError("the ledger was opened before a fork; open it again in the child")


def connect_to(path: Path, *, options: str = "") -> sqlite3.Connection:
    """A connection with every safety on; ``options`` are those of a SQLite URI."""
    uri = f"{path.as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    for setting in (
        "synchronous = FULL",
        "fullfsync = ON",  # where the system's fsync leaves things in the drive's cache
        "checkpoint_fullfsync = ON",
        "wal_autocheckpoint = 0",
        "trusted_schema = OFF",
        "cell_size_check = ON",
    ):
        connection.execute(f"PRAGMA {setting}")
    return connection


@cache
def _union(select: str, count: int) -> str:
    """Several look-ups in one statement, each by the index; SQLite scans the table for ``IN (VALUES …)``."""
    return " UNION ALL ".join([select] * count)


def _gate_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-gate")


def _pass_gate(disk: Disk, gate: Path, work: Callable[[], None]) -> None:
    """Writers of all processes work one after the other."""
    try:
        disk.locked(gate, work, patience=_PATIENCE)
    except HeldError as problem:
        raise StoreBusy(f"another process holds the ledger, and nothing was charged: {problem}") from None


def _prepare(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """Bring the tables up to date, and prove that the file can be written."""
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (tables or version) and owner != _APPLICATION:
            raise StorageError("the file is a SQLite database, but not a ledger")
        if version > len(migrations):
            raise StorageError(
                f"the ledger has version {version} and this Tacit knows {len(migrations)}; use a newer one"
            )
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StorageError("the file cannot be kept with a write-ahead log; is the folder on a network disk?")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        for statements in migrations[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
        return (version, len(migrations)) if 0 < version < len(migrations) else None
    finally:
        connection.close()
