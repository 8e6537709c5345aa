"""Quantiles of sums of noise against exact convolutions, and Chernoff's bound against the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.query.planning.noise import NoiseLaw, NoiseTerm, one_sided_error, one_sided_errors, sum_error


def pmf(kind: str, scale: float, reach: int = 900) -> np.ndarray[Any, Any]:
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-abs(x) / scale) if kind == "laplace" else np.exp(-(x**2) / (2 * scale))
    return np.asarray(weights / weights.sum())


def total(kind: str, scale: float, terms: int) -> np.ndarray[Any, Any]:
    once = whole = pmf(kind, scale)
    for _ in range(terms - 1):
        whole = np.convolve(whole, once)
    return whole


def beyond(law: np.ndarray[Any, Any], width: int) -> float:
    middle = len(law) // 2
    return float(law[: middle - width].sum() + law[middle + width + 1 :].sum())


@pytest.mark.parametrize("scale", ["0.3", "1", "7", "20"])
@pytest.mark.parametrize("terms", [1, 2, 3])
@pytest.mark.parametrize("beta", ["0.5", "0.05", "1e-6"])
def test_laplace_sums_have_exact_quantiles(scale: str, terms: int, beta: str) -> None:
    width = int(NoiseLaw("laplace", Fraction(scale), terms).error(beta))
    truth = total("laplace", float(scale), terms)
    assert beyond(truth, width) <= float(beta) * (1 + 1e-9)
    assert width == 0 or beyond(truth, width - 1) > float(beta) * (1 - 1e-9)


@pytest.mark.parametrize("terms", [2, 3])
def test_gaussian_sums_are_bounded(terms: int) -> None:
    law = NoiseLaw("gaussian", Fraction(49), terms)
    assert beyond(total("gaussian", 49, terms), int(law.error("0.05"))) <= 0.05
    assert law.error("0.05") <= Fraction(2 * 7) * Fraction(math.isqrt(terms * 10**6) + 1, 1000) * Fraction(3, 2)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("terms", [1, 5, 40])
def test_chernoff_is_above_the_truth_and_within_half_of_it(kind: str, terms: int) -> None:
    scale = Fraction(3) if kind == "laplace" else Fraction(9)
    bound = one_sided_error(kind, scale, ((Fraction(1), terms),), Fraction(1, 1000))
    truth = total(kind, float(scale), terms)
    middle = len(truth) // 2
    tails = truth[::-1].cumsum()[::-1][middle:]
    exact = int(np.argmax(tails <= 1e-3))
    assert exact - 1 <= bound <= 1.5 * exact + 1


def test_weights_count_by_size_and_one_bound_serves_several_sums() -> None:
    half = one_sided_error("laplace", Fraction(4), ((Fraction(1, 2), 10),), Fraction(1, 20))
    assert half == pytest.approx(
        float(one_sided_error("laplace", Fraction(4), ((Fraction(1), 10),), Fraction(1, 20)) / 2)
    )
    assert one_sided_error("laplace", Fraction(4), ((Fraction(-1), 3),), Fraction(1, 20)) > 0
    assert one_sided_error("laplace", Fraction(4), ((Fraction(0), 3),), Fraction(1, 20)) == 0
    counts = [(3, 9), (6, 6), (9, 3)]
    weights = (Fraction(3, 4), Fraction(1, 4))
    each = [
        one_sided_error("laplace", Fraction(4), tuple(zip(weights, c, strict=True)), Fraction(1, 20)) for c in counts
    ]
    both = one_sided_errors("laplace", Fraction(4), weights, counts, Fraction(1, 20))
    assert all(one <= together * (1 + Fraction(1, 10**6)) for one, together in zip(each, both, strict=True))
    assert max(both) < max(each) * Fraction(11, 10)
    assert one_sided_errors("gaussian", Fraction(4), weights, [(0, 0), (4, 0)], Fraction(1, 20))[0] == 0


def test_units_scale_errors_and_variances() -> None:
    plain, scaled = NoiseLaw("laplace", Fraction(5)), NoiseLaw("laplace", Fraction(5), unit=Fraction(1, 4))
    assert scaled.error("0.05") == plain.error("0.05") / 4
    assert scaled.variance_bound == plain.variance_bound / 16
    assert NoiseLaw("none", Fraction(0)).error("0.05") == NoiseLaw("none", Fraction(0)).variance_bound == 0


def weighted(kind: str, scale: float, weights: list[tuple[int, int]]) -> np.ndarray[Any, Any]:
    """The law of a sum of whole multiples of noises, by direct convolution."""
    once, whole = pmf(kind, scale, 400), np.ones(1)
    for weight, count in weights:
        spread = np.zeros((len(once) - 1) * weight + 1)
        spread[::weight] = once
        for _ in range(count):
            whole = np.convolve(whole, spread)
    return whole


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("weights", [[(1, 2)], [(1, 7)], [(1, 52)], [(2, 1), (3, 1)], [(7, 1), (1, 5)]])
@pytest.mark.parametrize("beta", ["0.2", "0.05", "0.001"])
def test_weighted_sums_have_the_quantile_of_their_law(kind: str, weights: list[tuple[int, int]], beta: str) -> None:
    """On whole weights the smallest w, at most one step more; it holds in every case."""
    scale = Fraction(3) if kind == "laplace" else Fraction(9)
    terms = [NoiseTerm(kind, scale, Fraction(weight, 10), count) for weight, count in weights]
    width = sum_error(terms, Fraction(beta)) * 10
    assert width.denominator == 1
    truth = weighted(kind, float(scale), weights)
    assert beyond(truth, int(width)) <= float(beta)
    assert beyond(truth, int(width) - 2) > float(beta)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", ["3", "5000"])
def test_weights_rounded_to_a_grid_cost_little_and_keep_the_bound(kind: str, scale: str) -> None:
    """Weights without a small common step are rounded to a grid; compared with whole weights next to them."""
    size = Fraction(scale) if kind == "laplace" else Fraction(scale) ** 2
    weights = (Fraction(1), Fraction(1_000_003, 999_983), Fraction(1_999_993, 1_000_003))
    width = sum_error([NoiseTerm(kind, size, weight, 1) for weight in weights], Fraction(1, 20))
    nearby = sum_error(
        [NoiseTerm(kind, size, Fraction(weight), count) for weight, count in ((1, 2), (2, 1))], Fraction(1, 20)
    )
    assert Fraction(99, 100) <= width / nearby <= Fraction(103, 100)


def test_large_gaussian_noise_has_the_quantile_of_a_normal() -> None:
    for sigma in (63, 65, 10**3, 10**6):
        width = sum_error([NoiseTerm("gaussian", Fraction(sigma) ** 2, Fraction(1), 4)], Fraction(1, 20))
        assert 1.9599 <= float(width) / (2 * sigma) <= 1.9599 * 1.03


def test_chances_too_small_for_floats_are_left_to_chernoff() -> None:
    terms = [NoiseTerm("laplace", Fraction(3), Fraction(1), 5)]
    tiny, chernoff = (
        Fraction(1, 10**11),
        one_sided_error("laplace", Fraction(3), [(Fraction(1), 5)], Fraction(1, 2 * 10**11)),
    )
    assert sum_error(terms, tiny) == chernoff
    widths = [sum_error(terms, Fraction(1, 10**power)) for power in range(1, 12)]
    assert widths == sorted(widths)


def test_sums_of_two_laws_and_of_none() -> None:
    mixed = sum_error(
        [NoiseTerm("laplace", Fraction(3), Fraction(1), 2), NoiseTerm("gaussian", Fraction(9), Fraction(-1), 2)],
        Fraction(1, 20),
    )
    truth = np.convolve(total("laplace", 3, 2), total("gaussian", 9, 2))
    assert beyond(truth, int(mixed)) <= 0.05 < beyond(truth, int(mixed) - 2)
    assert sum_error([NoiseTerm("none", Fraction(0), Fraction(1), 9)], Fraction(1, 20)) == 0
