"""A public lattice for floats: multiples of a power of two that is chosen without looking at the data.

Noise added to a float in floating point leaks: the set of floats that can result, and their low bits, depend on the
secret operand. Here a float is first rounded to an integer multiple of a public step, noise is
added to that integer, and the noisy integer is turned back into a float. Rounding can move neighbours apart; the
enlarged sensitivities below account for it, and ``grid.proof.md`` proves them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import check_count, sqrt_bounds
from tacit.mechanisms.base import LARGEST_VALUE

#: Binary digits that the grid has below the smaller of sensitivity and noise, for a single number.
RESOLUTION: Final = 24

#: Steps must be normal floats, and 2⁶³ of them must still be finite.
_SMALLEST_EXPONENT: Final = -1022
_LARGEST_EXPONENT: Final = 1023 - 64


@dataclass(frozen=True)
class Grid:
    """All multiples of ``2**exponent``.

    Args:
        exponent: binary exponent of the step, from -1022 to 959, so that every point of the grid is a normal float.
    """

    exponent: int

    def __post_init__(self) -> None:
        if not _SMALLEST_EXPONENT <= self.exponent <= _LARGEST_EXPONENT:
            raise InputError(
                "exponent",
                f"a step of 2**{self.exponent} is too small or too large for floats; "
                "measure in other units so that sensitivity and noise are of ordinary size",
            )

    @classmethod
    def for_scale(cls, scale: Fraction, dimension: int = 1) -> Grid:
        """Return the grid for noise (or a sensitivity) of size ``scale``: at least 2²⁴·√dimension steps per ``scale``.

        With that many steps the rounding of all coordinates together is small relative to the scale, and values up to
        2³⁸ times the scale still fit.
        """
        extra = -(-(check_count(dimension, "dimension") - 1).bit_length() // 2)
        return cls(_floor_log2(scale) - RESOLUTION - extra)

    @classmethod
    def for_noise(cls, noise: Fraction, sensitivity: Fraction, dimension: int, largest_noise: int) -> Grid:
        """Return the grid for the smaller of ``noise`` and ``sensitivity``, or a coarser one.

        On the coarser grid the noise stays below ``largest_noise`` steps. It is needed only where the noise is many
        thousand times the sensitivity, and costs accuracy, not privacy.
        """
        fine = cls.for_scale(min(noise, sensitivity), dimension)
        # Two bits to spare: one for the floor of the logarithm, one for the enlargement by rounding.
        return cls(max(fine.exponent, _floor_log2(noise / largest_noise) + 2))

    @property
    def step(self) -> Fraction:
        """Distance between neighbouring points."""
        return Fraction(2) ** self.exponent

    def to_units(self, values: NDArray[np.float64], parameter: str = "value") -> NDArray[np.int64]:
        """Return, for each value, the nearest grid point as a number of steps; ties to even.

        Division by a power of two is exact in floats unless it underflows, and then the multiple is 0 either way.
        """
        with np.errstate(over="ignore", under="ignore"):
            units = np.rint(np.ldexp(values, -self.exponent))
        # Also true of NaN and infinities, which have no multiple.
        if not (np.abs(units) <= LARGEST_VALUE).all():
            raise self._refusal(parameter)
        return units.astype(np.int64)

    def to_floats(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return numbers of steps as floats: exact up to 2⁵³ steps, beyond that the nearest float.

        The nearest float of so large an integer is an integer again, so the result is always on the grid.
        """
        return np.ldexp(units.astype(np.float64), self.exponent)

    def to_unit(self, value: float, parameter: str = "value") -> int:
        """Return :meth:`to_units` of one number."""
        try:
            scaled = math.ldexp(value, -self.exponent)
        except OverflowError:
            scaled = math.inf
        if not abs(scaled) <= LARGEST_VALUE:
            raise self._refusal(parameter)
        return round(scaled)

    def to_float(self, unit: int) -> float:
        """Return :meth:`to_floats` of one number, which may exceed an int64 but not the range of floats."""
        try:
            return math.ldexp(float(unit), self.exponent)
        except OverflowError:
            raise InputError("value", "left the range of floats; measure in other units") from None

    def l1_sensitivity(self, l1_sensitivity: Fraction, dimension: int = 1) -> int:
        """Return the l1 sensitivity of rounded vectors, in steps: ⌊Δ/step⌋ + d."""
        return math.floor(l1_sensitivity / self.step) + dimension

    def l2_squared(self, l2_squared: Fraction, dimension: int = 1) -> int:
        """Return the squared l2 sensitivity of rounded vectors, in steps²: ⌊(Δ/step + √d)²⌋."""
        moved = l2_squared / self.step**2
        return math.floor(moved + dimension + 2 * sqrt_bounds(moved * dimension)[1])

    def _refusal(self, parameter: str) -> InputError:
        return InputError(
            parameter, f"must be finite and at most 2**{self.exponent + 62} in size here; clamp to public bounds"
        )


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1
