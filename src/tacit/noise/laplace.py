"""Discrete Laplace noise: P(x) = tanh(1/(2t))·exp(-|x|/t) on the integers, for any rational scale t > 0."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError, InternalError
from tacit.core.numbers import float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.inversion import LARGEST_FAST_SCALE, LogInversion, accept_exp_many

#: Largest scale for arrays. Sizes pass through floats, which are whole up to 2⁵³: 8192 scales away at least.
LARGEST_SCALE: Final = 1 << 40

_ONE: Final = np.uint64(1)
#: Words handled at a time, so that every intermediate array stays in the processor's cache.
_CHUNK: Final = 1 << 14
#: Up to this number of draws, drawing one at a time is faster than arrays.
_FEW: Final = 24


class DiscreteLaplace:
    """Sampler of two-sided geometric noise of ``scale``.

    One word makes one draw: 63 digits of a uniform give |X| by inversion of its exact tail, the last bit gives the
    sign. Zero has no sign, and the inverted tail already counts it once, so nothing is thrown away.
    """

    __slots__ = ("_blocks", "_inversion", "scale")

    def __init__(self, scale: Fraction) -> None:
        self.scale = scale
        self._inversion = LogInversion(scale, folded=True)
        self._blocks = _Blocks(scale) if scale > LARGEST_FAST_SCALE else None

    def sample(self, source: BitSource | None = None) -> int:
        """Draw one integer, of any size."""
        source = source or entropy.current()
        word = source.word()
        size = self._inversion.one(word, source)
        return -size if word & 1 else size

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """Draw ``count`` independent integers, for a scale up to 2⁴⁰."""
        if self.scale > LARGEST_SCALE:
            raise InputError("scale", f"must be at most 2**40 for arrays of noise, got {float_nearest(self.scale):g}")
        source = source or entropy.current()
        if count <= _FEW:
            return np.array([self.sample(source) for _ in range(count)], dtype=np.int64)
        result = np.empty(count, dtype=np.int64)
        for start in range(0, count, _CHUNK):
            part = result[start : start + _CHUNK]
            sizes, words = self.sizes_and_signs(len(part), source)
            part[:] = with_signs(sizes, words)
        return result

    def sizes_and_signs(self, count: int, source: BitSource) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
        """Draw ``count`` absolute values as whole floats, and words whose lowest bit is the sign."""
        if self._blocks is not None:
            sizes, words = self._blocks.sizes_and_signs(count, source)
        else:
            words = source.words(count)
            sizes = self._inversion.many(words, source)
        if count and sizes.max() >= 2.0**53:
            raise InternalError("a draw too large for arrays, which has probability below exp(-8192)")
        return sizes, words


def with_signs(sizes: NDArray[np.float64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the signed integers for the result of :meth:`DiscreteLaplace.sizes_and_signs`."""
    result = sizes.astype(np.int64)
    negative = np.negative((words & _ONE).view(np.int64))
    # Two's complement: (x ^ -1) + 1 is -x, (x ^ 0) + 0 is x.
    result ^= negative
    result -= negative
    return result


class _Blocks:
    """Sampler for a scale too large for one float inversion: a number of blocks of 2^j, and a remainder.

    If G is geometric with scale t, then ⌊G/m⌋ is geometric with scale t/m, G mod m has weights exp(-r/t), and the
    two are independent. With m a power of two and t/m about 2²⁰, the number of blocks is cheap to invert, and a uniform
    remainder is accepted with probability exp(-r/t), above 1 - 2⁻²⁰. A sign is then added, and -0 is rejected.
    """

    __slots__ = ("_blocks", "_digits", "_scale")

    def __init__(self, scale: Fraction) -> None:
        self._scale = scale
        self._digits = int(scale).bit_length() - 21
        self._blocks = LogInversion(scale / 2**self._digits, folded=False)

    def sizes_and_signs(self, count: int, source: BitSource) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
        sizes, words = self._candidates(count + 1, source)
        while len(sizes) < count:
            more = self._candidates(count - len(sizes) + 1, source)
            sizes, words = np.concatenate((sizes, more[0])), np.concatenate((words, more[1]))
        return sizes[:count], words[:count]

    def _candidates(self, count: int, source: BitSource) -> tuple[NDArray[np.float64], NDArray[np.uint64]]:
        words = source.words(count)
        sizes = self._blocks.many(words, source)
        sizes *= 2.0**self._digits
        rests = (source.words(count) >> np.uint64(64 - self._digits)).view(np.int64)
        rates = rests / float_nearest(self._scale)
        keep = accept_exp_many(lambda i: int(rests[i]) / self._scale, rates, source)
        sizes += rests
        keep &= (sizes != 0) | (words & _ONE == 0)
        return sizes[keep], words[keep]
