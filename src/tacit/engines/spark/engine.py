"""The Spark engine: one session, one job group per question, exact integers back.

Every statement is collected once; nothing is drawn before all integers are here, so a partition that Spark computes
again can never give a second draw. Any failure becomes an EngineError that carries an id; Spark's own words can quote
data and go to the logger ``tacit.operator`` alone. A session that was started here and is lost is started again for
the next question; one at a Spark Connect server is asked whether it is still known before it is used after a pause,
so that no charge is spent on finding out.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.closing import Closing
from tacit.core.errors import InputError, TacitError
from tacit.engines.duckdb.connection import Limits
from tacit.engines.duckdb.sources import SourceLike
from tacit.engines.error_hiding import opaquely
from tacit.engines.protocol import Marks, Measurements, MeasurementTask
from tacit.engines.source_files import source_state
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.running_query import SparkQuery, running
from tacit.engines.spark.session import SessionHandle, hushed, open_session
from tacit.engines.spark.sources import open_tables
from tacit.engines.spark.statements import statements
from tacit.engines.spark.table_identity import marks_of
from tacit.engines.sql.public_rows import check_public, public_rows, rows_sql
from tacit.engines.sql.read_measurements import read_measurements
from tacit.engines.sql.relations import check_windows, scanned
from tacit.engines.sql.training_rows import examples_sql
from tacit.engines.sql.unit_totals import check_width
from tacit.query.catalog import Catalog
from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import RelationNode
from tacit.query.types import Value

__all__ = ["SparkEngine"]

Result = TypeVar("Result")
_OPERATOR = logging.getLogger("tacit.operator")
#: Seconds after which a server elsewhere may have forgotten a session that nobody used; by itself it takes an hour.
_PAUSE = 300.0


class SparkEngine(Closing):
    """Measures tables with Spark.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: seconds of a question; memory, threads and where to spill of a Spark that is started here.
        session: ``"spark"``, ``"spark://…"``, ``"sc://…"``, or a Spark session of any kind.
        settings: further settings of a session that is started here.

    Raises:
        InputError: when there is no Spark, the session is not fit for exact work, or a source is missing, cannot be
            read as declared, or lacks a column.
    """

    def __init__(
        self,
        catalog: Catalog,
        data: Mapping[str, SourceLike],
        limits: Limits | None = None,
        *,
        session: object = "spark",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._catalog, self._data, self._limits = catalog, dict(data), limits or Limits()
        self._public = frozenset(table.name.lower() for table in catalog.tables if table.public)
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._running: set[SparkQuery] = set()
        self._left: set[SparkQuery] = set()
        self._closed = self._doubtful = False
        self._outdated: tuple[str, ...] = ()
        self._held = open_session(session, self._limits, settings)
        try:
            self._open()
        except BaseException:
            self._held.release()
            raise

    def _open(self) -> None:
        # Other engines may share the session.
        prefix, states = f"tacit_{uuid.uuid4().hex}", self._states()
        with hushed():
            self._tables, self._views = open_tables(
                self._held.spark, self._catalog, self._data, prefix, elsewhere=self._held.is_elsewhere
            )
        self._opened_states = states
        self._used = time.monotonic()

    def _states(self) -> tuple[object, ...]:
        """What the files of all sources are now."""
        return tuple(source_state(source.kind, source.path) for source in self._data.values())

    def check(self, final: FinalAggregation) -> None:
        """Refuse what cannot be computed exactly; reads no data."""
        for measure in final.measures:
            check_width(measure)
        check_windows(SPARK, final.source)
        # What cannot be written is refused here as well.
        for statement in statements(final, self._tables, b""):
            _ = statement.sql

    def explain(self, final: FinalAggregation) -> tuple[str, ...]:
        """The statements for a final aggregation, for people: tables by name instead of by view, and no secret."""
        named = {name: replace(stored, scan=SPARK.quoted(name)) for name, stored in self._tables.items()}
        return tuple(statement.sql for statement in statements(final, named, b"secret"))

    def measure(self, work: MeasurementTask) -> Measurements:
        """Run the statements; progress is told about five times a second."""
        self.check(work.final)
        seconds = self._limits.seconds if work.timeout is None else work.timeout
        return self._opaquely(lambda: self._measure(work, seconds), lambda: _names(work.final.source))

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        """All rows of a public relation, sorted; refused where there are more than ``most``."""
        check_public(relation, self._public)
        check_windows(SPARK, relation)
        return self._opaquely(lambda: self._rows(relation, most), lambda: _names(relation))

    def examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, key_secret: bytes
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        """One row of each unit, for a model that is trained in this process: ``numbers`` and ``label`` are slots."""
        check_windows(SPARK, relation)
        return self._opaquely(lambda: self._examples(relation, numbers, label, key_secret), lambda: _names(relation))

    def marks(self, table: str) -> Marks:
        """By what a table is recognised, whatever it is called; see :mod:`identity`."""
        place = [part.name.lower() for part in self._catalog.tables].index(table.lower())
        source = next(source for name, source in self._data.items() if name.lower() == table.lower())

        def look() -> Marks:
            with hushed():
                return marks_of(self._held.spark, source, self._views[place])

        return self._opaquely(look, lambda: table)

    @property
    def limits(self) -> Limits:
        """What one question may use."""
        return self._limits

    def interrupt(self) -> None:
        """Stop all running questions."""
        with self._lock:
            questions = list(self._running)
        for question in questions:
            question.interrupt()

    def close(self) -> None:
        """Interrupt what runs and give the session back; may be called twice."""
        self.interrupt()
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            # What is lost has no views, and would be asked for each of them.
            if not self._doubtful or self._held.is_alive():
                self._drop_views()
            self._held.release()

    def _measure(self, work: MeasurementTask, seconds: float | None) -> Measurements:
        planned = statements(work.final, self._tables, work.key_secret)
        with self._question(seconds, work.progress) as jobs:
            answered = [(statement, jobs.collect(statement.sql)) for statement in planned]
        return read_measurements(work.final, answered)

    def _rows(self, relation: RelationNode, most: int) -> tuple[tuple[Value | None, ...], ...]:
        with self._question(self._limits.seconds) as jobs:
            found = jobs.collect(rows_sql(SPARK, relation, most, self._tables))
        return public_rows(found, relation, most)

    def _examples(
        self, relation: RelationNode, numbers: Sequence[int], label: int | None, secret: bytes
    ) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
        statement = examples_sql(SPARK, relation, numbers, label, secret, self._tables)
        with self._question(self._limits.seconds) as jobs:
            found = jobs.frame(statement).toArrow()
        raw = np.empty((found.num_rows, len(numbers)))
        for place in range(len(numbers)):
            raw[:, place] = found.column(place).to_numpy()
        if label is None:
            return raw, None
        labels = np.empty(found.num_rows, dtype=object)
        labels[:] = found.column(len(numbers)).to_pylist()
        return raw, labels

    def _question(self, seconds: float | None, progress: Callable[[float], None] | None = None) -> Any:
        return running(SparkQuery(self._held, seconds, progress), self._running, self._left, self._lock)

    def _opaquely(self, run: Callable[[], Result], read: Callable[[], str]) -> Result:
        def ensured() -> Result:
            try:
                self._ensure()
                found = run()
                self._used = time.monotonic()
                return found
            except TacitError:
                raise
            except Exception:
                self._doubtful = True
                raise

        return opaquely(ensured, read)

    def _ensure(self) -> None:
        """After a failure or a pause: see whether the session and its views are still there, and renew what is not."""
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
        """Open all sources anew: Spark keeps to the files, and the sizes, that it found when it was told of them."""
        before = self._views
        try:
            self._open()
        except InputError as problem:
            raise RuntimeError(f"a source has changed and cannot be read any more: {problem}") from None
        # A question that was written before may still be on its way to them.
        for view in self._outdated:
            _forget(self._held, view)
        self._outdated = before

    def _mend(self) -> None:
        with self._lock:
            left = set(self._left)
        # A server elsewhere that could not be told to stop may still be at work, and have no time for anything else.
        heard = {jobs for jobs in left if jobs.interrupt()}
        if not self._is_whole():
            try:
                self._held = self._held.renewed()
                self._open()
            except InputError as problem:
                # Where the server is and what it lacks is the operator's business.
                raise RuntimeError(f"Spark is lost: {problem}") from None
            heard = left
        with self._lock:
            self._left -= heard

    def _is_whole(self) -> bool:
        """Whether the session answers and has all views: a server that was started again may know it by name alone."""
        try:
            with hushed():
                return self._held.is_alive() and all(map(self._held.spark.catalog.tableExists, self._views))
        except Exception:
            return False

    def _drop_views(self) -> None:
        for view in (*self._views, *self._outdated):
            _forget(self._held, view)


def _names(relation: RelationNode) -> str:
    return ", ".join(sorted(scanned(relation)))


def _forget(held: SessionHandle, view: str) -> None:
    try:
        held.spark.catalog.dropTempView(view)
    except Exception:
        _OPERATOR.debug("a view of a session that is gone stays behind")
