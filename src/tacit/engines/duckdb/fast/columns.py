"""Columns of rows in memory: whole numbers as they are, and other keys, values and units by numbers.

DuckDB hands over Arrow batches where Arrow is installed, and otherwise arrays of NumPy; this module alone knows which.
Both have the same values, so the same integers come out. Whole numbers are copied chunk by chunk, in the fewest bytes
that hold them; of other types each value is held once. NumPy's arrays come whole, each text as an object; so they are
measured first, and fetched only if there is room for them. Types that NumPy has not exactly (numbers of more than 64
bits, decimals) are left to SQL.

Keys, values and units that are not declared are numbered: equal ones get one number, in their own order. Each text is
hashed and compared once, by DuckDB and by the expressions of its statements, however many rows have it. Whole numbers
that lie close together are numbered by counting. Whether they do is decided by the middle of them, and the few beyond
are numbered by their ranks: else one person with a far number would decide how the rows of all are worked at.
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
#: Whole numbers are counted if there are at most this many places, or this many times more than rows.
_PLACES_PER_ROW, _FEW_PLACES = 4, 2**20
#: Of about so many of them, evenly spread, the middle is taken, without one in so many at either end.
_SAMPLE, _TRIMMED = 2**12, 32
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
        self._ends: list[tuple[int, int]] = []
        self.low, self.high = _LARGEST, -_LARGEST - 1

    def add(self, values: NDArray[Any], missing: NDArray[np.bool_] | None) -> int:
        """Copy a chunk, with any numbers in the places of NULL; returns the bytes it takes."""
        if values.dtype.kind not in "iu":
            raise TooWideError
        there = values if missing is None else values[~missing]
        low, high = _LARGEST, -_LARGEST - 1
        if len(there):
            low, high = int(there.min()), int(there.max())
            self.low, self.high = min(self.low, low), max(self.high, high)
            if high > _LARGEST:
                raise TooWideError
            kind = np.min_scalar_type(high) if low >= 0 else values.dtype
            values = values.astype(kind if kind.itemsize < values.dtype.itemsize else values.dtype)
        self._chunks.append(values)
        self._missing.append(missing)
        self._ends.append((low, high))
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

    def is_within(self, i: int, low: int, high: int) -> bool:
        """Whether all numbers of a chunk are."""
        return low <= self._ends[i][0] and self._ends[i][1] <= high

    def sample(self, count: int) -> Integers:
        """About so many of the numbers, evenly spread."""
        step = max(sum(self.sizes) // count, 1)
        pairs = zip(self._chunks, self._missing, strict=True)
        some = [c[::step] if m is None else c[::step][~m[::step]] for c, m in pairs]
        return np.concatenate([part.astype(np.int64) for part in some])

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
        numbers = [np.from_dlpack(c.indices.fill_null(nothing) if c.null_count else c.indices) for c in unified.chunks]
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
                missing = np.from_dlpack(values.is_null().cast(pa.uint8())).view(np.bool_)
                held += column.add(np.from_dlpack(values.fill_null(0)), missing)
            else:
                # Arrow's own to_numpy loads pandas where that is installed: a fifth of a second.
                held += column.add(np.from_dlpack(values), None)
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
    counted = _Counted.of(column)
    if counted is not None:
        return Units(lambda i: counted.numbers(i, 0), counted.count, lambda some: chooser.folded(counted.values(some)))
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
    """Whole numbers counted; None where they are far apart."""
    counted = _Counted.of(column)
    if counted is None:
        return None
    nothing = counted.count

    def parts(some: Integers) -> NDArray[np.uint64]:
        found = chooser.numbers(counted.values(np.minimum(some, nothing - 1)))
        found[some == nothing] = chooser.nothing
        return found

    def shown(some: Integers) -> list[Any]:
        values = counted.values(np.minimum(some, nothing - 1)).tolist()
        return [None if place == nothing else value for place, value in zip(some.tolist(), values, strict=True)]

    missing = nothing if column.has_nulls else None
    return Items(lambda i: counted.numbers(i, nothing), nothing + 1, parts, shown, missing)


@dataclass(frozen=True)
class _Counted:
    """Whole numbers of a column as places: counted from the first one in a range, by their ranks beyond it.

    Args:
        column: of the numbers.
        low: the first of the range.
        high: the last.
        below: numbers below, in order.
        above: numbers above.
    """

    column: WholeColumn
    low: int
    high: int
    below: Integers
    above: Integers

    @classmethod
    def of(cls, column: WholeColumn) -> _Counted | None:
        """The middle of a column, three times as wide; None where that has too many places."""
        none = np.empty(0, dtype=np.int64)
        if column.is_empty:
            return cls(column, 0, 0, none, none)
        rows, some = sum(column.sizes), np.sort(column.sample(_SAMPLE))
        if not len(some):
            return None
        first, last = int(some[len(some) // _TRIMMED]), int(some[-1 - len(some) // _TRIMMED])
        width = max(last - first + 1, _FEW_PLACES // 4)
        low, high = max(first - width, column.low), min(last + width, column.high)
        if high - low >= max(_FEW_PLACES, _PLACES_PER_ROW * rows) or low - rows < -_LARGEST or high == _LARGEST:
            return None
        if low == column.low and high == column.high:
            return cls(column, low, high, none, none)
        far = [column.numbers(i, 0, low) for i in range(len(column.sizes)) if not column.is_within(i, low, high)]
        beyond = np.concatenate(far)
        return cls(column, low, high, np.unique(beyond[beyond < low]), np.unique(beyond[beyond > high]))

    @property
    def count(self) -> int:
        """Number of places, some of them without a row."""
        return len(self.below) + self.high - self.low + 1 + len(self.above)

    def numbers(self, i: int, nothing: int) -> Integers:
        """The places of a chunk, with ``nothing`` for NULL."""
        found = self.column.numbers(i, self.low - len(self.below), nothing)
        if self.column.is_within(i, self.low, self.high):
            return found
        values = self.column.numbers(i, 0, self.low)
        for far, first, among in (
            (values < self.low, 0, self.below),
            (values > self.high, self.count - len(self.above), self.above),
        ):
            found[far] = first + np.searchsorted(among, values[far])
        return found

    def values(self, some: Integers) -> Integers:
        """What is in some places."""
        found = some + (self.low - len(self.below))
        if len(self.below) or len(self.above):
            first = self.count - len(self.above)
            below, above = some < len(self.below), some >= first
            found[below], found[above] = self.below[some[below]], self.above[some[above] - first]
        return found


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
