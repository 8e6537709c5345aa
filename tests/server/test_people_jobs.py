"""Queries that are answered later: seen by their owner alone, taken by one worker, lost by no restart."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from support.crowds import Crowd
from tacit.core.errors import InputError
from tacit.server.identity import Job
from tacit.server.identity.credentials import new_id


def put(crowd: Crowd, analyst: str = "alice", request: str = '{"sql": "…"}') -> Job:
    job = Job(new_id(), analyst, request, crowd.watch())
    crowd.people.jobs.put(job)
    crowd.watch.wait(seconds=1)
    return job


def test_the_way_of_a_query(crowd: Crowd) -> None:
    job = put(crowd)
    worker = crowd.again()
    assert worker.jobs.unfinished() == (job,)
    assert crowd.people.jobs.find(job.id, "ALICE") == job
    until = crowd.watch() + timedelta(seconds=30)
    assert worker.jobs.claim(job.id, "worker 1", until)
    running = replace(job, state="running", worker="worker 1", lease=until, tries=1)
    assert crowd.people.jobs.find(job.id, "alice") == running
    assert crowd.people.jobs.unfinished() == ()
    assert crowd.people.jobs.open("alice") == 1
    assert worker.jobs.finish(job.id, '{"rows": []}')
    done = crowd.people.jobs.find(job.id, "alice")
    assert done == replace(running, state="done", outcome='{"rows": []}', lease=None, finished=crowd.watch())
    assert crowd.people.jobs.open("alice") == 0
    assert not crowd.people.jobs.finish(job.id, "another", failed=True)
    assert not crowd.people.jobs.claim(job.id, "worker 2", until)
    assert crowd.people.jobs.find(job.id, "alice") == done


def test_those_of_others_are_not_there(crowd: Crowd) -> None:
    job = put(crowd)
    for other in ("bob", "owner", "alic"):
        assert crowd.people.jobs.find(job.id, other) is None
    strange: list[Any] = ["", "\0", "\ud800", "x" * 10**6, None, 7, job.id.encode(), job.id + "\0", "'; DROP TABLE x"]
    for text in strange:
        assert crowd.people.jobs.find(text, "alice") is None
    assert crowd.people.jobs.open("bob") == 0


def test_a_worker_that_died_is_replaced(crowd: Crowd) -> None:
    first, second = put(crowd), put(crowd)
    until = crowd.watch() + timedelta(seconds=30)
    assert crowd.people.jobs.claim(first.id, "worker 1", until)
    assert not crowd.people.jobs.claim(first.id, "worker 2", until)
    assert crowd.people.jobs.claim(first.id, "worker 1", until + timedelta(seconds=30))
    crowd.watch.wait(seconds=45)
    assert [job.id for job in crowd.people.jobs.unfinished()] == [second.id]
    crowd.watch.wait(seconds=16)
    assert [job.id for job in crowd.people.jobs.unfinished()] == [first.id, second.id]
    assert crowd.again().jobs.claim(first.id, "worker 2", crowd.watch() + timedelta(seconds=30))
    assert crowd.people.jobs.finish(first.id, "id 7", failed=True)
    found = crowd.people.jobs.find(first.id, "alice")
    assert found is not None
    assert (found.state, found.worker) == ("failed", "worker 2")


def test_a_query_is_taken_once(crowd: Crowd) -> None:
    jobs = [put(crowd) for _ in range(5)]
    views = [crowd.people, *(crowd.again() for _ in range(3))]
    start = threading.Barrier(len(views))
    until = crowd.watch() + timedelta(seconds=30)

    def take(number: int) -> list[bool]:
        start.wait()
        return [views[number].jobs.claim(job.id, f"worker {number}", until) for job in jobs]

    with ThreadPoolExecutor(len(views)) as pool:
        taken = list(pool.map(take, range(len(views))))
    assert [sum(column) for column in zip(*taken, strict=True)] == [1] * 5


def test_it_is_counted_how_many_workers_took_one(crowd: Crowd) -> None:
    job = put(crowd)

    def claim(worker: str) -> int:
        return crowd.people.jobs.claim(job.id, worker, crowd.watch() + timedelta(seconds=30))

    assert [claim("worker 1"), claim("worker 1"), claim("worker 2")] == [1, 1, 0], "to hold on is not to take"
    crowd.watch.wait(seconds=31)
    assert claim("worker 2") == 2
    crowd.people.jobs.put_back(job.id, "worker 1")
    assert crowd.people.jobs.unfinished() == (), "it is not theirs to put back"
    crowd.people.jobs.put_back(job.id, "worker 2")
    assert crowd.people.jobs.unfinished() == (replace(job, tries=1),)
    assert claim("worker 3") == 2
    crowd.people.jobs.finish(job.id, "")
    crowd.people.jobs.put_back(job.id, "worker 3")
    assert crowd.people.jobs.unfinished() == ()


def test_a_restart_loses_nothing(lasting: Crowd) -> None:
    job = put(lasting, request="é\n😀" * 1000)
    lasting.restart()
    assert lasting.people.jobs.unfinished() == (job,)


def test_old_ones_are_forgotten(crowd: Crowd) -> None:
    old, waiting = put(crowd), put(crowd)
    crowd.people.jobs.finish(old.id, "")
    crowd.watch.wait(days=1)
    new = put(crowd)
    crowd.people.jobs.finish(new.id, "")
    assert crowd.people.jobs.forget(crowd.watch() - timedelta(hours=1)) == 1
    assert [crowd.people.jobs.find(job.id, "alice") is None for job in (old, waiting, new)] == [True, False, False]


def test_what_cannot_be_kept(crowd: Crowd) -> None:
    job = put(crowd)
    with pytest.raises(InputError, match="another job"):
        crowd.people.jobs.put(replace(job, analyst="bob"))
    fresh = replace(job, id=new_id())
    for wrong in (
        {"request": "\0"}, {"request": "\ud800"}, {"id": "a\nb"}, {"analyst": ""}, {"created": datetime(2026, 1, 1)},
        {"id": "x" * 65},
    ):  # fmt: skip
        with pytest.raises(InputError):
            crowd.people.jobs.put(replace(fresh, **wrong))
    with pytest.raises(InputError):
        crowd.people.jobs.finish(job.id, "\0")
    assert crowd.people.jobs.unfinished() == (job,)


def test_the_outcome_is_not_in_the_repr(crowd: Crowd) -> None:
    assert "17.5" not in repr(replace(put(crowd), outcome="17.5"))


def test_only_so_many_outcomes_are_kept_for_one_person(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeats cost nothing, so the number of answers that a person can have kept must end somewhere."""
    monkeypatch.setattr("tacit.server.identity.jobs._MOST_FINISHED", 3)
    waiting, others = put(crowd), put(crowd, "bob")
    assert crowd.people.jobs.finish(others.id, "bob's")
    mine = [put(crowd) for _ in range(6)]
    for job in mine:
        assert crowd.people.jobs.finish(job.id, "x" * 1000)
        crowd.watch.wait(seconds=1)
    assert [crowd.people.jobs.find(job.id, "alice") is not None for job in mine] == [False] * 3 + [True] * 3
    assert crowd.people.jobs.find(waiting.id, "alice") == waiting
    assert crowd.people.jobs.find(others.id, "bob") is not None
