"""PostgreSQL: databases, and the store of a ledger in a schema of one.

*One call a step.* The procedure ``append`` carries out a step of :mod:`tacit.ledger.protocol` in one round trip and two
transactions. The first takes the ledger's lock, so steps happen one after the other. It refuses, with nothing written
or everything rolled back; or it commits without waiting for the disk, which frees the lock. The second waits for the
disk. The driver's usual way to run a statement takes more processor time than the server needs for a charge, so this
one is prepared on every connection and called through libpq directly (:mod:`psycopg.pq`).

*Durable and concurrent.* A commit that waits for the disk would hold the lock meanwhile, and one account would get one
charge per sync. So a step commits without waiting, and then waits for a second, empty commit. The log is flushed in
order: once that commit is on disk, so is the step before it. Many waiting clients share one sync. A step or a reader
may *see* the first commit of another client's step, so both also wait before they return; no result of this module can
be lost by a crash.

*Checked.* A server that does not sync (``fsync`` off), or a standby, is refused.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Self

from tacit.ledger.database import Run, Schema, TableReader, make_tables
from tacit.ledger.errors import StorageError, StoreBusy
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
    """Translate errors of PostgreSQL to :class:`StorageError`, without the connection's address."""
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
        """Whether the connection is open and in no transaction."""
        return not self.connection.closed and self._pg.transaction_status == self._idle

    def call(self, values: Sequence[Any]) -> list[Any]:
        """Return the one row of the prepared statement, in PostgreSQL's text format, for these bytes (or ``None``).

        Raises:
            StoreBusy: nothing was done.
            StorageError: any other failure; the outcome is unknown.
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
        # The call may have committed before a deadlock, so that state does not mean that nothing was done.
        return _failure(self._what, result.error_message.decode(errors="replace"), state, {_LOCKED})


class PostgresDatabase:
    """A schema of a PostgreSQL database, and a pool of connections to it, made when they are needed.

    Args:
        place: ``postgresql://host/database``, with ``#name`` for a schema of another name than ``tacit_ledger``.
            Parts that are left out (password, service) come from libpq's environment and files.
        what: its name in messages.
        settings: settings of every connection, such as ``lock_timeout=30s``.
        most: maximal number of connections.
        prepared: the statement that :meth:`call` carries out.
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
        with self._borrowed() as link:
            return _rows(link.connection, statement, values)

    @contextmanager
    def write(self) -> Iterator[Run]:
        """Yield a short transaction."""
        with self._borrowed() as link, link.connection.transaction():
            yield partial(_rows, link.connection)

    @contextmanager
    def snapshot(self) -> Iterator[Run]:
        """Yield statements in one read-only transaction."""
        with self._borrowed() as link, link.connection.transaction():
            link.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            link.connection.execute("SELECT FROM pg_class LIMIT 1")  # the moment is that of the first look

            def read(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                with failures(self._at):
                    return _rows(link.connection, statement, values)

            yield read

    def call(self, values: Sequence[Any]) -> list[Any]:
        """Return the one row of the prepared statement; :class:`StoreBusy` if nothing was done."""
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
        """Create the tables of a schema if they are missing, on a connection without the prepared statement.

        Args:
            schema: the tables.
            check: refuses a server, or creates the version table, in the same transaction.
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
        """Close the idle connections now, and each connection in use when it is released."""
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
            # An error that did not come from the database leaves the connection usable.
            (self._release if link.usable else self._discard)(link)
            raise
        self._release(link)

    def _acquire(self) -> _PooledConnection:
        """Take the connection that was released last, whose caches are warm, or a new one."""
        try:
            return self._free.pop()
        except IndexError:
            return self._another()

    def _another(self) -> _PooledConnection:
        with self._change:
            # From here on a release notifies; a connection that was released before is in the list.
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
        """Return a working connection to the pool."""
        self._free.append(link)
        if self._closed:
            self.close()
        elif self._waiting:
            with self._change:
                self._change.notify()

    def _discard(self, link: _PooledConnection) -> None:
        """Close a connection that failed."""
        link.connection.close()
        self._gone()

    def _gone(self) -> None:
        with self._change:
            self._made -= 1
            self._change.notify()


def _rows(connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    # The driver's placeholders, in place of the question marks of shared statements.
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
    """Return an array in PostgreSQL's text format."""
    quoted = ['"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values]
    return ("{" + ",".join(quoted) + "}").encode()


TABLES: Final = (
    """
    CREATE TABLE entries (
        seq BIGINT PRIMARY KEY,
        body TEXT NOT NULL,
        hash BYTEA NOT NULL
    )
    """,
    """
    CREATE TABLE pockets (
        account TEXT COLLATE "C" NOT NULL,
        owner TEXT COLLATE "C" NOT NULL,
        currency TEXT COLLATE "C" NOT NULL,
        spent NUMERIC NOT NULL,
        cap NUMERIC,
        PRIMARY KEY (account, owner, currency)
    ) WITH (fillfactor = 10)
    """,
    """
    CREATE TABLE names (
        space TEXT COLLATE "C" NOT NULL,
        key TEXT COLLATE "C" NOT NULL,
        seq BIGINT NOT NULL,
        PRIMARY KEY (space, key)
    )
    """,
    """
    CREATE TABLE papers (
        seq BIGINT NOT NULL,
        name TEXT NOT NULL,
        content BYTEA NOT NULL,
        PRIMARY KEY (seq, name)
    )
    """,
    """
    CREATE FUNCTION entries_stay() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'entries are never changed or deleted'; END $$
    """,
    """
    CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION entries_stay()
    """,
    """
    CREATE PROCEDURE append(
        entry text,
        accounts text[], owners text[], currencies text[], amounts numeric[], opening boolean[],
        spaces text[], keys text[], bars integer, claims integer,
        caps jsonb, dropped jsonb, titles text[], contents bytea[], patience text,
        INOUT verdict text, INOUT place bigint, INOUT details text, INOUT newest bigint, INOUT trail bytea
    ) LANGUAGE plpgsql AS $$
    DECLARE
        previous bytea;
        held record;
    BEGIN
        verdict := 'placed';
        -- For this transaction alone: it does not wait for the disk, or each step in the queue for the lock would wait
        -- for a sync of every one before it; and it gives up waiting, for here it is certain that nothing was written.
        PERFORM set_config('synchronous_commit', 'off', true), set_config('lock_timeout', patience, true),
            pg_advisory_xact_lock(1952539497, 'entries'::regclass::oid::integer);
        SELECT e.seq + 1, e.hash INTO place, previous FROM entries AS e ORDER BY e.seq DESC LIMIT 1;
        IF NOT FOUND THEN
            place := 1;
            previous := decode(repeat('00', 32), 'hex');
        END IF;

        FOR i IN 1 .. cardinality(spaces) LOOP
            IF i > bars + claims THEN
                INSERT INTO names VALUES (spaces[i], keys[i], place)
                ON CONFLICT (space, key) DO UPDATE SET seq = EXCLUDED.seq;
                CONTINUE;
            ELSIF i > bars THEN
                INSERT INTO names VALUES (spaces[i], keys[i], place) ON CONFLICT DO NOTHING;
                CONTINUE WHEN FOUND;
            END IF;
            SELECT n.seq INTO held FROM names AS n WHERE n.space = spaces[i] AND n.key = keys[i];
            IF FOUND THEN
                verdict := 'taken';
                place := held.seq;
                details := i;
                EXIT;
            END IF;
        END LOOP;

        IF verdict = 'placed' THEN
            FOR i IN 1 .. cardinality(amounts) LOOP
                UPDATE pockets AS p SET spent = p.spent + amounts[i]
                WHERE p.account = accounts[i] AND p.owner = owners[i] AND p.currency = currencies[i]
                AND (p.cap IS NULL OR p.spent + amounts[i] <= p.cap);
                CONTINUE WHEN FOUND;
                SELECT p.spent, p.cap INTO held FROM pockets AS p
                WHERE p.account = accounts[i] AND p.owner = owners[i] AND p.currency = currencies[i];
                IF FOUND THEN
                    verdict := 'short';
                    details := concat_ws(' ', details, i, held.spent, held.cap);
                ELSIF opening[i] THEN
                    INSERT INTO pockets VALUES (accounts[i], owners[i], currencies[i], amounts[i], NULL);
                ELSE
                    RAISE EXCEPTION 'a pocket is gone';
                END IF;
            END LOOP;
        END IF;

        IF verdict = 'placed' THEN
            INSERT INTO entries VALUES (place, entry, sha256(previous || sha256(convert_to(entry, 'UTF8'))));
            IF caps IS NOT NULL THEN
                INSERT INTO pockets
                SELECT c ->> 0, c ->> 1, c ->> 2, 0, (c ->> 3)::numeric FROM jsonb_array_elements(caps) AS c
                ON CONFLICT (account, owner, currency) DO UPDATE SET cap = EXCLUDED.cap;
            END IF;
            IF dropped IS NOT NULL THEN
                DELETE FROM names USING jsonb_array_elements(dropped) AS d WHERE space = d ->> 0 AND key = d ->> 1;
            END IF;
            IF titles IS NOT NULL THEN
                INSERT INTO papers SELECT place, p.title, p.content FROM unnest(titles, contents) AS p (title, content);
            END IF;
            COMMIT;
        ELSE
            ROLLBACK;
        END IF;

        -- The end of this transaction waits for the disk, and the log is flushed in order: with this message everything
        -- before it is durable, of other clients too, whatever was learnt above and is read here.
        IF verdict = 'placed' THEN
            SELECT max(e.seq), string_agg(e.hash, ''::bytea), pg_logical_emit_message(true, 'tacit', '')
            INTO newest, trail
            FROM (SELECT seq, hash FROM entries WHERE seq >= place - 9 ORDER BY seq DESC) AS e;
        ELSE
            PERFORM pg_logical_emit_message(true, 'tacit', '');
        END IF;
    END
    $$
    """,
)


_CONNECTIONS: Final = 8
_LOCK: Final = 0x7461636974 % 2**31
#: Every statement of a ledger is an index look-up or an index scan. Plans are cached, so none may depend on the size of
#: tables that were still empty.
_LEDGER_SETTINGS: Final = (
    "lock_timeout=0",
    "plan_cache_mode=force_generic_plan",
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "jit=off",
)
_APPEND: Final = f"CALL append({', '.join(f'${number}' for number in range(1, 16))}, NULL, NULL, NULL, NULL, NULL)"
#: An empty commit that waits for the disk, and so for all earlier commits.
_FLUSH: Final = "SELECT pg_logical_emit_message(true, 'tacit', '')"


class PostgresStore(TableReader):
    """The store protocol on a schema of a PostgreSQL database, for several threads, processes and machines."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database.read)
        self._database = database
        self._patience = b"%ds" % _PATIENCE

    @classmethod
    def open(cls, place: str, *, create: bool = True) -> Self:
        """Open the ledger; create its tables if they are missing."""
        database = PostgresDatabase(
            place, what="the ledger", settings=_LEDGER_SETTINGS, most=_CONNECTIONS, prepared=_APPEND
        )
        schema = Schema("the ledger has", TABLES, "version", lock=_LOCK)
        database.prepare(schema, lambda run: _check_server(run, database.schema, create=create))
        store = cls(database)
        store._rows("SELECT seq FROM entries LIMIT 1", ())  # what is wrong with the tables is found at once
        return store

    @property
    def place(self) -> str:
        """Server, database and schema, without passwords."""
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
        """Yield a reader in one read-only transaction."""
        with self._database.snapshot() as read:
            yield TableReader(read, still=True)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def head(self) -> Head:
        found = super().head()
        self._flush()
        return found

    def find(self, name: Name) -> int | None:
        """Return the number of a name's entry, or None; all that is read about it afterwards is on disk."""
        found = super().find(name)
        self._flush()
        return found

    def _flush(self) -> None:
        """Wait until every commit that could be read is on disk, whichever client made it."""
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
    """Return arrays of accounts, owners, currencies, amounts and flags to open; cached, as equal charges repeat."""
    return (
        array_text([move.key.account for move in moves]),
        array_text([move.key.owner for move in moves]),
        array_text([move.key.currency for move in moves]),
        array_text([str(move.amount) for move in moves]),
        array_text(["t" if move.opens else "f" for move in moves]),
    )


def _names(names: Sequence[Name]) -> tuple[bytes, bytes]:
    """Return an array of spaces and one of keys."""
    return array_text([name.space for name in names]), array_text([name.key for name in names])


def _attachments(attachments: Mapping[str, bytes]) -> tuple[bytes | None, bytes | None]:
    """Return an array of titles and one of contents."""
    return (
        (array_text([*attachments]), array_text(["\\x" + content.hex() for content in attachments.values()]))
        if attachments
        else (None, None)
    )


def _placed(place: int, newest: int, hashes: str) -> Appended:
    """Return the result of a step that was carried out; ``hashes`` are those of the newest entries, newest first."""
    found = [hashes[at : at + 64] for at in range(0, len(hashes), 64)]
    own = newest - place
    previous = found[own + 1] if place > 1 else GENESIS.hash
    return Appended(Head(place, found[own]), previous, RecentHeads.of(Head(newest, found[0]), found[1:]))


def _json(values: Sequence[Any]) -> bytes | None:
    return json.dumps(values).encode() if values else None
