"""Maps from values to integer rows: a noisy survey, whitening by noisy moments, and affine maps of integers.

A survey releases the sum of the rows' directions and a histogram of their norms. Centre, typical norm and number of
rows follow from it. Later maps are affine: a public centre is subtracted, a public matrix of integers is applied, and
the result is an integer row, by exact arithmetic on that row alone. No map scales a row by its own norm, so a model of
mapped rows is a model of the values. The one exception is :class:`RowMap` with ``normalize``, for fits without a
survey.

Isotropic noise is proportional to the norm of rows, so it dominates in directions of small variance. One release of
second moments of surveyed rows gives the covariance Σ; rows are mapped to (Σ + f)^(-½)·(x - c), where f is the size of
the noise in Σ: directions with variance above the noise are whitened, the rest stays unchanged. All of it is computed
from noisy numbers.
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
from tacit.learn.integer_rows import (
    FINE,
    UNIT,
    Box,
    Integers,
    beside_bias,
    ceil_sqrt,
    exact_product,
    join_bias,
    scale_rows,
    shared,
    shared_squares,
    square_norms,
)
from tacit.learn.moments import SecondMoments
from tacit.learn.release import Phase, Spent

#: Constant column appended to the features of an unsurveyed row: a tenth of a row's norm.
BIAS: Final = UNIT // 10
#: Largest norm of a row of an affine map, in units of UNIT; products of such rows and weights are exact.
LONGEST_ROW: Final = 16
#: Contribution of a row to the histogram of norms, in integer steps.
_COUNTING: Final = UNIT // 3
#: Number of bins of the histogram of norms; the upper edge of each is half of that of the previous one.
_LENGTHS: Final = 8
#: Rows of the integer matrix of an affine map have sums of absolute values of at most 2³⁰.
_MATRIX_BITS: Final = 30
#: Largest absolute entry of a mapped row, so that squares of norms fit an int64.
_LARGEST_ENTRY: Final = 1 << 20
#: Least number of entries that are shrunk towards their mean.
_MANY: Final = 8


@dataclass(frozen=True)
class RowMap:
    """Map from values to rows of norm at most UNIT, without a survey.

    Attributes:
        box: declared bounds of the values.
        normalize: whether every row is scaled to one norm; otherwise a corner of the box has the norm UNIT.
        bias: value of the constant column, 0 for none.
    """

    box: Box
    normalize: bool = True
    bias: int = BIAS

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mapped rows, as floats with integer values; the constant column is the last one."""
        columns = values.shape[1]
        self.box.check_columns(columns)
        smallest = 0 if self.normalize else corner(self.box, columns)
        rows = scale_rows(self.box.to_steps(values), beside_bias(self.bias), smallest=smallest)
        finished = join_bias(rows, self.bias) if self.bias else rows
        return cast("NDArray[np.float64]", finished.astype(np.float64))


@dataclass(frozen=True, eq=False)
class AffineMap:
    """Exact map from integer steps x within the bounds to rows ⌊K(x - c)⌋ with a constant appended.

    Attributes:
        center: c, in steps of the box, between -FINE and FINE.
        matrix: K·2^shift, integers, one line per column of the result.
        shift: number of binary digits dropped from the product.
        constant: value of the last column.
        longest: norm that a row without its constant is clipped to, in steps.
    """

    center: Integers
    matrix: NDArray[np.float64]
    shift: int
    constant: int
    longest: int

    @classmethod
    def of(cls, center: NDArray[np.float64], matrix: NDArray[np.float64], radius: float) -> AffineMap:
        """Return the map z = matrix·(x - center) for x in [-1, 1], to rows of norm UNIT where ‖(z, 1)‖ = radius.

        Rows longer than :data:`LONGEST_ROW` times UNIT are clipped to that norm.

        Args:
            center: centre, between -1 and 1 in every column.
            matrix: matrix of public numbers.
            radius: norm of (z, 1) that is mapped to UNIT.
        """
        constant = min(max(round(UNIT / radius), 1), UNIT // 2)
        # The constant is an exact integer, so the rest of the row is scaled relative to it.
        wanted = matrix * (constant / FINE)
        largest = float(np.abs(wanted).sum(axis=1).max(initial=0.0))
        wanted *= min(1.0, 2.0**_MATRIX_BITS / max(largest, 1.0))
        shift = min(max(_MATRIX_BITS - math.ceil(math.log2(max(largest, 1e-9))), 0), 60)
        whole = np.rint(wanted * 2.0**shift)
        steps = np.rint(np.clip(center, -1.0, 1.0) * FINE).astype(np.int64)
        return cls(steps, whole, shift, constant, LONGEST_ROW * UNIT - UNIT)

    def __call__(self, steps: Integers) -> NDArray[np.float64]:
        """Return the mapped rows, as floats with integer values; the constant column is the last one."""
        product = (steps - self.center).astype(np.float64) @ self.matrix.T
        rows = np.clip(product.astype(np.int64) >> self.shift, -_LARGEST_ENTRY, _LARGEST_ENTRY)
        finished = join_bias(scale_rows(rows, self.longest, smallest=self.longest), self.constant)
        return cast("NDArray[np.float64]", finished.astype(np.float64))

    def unmapped(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coefficients of values in [-1, 1], one column per output, and constants, from mapped rows' weights."""
        slopes = self.matrix.T @ weights[:-1] * (FINE / 2.0**self.shift / UNIT)
        return slopes, weights[-1] * (self.constant / UNIT) - (self.center / FINE) @ slopes


@dataclass(frozen=True, eq=False)
class Surveyed:
    """Estimates of a survey, from noisy sums.

    Attributes:
        center: centre of the rows, between -1 and 1 in every column.
        spread: approximate root mean square distance of rows from the centre.
        rows_estimate: approximate number of rows.
    """

    center: NDArray[np.float64]
    spread: float
    rows_estimate: float


@dataclass(frozen=True)
class Survey:
    """First release of a fit: the sum of the rows' directions, and a histogram of their norms.

    Attributes:
        columns: number of columns of a row.
        ball: whether a norm was declared, so that no row has a norm above 1.
        rows: declared number of rows, or None to estimate it from the histogram.
    """

    columns: int
    ball: bool
    rows: int | None

    def phase(self, share: Fraction) -> Phase:
        """Return the release of the survey."""
        return Phase("survey", UNIT**2, self.columns + _LENGTHS, share)

    def raw_sums(self, steps: Integers, shares: Integers | None = None) -> Integers:
        """Return the exact sums before noise; a row adds at most UNIT in norm, less with a weight below one."""
        lengths = ceil_sqrt(square_norms(steps))
        # Bin 0 holds the longest rows; no row within the bounds is longer than the corner.
        places = np.minimum((lengths[:, None] <= np.array(self._edges[1:])).sum(axis=1), _LENGTHS - 1)
        members = (places[:, None] == np.arange(_LENGTHS)).astype(np.int64) * _COUNTING
        joined = shared(np.hstack([scale_rows(steps, beside_bias(_COUNTING)), members]), shares).astype(np.float64)
        return exact_product(np.ones((len(joined), 1)), joined, UNIT).ravel()

    def run(
        self, steps: Integers, sigma2: Fraction, shares: Integers | None = None, *, common: bool = False
    ) -> Surveyed:
        """Release the sums; return centre, spread and number of rows. For ``common`` see :func:`shrink_to_noise`."""
        noisy = release.release_gaussian(self.raw_sums(steps, shares), sigma2)
        sigma = math.sqrt(float_nearest(sigma2))
        counts = noisy[self.columns :] / _COUNTING
        # A count below its noise is replaced by its noise.
        rows = max(float(self.rows or counts.sum()), sigma / _COUNTING, 1.0)
        directions = noisy[: self.columns] / rows / beside_bias(_COUNTING)
        mean = shrink_to_noise(directions, sigma / rows / UNIT, common=common)
        size = float(np.linalg.norm(mean))
        length = self._length(counts, 3 * sigma / _COUNTING)
        # A mean of directions has a norm of at most one; for rows of one norm the rest of the square is the spread.
        center = np.clip(mean * (length / max(size, 1.0)), -1.0, 1.0)
        return Surveyed(center, length * math.sqrt(max(1 - min(size, 1.0) ** 2, 0.01)), rows)

    @property
    def _edges(self) -> list[int]:
        longest = FINE if self.ball else FINE * (math.isqrt(max(self.columns - 1, 0)) + 1)
        return [longest >> place for place in range(_LENGTHS)]

    def _length(self, counts: NDArray[np.float64], noise: float) -> float:
        """Return the root mean square of the norms, without bins whose counts are within the noise."""
        believed = np.where(counts > noise, counts, 0.0)
        if not believed.any():
            # No bin is above the noise: guess half of a corner.
            believed[1] = 1.0
        middles = np.array(self._edges) / FINE * math.sqrt(0.5)
        return math.sqrt(float(believed @ middles**2) / float(believed.sum()))


def shrink_to_noise(mean: NDArray[np.float64], noise: float, *, common: bool = False) -> NDArray[np.float64]:
    """Shrink a noisy vector towards zero by the James-Stein estimator.

    Args:
        mean: noisy vector.
        noise: standard deviation of the noise of each entry.
        common: whether to shrink the entries towards their mean, and that towards zero (Lindley), if there are enough
            of them. Bounds of amounts lie far above most values, so that all entries are often equally far from zero;
            their mean has less noise than any entry.
    """
    if not common or mean.size < _MANY:
        return mean * _part(float(mean @ mean), max(mean.size - 2, 0) * noise**2)
    middle = float(mean.mean())
    apart = mean - middle
    level = middle * _part(mean.size * middle**2, noise**2)
    return level + apart * _part(float(apart @ apart), (mean.size - 3) * noise**2)


def _part(size: float, noise: float) -> float:
    """Return the James-Stein factor max(0, 1 - noise/size) of a squared norm."""
    return max(1 - noise / size, 0.0) if size > 0 else 0.0


def corner(box: Box, columns: int) -> int:
    """Return the norm of a corner of the box, or of the declared ball, in integer steps, rounded up."""
    return FINE if box.ball else FINE * (math.isqrt(max(columns - 1, 0)) + 1)


#: Constant appended to rows in second moments, in integer steps.
_CONSTANT: Final = UNIT // 3
#: Clipping radius of rows in second moments that only whiten, in units of the surveyed spread.
_REACH: Final = 1.5
#: Least and largest clipping radius in second moments that are the model itself, in units of the surveyed spread.
_SHORTEST: Final = 0.3
_LONGEST: Final = 6.0
#: Floor of the eigenvalues where all are noise, in units of their noise, √columns times that of an entry.
_FLOOR: Final = 4.0
#: Shares of the privacy for the survey and for the second moments.
_SURVEY_SHARE: Final = Fraction(1, 10)
_MOMENTS_SHARE: Final = Fraction(1, 10)
#: Largest number of columns for which covariances, and not only variances, are released to whiten.
_MOST_COLUMNS: Final = 512

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Centre and covariance of rows scaled to [-1, 1], from noisy moments.

    Attributes:
        center: mean of the rows.
        matrix: covariance, symmetric, not always positive semidefinite.
        noise: standard deviation of the noise of an entry of the covariance.
        rows_estimate: approximate number of rows.
        floor: constant added to the eigenvalues: the noise of the covariance, as an eigenvalue, times ``margin``.
        spread: approximate root mean square distance of rows from the centre.
        margin: ratio of the floor to the noise.
    """

    center: Floats
    matrix: Floats
    noise: float
    rows_estimate: float
    floor: float
    spread: float
    margin: float

    def part(self, columns: int) -> Covariance:
        """Return the covariance of the first ``columns`` columns."""
        matrix = self.matrix[:columns, :columns]
        return Covariance(
            self.center[:columns], matrix, self.noise, self.rows_estimate, self.floor, self.spread, self.margin
        )

    @property
    def variances(self) -> Floats:
        """Variances of the columns, at least the noise."""
        return np.maximum(np.diag(self.matrix), self.noise) + 1e-12

    def whitener(self) -> tuple[Floats, float]:
        """Return the multiple of (Σ + f)^(-½) that maps rows to an average variance of one per column, and a bound.

        The bound is on the mean square of mapped rows in any one direction.
        """
        sizes, axes = np.linalg.eigh((self.matrix + self.matrix.T) / 2)
        positive, columns = np.maximum(sizes, 0.0), len(sizes)
        kept = positive + self.floor
        square = min(max(float(np.sum(positive / kept)), self.spread**2 / float(kept.max())), columns)
        factor = columns / max(square, 1e-6)
        largest = factor * float(((positive + self.floor / self.margin) / kept).max())
        return (axes * np.sqrt(factor / kept)).T, min(max(largest, 1.0), columns)


@dataclass(frozen=True)
class Whitening:
    """Releases before the model: a survey, then second moments of centred rows.

    Attributes:
        survey: survey of centre, spread and number of rows.
        final: whether the covariance is the model itself and takes all the privacy; otherwise it only whitens.
    """

    survey: Survey
    final: bool = False

    @property
    def diagonal(self) -> bool:
        """Whether only variances are released."""
        return self.survey.columns > _MOST_COLUMNS and not self.final

    @property
    def moments(self) -> SecondMoments:
        """Release of the second moments."""
        return SecondMoments(self.survey.columns + 1, diagonal=self.diagonal)

    def phases(self) -> list[Phase]:
        """Return the two releases, with their shares of the privacy."""
        share = 1 - _SURVEY_SHARE if self.final else _MOMENTS_SHARE
        return [self.survey.phase(_SURVEY_SHARE), self.moments.phase(share)]

    def run(self, steps: Integers, spent: Spent, shares: Integers | None = None) -> Covariance:
        """Release survey and second moments of rows in integer steps; return their centre and covariance."""
        found = self.survey.run(steps, spent.of("survey"), shares, common=not self.final)
        sigma2 = spent.of("second moments")
        noise = math.sqrt(float_nearest(sigma2)) / UNIT**2
        reach = self._reach(noise * math.sqrt(self.survey.columns) / found.rows_estimate)
        radius = max(reach * found.spread, 1e-6)
        noisy = self.moments.release(centred_rows(steps, found.center, radius, _CONSTANT, shares), sigma2)
        return _covariance(self, noisy, noise, found, radius)

    def _reach(self, ratio: float) -> float:
        """Return the clipping radius of rows, in units of the spread, for a ratio of noise to rows."""
        if not self.final:
            return _REACH
        return float(min(max(_SHORTEST * (0.2 / max(ratio, 1e-12)) ** 0.3, _SHORTEST), _LONGEST))


def centred_rows(
    steps: Integers, center: Floats, radius: float, constant: int, shares: Integers | None = None
) -> Floats:
    """Return rows x - c, clipped to ``radius``, with a constant appended: integer-valued floats of norm <= UNIT."""
    shifted = steps - np.rint(center * FINE).astype(np.int64)
    cut = scale_rows(shifted, beside_bias(constant), smallest=max(math.ceil(radius * FINE), 1))
    return shared_squares(join_bias(cut, constant), shares).astype(np.float64)


def _covariance(plan: Whitening, noisy: Floats, noise: float, found: Surveyed, radius: float) -> Covariance:
    constant, unit = _CONSTANT / UNIT, beside_bias(_CONSTANT) / UNIT / radius
    # Average of two about equally noisy counts; a count below its noise is replaced by its noise.
    counted = (noisy[-1, -1] / constant**2 + found.rows_estimate) / 2
    count = max(float(plan.survey.rows or counted), noise / constant**2, 1.0)
    off = noisy[-1, :-1] / constant / unit / count
    mean = shrink_to_noise(off, noise / constant / unit / count, common=not plan.final)
    matrix = noisy[:-1, :-1] / unit**2 / count - np.outer(mean, mean)
    if plan.diagonal:
        matrix = np.diag(np.diag(matrix))
    entry, columns = noise / unit**2 / count, len(mean)
    floor = entry * (1.0 if plan.diagonal else math.sqrt(columns))
    # The trace is clipped to a range that agrees with the survey.
    square = min(max(float(np.trace(matrix)), found.spread**2 / 4), (_LONGEST * found.spread) ** 2)
    # Eigenvalues that are mostly noise would whiten rows at random; a floor well above them prevents that.
    margin = 1 + (_FLOOR - 1) * min(floor * columns / square, 1.0)
    floor = max(floor * margin, 1e-7 * square / columns, 1e-12)
    center = np.clip(found.center + mean, -1.0, 1.0)
    return Covariance(center, matrix, entry, count, floor, math.sqrt(square), margin)
