"""Edges of bins by private quantiles: a noisy histogram on a fine public grid, and where its quantiles are.

The counts of a grid are measured with sums over runs of 4, 16, 64, … cells, so that cumulative counts have little
noise. Edges are read off the cumulative counts: post-processing, which never sees an exact count.

Proof: ``bin_edges.proof.md``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.synth.strategy import DenseStrategy, tree_strategy

#: The most bins of a column.
BINS: Final = 32
_BRANCHES: Final = 4


def grid_strategy(size: int) -> DenseStrategy:
    """Every cell, and sums over runs of 4, 16, 64, … cells up to the whole."""
    return tree_strategy(size, _BRANCHES)


def edges_of(counts: NDArray[np.float64], bins: int = BINS) -> tuple[int, ...]:
    """Cells at which bins with about equal counts begin, the first of them 0.

    A cell with more than its share is a bin by itself, and cells without counts are no bins. There are at most
    ``bins``: a cell that begins and ends a bin holds two of the quantiles or more.

    >>> edges_of(np.array([0.0, 90, 0, 0, 5, 5]), 4)
    (0, 1, 2)
    """
    sums = np.cumsum(counts)
    # Noise makes the sums fall here and there: the mean of the closest rising curves above and below.
    rising = (np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1]) / 2
    total = float(rising[-1])
    if not total > 0:
        even = np.arange(bins) * len(counts) // bins
        return tuple(dict.fromkeys(int(each) for each in even))
    wanted = np.arange(1, bins) * total / bins
    ends = np.searchsorted(rising, wanted, side="left")
    found = {0}
    for end, times in zip(*np.unique(ends, return_counts=True), strict=True):
        # The quantile lies in this cell, so that a bin ends with it. One that holds several stands alone.
        if times > 1:
            found.add(int(end))
        found.add(int(end) + 1)
    return tuple(sorted(each for each in found if each < len(counts)))
