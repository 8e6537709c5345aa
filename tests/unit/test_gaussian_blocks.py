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
        given, self._written = self._written[:count], self._written[count:]
        assert len(given) == count
        return given.copy()


def proposed(table: GaussianBlocks, words: list[int]) -> list[int]:
    """Proposals of these words that are kept."""
    numbers, dropped = table._proposed(len(words), Words(words))
    return [int(number) for number in np.delete(numbers, dropped)]


def word(table: GaussianBlocks, entry: int, place: int, coin: int) -> int:
    return (entry << table.coin | coin) << table.digits | place


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_no_chance_exceeds_one_and_entries_add_up(sigma2: Fraction) -> None:
    table = GaussianBlocks(sigma2)
    assert int(table.counts.sum()) == 1 << 14
    assert table.counts[-1] >= 0
    assert table.counts[-2] == 1
    assert (table.blocks << table.digits) ** 2 >= 144 * sigma2
    for block, count in enumerate(table.counts[:-2].tolist()):
        edge = (block % table.blocks) << table.digits
        assert table.scale * exp_bounds(-Fraction(edge * edge) / (2 * sigma2), 20)[1] <= count
    far = table.blocks << table.digits
    chance = table.scale * table.blocks * 4 * exp_bounds(-Fraction(far * far) / (2 * sigma2), 40)[1]
    assert chance < Fraction(1, 2**45), "so a coin that does not begin with zeros drops every number of the tail"
    assert table.coin <= 45


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_every_coin_is_the_exact_inequality(sigma2: Fraction) -> None:
    """Coins at random, and coins one step beside the chance of their number, which floats must not guess."""
    table, made = GaussianBlocks(sigma2), np.random.default_rng(5)
    block_of = np.repeat(np.arange(len(table.counts)), table.counts)
    words, wanted = [], []
    for turn in range(600):
        entry, place = int(made.integers(1 << 14)), int(made.integers(1 << table.digits))
        side, block = divmod(int(block_of[entry]), table.blocks)
        if side > 1:
            continue
        number = ((-block - 1 if side else block) << table.digits) + place
        low, high = (
            bound * Fraction(table.scale, int(table.counts[block])) * 2**table.coin
            for bound in exp_bounds(-Fraction(number * number) / (2 * sigma2), 40)
        )
        coin = int(made.integers(1 << table.coin)) if turn % 3 else int(low) + turn % 2 * 2 - 1
        coin = min(max(coin, 0), (1 << table.coin) - 1)
        if low < coin + 1 and coin < high:
            continue
        words.append(word(table, entry, place, coin))
        if coin + 1 <= low:
            wanted.append(number)
    assert proposed(table, words) == wanted
    assert 200 < len(wanted) < len(words)
    assert min(wanted) < 0 < max(wanted)


@pytest.mark.parametrize("sigma2", [Fraction(1 << 20), Fraction(10**7, 3)], ids=str)
def test_every_number_is_proposed_once(sigma2: Fraction) -> None:
    """Blocks of both sides hold each whole number up to their edge once, zero included."""
    table = GaussianBlocks(sigma2)
    firsts = np.concatenate(([0], np.cumsum(table.counts[:-3])))
    places = range(1 << table.digits)
    words = [word(table, int(entry), place, 0) for entry in firsts for place in places]
    numbers, _ = table._proposed(len(words), Words(words))
    edge = table.blocks << table.digits
    assert sorted(numbers.tolist()) == list(range(-edge, edge))


def test_what_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    table = GaussianBlocks(Fraction(1 << 48))
    tail = int(table.counts[:-2].sum())
    assert not proposed(table, [word(table, tail, 0, 1), word(table, tail + 1, 0, 0)])
    assert not proposed(table, [word(table, tail, 0, 0)]), "a coin of zeros reveals more digits, and drops it as well"
    edge = table.blocks << table.digits
    monkeypatch.setattr(GaussianBlocks, "_settled", lambda *_: True)
    for number in (edge, edge + 5, -edge - 1):
        monkeypatch.setattr(GaussianBlocks, "_far", lambda _, __, number=number: (number, Fraction(1)))
        assert proposed(table, [word(table, tail, 0, 0)]) == [number]
    monkeypatch.setattr(GaussianBlocks, "_far", lambda _, __: (-edge, Fraction(1)))
    assert not proposed(table, [word(table, tail, 0, 0)]), "a block has it already"


def test_numbers_far_out_have_the_chance_of_all_others() -> None:
    """Range, place and sign of :meth:`_far` times its factor are A over the number of places, for every number."""
    table = GaussianBlocks(Fraction(1 << 48))
    for seed in range(20):
        number, factor = table._far(SeededBits(seed))
        doubled = (abs(number) // (table.blocks << table.digits)).bit_length() - 1
        proposal = Fraction(1, 2 << doubled) / 2 / (table.blocks << (table.digits + doubled))
        assert proposal * factor == Fraction(table.scale, 1 << table.digits)


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
