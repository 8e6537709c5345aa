"""No adaptive adversary gets past a filter: the worst one is found exactly, for many menus and budgets."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.filters import (
    ApproxFilter,
    Filter,
    GDPFilter,
    PureFilter,
    PureOrZCDPFilter,
    RenyiFilter,
    ZCDPFilter,
)
from tacit.core.errors import BudgetError
from tacit.core.guarantees import ApproxDP, PureDP
from tacit.core.numbers import log_bounds, round_down, round_up
from tacit.lab import (
    CompositionExperiment,
    Move,
    admitted_by,
    curve_fits,
    leak,
    randomized_response,
    worst_adversary,
)

F = Fraction
RATIOS = (F(21, 20), F(6, 5), F(3, 2), F(2))
LEAK = F(1, 200)
MENU = [*(Move(randomized_response(ratio=r), 0, 1) for r in RATIOS), Move(leak(delta=LEAK), 0, 1)]
PRICES: list[PureDP | ApproxDP] = [*(PureDP(round_up(log_bounds(r)[1])) for r in RATIOS), ApproxDP(0, LEAK)]


def of_budget(ratio: Fraction, delta: Fraction) -> dict[str, Callable[[], Filter]]:
    """Filters that all promise (ln ratio, delta); found once, made afresh for every tally."""
    epsilon = round_down(log_bounds(ratio)[0])
    zcdp = ZCDPFilter.for_target(epsilon=epsilon, delta=delta, own_delta=delta / 3)
    gdp = GDPFilter.for_target(epsilon=epsilon, delta=delta)
    renyi = RenyiFilter.for_target(alpha=8, epsilon=epsilon, delta=delta)
    return {
        "approx": lambda: ApproxFilter(epsilon=epsilon, delta=delta),
        "zcdp": lambda: ZCDPFilter(rho=zcdp.rho, delta=zcdp.delta),
        "gdp": lambda: GDPFilter(mu=gdp.mu),
        "renyi": lambda: RenyiFilter(alpha=8, epsilon=renyi.epsilon),
    }


@pytest.mark.parametrize("kind", ["approx", "zcdp", "gdp", "renyi"])
@pytest.mark.parametrize(("ratio", "delta"), [(F(3), F(1, 20)), (F(4), F(1, 30))])
def test_the_worst_adversary_stays_within_the_promise(kind: str, ratio: Fraction, delta: Fraction) -> None:
    make = of_budget(ratio, delta)[kind]
    # Only (ε, δ) and approximate zCDP have a price for the leak.
    size = len(MENU) if kind in ("approx", "zcdp") else len(RATIOS)
    rule = admitted_by(make, PRICES[:size])
    worst = worst_adversary(MENU[:size], rule=rule, rounds=6, ratio=ratio)
    assert 0 < worst.delta <= delta


@pytest.mark.parametrize(
    ("ratio", "delta", "menu_ratios"),
    [
        (F(6, 5), F(1, 1000), (F(101, 100), F(21, 20), F(59, 50))),
        (F(3, 2), F(1, 500), (F(51, 50), F(11, 10), F(7, 5))),
    ],
)
def test_either_of_two_rules_costs_no_more_than_the_dearer(
    ratio: Fraction, delta: Fraction, menu_ratios: tuple[Fraction, ...]
) -> None:
    epsilon = round_down(log_bounds(ratio)[0])
    rho = ZCDPFilter.for_target(epsilon=epsilon, delta=delta).rho

    class Fresh(PureOrZCDPFilter):
        """The filter with its cap found once."""

        def __init__(self) -> None:
            Filter.__init__(self, [("epsilon", epsilon), ("rho", rho), ("delta", F(0))], "add_remove")

    menu = [Move(randomized_response(ratio=r), 0, 1) for r in menu_ratios]
    prices = [PureDP(round_up(log_bounds(r)[1])) for r in menu_ratios]
    either = admitted_by(Fresh, prices)
    pure = admitted_by(lambda: PureFilter(epsilon=epsilon), prices)
    zcdp = admitted_by(lambda: ZCDPFilter(rho=rho), prices)
    tallies = [(a, b, c) for a in range(30) for b in range(5) for c in range(3)]
    assert all(either(t) == (pure(t) or zcdp(t)) for t in tallies)
    assert any(pure(t) and not zcdp(t) for t in tallies)
    assert 0 < worst_adversary(menu, rule=either, rounds=24, ratio=ratio).delta <= delta


@given(st.sampled_from([F(2), F(3), F(5)]), st.lists(st.sampled_from(RATIOS), min_size=2, max_size=3))
@settings(max_examples=15, deadline=None)
def test_pure_filters_leave_nothing_at_their_epsilon(ratio: Fraction, ratios: list[Fraction]) -> None:
    epsilon = round_down(log_bounds(ratio)[0])
    menu = [Move(randomized_response(ratio=r), 0, 1) for r in ratios]
    prices = [PureDP(round_up(log_bounds(r)[1])) for r in ratios]
    rule = admitted_by(lambda: PureFilter(epsilon=epsilon), prices)
    assert worst_adversary(menu, rule=rule, rounds=5, ratio=ratio).delta == 0


def test_a_composed_curve_is_not_a_filter() -> None:
    # Two queries, every number exact: see docs/composition.md.
    promised, ratio = F(1, 10**6), F(4)
    second = (4 + 3 * promised) / (2 - 3 * promised)
    menu = [
        Move(randomized_response(ratio=2), 0, 1),
        Move(randomized_response(ratio=second), 0, 1),
        Move(leak(delta=promised), 0, 1),
    ]
    fits = curve_fits(menu, ratio=ratio, delta=promised)
    assert fits((1, 1, 0))
    assert fits((1, 0, 1))
    assert not fits((1, 1, 1))
    worst = worst_adversary(menu, rule=fits, rounds=2, ratio=ratio)
    assert worst.delta == F(4, 3) * promised
    views = CompositionExperiment(worst, rounds=2).exact(step_delta=promised)
    assert views.delta(ratio=ratio).value == F(4, 3) * promised


def test_nor_is_it_one_when_every_query_is_pure() -> None:
    ratio, promised = F(3), F(1, 20)
    menu = [Move(randomized_response(ratio=r), 0, 1) for r in (F(11, 10), F(5, 4), F(3, 2), F(2))]
    worst = worst_adversary(menu, rule=curve_fits(menu, ratio=ratio, delta=promised), rounds=6, ratio=ratio)
    assert worst.delta > F(6, 5) * promised


amounts = st.fractions(0, 1, max_denominator=30)


@given(st.lists(amounts, max_size=12), amounts)
def test_a_filter_is_its_sum(charges: list[Fraction], cap: Fraction) -> None:
    budget = PureFilter(epsilon=cap)
    total = F(0)
    for epsilon in charges:
        fits = total + epsilon <= cap
        assert budget.allows(PureDP(epsilon)) == fits
        try:
            budget.charge(PureDP(epsilon))
        except BudgetError:
            assert not fits
        else:
            assert fits
            total += epsilon
        assert budget.lines[0].spent == total


@given(amounts, amounts.filter(bool), amounts)
def test_how_many_is_exactly_how_many(cap: Fraction, each: Fraction, before: Fraction) -> None:
    budget = ApproxFilter(epsilon=cap + before, delta="0.9")
    budget.charge(PureDP(before)) if before else None
    fits = budget.how_many(PureDP(each))
    assert fits is not None
    assert fits == 0 or budget.allows(PureDP(each), fits)
    assert not budget.allows(PureDP(each), fits + 1)
