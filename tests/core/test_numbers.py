"""Exact numbers in, named rounding out."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.core.errors import AccountingError, InputError
from tacit.core.numbers import (
    check_count,
    exact,
    exact_nonnegative,
    exact_positive,
    exact_probability,
    exp_bounds,
    float_down,
    float_nearest,
    float_up,
    format_up,
    log_bounds,
    round_down,
    round_up,
    sqrt_bounds,
    with_noun,
)

TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    "value", ["0.1", " 0.1 ", "1/10", "1e-1", ".1", 0.1, Decimal("0.1"), Fraction(1, 10), np.float64(0.1)]
)
def test_one_tenth_has_many_spellings(value: object) -> None:
    assert exact(value, "epsilon") == TENTH  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "meant"), [(3, 3), (np.int64(3), 3), (np.uint8(3), 3), ("3", 3), (3.0, 3), (-2, -2)])
def test_whole_numbers(value: object, meant: int) -> None:
    assert exact(value, "k") == meant  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "sNaN",
        float("nan"),
        float("inf"),
        -float("inf"),
        Decimal("nan"),
        Decimal("inf"),
        "",
        " ",
        "abc",
        "1,5",
        "0x10",
        "1/0",
        "1/",
        "/2",
        "1//2",
        "1/2/3",
        "--1",
        "1e",
        "∞",
        "1" * 501,
        "1e400",
        "1e-400",
        "1e999999999",
        Decimal("1e999999"),
        Fraction(1, 2**5000),
        2**5000,
        True,
        False,
        np.True_,
        None,
        [1],
        (1, 2),
        {},
        b"1",
        1j,
        ...,
        np.array([1.0]),
        "1\x002",
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_no_number_is_refused_by_name(value: object) -> None:
    with pytest.raises(InputError) as refusal:
        exact(value, "epsilon")  # type: ignore[arg-type]
    assert refusal.value.parameter == "epsilon"
    assert str(refusal.value).startswith("epsilon: ")
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("value", [0, "-0.0", -1, "-1e-300", 5e-324])
def test_positive_means_above_zero(value: object) -> None:
    if value == 5e-324:
        with pytest.raises(InputError, match="between 1e-320"):
            exact_positive(value, "scale")  # type: ignore[arg-type]
    else:
        with pytest.raises(InputError, match="scale: must be greater than 0"):
            exact_positive(value, "scale")  # type: ignore[arg-type]


def test_signs_and_ends() -> None:
    assert exact_nonnegative(0, "epsilon") == 0
    with pytest.raises(InputError, match="must not be negative"):
        exact_nonnegative("-0.1", "epsilon")
    assert exact_probability("0.5", "delta") == Fraction(1, 2)
    assert exact_probability(0, "delta", zero=True) == 0
    assert exact_probability(1, "delta", one=True) == 1
    for bad in (0, 1, "1.5", -1):
        with pytest.raises(InputError, match=r"delta: must lie in \(0, 1\)"):
            exact_probability(bad, "delta")


@pytest.mark.parametrize("value", [True, 1.0, "3", None, -1, 0, 10**13])
def test_counts_are_whole_and_in_range(value: object) -> None:
    with pytest.raises(InputError, match="k: must be a whole number"):
        check_count(value, "k")  # type: ignore[arg-type]


def test_counts_accept_numpy() -> None:
    assert check_count(np.int32(7), "k") == 7


RATIONALS = st.fractions(min_value=-(10**30), max_value=10**30, max_denominator=10**30)
POSITIVE = st.fractions(min_value=Fraction(1, 10**25), max_value=10**25, max_denominator=10**25)


@given(RATIONALS)
def test_floats_are_rounded_the_way_they_say(value: Fraction) -> None:
    low, high = float_down(value), float_up(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert high in (low, math.nextafter(low, math.inf))
    assert low <= float_nearest(value) <= high


def test_floats_out_of_range() -> None:
    huge = Fraction(10) ** 400
    assert float_up(huge) == math.inf
    assert float_down(huge) == math.nextafter(math.inf, 0)
    assert float_up(-huge) == -math.nextafter(math.inf, 0)
    assert float_down(1 / huge) == 0.0
    assert float_up(1 / huge) == 5e-324


@given(RATIONALS, st.integers(1, 30))
def test_decimal_rounding_is_directed_and_close(value: Fraction, digits: int) -> None:
    low, high = round_down(value, digits), round_up(value, digits)
    assert low <= value <= high
    assert high - low <= abs(value) * Fraction(10) ** (1 - digits)


@given(POSITIVE)
def test_text_never_shows_too_little(value: Fraction) -> None:
    shown = Fraction(format_up(value))
    assert value <= shown <= value * (1 + Fraction(1, 10**5))


def test_text_of_short_decimals_is_exact() -> None:
    assert [format_up(Fraction(text)) for text in ("0", "0.1", "1e-6", "12", "0.25", "1000000")] == [
        "0", "0.1", "1e-06", "12", "0.25", "1e+06",
    ]  # fmt: skip


def check_enclosure(bounds: tuple[Fraction, Fraction], true: object, digits: int) -> None:
    low, high = bounds
    with mpmath.workdps(digits + 40):
        assert mpmath.mpf(low.numerator) / low.denominator <= true <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low <= max(abs(low), Fraction(1, 10**20)) * Fraction(100, 10**digits) + Fraction(
        100, 10 ** (digits + 2)
    )


@given(st.fractions(min_value=-2000, max_value=2000, max_denominator=10**12), st.sampled_from([20, 40, 70]))
def test_exp_is_enclosed(value: Fraction, digits: int) -> None:
    low, high = exp_bounds(value, digits)
    with mpmath.workdps(digits + 40):
        true = mpmath.exp(mpmath.mpf(value.numerator) / value.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= true <= mpmath.mpf(high.numerator) / high.denominator
    assert high <= low * (1 + Fraction(10**5, 10**digits))


@given(POSITIVE, st.sampled_from([20, 40, 70]))
def test_log_is_enclosed(value: Fraction, digits: int) -> None:
    with mpmath.workdps(digits + 40):
        true = mpmath.log(mpmath.mpf(value.numerator) / value.denominator)
    check_enclosure(log_bounds(value, digits), true, digits)


@given(POSITIVE, st.sampled_from([20, 40, 70]))
def test_root_is_enclosed(value: Fraction, digits: int) -> None:
    with mpmath.workdps(digits + 40):
        true = mpmath.sqrt(mpmath.mpf(value.numerator) / value.denominator)
    check_enclosure(sqrt_bounds(value, digits), true, digits)


def test_exact_values_are_points() -> None:
    assert exp_bounds(Fraction(0)) == (1, 1)
    assert log_bounds(Fraction(1)) == (0, 0)
    assert sqrt_bounds(Fraction(4, 9)) == (Fraction(2, 3), Fraction(2, 3))


def test_exp_far_out_neither_hangs_nor_lies() -> None:
    low, high = exp_bounds(Fraction(-(10**9)))
    assert low == 0 < high < Fraction(1, 2**100)
    with pytest.raises(AccountingError, match="too large"):
        exp_bounds(Fraction(10**9))


def test_a_count_agrees_with_its_noun() -> None:
    assert [with_noun(n, "charge") for n in (0, 1, 1234)] == ["0 charges", "1 charge", "1,234 charges"]
    assert [with_noun(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
