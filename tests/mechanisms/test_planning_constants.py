"""Plans and intervals kept by simulation: they hold as often as promised and, where exact, hardly more often.

Every test counts failures in N seeded runs and compares with a binomial range of total probability 1 - 10⁻⁶: that is
the chance of a false alarm for a fresh seed. Power: noise of 0.8 and of 1.25 times the true scale is rejected.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from tacit.mechanisms.counts import CountingQueries, Histogram
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.mean import Mean
from tacit.mechanisms.permute_and_flip import PermuteAndFlip
from tacit.mechanisms.planning import plan
from tacit.mechanisms.randomized_response import RandomizedResponse

pytestmark = pytest.mark.usefixtures("seeded")

FALSE_ALARM = 1e-6
WIDTHS = [Fraction(4, 5), Fraction(1), Fraction(5, 4)]


def failures_fit(failures: int, runs: int, least: float, most: float) -> bool:
    """Whether so many failures are credible for a probability somewhere from ``least`` to ``most``."""
    low = binom.ppf(FALSE_ALARM / 2, runs, least)
    high = binom.ppf(1 - FALSE_ALARM / 2, runs, most)
    return bool(low <= failures <= high)


def test_the_check_itself() -> None:
    assert failures_fit(500, 10_000, 0.05, 0.05)
    assert not failures_fit(700, 10_000, 0.05, 0.05)
    assert not failures_fit(300, 10_000, 0.05, 0.05)


@pytest.mark.parametrize("width", WIDTHS)
def test_laplace_plans(width: Fraction) -> None:
    made = plan("laplace", within="0.01", confidence="0.9", epsilon="0.1")
    noise = Laplace(epsilon=made.epsilon / width, l1_sensitivity=1).release(np.zeros(40_000, dtype=np.int64))
    failures = int((np.abs(noise) > made.off_by).sum())
    # The error is a whole number of people, so the true chance of failure lies within a factor e^-ε of beta.
    assert failures_fit(failures, 40_000, 0.1 * math.exp(-0.1), 0.1) is (width == 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_gaussian_plans(width: Fraction) -> None:
    made = plan("gaussian", within="0.01", confidence="0.9", epsilon="0.2", delta="1e-6")
    rho = Gaussian(epsilon=made.epsilon, delta="1e-6", l2_sensitivity=1).zcdp.rho
    noise = Gaussian.from_rho(rho=rho / width**2, l2_sensitivity=1, dimension=40_000).release(
        np.zeros(40_000, dtype=np.int64)
    )
    failures = int((np.abs(noise) > made.off_by).sum())
    assert failures_fit(failures, 40_000, 0.09, 0.1) is (width == 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_histogram_plans_hold_for_all_bins_at_once(width: Fraction) -> None:
    made = plan("histogram", within="0.01", confidence="0.9", epsilon="0.1", bins=12, relation="replace_one")
    histogram = Histogram(epsilon=made.epsilon / width, bins=range(12), relation="replace_one")
    noise = histogram.noise.release(np.zeros((20_000, 12), dtype=np.int64))
    failures = int((np.abs(noise) > made.off_by).any(axis=1).sum())
    assert failures_fit(failures, 20_000, 0.1 * math.exp(-0.05), 0.1) is (width == 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_counting_queries_hold_all_at_once(width: Fraction) -> None:
    error = CountingQueries(epsilon=1, k=8).error("0.1")
    noise = CountingQueries(epsilon=1 / width, k=8).noise.release(np.zeros((20_000, 8), dtype=np.int64))
    failures = int((np.abs(noise) > error).any(axis=1).sum())
    assert failures_fit(failures, 20_000, 0.1 * math.exp(-1 / 8), 0.1) is (width == 1)


@pytest.mark.parametrize("width", WIDTHS)
def test_selection_plans_in_the_worst_case(width: Fraction) -> None:
    made = plan("selection", within="0.01", confidence="0.9", epsilon="0.2", candidates=6)
    choice = PermuteAndFlip(epsilon=made.epsilon / width, sensitivity=1, monotone=True)
    scores = [math.floor(made.off_by) + 1, 0, 0, 0, 0, 0]
    failures = sum(choice.release(scores) != 0 for _ in range(5000))
    assert failures_fit(failures, 5000, 0.1 * math.exp(-0.2), 0.1) is (width == 1)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_polls_hold_whatever_the_truth_is(share: float) -> None:
    made = plan("randomized_response", within="0.1", confidence="0.9", epsilon=1)
    runs, n = 3000, made.people
    answers = [True] * round(share * n) + [False] * (n - round(share * n))
    poll = RandomizedResponse(epsilon=1)
    reports = np.array(poll.release_many(answers * runs), dtype=np.int64).reshape(runs, n)
    estimates = (reports.mean(axis=1) - float(poll.lie)) / float(poll.truth - poll.lie)
    failures = int((np.abs(estimates - sum(answers) / n) > 0.1).sum())
    # The bound is proven, not exact: at epsilon 1 the true chance of failure is about half of it.
    assert failures_fit(failures, runs, 0.04, 0.1)


@pytest.mark.parametrize("width", WIDTHS)
def test_mean_intervals_with_public_n(width: Fraction) -> None:
    values = [0.0] * 20 + [1.0] * 30
    mean = Mean(epsilon=1, bounds=(0, 1), n=50)
    noisy = Mean(epsilon=1 / width, bounds=(0, 1), n=50)
    failures = count_misses(mean, noisy, values, 2000, "0.8")
    assert failures_fit(failures, 2000, 0.199, 0.2) is (width == 1)


@pytest.mark.parametrize("values", [[0.5] * 50, [0.0] * 20 + [1.0] * 30, [1.0] * 50, [0.25], []])
def test_mean_intervals_with_private_n_cover_at_least_as_promised(values: list[float]) -> None:
    mean = Mean(epsilon=1, bounds=(0, 1))
    failures = count_misses(mean, mean, values, 1000, "0.8")
    assert failures_fit(failures, 1000, 0.0, 0.2)


def test_mean_intervals_with_private_n_notice_louder_noise() -> None:
    """All values at one bound: the quotient is then off whenever one of the two noises is, so the box is tight."""
    values = [1.0] * 50
    mean, louder = Mean(epsilon=1, bounds=(0, 1)), Mean(epsilon="0.25", bounds=(0, 1))
    assert not failures_fit(count_misses(mean, louder, values, 1000, "0.8"), 1000, 0.0, 0.2)


def count_misses(mean: Mean, noisy: Mean, values: list[float], runs: int, confidence: str) -> int:
    """Count how often the interval of ``mean`` misses the truth when the noise is that of ``noisy``."""
    truth = sum(values) / len(values) if values else 0.5
    misses = 0
    for _ in range(runs):
        release = noisy.release(values)
        low, high = mean._interval(release.noisy_above, release.noisy_below, 1 - Fraction(confidence))
        misses += not low <= truth <= high
    return misses


def test_the_error_of_a_mean_with_private_n() -> None:
    values = [0.0] * 30 + [1.0] * 170
    mean = Mean(epsilon=1, bounds=(0, 1))
    bound = mean.error("0.2", n=200)
    failures = sum(abs(mean.release(values).value - 0.85) > bound for _ in range(1500))
    assert failures_fit(failures, 1500, 0.01, 0.2)
