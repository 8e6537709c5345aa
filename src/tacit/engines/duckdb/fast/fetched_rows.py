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

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.array_totals import (
    Beside,
    FetchedRows,
    Fold,
    FoldedRows,
    Read,
    TooWideError,
    UnitGroupKeys,
    UnitShare,
    ValueColumn,
    dense_totals,
    fold,
)
from tacit.engines.duckdb.fast.copied_rows import number_of_copies
from tacit.engines.sql.group_choice import Chooser

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from tacit.engines.duckdb.database import DuckDBSession
    from tacit.engines.duckdb.fast.array_losses import LossPlan, Outside

__all__ = ["MOST_ROWS", "ROW_BYTES", "NotedUnits", "RowPlan", "measure"]

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

    @property
    def kept_groups(self) -> int | None:
        """Number of groups that a unit keeps; None where it may keep all."""
        return self.most if self.groups > self.most else None


def measure(session: DuckDBSession, plan: RowPlan, most_rows: int, threads: int) -> FoldedRows | None:
    """Group, units and one total per share, for every group that has any; None where SQL has to do it.

    Args:
        session: to read with; asked now and then whether to stop.
        plan: what to read.
        most_rows: that are held at once.
        threads: for adding up.
    """
    try:
        plan = replace(plan, copies=number_of_copies(session, plan.copies_sql))
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
    count = 0
    for batch in session.cursor.sql(plan.sql).to_arrow_reader(_BATCH):
        session.check()
        rows, others = batch, None
        if batch.column(1).null_count:
            rows = batch.filter(batch.column(1).is_valid())
            if plan.losses is not None:
                others = batch.column(0).filter(batch.column(1).is_null()).unique()
        count += rows.num_rows + (0 if others is None else len(others))
        unit, group, *values = rows.columns
        # Every row has a unit by ownership; a row without one is SQL's to judge.
        if count > most_rows or unit.null_count or (others is not None and others.null_count):
            raise TooWideError
        columns = {
            name: ValueColumn(_whole(column, read.fill), read.fill)
            for (name, read), column in zip(plan.columns.items(), values, strict=False)
        }
        outside = None
        if plan.losses is not None and plan.losses.columns:
            excess = zip(plan.losses.columns, values[len(plan.columns) :], strict=True)
            outside = plan.losses.outside(columns, {name: _whole(column, 0) for name, column in excess})
        if rows.num_rows or others is not None:
            yield Batch(unit, _array(group).astype(np.int16), columns, others, outside)


def _packed(plan: RowPlan, batches: Iterable[Batch]) -> tuple[UnitGroupKeys, Beside] | None:
    """Keys that hold all of a row, and facts about units beside; None where a unit is too large."""
    keys, noted = UnitGroupKeys(_fold(plan, plan.chooser.folded)), NotedUnits()
    for unit, groups, columns, others, outside in batches:
        units = _array(unit)
        if len(groups) and not keys.add(FetchedRows(units, groups, columns, Beside())):
            return None
        noted.add(None if others is None else _array(others), outside, units)
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
    units: list[pa.Array] = []
    more: list[pa.Array] = []
    outside: list[tuple[int, Outside]] = []
    groups: list[NDArray[np.int16]] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in plan.columns}
    count = 0
    for batch in batches:
        for kept, array in ((units, batch.units), (more, batch.others)):
            if array is not None:
                kept.append(array if plan.chooser.whole else array.dictionary_encode())
        groups.append(batch.groups)
        outside += [] if batch.outside is None else [(count, batch.outside)]
        count += len(batch.groups)
        for name, column in batch.columns.items():
            columns[name].append(column.values)
    if not units:
        return UnitGroupKeys(_fold(plan, plan.chooser.folded)), Beside()
    if plan.chooser.whole:
        everyone = np.concatenate([_array(unit) for unit in (*units, *more)])
        numbers, work = np.unique(everyone, return_inverse=True)[1], _fold(plan, plan.chooser.folded)
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


def _whole(column: pa.Array, fill: int) -> NDArray[Any]:
    return _array(column.fill_null(fill) if column.null_count else column)


def _fold(plan: RowPlan, folded: Callable[[NDArray[np.int64]], NDArray[np.uint32]]) -> Fold:
    """``folded`` gives the x of units."""
    chooser, groups = plan.chooser, plan.groups
    largest = {name: read.largest for name, read in plan.columns.items()}

    def in_order(units: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return chooser.places(folded(units), codes, groups)

    def as_numbered(_: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return codes.astype(np.uint32)

    chooses = groups > plan.most
    bits = chooser.bits(groups) if chooses else (groups - 1).bit_length()
    places = in_order if chooses else as_numbered
    return Fold(groups, plan.most, bits, places, largest, plan.shares, plan.losses, plan.copies)


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
