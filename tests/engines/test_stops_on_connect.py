"""Spark without a Spark: which addresses there are, and stops of a query on Spark Connect."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tacit.core.errors import InputError
from tacit.engines.registry import engine_kind
from tacit.engines.spark.session import SessionHandle, SparkQuery, open_session


class Session:
    """What a query asks of a Spark Connect session; its server hears a stop only while an operation runs."""

    def __init__(self, work: Any, answers: Any = lambda: None) -> None:
        self._work, self._answers = work, answers
        self.running = threading.Event()
        self.stopped: list[str] = []

    def addTag(self, tag: str) -> None:  # noqa: N802 - Spark's name
        self.tag = tag

    def removeTag(self, tag: str) -> None:  # noqa: N802
        assert tag == self.tag

    def interruptTag(self, tag: str) -> list[str]:  # noqa: N802
        self._answers()
        if self.running.is_set():
            self.stopped.append(tag)
        return self.stopped

    def sql(self, text: str) -> Any:
        return self

    def collect(self) -> list[Any]:
        return list(self._work(self))


def query(session: Session) -> SparkQuery:
    return SparkQuery(SessionHandle(session, None), None)


def test_stops_from_many_threads_at_once() -> None:
    """A thread that watches over a query must outlive all of them, or nothing stops it any more."""
    failed: list[Any] = []
    session = Session(lambda _: [])
    for _ in range(200):
        made, together = query(session), threading.Barrier(3)

        def stop(made: SparkQuery = made, together: threading.Barrier = together) -> None:
            together.wait()
            try:
                made.interrupt()
            except RuntimeError as problem:
                failed.append(problem)

        threads = [threading.Thread(target=stop) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


def test_a_stop_that_finds_nothing_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop comes before the server knows of any operation; the work that begins then is stopped all the same."""
    monkeypatch.setattr("tacit.engines.spark.session._TICK", 0.01)

    def work(session: Session) -> list[Any]:
        made.interrupt()
        assert session.stopped == []
        session.running.set()
        end = time.monotonic() + 30
        while not session.stopped and time.monotonic() < end:
            time.sleep(0.01)
        return []

    session = Session(work)
    made = query(session)
    with made.named(), pytest.raises(InterruptedError):
        made.rows("SELECT 1")
    assert session.stopped[0] == session.tag


def test_nothing_begins_once_the_limit_is_over() -> None:
    session = Session(lambda _: pytest.fail("it was collected"))
    made = query(session)
    session.sql = lambda _: made.interrupt() or session  # type: ignore[method-assign]
    with made.named(), pytest.raises(InterruptedError):
        made.rows("SELECT 1")


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.engines.spark.session._HEARD", 0.01)
    silent = threading.Event()
    made = query(Session(lambda _: [], answers=silent.wait))
    assert not made.interrupt()
    silent.set()


@pytest.mark.parametrize("place", ["spark", "spark://host:7077", "local[2]", "databricks://host"])
def test_a_cluster_is_reached_by_spark_connect_alone(place: str) -> None:
    with pytest.raises(InputError, match="sc://"):
        engine_kind(place)
    with pytest.raises(InputError, match="sc://"):
        open_session(place)
