"""Integer rows of exactly bounded norm from tables of floats, and their shares by weight.

Everything a private fit does to raw data starts here. A value is clipped to its public bounds and rounded to a public
grid, one by one; a row of such integers is then shrunk (or stretched) to a public norm by integer arithmetic. The
integers of a row depend on that row and on public numbers alone, bit for bit, whatever the order of the table, the
number of its rows, the memory layout or the number of threads. ``integer_rows.proof.md`` has the argument.

*Values that are not numbers.* NaN and both infinities count as the midpoint of the bounds (0 where only a norm is
declared). Finite values outside the bounds are clipped to them.

*Weights.* A weight is clipped to 0 … ``max_weight`` and becomes a whole number of 1024ths of it; a class has a declared
weight. Sums take a row's part times its share, rounded towards zero, so a weighted row adds a vector that is no longer
than that of the row without a weight, whatever the weights of other rows are.
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

#: Integers held in int64.
Integers = NDArray[np.int64]

#: Steps from the midpoint of a bound to either end.
FINE: Final = 1 << 20
#: The norm that a finished row has at most; weights meet rows in units of it.
UNIT: Final = 1 << 14
#: More columns than this and a norm might not fit an int64.
MOST_COLUMNS: Final = 1 << 20
#: Bounds of at most this size, and at least its inverse apart, are ordinary floats with room to spare.
_LARGEST_BOUND: Final = 10**150
#: Floats hold every integer up to here.
_EXACT: Final = 1 << 53
#: The largest sum over all rows that is not cut.
_LARGEST_TOTAL: Final = 1 << 62


@dataclass(frozen=True)
class Box:
    """Domain of the features: between bounds, one pair for all columns or one pair each, or within a norm.

    Args:
        low, high: the bounds as exact numbers, one each or one for all columns.
        ball: True where a norm was declared, so that rows are measured by it and not by the box around it.
    """

    low: tuple[Fraction, ...]
    high: tuple[Fraction, ...]
    ball: bool = False

    @classmethod
    def read(cls, bounds: object, data_norm: Number | None) -> Box:
        """The box that the arguments of an estimator describe; exactly one of them must be given."""
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
        """Refuse a table that the bounds do not describe; the number of columns is public."""
        if len(self.low) not in (1, columns):
            raise InputError("bounds", f"describe {len(self.low)} columns, but the data has {columns}")
        if columns > MOST_COLUMNS:
            raise InputError("X", f"has {columns} columns; at most {MOST_COLUMNS} can be used")

    @property
    def middle(self) -> NDArray[np.float64]:
        """The midpoints, as floats: one for all columns, or one each."""
        return np.array([float_nearest((a + b) / 2) for a, b in zip(self.low, self.high, strict=True)])

    @property
    def half_width(self) -> NDArray[np.float64]:
        """Half the distance of the bounds, as floats; 1 where they coincide, since the column then says nothing."""
        return np.array([float_nearest((b - a) / 2) or 1.0 for a, b in zip(self.low, self.high, strict=True)])

    def to_steps(self, values: NDArray[np.float64]) -> Integers:
        """Each value as a whole number of steps from its midpoint, between -FINE and FINE."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            scaled = (values - self.middle) / self.half_width
        # An overflow on the way is beyond the bounds like any large value; what was no number at all is the midpoint.
        scaled = np.where(np.isfinite(values), np.clip(scaled, -1.0, 1.0), 0.0)
        # Nothing is NaN here, but a NaN would become a huge integer, so this does not rest on an argument.
        scaled[np.isnan(scaled)] = 0.0
        return cast("Integers", np.rint(scaled * FINE).astype(np.int64))

    def from_unit(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers between -1 and 1 in the units of the data again."""
        return self.middle + values * self.half_width


def square_norms(rows: Integers) -> Integers:
    """The square of each row's norm, exactly."""
    return cast("Integers", np.einsum("ij,ij->i", rows, rows))


def ceil_sqrt(values: Integers) -> Integers:
    """The smallest integer whose square is not below each value, exactly, for values from 0 to 2⁶²."""
    root = np.sqrt(values.astype(np.float64)).astype(np.int64)
    # The float root is off by at most one either way; comparing squares of integers decides.
    root -= root * root >= values
    root += root * root < values
    root += root * root < values
    return cast("Integers", np.maximum(root, 0))


def scale_rows(rows: Integers, norm: int, *, smallest: int = 0) -> Integers:
    """Rows times ``norm`` over their own norm, or over ``smallest`` where that is larger, rounded towards zero.

    Whatever the rows, no result has a norm above ``norm``: the divisor is at least the row's norm, and rounding
    towards zero shortens. With ``smallest`` = 0 every row is stretched or shrunk to ``norm``; a row of zeros stays.
    """
    divisor = np.maximum(ceil_sqrt(square_norms(rows)), max(smallest, 1))[:, None]
    return cast("Integers", np.sign(rows) * (np.abs(rows) * norm // divisor))


def join_bias(rows: Integers, bias: int) -> Integers:
    """The rows with one more column that is ``bias`` everywhere."""
    return np.hstack([rows, np.full((len(rows), 1), bias, dtype=np.int64)])


def beside_bias(bias: int, norm: int = UNIT) -> int:
    """The norm that is left for the features of a row of ``norm`` once the bias is taken."""
    return math.isqrt(norm * norm - bias * bias)


def exact_product(left: NDArray[np.float64], right: NDArray[np.float64], largest: int) -> Integers:
    """leftᵀ·right for matrices of whole floats, exactly; no sum of up to one row's products exceeds ``largest``.

    Floats add integers without error below 2⁵³, in any order and on any number of threads, so the fast matrix product
    is exact as long as the rows are taken in blocks that stay below; blocks are added as int64, and where so many rows
    could exceed that, as Python's integers. A total beyond ±2⁶² is cut to it, which moves it no further for one row.
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


#: Steps of a whole row's weight.
SHARES: Final = 1 << 10


def shared(parts: Integers, shares: Integers | None) -> Integers:
    """Parts of rows times their shares, rounded towards zero; no row grows."""
    if shares is None:
        return parts
    return cast("Integers", np.sign(parts) * (np.abs(parts) * shares[:, None] // SHARES))


def shared_squares(rows: Integers, shares: Integers | None) -> Integers:
    """Rows times the roots of their shares, rounded towards zero: their products are shared by the weight."""
    if shares is None:
        return rows
    roots = _roots()[shares][:, None]
    return cast("Integers", np.sign(rows) * (np.abs(rows) * roots // SHARES))


@cache
def _roots() -> Integers:
    """⌊√(share)⌋ on the grid of shares, for every share: a public table."""
    return np.array([math.isqrt(share * SHARES) for share in range(SHARES + 1)], dtype=np.int64)
