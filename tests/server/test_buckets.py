"""Rate limits counted by several processes in one memory, some of which are killed meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tacit.server import rate_limit as counted
from tacit.server.errors import TooMany
from tacit.server.rate_limit import Buckets, RateLimit


@pytest.fixture
def shared() -> Iterator[Buckets]:
    found = Buckets(shared=True)
    yield found
    found.close()


def forked(work: Callable[[], int]) -> int:
    """Do something in another process; its id."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    return pid


def taken(rate: RateLimit, caller: str, tries: int) -> int:
    """Number of tries that are let through."""
    found = 0
    for _ in range(tries):
        try:
            rate.take(caller)
        except TooMany:
            continue
        found += 1
    return found


def test_processes_share_one_limit(shared: Buckets) -> None:
    rate = RateLimit(60, clock=lambda: 5.0, buckets=shared, name="asks")
    workers = [forked(lambda: taken(rate, "alice", 50)) for _ in range(4)]
    let = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers]
    assert sum(let) == 60
    with pytest.raises(TooMany) as problem:
        rate.take("alice")
    assert problem.value.seconds == pytest.approx(1.0)
    rate.take("bob")
    assert taken(RateLimit(60, clock=lambda: 5.0, buckets=shared, name="quotes"), "alice", 3) == 3, "another rate"
    assert taken(RateLimit(60, clock=lambda: 7.0, buckets=shared, name="asks"), "alice", 9) == 2


def test_a_worker_that_is_killed_while_it_counts_stops_no_other(shared: Buckets) -> None:
    rate = RateLimit(60, clock=lambda: 5.0, buckets=shared)
    reading, writing = os.pipe()

    def die() -> int:
        with shared._held(shared._place("\0alice")[0]):
            os.write(writing, b"x")
            signal.pause()
        return 0

    pid = forked(die)
    assert os.read(reading, 1) == b"x"
    os.kill(pid, signal.SIGKILL)
    rate.take("alice")
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)


def test_the_busiest_are_remembered_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others come: memory is bounded, and what is forgotten is what was almost full."""
    monkeypatch.setattr(counted, "_MOST", counted._BESIDE)
    rate = RateLimit(10, clock=lambda: 5.0)
    assert taken(rate, "alice", 20) == 10
    for number in range(200):
        rate.take(f"caller {number}")
    assert taken(rate, "alice", 5) == 0
    assert len(rate._buckets._memory) == (counted._BESIDE + counted._COUNTERS) * 16


def test_what_is_given_back_is_there_again_and_no_more() -> None:
    buckets, now, step = Buckets(), [100 * 10**9], 20 * 10**9

    def pour(step: int) -> int:
        return buckets.pour("alice", step, now[0], 3 * 20 * 10**9)

    def let(tries: int) -> int:
        return sum(pour(step) == 0 for _ in range(tries))

    pour(-step)
    assert let(5) == 3
    pour(-step)
    assert let(5) == 1
    for _ in range(9):
        pour(-step)
    assert let(5) == 3
    now[0] += 61 * 10**9
    pour(-step)
    assert let(5) == 3
