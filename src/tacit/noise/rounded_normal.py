"""Rounded normal noise: normal noise of variance σ² rounded to whole numbers, for any rational σ² > 0.

The size of a normal number is k + u, with k whole and u in [0, 1). A proposal k of weight exp(-k²/(2σ²)), half of the
discrete Gaussian, and a uniform u are accepted with probability exp(-(2ku + u²)/(2σ²)); accepted ones have the density
of the size. Digits of u are revealed only as far as the decision needs them; rounding needs only the first. Proof:
``rounded_normal.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import exp_bounds, float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.gaussian import LARGEST_SIGMA, DiscreteGaussian
from tacit.noise.uniform import LazyUniform

#: Binary digits of a uniform that a float holds.
_DIGITS: Final = 53
_UNIT: Final = 2.0**-_DIGITS
#: Distance between a coin and its chance from which floats decide; the proof file derives less than an eighth of it.
_GUARD: Final = 2.0**-40
#: Proposals handled at a time, as in :mod:`tacit.noise.gaussian`.
_CHUNK: Final = 1 << 14
_FEW: Final = 24
_LOW_BITS: Final = np.uint64(64 - _DIGITS)
#: Sizes from this on, in units of σ², and sizes that floats do not hold are settled: the proof bounds no float there.
_STEEP: Final = 256
_LARGEST: Final = 1 << 900


class RoundedNormal:
    """Sampler of P(x) = Φ((x + 1/2)/σ) - Φ((x - 1/2)/σ) on the integers, σ² = ``sigma2``."""

    __slots__ = ("_half_width", "_most", "_proposals", "sigma2")

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2
        self._proposals = DiscreteGaussian(sigma2)
        self._half_width = float_nearest(1 / (2 * sigma2))
        self._most = min(max(math.ceil(_STEEP * sigma2) - 1, 0), _LARGEST)

    def sample(self, source: BitSource | None = None) -> int:
        """Draw one integer, of any size."""
        source = source or entropy.current()
        while True:
            proposal = self._proposals.sample(source)
            # Each size has two proposals but 0, which has one.
            if proposal and source.bits(1):
                continue
            size, digits, coin = abs(proposal), source.bits(_DIGITS), source.bits(_DIGITS)
            if self._kept(size, digits, coin, source):
                rounded = size + (digits >> (_DIGITS - 1))
                negative = proposal < 0 if proposal else source.bits(1)
                return -rounded if negative else rounded

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """Draw ``count`` independent integers, for a σ up to 2⁴⁰."""
        source = source or entropy.current()
        if count <= _FEW and self.sigma2 <= LARGEST_SIGMA**2:
            return np.array([self.sample(source) for _ in range(count)], dtype=np.int64)
        result = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            # The number of proposals depends only on the number still missing; an excess of accepted ones is dropped.
            kept = self._candidates(min(_CHUNK, (count - filled) * 5 // 2 + 32), source)[: count - filled]
            result[filled : filled + len(kept)] = kept
            filled += len(kept)
        return result

    def _candidates(self, count: int, source: BitSource) -> NDArray[np.int64]:
        proposals = self._proposals.sample_many(count, source)
        sizes = np.abs(proposals)
        words, coins = source.words(count), source.words(count)
        fractions = (words >> _LOW_BITS).astype(np.float64) * _UNIT
        chances = np.exp(-(2 * fractions * sizes.astype(np.float64) + fractions * fractions) * self._half_width)
        gaps = (coins >> _LOW_BITS).astype(np.float64) * _UNIT - chances
        kept = gaps < 0
        for index in np.flatnonzero((np.abs(gaps) <= _GUARD) | (sizes >= self._most)):
            digits, coin = (int(drawn[index] >> _LOW_BITS) for drawn in (words, coins))
            kept[index] = self._settle(int(sizes[index]), digits, coin, source)
        # The lowest bits of a word are not among its digits: one for the halves, one for the sign of 0.
        halves, signs = (coins & np.uint64(1)) == 0, (coins & np.uint64(2)) == 0
        kept &= halves | (proposals == 0)
        negative = np.where(proposals == 0, signs, proposals < 0)
        rounded = sizes + (words >> np.uint64(63)).astype(np.int64)
        drawn: NDArray[np.int64] = np.where(negative, -rounded, rounded)[kept]
        return drawn

    def _kept(self, size: int, digits: int, coin: int, source: BitSource) -> bool:
        if size < self._most:
            fraction = digits * _UNIT
            gap = coin * _UNIT - math.exp(-(2 * fraction * float(size) + fraction * fraction) * self._half_width)
            if abs(gap) > _GUARD:
                return gap < 0
        return self._settle(size, digits, coin, source)

    def _settle(self, size: int, digits: int, coin: int, source: BitSource) -> bool:
        """Decide whether a uniform coin is below exp(-(2·size·u + u²)/(2σ²)), revealing digits of both as needed."""
        fraction, uniform = LazyUniform(source, digits, _DIGITS), LazyUniform(source, coin, _DIGITS)
        while True:
            precision = 20 + fraction.width * 3 // 10
            # The chance falls as u grows.
            low, high = (
                exp_bounds(-u * (2 * size + u) / (2 * self.sigma2), precision)[end]
                for u, end in ((fraction.high, 0), (fraction.low, 1))
            )
            if uniform.high <= low:
                return True
            if uniform.low >= high:
                return False
            fraction.reveal()
            uniform.reveal()
