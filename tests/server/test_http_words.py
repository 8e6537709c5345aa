"""The words of a query belong to its author: others who ask the same get the release, and none of the words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.served import COUNT, Served
from support.toy_engine import Killed
from tacit.ledger.entries import canonical
from tacit.ledger.history import charge_at
from tacit.ledger.protocol import link
from tacit.query.request import Request
from tacit.releases.receipt import verify_receipt

#: The same release, asked for in words that no other analyst would choose.
PAYER = (
    "SELECT COUNT(*) AS suspects, ward AS secret_ward /* case 17 against Mr. Doe */ FROM visits -- ask Zelda\n"
    "GROUP BY ward ORDER BY suspects DESC"
)
WORDS = ("suspects", "secret_ward", "Doe", "Zelda", "case 17", "alice")


def test_a_repeat_shows_nothing_of_what_the_payer_wrote(served: Served) -> None:
    first = served.ask(PAYER, epsilon=0.5).json()
    again = served.ask(COUNT, "bob", epsilon=0.5)
    assert again.headers["tacit-repeat"] == "true"
    seen = again.content.decode("latin-1") + str(again.headers)
    assert not [word for word in WORDS if word in seen]
    assert served.ask(PAYER, "bob", epsilon=0.5).json() == first, "who writes the same gets the same bytes"


def test_both_receipts_hold_and_speak_of_one_release(served: Served) -> None:
    paid = served.ask(PAYER, epsilon=0.5).json()["receipt"]
    repeated = served.ask(COUNT, "bob", epsilon=0.5).json()["receipt"]
    for receipt, sql in ((paid, PAYER), (repeated, COUNT)):
        report = verify_receipt(json.dumps(receipt), served.curator.public_key)
        assert report.ok, str(report)
        assert receipt["receipt"]["answers"][0]["query"] == sql
        assert served.curator.check_receipt(json.dumps(receipt)).ok, "and stand in the ledger"
    one, other = paid["receipt"], repeated["receipt"]
    for part in ("ledger", "charge", "guarantee", "population", "unit", "catalog", "project"):
        assert one[part] == other[part]
    (answer,), (same) = one["answers"], other["answers"][0]
    assert answer["released"] == same["released"]
    assert [line["event"] for line in answer["mechanisms"]] == [line["event"] for line in same["mechanisms"]]
    assert paid["signature"] != repeated["signature"]
    assert served.ask(COUNT, "bob", epsilon=0.5).json()["receipt"] == repeated, "the same words, the same bytes"


def test_bounds_that_were_found_are_in_both(served: Served) -> None:
    asked = "SELECT SUM(CLAMP(cost, AUTO)) AS {} FROM visits"
    paid = served.ask(asked.format("suspects"), epsilon=2)
    assert paid.status_code == 200, paid.text
    again = served.ask(asked.format("total"), "bob", epsilon=2)
    assert again.headers["tacit-repeat"] == "true"
    assert "suspects" not in again.text
    assert verify_receipt(json.dumps(again.json()["receipt"]), served.curator.public_key).ok


def test_a_job_and_what_costs_nothing_have_the_words_of_the_asker(served: Served) -> None:
    served.ask(PAYER, epsilon=0.5)
    code = served.ask(COUNT, "bob", epsilon=0.5).headers["tacit-release"]
    free = served.ask(COUNT, "bob", epsilon=0.5, headers={"Tacit-Repeat": code})
    assert free.json()["receipt"]["receipt"]["answers"][0]["query"] == COUNT
    assert not [word for word in WORDS if word in free.text]


def test_an_analyst_who_finishes_what_another_paid_for_tells_them_nothing_either(served: Served) -> None:
    """A run that died is taken up under the same charge, perhaps by another analyst and in other words."""
    served.engine.fail = Killed()
    with pytest.raises(Killed):
        served.service.ask(served.access(), Request(sql=COUNT, epsilon="0.5"))
    served.engine.fail = None
    finished = served.ask(PAYER, "bob", epsilon=0.5).json()
    position = finished["charge"]["position"]
    mine = served.get(f"/v1/receipts/{position}")
    assert mine.status_code == 200
    assert mine.json()["receipt"]["answers"][0]["query"] == COUNT
    assert not [word for word in WORDS if word in mine.text]
    assert verify_receipt(mine.text, served.curator.public_key).ok
    assert served.get(f"/v1/receipts/{position}", "bob").status_code == 404, "bob did not pay"
    assert served.get(f"/v1/receipts/{position}", "audrey").json() == finished["receipt"], "auditors see what is kept"


def test_no_guess_about_a_charge_can_be_tried_out_on_its_hash(served: Served) -> None:
    """A receipt shows the hash of the charge, also to those who did not pay."""
    repeated = _receipt(served)
    place = repeated["ledger"]
    charge = charge_at(served.curator.ledger, place["position"])
    assert charge is not None
    salt = charge.quote["salt"]
    assert len(salt) == 64
    assert salt not in json.dumps(repeated)
    entry = served.curator.ledger.journal.store.entry(place["position"])
    assert entry is not None
    body = json.loads(entry.body)
    assert link(place["previous"], canonical(body)) == place["hash"], "a reader who knows all of it can compute it"
    del body["quote"]["salt"]
    assert link(place["previous"], canonical(body)) != place["hash"]
    # Another query, or another person, has another one.
    served.service.ask(served.access("bob"), Request(sql="SELECT COUNT(*) AS n FROM visits", epsilon="0.5"))
    other = charge_at(served.curator.ledger, served.curator.ledger.head.seq - 1)
    assert other is not None
    assert other.quote["salt"] != salt


def _receipt(served: Served) -> dict[str, Any]:
    served.ask(PAYER, epsilon=0.5)
    found: dict[str, Any] = served.ask(COUNT, "bob", epsilon=0.5).json()["receipt"]["receipt"]
    return found
