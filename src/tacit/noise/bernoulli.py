"""Exact Bernoulli draws."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.uniform import LazyUniform

#: Binary digits of a uniform that are drawn at once: for one coin, and for each of many.
_ONE_DRAW: Final = 64
_MANY_DRAWS: Final = 16


class Coin:
    """Sampler of True with exactly ``probability``; prepared once, for many tosses.

    The leading digits of a lazily revealed uniform are compared with those of the probability; more are drawn only
    if they are equal.
    """

    __slots__ = ("_cut", "_short_cut", "probability")

    def __init__(self, probability: Fraction) -> None:
        self.probability = probability
        self._cut = math.floor(probability * 2**_ONE_DRAW)
        self._short_cut = math.floor(probability * 2**_MANY_DRAWS)

    def toss(self, source: BitSource | None = None) -> bool:
        """Draw True with exactly ``probability``."""
        source = source or entropy.current()
        word = source.word()
        return word < self._cut if word != self._cut else self._settle(word, _ONE_DRAW, source)

    def toss_many(self, count: int, source: BitSource | None = None) -> NDArray[np.bool_]:
        """Draw ``count`` independent tosses."""
        source = source or entropy.current()
        digits = source.words(-(-count // 4)).view(np.uint16)[:count]
        if self._short_cut >> _MANY_DRAWS:
            return np.ones(count, dtype=np.bool_)
        cut = np.uint16(self._short_cut)
        shown: NDArray[np.bool_] = digits < cut
        for index in np.flatnonzero(digits == cut):
            shown[index] = self._settle(self._short_cut, _MANY_DRAWS, source)
        return shown

    def _settle(self, digits: int, width: int, source: BitSource) -> bool:
        uniform = LazyUniform(source, digits, width)
        while uniform.low < self.probability < uniform.high:
            uniform.reveal()
        return uniform.high <= self.probability


def sample_bernoulli(probability: Fraction, source: BitSource | None = None) -> bool:
    """Draw True with exactly ``probability``: whether a lazily revealed uniform is below it.

    Two binary digits are revealed on average, whatever the denominator.
    """
    uniform = LazyUniform(source or entropy.current(), step=1)
    while uniform.low < probability < uniform.high:
        uniform.reveal()
    return uniform.high <= probability
