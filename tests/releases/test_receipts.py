"""Receipts: what they say, that they hold, and that no field of one can be changed, offline or in the ledger."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.core.canonical import canonical, digest_of
from tacit.core.errors import InputError, QueryError
from tacit.core.guarantees import PureDP
from tacit.curator.curator import Curator
from tacit.ledger import Ledger, RollbackError
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER, TEXT, decimal
from tacit.releases.keys import Keys, make_keys
from tacit.releases.receipt import Receipt, outcome_problem, signed_text, verify_receipt

CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("patient", INTEGER),
                Column("ward", TEXT, categories=("a", "b")),
                Column("cost", decimal(2), bounds=(Fraction(0), Fraction(5000))),
                Column("street", TEXT),
            ),
            population="patients",
            unit="patient",
            max_groups=2,
        ),
    ),
    (Population("patients"),),
)
ROWS: list[dict[str, Any]] = [
    {"patient": i, "ward": "ab"[i % 2], "cost": Fraction(i), "street": f"street {i % 3}"} for i in range(300)
]
SQL = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s, MEDIAN(cost) AS m FROM visits GROUP BY ward"
PRIVATE = "SELECT street, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY street"
BUDGETS: dict[str, dict[str, str]] = {
    "pure": {"epsilon": "4"},
    "approx": {"accounting": "approx", "epsilon": "4", "delta": "1e-2"},
    "zcdp": {"accounting": "zcdp", "epsilon": "4", "delta": "1e-2"},
    "gdp": {"accounting": "gdp", "mu": "3"},
}


def make(kind: str = "pure", ledger: Any = ":memory:") -> Curator:
    return toy_curator(CATALOG, ToyEngine({"visits": ROWS}), BUDGETS[kind], ledger=ledger)


def signed_anew(receipt: Receipt, keys: Keys, **changes: Any) -> Receipt:
    """Receipt that a holder of the key could sign: the signature holds, whatever is said."""
    statement = {**copy.deepcopy(dict(receipt.statement)), **changes}
    return Receipt(statement, keys.sign(signed_text(statement)))


@pytest.mark.parametrize("kind", BUDGETS)
@pytest.mark.parametrize("sql", [SQL, PRIVATE, "SELECT ward FROM visits GROUP BY ward"])
def test_every_answer_has_a_receipt_that_holds(kind: str, sql: str) -> None:
    curator = make(kind)
    if sql == PRIVATE and kind in ("pure", "gdp"):
        with pytest.raises(QueryError, match="delta"):
            curator.sql(sql, epsilon="0.5")
        return
    answer = curator.sql(sql, epsilon="0.5", delta="1e-4" if kind in ("approx", "zcdp") else None)
    report = verify_receipt(answer.receipt, curator.public_key)
    assert report.ok, str(report)
    said = answer.receipt
    assert (said["population"], said["relation"], said["account"]) == ("patients", "add_remove", kind)
    assert said["unit"] == "visits.patient"
    assert said["answers"][0]["query"] == sql
    assert said["catalog"] == CATALOG.digest
    paid = {amount.currency: str(amount.amount) for amount in answer.charge.amounts}
    assert said["charge"] == paid
    (record,) = curator.ledger.history()
    assert said["ledger"] == {
        "id": curator.ledger.id, "position": record.seq, "hash": record.hash, "previous": said["ledger"]["previous"],
    }  # fmt: skip
    assert said["answers"][0]["released"] == record.digest
    assert verify_receipt(answer.receipt.to_json(), curator.public_key).ok
    assert verify_receipt(json.dumps(json.loads(str(said)), indent=4), curator.public_key).ok


def test_the_report_says_in_words_what_was_checked() -> None:
    curator = make()
    report = verify_receipt(curator.sql(SQL, epsilon="0.5").receipt, curator.public_key)
    text = str(report)
    assert "the events together cost epsilon 0.5; the guarantee says epsilon 0.5" in text
    assert "charged epsilon 0.5; the guarantee costs epsilon 0.5 under pure accounting" in text
    assert text.endswith("The receipt holds.")
    assert [check["name"] for check in json.loads(report.to_json())["checks"]] == [
        "form", "key", "signature", "mechanisms", "guarantee", "charge", "ledger",
    ]  # fmt: skip
    wrong = verify_receipt(curator.sql(SQL, epsilon="0.5").receipt, make_keys().public_key)
    assert not wrong.ok
    assert [check.name for check in wrong.checks if not check.passed] == ["key", "signature"]
    assert str(wrong).endswith("does NOT hold.")
    with pytest.raises(InputError, match="public_key"):
        verify_receipt(curator.sql(SQL, epsilon="0.5").receipt, "nonsense")


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _places(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _places(part, (*path, index))
    else:
        yield path


def _changed(statement: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    content = copy.deepcopy(statement)
    *way, last = path
    here: Any = content
    for step in way:
        here = here[step]
    old = here[last]
    here[last] = old + 1 if isinstance(old, int) else f"{old}1"
    return content


def test_no_field_can_be_changed_without_the_key() -> None:
    curator = make("zcdp")
    receipt = curator.sql(PRIVATE, epsilon="0.5", delta="1e-4").receipt
    statement = json.loads(canonical(dict(receipt.statement)))
    places = list(_places(statement))
    assert len(places) > 40
    for path in places:
        forged = Receipt(_changed(statement, path), receipt.signature)
        assert not verify_receipt(forged, curator.public_key).ok, path
    for name in statement:
        less = {key: value for key, value in statement.items() if key != name}
        assert not verify_receipt(Receipt(less, receipt.signature), curator.public_key).ok
    assert not verify_receipt(Receipt({**statement, "more": 1}, receipt.signature), curator.public_key).ok


def test_numbers_that_do_not_add_up_are_found_even_with_the_key() -> None:
    """A curator that signs a charge smaller than its events, or noise that its events do not have, is found out."""
    curator = make()
    keys = curator._context.keys.known
    receipt = curator.sql(SQL, epsilon="0.5").receipt
    answers = receipt["answers"]

    def failed(**changes: Any) -> list[str]:
        report = verify_receipt(signed_anew(receipt, keys, **changes), curator.public_key)
        return [check.name for check in report.checks if not check.passed]

    assert failed() == []
    assert failed(charge={"epsilon": "1/4"}) == ["charge"]
    assert failed(charge={}) == ["charge"]
    assert failed(charge={"epsilon": "1/2", "delta": "1/100"}) == ["charge"]
    smaller = {"kind": "PureDP", "epsilon": "49/100"}
    assert failed(guarantee=smaller, charge={"epsilon": "49/100"}) == ["guarantee"]
    assert failed(account="zcdp") == ["content"]
    assert failed(relation="replace_one") == ["content"]
    for word, value in (("scale", "1"), ("l1_sensitivity", "100"), ("mechanism", "constant"), ("mechanism", "other")):
        edited = copy.deepcopy(answers)
        line = next(line for line in edited[0]["mechanisms"] if word in line)
        line[word] = value
        assert failed(answers=edited) == ["mechanisms"]
    edited = copy.deepcopy(answers)
    line = next(line for line in edited[0]["mechanisms"] if "scale" in line)
    line["event"]["event"]["scale"] = str(10**9)
    assert failed(answers=edited) == ["mechanisms"]
    edited = copy.deepcopy(answers)
    next(line for line in edited[0]["mechanisms"] if "draws" in line)["draws"] = "1000"
    assert failed(answers=edited) == ["mechanisms"]
    edited[0]["mechanisms"][0]["event"]["kind"] = "NewEvent"
    assert failed(answers=edited) == ["content"]
    assert failed(answers=[]) == ["form"]
    assert failed(guarantee={"kind": "PureDP", "epsilon": "0.50"}) == ["content"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"receipt": 1, "signature": ""}', '{"receipt": {}, "signature": ""}', "[" * 100_000,
     '{"receipt": {}, "receipt": {}, "signature": ""}', '{"receipt": {"format": []}, "signature": "00"}'],
)  # fmt: skip
def test_what_is_no_receipt_is_called_none(text: str) -> None:
    report = verify_receipt(text, make_keys().public_key)
    assert [check.name for check in report.checks if not check.passed] == ["form"]


def test_a_repeat_has_the_receipt_of_the_first_time_in_the_words_of_the_asker() -> None:
    curator = make()
    first = curator.sql(SQL, epsilon="0.5")
    assert curator.sql(SQL, epsilon="0.5", analyst="bob").receipt == first.receipt
    sql = SQL + " ORDER BY n DESC"
    again = curator.sql(sql, epsilon="0.5", analyst="bob")
    assert verify_receipt(again.receipt, curator.public_key).ok
    (one,), (other,) = first.receipt["answers"], again.receipt["answers"]
    assert {**one, "query": sql, "plan": other["plan"]} == other
    assert {**first.receipt.statement, "answers": [other]} == again.receipt.statement
    assert curator.check_receipt(again.receipt).ok
    assert curator.charge(PureDP("0.1"), label="x").receipt.position > first.receipt.position


def test_the_ledger_is_checked_against_its_receipts(tmp_path: Path) -> None:
    curator = make(ledger=tmp_path / "a.ledger")
    answers = [curator.sql(SQL, epsilon="0.5"), curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")]
    ledger, key = curator.ledger, curator.public_key

    def problem(outcome: Any) -> str | None:
        return outcome_problem(outcome, ledger=ledger.id, public_key=key)

    assert ledger.verify(check_outcome=problem).ok
    outcome = ledger.outcome(answers[0].receipt.position)
    other = ledger.outcome(answers[1].receipt.position)
    assert outcome is not None
    assert other is not None
    assert problem(replace(outcome, receipt=b"")) == "it was charged and has no receipt"
    assert problem(replace(outcome, receipt=other.receipt)) == "its receipt speaks of another entry"
    assert problem(replace(outcome, digest=digest_of("x"))) == "its receipt speaks of other numbers"
    assert "changed" in str(problem(replace(outcome, receipt=outcome.receipt.replace(b"COUNT", b"count"))))
    assert outcome_problem(outcome, ledger=ledger.id, public_key=make_keys().public_key) is not None


def test_a_receipt_newer_than_the_ledger_proves_an_old_copy(tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    with make(ledger=place) as curator:
        curator.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
    old = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with make(ledger=place) as curator:
        receipt = curator.sql(SQL, epsilon="0.5").receipt
        curator.check_receipt(receipt)
    for path in tmp_path.iterdir():
        path.unlink()
    for path, content in old.items():
        path.write_bytes(content)
        path.chmod(0o600)
    with pytest.raises(RollbackError):
        make(ledger=place)
    Ledger.adopt(place, reason="a test", operator="unknown").close()
    with make(ledger=place) as curator, pytest.raises(RollbackError):
        curator.check_receipt(receipt)


def test_receipts_are_saved_and_read(tmp_path: Path) -> None:
    curator = make()
    receipt = curator.sql(SQL, epsilon="0.5").receipt
    receipt.save(tmp_path / "r.json")
    assert Receipt.from_json((tmp_path / "r.json").read_text()) == receipt
    assert repr(receipt).startswith(f"<Receipt {receipt.position} of ledger")
