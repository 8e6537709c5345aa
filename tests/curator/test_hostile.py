"""Callers who try to get something for nothing, or to leave a ledger that cannot be verified."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

import tacit
from support.clinic import COUNT, open_clinic
from tacit.core.errors import InputError
from tacit.core.events import NoEvent
from tacit.curator.curator import Curator
from tacit.ledger import ConflictError, Outcome
from tacit.releases.receipt import outcome_problem, verify_receipt


def is_whole(curator: Curator) -> bool:
    def problem(outcome: Outcome) -> str | None:
        return outcome_problem(outcome, ledger=curator.ledger.id, public_key=curator.public_key)

    return curator.ledger.verify(check_outcome=problem).ok


def test_a_release_does_not_pay_for_a_charge_under_the_same_key() -> None:
    curator, _ = open_clinic()
    mechanism = tacit.Laplace(epsilon=1, l1_sensitivity=1)
    curator.release(mechanism, 5, label="count", idempotency_key="k")
    with pytest.raises(ConflictError):
        curator.charge(mechanism, label="count", idempotency_key="k")


@pytest.mark.parametrize("budget", [{"epsilon": "4"}, {"epsilon": "4", "delta": "1e-6", "accounting": "zcdp"}])
@pytest.mark.parametrize("epsilon", ["0." + "3" * 490, "0." + "0" * 240 + "7" * 240, "1e-300"])
def test_however_many_digits_are_typed_the_ledger_can_be_verified(budget: dict[str, Any], epsilon: str) -> None:
    curator, _ = open_clinic(**budget)
    with suppress(InputError):
        curator.sql(COUNT, epsilon=epsilon)
    assert all(entry.committed for entry in curator.history())
    assert is_whole(curator)


def test_a_charge_of_nothing_has_a_receipt_that_holds() -> None:
    curator, _ = open_clinic()
    done = curator.charge(NoEvent(), label="nothing")
    assert curator.check_receipt(done.receipt).ok
    assert is_whole(curator)


@pytest.mark.parametrize("value", ["1e999999999", "\ud800", 0.5, 10**30, None, "1/0"])
@pytest.mark.parametrize("part", ["scale", "l1_sensitivity", "mechanism"])
def test_a_forged_number_in_a_receipt_is_found_wrong_at_once(part: str, value: Any) -> None:
    curator, _ = open_clinic()
    forged = json.loads(curator.sql(COUNT, epsilon=1).receipt.to_json())
    forged["receipt"]["answers"][0]["mechanisms"][0][part] = value
    assert not verify_receipt(json.dumps(forged), curator.public_key).ok
