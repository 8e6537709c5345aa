"""Work of owners over HTTP: people, tokens, quotas. All of it stands in the ledger."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from urllib.parse import quote

import pytest

from support.served import COUNT, STAFF, Served, error


def test_an_owner_brings_in_a_colleague(served: Served) -> None:
    made = served.call(
        "POST", "/v1/people", "olga", json={"name": " Zoë ", "role": "analyst", "populations": ["patients"]}
    )
    assert made.status_code == 201
    assert (made.json()["name"], made.json()["populations"], made.json()["active"]) == ("zoë", ["patients"], True)
    token = served.call("POST", "/v1/tokens", "olga", json={"name": "Zoë", "days": 30, "label": "notebook"})
    assert token.status_code == 201
    served.tokens["zoë"] = token.json()["token"]
    limit = served.call(
        "POST", "/v1/quotas", "olga", json={"name": "zoë", "population": "patients", "caps": {"epsilon": 0.75}}
    )
    assert limit.json()["shares"][0]["currencies"][0]["cap"] == "0.75"
    assert served.ask(name="zoë", epsilon=0.5).status_code == 200
    assert served.ask(name="zoë", epsilon=0.51).status_code == 402
    assert served.ask(STAFF, "zoë", epsilon=0.1).status_code == 422
    free = served.call("POST", "/v1/quotas", "olga", json={"name": "zoë", "population": "patients", "caps": {}})
    assert free.json()["shares"][0]["limited"] is False
    gone = served.call("DELETE", "/v1/people/zo%C3%AB", "olga")
    assert gone.json() == {"name": "zoë", "active": False}
    assert served.ask(name="zoë", epsilon=0.5).status_code == 401
    assert served.spent() == Fraction(1, 2)
    people = {each["name"]: each for each in served.get("/v1/people", "olga").json()["people"]}
    assert people["zoë"]["active"] is False
    assert served.curator.ledger.verify().ok


def test_a_change_of_role_shows_no_person_more(served: Served) -> None:
    """Unless it says so: what was left out is as it was."""

    def put(**words: Any) -> Any:
        return served.call("POST", "/v1/people", "olga", json={"name": "carol", **words}).json()

    assert put(role="auditor")["populations"] == ["patients"]
    assert put(role="owner")["error"]["parameter"] == "populations"
    assert put(role="analyst", populations=["employees"])["populations"] == ["employees"]
    assert put(role="analyst", populations=None)["populations"] is None
    assert put(role="owner")["role"] == "owner"
    assert (
        served.call("POST", "/v1/people", "olga", json={"name": "new", "role": "analyst"}).json()["populations"] is None
    )


@pytest.mark.parametrize("name", ["ward 3/nurse", "/", "a//b", "a/../b", "?", "50% off", "a#b", "x;y", "tokens/x"])
def test_a_person_who_was_let_in_can_be_put_out(served: Served, name: str) -> None:
    """Whatever their name looks like in a path."""
    assert served.call("POST", "/v1/people", "olga", json={"name": name, "role": "analyst"}).status_code == 201
    gone = served.call("DELETE", f"/v1/people/{quote(name, safe='')}", "olga")
    assert (gone.status_code, gone.json()) == (200, {"name": name, "active": False})
    found = served.people.person(name)
    assert found is not None
    assert not found.active


def test_a_token_is_shown_once(served: Served) -> None:
    issued = served.call("POST", "/v1/tokens", "olga", json={"name": "bob", "days": 1, "scopes": ["ask"]}).json()
    listed = served.get("/v1/tokens", "olga")
    assert issued["id"] in listed.text
    assert issued["token"] not in listed.text
    assert issued["token"].rpartition("_")[2] not in listed.text
    served.tokens["new"] = issued["token"]
    assert served.get("/v1/me", "new").json()["scopes"] == ["ask"]
    ended = served.call("DELETE", f"/v1/tokens/{issued['id']}", "olga")
    assert ended.json() == {"id": issued["id"], "alive": False}
    assert served.get("/v1/me", "new").status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "status", "parameter"),
    [
        ("people", {"name": "x"}, 400, "role"),
        ("people", {"role": "analyst"}, 400, "name"),
        ("people", {"name": "x", "role": "king"}, 400, "role"),
        ("people", {"name": "", "role": "analyst"}, 400, "name"),
        ("people", {"name": "a\u202eb", "role": "analyst"}, 400, "name"),
        ("people", {"name": "x", "role": "analyst", "populations": ["martians"]}, 400, "populations"),
        ("people", {"name": "x", "role": "analyst", "populations": "patients"}, 400, "populations"),
        ("people", {"name": "x", "role": "analyst", "admin": True}, 400, "admin"),
        ("tokens", {"name": "bob"}, 400, "days"),
        ("tokens", {"name": "bob", "days": 0}, 400, "days"),
        ("tokens", {"name": "bob", "days": 10**6}, 400, "days"),
        ("tokens", {"name": "bob", "days": 1, "scopes": ["root"]}, 400, "scopes.0"),
        ("tokens", {"name": "bob", "days": 1, "scopes": ["admin"]}, 400, "scopes"),
        ("tokens", {"name": "bob", "days": 1, "label": "x" * 201}, 400, "label"),
        ("tokens", {"name": "unknown", "days": 1}, 400, "name"),
        ("quotas", {"name": "unknown", "population": "patients", "caps": {}}, 404, ""),
        ("quotas", {"name": "bob", "population": "martians", "caps": {}}, 404, ""),
        ("quotas", {"name": "bob", "population": "patients", "caps": {"euros": 1}}, 400, "euros"),
        ("quotas", {"name": "bob", "population": "patients", "caps": {"epsilon": -1}}, 400, "epsilon"),
        ("quotas", {"name": "bob", "population": "patients", "caps": {"epsilon": "one"}}, 400, "caps.epsilon"),
    ],
)
def test_what_cannot_be_done(served: Served, path: str, body: dict[str, Any], status: int, parameter: str) -> None:
    before = served.curator.ledger.head
    response = served.call("POST", f"/v1/{path}", "olga", json=body)
    told = error(response.content)
    assert (response.status_code, told.get("parameter", "")) == (status, parameter), told
    assert served.curator.ledger.head == before


def test_an_owner_does_not_lock_the_door_behind_them(served: Served) -> None:
    assert served.call("DELETE", "/v1/people/olga", "olga").status_code == 400
    assert served.call("DELETE", "/v1/people/unknown", "olga").status_code == 404
    assert served.call("DELETE", "/v1/people/%E2%80%AE", "olga").status_code == 404
    assert served.call("DELETE", "/v1/tokens/nothing", "olga").status_code == 404
    assert served.ask(COUNT, "olga", epsilon=0.5).status_code == 200
