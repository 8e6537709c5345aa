"""Storage protocol of people: rows and short transactions.

Statements have ``?`` for values and ask for rows by ``RETURNING`` where it matters whether something changed. Each
change is one statement that says under which condition it happens, so that of two processes one wins, also where
transactions run side by side.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from tacit.ledger import Ledger
from tacit.ledger.memory import MEMORY
from tacit.ledger.opening import is_postgres

__all__ = ["PeopleTables", "Run", "open_tables"]

#: Carry out a statement with values, and give back its rows.
Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class PeopleTables(Protocol):
    """The tables of :mod:`tacit.server.identity.migrations` in one database; for any number of threads.

    Whatever the database says is a :class:`LedgerError`; that somebody else held it for too long, a
    :class:`BusyError`, and then nothing was written.
    """

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""

    def write(self) -> AbstractContextManager[Run]:
        """A transaction: durable when the block ends, undone when it raises. Keep it short."""

    def close(self) -> None:
        """Give everything back."""


#: Ledgers in memory have their people in memory, once each, however often somebody opens them.
_in_memory: Final[weakref.WeakKeyDictionary[Ledger, PeopleTables]] = weakref.WeakKeyDictionary()


def open_tables(ledger: Ledger, place: str | os.PathLike[str]) -> PeopleTables:
    """The tables beside a ledger, made or brought up to date first."""
    if place == MEMORY:
        from tacit.server.identity.memory import MemoryTables

        if ledger not in _in_memory:
            _in_memory[ledger] = MemoryTables()
        return _in_memory[ledger]
    if is_postgres(place):
        from tacit.server.identity.postgres import PostgresTables

        return PostgresTables.open(str(place))
    from tacit.server.identity.sqlite import SqliteTables

    return SqliteTables.open(place)
