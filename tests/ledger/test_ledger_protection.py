"""The protected unit of an account: fixed once, changed by an operator alone, and every change told by verification."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from support.ledgers import Place, asking, clinic, reserved
from tacit.accounting.filters import PureFilter
from tacit.core.errors import AccessError, InputError
from tacit.ledger import Ledger
from tacit.ledger.entries import step_of
from tacit.ledger.protection import Binding, changes_in
from tacit.ledger.verify import verify

ID = {"unit": "id", "type": "INTEGER"}
TEXT = {"unit": "id", "type": "TEXT"}
ROW = {"unit": "row"}
VISITS = Binding("visits", ("m1", "m2"), "patient")


def test_a_unit_is_fixed_once(place: Place) -> None:
    with clinic(place) as ledger:
        assert ledger.units.unit_of("patients") is None
        ledger.units.check_unit("patients", ROW)
        ledger.units.ensure_unit("Patients", ID)
        before = ledger.head
        ledger.units.ensure_unit("patients", ID)
        assert ledger.head == before
        for other in (ROW, TEXT):
            with pytest.raises(InputError, match="its account protects an id of type INTEGER, and its tables now name"):
                ledger.units.ensure_unit("patients", other)
        assert (ledger.head, ledger.units.unit_of("patients")) == (before, ID)
        with pytest.raises(AccessError, match="there is no account"):
            ledger.units.ensure_unit("unknown", ID)
        assert ledger.verify().ok
    with place.open() as ledger:
        assert ledger.units.unit_of("patients") == ID


def test_a_column_is_fixed_for_every_mark(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.units.bind_column("patients", VISITS)
        before = ledger.head
        ledger.units.bind_column("patients", VISITS)
        assert ledger.head == before
        # A new version of the same source has one mark more.
        ledger.units.bind_column("patients", Binding("v", ("m2", "m3"), "patient"))
        assert ledger.head.seq == before.seq + 1
        for rows in (("m1",), ("m3",), ("m9", "m2")):
            with pytest.raises(InputError, match=r"tables\.w\.unit: persons are named in this source by 'patient'"):
                ledger.units.bind_column("patients", Binding("w", rows, "doctor"))
        assert ledger.head.seq == before.seq + 1
        ledger.units.bind_column("patients", Binding("w", ("m9",), "doctor"))
        assert ledger.verify().changes == ()


def test_an_operator_changes_it_and_nothing_is_forgotten(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.units.ensure_unit("patients", ID)
        ledger.units.bind_column("patients", VISITS)
        reserved(ledger, asking("0.75"))
        entry = ledger.unit_entry("patients")
        new = [Binding("visits", ("m1", "m2", "m7"), "doctor"), Binding("again", ("m2", "m7"), "doctor")]
        for words in ({"reason": " ", "operator": "olga"}, {"reason": "x", "operator": ""}):
            with pytest.raises(InputError, match="must say something"):
                ledger.units.change_unit("patients", TEXT, new, **words)
        ledger.units.change_unit("patients", TEXT, new, reason="renamed", operator="olga")
        assert ledger.unit_entry("patients") > entry
        assert ledger.units.unit_of("patients") == TEXT
        ledger.units.bind_column("patients", Binding("visits", ("m1", "m7"), "doctor"))
        with pytest.raises(InputError, match="by 'doctor'"):
            ledger.units.bind_column("patients", VISITS)
        assert ledger.budget("patients").lines[0].spent == asking("0.75").charge.epsilon
        report = ledger.verify()
        assert report.ok, report.problems
        assert report.changes == tuple(changes_in(ledger.journal.store))
        assert [change.partition(": ")[2] for change in report.changes] == [
            "the unit of patients was an id of type INTEGER and is an id of type TEXT; was fixed anew by olga: renamed",
            "persons of patients are named in visits by doctor, patient before",
        ]


def test_declarations_are_kept_when_they_change(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.units.declare("p", "visits", "patients", {"max_rows": "2", "cost.bounds": "0 to 5"})
        before = ledger.head.seq
        ledger.units.declare("p", "visits", "patients", {"cost.bounds": "0 to 5", "max_rows": "2"})
        assert ledger.head.seq == before
        # Another project declares for itself.
        ledger.units.declare("q", "visits", "patients", {"max_rows": "9"})
        ledger.units.declare("p", "visits", "patients", {"max_rows": "3"})
        report = ledger.verify()
        assert report.ok, report.problems
        assert [change.partition(": ")[2] for change in report.changes] == [
            "visits: cost.bounds was 0 to 5, is not stated",
            "visits: max_rows was 2, is 3",
        ]


def test_many_at_once_agree(place: Place) -> None:
    """Of openings at one moment one is first; the others find what it fixed, and verification has no complaint."""
    clinic(place).close()
    units, refused = [ID, TEXT], []

    def opened(number: int) -> None:
        with place.open() as ledger:
            try:
                ledger.units.ensure_unit("patients", units[number % 2])
                ledger.units.bind_column("patients", Binding("visits", ("m1", f"m{number}"), "ab"[number % 2]))
            except InputError:
                refused.append(number)
            ledger.units.declare("p", "visits", "patients", {"max_rows": str(number % 3)})

    threads = [threading.Thread(target=opened, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 4
    with place.open() as ledger:
        report = ledger.verify()
    assert report.ok, report.problems


UNIT = {"kind": "unit", "population": "patients", "unit": ROW, "was": ID, "sources": []}


def column(population: str, named: str) -> dict[str, Any]:
    source = {"name": "v", "rows": ["m1"], "fresh": [], "column": named}
    return {"kind": "column", "population": population, "sources": [source]}


DECLARED = {"kind": "declared", "project": "p", "table": "visits", "population": "patients", "after": 5}
FORGED: list[tuple[dict[str, Any], str]] = [
    ({**UNIT, "after": 3}, "changes the unit of patients, and no operator answers for it"),
    ({**UNIT, "after": 3, "operator": "o", "reason": " "}, "no operator answers for it"),
    ({**UNIT, "after": 3, "was": TEXT, "operator": "o", "reason": "r"}, "says that the unit of patients was an id of"),
    ({**UNIT, "after": 0, "population": "unknown"}, "is about an account that does not exist"),
    (
        column("patients", "doctor"),
        "changes the unit column of v, and no operator answers for it",
    ),
    (
        column("others", "patient"),
        "names a unit in a source of patients for others",
    ),
    (
        {**DECLARED, "terms": {"max_rows": "9"}, "changed": {}},
        "does not say what changed in the declaration of visits",
    ),
]


@pytest.mark.parametrize(("body", "words"), FORGED)
def test_an_entry_written_past_the_ledger_is_found(place: Place, body: dict[str, Any], words: str) -> None:
    """Entries that fit the chain and were made by no version of Tacit."""
    with clinic(place) as ledger:
        ledger.ensure_account("others", PureFilter(epsilon=1))
        ledger.units.ensure_unit("patients", ID)
        ledger.units.bind_column("patients", VISITS)
        ledger.units.declare("p", "visits", "patients", {"max_rows": "2"})
        assert ledger.verify().ok
        _write(ledger, {**body, "after": ledger.unit_entry("patients")} if body.get("after") == 3 else body)
        with ledger.journal.store.snapshot() as snapshot:
            report = verify(snapshot)
        assert not report.ok
        assert any(words in problem for problem in report.problems), report.problems


def _write(ledger: Ledger, body: dict[str, Any]) -> None:
    ledger.journal.store.append(step_of({**body, "time": ""}))
