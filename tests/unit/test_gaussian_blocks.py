"""Blocks of Gaussian draws: the table against exact exponentials, every coin against the exact inequality, the law."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from support.bits import SeededBits
from tacit.core.numbers import exp_bounds
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.gaussian_blocks import GaussianBlocks

SIGMAS = [Fraction(1 << 20), Fraction((1 << 48) + 12345, 1), Fraction(10**15, 7), Fraction(1 << 80)]


class Words(SeededBits):
    """Words that were written down first, and seeded bits afterwards."""

    def __init__(self, words: Iterable[int]) -> None:
        super().__init__(3)
        self._written = np.array(list(words), dtype=np.uint64)

    def words(self, count: int) -> NDArray[np.uint64]:
        assert count == len(self._written)
        return self._written.copy()


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_no_chance_exceeds_one_and_entries_add_up(sigma2: Fraction) -> None:
    table = GaussianBlocks(sigma2)
    assert int(table.counts.sum()) == 1 << 14
    assert table.counts[-1] >= 0
    assert (table.blocks << table.digits) ** 2 >= 144 * sigma2
    for block, count in enumerate(table.counts[:-2].tolist()):
        edge = block << table.digits
        assert table.scale * exp_bounds(-Fraction(edge * edge) / (2 * sigma2), 20)[1] <= count
    far = table.blocks << table.digits
    chance = table.scale * table.blocks * 2 * exp_bounds(-Fraction(far * far) / (2 * sigma2), 40)[1]
    assert chance < Fraction(1, 2**45), "so a coin that does not begin with zeros drops every number of the tail"


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_every_coin_is_the_exact_inequality(sigma2: Fraction) -> None:
    """Coins at random, and coins one step beside the chance of their number, which floats must not guess."""
    table, made = GaussianBlocks(sigma2), np.random.default_rng(5)
    block_of = np.repeat(np.arange(len(table.counts)), table.counts)
    words, wanted = [], []
    for turn in range(600):
        entry, place = int(made.integers(1 << 14)), int(made.integers(1, 1 << table.digits))
        block = int(block_of[entry])
        if block >= table.blocks:
            continue
        size = (block << table.digits) + place
        low, high = (
            bound * Fraction(table.scale, int(table.counts[block])) * 2**table.coin
            for bound in exp_bounds(-Fraction(size * size) / (2 * sigma2), 40)
        )
        coin = int(made.integers(1 << table.coin)) if turn % 3 else int(low) + turn % 2 * 2 - 1
        coin = min(max(coin, 0), (1 << table.coin) - 1)
        if low < coin + 1 and coin < high:
            continue
        words.append(((entry << table.digits | place) << 1 | turn % 2) << table.coin | coin)
        if coin + 1 <= low:
            wanted.append(-size if turn % 2 else size)
    got = table.candidates(len(words), Words(words))
    assert got.tolist() == wanted
    assert 200 < len(wanted) < len(words)


def test_minus_zero_and_what_is_far() -> None:
    table = GaussianBlocks(Fraction(1 << 48))
    zero = [0, 1 << table.coin]
    assert table.candidates(2, Words(zero)).tolist() == [0]
    tail = int(table.counts[:-2].sum()) << (64 - 14)
    assert not len(table.candidates(2, Words([tail | 1, tail + (1 << (64 - 14))])))
    assert not len(table.candidates(1, Words([tail]))), "a coin of zeros reveals more digits, and drops it as well"


def test_the_law_is_gaussian() -> None:
    """χ² of 400,000 draws in 48 bins of equal probability: alarms by chance 1e-6, and 2 % more σ is seen."""
    sigma = 3000.0
    drawn = DiscreteGaussian(Fraction(3000**2)).sample_many(400_000, SeededBits(8))
    edges = norm.ppf(np.arange(1, 48) / 48)
    for stretch, fits in ((1.0, True), (1.02, False), (0.98, False)):
        found = np.bincount(np.searchsorted(edges, (drawn + 0.5) / (sigma * stretch)), minlength=48)
        total = float(((found - len(drawn) / 48) ** 2).sum() / (len(drawn) / 48))
        assert bool(total < chi2.ppf(1 - 1e-6, 47)) is fits
    assert abs(int(np.sign(drawn).sum())) < 5 * 400_000**0.5
    low = np.bincount(drawn & 15, minlength=16)
    assert float(((low - 25_000) ** 2).sum() / 25_000) < chi2.ppf(1 - 1e-6, 15), "places within a block are even"
