"""MODE and the k-th most common value, from noisy counts of declared categories.

The value is the category with the k-th largest noisy count; equal counts go by the order of declaration, and a count
below 1 gives NULL, as SQL does for a group without values. When every noise is within w, a category can truly be k-th
only if its count, raised by w, reaches the k-th largest lowered by w, and the other way round; the enclosure is the
set of those. Numbers and dates have an interval (the hull of that set), text has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from tacit.query.postprocess.cells import Cell, CellConfidence, Event, MeasureBias
from tacit.query.types import Domain, SqlType, Value, finite

__all__ = ["Common", "CommonEvent"]


@dataclass(frozen=True, slots=True)
class CommonEvent:
    """The event that the noises of all categories of a group are small."""

    measure: int
    group: int


@dataclass(frozen=True, eq=False)
class Common(Cell):
    """The ``rank``-th most common of ``categories``.

    Args:
        noisy: released integers, one for each category.
        categories: in the order of their declaration.
        rank: 1 for the most common.
        event: of all their noises.
        type: of the categories.
        unit: what a released integer is worth in values counted.
    """

    noisy: NDArray[Any]
    categories: tuple[Value | None, ...]
    rank: int
    event: CommonEvent
    type: SqlType
    unit: Fraction = Fraction(1)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """All counts of the group at once."""
        return frozenset((self.event,))

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The category; None when fewer are declared or its noisy count is below 1."""
        if self.rank > len(self.categories):
            return None
        order = sorted(range(len(self.categories)), key=lambda i: (-int(self.noisy[i]), i))
        chosen = order[self.rank - 1]
        return self.categories[chosen] if int(self.noisy[chosen]) * self.unit >= 1 else None

    def _enclose(self, level: CellConfidence) -> Domain:
        if self.rank > len(self.categories):
            return Domain(nullable=True, values=(None,))
        each = level.beta / len(self.categories)
        width = level.laws[self.event.measure].error(each)
        counts = [int(count) * self.unit for count in self.noisy]
        pivot = sorted(counts, reverse=True)[self.rank - 1]
        near = [c for c, count in zip(self.categories, counts, strict=True) if abs(count - pivot) <= 2 * width]
        return finite(near, self.type, nullable=pivot - width < 1)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        if biases[self.event.measure].is_nothing:
            return known
        return finite(self.categories, self.type, nullable=True)
