"""Many discrete Gaussian draws of a large σ at once: blocks from a table, one word and hardly any arithmetic for each.

Absolute values fall into blocks of 2^e numbers, e such that σ is 32 to 64 blocks wide. A word proposes: its first 14
digits an entry of a table, which names a block; the next e digits a place in the block; then a sign; what is left are
the first digits of a coin. Block k has W_k entries, at least A·exp(-(k·2^e)²/(2σ²)) for a whole number A, and the coin
keeps x with probability A·exp(-x²/(2σ²))/W_k, so that what is kept has the right law. One more entry stands for all
numbers beyond the blocks. About 97 in 100 coins are decided by one comparison with a bound of the whole block.
Proof: ``gaussian.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import exp_bounds, float_nearest
from tacit.noise.entropy import BitSource
from tacit.noise.uniform import LazyUniform, sample_below

__all__ = ["SMALLEST_SIGMA", "GaussianBlocks", "blocks_for"]

#: Smallest σ for which blocks are worth it: they hold 16 numbers at least.
SMALLEST_SIGMA: Final = 1 << 10
_ENTRY_DIGITS: Final = 14
_ENTRIES: Final = 1 << _ENTRY_DIGITS
#: Blocks reach this many σ.
_REACH: Final = 12
#: More than the relative error of any float here; see the proof.
_GUARD: Final = 1e-9


class GaussianBlocks:
    """The table for noise of ``sigma2`` = σ², with 2¹⁰ <= σ <= 2⁴⁰."""

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2
        root = math.isqrt(math.floor(sigma2))
        self.digits = root.bit_length() - 1 - 5
        self.blocks = -(-(_REACH * (root + 1)) >> self.digits)
        #: Digits of the coin in a word: what entry, place and sign leave.
        self.coin = 64 - _ENTRY_DIGITS - self.digits - 1
        self._half = float_nearest(1 / (2 * sigma2))
        edges = np.arange(self.blocks + 1, dtype=np.float64) * 2.0**self.digits
        densities = np.exp(-edges * edges * self._half)
        # Rounding up adds at most one entry to each block, and one is for the tail.
        self.scale = math.floor((_ENTRIES - self.blocks - 1) / (densities[:-1].sum() * (1 + _GUARD)))
        counts = np.floor(densities[:-1] * (self.scale * (1 + _GUARD))).astype(np.int64) + 1
        spare = _ENTRIES - 1 - int(counts.sum())
        # Entries that are left over propose nothing.
        self.counts = np.concatenate((counts, [1, spare]))
        self._block = np.repeat(np.arange(self.blocks + 2), self.counts)
        self._chance = self.scale / self.counts[:-2]
        lowest = np.floor(densities[1:] * self._chance * ((1 - _GUARD) * 2.0**self.coin)).astype(np.int64)
        # The digits of a coin that are not seen yet may add nearly one more step.
        certain = np.concatenate((np.maximum(lowest - 1, 0), [0, 0])).astype(np.uint64)
        self._certain = certain[self._block]
        self._base = (np.concatenate((np.arange(self.blocks), [0, 0])) << self.digits)[self._block]

    def candidates(self, count: int, source: BitSource) -> NDArray[np.int64]:
        """The draws that ``count`` proposals give, about 95 in 100."""
        words = source.words(count)
        entries = (words >> np.uint64(64 - _ENTRY_DIGITS)).view(np.int64)
        coins = words & np.uint64((1 << self.coin) - 1)
        kept = coins < self._certain[entries]
        sizes = (words >> np.uint64(self.coin + 1)).view(np.int64)
        sizes &= (1 << self.digits) - 1
        sizes |= self._base[entries]
        unsure = np.flatnonzero(~kept)
        if len(unsure):
            kept[unsure] = self._decided(self._block[entries[unsure]], sizes, coins, unsure, source)
        negative = np.negative(((words >> np.uint64(self.coin)) & np.uint64(1)).view(np.int64))
        # Zero has no sign: minus zero is proposed again.
        kept &= (sizes != 0) | (negative == 0)
        # Two's complement: (x ^ -1) + 1 is -x, (x ^ 0) + 0 is x.
        sizes ^= negative
        sizes -= negative
        return sizes[kept]

    def _decided(
        self,
        blocks: NDArray[np.int64],
        sizes: NDArray[np.int64],
        coins: NDArray[np.uint64],
        places: NDArray[np.intp],
        source: BitSource,
    ) -> NDArray[np.bool_]:
        """Coins at some places, by the chance of each number; ``sizes`` of the tail are drawn into place."""
        inside = blocks < self.blocks
        here = sizes[places].astype(np.float64)
        chances = np.where(inside, np.exp(-here * here * self._half), 0.0)
        chances *= self._chance[np.minimum(blocks, self.blocks - 1)]
        coin = coins[places].astype(np.float64)
        step = 2.0**-self.coin
        kept: NDArray[np.bool_] = (coin + 1) * step < chances * (1 - _GUARD)
        unclear = inside & ~kept & (coin * step <= chances * (1 + _GUARD))
        for at in np.flatnonzero(unclear):
            uniform = LazyUniform(source, int(coins[places[at]]), self.coin)
            kept[at] = self._settled(
                int(sizes[places[at]]), Fraction(self.scale, int(self.counts[blocks[at]])), uniform
            )
        # A number beyond the blocks has a chance far below one step of the coin: only a coin of zeros may keep it.
        for at in np.flatnonzero((blocks == self.blocks) & (coin == 0)):
            size, factor = self._far(source)
            kept[at] = self._settled(size, factor, LazyUniform(source, int(coins[places[at]]), self.coin))
            if kept[at]:
                sizes[places[at]] = size
        return kept

    def _far(self, source: BitSource) -> tuple[int, Fraction]:
        """A number beyond the blocks, in ranges that double, and A over its chance in steps of a block's place."""
        doubled = 0
        while source.bits(1):
            doubled += 1
        first = self.blocks << (self.digits + doubled)
        size = first + sample_below(first, source)
        # The range has probability 2^-(doubled+1), and 2^doubled·blocks blocks.
        return size, Fraction(self.scale * self.blocks << (2 * doubled + 1))

    def _settled(self, size: int, factor: Fraction, uniform: LazyUniform) -> bool:
        """Whether U < factor·exp(-x²/(2σ²)), in exact arithmetic."""
        rate = Fraction(size * size) / (2 * self.sigma2)
        while True:
            low, high = exp_bounds(-rate, 15 + uniform.width * 3 // 10)
            if uniform.high <= factor * low:
                return True
            if uniform.low >= factor * high:
                return False
            uniform.reveal()


@lru_cache(maxsize=8)
def blocks_for(sigma2: Fraction) -> GaussianBlocks:
    """The table of a σ², made once."""
    return GaussianBlocks(sigma2)
