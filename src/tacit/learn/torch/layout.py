"""Layout of rows in micro-batches, independent of other rows.

A library of linear algebra may round the same row differently at different places of a batch, or in batches of
different shapes. If it did, one person more would move the last bits of every gradient, by its place alone.
So the shape never changes, and rows are packed tightly only where places were seen not to matter
(``batch_position_check``). Otherwise each row has a place of its own choosing: drawn at random, by itself, it stays
when another row comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.noise import entropy

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Layout:
    """Micro-batches of ``size`` places, filled from the front if ``tight``, else at places drawn for each row."""

    size: int
    tight: bool

    def batches(self, chosen: Places) -> Iterator[tuple[Places, Places]]:
        """The chosen rows batch by batch, and the place of each."""
        return self._tight(chosen) if self.tight else self._scattered(chosen)

    def _tight(self, chosen: Places) -> Iterator[tuple[Places, Places]]:
        for start in range(0, len(chosen), self.size):
            rows = chosen[start : start + self.size]
            yield rows, np.arange(len(rows))

    def _scattered(self, chosen: Places) -> Iterator[tuple[Places, Places]]:
        """Rows of equal place queue up: the first of each queue are the first batch, and so on.

        A row that joins a queue moves those behind it to later batches, at the same place.
        """
        places = (entropy.current().words(len(chosen)) % np.uint64(self.size)).astype(np.intp)
        order = np.argsort(places, kind="stable")
        rows, places = chosen[order], places[order]
        turn = np.arange(len(rows)) - np.searchsorted(places, places)
        for batch in range(int(turn.max(initial=-1)) + 1):
            yield rows[turn == batch], places[turn == batch]
