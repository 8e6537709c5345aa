"""Tokens with a share of their own: whatever their holder writes, all their charges stay within it, at every door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from fractions import Fraction

import psycopg
import pytest

from support.pg_served import GENEROUS, PgServed, pg_serve
from support.served import BUDGETS, COUNT
from tacit.core.errors import InputError
from tacit.curator.curator import Conversation
from tacit.server.identity import TokenScope
from tacit.server.mcp.tools import AssistantTools, ServerDoor

BUDGET = {**BUDGETS, "patients": {"accounting": "approx", "epsilon": "100", "delta": "1e-6"}}


def query(number: int) -> str:
    return f"SELECT ward, COUNT(*) AS n FROM visits WHERE cost < {number} GROUP BY ward"


@pytest.fixture
def pg() -> Iterator[PgServed]:
    with pg_serve(budgets=BUDGET, **GENEROUS) as made:
        issued = made.served.people.issue("alice", label="assistant", expires=None, operator="test", share="1")
        assert (issued.share, issued.scopes) == ("1", {TokenScope.ASK})
        made.served.tokens["shared"] = issued.text
        yield made


def test_every_door_counts_to_the_share_of_the_token(pg: PgServed) -> None:
    served = pg.served
    assert served.ask(query(1), "shared", epsilon=0.4).status_code == 200
    words = pg.words("shared", user="alice", options="-c tacit.epsilon=0.4")
    with psycopg.connect(**words, autocommit=True) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda said: notices.append(said.message_primary or ""))
        connection.execute(query(2))
        assert "Charged epsilon 0.4 to patients; epsilon 0.2 of 1 left" in notices[0]
        told = connection.execute("SELECT owner, remaining FROM tacit.budget").fetchall()
        assert any("token" in owner and left == "0.2" for owner, left in told)
        assert "0 more such queries" in str(connection.execute(f"EXPLAIN {query(3)}").fetchall())
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match=r"has 0.2 of 1 left"):
            connection.execute(query(3))
        connection.execute(query(1))
    tools = AssistantTools(ServerDoor(served.app.state.runtime, served.access("shared"), {}))
    refused = asyncio.run(tools.call("ask", {"sql": query(4), "epsilon": 0.4}))
    assert refused.failed
    assert "0.2 of 1 left" in refused.text
    answered = asyncio.run(tools.call("ask", {"sql": query(4), "epsilon": 0.2}))
    assert not answered.failed
    assert answered.content["stop"]
    late = served.ask(query(5), "shared", epsilon=0.1)
    assert late.json()["error"]["code"] == "budget"
    assert served.spent() == 1
    # The person's own token is not limited by it, and a repeat stays free.
    assert served.ask(query(5), "alice", epsilon=0.1).status_code == 200
    assert served.ask(query(1), "shared", epsilon=0.4).status_code == 200
    assert served.spent() == Fraction(11, 10)


def test_no_header_and_no_job_leads_around_the_share(pg: PgServed) -> None:
    served = pg.served
    access = served.access("shared")
    job = served.ask(COUNT, "shared", epsilon=5, headers={"Prefer": "respond-async"})
    assert job.status_code == 400
    assert "share of its own" in job.text
    with pytest.raises(InputError, match="must not begin with 'token'"):
        Conversation.stated(f"Token  {access.id}", "50")
    assert served.spent() == 0


def test_a_share_is_for_asking_alone_and_stands_in_the_chain(pg: PgServed) -> None:
    people = pg.served.people
    with pytest.raises(InputError, match="may ask and nothing else"):
        people.issue("olga", scopes=[TokenScope.ADMIN], expires=None, operator="test", share="1")
    owner = people.issue("olga", expires=None, operator="test", share="1/3")
    assert owner.scopes == {TokenScope.ASK}
    for wrong in ("0", "-1", "nan", "many"):
        with pytest.raises(InputError):
            people.issue("alice", expires=None, operator="test", share=wrong)
    shares = {each.label: each.share for each in people.tokens("alice")}
    assert shares["assistant"] == "1"
    noted = [json.loads(each.body) for each in pg.served.curator.ledger.journal.store.entries()]
    issued = [each["fields"] for each in noted if each.get("note") == "token issued"]
    assert [each["share"] for each in issued if "share" in each] == ["1", "1/3"]
