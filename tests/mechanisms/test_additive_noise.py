"""Laws that hold for every parameter: rounding sensitivity, exact scales, monotone errors, accuracy kept."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tacit.mechanisms.base import per_output_beta, read_numbers
from tacit.mechanisms.gaussian import GaussianNoise
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.laplace import Laplace, LaplaceNoise

exponents = st.integers(-40, 20)
floats = st.floats(-1e9, 1e9) | st.integers(-(2**20), 2**20).map(lambda n: n * 0.5) | st.sampled_from([0.5, 1.5, -0.5])
vectors = st.integers(1, 8).flatmap(
    lambda d: st.tuples(st.lists(floats, min_size=d, max_size=d), st.lists(floats, min_size=d, max_size=d))
)
epsilons = st.fractions(Fraction(1, 1000), 20, max_denominator=1000)
betas = st.fractions(Fraction(1, 10**12), Fraction(999, 1000), max_denominator=10**12)


@given(vectors, exponents)
def test_rounding_never_moves_neighbours_further_than_stated(
    pair: tuple[list[float], list[float]], exponent: int
) -> None:
    left, right = pair
    grid, dimension = Grid(exponent), len(left)
    assume(max(map(abs, left + right)) < 2.0 ** (exponent + 60))
    gaps = [abs(Fraction(a) - Fraction(b)) for a, b in zip(left, right, strict=True)]
    moved = [abs(int(n)) for n in grid.to_units(np.array(left)) - grid.to_units(np.array(right))]
    assert sum(moved) <= grid.l1_sensitivity(sum(gaps, Fraction(0)), dimension)
    assert sum(n * n for n in moved) <= grid.l2_squared(sum((g * g for g in gaps), Fraction(0)), dimension)


@given(floats, exponents)
def test_rounding_is_to_the_nearest_multiple(value: float, exponent: int) -> None:
    assume(abs(value) < 2.0 ** (exponent + 60))
    grid = Grid(exponent)
    unit = grid.to_unit(value)
    assert abs(unit * grid.step - Fraction(value)) <= grid.step / 2
    if abs(unit) <= 2**53:
        assert Fraction(grid.to_float(unit)) == unit * grid.step


@given(epsilons, st.fractions(Fraction(1, 10**6), 10**6, max_denominator=10**6), st.integers(1, 50))
def test_scales_are_exact_on_the_grid_too(epsilon: Fraction, sensitivity: Fraction, dimension: int) -> None:
    m = Laplace(epsilon=epsilon, l1_sensitivity=sensitivity)
    assert m.scale * epsilon == sensitivity
    on_grid = m.on_grid(dimension)
    noise = on_grid.noise
    assert isinstance(noise, LaplaceNoise)
    # What rounding can do, over the scale, is at most ε; and the scale is hardly larger than without rounding.
    moved = on_grid.grid.l1_sensitivity(sensitivity, dimension)
    assert moved / noise.scale <= epsilon
    assert noise.scale * on_grid.grid.step <= m.scale * (1 + Fraction(1, 1000))


noises = st.one_of(
    st.builds(LaplaceNoise, st.fractions(Fraction(1, 50), 10**6, max_denominator=50)),
    st.builds(GaussianNoise, st.fractions(Fraction(1, 50), 10**5, max_denominator=50)),
)


@settings(deadline=None, max_examples=60)
@given(noises, betas, betas)
def test_a_smaller_risk_needs_a_wider_bound(
    noise: LaplaceNoise | GaussianNoise, first: Fraction, second: Fraction
) -> None:
    low, high = sorted((first, second))
    assert noise.quantile(low) >= noise.quantile(high) >= 0


@given(betas, st.integers(1, 10**6))
def test_shares_of_beta_are_safe_and_better_than_the_union_bound(beta: Fraction, k: int) -> None:
    share = per_output_beta(beta, k)
    assert beta / k <= share <= beta


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), betas, st.integers(1, 1000), st.integers(1, 100))
def test_laplace_for_error_is_never_less_accurate_than_asked(
    within: int, beta: Fraction, sensitivity: int, k: int
) -> None:
    assert Laplace.for_error(within=within, beta=beta, l1_sensitivity=sensitivity, k=k).error(beta, k) <= within


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1) | st.lists(st.floats(-1e300, 1e300), min_size=1))
def test_reading_keeps_values_and_form(values: list[int] | list[float]) -> None:
    as_list, as_array = read_numbers(values), read_numbers(np.array(values))
    assert as_list.like(as_list.array) == values
    assert (as_array.like(as_array.array.ravel()) == np.array(values)).all()
    assert as_list.whole == isinstance(values[0], int)
