"""Exact sums of what rows add to the leaves of a tree, and to the bins of its nodes."""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from tacit.learn.binned import BinnedRows
from tacit.learn.confidence import raw_slopes
from tacit.learn.integer_rows import Integers
from tacit.learn.losses import WHOLE, Loss, clip_residuals
from tacit.learn.trees import DecisionTree, Levels, leaves_of
from tacit.learn.weights import SHARES, shared

#: Weight of a row in the number of rows of a leaf, beside a residual of one.
ROW: Final = WHOLE // 4


def raw_leaf_sums(
    leaves: Integers, residuals: Integers, count: int, shares: Integers | None = None, *, curved: bool = False
) -> Integers:
    """For each leaf the sums of residuals and, last, of :data:`ROW` for each row, exactly.

    Args:
        leaves: of the rows.
        residuals: one column per output.
        count: number of leaves.
        shares: of rows with weights.
        curved: a row counts as much as the curvature of its logistic loss, beside the largest.
    """
    rows = _curved(residuals) if curved else np.full((len(residuals), 1), ROW, dtype=np.int64)
    added = shared(np.hstack([residuals, rows]), shares)
    total = np.zeros((count, added.shape[1]), dtype=np.int64)
    np.add.at(total, leaves, added)
    return total


def _curved(residuals: Integers) -> Integers:
    """4p(1 - p) of each row, in steps of :data:`ROW`: the residual is p or p - 1, so its size tells."""
    sizes = np.abs(residuals[:, :1])
    return cast("Integers", 4 * ROW * sizes * (WHOLE - sizes) // WHOLE**2)


class LeafScores:
    """Scores of rows of this process, tree after tree."""

    def __init__(self, loss: Loss, clip: int, outputs: int, rows: BinnedRows, *, curved: bool = False) -> None:
        self._loss, self._clip, self._rows, self._curved = loss, clip, rows, curved
        self._logits = np.zeros((len(rows.places), outputs), dtype=np.int64)
        self._left: Integers | None = None

    def raw_sums(self, levels: Levels) -> Integers:
        """Sums of what rows add to the leaves that these questions make."""
        leaves = leaves_of(self._rows.places, levels)
        return raw_leaf_sums(leaves, self._residuals(), 1 << len(levels), self._rows.shares, curved=self._curved)

    def raw_bins(self, levels: Levels, columns: int, width: int) -> Integers:
        """Sums of residuals and, last, of shares, by column, node below these questions and bin.

        Args:
            levels: questions so far.
            columns: how many, from the first on.
            width: bins of each.
        """
        count = 1 << len(levels)
        within = leaves_of(self._rows.places, levels) * width
        left = self._residuals()
        added = shared(np.hstack([left, np.full((len(left), 1), SHARES, dtype=np.int64)]), self._rows.shares)
        # Floats add integers without error below 2⁵³, which 2³⁸ rows do not reach.
        weights = [np.ascontiguousarray(each, dtype=np.float64) for each in added.T]
        total = np.empty((columns, count * width, len(weights)))
        for column in range(columns):
            places = within + self._rows.places[:, column]
            for at, each in enumerate(weights):
                total[column, :, at] = np.bincount(places, each, count * width)
        return total.astype(np.int64).reshape(columns, count, width, -1)

    def add(self, tree: DecisionTree, values: Integers) -> None:
        """Take over a tree, with its values in whole steps."""
        self._logits += values[tree.leaves(self._rows.places)]
        self._left = None

    def _residuals(self) -> Integers:
        """Clipped residuals of the rows under the trees so far."""
        if self._left is None:
            clip = np.full(len(self._logits), self._clip)
            self._left = clip_residuals(self._loss.residuals(self._logits, self._rows.targets), clip)
        return self._left

    def raw_slopes(self) -> Integers:
        """Slopes of the loss along a factor of the scores."""
        return raw_slopes(self._loss, self._clip, self._logits, self._rows)
