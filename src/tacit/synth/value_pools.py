"""Pools of rare values: values of a column that a marginal counts together, because noise would hide each by itself.

A table by two columns has a noisy count for each pair of values, and pairs with a rare value are noise alone. Counted
together they are not. Which values are rare is read off released numbers, and one row still moves one count by one, so
that pools cost nothing. A model spreads a pool as the column by itself was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tacit.synth.strategy import IntegerStrategy

#: For each axis the group of each value, groups numbered from 0 on; None where every value is counted by itself.
Pools = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True)
class PooledStrategy(IntegerStrategy):
    """Sums of counts over groups of values: a matrix of 0 and 1 with a single 1 in each column."""

    groups: tuple[int, ...]

    @property
    def inputs(self) -> int:
        """Number of values."""
        return len(self.groups)

    @property
    def outputs(self) -> int:
        """Number of groups."""
        return max(self.groups) + 1

    @property
    def column_squares(self) -> tuple[int, int]:
        """1 for a column; columns of different groups have the product 0."""
        return (0 if self.outputs > 1 else 1), 1

    @property
    def column_size(self) -> int:
        """A single 1."""
        return 1

    def apply(self, counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
        """Sums over groups."""
        turned = np.moveaxis(counts, axis, 0)
        summed = np.zeros((self.outputs, *turned.shape[1:]), dtype=np.int64)
        np.add.at(summed, np.array(self.groups), turned)
        return np.moveaxis(summed, 0, axis)

    def solve(self, noisy: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """The least-squares counts: every group in equal parts."""
        spread = np.moveaxis(np.moveaxis(noisy, axis, 0)[list(self.groups)], 0, axis)
        return np.asarray(spread / _along(self._members, axis, noisy))

    @property
    def covariance(self) -> NDArray[np.float64]:
        """1/m² within a group of m values, 0 elsewhere."""
        groups = np.array(self.groups)
        return np.asarray((groups[:, None] == groups[None, :]) / self._members[:, None] ** 2)

    @property
    def _members(self) -> NDArray[np.float64]:
        """Of each value, how many its group has."""
        return np.bincount(self.groups).astype(np.float64)[list(self.groups)]


def rare_pool(expected: NDArray[np.float64], least: float) -> tuple[int, ...] | None:
    """The group of each value, with one group for all whose expected count is below ``least``; None for no pool.

    >>> rare_pool(np.array([50.0, 2.0, 60.0, 1.0]), 10)
    (0, 2, 1, 2)
    """
    rare = expected < least
    if rare.sum() < 2:
        return None
    groups = np.where(rare, len(rare) - rare.sum(), np.cumsum(~rare) - 1)
    return tuple(int(group) for group in groups)


def pool(table: NDArray[np.float64], pools: Pools) -> NDArray[np.float64]:
    """Sums of a table over the groups of each axis."""
    for axis, groups in enumerate(pools):
        if groups is not None:
            order, starts = _runs(groups)
            table = np.add.reduceat(table.take(order, axis=axis), starts, axis=axis)
    return table


def unpool(table: NDArray[np.float64], pools: Pools) -> NDArray[np.float64]:
    """For every cell of the whole table the number of its group."""
    for axis, groups in enumerate(pools):
        if groups is not None:
            table = table.take(groups, axis=axis)
    return table


@lru_cache(maxsize=256)
def _runs(groups: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values in the order of their groups, and where each group begins."""
    order = np.argsort(groups, kind="stable")
    return order, np.searchsorted(np.array(groups)[order], np.arange(max(groups) + 1))


def _along(values: NDArray[np.float64], axis: int, like: NDArray[np.float64]) -> NDArray[np.float64]:
    return values.reshape([-1 if place == axis else 1 for place in range(like.ndim)])


def pooled_alone(pools: Sequence[tuple[int, ...] | None], shape: Sequence[int]) -> NDArray[np.bool_]:
    """Which cells of the whole table were counted by themselves."""
    alone = np.ones(tuple(shape), dtype=np.bool_)
    for axis, groups in enumerate(pools):
        if groups is not None:
            members = np.bincount(groups)[list(groups)] == 1
            alone &= _along(members, axis, alone)  # type: ignore[arg-type]
    return alone
