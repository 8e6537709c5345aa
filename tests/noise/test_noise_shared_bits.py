"""The fast samplers and the integer-only reference, fed the same bits, give the same integers.

The words tried are random ones and, above all, the worst ones: those on either side of every boundary between two
outputs, where floating point is most likely to be wrong.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from support.bits import ListedBits, SeededBits
from support.reference_samplers import exp_minus, invert_geometric, invert_laplace, is_below_exp
from tacit.noise import inversion
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.inversion import DIGITS, Geometric, LogInversion
from tacit.noise.laplace import DiscreteLaplace
from tacit.noise.uniform import LazyUniform

SCALES = [
    Fraction(1, 10**4),
    Fraction(1, 3),
    Fraction(1),
    Fraction(22, 7),
    Fraction(10),
    Fraction(10**4),
    Fraction(10**9),
    Fraction(10**18 + 9, 10**9 + 7),
]


def boundary_words(scale: Fraction, outputs: list[int]) -> list[int]:
    """Words just below, on and just above the tail probability at which |X| passes from k - 1 to k."""
    words = []
    for k in outputs:
        tail = Fraction(2 * exp_minus(k / scale, 200)[0], (1 << 200) + exp_minus(1 / scale, 200)[0])
        digits = int(tail * 2**DIGITS)
        words += [(digits + shift) << 1 | sign for shift in (-2, -1, 0, 1, 2) for sign in (0, 1)]
    return [word for word in words if 0 <= word < 2**64]


def outputs_of_interest(scale: Fraction) -> list[int]:
    reach = max(int(scale * 40), 1)
    return sorted({1, 2, 3, *(max(1, reach * i // 25) for i in range(1, 26))})


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_word_by_word(scale: Fraction) -> None:
    rng = SeededBits(1)
    words = boundary_words(scale, outputs_of_interest(scale)) + [rng.word() for _ in range(60)] + [0, 1, 2**64 - 1]
    expected = []
    for word in words:
        size = invert_laplace(scale, LazyUniform(SeededBits(7), word >> 1, DIGITS))
        expected.append(-size if word & 1 else size)
    sampler = DiscreteLaplace(scale)
    # The bits after a word come from the same seed on both sides, for the draws that need them.
    assert [sampler.sample(ListedBits([word], SeededBits(7))) for word in words] == expected
    one_by_one = [int(sampler.sample_many(1, ListedBits([word], SeededBits(7)))[0]) for word in words]
    assert one_by_one == expected


@pytest.mark.parametrize("scale", SCALES[1:], ids=str)
def test_geometric_word_by_word(scale: Fraction) -> None:
    rng = SeededBits(2)
    words = [rng.word() for _ in range(60)] + [0, 1, 2**64 - 1]
    expected = [invert_geometric(scale, LazyUniform(SeededBits(7), word >> 1, DIGITS)) for word in words]
    sampler = Geometric(1 / scale)
    assert [sampler.sample(ListedBits([word], SeededBits(7))) for word in words] == expected


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_arrays_and_single_draws_agree(scale: Fraction) -> None:
    """Vector and scalar code take different logarithms; on the same words they must agree on every draw."""
    words = SeededBits(3).words(20_000)
    sampler = LogInversion(scale, folded=True)
    many = sampler.many(words, SeededBits(9))
    undecided = [i for i, word in enumerate(words.tolist()) if word < 4 * inversion.SMALLEST_DECIDABLE]
    one = np.array([sampler.one(int(word), SeededBits(9)) for word in words], dtype=np.float64)
    differs = set(np.flatnonzero(many != one).tolist())
    assert differs <= set(undecided)


@pytest.mark.parametrize("sigma2", [Fraction(1, 4), Fraction(1), Fraction(50), Fraction(10**12)], ids=str)
def test_gaussian_word_by_word(sigma2: Fraction) -> None:
    sampler = DiscreteGaussian(sigma2)
    for seed in range(25):
        bits = SeededBits(seed)
        while True:
            word = bits.word()
            size = invert_laplace(sampler._scale, LazyUniform(bits, word >> 1, DIGITS))
            if is_below_exp(sampler._rate(size), LazyUniform(bits, bits.word() >> 1, DIGITS)):
                break
        assert sampler.sample(SeededBits(seed)) == (-size if word & 1 else size)


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(22, 7), Fraction(10**6)], ids=str)
def test_forced_guard_failures_change_nothing(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a guard so wide that nothing is decided in floats, every draw is settled, and is the same."""
    words = SeededBits(4).words(300)
    quick = LogInversion(scale, folded=True).many(words, SeededBits(5))
    settled = 0
    original = LogInversion.settle

    def counting(self: LogInversion, uniform: LazyUniform) -> int:
        nonlocal settled
        settled += 1
        return original(self, uniform)

    monkeypatch.setattr(LogInversion, "settle", counting)
    slow = LogInversion(scale, folded=True)
    slow.guard = 1.0
    assert np.array_equal(slow.many(words, SeededBits(5)), quick)
    assert [slow.one(int(word), SeededBits(5)) for word in words] == quick.astype(int).tolist()
    assert settled == 2 * len(words)


def test_forced_guard_failures_of_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = [Fraction(i, 40) for i in range(400)]
    floats = np.array([float(rate) for rate in rates])
    quick = inversion.accept_exp_many(rates.__getitem__, floats, SeededBits(6))
    monkeypatch.setattr(inversion, "GUARD", 100.0)
    slow = inversion.accept_exp_many(rates.__getitem__, floats, SeededBits(6))
    assert np.array_equal(quick, slow)
    assert 0 < quick.sum() < len(rates)


def test_a_guard_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boundary words above have teeth: without the guard, floats get some of them wrong."""
    scale = Fraction(10**9)
    words = boundary_words(scale, outputs_of_interest(scale))
    careless = LogInversion(scale, folded=True)
    careless.guard = 0.0
    wrong = sum(
        careless.one(word, SeededBits(7)) != invert_laplace(scale, LazyUniform(SeededBits(7), word >> 1, DIGITS))
        for word in words
        if word >> 1 >= inversion.SMALLEST_DECIDABLE
    )
    assert wrong > 0
