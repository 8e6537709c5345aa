"""Rows of DuckDB as arrays: unit, public group and one column per summed value.

Whole numbers that are not too large are packed into keys batch by batch, so that a row takes eight bytes. Other units
are numbered first; equal ones get equal numbers, and which they are decides nothing. For units that are texts, the x of
the choosing rule is computed once per unit instead of once per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.dense_totals import in_cells
from tacit.engines.duckdb.fast.sorted_totals import FetchedRows, Fold, UnitGroupKeys, ValueColumn, fold
from tacit.engines.duckdb.fast.unit_arrays import Read, TooWideError, UnitShare
from tacit.engines.duckdb.session import DuckDBSession
from tacit.engines.sql.group_choice import Chooser

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["MOST_ROWS", "ROW_BYTES", "RowPlan", "folded_rows"]

#: Up to this many rows come as whole columns: a reader of batches plans its statement twice.
FEW = 2**18
#: More rows are bounded by SQL, which can spill them.
MOST_ROWS = 2**26
#: What a row takes at most while it is bounded: its key, and unit, group and some columns where it has to be numbered.
ROW_BYTES = 64
_BATCH = 2**17
_UNITS = "tacit_units"

#: Units as DuckDB gave them (an array of Arrow, or of numpy for whole columns), groups, and columns.
Batch = tuple[Any, NDArray[np.int16], dict[str, ValueColumn]]


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
    """

    sql: str
    chooser: Chooser
    groups: int
    most: int
    columns: Mapping[str, Read]
    shares: tuple[UnitShare, ...]
    large: bool = False
    most_rows: int | None = None


def folded_rows(session: DuckDBSession, plan: RowPlan, most_rows: int, threads: int) -> list[tuple[int, ...]] | None:
    """Group, units and one total per share, for every group that has any; None where SQL has to do it.

    Args:
        session: to read with; asked now and then whether to stop.
        plan: what to read.
        most_rows: that are held at once.
        threads: for adding up.
    """
    try:
        few = _few(session, plan, most_rows) if plan.chooser.whole else None
        if few:
            found = in_cells(FetchedRows(*few[0]), _fold(plan, plan.chooser.folded))
            if found is not None:
                return found
        keys = None
        if plan.chooser.whole:
            keys = _packed(plan, _batches(session, plan, most_rows) if few is None else few)
        if keys is None:
            keys = _numbered(session.cursor, plan, _batches(session, plan, most_rows))
        session.check()
        return fold(keys, threads, session.check)
    except TooWideError:
        return None


def _few(session: DuckDBSession, plan: RowPlan, most_rows: int) -> list[Batch] | None:
    """All rows in a public group at once, where units are whole numbers and rows are few; None where they are not."""
    most = 0 if plan.large else min(FEW, most_rows)
    # A limit costs about as much as a filter.
    limit = "" if plan.most_rows is not None and plan.most_rows <= most else f" LIMIT {most + 1}"
    found = session.ask(f"{plan.sql}{limit}").fetchnumpy() if most else {}
    session.check()
    # Numbers of more than 64 bits come as floats, which are not exact; a row without a unit is SQL's to judge.
    exact = bool(found) and all(column.dtype.kind in "iu" for column in found.values())
    if not exact or len(found["u"]) > most or np.ma.isMaskedArray(found["u"]):
        return None
    group = found["g"]
    listed = ~np.ma.getmaskarray(group) if np.ma.isMaskedArray(group) else slice(None)
    unit = found["u"][listed]
    columns = {
        name: ValueColumn(_filled(found[name][listed], read.fill), read.fill) for name, read in plan.columns.items()
    }
    return [(unit, np.ma.getdata(group)[listed].astype(np.int16, copy=False), columns)] if len(unit) else []


def _batches(session: DuckDBSession, plan: RowPlan, most_rows: int) -> Iterator[Batch]:
    """All rows in a public group.

    Raises:
        TooWideError: for more rows than may be held.
    """
    count = 0
    for batch in session.cursor.sql(plan.sql).to_arrow_reader(_BATCH):
        session.check()
        rows = batch.filter(batch.column(1).is_valid()) if batch.column(1).null_count else batch
        count += rows.num_rows
        unit, group, *others = rows.columns
        # Every row has a unit by ownership; a row without one is SQL's to judge.
        if count > most_rows or unit.null_count:
            raise TooWideError
        columns = {
            name: ValueColumn(_array(column.fill_null(read.fill) if column.null_count else column), read.fill)
            for (name, read), column in zip(plan.columns.items(), others, strict=True)
        }
        if rows.num_rows:
            yield unit, _array(group).astype(np.int16), columns


def _packed(plan: RowPlan, batches: Iterable[Batch]) -> UnitGroupKeys | None:
    """Keys that hold all of a row; None where a unit is too large for that."""
    keys = UnitGroupKeys(_fold(plan, plan.chooser.folded))
    for unit, groups, columns in batches:
        if not keys.add(FetchedRows(_array(unit), groups, columns)):
            return None
    return keys


def _numbered(cursor: duckdb.DuckDBPyConnection, plan: RowPlan, batches: Iterator[Batch]) -> UnitGroupKeys:
    """Keys that hold numbers of units and of rows.

    Raises:
        TooWideError: where even these do not fit.
    """
    units: list[pa.Array] = []
    groups: list[NDArray[np.int16]] = []
    columns: dict[str, list[NDArray[Any]]] = {name: [] for name in plan.columns}
    for unit, group, others in batches:
        units.append(unit if plan.chooser.whole else unit.dictionary_encode())
        groups.append(group)
        for name, column in others.items():
            columns[name].append(column.values)
    if not units:
        return UnitGroupKeys(_fold(plan, plan.chooser.folded))
    if plan.chooser.whole:
        known = np.concatenate([_array(unit) for unit in units])
        numbers, work = np.unique(known, return_inverse=True)[1], _fold(plan, plan.chooser.folded)
    else:
        known, folds = _distinct(cursor, plan.chooser, units)
        numbers, work = known, _fold(plan, lambda unit: folds[unit])
    joined = {name: ValueColumn(np.concatenate(columns[name]), read.fill) for name, read in plan.columns.items()}
    keys = UnitGroupKeys(work, len(known))
    if not keys.add(FetchedRows(known, np.concatenate(groups), joined), numbers):
        raise TooWideError
    return keys


def _fold(plan: RowPlan, folded: Callable[[NDArray[np.int64]], NDArray[np.uint32]]) -> Fold:
    """``folded`` gives the x of units."""
    chooser, groups = plan.chooser, plan.groups
    largest = {name: read.largest for name, read in plan.columns.items()}

    def in_order(units: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return chooser.places(folded(units), codes, groups)

    def as_numbered(_: NDArray[np.int64], codes: NDArray[np.int16]) -> NDArray[np.uint32]:
        return codes.astype(np.uint32)

    if groups <= plan.most:
        return Fold(groups, plan.most, (groups - 1).bit_length(), as_numbered, largest, plan.shares)
    return Fold(groups, plan.most, chooser.bits(groups), in_order, largest, plan.shares)


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
