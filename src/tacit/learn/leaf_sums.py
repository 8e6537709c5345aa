"""Exact sums of what rows add to the leaves of a tree, and to the bins of its nodes, here or where rows are stored."""

from __future__ import annotations

from typing import Final, cast

import numpy as np

from tacit.core.row_sums import Whole, looked_up, total_of
from tacit.learn.binned import BinnedRows, stored_bin_sums, stored_residuals
from tacit.learn.confidence import raw_slopes, stored_slopes
from tacit.learn.integer_rows import Integers
from tacit.learn.losses import WHOLE, Loss, clip_residuals
from tacit.learn.stored_rows import StoredRows
from tacit.learn.trees import DecisionTree, Levels, leaves_of, stored_leaf
from tacit.learn.weights import SHARES, shared, stored_shared

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


class StoredLeafScores:
    """Scores of rows that stay in their database, which computes them from all trees so far."""

    def __init__(self, loss: Loss, clip: int, outputs: int, rows: StoredRows, *, curved: bool = False) -> None:
        self._loss, self._clip, self._outputs, self._rows, self._curved = loss, clip, outputs, rows, curved
        self._trees: list[tuple[DecisionTree, list[list[int]]]] = []

    def raw_sums(self, levels: Levels) -> Integers:
        """The same sums."""
        left, width = self._residuals()
        leaf = stored_leaf(left.columns[:width], levels)
        residuals = left.columns[width:]
        row = _stored_curved(residuals[0]) if self._curved else Whole.constant(ROW)
        added = stored_shared([*residuals, row], left.share)
        return cast("Integers", stored_bin_sums(left, [leaf], added, 1 << len(levels), classed=self._loss.classed)[0])

    def raw_bins(self, levels: Levels, columns: int, width: int) -> Integers:
        """The same sums by column, node and bin."""
        left, many = self._residuals()
        count = 1 << len(levels)
        within = stored_leaf(left.columns[:many], levels) * width if levels else Whole.constant(0)
        places = [within + each for each in left.columns[:columns]]
        added = stored_shared([*left.columns[many:], Whole.constant(SHARES)], left.share)
        total = stored_bin_sums(left, places, added, count * width, classed=self._loss.classed)
        return total.reshape(columns, count, width, -1)

    def _residuals(self) -> tuple[StoredRows, int]:
        """Columns and, after so many, clipped residuals of the rows."""
        left = stored_residuals(self._rows, self._logits, self._loss, self._clip, weighted=False)
        return left, len(self._rows.columns)

    def add(self, tree: DecisionTree, values: Integers) -> None:
        """Take over a tree, with its values in whole steps."""
        self._trees.append((tree, values.T.tolist()))

    def raw_slopes(self) -> Integers:
        """The same slopes."""
        return stored_slopes(self._loss, self._clip, self._logits, self._outputs, self._rows)

    def _logits(self, places: tuple[Whole, ...]) -> list[Whole]:
        if not self._trees:
            return [Whole.constant(0)] * self._outputs
        leaves = [stored_leaf(places, tree.levels) for tree, _ in self._trees]
        return [
            total_of([looked_up(values[at], leaf) for (_, values), leaf in zip(self._trees, leaves, strict=True)])
            for at in range(self._outputs)
        ]


def _stored_curved(residual: Whole) -> Whole:
    """4p(1 - p) of a stored row, in steps of :data:`ROW`."""
    size = residual.at_least(Whole.constant(0) - residual).between(0, WHOLE)
    return (size * (Whole.constant(WHOLE) - size) * (4 * ROW)).over(WHOLE**2)
