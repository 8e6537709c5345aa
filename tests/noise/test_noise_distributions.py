"""Chi-square tests of the samplers on seeded bits.

The bits are fixed, so each test either always passes or always fails; the false-alarm probability stated is that of
choosing the seed. *Power* is shown, not assumed: the same statistic rejects 0.8 and 1.25 times the true scale.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from support.bits import SeededBits
from tacit.noise.gaussian import DiscreteGaussian
from tacit.noise.inversion import Geometric
from tacit.noise.laplace import DiscreteLaplace

#: Probability that a right sampler would be rejected, per test.
FALSE_ALARM = 1e-6
DRAWS = 200_000


def p_value(draws: NDArray[np.int64], cdf: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Chi-square over about fifty cells of equal expected mass, the cells chosen from the law alone."""
    spread = np.unique(np.linspace(int(draws.min()) - 2, int(draws.max()) + 2, 100_000).astype(np.int64))
    levels = np.clip(np.searchsorted(cdf(spread.astype(float)), np.linspace(0.02, 0.98, 49)), 0, len(spread) - 1)
    edges = np.unique(spread[levels])
    probabilities = np.diff(np.concatenate(([0.0], cdf(edges.astype(float)), [1.0])))
    counts = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=len(edges) + 1)
    wanted = probabilities > 1e-4
    expected = np.append(probabilities[wanted], probabilities[~wanted].sum()) * len(draws)
    observed = np.append(counts[wanted], counts[~wanted].sum())
    keep = expected > 5
    statistic = ((observed[keep] - expected[keep]) ** 2 / expected[keep]).sum()
    return float(stats.chi2.sf(statistic, keep.sum() - 1))


def laplace_cdf(scale: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    q = np.exp(-1 / scale)
    return lambda x: np.where(x < 0, np.exp((x) / scale) / (1 + q), 1 - np.exp(-(x + 1) / scale) / (1 + q))


def gaussian_cdf(sigma: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    if sigma > 50:  # the sum is the integral up to the midpoint, to far beyond what a test can see
        return lambda x: stats.norm.cdf((x + 0.5) / sigma)
    support = np.arange(-int(12 * sigma) - 20, int(12 * sigma) + 21)
    mass = np.exp(-(support.astype(float) ** 2) / (2 * sigma**2))
    cumulative = np.concatenate(([0.0], np.cumsum(mass / mass.sum())))
    return lambda x: cumulative[np.clip(x.astype(int) - support[0] + 1, 0, len(support))]


@pytest.mark.parametrize("scale", ["0.3", "1", "10", "12345.678", "1e9", "1e12", "9007199254740993/65537"])
def test_discrete_laplace(scale: str) -> None:
    t = Fraction(scale)
    draws = DiscreteLaplace(t).sample_many(DRAWS, SeededBits(11))
    assert p_value(draws, laplace_cdf(float(t))) > FALSE_ALARM
    assert p_value(draws, laplace_cdf(0.8 * float(t))) < FALSE_ALARM
    assert p_value(draws, laplace_cdf(1.25 * float(t))) < FALSE_ALARM


@pytest.mark.parametrize("sigma2", ["0.25", "1", "100", "1e8", "1e18", "1e24", "22/7"])
def test_discrete_gaussian(sigma2: str) -> None:
    sigma = float(Fraction(sigma2)) ** 0.5
    draws = DiscreteGaussian(Fraction(sigma2)).sample_many(DRAWS, SeededBits(12))
    assert p_value(draws, gaussian_cdf(sigma)) > FALSE_ALARM
    assert p_value(draws, gaussian_cdf(0.8 * sigma)) < FALSE_ALARM
    assert p_value(draws, gaussian_cdf(1.25 * sigma)) < FALSE_ALARM


@pytest.mark.parametrize("rate", ["0.01", "1", "3"])
def test_geometric(rate: str) -> None:
    r = float(Fraction(rate))
    draws = Geometric(Fraction(rate)).sample_many(DRAWS, SeededBits(13))

    def cdf(at: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        return lambda x: np.where(x < 0, 0.0, 1 - np.exp(-at * (x + 1)))

    assert p_value(draws, cdf(r)) > FALSE_ALARM
    assert p_value(draws, cdf(0.8 * r)) < FALSE_ALARM
    assert p_value(draws, cdf(1.25 * r)) < FALSE_ALARM


@pytest.mark.parametrize("scale", ["1e-4", "1e30", "123456789/1000000007"])
def test_extreme_scales_one_at_a_time(scale: str) -> None:
    """Outside the range of arrays, single draws still have the right spread: mean |X| within five sigma."""
    t = Fraction(scale)
    sampler, bits = DiscreteLaplace(t), SeededBits(14)
    draws = [abs(sampler.sample(bits)) for _ in range(2000)]
    # E|X| = 1 / sinh(1/t), and its standard deviation is at most that of an exponential of the same scale plus one.
    expected = float(1 / np.sinh(min(float(1 / t), 700.0))) if t < 10**6 else float(t)
    deviation = (max(float(t), 0.0) + min(expected, 1.0)) / 2000**0.5
    assert abs(sum(draws) / 2000 - expected) <= 5 * deviation


@pytest.mark.parametrize("sigma2", ["1e-6", "1e-3", "1e60"])
def test_extreme_sigmas_one_at_a_time(sigma2: str) -> None:
    sampler, bits = DiscreteGaussian(Fraction(sigma2)), SeededBits(15)
    draws = [sampler.sample(bits) for _ in range(1000)]
    if Fraction(sigma2) < 1:
        assert set(draws) == {0}  # P(X != 0) < 2·exp(-500)
    else:
        spread = float(sum(draw**2 for draw in draws) // 1000) ** 0.5
        assert 0.89e30 < spread < 1.11e30  # five standard errors of a variance estimate from 1000 draws


def test_draws_of_one_array_are_independent() -> None:
    draws = DiscreteLaplace(Fraction(10)).sample_many(DRAWS, SeededBits(16)).astype(float)
    for lag in (1, 2, 1 << 14):
        correlation = np.corrcoef(draws[:-lag], draws[lag:])[0, 1]
        assert abs(correlation) < 4.9 / DRAWS**0.5  # false alarm 1e-6 each
