"""A ledger in a PostgreSQL database, for several processes and machines.

*One statement a step.* The function ``append`` (in :mod:`tacit.ledger.migrations.postgres`) locks the head, decides and
writes, so a step is one round trip, whatever it claims and moves; a second one waits for the disk.

*Durable, and not waiting for one another.* A commit that waits for the disk holds the head's lock meanwhile, and one
account would get one charge per sync. So a step commits without waiting, which gives the lock on, and then waits for an
empty commit of its own. The log is flushed in order: once that commit is on disk, the step before it is. Many waiting
clients share one sync. What a step or a reader *learns* may be such a step of somebody else's, so both wait as well
before they tell; nothing that leaves this module can be lost by a crash.

*Honest.* A server that does not sync (``fsync`` off), or a standby, is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from tacit.ledger.migrations.postgres import MIGRATIONS
from tacit.ledger.protocol import (
    Head,
    Level,
    Name,
    Placed,
    Pocket,
    Reader,
    Short,
    Step,
    StorageError,
    StoreBusy,
    Taken,
)
from tacit.ledger.table_reader import TableReader

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

__all__ = ["PostgresStore"]

_SCHEMA: Final = "tacit_ledger"
_PATIENCE: Final = 30
_CONNECTIONS: Final = 8
#: Any number will do, if it is always the same: two processes must not prepare one schema at once.
_PREPARING: Final = 0x7461636974
_APPEND: Final = (
    "SELECT verdict, place, digest, before, details, set_config('synchronous_commit', 'off', true) "
    "FROM append(%s, %s, %s, %s, %s, %s, %s, %s)"
)
#: An empty commit that waits for the disk, and so for everything before it.
_FLUSH: Final = "SELECT pg_logical_emit_message(true, 'tacit', '')"


@contextmanager
def _failures(place: str) -> Iterator[None]:
    """Whatever PostgreSQL says becomes a :class:`StorageError`, without the words of the connection."""
    import psycopg
    from psycopg_pool import PoolTimeout

    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise StoreBusy("another client holds the ledger") from None
    except PoolTimeout:
        raise StoreBusy("no connection to the ledger's database became free") from None
    except (psycopg.Error, OSError) as problem:
        state = getattr(problem, "sqlstate", None) or type(problem).__name__
        raise StorageError(f"the ledger {place}: {_first_line(problem)} ({state})") from problem


class PostgresReader(TableReader):
    """The reader protocol on one connection and in one transaction."""

    def __init__(self, connection: psycopg.Connection[Any], place: str) -> None:
        super().__init__(still=True)
        self._connection = connection
        self._place = place

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with _failures(self._place):
            return self._connection.execute(_own_marks(statement), values).fetchall()


class PostgresStore(TableReader):
    """The store protocol on a schema of a PostgreSQL database; any number of threads, processes and machines."""

    def __init__(self, pool: ConnectionPool[Any], place: str, migrated: tuple[int, int] | None) -> None:
        super().__init__()
        self._pool = pool
        self._place = place
        self._migrated = migrated
        self._pid = os.getpid()

    @classmethod
    def open(cls, place: str, *, create: bool = True, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> Self:
        """Open the ledger, making its tables or bringing them up to date first.

        Args:
            place: ``postgresql://host/database``, with ``#name`` for a schema of another name than ``tacit_ledger``.
                What it leaves out (password, service) comes from libpq's environment and files.
            create: whether a new ledger may be made.
            migrations: for tests.
        """
        from psycopg_pool import ConnectionPool

        address, _, schema = place.partition("#")
        schema = schema or _SCHEMA
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,50}", schema):
            raise StorageError(f"{schema!r} cannot name a ledger: use small letters, digits and underscores")
        shown = _shown(address, schema)
        settings = {
            "autocommit": True,
            "options": f"-c search_path={schema},pg_catalog -c lock_timeout={_PATIENCE}s -c synchronous_commit=on "
            f"-c default_transaction_isolation=read\\ committed -c default_transaction_read_only=off",
        }
        with _failures(shown):
            migrated = _prepare(address, settings, schema, migrations, create)
            pool = ConnectionPool(
                address, kwargs=settings, min_size=1, max_size=_CONNECTIONS, timeout=_PATIENCE, open=True,
            )  # fmt: skip
            pool.wait(_PATIENCE)
        return cls(pool, shown, migrated)

    @property
    def place(self) -> str:
        """Server, database and schema."""
        return self._place

    @property
    def migrated(self) -> tuple[int, int] | None:
        """Versions before and after, where opening has changed them; a new schema has not been migrated."""
        return self._migrated

    def append(self, step: Step) -> Placed | Taken | Short:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        values = (
            step.body,
            json.dumps([[*move.pocket, str(move.amount), move.opens] for move in step.moves]),
            json.dumps([[*cap.pocket, None if cap.cap is None else str(cap.cap)] for cap in step.caps]),
            json.dumps([*step.bars, *step.claims]),
            json.dumps([*dict.fromkeys((*step.claims, *step.puts))]),
            json.dumps(step.drops),
            list(step.papers),
            list(step.papers.values()),
        )
        with self._borrowed() as connection:
            row = connection.execute(_APPEND, values, prepare=True).fetchone()
            connection.execute(_FLUSH, prepare=True)
        if row is None:
            raise StorageError("a step was left undone")
        verdict, seq, digest, before, details = row[:5]
        if verdict == "taken":
            return Taken(Name(*details), seq)
        if verdict == "short":
            return Short(tuple(_level(found) for found in details))
        return Placed(Head(seq, digest.hex()), before.hex())

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A reader in one read-only transaction."""
        with self._borrowed() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute("SELECT FROM head")  # the moment is that of the first look
            yield PostgresReader(connection, self._place)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def head(self) -> Head:
        """The last entry's place and hash."""
        with self._flushed():
            return super().head()

    def find(self, name: Name) -> int | None:
        """The entry that a name stands for; whatever is read about it afterwards is on disk."""
        with self._flushed():
            return super().find(name)

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._borrowed() as connection:
            return connection.execute(_own_marks(statement), values).fetchall()

    @contextmanager
    def _flushed(self) -> Iterator[None]:
        """Tell what was read only when it is on disk, whoever wrote it."""
        yield
        with self._borrowed() as connection:
            settled = connection.execute("SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()").fetchone()
            if settled != (True,):
                connection.execute(_FLUSH)

    @contextmanager
    def _borrowed(self) -> Iterator[psycopg.Connection[Any]]:
        if os.getpid() != self._pid:
            raise StorageError("the ledger was opened before a fork; open it again in the child")
        with _failures(self._place), self._pool.connection() as connection:
            yield connection


def _prepare(
    address: str, settings: dict[str, Any], schema: str, migrations: Sequence[Sequence[str]], create: bool
) -> tuple[int, int] | None:
    """Look at the server, and bring the tables up to date."""
    import psycopg

    with psycopg.connect(address, **settings) as connection, connection.transaction():
        run = connection.execute
        for setting in ("fsync", "full_page_writes"):
            if run("SELECT current_setting(%s)", (setting,)).fetchone() != ("on",):
                raise StorageError(f"the server runs with {setting} = off, so nothing it says is durable")
        if run("SELECT pg_is_in_recovery()").fetchone() != (False,):
            raise StorageError("the server is a standby; a ledger needs the one that is written to")
        run("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_PREPARING % 2**31, schema))
        exists = run("SELECT to_regclass(%s) IS NOT NULL", (f"{schema}.version",)).fetchone() == (True,)
        if not exists and not create:
            raise StorageError(f"there is no ledger in the schema {schema}")
        if not exists:
            run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            run("CREATE TABLE version (version INTEGER NOT NULL)")
            run("INSERT INTO version VALUES (0)")
        row = run("SELECT version FROM version").fetchone()
        version = 0 if row is None else row[0]
        if version > len(migrations):
            raise StorageError(
                f"the ledger has version {version} and this Tacit knows {len(migrations)}; use a newer one"
            )
        for statements in migrations[version:]:
            for statement in statements:
                run(statement)
        run("UPDATE version SET version = %s", (len(migrations),))
        return (version, len(migrations)) if 0 < version < len(migrations) else None


def _level(found: Sequence[str | None]) -> Level:
    account, owner, currency, spent, cap = found
    return Level(Pocket(str(account), str(owner), str(currency)), int(spent or 0), None if cap is None else int(cap))


def _own_marks(statement: str) -> str:
    """The driver's marks for values, in place of the question marks that the shared statements use."""
    return statement.replace("?", "%s")


def _shown(address: str, schema: str) -> str:
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(address)
    except Exception as problem:
        raise StorageError("the ledger's address is not one that PostgreSQL understands") from problem
    names = [f"{parts[word]}" for word in ("service", "host", "port", "dbname") if parts.get(word)]
    return f"postgresql:{'/'.join(names)}#{schema}"


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or [""])[0]
