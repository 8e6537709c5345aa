"""Discrete Gaussian noise: P(x) ∝ exp(-x²/(2σ²)) on the integers, for any rational σ² > 0."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.gaussian_blocks import SMALLEST_SIGMA, blocks_for
from tacit.noise.inversion import accept_exp, accept_exp_many
from tacit.noise.laplace import DiscreteLaplace, with_signs

#: Largest sigma for arrays: a draw must be exact as a float.
LARGEST_SIGMA: Final = 1 << 40

#: Proposals handled at a time, so that every intermediate array stays in the processor's cache.
_CHUNK: Final = 1 << 14
#: Up to this many draws one at a time are faster than arrays.
_FEW: Final = 24
#: From this many draws on a table of blocks is worth its making.
_MANY: Final = 2048


class DiscreteGaussian:
    """Noise with parameter ``sigma2`` = σ².

    A discrete Laplace proposal Y of scale t near σ is kept with probability exp(-(|Y| - σ²/t)² / (2σ²)); what is
    kept is discrete Gaussian (Canonne, Kamath and Steinke 2020, algorithm 3). About three in four are kept.
    """

    __slots__ = ("_center", "_half_width", "_proposals", "_scale", "sigma2")

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2
        # Any t gives the same law; this one keeps the most proposals, from tiny σ to large.
        self._scale = Fraction(math.isqrt(math.ceil((sigma2 + Fraction(1, 10)) * 2**20)), 2**10)
        self._proposals = DiscreteLaplace(self._scale)
        self._center = float_nearest(sigma2 / self._scale)
        self._half_width = float_nearest(1 / (2 * sigma2))

    def sample(self, source: BitSource | None = None) -> int:
        """One draw, of any size."""
        source = source or entropy.current()
        while True:
            proposal = self._proposals.sample(source)
            distance = abs(proposal) - self._center
            if accept_exp(partial(self._rate, proposal), distance * distance * self._half_width, source):
                return proposal

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """``count`` independent draws, for a sigma up to 2⁴⁰."""
        if self._scale > LARGEST_SIGMA:
            raise InputError(
                "sigma", f"must be at most 2**40 for arrays of noise, got about {float_nearest(self._scale):g}"
            )
        source = source or entropy.current()
        if count <= _FEW:
            return np.array([self.sample(source) for _ in range(count)], dtype=np.int64)
        if count >= _MANY and self.sigma2 >= SMALLEST_SIGMA**2:
            return blocks_for(self.sigma2).draws(count, source)
        result = np.empty(count, dtype=np.int64)
        filled = 0
        while filled < count:
            # The number still missing fixes how many proposals are drawn; an excess of kept ones is dropped.
            proposals = min(_CHUNK, (count - filled) * 3 // 2 + 16)
            kept = self._candidates(proposals, source)[: count - filled]
            result[filled : filled + len(kept)] = kept
            filled += len(kept)
        return result

    def _candidates(self, count: int, source: BitSource) -> NDArray[np.int64]:
        sizes, words = self._proposals.sizes_and_signs(count, source)
        rates = sizes - self._center
        np.square(rates, out=rates)
        rates *= self._half_width
        kept = accept_exp_many(lambda i: self._rate(int(sizes[i])), rates, source)
        return with_signs(sizes[kept], words[kept])

    def _rate(self, proposal: int) -> Fraction:
        return (abs(proposal) - self.sigma2 / self._scale) ** 2 / (2 * self.sigma2)
