"""Number of queries of ε₀ that fit a budget (ε, δ): by filters, and by composition with parameters fixed beforehand.

The counts are from the closed forms at 40 digits: Σε; Σε²/2 + √(2 ln(1/δ) Σε²); √(2k ln(1/δ))·ε + kε(e^ε-1); and the
optimum of Kairouz, Oh and Viswanath.
"""

from __future__ import annotations

import pytest

from tacit.accounting.compose import compose
from tacit.accounting.filters import PureFilter, ZCDPFilter
from tacit.core.guarantees import PureDP
from tacit.core.numbers import exact

ROWS = [("1", "0.01", 100, 349, 337, 562), ("1", "0.1", 10, 3, 3, 10), ("5", "0.1", 50, 77, 66, 108)]
DELTA = "1e-6"


@pytest.mark.parametrize(("epsilon", "each", "pure", "zcdp", "advanced", "optimal"), ROWS)
def test_the_table(epsilon: str, each: str, pure: int, zcdp: int, advanced: int, optimal: int) -> None:
    assert PureFilter(epsilon=epsilon).how_many(PureDP(each)) == pure
    assert ZCDPFilter.for_target(epsilon=epsilon, delta=DELTA, conversion="basic").how_many(PureDP(each)) == zcdp
    assert most(each, epsilon, "optimal", optimal)
    # Where plain addition is better, the advanced method returns that.
    assert most(each, epsilon, "advanced", max(advanced, pure))


def most(each: str, epsilon: str, method: str, count: int) -> bool:
    """Whether ``count`` queries fit by a composition theorem and one more does not."""
    fits = [
        compose([(PureDP(each), k)], delta=DELTA, method=method).epsilon <= exact(epsilon, "epsilon")
        for k in (count, count + 1)
    ]
    return fits == [True, False]
