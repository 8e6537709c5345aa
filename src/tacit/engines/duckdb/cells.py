"""Rows added up per unit and group in one array, without a sort: a cell for every unit and group that there may be.

For rows of units that are numbered closely, as most are, where a unit keeps all of its groups. The same integers as
those of :mod:`folding`, which does what does not fit here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.folding import Fold, Rows, listed, per_group
from tacit.engines.duckdb.shares import Integers, Segments

__all__ = ["in_cells"]

#: Cells per row beyond which most of them would stay empty.
_CELLS = 4


def in_cells(rows: Rows, work: Fold) -> list[tuple[int, ...]] | None:
    """As :func:`tacit.engines.duckdb.folding.fold`; None where units must choose, or lie too far apart.

    Raises:
        TooWideError: when 64 bits might not do.
    """
    first, last = int(rows.units.min()), int(rows.units.max())
    count = (last - first + 1) * work.groups
    if work.groups > work.most or count > _CELLS * len(rows.units):
        return None
    cells = (rows.units - first).astype(np.int64) * work.groups + rows.groups
    full = {name for name, column in rows.columns.items() if column.is_full}
    pairs = _Cells(lambda name: rows.columns[name].of(slice(None)), full, cells, count)
    return listed(per_group(work, pairs.present % work.groups, pairs))


class _Cells(Segments):
    """Pairs as cells; those without rows are left out.

    Args:
        read: the y of every row in a column.
        full: columns in which every row counts.
        cells: of each row.
        count: of all cells.
    """

    def __init__(
        self, read: Callable[[str], Integers], full: Collection[str], cells: NDArray[np.int64], count: int
    ) -> None:
        lengths = np.bincount(cells, minlength=count)
        self.present = np.flatnonzero(lengths)
        super().__init__(read, full, lengths[self.present])
        self._cells, self._count = cells, count

    def sums(self, values: NDArray[Any]) -> Integers:
        """Sums per pair; modulo 2^64, as those of the other kind."""
        total = np.zeros(self._count, dtype=np.int64)
        np.add.at(total, self._cells, values.astype(np.int64, copy=False))
        return total[self.present]
