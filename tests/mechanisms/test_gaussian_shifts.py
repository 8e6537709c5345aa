"""Discrete Gaussian noise on vectors: every shift by enumeration, and the shifts that can be worst."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_profile import gives_at_most, largest_shifts, shift_delta_bound


def enumerated_delta(epsilon: float, sigma2: float, shift: tuple[int, ...]) -> float:
    """Σ (P(x) - e^ε·P(x - shift))₊ over a box of integer vectors that holds all but e^-40 of both laws."""
    reach = math.ceil(math.sqrt(80 * sigma2)) + max(shift)
    steps = np.arange(-reach, reach + 1)
    here, there = np.ones(1), np.ones(1)
    total = np.exp(-(np.arange(-1000, 1001) ** 2) / (2 * sigma2)).sum()
    for part in shift:
        here = np.outer(here, np.exp(-(steps**2) / (2 * sigma2)) / total).ravel()
        there = np.outer(there, np.exp(-((steps - part) ** 2) / (2 * sigma2)) / total).ravel()
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize("shift", [(1, 1), (2, 1), (2, 2), (1, 1, 1), (2, 1, 1), (3, 1)])
@pytest.mark.parametrize(("epsilon", "sigma2"), [("0.2", "1"), ("1", "2.5"), ("2", "0.6"), ("0.5", "6")])
def test_delta_of_a_shift_is_that_of_the_enumerated_laws(shift: tuple[int, ...], epsilon: str, sigma2: str) -> None:
    bound = shift_delta_bound(Fraction(epsilon), Fraction(1, 10**6), Fraction(sigma2), shift)
    truth = enumerated_delta(float(Fraction(epsilon)), float(Fraction(sigma2)), shift)
    assert truth * (1 - 1e-9) <= float(bound) <= truth * (1 + 1e-8) + 1e-14


@pytest.mark.parametrize("l2_squared", [1, 2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("dimension", [2, 3])
def test_no_shift_within_the_sensitivity_loses_more_than_the_listed_ones(l2_squared: int, dimension: int) -> None:
    listed = largest_shifts(l2_squared, dimension)
    reach = math.isqrt(l2_squared)
    within = [
        shift
        for shift in itertools.product(range(reach + 1), repeat=dimension)
        if 0 < sum(part * part for part in shift) <= l2_squared
    ]
    for epsilon, sigma2 in ((0.3, 1.5), (1.5, 1.0)):
        worst = max(enumerated_delta(epsilon, sigma2, shift) for shift in listed)
        assert max(enumerated_delta(epsilon, sigma2, shift) for shift in within) <= worst * (1 + 1e-9)


@pytest.mark.parametrize("l2_squared", [2, 4, 5])
def test_the_calibrated_sigma_is_enough_and_hardly_more(l2_squared: int) -> None:
    m = Gaussian(epsilon="1.5", delta="1e-3", l2_squared=l2_squared, dimension=3, whole=True)
    worst = max(enumerated_delta(1.5, float(m.sigma2), shift) for shift in largest_shifts(l2_squared, 3))
    assert worst <= 1e-3
    less = float(m.sigma2) * 0.999
    assert max(enumerated_delta(1.5, less, shift) for shift in largest_shifts(l2_squared, 3)) > 1e-3


def test_a_unit_in_one_bin_pays_for_one_bin_whatever_their_number() -> None:
    one = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, whole=True)
    many = Gaussian(epsilon=1, delta="1e-5", l2_sensitivity=1, dimension=10, whole=True)
    assert many.sigma == one.sigma
    assert many.sigma == pytest.approx(3.7405, abs=1e-4)


def test_a_tiny_delta_and_a_large_sigma_go_other_ways() -> None:
    assert not gives_at_most(Fraction(1), Fraction(1, 10**200), sigma2=Fraction(4), l2_squared=2, dimension=2)
    m = Gaussian(epsilon="0.01", delta="1e-9", l2_squared=2, dimension=2, whole=True)
    assert m.sigma > 64
