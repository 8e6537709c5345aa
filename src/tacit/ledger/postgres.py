"""PostgreSQL storage of a ledger.

*One call a step.* The procedure ``append`` (in :mod:`tacit.ledger.migrations.postgres`) takes the ledger's lock,
decides and writes, so a step is one round trip, whatever it claims and moves.

*Durable, and not waiting for one another.* A commit that waits for the disk holds the lock meanwhile, and one account
would get one charge per sync. So a step commits without waiting, which gives the lock on, and then waits for an empty
commit of its own. The log is flushed in order: once that commit is on disk, the step before it is. Many waiting clients
share one sync. What a step or a reader *learns* may be such a step of somebody else's, so both wait as well before they
tell; nothing that leaves this module can be lost by a crash.

*Honest.* A server that does not sync (``fsync`` off), or a standby, is refused.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from tacit.ledger.migrations.postgres import MIGRATIONS
from tacit.ledger.postgres_pool import ConnectionPool, failures, texts
from tacit.ledger.protocol import (
    GENESIS,
    AlreadyTaken,
    Appended,
    BalanceChange,
    BalanceState,
    Head,
    InsufficientBudget,
    Name,
    Reader,
    RecentHeads,
    Step,
    StorageError,
)
from tacit.ledger.sql_reader import TableReader

if TYPE_CHECKING:
    import psycopg

__all__ = ["PostgresStore"]

_SCHEMA: Final = "tacit_ledger"
_PATIENCE: Final = 30
_CONNECTIONS: Final = 8
#: Any number will do, if it is always the same: two processes must not prepare one schema at once.
_PREPARING: Final = 0x7461636974
#: Every statement of a ledger is a look-up by an index or a walk along one. Plans are kept, so none may be made for
#: tables that were still empty.
_SETTINGS: Final = (
    "synchronous_commit=on",
    "default_transaction_isolation=read\\ committed",
    "default_transaction_read_only=off",
    "lock_timeout=0",
    "plan_cache_mode=force_generic_plan",
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "jit=off",
)
_APPEND: Final = f"CALL append({', '.join(f'${number}' for number in range(1, 16))}, NULL, NULL, NULL, NULL, NULL)"
#: An empty commit that waits for the disk, and so for everything before it.
_FLUSH: Final = "SELECT pg_logical_emit_message(true, 'tacit', '')"


class PostgresReader(TableReader):
    """The reader protocol on one connection and in one transaction."""

    def __init__(self, connection: psycopg.Connection[Any], place: str) -> None:
        super().__init__(still=True)
        self._connection = connection
        self._place = place

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with failures(self._place):
            return self._connection.execute(_own_marks(statement), values).fetchall()


class PostgresStore(TableReader):
    """The store protocol on a schema of a PostgreSQL database; any number of threads, processes and machines."""

    def __init__(self, links: ConnectionPool, place: str, migrated: tuple[int, int] | None) -> None:
        super().__init__()
        self._links = links
        self._patience = b"%ds" % _PATIENCE
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
        address, _, schema = place.partition("#")
        schema = schema or _SCHEMA
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,50}", schema):
            raise StorageError(f"{schema!r} cannot name a ledger: use small letters, digits and underscores")
        shown = _shown(address, schema)
        options = " ".join(f"-c {setting}" for setting in (f"search_path={schema},pg_catalog", *_SETTINGS))
        links = ConnectionPool(address, options, shown, prepared=_APPEND, most=_CONNECTIONS, patience=_PATIENCE)
        with failures(shown), links.connect() as connection:
            migrated = _prepare(connection, schema, migrations, create)
        links.give(links.take())  # what is wrong with the tables is found at once
        return cls(links, shown, migrated)

    @property
    def place(self) -> str:
        """Server, database and schema."""
        return self._place

    @property
    def migrated(self) -> tuple[int, int] | None:
        """Versions before and after, where opening has changed them; a new schema has not been migrated."""
        return self._migrated

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        self._check_process()
        names = (*step.bars, *step.claims, *step.puts)
        values = (
            step.body.encode(),
            *_moves(tuple(step.moves)),
            *_names(names),
            b"%d" % len(step.bars),
            b"%d" % len(step.claims),
            _json([[*cap.pocket, None if cap.cap is None else str(cap.cap)] for cap in step.caps]),
            _json(step.drops),
            *_papers(step.papers),
            self._patience,
        )
        link = self._links.take()
        try:
            verdict, place, details, newest, trail = link.call(values)
        except BaseException:
            self._links.drop(link)
            raise
        self._links.give(link)
        if verdict == b"placed":
            return _placed(int(place), int(newest), trail[2:].decode())
        if verdict == b"taken":
            return AlreadyTaken(names[int(details) - 1], int(place))
        words = details.split()
        return InsufficientBudget(
            tuple(
                BalanceState(step.moves[int(words[at]) - 1].pocket, int(words[at + 1]), int(words[at + 2]))
                for at in range(0, len(words), 3)
            )
        )

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A reader in one read-only transaction."""
        with self._borrowed() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            connection.execute("SELECT FROM entries LIMIT 1")  # the moment is that of the first look
            yield PostgresReader(connection, self._place)

    def close(self) -> None:
        """Close all connections."""
        self._links.close()

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
        self._check_process()
        link = self._links.take()
        try:
            with failures(self._place):
                yield link.connection
        except BaseException:
            self._links.drop(link)
            raise
        self._links.give(link)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StorageError("the ledger was opened before a fork; open it again in the child")


def _prepare(
    connection: psycopg.Connection[Any], schema: str, migrations: Sequence[Sequence[str]], create: bool
) -> tuple[int, int] | None:
    """Look at the server, and bring the tables up to date."""
    with connection.transaction():
        run = connection.execute
        for setting in ("fsync", "full_page_writes"):
            if run("SELECT current_setting(%s)", (setting,)).fetchone() != ("on",):
                raise StorageError(f"the server runs with {setting} = off, so nothing it says is durable")
        if run("SELECT pg_is_in_recovery()").fetchone() != (False,):
            raise StorageError("the server is a standby; a ledger needs the one that is written to")
        run("SELECT set_config('lock_timeout', %s, true)", (f"{_PATIENCE}s",))
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


@lru_cache(maxsize=1024)
def _moves(moves: tuple[BalanceChange, ...]) -> tuple[bytes, ...]:
    """Accounts, owners, currencies, amounts, and which may be opened: the same for equal charges of one analyst."""
    return (
        texts([move.pocket.account for move in moves]),
        texts([move.pocket.owner for move in moves]),
        texts([move.pocket.currency for move in moves]),
        texts([str(move.amount) for move in moves]),
        texts(["t" if move.opens else "f" for move in moves]),
    )


def _names(names: Sequence[Name]) -> tuple[bytes, bytes]:
    """Spaces and keys."""
    return texts([name.space for name in names]), texts([name.key for name in names])


def _papers(papers: Mapping[str, bytes]) -> tuple[bytes | None, bytes | None]:
    """Titles and contents."""
    return (texts([*papers]), texts(["\\x" + paper.hex() for paper in papers.values()])) if papers else (None, None)


def _placed(place: int, newest: int, hashes: str) -> Appended:
    """What ``append`` says of an entry, and of those that are there by now, newest first."""
    found = [hashes[at : at + 64] for at in range(0, len(hashes), 64)]
    own = newest - place
    previous = found[own + 1] if place > 1 else GENESIS.hash
    return Appended(Head(place, found[own]), previous, RecentHeads.of(Head(newest, found[0]), found[1:]))


def _json(values: Sequence[Any]) -> bytes | None:
    return json.dumps(values).encode() if values else None


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
