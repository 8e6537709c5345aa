"""Aggregates of released cells.

The rows are fixed by then, so counts of rows are exact. Sums and means of released integers carry the noise of a sum,
which is far smaller than the sum of the intervals. Other functions are enclosed by what they give for the low ends
and for the high ends (they rise with each argument); a standard deviation moves by at most the root mean square of
the moves of its arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tacit.core.numbers import sqrt_bounds
from tacit.query.aggregates import AGGREGATES, AggregateEntry, SpreadForm
from tacit.query.postprocess.cells import Affine, Cell, CellConfidence, Event, Exact, linear_events
from tacit.query.postprocess.rounding import value_at
from tacit.query.types import UNKNOWN, Domain, Range, SqlType, Value, hull, ordinal, sort_key

__all__ = ["pool"]


def pool(function: str, cells: Sequence[Cell], parameter: Value | None, kind: SqlType) -> Cell:
    """The aggregate of some cells; NULL values are left out as in SQL.

    Args:
        function: a name of :class:`~tacit.query.relational.algebra.UnitCall`, other than ``count_rows``.
        cells: the arguments.
        parameter: the fraction of ``quantile``.
        kind: the type of the result.
    """
    if function == "count":
        return Exact(sum(cell.value is not None for cell in cells), kind)
    if function == "count_distinct":
        return _Distinct(tuple(cells), kind)
    cell = _Pool(
        function, tuple(cells), Fraction(parameter) if isinstance(parameter, (int, float, Fraction)) else None, kind
    )
    return cell if cell.events else Exact(cell.value, kind)


@dataclass(frozen=True, eq=False)
class _Distinct(Cell):
    """The number of distinct released values; with noise in them it could be any number up to that of the rows."""

    cells: tuple[Cell, ...]
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        return len({cell.value for cell in self.cells} - {None})

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset().union(*(cell.events for cell in self.cells))

    def _enclose(self, level: CellConfidence) -> Domain:  # noqa: ARG002 - the same at every level
        return Domain(Range(Fraction(0), Fraction(len(self.cells))), False, None, Fraction(1))


@dataclass(frozen=True, eq=False)
class _Pool(Cell):
    function: str
    cells: tuple[Cell, ...]
    fraction: Fraction | None
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        present = [cell for cell in self.cells if cell.value is not None]
        if present and not present[0].type.is_ordered:
            # Text: MIN and MAX only.
            choose = min if self.function == "min" else max
            return choose((cell.value for cell in present), key=lambda value: sort_key(value, present[0].type))
        places = [ordinal(cell.value, cell.type) for cell in present if cell.value is not None]
        place = self._fold(places)
        return None if place is None else value_at(place, self.type)

    @cached_property
    def affine(self) -> Affine | None:
        parts = [cell.affine for cell in self.cells]
        known = [part for part in parts if part is not None]
        if not self._entry.linear or not known or len(known) < len(parts):
            return None
        total = Affine.total(known)
        return total if self.function == "sum" else total.scaled(Fraction(1, len(known)))

    @property
    def _linear(self) -> bool:
        return self.affine is not None and len(self.affine.weights) > 1

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        if self.affine is not None and self._linear:
            return linear_events(self.affine)
        return frozenset().union(*(cell.events for cell in self.cells))

    @property
    def _entry(self) -> AggregateEntry:
        return AGGREGATES[self.function]

    def _fold(self, places: list[Fraction]) -> Fraction | None:
        entry = self._entry
        if not places:
            return None
        if entry.spread is not None:
            count = len(places)
            if count < 1 + entry.spread.sample:
                return None
            variance = _variance(places) * (Fraction(count, count - 1) if entry.spread.sample else 1)
            return sum(_root(variance), Fraction(0)) / 2 if entry.spread.root else variance
        if entry.fold is None:
            raise AssertionError("counts are pooled above")
        return entry.fold(places, self.fraction)

    def _enclose(self, level: CellConfidence) -> Domain:
        if self.affine is not None and self._linear:
            return self.affine.enclose(level)
        domains = [(cell, cell.enclose(level)) for cell in self.cells]
        # What is NULL for certain is left out, as in SQL.
        there = [(cell, domain) for cell, domain in domains if set(domain.values or (0,)) != {None}]
        doubts = [domain.nullable or cell.value is None for cell, domain in there]
        spans = [domain.range for _, domain in there]
        if not spans or any(span.ends is None for span in spans):
            return Domain(UNKNOWN, True, None, None)
        ends = [span.ends for span in spans if span.ends is not None]
        return Domain(self._span(ends, hull(spans), doubts), any(doubts), None, None)

    def _span(self, ends: list[tuple[Fraction, Fraction]], whole: Range, doubts: list[bool]) -> Range:
        if self._entry.spread is not None:
            return self._spread(ends, whole, any(doubts), self._entry.spread)
        if self.function == "sum":
            # Whatever may be NULL may add nothing.
            zero = Fraction(0)
            lows = [min(low, zero) if doubt else low for (low, _), doubt in zip(ends, doubts, strict=True)]
            highs = [max(high, zero) if doubt else high for (_, high), doubt in zip(ends, doubts, strict=True)]
            return Range(sum(lows, zero), sum(highs, zero))
        if any(doubts):
            return whole
        return Range(self._fold([low for low, _ in ends]), self._fold([high for _, high in ends]))

    def _spread(self, ends: list[tuple[Fraction, Fraction]], whole: Range, doubtful: bool, form: SpreadForm) -> Range:
        sample, root = form
        count = len(ends)
        if doubtful or count < 1 + sample:
            width = (whole.ends[1] - whole.ends[0]) if whole.ends else Fraction(0)
            low, high = Fraction(0), width / 2
            factor = Fraction(2) if sample else Fraction(1)
        else:
            deviation = _root(_variance([(low + high) / 2 for low, high in ends]))
            move = _root(sum(((high - low) / 2) ** 2 for low, high in ends) / Fraction(count))
            low, high = max(deviation[0] - move[1], Fraction(0)), deviation[1] + move[1]
            factor = Fraction(count, count - 1) if sample else Fraction(1)
        if root:
            return Range(low * _root(factor)[0], high * _root(factor)[1])
        return Range(low**2 * factor, high**2 * factor)


def _variance(places: list[Fraction]) -> Fraction:
    mean = sum(places, Fraction(0)) / len(places)
    return sum(((place - mean) ** 2 for place in places), Fraction(0)) / len(places)


def _root(value: Fraction) -> tuple[Fraction, Fraction]:
    return sqrt_bounds(value) if value else (value, value)
