"""Geometric draws with an exponential rate: P(X >= k) = exp(-rate·k)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.inversion import LogInversion

__all__ = ["Geometric"]


class Geometric:
    """P(X = k) = (1 - e^-rate)·e^(-rate·k) for k = 0, 1, 2, …, exactly, for any rational rate > 0."""

    __slots__ = ("_inversion", "rate")

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self._inversion = LogInversion(1 / rate, folded=False)

    def sample(self, source: BitSource | None = None) -> int:
        """One draw."""
        source = source or entropy.current()
        return self._inversion.one(source.word(), source)

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """``count`` independent draws, for a rate of at least 2⁻³⁴."""
        source = source or entropy.current()
        return self._inversion.many(source.words(count), source).astype(np.int64)
