"""Sums of squares with noise: what least squares and principal components need of a table, in one release.

A row a of integers with ‖a‖ <= UNIT adds the products a_i·a_j, i <= j, to the upper triangle of a matrix. Counted once
each they have a norm of at most ‖a‖² <= UNIT², so all second moments, with a constant column also all means and the
number of rows, cost no more than one number would. ``moments.proof.md`` has the line of proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import float_nearest
from tacit.learn import release
from tacit.learn.budget_allocation import Phase
from tacit.learn.integer_rows import UNIT, Box, Integers, exact_product


@dataclass(frozen=True)
class SecondMoments:
    """The release of Σ aaᵀ for rows of ``width`` integers, or of its diagonal and last column.

    Attributes:
        width: of a row.
        diagonal: whether only squares, and products with the last column, are released.
        name: for the report.
    """

    width: int
    diagonal: bool = False
    name: str = "second moments"

    def phase(self, share: Fraction = Fraction(1)) -> Phase:
        """Cost of the second moments."""
        return Phase(self.name, UNIT**4, len(self._places[0]), share)

    def release(self, rows: NDArray[np.float64], sigma2: Fraction) -> NDArray[np.float64]:
        """The noisy matrix, symmetric, in units of UNIT²; released entries have noise of σ/UNIT²."""
        noisy = release.release_gaussian(self.raw_sums(rows), sigma2) / UNIT**2
        matrix = np.zeros((self.width, self.width))
        matrix[self._places] = noisy
        return matrix + np.triu(matrix, 1).T

    def raw_sums(self, rows: NDArray[np.float64]) -> Integers:
        """The entries before noise, exactly."""
        if not self.diagonal:
            return raw_triangle(rows)
        ones, last = np.ones((len(rows), 1)), rows[:, -1:]
        squares = exact_product(rows * rows, ones, UNIT * UNIT).ravel()
        return np.concatenate([squares, exact_product(rows[:, :-1], last, UNIT * UNIT).ravel()])

    @property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        if not self.diagonal:
            return np.triu_indices(self.width)
        every = np.arange(self.width)
        return np.append(every, every[:-1]), np.append(every, np.full(self.width - 1, self.width - 1))


def raw_triangle(rows: NDArray[np.float64]) -> Integers:
    """The upper triangle of Σ aaᵀ, row by row, exactly."""
    products = exact_product(rows, rows, UNIT * UNIT)
    return products[np.triu_indices(rows.shape[1])]


@dataclass(frozen=True)
class FeatureSums:
    """The release of Σ1, Σx and Σx² of every column, for each of disjoint groups of rows.

    Attributes:
        box: where the values lie; they are measured from -1 to 1 between their bounds.
        columns: how many there are.
        groups: how many groups; a row is in one of them or in none.
    """

    box: Box
    columns: int
    groups: int = 1

    @property
    def _parts(self) -> tuple[int, int]:
        """The constant, and the largest entry of x and of x²: a third of UNIT² for the first, the rest shared."""
        return math.isqrt(UNIT * UNIT // 3), math.isqrt(UNIT * UNIT // (3 * self.columns))

    @property
    def numbers(self) -> int:
        """Count of sums of a group."""
        return 2 * self.columns + 1

    def phase(self, share: Fraction = Fraction(1)) -> Phase:
        """Cost of the sums: a row adds c² + Σ(p·x)² + Σ(p·x²)² <= UNIT²."""
        return Phase("sums", UNIT**2, self.groups * self.numbers, share)

    def raw_sums(self, values: NDArray[np.float64], places: Integers) -> Integers:
        """The sums before noise, exactly, one line per group; rows whose place is negative are in none."""
        constant, part = self._parts
        steps = self.box.to_steps(values)
        # ⌊p·x⌋ and ⌊p·x²⌋ towards zero, in integers: no entry exceeds p.
        first = np.sign(steps) * (np.abs(steps) * part >> 20)
        second = (steps * steps >> 20) * part >> 20
        joined = np.hstack([np.full((len(steps), 1), constant), first, second])
        members = (places[:, None] == np.arange(self.groups)).astype(np.float64)
        return exact_product(members, joined.astype(np.float64), UNIT)

    def release(self, values: NDArray[np.float64], places: Integers, sigma2: Fraction) -> NDArray[np.float64]:
        """The noisy sums, one line per group."""
        return release.release_gaussian(self.raw_sums(values, places), sigma2)

    def estimates(
        self, noisy: NDArray[np.float64], sigma2: Fraction
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Per group: the number of rows, the mean and the variance of every column, from noisy sums."""
        constant, part = self._parts
        sigma = math.sqrt(float_nearest(sigma2))
        # Less than its own noise is no count at all.
        counts = np.maximum(noisy[:, :1] / constant, max(sigma / constant, 1.0))
        means = np.clip(noisy[:, 1 : self.columns + 1] / part / counts, -1.0, 1.0)
        squares = np.clip(noisy[:, self.columns + 1 :] / part / counts, 0.0, 1.0)
        return counts[:, 0], means, np.maximum(squares - means**2, 0.0)

    def sum_noise(self, sigma2: Fraction) -> float:
        """The standard deviation of the noise in a sum of values between -1 and 1."""
        return math.sqrt(float_nearest(sigma2)) / self._parts[1]
