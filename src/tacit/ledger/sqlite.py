"""SQLite: databases in a file or in memory, and the store of a ledger in one.

*Durable.* Write-ahead log with ``synchronous=FULL``: a commit returns when the log is synced. Checkpoints are made here
and not automatically by SQLite, because it would not report their errors, and a failed sync must be seen. Opening
starts with a checkpoint: pages that an earlier failed sync left only in the page cache are written again.

*Fair.* Writers of all processes wait for a gate, a file lock that the kernel hands over in order; SQLite itself waits
by sleeping and retrying, and starves one of eight writers.

*Group commit.* Threads that wait for the disk are served together: the thread that gets the writer carries out all
steps that are queued, in one transaction. Each step still decides on the state that the steps before it left.

*Checked.* Every row of a balance has a checksum over its contents; entries are checked against the chain when read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final, Self

from tacit.ledger.database import Run, Schema, TableReader, make_tables
from tacit.ledger.disk import Disk, HeldError
from tacit.ledger.errors import StorageError, StoreBusy
from tacit.ledger.protocol import (
    GENESIS,
    HEADS_BEFORE,
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
    balances_after,
    link,
)

_PATIENCE: Final = 30.0
#: Number of steps of this process between two checkpoints; a step writes about six pages.
_CHECKPOINT_EVERY: Final = 1000

#: Opens a connection to a path; tests replace it.
Connect = Callable[[Path], sqlite3.Connection]


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Translate errors of SQLite and of the system to :class:`StorageError`.

    SQLite's message about a damaged schema quotes the schema, and Python may fail to decode that.
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError, OverflowError) as problem:
        name = getattr(problem, "sqlite_errorname", type(problem).__name__)
        raise StorageError(f"{what}: {problem} ({name})") from problem


def connect_to(path: Path, *, options: str = "") -> sqlite3.Connection:
    """Open a connection with all safety settings on; ``options`` are those of a SQLite URI."""
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


def runner(connection: sqlite3.Connection) -> Run:
    """Return a function that carries out statements on a connection."""
    return lambda statement, values: connection.execute(statement, values).fetchall()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise StoreBusy("another program holds the ledger's file, and nothing was charged") from None
        raise
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


class SqliteDatabase:
    """A file with two connections, one to read and one to write; threads use each in turn."""

    def __init__(
        self, path: Path, *, what: str = "the ledger", connect: Connect | None = None, disk: Disk | None = None
    ) -> None:
        self.path = path
        #: Held by the thread that writes.
        self.writing = threading.Lock()
        self._what = what
        self._connect = connect or connect_to
        self._disk = disk or Disk()
        self._reading = threading.Lock()
        self._reader = self._connect(path)
        self.writer = self._connect(path)
        self._since_checkpoint = 0
        self._pid = os.getpid()
        self._file = _identity(path)

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        schema: Schema,
        *,
        application: int,
        create: bool = True,
        connect: Connect | None = None,
        disk: Disk | None = None,
    ) -> Self:
        """Open the file of an application; create it if it does not exist."""
        path = Path(place).resolve()
        connect, disk = connect or connect_to, disk or Disk()
        with failures(f"the ledger {path}"):
            exists = path.exists()
            if not exists and not create:
                raise StorageError(f"there is no ledger at {path}")
            if exists and path.stat().st_nlink > 1:
                raise StorageError(f"the ledger {path} has a second name (hard link); each would get a log of its own")
            disk.make_folder(path.parent)
            _keep_private(path)
            _pass_gate(disk, path, lambda: _prepare(connect(path), schema, application))
            disk.sync_folder(path.parent)
            return cls(path, connect=connect, disk=disk)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.check_process()
        self._check_in_place()
        with self._reading, failures(self._what):
            return self._reader.execute(statement, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[Run]:
        """Yield a short transaction, which waits for the gate."""
        self.check_process()
        with failures(self._what), self.writing, self._disk.lock(_gate_of(self.path)), self.transaction():
            yield runner(self.writer)

    def pass_gate(self, work: Callable[[], None]) -> None:
        """Call ``work`` while the gate is held, perhaps in another thread.

        Raises:
            StoreBusy: another process held the gate for too long, and ``work`` was not called.
        """
        with failures(self._what):
            _pass_gate(self._disk, self.path, work)

    @contextmanager
    def transaction(self, steps: int = 1) -> Iterator[None]:
        """Open a write transaction, for the holder of the gate; make a checkpoint after it when one is due."""
        self._check_in_place()
        with _transaction(self.writer):
            yield
        self._since_checkpoint += steps
        if self._since_checkpoint >= _CHECKPOINT_EVERY:
            self._since_checkpoint = 0
            self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    @contextmanager
    def snapshot(self) -> Iterator[Run]:
        """Yield statements on a separate connection, in one read transaction."""
        with failures(self._what), _reading(self._connect(self.path), still=True) as read:
            yield read

    def prepare(self, schema: Schema) -> None:
        with self.write() as run:
            make_tables(run, schema)

    def close(self) -> None:
        """Close both connections."""
        for lock, connection in ((self.writing, self.writer), (self._reading, self._reader)):
            with lock, suppress(sqlite3.Error):
                connection.close()

    def check_process(self) -> None:
        """Refuse a child process: a file's connections do not survive a fork."""
        if os.getpid() != self._pid:
            raise StorageError(f"{self._what} was opened before a fork; open it again in the child")

    def _check_in_place(self) -> None:
        """Refuse a file that was moved, deleted or replaced: the next process would not find its entries.

        SQLite itself goes on with the file that it opened, wherever that is.
        """
        now = _identity(self.path)
        if self._file is None:
            self._file = now
        elif now != self._file:
            raise StorageError(
                f"{self._what} was moved away from {self.path} or replaced while it was open; stop all "
                "processes, bring it back and start again"
            )


class MemoryDatabase:
    """A database of one process, with one connection, which threads use in turn."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with failures(self._what), self._lock:
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[Run]:
        with failures(self._what), self._lock, _transaction(self._connection):
            yield runner(self._connection)

    def prepare(self, schema: Schema) -> None:
        with self.write() as run:
            make_tables(run, schema)

    def close(self) -> None:
        """Do nothing: the database is freed with its last reference."""

    def __del__(self) -> None:
        self._connection.close()


@contextmanager
def read_only(place: str | os.PathLike[str], *, still: bool) -> Iterator[Run]:
    """Yield statements on a file opened read-only; with ``still`` they all read the state at one moment."""
    path = Path(place).resolve()
    with failures(f"the ledger {path}"):
        if not path.exists():
            raise StorageError(f"there is no ledger at {path}")
        with _readable(path) as uri:
            connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            with _reading(connection, still=still) as read:
                yield read


def copy_file(place: str | os.PathLike[str], target: Path) -> None:
    """Copy a file, as it is at one moment, to a new one, durably; processes may go on writing meanwhile."""
    path, disk = Path(place).resolve(), Disk()
    with failures(f"the copy {target}"):
        if not path.exists():
            raise StorageError(f"there is no ledger at {path}")
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with (
                _readable(path) as uri,
                closing(sqlite3.connect(uri, uri=True)) as source,
                closing(connect_to(target)) as copy,
            ):
                # All pages in one step, which is one read transaction.
                source.backup(copy, pages=-1)
                # Without a log, which would be a second file.
                copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            disk.sync_folder(target.parent)
        except BaseException:
            target.unlink()
            raise


@contextmanager
def _reading(connection: sqlite3.Connection, *, still: bool) -> Iterator[Run]:
    """Yield statements on a connection, and close it afterwards."""
    lock = threading.Lock()

    def read(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with lock, failures("the ledger"):
            return connection.execute(statement, values).fetchall()

    try:
        if still:
            read("BEGIN")
            read("SELECT name FROM sqlite_master LIMIT 1")  # the moment is that of the first look
        yield read
    finally:
        with lock, suppress(sqlite3.Error):
            connection.close()


@contextmanager
def _readable(path: Path) -> Iterator[str]:
    """Yield a URI by which SQLite reads a file without changing it, also on a read-only medium.

    A reader needs a small second file for a database with a log. Where that file cannot be made, the database is read
    alone if there is no log; with one, a copy of both is read, because the newest entries may be only in the log.
    """
    log = path.with_name(f"{path.name}-wal")
    if os.access(path.parent, os.W_OK):
        yield f"{path.as_uri()}?mode=ro"
    elif not log.exists() or log.stat().st_size == 0:
        yield f"{path.as_uri()}?mode=ro&immutable=1"
    else:
        with TemporaryDirectory(prefix="tacit-ledger-") as folder:
            for file in (path, log):
                shutil.copyfile(file, Path(folder) / file.name)
            yield (Path(folder) / path.name).as_uri()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode number of a file; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _keep_private(path: Path) -> None:
    """Make the file readable by its owner alone, before SQLite opens it and gives its log and index the same mode.

    It holds the queries of all analysts and the secrets by which they sign in.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    for each in (path, *(path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm", "gate"))):
        # The mode of another user's file cannot be changed: `tacit doctor` reports it.
        with suppress(FileNotFoundError, PermissionError):
            mode = each.stat().st_mode
            if mode & 0o077:
                each.chmod(mode & 0o7700)


def _gate_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-gate")


def _pass_gate(disk: Disk, path: Path, work: Callable[[], None]) -> None:
    """Call ``work`` under the gate, which writers of all processes hold one after the other."""
    try:
        disk.locked(_gate_of(path), work, patience=_PATIENCE)
    except HeldError as problem:
        raise StoreBusy(f"another process holds the ledger, and nothing was charged: {problem}") from None


def _prepare(connection: sqlite3.Connection, schema: Schema, application: int) -> None:
    """Create the tables if they are missing, and prove that the file can be written."""
    run = connection.execute
    try:
        owner = run("PRAGMA application_id").fetchone()[0]
        contents = run("SELECT count(*) FROM sqlite_master").fetchone()[0] or run("PRAGMA user_version").fetchone()[0]
        if contents and owner != application:
            raise StorageError("the file is a SQLite database, but not a ledger")
        if run("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StorageError("the file cannot be kept with a write-ahead log; is the folder on a network disk?")
        run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        run("BEGIN IMMEDIATE")
        run(f"PRAGMA application_id = {application}")
        make_tables(runner(connection), schema)
        run("COMMIT")
    finally:
        connection.close()


_APPLICATION: Final = 0x74616369  # "taci"
_LARGEST_BATCH: Final = 256
_LAST: Final = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT ?"

_TABLES: Final = (
    """
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY,
        body TEXT NOT NULL,
        hash BLOB NOT NULL
    ) STRICT
    """,
    # spent and cap are whole grains in decimal text: they outgrow 64 bits. The seal, a checksum, finds flipped bits.
    """
    CREATE TABLE pockets (
        account TEXT NOT NULL,
        owner TEXT NOT NULL,
        currency TEXT NOT NULL,
        spent TEXT NOT NULL,
        cap TEXT,
        seq INTEGER NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (account, owner, currency)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE names (
        space TEXT NOT NULL,
        key TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (space, key)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE papers (
        seq INTEGER NOT NULL,
        name TEXT NOT NULL,
        content BLOB NOT NULL,
        PRIMARY KEY (seq, name)
    ) STRICT
    """,
    """
    CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END
    """,
    """
    CREATE TRIGGER entries_remain BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END
    """,
)

_Result = Appended | AlreadyTaken | InsufficientBudget


class SealedReader(TableReader):
    """The reader protocol on tables whose balances have checksums (seals)."""

    _columns: ClassVar[str] = "account, owner, currency, spent, cap, seq, seal"

    def _balance(self, row: Sequence[Any]) -> BalanceState:
        if _seal(tuple(row[:6])) != row[6]:
            raise StorageError(f"what is kept of {row[2]} of {row[0]} is damaged: its seal does not fit")
        return super()._balance(row)


def _sealed(state: BalanceState, seq: int) -> tuple[Any, ...]:
    """Return the row of a balance, with a checksum over it."""
    row = (*state.key, str(state.spent), None if state.cap is None else str(state.cap), seq)
    return (*row, _seal(row))


def _seal(row: tuple[Any, ...]) -> bytes:
    return hashlib.sha256(repr(row).encode()).digest()[:8]


class SqliteStore(SealedReader):
    """The store protocol on a SQLite file, for several threads and processes."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database.read)
        self._database = database
        self._queue: deque[tuple[Step, Future[_Result]]] = deque()

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        create: bool = True,
        connect: Connect | None = None,
        disk: Disk | None = None,
    ) -> Self:
        """Open the file; create it if it does not exist."""
        schema = Schema("the ledger has", _TABLES)
        made = SqliteDatabase.open(place, schema, application=_APPLICATION, create=create, connect=connect, disk=disk)
        return cls(made)

    @property
    def place(self) -> str:
        """Path of the file, with links resolved."""
        return str(self._database.path)

    def append(self, step: Step) -> _Result:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        self._database.check_process()
        result: Future[_Result] = Future()
        self._queue.append((step, result))
        with self._database.writing:
            # The thread that held the writer before may have done this step, too.
            if not result.done():
                self._lead()
        if not result.done():
            raise StorageError("a step was left undone")
        return result.result()

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Yield a second reader, in one read transaction."""
        with self._database.snapshot() as read:
            yield SealedReader(read, still=True)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _lead(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
        results: list[_Result] = []
        try:
            self._database.pass_gate(lambda: results.extend(self._transact([step for step, _ in batch])))
        except Exception as problem:
            for _, future in batch:
                future.set_exception(problem)
        else:
            for (_, future), result in zip(batch, results, strict=True):
                future.set_result(result)

    def _transact(self, steps: Sequence[Step]) -> list[_Result]:
        results: list[_Result] = []
        with self._database.transaction(len(steps)):
            rows = self._database.writer.execute(_LAST, (HEADS_BEFORE,)).fetchall()
            heads = [Head(seq, hashed.hex()) for seq, hashed in rows]
            for step in steps:
                results.append(self._carry_out(step, heads[0] if heads else GENESIS))
                if isinstance(results[-1], Appended):
                    heads.insert(0, results[-1].head)
        newest = RecentHeads.of(heads[0], [head.hash for head in heads[1:]]) if heads else RecentHeads(GENESIS)
        return [each._replace(newest=newest) if isinstance(each, Appended) else each for each in results]

    def _carry_out(self, step: Step, head: Head) -> _Result:
        taken = self._taken((*step.bars, *step.claims))
        if taken is not None:
            return taken
        held = self._held([cap.key for cap in step.caps] + [move.key for move in step.moves])
        changed, short = balances_after(step, held)
        if short:
            return InsufficientBudget(short)
        placed = Head(head.seq + 1, link(head.hash, step.body))
        self._put(step, changed.values(), placed)
        return Appended(placed, head.hash, RecentHeads(placed))

    def _taken(self, names: Sequence[Name]) -> AlreadyTaken | None:
        if not names:
            return None
        one = "SELECT space, key, seq FROM names WHERE space = ? AND key = ?"
        values = [part for name in names for part in name]
        rows = self._database.writer.execute(_union(one, len(names)), values).fetchall()
        found = {Name(space, key): seq for space, key, seq in rows}
        return next((AlreadyTaken(name, found[name]) for name in names if name in found), None)

    def _held(self, keys: Sequence[BalanceKey]) -> dict[BalanceKey, BalanceState]:
        if not keys:
            return {}
        one = f"SELECT {self._columns} FROM pockets WHERE account = ? AND owner = ? AND currency = ?"  # noqa: S608
        values = [part for key in keys for part in key]
        rows = self._database.writer.execute(_union(one, len(keys)), values).fetchall()
        return {state.key: state for state in map(self._balance, rows)}

    def _put(self, step: Step, states: Collection[BalanceState], head: Head) -> None:
        run, each = self._database.writer.execute, self._database.writer.executemany
        run("INSERT INTO entries VALUES (?, ?, ?)", (head.seq, step.body, bytes.fromhex(head.hash)))
        if states:
            rows = [_sealed(state, head.seq) for state in states]
            each("INSERT OR REPLACE INTO pockets VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        if step.claims or step.puts:
            names = [(*name, head.seq) for name in (*step.claims, *step.puts)]
            each("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", names)
        if step.drops:
            each("DELETE FROM names WHERE space = ? AND key = ?", step.drops)
        if step.attachments:
            each("INSERT INTO papers VALUES (?, ?, ?)", [(head.seq, *pair) for pair in step.attachments.items()])


@cache
def _union(select: str, count: int) -> str:
    """Return a statement of several look-ups, each by the index; SQLite scans the table for ``IN (VALUES …)``."""
    return " UNION ALL ".join([select] * count)
