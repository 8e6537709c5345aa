"""Feature map: public map from values to integer rows, and the paid survey that centres it.

A linear model under noise wants rows of equal length around the origin: the noise is paid per unit of length, and a
common direction of all rows hides the differences that matter. So values are measured between their bounds, each row is
brought to one length, the noisy mean of all rows is taken off, and what is left is brought to one length again. Given
the mean, which is released with noise and paid for, the map is public and acts on every row by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest
from tacit.learn import release
from tacit.learn.budget_allocation import Phase
from tacit.learn.integer_rows import FINE, UNIT, Box, Integers, beside_bias, exact_product, join_bias, scale_rows

__all__ = ["BIAS", "RowMap", "Survey", "Surveyed"]

#: The constant column beside the features, a tenth of a row's norm.
BIAS: Final = UNIT // 10
#: The constant column while rows are counted: a third of the norm, because a count that is off spoils the mean as well.
_COUNTING: Final = UNIT // 3


@dataclass(frozen=True)
class RowMap:
    """From values to finished rows of norm at most UNIT.

    Attributes:
        box: where the values lie.
        normalize: whether every row is brought to one length; otherwise longer ones are only cut down to it.
        center: the public mean to take off, in steps of 1/UNIT, or None.
        renormalize: the same once the mean is off; as before if left out.
        bias: the constant column, 0 for none.
    """

    box: Box
    normalize: bool = True
    center: tuple[int, ...] | None = None
    bias: int = BIAS
    renormalize: bool | None = None

    def directions(self, values: NDArray[np.float64], norm: int) -> Integers:
        """Rows of norm at most ``norm`` before anything was taken off."""
        self.box.check_columns(values.shape[1])
        # The corner of the box, or the declared ball, has the norm of one unit.
        corner = FINE if self.box.ball else FINE * (math.isqrt(max(values.shape[1] - 1, 0)) + 1)
        return scale_rows(self.box.to_steps(values), norm, smallest=0 if self.normalize else corner)

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Finished rows, as whole floats; the constant column is the last one."""
        room = beside_bias(self.bias)
        if self.center is None:
            rows = self.directions(values, room)
        else:
            shifted = self.directions(values, UNIT) - np.array(self.center, dtype=np.int64)
            again = self.normalize if self.renormalize is None else self.renormalize
            rows = scale_rows(shifted, room, smallest=0 if again else UNIT)
        finished = join_bias(rows, self.bias) if self.bias else rows
        return cast("NDArray[np.float64]", finished.astype(np.float64))


@dataclass(frozen=True)
class Surveyed:
    """Results of a survey, with noise."""

    center: tuple[int, ...] | None
    rows_estimate: float


@dataclass(frozen=True)
class Survey:
    """The first release of a fit: the sum of all rows, and how many there are unless that is declared.

    Attributes:
        centers: whether the sum of the rows is wanted.
        rows: the declared number of rows, or None to pay for a noisy count.
    """

    centers: bool
    rows: int | None

    def phase(self, columns: int) -> Phase | None:
        """Cost of the survey, or None if there is nothing to find out."""
        dimension = (columns if self.centers else 0) + (1 if self.rows is None else 0)
        if not dimension:
            return None
        share = Fraction(1, 50) if not self.centers else Fraction(1, 10) if self.rows else Fraction(1, 5)
        return Phase("survey", UNIT**2, dimension, share)

    def run(self, row_map: RowMap, values: NDArray[np.float64], sigma2: Fraction | None) -> Surveyed:
        """The noisy sums, turned into a mean and a count."""
        if sigma2 is None:
            return Surveyed(None, float(self.rows or 1))
        noisy = release.release_gaussian(self.raw_sums(row_map, values), sigma2)
        sigma = math.sqrt(float_nearest(sigma2))
        if self.rows is not None:
            count = float(self.rows)
        else:
            bias = _COUNTING if self.centers else UNIT
            # Less than its own noise is no count at all.
            count = max(float(noisy[-1]) / bias, sigma / bias, 1.0)
            noisy = noisy[:-1]
        return Surveyed(self._center(noisy / count, sigma / count) if self.centers else None, count)

    def raw_sums(self, row_map: RowMap, values: NDArray[np.float64]) -> Integers:
        """The sums before noise, exactly; no row moves them by more than UNIT."""
        if not self.centers:
            return np.array([len(values) * UNIT], dtype=np.int64)
        bias = _COUNTING if self.rows is None else 0
        rows = row_map.directions(values, beside_bias(bias))
        joined = (join_bias(rows, bias) if bias else rows).astype(np.float64)
        return exact_product(np.ones((len(joined), 1)), joined, UNIT).ravel()

    def _center(self, mean: NDArray[np.float64], noise: float) -> tuple[int, ...]:
        """The mean, pulled towards zero as far as it may be noise (James and Stein), in steps of 1/UNIT."""
        square = float(mean @ mean)
        pull = max(1 - max(mean.size - 2, 0) * noise**2 / square, 0.0) if square else 0.0
        scale = pull * UNIT / (UNIT if self.rows is not None else beside_bias(_COUNTING))
        size = math.sqrt(square) * scale
        # A mean of rows of one length is not longer than that.
        scale *= min(1.0, UNIT / size) if size else 1.0
        return tuple(int(value) for value in np.rint(mean * scale))
