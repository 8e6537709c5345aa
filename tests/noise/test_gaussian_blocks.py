"""Blocks of Gaussian draws: the table against exact exponentials, every coin against the exact inequality, the law."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from support.bits import SeededBits
from tacit.core.numbers import exp_bounds
from tacit.noise.gaussian import DiscreteGaussian, GaussianBlocks

SIGMAS = [Fraction(1 << 20), Fraction((1 << 48) + 12345, 1), Fraction(10**15, 7), Fraction(1 << 80)]


class Words(SeededBits):
    """Requests of words that were written down first, and seeded bits afterwards."""

    def __init__(self, *requests: NDArray[np.uint64]) -> None:
        super().__init__(3)
        self._requests = list(requests)

    def words(self, count: int) -> NDArray[np.uint64]:
        given = self._requests.pop(0)
        assert len(given) == count
        return given.copy()


def packed(table: GaussianBlocks, words: list[int]) -> NDArray[np.uint64]:
    """Words of the table's width as words of 64 digits, as memory holds them."""
    if table.width == 64:
        return np.array(words, dtype=np.uint64)
    return np.array(words + [0] * (len(words) % 2), dtype=np.uint32).view(np.uint64)


def proposed(table: GaussianBlocks, words: list[int], coins: list[int]) -> list[int]:
    """Proposals of these words that are kept; the coins are those of the words that need one, in order."""
    source = Words(packed(table, words), np.array(coins, dtype=np.uint64))
    numbers, dropped = table._proposed(len(words), source)
    assert not source._requests
    return [int(number) for number in np.delete(numbers, dropped)]


def word(table: GaussianBlocks, entry: int, place: int) -> int:
    """The word of an entry and a place, with digits of ones between them: nothing reads these."""
    between = table.width - 16 - table.digits
    return ((entry << between) | ((1 << between) - 1)) << table.digits | place


def block_of(table: GaussianBlocks) -> NDArray[np.int64]:
    """The block of each entry; 2·blocks for the tail, and one more for spare entries."""
    kinds = np.arange(2 * table.blocks + 2)
    return np.concatenate((np.repeat(kinds[:-2], table.sure), np.repeat(kinds, table.tossed)))


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_entries_bracket_the_density_and_add_up(sigma2: Fraction) -> None:
    """R_k is at most what the least likely number of a block deserves, R_k + E_k at least what the likeliest does."""
    table = GaussianBlocks(sigma2)
    assert table.width == (32 if sigma2 < 1 << 44 else 64)
    assert int(table.sure.sum()) + int(table.tossed.sum()) == 1 << 16
    assert table.tossed[-1] >= 0
    assert table.tossed[-2] == 1
    assert (table.blocks << table.digits) ** 2 >= 64 * sigma2
    for block in range(2 * table.blocks):
        near, far = ((block % table.blocks + more) << table.digits for more in (0, 1))
        deserved = [
            table.scale * bound for edge in (far, near) for bound in exp_bounds(-Fraction(edge**2) / (2 * sigma2), 30)
        ]
        sure, tossed = int(table.sure[block]), int(table.tossed[block])
        assert sure <= deserved[0]
        assert tossed > 0
        assert deserved[3] <= sure + tossed
    assert table.first_tossed > 0.95 * (1 << 16), "few proposals need a coin, or the table is not worth it"


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_every_coin_is_the_exact_inequality(sigma2: Fraction) -> None:
    """Coins at random, and coins one step beside the chance of their number, which floats must not guess."""
    table, made = GaussianBlocks(sigma2), np.random.default_rng(5)
    blocks = block_of(table)
    words, coins, wanted = [], [], []
    for turn in range(600):
        entry = int(made.integers(table.first_tossed if turn % 4 else 0, 1 << 16))
        place = int(made.integers(1 << table.digits))
        side, block = divmod(int(blocks[entry]), table.blocks)
        if side > 1:
            continue
        number = ((-block - 1 if side else block) << table.digits) + place
        if entry < table.first_tossed:
            words.append(word(table, entry, place))
            wanted.append(number)
            continue
        low, high = (
            (bound * table.scale - int(table.sure[block])) / int(table.tossed[block]) * 2**64
            for bound in exp_bounds(-Fraction(number * number) / (2 * sigma2), 40)
        )
        assert high >= 0
        assert low <= 2**64
        coin = int(made.integers(1 << 63)) * 2 + 1 if turn % 3 else int(low) + turn % 2 * 2 - 1
        coin = min(max(coin, 0), 2**64 - 1)
        if low < coin + 1 and coin < high:
            continue
        words.append(word(table, entry, place))
        coins.append(coin)
        if coin + 1 <= low:
            wanted.append(number)
    assert proposed(table, words, coins) == wanted
    assert 200 < len(wanted) < len(words)
    assert min(wanted) < 0 < max(wanted)


@pytest.mark.parametrize("sigma2", [Fraction(1 << 20), Fraction(10**7, 3)], ids=str)
def test_every_number_has_its_entries_and_a_chance(sigma2: Fraction) -> None:
    """Enumerated over all entries: those of a number are R + E, and its coin's chance lies between 0 and 1."""
    table, blocks = GaussianBlocks(sigma2), block_of(GaussianBlocks(sigma2))
    places = 1 << table.digits
    entries = np.flatnonzero(blocks < 2 * table.blocks)
    words = [word(table, int(entry), place) for entry in entries for place in (0, places - 1)]
    numbers, _ = table._proposed(
        len(words), Words(packed(table, words), np.zeros(2 * int(table.tossed[:-2].sum()), dtype=np.uint64))
    )
    # A place is added to the first number of the block of the entry.
    assert np.array_equal(numbers[1::2] - numbers[::2], np.full(len(entries), places - 1))
    firsts, counts = np.unique(numbers[::2], return_counts=True)
    edge = table.blocks << table.digits
    assert firsts.tolist() == list(range(-edge, edge, places)), "each whole number up to the edge, zero included, once"
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        block = first // places if first >= 0 else table.blocks - first // places - 1
        sure, tossed = int(table.sure[block]), int(table.tossed[block])
        assert count == sure + tossed
        for number in (first, first + places - 1):
            chance = (table.scale * exp_bounds(-Fraction(number**2) / (2 * sigma2), 30)[0] - sure) / tossed
            assert -Fraction(1, 10**25) <= chance <= 1


@pytest.mark.parametrize("sigma2", SIGMAS, ids=str)
def test_coins_from_a_bound_on_drop_all_that_is_far(sigma2: Fraction) -> None:
    table = GaussianBlocks(sigma2)
    for doubled in range(4):
        far = table.blocks << (table.digits + doubled)
        factor = table.scale * table.blocks << (2 * doubled + 2)
        chance = factor * exp_bounds(-Fraction(far * far) / (2 * sigma2), 40)[1]
        assert chance * 2**64 <= table.tail_coins * (1 + Fraction(1, 10**9))
    assert table.tail_coins < 2**45


def test_what_is_far(monkeypatch: pytest.MonkeyPatch) -> None:
    table = GaussianBlocks(Fraction(1 << 48))
    tail = (1 << 16) - 1 - int(table.tossed[-1])
    assert block_of(table)[tail] == 2 * table.blocks
    assert not proposed(table, [word(table, tail, 0), word(table, tail + 1, 0)], [table.tail_coins, 0])
    edge = table.blocks << table.digits
    monkeypatch.setattr(GaussianBlocks, "_far", lambda _, __: (edge << 4, Fraction(1)))
    assert not proposed(table, [word(table, tail, 0)], [0]), "a coin of zeros reveals more digits, and drops it as well"
    monkeypatch.setattr(GaussianBlocks, "_settled", lambda *_: True)
    for number in (edge, edge + 5, -edge - 1):
        monkeypatch.setattr(GaussianBlocks, "_far", lambda _, __, number=number: (number, Fraction(1)))
        assert proposed(table, [word(table, tail, 0)], [0]) == [number]
        assert not proposed(table, [word(table, tail, 0)], [table.tail_coins])
    monkeypatch.setattr(GaussianBlocks, "_far", lambda _, __: (-edge, Fraction(1)))
    assert not proposed(table, [word(table, tail, 0)], [0]), "a block has it already"


def test_numbers_far_out_have_the_chance_of_all_others() -> None:
    """Range, place and sign of :meth:`_far` times its factor are A over the number of places, for every number."""
    table = GaussianBlocks(Fraction(1 << 48))
    for seed in range(20):
        number, factor = table._far(SeededBits(seed))
        doubled = (abs(number) // (table.blocks << table.digits)).bit_length() - 1
        proposal = Fraction(1, 2 << doubled) / 2 / (table.blocks << (table.digits + doubled))
        assert proposal * factor == Fraction(table.scale, 1 << table.digits)


@pytest.mark.parametrize("sigma", [3000, 3 << 21], ids=["half words", "words"])
def test_the_law_is_gaussian(sigma: int) -> None:
    """χ² of 400,000 draws in 48 bins of equal probability: alarms by chance 1e-6, and 2 % more σ is seen."""
    drawn = DiscreteGaussian(Fraction(sigma**2)).sample_many(400_000, SeededBits(8))
    edges = norm.ppf(np.arange(1, 48) / 48)
    for stretch, fits in ((1.0, True), (1.02, False), (0.98, False)):
        found = np.bincount(np.searchsorted(edges, (drawn + 0.5) / (sigma * stretch)), minlength=48)
        total = float(((found - len(drawn) / 48) ** 2).sum() / (len(drawn) / 48))
        assert bool(total < chi2.ppf(1 - 1e-6, 47)) is fits
    assert abs(int(np.sign(drawn).sum())) < 5 * 400_000**0.5
    low = np.bincount(drawn & 15, minlength=16)
    assert float(((low - 25_000) ** 2).sum() / 25_000) < chi2.ppf(1 - 1e-6, 15), "places within a block are even"
