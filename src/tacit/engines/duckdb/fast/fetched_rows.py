"""Rows of a question in memory: read by DuckDB, turned into keys, and handed to :mod:`.array_totals`.

Few rows with whole numbers for units come as whole columns; others batch by batch. Units that are too large for a key,
and texts, are numbered first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.fast.array_totals import (
    Beside,
    FetchedRows,
    Fold,
    FoldedRows,
    Integers,
    Read,
    SharedRows,
    TooWideError,
    UnitShare,
    ValueColumn,
    dense_totals,
)
from tacit.engines.duckdb.fast.copied_rows import number_of_copies
from tacit.engines.duckdb.fast.handed_columns import column_of, read_batches
from tacit.engines.duckdb.fast.item_numbers import number_units
from tacit.engines.duckdb.fast.sorted_totals import UnitGroupKeys, fold
from tacit.engines.duckdb.sources import MOST_PLACES
from tacit.engines.sql.group_choice import Chooser

if TYPE_CHECKING:
    import duckdb

    from tacit.engines.duckdb.database import DuckDBSession
    from tacit.engines.duckdb.fast.array_losses import LossPlan, Outside

#: Up to this many rows come as whole columns: a reader of batches plans its statement twice.
FEW = 2**18
#: More rows are bounded by SQL, which can spill them.
MOST_ROWS = 2**26
#: Most bytes of a row while it is bounded: its key, and unit, group and some columns where it has to be numbered.
ROW_BYTES = 64


class Batch(NamedTuple):
    """Units (an array of whole numbers, or a piece of a column of others), groups, and columns.

    ``others`` are the units of rows outside the public list, ``outside`` numbers of rows with values outside their
    bounds.
    """

    units: Any
    groups: NDArray[np.int16]
    columns: dict[str, ValueColumn]
    others: Any
    outside: Outside | None


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
        copies_sql: a statement that says how often each row counts; None for once.
        copies: that number, when it was asked for.
        in_all: the most rows of a unit that count in all groups together, and in one; None for no such bound.
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
    copies_sql: str | None = None
    copies: int = 1
    in_all: tuple[int, int] | None = None

    @property
    def kept_groups(self) -> int | None:
        """Number of groups that a unit keeps; None where it may keep all."""
        return self.most if self.groups > self.most else None

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> FoldedRows | None:
        """Group, units and one total per share, for every group that has any; None where SQL has to do it.

        Args:
            session: to read with; asked now and then whether to stop.
            most_rows: that are held at once, of :data:`ROW_BYTES` each.
            threads: for adding up.
        """
        if self.groups > MOST_PLACES:
            # Arrays hold the number of a group in 16 bits.
            return None
        try:
            plan = self
            if self.copies_sql is not None:
                plan = replace(self, copies=number_of_copies(session, self.copies_sql))
            if not plan.copies:
                return FoldedRows([], None if plan.losses is None else [0] * plan.losses.table.cells)
            few = _few(session, plan, most_rows) if plan.chooser.whole else None
            if few is not None and len(few.units):
                noted = NotedUnits()
                noted.add(few.others, few.outside, few.units)
                rows = FetchedRows(few.units, few.groups, few.columns, noted.beside())
                found = dense_totals(rows, _fold(plan, plan.chooser.folded))
                if found is not None:
                    return found
            packed = None
            if plan.chooser.whole:
                packed = _packed(plan, _batches(session, plan, most_rows) if few is None else [few])
            if packed is None:
                packed = _numbered(session.cursor, plan, _batches(session, plan, most_rows) if few is None else [few])
            session.check()
            return fold(packed[0], threads, session.check, packed[1])
        except TooWideError:
            return None


def _few(session: DuckDBSession, plan: RowPlan, most_rows: int) -> Batch | None:
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
        beyond = np.ma.getmaskarray(group)
        rows = ~beyond
        if plan.losses is not None:
            others = unit[beyond]
    columns = {
        name: ValueColumn(_filled(found[name][rows], read.fill), read.fill) for name, read in plan.columns.items()
    }
    outside = None
    if plan.losses is not None and plan.losses.columns:
        excess = {name: _filled(found[name][rows], 0) for name in plan.losses.columns}
        outside = plan.losses.outside(columns, excess)
    groups = np.ma.getdata(group)[rows].astype(np.int16, copy=False)
    return Batch(unit[rows], groups, columns, others, outside)


def _batches(session: DuckDBSession, plan: RowPlan, most_rows: int) -> Iterator[Batch]:
    """All rows in a public group, and the units of others where they are asked for.

    Raises:
        TooWideError: for more rows than may be held.
    """
    count, whole = 0, plan.chooser.whole
    for batch in read_batches(session, plan.sql, most_rows * ROW_BYTES):
        rows, others = batch, None
        if batch.has_nulls(1):
            rows = batch.rows_with(1)
            if plan.losses is not None:
                others = batch.others(1)
        count += rows.num_rows + (0 if others is None else others.num_rows)
        # Every row has a unit by ownership; a row without one is SQL's to judge.
        if count > most_rows or rows.has_nulls(0) or (others is not None and others.has_nulls(0)):
            raise TooWideError
        columns = {
            name: ValueColumn(rows.whole(2 + i, read.fill), read.fill)
            for i, (name, read) in enumerate(plan.columns.items())
        }
        outside = None
        if plan.losses is not None and plan.losses.columns:
            first = 2 + len(plan.columns)
            excess = {name: rows.whole(first + i, 0) for i, name in enumerate(plan.losses.columns)}
            outside = plan.losses.outside(columns, excess)
        if rows.num_rows or others is not None:
            units = rows.whole(0, 0) if whole else rows.pieces[0]
            more = None if others is None else others.whole(0, 0) if whole else others.pieces[0]
            yield Batch(units, rows.whole(1, 0).astype(np.int16), columns, more, outside)


def _packed(plan: RowPlan, batches: Iterable[Batch]) -> tuple[UnitGroupKeys, Beside] | None:
    """Keys that hold all of a row, and facts about units beside; None where a unit is too large."""
    keys, noted = UnitGroupKeys(_fold(plan, plan.chooser.folded)), NotedUnits()
    for units, groups, columns, others, outside in batches:
        if len(groups) and not keys.add(FetchedRows(units, groups, columns, Beside())):
            return None
        noted.add(others, outside, units)
    return keys, noted.beside()


class NotedUnits:
    """Facts about units, batch by batch."""

    def __init__(self) -> None:
        self.others: list[NDArray[np.int64]] = []
        self.outside: list[Outside] = []

    def add(self, others: NDArray[np.int64] | None, outside: Outside | None, units: NDArray[np.int64]) -> None:
        """Those of a batch whose rows have these units."""
        if others is not None:
            self.others.append(others)
        if outside is not None:
            self.outside.append(outside._replace(owners=units[outside.owners]))

    def beside(self) -> Beside:
        """Facts of all batches together."""
        outside = None
        if self.outside:
            owners = np.concatenate([each.owners for each in self.outside])
            amounts = zip(*(each.amounts for each in self.outside), strict=True)
            outside = self.outside[0]._replace(owners=owners, amounts=tuple(map(np.concatenate, amounts)))
        return Beside(np.concatenate(self.others) if self.others else None, outside)


def _numbered(
    cursor: duckdb.DuckDBPyConnection, plan: RowPlan, batches: Iterable[Batch]
) -> tuple[UnitGroupKeys, Beside]:
    """Keys that hold numbers of units and of rows, and facts about units beside, by their numbers.

    Raises:
        TooWideError: where even these do not fit.
    """
    units: list[Any] = []
    more: list[Any] = []
    outside: list[tuple[int, Outside]] = []
    groups: list[NDArray[np.int16]] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in plan.columns}
    count = 0
    for batch in batches:
        for kept, array in ((units, batch.units), (more, batch.others)):
            if array is not None:
                kept.append(array)
        groups.append(batch.groups)
        outside += [] if batch.outside is None else [(count, batch.outside)]
        count += len(batch.groups)
        for name, column in batch.columns.items():
            columns[name].append(column.values)
    if not units:
        return UnitGroupKeys(_fold(plan, plan.chooser.folded)), Beside()
    if plan.chooser.whole:
        everyone = np.concatenate([*units, *more])
        known_units, numbers = np.unique(everyone, return_inverse=True)
        work = _fold(plan, plan.chooser.folded, lambda number: plan.chooser.folded(known_units[number]))
    else:
        everyone, folds = _distinct(cursor, plan.chooser, [*units, *more])
        numbers, work = everyone, _fold(plan, lambda unit: folds[unit])
    noted = NotedUnits()
    noted.add(numbers[count:] if more else None, None, numbers)
    for first, each in outside:
        noted.add(None, each, numbers[first:])
    joined = {name: ValueColumn(np.concatenate(columns[name]), read.fill) for name, read in plan.columns.items()}
    keys = UnitGroupKeys(work, count)
    known = FetchedRows(everyone[:count], np.concatenate(groups), joined, Beside())
    if count and not keys.add(known, numbers[:count]):
        raise TooWideError
    return keys, noted.beside()


_Folded = Callable[[NDArray[np.int64]], NDArray[np.uint32]]


def _fold(plan: RowPlan, folded: _Folded, numbered: _Folded | None = None) -> Fold:
    """``folded`` gives the x of units, ``numbered`` that of the numbers which keys hold instead of them."""
    chooser, groups = plan.chooser, plan.groups
    largest = {name: read.largest for name, read in plan.columns.items()}

    def in_order(units: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return chooser.places(folded(units), codes, groups)

    def as_numbered(_: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return codes.astype(np.uint32)

    chooses = groups > plan.most
    bits = chooser.bits(groups) if chooses else (groups - 1).bit_length()
    places = in_order if chooses else as_numbered
    in_all = None
    if plan.in_all is not None:

        def offsets(units: NDArray[Any], totals: Integers) -> Integers:
            return chooser.offsets((numbered or folded)(units.astype(np.int64)), totals)

        in_all = SharedRows(*plan.in_all, offsets)
    return Fold(groups, plan.most, bits, places, largest, plan.shares, plan.losses, plan.copies, in_all)


def _distinct(
    cursor: duckdb.DuckDBPyConnection, chooser: Chooser, units: list[Any]
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Numbers of units, row by row, and x by number."""
    column = column_of(units)
    known = number_units(cursor, chooser, column)
    numbers = np.concatenate([known.numbers(i) for i in range(len(units))])
    return numbers, known.folded(np.arange(known.count))


def _filled(column: NDArray[Any], fill: int) -> NDArray[Any]:
    found: NDArray[Any] = column.filled(fill) if isinstance(column, np.ma.MaskedArray) else column
    return found
