"""The noise that comes out of release has the size that the mechanism states, and no other.

Every check accepts the true scale with a false-alarm probability below 1e-6 (a normal statistic beyond 5 standard
errors: 5.7e-7) and rejects 0.8 and 1.25 times that scale: at 4,000 draws the standard error of a mean square is at
most 4.5 % (Gaussian noise 2.3 %), while the wrong scales change it by -36 % and +56 %, 8 standard errors and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support.bits import SeededBits
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace

DRAWS = 4_000
LIMIT = 5.0
#: Fourth moment over squared variance: at most 6 for (discrete) Laplace noise of scale >= 2, 3 for Gaussian noise.
KURTOSIS = {Laplace: 6.2, Gaussian: 3.05}

Release = Callable[[Any, int], NDArray[Any]]


def one_by_one(mechanism: Any, count: int) -> NDArray[Any]:
    return np.array([mechanism.release(1000) - 1000 for _ in range(count)], dtype=float)


def floats_one_by_one(mechanism: Any, count: int) -> NDArray[Any]:
    return np.array([mechanism.release(-2.5) + 2.5 for _ in range(count)])


def all_at_once(mechanism: Any, count: int) -> NDArray[Any]:
    result: NDArray[Any] = mechanism.release(np.full(count, 1000)) - 1000.0
    return result


def floats_at_once(mechanism: Any, count: int) -> NDArray[Any]:
    result: NDArray[Any] = mechanism.release(np.full(count, -2.5)) + 2.5
    return result


def deviation(draws: NDArray[Any], variance: float, kurtosis: float) -> float:
    """Distance of the mean square of the draws from ``variance``, in standard errors."""
    return float((np.mean(draws**2) / variance - 1) / math.sqrt((kurtosis - 1) / len(draws)))


def laplace(factor: Fraction) -> Laplace:
    return Laplace(epsilon=Fraction(1, 3) / factor, l1_sensitivity=1)


def gaussian(factor: Fraction) -> Gaussian:
    return Gaussian.from_rho(rho=Fraction(1, 50) / factor**2, l2_sensitivity=1, dimension=DRAWS)


@pytest.mark.parametrize(
    ("make", "draw"),
    [
        (laplace, one_by_one),
        (laplace, all_at_once),
        (laplace, floats_one_by_one),
        (laplace, floats_at_once),
        (gaussian, one_by_one),
        (gaussian, all_at_once),
        (gaussian, floats_one_by_one),
        (gaussian, floats_at_once),
    ],
)
def test_noise_has_the_stated_variance(make: Callable[[Fraction], Any], draw: Release, seeded: SeededBits) -> None:
    stated = make(Fraction(1))
    kurtosis = KURTOSIS[type(stated)]
    size = DRAWS if draw is floats_at_once else 1
    variance = stated.on_grid(size).variance if "floats" in draw.__name__ else stated.variance
    right = draw(stated, DRAWS)
    assert abs(deviation(right, variance, kurtosis)) < LIMIT
    assert abs(np.mean(right)) < LIMIT * math.sqrt(variance / DRAWS)
    for factor in (Fraction(4, 5), Fraction(5, 4)):
        assert abs(deviation(draw(make(factor), DRAWS), variance, kurtosis)) > LIMIT


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace(epsilon="0.2", l1_sensitivity=1),
        Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, dimension=10),
    ],
    ids=repr,
)
def test_error_bounds_hold_as_often_as_stated(mechanism: Any, seeded: SeededBits) -> None:
    """Bound for any of 10 outputs, β = 0.1, 1,000 groups of 10.

    The number of failures is stochastically below Binomial(1000, 0.1); 5 standard errors above its mean is 147, with
    false-alarm probability below 1e-6. The bounds are quantiles of a discrete law, so failures may be rarer than β,
    but a bound shrunk by a third fails in more than 147 groups.
    """
    bound = mechanism.error(beta="0.1", k=10)
    groups = np.array([abs(mechanism.release(7) - 7) for _ in range(10_000)]).reshape(1000, 10).max(axis=1)
    assert np.sum(groups > bound) <= 147
    assert np.sum(groups > bound * 2 / 3) > 147
