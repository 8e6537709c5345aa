"""Totals per unit and group in one dense array, without a sort.

For rows of units that are numbered closely, as most are, where a unit keeps all of its groups. The same integers as
those of :mod:`folding`, which does what does not fit here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.fast.sorted_totals import FetchedRows, Fold, listed
from tacit.engines.duckdb.fast.unit_arrays import Integers, Pairs

__all__ = ["in_cells"]

#: Cells per row beyond which most of them would stay empty.
_CELLS = 4


def in_cells(rows: FetchedRows, work: Fold) -> list[tuple[int, ...]] | None:
    """As :func:`tacit.engines.duckdb.fast.sorted_totals.fold`; None where units must choose, or lie too far apart.

    Raises:
        TooWideError: when 64 bits might not do.
    """
    first, last = int(rows.units.min()), int(rows.units.max())
    units = last - first + 1
    if work.groups > work.most or units * work.groups > _CELLS * len(rows.units):
        return None
    # Group after group, so that a group is added up in one go.
    cells = np.subtract(rows.units, first, dtype=np.int64)
    cells += rows.groups * np.int64(units)
    shape = (work.groups, units)
    full = {name for name, column in rows.columns.items() if column.is_full}
    pairs = _Cells(lambda name: rows.columns[name].of(slice(None)), full, cells, units * work.groups)
    totals = [np.count_nonzero(pairs.lengths.reshape(shape), axis=1)]
    for share in work.shares:
        share.check_sum(len(cells))
        # A unit that is not in a group has 0 there, and every clamp leaves 0 as it is.
        totals.append(share.of(pairs).reshape(shape).sum(axis=1))
    return listed(totals)


class _Cells(Pairs):
    """All pairs that there may be; those without rows have nothing.

    Args:
        read: the y of every row in a column.
        full: columns in which every row counts.
        cells: of each row.
        count: of all cells.
    """

    def __init__(
        self, read: Callable[[str], Integers], full: Collection[str], cells: NDArray[np.int64], count: int
    ) -> None:
        super().__init__(read, full, np.bincount(cells, minlength=count))
        self._cells = cells

    def sums(self, values: NDArray[Any]) -> Integers:
        """Each value added to its cell."""
        total = np.zeros_like(self.lengths)
        np.add.at(total, self._cells, values.astype(np.int64, copy=False))
        return total
