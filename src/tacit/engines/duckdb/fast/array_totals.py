"""Bounded totals of rows in memory: the same integers as the statements of ``engines/sql/unit_totals.py``.

DuckDB hands over unit, public group, and one column per value that is added up: q(x), or NULL for rows that
do not count (:mod:`.fetched_rows`). Here a value is y = q(x) - low + 1, which is 1 or more, and 0 for NULL. So
Σ q(x) = Σ y + n·(low - 1), with n the number of positive y. Whole numbers that are not too large are packed into keys
batch by batch, so that a row takes eight bytes. Other units are numbered first; equal ones get equal numbers, and which
they are decides nothing. For units that are texts, the x of the choosing rule is computed once per unit instead of once
per row.

Where units keep all of their groups and are numbered closely, rows are added up as they come (:func:`dense_totals`);
else they are sorted first (:mod:`.sorted_totals`).

Everything is 64-bit integers. A share fits, by the clamp of its measure. Whether the sum of a unit's rows does is
checked before it is trusted; where it might not, :class:`TooWideError` sends the question back to SQL, which adds up in
128 bits. Sums over units that might not fit are added up by upper and lower halves (:func:`group_sums`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.sql.statements import KeyTotals, SpreadRows
from tacit.engines.sql.unit_totals import TOTALS, counts_sql, quantised_sql
from tacit.query.planning.measures import Measure, MeasureKind

if TYPE_CHECKING:
    from tacit.engines.duckdb.fast.array_losses import LossPlan, Outside

#: Sums of sizes stay below this, with room for one more addition.
WIDEST = 2**62

Integers = NDArray[np.int64]


class TooWideError(Exception):
    """64 bits might not do."""


class UnitGroups:
    """Rows of some (unit, group) pairs, pair after pair; each has one row or more.

    Args:
        read: the y of every row in a column.
        full: columns in which every row counts.
        lengths: how many rows each pair has.
        copies: how often each of them counts (:mod:`.copied_rows`).
        most: how many rows of each pair count, where rows are bounded in all groups together; None for no such bound.
    """

    def __init__(
        self,
        read: Callable[[str], Integers],
        full: Collection[str],
        lengths: Integers,
        copies: int = 1,
        most: Integers | None = None,
    ) -> None:
        self.most = most
        self.lengths = self._copied(lengths, copies)
        self.longest = int(lengths.max(initial=0)) * copies
        self.full = full
        self.copies = copies
        self._own_lengths = lengths
        self._read = read
        self._known: dict[tuple[str, str], Integers] = {}

    def sums(self, values: NDArray[Any]) -> Integers:
        """Sums per pair over all copies."""
        return self._copied(self._sums(values), self.copies)

    def _sums(self, values: NDArray[Any]) -> Integers:
        # Differences of a running sum, which are right modulo 2^64 even where it wraps.
        return _differences(np.cumsum(values, dtype=np.int64)[np.cumsum(self._own_lengths) - 1])

    @staticmethod
    def _copied(numbers: Integers, copies: int) -> Integers:
        return numbers if copies == 1 else numbers * copies

    def values(self, name: str) -> Integers:
        """Every row's y."""
        return self._once("values", name, lambda: self._read(name))

    def counts(self, name: str) -> Integers:
        """Count the rows of each pair that have a positive value."""
        if name in self.full:
            return self.lengths
        return self._once("counts", name, lambda: self.sums(self.values(name) > 0))

    def totals(self, name: str) -> Integers:
        """The sum of each pair."""
        return self._once("totals", name, lambda: self.sums(self.values(name)))

    def _once(self, what: str, name: str, make: Callable[[], Integers]) -> Integers:
        found = self._known.get((what, name))
        if found is None:
            found = self._known[what, name] = make()
        return found


def run_sums(values: NDArray[Any], begins: NDArray[np.intp]) -> Integers:
    """Sums of runs that begin there, as differences of a running sum; ``reduceat`` takes several times as long."""
    running = np.cumsum(values, dtype=np.int64)
    return _differences(np.append(running[begins[1:] - 1], running[-1:]))


def _differences(running: Integers) -> Integers:
    # In place: joined to a first zero, as diff would have it, everything is copied twice.
    running[1:] -= running[:-1].copy()
    return running


@dataclass(frozen=True)
class UnitShare:
    """One measure, and the column it reads; None where every row counts and nothing else is asked."""

    measure: Measure
    column: str | None

    @property
    def largest(self) -> int:
        """Largest size of a share."""
        return max(map(abs, self.measure.clamp))

    def is_narrow(self, count: int) -> bool:
        """Whether so many shares can be added up in 64 bits."""
        return self.largest * count < WIDEST

    def of(self, pairs: UnitGroups) -> Integers:
        """The clamped integer of each pair.

        Raises:
            TooWideError: when a sum over one pair's rows might not fit.
        """
        measure = self.measure
        if measure.kind not in TOTALS:
            count = pairs.lengths if self.column is None else pairs.counts(self.column)
            value = (count > 0).astype(np.int64) if measure.kind is MeasureKind.UNITS else count
        else:
            value = self._total(pairs)
        if pairs.most is not None and measure.kind in (MeasureKind.ROWS, MeasureKind.VALUES):
            value = np.minimum(value, pairs.most)
        elif pairs.most is not None and measure.kind is MeasureKind.SUM:
            low, high = min(0, measure.low), max(0, measure.high)
            if int(pairs.most.max(initial=0)) * max(-low, high) >= WIDEST:
                raise TooWideError
            value = np.minimum(np.maximum(value, pairs.most * low), pairs.most * high)
        low, high = measure.clamp
        # Most units have few rows, and what lies inside need not be copied.
        inside = not len(value) or (low <= int(value.min()) and int(value.max()) <= high)
        return value if inside else np.maximum(np.minimum(value, high), low)

    def _total(self, pairs: UnitGroups) -> Integers:
        if self.column is None:
            raise InternalError("a sum needs a column")
        measure, start = self.measure, self.measure.low - 1 - self.measure.centre
        largest = measure.high - measure.low + 1 + abs(start)
        square = measure.kind is MeasureKind.CENTRED_SQUARES
        if pairs.longest * max(largest**2 if square else largest, 2 * measure.rows + 1) >= WIDEST:
            raise TooWideError
        count = pairs.counts(self.column)
        if square:
            values = pairs.values(self.column)
            distance = np.where(values > 0, values + start, 0)
            total = pairs.sums(distance * distance)
        else:
            total = pairs.totals(self.column)
            total = total + count * start if start else total
        rows = measure.rows if pairs.most is None else pairs.most
        return total if measure.kind is MeasureKind.SUM else _scaled(total, count, rows)


def _scaled(total: Integers, count: Integers, most: int | Integers) -> Integers:
    """Totals over more than ``most`` values brought down to ``most`` of them; see ``sql/unit_totals``."""
    heavy = np.flatnonzero(count > most)
    if not len(heavy):
        return total
    whole, n = np.abs(total[heavy]), count[heavy]
    rows = most if isinstance(most, int) else most[heavy]
    scaled = whole // n * rows + (whole % n * (2 * rows) + n) // (2 * n)
    total = total.copy()
    total[heavy] = np.sign(total[heavy]) * scaled
    return total


@dataclass(frozen=True)
class Read:
    """A value that DuckDB hands over per row.

    Args:
        sql: of it.
        fill: stands for NULL, which is where a row does not count.
        largest: the largest it can be, counted from ``fill``.
    """

    sql: str
    fill: int
    largest: int


def read_shares(measures: Sequence[Measure]) -> tuple[dict[str, Read], tuple[UnitShare, ...]] | None:
    """The columns to read by name, and what to make of them; None where 64 bits cannot hold a value or a share."""
    columns: dict[str, Read] = {}
    values = {(m.argument, m.where): m for m in measures if m.kind in TOTALS}
    shares = []
    for measure in measures:
        summed = measure if measure.kind in TOTALS else values.get((measure.argument, measure.where))
        share = UnitShare(measure, named_column(columns, _column(measure, summed)))
        widest = max(share.largest, 0 if summed is None else 2 * max(abs(summed.low), abs(summed.high)) + 1)
        # Whether sums fit is seen when it is known how many rows one unit has.
        if widest >= WIDEST:
            return None
        shares.append(share)
    return columns, tuple(shares)


def _column(measure: Measure, summed: Measure | None) -> Read | None:
    """The value that a measure reads of a row; the values of a sum over the same rows do for a count as well."""
    if summed is not None:
        return Read(quantised_sql(DUCKDB, summed), summed.low - 1, summed.high - summed.low + 1)
    condition = counts_sql(DUCKDB, measure)
    return None if condition is None else Read(f"(CASE WHEN {condition} THEN 1::TINYINT END)", 0, 1)


@overload
def named_column(columns: dict[str, Read], column: Read, letter: str = ...) -> str: ...


@overload
def named_column(columns: dict[str, Read], column: Read | None, letter: str = ...) -> str | None: ...


def named_column(columns: dict[str, Read], column: Read | None, letter: str = "y") -> str | None:
    """The name of a column that is read, new or known; None for none."""
    if column is None:
        return None
    for name, known in columns.items():
        if known == column:
            return name
    name = f"{letter}{len(columns)}"
    columns[name] = column
    return name


@dataclass(frozen=True)
class SharedRows:
    """A bound of the rows of a unit in all groups together (``max_rows_total``); see ``sql/group_choice``.

    Args:
        most: that bound.
        in_group: the most rows that count in one group.
        offsets: from units, as they are numbered, and their rows to the o of each.
    """

    most: int
    in_group: int
    offsets: Callable[[NDArray[Any], Integers], Integers]

    def of(self, lengths: Integers, units: NDArray[Any], begins: NDArray[np.intp]) -> Integers | None:
        """How many rows of each pair count; None where all do that fit their group.

        Args:
            lengths: rows of each pair (unit, group), unit after unit, in the order of its groups.
            units: of each unit.
            begins: number of the first pair of each unit.
        """
        rows = np.minimum(lengths, self.in_group)
        totals = run_sums(rows, begins) if len(begins) else np.zeros(0, dtype=np.int64)
        heavy = totals > self.most
        if not heavy.any():
            return None
        pairs = np.diff(np.append(begins, len(rows)))
        among = np.flatnonzero(np.repeat(heavy, pairs))
        runs, whole = pairs[heavy], totals[heavy]
        offset = np.repeat(self.offsets(units[heavy], whole), runs)
        ends = np.cumsum(rows[among])
        # Counted from the first of each unit.
        ends -= np.repeat(np.append(0, np.cumsum(whole)[:-1]), runs)
        whole = np.repeat(whole, runs)
        own = rows[among]
        rows[among] = (self.most * ends + offset) // whole - (self.most * (ends - own) + offset) // whole
        return rows


Places = Callable[[NDArray[np.int64], NDArray[np.int16]], NDArray[np.uint32]]


@dataclass(frozen=True)
class ValueColumn:
    """Values of rows, and the number that stands in for NULL; y, which counts from it, is 0 there and else positive."""

    values: NDArray[Any]
    fill: int

    def of(self, rows: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        """The y of some rows."""
        found = self.values[rows].astype(np.int64)
        return found - self.fill if self.fill else found

    @property
    def is_full(self) -> bool:
        """Whether no y is 0."""
        return int(self.values.min()) > self.fill


@dataclass(frozen=True)
class FetchedRows:
    """Fetched rows: units as numbers, public groups, and the columns that shares read, by name.

    ``beside`` is for the table of what bounding leaves out.
    """

    units: NDArray[np.int64]
    groups: NDArray[np.int16]
    columns: Mapping[str, ValueColumn]
    beside: Beside


class Beside(NamedTuple):
    """Facts about units that the table of what bounding leaves out needs, where they are asked for.

    Args:
        others: units of rows outside the public list.
        outside: values outside their bounds.
    """

    others: NDArray[np.int64] | None = None
    outside: Outside | None = None


class FoldedRows(NamedTuple):
    """Sums of the rows.

    Args:
        totals: per group in which a unit is kept its number or keys, how many units, and one total per share;
            or of a spread measure, counts of its places.
        cells: units in each cell of the table of what bounding leaves out; None where SQL has to count them.
    """

    totals: list[tuple[Any, ...]] | SpreadRows | KeyTotals
    cells: list[int] | None


@dataclass(frozen=True)
class Fold:
    """The sums to make of the rows.

    Args:
        groups: how many there are.
        most: how many of them a unit keeps.
        bits: of a place.
        places: from units and groups of some rows to places; a unit's groups have different ones.
        largest: the largest y of each column.
        shares: one per sum.
        losses: the table of what bounding leaves out, if it is asked for.
        copies: how often each row counts.
        in_all: the bound of a unit's rows in all groups together, if there is one.
    """

    groups: int
    most: int
    bits: int
    places: Places
    largest: Mapping[str, int]
    shares: tuple[UnitShare, ...]
    losses: LossPlan | None = None
    copies: int = 1
    in_all: SharedRows | None = None


#: Cells of unit and group per row beyond which most would stay empty.
_CELLS_PER_ROW = 4


class CellCount:
    """Counts of units in the cells of a table, block by block; safe to use from several threads.

    A table that 64 bits might not do for is left to SQL, and the totals are not.
    """

    def __init__(self, plan: LossPlan | None, beside: Beside, copies: int = 1) -> None:
        others, outside = beside
        self._plan = plan
        self._others = None if others is None or not len(others) else np.unique(others)
        if self._others is not None and plan is not None and not plan.has_others:
            self._plan = None
        self._owners: NDArray[np.int64] | None = None
        self._excess: list[Integers] = []
        if outside is not None:
            self._owners, places = np.unique(outside.owners, return_inverse=True)
            for amounts in outside.amounts:
                total = np.zeros(len(self._owners), dtype=np.int64)
                np.add.at(total, places, amounts)
                self._excess.append(total * copies)
        self._lock = threading.Lock()
        self._cells: Integers | None = None
        #: Units with rows outside the public list that have others as well.
        self._matched = 0

    def __bool__(self) -> bool:
        return self._plan is not None

    def add(self, pairs: UnitGroups, units: NDArray[Any], per_unit: Callable[[NDArray[Any]], Integers]) -> None:
        """Count whole units, which are given in ascending order."""
        plan = self._plan
        if plan is None:
            return
        others = None
        if self._others is not None:
            others = np.zeros(len(units), dtype=np.bool_)
            others[_places(units, self._others)[0]] = True
        excess = None
        if self._owners is not None:
            places, rows = _places(units, self._owners)
            excess = [np.zeros(len(units), dtype=np.int64) for _ in self._excess]
            for own, amounts in zip(excess, self._excess, strict=True):
                own[places] = amounts[rows]
        try:
            found = plan.cells(pairs, per_unit, others, excess)
        except TooWideError:
            self._plan = None
            return
        with self._lock:
            self._matched += 0 if others is None else int(others.sum())
            self._cells = found if self._cells is None else self._cells + found

    def cells(self) -> list[int] | None:
        """All of them; None where SQL has to count."""
        plan = self._plan
        if plan is None:
            return None
        cells = np.zeros(plan.table.cells, dtype=np.int64) if self._cells is None else self._cells
        if self._others is not None:
            cells[plan.others_cell] += len(self._others) - self._matched
        return [int(count) for count in cells]


def _places(units: NDArray[Any], among: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where some numbers are in an ascending list that has them, and which of them it has."""
    places = np.searchsorted(units, among)
    found = places < len(units)
    found[found] = units[places[found]] == among[found]
    return places[found], found


def dense_totals(rows: FetchedRows, work: Fold) -> FoldedRows | None:
    """The result of :func:`~.sorted_totals.fold` without its sort, where units are close and keep all of their groups.

    Sorting is half of the processor time of a small question, and under load the larger half.

    Returns:
        None where units have to choose among groups or rows, or most cells of unit and group would stay empty.

    Raises:
        TooWideError: when 64 bits might not do.
    """
    first, last = int(rows.units.min()), int(rows.units.max())
    units = last - first + 1
    if work.in_all or work.groups > work.most or units * work.groups > _CELLS_PER_ROW * len(rows.units):
        return None
    # Group after group, so that the cells of a group are added up in one go.
    cells = np.subtract(rows.units, first, dtype=np.int64)
    cells += rows.groups * np.int64(units)
    full = {name for name, column in rows.columns.items() if column.is_full}
    count = units * work.groups
    pairs = _DenseCells(lambda name: rows.columns[name].of(slice(None)), full, cells, count, work.copies)
    shape = (work.groups, units)
    totals = [np.count_nonzero(pairs.lengths.reshape(shape), axis=1)]
    for share in work.shares:
        # A unit that is not in a group has 0 there, and every clamp leaves 0 unchanged.
        own = share.of(pairs).reshape(shape)
        narrow = share.is_narrow(len(cells))
        totals.append(own.sum(axis=1) if narrow else _whole(*(half.sum(axis=1) for half in _halves(own))))
    counted = CellCount(work.losses, rows.beside, work.copies)
    if counted:
        counted.add(pairs, np.arange(first, last + 1), lambda values: values.reshape(shape).sum(axis=0))
    return FoldedRows(listed(totals), counted.cells())


class _DenseCells(UnitGroups):
    """All pairs of unit and group; those without rows have length and sum 0."""

    def __init__(
        self, read: Callable[[str], Integers], full: Collection[str], cells: Integers, count: int, copies: int
    ) -> None:
        super().__init__(read, full, np.bincount(cells, minlength=count), copies)
        self._cells = cells

    def _sums(self, values: NDArray[Any]) -> Integers:
        # Each value added to its cell.
        total = np.zeros_like(self.lengths)
        np.add.at(total, self._cells, values.astype(np.int64, copy=False))
        return total


def group_sums(shares: Integers, groups: Integers, count: int, *, narrow: bool) -> NDArray[Any]:
    """Sums of shares by group; in Python's integers where 64 bits might not do (not ``narrow``).

    Of fewer than 2^31 shares, upper halves of at most 2^32 and lower ones below 2^31 add up to less than 2^63.
    """
    if not narrow:
        upper, lower = (group_sums(half, groups, count, narrow=True) for half in _halves(shares))
        return _whole(upper, lower)
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, groups, shares)
    return total


def _halves(shares: Integers) -> tuple[Integers, Integers]:
    return shares >> 31, shares & (2**31 - 1)


def _whole(upper: Integers, lower: Integers) -> NDArray[Any]:
    found: NDArray[Any] = upper.astype(object) * 2**31 + lower.astype(object)
    return found


def listed(totals: list[NDArray[Any]]) -> list[tuple[int, ...]]:
    """One row per group that has a unit."""
    return [(int(g), *(int(total[g]) for total in totals)) for g in np.flatnonzero(totals[0])]
