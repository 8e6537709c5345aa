"""Partition selection against the closed form and the numbers of Desfontaines, Voss, Gipson and Mandayam (2022).

π(0) = 0, π(n) = min{e^ε π(n-1) + δ, 1 - e^(-ε)(1 - π(n-1) - δ), 1}; numbers computed with 40 digits.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from mpmath import mp, mpf

from tacit.mechanisms.base import per_output_beta
from tacit.mechanisms.partition_selection import PartitionSelection, TruncatedGeometric, gaussian_threshold

#: ε, δ, n₁, n₂, first n with π >= 1/2, π(n₁), π(n₁+1), π(3)
TABLE = [
    ("1", "1e-5", 11, 22, 12, "0.3484477384533132", "0.7603109969226271", "0.0001110733792739"),
    ("0.1", "1e-6", 109, 217, 109, "0.5151173422079603", "0.5612609327104551", "3.3265736762358e-6"),
    ("0.5", "1e-8", 35, 69, 35, "0.6138966794567348", "0.7658165043389616", "5.3670030991592e-8"),
    ("2", "1e-10", 12, 24, 13, "0.4146014954114585", "0.9207749275887538", "6.2987206132075e-9"),
]


@pytest.mark.parametrize(("epsilon", "delta", "n1", "n2", "half", "at_n1", "after", "third"), TABLE)
def test_the_table(epsilon: str, delta: str, n1: int, n2: int, half: int, at_n1: str, after: str, third: str) -> None:
    rule = TruncatedGeometric(Fraction(epsilon), Fraction(delta))
    chances = [Fraction(entry, 1 << rule.bits) for entry in rule.table]
    assert len(chances) - 1 == n2 + 1
    assert chances[-1] == 1 > chances[-2]
    assert next(n for n, chance in enumerate(chances) if chance >= Fraction(1, 2)) == half
    assert float(chances[n1]) == pytest.approx(float(at_n1), rel=1e-13)
    assert float(chances[n1 + 1]) == pytest.approx(float(after), rel=1e-13)
    assert float(chances[3]) == pytest.approx(float(third), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta", "n1"), [row[:3] for row in TABLE])
def test_every_entry_is_the_closed_form_rounded_down_by_next_to_nothing(epsilon: str, delta: str, n1: int) -> None:
    """π(n) = δ(e^{nε}-1)/(e^ε-1) up to n₁, then (1-e^{-mε})(1+δ/(e^ε-1)) + e^{-mε}π(n₁) with m = n - n₁."""
    rule = TruncatedGeometric(Fraction(epsilon), Fraction(delta))
    with mp.workdps(60):
        e, d = mpf(epsilon), mpf(delta)

        def closed(n: int) -> mpf:
            if n <= n1:
                return d * mp.expm1(n * e) / mp.expm1(e)
            m = n - n1
            return -mp.expm1(-m * e) * (1 + d / mp.expm1(e)) + mp.exp(-m * e) * closed(n1)

        for n, entry in enumerate(rule.table[:-1]):
            exact = closed(n)
            mine = mpf(entry) / mpf(2) ** rule.bits
            assert exact * (1 - mpf(10) ** -20) <= mine <= exact


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups", "continuous"),
    [("1", "1e-5", 1, 11.81977828441028), ("1", "1e-5", 4, 49.82427558206132), ("0.1", "1e-6", 10, 1543.494802039819)],
)
def test_laplace_thresholds(epsilon: str, delta: str, groups: int, continuous: float) -> None:
    """Continuous: T = 1 - (κ/ε) ln(2 - 2(1-δ)^(1/κ)). Discrete noise is wider by less than half a step on each side."""
    keys = PartitionSelection(epsilon=epsilon, delta=delta, max_groups=groups, rule="laplace")
    assert keys.threshold is not None
    assert continuous - 1 < keys.threshold < continuous + 2
    each = per_output_beta(delta, groups)
    with mp.workdps(40):
        q = mp.exp(-mpf(epsilon) / groups)
        assert q ** (keys.threshold - 1) / (1 + q) <= mpf(each.numerator) / each.denominator
        assert q ** (keys.threshold - 2) / (1 + q) > mpf(each.numerator) / each.denominator


@pytest.mark.parametrize(
    ("sigma", "delta", "groups", "continuous"), [(2, "1e-5", 1, 9.5297815878456), (4, "1e-6", 4, 21.105251056427)]
)
def test_gaussian_thresholds(sigma: int, delta: str, groups: int, continuous: float) -> None:
    """Continuous: T = 1 + σΦ⁻¹((1-δ)^(1/κ))."""
    each = per_output_beta(delta, groups)
    threshold = gaussian_threshold(Fraction(sigma * sigma), each).threshold
    assert continuous - 1 < threshold < continuous + 2
    with mp.workdps(40):
        weights = [mp.exp(-mpf(x * x) / (2 * sigma * sigma)) for x in range(-200, 201)]
        tail = lambda k: mp.fsum(weights[200 + k :]) / mp.fsum(weights)  # noqa: E731
        target = mpf(each.numerator) / each.denominator
        assert tail(threshold - 1) <= target < tail(threshold - 2)
