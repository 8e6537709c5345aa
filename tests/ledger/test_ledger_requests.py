"""The way of a charge: reserve, commit, retries, repeats, refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest

from support.ledgers import Place, answered, asking, clinic, reserved, spent
from tacit.core.errors import AccessError, AccountingError, BudgetError, InputError
from tacit.core.events import GaussianEvent, NoEvent, PureEvent
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.ledger import FAILED, MOST_RUNS, ConflictError, Ledger, LedgerError, Order, Outcome, Reservation
from tacit.mechanisms.laplace import Laplace


def test_a_charge_counts_from_the_reservation_on_and_survives(place: Place) -> None:
    ledger = clinic(place)
    held = reserved(ledger, asking("0.25", analyst="alice", sql="SELECT COUNT(*) FROM visits"))
    assert [str(amount) for amount in held.amounts] == ["epsilon 0.25"]
    assert spent(ledger) == Fraction(1, 4)
    ledger.close()
    with place.open() as again:
        assert spent(again) == Fraction(1, 4)
        (record,) = again.history()
        assert (record.seq, record.committed, record.sql) == (held.seq, None, "SELECT COUNT(*) FROM visits")


def test_a_commit_keeps_the_bytes_and_the_first_one_wins(place: Place) -> None:
    with clinic(place) as ledger:
        held = reserved(ledger, asking())
        first = ledger.commit(held, b"first", receipt=b"signed")
        second = ledger.commit(held, b"second", receipt=b"signed too")
        assert (first.result, first.receipt, first.repeated) == (b"first", b"signed", False)
        assert (second.result, second.receipt, second.repeated) == (b"first", b"signed", True)
        assert second.seq == first.seq
        kept = ledger.outcome(held.seq)
        assert kept is not None
        assert (kept.result, kept.digest) == (b"first", first.digest)
        assert ledger.outcome(held.seq + 99) is None


def test_the_sum_reaches_the_cap_exactly_and_not_beyond(place: Place) -> None:
    with clinic(place) as ledger:
        for _ in range(3):
            answered(ledger, asking("1/3"))
        assert spent(ledger) == 1
        with pytest.raises(BudgetError, match=r"patients: the charge does not fit: epsilon needs 1e-20 and has 0 of 1"):
            ledger.reserve(asking("1e-20"))
        assert spent(ledger) == 1


def test_the_smallest_price_is_never_nothing(place: Place) -> None:
    with clinic(place) as ledger:
        reserved(ledger, asking("1e-300"))
        assert spent(ledger) > 0


def test_a_refused_charge_changes_nothing(place: Place) -> None:
    with clinic(place) as ledger:
        head = ledger.head
        with pytest.raises(BudgetError):
            ledger.reserve(asking(2, repeat_key="r", idempotency_key="k", analyst="alice"))
        assert (ledger.head, spent(ledger)) == (head, 0)
        assert isinstance(ledger.reserve(asking(1, repeat_key="r", idempotency_key="k", analyst="alice")), Reservation)


def test_an_idempotency_key_is_one_charge_and_the_same_bytes(place: Place) -> None:
    order = asking(analyst="alice", idempotency_key="k", request="body one")
    with clinic(place) as ledger:
        first = reserved(ledger, order)
        again = reserved(ledger, order)
        assert (again.seq, again.hash, again.resumed) == (first.seq, first.hash, True)
        ledger.commit(first, b"bytes")
        retried = ledger.reserve(order)
        assert isinstance(retried, Outcome)
        assert (retried.result, retried.repeated) == (b"bytes", True)
        assert spent(ledger) == Fraction(1, 10)


def test_an_idempotency_key_with_another_body_is_refused(place: Place) -> None:
    with clinic(place) as ledger:
        reserved(ledger, asking(analyst="alice", idempotency_key="k", request="body one"))
        with pytest.raises(ConflictError, match="idempotency_key: was used before") as caught:
            ledger.reserve(asking(analyst="alice", idempotency_key="k", request="body two"))
        assert caught.value.code == "input.conflict"
        reserved(ledger, asking(analyst="alice", idempotency_key="j", sql="SELECT 1"))
        with pytest.raises(ConflictError):
            ledger.reserve(asking(analyst="alice", idempotency_key="j", sql="SELECT 2"))
        assert spent(ledger) == Fraction(2, 10)


def test_another_analysts_key_is_unknown(place: Place) -> None:
    with clinic(place) as ledger:
        first = reserved(ledger, asking(analyst="alice", idempotency_key="k", request="a"))
        second = reserved(ledger, asking(analyst="bob", idempotency_key="k", request="b"))
        assert second.seq != first.seq
        assert not second.resumed


def test_a_repeat_is_free_for_everyone(place: Place) -> None:
    with clinic(place) as ledger:
        answered(ledger, asking(analyst="alice", repeat_key="release"), b"once")
        head = ledger.head
        again = ledger.reserve(asking(analyst="bob", repeat_key="release"))
        assert isinstance(again, Outcome)
        assert (again.result, again.repeated) == (b"once", True)
        assert (ledger.head, spent(ledger)) == (head, Fraction(1, 10))
        assert isinstance(ledger.reserve(asking(repeat_key="another")), Reservation)


def test_a_repeat_that_died_is_run_again_under_its_charge(place: Place) -> None:
    clinic(place).close()
    with place.open() as ledger:
        first = reserved(ledger, asking(analyst="alice", repeat_key="release"))
    with place.open() as ledger:
        second = reserved(ledger, asking(analyst="bob", repeat_key="release"))
        assert (second.seq, second.resumed) == (first.seq, True)
        ledger.commit(second, b"late")
        assert ledger.commit(first, b"later").result == b"late"
        assert spent(ledger) == Fraction(1, 10)


def test_a_repeat_is_bound_to_its_idempotency_key(place: Place) -> None:
    with clinic(place) as ledger:
        answered(ledger, asking(repeat_key="release"), b"once")
        order = asking(analyst="bob", repeat_key="release", idempotency_key="k", request="body")
        for _ in range(2):
            again = ledger.reserve(order)
            assert isinstance(again, Outcome)
            assert again.result == b"once"
        with pytest.raises(ConflictError):
            ledger.reserve(asking(analyst="bob", idempotency_key="k", request="other"))
        with pytest.raises(ConflictError):
            ledger.reserve(asking(analyst="bob", repeat_key="release", idempotency_key="k", request="other"))
        assert spent(ledger) == Fraction(1, 10)


@pytest.mark.parametrize("word", ["repeat_key", "idempotency_key"])
def test_nothing_runs_under_a_charge_for_something_else(place: Place, word: str) -> None:
    """The same key and request, but the price has changed since: what was paid does not cover it."""
    with clinic(place) as ledger:
        cheap = reserved(ledger, asking("0.1", request="r", **{word: "k"}))
        with pytest.raises(ConflictError, match=f"{word}: stands for a charge that was for another release"):
            ledger.reserve(asking("0.5", request="r", **{word: "k"}))
        ledger.commit(cheap, b"answer")
        stored = ledger.reserve(asking("0.5", request="r", **{word: "k"}))
        assert isinstance(stored, Outcome)
        assert stored.result == b"answer"
        assert spent(ledger) == Fraction(1, 10)


def test_repeats_are_repeats_within_one_population(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.ensure_account("staff", ledger.filter("patients"))
        answered(ledger, asking(repeat_key="release"))
        assert isinstance(ledger.reserve(Order("staff", PureDP("0.1"), repeat_key="release")), Reservation)


def test_mechanisms_events_and_guarantees_can_be_charged(place: Place) -> None:
    with clinic(place, epsilon=10) as ledger:
        reserved(ledger, Order("patients", Laplace(epsilon="1/2", l1_sensitivity=1)))
        reserved(ledger, Order("patients", PureEvent("1/4")))
        reserved(ledger, Order("patients", ApproxDP("1/8", 0)))
        assert spent(ledger) == Fraction(7, 8)
        free = reserved(ledger, Order("patients", NoEvent()))
        assert free.amounts == ()
        assert ledger.verify().ok


def test_what_has_no_price_is_refused_without_a_charge(place: Place) -> None:
    with clinic(place) as ledger:
        for charge in (GaussianEvent(1, 1), ApproxDP(1, "1e-6"), PureDP(1, relation="replace_one")):
            with pytest.raises(AccountingError):
                ledger.reserve(Order("patients", charge))
        with pytest.raises(InputError):
            ledger.reserve(Order("patients", "half an epsilon"))  # type: ignore[arg-type]
        assert spent(ledger) == 0


def test_an_unknown_account_is_no_account(place: Place) -> None:
    with clinic(place) as ledger:
        for call in (
            lambda: ledger.reserve(Order("staff", PureDP(1))),
            lambda: ledger.budget("staff"),
            lambda: ledger.filter("staff"),
            lambda: ledger.bind_source("staff", ["f"]),
            lambda: ledger.set_quota("staff", {"epsilon": 1}, analyst="a"),
        ):
            with pytest.raises(AccessError, match="no account for 'staff'"):
                call()
        assert isinstance(ledger.reserve(asking()), Reservation)


def test_a_reservation_of_another_ledger_cannot_be_committed(place: Place) -> None:
    with clinic(place) as ledger, Ledger.open(":memory:") as other:
        other.ensure_account("patients", ledger.filter("patients"))
        foreign = reserved(other, asking())
        reserved(ledger, asking("0.2"))
        for _ in range(2):
            with pytest.raises(InputError, match="is not one of this ledger"):
                ledger.commit(foreign, b"answer")
            own = next(iter(ledger.history()))
            assert own.seq == foreign.seq
            ledger.commit(Reservation(own.seq, own.hash, "", "patients", ()), b"own")


def test_quotes_hold_no_floats(place: Place) -> None:
    with clinic(place) as ledger:
        with pytest.raises(InputError, match="not float"):
            ledger.reserve(asking(quote={"sigma": [1.5]}))
        odd = {"text": "naïve\u2028\0\ud800", "number": 10**40, "nothing": None}
        reserved(ledger, asking(quote=odd, sql="SELECT '\ud800\0'", analyst="Zoë"))
        assert ledger.verify().ok
        (record,) = ledger.history(analyst="ZOË")
        assert record.sql == "SELECT '\ud800\0'"


def test_a_closed_ledger_says_so(place: Place) -> None:
    ledger = clinic(place)
    ledger.close()
    with pytest.raises(LedgerError, match="it was closed"):
        ledger.reserve(asking())


def test_a_failure_is_an_outcome_and_runs_are_counted(place: Place) -> None:
    with clinic(place) as ledger:
        held = reserved(ledger, asking(analyst="alice", repeat_key="same"))
        (record,) = ledger.history()
        assert (record.answered, record.failed) == (False, False)
        again = ledger.reserve(asking(analyst="bob", repeat_key="same"))
        assert isinstance(again, Reservation)
        assert again.resumed
        assert [ledger.run_again(again) for _ in range(MOST_RUNS + 1)] == [*range(2, MOST_RUNS + 1), 0, 0]
        assert ledger.commit(held, FAILED).failed
        found = ledger.reserve(asking(analyst="carol", repeat_key="same"))
        assert isinstance(found, Outcome)
        assert found.failed
        (record,) = ledger.history()
        assert (record.answered, record.failed) == (False, True)
        other = reserved(ledger, asking("0.25"))
        ledger.commit(other, b"a result")
        assert [record.answered for record in ledger.history()] == [False, True]
        report = ledger.verify()
        assert (report.ok, report.outcomes, report.failures) == (True, 2, 1)


def test_a_run_of_what_charges_nothing_is_found(place: Place) -> None:
    with clinic(place) as ledger:
        ledger.journal.write({"kind": "run", "of": 1, "number": 2})
        assert "runs entry 1 again" in ledger.verify().problems[0]
