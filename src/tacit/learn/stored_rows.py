"""Rows that stay in a database: a fit says what each row adds, in whole numbers, and is told the sums.

:class:`StoredRows` stands where an array of rows stands in a fit to rows of this process, and goes through the same
steps: bounds, categories, weights, centres, lengths, bins, residuals. ``stored_rows.proof.md`` says why every sum is
the same integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.row_sums import (
    Whole,
    WholeSums,
    is_place,
    label_place,
    looked_up,
    quantised,
    total_of,
    where_at_least,
)

if TYPE_CHECKING:
    from tacit.learn.categories import Encoding
    from tacit.learn.integer_rows import Box

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Columns of whole numbers of rows that are not here.

    Attributes:
        features: number of raw columns that are features; they are the first.
        run: adds up.
        aim: place of the raw number that is to be predicted.
        weight: place of the raw number that weighs a row.
        label: place of the raw class of a row.
        encoding: of categories among the features.
        layers: columns computed so far, layer by layer.
        columns: of the last layer, without target and share.
        target: what is learned of a row: the place of its class, -1 for none of them, or a number; None for neither.
        share: of a row that has a weight.
    """

    features: int
    run: Callable[[WholeSums], Integers]
    aim: int | None = None
    weight: int | None = None
    label: int | None = None
    encoding: Encoding | None = None
    layers: tuple[tuple[Whole, ...], ...] = ()
    columns: tuple[Whole, ...] = ()
    target: Whole | None = None
    share: Whole | None = None

    @property
    def shape(self) -> tuple[None, int]:
        """An unknown number of rows, and the columns; of raw rows those of the model, without a target."""
        if self.layers:
            return (None, len(self.columns))
        return (None, self.features if self.encoding is None else len(self.encoding.bounds))

    def encoded(self, encoding: Encoding) -> StoredRows:
        """Raw rows some of whose columns are declared categories."""
        return replace(self, encoding=encoding)

    def labelled(self, classes: Sequence[Any]) -> StoredRows:
        """Raw rows whose target is the place of their label among classes."""
        return replace(self, target=label_place(self._label, classes))

    def weighted(self, largest: float | None, whole: int, by_class: Sequence[int] | None) -> StoredRows:
        """Raw rows with shares of a ``whole``, by their own weights and those of their classes, where there are any.

        Args:
            largest: weight that is a whole row; None where rows have none.
            whole: steps of a share.
            by_class: shares of the classes; rows are labelled already.
        """
        share = None
        if largest is not None and self.weight is not None:
            share = quantised(self.weight, 0.0, largest, whole).at_least(0)
        if by_class is not None and self.target is not None:
            ours = looked_up(by_class, self.target.at_least(0))
            share = ours if share is None else (share * ours).over(whole)
        return replace(self, share=share)

    @property
    def _label(self) -> int:
        assert self.label is not None  # noqa: S101 - a classifier is given rows with labels
        return self.label

    def to_steps(self, box: Box, fine: int) -> StoredRows:
        """Raw numbers in steps between their bounds, categories as columns of their own or as numbers; the aim last."""
        known = {} if self.encoding is None else dict(self.encoding.declared)
        one_hot = self.encoding is not None and self.encoding.one_hot
        width = self.shape[1] + (self.aim is not None)
        middles, halves = (np.broadcast_to(side, width).tolist() for side in (box.middle, box.half_width))
        read: list[Whole] = []
        spread: list[Callable[[Whole], list[Whole]]] = []
        column = 0
        for place in range(self.features):
            declared = known.get(place)
            if declared is None:
                read.append(quantised(place, middles[column], halves[column], fine))
                spread.append(lambda found: [found])
            else:
                read.append(label_place(place, declared.listed or ()))
                if one_hot:
                    spread.append(lambda found, size=declared.size: _one_hot(found, size, fine))  # type: ignore[misc]
                else:
                    # The very steps that numbers of categories have between their bounds in this process.
                    codes = np.broadcast_to(np.arange(declared.size + 1.0)[:, None], (declared.size + 1, width))
                    steps = box.to_steps(codes)[:, column].tolist()
                    spread.append(lambda found, steps=steps: [_numbered(found, steps)])  # type: ignore[misc]
            column += declared.size if declared is not None and one_hot else 1
        if self.aim is not None:
            read.append(quantised(self.aim, middles[-1], halves[-1], fine))
            spread.append(lambda found: [found])
        raw = self._above(read)
        if not known:
            return raw
        return raw.mapped(lambda found: [w for each, make in zip(found, spread, strict=True) for w in make(each)])

    def aimed(self, target: Callable[[Whole], Whole]) -> StoredRows:
        """Rows whose target is computed from their last column, without that column."""
        return replace(self, target=target(self.columns[-1]))._above(self.columns[:-1])

    def mapped(self, into: Callable[[tuple[Whole, ...]], Sequence[Whole]]) -> StoredRows:
        """Columns computed from those there are; target and share stay."""
        return self._above(into(self.columns))

    def scaled(self, norm: int, smallest: int) -> StoredRows:
        """Rows of a norm of at most ``norm``; see :func:`~tacit.learn.integer_rows.scale_rows`."""
        return self.with_length().mapped(lambda found: shortened(found[:-1], found[-1], norm, smallest))

    def with_length(self) -> StoredRows:
        """The columns, and the norm of a row, rounded up, as the last one."""
        squares = self.mapped(lambda found: [*found, total_of([each.squared() for each in found])])
        return squares.mapped(lambda found: [*found[:-1], found[-1].root()])

    def sums(self, added: Sequence[Whole | int], groups: int = 1, *groupings: Whole) -> Integers:
        """Sums of numbers computed from the columns, one line per grouping and group; groups below 0 are left out."""
        numbers = [Whole.constant(each) if isinstance(each, int) else each for each in added]
        return self.run(WholeSums(self.layers, tuple(numbers), groupings, groups))

    def _above(self, numbers: Sequence[Whole]) -> StoredRows:
        beside = [each for each in (self.target, self.share) if each is not None]
        kept = [*numbers, *beside]
        named = [Whole.column(place, number.low, number.high) for place, number in enumerate(kept)]
        share = None if self.share is None else named.pop()
        target = None if self.target is None else named.pop()
        return replace(self, layers=(*self.layers, tuple(kept)), columns=tuple(named), target=target, share=share)


def _one_hot(code: Whole, size: int, fine: int) -> list[Whole]:
    """Columns from 0 to 1, of which that of the category is 1, in steps between these bounds."""
    return [is_place(code, number, fine, -fine) for number in range(size)]


def _numbered(code: Whole, steps: list[int]) -> Whole:
    """Steps of the number of a category; any other value has the number after the last."""
    return looked_up(steps, where_at_least(code, 0, code.at_least(0), len(steps) - 1))


def shortened(row: Sequence[Whole], length: Whole, norm: int, smallest: int) -> list[Whole]:
    """Entries times ``norm`` over the length of the row, or over ``smallest`` where that is larger, towards zero."""
    divisor = length.at_least(max(smallest, 1))
    # No entry is longer than its row; saying so once more changes nothing and keeps ranges small.
    return [(each * norm).over(divisor).between(-norm, norm) for each in row]
