"""Odometers: consumption, what is left, and no claim beyond what is proven."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting.filters import GDPFilter, PureFilter, PureOrZCDPFilter, ZCDPFilter
from tacit.accounting.odometers import Odometer
from tacit.core.errors import BudgetError
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP


def test_readings_follow_the_filter() -> None:
    budget = ZCDPFilter(rho="0.02", delta="1e-6")
    meter = Odometer(budget)
    budget.charge(ApproxDP("0.1", "1e-7"), 2)
    rho, delta = meter.readings
    assert (rho.spent, rho.left, rho.share) == (Fraction(1, 100), Fraction(1, 100), Fraction(1, 2))
    assert (delta.spent, delta.left, delta.share) == (Fraction(2, 10**7), Fraction(8, 10**7), Fraction(1, 5))
    assert meter.how_many_more(ApproxDP("0.1", "1e-7")) == 2
    assert meter.how_many_more(ApproxDP("0.01", "1e-7")) == 8
    assert meter.how_many_more(PureDP(0)) is None


def test_only_a_pure_sum_is_a_guarantee_so_far() -> None:
    pure, gaussian = PureFilter(epsilon=4), GDPFilter(mu=2)
    pure.charge(PureDP("0.3"))
    gaussian.charge(GDP("0.1"))
    assert Odometer(pure).proven_so_far == PureDP("0.3")
    assert Odometer(pure).promised == PureDP(4)
    assert Odometer(gaussian).proven_so_far == GDP(2)


def test_reading_a_refused_charge_shows_nothing_of_it() -> None:
    budget = PureFilter(epsilon=1)
    meter = Odometer(budget)
    before = str(meter)
    with pytest.raises(BudgetError):
        budget.charge(PureDP(2))
    assert str(meter) == before


def test_text_rounds_spending_up_and_the_rest_down() -> None:
    budget = PureFilter(epsilon=1)
    budget.charge(PureDP(Fraction(1, 3)))
    assert str(Odometer(budget)).splitlines() == [
        "epsilon                  0.333334 of 1 (33.4 %), 0.666666 left",
        "proven for everything together: PureDP(1)",
    ]


def test_a_closed_currency_says_so() -> None:
    budget = PureOrZCDPFilter(epsilon=1, delta="1e-6")
    budget.charge(ZCDP("0.001"))
    assert "epsilon                  closed" in str(Odometer(budget))


def test_a_currency_without_budget_has_no_share() -> None:
    assert Odometer(ZCDPFilter(rho=1)).readings[1].share == 0
