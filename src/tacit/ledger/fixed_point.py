"""Fixed-point unit for privacy amounts.

A grain is 1/:data:`GRAINS` of a unit of any currency. 10²⁴ makes decimal prices exact to 24 places, and the square of
the least common multiple of 1 … 32 makes simple fractions and their squares exact too: three charges of ε = 1/3 fill
a cap of 1. What is not a whole number of grains is rounded up where it is spent and down where it is a cap.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from tacit.core.divergences import Extended
from tacit.core.errors import AccountingError

__all__ = ["GRAINS", "from_grains", "grains_down", "grains_up", "to_grain"]

GRAINS: Final = 10**24 * math.lcm(*range(1, 33)) ** 2


def grains_up(price: Extended) -> int:
    """What a price costs; never less than the price, and never nothing for something."""
    if not isinstance(price, Fraction):
        raise AccountingError("an infinite price cannot be charged")
    return -(-price.numerator * GRAINS // price.denominator)


def to_grain(price: Fraction) -> Fraction:
    """A price as it is charged: the smallest whole number of grains that is not below it."""
    return from_grains(grains_up(price))


def grains_down(cap: Fraction) -> int:
    """What a cap admits; never more than the cap."""
    return cap.numerator * GRAINS // cap.denominator


def from_grains(grains: int) -> Fraction:
    """The exact amount."""
    return Fraction(grains, GRAINS)
