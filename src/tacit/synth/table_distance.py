"""Distances of a synthetic table from the real one, released with noise: what a second report says and is paid for.

The distance of one marginal is an integer that one row moves by a fixed number of steps, whatever the size of the table
of counts. So a hundred marginals are compared at a small price, with an error of some rows each.

Proof: ``table_synthesis.proof.md``, *Distances*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.events import Event
from tacit.core.numbers import float_up
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.synth.count_measurement import CountSource, add_noise
from tacit.synth.count_noise import DISCRETE_GAUSSIAN, CountNoise, NoiseMechanism, noise_variance

#: Distances are counted in steps of this part of a row.
_STEPS: Final = 16


@dataclass(frozen=True, eq=False)
class DistanceMeasurement:
    """The l1 distances of the counts of some marginals from public ones, as one integer vector with noise.

    Args:
        sets: the columns of each marginal.
        price: of all of them, in the currency of the noise.
        rows: the most rows of one unit that count.
        relation: which databases are neighbours.
        noise: the kind of noise.

    Privacy:
        under ``relation``, with ``price`` as ρ, μ² or ε by the kind of noise: ρ-zCDP, μ-GDP or ε-DP.

    Sensitivity:
        one unit moves each distance by at most 16 steps for each of its rows, twice that where units are replaced; in
        l2 by that times the root of the number of marginals, in l1 times their number.

    Error:
        :attr:`stddev` is the standard deviation of the noise on each distance, in rows.

    Assumes:
        that the counts are of rows of which each unit has at most ``rows``.

    References:
        Canonne, Kamath, Steinke (2020). Proof: ``table_synthesis.proof.md``.
    """

    sets: tuple[tuple[str, ...], ...]
    price: Fraction
    rows: int = 1
    relation: Relation = ADD_REMOVE
    noise: CountNoise = DISCRETE_GAUSSIAN

    @property
    def _moved(self) -> int:
        return _STEPS * self.rows * (1 if self.relation is ADD_REMOVE else 2)

    @property
    def l1(self) -> int:
        """The l1 norm by which one unit moves the vector, at most."""
        return len(self.sets) * self._moved

    @property
    def l2_squared(self) -> int:
        """The square of how far one unit moves the vector, exactly."""
        return len(self.sets) * self._moved**2

    @cached_property
    def mechanism(self) -> NoiseMechanism:
        """The mechanism that adds the noise."""
        return self.noise.mechanism(self.price, self.l1, self.l2_squared, len(self.sets), self.relation)

    @property
    def event(self) -> Event:
        """The release, as accountants read it."""
        return self.mechanism.event

    @property
    def variance(self) -> float:
        """Variance of the noise on each integer, rounded up, as intervals read it."""
        return float_up(noise_variance(self.mechanism))

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each distance, in rows."""
        return float(np.sqrt(self.variance)) / _STEPS

    def release(
        self, source: CountSource, expected: Mapping[tuple[str, ...], NDArray[np.float64]]
    ) -> NDArray[np.int64]:
        """The distances with noise, in steps; ``expected`` are public counts."""
        raw = np.array([self._distance(source(names), expected[names]) for names in self.sets], dtype=np.int64)
        return add_noise(self.mechanism, raw)

    def in_rows(self, noisy: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Distances in rows, half of each, so that a row in the wrong cell counts once."""
        return np.asarray(noisy, dtype=np.float64) / (2 * _STEPS)

    @staticmethod
    def _distance(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> int:
        public = np.rint(_STEPS * np.clip(expected, -1e12, 1e12)).astype(np.int64)
        return int(np.abs(_STEPS * counts - public).sum())
