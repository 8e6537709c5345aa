"""Sums of sparse vectors and quantiles of a bounded number, by signed Hadamard responses.

A person holds a coordinate and a sign. A report is a column of a Hadamard matrix, and the favoured columns are those
where the row of the coordinate has the person's sign; a person with nothing to say reports any column. The mean sign
along a row estimates the mean of that coordinate. See ``vectors.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from tacit.core.numbers import Number, check_count, exact, exact_probability, float_nearest
from tacit.local.draws import Draws
from tacit.local.frequencies import EstimateRow
from tacit.local.frequency import hadamard_column, walsh_hadamard
from tacit.local.mean import LocalMean
from tacit.local.protocol import MOST_COUNTS, Counts, IntegerProtocol, in_words, whole_number, window_truth
from tacit.mechanisms.randomized_response import clopper_pearson
from tacit.noise.bernoulli import Coin

_MOST_LEVELS: Final = 16


class _SignedResponse:
    """Randomisation of (row, sign) over the columns of one Hadamard matrix; row 0 says nothing."""

    def __init__(self, epsilon: Fraction, rows: int) -> None:
        self.columns = 1 << rows.bit_length()
        self.truth = window_truth(epsilon, 1, 1)
        self.lean = float_nearest(2 * self.truth - 1)
        self._coin = Coin(self.truth)

    def draw(self, row: int, negative: bool, draws: Draws) -> int:
        if not row:
            return draws.below(self.columns)
        half = draws.below(self.columns // 2)
        return hadamard_column(row, half, draws.toss(self._coin) == negative)


@dataclass(frozen=True)
class SparseMeans:
    """Estimated mean of each coordinate over the respondents.

    Attributes:
        means: unbiased estimates.
        standard_errors: standard deviations over the coins, bounded from above.
        low: lower ends of the intervals.
        high: upper ends; with probability at least ``confidence`` all intervals hold their means.
        confidence: the coverage asked for.
        n: number of reports.
    """

    means: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    confidence: float
    n: int

    @property
    def sums(self) -> NDArray[np.float64]:
        """Estimated sums over the respondents: n times the means."""
        return self.n * self.means

    def rows(self) -> list[EstimateRow]:
        """One row per coordinate."""
        ends = zip(self.means, self.standard_errors, self.low, self.high, strict=True)
        return [EstimateRow(str(place), *map(float, each)) for place, each in enumerate(ends)]

    def consistent(self) -> SparseMeans:
        """Means moved into their intervals."""
        means = np.clip(self.means, self.low, self.high)
        return SparseMeans(means, self.standard_errors, self.low, self.high, self.confidence, self.n)


class SparseVectorSum(IntegerProtocol):
    """Sum of vectors of which each person holds few coordinates, each from -1 to 1.

    A person's ``max_nonzero`` slots hold their coordinates; one slot is drawn, its number is rounded to -1 or 1 at
    random, and the pair is reported. Of a person with more coordinates one is drawn among all, so that their vector
    counts as if it were scaled down to fit.

    Privacy:
        relation: replace-one. ε-DP of one report for the whole vector: given slot and sign, half of the columns are
        e^ε times as likely as the others; an empty slot makes all columns equally likely, which lies between.

    Sensitivity:
        none to state: a vector may change to any other. Numbers are clamped; coordinates outside are ignored.

    Error:
        standard error of a mean at most ``max_nonzero``·(e^ε + 1)/((e^ε - 1)√n).

    Assumes:
        clients follow the protocol.

    References:
        Nguyen, Xiao, Yang, Hui, Shin and Shin (2016); Acharya, Sun and Zhang (2019).
    """

    kind: ClassVar[str] = "sparse-sum"

    def __init__(self, *, dimension: SupportsIndex, max_nonzero: SupportsIndex, epsilon: Number) -> None:
        self.dimension = check_count(dimension, "dimension", maximum=MOST_COUNTS // 2)
        self.max_nonzero = check_count(max_nonzero, "max_nonzero", maximum=self.dimension)
        super().__init__(epsilon=epsilon, alphabet=2)
        self._response = _SignedResponse(self._epsilon, self.dimension)
        super().__init__(epsilon=epsilon, alphabet=self._response.columns)
        # Maps numbers from [-1, 1] to [0, 1] exactly, by the same rules as means.
        self._place = LocalMean(bounds=(-1, 1), epsilon=epsilon, method="rounding").share_of

    def draw(self, value: object, draws: Draws) -> int:
        """The report of a mapping from coordinates to numbers."""
        held = sorted(self._held(value))
        slot = draws.below(max(len(held), self.max_nonzero))
        if slot >= len(held):
            return self._response.draw(0, False, draws)
        coordinate, share = held[slot]
        negative = draws.below(share.denominator) >= share.numerator
        return self._response.draw(coordinate + 1, negative, draws)

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> SparseMeans:
        """Unbiased means; intervals by Clopper and Pearson's limits, for all coordinates together."""
        signed = walsh_hadamard(counts.reshape(1, -1))[0, 1 : self.dimension + 1]
        scale = self.max_nonzero / self._response.lean
        low, high = clopper_pearson((n + signed) // 2, n, (1 - confidence) / 2 / self.dimension)
        return SparseMeans(
            means=signed / n * scale,
            standard_errors=np.full(self.dimension, scale / math.sqrt(n)),
            low=np.clip((2 * low - 1) * scale, -1.0, 1.0),
            high=np.clip((2 * high - 1) * scale, -1.0, 1.0),
            confidence=confidence,
            n=n,
        )

    def parameters(self) -> dict[str, Any]:
        """Dimension and slots."""
        return {"dimension": self.dimension, "max_nonzero": self.max_nonzero}

    def _held(self, value: object) -> list[tuple[int, Fraction]]:
        if not isinstance(value, Mapping):
            return []
        found = ((whole_number(coordinate), number) for coordinate, number in value.items())
        return [
            (place, self._place(number)) for place, number in found if place is not None and 0 <= place < self.dimension
        ]


@dataclass(frozen=True)
class QuantileOfReports:
    """Estimated quantile of the respondents' values, with an interval.

    Attributes:
        value: right end of the cell in which the estimated share of smaller values reaches the one asked for.
        low: lower end of the interval.
        high: upper end; the interval holds the quantile, up to the width of a cell, with probability ``confidence``.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class CumulativeShares:
    """Estimated shares of respondents below each boundary between cells.

    Attributes:
        boundaries: from the lower bound to the upper one, one more than there are cells.
        shares: unbiased estimates of the share of values below each boundary.
        widths: half the widths of their intervals, each of the stated confidence at every n.
        confidence: the coverage of each interval.
        n: number of reports.
    """

    boundaries: NDArray[np.float64]
    shares: NDArray[np.float64]
    widths: NDArray[np.float64]
    confidence: float
    n: int

    def quantile(self, q: Number) -> QuantileOfReports:
        """The quantile at share ``q``, from shares that are made to grow first."""
        level = float_nearest(exact_probability(q, "q"))
        value = self._first(np.maximum.accumulate(self.shares), level)
        # The true shares grow, so each bound holds for all later or earlier boundaries as well.
        low = self._first(np.maximum.accumulate(self.shares + self.widths), level)
        high = self._first(np.minimum.accumulate((self.shares - self.widths)[::-1])[::-1], level)
        return QuantileOfReports(value, min(low, value), max(high, value))

    def rows(self) -> list[EstimateRow]:
        """The deciles, one row each."""
        found = [(place, self.quantile(Fraction(place, 10))) for place in range(1, 10)]
        return [EstimateRow(f"{place}0 %", each.value, None, each.low, each.high) for place, each in found]

    def consistent(self) -> CumulativeShares:
        """Shares from 0 to 1 that grow."""
        shares = np.clip(np.maximum.accumulate(self.shares), 0.0, 1.0)
        return CumulativeShares(self.boundaries, shares, self.widths, self.confidence, self.n)

    def _first(self, shares: NDArray[np.float64], level: float) -> float:
        reached = np.flatnonzero(shares >= level)
        return float(self.boundaries[reached[0] if len(reached) else -1])


class LocalQuantiles(IntegerProtocol):
    """Distribution and quantiles of a number that lies within ``bounds``.

    The bounds are halved ``levels`` times. A person draws one level, and reports which half of a cell on that level
    holds the value: a sparse vector of one signed coordinate, a Haar coefficient. The estimated coefficients give the
    share of every cell.

    Privacy:
        relation: replace-one. ε-DP of one report: the level does not depend on the value, and given the level half of
        the columns are e^ε times as likely as the others.

    Sensitivity:
        none to state: a value may change to any other. Values are clamped; what is no number counts as the middle.

    Error:
        standard error of a share below a boundary at most about √levels·0.6·(e^ε + 1)/((e^ε - 1)√n).

    Assumes:
        clients follow the protocol.

    References:
        Cormode, Kulkarni and Srivastava (2019), *Answering range queries under local differential privacy*.
    """

    kind: ClassVar[str] = "quantiles"

    def __init__(self, *, bounds: tuple[Number, Number], epsilon: Number, levels: SupportsIndex = 8) -> None:
        self.levels = check_count(levels, "levels", maximum=_MOST_LEVELS)
        low, high = (exact(each, "bounds") for each in bounds)
        self._place = LocalMean(bounds=bounds, epsilon=epsilon, method="rounding").share_of
        self.bounds = low, high
        super().__init__(epsilon=epsilon, alphabet=2 ** (self.levels + 1) - 2)
        self._responses = [_SignedResponse(self._epsilon, 2**level) for level in range(self.levels)]

    def draw(self, value: object, draws: Draws) -> int:
        """The report: the columns of the levels follow each other."""
        share = self._place(value)
        leaf = min(share.numerator * 2**self.levels // share.denominator, 2**self.levels - 1)
        level = draws.below(self.levels)
        node = leaf >> (self.levels - level)
        right = bool(leaf >> (self.levels - level - 1) & 1)
        return (2 << level) - 2 + self._responses[level].draw(node + 1, right, draws)

    def estimate(self, counts: Counts, n: int, *, confidence: float) -> CumulativeShares:
        """Unbiased shares below every boundary, each with an interval by Bernstein's inequality."""
        cells = 2**self.levels
        shares = np.ones(1)
        places, weights, largest = np.arange(cells + 1), np.zeros(cells + 1), np.zeros(cells + 1)
        for level, response in enumerate(self._responses):
            start = 2 ** (level + 1) - 2
            table = counts[start : start + response.columns].reshape(1, -1)
            signed = walsh_hadamard(table)[0, 1 : 2**level + 1]
            lean = self.levels * signed / (n * response.lean)
            shares = np.stack((shares + lean, shares - lean), axis=1).reshape(-1) / 2
            # The part of a boundary's share that hangs on the coefficient of the cell around it.
            half = cells >> (level + 1)
            inside = places % (2 * half)
            weight = (np.minimum(inside, half) - np.maximum(inside - half, 0)) / (2 * half)
            weights += self.levels * (weight / response.lean) ** 2
            largest = np.maximum(largest, self.levels * weight / response.lean)
        depth = math.log(2 / (1 - confidence))
        widths = np.sqrt(2 * weights * depth / n) + 2 * largest * depth / (3 * n)
        low, high = (float_nearest(each) for each in self.bounds)
        boundaries = low + (high - low) * places / cells
        return CumulativeShares(boundaries, np.concatenate(([0.0], np.cumsum(shares))), widths, confidence, n)

    def parameters(self) -> dict[str, Any]:
        """Bounds and levels."""
        return {"bounds": [in_words(each) for each in self.bounds], "levels": self.levels}
