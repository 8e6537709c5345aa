"""PostgreSQL sessions: read-only transactions, one per query.

A query is one transaction: read-only, on one snapshot of the data (REPEATABLE READ), with a limit of time, and with
nothing left to the settings of the role, the database or the server. Settings are set for the transaction alone,
so a pooler between may hand the connection on. Nothing is created, not even for the session.

Credentials come from the address, from ``${VARIABLE}`` in it, or from libpq's own places (PG… variables, a service
file, a password file). They are parts of connections here and of nothing that is shown: errors of the driver, which
may quote an address, are never passed on.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.engines.environment import fill
from tacit.engines.plain_frames import block_arrays
from tacit.engines.sql.engine import ActiveSessions

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

#: Of each transaction; they override those of the role, the database and the server.
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
    # Where two sides have an equality, rows are looked up by it, however few rows the planner expects: a loop would try
    # every row of one side for each row of the other.
    "enable_nestloop": "off",
    # Joins run in the order of the plan, whose intermediate rows are bounded.
    "join_collapse_limit": "1",
    "from_collapse_limit": "1",
    "idle_in_transaction_session_timeout": "600s",
}
_CONNECTIONS: Final = 8
#: Rows that are turned into columns at a time.
_BLOCK: Final = 1 << 14
_PATIENCE: Final = 15.0
#: A server that is gone is noticed within about a minute, independent of the system's own settings.
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
    """Where a server is: parameters of libpq, which may hold a password, and words that hold none."""

    __slots__ = ("_parameters", "words")

    def __init__(self, parameters: dict[str, str]) -> None:
        self._parameters = parameters
        server = parameters.get("host") or parameters.get("service") or "the default server"
        self.words = f"{server}/{parameters.get('dbname') or ''}".rstrip("/")

    def __repr__(self) -> str:
        return f"Place({self.words!r})"

    def connection(self) -> dict[str, Any]:
        """For the driver alone."""
        return {**_ALIVE, **self._parameters}


def place_of(address: str) -> ServerAddress:
    """The place that an address names; variables of the environment are put in after it is taken apart.

    Raises:
        InputError: it cannot be read, a variable is missing, or the driver is. The address is not quoted.
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
        # Raised here because libpq's own words may quote a password, and would be kept as the context.
        raise InputError("engine", "is not an address such as postgresql://role@host:5432/database")
    return ServerAddress({str(name): fill(str(text)) for name, text in found.items() if text is not None})


class Server:
    """A pool of connections; broken ones are replaced before they are handed out.

    Args:
        place: of the server.
        memory: for one sort or hash table, such as ``"256MB"``.
        workers: how many helpers a statement may have; None for the server's own limit.
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
        """Connect once and hang up; the pool would go on trying a server that is not there.

        Raises:
            psycopg.Error: it cannot be reached.
        """
        import psycopg

        psycopg.connect(**self.place.connection()).close()

    @contextmanager
    def session(self, seconds: float | None) -> Iterator[PostgresSession]:
        """A transaction for one query; any failure of the driver is the caller's to hide."""
        with self._pool.connection() as connection:
            session = PostgresSession(connection, seconds)
            with self.running.entered(session):
                session.begin(self._settings)
                yield session

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


def _configure(connection: psycopg.Connection[Any]) -> None:
    import psycopg

    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True


class PostgresSession:
    """One transaction."""

    def __init__(self, connection: psycopg.Connection[Any], seconds: float | None) -> None:
        self._connection = connection
        self._end = None if seconds is None else time.monotonic() + seconds
        self._stopped = threading.Event()

    def begin(self, settings: dict[str, str]) -> None:
        """Pin every setting; the first statement also begins the transaction."""
        names = [part for pair in settings.items() for part in pair]
        calls = ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(settings))
        self._connection.execute(f"SELECT {calls}".encode(), names)

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a statement, taken from the server one after the other."""
        self._limit()
        with self._connection.cursor() as cursor:
            found = []
            for row in cursor.stream(sql.encode(), values):
                found.append(row)
                self.check()
            self.check()
            return found

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
        """Its first columns, each as objects with None for NULL or as floats with NaN for it."""
        self._limit()
        with self._connection.cursor() as cursor:
            found = block_arrays(self._blocks(cursor.stream(sql.encode())), as_objects)
        self.check()
        return found

    def _blocks(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        """Rows some at a time, so that Python's own objects are held for one block alone."""
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
        # It may have ended meanwhile, or the server be gone.
        with suppress(Exception):
            self._connection.cancel()

    def check(self) -> None:
        """Raise if it has been told to stop, or its time is up."""
        if self._stopped.is_set():
            raise InterruptedError("INTERRUPT between statements")
        if self._end is not None and time.monotonic() > self._end:
            raise TimeoutError("the time is up")
