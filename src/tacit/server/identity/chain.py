"""People as recorded in the ledger's chain, to detect rollback of their tables.

The identity of a person (role, populations, whether revoked) is read from the chain every time. The tables of people
only hold how they prove it. Everything that is handed out or taken back is an entry of the chain as well, and each row
of the tables holds the place of its entry, its *birth*:

* a token or a session opens something only if it was not withdrawn or ended, and its birth is after the last *end* of
  its person;
* a link, if its birth is after that end, and no later link was made or used for its person.

An end is the entry that revoked the person, or that adopted the ledger: then it is unknown what was taken back in the
part that was lost, so all people have to be let in anew. Ends only grow, and births never change.

*Put back whole.* Tables and chain are in one database. An older copy of it is older than its anchor, so the ledger is
not opened; if an operator adopts it nevertheless, that is an end for all people.

*Put back in part.* If the tables are older than the chain, then so is the place up to which they have read it
(``people_seen``). Opening reads the chain from there and carries out what the tables have forgotten: revocations,
withdrawals, ended sessions, used links. If that place is not in the chain at all, the tables are of another history;
they are emptied.

*Not found out.* A writer of single rows can let anyone in, as can the holder of the key file. None of that lowers what
was spent: only the ledger decides about charges.

*Tables.* They stand beside the ledger's own in the same database. Statements have ``?`` for values and ask for rows by
``RETURNING`` where it matters whether something changed. Each change is one statement that says under which condition
it happens, so that of two processes one wins, also where transactions run side by side. Times are whole milliseconds
since 1970; ``born`` and ``ended`` are places in the chain.
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
    """Right of a person: ask queries, look at all queries, decide about people."""

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
    """A person in the ledger.

    Args:
        name: in its one spelling.
        active: whether they may do anything at all.
        populations: whose data exists for them; ``None`` for all.
        identity: issuer and subject, for a person of an OpenID provider; empty for one who was registered here.
    """

    name: str
    role: Role
    active: bool
    populations: frozenset[str] | None = None
    identity: str = ""

    @property
    def scopes(self) -> frozenset[TokenScope]:
        """Their rights; none once revoked."""
        return _SCOPES[self.role] if self.active else frozenset()


# -- the tables

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
    """
    CREATE TABLE people_queries (
        id {text} PRIMARY KEY,
        name {text} NOT NULL,
        title {text} NOT NULL,
        sql {text} NOT NULL,
        options {text} NOT NULL,
        populations {text} NOT NULL,
        shared {integer} NOT NULL,
        saved {integer} NOT NULL
    ) {end}
    """,
    "CREATE INDEX people_queries_of ON people_queries (name, saved)",
    # The key that salts of verifiers follow from.
    "CREATE TABLE people_scram (id {integer} PRIMARY KEY, secret {bytes} NOT NULL) {end}",
)


class PeopleTables:
    """The tables in one database; for any number of threads.

    Every failure is a :class:`LedgerError`; if another program held the database for too long, a :class:`BusyError`,
    and then nothing was written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement that changes nothing."""
        with storage_errors():
            return self._database.read(statement, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """A transaction: durable when the block ends, undone when it raises. Keep it short."""
        with storage_errors(), self._database.write() as run:
            yield run

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

#: Kinds of entries that the tables follow.
_KINDS: Final = frozenset({"analyst", "note", "adopted"})
_AT_ONCE: Final = 1000
_MOST_KNOWN: Final = 10_000


class Chain:
    """People as a ledger's entries state them, read from its store also after the ledger has stopped.

    The newest entry of a name is looked up each time; it never changes.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[int, Analyst] = {}

    def analyst(self, name: str) -> Analyst | None:
        """A name in its one spelling: one look-up, and another one, compared with the chain, when it is a new entry."""
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
    """The people of a ledger; the tables are brought up to its newest entry first."""
    reader = ledger.journal.store
    if place != MEMORY:
        first = tables.read("SELECT body FROM entries WHERE seq = 1")
        if not first or json.loads(first[0][0])["ledger"] != ledger.id:
            raise InputError("place", "is not where the ledger is kept")
        with storage_errors():
            catch_up(reader, tables)
    return Chain(reader)


def catch_up(reader: Reader, tables: PeopleTables) -> None:
    """Carry out what the chain says and the tables do not know yet."""
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
        # Another process may have read further meanwhile.
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
        # A session by a provider ends an unused link as well: its person needs it no more.
        run("DELETE FROM people_links WHERE name = ? AND born < ?", (_word(body["fields"], "analyst"), seq))


def _word(fields: dict[str, Any], key: str) -> str:
    """A word of a note; empty where it cannot be in the tables: every holder of the ledger may write notes."""
    said = fields.get(key)
    return said if isinstance(said, str) and said.isprintable() else ""


def end(run: Run, name: str, seq: int) -> None:
    """End everything that lets a person in and was born before ``seq``; ``""`` is all people."""
    run(
        "INSERT INTO people_persons (name, ended) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET ended = excluded.ended WHERE people_persons.ended < excluded.ended",
        (name, seq),
    )


def withdraw(run: Run, token: str, seq: int) -> None:
    """Mark a token as withdrawn, so that it opens nothing any more."""
    run("UPDATE people_tokens SET withdrawn = ? WHERE id = ? AND withdrawn <= 0", (seq, token))


def _forget_everything(tables: PeopleTables, seq: int, known: str) -> None:
    """Begin anew, unless another process has done so already."""
    with tables.write() as run:
        if not run("UPDATE people_seen SET seq = 0, hash = '' WHERE seq = ? AND hash = ? RETURNING seq", (seq, known)):
            return
        for table in ("tokens", "sessions", "links", "entries", "identities", "persons"):
            run(f"DELETE FROM people_{table}", ())  # noqa: S608
        run("INSERT INTO people_persons VALUES ('', 0)", ())


def person_of(analyst: Analyst) -> Person:
    """A person from an entry of the ledger. Details that are not understood there give no rights."""
    try:
        role = Role(analyst.details.get("role", Role.ANALYST))
    except ValueError:
        role = Role.ANALYST
    said = analyst.details.get("populations")
    if said is None:
        populations = None
    else:
        listed = said if isinstance(said, list) else []
        populations = frozenset(one for one in listed if isinstance(one, str))
    identity = analyst.details.get("identity", "")
    return Person(analyst.name, role, analyst.active, populations, identity if isinstance(identity, str) else "")


def details_of(role: Role, populations: frozenset[str] | None, identity: str = "") -> dict[str, Any]:
    """The details of a person, for the chain."""
    named = {"identity": identity} if identity else {}
    return {"role": role.value, "populations": None if populations is None else sorted(populations), **named}


def spelled(name: object, parameter: str = "name") -> str:
    """A name in its one spelling; nothing long is looked at."""
    if not isinstance(name, str) or len(name) > 1000:
        raise InputError(parameter, "must be 1 to 200 printable characters")
    return plain_name(name, parameter)
