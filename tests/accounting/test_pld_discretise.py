"""Tails of every pair against forty digits, and discretised laws on the right side of the true one at every ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tacit.accounting.pld.convolve import Sum, TiltedSum
from tacit.accounting.pld.discretise import Lattice, lower_lattice, upper_lattice
from tacit.accounting.pld.pairs import (
    ACCURACY,
    BoundedRangePair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
    LossPair,
    TwoPoint,
    response_pair,
)
from tacit.accounting.pld.translate import AddedPair, RemovedPair, ThinnedPair

PAIRS: dict[str, LossPair] = {
    "gaussian": GaussianPair(0.7),
    "small gaussian": GaussianPair(1e-4),
    "laplace": LaplacePair(0.8),
    "discrete laplace": DiscreteLaplacePair(Fraction(3), 5),
    "fine discrete laplace": DiscreteLaplacePair(Fraction(400), 300),
    "discrete gaussian": DiscreteGaussianPair(Fraction(5), 2),
    "two points": TwoPoint(0.5, 0.3),
    "response": response_pair(0.9, 0.3),
    "bounded range": BoundedRangePair(0.6),
    "sampled gaussian": RemovedPair(GaussianPair(1.0), 0.05),
    "sampled gaussian, other way": AddedPair(GaussianPair(1.0), 0.05),
    "sampled laplace": RemovedPair(LaplacePair(1.0), 0.3),
    "sampled laplace, other way": AddedPair(LaplacePair(1.0), 0.3),
    "sampled discrete gaussian": RemovedPair(DiscreteGaussianPair(Fraction(5), 2), 0.2),
    "sampled discrete gaussian, other way": AddedPair(DiscreteGaussianPair(Fraction(5), 2), 0.2),
    "sampled discrete laplace": RemovedPair(DiscreteLaplacePair(Fraction(3), 5), 0.2),
    "thinned": ThinnedPair(GaussianPair(1.0), 0.2),
}


def true_delta(pair: LossPair, epsilon: float) -> float:
    """P(L > ε) - e^ε Q(L > ε)."""
    sides = pair.sides(np.array([epsilon]))
    return float(sides.p_above[0] - math.exp(epsilon) * sides.q_above[0])


def lattice_delta(lattice: Lattice, epsilon: float) -> float:
    losses = lattice.start + lattice.step * np.arange(len(lattice.masses))
    above = losses > epsilon
    return math.fsum(lattice.masses[above] * -np.expm1(epsilon - losses[above])) + lattice.infinity


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("steps", [17, 160])
def test_upper_dominates_and_lower_is_dominated(name: str, steps: int) -> None:
    pair = PAIRS[name]
    low, high = pair.reach(-40)
    step = (high - low) / steps / 1.0321
    upper, lower = upper_lattice(pair, step, -40), lower_lattice(pair, step, -40)
    for epsilon in np.linspace(low * 1.1 - 1e-9, high * 1.1, 203):
        true, slack = true_delta(pair, float(epsilon)), 1e-12
        assert lattice_delta(upper, float(epsilon)) >= true * (1 - 1e-9) - slack
        if name != "thinned":
            assert lattice_delta(lower, float(epsilon)) <= max(true, 0.0) * (1 + 1e-9) + slack


@pytest.mark.parametrize("name", ["gaussian", "laplace", "sampled gaussian", "bounded range"])
def test_the_upper_error_is_of_second_order(name: str) -> None:
    pair = PAIRS[name]
    low, high = pair.reach(-40)
    epsilon = high / 7
    excess = [
        lattice_delta(upper_lattice(pair, (high - low) / steps, -40), epsilon) - true_delta(pair, epsilon)
        for steps in (100, 1000)
    ]
    assert excess[1] < excess[0] / 30


@pytest.mark.parametrize("mu", [1e-3, 1.0, 30.0])
def test_normal_tails_are_as_accurate_as_claimed(mu: float) -> None:
    mpmath.mp.dps = 40
    pair = GaussianPair(mu)
    losses = mu * mu / 2 + mu * np.linspace(-37, 37, 297)
    sides = pair.sides(losses)
    exact: list[Callable[[mpmath.mpf], mpmath.mpf]] = [
        lambda x: mpmath.ncdf(-(x / mu - mpmath.mpf(mu) / 2)),
        lambda x: mpmath.ncdf(x / mu - mpmath.mpf(mu) / 2),
        lambda x: mpmath.ncdf(-(x / mu + mpmath.mpf(mu) / 2)),
        lambda x: mpmath.ncdf(x / mu + mpmath.mpf(mu) / 2),
    ]
    for found, function in zip(sides, exact, strict=True):
        for loss, value in zip(losses, found, strict=True):
            true = function(mpmath.mpf(float(loss)))
            if true > mpmath.mpf("1e-290"):
                assert abs(value / true - 1) < ACCURACY


def test_the_transform_is_as_accurate_as_claimed() -> None:
    # Ten thousand coin flips: the tilted law of the sum is binomial, known to many digits.
    from scipy.special import gammaln

    k, p = 10_000, 0.3
    total = Sum([(Lattice(0.0, 1.0, np.array([1 - p, p])), k)])
    for tilt in (1e-9, 0.5):
        found = TiltedSum(total, tilt)
        tilted = p * math.exp(tilt) / (1 - p + p * math.exp(tilt))
        n = np.clip(found.losses, 0, k)
        logs = (
            gammaln(k + 1) - gammaln(n + 1) - gammaln(k - n + 1) + n * math.log(tilted) + (k - n) * math.log1p(-tilted)
        )
        exact = np.where((found.losses >= 0) & (found.losses <= k), np.exp(logs), 0.0)
        assert np.abs(found.masses - exact).max() <= found.error + 2e-9 + 1e-10 * exact.max()
        assert found.error < 1e-12
        assert found.masses.sum() == pytest.approx(1, abs=1e-9)


def test_aliasing_is_bounded_by_the_window() -> None:
    total = Sum([(upper_lattice(GaussianPair(0.1), 0.002, -60), 400)])
    low, high, below, above = total.window(3.0)
    here = total.cumulants(3.0)
    spread = math.sqrt(here.variance)
    assert here.mean - 8 * spread < low < here.mean - 5 * spread
    assert here.mean + 5 * spread < high < here.mean + 8 * spread
    assert 0 < below <= 1e-9
    assert 0 < above <= 1e-9
