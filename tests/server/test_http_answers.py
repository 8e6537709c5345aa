"""Answers over HTTP: shapes, forms, repeats, keys, prices."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from fractions import Fraction
from typing import Any

import pytest

from support.served import COUNT, STAFF, Served, error, raw, serve
from tacit.releases.receipt import Receipt


def test_an_answer(served: Served) -> None:
    response = served.ask("SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY ward", epsilon=1)
    assert response.status_code == 200
    body = response.json()
    assert list(body) == ["columns", "rows", "confidence", "bias", "charge", "note", "receipt"]
    assert body["columns"] == [
        {"name": "ward", "type": "TEXT", "interval": False},
        {"name": "n", "type": "INTEGER", "interval": True, "not_negative": True},
        {"name": "s", "type": "DECIMAL(18,2)", "interval": True, "not_negative": True},
    ]
    for row, ward in zip(body["rows"], "abc", strict=True):
        assert row[0] == ward
        count, total = row[1], row[2]
        assert list(count)[:5] == list(total)[:5] == ["value", "low", "high", "bias_low", "bias_high"]
        ends = ("value", "low", "high", "bias_low", "bias_high")
        assert all(isinstance(count[end], int) for end in ends)
        assert count["low"] <= count["value"] <= count["high"]
        assert all(isinstance(total[end], str) and "." in total[end] for end in ends)
        assert Fraction(total["low"]) <= Fraction(total["value"]) <= Fraction(total["high"])
    assert body["confidence"] == "0.95"
    assert body["charge"] == {
        "population": "patients",
        "amounts": {"epsilon": "1"},
        "position": body["charge"]["position"],
    }
    receipt = Receipt.from_json(json.dumps(body["receipt"]))
    assert served.curator.check_receipt(receipt).ok
    assert receipt.position == body["charge"]["position"]
    assert response.headers["tacit-repeat"] == "false"
    assert served.spent() == 1


def test_integers_that_readers_would_round_are_text(served: Served) -> None:
    """A sum of values up to 2^52 passes 2^53; what JSON readers hold exactly stays a number."""
    response = served.ask("SELECT SUM(units) AS s, COUNT(*) AS n FROM visits", epsilon=1)
    assert response.json()["columns"][0]["type"] == "INTEGER"
    (row,) = response.json()["rows"]
    ends = [row[0][name] for name in ("value", "low", "high")]
    assert any(isinstance(end, str) for end in ends)
    for end in ends:
        assert isinstance(end, str) == (abs(int(end)) > 2**53 - 1)
    assert all(isinstance(row[1][name], int) for name in row[1])


def test_dates_and_unbounded_things(served: Served) -> None:
    response = served.ask("SELECT day, COUNT(*) AS n FROM visits GROUP BY day", epsilon=4, delta=1e-7)
    assert response.status_code == 200
    assert all(row[0] is None or dt.date.fromisoformat(row[0]) for row in response.json()["rows"])
    assert set(response.json()["charge"]["amounts"]) == {"epsilon", "delta"}


def test_dates_that_a_condition_lists_are_public_keys(served: Served) -> None:
    sql = "SELECT day, COUNT(*) AS n FROM visits WHERE day IN (DATE '2025-01-01') GROUP BY day"
    response = served.ask(sql, epsilon=4, delta=1e-7)
    assert response.status_code == 200
    assert [row[0] for row in response.json()["rows"]] == ["2025-01-01"]
    assert set(response.json()["charge"]["amounts"]) == {"epsilon"}


def test_a_query_with_several_parts_is_one_charge_and_one_receipt(served: Served) -> None:
    share = f"WITH t AS ({COUNT}) SELECT ward, n, n * 1.0 / (SELECT COUNT(DISTINCT patient) FROM visits) AS s FROM t"
    response = served.ask(share, epsilon=0.125)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["charge"]["amounts"] == {"epsilon": "0.125"}
    (said,) = body["receipt"]["receipt"]["answers"]
    assert {line["part"] for line in said["mechanisms"]} == {"1", "2"}
    assert served.ask(share, epsilon=0.125).headers["tacit-repeat"] == "true"


def test_a_repeat_is_free_and_the_same_bytes_for_all(served: Served) -> None:
    first = served.ask(epsilon=0.5)
    for name in ("alice", "bob", "carol", "olga"):
        again = served.ask(name=name, epsilon=0.5)
        assert again.content == first.content
        assert again.headers["tacit-repeat"] == "true"
    assert served.spent() == Fraction(1, 2)
    # In another process, or after the bytes were forgotten: the same.
    served.app.state.runtime.shown.__init__(16_000_000)
    assert served.ask(name="bob", epsilon=0.5).content == first.content


def test_the_order_of_fields_makes_no_difference(served: Served) -> None:
    def sent(body: str) -> Any:
        return served.call(
            "POST", "/v1/query", content=body, headers={"content-type": "application/json", "idempotency-key": "k"}
        )

    first = sent(f'{{"sql": "{COUNT}", "epsilon": 0.5, "confidence": 0.9}}')
    again = sent(f' {{"confidence":9e-1,\n"epsilon":5E-1,"sql":"{COUNT}"}}\n')
    assert first.status_code == again.status_code == 200
    assert first.content == again.content
    assert served.spent() == Fraction(1, 2)


def test_a_request_sent_again_under_its_key(served: Served) -> None:
    """Threat 30: one charge, the same bytes; another body 409; another analyst's key is unknown."""
    key = {"Idempotency-Key": "alpha-1"}
    first = served.ask(epsilon=0.5, headers=key)
    again = served.ask(epsilon=0.5, headers=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == again.content
    assert served.spent() == Fraction(1, 2)
    for words in ({"epsilon": 0.6}, {"epsilon": 0.5, "confidence": 0.9}, {"epsilon": 0.5, "sql": COUNT + " "}):
        other = served.ask(words.pop("sql", COUNT), headers=key, **words)  # type: ignore[arg-type]
        assert other.status_code == 409
        assert error(other.content)["code"] == "input.conflict"
        assert error(other.content)["parameter"] == "idempotency_key"
    assert served.spent() == Fraction(1, 2)
    # To bob the key means nothing: his request is his own.
    mine = served.ask(epsilon=0.25, name="bob", headers=key)
    assert mine.status_code == 200
    assert served.spent() == Fraction(3, 4)


def test_a_key_survives_a_change_of_data() -> None:
    """The answer under a key is the one that was released, whatever the tables hold by now."""
    versions = ["1"]
    served = serve(version=lambda tables: versions[-1])
    key = {"Idempotency-Key": "k"}
    first = served.ask(epsilon=0.5, headers=key)
    versions.append("2")
    assert served.ask(epsilon=0.5, headers=key).content == first.content
    assert served.spent() == Fraction(1, 2)
    assert served.ask(epsilon=0.5).content != first.content
    assert served.spent() == 1
    served.close()


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "é", "a\tb", "\x7f"])
def test_a_key_that_is_none(served: Served, key: str) -> None:
    status, _, told = served.raw(
        "POST",
        "/v1/query",
        headers=[(b"content-type", b"application/json"), (b"idempotency-key", key.encode("latin-1"))],
        body=json.dumps({"sql": COUNT, "epsilon": 1}).encode(),
    )
    assert (status, error(told)["parameter"]) == (400, "Idempotency-Key")
    assert served.spent() == 0
    assert served.ask(epsilon=1, headers={"Idempotency-Key": "x" * 200}).status_code == 200


def test_a_caller_who_leaves_is_answered_later(served: Served) -> None:
    """A query that was begun is finished; sent again with its key it is the same, for one charge."""
    body = json.dumps({"sql": COUNT, "epsilon": 0.5}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"idempotency-key", b"k"),
        (b"authorization", f"Bearer {served.tokens['alice']}".encode()),
    ]

    async def leave() -> None:
        task = asyncio.ensure_future(raw(served.app, "POST", "/v1/query", headers=headers, body=body))
        while served.engine.measured == 0:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while served.app.state.runtime.under_way:
            await asyncio.sleep(0.001)

    asyncio.run(leave())
    again = served.ask(epsilon=0.5, headers={"Idempotency-Key": "k"})
    assert again.status_code == 200
    assert served.engine.measured == 1
    assert served.spent() == Fraction(1, 2)


def test_equal_queries_at_once_are_one_release(served: Served) -> None:
    async def all_at_once() -> list[Any]:
        async with served.client() as alice, served.client("bob") as bob:
            return await asyncio.gather(
                *(who.post("/v1/query", json={"sql": COUNT, "epsilon": 0.5}) for who in (alice, bob) for _ in range(10))
            )

    found = asyncio.run(all_at_once())
    assert len({response.content for response in found}) == 1
    assert [response.headers["tacit-repeat"] for response in found].count("false") == 1
    assert served.spent() == Fraction(1, 2)


def test_only_a_repeat_does_not_tell_what_others_asked(served: Served) -> None:
    free = {"Tacit-Repeat": "only"}
    before = served.ask(epsilon=0.5, name="bob", headers=free)
    paid = served.ask(epsilon=0.5)
    assert served.ask(epsilon=0.5, name="bob", headers=free).content == before.content
    # Neither the hash of the charge, which the next charge's receipt names, nor another person's code is a way in.
    hash_of_charge = paid.json()["receipt"]["receipt"]["ledger"]["hash"]
    for known in (hash_of_charge, paid.headers["tacit-release"], "0" * 64):
        found = served.ask(epsilon=0.5, name="bob", headers={"Tacit-Repeat": known})
        assert (found.status_code, found.content) == (409, before.content)
    # An answer that was given is given again, also with another interval.
    given = served.ask(epsilon=0.5, name="bob")
    again = served.ask(epsilon=0.5, name="bob", headers={"Tacit-Repeat": given.headers["tacit-release"]})
    assert (given.headers["tacit-repeat"], again.content) == ("true", given.content)
    assert served.ask(epsilon=0.5, name="olga", headers=free).status_code in (200, 403)
    assert served.spent() == Fraction(1, 2)


def test_only_a_repeat(served: Served) -> None:
    free = {"Tacit-Repeat": "only"}
    none = served.ask(epsilon=0.5, headers=free)
    assert (none.status_code, error(none.content)["code"]) == (409, "input.conflict")
    assert served.spent() == 0
    first = served.ask(epsilon=0.5)
    again = served.ask(epsilon=0.5, headers=free)
    assert again.content == first.content
    assert again.headers["tacit-repeat"] == "true"
    wider = served.ask(epsilon=0.5, confidence=0.99, headers=free)
    assert wider.status_code == 200
    assert wider.json()["rows"][0][1]["value"] == first.json()["rows"][0][1]["value"]
    assert wider.json()["rows"][0][1]["low"] < first.json()["rows"][0][1]["low"]
    assert served.spent() == Fraction(1, 2)
    assert served.ask(epsilon=0.5, headers={"Tacit-Repeat": "true"}).status_code == 400


def test_a_quote(served: Served) -> None:
    response = served.call("POST", "/v1/explain", json={"sql": COUNT, "epsilon": 0.5})
    body = response.json()
    assert response.status_code == 200
    assert body["price"]["amounts"] == {"epsilon": "0.5"}
    assert body["population"] == "patients"
    assert body["releases"][0]["mechanism"] == "laplace"
    assert body["errors"][0]["bound"]
    assert body["queries_left"] == 20
    assert "engine_sql" not in body
    assert served.engine.measured == 0
    assert served.spent() == 0
    served.ask(epsilon=0.5)
    assert served.call("POST", "/v1/explain", json={"sql": COUNT, "epsilon": 0.5}).json()["queries_left"] == 19
    quoted = served.call("POST", "/v1/explain", "olga", json={"sql": COUNT, "epsilon": 0.5}).json()
    assert {**body, "queries_left": 19, "engine_sql": None} == quoted


def test_how_many_more_fit_is_what_a_budget_says(served: Served) -> None:
    served.curator.ledger.set_quota("patients", {"epsilon": "2"}, analyst="bob", operator="test")
    for name, words in (("alice", {"epsilon": 0.3}), ("bob", {"epsilon": 0.3}), ("bob", {"within": 30})):
        body = served.call("POST", "/v1/explain", name, json={"sql": COUNT, **words}).json()
        quote = served.curator.explain(COUNT, **{word: str(value) for word, value in words.items()})
        assert body["queries_left"] == served.curator.budget(quote, analyst=name).queries
    assert served.call("POST", "/v1/explain", "bob", json={"sql": COUNT, "epsilon": 0.3}).json()["queries_left"] == 6


def test_budgets(served: Served) -> None:
    served.ask(epsilon=0.5)
    body = served.get("/v1/budget").json()
    assert [each["population"] for each in body["budgets"]] == ["patients", "employees"]
    assert body["budgets"][0]["currencies"][0] == {"currency": "epsilon", "cap": "10", "spent": "0.5", "left": "9.5"}
    assert body["budgets"][0]["shares"][0]["owner"] == "analyst alice"
    assert len(served.get("/v1/budget?population=employees").json()["budgets"]) == 1


def test_a_budget_that_is_used_up(served: Served) -> None:
    served.curator.ledger.set_quota("patients", {"epsilon": "1"}, analyst="bob", operator="test")
    response = served.ask(name="bob", epsilon=1.5)
    assert (response.status_code, error(response.content)["code"]) == (402, "budget")
    assert "analyst bob" in error(response.content)["message"]
    assert served.spent() == 0
    assert served.ask(epsilon=11).status_code == 402
    assert served.ask(epsilon=1.5).status_code == 200
    # A repeat costs nothing, so it needs no budget.
    assert served.ask(name="bob", epsilon=1.5).status_code == 200


@pytest.mark.parametrize(
    ("sql", "words", "status", "code"),
    [
        (COUNT, {}, 400, "input"),
        (COUNT, {"epsilon": 1, "rho": 1}, 400, "input"),
        (COUNT, {"epsilon": 1, "confidence": 2}, 400, "input"),
        (COUNT, {"epsilon": 1, "max_groups": 0}, 400, "input"),
        (COUNT, {"epsilon": 1e-30}, 400, "input"),
        (COUNT, {"epsilon": 1, "weights": {"nothing": 2}}, 400, "input"),
        (COUNT, {"epsilon": 1, "delta": 1}, 400, "input"),
        ("SELECT street FROM visits", {"epsilon": 1}, 422, "query.not_aggregated"),
        ("SELECT COUNT(*) FROM nothing", {"epsilon": 1}, 422, "query.unknown_table"),
        ("SELECT NOW() FROM wards", {"epsilon": 1}, 422, "query.volatile"),
        ("DELETE FROM visits", {"epsilon": 1}, 422, "query.statement"),
        (STAFF, {"epsilon": 1, "delta": 1e-9}, 400, "input"),
    ],
)
def test_what_cannot_be_answered(served: Served, sql: str, words: dict[str, Any], status: int, code: str) -> None:
    """The same on both endpoints, and free."""
    for path in ("/v1/query", "/v1/explain"):
        response = served.call("POST", path, json={"sql": sql, **words})
        assert (response.status_code, error(response.content)["code"]) == (status, code), response.text
    assert served.spent() == served.spent("employees") == 0


def test_a_receipt_is_found_again(served: Served) -> None:
    answer = served.ask(epsilon=0.5).json()
    found = served.get(f"/v1/receipts/{answer['charge']['position']}")
    assert found.status_code == 200
    assert found.json() == answer["receipt"]
    assert found.text == Receipt.from_json(found.text).to_json()


def test_tables_say_what_their_owner_declared(served: Served) -> None:
    tables = {each["name"]: each for each in served.get("/v1/tables").json()["tables"]}
    assert list(tables) == ["visits", "staff", "wards"]
    cost = next(each for each in tables["visits"]["columns"] if each["name"] == "cost")
    assert (cost["type"], cost["bounds"]) == ("DECIMAL(18,2)", ["0.00", "100.00"])
    assert tables["wards"]["public"] is True
    assert served.engine.measured == 0
