"""The running account: readings agree with composing everything, and a refused charge leaves no trace."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.accountant import Accountant
from tacit.accounting.compose import compose
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import ApproxEvent, Event, GaussianEvent, LaplaceEvent, PoissonSampledEvent, PureEvent
from tacit.core.guarantees import RDP
from tacit.core.relations import REPLACE_ONE


def test_readings_follow_the_charges() -> None:
    account = Accountant(delta="1e-6")
    assert account.epsilon() == 0
    charges: list[Event] = [
        PureEvent(Fraction(1, 20)),
        LaplaceEvent(Fraction(30), Fraction(1)),
        GaussianEvent(Fraction(25), Fraction(1)),
        ApproxEvent(Fraction(1, 10), Fraction("1e-8")),
        PoissonSampledEvent(Fraction(1, 100), GaussianEvent(Fraction(1), Fraction(1))),
    ]
    last = Fraction(0)
    for charge in charges:
        account.charge(charge, count=30)
        assert account.epsilon() >= last
        last = account.epsilon()
    whole = compose([(charge, 30) for charge in charges], delta="1e-6", method="rdp")
    assert whole.epsilon <= last <= whole.epsilon * Fraction(1005, 1000)
    assert account.guarantee().method == "rdp"
    assert account.compose(method="pld").epsilon < last


def test_few_pure_charges_are_just_added() -> None:
    account = Accountant(delta="1e-300")
    for n in range(1, 6):
        account.charge(PureEvent(Fraction(1, 10)))
        assert account.epsilon() == Fraction(n, 10)
        assert account.guarantee().method == "basic"


def test_long_sums_stay_short_and_safe() -> None:
    account = Accountant(delta="1e-300")
    exact = Fraction(0)
    for n in range(300):
        account.charge(PureEvent(Fraction(1, 10007 + 2 * n)))
        exact += Fraction(1, 10007 + 2 * n)
    assert account.guarantee().method == "basic"
    assert exact <= account.epsilon() <= exact * (1 + Fraction(1, 10**25))


def test_a_refused_charge_changes_nothing() -> None:
    account = Accountant(delta="1e-6")
    account.charge(GaussianEvent(Fraction(10), Fraction(1)), count=3)
    before = account.guarantee()
    with pytest.raises(AccountingError, match="delta"):
        account.charge(ApproxEvent(Fraction(1), Fraction("1e-5")))
    with pytest.raises(InputError, match="neighbours"):
        account.charge(PureEvent(Fraction(1), relation=REPLACE_ONE))
    assert account.guarantee() == before


def test_curves_that_do_not_meet() -> None:
    account = Accountant(delta="1e-6")
    account.charge(RDP({2: "0.1", 32: "0.2"}))
    assert account.epsilon() > 0
    assert account.epsilon() >= compose([RDP({2: "0.1", 32: "0.2"})], delta="1e-6", method="rdp").epsilon
