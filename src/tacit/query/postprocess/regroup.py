"""Aggregates and windows of released cells.

Which rows there are is fixed by then, but for conditions on noisy cells, which leave rows in doubt. Sums and means of
released integers carry the noise of a sum, which is far smaller than the sum of the intervals. Other functions are
enclosed by what they give for the low ends and for the high ends (they rise with each argument); a standard deviation
moves by at most the root mean square of the moves of its arguments.

Windows over released rows are aggregates of a partition, of its rows so far or of those around the current one, ranks,
and neighbouring rows. A rank by
noisy numbers is a rank of released values; the true rank could be any in its partition, and that is its interval.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from tacit.core.numbers import sqrt_bounds
from tacit.query import limits
from tacit.query.aggregates import AGGREGATES, AggregateEntry, SpreadForm
from tacit.query.postprocess.cell_expressions import EndOf, Row, derive
from tacit.query.postprocess.cells import Affine, Cell, CellConfidence, Event, Exact, linear_events, value_at
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import FrameEnd, MonthsAway, SortKey, WindowCall, WindowFrame
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.types import INTEGER, UNKNOWN, Domain, Range, SqlType, Value, hull, ordinal, sort_key


def pool(function: str, cells: Sequence[Cell], parameter: Value | None, kind: SqlType) -> Cell:
    """The aggregate of some cells; NULL values are left out as in SQL.

    Args:
        function: a name of :class:`~tacit.query.relational.algebra.UnitCall`, other than ``count_rows``; or ``median``.
        cells: the arguments.
        parameter: the fraction of ``quantile``.
        kind: the type of the result.
    """
    if function == "count":
        number = _Number(tuple(cells), kind)
        return number if number.events else Exact(number.value, kind)
    if function == "count_distinct":
        return _Distinct(tuple(cells), kind)
    if function == "median":
        function, parameter = "quantile", Fraction(1, 2)
    fraction = Fraction(parameter) if isinstance(parameter, (int, float, Fraction)) else None
    cell = _Pool(function, tuple(cells), fraction, kind)
    return cell if cell.events else Exact(cell.value, kind)


@dataclass(frozen=True, eq=False)
class _Number(Cell):
    """The number of cells that are not NULL; noise may decide which are."""

    cells: tuple[Cell, ...]
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        return sum(cell.value is not None for cell in self.cells)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset().union(*(cell.events for cell in self.cells))

    def _enclose(self, level: CellConfidence) -> Domain:
        domains = [cell.enclose(level) for cell in self.cells]
        there = [domain for domain in domains if set(domain.values or (0,)) != {None}]
        certain = sum(not domain.nullable for domain in there)
        return Domain(Range(Fraction(certain), Fraction(len(there))), False, None, Fraction(1))


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
        # A cell that is NULL for certain is left out, as in SQL.
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
            return self._of_doubtful(ends, whole, doubts)
        return Range(self._fold([low for low, _ in ends]), self._fold([high for _, high in ends]))

    def _of_doubtful(self, ends: list[tuple[Fraction, Fraction]], whole: Range, doubts: list[bool]) -> Range:
        """The values with any of the doubtful cells and all others."""
        lows, highs = ([end[i] for end, doubt in zip(ends, doubts, strict=True) if not doubt] for i in range(2))
        if not lows or self.function not in ("min", "max", "avg"):
            return whole
        if self.function == "min":
            return Range(whole.low, min(highs))
        if self.function == "max":
            return Range(max(lows), whole.high)
        doubtful = [end for end, doubt in zip(ends, doubts, strict=True) if doubt]
        least = _least_mean(lows, [low for low, _ in doubtful])
        return Range(least, -_least_mean([-high for high in highs], [-high for _, high in doubtful]))

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


def _least_mean(certain: list[Fraction], doubtful: list[Fraction]) -> Fraction:
    """The least mean of all of the certain and any of the doubtful values: a value below the mean lowers it."""
    total, count = sum(certain, Fraction(0)), len(certain)
    for value in sorted(doubtful):
        if value * count >= total:
            break
        total, count = total + value, count + 1
    return total / count


def _variance(places: list[Fraction]) -> Fraction:
    mean = sum(places, Fraction(0)) / len(places)
    return sum(((place - mean) ** 2 for place in places), Fraction(0)) / len(places)


def _root(value: Fraction) -> tuple[Fraction, Fraction]:
    return sqrt_bounds(value) if value else (value, value)


# -- windows

_RANKS = ("row_number", "rank", "dense_rank")
Around = tuple[FrameEnd, FrameEnd]


@dataclass(frozen=True, eq=False)
class _RankCell(Cell):
    """A rank among ``size`` rows in an order that noise may have changed."""

    value: Value | None
    size: int
    events: frozenset[Event]
    type: SqlType = field(default=INTEGER)

    def _enclose(self, level: CellConfidence) -> Domain:  # noqa: ARG002 - the same at every level
        return Domain(Range(Fraction(1), Fraction(self.size)), False, None, Fraction(1))


def in_order(rows: Sequence[Row], keys: Sequence[SortKey], ends: EndOf | None = None) -> list[int]:
    """The indices of the rows in the order of some keys; ties stay as they are."""
    order = list(range(len(rows)))
    for key in reversed(keys):
        values = [derive(key.expression, row, ends).value for row in rows]
        known = [index for index in order if values[index] is not None]
        missing = [index for index in order if values[index] is None]
        known.sort(key=lambda i: sort_key(values[i], key.expression.type), reverse=key.descending)
        order = missing + known if key.nulls_first else known + missing
    return order


def partitions(indices: Sequence[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """The indices of rows with equal keys together, in the order in which they come."""
    groups: dict[Hashable, list[int]] = {}
    for index in indices:
        groups.setdefault(keys[index], []).append(index)
    return list(groups.values())


def window_cells(call: WindowCall, rows: Sequence[Row], ends: EndOf | None = None) -> list[Cell]:
    """One cell per row, in the order of the rows."""
    order = in_order(rows, call.order, ends)
    keys = [tuple(derive(part, row, ends).value for part in call.partition) for row in rows]
    cells: list[Cell] = [Exact(None, call.type)] * len(rows)
    for part in partitions(order, keys):
        made = _partition(call, [rows[index] for index in part], ends)
        for index, cell in zip(part, made, strict=True):
            cells[index] = cell
    return cells


def _partition(call: WindowCall, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    if call.function in _RANKS:
        return _ranks(call, rows, ends)
    if call.around is not None:
        return _around(call, call.around, rows, ends)
    if call.argument is None:
        counts = range(1, len(rows) + 1) if call.frame is WindowFrame.RUNNING else [len(rows)] * len(rows)
        return [Exact(count, call.type) for count in counts]
    arguments = [derive(call.argument, row, ends) for row in rows]
    if call.function in ("lag", "lead"):
        shift = (call.offset if call.offset is not None else 1) * (-1 if call.function == "lag" else 1)
        return [_at(arguments, index + shift, call.type) for index in range(len(rows))]
    if call.function in ("first_value", "last_value", "nth_value"):
        return [_of_frame(call, arguments, index) for index in range(len(rows))]
    if call.frame is WindowFrame.RUNNING:
        _check_running(len(rows))
        return [pool(call.function, arguments[: end + 1], None, call.type) for end in range(len(rows))]
    return [pool(call.function, arguments, None, call.type)] * len(rows)


def _around(call: WindowCall, around: Around, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    """Moving aggregates: each cell of the rows of its frame, an empty frame as SQL has it."""
    spans = _spans(call, around, rows, ends)
    if sum(end - begin for begin, end in spans) > limits.MAX_PAIRS:
        raise Refusal(
            "too_large",
            f"The frames of a moving aggregate take at most {limits.MAX_PAIRS} rows together; use a narrower frame. "
            "What was released is kept, so asking again with another window is free.",
        )
    if call.argument is None:
        return [Exact(end - begin, call.type) for begin, end in spans]
    arguments = [derive(call.argument, row, ends) for row in rows]
    nothing = Exact(0 if AGGREGATES[call.function].counts else None, call.type)
    return [
        pool(call.function, arguments[begin:end], None, call.type) if begin < end else nothing for begin, end in spans
    ]


def _spans(call: WindowCall, around: Around, rows: list[Row], ends: EndOf | None) -> list[tuple[int, int]]:
    """Where the frame of each row begins and ends."""
    count, (begin, end) = len(rows), around
    if call.frame is WindowFrame.ROWS_AROUND:
        first, last = (int(offset) if isinstance(offset, Fraction) else None for offset in (begin, end))
        return [
            (
                0 if first is None else min(max(i + first, 0), count),
                count if last is None else min(max(i + last + 1, 0), count),
            )
            for i in range(count)
        ]
    (key,) = call.order
    values = [derive(key.expression, row, ends).value for row in rows]
    known = [i for i, value in enumerate(values) if value is not None]
    # Rows without a key stand together at one end and are a frame of their own.
    missing = [i for i, value in enumerate(values) if value is None]
    places = [ordinal(value, key.expression.type) for value in values if value is not None]
    places = [-place for place in places] if key.descending else places
    own = [value for value in values if value is not None]
    offset = known[0] if known else 0
    apart = (missing[0], missing[-1] + 1) if missing else (0, 0)
    found = []
    for i, value in enumerate(values):
        if value is None:
            found.append((0 if begin is None else apart[0], count if end is None else apart[1]))
            continue
        place, written = places[i - offset], own[i - offset]
        low = 0 if begin is None else offset + bisect_left(places, _end_place(key, written, place, begin))
        high = count if end is None else offset + bisect_right(places, _end_place(key, written, place, end))
        found.append((low, max(low, high)))
    return found


def _end_place(key: SortKey, value: Value, place: Fraction, end: Fraction | MonthsAway) -> Fraction | float:
    """The place of an end of the frame of a row in the order of its key."""
    if isinstance(end, Fraction):
        return place + end
    sign = -1 if key.descending else 1
    moved = REGISTRY["add_months"].evaluate(value, sign * end.count)
    # Beyond the years that there are, every row lies on one side.
    return math.copysign(math.inf, end.count) if moved is None else sign * ordinal(moved, key.expression.type)


def _check_running(count: int) -> None:
    """Every cell of a running aggregate remembers all rows so far, for its interval; there must not be too many."""
    if count * (count + 1) // 2 > limits.MAX_PAIRS:
        most = (math.isqrt(8 * limits.MAX_PAIRS + 1) - 1) // 2
        raise Refusal(
            "too_large",
            f"A running aggregate of released rows takes at most {most} rows of a partition; add a PARTITION BY, or "
            "group more coarsely before it. What was released is kept, so asking again with another window is free.",
        )


def _of_frame(call: WindowCall, cells: list[Cell], index: int) -> Cell:
    """The first, last or n-th cell of the frame of a row."""
    end = index + 1 if call.frame is WindowFrame.RUNNING else len(cells)
    place = {"first_value": 0, "last_value": end - 1}.get(call.function, (call.offset or 1) - 1)
    return _at(cells[:end], place, call.type)


def _at(cells: list[Cell], index: int, kind: SqlType) -> Cell:
    return cells[index] if 0 <= index < len(cells) else Exact(None, kind)


def _ranks(call: WindowCall, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    by = [[derive(key.expression, row, ends) for key in call.order] for row in rows]
    events = frozenset().union(*(cell.events for cells in by for cell in cells))
    numbers, rank, dense = [], 0, 0
    for index, cells in enumerate(by):
        if index == 0 or [cell.value for cell in cells] != [cell.value for cell in by[index - 1]]:
            rank, dense = index + 1, dense + 1
        numbers.append({"row_number": index + 1, "rank": rank, "dense_rank": dense}[call.function])
    if not events:
        return [Exact(number, call.type) for number in numbers]
    return [_RankCell(number, len(rows), events) for number in numbers]
