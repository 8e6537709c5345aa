"""Tables of people: their schema, beside the ledger's own tables in the same database.

Statements have ``?`` for values and ask for rows by ``RETURNING`` where it matters whether something changed. Each
change is one statement that says under which condition it happens, so that of two processes one wins, also where
transactions run side by side.

Times are whole milliseconds since 1970; ``born`` and ``ended`` are places in the ledger's chain
(:mod:`tacit.server.identity.ledger_people` says what they are for).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from tacit.ledger import Ledger
from tacit.ledger.errors import storage_errors
from tacit.ledger.memory import MEMORY
from tacit.ledger.opening import is_postgres
from tacit.ledger.storage.database import Database, Run, Schema

_WHAT: Final = "the people of the ledger"
_POSTGRES_SETTINGS: Final = ("lock_timeout=30s",)
_CONNECTIONS: Final = 4
_LOCK: Final = 0x70656F70

_SQLITE: Final = {"integer": "INTEGER", "text": "TEXT", "bytes": "BLOB", "end": "STRICT"}
_POSTGRES: Final = {"integer": "BIGINT", "text": 'TEXT COLLATE "C"', "bytes": "BYTEA", "end": ""}

#: Words in braces differ between databases.
_TABLES: Final = (
    # The last entry of the chain that was read, and its hash.
    "CREATE TABLE people_seen (seq {integer} NOT NULL, hash {text} NOT NULL) {end}",
    "INSERT INTO people_seen VALUES (0, '')",
    # The row of '' is about all people.
    """
    CREATE TABLE people_persons (name {text} PRIMARY KEY, ended {integer} NOT NULL) {end}
    """,
    "INSERT INTO people_persons VALUES ('', 0)",
    # Whose name it is, of people of an OpenID provider: of two who claim a name at once, one has it.
    "CREATE TABLE people_identities (name {text} PRIMARY KEY, identity {text} NOT NULL) {end}",
    """
    CREATE TABLE people_tokens (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        digest {bytes} NOT NULL,
        label {text} NOT NULL,
        scopes {text} NOT NULL,
        born {integer} NOT NULL,
        issued {integer} NOT NULL,
        expires {integer},
        used {integer},
        withdrawn {integer} NOT NULL,
        -- Of SCRAM, for PostgreSQL clients.
        verifier {text},
        -- The epsilon that all charges of a token may amount to, of each population; NULL for no share of its own.
        share {text}
    ) {end}
    """,
    """
    CREATE TABLE people_sessions (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        digest {bytes} NOT NULL,
        -- What opened it, and how long it may be idle.
        entry {text} NOT NULL,
        idle {integer} NOT NULL,
        born {integer} NOT NULL,
        opened {integer} NOT NULL,
        seen {integer} NOT NULL,
        expires {integer} NOT NULL
    ) {end}
    """,
    """
    CREATE TABLE people_links (
        kind {text} NOT NULL,
        name {text} NOT NULL,
        id {text} NOT NULL,
        digest {bytes} NOT NULL,
        born {integer} NOT NULL,
        expires {integer} NOT NULL,
        PRIMARY KEY (kind, name)
    ) {end}
    """,
    """
    CREATE TABLE people_entries (
        id {text} PRIMARY KEY,
        digest {bytes} NOT NULL,
        provider {text} NOT NULL,
        page {text} NOT NULL,
        expires {integer} NOT NULL
    ) {end}
    """,
    """
    CREATE TABLE people_jobs (
        id {text} PRIMARY KEY,
        analyst {text} NOT NULL,
        request {text} NOT NULL,
        created {integer} NOT NULL,
        state {text} NOT NULL,
        outcome {text} NOT NULL,
        worker {text} NOT NULL,
        lease {integer},
        finished {integer},
        -- Number of workers that have taken it.
        tries {integer} NOT NULL DEFAULT 0
    ) {end}
    """,
    "CREATE INDEX people_jobs_open ON people_jobs (state, created)",
    # The key that salts of verifiers follow from.
    "CREATE TABLE people_scram (id {integer} PRIMARY KEY, secret {bytes} NOT NULL) {end}",
)


def schema(*, postgres: bool = False) -> Schema:
    """The tables in a kind of database."""
    return schema_of("the tables of people have", "people_version", _TABLES, _LOCK, postgres=postgres)


def schema_of(what: str, version: str, statements: Sequence[str], lock: int, *, postgres: bool = False) -> Schema:
    """Tables of one kind in a kind of database; ``version`` is the table that holds their version."""
    first = f"CREATE TABLE IF NOT EXISTS {version} (version {{integer}} NOT NULL) {{end}}"
    return Schema(what, statements, version, first, _POSTGRES if postgres else _SQLITE, lock)


class PeopleTables:
    """The tables in one database; for any number of threads.

    Every failure is a :class:`LedgerError`; if another program held the database for too long, a :class:`BusyError`,
    and then nothing was written.
    """

    def __init__(self, database: Database, *, postgres: bool = False) -> None:
        self._database = database
        self._postgres = postgres
        self._prepared: set[Callable[..., Schema]] = set()

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""
        with storage_errors():
            return self._database.read(statement, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """A transaction: durable when the block ends, undone when it raises. Keep it short."""
        with storage_errors(), self._database.write() as run:
            yield run

    def prepared(self, made: Callable[..., Schema]) -> Self:
        """This database with further tables, made where there are none; ``made`` writes their schema."""
        if made not in self._prepared:
            with storage_errors():
                self._database.prepare(made(postgres=self._postgres))
            self._prepared.add(made)
        return self

    def close(self) -> None:
        """Close all connections."""
        self._database.close()


#: Ledgers in memory have their people in memory, once each, however often they are opened.
_in_memory: Final[weakref.WeakKeyDictionary[Ledger, PeopleTables]] = weakref.WeakKeyDictionary()


def open_tables(ledger: Ledger, place: str | os.PathLike[str]) -> PeopleTables:
    """The tables beside a ledger, made first where there are none."""
    if place == MEMORY and ledger in _in_memory:
        return _in_memory[ledger]
    with storage_errors():
        database = _database(place)
        try:
            database.prepare(schema(postgres=is_postgres(place)))
        except BaseException:
            database.close()
            raise
    tables = PeopleTables(database, postgres=is_postgres(place))
    if place == MEMORY:
        _in_memory[ledger] = tables
    return tables


def _database(place: str | os.PathLike[str]) -> Database:
    if is_postgres(place):
        from tacit.ledger.storage.postgres_database import PostgresDatabase

        return PostgresDatabase(str(place), what=_WHAT, settings=_POSTGRES_SETTINGS, most=_CONNECTIONS)
    from tacit.ledger.storage.sqlite_database import MemoryDatabase, SqliteDatabase, failures

    if place == MEMORY:
        return MemoryDatabase(_WHAT)
    path = Path(place).resolve()
    with failures(_WHAT):
        return SqliteDatabase(path, what=_WHAT)
