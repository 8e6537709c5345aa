"""SQLite storage of people.

Writers of all processes pass the ledger's gate, so that neither starves the other; and like the ledger this makes its
own checkpoints, because SQLite would keep their errors to itself.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

from tacit.ledger import BusyError, LedgerError
from tacit.ledger.disk import Disk
from tacit.ledger.sqlite import connect_to
from tacit.server.identity.migrations import SQLITE, bring_up_to_date
from tacit.server.identity.storage import Run

__all__ = ["SqliteTables", "runner"]

_CHECKPOINT_EVERY: Final = 500


class SqliteTables:
    """See :class:`tacit.server.identity.storage.PeopleTables`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gate = path.with_name(f"{path.name}-gate")
        self._disk = Disk()
        self._reader = connect_to(path)
        self._writer = connect_to(path)
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._writes = 0
        self._pid = os.getpid()

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> Self:
        """The tables in a file that holds a ledger."""
        path = Path(place).resolve()
        with failures():
            _close_to_others(path)
            tables = cls(path)
        try:
            with tables.write() as run:
                bring_up_to_date(run, SQLITE)
        except BaseException:
            tables.close()
            raise
        return tables

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""
        self._check_process()
        with failures(), self._reading:
            return self._reader.execute(statement, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[Run]:
        """A short transaction."""
        self._check_process()
        with failures(), self._writing, self._disk.lock(self._gate):
            with transaction(self._writer):
                yield runner(self._writer)
            self._writes += 1
            if self._writes % _CHECKPOINT_EVERY == 0:
                self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """Close both connections."""
        for lock, connection in ((self._reading, self._reader), (self._writing, self._writer)):
            with lock, suppress(sqlite3.Error):
                connection.close()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise LedgerError("the people were opened before a fork; open them again in the child")


def _close_to_others(path: Path) -> None:
    """Hashes of passwords will be in the file: nobody but its owner and their group has to read them."""
    for each in (path, *(path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm"))):
        with suppress(FileNotFoundError, PermissionError):
            mode = each.stat().st_mode
            if mode & 0o007:
                each.chmod(mode & 0o7770)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything in the block, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def runner(connection: sqlite3.Connection) -> Run:
    """Statements on a connection."""
    return lambda statement, values: connection.execute(statement, values).fetchall()


@contextmanager
def failures() -> Iterator[None]:
    """Whatever SQLite or the system says, as errors of the tree; without the values of a statement."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        if problem.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise BusyError("another program holds the ledger's file") from None
        raise LedgerError(f"the people in the ledger's file: {problem} ({problem.sqlite_errorname})") from problem
    except (sqlite3.Error, OSError, UnicodeError) as problem:
        raise LedgerError(f"the people in the ledger's file: {problem} ({type(problem).__name__})") from problem
