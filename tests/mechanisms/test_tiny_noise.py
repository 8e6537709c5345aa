"""Errors of noise where hardly any of it is left: bounds, and at once."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.core.numbers import exp_bounds
from tacit.mechanisms.gaussian import GaussianNoise
from tacit.mechanisms.gaussian_profile import discrete_tail_bound
from tacit.mechanisms.laplace import LaplaceNoise


@pytest.mark.parametrize("sigma2", [Fraction(1, 10), Fraction(1, 200), Fraction(1, 300), Fraction(1, 10**4)])
def test_the_bound_is_above_the_tail_for_tiny_noise(sigma2: Fraction) -> None:
    # P(|X| >= 1) = 2·(q + q⁴ + q⁹ + …)/(1 + 2·(q + q⁴ + q⁹ + …)) with q = e^(-1/(2σ²)).
    low, high = (sum(q**n for n in (1, 4, 9)) for q in exp_bounds(-1 / (2 * sigma2)))
    low = 2 * low / (1 + 2 * high * (1 + Fraction(1, 10**12)))
    bound = discrete_tail_bound(sigma2, 1)
    assert low <= bound
    if sigma2 >= Fraction(1, 200):
        assert bound <= low * (1 + Fraction(1, 10**9))


def test_a_price_that_leaves_no_noise_is_computed_at_once() -> None:
    # With σ² this small the exponents themselves would have a million digits.
    assert GaussianNoise(Fraction(1, 10**18)).quantile(Fraction(1, 20)) == 0
    assert GaussianNoise(Fraction(1, 10**18)).quantile(Fraction(1, 10**30)) == 0
    assert LaplaceNoise(Fraction(1, 10**18)).quantile(Fraction(1, 10**30)) == 0
    assert 0 < LaplaceNoise(Fraction(1, 10**18)).variance_bound < Fraction(1, 10**400)


def test_bounds_of_tiny_laplace_noise_are_not_below_the_truth() -> None:
    for scale in (Fraction(1, 999), Fraction(1, 1000), Fraction(1, 1001), Fraction(1, 2000)):
        q = exp_bounds(-1 / scale)[0]
        assert LaplaceNoise(scale).variance_bound >= 2 * q / (1 - q) ** 2
