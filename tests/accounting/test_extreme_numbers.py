"""Numbers at the ends of what can be typed: answered on the safe side, or refused with a reason; no bare exception."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from tacit.accounting.calibrate import calibrate_gaussian, calibrate_laplace
from tacit.accounting.compose import METHODS, compose
from tacit.accounting.filters import GDPFilter, PureOrZCDPFilter, RenyiFilter, ZCDPFilter
from tacit.accounting.gaussian import gaussian_epsilon_high
from tacit.accounting.pairwise import optimal_epsilon_bounds
from tacit.accounting.renyi import renyi_curve
from tacit.core.errors import TacitError
from tacit.core.events import GaussianEvent, PoissonSampledEvent, PureEvent, RandomizedResponseEvent
from tacit.core.guarantees import GDP, RDP, ZCDP, ApproxDP, PureDP
from tacit.core.normal import gaussian_delta_bounds, normal_cdf_bounds, normal_quantile_bounds
from tacit.core.numbers import exp_bounds
from tacit.mechanisms.counts import Histogram
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.noisy_max import NoisyMax
from tacit.mechanisms.partition_selection import PartitionSelection
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.sparse_vector import SparseVector

ENDS = ["1e310", "1e300", "1e20", "1e5", "1e-20", "1e-300", "1e-310"]
RELEASES: dict[str, Callable[[str], Any]] = {
    "laplace": lambda e: Laplace(epsilon=e, l1_sensitivity=1).release(5),
    "laplace of floats": lambda e: Laplace(epsilon=e, l1_sensitivity=1).release(5.0),
    "gaussian": lambda e: Gaussian(epsilon=e, delta="1e-6", l2_sensitivity=1).release(5),
    "gaussian by rho": lambda e: Gaussian.from_rho(rho=e, l2_sensitivity=1).release(5),
    "mean": lambda e: Mean(epsilon=e, bounds=(0, 1)).release([0, 1]).value,
    "histogram": lambda e: Histogram(epsilon=e, bins=["a"]).release(["a"])["a"],
    "keys": lambda e: PartitionSelection(epsilon=e, delta="1e-6").release({"a": 5}),
    "response": lambda e: RandomizedResponse(epsilon=e).release(True),
    "noisy max": lambda e: NoisyMax(epsilon=e, sensitivity=1).release([1, 2]),
    "its error": lambda e: NoisyMax(epsilon=e, sensitivity=1).error("0.05", 10),
    "stream": lambda e: SparseVector(epsilon=e, sensitivity=1, threshold=0).ask(3),
    "its error over many": lambda e: SparseVector(epsilon=e, sensitivity=1, threshold=0).error("0.05", 10**12),
    "zcdp filter": lambda e: ZCDPFilter.for_target(epsilon=e, delta="1e-6"),
    "gdp filter": lambda e: GDPFilter.for_target(epsilon=e, delta="1e-6"),
    "either filter": lambda e: PureOrZCDPFilter(epsilon=e, delta="1e-6"),
    "gdp": lambda e: GDP(e).to_approx("1e-6"),
    "gdp, tiny delta": lambda e: GDP(e).to_approx("1e-320"),
    "gdp at epsilon": lambda e: GDP(1).delta_at(e),
    "pure to gdp": lambda e: PureDP(e).to_gdp(),
    "zcdp": lambda e: ZCDP(e).to_approx("1e-6"),
    "renyi": lambda e: RDP.at(2, e).to_approx("1e-6"),
    "renyi order": lambda e: RDP.at(1 + Fraction(e), 1).to_approx("1e-6"),
    "renyi order, composed": lambda e: compose([RDP.at(1 + Fraction(e), 1)], delta="1e-6", method="rdp"),
    "group": lambda e: ApproxDP(e, "1e-9").group(100_000),
    "optimal": lambda e: optimal_epsilon_bounds(epsilon=e, count=10, delta="1e-6"),
    "calibrated gaussian": lambda e: calibrate_gaussian(count=10, epsilon=e, delta="1e-6", method="zcdp"),
    "calibrated laplace": lambda e: calibrate_laplace(count=10, epsilon=e, delta="1e-6", method="zcdp"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", RELEASES)
def test_the_ends_are_answered_or_refused(name: str, end: str) -> None:
    try:
        answer = RELEASES[name](end)
    except TacitError:
        return
    assert answer is not None


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("method", METHODS)
def test_one_pure_release_of_any_size_costs_at_most_itself(end: str, method: str) -> None:
    try:
        found = compose([PureEvent(Fraction(end))], delta="1e-6", method=method)
    except TacitError:
        return
    assert found.epsilon <= Fraction(end)


def test_exponentials_of_far_negative_numbers_are_enclosed() -> None:
    for value in (-10_000, -10_001, -(10**7)):
        low, high = exp_bounds(Fraction(value))
        assert 0 <= low < high
        with mpmath.workdps(100):
            exact = mpmath.exp(value)
            assert mpmath.mpf(low.numerator) / low.denominator <= exact
            assert exact <= mpmath.mpf(high.numerator) / high.denominator


@pytest.mark.parametrize("off", ["0.4", "0.01", "1e-10", "1e-24", "1e-25", "1e-26", "1e-40", "1e-300"])
def test_quantiles_near_one_half_are_enclosed(off: str) -> None:
    t = Fraction(off)
    with mpmath.workdps(700):
        exact = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(t.numerator) / t.denominator)
        low, high = normal_quantile_bounds(Fraction(1, 2) + t)
        assert mpmath.mpf(low.numerator) / low.denominator <= exact <= mpmath.mpf(high.numerator) / high.denominator
        assert high - low <= high * Fraction(1, 10**40)
        mirrored = normal_quantile_bounds(Fraction(1, 2) - t)
        assert -mpmath.mpf(mirrored[1].numerator) / mirrored[1].denominator <= exact
        assert exact <= -mpmath.mpf(mirrored[0].numerator) / mirrored[0].denominator
    assert normal_quantile_bounds(Fraction(1, 2)) == (0, 0)


def test_normal_tails_far_out_are_enclosed() -> None:
    for value in (401, 10**300):
        low, high = normal_cdf_bounds(Fraction(-value))
        assert low == 0 < high <= Fraction(1, 2**90_000)
        assert normal_cdf_bounds(Fraction(value))[0] > 1 - Fraction(1, 2**90_000)


@pytest.mark.parametrize("tilt", ["1e-8", "1e-15", "1e-17", "1e-20", "1e-300"])
@pytest.mark.parametrize("categories", [2, 5])
def test_the_curve_of_a_nearly_fair_coin_is_not_below_the_truth(tilt: str, categories: int) -> None:
    truth = Fraction(1, categories) + Fraction(tilt)
    event = RandomizedResponseEvent(truth, categories)
    for order in (2, 3, 50):
        with mpmath.workdps(1000):
            p, q = (mpmath.mpf(x.numerator) / x.denominator for x in (truth, (1 - truth) / (categories - 1)))
            moment = p**order * q ** (1 - order) + q**order * p ** (1 - order) + (categories - 2) * q
            exact = mpmath.log(moment) / (order - 1)
            found = float(renyi_curve(event)(np.array([float(order)]))[0])
            # Divergences of tilts below 1e-150 are smaller than the smallest float, which is what zero means there.
            assert mpmath.mpf(found) + mpmath.mpf(5e-324) >= exact


def test_a_bound_at_an_order_says_nothing_above_it() -> None:
    order = 3 - Fraction(1, 10**17)  # whose nearest float is 3
    curve = renyi_curve(RDP.at(order, 1))
    assert curve(np.array([3.0]))[0] == math.inf
    assert 1 <= curve(np.array([2.5]))[0] < 1.001
    found = compose([RDP.at(order, 1)], delta="1e-6", method="rdp")
    assert found.epsilon >= RDP.at(order, 1).to_approx("1e-6").epsilon
    twice = compose([RDP({2: "0.1", order: 1}), RDP({order: 1})], delta="1e-6", method="rdp")
    assert twice.epsilon > found.epsilon


@pytest.mark.parametrize(("epsilon", "k"), [("1", 2), ("0.01", 65), ("1e-7", 10**5), ("1e-9", 10**10), ("3", 100)])
def test_groups_of_any_size_pay_the_geometric_sum(epsilon: str, k: int) -> None:
    found = ApproxDP(epsilon, "1e-30").group(k)
    with mpmath.workdps(80):
        e = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        exact = min(mpmath.mpf(10) ** -30 * mpmath.expm1(k * e) / mpmath.expm1(e), mpmath.mpf(1))
        delta = mpmath.mpf(found.delta.numerator) / found.delta.denominator
        assert exact * (1 - mpmath.mpf(10) ** -60) <= delta <= exact * (1 + mpmath.mpf(10) ** -15)
    assert found.epsilon == k * Fraction(epsilon)


@pytest.mark.parametrize("order", [65, 300, 3000, 4096, 10**6])
def test_high_orders_of_sampled_gaussians_are_priced(order: int) -> None:
    event = PoissonSampledEvent(Fraction(1, 100), GaussianEvent(Fraction(4), Fraction(1)))
    (price,) = RenyiFilter(alpha=order, epsilon=10**9).price(event)
    assert isinstance(price, Fraction)
    assert price <= Fraction(order, 32)
    with mpmath.workdps(60):
        if order <= 300:
            total = mpmath.fsum(
                mpmath.binomial(order, k)
                * mpmath.mpf("0.99") ** (order - k)
                * mpmath.mpf("0.01") ** k
                * mpmath.exp(mpmath.mpf(k * k - k) / 32)
                for k in range(order + 1)
            )
            exact = mpmath.log(total) / (order - 1)
            assert exact <= mpmath.mpf(price.numerator) / price.denominator <= exact * (1 + mpmath.mpf(10) ** -9)


def test_large_means_cost_at_least_the_truth() -> None:
    for mu in (Fraction(10_001), Fraction(10**6)):
        high = gaussian_epsilon_high(mu, Fraction(1, 10**6))
        assert gaussian_delta_bounds(high, mu)[1] <= Fraction(1, 10**6)
        assert high <= mu * mu / 2 * (1 + Fraction(2, 1000))
    low, high = optimal_epsilon_bounds(epsilon="1e7", count=3, delta="1e-6")
    assert low <= high == 3 * 10**7
