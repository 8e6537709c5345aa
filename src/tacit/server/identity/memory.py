"""In-memory storage of people."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tacit.server.identity.migrations import SQLITE, bring_up_to_date
from tacit.server.identity.sqlite import failures, runner, transaction
from tacit.server.identity.storage import Run

__all__ = ["MemoryTables"]


class MemoryTables:
    """See :class:`tacit.server.identity.storage.PeopleTables`; one connection, which threads take in turn."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        with self.write() as run:
            bring_up_to_date(run, SQLITE)

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""
        with failures(), self._lock:
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def write(self) -> Iterator[Run]:
        """A short transaction."""
        with failures(), self._lock, transaction(self._connection):
            yield runner(self._connection)

    def close(self) -> None:
        """Nothing: they end with their ledger."""

    def __del__(self) -> None:
        self._connection.close()
