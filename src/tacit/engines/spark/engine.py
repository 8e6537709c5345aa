"""The Spark engine: one session, one job group per question, exact integers back.

Every statement is collected once; nothing is drawn before all integers are here, so a partition that Spark computes
again can never give a second draw. A session that was started here and is lost is started again for
the next question; one at a Spark Connect server is asked whether it is still known before it is used after a pause,
so that no charge is spent on finding out.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tacit.core.errors import InputError, TacitError
from tacit.engines.protocol import Limits, Marks, MeasurementTask, SourceLike
from tacit.engines.source_files import source_state
from tacit.engines.spark.dialect import SPARK
from tacit.engines.spark.running_query import SparkQuery
from tacit.engines.spark.session import SessionHandle, hushed, open_session
from tacit.engines.spark.sources import open_tables
from tacit.engines.spark.statements import SparkWriter
from tacit.engines.spark.table_identity import marks_of
from tacit.engines.sql.engine import SqlEngine, opaquely
from tacit.engines.sql.relations import StoredTable, scanned
from tacit.query.catalog import Catalog
from tacit.query.relational.algebra import RelationNode

__all__ = ["SparkEngine"]

_OPERATOR = logging.getLogger("tacit.operator")
#: Seconds after which a server elsewhere may have forgotten an unused session; by itself it takes an hour.
_PAUSE = 300.0


class SparkEngine(SqlEngine):
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

    elsewhere = True

    dialect = SPARK
    writer = SparkWriter

    def __init__(
        self,
        catalog: Catalog,
        data: Mapping[str, SourceLike],
        limits: Limits | None = None,
        *,
        session: object = "spark",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(catalog, limits)
        self._data = dict(data)
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
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
            self._stored, self._views = open_tables(
                self._held.spark, self._catalog, self._data, prefix, elsewhere=self._held.is_elsewhere
            )
        self._opened_states = states
        self._used = time.monotonic()

    def _states(self) -> tuple[object, ...]:
        """The states of the files of all sources."""
        return tuple(source_state(source.kind, source.path) for source in self._data.values())

    @property
    def _tables(self) -> Mapping[str, StoredTable]:
        return self._stored

    def _operator_words(self, relation: RelationNode) -> str:
        return ", ".join(sorted(scanned(relation)))

    @contextmanager
    def _session(
        self,
        relation: RelationNode,  # noqa: ARG002 - one session reads all
        work: MeasurementTask | None,
    ) -> Iterator[tuple[SparkQuery, Mapping[str, StoredTable]]]:
        with self._watched():
            query = SparkQuery(self._held, self._seconds(work), None if work is None else work.progress)
            with self._running.entered(query):
                try:
                    with query.named():
                        yield query, self._stored
                except BaseException:
                    # A server elsewhere may still be at work on it.
                    with self._lock:
                        self._left.add(query)
                    raise

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Use the session, which is renewed first where it was lost; a failure leaves it in doubt."""
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
        """Identity of a table, independent of its name in a project; see :mod:`.table_identity`."""
        place = [part.name.lower() for part in self._catalog.tables].index(table.lower())
        source = next(source for name, source in self._data.items() if name.lower() == table.lower())

        def look() -> Marks:
            with self._watched(), hushed():
                return marks_of(self._held.spark, source, self._views[place])

        return opaquely(look, lambda: table)

    def close(self) -> None:
        """Interrupt what runs and give the session back; may be called twice."""
        self.interrupt()
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            # A lost session has no views, and would be asked for each of them.
            if not self._doubtful or self._held.is_alive():
                self._drop_views()
            self._held.release()

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


def _forget(held: SessionHandle, view: str) -> None:
    try:
        held.spark.catalog.dropTempView(view)
    except Exception:
        _OPERATOR.debug("a view of a session that is gone stays behind")
