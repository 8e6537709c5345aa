"""Exact sums of what rows add to the leaves of a tree."""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.learn.binned import BinnedRows
from tacit.learn.confidence import raw_slopes
from tacit.learn.integer_rows import Integers
from tacit.learn.losses import WHOLE, Loss, clip_residuals
from tacit.learn.trees import DecisionTree, TreeQuestion, leaves_of
from tacit.learn.weights import shared

#: Weight of a row in the number of rows of a leaf, beside a residual of one.
ROW: Final = WHOLE // 4


def raw_leaf_sums(leaves: Integers, residuals: Integers, count: int, shares: Integers | None = None) -> Integers:
    """For each leaf the sums of residuals and, last, of :data:`ROW` for each row, exactly.

    Args:
        leaves: of the rows.
        residuals: one column per output.
        count: number of leaves.
        shares: of rows with weights.
    """
    added = shared(np.hstack([residuals, np.full((len(residuals), 1), ROW, dtype=np.int64)]), shares)
    total = np.zeros((count, added.shape[1]), dtype=np.int64)
    np.add.at(total, leaves, added)
    return total


class LeafScores:
    """Scores of rows, tree after tree."""

    def __init__(self, loss: Loss, clip: int, outputs: int, rows: BinnedRows) -> None:
        self._loss, self._clip, self._rows = loss, clip, rows
        self._logits = np.zeros((len(rows.places), outputs), dtype=np.int64)

    def raw_sums(self, questions: tuple[TreeQuestion, ...]) -> Integers:
        """Sums of what rows add to the leaves that these questions make."""
        clip = np.full(len(self._logits), self._clip)
        residuals = clip_residuals(self._loss.residuals(self._logits, self._rows.targets), clip)
        return raw_leaf_sums(leaves_of(self._rows.places, questions), residuals, 1 << len(questions), self._rows.shares)

    def add(self, tree: DecisionTree, values: Integers) -> None:
        """Take over a tree, with its values in whole steps."""
        self._logits += values[tree.leaves(self._rows.places)]

    def raw_slopes(self) -> Integers:
        """Slopes of the loss along a factor of the scores."""
        return raw_slopes(self._loss, self._clip, self._logits, self._rows)
