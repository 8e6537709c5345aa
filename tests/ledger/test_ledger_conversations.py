"""Shares of conversations with assistants: fixed once, counted in the same step, there after a restart."""

from __future__ import annotations

import threading
from fractions import Fraction

import pytest

from support.ledgers import Place, clinic
from tacit.accounting.filters import ApproxFilter
from tacit.core.errors import BudgetError, InputError
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.ledger import Ledger, Order


def ask(ledger: Ledger, epsilon: str, name: str = "lungs", analyst: str = "alice") -> None:
    ledger.reserve(Order("patients", PureDP(epsilon), analyst=analyst, conversation=name))


def left(ledger: Ledger, name: str = "lungs", analyst: str = "alice") -> Fraction:
    return ledger.budget("patients", analyst=analyst, conversation=name).balances[-1].lines[0].left


def test_the_share_stops_a_conversation_and_nothing_else(place: Place) -> None:
    with clinic(place, 4) as ledger:
        ledger.conversations.fix("patients", "Lungs", {"epsilon": "1"}, analyst="Alice")
        ask(ledger, "0.6")
        with pytest.raises(BudgetError, match=r"needs 0.6 and has 0.4 of 1 left for conversation alice/lungs"):
            ask(ledger, "0.6")
        ask(ledger, "0.4")
        assert left(ledger) == 0
        ledger.reserve(Order("patients", PureDP("0.6"), analyst="alice"))
        ledger.conversations.fix("patients", "lungs", {"epsilon": "1"}, analyst="bob")
        ask(ledger, "0.6", analyst="bob")
        assert [line.left for line in ledger.budget("patients").lines] == [Fraction("1.8")]
        assert ledger.verify().ok


def test_a_share_outlives_the_process_and_is_never_changed(place: Place) -> None:
    with clinic(place, 4) as ledger:
        ledger.conversations.fix("patients", "lungs", {"epsilon": "1"}, analyst="alice")
        ask(ledger, "0.9")
    with place.open() as ledger:
        ledger.conversations.fix("patients", "lungs", {"epsilon": "1.0"}, analyst="alice")
        assert left(ledger) == Fraction("0.1")
        for other in ({"epsilon": "3"}, {"epsilon": "0.5"}, {}):
            with pytest.raises(InputError, match="has a share of epsilon 1 of patients"):
                ledger.conversations.fix("patients", "lungs", other, analyst="alice")
        with pytest.raises(BudgetError):
            ask(ledger, "0.2")


def test_a_conversation_without_a_share_is_refused_and_the_ledger_goes_on(place: Place) -> None:
    with clinic(place, 4) as ledger:
        with pytest.raises(InputError, match="'hearts' has no share of patients"):
            ask(ledger, "0.1", "hearts")
        for name in ("a/b", "x" * 61, "\n", "", "naïve"):
            with pytest.raises(InputError):
                ledger.conversations.fix("patients", name, {"epsilon": "1"}, analyst="alice")
        with pytest.raises(InputError, match="is not what this account counts"):
            ledger.conversations.fix("patients", "lungs", {"rho": "1"}, analyst="alice")
        ledger.reserve(Order("patients", PureDP("0.1"), analyst="alice"))
        assert ledger.verify().ok


def test_a_currency_that_the_share_leaves_free_is_counted_and_verified(place: Place) -> None:
    with place.open() as ledger:
        ledger.ensure_account("patients", ApproxFilter(epsilon="4", delta="1e-6"))
        ledger.conversations.fix("patients", "lungs", {"epsilon": "1"}, analyst="alice")
        order = Order("patients", ApproxDP("0.5", "1e-8"), analyst="alice", conversation="lungs")
        ledger.reserve(order)
        ledger.reserve(order)
        with pytest.raises(BudgetError, match="has 0 of 1 left for conversation"):
            ledger.reserve(order)
        assert ledger.verify().ok


def test_charges_at_once_do_not_overspend_a_share(place: Place) -> None:
    with clinic(place, 100) as ledger, place.open() as other:
        ledger.conversations.fix("patients", "lungs", {"epsilon": "1"}, analyst="alice")
        admitted, refused = [], []

        def work(mine: Ledger) -> None:
            for _ in range(5):
                try:
                    ask(mine, "0.1")
                    admitted.append(1)
                except BudgetError:
                    refused.append(1)

        threads = [threading.Thread(target=work, args=(mine,)) for mine in (ledger, other) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(admitted), len(refused), left(ledger)) == (10, 20, 0)


def test_a_share_that_was_put_in_behind_the_ledger_is_found(place: Place) -> None:
    with clinic(place, 4) as ledger:
        ledger.conversations.fix("patients", "lungs", {"epsilon": "1"}, analyst="alice")
        again = {"population": "patients", "analyst": "alice", "name": "lungs", "caps": {"epsilon": "3"}}
        with ledger.journal.working():
            # The name is taken: the same share cannot be fixed a second time.
            assert not hasattr(ledger.journal.write({"kind": "conversation", **again}), "head")
        ask(ledger, "1")

    place.tamper("UPDATE pockets SET spent = 0 WHERE owner = 'conversation:alice/lungs'")
    report = Ledger.examine(place.where, anchor=place.anchor)
    assert not report.ok
