"""PostgreSQL databases: connection pool, transactions, errors.

The driver's own way to run a statement is made for any statement, with any values, and costs more processor time than
the server needs for a charge. So a database may name one statement that is prepared on every connection and called
through libpq directly (:mod:`psycopg.pq`). Everything else goes through the driver.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tacit.ledger.storage.database import Run, Schema, StorageError, StoreBusy, make_tables

if TYPE_CHECKING:
    import psycopg

_SCHEMA: Final = "tacit_ledger"
_PATIENCE: Final = 30
_NAME: Final = b"tacit_step"
_LOCKED: Final = "55P03"
_DEADLOCK: Final = "40P01"
_SETTINGS: Final = (
    "synchronous_commit=on",
    "default_transaction_isolation=read\\ committed",
    "default_transaction_read_only=off",
)


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Translate errors of PostgreSQL to :class:`StorageError`, without the words of the connection."""
    import psycopg

    try:
        yield
    except (psycopg.Error, OSError) as problem:
        raise _translated(what, problem, {_LOCKED, _DEADLOCK}) from problem


def _translated(what: str, problem: BaseException, busy: set[str]) -> StorageError | StoreBusy:
    return _failure(what, str(problem), getattr(problem, "sqlstate", None) or type(problem).__name__, busy)


def _failure(what: str, words: str, state: str, busy: set[str]) -> StorageError | StoreBusy:
    if state in busy:
        return StoreBusy("another client held the ledger for too long, and nothing was charged")
    return StorageError(f"{what}: {(words.splitlines() or [''])[0]} ({state})")


class _PooledConnection:
    """One connection, with the statement that is prepared on it."""

    def __init__(self, connection: psycopg.Connection[Any], what: str, prepared: str) -> None:
        from psycopg import Error
        from psycopg.pq import DiagnosticField, ExecStatus, TransactionStatus

        self.connection = connection
        self._pg = connection.pgconn
        self._what = what
        self._idle = TransactionStatus.IDLE
        self._state, self._rows, self._error = DiagnosticField.SQLSTATE, ExecStatus.TUPLES_OK, Error
        if prepared:
            result = self._pg.prepare(_NAME, prepared.encode())
            if result.status != ExecStatus.COMMAND_OK:
                raise self._failure(result)

    @property
    def usable(self) -> bool:
        """Whether it is open and in no transaction."""
        return not self.connection.closed and self._pg.transaction_status == self._idle

    def call(self, values: Sequence[Any]) -> list[Any]:
        """The one row of the prepared statement for these bytes (or ``None``), in PostgreSQL's own text.

        Raises:
            StoreBusy: nothing was done.
            StorageError: anything else; the outcome is unknown.
        """
        try:
            result = self._pg.exec_prepared(_NAME, values)
        except (self._error, OSError) as problem:
            raise _translated(self._what, problem, {_LOCKED}) from problem
        if result.status != self._rows or result.ntuples != 1:
            raise self._failure(result)
        return [result.get_value(0, column) for column in range(result.nfields)]

    def _failure(self, result: Any) -> StorageError | StoreBusy:
        state = (result.error_field(self._state) or b"the connection is lost").decode()
        # The call may have committed before a deadlock: it is not among the states that say that nothing was done.
        return _failure(self._what, result.error_message.decode(errors="replace"), state, {_LOCKED})


class PostgresDatabase:
    """A schema of a PostgreSQL database; so many connections at most, made when they are needed.

    Args:
        place: ``postgresql://host/database``, with ``#name`` for a schema of another name than ``tacit_ledger``.
            Parts that are left out (password, service) come from libpq's environment and files.
        what: its name in messages.
        settings: of every connection, such as ``lock_timeout=30s``.
        most: connections.
        prepared: the statement of :meth:`call`.
    """

    def __init__(self, place: str, *, what: str, settings: Sequence[str], most: int, prepared: str = "") -> None:
        self._address, _, schema = place.partition("#")
        self.schema = schema or _SCHEMA
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,50}", self.schema):
            raise StorageError(f"{self.schema!r} cannot name a ledger: use small letters, digits and underscores")
        #: Server, database and schema, without passwords.
        self.place = _shown(self._address, self.schema)
        path = f"search_path={self.schema},pg_catalog"
        self._options = " ".join(f"-c {setting}" for setting in (path, *_SETTINGS, *settings))
        self._what, self._at = what, f"{what} {self.place}"
        self._prepared, self._most = prepared, most
        self._made = self._waiting = 0
        self._change = threading.Condition()
        self._free: list[_PooledConnection] = []
        self._closed = False
        self._pid = os.getpid()

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""
        with self._borrowed() as link:
            return _rows(link.connection, statement, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """A short transaction."""
        with self._borrowed() as link, link.connection.transaction():
            yield partial(_rows, link.connection)

    @contextmanager
    def snapshot(self) -> Iterator[Run]:
        """Statements in one read-only transaction."""
        with self._borrowed() as link, link.connection.transaction():
            link.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            link.connection.execute("SELECT FROM pg_class LIMIT 1")  # the moment is that of the first look

            def read(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                with failures(self._at):
                    return _rows(link.connection, statement, values)

            yield read

    def call(self, values: Sequence[Any]) -> list[Any]:
        """The one row of the prepared statement; see :class:`StoreBusy` for when nothing was done."""
        self._check_process()
        link = self._acquire()
        try:
            row = link.call(values)
        except BaseException:
            self._discard(link)
            raise
        self._release(link)
        return row

    def prepare(self, schema: Schema, check: Callable[[Run], None] | None = None) -> None:
        """Make the tables of a schema where there are none, on a connection without the prepared statement.

        Args:
            schema: the tables.
            check: refuses a server, or makes the table of the version, in the same transaction.
        """
        with failures(self._at), self._connect() as connection, connection.transaction():
            run = partial(_rows, connection)
            run("SELECT set_config('lock_timeout', ?, true)", (f"{_PATIENCE}s",))
            # Two processes must not prepare one schema at once.
            run("SELECT pg_advisory_xact_lock(?, hashtext(?))", (schema.lock, self.schema))
            if check is not None:
                check(run)
            make_tables(run, schema)

    def close(self) -> None:
        """Close the connections that are not in use; the rest is closed when it comes back."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._free.pop().connection.close()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StorageError(f"{self._what} was opened before a fork; open it again in the child")

    @contextmanager
    def _borrowed(self) -> Iterator[_PooledConnection]:
        self._check_process()
        link = self._acquire()
        try:
            with failures(self._at):
                yield link
        except (StorageError, StoreBusy):
            self._discard(link)
            raise
        except BaseException:
            # A block that raised on its own account leaves a connection as good as before.
            (self._release if link.usable else self._discard)(link)
            raise
        self._release(link)

    def _acquire(self) -> _PooledConnection:
        """A connection for one user at a time; the last one that came back, for it is warm."""
        try:
            return self._free.pop()
        except IndexError:
            return self._another()

    def _another(self) -> _PooledConnection:
        with self._change:
            # From here on a release notifies; a connection that came back before is found.
            self._waiting += 1
            try:
                if not self._change.wait_for(lambda: self._free or self._made < self._most, _PATIENCE):
                    raise StoreBusy("no connection to the ledger's database became free, and nothing was charged")
                if self._free:
                    return self._free.pop()
                self._made += 1
            finally:
                self._waiting -= 1
        try:
            with failures(self._at):
                return _PooledConnection(self._connect(), self._at, self._prepared)
        except BaseException:
            self._gone()
            raise

    def _connect(self) -> psycopg.Connection[Any]:
        import psycopg

        return psycopg.connect(self._address, autocommit=True, options=self._options)

    def _release(self, link: _PooledConnection) -> None:
        """Take back a connection that worked."""
        self._free.append(link)
        if self._closed:
            self.close()
        elif self._waiting:
            with self._change:
                self._change.notify()

    def _discard(self, link: _PooledConnection) -> None:
        """Take back a connection that failed."""
        link.connection.close()
        self._gone()

    def _gone(self) -> None:
        with self._change:
            self._made -= 1
            self._change.notify()


def _rows(connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    # The driver's marks for values, in place of the query marks of shared statements.
    cursor = connection.execute(statement.replace("?", "%s"), values) if values else connection.execute(statement)
    return [] if cursor.description is None else cursor.fetchall()


def _shown(address: str, schema: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(address)
    except Exception as problem:
        raise StorageError("the ledger's address is not one that PostgreSQL understands") from problem
    names = [f"{parts[word]}" for word in ("service", "host", "port", "dbname") if parts.get(word)]
    return f"postgresql:{'/'.join(names)}#{schema}"


def array_text(values: Sequence[str]) -> bytes:
    """An array in PostgreSQL's own text."""
    quoted = ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]
    return ("{" + ",".join(quoted) + "}").encode()
