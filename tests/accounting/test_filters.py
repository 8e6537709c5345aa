"""Filters: what they admit, what they charge, what they refuse, and that a refusal changes nothing."""

from __future__ import annotations

import threading
from fractions import Fraction

import pytest

from tacit.accounting.filters import (
    ApproxFilter,
    Filter,
    GDPFilter,
    PureFilter,
    PureOrZCDPFilter,
    RenyiFilter,
    ZCDPFilter,
)
from tacit.accounting.prices import Charge
from tacit.core.errors import AccountingError, BudgetError, InputError
from tacit.core.events import (
    ApproxEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    NoEvent,
    ParallelEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    ZCDPEvent,
)
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.permute_and_flip import PermuteAndFlip

F = Fraction
HALF = F(1, 2)


# How many charges of ε₀ fit at (ε, δ): Σε <= ε | Σε²/2 + √(2 ln(1/δ) Σε²) <= ε | ρ by the best Renyi order | either.
@pytest.mark.parametrize(
    ("epsilon", "each", "pure", "basic", "tight", "either"),
    [("1", "0.01", 100, 349, 487, 487), ("1", "0.1", 10, 3, 4, 10), ("5", "0.1", 50, 77, 92, 92)],
)
def test_how_many_charges_fit(epsilon: str, each: str, pure: int, basic: int, tight: int, either: int) -> None:
    target = {"epsilon": epsilon, "delta": "1e-6"}
    for budget, fits in (
        (PureFilter(epsilon=epsilon), pure),
        (ZCDPFilter.for_target(**target, conversion="basic"), basic),
        (ZCDPFilter.for_target(**target), tight),
        (PureOrZCDPFilter(**target), either),
    ):
        charge = PureDP(each)
        assert budget.how_many(charge) == fits
        budget.charge(charge, fits)
        assert budget.how_many(charge) == 0
        assert not budget.allows(charge)
        with pytest.raises(BudgetError, match="does not fit"):
            budget.charge(charge)


def test_a_million_smallest_charges_reach_the_cap_exactly() -> None:
    budget = PureFilter(epsilon="1e-12")
    unit = PureDP("1e-18")
    for _ in range(10_000):
        budget.charge(unit, 100)
    assert budget.lines[0].spent == budget.lines[0].cap
    assert not budget.allows(unit)


def test_thirds_add_up_to_one() -> None:
    budget = ApproxFilter(epsilon=1, delta="1e-6")
    for _ in range(3):
        budget.charge(ApproxDP(F(1, 3), F(1, 3 * 10**6)))
    assert [line.left for line in budget.lines] == [0, 0]


def test_totals_stay_short_and_round_up() -> None:
    budget = PureFilter(epsilon=10)
    exact = F(0)
    for n in range(2, 400):
        budget.charge(PureDP(F(1, n * n)))
        exact += F(1, n * n)
    spent = budget.lines[0].spent
    assert isinstance(spent, Fraction)
    assert exact < spent < exact + F(1, 10**55)
    assert spent.denominator.bit_length() <= 512


def test_a_refusal_changes_nothing() -> None:
    budget = ApproxFilter(epsilon=1, delta="1e-6")
    budget.charge(ApproxDP("0.4", "1e-7"))
    before = budget.lines
    for too_much in (ApproxDP("0.7", 0), ApproxDP(0, "1e-6"), ComposedEvent((PureEvent(F(1, 5)), PureEvent(F(1))))):
        with pytest.raises(BudgetError):
            budget.charge(too_much)
        assert budget.lines == before
    with pytest.raises(AccountingError):
        budget.charge(ZCDP("0.001"))
    assert budget.lines == before
    budget.charge(ApproxDP("0.6", "9e-7"))
    assert [line.share for line in budget.lines] == [1, 1]


def test_threads_cannot_overspend() -> None:
    budget = PureFilter(epsilon=1)
    admitted: list[int] = []

    def ask() -> None:
        for _ in range(50):
            try:
                budget.charge(PureDP("0.01"))
            except BudgetError:
                continue
            admitted.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == 100
    assert budget.lines[0].left == 0


def test_totals_are_compared_and_stored_under_one_lock() -> None:
    class Watched(PureFilter):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "_spent" and hasattr(self, "_lock"):
                assert self._lock.locked()
            super().__setattr__(name, value)

        def _fits(self, spent: tuple[Fraction | float, ...]) -> bool:
            assert self._lock.locked()
            return super()._fits(spent)

    budget = Watched(epsilon=1)
    budget.charge(PureDP("0.5"))
    with pytest.raises(BudgetError):
        budget.charge(PureDP("0.6"))
    assert not budget._lock.locked()


PRICES: list[tuple[Filter, Charge, tuple[Fraction, ...]]] = [
    (PureFilter(epsilon=1), DiscreteLaplaceEvent(F(10), F(2)), (F(1, 5),)),
    (PureFilter(epsilon=1), LaplaceEvent(F(4), F(1)), (F(1, 4),)),
    (PureFilter(epsilon=1), NoEvent(), (F(0),)),
    (PureFilter(epsilon=1), ApproxDP(HALF, 0), (HALF,)),
    (PureFilter(epsilon=1), RepeatedEvent(PureEvent(F(1, 8)), 3), (F(3, 8),)),
    (ApproxFilter(epsilon=1, delta=0), ExponentialEvent(HALF), (HALF, F(0))),
    (ApproxFilter(epsilon=1, delta="0.1"), ApproxEvent(HALF, F(1, 100)), (HALF, F(1, 100))),
    (ZCDPFilter(rho=1), PureEvent(HALF), (F(1, 8), F(0))),
    (ZCDPFilter(rho=1), ExponentialEvent(HALF), (F(1, 32), F(0))),
    (ZCDPFilter(rho=1), GaussianEvent(F(2), F(1)), (F(1, 8), F(0))),
    (ZCDPFilter(rho=1), DiscreteGaussianEvent(F(4), F(3)), (F(3, 8), F(0))),
    (ZCDPFilter(rho=1), ApproxDP(HALF, "0.01"), (F(1, 8), F(1, 100))),
    (ZCDPFilter(rho=1), ZCDPEvent(HALF, F(1, 9)), (HALF, F(1, 9))),
    (ZCDPFilter(rho=1), GDP(1), (HALF, F(0))),
    (ZCDPFilter(rho=1), ComposedEvent((PureEvent(F(1)), GaussianEvent(F(1), F(1)))), (F(1), F(0))),
    (GDPFilter(mu=1), GaussianEvent(F(2), F(1)), (F(1, 4),)),
    (RenyiFilter(alpha=3, epsilon=9), GaussianEvent(F(1), F(1)), (F(3, 2),)),
    (RenyiFilter(alpha=3, epsilon=9), PureDP(1), (F(1),)),
    (RenyiFilter(alpha=3, epsilon=9), PureDP("0.1"), (F(3, 200),)),
    (RenyiFilter(alpha=3, epsilon=9), ZCDP("0.1"), (F(3, 10),)),
    (RenyiFilter(alpha=3, epsilon=9), RDP({2: 1, 4: 2, 8: 3}), (F(2),)),
]


@pytest.mark.parametrize(("budget", "charge", "price"), PRICES)
def test_prices(budget: Filter, charge: Charge, price: tuple[Fraction, ...]) -> None:
    assert budget.price(charge) == price


@pytest.mark.parametrize(
    ("budget", "charge"),
    [
        (PureFilter(epsilon=1), GaussianEvent(F(1), F(1))),
        (PureFilter(epsilon=1), ApproxDP(1, "1e-9")),
        (ApproxFilter(epsilon=1, delta="0.1"), ZCDP("0.001")),
        (ApproxFilter(epsilon=1, delta="0.1"), ComposedEvent((PureEvent(F(0)), GaussianEvent(F(99), F(1))))),
        (ZCDPFilter(rho=1), RDP({2: "0.001"})),
        (ZCDPFilter(rho=1), PoissonSampledEvent(F(1, 2), GaussianEvent(F(1), F(1)))),
        (GDPFilter(mu=1), DiscreteGaussianEvent(F(100), F(1))),
        (GDPFilter(mu=1), ZCDP("0.001")),
        (RenyiFilter(alpha=9, epsilon=9), RDP({8: "0.001"})),
        (RenyiFilter(alpha=2, epsilon=9), ZCDP("0.001", delta="1e-9")),
    ],
)
def test_what_no_theorem_prices_is_refused(budget: Filter, charge: Charge) -> None:
    with pytest.raises(AccountingError, match="no proven cost"):
        budget.allows(charge)


def test_only_the_exponential_mechanism_has_bounded_range() -> None:
    budget = ZCDPFilter(rho=1)
    assert budget.price(Exponential(epsilon=1, sensitivity=1)) == (F(1, 8), 0)
    assert budget.price(PermuteAndFlip(epsilon=1, sensitivity=1)) == (HALF, 0)
    assert budget.price(NoisyMax(epsilon=1, sensitivity=1)) == (HALF, 0)


def test_a_mechanism_is_charged_by_its_event() -> None:
    budget = PureFilter(epsilon=1)
    budget.charge(Laplace(epsilon="0.1", l1_sensitivity=1), 10)
    assert budget.lines[0].left == 0


def test_irrational_prices_are_rounded_up() -> None:
    (epsilon,) = PureFilter(epsilon=9).price(RandomizedResponseEvent(F(3, 4)))
    assert F("1.0986122886681096913") < epsilon <= F("1.0986122886681097")  # ln 3
    (inverse,) = PureFilter(epsilon=9).price(RandomizedResponseEvent(F(1, 4)))
    assert inverse == epsilon
    (three,) = PureFilter(epsilon=9).price(RandomizedResponseEvent(F(1, 3), 3))
    assert three == 0
    (sampled,) = PureFilter(epsilon=9).price(PoissonSampledEvent(F(1, 100), PureEvent(F(1))))
    assert F("0.0170368632361765498") <= sampled < F("0.01703686323617656")  # ln(1 + (e-1)/100)
    (squared,) = GDPFilter(mu=9).price(PureDP(1))
    assert F("1.51791119") < squared < F("1.51791120")  # (2Φ⁻¹(e/(1+e)))²


# Poisson-sampled Gaussian, whole order, add/remove: ln(Σ_k C(α,k)(1-q)^{α-k}q^k e^{(k²-k)/(2σ²)})/(α-1), at 40 digits.
@pytest.mark.parametrize(
    ("alpha", "rate", "sigma", "value"),
    [
        ("2", "0.01", "1", "0.000171813422074547931"),
        ("8", "0.01", "1", "0.000893643907606031847"),
        ("32", "0.01", "1", "11.2462759370480688"),
        ("64", "0.001", "2", "0.982744635963038618"),
        ("4", "1", "1.5", "0.888888888888888889"),
    ],
)
def test_renyi_price_of_a_sampled_gaussian(alpha: str, rate: str, sigma: str, value: str) -> None:
    event = PoissonSampledEvent(F(rate), GaussianEvent(F(sigma), F(1)))
    (price,) = RenyiFilter(alpha=alpha, epsilon=99).price(RepeatedEvent(event, 3))
    assert isinstance(price, Fraction)
    assert abs(price / 3 - F(value)) < F(value) / 10**16
    (between,) = RenyiFilter(alpha=F(alpha) - F(1, 3), epsilon=99).price(event)
    assert between <= price / 3


def test_parts_of_a_partition_cost_the_worst_part_or_two_when_units_are_replaced() -> None:
    parts = (F(1, 10), F(3, 10), F(2, 10))
    added = ParallelEvent(tuple(PureEvent(e) for e in parts))
    assert PureFilter(epsilon=1).price(added) == (F(3, 10),)
    events = tuple(PureEvent(e, relation=REPLACE_ONE) for e in parts)
    replaced = ParallelEvent(events, relation=REPLACE_ONE)
    assert PureFilter(epsilon=1, relation=REPLACE_ONE).price(replaced) == (HALF,)
    assert PureFilter(epsilon=1).price(ParallelEvent(())) == (F(0),)


def test_relations_are_never_mixed() -> None:
    with pytest.raises(AccountingError, match="replace_one neighbours and the filter about add_remove"):
        PureFilter(epsilon=1).charge(PureDP("0.1", relation=REPLACE_ONE))
    with pytest.raises(AccountingError, match="state both about the same relation"):
        PureOrZCDPFilter(epsilon=1, delta="1e-6").charge(PureDP("0.1", relation=REPLACE_ONE))


# Largest ρ whose best conversion gives (ε, δ), and ρ = (√(ln(1/δ)+ε) - √ln(1/δ))².
@pytest.mark.parametrize(
    ("epsilon", "delta", "tight", "basic"),
    [
        ("1", "1e-6", "0.0243559703595", "0.01746890476912338"),
        ("0.1", "1e-6", "0.000321047690346", "0.0001803040801807577"),
        ("5", "1e-5", "0.550973474939", "0.4496234804279987"),
    ],
)
def test_zcdp_caps_for_a_target(epsilon: str, delta: str, tight: str, basic: str) -> None:
    best = ZCDPFilter.for_target(epsilon=epsilon, delta=delta)
    assert abs(best.rho - F(tight)) <= F(tight) / 10**11
    assert best.guarantee.to_approx(delta).epsilon <= F(epsilon)
    plain = ZCDPFilter.for_target(epsilon=epsilon, delta=delta, conversion="basic")
    assert F(basic) * (1 - F(1, 10**14)) < plain.rho <= F(basic) * (1 + F(1, 10**14))


def test_every_target_is_met_and_hardly_undershot() -> None:
    target = ApproxDP(2, "1e-5")
    for budget in (
        ZCDPFilter.for_target(epsilon=2, delta="1e-5"),
        ZCDPFilter.for_target(epsilon=2, delta="1e-5", own_delta="4e-6"),
        GDPFilter.for_target(epsilon=2, delta="1e-5"),
        RenyiFilter.for_target(alpha=12, epsilon=2, delta="1e-5"),
    ):
        got = budget.guarantee.to_approx(target.delta)
        assert F("1.9999999") < got.epsilon <= target.epsilon
    with pytest.raises(AccountingError, match="use a larger order"):
        RenyiFilter.for_target(alpha=3, epsilon=1, delta="1e-6")
    with pytest.raises(InputError, match="own_delta: must be smaller"):
        ZCDPFilter.for_target(epsilon=1, delta="1e-6", own_delta="1e-6")
    with pytest.raises(InputError, match="conversion: must be 'tight' or 'basic'"):
        ZCDPFilter.for_target(epsilon=1, delta="1e-6", conversion="best")


def test_either_rule_admits_what_one_of_them_does() -> None:
    budget = PureOrZCDPFilter(epsilon=1, delta="1e-6", own_delta="1e-7")
    budget.charge(PureDP("0.1"), 10)
    assert budget.lines[1].spent > budget.lines[1].cap
    assert not budget.allows(GDP("0.0001"))  # not pure, and the zCDP sum is used up
    assert budget.how_many(GDP("0.0001")) == 0
    assert budget.allows(NoEvent())
    assert budget.how_many(NoEvent()) is None

    budget = PureOrZCDPFilter(epsilon=1, delta="1e-6", own_delta="1e-7")
    budget.charge(ApproxDP("0.01", "1e-7"))
    assert budget.lines[0].spent == float("inf")
    assert budget.lines[0].left == 0
    assert not budget.allows(PureDP("0.5"))  # the pure rule is closed by a charge that was not pure
    assert budget.allows(PureDP("0.01"), 400)
    assert not budget.allows(ApproxDP(0, "1e-8"))


def test_the_words_for_people() -> None:
    budget = ZCDPFilter(rho="0.02", delta="1e-7")
    budget.charge(PureDP("0.1"))
    assert repr(budget) == "<ZCDPFilter rho: 0.005 of 0.02, delta: 0 of 1e-07>"
    with pytest.raises(BudgetError, match=r"rho needs 0\.5 and has 0\.015 of 0\.02 left"):
        budget.charge(PureDP(1))
    with pytest.raises(InputError, match="charge: must be an event, a guarantee or a mechanism, not int"):
        budget.charge(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="count: must be a whole number from 1"):
        budget.charge(PureDP("0.1"), -1)
    with pytest.raises(InputError, match="alpha: a Renyi order must be greater than 1"):
        RenyiFilter(alpha=1, epsilon=1)
