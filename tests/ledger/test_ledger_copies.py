"""An entry of one caller, or a charge of one copy, must not take anything from the others."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.ledgers import NOON, Place, answered, asking, bring_back, clinic, copy_files, reserved, spent, sqlite_place
from tacit.accounting.filters import PureFilter
from tacit.core.errors import InputError
from tacit.ledger import ConflictError, Ledger, LedgerError


def test_of_two_copies_in_use_at_once_only_one_spends(folder: Path) -> None:
    place = sqlite_place(folder)
    clinic(place).close()
    copy_files(place, folder / "copy")
    copy = folder / "copy" / Path(place.where).name
    with place.open() as one, Ledger.open(copy, anchor=place.anchor) as other:
        reserved(one, asking("0.6"))
        with pytest.raises(LedgerError, match="not the only copy"):
            other.reserve(asking("0.7"))
        with pytest.raises(LedgerError, match="stopped"):
            other.reserve(asking("0.1"))
        reserved(one, asking("0.4"))


def test_two_copies_do_not_both_answer_one_query_of_one_moment(folder: Path) -> None:
    """Equal entries have equal hashes, but what is released under them has not."""
    place = sqlite_place(folder)
    clinic(place, clock=lambda: NOON).close()
    copy_files(place, folder / "copy")
    copy = folder / "copy" / Path(place.where).name
    clock: dict[str, Any] = {"anchor": place.anchor, "clock": lambda: NOON}
    with Ledger.open(place.where, **clock) as one, Ledger.open(copy, **clock) as other:
        answered(one, asking("0.6"), b"a draw")
        with pytest.raises(LedgerError, match="not the only copy"):
            answered(other, asking("0.6"), b"another draw")


@pytest.mark.parametrize("charges", [1, 2, 3])
def test_an_old_copy_that_is_put_back_under_a_running_process_stops_it(folder: Path, charges: int) -> None:
    """Also where the process itself has written what the anchor remembers."""
    place = sqlite_place(folder)
    clinic(place).close()
    copy_files(place, folder / "backup")
    with place.open() as ledger:
        for _ in range(charges):
            reserved(ledger, asking("0.2"))
        bring_back(place, folder / "backup")
        ledger.journal.store = place.store()  # as after a lost connection
        with pytest.raises(LedgerError, match="put back"):
            ledger.reserve(asking("0.7"))


@pytest.mark.parametrize("key", ["\ud800\udc00", "\udc80", "k" * 201, 7])
def test_a_key_that_cannot_be_read_back_is_refused_and_stops_no_caller(place: Place, key: str) -> None:
    with clinic(place) as ledger:
        for _ in range(2):
            with pytest.raises(InputError, match="idempotency_key"):
                ledger.reserve(asking("0.1", idempotency_key=key))
        answered(ledger, asking("0.1"))
        assert ledger.verify().ok


def test_numbers_that_verification_could_not_read_are_refused(place: Place) -> None:
    with clinic(place) as ledger:
        with pytest.raises(InputError, match="too many digits"):
            ledger.reserve(asking("0." + "3" * 400))
        assert spent(ledger) == 0
        answered(ledger, asking("0." + "3" * 100))
        assert ledger.verify().ok


def test_an_idempotency_key_does_not_reach_into_another_account(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.ensure_account("staff", PureFilter(epsilon=1))
        answered(ledger, asking("0.5", idempotency_key="k", request="the same"))
        with pytest.raises(ConflictError):
            ledger.reserve(replace(asking("0.5", idempotency_key="k", request="the same"), population="staff"))
        assert spent(ledger) == Fraction(1, 2)
        assert spent(ledger, "staff") == 0
