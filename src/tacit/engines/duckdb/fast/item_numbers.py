"""Numbers in place of keys, values and units that are not declared: equal ones get one number, in their own order.

Each text is hashed and compared once, by DuckDB and by the expressions of its statements, however many rows have it.
Whole numbers that lie close together are numbered by counting from the smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.duckdb.fast.handed_columns import HandedColumn
from tacit.engines.sql.group_choice import Chooser
from tacit.query.types import Kind, SqlType

if TYPE_CHECKING:
    import duckdb

#: Whole numbers are counted from the smallest if there are so many times more places than rows.
_PLACES_PER_ROW = 4
_FEW_PLACES = 2**20
_LARGEST = 2**63 - 1


Numbers = Callable[[int], NDArray[np.int64]]


@dataclass(frozen=True)
class Items:
    """Keys or values of rows.

    Args:
        numbers: one per row of a chunk, in the order of what they stand for; NULL has the last.
        count: how many numbers there are, some of them without a row.
        parts: by number, what stands for it in a rank.
        shown: values of some numbers, as a database returns them.
        nothing: the number of NULL; None where no row has it.
    """

    numbers: Numbers
    count: int
    parts: Callable[[NDArray[np.int64]], NDArray[np.uint64]]
    shown: Callable[[NDArray[np.int64]], list[Any]]
    nothing: int | None


@dataclass(frozen=True)
class Units:
    """Units of rows.

    Args:
        numbers: one per row of a chunk, from 0.
        count: how many numbers there are, some of them without a row.
        folded: the x of some numbers.
    """

    numbers: Numbers
    count: int
    folded: Callable[[NDArray[np.int64]], NDArray[np.uint32]]


def number_items(
    cursor: duckdb.DuckDBPyConnection, chooser: Chooser, purpose: str, kind: SqlType, column: HandedColumn
) -> Items:
    """Number the values of a column, which are no doubles; ``purpose`` is what is chosen among."""
    if kind.kind in (Kind.INTEGER, Kind.DECIMAL):
        close = _close(chooser, column)
        if close is not None:
            return close
    chunks, distinct = column.encoded()
    part = chooser.number(DUCKDB, purpose, "v", kind)
    found = distinct.asked(cursor, f"SELECT i, {part} AS n, row_number() OVER (ORDER BY v NULLS LAST) - 1 AS o")
    order = np.empty(len(distinct), dtype=np.int64)
    order[found["i"]] = found["o"]
    parts = np.empty(len(distinct), dtype=np.uint64)
    parts[found["o"]] = found["n"]
    nothing = len(distinct) - 1 if distinct.has_null else None
    shown = distinct.shown(order)
    return Items(lambda i: order[chunks[i]], len(distinct), lambda some: parts[some], shown, nothing)


def _close(chooser: Chooser, column: HandedColumn) -> Items | None:
    """Whole numbers counted from the smallest; None where they are far apart."""
    low, high = column.ends() or (0, -1)
    count = high - low + 2
    if count > max(_FEW_PLACES, _PLACES_PER_ROW * sum(column.sizes)) or high == _LARGEST:
        return None

    def numbers(i: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.subtract(column.whole(i, high + 1), low, dtype=np.int64)
        return found

    def parts(some: NDArray[np.int64]) -> NDArray[np.uint64]:
        found = chooser.numbers(some + low)
        found[some == count - 1] = chooser.nothing
        return found

    def shown(some: NDArray[np.int64]) -> list[Any]:
        found: list[Any] = (some + low).tolist()
        for place in np.flatnonzero(some == count - 1).tolist():
            found[place] = None
        return found

    return Items(numbers, count, parts, shown, count - 1 if column.has_nulls else None)


def number_units(cursor: duckdb.DuckDBPyConnection, chooser: Chooser, column: HandedColumn) -> Units:
    """Number the units of rows; every row has one."""
    if not chooser.whole:
        chunks, distinct = column.encoded()
        found = distinct.asked(cursor, f"SELECT i, {chooser.fold(DUCKDB, 'v')} AS x")
        folds = np.empty(len(distinct), dtype=np.uint32)
        folds[found["i"]] = found["x"]
        return Units(lambda i: chunks[i].astype(np.int64), len(distinct), lambda some: folds[some])
    low, high = column.ends() or (0, 0)
    if high - low < max(_FEW_PLACES, _PLACES_PER_ROW * sum(column.sizes)):
        return Units(
            lambda i: np.subtract(column.whole(i, 0), low, dtype=np.int64),
            high - low + 1,
            lambda some: chooser.folded(some + low),
        )
    everyone = np.concatenate([column.whole(i, 0) for i in range(len(column.sizes))])
    different, numbers = np.unique(everyone.astype(np.int64, copy=False), return_inverse=True)
    starts = np.cumsum([0, *column.sizes])
    return Units(
        lambda i: numbers[starts[i] : starts[i + 1]], len(different), lambda some: chooser.folded(different[some])
    )
