"""The bit tree of every sampler, walked exhaustively, against the probability mass functions of mathematics.

A sampler that has consumed d bits has used up mass 2^-d exactly, so summing over all strings gives each output's
probability up to the mass still undecided at the depth where the walk stops. No statistics, no tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import pytest

from support.bits import enumerate_outputs
from support.reference_samplers import invert_geometric, invert_laplace, is_below_exp
from tacit.noise.bernoulli import sample_bernoulli
from tacit.noise.entropy import BitSource
from tacit.noise.inversion import LogInversion, _settle_exp
from tacit.noise.uniform import LazyUniform, sample_below

mpmath.mp.dps = 40


def check(sampler: Callable[[BitSource], object], pmf: Callable[[object], object], depth: int, left: float) -> None:
    """Every output's enumerated mass is its probability, but for undecided mass, of which little may be left."""
    mass, undecided = enumerate_outputs(sampler, depth)
    assert undecided <= left
    assert sum(mass.values()) + undecided == 1
    for output, enumerated in mass.items():
        low, high = mpmath.mpf(enumerated.numerator) / enumerated.denominator, undecided
        assert low <= pmf(output) <= low + mpmath.mpf(high.numerator) / high.denominator, output


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 7, 100])
def test_uniform_integers(bound: int) -> None:
    check(lambda bits: sample_below(bound, bits), lambda _: mpmath.mpf(1) / bound, 14, 0.1)


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(2, 7), Fraction(1, 10**30)])
def test_bernoulli_of_a_rational(p: Fraction) -> None:
    chance = mpmath.mpf(p.numerator) / p.denominator
    check(lambda bits: sample_bernoulli(p, bits), lambda hit: chance if hit else 1 - chance, 20, 2.0**-20)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(7, 2)])
def test_bernoulli_of_an_exponential(rate: Fraction) -> None:
    chance = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)

    def pmf(hit: object) -> object:
        return chance if hit else 1 - chance

    check(lambda bits: _settle_exp(rate, LazyUniform(bits, step=1)), pmf, 20, 2.0**-20)
    check(lambda bits: is_below_exp(rate, LazyUniform(bits, step=1)), pmf, 20, 2.0**-20)


SCALES = [Fraction(1), Fraction(1, 2), Fraction(10), Fraction(2), Fraction(22, 7), Fraction(1, 10**4)]


@pytest.mark.parametrize(
    ("scale", "settled"),
    [
        pytest.param(scale, settled, marks=[pytest.mark.deep] if scale == 10 and not settled else [])
        for settled in (True, False)
        for scale in SCALES
    ],
)
def test_discrete_laplace(scale: Fraction, settled: bool) -> None:
    inversion = LogInversion(scale, folded=True)

    def sample(bits: BitSource) -> int:
        negative = bits.bits(1)
        uniform = LazyUniform(bits, step=1)
        size = inversion.settle(uniform) if settled else invert_laplace(scale, uniform)
        return -size if negative else size

    t = mpmath.mpf(scale.numerator) / scale.denominator
    check(sample, lambda x: mpmath.tanh(1 / (2 * t)) * mpmath.exp(-abs(x) / t), 20, 0.001)


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 5), Fraction(3)])
@pytest.mark.parametrize("settled", [True, False], ids=["settled", "reference"])
def test_geometric(rate: Fraction, settled: bool) -> None:
    inversion = LogInversion(1 / rate, folded=False)

    def sample(bits: BitSource) -> int:
        uniform = LazyUniform(bits, step=1)
        return inversion.settle(uniform) if settled else invert_geometric(1 / rate, uniform)

    r = mpmath.mpf(rate.numerator) / rate.denominator
    check(sample, lambda k: (1 - mpmath.exp(-r)) * mpmath.exp(-r * k), 20, 0.001)


@pytest.mark.parametrize("sigma2", [Fraction(1, 4), Fraction(1), Fraction(4)])
def test_one_round_of_the_discrete_gaussian(sigma2: Fraction) -> None:
    """Proposal and decision together: P(y kept) must be proportional to exp(-y²/2σ²), with the known constant."""
    from tacit.noise.gaussian import DiscreteGaussian

    sampler = DiscreteGaussian(sigma2)

    def one_round(bits: BitSource) -> int | None:
        negative = bits.bits(1)
        size = invert_laplace(sampler._scale, LazyUniform(bits, step=1))
        kept = _settle_exp(sampler._rate(size), LazyUniform(bits, step=1))
        return (-size if negative else size) if kept else None

    t = mpmath.mpf(sampler._scale.numerator) / sampler._scale.denominator
    s2 = mpmath.mpf(sigma2.numerator) / sigma2.denominator
    constant = mpmath.tanh(1 / (2 * t)) * mpmath.exp(-s2 / (2 * t * t))

    def weight(y: object) -> object:
        return constant * mpmath.exp(-(mpmath.mpf(y) ** 2) / (2 * s2))

    def pmf(y: object) -> object:
        return weight(y) if y is not None else 1 - mpmath.nsum(lambda x: weight(x), [-mpmath.inf, mpmath.inf])

    check(one_round, pmf, 14, 0.02)


# math.md M6: scale or σ², then P(0), P(1), P(5) or P(3).
LAPLACE_VALUES = [
    ("1", "0.462117157260009759", "0.17000340156854792", "0.00311372091299"),
    ("0.5", "0.761594155955764888", "0.10307056080762242", "3.45763211879e-5"),
    ("10", "0.0499583749578799722", "0.0452042070061604546", "0.0303012861214"),
    ("2", "0.244918662403709129", "0.148550677883657447", "0.0201041480664"),
]


@pytest.mark.parametrize(("scale", "p0", "p1", "p5"), LAPLACE_VALUES)
def test_published_values_of_the_discrete_laplace(scale: str, p0: str, p1: str, p5: str) -> None:
    """The tails that the inversion compares with, differenced, are the published probabilities."""
    from support.reference_samplers import exp_minus

    t, bits = Fraction(scale), 200

    def tail(k: int) -> Fraction:
        return Fraction(2 * exp_minus(k / t, bits)[0], (1 << bits) + exp_minus(1 / t, bits)[0])

    for value, expected in ((1 - tail(1), p0), ((tail(1) - tail(2)) / 2, p1), ((tail(5) - tail(6)) / 2, p5)):
        assert float(value) == pytest.approx(float(expected), rel=1e-11)


GAUSSIAN_VALUES = [
    ("0.25", "0.7865707070419479", "0.106450769423144724", "1.1979455936e-8"),
    ("1", "0.398942278266861706", "0.24197072322446061", "0.00443184838823"),
    ("4", "0.199471140200716339", "0.176032663382149739", "0.0647587978329"),
    ("100", "0.0398942280401432678", "0.0396952547477011766", "0.0381387815461"),
]


@pytest.mark.parametrize(("sigma2", "p0", "p1", "p3"), GAUSSIAN_VALUES)
def test_published_values_of_the_discrete_gaussian(sigma2: str, p0: str, p1: str, p3: str) -> None:
    """Proposal probability times kept probability, normalised over all proposals, gives the published values."""
    from tacit.noise.gaussian import DiscreteGaussian

    sampler = DiscreteGaussian(Fraction(sigma2))
    t = mpmath.mpf(sampler._scale.numerator) / sampler._scale.denominator

    def kept(x: int) -> object:
        rate = sampler._rate(x)
        return mpmath.exp(-abs(x) / t) * mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)

    total = sum(kept(x) for x in range(-200, 201))
    for x, expected in ((0, p0), (1, p1), (3, p3)):
        assert float(kept(x) / total) == pytest.approx(float(expected), rel=1e-11)
