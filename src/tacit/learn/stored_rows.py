"""Rows that stay in a database: a fit says what each row adds, in whole numbers, and is told the sums.

:class:`StoredRows` stands where an array of rows stands in a fit to rows of this process, and goes through the same
steps: bounds, centres, lengths, residuals. ``stored_rows.proof.md`` says why every sum is the same integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.row_sums import Whole, WholeSums, label_place, quantised, total_of

__all__ = ["StoredRows", "shortened"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Columns of whole numbers of rows that are not here.

    Attributes:
        width: number of raw columns.
        run: adds up.
        layers: columns computed so far, layer by layer.
        columns: of the last layer, without the target.
        target: what is learned of a row: the place of its class, -1 for none of them, or a number; None for neither.
    """

    width: int
    run: Callable[[WholeSums], Integers]
    layers: tuple[tuple[Whole, ...], ...] = ()
    columns: tuple[Whole, ...] = ()
    target: Whole | None = None

    @property
    def shape(self) -> tuple[None, int]:
        """An unknown number of rows, and the columns."""
        return (None, len(self.columns) if self.layers else self.width)

    def to_steps(self, middle: NDArray[np.float64], half_width: NDArray[np.float64], fine: int) -> StoredRows:
        """Raw numbers in steps between their bounds."""
        middles, halves = (np.broadcast_to(side, self.width).tolist() for side in (middle, half_width))
        numbers = [quantised(place, middles[place], halves[place], fine) for place in range(self.width)]
        return self._above(numbers)

    def labelled(self, classes: Sequence[Any]) -> StoredRows:
        """Raw rows whose target is the place of their label among classes."""
        return replace(self, target=label_place(classes))

    def aimed(self, target: Callable[[Whole], Whole]) -> StoredRows:
        """Rows whose target is computed from their last column, without that column."""
        return replace(self, target=target(self.columns[-1]))._above(self.columns[:-1])

    def mapped(self, into: Callable[[tuple[Whole, ...]], Sequence[Whole]]) -> StoredRows:
        """Columns computed from those there are; the target stays."""
        return self._above(into(self.columns))

    def scaled(self, norm: int, smallest: int) -> StoredRows:
        """Rows of a norm of at most ``norm``; see :func:`~tacit.learn.integer_rows.scale_rows`."""
        return self.with_length().mapped(lambda found: shortened(found[:-1], found[-1], norm, smallest))

    def with_length(self) -> StoredRows:
        """The columns, and the norm of a row, rounded up, as the last one."""
        squares = self.mapped(lambda found: [*found, total_of([each.squared() for each in found])])
        return squares.mapped(lambda found: [*found[:-1], found[-1].root()])

    def sums(self, added: Sequence[Whole | int], groups: int = 1, group: Whole | None = None) -> Integers:
        """Sums of numbers computed from the columns, one line per group; rows of a group below 0 are left out."""
        numbers = [Whole.constant(each) if isinstance(each, int) else each for each in added]
        return self.run(WholeSums(self.layers, tuple(numbers), group, groups))

    def _above(self, numbers: Sequence[Whole]) -> StoredRows:
        kept = [*numbers, *([] if self.target is None else [self.target])]
        named = [Whole.column(place, number.low, number.high) for place, number in enumerate(kept)]
        target = None if self.target is None else named.pop()
        return replace(self, layers=(*self.layers, tuple(kept)), columns=tuple(named), target=target)


def shortened(row: Sequence[Whole], length: Whole, norm: int, smallest: int) -> list[Whole]:
    """Entries times ``norm`` over the length of the row, or over ``smallest`` where that is larger, towards zero."""
    divisor = length.at_least(max(smallest, 1))
    # No entry is longer than its row; saying so once more changes nothing and keeps ranges small.
    return [(each * norm).over(divisor).between(-norm, norm) for each in row]
