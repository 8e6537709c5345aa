"""Uniform integers, and real uniforms revealed digit by digit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.noise import entropy
from tacit.noise.entropy import BitSource


def sample_below(bound: int, source: BitSource | None = None) -> int:
    """Draw a uniform integer from 0 to ``bound`` - 1: draw bits, and again while they reach ``bound``."""
    source = source or entropy.current()
    width = (bound - 1).bit_length()
    while (value := source.bits(width)) >= bound:
        pass
    return value


def sample_below_many(bound: int, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
    """Draw ``count`` independent :func:`sample_below` for a bound up to 2⁶²."""
    source = source or entropy.current()
    shift = np.uint64(64 - max((bound - 1).bit_length(), 1))
    kept: list[NDArray[np.int64]] = []
    missing = count
    while missing:
        # Each word is accepted with probability above one half; ask for what is likely to be enough.
        drawn = (source.words(missing + missing // 8 + 8) >> shift).view(np.int64)
        good = drawn[drawn < bound][:missing]
        kept.append(good)
        missing -= len(good)
    return np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)


class LazyUniform:
    """A uniform real U in [0, 1) of which only the leading ``width`` binary digits have been drawn.

    All that is known is ``low <= U < high``. A caller that cannot decide from that reveals more digits; since the
    digits are independent fair bits, revealing them later changes no probability.
    """

    __slots__ = ("_digits", "_source", "_step", "_width")

    def __init__(self, source: BitSource, digits: int = 0, width: int = 0, *, step: int = 64) -> None:
        self._source, self._digits, self._width, self._step = source, digits, width, step

    @property
    def low(self) -> Fraction:
        """Largest number known not to exceed U."""
        return Fraction(self._digits, 1 << self._width)

    @property
    def high(self) -> Fraction:
        """Smallest number known to exceed U."""
        return Fraction(self._digits + 1, 1 << self._width)

    @property
    def digits(self) -> int:
        """The binary digits known so far, as an integer of ``width`` bits."""
        return self._digits

    @property
    def width(self) -> int:
        """Number of binary digits that are known."""
        return self._width

    def reveal(self) -> None:
        """Draw some more digits."""
        self._digits = self._digits << self._step | self._source.bits(self._step)
        self._width += self._step
