"""Answers to a workload as counts of one made-up table: whole numbers, not negative, every total the sum of its parts.

Post-processing of estimates that were released, and free. A model is fitted to all of them, weighted by their noise,
and so many rows are drawn from it as the estimates sum up to, as evenly as whole numbers allow. These counts are not
unbiased, small ones above all, and have no intervals of their own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.synth.expanded_shares import ExpandedShares
from tacit.synth.graphical_model import NoisyMarginal, fit_model
from tacit.synth.junction_tree import model_cells

NOTE: Final = (
    "Counts of one made-up table that was fitted to the answers: whole numbers, not negative, which add up. They are "
    "post-processing, not unbiased, and have no intervals; those of the answers hold for the truth."
)
#: Cells of the model, and rows of the table.
_MOST_CELLS: Final = 10_000_000
_MOST_ROWS: Final = 10_000_000


class WholeCounts:
    """Counts of one table of whole numbers near the answers to a workload.

    Args:
        values: of each column, in order.
        places: of each column, the place of its value in every row.
        weights: 0 or 1 for each value of a column that a condition names; refuses what the workload does not have.
        covers: whether the workload has some columns together.
    """

    note = NOTE

    def __init__(
        self,
        values: Mapping[str, Sequence[Any]],
        places: Mapping[str, NDArray[np.int64]],
        weights: Callable[[Mapping[str, Any]], Mapping[str, NDArray[np.float64]]],
        covers: Callable[[tuple[str, ...]], bool],
    ) -> None:
        self._values = values
        self._places = places
        self._weights = weights
        self._covers = covers
        self.rows = len(next(iter(places.values())))

    def count(self, **conditions: Any) -> int:
        """The number of rows that meet conditions, which are those of :meth:`.WorkloadEstimates.count`."""
        weights = self._weights(conditions)
        kept = np.ones(self.rows, dtype=np.bool_)
        for name, each in weights.items():
            kept &= each[self._places[name]] > 0
        return int(kept.sum())

    def marginal(self, *columns: str) -> Any:
        """Counts of every combination of values of some columns that the workload has together, as an Arrow table."""
        pa = load_arrow()
        names = tuple(sorted(columns))
        if not names or not self._covers(names):
            raise InputError("columns", f"{', '.join(columns)} is in no part of the workload")
        shape = tuple(len(self._values[name]) for name in names)
        cells = np.ravel_multi_index(tuple(self._places[name] for name in names), shape)
        counts = np.bincount(cells, minlength=math.prod(shape))
        made = {
            name: pa.array(list(self._values[name])).take(pa.array(place.ravel()))
            for name, place in zip(names, np.indices(shape), strict=True)
        }
        return pa.table({**made, "count": pa.array(counts)})

    def __repr__(self) -> str:
        return f"<WholeCounts of {', '.join(self._places)}: {self.rows:,} rows>"


def whole_counts(
    values: Mapping[str, Sequence[Any]],
    measured: Sequence[NoisyMarginal],
    weights: Callable[[Mapping[str, Any]], Mapping[str, NDArray[np.float64]]],
    covers: Callable[[tuple[str, ...]], bool],
) -> WholeCounts:
    """Counts of one table near some estimated marginals; the same for every process.

    Args:
        values: of each column.
        measured: the estimates.
        weights: see :class:`WholeCounts`.
        covers: likewise.

    Raises:
        InputError: there is no column, or the model or the table would be too large.
    """
    sizes = {name: len(listed) for name, listed in values.items() if any(name in each.columns for each in measured)}
    if not sizes:
        raise InputError("workload", "counts all rows alone; round the answer itself")
    ordered = [_in_order(each, list(sizes)) for each in measured if each.columns]
    if (cells := model_cells(sizes, [each.columns for each in ordered])) > _MOST_CELLS:
        raise InputError(
            "workload",
            f"ties columns together with {cells:,} combinations, and {_MOST_CELLS:,} is the most of one table",
        )
    model = fit_model(sizes, ordered)
    rows = round(model.total)
    if rows > _MOST_ROWS:
        raise InputError("workload", f"counts about {rows:,} rows, and {_MOST_ROWS:,} is the most of one table")
    seen = hashlib.sha256(b"".join(np.ascontiguousarray(each.counts).tobytes() for each in ordered)).hexdigest()
    return WholeCounts(values, model.sample(rows, ExpandedShares(f"whole numbers {seen}")), weights, covers)


def _in_order(noisy: NoisyMarginal, names: list[str]) -> NoisyMarginal:
    """A marginal with its columns in an order that all have."""
    order = sorted(range(len(noisy.columns)), key=lambda at: names.index(noisy.columns[at]))
    columns = tuple(noisy.columns[at] for at in order)
    return NoisyMarginal(columns, noisy.counts.transpose(order), noisy.stddev)
