"""Queries about public tables alone at every door of a server: exact, free, without a receipt, and marked so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

import tacit
from support.pg_served import pg_serve
from support.served import COUNT, Served, serve
from support.visiting import Visitor, listening
from tacit.client.http_client import TrustError
from tacit.server.mcp.tools import AssistantTools, ServerDoor

BEDS = "SELECT name, beds FROM wards ORDER BY beds DESC LIMIT 2"
ROWS = [["c", 30], ["b", 20]]


@pytest.fixture(scope="module")
def shop() -> Iterator[Served]:
    found = serve()
    yield found
    found.close()


def test_over_http(shop: Served) -> None:
    body = shop.ask(BEDS, epsilon=1).json()
    assert (body["rows"], body["public"], body["charge"], body["receipt"]) == (ROWS, True, None, None)
    assert "exact" in body["note"]
    assert shop.call("POST", "/v1/query", json={"sql": BEDS}).json() == body
    # A caller who wants a repeat or nothing gets it as well: nothing can be charged.
    assert shop.ask(BEDS, headers={"Tacit-Repeat": "only"}).json() == body
    quote = shop.call("POST", "/v1/explain", json={"sql": BEDS}).json()
    assert (quote["public"], quote["price"]["amounts"], quote["releases"]) == (True, {}, [])
    assert (quote["queries_left"], quote["response_time"]) == (None, 0.0)
    assert "public" not in shop.call("POST", "/v1/explain", json={"sql": COUNT, "epsilon": 1}).json()
    # carol sees one population, and public tables all the same.
    assert shop.ask(BEDS, name="carol").json() == body
    assert shop.spent() == shop.spent("employees") == 0


def test_a_client_of_the_server(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(served.app) as url, tacit.connect(url, served.tokens["alice"]) as remote:
        answer, quote = remote.sql(BEDS), remote.explain(BEDS)
        assert [list(row) for row in answer.finished.values] == ROWS
        assert (answer.is_public, answer.receipt, quote.is_public) == (True, None, True)
        assert "Public tables alone, answered exactly: charged nothing" in str(answer)
        assert remote.budget(answer, population="patients").population == "patients"
        # A server that charges for what it calls public, or leaves a receipt out, is not believed.
        reply = remote._channel.post("/v1/query", json.dumps({"sql": COUNT, "epsilon": 0.5}))
        body = reply.content
        for claim in ({**body, "public": True}, {**body, "receipt": None}, {**body, "charge": None}):
            monkeypatch.setattr(remote, "_ask", lambda *_, claim=claim: replace(reply, content=claim))
            with pytest.raises(TrustError):
                remote.sql(COUNT, epsilon="0.5")


def test_tools_of_an_assistant(shop: Served) -> None:
    token = shop.people.issue("alice", expires=None, operator="test", share="1")
    access = shop.people.authenticate(token.text)
    assert access is not None
    door = ServerDoor(shop.app.state.runtime, access, {})
    reply = asyncio.run(AssistantTools(door).call("ask", {"sql": BEDS}))
    assert (reply.content["rows"], reply.content["charged_now"], reply.content["receipt"]) == (ROWS, {}, None)
    assert "charged nothing" in reply.text
    assert door.about["public"] is True
    quote = asyncio.run(AssistantTools(door).call("quote", {"sql": BEDS}))
    assert (quote.content["public"], quote.content["queries_left"]) == (True, None)
    assert quote.text.startswith("Cost: nothing: public tables alone")


def test_the_console(shop: Served) -> None:
    visitor = Visitor(shop, "http://tacit")
    try:
        assert visitor.sign_in("alice").status_code == 303
        page = visitor.post("/console/ask", sql=BEDS, pay="epsilon", amount="")
        assert page.status_code == 200, page.text
        assert "Exact and free" in page.text
        assert "Public tables alone: the answer is exact, and nothing is charged." in page.text
        assert "Signed receipt" not in page.text
    finally:
        visitor.close()


def test_a_postgresql_client() -> None:
    with pg_serve() as pg, psycopg.connect(**pg.words("alice"), autocommit=True) as connection:
        said: list[Any] = []
        connection.add_notice_handler(lambda each: said.append(each.message_primary))
        assert [list(row) for row in connection.execute(BEDS).fetchall()] == ROWS
        assert said == ["Public tables alone, answered exactly: charged nothing. The values are exact."]
        plan = [row[0] for row in connection.execute(f"EXPLAIN {BEDS}").fetchall()]
        assert plan[0] == "Charge      nothing: public tables alone, answered exactly"
        assert pg.served.spent() == 0
