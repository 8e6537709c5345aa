"""Queries that are polled for: nothing is lost, nothing is charged twice, and no other user sees them."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from support.served import COUNT, Served, error, serve
from support.timers import TestedSteps
from support.toy_engine import Killed
from tacit.core.errors import EngineError
from tacit.query.request import Request
from tacit.server.api.request import job_text
from tacit.server.identity import Job
from tacit.server.identity.credentials import new_id

ASYNC = {"prefer": "respond-async"}


async def finished(client: Any, place: str) -> Any:
    """The last state of a job."""
    for _ in range(5_000):
        body = (await client.get(place)).json()
        if body["state"] in ("done", "failed"):
            return body
        assert set(body) == {"id", "state", "seconds"}
        await asyncio.sleep(0.002)
    raise AssertionError("the job is not finished")


def put(served: Served, name: str = "alice", headers: Any = None, **words: Any) -> tuple[Any, Any]:
    """A job that was put down, and what became of it."""

    async def story() -> tuple[Any, Any]:
        async with served.client(name) as client:
            body = {"sql": COUNT, "epsilon": 0.5, **words}
            response = await client.post("/v1/query", json=body, headers=ASYNC | (headers or {}))
            if response.status_code != 202:
                return response, None
            return response, await finished(client, response.headers["location"])

    return asyncio.run(story())


def test_a_job(served: Served) -> None:
    response, job = put(served)
    assert response.json() == {"id": job["id"], "state": "waiting"}
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert re.fullmatch("[0-9a-f]{32}", job["id"])
    assert (job["state"], set(job)) == ("done", {"id", "state", "seconds", "answer"})
    assert job["answer"] == served.ask(epsilon=0.5).json()
    assert served.spent() == Fraction(1, 2)


def test_what_must_cost_nothing_is_no_job(served: Served) -> None:
    """A job would be charged; a repeat is there at once."""
    free = {"Tacit-Repeat": "only"}
    response, job = put(served, headers=free)
    assert (response.status_code, job, served.spent()) == (409, None, 0)
    served.ask(epsilon=0.5)
    response, _ = put(served, headers=free)
    assert (response.status_code, response.headers["tacit-repeat"]) == (200, "true")
    assert served.spent() == Fraction(1, 2)


def test_a_job_sent_again_is_one_job(served: Served) -> None:
    key = {"idempotency-key": "k"}
    first, job = put(served, headers=key)
    again, same = put(served, headers=key)
    assert first.content == again.content
    assert job == same
    other, _ = put(served, headers=key, epsilon=0.25)
    assert (other.status_code, error(other.content)["code"]) == (409, "input.conflict")
    # The key stands for the query, whichever way it is sent.
    assert served.ask(epsilon=0.5, headers={"Idempotency-Key": "k"}).json() == job["answer"]
    theirs, _ = put(served, "bob", headers=key)
    assert theirs.json()["id"] != job["id"]
    assert served.spent() == Fraction(1, 2)


def test_what_would_be_refused_is_refused_at_once(served: Served) -> None:
    response, _ = put(served, sql="SELECT * FROM visits")
    assert response.status_code == 422
    response, _ = put(served, epsilon=-1)
    assert response.status_code == 400
    response, _ = put(served, "audrey")
    assert response.status_code == 403
    assert served.people.jobs.unfinished() == ()


def test_a_job_that_fails(served: Served) -> None:
    served.engine.fail = EngineError("Could not convert 'HIV'")
    _, job = put(served)
    assert (job["state"], job["error"]["code"]) == ("failed", "engine.failed")
    assert "HIV" not in str(job)
    served.curator.ledger.set_quota("patients", {"epsilon": "0"}, analyst="bob", operator="test")
    _, job = put(served, "bob", epsilon=1)
    assert (job["state"], job["error"]["code"]) == ("failed", "budget")


def test_a_person_revoked_meanwhile_gets_no_answer(served: Served) -> None:
    words = job_text(Request(sql=COUNT, epsilon="1"), "")
    job = Job(new_id(), "alice", words, datetime.now(UTC))
    served.people.jobs.put(job)
    served.people.revoke("alice", operator="test")
    asyncio.run(_life(served, job.id))
    found = served.people.jobs.find(job.id, "alice")
    assert found is not None
    assert (found.state, json.loads(found.outcome)["code"]) == ("failed", "auth")
    assert served.spent() == 0


def test_a_job_whose_worker_died_is_taken_up_under_the_same_charge(served: Served) -> None:
    """Before it was begun, and after its charge."""
    people = served.people
    words = job_text(Request(sql=COUNT, epsilon="0.5"), "")
    job = Job(new_id(), "alice", words, datetime.now(UTC) - timedelta(minutes=1))
    people.jobs.put(job)
    assert people.jobs.claim(job.id, "dead", datetime.now(UTC) - timedelta(seconds=30))
    served.engine.fail = Killed()
    with pytest.raises(Killed):
        served.service.ask(served.access(), Request(sql=COUNT, epsilon="0.5"), key=f"job {job.id}")
    served.engine.fail = None
    assert served.spent() == Fraction(1, 2)
    asyncio.run(_life(served, job.id))
    found = people.jobs.find(job.id, "alice")
    assert found is not None
    assert (found.state, json.loads(found.outcome)["charge"]["amounts"]) == ("done", {"epsilon": "0.5"})
    assert served.spent() == Fraction(1, 2)


@pytest.mark.parametrize("died", [2, 3])
def test_a_job_of_which_workers_die_is_given_up(served: Served, died: int, caplog: pytest.LogCaptureFixture) -> None:
    """It has three tries; then what was charged stays charged, and only the operator hears of what."""
    people = served.people
    job = Job(new_id(), "alice", job_text(Request(sql=COUNT, epsilon="0.5"), ""), datetime.now(UTC))
    people.jobs.put(job)
    for number in range(died):
        assert people.jobs.claim(job.id, f"dead {number}", datetime.now(UTC) - timedelta(seconds=30)) == number + 1
    served.engine.fail = Killed()
    with pytest.raises(Killed):
        served.service.ask(served.access(), Request(sql=COUNT, epsilon="0.5"), key=f"job {job.id}")
    served.engine.fail = None
    asyncio.run(_life(served, job.id))
    found = people.jobs.find(job.id, "alice")
    assert found is not None
    assert served.spent() == Fraction(1, 2)
    if died < 3:
        assert found.state == "done"
        return
    told = json.loads(found.outcome)
    assert (found.state, told["code"], set(told)) == ("failed", "internal", {"code", "message", "id"})
    assert "worker" not in told["message"]
    assert any(told["id"] in record.getMessage() for record in caplog.records)
    assert len(served.service.ask(served.access(), Request(sql=COUNT, epsilon="0.5"))) == 3
    assert served.spent() == Fraction(1, 2), "asked again, it runs under the same charge"


def test_a_worker_without_room_or_about_to_end_puts_a_job_back(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a worker that died of it."""
    people, runtime = served.people, served.app.state.runtime
    job = Job(new_id(), "alice", job_text(Request(sql=COUNT, epsilon="0.5"), ""), datetime.now(UTC))
    people.jobs.put(job)
    (job,) = people.jobs.unfinished()
    gate, measure = threading.Event(), served.engine.measure

    def held(work: Any) -> Any:
        assert gate.wait(60)
        return measure(work)

    monkeypatch.setattr(served.engine, "measure", held)

    async def story() -> None:
        runtime.asking.taken += served.settings.threads + served.settings.queue
        runtime.asking._people["alice"] += 1
        served.app._jobs.begin(job)
        while served.app._jobs.under_way:
            await asyncio.sleep(0.001)
        runtime.asking.taken = 0
        runtime.asking._people.clear()
        assert people.jobs.unfinished() == (job,)
        served.app._jobs.begin(job)
        while served.spent() == 0:
            await asyncio.sleep(0.001)
        assert people.jobs.unfinished() == ()
        await served.app._jobs.leave()
        assert people.jobs.unfinished() == (job,)
        gate.set()
        while runtime.asking.taken:
            await asyncio.sleep(0.001)

    asyncio.run(story())


async def _life(served: Served, job: str) -> None:
    """Start the application, wait until a job is finished, and stop it."""

    def done() -> bool:
        found = served.people.jobs.find(job, "alice")
        return found is not None and found.state in ("done", "failed")

    life: asyncio.Queue[Any] = asyncio.Queue()

    async def send(_: Any) -> None:
        pass

    running = asyncio.ensure_future(served.app({"type": "lifespan"}, life.get, send))
    life.put_nowait({"type": "lifespan.startup"})
    for _ in range(10_000):
        if done():
            break
        await asyncio.sleep(0.002)
    life.put_nowait({"type": "lifespan.shutdown"})
    await running
    assert done()


def test_one_person_puts_down_only_so_many() -> None:
    served = serve(asks_per_minute=1000)
    for _ in range(20):
        served.people.jobs.put(Job(new_id(), "alice", "[]", datetime.now(UTC)))
    response, _ = put(served)
    assert (response.status_code, error(response.content)["code"]) == (429, "rate")
    assert put(served, "bob")[0].status_code == 202
    served.close()


def test_progress_is_in_whole_slots() -> None:
    """Of the clock, and of nothing that the data decides."""
    served = serve(response_step=0.25)
    job = Job(new_id(), "alice", "[]", datetime.now(UTC) - timedelta(seconds=100.6))
    served.people.jobs.put(job)
    body = served.get(f"/v1/jobs/{job.id}").json()
    assert body["state"] == "waiting"
    assert body["seconds"] >= 100.5
    assert (body["seconds"] / 0.25).is_integer()
    served.close()


def test_a_job_is_finished_at_its_response_time() -> None:
    """Until its time it runs, as every observer sees it."""
    served = serve(response_step=0.25)
    seen = []

    class Noted(TestedSteps):
        def call_at(self, loop: Any, moment: float, work: Any) -> None:
            def noted() -> None:
                (job,) = served.app._jobs._running
                found = served.people.jobs.find(job, "alice")
                seen.append(found.state if found else "")
                work()

            noted.__self__ = work.__self__  # type: ignore[attr-defined]
            super().call_at(loop, moment, noted)

    served.app.state.runtime.steps = Noted()
    _, job = put(served)
    assert job["state"] == "done"
    assert seen == ["running"]
    served.close()
