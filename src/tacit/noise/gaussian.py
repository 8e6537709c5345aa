"""Discrete Gaussian noise: P(x) ∝ exp(-x²/(2σ²)) on the integers, for any rational σ² > 0.

*Many draws of a large σ at once* use a table of blocks: half a word and little arithmetic per draw. Numbers fall into
blocks of 2^e, on both sides of zero, e such that σ is 32 to 64 blocks wide. A word of 32 bits, of 64 for a σ from 2²²
on, proposes: its first 16 digits an entry of a table, which names a block, and its last e digits a place in the block.
The k-th block of a side has R_k entries that always accept, as many as the least likely number of the
block allows, and E_k entries that accept by a coin, so that all numbers are accepted in proportion to exp(-x²/(2σ²)).
One more entry stands for all numbers beyond the blocks. About 96 in 100 proposals need no coin. Proof:
``gaussian.proof.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import exp_bounds, float_nearest
from tacit.noise import entropy
from tacit.noise.entropy import BitSource
from tacit.noise.inversion import accept_exp, accept_exp_many
from tacit.noise.laplace import DiscreteLaplace, with_signs
from tacit.noise.uniform import LazyUniform, sample_below

#: Smallest σ for which blocks are used: they then hold at least 32 numbers.
SMALLEST_SIGMA: Final = 1 << 10
_ENTRY_DIGITS: Final = 16
_ENTRIES: Final = 1 << _ENTRY_DIGITS
#: Blocks reach this many σ.
_REACH: Final = 8
#: Proposals handled at a time, so that every intermediate array stays in the processor's cache.
_BLOCK_CHUNK: Final = 1 << 15
#: Binary digits of a coin that are drawn at once.
_COIN_DIGITS: Final = 64
#: More than the relative error of any float here; see the proof.
_GUARD: Final = 1e-9


class GaussianBlocks:
    """Proposal table for noise of ``sigma2`` = σ², with 2¹⁰ <= σ <= 2⁴⁰.

    Attributes:
        digits: e; blocks hold 2^e numbers.
        blocks: number of blocks on each side of zero.
        scale: the whole number A; x is accepted in proportion to A·exp(-x²/(2σ²)).
        sure: R_k, entries of each block without a coin: blocks from zero upwards, then those from -1 downwards.
        tossed: E_k, entries of each block with a coin, in the same order; then one for the tail, and spare ones.
        width: binary digits of a word.
    """

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2
        root = math.isqrt(math.floor(sigma2))
        self.digits = root.bit_length() - 1 - 5
        self.blocks = -(-(_REACH * (root + 1)) >> self.digits)
        self.width = 32 if _ENTRY_DIGITS + self.digits <= 32 else 64
        self._half = float_nearest(1 / (2 * sigma2))
        edges = np.arange(self.blocks + 1, dtype=np.float64) * 2.0**self.digits
        densities = np.exp(-edges * edges * self._half)
        # Rounding up adds at most one entry to each block, and one is for the tail.
        self.scale = math.floor((_ENTRIES - 2 * self.blocks - 1) / (2 * densities[:-1].sum() * (1 + _GUARD)))
        every = np.floor(densities[:-1] * (self.scale * (1 + _GUARD))).astype(np.int64) + 1
        sure = np.floor(densities[1:] * (self.scale * (1 - _GUARD))).astype(np.int64)
        self.sure, tossed = np.tile(sure, 2), np.tile(every - sure, 2)
        # Spare entries propose nothing.
        self.tossed = np.concatenate((tossed, [1, _ENTRIES - 1 - 2 * int(every.sum())]))
        #: Entries below this one need no coin.
        self.first_tossed = int(self.sure.sum())
        kinds = np.arange(2 * self.blocks + 2)
        self._tossed_block = np.repeat(kinds, self.tossed)
        #: R_k and E_k as floats; the tail and spare entries keep nothing in floats.
        self._kept = np.concatenate((self.sure, [_ENTRIES, _ENTRIES])).astype(np.float64)
        self._more = self.tossed.astype(np.float64)
        self._word: Any = np.uint32 if self.width == 32 else np.uint64
        number: Any = np.int32 if self.width == 32 else np.int64
        # Downwards from -1, so that zero is in one block alone.
        firsts = np.arange(self.blocks)
        first = np.concatenate((firsts, -firsts - 1, [0, 0])) << self.digits
        #: First number of the block of each entry, to which the place in the block is added.
        self._first = np.concatenate((np.repeat(first[:-2], self.sure), first[self._tossed_block])).astype(number)
        self._place = self._word((1 << self.digits) - 1)
        self._behind_entry = self._word(self.width - _ENTRY_DIGITS)
        self._unsure_from = self._word(self.first_tossed << (self.width - _ENTRY_DIGITS))
        #: Coins from this one on drop every number beyond the blocks; the nearest of them has the largest chance.
        far = self.blocks << self.digits
        chance = self.scale * self.blocks * 4 * exp_bounds(-Fraction(far * far) / (2 * sigma2), 20)[1]
        self.tail_coins = math.ceil(chance * 2**_COIN_DIGITS)

    def draws(self, count: int, source: BitSource) -> NDArray[np.int64]:
        """Draw ``count`` numbers: one proposal for each, then more in place of the rejected ones."""
        drawn, missing = self._proposed(count, source)
        while len(missing):
            again, dropped = self._proposed(len(missing) + len(missing) // 12 + 32, source)
            kept = np.delete(again, dropped)[: len(missing)]
            drawn[missing[: len(kept)]] = kept
            missing = missing[len(kept) :]
        return drawn

    def _proposed(self, count: int, source: BitSource) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Return ``count`` proposals, and the indices of the rejected ones, about 2 in 100."""
        numbers = np.empty(count, dtype=np.int64)
        chunk = min(count, _BLOCK_CHUNK)
        entry_room, first_room = np.empty(chunk, dtype=np.intp), np.empty(chunk, dtype=self._first.dtype)
        places, kinds = [], []
        every = self._words(count, source)
        for start in range(0, count, chunk):
            words = every[start : start + chunk]
            entries, first = entry_room[: len(words)], first_room[: len(words)]
            np.right_shift(words, self._behind_entry, out=entries, casting="unsafe")
            # No index is out of range; by "wrap" NumPy is spared looking.
            self._first.take(entries, out=first, mode="wrap")
            unsure = np.flatnonzero(words >= self._unsure_from)
            places.append(unsure + start)
            kinds.append(self._tossed_block[entries[unsure] - self.first_tossed])
            np.bitwise_and(words, self._place, out=words)
            first += words.view(first.dtype)
            numbers[start : start + len(words)] = first
        unsure = np.concatenate(places)
        kept = self._decided(np.concatenate(kinds), numbers, unsure, source)
        return numbers, unsure[~kept]

    def _words(self, count: int, source: BitSource) -> NDArray[Any]:
        """Draw ``count`` words of ``width`` binary digits."""
        words: NDArray[Any] = source.words(-(-count * self.width // 64)).view(self._word)
        return words[:count]

    def _decided(
        self, blocks: NDArray[np.int64], found: NDArray[np.int64], places: NDArray[np.intp], source: BitSource
    ) -> NDArray[np.bool_]:
        """Toss the coins of the proposals at ``places`` and return which are accepted.

        Numbers beyond the blocks are drawn here and written to ``found``.
        """
        tail = 2 * self.blocks
        coins = source.words(len(places))
        wanted = found[places].astype(np.float64)
        np.square(wanted, out=wanted)
        wanted *= -self._half
        np.exp(wanted, out=wanted)
        wanted *= self.scale
        # Kept if R + E·U < A·exp(-x²/(2σ²)).
        tossed = coins.astype(np.float64)
        tossed *= 2.0**-_COIN_DIGITS
        tossed *= self._more[blocks]
        tossed += self._kept[blocks]
        wanted -= tossed
        guard = _GUARD * (self.scale + 2)
        kept: NDArray[np.bool_] = wanted > guard
        for at in np.flatnonzero((np.abs(wanted) <= guard) & (blocks < tail)):
            block = int(blocks[at])
            uniform = LazyUniform(source, int(coins[at]), _COIN_DIGITS)
            kept[at] = self._settled(
                int(found[places[at]]), Fraction(self.scale), int(self.sure[block]), int(self.tossed[block]), uniform
            )
        if self.tail_coins:
            for at in np.flatnonzero((blocks == tail) & (coins < np.uint64(self.tail_coins))):
                size, factor = self._far(source)
                # The outermost number downwards is the last one of a block already.
                new = size != -(self.blocks << self.digits)
                kept[at] = new and self._settled(size, factor, 0, 1, LazyUniform(source, int(coins[at]), _COIN_DIGITS))
                if kept[at]:
                    found[places[at]] = size
        return kept

    def _far(self, source: BitSource) -> tuple[int, Fraction]:
        """Propose a number beyond the blocks, from ranges that double; return it and A over its probability.

        The probability is in units of 2^-e, the probability of one place in a block.
        """
        doubled = 0
        while source.bits(1):
            doubled += 1
        first = self.blocks << (self.digits + doubled)
        size = first + sample_below(first, source)
        # The range and the sign have probability 2^-(doubled+2), and the range 2^doubled·blocks blocks.
        return -size if source.bits(1) else size, Fraction(self.scale * self.blocks << (2 * doubled + 2))

    def _settled(self, number: int, factor: Fraction, sure: int, tossed: int, uniform: LazyUniform) -> bool:
        """Decide in exact arithmetic whether sure + tossed·U < factor·exp(-x²/(2σ²)), for x = ``number``."""
        rate = Fraction(number * number) / (2 * self.sigma2)
        while True:
            low, high = exp_bounds(-rate, 20 + uniform.width * 3 // 10)
            if sure + tossed * uniform.high <= factor * low:
                return True
            if sure + tossed * uniform.low >= factor * high:
                return False
            uniform.reveal()


@lru_cache(maxsize=8)
def blocks_for(sigma2: Fraction) -> GaussianBlocks:
    """Return the table of a σ²; cached."""
    return GaussianBlocks(sigma2)


#: Largest sigma for arrays: a draw must be exact as a float.
LARGEST_SIGMA: Final = 1 << 40

#: Proposals handled at a time, so that every intermediate array stays in the processor's cache.
_CHUNK: Final = 1 << 14
#: Up to this number of draws, drawing one at a time is faster than arrays.
_FEW: Final = 24
#: From this number of draws on, it is faster to make a table of blocks.
_MANY: Final = 2048


class DiscreteGaussian:
    """Sampler of discrete Gaussian noise of parameter ``sigma2`` = σ².

    A discrete Laplace proposal Y of scale t near σ is accepted with probability exp(-(|Y| - σ²/t)² / (2σ²)); accepted
    proposals are discrete Gaussian (Canonne, Kamath and Steinke 2020, algorithm 3). About three in four are accepted.
    """

    __slots__ = ("_center", "_half_width", "_proposals", "_scale", "sigma2")

    def __init__(self, sigma2: Fraction) -> None:
        self.sigma2 = sigma2
        # Any t gives the same law; this one accepts the most proposals, from tiny σ to large.
        self._scale = Fraction(math.isqrt(math.ceil((sigma2 + Fraction(1, 10)) * 2**20)), 2**10)
        self._proposals = DiscreteLaplace(self._scale)
        self._center = float_nearest(sigma2 / self._scale)
        self._half_width = float_nearest(1 / (2 * sigma2))

    def sample(self, source: BitSource | None = None) -> int:
        """Draw one integer, of any size."""
        source = source or entropy.current()
        while True:
            proposal = self._proposals.sample(source)
            distance = abs(proposal) - self._center
            if accept_exp(partial(self._rate, proposal), distance * distance * self._half_width, source):
                return proposal

    def sample_many(self, count: int, source: BitSource | None = None) -> NDArray[np.int64]:
        """Draw ``count`` independent integers, for a σ up to 2⁴⁰."""
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
            # The number of proposals depends only on the number still missing; an excess of accepted ones is dropped.
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
