"""Staircase law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import SupportsIndex

from tacit.core.divergences import Enclosure
from tacit.core.errors import InputError
from tacit.core.numbers import Number, check_count, exact, exact_nonnegative, exact_positive, exp_bounds, format_up
from tacit.laws.law import DiscreteLaw, enclose, whole
from tacit.mechanisms.staircase import first_moment, second_moment

__all__ = ["StaircaseLaw"]


class StaircaseLaw(DiscreteLaw):
    """Mass ∝ b^k for |x| in [kΔ, kΔ + r) and b^(k+1) for |x| in [kΔ + r, (k+1)Δ), with b = e^-ε.

    Args:
        epsilon: ε, by which the mass falls from one step of the stairs to the next.
        width: Δ, how long a step is.
        tread: r, how many integers of each step lie on its higher part.

    >>> law = StaircaseLaw(epsilon=1, width=2, tread=1)
    >>> print(law.mass(0), law.mass(1), law.mass(2))
    0.3004891819 0.1105437923 0.1105437923
    """

    def __init__(self, *, epsilon: Number, width: SupportsIndex, tread: SupportsIndex) -> None:
        self.epsilon = exact_positive(epsilon, "epsilon")
        self.width = check_count(width, "width")
        self.tread = check_count(tread, "tread")
        if self.tread > self.width:
            raise InputError("tread", f"must be at most the width, {self.width}")
        self._b = exp_bounds(-self.epsilon, 60)
        self.name = f"Staircase({format_up(self.epsilon)}, {self.width}, {self.tread})"

    def weight(self, x: Number) -> Enclosure:
        """The mass."""
        low, high = exp_bounds(-self.steps_down(whole(x, "x")) * self.epsilon, 60)
        return enclose(low / self._total(1), high / self._total(0))

    def steps_down(self, x: int) -> int:
        """Number of times the mass has fallen by e^-ε between 0 and ``x``."""
        layer, inside = divmod(abs(x), self.width)
        return layer + (inside >= self.tread)

    def cdf(self, x: Number) -> Enclosure:
        """One side of the tail below zero, the rest of it above."""
        at = math.floor(exact(x, "x"))
        low, high = self._side(abs(at) if at < 0 else at + 1)
        return enclose(low, high) if at < 0 else enclose(1 - high, 1 - low)

    def tail(self, w: Number) -> Enclosure:
        """Mass left of one step and of all later steps, on both sides; w is rounded up to a whole number."""
        at = math.ceil(exact_nonnegative(w, "w"))
        if at == 0:
            return Enclosure(Fraction(1), Fraction(1))
        low, high = self._side(at)
        return enclose(2 * low, 2 * high)

    @property
    def mean(self) -> Enclosure:
        """Zero."""
        return Enclosure(Fraction(0), Fraction(0))

    @property
    def mean_size(self) -> Enclosure:
        """The sum of |x| times its mass, in closed form."""
        low, high = (first_moment(b, self.width, self.tread) for b in self._b)
        return Enclosure(low / self._total(1), high / self._total(0))

    @property
    def variance(self) -> Enclosure:
        """The sum of x² times its mass, in closed form."""
        low, high = (second_moment(b, self.width, self.tread) for b in self._b)
        return Enclosure(low / self._total(1), high / self._total(0))

    def _total(self, end: int) -> Fraction:
        """The sum of all weights at one end of the enclosure of b."""
        b = self._b[end]
        return 2 * self._layer(b) / (1 - b) - 1

    def _layer(self, b: Fraction) -> Fraction:
        return self.tread + (self.width - self.tread) * b

    def _side(self, start: int) -> tuple[Fraction, Fraction]:
        """Pr[X >= start], for start >= 1."""
        layer, inside = divmod(start, self.width)
        powers = exp_bounds(-layer * self.epsilon, 60)
        ends = []
        for end, b in enumerate(self._b):
            left = max(self.tread - inside, 0) + b * (self.width - max(inside, self.tread))
            ends.append(powers[end] * (left + b * self._layer(b) / (1 - b)) / self._total(1 - end))
        return ends[0], ends[1]
