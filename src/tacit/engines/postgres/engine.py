"""The PostgreSQL engine: the database bounds and sums the rows, and returns only exact integers.

A query is one transaction: read-only, on one snapshot of the data (REPEATABLE READ), with a time limit, and independent
of the settings of the role, the database and the server. Settings apply to the transaction only, so a connection pooler
may reuse the connection. No object is created in the database, not even for the session.

Credentials come from the address, from ``${VARIABLE}`` in it, or from libpq's own sources (PG… variables, a service
file, a password file). They are used only in connections and never shown: errors of the driver, which may quote an
address, are never passed on.

Units are bounded by one sort. Rows sorted by unit and by the position of their group in the unit's order are
aggregated, numbered and cut off in one pass, without another sort or a hash table of all pairs (unit, group). If the
position needs a digest, it is computed per pair: rows are sorted by unit and group, and then the few pairs of each
unit.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.engines.frames import block_arrays
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.postgres.tables import (
    Described,
    check_identities,
    describe,
    marks_of,
    open_table,
    server_identity,
    shapes,
    type_of,
)
from tacit.engines.protocol import DoctorCheck, Limits, Marks, MeasurementTask, fill
from tacit.engines.sql.bounding import Partials
from tacit.engines.sql.engine import ActiveSessions, SqlEngine
from tacit.engines.sql.relations import StoredTable, tables_of
from tacit.engines.sql.statements import CellWriter
from tacit.query.catalog import Catalog, Table
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import SqlType

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool


#: Settings of each transaction; they override those of the role, the database and the server.
SETTINGS: Final = {
    "search_path": "pg_catalog",
    "timezone": "UTC",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "jit": "off",
    # Joins with an equality must use it, however few rows the planner expects: a nested loop would compare every row of
    # one side with each row of the other.
    "enable_nestloop": "off",
    # Joins run in the order of the plan, whose intermediate rows are bounded.
    "join_collapse_limit": "1",
    "from_collapse_limit": "1",
    "idle_in_transaction_session_timeout": "600s",
}
_CONNECTIONS: Final = 8
#: Number of rows that are converted to columns at a time.
_BLOCK: Final = 1 << 14
_PATIENCE: Final = 15.0
#: libpq parameters that detect a lost server within about a minute, independent of the system's settings.
_ALIVE: Final = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
    "application_name": "tacit",
}


class ServerAddress:
    """libpq parameters of a server, which may hold a password, and a description that holds none."""

    __slots__ = ("_parameters", "words")

    def __init__(self, parameters: dict[str, str]) -> None:
        self._parameters = parameters
        server = parameters.get("host") or parameters.get("service") or "the default server"
        self.words = f"{server}/{parameters.get('dbname') or ''}".rstrip("/")

    def __repr__(self) -> str:
        return f"ServerAddress({self.words!r})"

    def connection(self) -> dict[str, Any]:
        """Return the connection parameters, for the driver only."""
        return {**_ALIVE, **self._parameters}


def place_of(address: str) -> ServerAddress:
    """Parse an address; environment variables are substituted in the parsed parameters.

    Raises:
        InputError: the address is malformed, a variable is not set, or the driver is not installed. The message does
            not quote the address.
    """
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise InputError("engine", f"PostgreSQL needs psycopg: {install_command('postgres')}") from None

    found = None
    with suppress(psycopg.Error):
        found = conninfo_to_dict(address)
    if found is None:
        # Raised outside the handler: libpq's message may quote a password, and would be kept as the context.
        raise InputError("engine", "is not an address such as postgresql://role@host:5432/database")
    return ServerAddress({str(name): fill(str(text)) for name, text in found.items() if text is not None})


class Server:
    """Pool of connections; broken connections are replaced before use.

    Args:
        place: address of the server.
        memory: memory of one sort or hash table, such as ``"256MB"``.
        workers: number of parallel workers of a statement; None for the server's own limit.
    """

    def __init__(self, place: ServerAddress, *, memory: str = "256MB", workers: int | None = None) -> None:
        from psycopg_pool import ConnectionPool

        self.place = place
        self._settings = {**SETTINGS, "work_mem": memory}
        if workers is not None:
            self._settings["max_parallel_workers_per_gather"] = str(workers)
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            kwargs={**place.connection(), "prepare_threshold": None},
            configure=_configure,
            check=ConnectionPool.check_connection,
            min_size=0,
            max_size=_CONNECTIONS,
            timeout=_PATIENCE,
            reconnect_timeout=_PATIENCE,
            open=True,
        )
        self.running = ActiveSessions()

    def reach(self) -> None:
        """Open and close one connection: the pool would keep retrying a server that does not answer.

        Raises:
            psycopg.Error: the server cannot be reached.
        """
        import psycopg

        psycopg.connect(**self.place.connection()).close()

    @contextmanager
    def session(self, seconds: float | None) -> Iterator[PostgresSession]:
        """Open a transaction for one query; the caller must hide any error of the driver."""
        with self._pool.connection() as connection:
            session = PostgresSession(connection, seconds)
            with self.running.entered(session):
                session.begin(self._settings)
                yield session

    def close(self) -> None:
        self._pool.close()


def _configure(connection: psycopg.Connection[Any]) -> None:
    import psycopg

    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True


class PostgresSession:
    """The transaction of one query."""

    def __init__(self, connection: psycopg.Connection[Any], seconds: float | None) -> None:
        self._connection = connection
        self._end = None if seconds is None else time.monotonic() + seconds
        self._stopped = threading.Event()

    def begin(self, settings: dict[str, str]) -> None:
        """Set every setting; this first statement also starts the transaction."""
        names = [part for pair in settings.items() for part in pair]
        calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(settings))
        self._connection.execute(f"SELECT {calls}".encode(), names)

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, streamed from the server."""
        self._limit()
        with self._connection.cursor() as cursor:
            found = []
            for row in cursor.stream(sql.encode(), values):
                found.append(row)
                self.check()
            self.check()
            return found

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
        """Return the first columns, one per flag: objects with None for NULL if it is true, else floats with NaN."""
        self._limit()
        with self._connection.cursor() as cursor:
            found = block_arrays(self._blocks(cursor.stream(sql.encode())), as_objects)
        self.check()
        return found

    def _blocks(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield rows in blocks, so that Python objects exist for one block at a time."""
        while block := list(itertools.islice(rows, _BLOCK)):
            self.check()
            yield block

    def _limit(self) -> None:
        self.check()
        if self._end is not None:
            left = max(1, int((self._end - time.monotonic()) * 1000))
            self._connection.execute(f"SELECT pg_catalog.set_config('statement_timeout', '{left}', true)".encode())

    def interrupt(self) -> None:
        """Cancel the statement, and refuse further ones."""
        self._stopped.set()
        # The statement may have ended, or the server may be lost.
        with suppress(Exception):
            self._connection.cancel()

    def check(self) -> None:
        """Raise if the query was interrupted or its time is up."""
        if self._stopped.is_set():
            raise InterruptedError("INTERRUPT between statements")
        if self._end is not None and time.monotonic() > self._end:
            raise TimeoutError("the time is up")


# The engine -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PostgresWriter(CellWriter):
    """Writer of statements that bound units by one sort."""

    def _pairs(self, partials: Partials, read: frozenset[int]) -> str:
        """Write the query for one row per pair (unit, group); sorted if a unit may have more groups than it keeps."""
        if not self.groups.is_public or not self.must_choose:
            return super()._pairs(partials, read)
        columns = "".join(f", {name}" for name in partials.rows)
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        listed = "" if self.has_others else " WHERE g IS NOT NULL"
        rows, by = f"SELECT * FROM {self.d.fenced(self.all_rows(partials.rows, read))}{listed}", "u, g"
        if self.places_rows:
            inner = f"SELECT *, {self.chooser.parameters(self.d, 'u')} AS h FROM {self.d.derived(rows)}"
            place = self.chooser.place("h", "g", self.groups.count)
            rows = f"SELECT u, CAST({place} AS SMALLINT) AS p, g{columns} FROM {self.d.fenced(inner)}"
            by = "u, p, g"
        return f"SELECT {by}{collected} FROM {self.d.fenced(f'{rows} ORDER BY {by}')} GROUP BY {by}"

    @property
    def places_rows(self) -> bool:
        """Whether each row has the position of its group in the unit's order, in column ``p``."""
        return self.groups.is_public and self.must_choose and self.chooser.whole

    @property
    def pair_columns(self) -> tuple[str, ...]:
        """Names of the columns of a pair: the unit, ``p`` if it was computed, and the group."""
        return ("u", *(("p",) if self.places_rows else ()), *self.groups.columns)

    def pair_order(self) -> str:
        """Return the ORDER BY term ``p`` if it was computed, else the order of the base class."""
        return "p" if self.places_rows else super().pair_order()


_OPERATOR = logging.getLogger("tacit.operator")
_OLDEST = 130000
_NAMES = """
SELECT n.nspname || '.' || c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1
"""
#: Time limit in seconds for reading names and types.
_LOOK = 60.0


class PostgresEngine(SqlEngine):
    """Engine that measures tables and views of a PostgreSQL database.

    Args:
        catalog: the tables.
        names: name of each catalog table in the database, ``table`` or ``schema.table``.
        place: the server: an address, or the result of :func:`place_of`.
        limits: ``memory`` of one sort or hash table (the server spills more), ``threads`` as the number of parallel
            workers of one statement in addition to its own process, and ``seconds``.

    Raises:
        InputError: the server cannot be reached or is not fit, or a table lacks a column or cannot be read as declared.
    """

    dialect = POSTGRES
    operation_seconds = 1e-7
    writer = PostgresWriter

    def __init__(
        self, catalog: Catalog, names: Mapping[str, str], place: str | ServerAddress, limits: Limits | None = None
    ) -> None:
        super().__init__(catalog, limits)
        if self._limits.spill is not None:
            raise InputError("limits.spill", "is for DuckDB: a PostgreSQL server has its own place for that")
        self._place = place_of(place) if isinstance(place, str) else place
        memory = (self._limits.memory or "256MB").replace(" ", "").replace("iB", "B").replace("KB", "kB")
        self._server = Server(self._place, memory=memory, workers=self._limits.threads)
        self._running = self._server.running
        self._pid = os.getpid()
        by_name = {name.lower(): text for name, text in names.items()}
        try:
            self._described: dict[str, Described] = self._prepared(catalog, by_name)
            self._stored = {
                table.name.lower(): open_table(self._described[table.name.lower()], table, index)
                for index, table in enumerate(catalog.tables)
            }
            check_identities(catalog, self._described)
        except BaseException:
            self._server.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresEngine({self._place.words!r})"

    def _prepared(self, catalog: Catalog, names: Mapping[str, str]) -> dict[str, Described]:
        """Connect for the first time, and return the tables as the server describes them."""
        with first_look(self._server) as session:
            self._identity = server_identity(session)
            found = {}
            for table in catalog.tables:
                where = f"tables.{table.name}.source"
                if table.name.lower() not in names:
                    raise InputError(where, "is missing: every table of the catalog needs a source")
                found[table.name.lower()] = describe(session, names[table.name.lower()], where)
            return found

    @property
    def _tables(self) -> Mapping[str, StoredTable]:
        return self._stored

    def _named_tables(self) -> Mapping[str, StoredTable]:
        # The names in the database show where rows come from, and hold no secret.
        return self._stored

    @contextmanager
    def _session(
        self, relation: RelationNode, work: MeasurementTask | None
    ) -> Iterator[tuple[PostgresSession, Mapping[str, StoredTable]]]:
        if os.getpid() != self._pid:
            raise RuntimeError("connections cannot be used after a fork; open the project in the new process")
        with self._server.session(self._seconds(work)) as session:
            self._same(session, relation)
            yield session, self._stored

    def _same(self, session: PostgresSession, relation: RelationNode) -> None:
        """Refuse a table that was replaced, or a view that now reads other relations: their budget may differ."""
        opened = {(each.schema, each.name): each for each in (self._described[name] for name in tables_of(relation))}
        now = shapes(session, opened)
        changed = sorted(each.scan for name, each in opened.items() if now.get(name) != each.shape)
        if changed:
            raise RuntimeError(f"{', '.join(changed)} is not what it was; open the project again")

    def marks(self, table: str) -> Marks:
        """Return the identifiers of a table, independent of its name in a project."""
        return marks_of(self._identity, self._described[table.lower()])

    def close(self) -> None:
        """Cancel running queries and close all connections; may be called twice."""
        self.interrupt()
        self._server.close()


def read_types(address: str, names: Mapping[str, str]) -> dict[str, dict[str, SqlType | None]]:
    """Return the columns of tables with their types, None for types Tacit does not read."""
    with _looking_at(address) as session:
        found = {name: describe(session, text, f"tables.{name}.source") for name, text in names.items()}
    return {
        name: {column: type_of(*stored) for column, stored in described.columns.items()}
        for name, described in found.items()
    }


def read_names(address: str) -> list[str]:
    """Return the tables and views that the role may read, as ``schema.table``, without the system's own."""
    with _looking_at(address) as session:
        return [str(name) for (name,) in session.rows(_NAMES)]


@contextmanager
def _looking_at(address: str) -> Iterator[PostgresSession]:
    """Open a :func:`first_look` at the server of an address."""
    server = Server(place_of(address))
    try:
        with first_look(server) as session:
            yield session
    finally:
        server.close()


@contextmanager
def first_look(server: Server) -> Iterator[PostgresSession]:
    """Open a session to read names and types; an error of the server is reported without its own message.

    Raises:
        InputError: the server cannot be reached, or does not meet the requirements.
    """
    import psycopg
    from psycopg_pool import PoolTimeout

    try:
        server.reach()
        with server.session(_LOOK) as session:
            _check_server(session.rows)
            yield session
        return
    except (psycopg.Error, PoolTimeout, OSError) as problem:
        state = getattr(problem, "sqlstate", None) or type(problem).__name__
        _OPERATOR.error("cannot use the database %s: %s", server.place.words, problem)
    # The server's message is in the operator's log; psql shows it to the data owner.
    why = "psql with the same address says why"
    raise InputError("engine", f"cannot use the database at {server.place.words} ({state}); {why}")


def _check_server(rows: Callable[[str], list[tuple[Any, ...]]]) -> None:
    ((version, encoding),) = rows(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
    )
    if version < _OLDEST:
        raise InputError("engine", f"needs PostgreSQL 13 or later; this server is {version // 10000}")
    if encoding != "UTF8":
        # In another encoding texts have other lengths, orders and digests.
        raise InputError("engine", f"needs a database whose encoding is UTF8; this one has {encoding}")


# Checks of tacit doctor: version, rights, types, collations, row security ---------------------------------------------


_ROLE = """
SELECT current_user::text, r.rolsuper, r.rolcreatedb OR r.rolcreaterole OR r.rolreplication, r.rolbypassrls,
  current_setting('server_version'), current_database()::text
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
_RIGHTS = """
SELECT has_schema_privilege(%(schema)s, 'USAGE'),
  has_table_privilege(%(oid)s::oid, 'SELECT') OR has_any_column_privilege(%(oid)s::oid, 'SELECT'),
  has_table_privilege(%(oid)s::oid, 'INSERT, UPDATE, DELETE, TRUNCATE'),
  row_security_active(%(oid)s::oid)
"""
_READABLE = "SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT has_column_privilege(a.attrelid, a.attnum, 'SELECT')"  # noqa: E501


def look_at(address: str, catalog: Catalog, names: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Yield all checks of ``tacit doctor``, in order.

    Raises:
        InputError: the server cannot be reached or is not fit.
    """
    with _looking_at(address) as session:
        role = yield from _server(session, place_of(address).words)
        found = {}
        for index, table in enumerate(catalog.tables):
            described = describe(session, names[table.name], f"tables.{table.name}.source")
            found[table.name.lower()] = described
            yield from _table(session, described, table, index, role)
        check_identities(catalog, found)


def _server(session: PostgresSession, words: str) -> Generator[DoctorCheck, None, str]:
    ((role, is_super, may_make, passes_by, version, database),) = session.rows(_ROLE)
    yield DoctorCheck(
        "database", True, f"{words}: PostgreSQL {version}, database {database}, role {role}; encoding UTF8"
    )
    if is_super or may_make:
        yield DoctorCheck(
            "role",
            False,
            f"{role} can do more than read: {'a superuser' if is_super else 'it may make roles, databases or copies'}",
            f"CREATE ROLE tacit LOGIN; GRANT CONNECT ON DATABASE {_identifier(database)} TO tacit; and use that one",
        )
    else:
        seen = "; it sees all rows where row security is on" if passes_by else ""
        yield DoctorCheck("role", True, f"{role} has no rights over the server{seen}")
    return str(role)


def _table(
    session: PostgresSession, described: Described, table: Table, index: int, role: str
) -> Iterator[DoctorCheck]:
    name, where = f"table {table.name}", f"{described.schema}.{described.name}"
    rights = session.rows(_RIGHTS, {"schema": described.schema, "oid": described.oid})
    ((may_enter, may_read, may_write, is_filtered),) = rights
    grants = [] if may_enter else [f"GRANT USAGE ON SCHEMA {_identifier(described.schema)} TO {_identifier(role)};"]
    hidden = {row[0] for row in session.rows(_READABLE, (described.oid,))}
    missing = sorted(column.stored_name for column in table.columns if column.stored_name in hidden)
    if not may_read or missing:
        columns = f" ({', '.join(map(_identifier, missing))})" if may_read else ""
        grants.append(f"GRANT SELECT{columns} ON {described.scan} TO {_identifier(role)};")
    if grants:
        yield DoctorCheck(name, False, f"{where}: {role} may not read it", " ".join(grants))
        return
    open_table(described, table, index)
    yield DoctorCheck(name, True, f"{where}: readable, {len(table.columns)} columns of fitting types")
    if may_write:
        yield DoctorCheck(
            f"{name} rights",
            False,
            f"{role} may change {where}; Tacit never does, but a thief of its connection could",
            f"REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON {described.scan} FROM {_identifier(role)};",
        )
    if is_filtered:
        yield DoctorCheck(
            f"{name} row security",
            False,
            f"row-level security hides rows of {where} from {role}: answers are about those it can see",
            f"CREATE POLICY tacit ON {described.scan} FOR SELECT TO {_identifier(role)} USING (true); or leave it so",
        )
    if described.inexact:
        listed = ", ".join(sorted(described.inexact))
        yield DoctorCheck(
            f"{name} collations",
            True,
            f"{listed}: texts that the database calls equal, whatever their case or accents, are different groups here,"
            " where bytes decide",
        )


def _identifier(name: str) -> str:
    plain = name.isidentifier() and name == name.lower() and name.isascii()
    return name if plain else '"' + name.replace('"', '""') + '"'
