"""Bounded totals of rows in memory: the same integers as the statements of ``engines/sql/unit_totals.py``.

DuckDB hands over unit, public group, and one column per value that is added up: q(x), or NULL for rows that
do not count. Here a value is y = q(x) - low + 1, which is 1 or more, and 0 for NULL. So Σ q(x) = Σ y + n·(low - 1),
with n the number of positive y. Whole numbers that are not too large are packed into keys batch by batch, so that a row
takes eight bytes. Other units are numbered first; equal ones get equal numbers, and which they are decides nothing. For
units that are texts, the x of the choosing rule is computed once per unit instead of once per row.

A row becomes one integer of 64 bits: its unit, the place of its group in the unit's own order, and
below them its group and values, or where these are too wide its number. Sorted, the rows of a unit stand together, its
groups in the order in which it keeps them, so the first few are found by comparing neighbours. No pair is hashed. The
sorted rows are cut between units into blocks small enough for a cache, and the blocks' integers are added.

Everything is 64-bit integers. Whether they are wide enough is checked before they are trusted; where they are not,
:class:`TooWideError` sends the question back to SQL, which adds up in 128 bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.sql.group_choice import Chooser
from tacit.engines.sql.unit_totals import TOTALS, counts_sql, quantised_sql
from tacit.query.planning.measures import Measure, MeasureKind

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from tacit.engines.duckdb.database import DuckDBSession
    from tacit.engines.duckdb.fast.array_losses import LossPlan

__all__ = [
    "MOST_ROWS",
    "ROW_BYTES",
    "WIDEST",
    "FoldedRows",
    "Integers",
    "Read",
    "RowPlan",
    "TooWideError",
    "UnitGroups",
    "measure",
    "named_column",
    "read_shares",
]

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
    """

    def __init__(self, read: Callable[[str], Integers], full: Collection[str], lengths: Integers) -> None:
        self.lengths = lengths
        self.longest = int(lengths.max(initial=0))
        self.full = full
        self._read = read
        self._known: dict[tuple[str, str], Integers] = {}

    def sums(self, values: NDArray[Any]) -> Integers:
        """Sums per pair: differences of a running sum, which are right modulo 2^64 even where it wraps."""
        running = np.cumsum(values, dtype=np.int64)[np.cumsum(self.lengths) - 1]
        # In place: joined to a first zero, as diff would have it, everything is copied twice.
        running[1:] -= running[:-1].copy()
        return running

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


@dataclass(frozen=True)
class UnitShare:
    """One measure, and the column it reads; None where every row counts and nothing else is asked."""

    measure: Measure
    column: str | None

    @property
    def largest(self) -> int:
        """Largest size of a share."""
        return max(map(abs, self.measure.clamp))

    def check_sum(self, count: int) -> None:
        """Whether so many shares can be added up.

        Raises:
            TooWideError: when 64 bits might not do.
        """
        if self.largest * count >= WIDEST:
            raise TooWideError

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
        return total if measure.kind is MeasureKind.SUM else _scaled(total, count, measure.rows)


def _scaled(total: Integers, count: Integers, rows: int) -> Integers:
    """Totals over more than ``rows`` values brought down to ``rows`` of them; see ``sql/unit_totals``."""
    heavy = np.flatnonzero(count > rows)
    if not len(heavy):
        return total
    whole, n = np.abs(total[heavy]), count[heavy]
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


def read_shares(measures: Sequence[Measure], most_rows: int) -> tuple[dict[str, Read], tuple[UnitShare, ...]] | None:
    """The columns to read by name, and what to make of them; None where 64 bits cannot be enough."""
    columns: dict[str, Read] = {}
    values = {(m.argument, m.where): m for m in measures if m.kind in TOTALS}
    shares = []
    for measure in measures:
        summed = measure if measure.kind in TOTALS else values.get((measure.argument, measure.where))
        share = UnitShare(measure, named_column(columns, _column(measure, summed)))
        widest = max(share.largest, 0 if summed is None else 2 * max(abs(summed.low), abs(summed.high)) + 1)
        # Squares are wide; whether they fit is seen when it is known how many rows one unit has.
        if widest * (1 if measure.kind is MeasureKind.CENTRED_SQUARES else most_rows) >= WIDEST:
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
def named_column(columns: dict[str, Read], column: Read) -> str: ...


@overload
def named_column(columns: dict[str, Read], column: Read | None) -> str | None: ...


def named_column(columns: dict[str, Read], column: Read | None) -> str | None:
    """The name of a column that is read, new or known; None for none."""
    if column is None:
        return None
    for name, known in columns.items():
        if known == column:
            return name
    name = f"y{len(columns)}"
    columns[name] = column
    return name


_KEY_BITS = 64
_CHUNK = 2**16
_BLOCK = 2**17
#: The group, among the fields of a key.
_GROUP = ""

Words = NDArray[np.uint64]
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

    ``others`` are the units of rows outside the public list, where they are asked for.
    """

    units: NDArray[np.int64]
    groups: NDArray[np.int16]
    columns: Mapping[str, ValueColumn]
    others: NDArray[np.int64] | None = None


class FoldedRows(NamedTuple):
    """Sums of the rows.

    Args:
        totals: per group in which a unit is kept its number, how many units, and one total per share.
        cells: units in each cell of the table of what bounding leaves out; None where SQL has to count them.
    """

    totals: list[tuple[int, ...]]
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
    """

    groups: int
    most: int
    bits: int
    places: Places
    largest: Mapping[str, int]
    shares: tuple[UnitShare, ...]
    losses: LossPlan | None = None


class UnitGroupKeys:
    """Rows as integers: added batch by batch, then folded.

    Args:
        work: what is to be made of them.
        count: how many rows there will be, if keys are to hold their numbers; None to hold what they need.
    """

    def __init__(self, work: Fold, count: int | None = None) -> None:
        self.work = work
        self.count = 0
        self.full = set(work.largest)
        self._fields: dict[str, tuple[int, int]] = {}
        self.below = 0
        widths = {_GROUP: work.groups - 1, **work.largest} if count is None else {"number": count}
        for name, largest in widths.items():
            self._fields[name] = (self.below, 2 ** largest.bit_length() - 1)
            self.below += largest.bit_length()
        self.unit_bits = _KEY_BITS - work.bits - self.below
        self._rows: FetchedRows | None = None
        self._words = np.empty(_CHUNK if count is None else count, dtype=np.uint64)

    def add(self, rows: FetchedRows, numbers: NDArray[np.int64] | None = None) -> bool:
        """Take rows; False where units do not fit. ``numbers`` stand for the units in the keys, if given.

        Keys that hold numbers of rows take them all at once.
        """
        units = rows.units if numbers is None else numbers
        if self.unit_bits < 1 or int(units.min()) < 0 or int(units.max()) >> self.unit_bits:
            return False
        self._rows = rows
        self.full -= {name for name, column in rows.columns.items() if not column.is_full}
        needed = self.count + len(units)
        if needed > len(self._words):
            # In place where the system can. In small steps: what is added is written to at once.
            self._words.resize(max(needed, len(self._words) * 5 // 4), refcheck=False)
        # In pieces that stay in the cache from one operation to the next.
        for start in range(0, len(units), _CHUNK):
            piece = slice(start, start + _CHUNK)
            key = units[piece].astype(np.uint64)
            key <<= np.uint64(self.work.bits)
            key |= self.work.places(rows.units[piece], rows.groups[piece])
            key <<= np.uint64(self.below)
            self._fill(key, rows, piece)
            self._words[self.count : self.count + len(key)] = key
            self.count += len(key)
        return True

    def _fill(self, key: Words, rows: FetchedRows, piece: slice) -> None:
        if _GROUP not in self._fields:
            key |= np.arange(piece.start, piece.start + len(key), dtype=np.uint64)
            return
        key |= rows.groups[piece].view(np.uint16)
        for name, column in rows.columns.items():
            key |= column.of(piece).view(np.uint64) << np.uint64(self._fields[name][0])

    def sorted(self) -> Words:
        """All of them in order."""
        words = self._words[: self.count]
        words.sort()
        return words

    def read(self, name: str, words: Words) -> NDArray[np.int64]:
        """The y of each key in a column."""
        if name in self._fields:
            shift, mask = self._fields[name]
            return ((words >> np.uint64(shift)) & np.uint64(mask)).view(np.int64)
        if self._rows is None:
            raise TooWideError
        numbers = self.read("number", words)
        return self._rows.groups[numbers].astype(np.int64) if name == _GROUP else self._rows.columns[name].of(numbers)

    def groups(self, words: Words) -> NDArray[np.int64]:
        """The group of each key."""
        return self.read(_GROUP, words)


#: Cells of unit and group per row beyond which most would stay empty.
_CELLS_PER_ROW = 4


def fold(
    keys: UnitGroupKeys, threads: int, check: Callable[[], None], others: NDArray[np.int64] | None = None
) -> FoldedRows:
    """Add up the rows.

    Args:
        keys: of all rows.
        threads: how many blocks at a time.
        check: called now and then; may raise to stop.
        others: units of rows outside the public list, as they are numbered in the keys.

    Raises:
        TooWideError: when 64 bits might not do.
    """
    words = keys.sorted()
    blocks = _blocks(words, keys.below + keys.work.bits)
    counted = _CellCount(keys.work.losses, others)

    def one(block: tuple[int, int]) -> list[NDArray[np.int64]]:
        check()
        return _block(keys, words[slice(*block)], counted)

    if threads == 1 or len(blocks) < 2:
        totals = _added(map(one, blocks), keys.work, keys.count)
    else:
        with ThreadPoolExecutor(threads) as pool:
            totals = _added(pool.map(one, blocks), keys.work, keys.count)
    return FoldedRows(listed(totals), counted.cells())


class _CellCount:
    """Counts of units in the cells of a table, block by block; safe to use from several threads.

    A table that 64 bits might not do for is left to SQL, and the totals are not.
    """

    def __init__(self, plan: LossPlan | None, others: NDArray[np.int64] | None) -> None:
        self._plan = plan
        self._others = None if others is None or not len(others) else np.unique(others)
        if self._others is not None and plan is not None and not plan.has_others:
            self._plan = None
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
        outside = None
        if self._others is not None:
            outside = np.zeros(len(units), dtype=np.bool_)
            places = np.searchsorted(units, self._others)
            inside = places < len(units)
            inside[inside] = units[places[inside]] == self._others[inside]
            outside[places[inside]] = True
        try:
            found = plan.cells(pairs, per_unit, outside)
        except TooWideError:
            self._plan = None
            return
        with self._lock:
            self._matched += 0 if outside is None else int(outside.sum())
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


def dense_totals(rows: FetchedRows, work: Fold) -> FoldedRows | None:
    """The result of :func:`fold` without its sort, where units are numbered closely and keep all of their groups.

    Sorting is half of the processor time of a small question, and under load the larger half.

    Returns:
        None where units have to choose among groups, or most cells of unit and group would stay empty.

    Raises:
        TooWideError: when 64 bits might not do.
    """
    first, last = int(rows.units.min()), int(rows.units.max())
    units = last - first + 1
    if work.groups > work.most or units * work.groups > _CELLS_PER_ROW * len(rows.units):
        return None
    # Group after group, so that the cells of a group are added up in one go.
    cells = np.subtract(rows.units, first, dtype=np.int64)
    cells += rows.groups * np.int64(units)
    full = {name for name, column in rows.columns.items() if column.is_full}
    pairs = _DenseCells(lambda name: rows.columns[name].of(slice(None)), full, cells, units * work.groups)
    shape = (work.groups, units)
    totals = [np.count_nonzero(pairs.lengths.reshape(shape), axis=1)]
    for share in work.shares:
        share.check_sum(len(cells))
        # A unit that is not in a group has 0 there, and every clamp leaves 0 unchanged.
        totals.append(share.of(pairs).reshape(shape).sum(axis=1))
    counted = _CellCount(work.losses, rows.others)
    if counted:
        counted.add(pairs, np.arange(first, last + 1), lambda values: values.reshape(shape).sum(axis=0))
    return FoldedRows(listed(totals), counted.cells())


class _DenseCells(UnitGroups):
    """All pairs of unit and group; those without rows have length and sum 0."""

    def __init__(self, read: Callable[[str], Integers], full: Collection[str], cells: Integers, count: int) -> None:
        super().__init__(read, full, np.bincount(cells, minlength=count))
        self._cells = cells

    def sums(self, values: NDArray[Any]) -> Integers:
        """Each value added to its cell."""
        total = np.zeros_like(self.lengths)
        np.add.at(total, self._cells, values.astype(np.int64, copy=False))
        return total


def _blocks(words: Words, below: int) -> list[tuple[int, int]]:
    """From … to, cut where another unit begins; ``below`` are the bits under the unit."""
    cuts, shift = [0], np.uint64(below)
    while cuts[-1] + _BLOCK < len(words):
        unit = words[cuts[-1] + _BLOCK - 1] >> shift
        # The last of the unit, found by the largest key it can have.
        cuts.append(int(np.searchsorted(words, (unit << shift) | np.uint64(2**below - 1), side="right")))
    if cuts[-1] < len(words):
        cuts.append(len(words))
    return list(pairwise(cuts))


def _block(keys: UnitGroupKeys, words: Words, counted: _CellCount) -> list[NDArray[np.int64]]:
    """Units per group and one total per share and group, of whole units."""
    work = keys.work
    pairs = words >> np.uint64(keys.below)
    starts = _changes(pairs)
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = len(words) - starts[-1]
    units = pairs[starts] >> np.uint64(work.bits)
    # Groups of a unit stand in its order: one is beyond the first few if the one that many before it is of that unit.
    kept = np.ones(len(units), dtype=np.bool_)
    kept[work.most :] = units[work.most :] != units[: -work.most]
    firsts = words[starts]
    whole = UnitGroups(_reader(keys, words), keys.full, lengths)
    if counted:
        begins = _changes(units)
        owners = units[begins].astype(np.int64)
        counted.add(whole, owners, lambda values: np.add.reduceat(values, begins, dtype=np.int64))
    if kept.all():
        return _per_group(work, keys.groups(firsts), whole)
    words, firsts, lengths = words[np.repeat(kept, lengths)], firsts[kept], lengths[kept]
    return _per_group(work, keys.groups(firsts), UnitGroups(_reader(keys, words), keys.full, lengths))


def _reader(keys: UnitGroupKeys, words: Words) -> Callable[[str], Integers]:
    return lambda name: keys.read(name, words)


def _per_group(work: Fold, groups: Integers, pairs: UnitGroups) -> list[Integers]:
    """Units and one total per share, by group; ``groups`` are those of the pairs."""
    totals = [np.bincount(groups, minlength=work.groups)]
    for share in work.shares:
        share.check_sum(len(groups))
        total = np.zeros(work.groups, dtype=np.int64)
        np.add.at(total, groups, share.of(pairs))
        totals.append(total)
    return totals


def listed(totals: list[NDArray[Any]]) -> list[tuple[int, ...]]:
    """One row per group that has a unit."""
    return [(int(g), *(int(total[g]) for total in totals)) for g in np.flatnonzero(totals[0])]


def _changes(values: Words) -> NDArray[np.intp]:
    """Where a run of equal values begins."""
    first = np.empty(len(values), dtype=np.bool_)
    first[0] = True
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return np.flatnonzero(first)


def _added(blocks: Iterable[list[NDArray[np.int64]]], work: Fold, count: int) -> list[NDArray[Any]]:
    """Totals of all blocks, in Python's integers where their sum might not fit."""
    wide = [False, *(share.largest * count >= WIDEST for share in work.shares)]
    totals: list[NDArray[Any]] = [np.zeros(work.groups, dtype=object if big else np.int64) for big in wide]
    for block in blocks:
        for total, part in zip(totals, block, strict=True):
            total += part
    return totals


#: Up to this many rows come as whole columns: a reader of batches plans its statement twice.
FEW = 2**18
#: More rows are bounded by SQL, which can spill them.
MOST_ROWS = 2**26
#: Most bytes of a row while it is bounded: its key, and unit, group and some columns where it has to be numbered.
ROW_BYTES = 64
_BATCH = 2**17
_UNITS = "tacit_units"


class Batch(NamedTuple):
    """Units as DuckDB gave them (an array of Arrow, or of numpy for whole columns), groups, and columns.

    ``others`` are the units of rows outside the public list.
    """

    units: Any
    groups: NDArray[np.int16]
    columns: dict[str, ValueColumn]
    others: Any


@dataclass(frozen=True)
class RowPlan:
    """SQL whose columns are ``u``, ``g`` and those that shares read, and what to do with its rows.

    Args:
        sql: of the rows.
        chooser: decides which groups a unit keeps.
        groups: how many there are.
        most: how many a unit keeps.
        columns: after ``u`` and ``g``, by name.
        shares: one per sum.
        large: whether there will hardly be few rows.
        most_rows: how many there are at most; None where that is not known.
        losses: the table of what bounding leaves out, if it is asked for and the rows can tell it.
    """

    sql: str
    chooser: Chooser
    groups: int
    most: int
    columns: Mapping[str, Read]
    shares: tuple[UnitShare, ...]
    large: bool = False
    most_rows: int | None = None
    losses: LossPlan | None = None


def measure(session: DuckDBSession, plan: RowPlan, most_rows: int, threads: int) -> FoldedRows | None:
    """Group, units and one total per share, for every group that has any; None where SQL has to do it.

    Args:
        session: to read with; asked now and then whether to stop.
        plan: what to read.
        most_rows: that are held at once.
        threads: for adding up.
    """
    try:
        few = _few(session, plan, most_rows) if plan.chooser.whole else None
        if few is not None and len(few.units):
            found = dense_totals(few, _fold(plan, plan.chooser.folded))
            if found is not None:
                return found
        packed = None
        if plan.chooser.whole:
            packed = _packed(plan, _batches(session, plan, most_rows) if few is None else _again(few))
        keys, others = packed or _numbered(session.cursor, plan, _batches(session, plan, most_rows))
        session.check()
        return fold(keys, threads, session.check, others)
    except TooWideError:
        return None


def _again(few: FetchedRows) -> list[Batch]:
    return [Batch(few.units, few.groups, dict(few.columns), few.others)]


def _few(session: DuckDBSession, plan: RowPlan, most_rows: int) -> FetchedRows | None:
    """All rows in a public group at once, where units are whole numbers and rows are few; None where they are not."""
    most = 0 if plan.large else min(FEW, most_rows)
    # A limit costs about as much as a filter.
    limit = "" if plan.most_rows is not None and plan.most_rows <= most else f" LIMIT {most + 1}"
    found = session.cursor.execute(f"{plan.sql}{limit}").fetchnumpy() if most else {}
    session.check()
    # Numbers of more than 64 bits come as floats, which are not exact; a row without a unit is SQL's to judge.
    exact = bool(found) and all(column.dtype.kind in "iu" for column in found.values())
    if not exact or len(found["u"]) > most or np.ma.isMaskedArray(found["u"]):
        return None
    unit, group, others = found["u"], found["g"], None
    rows: slice | NDArray[np.bool_] = slice(None)
    if np.ma.isMaskedArray(group):
        outside = np.ma.getmaskarray(group)
        rows = ~outside
        if plan.losses is not None:
            others = unit[outside]
    columns = {
        name: ValueColumn(_filled(found[name][rows], read.fill), read.fill) for name, read in plan.columns.items()
    }
    return FetchedRows(unit[rows], np.ma.getdata(group)[rows].astype(np.int16, copy=False), columns, others)


def _batches(session: DuckDBSession, plan: RowPlan, most_rows: int) -> Iterator[Batch]:
    """All rows in a public group, and the units of others where they are asked for.

    Raises:
        TooWideError: for more rows than may be held.
    """
    count = 0
    for batch in session.cursor.sql(plan.sql).to_arrow_reader(_BATCH):
        session.check()
        rows, outside = batch, None
        if batch.column(1).null_count:
            listed = batch.column(1).is_valid()
            rows = batch.filter(listed)
            if plan.losses is not None:
                outside = batch.column(0).filter(batch.column(1).is_null()).unique()
        count += rows.num_rows + (0 if outside is None else len(outside))
        unit, group, *others = rows.columns
        # Every row has a unit by ownership; a row without one is SQL's to judge.
        if count > most_rows or unit.null_count or (outside is not None and outside.null_count):
            raise TooWideError
        columns = {
            name: ValueColumn(_array(column.fill_null(read.fill) if column.null_count else column), read.fill)
            for (name, read), column in zip(plan.columns.items(), others, strict=True)
        }
        if rows.num_rows or outside is not None:
            yield Batch(unit, _array(group).astype(np.int16), columns, outside)


def _packed(plan: RowPlan, batches: Iterable[Batch]) -> tuple[UnitGroupKeys, NDArray[np.int64] | None] | None:
    """Keys that hold all of a row, and units of rows outside the public list; None where a unit is too large."""
    keys, outside = UnitGroupKeys(_fold(plan, plan.chooser.folded)), []
    for unit, groups, columns, others in batches:
        if len(groups) and not keys.add(FetchedRows(_array(unit), groups, columns)):
            return None
        if others is not None:
            outside.append(_array(others))
    return keys, np.concatenate(outside) if outside else None


def _numbered(
    cursor: duckdb.DuckDBPyConnection, plan: RowPlan, batches: Iterator[Batch]
) -> tuple[UnitGroupKeys, NDArray[np.int64] | None]:
    """Keys that hold numbers of units and of rows, and numbers of units of rows outside the public list.

    Raises:
        TooWideError: where even these do not fit.
    """
    units: list[pa.Array] = []
    outside: list[pa.Array] = []
    groups: list[NDArray[np.int16]] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in plan.columns}
    for unit, group, others, more in batches:
        for kept, array in ((units, unit), (outside, more)):
            if array is not None:
                kept.append(array if plan.chooser.whole else array.dictionary_encode())
        groups.append(group)
        for name, column in others.items():
            columns[name].append(column.values)
    if not units:
        return UnitGroupKeys(_fold(plan, plan.chooser.folded)), None
    if plan.chooser.whole:
        everyone = np.concatenate([_array(unit) for unit in (*units, *outside)])
        numbers, work = np.unique(everyone, return_inverse=True)[1], _fold(plan, plan.chooser.folded)
    else:
        everyone, folds = _distinct(cursor, plan.chooser, [*units, *outside])
        numbers, work = everyone, _fold(plan, lambda unit: folds[unit])
    rows = sum(map(len, groups))
    joined = {name: ValueColumn(np.concatenate(columns[name]), read.fill) for name, read in plan.columns.items()}
    keys = UnitGroupKeys(work, rows)
    if rows and not keys.add(FetchedRows(everyone[:rows], np.concatenate(groups), joined), numbers[:rows]):
        raise TooWideError
    return keys, numbers[rows:] if outside else None


def _fold(plan: RowPlan, folded: Callable[[NDArray[np.int64]], NDArray[np.uint32]]) -> Fold:
    """``folded`` gives the x of units."""
    chooser, groups = plan.chooser, plan.groups
    largest = {name: read.largest for name, read in plan.columns.items()}

    def in_order(units: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return chooser.places(folded(units), codes, groups)

    def as_numbered(_: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return codes.astype(np.uint32)

    if groups <= plan.most:
        return Fold(groups, plan.most, (groups - 1).bit_length(), as_numbered, largest, plan.shares, plan.losses)
    return Fold(groups, plan.most, chooser.bits(groups), in_order, largest, plan.shares, plan.losses)


def _distinct(
    cursor: duckdb.DuckDBPyConnection, chooser: Chooser, units: list[pa.DictionaryArray]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Numbers of units, row by row, and x by number."""
    import pyarrow as pa

    unified = pa.chunked_array(units).unify_dictionaries()
    distinct = unified.chunk(0).dictionary
    cursor.register(_UNITS, pa.table({"u": distinct, "i": np.arange(len(distinct))}))
    try:
        answered = cursor.execute(f"SELECT i, {chooser.fold(DUCKDB, 'u')} AS x FROM {_UNITS}").fetchnumpy()
    finally:
        cursor.unregister(_UNITS)
    folds = np.empty(len(distinct), dtype=np.uint32)
    folds[answered["i"]] = answered["x"]
    return np.concatenate([_array(chunk.indices).astype(np.int64) for chunk in unified.chunks]), folds


def _filled(column: NDArray[Any], fill: int) -> NDArray[Any]:
    found: NDArray[Any] = column.filled(fill) if isinstance(column, np.ma.MaskedArray) else column
    return found


def _array(column: pa.Array | NDArray[Any]) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found
