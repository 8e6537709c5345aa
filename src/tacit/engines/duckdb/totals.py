"""Bounded measurements of rows in memory: the same integers as the statements of ``engines/sql/statements.py``.

``measure`` of a plan is what a statement gives whose rows fit into memory; None where SQL has to do it.

*Totals* (:class:`TotalsPlan`). DuckDB hands over unit, group, and one column per value that is added up: q(x), or NULL
for rows that do not count. Here a value is y = q(x) - low + 1, which is 1 or more, and 0 for NULL. So Σ q(x) = Σ y +
n·(low - 1), with n the number of positive y. Sorted rows (:mod:`.segments`) are looked at block by block: each pair of
a unit and a group it keeps has one share per measurement, and shares are added up by group.

Everything is 64-bit integers. A share fits, by the clamp of its measure. Where the sum of the rows of a unit might not,
it alone is added up again by upper and lower halves; what is too wide by the text of the query is left to SQL, which
adds up in 128 bits. No unit decides how the rows of others are added up. Sums over units that might not fit are added
up by upper and lower halves (:class:`GroupSums`).

*Distinct values and counts of places* (:class:`SpreadPlan`). Rows are sorted by unit, group and value
(:mod:`.segments`). Block by block each unit keeps its first groups, and in each of them its first values: distinct
ones, or copies of places that are told apart by their numbers. What is kept is counted by group and value; distinct
values may be added up instead.

*Units by what bounding left out of them* (:class:`LossPlan`): the table of ``planning/bias.py``. The rows that are
fetched for the totals of a query tell all that the table needs: how many values a unit has in each public group, their
total, and which units have rows outside the public list. Where values may be outside their bounds, one small column
more says how far, as a place in :data:`~tacit.query.planning.bias.EXCESSES`. Sizes are bounded by the number of rows
that are held at once, and totals are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.segments import (
    ROW_BYTES,
    Column,
    Field,
    GroupedRows,
    Integers,
    Items,
    RowSource,
    SortedRows,
    TooWideError,
    UnitBlock,
    WholeColumn,
    Words,
    changes,
    fetch,
    kept_items,
    number_items,
    number_units,
    rows_of,
    run_lengths,
    run_sums,
)
from tacit.engines.sql.bounding import TOTALS, Chooser, counts_sql, quantised_sql
from tacit.engines.sql.scalars import scalar_sql
from tacit.engines.sql.statements import KeyTotals, SpreadRows
from tacit.query.planning.bias import (
    CASTS,
    EXCESSES,
    GROUPS,
    KEYS,
    ROWS,
    BiasTable,
    CountedValues,
    Interval,
    counted_values,
    excess_limits,
    is_within,
    lists_exactly,
    total_limits,
    total_type,
)
from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.types import Kind, SqlType, Value, ordinal

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession
    from tacit.query.query import FinalAggregation


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


# Numbers of rows per unit ---------------------------------------------------------------------------------------------


#: The table of :class:`CountPlan` in the session, and its column.
COUNTED, ROW_COUNT = "tacit_counted", "n"


@dataclass(frozen=True)
class CountPlan:
    """A statement over the number of rows of each unit, which are counted here: by SQL that takes four times as long.

    Args:
        chooser: of the query, which numbers units.
        rows: SQL of the unit of each row.
        statement: over the column :data:`ROW_COUNT` of :data:`COUNTED`, which has a row per unit.
    """

    chooser: Chooser
    rows: str
    statement: str

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals | None:  # noqa: ARG002
        """As :meth:`TotalsPlan.measure`."""
        counts = np.empty(0, dtype=np.int64)
        try:
            for column in fetch(session, self.rows, most_rows * ROW_BYTES, listed=False):
                units = number_units(session.cursor, self.chooser, column)
                counts = np.bincount(np.concatenate([*map(units.numbers, range(len(column.sizes)))]))
        except TooWideError:
            return None
        session.check()
        session.cursor.register(COUNTED, {ROW_COUNT: counts[counts > 0]})
        try:
            return BoundedTotals(session.rows(self.statement), None)
        finally:
            session.cursor.unregister(COUNTED)


# Distinct values, and counts of places --------------------------------------------------------------------------------


_VALUE = "x"


@dataclass(frozen=True)
class SpreadPlan:
    """What to count of the rows of a query.

    Args:
        source: of the rows.
        value: the column of the values.
        kind: type of the values whose distinct ones are counted; None where places are.
        width: number of places.
        most: how many values of a unit count in a group.
        summed: the column whose y are added up for distinct values; None where they are counted.
        centre: from which these y are counted.
        largest: the largest distance of a y from there.
    """

    source: RowSource
    value: str
    kind: SqlType | None
    width: int
    most: int
    summed: str | None = None
    centre: int = 0
    largest: int = 0

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals | None:
        """As :meth:`tacit.engines.duckdb.totals.TotalsPlan.measure`."""
        try:
            return BoundedTotals(_spread(self, session, most_rows, threads), None)
        except TooWideError:
            return None


def _spread(
    plan: SpreadPlan, session: DuckDBSession, most_rows: int, threads: int
) -> SpreadRows | list[tuple[Any, ...]]:
    """Group columns, place (0 for distinct values) and count, or the sum of distinct values.

    Raises:
        TooWideError: where SQL has to do it.
    """
    rows, columns = plan.source.read(session, most_rows)
    if rows is None:
        plan.source.units = []
        return []
    column = columns[plan.value]
    if plan.kind is None:
        items = _places(plan, rows.plan.chooser, column)
    else:
        items = number_items(session.cursor, rows.plan.chooser, "values", plan.kind, column)
    distances = None if plan.summed is None else _distances(plan, items, columns[plan.summed])
    source = plan.source.sorted({_VALUE: Field(items.numbers, items.count - 1)})
    if source.apart:
        raise TooWideError
    session.check()
    # What is kept takes the place of rows that have been looked at.
    kept, count = source.words.view(np.int64), 0
    units = np.zeros(rows.groups.count, dtype=np.int64)
    for groups, some in source.blocks(lambda block: _kept(plan, source, items, block), threads, session.check):
        np.add.at(units, groups, 1)
        kept[count : count + len(some)] = some
        count += len(some)
    if rows.plan.kinds is None:
        present = np.flatnonzero(units)
        plan.source.units = list(zip(present.tolist(), units[present].tolist(), strict=True))
    kept = kept[:count]
    kept.sort()
    starts = changes(kept)
    # Values and how often each occurs, of all groups one after the other.
    found = np.empty((len(starts), 2), dtype=np.int64)
    # Written where they stay: there may be as many as rows.
    np.take(kept, starts, out=found[:, 0], mode="clip")
    np.subtract(starts[1:], starts[:-1], out=found[:-1, 1])
    found[-1:, 1] = count - starts[-1:]
    del kept, starts
    begins = changes(found[:, 0] >> source.below)
    present = found[begins, 0] >> source.below
    found[:, 0] &= 2**source.below - 1
    ends, keys = [*begins.tolist(), len(found)], list(zip(*rows.groups.shown(present), strict=True))
    if distances is not None:
        totals = run_sums(distances[found[:, 0]], run_lengths(begins, len(found))).tolist()
        return [(*key, 0, total) for key, total in zip(keys, totals, strict=True)]
    if plan.kind is not None:
        return [(*key, 0, end - start) for key, (start, end) in zip(keys, pairwise(ends), strict=True)]
    return SpreadRows(keys, [found[start:end] for start, end in pairwise(ends)])


def _distances(plan: SpreadPlan, items: Items, column: Column) -> Integers:
    """The distance of each value's y from the centre, by its number: equal values have equal ones.

    Raises:
        TooWideError: when 64 bits might not do for their sum.
    """
    if plan.largest * items.count >= WIDEST:
        raise TooWideError
    if not isinstance(column, WholeColumn):
        raise TooWideError
    found = np.zeros(items.count, dtype=np.int64)
    for i in range(len(column.sizes)):
        found[items.numbers(i)] = column.numbers(i, plan.centre, 0)
    return found


def _places(plan: SpreadPlan, chooser: Chooser, column: Column) -> Items:
    """Places are numbers already; beyond the last stands NULL."""
    if not isinstance(column, WholeColumn):
        raise TooWideError
    width, nothing = plan.width, plan.width if column.has_nulls else None
    return Items(
        lambda i: column.numbers(i, 0, width),
        width + 1,
        chooser.numbers,
        lambda some: some.tolist(),
        nothing,
    )


def _kept(plan: SpreadPlan, source: SortedRows, items: Items, block: UnitBlock) -> tuple[Integers, Integers]:
    """Groups that units of a block keep, and group and value of all that is kept in them, as one number."""
    words, groups, chooser = block.words, block.groups, source.rows.plan.chooser
    if block.kept is not None:
        words, groups = words[rows_of(block.kept, block.lengths)], groups[block.kept]
    # Groups are chosen among all that a unit has, also those without a value.
    if items.nothing is not None:
        words = words[source.read(_VALUE, words) != items.nothing]
    if plan.kind is not None:
        words = words[changes(words)]

    starts = changes(words >> np.uint64(source.below))
    lengths = run_lengths(starts, len(words))

    def ranks(many: NDArray[np.bool_], some: NDArray[np.intp]) -> NDArray[np.uint64]:
        units = (words[starts[many]] >> np.uint64(source.below + source.group_bits)).view(np.int64)
        parts = [items.parts(source.read(_VALUE, words[some]))]
        if plan.kind is None:
            parts.append(chooser.numbers(_copies(words)[some]))
        return chooser.ranks("values", np.repeat(source.rows.units.folded(units), lengths[many]), parts)

    kept = kept_items(lengths, plan.most, ranks)
    words = words if kept is None else words[kept]
    return groups, (words & np.uint64(2 ** (source.below + source.group_bits) - 1)).view(np.int64)


def _copies(words: Words) -> Integers:
    """The number of each among its equals, from 1."""
    starts = changes(words)
    return np.arange(1, len(words) + 1) - np.repeat(starts, run_lengths(starts, len(words)))


# Units by what bounding left out of them ------------------------------------------------------------------------------


#: Doubles up to this size hold whole numbers exactly.
_EXACT = 2**53
_AMOUNTS = np.array(EXCESSES, dtype=np.int64)


@dataclass(frozen=True)
class TotalLoss:
    """Limits of the total of some values.

    Args:
        fill: what y is counted from.
        largest: the largest size of a value.
        divisor: of the total, where SQL compares a DOUBLE that was divided by it; None for whole numbers.
        lows: ends of wider and wider intervals, as far as there are.
        highs: their other ends.
    """

    fill: int
    largest: int
    divisor: int | None
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def of(self, pairs: UnitGroups, column: str) -> Integers | None:
        """Distance of each total of a column from its limits, in quarters; None where all are inside.

        Raises:
            TooWideError: when numbers might not be exact, whatever the rows are.
        """
        heavy = pairs.widest(self.largest, WIDEST if self.divisor is None else _EXACT)
        place = self._place(pairs, column)
        if heavy is not None:
            place[heavy[0]] = self._place(heavy[1], column)
        return _AMOUNTS[place] if place.any() else None

    def _place(self, pairs: UnitGroups, column: str) -> Integers:
        total: NDArray[Any] = pairs.totals(column)
        total = total + pairs.counts(column) * self.fill if self.fill else total
        if self.divisor is not None:
            total = total.astype(np.float64) / self.divisor
        kind = total.dtype
        place = np.zeros(len(total), dtype=np.int64)
        if self.highs and len(total) and total.max() > self.highs[0]:
            place = np.searchsorted(np.array(self.highs, dtype=kind), total, side="left")
        if self.lows and len(total) and total.min() < self.lows[0]:
            place = np.maximum(place, np.searchsorted(-np.array(self.lows, dtype=kind), -total, side="left"))
        return place


@dataclass(frozen=True)
class ValueLoss:
    """Columns that tell the loss of some values.

    Args:
        values: which they are.
        count: the column in which they are positive; None where every row counts.
        cut: whether values beyond a number of them are lost.
        total: limits of their total, if it has any.
        excess: column of the excess; None where no value can be outside.
    """

    values: CountedValues
    count: str | None
    cut: bool
    total: TotalLoss | None
    excess: str | None

    def of(self, pairs: UnitGroups, parts: int) -> tuple[Integers, Integers | None]:
        """All values of each pair, and those that are cut, in parts of a row; None for none."""
        number = pairs.lengths if self.count is None else pairs.counts(self.count)
        cut = None
        if self.total is not None and self.count is not None:
            cut = self.total.of(pairs, self.count)
        elif self.cut and self.values.most is None and pairs.longest > self.values.measure.rows:
            cut = np.maximum(number - self.values.measure.rows, 0) * parts
        if self.values.once:
            number = (number > 0).astype(np.int64)
        return number * parts if parts > 1 else number, cut

    def excess_of(self, pairs: UnitGroups) -> Integers | None:
        """How far values of each pair are outside their bounds, in parts of a row; None where none is."""
        places = pairs.values(str(self.excess))
        if self.count is not None and places.any():
            # NULL and doubles that are not finite are outside as well, and are no values.
            places = np.where(pairs.values(self.count) > 0, places, 0)
        return pairs.sums(_AMOUNTS[places]) if places.any() else None


@dataclass(frozen=True)
class LossPlan:
    """Cells of the table of a query, from its rows.

    Args:
        table: the cells.
        most: how many groups a unit keeps.
        losses: one for each kind of value.
        columns: that are read for the table alone, by name.
    """

    table: BiasTable
    most: int
    losses: tuple[ValueLoss, ...]
    columns: Mapping[str, Read]

    def cells(self, pairs: UnitGroups, block: UnitBlock) -> Integers | None:
        """Number of units of a block in each cell; None where SQL has to count them.

        Args:
            pairs: of all groups that units have, also of those they do not keep.
            block: the units.
        """
        if block.outside is not None and KEYS not in self.table.causes:
            return None

        def per_unit(numbers: NDArray[Any]) -> Integers:
            return run_sums(numbers, block.breadths)

        found = []
        try:
            for loss in self.losses:
                number, cut = loss.of(pairs, self.table.parts)
                number, lost = per_unit(number), None if cut is None else per_unit(cut)
                if loss.values.most is not None and loss.cut:
                    lost = np.maximum(number - loss.values.most * self.table.parts, 0)
                own = None if loss.excess is None else loss.excess_of(pairs)
                found.append((number, lost, None if own is None else per_unit(own)))
        except TooWideError:
            return None
        groups = block.breadths
        cell = np.zeros(len(groups), dtype=np.int64)
        for cause in self.table.causes:
            cell <<= 1
            if cause == GROUPS:
                cell |= groups > self.most
            elif cause == KEYS:
                if block.outside is not None:
                    cell |= block.outside
            else:
                for _, cut, excess in found:
                    applies = cut if cause == ROWS else excess
                    if applies is not None:
                        cell |= applies > 0
        cell *= self.table.buckets
        amounts = [amount for each in found if (amount := self._amount(groups, *each)) is not None]
        if amounts:
            # In whole parts of a row, rounded down: of several kinds of values the largest.
            lost = np.maximum.reduce(amounts)
            lost = lost // np.maximum(groups, 1) if GROUPS in self.table.causes else lost
            where = np.flatnonzero(lost)
            powers = 2 ** np.arange(1, self.table.buckets, dtype=np.int64)
            cell[where] += np.searchsorted(powers, lost[where], side="right")
        return np.bincount(cell, minlength=self.table.cells)

    def _amount(
        self, groups: Integers, number: Integers, cut: Integers | None, excess: Integers | None
    ) -> Integers | None:
        """Values that are cut and excess; where groups may be cut, what is lost of all choices, times the groups."""
        if GROUPS not in self.table.causes:
            return excess if cut is None else cut if excess is None else cut + excess
        remaining = number if cut is None else number - cut
        missing = number * groups - remaining * np.minimum(groups, self.most)
        return missing if excess is None else missing + excess * groups


def loss_plan(
    final: FinalAggregation, table: BiasTable, columns: dict[str, Read], known: dict[Measure, str | None]
) -> LossPlan | None:
    """The cells of a table; None where SQL has to find them.

    Args:
        final: the query.
        table: its table.
        columns: that are read, by name; those that count values are added.
        known: which of them measures of the first statement read.
    """
    if not lists_exactly(final, table) or CASTS in table.causes:
        return None
    losses = []
    excesses: dict[str, Read] = {}
    for each in counted_values(final, table):
        measure = each.measure
        if measure.kind.traits.unites:
            return None
        count = known[measure] if measure in known else named_column(columns, counted(measure))
        total = _total(measure) if each.has_total else None
        if each.has_total and total is None:
            return None
        excess = named_column(excesses, _excess(measure), "e") if each.clipped else None
        cut = not each.once and ROWS in table.causes
        losses.append(ValueLoss(each, count, cut, total, excess))
    # Names of columns are in the order of the kinds of values, each once.
    if len(excesses) < sum(each.excess is not None for each in losses):
        return None
    return LossPlan(table, final.max_groups, tuple(losses), excesses)


def _total(measure: Measure) -> TotalLoss | None:
    if measure.argument is None:
        return None
    stored, kind = measure.argument.type, total_type(measure)
    # Values within their bounds, as whole numbers of steps, are read already.
    double = stored.kind is Kind.DOUBLE and max(abs(measure.low), abs(measure.high)) <= _EXACT // 4
    if not (double or (stored.kind is not Kind.DOUBLE and measure.step == stored.step)) or not is_within(measure):
        return None
    whole, scale = kind.kind is not Kind.DOUBLE, 10**stored.scale
    lows, highs = (
        tuple(_compared(end, kind, scale, whole=whole) for end in ends if end is not None)
        for ends in zip(*total_limits(measure, kind), strict=True)
    )
    if any(abs(end) >= WIDEST for end in (*lows, *highs)):
        return None
    largest = 2 * max(abs(measure.low), abs(measure.high)) + 1
    return TotalLoss(measure.low - 1, largest, None if whole else scale, lows, highs)


def _compared(end: Value, kind: SqlType, scale: int, *, whole: bool) -> float:
    """An end as the total is compared with it: in whole grains, or as a double."""
    return int(ordinal(end, kind) * scale) if whole else float(end)  # type: ignore[arg-type]


def _excess(measure: Measure) -> Read:
    """The place of a value's excess among those that are told apart; any place for rows that do not count."""
    if measure.argument is None:
        raise TooWideError
    arms = _excess_arms(tuple(excess_limits(measure)), measure.argument.type)
    found = DUCKDB.let(scalar_sql(DUCKDB, measure.argument), lambda value: arms.replace(_SLOT, value))
    return Read(found, 0, len(EXCESSES))


#: Stands for a value in SQL that is written once for many queries.
_SLOT = "\0value\0"


@lru_cache(256)
def _excess_arms(limits: tuple[Interval, ...], kind: SqlType) -> str:
    arms = []
    for number, (low, high) in enumerate(limits):
        parts = [] if low is None else [f"{_SLOT} >= {DUCKDB.constant(low, kind)}"]
        parts += [] if high is None else [f"{_SLOT} <= {DUCKDB.constant(high, kind)}"]
        arms.append(f"WHEN {' AND '.join(parts) or 'TRUE'} THEN {number}::TINYINT")
    return f"CASE {' '.join(arms)} ELSE {len(limits)}::TINYINT END"
