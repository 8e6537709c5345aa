"""Bounded measurements of rows in memory: the same integers as the statements of ``engines/sql/statements.py``.

The ``measure`` method of a plan returns the result of a statement whose rows fit into memory; None if SQL must compute
it.

*Totals* (:class:`TotalsPlan`). DuckDB returns unit, group, and one column per summed value: q(x), or NULL for rows that
do not count. In memory a value is y = q(x) - low + 1, which is at least 1, and 0 for NULL. So Σ q(x) = Σ y +
n·(low - 1), with n the number of positive y. Sorted rows (:mod:`.segments`) are processed block by block: each pair of
a unit and a group it keeps has one *share* per measure, its clamped integer, and shares are summed by group.

All integers have 64 bits. A share fits, by the clamp of its measure. If the sum over the rows of a unit may not fit,
that unit alone is summed again by upper and lower halves; a value whose bounds in the query are too wide is left to
SQL, which sums in 128 bits. No unit decides how the rows of other units are summed. Sums over units that may not fit
are computed by upper and lower halves (:class:`GroupSums`).

*Distinct values and counts of places* (:class:`SpreadPlan`). Rows are sorted by unit, group and value
(:mod:`.segments`). Block by block, each unit keeps its first groups, and in each of them its first values: distinct
values, or copies of places, which are distinguished by numbers. The kept values are counted by group and value;
distinct values may be summed instead.

*Units per cell of the bias table* (:class:`LossPlan`) of ``planning/bias.py``. The rows that are fetched for the totals
of a query suffice for the table: how many values a unit has in each public group, their total, and whether the unit has
rows outside the public list. If values may be outside their clipping bounds, one additional small column holds how far,
as an index into :data:`~tacit.query.planning.bias.EXCESSES`. Amounts are bounded by the number of rows in memory, and
totals are checked.
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


#: Exclusive bound of sums of absolute values, with room for one more addition.
WIDEST = 2**62


class BoundedTotals(NamedTuple):
    """Sums over the rows of a query, per group.

    Args:
        totals: per group that a unit keeps its number or keys, number of units, and one total per share; for a spread
            measure, counts of its places.
        cells: number of units in each cell of the bias table; None if SQL must count them.
    """

    totals: list[tuple[Any, ...]] | SpreadRows | KeyTotals
    cells: list[int] | None


# Columns read per row -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """SQL of a column that DuckDB returns per row, and the range of its values.

    Args:
        sql: SQL expression of the value; NULL for rows that do not count.
        fill: the value that becomes y = 0, as NULL does; y is the value minus ``fill``.
        largest: upper bound of y.
    """

    sql: str
    fill: int
    largest: int


def read_shares(measures: Sequence[Measure]) -> tuple[dict[str, Read], tuple[UnitShare, ...]] | None:
    """Return the columns to read by name, and the shares computed from them; None if a value may exceed 64 bits."""
    columns: dict[str, Read] = {}
    values = {(m.argument, m.where): m for m in measures if m.kind in TOTALS}
    shares = []
    for measure in measures:
        summed = measure if measure.kind in TOTALS else values.get((measure.argument, measure.where))
        if summed is None:
            column = counted(measure)
        else:
            # The column of a sum over the same rows also serves a count.
            column = Read(quantised_sql(DUCKDB, summed), summed.low - 1, summed.high - summed.low + 1)
        share = UnitShare(measure, named_column(columns, column))
        widest = max(share.largest, 0 if summed is None else 2 * max(abs(summed.low), abs(summed.high)) + 1)
        # Whether sums fit is checked once the number of rows per unit is known.
        if widest >= WIDEST:
            return None
        shares.append(share)
    return columns, tuple(shares)


def counted(measure: Measure) -> Read | None:
    """Return a column that is 1 for every row that counts; None if every row does."""
    condition = counts_sql(DUCKDB, measure)
    return None if condition is None else Read(f"(CASE WHEN {condition} THEN 1::TINYINT END)", 0, 1)


@overload
def named_column(columns: dict[str, Read], column: Read, letter: str = ...) -> str: ...


@overload
def named_column(columns: dict[str, Read], column: Read | None, letter: str = ...) -> str | None: ...


def named_column(columns: dict[str, Read], column: Read | None, letter: str = "y") -> str | None:
    """Return the name of a column, adding it to ``columns`` if it is new; None for None."""
    if column is None:
        return None
    for name, known in columns.items():
        if known == column:
            return name
    name = f"{letter}{len(columns)}"
    columns[name] = column
    return name


# Totals over the rows of a unit in a group ----------------------------------------------------------------------------


class UnitGroups:
    """Rows of some (unit, group) pairs, sorted by pair; each pair has at least one row.

    Args:
        read: returns y of every row, for a column name.
        full: names of columns in which every row counts.
        lengths: number of rows of each pair.
        most: number of rows of each pair that count under ``max_rows_total``; None without that bound.
        wide: whether sums are Python integers, because 64 bits may not suffice.
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
        """Return the sum of ``values`` over the rows of each pair."""
        if self._wide:
            upper, lower = (run_sums(half, self.lengths) for half in halves(values.astype(np.int64)))
            return joined(upper, lower)
        # Most units have one row in a group.
        return values.astype(np.int64, copy=False) if self.longest == 1 else run_sums(values, self.lengths)

    def widest(self, largest: int, most: int = WIDEST) -> tuple[NDArray[np.bool_], UnitGroups] | None:
        """Select the pairs whose sums of values up to ``largest`` may reach ``most``, for exact sums; None if none may.

        Raises:
            TooWideError: the value of a single row may reach ``most``.
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
        """Return y of every row in a column."""
        return self._once("values", name, lambda: self._read(name))

    def counts(self, name: str) -> Integers:
        """Return the number of rows of each pair with y > 0."""
        if name in self._full:
            return self.lengths
        return self._once("counts", name, lambda: self._counted(self.values(name)))

    def _counted(self, values: Integers) -> Integers:
        # y of NULL is 0.
        return self.lengths if values.all() else self.sums(values > 0)

    def totals(self, name: str) -> Integers:
        """Return the sum of y over the rows of each pair."""
        return self._once("totals", name, lambda: self.sums(self.values(name)))

    def _once(self, what: str, name: str, make: Callable[[], Integers]) -> Integers:
        found = self._known.get((what, name))
        if found is None:
            found = self._known[what, name] = make()
        return found


@dataclass(frozen=True)
class UnitShare:
    """One measure and the column it reads; the column is None for a count over all rows."""

    measure: Measure
    column: str | None

    @property
    def largest(self) -> int:
        """Largest absolute value of a share."""
        return max(map(abs, self.measure.clamp))

    def of(self, pairs: UnitGroups) -> Integers:
        """Return the clamped integer share of each pair.

        Raises:
            TooWideError: if a sum over one pair's rows may exceed 64 bits for some data.
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
        # Most units have few rows, and values inside the clamp need no copy.
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
    """Return totals over ``count`` values, times most/count where count > ``most``; see ``sql/bounding``."""
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
    """Bound on the rows of a unit in all groups together (``max_rows_total``); see ``sql/bounding``.

    Args:
        most: the bound.
        in_group: largest number of rows that count in one group.
    """

    most: int
    in_group: int

    def of(self, rows: GroupedRows, block: UnitBlock) -> Integers | None:
        """Return how many rows of each kept pair count; None if no unit exceeds the bound."""
        lengths, groups, breadths = block.lengths, block.groups, block.breadths
        if block.kept is not None:
            lengths, groups, breadths = lengths[block.kept], groups[block.kept], run_sums(block.kept, breadths)
        found = np.minimum(lengths, self.in_group)
        totals = run_sums(found, breadths)
        heavy = totals > self.most
        if not heavy.any():
            return None
        # Rows are divided among the groups in the order in which the unit keeps them.
        runs, whole, folded = breadths[heavy], totals[heavy], rows.units.folded(block.units[heavy])
        among = np.flatnonzero(np.repeat(heavy, breadths))
        owners = np.repeat(np.arange(len(runs)), runs)
        if rows.plan.must_choose:
            among = among[np.lexsort((rows.groups.ranks(np.repeat(folded, runs), groups[among]), owners))]
        offset = rows.plan.chooser.offsets(folded, whole)[owners]
        ends = np.cumsum(found[among])
        # Relative to the start of each unit.
        ends -= (np.cumsum(whole) - whole)[owners]
        own, whole = found[among], whole[owners]
        found[among] = (self.most * ends + offset) // whole - (self.most * (ends - own) + offset) // whole
        return found


class GroupSums:
    """Sums of shares by group, accumulated block by block; as Python integers where 64 bits may not suffice.

    With fewer than 2^31 shares, the sums of upper halves (at most 2^32) and lower halves (below 2^31) are below 2^63.
    """

    def __init__(self, groups: int, *, wide: bool) -> None:
        self._halves = [np.zeros(groups, dtype=np.int64) for _ in range(1 + wide)]

    def add(self, groups: Integers, shares: Integers) -> None:
        """Add each share to its group."""
        parts = (shares,) if len(self._halves) == 1 else halves(shares)
        for half, part in zip(self._halves, parts, strict=True):
            np.add.at(half, groups, part)

    def of(self, groups: Integers) -> NDArray[Any]:
        """Return the sums of some groups."""
        found = [half[groups] for half in self._halves]
        return found[0] if len(found) == 1 else joined(*found)


def halves(values: Integers) -> tuple[Integers, Integers]:
    """Split each integer into its upper part and its lower 31 bits."""
    return values >> 31, values & (2**31 - 1)


def joined(upper: Integers, lower: Integers) -> NDArray[Any]:
    """Combine sums of upper and lower halves into Python integers."""
    found: NDArray[Any] = upper.astype(object) * 2**31 + lower.astype(object)
    return found


@dataclass(frozen=True)
class TotalsPlan:
    """Plan of the sums over the rows of a query.

    Args:
        source: the rows.
        columns: columns that the shares read, by name.
        shares: one per sum.
        losses: plan of the bias table; None if it is not requested or cannot be computed from the rows.
        in_all: bound on the rows of a unit in all groups together; None for no bound.
    """

    source: RowSource
    columns: Mapping[str, Read]
    shares: tuple[UnitShare, ...]
    losses: LossPlan | None = None
    in_all: SharedRows | None = None

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals | None:
        """Return key, units and one total per share for every group that a unit keeps; None if SQL must compute them.

        Args:
            session: session to read with; checked from time to time for an interrupt.
            most_rows: largest number of rows in memory, of :data:`~.segments.ROW_BYTES` bytes each.
            threads: number of threads for the sums.
        """
        if self.source.groups.kinds is None and not self.shares and self.losses is None:
            # The units per group were counted together with the values.
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
            # Includes an excess column that is 0 in all rows: the data must not decide how wide the rows are.
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


#: Names of the temporary table of :class:`CountPlan` and of its column.
COUNTED, ROW_COUNT = "tacit_counted", "n"


@dataclass(frozen=True)
class CountPlan:
    """Statement over the number of rows of each unit, counted in memory because SQL takes four times as long.

    Args:
        chooser: numbers the units.
        rows: SQL of the unit of each row.
        statement: SQL over column :data:`ROW_COUNT` of table :data:`COUNTED`, which has one row per unit.
    """

    chooser: Chooser
    rows: str
    statement: str

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals | None:  # noqa: ARG002
        """Count the rows of each unit and run the statement; arguments and result as for :meth:`TotalsPlan.measure`."""
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
    """Plan of the counts of distinct values or places over the rows of a query.

    Args:
        source: the rows.
        value: name of the column of values.
        kind: type of the values if distinct ones are counted; None if places are counted.
        width: number of places.
        most: largest number of values of a unit that count in a group.
        summed: name of the column whose q(x) is summed over distinct values; None if they are counted.
        centre: subtracted from each q(x).
        largest: largest |q(x) - centre|.
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
        """Count or sum values per group; arguments and result as for :meth:`TotalsPlan.measure`."""
        try:
            return BoundedTotals(_spread(self, session, most_rows, threads), None)
        except TooWideError:
            return None


def _spread(
    plan: SpreadPlan, session: DuckDBSession, most_rows: int, threads: int
) -> SpreadRows | list[tuple[Any, ...]]:
    """Return group columns, place (0 for distinct values) and count, or the sum of distinct values.

    Raises:
        TooWideError: SQL must compute it.
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
    # Kept values overwrite the words of rows that were processed already.
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
    # Distinct values and their counts, of all groups one after the other.
    found = np.empty((len(starts), 2), dtype=np.int64)
    # Written in place: there may be as many as rows.
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
    """Return each value's y minus the centre, by the number of the value: equal values have equal y.

    Raises:
        TooWideError: if their sum may exceed 64 bits.
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
    """Return the items of a column of places, which are their own numbers; NULL is the number after the last place."""
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
    """Return the groups that the units of a block keep, one per pair, and the kept values of these groups.

    A kept value is one integer: the bits of its group above those of its value.
    """
    words, groups, chooser = block.words, block.groups, source.rows.plan.chooser
    if block.kept is not None:
        words, groups = words[rows_of(block.kept, block.lengths)], groups[block.kept]
    # Groups were chosen among all groups of the unit, including those without a value.
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
    """Return the index of each word among the words equal to it, from 1."""
    starts = changes(words)
    return np.arange(1, len(words) + 1) - np.repeat(starts, run_lengths(starts, len(words)))


# Units per cell of the bias table -------------------------------------------------------------------------------------


#: Doubles up to this size hold whole numbers exactly.
_EXACT = 2**53
_AMOUNTS = np.array(EXCESSES, dtype=np.int64)


@dataclass(frozen=True)
class TotalLoss:
    """Limits of a unit's total of some values, for the bias table.

    Args:
        fill: q(x) - y of the values.
        largest: largest absolute value of one q(x).
        divisor: divisor of the total if SQL compares the quotient, a DOUBLE; None for integer totals.
        lows: lower ends of a sequence of widening intervals; empty if they have none.
        highs: upper ends, likewise.
    """

    fill: int
    largest: int
    divisor: int | None
    lows: tuple[float, ...]
    highs: tuple[float, ...]

    def of(self, pairs: UnitGroups, column: str) -> Integers | None:
        """Return the distance of each pair's total from its limits, in quarters of the largest value; None if inside.

        Raises:
            TooWideError: if a number may be inexact for some data.
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
    """Columns from which the bias of some values is computed.

    Args:
        values: the values.
        count: name of a column with y > 0 for every value; None if every row counts.
        cut: whether values beyond the bound on their number are cut.
        total: limits of the values' total; None for no limits.
        excess: name of the column of the excess; None if no value can be outside its bounds.
    """

    values: CountedValues
    count: str | None
    cut: bool
    total: TotalLoss | None
    excess: str | None

    def of(self, pairs: UnitGroups, parts: int) -> tuple[Integers, Integers | None]:
        """Return the number of values of each pair, and of values cut (None for none), both in parts of a row."""
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
        """Return how far the values of each pair exceed their bounds, in parts of a row; None if none do."""
        places = pairs.values(str(self.excess))
        if self.count is not None and places.any():
            # NULL and doubles that are not finite are outside every interval, but do not count as values.
            places = np.where(pairs.values(self.count) > 0, places, 0)
        return pairs.sums(_AMOUNTS[places]) if places.any() else None


@dataclass(frozen=True)
class LossPlan:
    """Plan of the units per cell of the bias table, from the rows of the query.

    Args:
        table: the bias table.
        most: number of groups a unit keeps (``max_groups``).
        losses: one for each kind of value.
        columns: columns that only the bias table reads, by name.
    """

    table: BiasTable
    most: int
    losses: tuple[ValueLoss, ...]
    columns: Mapping[str, Read]

    def cells(self, pairs: UnitGroups, block: UnitBlock) -> Integers | None:
        """Return the number of units of a block in each cell; None if SQL must count them.

        Args:
            pairs: the rows of all pairs (unit, group), including groups that their unit does not keep.
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
            # In whole parts of a row, rounded down: the largest over all kinds of values.
            lost = np.maximum.reduce(amounts)
            lost = lost // np.maximum(groups, 1) if GROUPS in self.table.causes else lost
            where = np.flatnonzero(lost)
            powers = 2 ** np.arange(1, self.table.buckets, dtype=np.int64)
            cell[where] += np.searchsorted(powers, lost[where], side="right")
        return np.bincount(cell, minlength=self.table.cells)

    def _amount(
        self, groups: Integers, number: Integers, cut: Integers | None, excess: Integers | None
    ) -> Integers | None:
        """Return the bias of each unit from values that are cut and from excess.

        If groups may be cut: its average over all choices of the kept groups, times the unit's number of groups.
        """
        if GROUPS not in self.table.causes:
            return excess if cut is None else cut if excess is None else cut + excess
        remaining = number if cut is None else number - cut
        missing = number * groups - remaining * np.minimum(groups, self.most)
        return missing if excess is None else missing + excess * groups


def loss_plan(
    final: FinalAggregation, table: BiasTable, columns: dict[str, Read], known: dict[Measure, str | None]
) -> LossPlan | None:
    """Plan the cells of a bias table; None if SQL must count them.

    Args:
        final: the query.
        table: its bias table.
        columns: columns that are read, by name; those that count values are added.
        known: the column that each measure of the first statement reads.
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
    # Two kinds of values share an excess column.
    if len(excesses) < len([each for each in losses if each.excess is not None]):
        return None
    return LossPlan(table, final.max_groups, tuple(losses), excesses)


def _total(measure: Measure) -> TotalLoss | None:
    if measure.argument is None:
        return None
    stored, kind = measure.argument.type, total_type(measure)
    # The columns of the sums hold the values within their bounds, as whole numbers of steps.
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
    """Convert a limit to the form of the total it is compared with: an integer of whole grains, or a double."""
    return int(ordinal(end, kind) * scale) if whole else float(end)  # type: ignore[arg-type]


def _excess(measure: Measure) -> Read:
    """Return the column of a value's index among the intervals of excess; arbitrary for rows that do not count."""
    if measure.argument is None:
        raise TooWideError
    arms = _excess_arms(tuple(excess_limits(measure)), measure.argument.type)
    found = DUCKDB.let(scalar_sql(DUCKDB, measure.argument), lambda value: arms.replace(_SLOT, value))
    return Read(found, 0, len(EXCESSES))


#: Placeholder of a value in SQL that is cached for many queries.
_SLOT = "\0value\0"


@lru_cache(256)
def _excess_arms(limits: tuple[Interval, ...], kind: SqlType) -> str:
    arms = []
    for number, (low, high) in enumerate(limits):
        parts = [] if low is None else [f"{_SLOT} >= {DUCKDB.constant(low, kind)}"]
        parts += [] if high is None else [f"{_SLOT} <= {DUCKDB.constant(high, kind)}"]
        arms.append(f"WHEN {' AND '.join(parts) or 'TRUE'} THEN {number}::TINYINT")
    return f"CASE {' '.join(arms)} ELSE {len(limits)}::TINYINT END"
