"""The DuckDB engine: one locked database, one cursor per question, exact integers back.

Any failure (memory, time, a damaged file, a mistake of ours) becomes an EngineError that carries an id; DuckDB's own
words can quote data and go to the logger ``tacit.operator`` alone.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tacit.core.errors import EngineError, TacitError
from tacit.engines.duckdb.connection import Limits, open_locked
from tacit.engines.duckdb.partials import check_width
from tacit.engines.duckdb.relations import scanned
from tacit.engines.duckdb.results import read_measurements
from tacit.engines.duckdb.sources import SourceLike
from tacit.engines.duckdb.spelling import quoted
from tacit.engines.duckdb.statements import statements
from tacit.engines.duckdb.windows import check_window
from tacit.engines.protocol import Measurements, Work
from tacit.query.algebra import Relation, UnitWindow, sources
from tacit.query.catalog import Catalog
from tacit.query.final import FinalAggregation

if TYPE_CHECKING:
    import duckdb

__all__ = ["DuckDBEngine"]

_OPERATOR = logging.getLogger("tacit.operator")


class DuckDBEngine:
    """Measures files and frames with DuckDB.

    Args:
        catalog: the tables.
        data: where each table's rows are, by table name.
        limits: memory, threads, seconds, and whether to spill to disk.

    Raises:
        InputError: when a source is missing, cannot be read as declared, or lacks a column.
    """

    def __init__(self, catalog: Catalog, data: Mapping[str, SourceLike], limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._connection, self._tables = open_locked(catalog, data, self._limits)
        self._lock = threading.Lock()
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._closed = False

    def check(self, final: FinalAggregation) -> None:
        """Refuse what cannot be computed exactly; reads no data."""
        for measure in final.measures:
            check_width(measure)
        _check_relation(final.source)

    def explain(self, final: FinalAggregation) -> tuple[str, ...]:
        """The statements for a final aggregation, for people: tables by name instead of by path, and no secret."""
        named = {name: replace(stored, scan=quoted(name)) for name, stored in self._tables.items()}
        return tuple(statement.sql for statement in statements(final, named, b"secret"))

    def measure(self, work: Work, progress: Callable[[float], None] | None = None) -> Measurements:
        """Run the statements; ``progress`` is told a percentage about four times a second."""
        self.check(work.final)
        try:
            return self._measure(work, progress)
        except TacitError:
            raise
        except Exception:
            name = uuid.uuid4().hex
            _OPERATOR.exception("engine failure %s", name)
        # Raised here so that the failure, whose words may quote data, is not chained to it.
        raise EngineError(name)

    def interrupt(self) -> None:
        """Stop all running statements."""
        with self._lock:
            running = list(self._running)
        for cursor in running:
            cursor.interrupt()

    def close(self) -> None:
        """Interrupt what runs and close the database; may be called twice."""
        self.interrupt()
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._connection.close()

    def __enter__(self) -> DuckDBEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _measure(self, work: Work, progress: Callable[[float], None] | None) -> Measurements:
        planned = statements(work.final, self._tables, work.key_secret)
        seconds = self._limits.seconds if work.timeout is None else work.timeout
        with self._session(seconds, progress) as cursor:
            for name in scanned(work.final.source):
                frame = self._tables[name].frame
                if frame is not None:
                    cursor.register(*frame)
            answered = [(statement, cursor.execute(statement.sql).fetchall()) for statement in planned]
        return read_measurements(work.final, answered)

    @contextmanager
    def _session(
        self, seconds: float | None, progress: Callable[[float], None] | None
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock:
            cursor = self._connection.cursor()
            self._running.add(cursor)
        stop = threading.Event()
        watcher = threading.Thread(target=_watch, args=(cursor, stop, seconds, progress), daemon=True)
        try:
            if seconds is not None or progress is not None:
                watcher.start()
            yield cursor
        finally:
            stop.set()
            if watcher.ident is not None:
                watcher.join()
            with self._lock:
                self._running.discard(cursor)
            cursor.close()


def _watch(
    cursor: duckdb.DuckDBPyConnection,
    stop: threading.Event,
    seconds: float | None,
    progress: Callable[[float], None] | None,
) -> None:
    """Tell progress, and interrupt when the time is up."""
    waited, tick = 0.0, 0.25
    while seconds is None or waited < seconds:
        pause = tick if seconds is None else min(tick if progress is not None else seconds, seconds - waited)
        if stop.wait(pause):
            return
        waited += pause
        if progress is not None:
            progress(max(0.0, cursor.query_progress()))
    # Again and again: an interrupt between two statements would be forgotten.
    cursor.interrupt()
    while not stop.wait(tick):
        cursor.interrupt()


def _check_relation(node: Relation) -> None:
    if isinstance(node, UnitWindow):
        for call in node.calls:
            check_window(call)
    for part in sources(node):
        _check_relation(part)
