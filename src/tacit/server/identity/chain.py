"""People as recorded in the ledger's chain, to detect rollback of their tables.

The identity of a person (role, populations, whether revoked) is read from the chain every time. The tables of people
hold only their credentials. Every credential that is issued or withdrawn is also an entry of the chain, and each row
of the tables holds the position of its entry, its *birth*:

* a token or a session is valid only if it was not withdrawn or ended, and its birth is after the last *end* of its
  person;
* a link is valid only if its birth is after that end, and no later link was made or used for its person.

An end is the position of the entry that revoked the person, or that adopted the ledger: in the latter case it is
unknown what was withdrawn in the lost part, so all people need new credentials. Ends only grow, births never change.

*Rollback of the whole database.* Tables and chain are in one database. An older copy of it is older than its anchor, so
the ledger is not opened; if an operator adopts it nevertheless, that is an end for all people.

*Rollback of the tables alone.* If the tables are older than the chain, then so is the position up to which they have
read it (``people_seen``). Opening reads the chain from there and applies what the tables lack: revocations,
withdrawals, ended sessions, used links. If that position is not in the chain at all, the tables belong to another
history; they are emptied.

*Undetected.* Someone who can write single rows can give anyone access, as can the holder of the key file. Neither
lowers the spent budget: only the ledger decides about charges.

*Tables.* They are in the ledger's database. Statements have ``?`` for values, and ``RETURNING`` where it matters
whether a row changed. Each change is one statement that includes its condition, so that of two processes one wins, even
if transactions run concurrently. Times are whole milliseconds since 1970; ``born`` and ``ended`` are positions in the
chain.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.ledger import Analyst, Ledger, LedgerError
from tacit.ledger.database import Database, Run, Schema
from tacit.ledger.entries import plain_name
from tacit.ledger.errors import storage_errors
from tacit.ledger.journal import entries_of, read_body
from tacit.ledger.memory import MEMORY
from tacit.ledger.opening import is_postgres
from tacit.ledger.protocol import Name, Reader

# -- people


class Role(StrEnum):
    """Role of a person."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"


class TokenScope(StrEnum):
    """Right of a person: ask queries, read everyone's queries, administer people."""

    ASK = "ask"
    AUDIT = "audit"
    ADMIN = "admin"


_SCOPES: Final[Mapping[Role, frozenset[TokenScope]]] = {
    Role.OWNER: frozenset(TokenScope),
    Role.ANALYST: frozenset({TokenScope.ASK}),
    Role.AUDITOR: frozenset({TokenScope.AUDIT}),
}


@dataclass(frozen=True, slots=True)
class Person:
    """A person as recorded in the ledger.

    Args:
        name: normalized name.
        active: False once revoked.
        populations: populations that the person may see; ``None`` for all.
        identity: issuer and subject, for a person of an OpenID provider; empty for one who was registered here.
    """

    name: str
    role: Role
    active: bool
    populations: frozenset[str] | None = None
    identity: str = ""

    @property
    def scopes(self) -> frozenset[TokenScope]:
        """Rights of the person; none once revoked."""
        return _SCOPES[self.role] if self.active else frozenset()


# -- the tables

_WHAT: Final = "the people of the ledger"
_POSTGRES_SETTINGS: Final = ("lock_timeout=30s",)
_CONNECTIONS: Final = 4
_LOCK: Final = 0x70656F70

_SQLITE: Final = {"integer": "INTEGER", "text": "TEXT", "bytes": "BLOB", "end": "STRICT"}
_POSTGRES: Final = {"integer": "BIGINT", "text": 'TEXT COLLATE "C"', "bytes": "BYTEA", "end": ""}

#: Placeholders in braces differ between databases.
_TABLES: Final = (
    # Position and hash of the last entry of the chain that was applied.
    "CREATE TABLE people_seen (seq {integer} NOT NULL, hash {text} NOT NULL) {end}",
    "INSERT INTO people_seen VALUES (0, '')",
    # The row with name '' applies to all people.
    """
    CREATE TABLE people_persons (name {text} PRIMARY KEY, ended {integer} NOT NULL) {end}
    """,
    "INSERT INTO people_persons VALUES ('', 0)",
    # Owners of the names of OpenID people: if two claim a name concurrently, one gets it.
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
)


class PeopleTables:
    """Tables of people in one database; thread-safe.

    Every failure is a :class:`LedgerError`; if another program held the database for too long, a :class:`BusyError`,
    and then nothing was written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that changes nothing."""
        with storage_errors():
            return self._database.read(statement, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """Open a transaction: durable when the block ends, rolled back when it raises. Keep it short."""
        with storage_errors(), self._database.write() as run:
            yield run

    def close(self) -> None:
        self._database.close()


#: In-memory tables of in-memory ledgers: one per ledger, however often it is opened.
_in_memory: Final[weakref.WeakKeyDictionary[Ledger, PeopleTables]] = weakref.WeakKeyDictionary()


def open_tables(ledger: Ledger, place: str | os.PathLike[str]) -> PeopleTables:
    """Open the tables in a ledger's database, and create them if they do not exist."""
    if place == MEMORY and ledger in _in_memory:
        return _in_memory[ledger]
    with storage_errors():
        database = _database(place)
        try:
            first = "CREATE TABLE IF NOT EXISTS people_version (version {integer} NOT NULL) {end}"
            words = _POSTGRES if is_postgres(place) else _SQLITE
            database.prepare(Schema("the tables of people have", _TABLES, "people_version", first, words, _LOCK))
        except BaseException:
            database.close()
            raise
    tables = PeopleTables(database)
    if place == MEMORY:
        _in_memory[ledger] = tables
    return tables


def _database(place: str | os.PathLike[str]) -> Database:
    if is_postgres(place):
        from tacit.ledger.postgres import PostgresDatabase

        return PostgresDatabase(str(place), what=_WHAT, settings=_POSTGRES_SETTINGS, most=_CONNECTIONS)
    from tacit.ledger.sqlite import MemoryDatabase, SqliteDatabase, failures

    if place == MEMORY:
        return MemoryDatabase(_WHAT)
    path = Path(place).resolve()
    with failures(_WHAT):
        return SqliteDatabase(path, what=_WHAT)


# -- the chain

#: Kinds of notes in the chain.
ISSUED: Final = "token issued"
WITHDRAWN: Final = "token withdrawn"
LINKED: Final = "link made"
SET_UP_OFFERED: Final = "set-up offered"
OPENED: Final = "session opened"
CLOSED: Final = "session ended"

#: Kinds of entries that the tables apply.
_KINDS: Final = frozenset({"analyst", "note", "adopted"})
_AT_ONCE: Final = 1000
_MOST_KNOWN: Final = 10_000


class Chain:
    """People as recorded in a ledger, read from its store even after the ledger has stopped.

    The newest entry of a name is looked up on every call; the entry itself never changes and is cached.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[int, Analyst] = {}

    def analyst(self, name: str) -> Analyst | None:
        """Return the newest entry of a normalized name; None if there is none.

        This takes one look-up; an entry not yet cached takes a second one, which verifies it against the chain.
        """
        with storage_errors():
            seq = self._reader.find(Name("analyst", name))
            if seq is None:
                return None
            known = self._known.get(seq)
            if known is None:
                body = read_body(self._reader, seq)
                known = Analyst(body["name"], body["active"], body["details"], seq)
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                self._known[seq] = known
        if known.name != name:
            raise LedgerError(f"entry {seq} is not about {name}")
        return known


def open_chain(ledger: Ledger, place: str | os.PathLike[str], tables: PeopleTables) -> Chain:
    """Open the people of a ledger, after updating the tables to its newest entry."""
    reader = ledger.journal.store
    if place != MEMORY:
        first = tables.read("SELECT body FROM entries WHERE seq = 1")
        if not first or json.loads(first[0][0])["ledger"] != ledger.id:
            raise InputError("place", "is not where the ledger is kept")
        with storage_errors():
            catch_up(reader, tables)
    return Chain(reader)


def catch_up(reader: Reader, tables: PeopleTables) -> None:
    """Apply the entries of the chain that the tables have not applied yet."""
    seq, known = tables.read("SELECT seq, hash FROM people_seen")[0]
    if seq and ((found := reader.entry(seq)) is None or found.hash != known):
        _forget_everything(tables, seq, known)
        seq = 0
    news: list[tuple[int, dict[str, Any]]] = []
    head = None
    for entry, body in entries_of(reader, _KINDS, after=seq):
        head = entry.head
        if body is not None:
            news.append((entry.seq, body))
        if len(news) >= _AT_ONCE:
            _carry_out(tables, news, *head)
            news = []
    if head is not None:
        _carry_out(tables, news, *head)


def _carry_out(tables: PeopleTables, news: list[tuple[int, dict[str, Any]]], seq: int, known: str) -> None:
    with tables.write() as run:
        for place, body in news:
            _apply(run, place, body)
        # Another process may have applied later entries in the meantime.
        run("UPDATE people_seen SET seq = ?, hash = ? WHERE seq < ?", (seq, known, seq))


def _apply(run: Run, seq: int, body: dict[str, Any]) -> None:
    if body["kind"] == "adopted":
        end(run, "", seq)
    elif body["kind"] == "analyst" and not body["active"]:
        end(run, body["name"], seq)
    elif body["kind"] != "note":
        return
    elif body["note"] == WITHDRAWN:
        withdraw(run, _word(body["fields"], "token"), seq)
    elif body["note"] == CLOSED:
        run("DELETE FROM people_sessions WHERE id = ?", (_word(body["fields"], "session"),))
    elif body["note"] in (LINKED, OPENED):
        # A session opened through a provider also invalidates an unused link.
        run("DELETE FROM people_links WHERE name = ? AND born < ?", (_word(body["fields"], "analyst"), seq))


def _word(fields: dict[str, Any], key: str) -> str:
    """Return a field of a note; empty if it is no printable text, since every holder of the ledger may write notes."""
    value = fields.get(key)
    return value if isinstance(value, str) and value.isprintable() else ""


def end(run: Run, name: str, seq: int) -> None:
    """End every credential of a person born before ``seq``; the name ``""`` means all people."""
    run(
        "INSERT INTO people_persons (name, ended) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET ended = excluded.ended WHERE people_persons.ended < excluded.ended",
        (name, seq),
    )


def withdraw(run: Run, token: str, seq: int) -> None:
    run("UPDATE people_tokens SET withdrawn = ? WHERE id = ? AND withdrawn <= 0", (seq, token))


def _forget_everything(tables: PeopleTables, seq: int, known: str) -> None:
    """Empty the tables, unless another process has done so already."""
    with tables.write() as run:
        if not run("UPDATE people_seen SET seq = 0, hash = '' WHERE seq = ? AND hash = ? RETURNING seq", (seq, known)):
            return
        for table in ("tokens", "sessions", "links", "entries", "identities", "persons"):
            run(f"DELETE FROM people_{table}", ())  # noqa: S608
        run("INSERT INTO people_persons VALUES ('', 0)", ())


def person_of(analyst: Analyst) -> Person:
    """Return the person that a ledger entry describes; details that cannot be interpreted give no rights."""
    try:
        role = Role(analyst.details.get("role", Role.ANALYST))
    except ValueError:
        role = Role.ANALYST
    stated = analyst.details.get("populations")
    if stated is None:
        populations = None
    else:
        listed = stated if isinstance(stated, list) else []
        populations = frozenset(one for one in listed if isinstance(one, str))
    identity = analyst.details.get("identity", "")
    return Person(analyst.name, role, analyst.active, populations, identity if isinstance(identity, str) else "")


def details_of(role: Role, populations: frozenset[str] | None, identity: str = "") -> dict[str, Any]:
    """Return the details of a person for an entry in the chain."""
    named = {"identity": identity} if identity else {}
    return {"role": role.value, "populations": None if populations is None else sorted(populations), **named}


def spelled(name: object, parameter: str = "name") -> str:
    """Return the normalized form of a name; refuse a long text before examining it."""
    if not isinstance(name, str) or len(name) > 1000:
        raise InputError(parameter, "must be 1 to 200 printable characters")
    return plain_name(name, parameter)
