"""Private selection of groups: what it accepts, returns, promises, and how its coins are tossed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from support.bits import ListedBits, SeededBits
from tacit.core.errors import InputError
from tacit.core.events import ApproxEvent, ZCDPEvent
from tacit.core.guarantees import ZCDP, ApproxDP
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.mechanisms.partition_selection import (
    RULES,
    PartitionSelection,
    Threshold,
    TruncatedGeometric,
    laplace_threshold,
)
from tacit.noise import entropy


def selection(**changes: object) -> PartitionSelection:
    return PartitionSelection(**({"epsilon": 1, "delta": "1e-5"} | changes))  # type: ignore[arg-type]


def test_guarantee_and_event_say_what_was_typed() -> None:
    keys = selection(max_groups=3, relation="replace_one")
    assert keys.guarantee == ApproxDP(1, "1e-5", relation=REPLACE_ONE)
    assert keys.event == ApproxEvent(Fraction(1), Fraction(1, 10**5), "partition_selection", relation=REPLACE_ONE)
    concentrated = PartitionSelection.from_rho(rho="0.5", delta="1e-6", max_groups=3)
    assert concentrated.guarantee == ZCDP("0.5", delta="1e-6")
    assert concentrated.event == ZCDPEvent(Fraction(1, 2), Fraction(1, 10**6), "partition_selection")
    assert "max_groups=3" in repr(concentrated)


@pytest.mark.parametrize("rule", RULES)
def test_large_groups_are_kept_and_empty_ones_never(rule: str, seeded: SeededBits) -> None:
    keys = selection(rule=rule, max_groups=2)
    far = 20 * keys.error("1e-6")
    assert keys.release([far, 0, far]) == [True, False, True]
    assert keys.release(far) is True
    assert keys.release(np.array([0, 0])).tolist() == [False, False]
    assert keys.release({"a": far, "b": 0, "c": far}) == ["a", "c"]
    assert keys.release({}) == []


def test_negative_and_huge_counts_do_not_break_the_table(seeded: SeededBits) -> None:
    assert selection(rule="truncated_geometric").release([-5, 1 << 61]) == [False, True]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beta", ["0.3", "0.05", "0.001"])
def test_error_is_where_groups_are_kept_with_the_probability_asked(rule: str, beta: str) -> None:
    keys = selection(rule=rule, max_groups=2)
    needed = keys.error(beta)
    assert keys.probability_bounds(needed)[0] >= 1 - Fraction(beta)
    assert keys.probability_bounds(needed - 1)[0] < 1 - Fraction(beta)
    assert keys.error(beta, k=10) >= needed


@pytest.mark.parametrize("rule", ["best", "laplace"])
def test_for_error_is_accurate_and_not_wasteful(rule: str) -> None:
    keys = PartitionSelection.for_error(within=30, beta="0.05", delta="1e-6", max_groups=2, rule=rule)
    assert keys.error("0.05") <= 30
    assert isinstance(keys.guarantee, ApproxDP)
    less = PartitionSelection(
        epsilon=keys.guarantee.epsilon * Fraction(999, 1000), delta="1e-6", max_groups=2, rule=rule
    )
    assert less.error("0.05") > 30


def test_best_is_the_rule_that_needs_the_fewest_units() -> None:
    for groups in (1, 4, 32):
        by_rule = {rule: selection(rule=rule, max_groups=groups).error("0.05") for rule in RULES if rule != "best"}
        assert selection(max_groups=groups).error("0.05") == min(by_rule.values())
    assert selection().rule == "truncated_geometric"
    assert selection(max_groups=32).rule == "gaussian"
    assert PartitionSelection.from_rho(rho="0.5", delta="1e-6").rule == "gaussian"


def test_the_optimal_rule_is_never_worse_than_laplace() -> None:
    for epsilon in ("0.2", 1, 3):
        optimal, laplace = (
            selection(epsilon=epsilon, rule="truncated_geometric"),
            selection(epsilon=epsilon, rule="laplace"),
        )
        for units in range(1, optimal.error("1e-9")):
            assert optimal.probability_bounds(units)[0] >= laplace.probability_bounds(units)[0]


def test_a_tiny_epsilon_falls_back_to_a_threshold() -> None:
    keys = selection(epsilon="1e-5")
    assert keys.rule == "laplace"
    assert keys.threshold is not None
    assert selection().threshold is None
    with pytest.raises(InputError, match="rule='laplace'"):
        selection(epsilon="1e-5", rule="truncated_geometric")


def test_replacing_a_unit_costs_as_much_as_twice_the_groups() -> None:
    one = selection(rule="laplace", max_groups=2, relation=ADD_REMOVE)
    two = selection(rule="laplace", max_groups=1, relation=REPLACE_ONE)
    assert one.threshold == two.threshold


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"max_groups": 0}, "max_groups"),
        ({"rule": "magic"}, "rule"),
        ({"relation": "near"}, "relation"),
    ],
)
def test_bad_parameters_are_named(changes: dict[str, object], parameter: str) -> None:
    with pytest.raises(InputError) as caught:
        selection(**changes)
    assert caught.value.parameter == parameter


def test_bad_counts_and_bounds_are_refused() -> None:
    with pytest.raises(InputError, match="integers"):
        selection().release([1.0, 2.0])
    with pytest.raises(InputError, match="at least 2"):
        PartitionSelection.for_error(within=1, beta="0.05", delta="1e-6")


def test_a_word_that_does_not_decide_is_followed_by_an_exact_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """π(3) lies between two multiples of 2^-64; only that very word leaves it open, and then more bits are drawn."""
    rule = TruncatedGeometric(Fraction(1), Fraction(1, 10**5))
    head = (rule.table[3] << 64) >> rule.bits
    outcomes = []
    for word in (head - 1, head, head + 1):
        bits = ListedBits([word], SeededBits(5))
        monkeypatch.setattr(entropy, "current", lambda bits=bits: bits)
        outcomes.append((bool(rule.keep(np.array([3]))[0]), bits.drawn_after > 0))
    assert outcomes[0] == (True, False)
    assert outcomes[1][1]
    assert outcomes[2] == (False, False)


def test_frequencies_follow_the_table(seeded: SeededBits) -> None:
    """20 000 tosses at each n: 5 standard deviations, false alarm below 1e-5 in all; the neighbouring n is rejected."""
    keys = selection()
    for units in (10, 11, 12, 13):
        kept = int(keys.release(np.full(20_000, units)).sum())
        for other in (units - 1, units, units + 1):
            chance = float(keys.probability_bounds(other)[0])
            far = abs(kept - 20_000 * chance) > 5 * (20_000 * chance * (1 - chance)) ** 0.5
            assert far == (other != units)


def test_a_threshold_keeps_what_reaches_it_with_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The running rule, for each of many draws: n + X >= T, and never a group of nobody."""
    rule = laplace_threshold(Fraction(1), Fraction(1, 1000))
    drawn = np.arange(-rule.threshold - 3, rule.threshold + 4)
    monkeypatch.setattr(Threshold, "_draw", lambda _, size: drawn[:size])
    for units in range(rule.threshold + 3):
        kept = rule.keep(np.full(len(drawn), units, dtype=np.int64))
        assert kept.tolist() == [units >= 1 and units + int(noise) >= rule.threshold for noise in drawn]
