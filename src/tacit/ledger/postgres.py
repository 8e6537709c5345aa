"""PostgreSQL storage of a ledger.

*One call a step.* The procedure ``append`` (in :mod:`tacit.ledger.postgres_schema`) takes the ledger's lock,
decides and writes, so every step is one round trip.

*Durable, and not waiting for one another.* A commit that waits for the disk holds the lock meanwhile, and one account
would get one charge per sync. So a step commits without waiting, which gives the lock on, and then waits for an empty
commit of its own. The log is flushed in order: once that commit is on disk, the step before it is. Many waiting clients
share one sync. A step or a reader may *learn* of such a step of another client, so both wait as well before they
tell; nothing that leaves this module can be lost by a crash.

*Honest.* A server that does not sync (``fsync`` off), or a standby, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, Self

from tacit.ledger.postgres_schema import TABLES
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
)
from tacit.ledger.sql_reader import TableReader
from tacit.ledger.storage.database import Run, Schema, StorageError
from tacit.ledger.storage.postgres_database import PostgresDatabase, array_text

_PATIENCE: Final = 30
_CONNECTIONS: Final = 8
_LOCK: Final = 0x7461636974 % 2**31
#: Every statement of a ledger is a look-up by an index or a walk along one. Plans are kept, so none may be made for
#: tables that were still empty.
_SETTINGS: Final = (
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


class PostgresStore(TableReader):
    """The store protocol on a schema of a PostgreSQL database; any number of threads, processes and machines."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database.read)
        self._database = database
        self._patience = b"%ds" % _PATIENCE

    @classmethod
    def open(cls, place: str, *, create: bool = True) -> Self:
        """Open the ledger, making its tables first where there are none."""
        database = PostgresDatabase(place, what="the ledger", settings=_SETTINGS, most=_CONNECTIONS, prepared=_APPEND)
        schema = Schema("the ledger has", TABLES, "version", lock=_LOCK)
        database.prepare(schema, lambda run: _check_server(run, database.schema, create=create))
        store = cls(database)
        store._rows("SELECT seq FROM entries LIMIT 1", ())  # what is wrong with the tables is found at once
        return store

    @property
    def place(self) -> str:
        """Server, database and schema."""
        return self._database.place

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        names = (*step.bars, *step.claims, *step.puts)
        values = (
            step.body.encode(),
            *_moves(tuple(step.moves)),
            *_names(names),
            b"%d" % len(step.bars),
            b"%d" % len(step.claims),
            _json([[*cap.key, None if cap.cap is None else str(cap.cap)] for cap in step.caps]),
            _json(step.drops),
            *_attachments(step.attachments),
            self._patience,
        )
        verdict, place, details, newest, hashes = self._database.call(values)
        if verdict == b"placed":
            return _placed(int(place), int(newest), hashes[2:].decode())
        if verdict == b"taken":
            return AlreadyTaken(names[int(details) - 1], int(place))
        words = details.split()
        return InsufficientBudget(
            tuple(
                BalanceState(step.moves[int(words[at]) - 1].key, int(words[at + 1]), int(words[at + 2]))
                for at in range(0, len(words), 3)
            )
        )

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A reader in one read-only transaction."""
        with self._database.snapshot() as read:
            yield TableReader(read, still=True)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def head(self) -> Head:
        """The last entry's place and hash."""
        found = super().head()
        self._flush()
        return found

    def find(self, name: Name) -> int | None:
        """The entry that a name stands for; everything that is read about it afterwards is on disk."""
        found = super().find(name)
        self._flush()
        return found

    def _flush(self) -> None:
        """Wait until everything that could be read is on disk, whichever client wrote it."""
        if self._rows("SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()", ()) != [(True,)]:
            self._rows(_FLUSH, ())


def _check_server(run: Run, schema: str, *, create: bool) -> None:
    """Refuse a server that is not durable, and make the schema of a new ledger."""
    for setting in ("fsync", "full_page_writes"):
        if run("SELECT current_setting(?)", (setting,)) != [("on",)]:
            raise StorageError(f"the server runs with {setting} = off, so nothing it says is durable")
    if run("SELECT pg_is_in_recovery()", ()) != [(False,)]:
        raise StorageError("the server is a standby; a ledger needs the one that is written to")
    if run("SELECT to_regclass(?) IS NOT NULL", (f"{schema}.version",)) != [(True,)]:
        if not create:
            raise StorageError(f"there is no ledger in the schema {schema}")
        run(f"CREATE SCHEMA IF NOT EXISTS {schema}", ())
        run("CREATE TABLE version (version INTEGER NOT NULL)", ())


@lru_cache(maxsize=1024)
def _moves(moves: tuple[BalanceChange, ...]) -> tuple[bytes, ...]:
    """Accounts, owners, currencies, amounts, and which may be opened: the same for equal charges of one analyst."""
    return (
        array_text([move.key.account for move in moves]),
        array_text([move.key.owner for move in moves]),
        array_text([move.key.currency for move in moves]),
        array_text([str(move.amount) for move in moves]),
        array_text(["t" if move.opens else "f" for move in moves]),
    )


def _names(names: Sequence[Name]) -> tuple[bytes, bytes]:
    """Spaces and keys."""
    return array_text([name.space for name in names]), array_text([name.key for name in names])


def _attachments(attachments: Mapping[str, bytes]) -> tuple[bytes | None, bytes | None]:
    """Titles and contents."""
    return (
        (array_text([*attachments]), array_text(["\\x" + content.hex() for content in attachments.values()]))
        if attachments
        else (None, None)
    )


def _placed(place: int, newest: int, hashes: str) -> Appended:
    """The answer of ``append`` about an entry, from the hashes of the newest entries, newest first."""
    found = [hashes[at : at + 64] for at in range(0, len(hashes), 64)]
    own = newest - place
    previous = found[own + 1] if place > 1 else GENESIS.hash
    return Appended(Head(place, found[own]), previous, RecentHeads.of(Head(newest, found[0]), found[1:]))


def _json(values: Sequence[Any]) -> bytes | None:
    return json.dumps(values).encode() if values else None
