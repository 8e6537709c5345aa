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

from tacit.core.errors import InternalError
from tacit.core.events import DiscreteGaussianEvent
from tacit.core.numbers import float_up
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.mechanisms.gaussian import Gaussian
from tacit.synth.count_measurement import CountSource, add_gaussian

__all__ = ["DistanceMeasurement"]

#: Distances are counted in steps of this part of a row.
_STEPS: Final = 16


@dataclass(frozen=True, eq=False)
class DistanceMeasurement:
    """The l1 distances of the counts of some marginals from public ones, as one integer vector with Gaussian noise.

    Args:
        sets: the columns of each marginal.
        rho: zCDP price of all of them.
        rows: the most rows of one unit that count.
        relation: which databases are neighbours.

    Privacy:
        ρ-zCDP under ``relation``, where ρ is ``rho``.

    Sensitivity:
        one unit moves each distance by at most 16 steps for each of its rows, twice that where units are replaced; in
        l2 by that times the root of the number of marginals.

    Error:
        :attr:`stddev` is the standard deviation of the noise on each distance, in rows.

    Assumes:
        that the counts are of rows of which each unit has at most ``rows``.

    References:
        Canonne, Kamath, Steinke (2020). Proof: ``table_synthesis.proof.md``.
    """

    sets: tuple[tuple[str, ...], ...]
    rho: Fraction
    rows: int = 1
    relation: Relation = ADD_REMOVE

    @property
    def l2_squared(self) -> int:
        """The square of how far one unit moves the vector, exactly."""
        moved = _STEPS * self.rows * (1 if self.relation is ADD_REMOVE else 2)
        return len(self.sets) * moved**2

    @cached_property
    def mechanism(self) -> Gaussian:
        """The mechanism that adds the noise."""
        return Gaussian.from_rho(
            rho=self.rho, l2_squared=self.l2_squared, dimension=len(self.sets), whole=True, relation=self.relation
        )

    @property
    def event(self) -> DiscreteGaussianEvent:
        """The release, as accountants read it."""
        event = self.mechanism.event
        if not isinstance(event, DiscreteGaussianEvent):
            raise InternalError("noise on integers has an event of its own")
        return event

    @property
    def variance(self) -> float:
        """Variance of the noise on each integer, rounded up."""
        return float_up(self.mechanism.sigma2)

    @property
    def stddev(self) -> float:
        """Standard deviation of the noise on each distance, in rows."""
        return float(np.sqrt(self.variance)) / _STEPS

    def release(
        self, source: CountSource, expected: Mapping[tuple[str, ...], NDArray[np.float64]]
    ) -> NDArray[np.int64]:
        """The distances with noise, in steps; ``expected`` are public counts."""
        raw = np.array([self._distance(source(names), expected[names]) for names in self.sets], dtype=np.int64)
        return add_gaussian(self.mechanism, raw)

    def in_rows(self, noisy: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Distances in rows, half of each, so that a row in the wrong cell counts once."""
        return np.asarray(noisy, dtype=np.float64) / (2 * _STEPS)

    @staticmethod
    def _distance(counts: NDArray[np.int64], expected: NDArray[np.float64]) -> int:
        public = np.rint(_STEPS * np.clip(expected, -1e12, 1e12)).astype(np.int64)
        return int(np.abs(_STEPS * counts - public).sum())
