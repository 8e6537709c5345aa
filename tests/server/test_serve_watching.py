"""The log: the same on neighbouring databases, and nothing in it that was released or asked in words."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
from typing import Any

import httpx2
import pytest

from support.served import COUNT, rows, serve
from support.toy_engine import ToyEngine
from tacit.core.errors import EngineError
from tacit.server.serve.access_log import AccessLog, Lines

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


def watched(tables: dict[str, list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], str]:
    """The lines, and all of the text, after the same requests to any database."""
    served = serve(engine=Failing(tables))
    stream = io.StringIO()
    watch = AccessLog(served.app, Lines(stream, lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC)))

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
    return lines, text


def plain(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines without what is drawn by chance: the name of a token, and that of a failure."""
    return [{name: value for name, value in line.items() if name not in ("token", "id")} for line in lines]


def test_neighbours_leave_the_same_lines() -> None:
    all_people = rows()
    heavy = rows()
    heavy["visits"] = [row for row in heavy["visits"] if row["patient"] != 17] + [
        dict(heavy["visits"][0], patient=17, street="a street of one") for _ in range(500)
    ]
    without = rows()
    without["visits"] = [row for row in without["visits"] if row["patient"] != 17]
    found = [watched(tables) for tables in (all_people, heavy, without)]
    assert plain(found[0][0]) == plain(found[1][0]) == plain(found[2][0])
    assert len(found[0][0]) == 2 * len(QUERIES) + 8
    failed = next(line for line in found[0][0] if line.get("code") == "engine.failed")
    assert len(failed["id"]) == 12


def test_lines_hold_no_query_and_nothing_that_was_released() -> None:
    lines, text = watched(rows())
    for word in ("SELECT", "FROM", "ward", "street", "secret", "convert", "value", "rows"):
        assert word not in text, word
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


def test_a_log_that_cannot_be_written_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    lines = Lines(Full())
    lines.write("request")
    lines.write("request")
    assert capsys.readouterr().err.splitlines() == [
        "The log cannot be written, and ends until a restart: [Errno 28] No space left on device"
    ]
