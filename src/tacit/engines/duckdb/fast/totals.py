"""Bounded totals of rows in memory: the same integers as the statements of ``engines/sql/unit_totals.py``.

DuckDB hands over unit, group, and one column per value that is added up: q(x), or NULL for rows that do not count. Here
a value is y = q(x) - low + 1, which is 1 or more, and 0 for NULL. So Σ q(x) = Σ y + n·(low - 1), with n the number of
positive y. Sorted rows (:mod:`.segments`) are looked at block by block: each pair of a unit and a group it keeps has
one share per measurement, and shares are added up by group. The same rows tell the table of bias (:mod:`.bias`).

Everything is 64-bit integers. A share fits, by the clamp of its measure. Where the sum of the rows of a unit might not,
it alone is added up again by upper and lower halves; what is too wide by the text of the query is left to SQL, which
adds up in 128 bits. No unit decides how the rows of others are added up. Sums over units that might not fit are added
up by upper and lower halves (:class:`GroupSums`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.columns import Integers, TooWideError, WholeColumn
from tacit.engines.duckdb.fast.segments import (
    Field,
    GroupedRows,
    RowSource,
    SortedRows,
    UnitBlock,
    Words,
    rows_of,
    run_sums,
)
from tacit.engines.sql.statements import KeyTotals, SpreadRows
from tacit.engines.sql.unit_totals import TOTALS, counts_sql, quantised_sql
from tacit.query.planning.measures import Measure, MeasureKind

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession
    from tacit.engines.duckdb.fast.bias import LossPlan

#: Sums of sizes stay below this, with room for one more addition.
WIDEST = 2**62


class BoundedTotals(NamedTuple):
    """Sums of the rows.

    Args:
        totals: per group in which a unit is kept its number or keys, how many units, and one total per share;
            or of a spread measure, counts of its places.
        cells: units in each cell of the table of bias; None where SQL has to count them.
    """

    totals: list[tuple[Any, ...]] | SpreadRows | KeyTotals
    cells: list[int] | None


# What is read of a row ------------------------------------------------------------------------------------------------


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
        if summed is None:
            column = counted(measure)
        else:
            # The values of a sum over the same rows do for a count as well.
            column = Read(quantised_sql(DUCKDB, summed), summed.low - 1, summed.high - summed.low + 1)
        share = UnitShare(measure, named_column(columns, column))
        widest = max(share.largest, 0 if summed is None else 2 * max(abs(summed.low), abs(summed.high)) + 1)
        # Whether sums fit is seen when it is known how many rows one unit has.
        if widest >= WIDEST:
            return None
        shares.append(share)
    return columns, tuple(shares)


def counted(measure: Measure) -> Read | None:
    """1 for every row that counts; None where all do."""
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


# What is made of the rows of a unit in a group ------------------------------------------------------------------------


class UnitGroups:
    """Rows of some (unit, group) pairs, pair after pair; each has one row or more.

    Args:
        read: the y of every row in a column.
        full: columns in which every row counts.
        lengths: how many rows each pair has.
        most: how many rows of each pair count, where rows are bounded in all groups together; None for no such bound.
        wide: whether sums are Python's integers, because 64 bits might not do.
    """

    def __init__(
        self,
        read: Callable[[str], Integers],
        full: Collection[str],
        lengths: Integers,
        most: Integers | None = None,
        *,
        wide: bool = False,
    ) -> None:
        self.most = most
        self._wide = wide
        self.lengths = lengths
        self.longest = int(lengths.max(initial=0))
        self._full = full
        self._read = read
        self._known: dict[tuple[str, str], Integers] = {}

    def sums(self, values: NDArray[Any]) -> Integers:
        """Sums per pair."""
        if self._wide:
            upper, lower = (run_sums(half, self.lengths) for half in halves(values.astype(np.int64)))
            return joined(upper, lower)
        # Most units have one row in a group.
        return values.astype(np.int64, copy=False) if self.longest == 1 else run_sums(values, self.lengths)

    def widest(self, largest: int, most: int = WIDEST) -> tuple[NDArray[np.bool_], UnitGroups] | None:
        """The pairs whose sums of sizes up to ``largest`` might reach ``most``, for exact sums; None for none.

        Raises:
            TooWideError: those of one row might.
        """
        if largest >= most:
            raise TooWideError
        if self.longest * largest < most:
            return None
        heavy = self.lengths >= -(-most // max(largest, 1))
        rows, bound = rows_of(heavy, self.lengths), None if self.most is None else self.most[heavy]
        return heavy, UnitGroups(
            lambda name: self.values(name)[rows], self._full, self.lengths[heavy], bound, wide=True
        )

    def values(self, name: str) -> Integers:
        """Every row's y."""
        return self._once("values", name, lambda: self._read(name))

    def counts(self, name: str) -> Integers:
        """Count the rows of each pair that have a positive value."""
        if name in self._full:
            return self.lengths
        return self._once("counts", name, lambda: self._counted(self.values(name)))

    def _counted(self, values: Integers) -> Integers:
        # NULL is 0; one of them somewhere is not worked at here.
        return self.lengths if values.all() else self.sums(values > 0)

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

    def of(self, pairs: UnitGroups) -> Integers:
        """The clamped integer of each pair.

        Raises:
            TooWideError: when a sum over one pair's rows might not fit, whatever the rows are.
        """
        measure = self.measure
        if measure.kind not in TOTALS:
            return self._clamped(pairs)
        largest = measure.high - measure.low + 1 + abs(self._start)
        largest = largest**2 if measure.kind is MeasureKind.CENTRED_SQUARES else largest
        heavy = pairs.widest(max(largest, 2 * measure.rows + 1))
        found = self._clamped(pairs)
        if heavy is not None:
            found = found.copy()
            found[heavy[0]] = self._clamped(heavy[1])
        return found

    @property
    def _start(self) -> int:
        return self.measure.low - 1 - self.measure.centre

    def _clamped(self, pairs: UnitGroups) -> Integers:
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
            if measure.rows * max(-low, high) >= WIDEST:
                raise TooWideError
            value = np.minimum(np.maximum(value, pairs.most * low), pairs.most * high)
        low, high = measure.clamp
        # Most units have few rows, and what lies inside need not be copied.
        inside = not len(value) or (low <= int(value.min()) and int(value.max()) <= high)
        return value if inside else np.maximum(np.minimum(value, high), low)

    def _total(self, pairs: UnitGroups) -> Integers:
        if self.column is None:
            raise InternalError("a sum needs a column")
        measure, start = self.measure, self._start
        count = pairs.counts(self.column)
        if measure.kind is MeasureKind.CENTRED_SQUARES:
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
class SharedRows:
    """A bound of the rows of a unit in all groups together (``max_rows_total``); see ``sql/group_choice``.

    Args:
        most: that bound.
        in_group: the most rows that count in one group.
    """

    most: int
    in_group: int

    def of(self, rows: GroupedRows, block: UnitBlock) -> Integers | None:
        """How many rows of each kept pair count; None where all do that fit their group."""
        lengths, groups, breadths = block.lengths, block.groups, block.breadths
        if block.kept is not None:
            lengths, groups, breadths = lengths[block.kept], groups[block.kept], run_sums(block.kept, breadths)
        found = np.minimum(lengths, self.in_group)
        totals = run_sums(found, breadths)
        heavy = totals > self.most
        if not heavy.any():
            return None
        # Rows are shared out in the order in which a unit keeps its groups.
        runs, whole, folded = breadths[heavy], totals[heavy], rows.units.folded(block.units[heavy])
        among = np.flatnonzero(np.repeat(heavy, breadths))
        owners = np.repeat(np.arange(len(runs)), runs)
        if rows.plan.must_choose:
            among = among[np.lexsort((rows.groups.ranks(np.repeat(folded, runs), groups[among]), owners))]
        offset = rows.plan.chooser.offsets(folded, whole)[owners]
        ends = np.cumsum(found[among])
        # Counted from the first of each unit.
        ends -= (np.cumsum(whole) - whole)[owners]
        own, whole = found[among], whole[owners]
        found[among] = (self.most * ends + offset) // whole - (self.most * (ends - own) + offset) // whole
        return found


class GroupSums:
    """Sums of shares by group, block by block; in Python's integers where 64 bits might not do.

    Of fewer than 2^31 shares, upper halves of at most 2^32 and lower ones below 2^31 add up to less than 2^63.
    """

    def __init__(self, groups: int, *, wide: bool) -> None:
        self._halves = [np.zeros(groups, dtype=np.int64) for _ in range(1 + wide)]

    def add(self, groups: Integers, shares: Integers) -> None:
        """Add each share to its group."""
        parts = (shares,) if len(self._halves) == 1 else halves(shares)
        for half, part in zip(self._halves, parts, strict=True):
            np.add.at(half, groups, part)

    def of(self, groups: Integers) -> NDArray[Any]:
        """The sums of some groups."""
        found = [half[groups] for half in self._halves]
        return found[0] if len(found) == 1 else joined(*found)


def halves(values: Integers) -> tuple[Integers, Integers]:
    """Upper and lower halves."""
    return values >> 31, values & (2**31 - 1)


def joined(upper: Integers, lower: Integers) -> NDArray[Any]:
    """What sums of upper and lower halves stand for, in Python's integers."""
    found: NDArray[Any] = upper.astype(object) * 2**31 + lower.astype(object)
    return found


@dataclass(frozen=True)
class TotalsPlan:
    """What to add up of the rows of a query.

    Args:
        source: of the rows.
        columns: that shares read, by name.
        shares: one per sum.
        losses: the table of bias, if it is asked for and the rows can tell it.
        in_all: the bound of the rows of a unit in all groups together; None for no such bound.
    """

    source: RowSource
    columns: Mapping[str, Read]
    shares: tuple[UnitShare, ...]
    losses: LossPlan | None = None
    in_all: SharedRows | None = None

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals | None:
        """Keys, units and one total per share, for every group in which a unit is kept; None where SQL has to do it.

        Args:
            session: to read with; asked now and then whether to stop.
            most_rows: that are held at once, of :data:`~.segments.ROW_BYTES` each.
            threads: for adding up.
        """
        if self.source.groups.kinds is None and not self.shares and self.losses is None:
            # The rows told it while their values were counted.
            return None if self.source.units is None else BoundedTotals(self.source.units, None)
        try:
            return self._totals(session, most_rows, threads)
        except TooWideError:
            return None

    def _totals(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals:
        losses = self.losses
        rows, columns = self.source.read(session, most_rows)
        if rows is None:
            return BoundedTotals([], None if losses is None else [0] * losses.table.cells)
        fields: dict[str, Field] = {}
        full = set()
        for name, read in (*self.columns.items(), *({} if losses is None else losses.columns).items()):
            column = columns[name]
            if not isinstance(column, WholeColumn):
                raise TooWideError
            # Also a column of excess that is 0 throughout: whether it is must not decide how wide all rows are.
            fields[name] = Field(partial(_counted_from, column, read.fill), read.largest)
            if not column.has_nulls:
                full.add(name)
        sorted_rows = self.source.sorted(fields)
        session.check()

        def one(block: UnitBlock) -> tuple[Integers, list[Integers], Integers | None]:
            pairs, groups = UnitGroups(partial(_read, sorted_rows, block.words), full, block.lengths), block.groups
            cells = None if losses is None else losses.cells(pairs, block)
            if block.kept is not None:
                groups, words = groups[block.kept], block.words[rows_of(block.kept, block.lengths)]
                pairs = UnitGroups(partial(_read, sorted_rows, words), full, block.lengths[block.kept])
            if self.in_all is not None:
                pairs.most = self.in_all.of(rows, block)
            return groups, [share.of(pairs) for share in self.shares], cells

        units = np.zeros(rows.groups.count, dtype=np.int64)
        count = len(sorted_rows.words)
        sums = [GroupSums(rows.groups.count, wide=share.largest * count >= WIDEST) for share in self.shares]
        cells: Integers | None = None if losses is None else np.zeros(losses.table.cells, dtype=np.int64)
        for groups, shares, own in sorted_rows.blocks(one, threads, session.check):
            np.add.at(units, groups, 1)
            for total, share in zip(sums, shares, strict=True):
                total.add(groups, share)
            cells = None if cells is None or own is None else cells + own
        present = np.flatnonzero(units)
        totals = KeyTotals(rows.groups.shown(present), [units[present], *(total.of(present) for total in sums)])
        public = rows.plan.kinds is None
        return BoundedTotals(totals.rows() if public else totals, None if cells is None else cells.tolist())


def _counted_from(column: WholeColumn, fill: int, i: int) -> Integers:
    return column.numbers(i, fill, 0)


def _read(rows: SortedRows, words: Words, name: str) -> Integers:
    return rows.read(name, words)
