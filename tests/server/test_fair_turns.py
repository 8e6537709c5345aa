"""No user starves others: a limit of running queries for each, turns among those who wait, room for first ones."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from support.served import COUNT, Served, error, raw, rows, serve
from support.toy_engine import ToyEngine
from tacit.core.errors import InputError
from tacit.server.api.worker_runtime import FairExecutor, FairQueue
from tacit.server.errors import Busy
from tacit.server.settings import Settings


class Stepped:
    """Work that notes when it begins, and ends when it is told to."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._lock = threading.Lock()
        self._go: dict[str, threading.Event] = {}

    def __call__(self, name: str) -> str:
        with self._lock:
            gate = self._go.setdefault(name, threading.Event())
            self.begun.append(name)
        assert gate.wait(30)
        return name

    def end(self, name: str) -> None:
        with self._lock:
            self._go.setdefault(name, threading.Event()).set()


async def until(found: Any) -> None:
    for _ in range(20_000):
        if found():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not come to that")


def taken(queue: FairQueue[str], count: int) -> list[str]:
    """Items handed out next, so many times."""
    found = []
    for _ in range(count):
        turn = queue.take()
        assert turn is not None
        assert turn[0] == turn[1][0]
        found.append(turn[1])
    return found


def put(queue: FairQueue[str], *names: str) -> None:
    for name in names:
        queue.put(name[0], name)


def test_people_take_turns_and_none_has_more_than_so_much_under_way() -> None:
    queue = FairQueue[str](2)
    put(queue, "a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "c0")
    assert taken(queue, 5) == ["a0", "b0", "c0", "a1", "b1"]
    assert queue.take() is None, "a and b have two each under way"
    queue.ended("c")
    assert queue.take() is None
    put(queue, "d0")
    assert taken(queue, 1) == ["d0"], "the last comer, who has nothing, goes ahead of those who have their share"
    queue.ended("b")
    assert taken(queue, 1) == ["b2"]
    queue.ended("a")
    queue.ended("a")
    assert taken(queue, 2) == ["a2", "a3"]
    assert queue.take() is None
    queue.ended("a")
    assert taken(queue, 1) == ["a4"]


def test_the_queue_of_one_never_delays_the_first_of_another_by_more_than_what_runs() -> None:
    """With however many waiting: as soon as one thread is free, or two where another is before them."""
    queue = FairQueue[str](1)
    put(queue, *(f"a{i}" for i in range(9)))
    assert taken(queue, 1) == ["a0"]
    put(queue, "b0")
    assert taken(queue, 1) == ["b0"]
    put(queue, "c0")
    queue.ended("a")
    assert taken(queue, 2) == ["a1", "c0"], "a was served before b, and c comes after b"
    queue.ended("b")
    queue.ended("c")
    queue.ended("a")
    put(queue, "d0")
    assert taken(queue, 2) == ["a2", "d0"], "those who come anew do not keep a queue waiting for ever"
    assert set(queue._served) == {"a", "d"}
    one = FairQueue[str](1)
    put(one, "a0")
    assert taken(one, 1) == ["a0"]
    put(one, "a1", "b0")
    one.ended("a")
    assert taken(one, 2) == ["b0", "a1"], "the first of b goes before the second of a"


def test_the_queue_of_one_keeps_no_first_query_out() -> None:
    lane, work = FairExecutor("test", 2, 4, 1), Stepped()

    async def story() -> None:
        tasks = [asyncio.ensure_future(lane.run_for("a", work, f"a{i}")) for i in range(3)]
        tasks += [asyncio.ensure_future(lane.run_for("b", work, f"b{i}")) for i in range(3)]
        await until(lambda: len(work.begun) == 2)
        for full in ("a", "b"):
            with pytest.raises(Busy):
                await lane.run_for(full, work, "more")
        assert lane.taken == 6, "threads and queue are full"
        tasks.append(asyncio.ensure_future(lane.run_for("c", work, "c0")))
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await lane.run_for("c", work, "c1")
        work.end("a0")
        # It is the turn of a, who came first; then b, who may have one thread only; then c.
        await until(lambda: len(work.begun) == 3)
        work.end(work.begun[2])
        await until(lambda: len(work.begun) == 4)
        assert "c0" in work.begun[2:4]
        for name in ("a", "b", "c"):
            for i in range(3):
                work.end(f"{name}{i}")
        await asyncio.gather(*tasks)
        assert not lane.taken
        assert not lane._people

    asyncio.run(story())
    lane.close()
    with pytest.raises(Busy):
        asyncio.run(lane.run_for("a", work, "a0"))


def test_a_closed_pool_finishes_what_waits_and_ends_its_threads() -> None:
    lane, work = FairExecutor("closed", 1, 4, 1), Stepped()

    async def story() -> None:
        tasks = [asyncio.ensure_future(lane.run_for("a", work, f"a{i}")) for i in range(3)]
        await until(lambda: work.begun == ["a0"])
        lane.close()
        with pytest.raises(Busy):
            await lane.run_for("b", work, "b0")
        for i in range(3):
            work.end(f"a{i}")
        assert await asyncio.gather(*tasks) == ["a0", "a1", "a2"]
        await until(lambda: not [each for each in threading.enumerate() if each.name.startswith("tacit-closed")])

    asyncio.run(story())


def test_what_no_caller_waits_for_any_more_is_done_all_the_same() -> None:
    lane, work = FairExecutor("test", 1, 4), Stepped()

    async def story() -> None:
        tasks = [asyncio.ensure_future(lane.run(work, f"a{i}")) for i in range(3)]
        await until(lambda: work.begun == ["a0"])
        tasks[1].cancel()
        for i in range(3):
            work.end(f"a{i}")
        assert await asyncio.gather(tasks[0], tasks[2]) == ["a0", "a2"]
        await until(lambda: not lane.taken)
        assert work.begun == ["a0", "a1", "a2"]

    asyncio.run(story())
    lane.close()


class Gate(ToyEngine):
    """An engine that waits to be let on, for queries of one price."""

    def __init__(self) -> None:
        super().__init__(rows())
        self.go = threading.Event()
        self.waiting = 0

    def measure(self, work: Any) -> Any:
        if work.final.max_groups == 1:
            self.waiting += 1
            assert self.go.wait(30)
        return super().measure(work)


async def _query(served: Served, name: str, epsilon: str, groups: int) -> tuple[int, dict[bytes, bytes], bytes]:
    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {served.tokens[name]}".encode())]
    body = f'{{"sql": "{COUNT}", "epsilon": {epsilon}, "max_groups": {groups}, "bias_share": 0}}'.encode()
    return await raw(served.app, "POST", "/v1/query", headers=headers, body=body)


def test_twenty_slow_queries_of_one_analyst_do_not_delay_another() -> None:
    """However long they run: the other one's answer comes while none of them has ended."""
    engine = Gate()
    served = serve(engine=engine, threads=4, queue=64, asks_per_minute=1000)

    async def story() -> None:
        tasks = [asyncio.ensure_future(_query(served, "alice", f"0.{i:03}", 1)) for i in range(1, 21)]
        await until(lambda: engine.waiting == 2)
        for i in range(1, 6):
            assert (await _query(served, "bob", f"0.{i:03}", 2))[0] == 200
        assert engine.waiting == 2, "half of the threads are hers, and no more"
        engine.go.set()
        assert {found[0] for found in await asyncio.gather(*tasks)} == {200}

    asyncio.run(story())
    served.close()


def test_one_analyst_cannot_fill_the_queue() -> None:
    engine = Gate()
    served = serve(engine=engine, threads=2, queue=4, asks_per_minute=1000)

    async def story() -> None:
        tasks = [asyncio.ensure_future(_query(served, "alice", f"0.{i:03}", 1)) for i in range(1, 11)]
        await until(lambda: sum(task.done() for task in tasks) == 7)
        refused = [task.result() for task in tasks if task.done()]
        assert {(status, error(body)["code"]) for status, _, body in refused} == {(503, "busy")}
        assert (await _query(served, "bob", "0.5", 2))[0] == 200
        engine.go.set()
        assert sorted(found[0] for found in await asyncio.gather(*tasks)) == [200] * 3 + [503] * 7

    asyncio.run(story())
    served.close()


def test_how_many_of_one_person_run_at_once() -> None:
    assert [Settings(threads=n).running_each for n in (1, 2, 3, 8)] == [1, 1, 1, 4]
    assert Settings(threads=4, threads_per_analyst=3).running_each == 3
    assert Settings(threads=4, threads_per_analyst=9).running_each == 4
    with pytest.raises(InputError):
        Settings(threads_per_analyst=-1)
