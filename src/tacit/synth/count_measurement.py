"""Noisy measurements of counts: an integer strategy, exact noise, and the sensitivity of the two.

Proof: ``count_measurement.proof.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.events import Event
from tacit.core.numbers import float_up
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.synth.count_noise import DISCRETE_GAUSSIAN, CountNoise, NoiseMechanism, noise_variance
from tacit.synth.strategy import IntegerStrategy, least

#: Counts of cells for some columns, in the order of the columns: exact integers that never leave the curator.
CountSource = Callable[[tuple[str, ...]], NDArray[np.int64]]
#: Integers are multiplied until the variance of their noise is this large: a finer grid, the same price.
_LEAST_VARIANCE: Final = 2**16
#: The square of a column stays below this, so that sums over a table of 2⁴⁰ rows stay below 2⁶².
_LARGEST_COLUMN: Final = 2**40
#: Parts into which a budget is divided.
_PARTS: Final = 10**9


@dataclass(frozen=True, eq=False)
class CountMeasurement:
    """One integer vector that is released: strategies applied to the counts of some columns, and noise.

    Args:
        columns: whose cross product is counted.
        strategies: one along each axis; together they read all cells. None for the counts themselves.
        price: in the currency of the noise.
        rows: the most rows of one unit that count.
        relation: which databases are neighbours.
        noise: the kind of noise.

    Privacy:
        under ``relation``, with ``price`` as ρ, μ² or ε by the kind of noise: ρ-zCDP, μ-GDP or ε-DP.

    Sensitivity:
        one unit adds at most ``rows`` rows, each of which moves the vector by one column of the strategy: at most
        ``rows`` times the largest column, in l2 and in l1, which is the product of the largest columns along the axes.

    Error:
        :attr:`sigma2` is the variance on every integer, or a little more; estimates have that of :meth:`solve`.

    Assumes:
        that the counts are of rows of which each unit has at most ``rows``, and of fewer than 2⁴⁰ in all.

    References:
        Canonne, Kamath, Steinke (2020). Proof: ``count_measurement.proof.md``.
    """

    columns: tuple[str, ...]
    strategies: tuple[IntegerStrategy, ...]
    price: Fraction
    rows: int = 1
    relation: Relation = ADD_REMOVE
    noise: CountNoise = DISCRETE_GAUSSIAN

    @cached_property
    def scale(self) -> int:
        """By which all integers are multiplied, a power of two; noise on a coarse grid has wider intervals."""
        scale = 1
        column = math.prod(strategy.column_squares[1] for strategy in self.strategies)
        variance = self.noise.variance(self.price, self._moved_l1, self._moved)
        while column * (2 * scale) ** 2 <= _LARGEST_COLUMN and variance * scale**2 < _LEAST_VARIANCE:
            scale *= 2
        return scale

    @cached_property
    def l2_squared(self) -> int:
        """The square of how far one unit moves the vector, exactly: every column was looked at."""
        return self._moved * self.scale**2

    @property
    def l1(self) -> int:
        """The l1 norm by which one unit moves the vector, at most: every column was looked at."""
        return self._moved_l1 * self.scale

    @cached_property
    def _moved_l1(self) -> int:
        column = math.prod(strategy.column_size for strategy in self.strategies)
        return self.rows * column * (1 if self.relation is ADD_REMOVE else 2)

    @cached_property
    def _moved(self) -> int:
        squares = [strategy.column_squares for strategy in self.strategies]
        column = math.prod(high for _, high in squares)
        if self.relation is not ADD_REMOVE:
            # One row becomes another: |a - b|² = |a|² + |b|² - 2ab.
            column = max(column, 2 * column - 2 * least(squares)) if squares else column
        return self.rows**2 * column

    @property
    def outputs(self) -> int:
        """Number of integers released."""
        return math.prod(strategy.outputs for strategy in self.strategies)

    @cached_property
    def mechanism(self) -> NoiseMechanism:
        """The mechanism that adds the noise."""
        return self.noise.mechanism(self.price, self.l1, self.l2_squared, self.outputs, self.relation)

    @property
    def event(self) -> Event:
        """The release, as accountants read it."""
        return self.mechanism.event

    @cached_property
    def variance(self) -> Fraction:
        """Variance of the noise on each integer before it is rounded to one, as intervals read it."""
        return noise_variance(self.mechanism)

    @cached_property
    def sigma2(self) -> float:
        """Variance of the noise on each integer over the scale, rounded up."""
        return float_up(self.variance / self.scale**2)

    def inputs(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The integers that get noise: the strategies applied to counts of shape ``cells``."""
        shape = tuple(strategy.inputs for strategy in self.strategies)
        vector = self.scale * counts.reshape(shape)
        for axis, strategy in enumerate(self.strategies):
            vector = strategy.apply(vector, axis)
        return vector

    def release(self, source: CountSource) -> NDArray[np.int64]:
        """The integers with noise: the one step at which counts of persons become numbers that may be shown."""
        raw_inputs = self.inputs(source(self.columns))
        noisy = add_noise(self.mechanism, raw_inputs.ravel())
        return noisy.reshape(raw_inputs.shape)

    def solve(self, noisy: NDArray[np.int64]) -> NDArray[np.float64]:
        """The least-squares counts behind the noisy integers; of centred strategies, the centred counts."""
        estimate = noisy / self.scale
        for axis, strategy in enumerate(self.strategies):
            estimate = strategy.solve(estimate, axis)
        return estimate


def add_noise(mechanism: NoiseMechanism, raw: NDArray[np.int64]) -> NDArray[np.int64]:
    """Integers with the noise of a mechanism; record-and-replay takes hold here."""
    return np.asarray(mechanism.release(raw), dtype=np.int64)


def divide(whole: Fraction, claims: Sequence[float] | NDArray[Any]) -> tuple[Fraction, ...]:
    """A budget in proportion to claims: exact parts that add up to all of it, none of them 0.

    >>> divide(Fraction(1), [1.0, 1.0])
    (Fraction(1, 2), Fraction(1, 2))
    """
    total = math.fsum(claims)
    parts = [max(1, int(_PARTS * float(claim) / total)) for claim in claims]
    all_parts = sum(parts)
    return tuple(whole * Fraction(part, all_parts) for part in parts)
