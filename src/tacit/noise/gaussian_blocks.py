"""Many discrete Gaussian draws of a large σ at once: blocks from a table, one word and hardly any arithmetic for each.

Numbers fall into blocks of 2^e, on both sides of zero, e such that σ is 16 to 32 blocks wide. A word proposes: its
first 14 digits an entry of a table, which names a block; its last e digits a place in the block; those between them are
a coin's. The k-th block of a side has W_k entries, at least A·exp(-(k·2^e)²/(2σ²)) for a whole number A, and the
coin keeps x with probability A·exp(-x²/(2σ²))/W_k, so that what is kept has the right law. One more entry stands for
all numbers beyond the blocks. About 95 in 100 coins are decided by one comparison with a bound of the whole block.
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

#: Smallest σ for which blocks are worth it: they hold 32 numbers at least.
SMALLEST_SIGMA: Final = 1 << 10
_ENTRY_DIGITS: Final = 14
_ENTRIES: Final = 1 << _ENTRY_DIGITS
_BEHIND_ENTRY: Final = np.uint64(64 - _ENTRY_DIGITS)
#: Blocks reach this many σ.
_REACH: Final = 12
#: Proposals handled at a time, so that every intermediate array stays in the processor's cache.
_CHUNK: Final = 1 << 15
#: More than the relative error of any float here; see the proof.
_GUARD: Final = 1e-9


class GaussianBlocks:
    """The table for noise of ``sigma2`` = σ², with 2¹⁰ <= σ <= 2⁴⁰.

    Attributes:
        digits: e; blocks hold 2^e numbers.
        blocks: how many there are on each side of zero.
        counts: entries of each block: those from zero upwards, those from -1 downwards, the tail, and spare ones.
        coin: how many digits of a word are a coin's.
        scale: the whole number A.
    """

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2
        root = math.isqrt(math.floor(sigma2))
        self.digits = root.bit_length() - 1 - 4
        self.blocks = -(-(_REACH * (root + 1)) >> self.digits)
        #: Digits of the coin in a word: what entry and place leave.
        self.coin = 64 - _ENTRY_DIGITS - self.digits
        self._half = float_nearest(1 / (2 * sigma2))
        edges = np.arange(self.blocks + 1, dtype=np.float64) * 2.0**self.digits
        densities = np.exp(-edges * edges * self._half)
        # Rounding up adds at most one entry to each block, and one is for the tail.
        self.scale = math.floor((_ENTRIES - 2 * self.blocks - 1) / (2 * densities[:-1].sum() * (1 + _GUARD)))
        side = np.floor(densities[:-1] * (self.scale * (1 + _GUARD))).astype(np.int64) + 1
        # Entries that are left over propose nothing.
        self.counts = np.concatenate((side, side, [1, _ENTRIES - 1 - 2 * int(side.sum())]))
        self._block = np.repeat(np.arange(2 * self.blocks + 2), self.counts)
        chance = self.scale / side
        #: A over the entries of each block; nothing for the tail and spare entries.
        self._chance = np.concatenate((chance, chance, [0.0, 0.0]))
        lowest = np.floor(densities[1:] * chance * ((1 - _GUARD) * 2.0**self.coin)).astype(np.int64)
        # The digits of a coin that are not seen yet may add nearly one more step.
        certain = np.maximum(lowest - 1, 0).astype(np.uint64) << np.uint64(self.digits)
        entries = np.arange(_ENTRIES, dtype=np.uint64) << _BEHIND_ENTRY
        #: A word below that of its entry is kept, whatever its place.
        self._certain = np.concatenate((certain, certain, np.zeros(2, dtype=np.uint64)))[self._block] + entries
        # Downwards from -1, so that zero is in one block alone.
        firsts = np.arange(self.blocks)
        first = (np.concatenate((firsts, -firsts - 1, [0, 0])) << self.digits)[self._block]
        #: First number of the block of each entry, as digits that a place is added to.
        self._first = first.view(np.uint64)
        self._place = np.uint64((1 << self.digits) - 1)

    def draws(self, count: int, source: BitSource) -> NDArray[np.int64]:
        """That many draws: first one proposal for each, then more for those whose coin dropped it."""
        drawn, missing = self._proposed(count, source)
        while len(missing):
            again, dropped = self._proposed(len(missing) + len(missing) // 12 + 32, source)
            kept = np.delete(again, dropped)[: len(missing)]
            drawn[missing[: len(kept)]] = kept
            missing = missing[len(kept) :]
        return drawn

    def _proposed(self, count: int, source: BitSource) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """That many proposals, and the places of those that are not kept, about 5 in 100."""
        # Numbers are written over the words they are made of: fresh memory takes longer than all arithmetic on it.
        every = source.words(count)
        chunk = min(count, _CHUNK)
        entry_room, looked_up = np.empty(chunk, dtype=np.uint64), np.empty(chunk, dtype=np.uint64)
        places, kinds, coins = [], [], []
        for start in range(0, count, chunk):
            words = every[start : start + chunk]
            found = looked_up[: len(words)]
            entries = np.right_shift(words, _BEHIND_ENTRY, out=entry_room[: len(words)]).view(np.intp)
            # No index is out of range; by "wrap" NumPy is spared looking.
            unsure = np.flatnonzero(words >= self._certain.take(entries, out=found, mode="wrap"))
            places.append(unsure + start)
            kinds.append(self._block[entries[unsure]])
            coins.append((words[unsure] << np.uint64(_ENTRY_DIGITS)) >> np.uint64(64 - self.coin))
            np.bitwise_and(words, self._place, out=words)
            np.add(words, self._first.take(entries, out=found, mode="wrap"), out=words)
        numbers, unsure = every.view(np.int64), np.concatenate(places)
        kept = self._decided(np.concatenate(kinds), numbers, np.concatenate(coins), unsure, source)
        return numbers, unsure[~kept]

    def _decided(
        self,
        blocks: NDArray[np.int64],
        found: NDArray[np.int64],
        coins: NDArray[np.uint64],
        places: NDArray[np.intp],
        source: BitSource,
    ) -> NDArray[np.bool_]:
        """Coins at some places, by the chance of each number; ``found`` of the tail are drawn into place."""
        tail = 2 * self.blocks
        inside = blocks < tail
        here = found[places].astype(np.float64)
        np.square(here, out=here)
        here *= -self._half
        chances = np.exp(here, out=here)
        chances *= self._chance[blocks]
        coin = coins.astype(np.float64)
        step = 2.0**-self.coin
        kept: NDArray[np.bool_] = (coin + 1) * step < chances * (1 - _GUARD)
        unclear = inside & ~kept & (coin * step <= chances * (1 + _GUARD))
        for at in np.flatnonzero(unclear):
            uniform = LazyUniform(source, int(coins[at]), self.coin)
            kept[at] = self._settled(
                int(found[places[at]]), Fraction(self.scale, int(self.counts[blocks[at]])), uniform
            )
        # A number beyond the blocks has a chance far below one step of the coin: only a coin of zeros may keep it.
        for at in np.flatnonzero((blocks == tail) & (coin == 0)):
            size, factor = self._far(source)
            # The outermost number downwards is the last one of a block already.
            new = size != -(self.blocks << self.digits)
            kept[at] = new and self._settled(size, factor, LazyUniform(source, int(coins[at]), self.coin))
            if kept[at]:
                found[places[at]] = size
        return kept

    def _far(self, source: BitSource) -> tuple[int, Fraction]:
        """A number beyond the blocks, in ranges that double, and A over its chance in steps of a block's place."""
        doubled = 0
        while source.bits(1):
            doubled += 1
        first = self.blocks << (self.digits + doubled)
        size = first + sample_below(first, source)
        # The range and the sign have probability 2^-(doubled+2), and the range 2^doubled·blocks blocks.
        return -size if source.bits(1) else size, Fraction(self.scale * self.blocks << (2 * doubled + 2))

    def _settled(self, number: int, factor: Fraction, uniform: LazyUniform) -> bool:
        """Whether U < factor·exp(-x²/(2σ²)), in exact arithmetic."""
        rate = Fraction(number * number) / (2 * self.sigma2)
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
