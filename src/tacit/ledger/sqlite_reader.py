"""Reading of a SQLite ledger."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar

from tacit.ledger.protocol import BalanceState, StorageError
from tacit.ledger.sql_reader import TableReader

__all__ = ["SqliteReader", "failures", "sealed"]


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Whatever SQLite or the system says becomes a :class:`StorageError`.

    What SQLite says of a damaged schema quotes it, and Python may fail to read that.
    """
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeError, OverflowError) as problem:
        name = getattr(problem, "sqlite_errorname", type(problem).__name__)
        raise StorageError(f"{what}: {problem} ({name})") from problem


class SqliteReader(TableReader):
    """The reader protocol on one connection, which threads take in turn."""

    _pockets: ClassVar[str] = "SELECT account, owner, currency, spent, cap, seq, seal FROM pockets "

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection
        self._reading = threading.Lock()

    def hold(self) -> None:
        """Stay at this moment: begin a read transaction."""
        self._still = True
        self._rows("BEGIN")
        self._rows("SELECT seq FROM entries LIMIT 1")

    def close(self) -> None:
        """Close the connection."""
        with self._reading, suppress(sqlite3.Error):
            self._connection.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading, failures("the ledger"):
            return self._connection.execute(statement, values).fetchall()

    def _level(self, row: Sequence[Any]) -> BalanceState:
        """The row of a pocket, if its seal is right."""
        if _seal(tuple(row[:6])) != row[6]:
            raise StorageError(f"what is kept of {row[2]} of {row[0]} is damaged: its seal does not fit")
        return super()._level(row)


def sealed(level: BalanceState, seq: int) -> tuple[Any, ...]:
    """The row of a pocket, with a checksum over it."""
    row = (*level.pocket, str(level.spent), None if level.cap is None else str(level.cap), seq)
    return (*row, _seal(row))


def _seal(row: tuple[Any, ...]) -> bytes:
    return hashlib.sha256(repr(row).encode()).digest()[:8]
