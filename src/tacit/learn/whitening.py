"""Maps from values to integer rows: a paid survey, whitening by noisy moments, and affine maps of integers.

A survey releases the sum of the rows' directions and a histogram of their lengths. Centre, typical length and number of
rows follow from it. Later maps are affine: a public centre is taken off, a public matrix of integers is applied, and
the result is an integer row, by exact arithmetic on that row alone. No map stretches a row by its own length, so a
model of mapped rows is a model of the values. The one exception is :class:`RowMap` with ``normalize``, for fits
without a survey.

Noise that is the same in every direction is paid for by the length of rows, so a direction in which rows differ little
drowns in what the long directions need. One release of second moments of surveyed rows gives the covariance Σ; rows are
mapped to (Σ + f)^(-½)·(x - c), where f is the size of the noise in Σ: the directions that the data carry are whitened,
the rest stays unchanged. All of it is computed from noisy numbers.
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

#: The constant column beside the features of an unsurveyed row, a tenth of a row's norm.
BIAS: Final = UNIT // 10
#: The norm that a row of an affine map has at most, in units of UNIT; weights meet such rows without rounding.
LONGEST_ROW: Final = 16
#: Part of a row's norm that its place in the histogram of lengths has.
_COUNTING: Final = UNIT // 3
#: Number of lengths in the histogram; each is half of the one before.
_LENGTHS: Final = 8
#: Rows of the integer matrix of an affine map have sums of sizes below 2³⁰.
_MATRIX_BITS: Final = 30
#: No entry of a mapped row is larger, so that squares of norms fit an int64.
_LARGEST_ENTRY: Final = 1 << 20
#: Entries whose mean is worth finding, beside themselves.
_MANY: Final = 8


@dataclass(frozen=True)
class RowMap:
    """From values to rows of norm at most UNIT, without a survey.

    Attributes:
        box: where the values lie.
        normalize: whether every row is brought to one length; otherwise a corner of the box has the norm UNIT.
        bias: the constant column, 0 for none.
    """

    box: Box
    normalize: bool = True
    bias: int = BIAS

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Finished rows, as whole floats; the constant column is the last one."""
        columns = values.shape[1]
        self.box.check_columns(columns)
        smallest = 0 if self.normalize else corner(self.box, columns)
        rows = scale_rows(self.box.to_steps(values), beside_bias(self.bias), smallest=smallest)
        finished = join_bias(rows, self.bias) if self.bias else rows
        return cast("NDArray[np.float64]", finished.astype(np.float64))


@dataclass(frozen=True, eq=False)
class AffineMap:
    """From steps between the bounds to rows ⌊K(x - c)⌋ beside a constant; exact, row by row.

    Attributes:
        center: c, in steps of the box, between -FINE and FINE.
        matrix: K·2^shift, whole numbers, one line per column of the result.
        shift: how many binary digits are cut off the product.
        constant: the last column.
        longest: the norm that the rest of a row is cut to, in steps.
    """

    center: Integers
    matrix: NDArray[np.float64]
    shift: int
    constant: int
    longest: int

    @classmethod
    def of(cls, center: NDArray[np.float64], matrix: NDArray[np.float64], radius: float) -> AffineMap:
        """The map z = matrix·(x - center) for x between -1 and 1, in rows whose norm is UNIT where ‖(z, 1)‖ = radius.

        Rows longer than :data:`LONGEST_ROW` times that are cut to it.

        Args:
            center: between -1 and 1.
            matrix: of any public numbers.
            radius: of z that has the norm UNIT.
        """
        constant = min(max(round(UNIT / radius), 1), UNIT // 2)
        # The constant is exact, so the rest of the row is measured by it.
        wanted = matrix * (constant / FINE)
        largest = float(np.abs(wanted).sum(axis=1).max(initial=0.0))
        wanted *= min(1.0, 2.0**_MATRIX_BITS / max(largest, 1.0))
        shift = min(max(_MATRIX_BITS - math.ceil(math.log2(max(largest, 1e-9))), 0), 60)
        whole = np.rint(wanted * 2.0**shift)
        steps = np.rint(np.clip(center, -1.0, 1.0) * FINE).astype(np.int64)
        return cls(steps, whole, shift, constant, LONGEST_ROW * UNIT - UNIT)

    def __call__(self, steps: Integers) -> NDArray[np.float64]:
        """Finished rows, as whole floats; the constant column is the last one."""
        product = (steps - self.center).astype(np.float64) @ self.matrix.T
        rows = np.clip(product.astype(np.int64) >> self.shift, -_LARGEST_ENTRY, _LARGEST_ENTRY)
        finished = join_bias(scale_rows(rows, self.longest, smallest=self.longest), self.constant)
        return cast("NDArray[np.float64]", finished.astype(np.float64))

    def unmapped(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients of values between -1 and 1, and constants, of weights of the rows; one column per output."""
        slopes = self.matrix.T @ weights[:-1] * (FINE / 2.0**self.shift / UNIT)
        return slopes, weights[-1] * (self.constant / UNIT) - (self.center / FINE) @ slopes


@dataclass(frozen=True, eq=False)
class Surveyed:
    """Results of a survey, from noisy sums.

    Attributes:
        center: of the rows, between -1 and 1.
        spread: about how far rows lie from it, a norm.
        rows_estimate: about how many rows there are.
    """

    center: NDArray[np.float64]
    spread: float
    rows_estimate: float


@dataclass(frozen=True)
class Survey:
    """The first release of a fit: the sum of the rows' directions, and how many rows have which length.

    Attributes:
        columns: of a row.
        ball: whether a norm was declared, so that no row is longer than 1.
        rows: the declared number of rows, or None to take it from the histogram.
    """

    columns: int
    ball: bool
    rows: int | None

    def phase(self, share: Fraction) -> Phase:
        """Cost of the survey."""
        return Phase("survey", UNIT**2, self.columns + _LENGTHS, share)

    def raw_sums(self, steps: Integers, shares: Integers | None = None) -> Integers:
        """The sums before noise, exactly; no row moves them by more than UNIT, less with a share."""
        lengths = ceil_sqrt(square_norms(steps))
        # Place 0 is the longest: no row within the bounds is longer than the corner.
        places = np.minimum((lengths[:, None] <= np.array(self._edges[1:])).sum(axis=1), _LENGTHS - 1)
        members = (places[:, None] == np.arange(_LENGTHS)).astype(np.int64) * _COUNTING
        joined = shared(np.hstack([scale_rows(steps, beside_bias(_COUNTING)), members]), shares).astype(np.float64)
        return exact_product(np.ones((len(joined), 1)), joined, UNIT).ravel()

    def run(
        self, steps: Integers, sigma2: Fraction, shares: Integers | None = None, *, common: bool = False
    ) -> Surveyed:
        """Centre, spread and number of rows, from the noisy sums; ``common`` is that of :func:`shrink_to_noise`."""
        noisy = release.release_gaussian(self.raw_sums(steps, shares), sigma2)
        sigma = math.sqrt(float_nearest(sigma2))
        counts = noisy[self.columns :] / _COUNTING
        # Less than its own noise is no count at all.
        rows = max(float(self.rows or counts.sum()), sigma / _COUNTING, 1.0)
        directions = noisy[: self.columns] / rows / beside_bias(_COUNTING)
        mean = shrink_to_noise(directions, sigma / rows / UNIT, common=common)
        size = float(np.linalg.norm(mean))
        length = self._length(counts, 3 * sigma / _COUNTING)
        # A mean of directions is not longer than one, and what rows of one length have beside it is the spread.
        center = np.clip(mean * (length / max(size, 1.0)), -1.0, 1.0)
        return Surveyed(center, length * math.sqrt(max(1 - min(size, 1.0) ** 2, 0.01)), rows)

    @property
    def _edges(self) -> list[int]:
        longest = FINE if self.ball else FINE * (math.isqrt(max(self.columns - 1, 0)) + 1)
        return [longest >> place for place in range(_LENGTHS)]

    def _length(self, counts: NDArray[np.float64], noise: float) -> float:
        """The root of the mean square of the lengths, those bins left out that may be empty."""
        believed = np.where(counts > noise, counts, 0.0)
        if not believed.any():
            # Nothing is known: half of a corner is as good a guess as any.
            believed[1] = 1.0
        middles = np.array(self._edges) / FINE * math.sqrt(0.5)
        return math.sqrt(float(believed @ middles**2) / float(believed.sum()))


def shrink_to_noise(mean: NDArray[np.float64], noise: float, *, common: bool = False) -> NDArray[np.float64]:
    """A noisy vector pulled towards zero as far as it may be noise (James and Stein).

    Args:
        mean: the vector.
        noise: of each entry.
        common: whether many entries are pulled towards their mean instead, and that towards zero (Lindley). Bounds of
            amounts lie far above most values, so that all entries are often off zero by about as much; that part of
            them is known with less noise than any entry.
    """
    if not common or mean.size < _MANY:
        return mean * _part(float(mean @ mean), max(mean.size - 2, 0) * noise**2)
    middle = float(mean.mean())
    apart = mean - middle
    level = middle * _part(mean.size * middle**2, noise**2)
    return level + apart * _part(float(apart @ apart), (mean.size - 3) * noise**2)


def _part(size: float, noise: float) -> float:
    """Part of a square that its noise does not explain."""
    return max(1 - noise / size, 0.0) if size > 0 else 0.0


def corner(box: Box, columns: int) -> int:
    """The norm of a corner of the box, or of the declared ball, in steps, rounded up."""
    return FINE if box.ball else FINE * (math.isqrt(max(columns - 1, 0)) + 1)


#: Part of a row's norm that the constant beside it has, in second moments.
_CONSTANT: Final = UNIT // 3
#: Rows longer than this many times the surveyed spread are cut to it, in second moments that only whiten.
_REACH: Final = 1.5
#: The same where noise rules and where it hardly matters, in second moments that are themselves the model.
_SHORTEST: Final = 0.3
_LONGEST: Final = 6.0
#: Floor of the eigenvalues where all are noise, in units of that noise: √columns times that of an entry.
_FLOOR: Final = 4.0
#: Shares of the privacy.
_SURVEY_SHARE: Final = Fraction(1, 10)
_MOMENTS_SHARE: Final = Fraction(1, 10)
#: With more columns, variances alone are released.
_MOST_COLUMNS: Final = 512

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Covariance:
    """Centre and covariance of rows between -1 and 1, from noisy moments.

    Attributes:
        center: the mean.
        matrix: the covariance, symmetric, not always positive.
        noise: standard deviation of an entry of it.
        rows_estimate: about how many rows there are.
        floor: the size of the noise in the covariance, as an eigenvalue.
        spread: about how far rows lie from the centre, a norm.
        margin: how many times the noise the floor is.
    """

    center: Floats
    matrix: Floats
    noise: float
    rows_estimate: float
    floor: float
    spread: float
    margin: float

    def part(self, columns: int) -> Covariance:
        """The first columns alone."""
        matrix = self.matrix[:columns, :columns]
        return Covariance(
            self.center[:columns], matrix, self.noise, self.rows_estimate, self.floor, self.spread, self.margin
        )

    @property
    def variances(self) -> Floats:
        """Variances of the columns, none below the noise."""
        return np.maximum(np.diag(self.matrix), self.noise) + 1e-12

    def whitener(self) -> tuple[Floats, float]:
        """A multiple of (Σ + f)^(-½) that maps rows to a mean square of one per column, and the largest of its squares.

        The second number bounds the mean square of a row so mapped in any one direction.
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
    """The releases before a fit: a survey, then second moments of centred rows.

    Attributes:
        survey: of where the rows lie.
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
        """The second release."""
        return SecondMoments(self.survey.columns + 1, diagonal=self.diagonal)

    def phases(self) -> list[Phase]:
        """Cost of both."""
        share = 1 - _SURVEY_SHARE if self.final else _MOMENTS_SHARE
        return [self.survey.phase(_SURVEY_SHARE), self.moments.phase(share)]

    def run(self, steps: Integers, spent: Spent, shares: Integers | None = None) -> Covariance:
        """Centre and covariance of rows given in steps of their bounds, and perhaps shares of their weights."""
        found = self.survey.run(steps, spent.of("survey"), shares, common=not self.final)
        sigma2 = spent.of("second moments")
        noise = math.sqrt(float_nearest(sigma2)) / UNIT**2
        reach = self._reach(noise * math.sqrt(self.survey.columns) / found.rows_estimate)
        radius = max(reach * found.spread, 1e-6)
        noisy = self.moments.release(centred_rows(steps, found.center, radius, _CONSTANT, shares), sigma2)
        return _covariance(self, noisy, noise, found, radius)

    def _reach(self, ratio: float) -> float:
        """Where long rows are cut, in units of the spread, for a ratio of noise to rows."""
        if not self.final:
            return _REACH
        return float(min(max(_SHORTEST * (0.2 / max(ratio, 1e-12)) ** 0.3, _SHORTEST), _LONGEST))


def centred_rows(
    steps: Integers, center: Floats, radius: float, constant: int, shares: Integers | None = None
) -> Floats:
    """Rows x - c beside a constant, whole floats of norm at most UNIT; rows longer than ``radius`` are cut to it."""
    shifted = steps - np.rint(center * FINE).astype(np.int64)
    cut = scale_rows(shifted, beside_bias(constant), smallest=max(math.ceil(radius * FINE), 1))
    return shared_squares(join_bias(cut, constant), shares).astype(np.float64)


def _covariance(plan: Whitening, noisy: Floats, noise: float, found: Surveyed, radius: float) -> Covariance:
    constant, unit = _CONSTANT / UNIT, beside_bias(_CONSTANT) / UNIT / radius
    # Both counts are about equally noisy; less than its own noise is no count at all.
    counted = (noisy[-1, -1] / constant**2 + found.rows_estimate) / 2
    count = max(float(plan.survey.rows or counted), noise / constant**2, 1.0)
    off = noisy[-1, :-1] / constant / unit / count
    mean = shrink_to_noise(off, noise / constant / unit / count, common=not plan.final)
    matrix = noisy[:-1, :-1] / unit**2 / count - np.outer(mean, mean)
    if plan.diagonal:
        matrix = np.diag(np.diag(matrix))
    entry, columns = noise / unit**2 / count, len(mean)
    floor = entry * (1.0 if plan.diagonal else math.sqrt(columns))
    # The trace is believed as far as it agrees with the survey.
    square = min(max(float(np.trace(matrix)), found.spread**2 / 4), (_LONGEST * found.spread) ** 2)
    # Eigenvalues that are all noise would whiten rows at random; the floor drowns them.
    margin = 1 + (_FLOOR - 1) * min(floor * columns / square, 1.0)
    floor = max(floor * margin, 1e-7 * square / columns, 1e-12)
    center = np.clip(found.center + mean, -1.0, 1.0)
    return Covariance(center, matrix, entry, count, floor, math.sqrt(square), margin)
