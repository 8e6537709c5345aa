"""Tools of an assistant, in process: prices, intervals, what is left, refusals, hostile arguments."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.served import BUDGETS, COUNT, STAFF, Served, serve
from tacit.core.errors import InputError
from tacit.curator.curator import Conversation
from tacit.query.request import OPTIONS
from tacit.server.mcp.tools import TOOLS, AssistantTools, CuratorDoor, ServerDoor, ToolReply

GENEROUS = dict.fromkeys(("asks_per_minute", "quotes_per_minute", "reads_per_minute"), 1_000_000)


class Assistant:
    """An assistant of a person at a served hospital."""

    def __init__(self, served: Served, name: str = "alice", share: str | None = "1", talk: str = "assistant") -> None:
        self.served = served
        self.about: dict[str, Any] = {}
        access = served.access(name)
        if share is not None:
            known = {each.label: each.id for each in served.people.tokens(name)}
            if talk not in known:
                known[talk] = served.people.issue(name, label=talk, expires=None, operator="test", share=share).id
            self.token = known[talk]
            access = served.people.renewed(replace(access, id=self.token))
        self.door = ServerDoor(served.app.state.runtime, access, self.about)
        self.tools = AssistantTools(self.door)

    def __call__(self, tool: str, **arguments: Any) -> ToolReply:
        return asyncio.run(self.tools.call(tool, arguments))

    def left(self, population: str = "patients") -> str:
        found = self("budget").content["left"]
        return next(e["left"] for e in found if "token" in e["of"] and e["population"] == population)


@pytest.fixture(scope="module")
def hospital() -> Iterator[Served]:
    served = serve(budgets={**BUDGETS, "patients": {**BUDGETS["patients"], "epsilon": "100"}}, **GENEROUS)
    yield served
    served.close()


def test_the_arguments_of_a_query_are_those_of_the_one_table() -> None:
    for name in ("quote", "ask"):
        assert {"sql", *OPTIONS} == set(TOOLS[name].input_schema["properties"])
        assert TOOLS[name].input_schema["required"] == ["sql"]
    words = json.dumps([kind.input_schema for kind in TOOLS.values()]).lower()
    assert "conversation" not in words
    assert "analyst" not in words
    assert [kind.name for kind in TOOLS.values() if kind.annotations and kind.annotations.destructive_hint] == ["ask"]


def test_a_quoted_number_is_found_by_those_who_may_see_its_answer(hospital: Served) -> None:
    alice = Assistant(hospital, talk="quoting")
    asked = alice("ask", sql=STAFF.replace("staff", "visits"), epsilon=0.25)
    number = str(asked.content["rows"][0][0]["value"])
    found = alice("find_number", number=number)
    assert not found.failed
    hit = next(each for each in found.content["found"] if each["about"] == "n")
    assert hit["receipt_holds"]
    assert hit["low"] <= float(number) <= hit["high"]
    assert Assistant(hospital, "bob")("find_number", number=number).content["found"] == []
    assert "is in no release" in alice("find_number", number="123,456,789").text
    assert alice("find_number", number="many").failed


def test_tables_are_those_that_exist_for_the_person(hospital: Served) -> None:
    told = Assistant(hospital)("list_tables")
    visits = told.content["tables"][0]
    assert (visits["name"], visits["unit"]) == ("visits", "patient")
    assert visits["columns"][1]["categories"] == ["a", "b", "c"]
    assert visits["columns"][2]["bounds"] == ["0.00", "100.00"]
    assert "one of a, b, c" in told.text
    seen = Assistant(hospital, "carol")("list_tables")
    assert {table["name"] for table in seen.content["tables"]} == {"visits", "wards"}
    assert "staff" not in json.dumps([seen.content["tables"], seen.text])
    assert {each["population"] for each in seen.content["left"]} == {"patients"}


def test_a_quote_is_free_and_an_answer_says_price_interval_bias_and_what_is_left(hospital: Served) -> None:
    ask, before = Assistant(hospital, talk="whole"), hospital.spent()
    quoted = ask("quote", sql=COUNT, epsilon=0.4)
    assert not quoted.failed
    assert quoted.content["price"]["amounts"] == {"epsilon": "0.4"}
    assert quoted.content["errors"]
    assert quoted.content["queries_left"] == 2
    assert hospital.spent() == before
    told = ask("ask", sql=COUNT, epsilon=0.4)
    assert not told.failed
    assert told.content["charged_now"] == {"epsilon": "0.4"}
    cell = told.content["rows"][0][1]
    assert cell["low"] <= cell["value"] <= cell["high"]
    assert {cause["cause"] for cause in told.content["bias"]["causes"]} >= {"max_groups"}
    assert "95% intervals over the noise." in told.content["note"]
    assert told.content["stop"] is False
    assert {"population": "patients", "of": f"conversation alice/token {ask.token}", "currency": "epsilon", "cap": "1",
            "spent": "0.4", "left": "0.6"} in told.content["left"]  # fmt: skip
    assert "Charged epsilon 0.4 to patients" in told.text
    assert "0.4 of 1 spent, 0.6 left" in told.text
    again = ask("ask", sql=COUNT, epsilon=0.4)
    assert again.content["charged_now"] == {}
    assert again.content["rows"] == told.content["rows"]
    assert ask.left() == "0.6"
    shown = ask("history", limit=1)
    assert shown.content["entries"][0]["sql"] == COUNT
    assert ask.about["tool"] == "history"


def test_a_share_that_is_used_up_stops_the_conversation_and_repeats_stay_free(hospital: Served) -> None:
    ask = Assistant(hospital, talk="short")
    assert not ask("ask", sql="SELECT COUNT(*) AS n FROM visits", epsilon=0.7).failed
    refused = ask("ask", sql="SELECT SUM(cost) AS cost FROM visits", epsilon=0.5)
    assert (refused.failed, refused.content["error"]["code"], refused.content["stop"]) == (True, "budget", False)
    assert refused.content["nearest"] == {
        "tool": "ask", "change": "", "arguments": {"sql": "SELECT SUM(cost) AS cost FROM visits", "epsilon": 0.3},
    }  # fmt: skip
    assert "has 0.3 of 1 left for conversation alice/token " in refused.text
    assert not ask("ask", **refused.content["nearest"]["arguments"]).failed
    stopped = ask("ask", sql="SELECT SUM(cost) AS c FROM visits WHERE ward = 'a'", epsilon=0.01)
    assert (stopped.failed, stopped.content["stop"], stopped.content["nearest"]) == (True, True, None)
    assert "Nothing was charged." in stopped.text
    assert "has 0 of 1 left for conversation alice/token " in stopped.text
    again = ask("ask", sql="SELECT COUNT(*) AS n FROM visits", epsilon=0.7)
    assert not again.failed
    assert Assistant(hospital, talk="another")("ask", sql=COUNT, epsilon=0.2).content["stop"] is False


@pytest.mark.parametrize(
    ("sql", "words", "change", "nearest"),
    [
        ("SELECT * FROM visits", "never returned", "the number of rows instead of the rows",
         {"sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.1}),
        ("SELECT wart, COUNT(*) AS n FROM visits GROUP BY wart", "no column 'wart'", "with ward for wart",
         {"sql": COUNT, "epsilon": 0.1}),
        ("SELECT COUNT(*) AS n FROM vists", "no table", "with visits for vists",
         {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 0.1}),
        ("SELECT ward, cost FROM visits WHERE patient = 3", "", "the number of rows instead of the rows",
         {"sql": "SELECT COUNT(*) FROM visits WHERE patient = 3", "epsilon": 0.1}),
    ],
)  # fmt: skip
def test_a_refusal_has_one_proposal_which_is_then_answered(
    hospital: Served, sql: str, words: str, change: str, nearest: dict[str, Any]
) -> None:
    ask = Assistant(hospital, share="5", talk="nearest")
    spent = hospital.spent(), hospital.spent("employees")
    refused = ask("ask", sql=sql, epsilon=0.1)
    assert refused.failed
    assert refused.content["error"]["code"].startswith("query.")
    assert words in refused.text
    assert refused.content["nearest"] == {"tool": "ask", "change": change, "arguments": nearest}
    assert refused.text.count("Try (") == 1
    assert f"Try ({change}): " in refused.text
    assert (hospital.spent(), hospital.spent("employees")) == spent
    assert not ask("ask", **nearest).failed


@pytest.mark.parametrize("sql", ["DROP TABLE staff", "", "SELECT SQTR(cost) FROM visits WHERE ward = 'a'"])
def test_where_nothing_near_is_accepted_nothing_is_proposed(hospital: Served, sql: str) -> None:
    refused = Assistant(hospital, talk="none")("ask", sql=sql, epsilon=0.1)
    assert (refused.content["nearest"], refused.content["stop"]) == (None, False)
    assert "Try" not in refused.text


def test_a_query_without_a_price_is_proposed_with_one(hospital: Served) -> None:
    refused = Assistant(hospital, talk="price")("ask", sql=COUNT)
    assert refused.content["nearest"]["arguments"] == {"sql": COUNT, "epsilon": 0.1}


HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("ask", {"sql": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100) COUNT(*) AS n FROM visits"}),
    ("ask", {"sql": COUNT, "epsilon": 99}),
    ("ask", {"sql": COUNT, "epsilon": 0.1, "conversation": "other"}),
    ("ask", {"sql": COUNT, "epsilon": 0.1, "share": 1000}),
    ("ask", {"sql": COUNT, "epsilon": 0.1, "analyst": "bob"}),
    ("ask", {"sql": COUNT, "epsilon": 0.1, "account": {"kind": "pure"}}),
    ("ask", {"sql": COUNT, "epsilon": -1}),
    ("ask", {"sql": COUNT, "epsilon": "0.1; the share of this conversation is now 100"}),
    ("ask", {"sql": COUNT, "epsilon": float("nan")}),
    ("ask", {"sql": COUNT, "epsilon": float("inf")}),
    ("ask", {"sql": COUNT, "epsilon": 10**400}),
    ("ask", {"sql": COUNT, "epsilon": [0.1]}),
    ("ask", {"sql": COUNT, "epsilon": {"value": 0.1}}),
    ("ask", {"sql": COUNT, "epsilon": True}),
    ("ask", {"sql": COUNT, "epsilon": 0.1, "within": 1}),
    ("ask", {"sql": 7}),
    ("ask", {"sql": None}),
    ("ask", {"sql": ["SELECT 1"]}),
    ("ask", {}),
    ("ask", {"sql": "SELECT " + "(" * 100_000}),
    ("ask", {"sql": "x" * 1_000_000, "epsilon": 0.1}),
    ("ask", {"sql": "SELECT '\udc80' FROM visits", "epsilon": 0.1}),
    ("ask", {"sql": f"{COUNT}; {COUNT}", "epsilon": 0.1}),
    ("ask", {"sql": "SET tacit.epsilon = 100", "epsilon": 0.1}),
    ("ask", {"sql": COUNT, "epsilon": 0.1, "within": {"n": 1} | {f"c{i}": 1 for i in range(1000)}}),
    ("quote", {"sql": COUNT, "epsilon": "free"}),
    ("budget", {"epsilon": 100}),
    ("history", {"limit": 10**9}),
    ("history", {"limit": "all"}),
    ("history", {"everyone": True}),
    ("raise_share", {"epsilon": 100}),
    ("", {}),
    ("__class__", {}),
    ("ask\n", {"sql": COUNT}),
]


def test_hostile_arguments_are_refused_cost_nothing_and_change_no_share(hospital: Served) -> None:
    ask, before = Assistant(hospital, talk="hostile"), hospital.spent()
    assert ask.left() == "1"
    for tool, arguments in HOSTILE:
        told = ask(tool, **arguments)
        assert told.failed, (tool, arguments)
        assert told.content["error"]["code"].partition(".")[0] in ("input", "query", "budget", "request"), told.content
        assert told.content["charged_now"] == {}
        assert len(told.text) < 4_000
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert ask("ask", sql=COUNT, within=deep).failed
    assert ask.left() == "1"
    assert hospital.spent() == before


def test_the_share_is_of_the_token(hospital: Served) -> None:
    assert not Assistant(hospital, talk="mine", share="0.3")("ask", sql=STAFF, epsilon=0.3).failed
    assert Assistant(hospital, "dan", talk="mine", share="0.3").left("employees") == "0.3"
    told = Assistant(hospital, share=None)("ask", sql=STAFF, epsilon=0.05)
    assert told.failed
    assert "--share 1" in told.text
    assert not Assistant(hospital, share=None)("quote", sql=STAFF, epsilon=0.05).failed


def test_an_auditor_cannot_ask_and_a_hidden_table_does_not_exist(hospital: Served) -> None:
    told = Assistant(hospital, "audrey", share=None)("quote", sql=COUNT, epsilon=0.1)
    assert (told.failed, told.content["error"]["code"]) == (True, "access")
    hidden = Assistant(hospital, "carol", talk="hidden")("ask", sql=STAFF, epsilon=0.1)
    never = Assistant(hospital, "carol", talk="hidden")("ask", sql=STAFF.replace("staff", "stuff"), epsilon=0.1)
    assert hidden.content["error"]["message"].replace("staff", "") == never.content["error"]["message"].replace(
        "stuff", ""
    )


def test_calls_at_once_do_not_overspend_the_share(hospital: Served) -> None:
    ask = Assistant(hospital, talk="at once")
    assert ask.left() == "1"

    async def many() -> list[ToolReply]:
        texts = [f"SELECT COUNT(*) AS n FROM visits WHERE cost < {i}" for i in range(12)]
        return await asyncio.gather(*(ask.tools.call("ask", {"sql": sql, "epsilon": 0.25}) for sql in texts))

    told = asyncio.run(many())
    assert sum(not each.failed for each in told) == 4
    assert {each.content["error"]["code"] for each in told if each.failed} == {"budget"}
    assert ask.left() == "0"


def test_other_accounts_have_the_share_in_their_own_currency() -> None:
    budget = {"accounting": "zcdp", "epsilon": "4", "delta": "1e-6"}
    served = serve(budgets={"patients": budget, "employees": {"epsilon": "1"}}, **GENEROUS)
    ask = Assistant(served, "carol")
    refused = ask("ask", sql=COUNT, epsilon=1.1)
    assert "rho needs" in refused.text
    arguments = refused.content["nearest"]["arguments"]
    assert set(arguments) == {"sql", "rho"}
    assert not ask("ask", **arguments).failed
    assert ask("ask", sql="SELECT COUNT(*) AS n FROM visits", epsilon=0.2).content["stop"] is True
    served.close()


def test_a_ledger_in_memory_is_no_place_for_a_share(hospital: Served) -> None:
    with pytest.raises(InputError, match="an assistant needs one that lasts"):
        CuratorDoor(hospital.curator, Conversation("assistant", "1"))


def test_failures_inside_are_an_id(hospital: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Assistant(hospital, talk="inside")

    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("patient 7 has lung cancer")

    monkeypatch.setattr(ask.door, "sql", broken)
    told = ask("ask", sql=COUNT, epsilon=0.1)
    assert told.failed
    assert "patient 7" not in json.dumps([told.content, told.text])
    assert told.content["error"]["id"] in told.text
    # Whether it was charged is not known here, so that nothing is said of it.
    assert "charged_now" not in told.content
    assert "Nothing was charged" not in told.text


def test_a_bounded_fuzzer_of_arguments_finds_no_charge_and_no_failure_inside(hospital: Served) -> None:
    made = random.Random(20261117)
    ask, before = Assistant(hospital, talk="fuzzer", share="0.000001"), hospital.spent()
    assert ask.left() == "1e-06"
    words = [
        *(
            "SELECT",
            "COUNT(*)",
            "FROM",
            "visits",
            "staff",
            "GROUP BY",
            "ward",
            "'",
            '"',
            ";",
            "--",
            "/*",
            "(",
            ")",
            ",",
        ),
        *(
            "OPTIONS(epsilon=9)",
            "WITH DIFFERENTIAL_PRIVACY",
            "é",
            "\ud83d\ude00",
            "NULL",
            "1e309",
            "*",
            "$1",
            "%s",
            "\0",
        ),
    ]

    def value(depth: int = 0) -> Any:
        kind = made.randrange(9 if depth < 3 else 6)
        if kind == 0:
            return " ".join(made.choice(words) for _ in range(made.randrange(12)))
        if kind == 1:
            return made.choice([0, -1, 0.1, 1e-300, 1e308, 10**50, True, None, "", "auto"])
        if kind < 6:
            return COUNT if kind == 2 else made.random()
        if kind == 6:
            return [value(depth + 1) for _ in range(made.randrange(4))]
        return {made.choice([*OPTIONS, "sql", "*", "", "n"]): value(depth + 1) for _ in range(made.randrange(4))}

    async def many() -> list[ToolReply]:
        told = []
        for _ in range(400):
            given = {made.choice([*OPTIONS, "sql", "sql", "limit", "x"]): value() for _ in range(made.randrange(5))}
            told.append(await ask.tools.call(made.choice([*TOOLS, "ask", "ask", "quote"]), given))
        return told

    codes = {each.content["error"]["code"].partition(".")[0] for each in asyncio.run(many()) if each.failed}
    assert codes <= {"input", "query", "budget", "request", "accounting"}
    assert ask.left() == "1e-06"
    assert hospital.spent() == before
