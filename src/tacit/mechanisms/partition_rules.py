"""Rules that keep or drop a group, with exact probabilities.

A rule sees the number of units of one group and tosses for it; ``partition_selection.proof.md`` proves what that
gives away.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import exp_bounds, log_bounds
from tacit.mechanisms.gaussian import GaussianNoise
from tacit.mechanisms.gaussian_profile import discrete_tail_bound
from tacit.mechanisms.laplace import LaplaceNoise
from tacit.noise import entropy
from tacit.noise.bernoulli import sample_bernoulli
from tacit.noise.laplace import LARGEST_SCALE

__all__ = ["KeepRule", "Threshold", "TruncatedGeometric", "gaussian_threshold", "laplace_threshold"]

#: Probabilities are multiples of 2^-(this many bits and those of 1/δ).
_BITS: Final = 96
#: The longest table of the truncated geometric rule; about 2·ln(1/δ)/ε entries are needed.
_LONGEST: Final = 1 << 17
_WORD: Final = 64


class KeepRule(Protocol):
    """Keeps or drops groups by their number of units."""

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Independent tosses, one for each group."""

    def needed(self, beta: Fraction) -> int:
        """The number of units from which on a group is dropped with probability at most ``beta``."""

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """An enclosure of the chance to be kept."""


class TruncatedGeometric:
    """Keeps a group of n units with probability π(n), the largest that (ε, δ)-DP of one group allows.

    π(n) is a multiple of 2^-bits, rounded down at every step of the recurrence, with a rational below e^ε in the
    place of e^ε: the inequalities of privacy then hold between the probabilities that are really used.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        if not self.is_short(epsilon, delta):
            raise InputError("epsilon", "is too small for the truncated geometric rule; use rule='laplace'")
        self.epsilon, self.delta = epsilon, delta
        self.bits = _BITS + (delta.denominator // delta.numerator).bit_length()

    @staticmethod
    def is_short(epsilon: Fraction, delta: Fraction) -> bool:
        """Whether the table of probabilities is short enough to be made."""
        return 2 * log_bounds(1 / delta)[1] <= epsilon * _LONGEST

    @cached_property
    def table(self) -> list[int]:
        """π(0), π(1), … in units of 2^-bits, up to the first that is 1."""
        whole = 1 << self.bits
        growth = max(exp_bounds(self.epsilon)[0], Fraction(1))
        up, down = growth.numerator, growth.denominator
        delta = math.floor(self.delta * whole)
        table = [0]
        while table[-1] < whole:
            last = table[-1]
            rising = last * up // down + delta
            # 1 - (1 - π - δ)/e^ε, the part taken away rounded up.
            falling = whole + (last + delta - whole) * down // up
            table.append(min(rising, falling, whole))
        return table

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Independent tosses, one word each; where 64 bits do not decide, as many more as it takes."""
        table = self.table
        places = np.clip(units, 0, len(table) - 1)
        words = entropy.current().words(units.size)
        heads = np.array([(entry << _WORD) >> self.bits for entry in table[:-1]] + [0], dtype=np.uint64)[places]
        sure = places == len(table) - 1
        kept: NDArray[np.bool_] = (words < heads) | sure
        for index in np.flatnonzero((words == heads) & ~sure):
            rest = (table[int(places[index])] << _WORD) & ((1 << self.bits) - 1)
            kept[index] = sample_bernoulli(Fraction(rest, 1 << self.bits))
        return kept

    def needed(self, beta: Fraction) -> int:
        """The first n with π(n) >= 1 - ``beta``."""
        return bisect_left(self.table, math.ceil((1 - beta) * (1 << self.bits)))

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """π(n), exactly."""
        value = Fraction(self.table[min(units, len(self.table) - 1)], 1 << self.bits)
        return value, value


@dataclass(frozen=True)
class Threshold:
    """Keeps a group of n >= 1 units when n and integer noise together reach ``threshold``."""

    noise: LaplaceNoise | GaussianNoise
    threshold: int

    def keep(self, units: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Noise for every group, also for empty ones, which are dropped afterwards."""
        kept: NDArray[np.bool_] = (units >= 1) & (units >= self.threshold - self._draw(units.size))
        return kept

    def _draw(self, size: int) -> NDArray[np.int64]:
        scale2 = self.noise.scale**2 if isinstance(self.noise, LaplaceNoise) else self.noise.sigma2
        if scale2 > LARGEST_SCALE**2 // 4:
            raise InputError("epsilon", "is too small to select groups with; the threshold would be above 2**40 units")
        return self.noise.sampler.sample_many(size)

    def needed(self, beta: Fraction) -> int:
        """P(n + X < T) = P(X > n - T), at most ``beta`` once n - T reaches the two-sided quantile at 2·``beta``."""
        return self.threshold + (self.noise.quantile(2 * beta) if 2 * beta < 1 else 0)

    def probability_bounds(self, units: int) -> tuple[Fraction, Fraction]:
        """An enclosure of P(n + X >= T); of Gaussian noise, to ten digits."""
        if units < 1:
            return Fraction(0), Fraction(0)
        start = self.threshold - units
        if start >= 1:
            return self._tail_bounds(start)
        low, high = self._tail_bounds(1 - start)
        return 1 - high, 1 - low

    def _tail_bounds(self, start: int) -> tuple[Fraction, Fraction]:
        """An enclosure of P(X >= ``start``), for ``start`` >= 1."""
        if isinstance(self.noise, LaplaceNoise):
            low_q, high_q = exp_bounds(-1 / self.noise.scale)
            low, high = exp_bounds(-start / self.noise.scale)
            return low / (1 + high_q), high / (1 + low_q)
        high = discrete_tail_bound(self.noise.sigma2, start) / 2
        return high * (1 - Fraction(1, 10**10)), high


def laplace_threshold(epsilon: Fraction, delta: Fraction) -> Threshold:
    """Laplace noise of scale 1/ε, and the smallest T with P(1 + X >= T) <= δ.

    P(X >= k) = q^k/(1+q) for k >= 1 and q = e^-ε, so T = 1 + k with the smallest k >= 1 that makes this at most δ.
    """
    scale = 1 / epsilon
    least = scale * log_bounds(1 / (delta * (1 + exp_bounds(-epsilon)[0])))[1]
    return Threshold(LaplaceNoise(scale), 1 + max(math.ceil(least), 1))


def gaussian_threshold(sigma2: Fraction, delta: Fraction) -> Threshold:
    """Gaussian noise of ``sigma2``, and the smallest T proven to have P(1 + X >= T) <= δ."""
    noise = GaussianNoise(sigma2)
    # P(|X| > w) <= 2δ is P(X >= w + 1) <= δ.
    widest = noise.quantile(min(2 * delta, Fraction(1, 2)))
    return Threshold(noise, 1 + widest + 1)
