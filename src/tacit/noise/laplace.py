"""Discrete Laplace noise: P(x) = tanh(1/(2t))·exp(-|x|/t) on the integers, for any rational scale t > 0."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.inversion import LARGEST_FAST_SCALE, LogInversion, accept_exp_many

__all__ = ["LARGEST_SCALE", "DiscreteLaplace"]

#: Largest scale for arrays: beyond it a draw might not fit an int64 beside the value it is added to.
LARGEST_SCALE: Final = 1 << 50

#: Words handled at a time, so that every intermediate array stays in the processor's cache.
_CHUNK: Final = 1 << 13


class DiscreteLaplace:
    """Two-sided geometric noise of ``scale``.

    One word makes one draw: 63 digits of a uniform give |X| by inversion of its exact tail, the last bit gives the
    sign. Zero has no sign, and the inverted tail already counts it once, so nothing is thrown away.
    """

    __slots__ = ("_blocks", "_inversion", "scale")

    def __init__(self, scale: Fraction) -> None:
        self.scale = scale
        self._inversion = LogInversion(scale, folded=True)
        self._blocks = _Blocks(scale) if scale > LARGEST_FAST_SCALE else None

    def sample(self, source: BitSource | None = None) -> int:
        """One draw, of any size."""
        source = source or entropy.current()
        word = source.word()
        size = self._inversion.one(word, source)
        return -size if word & 1 else size

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """``count`` independent draws, for a scale up to 2⁵⁰."""
        if self.scale > LARGEST_SCALE:
            raise InputError("scale", f"must be at most 2**50 for arrays of noise, got {float_nearest(self.scale):g}")
        source = source or entropy.current()
        result = np.empty(count, dtype=np.int64)
        for start in range(0, count, _CHUNK):
            part = result[start : start + _CHUNK]
            part[:] = self._chunk(len(part), source)
        return result

    def _chunk(self, count: int, source: BitSource) -> NDArray[np.int64]:
        if self._blocks is not None:
            return self._blocks.chunk(count, source)
        words = source.words(count)
        sizes = self._inversion.many(words, source).astype(np.int64)
        words &= np.uint64(1)
        negative = np.negative(words.view(np.int64))
        # Two's complement: x ^ -1 + 1 is -x, x ^ 0 + 0 is x.
        sizes ^= negative
        sizes -= negative
        return sizes


class _Blocks:
    """Noise of a scale too large for one float inversion, as whole blocks of 2^j and a remainder.

    If G is geometric with scale t, then ⌊G/m⌋ is geometric with scale t/m, G mod m has weights exp(-r/t), and the
    two are independent. With m a power of two and t/m about 2²⁰, blocks are cheap to invert, and a remainder drawn
    uniformly is kept with probability exp(-r/t), above 1 - 2⁻²⁰. A sign is then added and -0 drawn again.
    """

    __slots__ = ("_blocks", "_digits", "_scale")

    def __init__(self, scale: Fraction) -> None:
        self._scale = scale
        self._digits = int(scale).bit_length() - 21
        self._blocks = LogInversion(scale / 2**self._digits, folded=False)

    def chunk(self, count: int, source: BitSource) -> NDArray[np.int64]:
        kept = np.empty(0, dtype=np.int64)
        while len(kept) < count:
            kept = np.concatenate((kept, self._candidates(count - len(kept) + 1, source)))
        return kept[:count]

    def _candidates(self, count: int, source: BitSource) -> NDArray[np.int64]:
        words = source.words(count)
        signs = 1 - 2 * (words & np.uint64(1)).view(np.int64)
        sizes = self._blocks.many(words, source).astype(np.int64) << self._digits
        rests = (source.words(count) >> np.uint64(64 - self._digits)).view(np.int64)
        rates = rests.astype(np.float64)
        rates /= float_nearest(self._scale)
        keep = accept_exp_many(lambda i: int(rests[i]) / self._scale, rates, source)
        sizes += rests
        keep &= (sizes != 0) | (signs > 0)
        return (sizes * signs)[keep]
