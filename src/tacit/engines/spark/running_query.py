"""One running query on Spark: timeout, cancellation, progress.

The work of a query carries its own name: a tag on Spark Connect, a job group where there is a Spark context. A stop
between two jobs finds nothing to cancel, so it is repeated until the query ends. Progress is what a Spark Connect
server tells, every other second, to the thread that waits for the rows.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from numpy.typing import NDArray

from tacit.engines.arrow_frames import arrow_arrays
from tacit.engines.spark.session import SessionHandle, hushed

_TICK = 0.2
#: Seconds that a stop waits for a server elsewhere to hear of it; one that is lost never does.
_HEARD = 2.0


class SparkQuery:
    """The work of one query, for so many seconds at most; None for no limit. ``progress`` is told percentages."""

    def __init__(self, held: SessionHandle, seconds: float | None, progress: Callable[[float], None] | None) -> None:
        self._spark, self._context = held.spark, held.context
        self._seconds, self._progress = seconds, progress if held.is_elsewhere else None
        self._name = f"tacit-{uuid.uuid4().hex}"
        self._stopped, self._ended = threading.Event(), threading.Event()
        self._best = 0.0
        self._thread = 0
        self._told: dict[str | None, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._stopping: threading.Thread | None = None
        self._heard = False

    def rows(self, sql: str) -> list[Any]:
        """All rows of a statement, fetched once; a task that Spark repeats is repeated before that.

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
        """The same as columns, of which there are ``count``."""
        self.check()
        return arrow_arrays(self._spark.sql(sql).toArrow(), as_objects)

    def check(self) -> None:
        """Raise if the query was stopped."""
        if self._stopped.is_set():
            raise InterruptedError("the query was stopped")

    def interrupt(self) -> bool:
        """Stop; also what has not begun yet. Whether Spark heard of it."""
        self._stopped.set()
        return self._cancel()

    def _cancel(self) -> bool:
        if self._context is not None:
            with suppress(Exception):
                self._context.cancelJobGroup(self._name)
                return True
            return False
        # The watcher and another thread may stop at once; one request to the server is enough.
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
        """Give the name to everything this thread asks of Spark, and watch over it."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        self._mark()
        watcher.start()
        try:
            with hushed():
                yield
        except BaseException:
            # However the query ended, by Ctrl-C among others: Spark does not go on without us.
            self.interrupt()
            raise
        finally:
            self._ended.set()
            watcher.join()
            self._unmark()

    def _mark(self) -> None:
        self._thread = threading.get_ident()
        if self._context is not None:
            # Tasks are interrupted as well, not only left alone.
            self._context.setJobGroup(self._name, "tacit", True)
            return
        self._spark.addTag(self._name)
        if self._progress is not None and hasattr(self._spark, "registerProgressHandler"):
            self._spark.registerProgressHandler(self._hear)

    def _unmark(self) -> None:
        with suppress(Exception):
            if self._context is not None:
                for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                    self._context.setLocalProperty(name, None)
                return
            self._spark.removeTag(self._name)
            if self._progress is not None:
                self._spark.removeProgressHandler(self._hear)

    def _hear(self, stages: Iterable[Any] | None, operation_id: str | None = None, **_: Any) -> None:
        """Note progress of a Spark Connect server; handlers hear of all work of a session, so the thread decides."""
        if threading.get_ident() != self._thread:
            return
        known = list(stages or ())
        tasks = sum(stage.num_tasks for stage in known), sum(stage.num_completed_tasks for stage in known)
        self._told = {**self._told, operation_id: tasks}

    def _watch(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(_TICK):
            if self._seconds is not None and time.monotonic() - started > self._seconds:
                self._stopped.set()
            if self._stopped.is_set():
                self._cancel()
            elif self._progress is not None:
                self._progress(self._done())

    def _done(self) -> float:
        """The percentage of tasks done, of those known so far; never less than before."""
        told = self._told.values()
        tasks, done = sum(tasks for tasks, _ in told), sum(done for _, done in told)
        self._best = max(self._best, min(100.0, 100.0 * done / tasks if tasks else 0.0))
        return self._best
