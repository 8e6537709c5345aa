"""Charges whose process died before anyone was answered: listed at every door, and delivered under their charge."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from support.served import Served, serve
from support.toy_engine import Killed
from support.visiting import Visitor
from tacit.core.errors import InputError
from tacit.query.request import Request
from tacit.releases.receipt import verify_receipt

COUNT = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
OTHER = "SELECT COUNT(*) AS n FROM visits"
HALF = Fraction(1, 2)


@pytest.fixture
def served() -> Iterator[Served]:
    found = serve()
    yield found
    found.close()


def killed(served: Served, sql: str = COUNT, name: str = "alice") -> int:
    """The position of a charge whose process died in the midst of its run."""
    served.engine.fail = Killed()
    with pytest.raises(Killed):
        served.service.ask(served.access(name), Request(sql=sql, epsilon="0.5"))
    served.engine.fail = None
    return next(iter(served.curator.ledger.history(newest_first=True))).seq


def waiting(served: Served, name: str = "alice", more: str = "") -> list[int]:
    return [each["position"] for each in served.get(f"/v1/history?undelivered=true{more}", name).json()["entries"]]


def test_what_a_killed_run_left_is_listed_and_delivered_once(served: Served) -> None:
    first, second = killed(served), killed(served, OTHER)
    served.ask("SELECT SUM(cost) AS c FROM visits", epsilon=0.5)
    assert waiting(served) == [second, first]
    assert waiting(served, "bob") == []
    spent = served.spent()
    answer = served.call("POST", f"/v1/deliver/{first}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["tacit-repeat"] == "true", "this call was charged nothing"
    assert answer.json()["charge"]["position"] == first
    assert verify_receipt(json.dumps(answer.json()["receipt"]), served.curator.public_key).ok
    assert waiting(served) == [second]
    # Again, the same bytes; asked in the ordinary way, the same release.
    assert served.call("POST", f"/v1/deliver/{first}").content == answer.content
    assert served.ask(COUNT, epsilon=0.5).json()["rows"] == answer.json()["rows"]
    assert served.spent() == spent
    assert served.curator.ledger.verify().ok


def test_a_run_that_dies_again_and_again_stays_one_charge(served: Served) -> None:
    position = killed(served)
    for _ in range(3):
        served.engine.fail = Killed()
        with pytest.raises(Killed):
            served.service.deliver(served.access(), position)
    assert waiting(served) == [position]
    served.engine.fail = None
    served.service.deliver(served.access(), position)
    assert (waiting(served), served.spent()) == ([], HALF)


def test_a_run_that_fails_is_delivered_as_the_failure(served: Served) -> None:
    position = killed(served)
    served.engine.fail = RuntimeError("a row of one person")
    first = served.call("POST", f"/v1/deliver/{position}")
    served.engine.fail = None
    assert (first.status_code, "a row" in first.text) == (500, False)
    assert served.call("POST", f"/v1/deliver/{position}").json() == first.json()
    assert (waiting(served), served.spent()) == ([], HALF)


def test_other_peoples_charges_do_not_exist_and_owners_deliver_all(served: Served) -> None:
    position = killed(served)
    missing = served.call("POST", "/v1/deliver/999", name="bob")
    assert missing.status_code == 404
    for name in ("bob", "audrey"):
        found = served.call("POST", f"/v1/deliver/{position}", name=name)
        assert found.status_code in (403, 404), name
        if name == "bob":
            assert found.content == missing.content
    assert waiting(served, "olga", "&everyone=true") == [position]
    assert served.service.deliver(served.access("olga"), position).charge.number == position
    assert served.get(f"/v1/receipts/{position}").status_code == 200, "whose charge it is can fetch it"
    assert served.spent() == HALF


def test_new_data_is_asked_under_the_old_charge(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of the data is part of a repeat's name; by its position a charge is found all the same."""
    position = killed(served)
    for context in (served.curator.context, served.service._for(served.access()).context):
        object.__setattr__(context, "version", lambda _: "a later version")
    served.service.deliver(served.access(), position)
    assert served.spent() == HALF
    # The same query about the new data in the ordinary way is another release.
    served.ask(COUNT, epsilon=0.5)
    assert served.spent() == 2 * HALF


def test_mechanisms_are_not_run_from_the_ledger_alone(served: Served) -> None:
    import tacit

    class Interrupted(tacit.Laplace):
        def release(self, value: Any) -> Any:
            raise Killed

    with pytest.raises(Killed):
        served.curator.release(Interrupted(epsilon="0.5", l1_sensitivity=1), 3, label="visits", population="patients")
    (entry,) = served.curator.undelivered()
    with pytest.raises(InputError, match="a mechanism of a program: release again there"):
        served.curator.deliver(entry.number)
    with pytest.raises(InputError, match="there is no charge at"):
        served.curator.deliver(entry.number + 1)
    assert served.spent() == HALF


def test_the_console_lists_them_and_has_a_button_for_each(served: Served) -> None:
    position = killed(served)
    alice, bob = Visitor(served), Visitor(served)
    alice.sign_in("alice")
    bob.sign_in("bob")
    page = alice.get("/console/history?undelivered=1").text
    assert re.search(rf'action="/console/deliver".*name="position" value="{position}"', page, re.S)
    assert "paid, not delivered" in page
    assert bob.post("/console/deliver", position=str(position)).status_code == 404
    found = alice.post("/console/deliver", position=str(position))
    assert (found.status_code, found.headers["location"]) == (303, f"/console/answers/{position}")
    assert alice.get(found.headers["location"]).status_code == 200
    assert "Every charge has its answer" in alice.get("/console/history?undelivered=1").text
    for odd in ("", "x", "-1", "9" * 30, "999"):
        assert alice.post("/console/deliver", position=odd).status_code == 404
    assert served.spent() == HALF
    alice.close()
    bob.close()


def test_a_delivered_answer_leaves_at_a_response_time(monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(response_step=0.05)
    position = killed(served)
    seen: list[Any] = []
    real: Callable[..., Any] = served.app.state.runtime.timer

    def timer(name: str) -> Any:
        seen.append(made := real(name))
        return made

    monkeypatch.setattr(served.app.state.runtime, "timer", timer)
    assert served.call("POST", f"/v1/deliver/{position}").status_code == 200
    assert seen[0]._decided is not None, "data was read"
    served.close()
