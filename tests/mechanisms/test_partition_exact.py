"""The exact law of partition selection on neighbouring inputs.

One group: the four inequalities of (ε, δ)-DP for every number of units. Several groups: the hockey-stick divergence of
the product of all bits that one unit can change.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from tacit.core.numbers import exp_bounds
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.mechanisms.partition_selection import PartitionSelection, TruncatedGeometric, laplace_threshold

GRID = [("1", "1e-5"), ("0.1", "1e-3"), ("3", "1e-10"), ("0.01", "0.2"), ("5", "0.01")]


def breaks(chances: list[tuple[Fraction, Fraction]], epsilon: Fraction, delta: Fraction) -> list[int]:
    """The numbers n at which the bits of n - 1 and n units are further apart than (ε, δ) allows."""
    growth = exp_bounds(epsilon)[0]
    found = []
    for n in range(1, len(chances)):
        (low0, high0), (low1, high1) = chances[n - 1], chances[n]
        pairs = [(high1, low0), (high0, low1), (1 - low0, 1 - high1), (1 - low1, 1 - high0)]
        if any(left > growth * right + delta for left, right in pairs):
            found.append(n)
    return found


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_table_keeps_every_inequality_with_the_probabilities_really_used(epsilon: str, delta: str) -> None:
    e, d = Fraction(epsilon), Fraction(delta)
    rule = TruncatedGeometric(e, d)
    chances = [rule.probability_bounds(n) for n in range(len(rule.table) + 2)]
    assert breaks(chances, e, d) == []
    # Optimal: a little less of either parameter would not do.
    assert breaks(chances, e * Fraction(99, 100), d)
    assert breaks(chances, e, d * Fraction(99, 100))


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_thresholds_keep_every_inequality(epsilon: str, delta: str) -> None:
    e, d = Fraction(epsilon), Fraction(delta)
    rule = laplace_threshold(e, d)
    chances = [rule.probability_bounds(n) for n in range(min(rule.threshold + 40, 400))]
    # The enclosures have 40 digits; the bound is met with equality deep in the tail.
    assert breaks(chances, e * (1 + Fraction(1, 10**15)), d) == []
    assert breaks(chances, e * Fraction(9, 10), d * Fraction(9, 10))


def test_a_broken_rule_is_caught() -> None:
    """A threshold one lower, and a table that keeps single units a little too often."""
    e, d = Fraction(1), Fraction(1, 10**5)
    rule = laplace_threshold(e, d)
    low = type(rule)(rule.noise, rule.threshold - 1)
    assert 1 in breaks([low.probability_bounds(n) for n in range(40)], e * (1 + Fraction(1, 10**15)), d)
    table = [TruncatedGeometric(e, d).probability_bounds(n) for n in range(30)]
    table[1] = (table[1][0] * 2, table[1][1] * 2)
    assert breaks(table, e, d) == [1]


def divergence(left: list[Fraction], right: list[Fraction], epsilon: Fraction) -> Fraction:
    """The smallest δ, from above, with P(S) <= e^ε Q(S) + δ for bits that are kept with these probabilities."""
    growth = exp_bounds(epsilon)[0]
    total = Fraction(0)
    for outcome in product((False, True), repeat=len(left)):
        p = q = Fraction(1)
        for bit, a, b in zip(outcome, left, right, strict=True):
            p, q = p * (a if bit else 1 - a), q * (b if bit else 1 - b)
        total += max(p - growth * q, Fraction(0))
    return total


@pytest.mark.parametrize("rule", ["truncated_geometric", "laplace", "gaussian"])
def test_one_unit_in_several_groups_is_within_the_guarantee(rule: str) -> None:
    """Add/remove, κ = 2: every pair of group sizes from 0 to far beyond the threshold, in both directions."""
    e, d = Fraction(1), Fraction(1, 100)
    keys = PartitionSelection(epsilon=e, delta=d, max_groups=2, rule=rule)
    chances = [keys.probability_bounds(n)[0] for n in range(keys.error("0.001") + 2)]
    worst = Fraction(0)
    for a, b in product(range(len(chances) - 1), repeat=2):
        without, with_unit = [chances[a], chances[b]], [chances[a + 1], chances[b + 1]]
        worst = max(worst, divergence(without, with_unit, e), divergence(with_unit, without, e))
    assert worst <= d * (1 + Fraction(1, 10**9))
    assert worst > d / 8


@pytest.mark.parametrize("rule", ["truncated_geometric", "laplace", "gaussian"])
def test_replacing_a_unit_is_within_the_guarantee(rule: str) -> None:
    """Replace-one, κ = 1: one group loses a unit and another gains one."""
    e, d = Fraction(1), Fraction(1, 100)
    keys = PartitionSelection(epsilon=e, delta=d, rule=rule, relation=REPLACE_ONE)
    chances = [keys.probability_bounds(n)[0] for n in range(keys.error("0.001") + 2)]
    worst = max(
        divergence([chances[a], chances[b + 1]], [chances[a + 1], chances[b]], e)
        for a, b in product(range(len(chances) - 1), repeat=2)
    )
    assert worst <= d * (1 + Fraction(1, 10**9))
    cheap = PartitionSelection(epsilon=e, delta=d, rule=rule, relation=ADD_REMOVE)
    loose = [cheap.probability_bounds(n)[0] for n in range(len(chances))]
    assert (
        max(
            divergence([loose[a], loose[b + 1]], [loose[a + 1], loose[b]], e)
            for a, b in product(range(len(loose) - 1), repeat=2)
        )
        > d
    )


@pytest.mark.parametrize("rule", ["truncated_geometric", "laplace"])
def test_concentrated_selection_judges_groups_at_the_root(rule: str) -> None:
    """K groups at ε₁ with K·ε₁²/2 <= ρ, each within (ε₁, δ′) and (1-δ′)^K >= 1-δ."""
    keys = PartitionSelection.from_rho(rho="0.32", delta="1e-3", max_groups=4, rule=rule)
    each, chance = Fraction(4, 10), Fraction(1, 1000)
    chances = [keys.probability_bounds(n) for n in range(60)]
    assert breaks(chances, each * (1 + Fraction(1, 10**15)), chance / 4 * (1 + Fraction(1, 1000))) == []
    assert chances[1][1] <= chance / 4 * (1 + Fraction(1, 1000))
    assert (1 - chances[1][1]) ** 4 >= 1 - chance
