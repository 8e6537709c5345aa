"""Rounded normal noise: its law, its guarantee, its tails, and what it costs in gdp accounts."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from support.bits import SeededBits
from tacit.accounting.prices import gdp_price, zcdp_price
from tacit.core.errors import InputError
from tacit.core.events import ExponentialEvent
from tacit.core.guarantees import GDP
from tacit.core.relations import ADD_REMOVE
from tacit.mechanisms.rounded_gaussian import RoundedGaussian, RoundedNoise
from tacit.noise import rounded_normal
from tacit.noise.rounded_normal import RoundedNormal
from tacit.query.planning.noise import NoiseTerm, sum_error


def law(sigma2: Fraction, reach: int) -> np.ndarray:
    """Probabilities of -reach … reach, and of all else."""
    places = (np.arange(-reach, reach + 2) - 0.5) / math.sqrt(sigma2)
    inside = np.diff(stats.norm.cdf(places))
    return np.append(inside, 1 - inside.sum())


def fits(drawn: np.ndarray, chances: np.ndarray) -> bool:
    reach = len(chances) // 2 - 1
    seen = np.array([*(int((drawn == x).sum()) for x in range(-reach, reach + 1)), int((abs(drawn) > reach).sum())])
    return bool(stats.chisquare(seen, chances / chances.sum() * len(drawn)).pvalue > 1e-6)


@pytest.mark.parametrize(("sigma2", "reach"), [(Fraction(1, 4), 1), (Fraction(2), 4), (Fraction(40), 14)])
def test_draws_have_the_law(sigma2: Fraction, reach: int, seeded: SeededBits) -> None:
    sampler, chances = RoundedNormal(sigma2), law(sigma2, reach)
    drawn = sampler.sample_many(60_000)
    assert fits(drawn, chances)
    assert fits(np.array([sampler.sample() for _ in range(6_000)]), chances)
    # The check would see a normal that is cut off instead of rounded, and a hundredth of σ² too much.
    assert not fits(np.trunc(drawn + np.sign(drawn) * 0.3).astype(np.int64) - (drawn == 1), chances)
    assert not fits(drawn, law(sigma2 * Fraction(11, 10), reach))


def test_digits_settle_what_floats_leave(monkeypatch: pytest.MonkeyPatch, seeded: SeededBits) -> None:
    """With a guard of 1 nothing is left to floats, and the law is the same."""
    monkeypatch.setattr(rounded_normal, "_GUARD", 1.0)
    sampler = RoundedNormal(Fraction(2))
    assert fits(sampler.sample_many(1_500), law(Fraction(2), 4))
    assert fits(np.array([sampler.sample() for _ in range(500)]), law(Fraction(2), 4))


def test_large_scales(seeded: SeededBits) -> None:
    drawn = RoundedNormal(Fraction(10**16)).sample_many(20_000) / 1e8
    assert stats.kstest(drawn, "norm").pvalue > 1e-6
    huge = [RoundedNormal(Fraction(10**60)).sample() / 10**30 for _ in range(200)]
    assert stats.kstest(huge, "norm").pvalue > 1e-6


def test_the_guarantee_is_mu_itself() -> None:
    """Trade-offs of the rounded law, which are sums over its integers, lie above the normal curve."""
    noise = RoundedGaussian(mu="0.7", l2_squared=4)
    assert noise.guarantee == GDP("0.7")
    assert gdp_price(noise.event, ADD_REMOVE).amount == Fraction("0.49")
    sigma = 2 / 0.7
    tails = stats.norm.sf((np.arange(-40, 41) - 0.5) / sigma)
    missed = stats.norm.cdf((np.arange(-40, 41) - 2 - 0.5) / sigma)
    curve = stats.norm.cdf(stats.norm.isf(tails) - 0.7)
    # Rejecting from x on is the best test; between two of them a coin decides.
    assert (missed >= curve - 1e-12).all()
    middles = [((a + b) / 2, (c + d) / 2) for (a, b), (c, d) in zip(pairwise(tails), pairwise(missed), strict=True)]
    assert all(beta >= stats.norm.cdf(stats.norm.isf(alpha) - 0.7) - 1e-12 for alpha, beta in middles)


@pytest.mark.parametrize(
    "sigma2",
    [Fraction(1, 100), Fraction(1, 12), Fraction(1, 11), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(9)],
)
def test_tails_are_below_those_of_the_discrete_gaussian_that_stands_in(sigma2: Fraction) -> None:
    noise, reach = RoundedNoise(sigma2), 12
    weights = np.exp(-(np.arange(0.0, 200) ** 2) / (2 * float(noise.proxy)))
    total = 2 * weights.sum() - 1
    for x in range(1, reach):
        assert 2 * stats.norm.sf((x - 0.5) / math.sqrt(sigma2)) <= 2 * weights[x:].sum() / total * (1 + 1e-12)
    # E X² = Σ (2k - 1)·P(|X| >= k).
    variance = sum((2 * k - 1) * 2 * stats.norm.sf((k - 0.5) / math.sqrt(sigma2)) for k in range(1, 100))
    assert variance <= noise.variance_bound <= sigma2 + Fraction(1, 3)
    for beta in (Fraction(1, 20), Fraction(1, 1000)):
        width = noise.quantile(beta)
        assert 2 * stats.norm.sf((width + 0.5) / math.sqrt(sigma2)) <= beta
        assert width == 0 or 2 * stats.norm.sf((width - 0.5) / math.sqrt(sigma2)) > beta


def test_sums_of_noises_are_bounded_closely(seeded: SeededBits) -> None:
    for sigma2, weight in ((Fraction(2), Fraction(1)), (Fraction(10**6), Fraction(2, 3))):
        terms = [NoiseTerm("rounded", sigma2, weight, 8), NoiseTerm("rounded", sigma2, Fraction(1), 4)]
        drawn = RoundedNormal(sigma2).sample_many(12 * 20_000).reshape(-1, 12) @ np.array(
            [float(weight)] * 8 + [1.0] * 4
        )
        bound = float(sum_error(terms, Fraction(1, 10)))
        beyond = np.mean(np.abs(drawn) > bound)
        assert 0.08 < beyond < 0.108


def test_a_draw_of_bounded_range_costs_the_mu_of_half_its_epsilon() -> None:
    """All pairs of coins whose logits are ε apart are no easier to tell apart than normals μ apart."""
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(6)):
        mu = math.sqrt(gdp_price(ExponentialEvent(epsilon), ADD_REMOVE).amount)
        logits = np.linspace(-float(epsilon) - 6, 6, 4001)
        heads, tails = (stats.logistic.cdf(logits + shift) for shift in (float(epsilon), 0.0))
        needed = stats.norm.ppf(heads) - stats.norm.ppf(tails)
        assert needed.max() <= mu + 1e-12
        assert needed.max() >= mu * 0.9999
        assert zcdp_price(ExponentialEvent(epsilon), ADD_REMOVE).amount == epsilon**2 / 8


def test_floats_are_refused() -> None:
    with pytest.raises(InputError, match="integers"):
        RoundedGaussian(mu=1, l2_squared=2).release(1.5)
    assert isinstance(RoundedGaussian(mu=1, l2_squared=2).release(3), int)
