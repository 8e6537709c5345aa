"""The public grid: exact rounding, exact way back, enlarged sensitivities, and refusals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.core.errors import InputError
from tacit.mechanisms.grid import RESOLUTION, Grid


@pytest.mark.parametrize(
    ("scale", "dimension", "exponent"),
    [
        (Fraction(1), 1, -RESOLUTION),
        (Fraction(2), 1, 1 - RESOLUTION),
        (Fraction(3, 2), 1, -RESOLUTION),
        (Fraction(2) - Fraction(1, 10**30), 1, -RESOLUTION),
        (Fraction(1, 3), 1, -2 - RESOLUTION),
        (Fraction(1), 2, -1 - RESOLUTION),
        (Fraction(1), 4, -1 - RESOLUTION),
        (Fraction(1), 5, -2 - RESOLUTION),
        (Fraction(1), 10**6, -10 - RESOLUTION),
    ],
)
def test_step_is_a_power_of_two_chosen_from_public_numbers(scale: Fraction, dimension: int, exponent: int) -> None:
    grid = Grid.for_scale(scale, dimension)
    assert grid.exponent == exponent
    assert grid.step == Fraction(2) ** exponent


def test_huge_noise_makes_the_grid_coarser() -> None:
    grid = Grid.for_noise(Fraction(2**40), Fraction(1), 1, largest_noise=2**50)
    assert grid.exponent == 40 - 50 + 2
    assert Grid.for_noise(Fraction(10), Fraction(1), 1, largest_noise=2**50) == Grid.for_scale(Fraction(1))
    assert Grid.for_noise(Fraction(1, 10), Fraction(1), 1, largest_noise=2**50) == Grid.for_scale(Fraction(1, 10))


def test_rounding_is_to_nearest_and_ties_go_to_even() -> None:
    values = np.array([0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.49999999999999994, 1e15 + 0.5])
    assert Grid(0).to_units(values).tolist() == [0, 0, 0, 2, 2, 0, -2, 0, 10**15]
    assert Grid(-1).to_units(values[2:5]).tolist() == [1, 3, 5]


@pytest.mark.parametrize("exponent", [-1022, -40, 0, 7, 959])
def test_multiples_come_back_exactly(exponent: int) -> None:
    grid = Grid(exponent)
    units = np.array([0, 1, -1, 12345, 2**52 + 1, -(2**53)])
    floats = grid.to_floats(units)
    assert [Fraction(x) for x in floats.tolist()] == [u * grid.step for u in units.tolist()]
    assert grid.to_units(floats).tolist() == units.tolist()
    assert [grid.to_float(u) for u in units.tolist()] == floats.tolist()
    assert [grid.to_unit(x) for x in floats.tolist()] == units.tolist()


def test_beyond_53_bits_the_result_is_rounded_but_stays_on_the_grid() -> None:
    grid = Grid(-3)
    unit = 2**61 + 12345
    value = grid.to_floats(np.array([unit]))[0]
    multiple = Fraction(float(value)) / grid.step
    assert multiple.denominator == 1
    assert abs(multiple - unit) <= 2**8


def test_tiny_floats_become_zero_whatever_underflows() -> None:
    assert Grid(900).to_units(np.array([5e-324, -5e-324, 1e-300, 1e200])).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**63, -(2.0**63), 1e308])
def test_values_without_a_multiple_are_refused_by_name(value: float) -> None:
    with pytest.raises(InputError, match="finite and at most") as caught:
        Grid(0).to_units(np.array([1.0, value]), "income")
    assert caught.value.parameter == "income"


def test_the_largest_value_is_accepted() -> None:
    assert Grid(0).to_unit(2.0**62) == 2**62


@pytest.mark.parametrize("exponent", [-1023, 960])
def test_steps_that_floats_cannot_carry_are_refused(exponent: int) -> None:
    with pytest.raises(InputError, match="too small or too large"):
        Grid(exponent)


def test_leaving_the_range_of_floats_is_refused() -> None:
    with pytest.raises(InputError, match="range of floats"):
        Grid(900).to_float(2**200)


def test_l1_bound_is_attained_by_a_half_step() -> None:
    grid = Grid(0)
    assert abs(grid.to_unit(0.5) - grid.to_unit(1.5)) == grid.l1_sensitivity(Fraction(1))
    assert grid.l1_sensitivity(Fraction("2.9"), 3) == 5


def test_l2_bound_is_a_whole_square_norm_rounded_up() -> None:
    assert Grid(0).l2_squared(Fraction(9)) == 16
    # (√2 + √3)² = 5 + 2√6 = 9.898…
    assert Grid(0).l2_squared(Fraction(2), 3) == 9
    assert Grid(-2).l2_squared(Fraction(1), 4) == 36
