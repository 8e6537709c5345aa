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
from tacit.engines.sql.group_choice import Chooser
from tacit.query.types import Kind, SqlType

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["Items", "Units", "number_items", "number_units"]

_ITEMS = "tacit_items"
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
    cursor: duckdb.DuckDBPyConnection, chooser: Chooser, purpose: str, kind: SqlType, column: pa.ChunkedArray
) -> Items:
    """Number the values of a column, which are no doubles; ``purpose`` is what is chosen among."""
    import pyarrow as pa

    if kind.kind in (Kind.INTEGER, Kind.DECIMAL):
        close = _close(chooser, column)
        if close is not None:
            return close
    chunks, distinct = _dictionary(column)
    known = pa.table({"k": distinct, "i": np.arange(len(distinct))})
    part = chooser.number(DUCKDB, purpose, "k", kind)
    sql = f"SELECT i, {part} AS n, row_number() OVER (ORDER BY k NULLS LAST) - 1 AS o FROM {_ITEMS}"
    found = _asked(cursor, known, sql)
    order = np.empty(len(distinct), dtype=np.int64)
    order[found["i"]] = found["o"]
    parts = np.empty(len(distinct), dtype=np.uint64)
    parts[found["o"]] = found["n"]
    values = distinct.take(pa.array(np.argsort(order)))

    def shown(some: NDArray[np.int64]) -> list[Any]:
        return list(values.take(pa.array(some)).to_pylist())

    nothing = len(distinct) - 1 if distinct.null_count else None
    return Items(lambda i: order[chunks[i]], len(distinct), lambda some: parts[some], shown, nothing)


def _close(chooser: Chooser, column: pa.ChunkedArray) -> Items | None:
    """Whole numbers counted from the smallest; None where they are far apart."""
    import pyarrow.compute as pc

    ends = pc.min_max(column).as_py()
    low, high = (0, -1) if ends["min"] is None else (ends["min"], ends["max"])
    count = high - low + 2
    if count > max(_FEW_PLACES, _PLACES_PER_ROW * len(column)) or high == _LARGEST:
        return None

    def numbers(i: int) -> NDArray[np.int64]:
        chunk = column.chunk(i)
        whole = (chunk.fill_null(high + 1) if chunk.null_count else chunk).to_numpy()
        found: NDArray[np.int64] = np.subtract(whole, low, dtype=np.int64)
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

    return Items(numbers, count, parts, shown, count - 1 if column.null_count else None)


def _dictionary(column: pa.ChunkedArray) -> tuple[list[NDArray[Any]], pa.Array]:
    """For each chunk, numbers of rows among distinct values; NULL is one of them."""
    import pyarrow as pa

    encoded = [c if isinstance(c, pa.DictionaryArray) else c.dictionary_encode() for c in column.chunks]
    unified = pa.chunked_array(encoded).unify_dictionaries()
    distinct = unified.chunk(0).dictionary
    if not unified.null_count:
        return [chunk.indices.to_numpy() for chunk in unified.chunks], distinct
    nothing = len(distinct)
    numbers = [chunk.indices.fill_null(nothing).to_numpy() for chunk in unified.chunks]
    return numbers, pa.concat_arrays([distinct, pa.nulls(1, distinct.type)])


def number_units(cursor: duckdb.DuckDBPyConnection, chooser: Chooser, column: pa.ChunkedArray) -> Units:
    """Number the units of rows; every row has one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not chooser.whole:
        chunks, distinct = _dictionary(column)
        known = pa.table({"u": distinct, "i": np.arange(len(distinct))})
        found = _asked(cursor, known, f"SELECT i, {chooser.fold(DUCKDB, 'u')} AS x FROM {_ITEMS}")
        folds = np.empty(len(distinct), dtype=np.uint32)
        folds[found["i"]] = found["x"]
        return Units(lambda i: chunks[i].astype(np.int64), len(distinct), lambda some: folds[some])
    ends = pc.min_max(column).as_py()
    low, high = ends["min"], ends["max"]
    if high - low < max(_FEW_PLACES, _PLACES_PER_ROW * len(column)):
        return Units(
            lambda i: np.subtract(column.chunk(i).to_numpy(), low, dtype=np.int64),
            high - low + 1,
            lambda some: chooser.folded(some + low),
        )
    different, numbers = np.unique(column.to_numpy().astype(np.int64, copy=False), return_inverse=True)
    starts = np.cumsum([0, *map(len, column.chunks)])
    return Units(
        lambda i: numbers[starts[i] : starts[i + 1]], len(different), lambda some: chooser.folded(different[some])
    )


def _asked(cursor: duckdb.DuckDBPyConnection, known: pa.Table, sql: str) -> dict[str, NDArray[Any]]:
    cursor.register(_ITEMS, known)
    try:
        found: dict[str, NDArray[Any]] = cursor.execute(sql).fetchnumpy()
    finally:
        cursor.unregister(_ITEMS)
    return found
