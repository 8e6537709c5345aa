"""Columns of rows in memory: whole numbers as they are, and other keys, values and units by numbers.

DuckDB hands over Arrow batches where Arrow is installed, and otherwise arrays of NumPy; this module alone knows which.
Both have the same values, so the same integers come out. Whole numbers are copied chunk by chunk, in the fewest bytes
that hold them; of other types each value is held once. NumPy's arrays come whole, each text as an object; so they are
measured first, and fetched only if there is room for them. Types that NumPy has not exactly (numbers of more than 64
bits, decimals) are left to SQL.

Keys, values and units that are not declared are numbered: equal ones get one number, in their own order. Each text is
hashed and compared once, by DuckDB and by the expressions of its statements, however many rows have it. Whole numbers
that lie close together are numbered by counting from the smallest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.core.extras import has_arrow
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.sql.group_choice import Chooser
from tacit.query.types import SqlType

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from tacit.engines.duckdb.database import DuckDBSession

_BATCH = 2**17
_ITEMS = "tacit_items"
#: Types that arrive in an array of NumPy without loss.
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
_EXACT = _WHOLE | {"BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP"}
#: Bytes of a text as an object beside its letters, and of each byte that DuckDB counts, at most.
_TEXT, _LETTER = 72, 4
#: Whole numbers are counted from the smallest if there are at most this many places, or this many times more than rows.
_PLACES_PER_ROW, _FEW_PLACES = 4, 2**20
_LARGEST = 2**63 - 1

Integers = NDArray[np.int64]
Numbers = Callable[[int], Integers]


class TooWideError(Exception):
    """64 bits, or the memory for rows, might not do: SQL has to answer."""


# Columns as DuckDB hands them over ------------------------------------------------------------------------------------


class WholeColumn:
    """Whole numbers of rows in chunks; NULL is held apart."""

    def __init__(self) -> None:
        self._chunks: list[NDArray[Any]] = []
        self._missing: list[NDArray[np.bool_] | None] = []
        self.low, self.high = _LARGEST, -_LARGEST - 1

    def add(self, values: NDArray[Any], missing: NDArray[np.bool_] | None) -> int:
        """Copy a chunk, with any numbers in the places of NULL; returns the bytes it takes."""
        if values.dtype.kind not in "iu":
            raise TooWideError
        there = values if missing is None else values[~missing]
        if len(there):
            low, high = int(there.min()), int(there.max())
            self.low, self.high = min(self.low, low), max(self.high, high)
            if high > _LARGEST:
                raise TooWideError
            kind = np.min_scalar_type(high) if low >= 0 else values.dtype
            values = values.astype(kind if kind.itemsize < values.dtype.itemsize else values.dtype)
        self._chunks.append(values)
        self._missing.append(missing)
        return int(values.nbytes) + (0 if missing is None else int(missing.nbytes))

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each chunk."""
        return [len(chunk) for chunk in self._chunks]

    @property
    def has_nulls(self) -> bool:
        return any(missing is not None for missing in self._missing)

    @property
    def is_empty(self) -> bool:
        """Whether every row is NULL."""
        return self.low > self.high

    def numbers(self, i: int, first: int, nothing: int) -> Integers:
        """A chunk counted from ``first``, with ``nothing`` for NULL."""
        missing = self._missing[i]
        found: Integers = np.subtract(self._chunks[i], first, dtype=np.int64, casting="unsafe")
        if missing is not None:
            found[missing] = nothing
        return found

    def clear(self) -> None:
        """Let go of the chunks."""
        self._chunks.clear()

    def present(self) -> NDArray[np.bool_]:
        """Which rows of all chunks are not NULL."""
        masks = zip(self._chunks, self._missing, strict=True)
        return np.concatenate([np.ones(len(c), dtype=np.bool_) if m is None else ~m for c, m in masks])

    def there(self) -> Integers:
        """The numbers of all chunks that are not NULL."""
        return np.concatenate([chunk.astype(np.int64) for chunk in self._chunks])[self.present()]


class ArrowColumn:
    """Values of any other type, each held once in a chunk."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []

    def add(self, values: pa.Array) -> int:
        """Take a chunk; returns the bytes it takes."""
        self._chunks.append(values.dictionary_encode())
        return int(self._chunks[-1].nbytes)

    @property
    def sizes(self) -> list[int]:
        return [len(chunk) for chunk in self._chunks]

    def clear(self) -> None:
        self._chunks.clear()

    def encoded(self) -> tuple[list[NDArray[Any]], ArrowValues]:
        """Numbers of rows among different values; NULL is the last of them where a row has it."""
        import pyarrow as pa

        unified = pa.chunked_array(self._chunks).unify_dictionaries()
        values = unified.chunk(0).dictionary
        nothing = len(values)
        if unified.null_count:
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        numbers = [(c.indices.fill_null(nothing) if c.null_count else c.indices).to_numpy() for c in unified.chunks]
        return numbers, ArrowValues(values)


class ArrowValues:
    """Different values of a column, numbered from 0; NULL is the last of them where a row has it."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        self.has_null = bool(values.null_count)

    def __len__(self) -> int:
        return len(self.values)

    def asked(self, cursor: duckdb.DuckDBPyConnection, select: str) -> dict[str, NDArray[Any]]:
        """Columns of a SELECT without FROM about the values ``v`` and their numbers ``i``."""
        import pyarrow as pa

        cursor.register(_ITEMS, pa.table({"v": self.values, "i": np.arange(len(self.values))}))
        try:
            found: dict[str, NDArray[Any]] = cursor.execute(f"{select} FROM {_ITEMS}").fetchnumpy()
        finally:
            cursor.unregister(_ITEMS)
        return found

    def shown(self, order: Integers) -> Callable[[Integers], list[Any]]:
        """Values at some places, as a database returns them; ``order`` is the place of each number."""
        import pyarrow as pa

        values = self.values.take(pa.array(np.argsort(order)))
        return lambda some: list(values.take(pa.array(some)).to_pylist())


class PlainColumn:
    """The same from one array of NumPy."""

    def __init__(self, values: NDArray[Any], missing: NDArray[np.bool_] | None, kind: str) -> None:
        # DuckDB gives days as moments.
        self._values = values.astype("datetime64[D]") if kind == "DATE" else values
        self._missing, self._kind = missing, kind

    @property
    def sizes(self) -> list[int]:
        return [len(self._values)]

    def clear(self) -> None:
        self._values = self._values[:0]

    def encoded(self) -> tuple[list[NDArray[Any]], PlainValues]:
        there = self._values if self._missing is None else self._values[~self._missing]
        values: list[Any]
        if self._kind == "VARCHAR":
            places: defaultdict[str, int] = defaultdict(count().__next__)
            known = np.fromiter(map(places.__getitem__, there.tolist()), np.int64, len(there))
            values = list(places)
        else:
            different, known = np.unique(there, return_inverse=True)
            values = different.tolist()
        if self._missing is None:
            return [known], PlainValues(values, self._kind)
        numbers = np.full(len(self._values), len(values), dtype=np.int64)
        numbers[~self._missing] = known
        return [numbers], PlainValues([*values, None], self._kind)


class PlainValues:
    """The same as a list."""

    def __init__(self, values: list[Any], kind: str) -> None:
        self.values, self.kind = values, kind
        self.has_null = bool(values) and values[-1] is None

    def __len__(self) -> int:
        return len(self.values)

    def asked(self, cursor: duckdb.DuckDBPyConnection, select: str) -> dict[str, NDArray[Any]]:
        items = f"(SELECT unnest($1::{self.kind}[]) AS v, unnest(range({len(self.values)})) AS i)"
        found: dict[str, NDArray[Any]] = cursor.execute(f"{select} FROM {items}", [self.values]).fetchnumpy()
        return found

    def shown(self, order: Integers) -> Callable[[Integers], list[Any]]:
        values = [self.values[number] for number in np.argsort(order).tolist()]
        return lambda some: [values[place] for place in some.tolist()]


Column = WholeColumn | ArrowColumn | PlainColumn


def fetch(session: DuckDBSession, sql: str, most_bytes: int, *, listed: bool) -> list[Column]:
    """All columns of a statement, of which the first is the unit; none at all where there is no row.

    Args:
        session: to read with; asked now and then whether to stop.
        sql: the statement.
        most_bytes: that may be held, also while rows are sorted.
        listed: whether rows without a value in the second column are left out.

    Raises:
        TooWideError: for more than may be held, a type that cannot be handed over exactly, or a row without a unit,
            which is SQL's to judge.
    """
    return _by_arrow(session, sql, most_bytes, listed) if has_arrow() else _by_numpy(session, sql, most_bytes, listed)


def _by_arrow(session: DuckDBSession, sql: str, most_bytes: int, listed: bool) -> list[Column]:
    import pyarrow as pa

    columns: list[WholeColumn | ArrowColumn] = []
    held = rows = 0
    for received in session.cursor.sql(sql).to_arrow_reader(_BATCH):
        session.check()
        batch = received.filter(received.column(1).is_valid()) if listed and received.column(1).null_count else received
        if not batch.num_rows:
            continue
        if batch.column(0).null_count:
            raise TooWideError
        columns = columns or [WholeColumn() if pa.types.is_integer(c.type) else ArrowColumn() for c in batch.columns]
        for column, values in zip(columns, batch.columns, strict=True):
            if isinstance(column, ArrowColumn):
                held += column.add(values)
            elif values.null_count:
                held += column.add(values.fill_null(0).to_numpy(), values.is_null().to_numpy(zero_copy_only=False))
            else:
                held += column.add(values.to_numpy(), None)
        rows += batch.num_rows
        # Besides what is held: words, and numbers of units or groups where these are far apart.
        if held + 32 * rows > most_bytes:
            raise TooWideError
    return [*columns]


def _by_numpy(session: DuckDBSession, sql: str, most_bytes: int, listed: bool) -> list[Column]:
    relation = session.cursor.sql(sql)
    names, kinds = relation.columns, list(map(str, relation.types))
    if not _EXACT.issuperset(kinds):
        raise TooWideError
    texts = [name for name, kind in zip(names, kinds, strict=True) if kind == "VARCHAR"]
    letters = [f"coalesce(sum(strlen({DUCKDB.quoted(name)})), 0)" for name in texts]
    ((rows, *lengths),) = session.rows(f"SELECT {', '.join(['count(*)', *letters])} FROM ({sql})")
    if _LETTER * int(sum(lengths)) + rows * (8 * len(names) + _TEXT * len(texts) + 32) > most_bytes:
        raise TooWideError
    session.check()
    found = session.cursor.execute(sql).fetchnumpy()
    session.check()
    some = ~np.ma.getmaskarray(found[names[1]]) if listed else slice(None)
    columns: list[Column] = []
    for name, kind in zip(names, kinds, strict=True):
        array = found[name][some]
        mask = np.ma.getmaskarray(array) if np.ma.isMaskedArray(array) else None
        values, missing = np.ma.getdata(array), mask if mask is not None and mask.any() else None
        if not columns and (not len(values) or missing is not None):
            if not len(values):
                return []
            raise TooWideError
        if kind in _WHOLE:
            whole = WholeColumn()
            whole.add(values, missing)
            columns.append(whole)
        else:
            columns.append(PlainColumn(values, missing, kind))
    return columns


# Numbers in place of values -------------------------------------------------------------------------------------------


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
    parts: Callable[[Integers], NDArray[np.uint64]]
    shown: Callable[[Integers], list[Any]]
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
    folded: Callable[[Integers], NDArray[np.uint32]]


def number_units(cursor: duckdb.DuckDBPyConnection, chooser: Chooser, column: Column) -> Units:
    """Number the units of rows; every row has one."""
    if not isinstance(column, WholeColumn):
        if chooser.whole:
            raise TooWideError
        chunks, values = column.encoded()
        found = values.asked(cursor, f"SELECT i, {chooser.fold(DUCKDB, 'v')} AS x")
        folds = np.empty(len(values), dtype=np.uint32)
        folds[found["i"]] = found["x"]
        return Units(lambda i: chunks[i].astype(np.int64), len(values), lambda some: folds[some])
    low = column.low
    if column.high - low < max(_FEW_PLACES, _PLACES_PER_ROW * sum(column.sizes)):
        return Units(
            lambda i: column.numbers(i, low, 0), column.high - low + 1, lambda some: chooser.folded(some + low)
        )
    different, numbers = np.unique(column.there(), return_inverse=True)
    starts = np.cumsum([0, *column.sizes])
    return Units(
        lambda i: numbers[starts[i] : starts[i + 1]], len(different), lambda some: chooser.folded(different[some])
    )


def number_items(
    cursor: duckdb.DuckDBPyConnection, chooser: Chooser, purpose: str, kind: SqlType, column: Column
) -> Items:
    """Number the values of a column, which are no doubles; ``purpose`` is what is chosen among."""
    if isinstance(column, WholeColumn):
        return _counted(chooser, column) or _ranked(chooser, column)
    chunks, values = column.encoded()
    part = chooser.number(DUCKDB, purpose, "v", kind)
    found = values.asked(cursor, f"SELECT i, {part} AS n, row_number() OVER (ORDER BY v NULLS LAST) - 1 AS o")
    order = np.empty(len(values), dtype=np.int64)
    order[found["i"]] = found["o"]
    parts = np.empty(len(values), dtype=np.uint64)
    parts[found["o"]] = found["n"]
    nothing = len(values) - 1 if values.has_null else None
    return Items(lambda i: order[chunks[i]], len(values), lambda some: parts[some], values.shown(order), nothing)


def _counted(chooser: Chooser, column: WholeColumn) -> Items | None:
    """Whole numbers counted from the smallest; None where they are far apart."""
    low, high = (0, -1) if column.is_empty else (column.low, column.high)
    nothing = high - low + 1
    if nothing >= max(_FEW_PLACES, _PLACES_PER_ROW * sum(column.sizes)) or high == _LARGEST:
        return None

    def parts(some: Integers) -> NDArray[np.uint64]:
        found = chooser.numbers(some + low)
        found[some == nothing] = chooser.nothing
        return found

    def shown(some: Integers) -> list[Any]:
        return [None if place == nothing else place + low for place in some.tolist()]

    missing = nothing if column.has_nulls else None
    return Items(lambda i: column.numbers(i, low, nothing), nothing + 1, parts, shown, missing)


def _ranked(chooser: Chooser, column: WholeColumn) -> Items:
    """Whole numbers by their ranks among all."""
    different, found = np.unique(column.there(), return_inverse=True)
    nothing = len(different)
    ends, known = np.cumsum([0, *column.sizes]), np.full(sum(column.sizes), nothing, dtype=np.int64)
    known[column.present()] = found
    numbers = np.append(chooser.numbers(different), np.uint64(chooser.nothing))
    missing = nothing if column.has_nulls else None
    return Items(
        lambda i: known[ends[i] : ends[i + 1]],
        nothing + 1,
        lambda some: numbers[some],
        lambda some: [None if place == nothing else int(different[place]) for place in some.tolist()],
        missing,
    )
