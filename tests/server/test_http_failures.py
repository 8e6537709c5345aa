"""Things that fail: only an id leaves, and the operator's log has the rest."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tacit
from support.served import COUNT, Served, error, serve
from tacit.core.errors import EngineError
from tacit.ledger import LedgerError
from tacit.releases.receipt import verify_receipt
from tacit.server.api.routes import ROUTES
from tacit.server.console.page_request import PageRequest
from tacit.server.errors import STATUS, Busy, describe
from tacit.server.identity import Job
from tacit.server.service import CuratorService

SECRET = "Could not convert string 'HIV positive' to INT32"
TOLD = re.compile(r"it could not be done; the operator's log has the reason under [0-9a-f]{12}")


@pytest.mark.parametrize(
    "problem",
    [
        EngineError(SECRET),
        RuntimeError(SECRET),
        MemoryError(SECRET),
        KeyError(SECRET),
        RecursionError(SECRET),
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
        TimeoutError(SECRET),
    ],
)
def test_a_query_whose_engine_fails(served: Served, caplog: pytest.LogCaptureFixture, problem: Exception) -> None:
    """One status, one code and one sentence for whatever went wrong: which of them it was would be told by data."""
    served.engine.fail = problem
    with caplog.at_level(logging.ERROR, "tacit.operator"):
        response = served.ask(epsilon=0.5)
    told = error(response.content)
    assert (response.status_code, told["code"]) == (500, "engine.failed")
    assert told["id"] in told["message"]
    assert re.sub(r"charge \d+|[0-9a-f]{12}", "", told["message"]) == (
        "the query failed when it ran:  stays charged, nothing was released, and asking it again gives this failure, "
        "free; to pay for another run, ask at another cost; the operator's log has the reason under "
    )
    assert "HIV" not in response.text + str(response.headers)
    assert told["id"] in caplog.text
    assert "HIV" in caplog.text
    # What was reserved stays spent, and what failed stays failed: for all people, on every way of asking.
    assert served.spent() == Fraction(1, 2)
    served.engine.fail = None
    measured = served.engine.measured
    ways: list[dict[str, Any]] = [
        {},
        {"name": "bob"},
        {"headers": {"Idempotency-Key": "k"}},
        {"headers": {"Tacit-Repeat": "only"}},
        {"confidence": 0.5},
        {"sql": COUNT.replace("SELECT", "SELECT  ") + " ORDER BY ward DESC"},
    ]
    for words in ways:
        again = served.ask(epsilon=0.5, **words)
        assert (again.status_code, error(again.content)) == (500, told), words
    done = asyncio.run(_job(served))
    assert done is not None
    assert (done.state, json.loads(done.outcome)) == ("failed", told)
    assert (served.engine.measured, served.spent()) == (measured, Fraction(1, 2))
    (entry,) = served.get("/v1/history").json()["entries"]
    assert (entry["answered"], entry["failed"]) == (False, True)
    receipt = served.get(f"/v1/receipts/{entry['position']}")
    assert receipt.status_code == 200
    assert "nothing was released" in str(verify_receipt(receipt.content, served.curator.public_key))
    assert served.curator.ledger.verify().failures == 1


async def _job(served: Served) -> Job | None:
    """Outcome of a query in the background; on one loop, or its lease has to run out before it is taken up."""
    async with served.client() as client:
        words = {"json": {"sql": COUNT, "epsilon": 0.5}, "headers": {"Prefer": "respond-async"}}
        put = await client.post("/v1/query", **words)
    identity = put.headers["location"].rpartition("/")[2]
    while (found := served.people.jobs.find(identity, "alice")) is not None and found.state not in ("done", "failed"):
        await asyncio.sleep(0.001)
    return found


def handlers() -> list[Any]:
    return [pytest.param(route, id=f"{route.method} {route.path}") for route in ROUTES if route.path != "/v1/me"]


@pytest.mark.parametrize("route", handlers())
def test_every_endpoint_fails_alike(served: Served, route: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks behind it, of whatever type."""

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError(SECRET)

    for name in ("quote", "ask", "budget", "tables", "history", "receipt"):
        monkeypatch.setattr(CuratorService, name, broken)
    for name in ("quote_release", "make_release", "releases", "release", "deliver"):
        monkeypatch.setattr(CuratorService, name, broken)
    monkeypatch.setattr(served.people.jobs, "find", broken)
    for name in ("listed", "ask_to_stop"):
        monkeypatch.setattr(served.app.state.runtime.running, name, broken)
    monkeypatch.setattr(type(served.curator.ledger), "head", property(broken))
    monkeypatch.setattr(type(served.curator.ledger), "successions", broken)
    bodies = {
        "/v1/releases": {"kind": "workload", "source": "visits", "workload": [{"each": "ward"}], "epsilon": 1},
    }
    body = bodies.get(route.path, {"sql": COUNT, "epsilon": 1}) if route.body else None
    path = re.sub(r"\{.*\}", "1", route.path)
    response = served.call(route.method, path, "olga", json=body)
    told = error(response.content)
    assert (response.status_code, told["code"]) == (500, "internal"), path
    assert "HIV" not in response.text
    assert TOLD.fullmatch(told["message"])


def test_a_failure_while_a_token_is_looked_at(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> Any:
        raise LedgerError(f"cannot read /srv/ledger: {SECRET}")

    monkeypatch.setattr(served.people, "authenticate", broken)
    response = served.get("/v1/me")
    assert (response.status_code, error(response.content)["code"]) == (503, "internal.ledger")
    assert "srv" not in response.text


def test_a_failure_in_the_loop_itself(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr("tacit.server.api.app.query_of", broken)
    response = served.get("/v1/me")
    assert (response.status_code, error(response.content)["code"]) == (500, "internal")


def test_a_console_that_fails(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(PageRequest, "failed", broken)
    response = served.get("/console/x", "")
    assert response.status_code == 500
    assert response.headers["content-type"].startswith("text/html")
    assert "HIV" not in response.text
    assert TOLD.search(response.text.replace("&#x27;", "'"))


def test_a_ledger_that_stopped(served: Served) -> None:
    served.ask(epsilon=0.5)
    served.curator.ledger.journal.stopped = "the disk is full at /srv/ledger"
    for response in (
        served.ask(epsilon=0.5),
        served.ask(epsilon=0.25),
        served.get("/v1/budget"),
        served.get("/v1/health", ""),
    ):
        assert response.status_code == 503
        assert error(response.content)["code"] == "internal.ledger"
        assert "srv" not in response.text


def test_health_knows_when_a_source_is_gone(tmp_path: Path, served: Served) -> None:
    (tmp_path / "v.csv").write_text("id,x\n1,2\n2,3\n")
    with tacit.open(tmp_path / "v.csv", unit="id", epsilon="4") as curator:
        served.app.state.runtime.service.curator = curator
        assert served.get("/v1/health", "").status_code == 200
        (tmp_path / "v.csv").rename(tmp_path / "w.csv")
        response = served.get("/v1/health", "")
        assert (response.status_code, error(response.content)["code"]) == (503, "engine.source")
        assert "v.csv" not in response.text


def test_every_code_has_a_status() -> None:
    assert all(400 <= status < 600 for status in STATUS.values())
    assert describe(Busy()).headers == ((b"retry-after", b"1"),)
    assert describe(KeyboardInterrupt()).code == "internal"


def test_words_that_are_too_long_are_cut() -> None:
    served = serve()
    response = served.ask(epsilon=0.5, weights={"x" * 30_000: 1})
    assert response.status_code == 400
    assert len(response.content) < 5_000
    served.close()
