"""Whitening: centre and covariance of the rows, paid for, and the public map that rids rows of them.

Noise that is the same in every direction is paid for by the length of rows, so a direction in which rows differ little
drowns in what the long directions need. A survey finds the centre and how far rows lie from it; one release of second
moments then gives the covariance Σ. Rows are mapped to (Σ + f)^(-½)·(x - c), where f is the size of the noise in Σ: the
directions that the data carry are whitened, the rest stays unchanged. All of it is computed from noisy numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest
from tacit.learn.budget_allocation import Phase, Spent
from tacit.learn.feature_map import Survey, Surveyed, shrink_to_noise
from tacit.learn.integer_rows import FINE, UNIT, Integers, beside_bias, join_bias, scale_rows
from tacit.learn.moments import SecondMoments
from tacit.learn.weights import shared_squares

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
