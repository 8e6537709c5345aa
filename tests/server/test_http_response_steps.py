"""When things leave, how many run at once, and how a server stops. No test reads a clock that runs by itself."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from support.served import COUNT, Served, error, raw, rows, serve
from support.timers import Clock, ManualSteps, TestedSteps
from support.toy_engine import ToyEngine
from tacit.core.errors import EngineError, InputError
from tacit.ledger import ConflictError
from tacit.server.api.worker_runtime import FairExecutor
from tacit.server.errors import Busy, TooMany
from tacit.server.rate_limit import RateLimit, network_of
from tacit.server.settings import Settings
from tacit.server.timing import ResponseSteps


def test_slots_double() -> None:
    steps = ResponseSteps(0.25)
    taken = [0.0, 0.001, 0.249, 0.25, 0.2501, 0.5, 0.51, 1.0, 1.1, 3.0, 9.0]
    left = [0.25, 0.25, 0.25, 0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 4.0, 16.0]
    assert [steps.due(100.0, 100.0 + t) - 100.0 for t in taken] == left
    assert ResponseSteps(0.0).due(1.0, 1.5) == 1.5


def test_nothing_leaves_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when timers ring early, as they may."""
    now = [7.0]
    steps = ResponseSteps(0.25, clock=lambda: now[0])

    async def early(seconds: float) -> None:
        now[0] += seconds * 0.9 + 1e-6

    monkeypatch.setattr(asyncio, "sleep", early)
    asyncio.run(steps.hold(7.0))
    assert 7.25 <= now[0] < 7.26


def left_alike(steps: TestedSteps) -> int:
    return steps.held + steps.rung


def test_answers_refusals_and_failures_are_held_alike() -> None:
    served = serve(response_step=0.25)
    steps = served.app.state.runtime.steps = TestedSteps()
    served.curator.ledger.set_quota("patients", {"epsilon": "1"}, analyst="bob", operator="test")
    cases: list[tuple[dict[str, Any], int]] = [
        ({"epsilon": 0.5}, 200),
        ({"epsilon": 0.5}, 200),
        ({"epsilon": 0.75, "name": "bob"}, 200),
        ({"epsilon": 0.8, "name": "bob"}, 402),
        ({"sql": "SELECT * FROM visits", "epsilon": 1}, 422),
        ({"epsilon": 1, "name": "audrey"}, 403),
        ({"epsilon": 0.5, "headers": {"Tacit-Repeat": "only"}}, 200),
    ]
    for i, (words, status) in enumerate(cases, 1):
        assert served.ask(**words).status_code == status
        assert left_alike(steps) == i
    served.engine.fail = EngineError("x")
    assert served.ask(epsilon=0.9).status_code == 500
    assert left_alike(steps) == len(cases) + 1
    # What is refused before it is a query, and what reads no data, is not held.
    served.raw("POST", "/v1/query", headers=[(b"content-type", b"application/json")], body=b"{")
    served.call("POST", "/v1/explain", json={"sql": COUNT, "epsilon": 1})
    served.get("/v1/budget")
    assert left_alike(steps) == len(cases) + 1
    served.close()


def test_the_runtime_asks_as_the_endpoint_does() -> None:
    """The door of the console: a step for answers and for failures."""
    from tacit.query.request import Request

    served = serve(response_step=0.25)
    runtime = served.app.state.runtime
    steps = runtime.steps = TestedSteps()

    async def ask(name: str, **words: Any) -> Any:
        return await runtime.ask(served.access(name), Request(sql=COUNT, **words), key="k")

    answer = asyncio.run(ask("alice", epsilon="0.5"))
    assert answer.receipt.position
    with pytest.raises(InputError):
        asyncio.run(ask("alice"))
    assert (steps.rung, steps.held) == (1, 1)
    quote = asyncio.run(runtime.quote(served.access(), Request(sql=COUNT, epsilon="0.5")))
    assert quote.plan.final.population == "patients"
    served.close()


class Gate(ToyEngine):
    """An engine that waits to be let on."""

    def __init__(self) -> None:
        super().__init__(rows())
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    def measure(self, work: Any) -> Any:
        self.begun.release()
        assert self.go.wait(30)
        return super().measure(work)


@pytest.mark.parametrize("prefer", [b"", b"respond-async"])
def test_nothing_tells_that_an_answer_exists_before_it_leaves(prefer: bytes) -> None:
    """A poll of the history, a receipt or a repeat would else show when the engine was done, to the millisecond."""
    served = serve(threads=2, queue=0, response_step=0.25)

    async def seen(position: int) -> tuple[Any, ...]:
        async with served.client() as client:
            (entry,) = (await client.get("/v1/history")).json()["entries"]
            receipt = await client.get(f"/v1/receipts/{position}")
            repeat = await served.app.state.runtime.run(_repeat, served)
        return entry["answered"], receipt.status_code, repeat, served.curator.ledger.head.seq

    async def story() -> None:
        steps = served.app.state.runtime.steps = ManualSteps()
        asked = asyncio.ensure_future(_query(served, "0.5", prefer=prefer))
        await ended(steps)
        assert served.engine.measured == 1, "the engine is done"
        position = served.curator.ledger.head.seq
        assert await seen(position) == (False, 404, False, position)
        assert served.app.state.runtime.asking.taken == 1, "and its thread is not free for others yet"
        steps.ring()
        assert (await asked)[0] == (202 if prefer else 200)
        while served.app.state.runtime.asking.taken:
            await asyncio.sleep(0)
        assert await seen(position) == (True, 200, True, position + 1)
        # A repeat has nothing to wait for before it leaves.
        assert (await _query(served, "0.5"))[0] == 200

    asyncio.run(story())
    served.close()


def _repeat(served: Served) -> bool:
    from tacit.query.request import Request

    try:
        return served.service.ask(served.access(), Request(sql=COUNT, epsilon="0.5"), free=True).charge.repeated
    except ConflictError:
        return False


def test_a_failure_keeps_its_thread_as_an_answer_does() -> None:
    served = serve(threads=1, queue=0, response_step=0.25)
    served.engine.fail = EngineError("x")

    async def story() -> None:
        steps = served.app.state.runtime.steps = ManualSteps()
        asked = asyncio.ensure_future(_query(served, "0.5"))
        await ended(steps)
        assert served.app.state.runtime.asking.taken == 1
        assert (await _query(served, "0.4"))[0] == 503
        steps.ring()
        assert (await asked)[0] == 500

    asyncio.run(story())
    served.close()


def test_free_work_is_done_at_ticks() -> None:
    """Whether it takes one or six milliseconds, which a running query decides, does not show; errors likewise."""
    clock = Clock()

    def work(seconds: float) -> float:
        clock.now += seconds
        if seconds > 0.06:
            raise ValueError("late")
        return seconds

    async def main() -> list[float]:
        runtime = serve(response_step=0.25).app.state.runtime
        runtime.ticks = TestedSteps(0.01, clock)
        took = []
        for seconds in (0.001, 0.006, 0.011, 0.019, 0.07):
            began = clock.now
            with suppress(ValueError):
                await runtime.run(work, seconds)
            took.append(round(clock.now - began, 6))
        return took

    assert asyncio.run(main()) == [0.01, 0.01, 0.02, 0.02, 0.08]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing"),
        ("GET", "/healthz"),
        ("DELETE", "/v1/query"),
        ("GET", "/console/sign-in"),
        ("GET", "/v1/budget"),
    ],
)
def test_replies_of_every_kind_leave_at_ticks(method: str, path: str) -> None:
    """Also those that no thread works at: how late they are tells how busy the process is."""
    served = serve(response_step=0.25)
    ticks = served.app.state.runtime.ticks = TestedSteps(0.01)
    served.raw(method, path)
    assert ticks.held == 1
    served.close()


def test_what_was_begun_is_written_down_even_if_no_client_waits_any_more() -> None:
    """The loop has ended while a thread waits for a step."""
    served = serve(response_step=0.25)

    async def story() -> None:
        steps = served.app.state.runtime.steps = ManualSteps()
        asked = asyncio.ensure_future(_query(served, "0.5"))
        await ended(steps)
        assert not asked.done()

    asyncio.run(story())
    served.app.state.runtime.steps = ResponseSteps(0.0)
    reply = served.ask(epsilon=0.5)
    assert (reply.status_code, reply.headers["tacit-repeat"], served.engine.measured) == (200, "true", 1)
    served.close()


async def ended(steps: ManualSteps) -> None:
    """Until a run has ended, and its thread waits for its timer."""
    while not steps.ended():
        await asyncio.sleep(0.001)


async def _query(
    served: Served, epsilon: str, name: str = "alice", path: str = "/v1/query", prefer: bytes = b""
) -> Any:
    headers = [(b"content-type", b"application/json"), (b"authorization", f"Bearer {served.tokens[name]}".encode())]
    headers += [(b"prefer", prefer)] if prefer else []
    body = f'{{"sql": "{COUNT}", "epsilon": {epsilon}}}'.encode()
    return await raw(served.app, "POST", path, headers=headers, body=body)


def test_what_does_not_fit_is_refused_at_once_and_quotes_go_on() -> None:
    engine = Gate()
    served = serve(engine=engine, threads=2, queue=1, threads_per_analyst=2)

    async def story() -> None:
        tasks = [asyncio.ensure_future(_query(served, f"0.{i}")) for i in (1, 2, 3)]
        while served.app.state.runtime.asking.taken < 3:
            await asyncio.sleep(0)
        status, headers, told = await _query(served, "0.4")
        assert (status, error(told)["code"], headers[b"retry-after"]) == (503, "busy", b"1")
        assert (await _query(served, "0.4", path="/v1/explain"))[0] == 200
        engine.go.set()
        assert [found[0] for found in await asyncio.gather(*tasks)] == [200, 200, 200]
        assert (await _query(served, "0.4"))[0] == 200

    asyncio.run(story())
    assert served.spent() * 10 == 1 + 2 + 3 + 4
    served.close()


def test_a_server_that_stops_finishes_what_was_begun() -> None:
    engine = Gate()
    served = serve(engine=engine, drain_seconds=30)
    life: asyncio.Queue[Any] = asyncio.Queue()
    said: list[str] = []

    async def send(message: Any) -> None:
        said.append(message["type"])

    async def story() -> None:
        running = asyncio.ensure_future(served.app({"type": "lifespan"}, life.get, send))
        life.put_nowait({"type": "lifespan.startup"})
        task = asyncio.ensure_future(_query(served, "0.5"))
        while served.app.state.runtime.asking.taken < 1:
            await asyncio.sleep(0)
        life.put_nowait({"type": "lifespan.shutdown"})
        while not served.app.state.draining:
            await asyncio.sleep(0)
        status, _, told = await _query(served, "0.4")
        assert (status, error(told)["code"]) == (503, "busy")
        assert (await raw(served.app, "GET", "/v1/health"))[0] == 503
        assert said == ["lifespan.startup.complete"]
        engine.go.set()
        assert (await task)[0] == 200
        await running
        assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]

    asyncio.run(story())
    assert served.spent() * 2 == 1
    served.close()


def test_a_server_does_not_wait_for_ever() -> None:
    engine = Gate()
    served = serve(engine=engine)

    async def story() -> None:
        task = asyncio.ensure_future(_query(served, "0.5"))
        while served.app.state.runtime.asking.taken < 1:
            await asyncio.sleep(0)
        assert await served.app.drain(0.01) is False
        engine.go.set()
        await task
        assert await served.app.drain(30) is True

    asyncio.run(story())
    served.close()


def test_a_lane_hands_back_what_happened() -> None:
    lane = FairExecutor("test", 2, 4)

    def fails() -> None:
        raise KeyError("x")

    async def story() -> None:
        found = await asyncio.gather(*(lane.run(divmod, i, 2) for i in range(6)))
        assert found == [divmod(i, 2) for i in range(6)]
        with pytest.raises(KeyError):
            await lane.run(fails)
        gate = threading.Event()
        tasks = [asyncio.ensure_future(lane.run(gate.wait, 30)) for _ in range(6)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await lane.run(int)
        tasks[0].cancel()
        await asyncio.sleep(0)
        # The thread is still taken.
        assert lane.taken == 6
        gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        while lane.taken:
            await asyncio.sleep(0)

    asyncio.run(story())
    asyncio.run(story())
    lane.close()
    with pytest.raises(Busy):
        asyncio.run(lane.run(int))


def test_a_rate() -> None:
    now = [0.0]
    rate = RateLimit(6, clock=lambda: now[0])
    for _ in range(6):
        rate.take("a")
    with pytest.raises(TooMany) as problem:
        rate.take("a")
    assert problem.value.seconds == pytest.approx(10.0)
    rate.take("b")
    now[0] += 9.0
    with pytest.raises(TooMany):
        rate.take("a")
    now[0] += 1.001
    rate.take("a")
    with pytest.raises(TooMany):
        rate.take("a")
    now[0] += 10**6
    for _ in range(6):
        rate.take("a")
    with pytest.raises(TooMany):
        rate.take("a")


def test_addresses_that_one_caller_can_choose_from_are_one() -> None:
    same = ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:DB8:1:2::", "2001:db8:1:2::1%eth0")
    assert {network_of(address) for address in same} == {"2001:db8:1:2::/64"}
    assert network_of("2001:db8:1:3::1") != network_of(same[0])
    assert {network_of("192.0.2.7"), network_of("::ffff:192.0.2.7"), network_of("::ffff:c000:207")} == {"192.0.2.7"}
    assert network_of("192.0.2.8") != network_of("192.0.2.7")
    assert network_of("") == ""
    assert network_of("unix:") == "unix:"


def test_failures_are_counted_by_network() -> None:
    served = serve(failures_per_minute=3)
    runtime = served.app.state.runtime
    assert [runtime.failed(f"2001:db8::{host:x}") > 0 for host in range(5)] == [False, False, False, True, True]
    assert runtime.failed("2001:db8:0:1::1") == 0
    # A client whose token is valid is not kept out by its neighbours.
    assert runtime.authenticated(served.tokens["alice"], "2001:db8::1").person.name == "alice"
    served.close()


def test_steps_of_sign_ins_are_counted_by_network_and_take_no_thread_of_others() -> None:
    served = serve(failures_per_minute=1, quick_threads=1, quick_queue=0)
    runtime = served.app.state.runtime
    gate = threading.Event()

    async def story() -> None:
        # A provider that is slow keeps only those waiting who sign in there.
        waiting = [asyncio.ensure_future(runtime.enter(f"2001:db8::{i}", gate.wait, 30)) for i in range(9)]
        await asyncio.sleep(0)
        assert (await _query(served, "0.5", path="/v1/explain"))[0] == 200
        assert runtime.under_way == 9
        gate.set()
        assert await asyncio.gather(*waiting) == [True] * 9
        assert await runtime.enter("2001:db8::ffff", lambda: "in") == "in"
        with pytest.raises(TooMany):
            await runtime.enter("2001:db8::abcd", lambda: "in")
        assert await runtime.enter("2001:db8:0:1::1", lambda: "in") == "in"

    asyncio.run(story())
    served.close()


@pytest.mark.parametrize(
    "words",
    [
        {"response_step": -1.0},
        {"response_step": float("nan")},
        {"threads": 0},
        {"max_body": 0},
        {"body_seconds": float("inf")},
        {"tls_cert": "x"},
    ],
)
def test_settings_that_make_no_sense(words: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Settings(**words)


def test_settings() -> None:
    assert Settings(response_step=0, queue=0).response_step == 0
    assert not Settings().secure
    assert Settings(behind_proxy=True).secure
    assert Settings(tls_cert="a", tls_key="b").secure


def test_a_lane_goes_on_with_the_next_loop() -> None:
    lane = FairExecutor("test", 1, 4)

    async def seven() -> int:
        return await asyncio.wait_for(lane.run(lambda: 7), 30)

    assert asyncio.run(seven()) == 7
    gate = threading.Event()

    async def left() -> None:
        running = asyncio.ensure_future(lane.run(gate.wait, 30))
        await asyncio.sleep(0)
        assert not running.done()

    # Its thread hands back what it found when the loop has ended.
    asyncio.run(left())
    gate.set()
    assert asyncio.run(seven()) == 7
    assert not lane.taken
    lane.close()
