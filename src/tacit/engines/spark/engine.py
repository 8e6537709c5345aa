"""The Spark engine: one session, one job group per query, exact integer measurements.

Every statement is collected once, and noise is drawn only after all integers have arrived, so a partition that Spark
computes again can never cause a second draw. A lost session at a Spark Connect server is replaced for the next query;
before a session is used after a pause, the server is asked whether it still exists, so that no query is charged to find
out.

Statements bound units with one exchange. Rows are distributed by unit before any aggregation, so that pairs (unit,
group), the choice of groups and the sums over a unit need no further exchange. Only sums per group are exchanged again,
one row per group and task.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tacit.core.errors import InputError, TacitError
from tacit.engines.files import source_state
from tacit.engines.protocol import DoctorCheck, Limits, Marks, MeasurementTask, SourceLike
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.session import (
    TRIALS,
    SessionHandle,
    SparkQuery,
    hushed,
    is_open_to_others,
    open_session,
    open_untried,
    passes,
    shown_place,
)
from tacit.engines.spark.sources import marks_of, open_table, open_tables
from tacit.engines.sql.bounding import Partials
from tacit.engines.sql.engine import SqlEngine, opaquely
from tacit.engines.sql.relations import StoredTable, tables_of
from tacit.engines.sql.scalars import scalar_sql
from tacit.engines.sql.statements import CellWriter, Named
from tacit.query.catalog import Catalog, Table
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import INTEGER


@dataclass(frozen=True)
class SparkWriter(CellWriter):
    """Writer of statements that bound units with one exchange."""

    def _pairs(self, partials: Partials, read: frozenset[int]) -> str:
        """Write the query for one row per pair (unit, group): ``u``, group columns and collected aggregates."""
        collected = "".join(f", {sql} AS {name}" for name, sql in partials.collected.items())
        collected += ", count(*) AS seen"
        carried = "".join(f", {name}" for name in (*partials.collected, "seen"))
        keys = {f"k{i}": scalar_sql(self.d, key.expression) for i, key in enumerate(self.final.keys)}
        rows = self._select({"u": f"c{self.unit}", **keys, **partials.rows}, read, unit=True)
        names = ", ".join(["u", *keys])
        pairs = f"SELECT {names}{collected} FROM ({rows} DISTRIBUTE BY u) GROUP BY {names}"
        if not self.groups.is_public:
            return pairs
        coded = f"SELECT u, {self.groups.code(self.d, list(keys))} AS g{carried} FROM ({pairs})"
        return self.in_public_groups(coded, "seen") if keys and not self.has_others else coded

    def in_public_groups(self, coded: str, seen: str) -> str:
        """Return rows of ``coded`` whose group ``g`` is on the public list.

        Spark pushes a condition on groups below the aggregation, where it is computed for every row. A condition that
        also reads ``seen``, a count that is never 0, is not pushed down.
        """
        return f"SELECT * FROM ({coded}) WHERE CASE WHEN {seen} > 0 THEN g END IS NOT NULL"

    def kept(self, columns: Mapping[str, str], read: frozenset[int]) -> Named:
        """Select the rows in the groups their unit keeps, distributed by unit even if there is nothing to choose."""
        if self.must_choose:
            return super().kept(columns, read)
        return Named(f"WITH r AS ({self.rows(columns, read)} DISTRIBUTE BY u)", "r")

    def _counted(self, source: str, most: int) -> str:
        """Write the query for counts per place, of at most ``most`` values per unit and group, with one exchange."""
        names = ", ".join(self.groups.columns)
        per_place = f"SELECT u, {names}, x, count(*) AS n FROM {source} GROUP BY u, {names}, x"
        totals = f"SELECT *, sum(n) OVER (PARTITION BY u, {names}) AS total FROM ({per_place})"
        # Units with at most ``most`` values need no choice, and their rows are not copied.
        one, copies = (
            f"CASE WHEN total > {most} THEN {then} ELSE {other} END" for then, other in (("1", "n"), ("n", "1"))
        )
        single = self.d.numbered_copies(f"u, {names}, x, total, {one} AS m", copies, f"({totals})")
        rank = self.chooser.rank(self.d, "values", "u", [("x", INTEGER), ("j", INTEGER)])
        order = f"CASE WHEN total > {most} THEN {rank} END, x, j"
        seated = f"SELECT *, row_number() OVER (PARTITION BY u, {names} ORDER BY {order}) AS seat2 FROM ({single})"
        counted = f"SELECT {names}, x AS place, CAST(sum(m) AS BIGINT) AS n FROM ({seated})"
        return f"{counted} WHERE total <= {most} OR seat2 <= {most} GROUP BY {names}, x"


_OPERATOR = logging.getLogger("tacit.operator")
#: Seconds without use after which a Spark Connect session is checked; by default servers drop one after an hour.
_PAUSE = 300.0


class SparkEngine(SqlEngine):
    """Engine that measures tables with Spark.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: seconds of a query; Spark has its own limits of memory, threads and disk.
        session: ``"sc://…"``, or a Spark session of any kind.

    Raises:
        InputError: Spark is not available, the session fails a trial, or a source is missing, cannot be read as
            declared, or lacks a column.
    """

    dialect = SPARK
    operation_seconds = 2e-7
    start_seconds = 1.0
    writer = SparkWriter

    def __init__(
        self,
        catalog: Catalog,
        data: Mapping[str, SourceLike],
        limits: Limits | None = None,
        *,
        session: object,
    ) -> None:
        super().__init__(catalog, limits)
        self._data = dict(data)
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._left: set[SparkQuery] = set()
        self._closed = self._doubtful = False
        self._outdated: tuple[str, ...] = ()
        for word in ("memory", "threads", "spill"):
            if getattr(self._limits, word) is not None:
                raise InputError(f"limits.{word}", "is not for Spark, which has limits of its own")
        self._held = open_session(session)
        try:
            self._open()
        except BaseException:
            self._held.release()
            raise

    def _open(self) -> None:
        # Other engines may share the session.
        prefix, states = f"tacit_{uuid.uuid4().hex}", self._states()
        with hushed():
            self._stored, self._views = open_tables(
                self._held.spark, self._catalog, self._data, prefix, elsewhere=self._held.is_elsewhere
            )
        self._opened_states = states
        self._used = time.monotonic()

    def _states(self) -> tuple[object, ...]:
        """Return the states of the files of all sources."""
        return tuple(source_state(source.kind, source.path) for source in self._data.values())

    @property
    def _tables(self) -> Mapping[str, StoredTable]:
        return self._stored

    def _operator_words(self, relation: RelationNode) -> str:
        return ", ".join(sorted(tables_of(relation)))

    @contextmanager
    def _session(
        self,
        relation: RelationNode,  # noqa: ARG002 - one session reads all
        work: MeasurementTask | None,
    ) -> Iterator[tuple[SparkQuery, Mapping[str, StoredTable]]]:
        with self._watched():
            query = SparkQuery(self._held, self._seconds(work))
            with self._running.entered(query):
                try:
                    with query.named():
                        yield query, self._stored
                except BaseException:
                    # A Spark Connect server may still be working on it.
                    with self._lock:
                        self._left.add(query)
                    raise

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Use the session in this block, after renewing a lost one.

        After a failure it is checked before the next use.
        """
        try:
            self._ensure()
            yield
            self._used = time.monotonic()
        except TacitError:
            raise
        except Exception:
            self._doubtful = True
            raise

    def marks(self, table: str) -> Marks:
        """Return the identifiers of a table, independent of its name in a project; see :mod:`.sources`."""
        place = [part.name.lower() for part in self._catalog.tables].index(table.lower())
        source = next(source for name, source in self._data.items() if name.lower() == table.lower())

        def look() -> Marks:
            with self._watched(), hushed():
                return marks_of(self._held.spark, source, self._views[place])

        return opaquely(look, lambda: table)

    def close(self) -> None:
        """Interrupt running queries and release the session; may be called twice."""
        self.interrupt()
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            # A lost session has no views, and each drop would wait for it.
            if not self._doubtful or self._held.is_alive():
                self._drop_views()
            self._held.release()

    def _ensure(self) -> None:
        """Check the session and its views after a failure or a pause, and renew what is lost."""
        if self._closed:
            raise RuntimeError("the engine is closed")
        with self._renewing:
            paused = time.monotonic() - self._used > _PAUSE and self._held.is_elsewhere
            if self._doubtful or paused:
                self._mend()
            self._doubtful = False
            if self._states() != self._opened_states:
                self._look_again()

    def _look_again(self) -> None:
        """Open all sources again: Spark keeps the list and sizes of files from when a source was opened."""
        before = self._views
        try:
            self._open()
        except InputError as problem:
            raise RuntimeError(f"a source has changed and cannot be read any more: {problem}") from None
        # Queries written earlier may still read the latest old views, so only those before them are dropped.
        for view in self._outdated:
            _forget(self._held, view)
        self._outdated = before

    def _mend(self) -> None:
        with self._lock:
            left = set(self._left)
        # A Spark Connect server that was not reached by an interrupt may still be busy with that query.
        heard = {jobs for jobs in left if jobs.interrupt()}
        if not self._is_whole():
            try:
                self._held = self._held.renewed()
                self._open()
            except InputError as problem:
                # The address of the server and its state are for the operator only.
                raise RuntimeError(f"Spark is lost: {problem}") from None
            heard = left
        with self._lock:
            self._left -= heard

    def _is_whole(self) -> bool:
        """Whether the session answers and has all views: a restarted server may know the session by name only."""
        try:
            with hushed():
                return self._held.is_alive() and all(map(self._held.spark.catalog.tableExists, self._views))
        except Exception:
            return False

    def _drop_views(self) -> None:
        for view in (*self._views, *self._outdated):
            _forget(self._held, view)


def _forget(held: SessionHandle, view: str) -> None:
    try:
        held.spark.catalog.dropTempView(view)
    except Exception:
        _OPERATOR.debug("a view of a session that is gone stays behind")


# Checks of tacit doctor: address, session, declared tables ------------------------------------------------------------


def look_at(place: object, catalog: Catalog, sources: Mapping[str, SourceLike]) -> Iterator[DoctorCheck]:
    """Yield all checks of ``tacit doctor``, in order."""
    remedy = ""
    if isinstance(place, str):
        remedy = f"start a Spark Connect server at {_named(place)}, or correct project.engine"
        yield _server(place)
    try:
        held = open_untried(place)
    except InputError as problem:
        yield DoctorCheck("Spark", False, problem.problem, remedy)
        return
    try:
        yield from _session(held)
        for table in catalog.tables:
            yield _table(held, table, sources[table.name])
    finally:
        held.release()


def _server(place: str) -> DoctorCheck:
    """Check a Spark Connect address without contacting the server."""
    where = _named(place)
    if is_open_to_others(place):
        remedy = "end the address in /;use_ssl=true, or keep the server on this machine"
        return DoctorCheck("connection", False, f"{where}: statements and exact sums travel in the open", remedy)
    return DoctorCheck("connection", True, f"{where}: encrypted, or within this machine")


def _named(place: object) -> str:
    try:
        return shown_place(str(place))
    except InputError:
        return "that address"


def _session(held: SessionHandle) -> Iterator[DoctorCheck]:
    with hushed():
        yield DoctorCheck(
            "Spark", True, f"Spark {held.spark.version}{' by Spark Connect' if held.is_elsewhere else ''}"
        )
        for trial in TRIALS:
            holds = passes(held.spark, trial)
            words = trial.words if holds else f"not so here: {trial.words}"
            yield DoctorCheck(trial.name, holds, words, "" if holds else trial.remedy)


def _table(held: SessionHandle, table: Table, source: SourceLike) -> DoctorCheck:
    view = f"tacit_{uuid.uuid4().hex}"
    try:
        with hushed():
            open_table(held.spark, table, source, view, elsewhere=held.is_elsewhere)
    except InputError as problem:
        remedy = f"correct tables.{table.name}: its source, or the types of its columns"
        return DoctorCheck(f"table {table.name}", False, str(problem), remedy)
    finally:
        held.spark.catalog.dropTempView(view)
    words = f"{source.path or 'a frame'}: readable, {len(table.columns)} columns of fitting types"
    return DoctorCheck(f"table {table.name}", True, words)
