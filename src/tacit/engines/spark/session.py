"""Spark session: at a Spark Connect server or its owner's, checked before use, and watched while a query runs.

A Spark Connect server (``sc://host:15002``) has its own disk, keeps the settings of the session, and drops an unused
session after a while (:mod:`.engine` checks before it uses one). A server that does not answer is retried for some
seconds and then considered lost.

A session that its owner made may be of any class, and its settings are never changed. Every session must pass the same
*trials*, statements with known results; the refusal of a session names the setting to change.

The work of a query has a unique name: a tag on Spark Connect, a job group if there is a Spark context. An interrupt
between two jobs finds nothing to cancel, so it is repeated until the query ends.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import install_command
from tacit.engines.frames import arrow_arrays
from tacit.engines.protocol import fill

SCHEME: Final = "sc://"
#: Retries of a server that does not answer, with delays in milliseconds: some five seconds in total. pyspark's default
#: of ten minutes would block the caller and every later query.
_RETRIES: Final[dict[str, Any]] = {
    "max_retries": 6,
    "initial_backoff": 100,
    "max_backoff": 2000,
    "backoff_multiplier": 2,
}
#: Options of gRPC that find a restarted server soon: backoff is not shared with other channels, and shorter than the
#: retries.
_CHANNEL: Final = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
]
_FORM: Final = "must be an address such as sc://host:15002, or sc://host:443/;use_ssl=true;token=${SPARK_TOKEN}"


def connected(place: str) -> Any:
    """Open a separate session at a Spark Connect server; ``${NAME}`` in the address is an environment variable.

    Raises:
        InputError: packages are missing, the address is malformed, or no server answers there. The message quotes only
            host and port of the address, because the rest may hold a token.
    """
    where = shown_place(place)
    try:
        with calm():
            from pyspark.sql.connect.client import DefaultChannelBuilder
            from pyspark.sql.connect.client.retries import DefaultPolicy
            from pyspark.sql.connect.session import SparkSession
    except (ImportError, SystemExit):  # it exits where it takes itself to be a doctest
        raise InputError("engine", f"sc:// needs more packages: {install_command('spark')}") from None
    # pyspark warns whenever a server is lost; the caller gets an exception anyway.
    warnings.filterwarnings("ignore", message=re.escape("[RETRIES_EXCEEDED]"))
    spark, filled = None, fill(place, lambda value: quote(value, safe=""))
    try:
        # Not by the builder, which would make the session the default of the process.
        spark = SparkSession(connection=DefaultChannelBuilder(filled, _CHANNEL))
        spark.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
        with calm():
            for name, value in SETTINGS.items():
                spark.conf.set(name, value)
        return spark
    except Exception as problem:
        # The message may quote the address.
        code = getattr(problem, "getGrpcStatusCode", None)
        state = type(problem).__name__ if code is None else code().name
    if spark is None:
        raise InputError("engine", _FORM)
    spark.client.close()
    raise InputError("engine", f"cannot use a Spark Connect server at {where} ({state})")


def shown_place(place: str) -> str:
    """Return host and port of an address, which hold no secret."""
    try:
        parts = urlsplit(place)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host:
        raise InputError("engine", _FORM)
    return host if port is None else f"{host}:{port}"


def is_open_to_others(place: str) -> bool:
    """Whether statements and exact sums would travel unencrypted to another machine."""
    words = urlsplit(place).path.lower()
    if "use_ssl=true" in words or "token=" in words:
        return False
    host = urlsplit(place).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


@contextmanager
def calm() -> Iterator[None]:
    """Suppress Spark's warnings about versions of packages that are not used here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Sessions of this machine and of servers ------------------------------------------------------------------------------


#: Settings of every session that is opened here.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # Row groups are not skipped by their statistics: a condition on one person would decide which columns are read.
    "spark.sql.parquet.filterPushdown": "false",
    # Nor are stages after an empty one: whether one person has a row would decide about their work.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    # By default the caches of Spark's parser grow without bound: a thousand different queries filled two thirds of a
    # gigabyte, and Java did little but collect garbage. Here they are cleared at a third of the driver's memory; at a
    # tenth they would be cleared so often that rebuilding them takes half of Java's time.
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushRatio": "33",
    # Before each statement Spark formats all its plans for a UI and a log that are off; one plan is enough.
    "spark.sql.ui.explainMode": "simple",
}


_HUSHED: ContextVar[bool] = ContextVar("hushed", default=False)


def _is_heard(record: logging.LogRecord) -> bool:  # noqa: ARG001 - one shape for all filters
    return not _HUSHED.get()


@contextmanager
def hushed() -> Iterator[None]:
    """Keep Spark's messages about failures in this thread, which can quote data, off the terminal.

    The caller gets them as an exception.
    """
    with suppress(ImportError):
        from pyspark.logger import PySparkLogger

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).addFilter(_is_heard)
    before = _HUSHED.set(True)
    try:
        yield
    finally:
        _HUSHED.reset(before)


def is_session(candidate: object) -> bool:
    """Whether an object has the methods of a Spark session, whatever its class."""
    return all(hasattr(candidate, name) for name in ("sql", "read", "conf", "createDataFrame"))


class SessionHandle:
    """A Spark session in use.

    Args:
        spark: the session.
        place: ``"sc://…"``; None for a session that its owner made, which is never stopped or replaced.
    """

    def __init__(self, spark: Any, place: str | None) -> None:
        self.spark, self._place = spark, place

    @property
    def context(self) -> Any:
        """The classic Spark context; None for Spark Connect."""
        try:
            return self.spark.sparkContext
        except Exception:  # every kind of session has its own way to say that it has none
            return None

    @property
    def is_elsewhere(self) -> bool:
        """Whether files may be read by another machine, as with Spark Connect."""
        return self.context is None

    def is_alive(self) -> bool:
        """Whether the session still answers."""
        try:
            with hushed():
                return bool(self.spark.sql("SELECT 1").collect()[0][0] == 1)
        except Exception:
            return False

    def renewed(self) -> SessionHandle:
        """Return a new session; for a session that its owner made the same one, after the trials.

        Raises:
            InputError: no session can be opened.
        """
        if self._place is None:
            with hushed():
                try_out(self.spark)
            return self
        # The server may be reachable again and still work on earlier queries, so the old session is released first.
        return _tried(open_untried(self._place), self.release)

    def release(self) -> None:
        """Stop a session that was opened here; may be called twice."""
        if self._place is not None:
            with calm(), suppress(Exception):
                self.spark.stop()


def open_session(place: object) -> SessionHandle:
    """Open a session and run the trials.

    Args:
        place: ``"sc://…"``, or a session.

    Raises:
        InputError: there is no such session, or it fails a trial; the message names the setting.
    """
    return _tried(open_untried(place))


def _tried(held: SessionHandle, before: Callable[[], None] = lambda: None) -> SessionHandle:
    try:
        before()
        with hushed():
            try_out(held.spark)
    except BaseException:
        held.release()
        raise
    return held


def open_untried(place: object) -> SessionHandle:
    """Open a session without the trials, which ``tacit doctor`` runs one by one."""
    if isinstance(place, str) and place.startswith(SCHEME):
        return SessionHandle(connected(place), place)
    if not is_session(place):
        raise InputError("engine", f"must be 'sc://…' or a Spark session, not {type(place)}")
    return SessionHandle(place, None)


@dataclass(frozen=True)
class Trial:
    """A requirement that a Spark session must meet.

    Args:
        name: short name, for people.
        words: description of the requirement.
        remedy: what to change if the session does not meet it.
        true: SQL conditions that must be true.
        fails: SQL statements that must fail.
    """

    name: str
    words: str
    remedy: str
    true: tuple[str, ...] = ()
    fails: tuple[str, ...] = ()


_SUM: Final = (
    "(SELECT sum(CAST(x AS DECIMAL(38,0))) FROM VALUES (42535295865117307932921825928971026431),"
    " (42535295865117307932921825928971026432) AS t(x)) = 85070591730234615865843651857942052863"
)
_QUOTIENT: Final = (
    "CAST(CAST('77371252455336267181195266' AS DECIMAL(38,0)) / CAST(2 AS DECIMAL(38,0)) AS DECIMAL(38,0))"
    " = 38685626227668133590597633"
)
#: Statements that return wrong numbers without ANSI mode.
_WRAPPING: Final = (
    "SELECT x + CAST(1 AS BIGINT) FROM VALUES (CAST(9223372036854775807 AS BIGINT)) AS t(x)",
    "SELECT sum(x) FROM VALUES (CAST(9223372036854775807 AS BIGINT)), (CAST(1 AS BIGINT)) AS t(x)",
    "SELECT CAST(x AS BIGINT) FROM VALUES ('x') AS t(x)",
)
TRIALS: Final = (
    Trial(
        "casts",
        "a cast that cannot be done is NULL with try_cast",
        "use Spark 4: casts that cannot be done must give NULL with try_cast",
        (
            "try_cast('x' AS BIGINT) IS NULL",
            "try_cast(CAST('9223372036854775808' AS DECIMAL(38,0)) AS BIGINT) IS NULL",
            "try_cast('2024-02-30' AS DATE) IS NULL",
        ),
    ),
    Trial(
        "decimal sums",
        "sums and quotients of DECIMAL(38,0) are exact",
        "set spark.sql.decimalOperations.allowPrecisionLoss to true",
        (_SUM, _QUOTIENT),
    ),
    Trial(
        "time zone",
        "the clock of the session is UTC",
        "set spark.sql.session.timeZone to UTC",
        (
            "unix_micros(CAST(TIMESTAMP_NTZ '2024-03-31 02:30:00' AS TIMESTAMP)) = 1711852200000000",
            "unix_micros(CAST(TIMESTAMP_NTZ '0001-01-01 00:00:00' AS TIMESTAMP)) = -62135596800000000",
            "unix_micros(CAST(TIMESTAMP_NTZ '2024-12-01 00:00:00' AS TIMESTAMP)) = 1733011200000000",
        ),
    ),
    Trial(
        "texts",
        "texts are compared byte by byte",
        "use the collation UTF8_BINARY: texts must be compared byte by byte",
        ("NOT ('a' = 'A') AND NOT ('a ' = 'a') AND NOT ('\\u00e9' = 'e\\u0301') AND 'Z' < 'a'",),
    ),
    Trial(
        "text constants",
        "a letter may be spelled by its number",
        "set spark.sql.parser.escapedStringLiterals to false",
        ("length('\\u0024\\u007bspark.master}') = 15 AND '\\u005c' = chr(92)",),
    ),
    Trial(
        "doubles",
        "doubles follow IEEE arithmetic, with NaN the largest",
        "use Spark 4 on Java 17: doubles must follow IEEE arithmetic, with NaN the largest",
        ("double('NaN') > double('Infinity') AND double('1e308') * double('10') = double('Infinity')",),
    ),
    Trial(
        "ANSI mode",
        "sums that overflow fail instead of wrapping",
        "set spark.sql.ansi.enabled to true (ANSI mode)",
        fails=_WRAPPING,
    ),
)


def try_out(spark: Any) -> None:
    """Refuse a session that fails a trial.

    Raises:
        InputError: naming the settings.
    """
    # All conditions in one statement; if that fails, trial by trial, since a condition may also raise.
    conditions = [condition for trial in TRIALS for condition in trial.true]
    if _hold(spark, conditions) and all(_fails(spark, statement) for trial in TRIALS for statement in trial.fails):
        return
    wrong = [trial.remedy for trial in TRIALS if not passes(spark, trial)]
    raise InputError("engine", f"this Spark session is not fit for exact sums: {'; '.join(wrong) or 'no answer'}")


def passes(spark: Any, trial: Trial) -> bool:
    """Whether a session passes one trial."""
    return (not trial.true or _hold(spark, trial.true)) and all(_fails(spark, each) for each in trial.fails)


def _hold(spark: Any, conditions: Iterable[str]) -> bool:
    try:
        return all(answer is True for answer in spark.sql(f"SELECT {', '.join(conditions)}").collect()[0])
    except Exception:
        return False


def _fails(spark: Any, statement: str) -> bool:
    try:
        spark.sql(statement).collect()
    except Exception:
        return True
    return False


# One running query: timeout, cancellation -----------------------------------------------------------------------------


_TICK = 0.2
#: Seconds that an interrupt waits for the server's confirmation, which a lost server never sends.
_HEARD = 2.0


class SparkQuery:
    """The work of one query: name, time limit in seconds (None for no limit), and interruption."""

    def __init__(self, held: SessionHandle, seconds: float | None) -> None:
        self._spark, self._context, self._seconds = held.spark, held.context, seconds
        self._name = f"tacit-{uuid.uuid4().hex}"
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._stopping: threading.Thread | None = None
        self._heard = False

    def rows(self, sql: str) -> list[Any]:
        """Return all rows of a statement, fetched once, after any retries of tasks by Spark.

        Raises:
            InterruptedError: the query was stopped.
        """
        self.check()
        planned = self._spark.sql(sql)
        self.check()
        rows = list(planned.collect())
        self.check()
        return rows

    def columns(self, sql: str, as_objects: Sequence[bool]) -> list[NDArray[Any]]:
        """Return the first columns, one per flag: objects with None for NULL if it is true, else floats with NaN."""
        self.check()
        return arrow_arrays(self._spark.sql(sql).toArrow(), as_objects)

    def check(self) -> None:
        """Raise if the query was interrupted."""
        if self._stopped.is_set():
            raise InterruptedError("the query was stopped")

    def interrupt(self) -> bool:
        """Interrupt the query, even before it starts; return whether Spark confirmed it."""
        self._stopped.set()
        return self._cancel()

    def _cancel(self) -> bool:
        if self._context is not None:
            with suppress(Exception):
                self._context.cancelJobGroup(self._name)
                return True
            return False
        # The watcher and another thread may interrupt at the same time; one request to the server is enough.
        with self._lock:
            if self._stopping is None or not self._stopping.is_alive():
                self._heard = False
                self._stopping = threading.Thread(target=self._interrupt_tag, daemon=True)
                self._stopping.start()
            stopping = self._stopping
        stopping.join(_HEARD)
        return self._heard

    def _interrupt_tag(self) -> None:
        with suppress(Exception):
            self._spark.interruptTag(self._name)
            self._heard = True

    @contextmanager
    def named(self) -> Iterator[None]:
        """Give the query's name to all Spark work of this thread in this block, and watch it."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        self._mark()
        watcher.start()
        try:
            with hushed():
                yield
        except BaseException:
            # However the query ended, for example by Ctrl-C, Spark must not go on.
            self.interrupt()
            raise
        finally:
            self._ended.set()
            watcher.join()
            self._unmark()

    def _mark(self) -> None:
        if self._context is None:
            self._spark.addTag(self._name)
        else:
            # True: running tasks are interrupted as well.
            self._context.setJobGroup(self._name, "tacit", True)

    def _unmark(self) -> None:
        with suppress(Exception):
            if self._context is None:
                self._spark.removeTag(self._name)
                return
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                self._context.setLocalProperty(name, None)

    def _watch(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(_TICK):
            if self._seconds is not None and time.monotonic() - started > self._seconds:
                self._stopped.set()
            if self._stopped.is_set():
                self._cancel()
