"""Logs and metrics: the same on neighbouring databases, and nothing in them that was released or asked in words."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import multiprocessing
import os
from typing import Any

import httpx2
import pytest
from prometheus_client import generate_latest

from support.served import COUNT, rows, serve
from support.toy_engine import ToyEngine
from tacit.core.errors import EngineError
from tacit.server.serve import access_log as metrics
from tacit.server.serve import processes as worker
from tacit.server.serve.access_log import AccessLog, Counters, Lines, MetricsPage

QUERIES: list[dict[str, Any]] = [
    {"sql": COUNT, "epsilon": 0.5},
    {"sql": COUNT, "epsilon": 0.5},
    {"sql": "SELECT SUM(cost) AS s FROM visits WHERE ward = 'a'", "epsilon": 0.25},
    {"sql": "SELECT street, COUNT(*) AS n FROM visits GROUP BY street", "epsilon": 1, "delta": 1e-8},
    {"sql": "SELECT cost FROM visits", "epsilon": 1},
    {"sql": COUNT, "epsilon": 99},
    {"sql": "SELECT nonsense", "epsilon": 1},
    {"sql": COUNT},
]


class Failing(ToyEngine):
    """Fails at one query, in words that quote a person."""

    def measure(self, work: Any) -> Any:
        if "units" in work.final.text:
            raise EngineError(f"could not convert {self.tables['visits'][0]['cost']} to INT")
        return super().measure(work)


def watched(tables: dict[str, list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], bytes, str]:
    """The lines, the page of metrics, and all of the text, after the same requests to any database."""
    served = serve(engine=Failing(tables))
    stream, counters = io.StringIO(), Counters()
    watch = AccessLog(served.app, Lines(stream, lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), counters)

    async def ask() -> None:
        shown = {"authorization": f"Bearer {served.tokens['alice']}"}
        transport = httpx2.ASGITransport(watch)
        async with httpx2.AsyncClient(transport=transport, base_url="http://tacit", headers=shown) as client:
            for query in QUERIES:
                await client.post("/v1/explain", json=query)
                await client.post("/v1/query", json=query)
            await client.post("/v1/query", json={"sql": "SELECT SUM(units) AS u FROM visits", "epsilon": 0.5})
            for path in ("/v1/budget", "/v1/tables", "/v1/history", "/v1/receipts/9", "/v1/x", "/nowhere?secret=1"):
                await client.get(path)
            await client.get("/v1/tables", headers={"authorization": "Bearer tacit_wrong"})

    asyncio.run(ask())
    text = stream.getvalue()
    lines = [json.loads(line) for line in text.splitlines()]
    served.close()
    return lines, shown(counters), text


def shown(*counters: Counters) -> bytes:
    """The page of metrics after some workers have reported."""
    page = MetricsPage()
    for each in counters:
        page.add(json.loads(json.dumps(each.news())))
    page.workers.set(1)
    page.server_close()
    return generate_latest(page.registry)


def plain(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without what is drawn by chance: the name of a token, and that of a failure."""
    return [{name: value for name, value in line.items() if name not in ("token", "id")} for line in lines]


def test_neighbours_leave_the_same_lines_and_counts() -> None:
    all_people = rows()
    heavy = rows()
    heavy["visits"] = [row for row in heavy["visits"] if row["patient"] != 17] + [
        dict(heavy["visits"][0], patient=17, street="a street of one") for _ in range(500)
    ]
    without = rows()
    without["visits"] = [row for row in without["visits"] if row["patient"] != 17]
    found = [watched(tables) for tables in (all_people, heavy, without)]
    assert plain(found[0][0]) == plain(found[1][0]) == plain(found[2][0])
    assert found[0][1] == found[1][1] == found[2][1]
    assert len(found[0][0]) == 2 * len(QUERIES) + 8
    failed = next(line for line in found[0][0] if line.get("code") == "engine.failed")
    assert len(failed["id"]) == 12


def test_lines_hold_no_query_and_nothing_that_was_released() -> None:
    lines, page, text = watched(rows())
    for word in ("SELECT", "FROM", "ward", "street", "secret", "convert", "value", "rows"):
        assert word not in text, word
        assert word.encode() not in page.replace(b"tacit_workers", b"").replace(b"Workers", b""), word
    kinds = {name for line in lines for name in line}
    assert kinds <= {
        "time", "event", "route", "status", "analyst", "token", "sql", "population", "charge", "position", "repeat",
        "code", "id", "job",
    }  # fmt: skip
    assert not [name for name in kinds if "second" in name or "duration" in name]
    fresh, repeated = [line for line in lines if line["route"] == "/v1/query"][:2]
    assert fresh["charge"] == {"epsilon": "0.5"}
    assert "repeat" not in fresh
    assert repeated["repeat"] is True
    assert "charge" not in repeated
    assert fresh["sql"] == repeated["sql"]
    assert len(fresh["sql"]) == 16


def test_a_reader_that_went_away_stops_no_worker() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    lines = Lines(Gone())
    lines.write("request")
    lines.write("request")


def test_counts_are_told_once_and_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    counters, whole = Counters(), MetricsPage()

    def report() -> None:
        whole.add(json.loads(json.dumps(counters.news())))

    def lines() -> dict[str, float]:
        text = generate_latest(whole.registry).decode()
        found = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in found if float(value)}

    counters.add("tacit_requests", "/v1/query", "200")
    report()
    counters.add("tacit_requests", "/v1/query", "200")
    counters.add("tacit_repeats")
    report()
    assert counters.news() == []
    assert lines() == {'tacit_requests_total{route="/v1/query",status="200"}': 2, "tacit_repeats_total": 1}
    with pytest.raises(ValueError, match="label"):
        whole.add([("tacit_requests", ("alone",), 1)])
    monkeypatch.setattr(metrics, "_MOST_LINES", 3)
    for number in range(10):
        counters.add("tacit_refusals", f"code{number}")
    report()
    assert lines()['tacit_refusals_total{code="other"}'] == 10
    whole.server_close()


def test_reports_arrive_whole_and_a_supervisor_that_does_not_listen_is_not_waited_for() -> None:
    receiving, sending = multiprocessing.Pipe(duplex=False)
    os.set_blocking(sending.fileno(), False)
    for number in range(10_000):
        worker._report(sending, number=number, text="x" * 100)
    found = []
    while receiving.poll():
        found.append(json.loads(receiving.recv_bytes()))
    assert 0 < len(found) < 10_000
    assert found == [{"number": number, "text": "x" * 100} for number in range(len(found))]
    worker._report(sending, number=-1)
    assert json.loads(receiving.recv_bytes()) == {"number": -1}
    receiving.close()
    worker._report(sending, number=-2)
    sending.close()
