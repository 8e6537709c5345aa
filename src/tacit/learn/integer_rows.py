"""Integer rows of exactly bounded norm from tables of floats, and their relative weights.

Every private fit first maps its rows here. Each value is clipped to its public bounds and rounded to a public grid; a
row of these integers is then scaled to a public norm by integer arithmetic. The integers of a row depend on that row
and on public numbers alone, bit for bit, for any order of the table, number of rows, memory layout and number of
threads. ``integer_rows.proof.md`` has the proof.

*Values that are not numbers.* NaN and both infinities count as the midpoint of the bounds (0 where only a norm is
declared). Finite values outside the bounds are clipped to them.

*Weights.* A weight is clipped to 0 … ``max_weight`` and becomes a whole number of 1024ths of it; a class has a declared
weight. A row's contribution to a sum is multiplied by its share, rounded towards zero, so it is no longer than that of
an unweighted row, for any weights of the remaining rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, float_nearest
from tacit.core.sensitivity import check_bounds

#: Array of int64.
Integers = NDArray[np.int64]

#: Number of integer steps from the midpoint of the bounds to either end.
FINE: Final = 1 << 20
#: Largest norm of a mapped row, in integer steps; a norm of one in the model's units.
UNIT: Final = 1 << 14
#: Largest number of columns with which a squared norm fits an int64.
MOST_COLUMNS: Final = 1 << 20
#: Largest absolute bound; its inverse is the least width, so that floats neither overflow nor vanish.
_LARGEST_BOUND: Final = 10**150
#: Largest integer up to which floats represent all integers.
_EXACT: Final = 1 << 53
#: Clipping bound of a sum over all rows.
_LARGEST_TOTAL: Final = 1 << 62


@dataclass(frozen=True)
class Box:
    """Declared domain of the features: bounds, one pair for all columns or one pair each, or a largest norm.

    Args:
        low, high: bounds as exact numbers, one for all columns or one per column.
        ball: True if a norm was declared: rows are then scaled by it instead of by a corner of the box.
    """

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    ball: bool = False

    @classmethod
    def read(cls, bounds: object, data_norm: Number | None) -> Box:
        """Return the box of an estimator's arguments; exactly one of the two must be given."""
        if (bounds is None) == (data_norm is None):
            raise InputError("bounds", "must be given, or data_norm instead; one of the two and not both")
        if data_norm is not None:
            norm = exact_positive(data_norm, "data_norm")
            return cls((-norm,), (norm,), ball=True)
        pairs = _pairs(bounds)
        return cls(tuple(low for low, _ in pairs), tuple(high for _, high in pairs))

    def __post_init__(self) -> None:
        largest = max(abs(end) for end in (*self.low, *self.high))
        narrowest = min((b - a for a, b in zip(self.low, self.high, strict=True) if b > a), default=Fraction(1))
        if largest > _LARGEST_BOUND or narrowest < 1 / _LARGEST_BOUND:
            raise InputError("bounds", "must be of ordinary size, and so must the room between them; use other units")

    def check_columns(self, columns: int) -> None:
        """Refuse a table with a different number of columns than the bounds; the number of columns is public."""
        if len(self.low) not in (1, columns):
            raise InputError("bounds", f"describe {len(self.low)} columns, but the data has {columns}")
        if columns > MOST_COLUMNS:
            raise InputError("X", f"has {columns} columns; at most {MOST_COLUMNS} can be used")

    @property
    def middle(self) -> NDArray[np.float64]:
        """Midpoints of the bounds, as floats: one for all columns, or one per column."""
        return np.array([float_nearest((a + b) / 2) for a, b in zip(self.low, self.high, strict=True)])

    @property
    def half_width(self) -> NDArray[np.float64]:
        """Half the width of the bounds, as floats; 1 where they coincide, because the column is then constant."""
        return np.array([float_nearest((b - a) / 2) or 1.0 for a, b in zip(self.low, self.high, strict=True)])

    def to_steps(self, values: NDArray[np.float64]) -> Integers:
        """Return each clipped value as an integer number of steps from its midpoint, between -FINE and FINE."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            scaled = (values - self.middle) / self.half_width
        # A finite value whose scaling overflows is clipped like a large value; NaN and infinities become the midpoint.
        scaled = np.where(np.isfinite(values), np.clip(scaled, -1.0, 1.0), 0.0)
        # No NaN should be left, but one would become a huge integer, so this is enforced.
        scaled[np.isnan(scaled)] = 0.0
        return cast("Integers", np.rint(scaled * FINE).astype(np.int64))

    def from_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers from [-1, 1] converted to the units of the data."""
        return self.middle + values * self.half_width


def square_norms(rows: Integers) -> Integers:
    """Return the exact square of each row's norm."""
    return cast("Integers", np.einsum("ij,ij->i", rows, rows))


def ceil_sqrt(values: Integers) -> Integers:
    """Return ⌈√value⌉ exactly, for values from 0 to 2⁶²."""
    root = np.sqrt(values.astype(np.float64)).astype(np.int64)
    # The float root is off by at most one either way; comparing squares of integers decides.
    root -= root * root >= values
    root += root * root < values
    root += root * root < values
    return cast("Integers", np.maximum(root, 0))


def scale_rows(rows: Integers, norm: int, *, smallest: int = 0) -> Integers:
    """Return each row times norm/max(‖row‖, smallest), rounded towards zero.

    No result has a norm above ``norm``: the divisor is at least the row's norm, and rounding towards zero shortens.
    With ``smallest`` = 0 every row is scaled to ``norm``; a row of zeros is unchanged.
    """
    divisor = np.maximum(ceil_sqrt(square_norms(rows)), max(smallest, 1))[:, None]
    return cast("Integers", np.sign(rows) * (np.abs(rows) * norm // divisor))


def join_bias(rows: Integers, bias: int) -> Integers:
    """Return the rows with a constant column ``bias`` appended."""
    return np.hstack([rows, np.full((len(rows), 1), bias, dtype=np.int64)])


def beside_bias(bias: int, norm: int = UNIT) -> int:
    """Return ⌊√(norm² - bias²)⌋, the largest norm of features with which a row with bias is at most ``norm``."""
    return math.isqrt(norm * norm - bias * bias)


def exact_product(left: NDArray[np.float64], right: NDArray[np.float64], largest: int) -> Integers:
    """Return leftᵀ·right exactly, for integer-valued floats; each product in one row is at most ``largest``.

    Floats add integers without error below 2⁵³, in any order and on any number of threads, so the fast matrix product
    is exact for blocks of rows that stay below; blocks are added as int64 or, where they could overflow, as Python
    integers. A total beyond ±2⁶² is clipped, which does not increase the sensitivity.
    """
    block = max(_EXACT // max(largest, 1), 1)
    total: NDArray[Any] = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    if len(left) * largest >= _LARGEST_TOTAL:
        total = total.astype(object)
    for start in range(0, len(left), block):
        total += (left[start : start + block].T @ right[start : start + block]).astype(np.int64)
    return np.clip(total, -_LARGEST_TOTAL, _LARGEST_TOTAL).astype(np.int64) if total.dtype == object else total


def _pairs(bounds: object) -> list[tuple[Fraction, Fraction]]:
    if isinstance(bounds, np.ndarray):
        bounds = bounds.tolist()
    if not isinstance(bounds, Sequence) or isinstance(bounds, str | bytes) or not bounds:
        raise InputError("bounds", "must be a pair (lower, upper), or a list of such pairs, one per column")
    listed = list(bounds)
    if not isinstance(listed[0], Sequence | np.ndarray) or isinstance(listed[0], str | bytes):
        return [check_bounds(cast("tuple[Number, Number]", tuple(listed)))]
    if not all(isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, str | bytes) for pair in listed):
        raise InputError("bounds", "must be a pair (lower, upper), or a list of such pairs, one per column")
    return [check_bounds(cast("tuple[Number, Number]", tuple(pair))) for pair in listed]


#: Number of integer steps of a full weight.
SHARES: Final = 1 << 10


def shared(parts: Integers, shares: Integers | None) -> Integers:
    """Return rows' contributions times their relative weights, rounded towards zero, so that none gets longer."""
    if shares is None:
        return parts
    return cast("Integers", np.sign(parts) * (np.abs(parts) * shares[:, None] // SHARES))


def shared_squares(rows: Integers, shares: Integers | None) -> Integers:
    """Return rows times the square roots of their relative weights, rounded towards zero, for second moments."""
    if shares is None:
        return rows
    roots = _roots()[shares][:, None]
    return cast("Integers", np.sign(rows) * (np.abs(rows) * roots // SHARES))


@cache
def _roots() -> Integers:
    """Return the public table of √share for every relative weight, rounded down to steps of 1/SHARES."""
    return np.array([math.isqrt(share * SHARES) for share in range(SHARES + 1)], dtype=np.int64)
