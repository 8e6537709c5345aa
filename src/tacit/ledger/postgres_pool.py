"""Connection pool for PostgreSQL ledgers.

A charge is one call of one prepared procedure. The driver's own way to run a statement is made for any statement, with
any values, and costs more processor time than the server needs for the charge; so the one call goes to libpq directly
(:mod:`psycopg.pq`). Everything else goes through the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tacit.ledger.protocol import StorageError, StoreBusy

if TYPE_CHECKING:
    import psycopg

__all__ = ["ConnectionPool", "PooledConnection", "failures", "texts"]

_NAME: Final = b"tacit_step"
_LOCKED: Final = "55P03"


@contextmanager
def failures(place: str) -> Iterator[None]:
    """Whatever PostgreSQL says becomes a :class:`StorageError`, without the words of the connection."""
    import psycopg

    try:
        yield
    except (psycopg.Error, OSError) as problem:
        raise _translated(place, problem) from problem


def _translated(place: str, problem: BaseException) -> StorageError | StoreBusy:
    return _failure(place, str(problem), getattr(problem, "sqlstate", None) or type(problem).__name__)


def _failure(place: str, words: str, state: str) -> StorageError | StoreBusy:
    if state == _LOCKED:
        return StoreBusy("another client held the ledger for too long, and nothing was charged")
    return StorageError(f"the ledger {place}: {(words.splitlines() or [''])[0]} ({state})")


class PooledConnection:
    """One connection, with the statement that carries out a step."""

    def __init__(self, connection: psycopg.Connection[Any], place: str, prepared: str) -> None:
        from psycopg import Error
        from psycopg.pq import DiagnosticField, ExecStatus

        self.connection = connection
        self._pg = connection.pgconn
        self._place = place
        self._state, self._rows, self._error = DiagnosticField.SQLSTATE, ExecStatus.TUPLES_OK, Error
        result = self._pg.prepare(_NAME, prepared.encode())
        if result.status != ExecStatus.COMMAND_OK:
            raise self._failure(result)

    def call(self, values: Sequence[Any]) -> list[Any]:
        """The one row that the statement gives for these bytes (or ``None``), in PostgreSQL's own text.

        Raises:
            StoreBusy: nothing was done.
            StorageError: anything else; nobody knows what was done.
        """
        try:
            result = self._pg.exec_prepared(_NAME, values)
        except (self._error, OSError) as problem:
            raise _translated(self._place, problem) from problem
        if result.status != self._rows or result.ntuples != 1:
            raise self._failure(result)
        return [result.get_value(0, column) for column in range(result.nfields)]

    def _failure(self, result: Any) -> StorageError | StoreBusy:
        state = (result.error_field(self._state) or b"the connection is lost").decode()
        return _failure(self._place, result.error_message.decode(errors="replace"), state)


class ConnectionPool:
    """So many connections at most, made when they are needed. One that failed is not given back."""

    def __init__(self, address: str, options: str, place: str, *, prepared: str, most: int, patience: float) -> None:
        self._address = address
        self._options = options
        self._place = place
        self._prepared = prepared
        self._patience = patience
        self._most = most
        self._made = self._waiting = 0
        self._change = threading.Condition()
        self._free: list[PooledConnection] = []
        self._closed = False

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of its own, which the caller closes."""
        import psycopg

        return psycopg.connect(self._address, autocommit=True, options=self._options)

    def take(self) -> PooledConnection:
        """A connection that nobody else uses, until it is given back; the last one that was, for it is warm."""
        try:
            return self._free.pop()
        except IndexError:
            return self._another()

    def _another(self) -> PooledConnection:
        with self._change:
            # From here on whoever gives one back tells; one that came back before is found.
            self._waiting += 1
            try:
                if not self._change.wait_for(lambda: self._free or self._made < self._most, self._patience):
                    raise StoreBusy("no connection to the ledger's database became free, and nothing was charged")
                if self._free:
                    return self._free.pop()
                self._made += 1
            finally:
                self._waiting -= 1
        try:
            with failures(self._place):
                return PooledConnection(self.connect(), self._place, self._prepared)
        except BaseException:
            self._gone()
            raise

    def give(self, link: PooledConnection) -> None:
        """Give a connection back that worked."""
        self._free.append(link)
        if self._closed:
            self.close()
        elif self._waiting:
            with self._change:
                self._change.notify()

    def drop(self, link: PooledConnection) -> None:
        """Give a connection back that failed."""
        link.connection.close()
        self._gone()

    def _gone(self) -> None:
        with self._change:
            self._made -= 1
            self._change.notify()

    def close(self) -> None:
        """Close what is not in use; the rest is closed when it comes back."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._free.pop().connection.close()


def texts(values: Sequence[str]) -> bytes:
    """An array in PostgreSQL's own text."""
    quoted = ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]
    return ("{" + ",".join(quoted) + "}").encode()
