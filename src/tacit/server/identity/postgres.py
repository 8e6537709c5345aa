"""PostgreSQL storage of people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from tacit.ledger import BusyError, LedgerError
from tacit.server.identity.migrations import POSTGRES, bring_up_to_date
from tacit.server.identity.storage import Run

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

__all__ = ["PostgresTables"]

_SCHEMA: Final = "tacit_ledger"
_PATIENCE: Final = 30
_CONNECTIONS: Final = 4
#: Any number will do, if it is always the same: two processes must not prepare one schema at once.
_PREPARING: Final = 0x70656F70


class PostgresTables:
    """See :class:`tacit.server.identity.storage.PeopleTables`."""

    def __init__(self, pool: ConnectionPool[Any]) -> None:
        self._pool = pool
        self._pid = os.getpid()

    @classmethod
    def open(cls, place: str) -> Self:
        """The tables in the schema that a ledger has been opened in."""
        from psycopg_pool import ConnectionPool

        address, _, schema = place.partition("#")
        schema = schema or _SCHEMA
        settings = {
            "autocommit": True,
            "options": f"-c search_path={schema},pg_catalog -c lock_timeout={_PATIENCE}s -c synchronous_commit=on "
            f"-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off",
        }
        with failures():
            pool = ConnectionPool(
                address, kwargs=settings, min_size=1, max_size=_CONNECTIONS, timeout=_PATIENCE, open=True
            )
            tables = cls(pool)
        try:
            with tables.write() as run:
                run("SELECT pg_advisory_xact_lock(?, hashtext(?))", (_PREPARING, schema))
                bring_up_to_date(run, POSTGRES)
        except BaseException:
            tables.close()
            raise
        return tables

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""
        with self._borrowed() as connection:
            return _rows(connection, statement, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """A short transaction."""
        with self._borrowed() as connection, connection.transaction():
            yield lambda statement, values: _rows(connection, statement, values)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    @contextmanager
    def _borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        if os.getpid() != self._pid:
            raise LedgerError("the people were opened before a fork; open them again in the child")
        with failures(), self._pool.connection() as connection:
            yield connection


def _rows(connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(statement.replace("?", "%s"), values)
    return [] if cursor.description is None else cursor.fetchall()


@contextmanager
def failures() -> Iterator[None]:
    """Whatever PostgreSQL says, as errors of the tree; without the words of the connection or of a statement."""
    import psycopg
    from psycopg_pool import PoolTimeout

    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        raise BusyError("another client holds the people of the ledger") from None
    except PoolTimeout:
        raise BusyError("no connection to the ledger's database became free") from None
    except (psycopg.Error, OSError) as problem:
        state = getattr(problem, "sqlstate", None) or type(problem).__name__
        raise LedgerError(f"the people in the ledger's database cannot be used ({state})") from problem
