"""Division of a query's price among its releases.

Every release i has a *coefficient* c_i: its error, in units of what one person can contribute, at a budget of one.
With pure epsilons the error is c_i/ε_i, so equal relative errors mean ε_i ∝ c_i. In zCDP and GDP the error is
c_i/√ρ_i (or c_i/√μ_i²), so the share of ρ goes with the square. A weight multiplies the epsilon (its square in those
currencies): an aggregate of weight 2 has half the relative error of one of weight 1.

Shares are rationals and add up to exactly 1. A release that no data can change gets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

__all__ = ["split"]


def split(coefficients: Sequence[Fraction], weights: Sequence[Fraction], *, squared: bool) -> tuple[Fraction, ...]:
    """The share of each release.

    Args:
        coefficients: of each; 0 for what costs nothing.
        weights: of each.
        squared: whether the currency adds up squares of epsilons.

    >>> split([Fraction(1), Fraction(1), Fraction(0)], [Fraction(2), Fraction(1), Fraction(1)], squared=False)
    (Fraction(2, 3), Fraction(1, 3), Fraction(0, 1))
    """
    claims = [c * w for c, w in zip(coefficients, weights, strict=True)]
    if squared:
        claims = [claim * claim for claim in claims]
    total = sum(claims, Fraction(0))
    return tuple(claim / total if total else Fraction(0) for claim in claims)
