"""Special functions in floats, beside forty digits and beside another library."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special

from tacit.core.float_functions import (
    binomial_masses,
    binomial_tail,
    fast_length,
    log_factorials,
    normal_cdf,
    recur,
    scaled_normal_tail,
    solve_tridiagonal,
    success_limit,
)


def relative(found, exact):
    return float(abs(mpmath.mpf(float(found)) / exact - 1))


@pytest.fixture(autouse=True)
def forty_digits():
    with mpmath.workdps(40):
        yield


def test_normal_tails():
    z = np.array([-37.0, -10.3, -1.0, 0.0, 0.7, 6.0])
    assert all(relative(f, mpmath.ncdf(x)) < 3e-13 for f, x in zip(normal_cdf(z), z.tolist(), strict=True))
    for x in (-8.0, 0.0, 3.1, 29.9, 30.0, 1e3, 1e8):
        assert relative(scaled_normal_tail(x), mpmath.ncdf(-x) / mpmath.npdf(x)) < 3e-13, x


def test_logarithms_of_factorials():
    logs = log_factorials(100_000)
    assert log_factorials(0).tolist() == [0.0]
    for n in (2, 3, 15, 16, 17, 400, 100_000):
        assert relative(logs[n], mpmath.loggamma(n + 1)) < 8e-16, n


@pytest.mark.parametrize("size", [0, 1, 2, 63, 64, 65, 1000, 10_007])
@pytest.mark.parametrize("factor", [0.0, 0.3, 1 - 1e-6, 1.0])
def test_recurrence(size, factor):
    terms = np.abs(np.sin(np.arange(size) + 1.0))
    wanted, last = [], 0.0
    for term in terms.tolist():
        last = term + factor * last
        wanted.append(last)
    np.testing.assert_allclose(recur(terms, factor), wanted, rtol=1e-12)


def test_fast_lengths():
    def is_fast(n):
        for prime in (2, 3, 5):
            while n % prime == 0:
                n //= prime
        return n == 1

    for size in [*range(1, 700), 99_999, (1 << 21) + 1]:
        found = fast_length(size)
        assert [each for each in range(size, found + 1) if is_fast(each)] == [found]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 64, 1001])
def test_tridiagonal_systems(size):
    left, right = np.cos(np.arange(size + 1.0)) + 1.1, np.sin(np.arange(size + 1.0)) + 1.1
    diagonal = left[:-1] ** 2 + right[1:] ** 2
    beside = (left * right)[1:-1] * 0.9
    wanted = np.arange(size) % 7 - 3.0
    whole = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    np.testing.assert_allclose(solve_tridiagonal(diagonal, beside, whole @ wanted), wanted, atol=1e-9)


@pytest.mark.parametrize(
    ("k", "n", "p"),
    [
        (0, 0, 0.3),
        (0, 9, 0.3),
        (9, 9, 0.3),
        (1, 1, 0.3),
        (16, 40, 0.37),
        (77, 100, 0.01),
        (520, 1000, 0.5),
        (3, 10**6, 1e-6),
    ],
)
def test_binomial_masses_and_tails(k, n, p):
    def mass(i):
        return mpmath.binomial(n, i) * mpmath.mpf(p) ** i * (1 - mpmath.mpf(p)) ** (n - i)

    assert relative(binomial_masses(k, n, p), mass(k)) < 1e-12
    below = mpmath.fsum(mass(i) for i in range(k))
    exact = 1 - below if n > 1000 else mpmath.fsum(mass(i) for i in range(k, n + 1))
    assert relative(binomial_tail(k, n, p), exact) < 1e-12


def test_binomial_tails_at_the_ends():
    assert binomial_tail([0, 4, 2, 2], 3, [0.5, 0.5, 0.0, 1.0]).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert binomial_masses([0, 3, 1, 4], 3, [0.0, 1.0, 0.0, 0.5]).tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("trials", [1, 2, 7, 300, 10**6])
def test_limits_have_the_tail_that_was_asked_for(trials):
    k = np.unique(np.linspace(0, trials, 9).astype(int))
    for tail in (0.9, 0.4, 0.025, 1e-9):
        found = success_limit(k, trials, tail)
        assert found[0] == 0
        np.testing.assert_allclose(found[1:], special.betaincinv(k[1:], trials - k[1:] + 1, tail), rtol=2e-12)
    assert success_limit(trials, trials, 0.05) == pytest.approx(math.exp(math.log(0.05) / trials), rel=1e-13)


def test_limits_of_large_polls_are_quick_and_right():
    n, k, tail = 10**9, 300_000_000, 0.025
    limit = float(success_limit(k, n, tail))
    assert float(binomial_tail(k, n, limit)) == pytest.approx(tail, rel=1e-9)
    assert limit == pytest.approx(0.3 - 1.96 * math.sqrt(0.21 / n), abs=1e-8)
