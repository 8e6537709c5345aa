"""Rows in memory, sorted by unit, group and value and split into blocks of units, for all bounded measurements.

*Columns.* DuckDB returns Arrow batches if Arrow is installed. Integers are copied chunk by chunk, in the fewest bytes
that hold them; other types are dictionary-encoded. Without Arrow only integers are read, in NumPy arrays; all else is
left to SQL, which gives the same integers.

*Numbers.* Keys, values and units that are not declared are numbered: equal values get one number, in the order of the
values. Each distinct text is hashed and compared once, by DuckDB and with the SQL expressions of its statements.
Integers that lie close together are numbered by their offset in a range. The range is computed from the middle of the
integers, and the few beyond it are numbered by rank: else one person with an extreme integer would decide how the rows
of all are processed.

*Order.* Groups are public ones, by their numbers, or private ones, whose keys are numbered first. A row becomes one
64-bit integer: unit, group, and below them its values, or the row's index if these are too wide. In sorted order the
rows of a unit are adjacent, and so are those of each of its groups. If a unit has more groups than it keeps, or more
values in a group, they are ranked, and ties are ordered by the groups and values: exactly the order of the statements
(``engines/sql/statements.py``), so the integers are the same and the privacy argument does not change. Only units and
groups that exceed a bound are ranked. Rows outside the public list are in a last group of their unit, which is never
kept.

A row takes at most :data:`ROW_BYTES` bytes; if memory cannot hold the rows, SQL computes the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.core.extras import has_arrow
from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.sql.bounding import Chooser
from tacit.query.types import SqlType

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from tacit.engines.duckdb.database import DuckDBSession


_BATCH = 2**17
_ITEMS = "tacit_items"
#: Types that DuckDB returns in NumPy arrays without loss.
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
#: Integers are numbered by offset if their range has at most this many positions per row, or this many positions.
_PLACES_PER_ROW, _FEW_PLACES = 4, 2**20
#: Size of an evenly spaced sample of them, and the inverse of the fraction that is trimmed at either end.
_SAMPLE, _TRIMMED = 2**12, 32
_LARGEST = 2**63 - 1
#: Bytes that a column takes at a time: large enough for huge pages, and for the C library to keep what is freed between
#: queries. New small pages took a quarter of a query's processor time.
_SLAB = 2**23

Integers = NDArray[np.int64]
Numbers = Callable[[int], Integers]


class TooWideError(Exception):
    """64 bits, or the memory for rows, may not suffice: SQL must compute the result."""


# Columns as returned by DuckDB ----------------------------------------------------------------------------------------


class WholeColumn:
    """Integer column in chunks; NULL is stored in a separate mask."""

    def __init__(self) -> None:
        self._chunks: list[NDArray[Any]] = []
        self._missing: list[NDArray[np.bool_] | None] = []
        self._ends: list[tuple[int, int]] = []
        self._free = np.empty(0, dtype=np.uint8)
        self.low, self.high = _LARGEST, -_LARGEST - 1

    def add(self, values: NDArray[Any], missing: NDArray[np.bool_] | None) -> int:
        """Copy a chunk, whose numbers where ``missing`` is true are arbitrary; return the bytes it takes."""
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
            values = self._copied(values, kind if kind.itemsize < values.dtype.itemsize else values.dtype)
        self._chunks.append(values)
        self._missing.append(missing)
        self._ends.append((low, high))
        return int(values.nbytes) + (0 if missing is None else int(missing.nbytes))

    def _copied(self, values: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any]:
        size = len(values) * kind.itemsize
        if len(self._free) < size:
            # A column of one chunk, as most small queries have, takes no more than that.
            self._free = np.empty(max(_SLAB, size) if self._chunks else size, dtype=np.uint8)
        found = self._free[:size].view(kind)
        self._free = self._free[-(-size // 8) * 8 :]
        found[:] = values
        return found

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
        """Return a chunk's values minus ``first``, with ``nothing`` for NULL."""
        missing = self._missing[i]
        found: Integers = np.subtract(self._chunks[i], first, dtype=np.int64, casting="unsafe")
        if missing is not None:
            found[missing] = nothing
        return found

    def is_within(self, i: int, low: int, high: int) -> bool:
        """Whether all numbers of a chunk lie in [low, high]."""
        return low <= self._ends[i][0] and self._ends[i][1] <= high

    def sample(self, count: int) -> Integers:
        """Return about ``count`` of the numbers, evenly spaced."""
        step = max(sum(self.sizes) // count, 1)
        pairs = zip(self._chunks, self._missing, strict=True)
        some = [c[::step] if m is None else c[::step][~m[::step]] for c, m in pairs]
        return np.concatenate([part.astype(np.int64) for part in some])

    def clear(self) -> None:
        """Release the chunks."""
        self._chunks.clear()

    def present(self) -> NDArray[np.bool_]:
        """Return a mask of the rows of all chunks that are not NULL."""
        masks = zip(self._chunks, self._missing, strict=True)
        return np.concatenate([np.ones(len(c), dtype=np.bool_) if m is None else ~m for c, m in masks])

    def there(self) -> Integers:
        """Return the numbers of all chunks that are not NULL."""
        return np.concatenate([chunk.astype(np.int64) for chunk in self._chunks])[self.present()]


class ArrowColumn:
    """Column of any other type, dictionary-encoded in chunks."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []

    def add(self, values: pa.Array) -> int:
        """Append a chunk; return the bytes it takes."""
        self._chunks.append(values.dictionary_encode())
        return int(self._chunks[-1].nbytes)

    @property
    def sizes(self) -> list[int]:
        return [len(chunk) for chunk in self._chunks]

    def clear(self) -> None:
        self._chunks.clear()

    def encoded(self) -> tuple[list[NDArray[Any]], ArrowValues]:
        """Return the number of each row's value among the distinct values, by chunk, and these values."""
        import pyarrow as pa

        unified = pa.chunked_array(self._chunks).unify_dictionaries()
        values = unified.chunk(0).dictionary
        nothing = len(values)
        if unified.null_count:
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        numbers = [np.from_dlpack(c.indices.fill_null(nothing) if c.null_count else c.indices) for c in unified.chunks]
        return numbers, ArrowValues(values)


class ArrowValues:
    """Distinct values of a column, numbered from 0; NULL is the last one if a row has it."""

    def __init__(self, values: pa.Array) -> None:
        self.values = values
        self.has_null = bool(values.null_count)

    def __len__(self) -> int:
        return len(self.values)

    def asked(self, cursor: duckdb.DuckDBPyConnection, select: str) -> dict[str, NDArray[Any]]:
        """Run a SELECT without FROM over the values ``v`` and their numbers ``i``; return its columns by name."""
        import pyarrow as pa

        cursor.register(_ITEMS, pa.table({"v": self.values, "i": np.arange(len(self.values))}))
        try:
            found: dict[str, NDArray[Any]] = cursor.execute(f"{select} FROM {_ITEMS}").fetchnumpy()
        finally:
            cursor.unregister(_ITEMS)
        return found

    def shown(self, order: Integers) -> Callable[[Integers], list[Any]]:
        """Return a function from positions to values as a database returns them.

        ``order`` is each number's position.
        """
        import pyarrow as pa

        values = self.values.take(pa.array(np.argsort(order)))
        return lambda some: list(values.take(pa.array(some)).to_pylist())


Column = WholeColumn | ArrowColumn


def fetch(session: DuckDBSession, sql: str, most_bytes: int, *, listed: bool) -> list[Column]:
    """Return all columns of a statement, of which the first is the unit; an empty list if there is no row.

    Args:
        session: session to read with; checked from time to time for an interrupt.
        sql: the statement.
        most_bytes: largest number of bytes in memory, including while rows are sorted.
        listed: whether rows with NULL in the second column are left out.

    Raises:
        TooWideError: for more bytes than that, a type that cannot be read exactly, or a row without a unit, which SQL
            must handle.
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
        # Add the memory for words, and for numbers of units or groups that are far apart.
        if held + 32 * rows > most_bytes:
            raise TooWideError
    return [*columns]


def _by_numpy(session: DuckDBSession, sql: str, most_bytes: int, listed: bool) -> list[Column]:
    relation = session.cursor.sql(sql)
    names, kinds = relation.columns, set(map(str, relation.types))
    ((rows,),) = session.rows(f"SELECT count(*) FROM ({sql})")
    if not kinds <= _WHOLE or rows * (8 * len(names) + 32) > most_bytes:
        raise TooWideError
    session.check()
    found = session.cursor.execute(sql).fetchnumpy()
    session.check()
    some = ~np.ma.getmaskarray(found[names[1]]) if listed else slice(None)
    arrays = [found[name][some] for name in names]
    if not len(arrays[0]):
        return []
    if np.ma.is_masked(arrays[0]):
        raise TooWideError
    columns = [WholeColumn() for _ in names]
    for column, array in zip(columns, arrays, strict=True):
        column.add(np.ma.getdata(array), np.ma.getmaskarray(array) if np.ma.is_masked(array) else None)
    return [*columns]


# Numbers in place of values -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Items:
    """Numbering of the keys or values of rows.

    Args:
        numbers: returns the numbers of a chunk's rows, in the order of the keys or values; NULL has the last number.
        count: how many numbers there are, some of them without a row.
        parts: returns, for some numbers, the 31-bit numbers that stand for them in a rank.
        shown: returns the values of some numbers, as a database returns them.
        nothing: the number of NULL; None if no row has it.
    """

    numbers: Numbers
    count: int
    parts: Callable[[Integers], NDArray[np.uint64]]
    shown: Callable[[Integers], list[Any]]
    nothing: int | None


@dataclass(frozen=True)
class Units:
    """Numbering of the units of rows.

    Args:
        numbers: returns the numbers of a chunk's rows, from 0.
        count: how many numbers there are, some of them without a row.
        folded: returns x (see ``sql/bounding``) of the units with some numbers.
    """

    numbers: Numbers
    count: int
    folded: Callable[[Integers], NDArray[np.uint32]]


def number_units(cursor: duckdb.DuckDBPyConnection, chooser: Chooser, column: Column) -> Units:
    """Number the units of rows; every row must have one."""
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
    """Number the values of a column, which are not doubles; ``purpose``: ``"groups"`` or ``"values"``."""
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
    """Number integers by their position in a range; None if they are far apart."""
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
    """Positions of a column's integers: their offset within a range, and their rank below and above it.

    Args:
        column: the column.
        low: first integer of the range.
        high: last integer of the range.
        below: distinct integers below the range, ascending.
        above: distinct integers above the range, ascending.
    """

    column: WholeColumn
    low: int
    high: int
    below: Integers
    above: Integers

    @classmethod
    def of(cls, column: WholeColumn) -> _Counted | None:
        """Return the positions for the middle of a column, widened three times; None if that range is too wide."""
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
        """Number of positions, some of them without a row."""
        return len(self.below) + self.high - self.low + 1 + len(self.above)

    def numbers(self, i: int, nothing: int) -> Integers:
        """Return the positions of a chunk's values, with ``nothing`` for NULL."""
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
        """Return the values at some positions."""
        found = some + (self.low - len(self.below))
        if len(self.below) or len(self.above):
            first = self.count - len(self.above)
            below, above = some < len(self.below), some >= first
            found[below], found[above] = self.below[some[below]], self.above[some[above] - first]
        return found


def _ranked(chooser: Chooser, column: WholeColumn) -> Items:
    """Number integers by their rank among all distinct ones."""
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


# Rows sorted by unit, group and value ---------------------------------------------------------------------------------


#: Largest number of rows; more rows are bounded by SQL, which can spill them.
MOST_ROWS = 2**26
#: Largest number of bytes per row: its word, unit, group and some columns.
ROW_BYTES = 64
_WORD_BITS = 64
_RANK_BITS = 31
#: If owners have more than this many times the items they keep, only items of low rank are sorted.
_WIDE_RUNS = 4
#: Rows of a block, a dozen arrays of which fit a cache together; and number of rows up to which threads do not help.
_BLOCK, _FEW = 2**16, 2**17
Words = NDArray[np.uint64]
Result = TypeVar("Result")


@dataclass(frozen=True)
class GroupPlan:
    """The groups of a query.

    Args:
        chooser: decides which groups a unit keeps.
        kinds: types of the keys where they are private; None for public groups.
        count: number of public groups.
        most: number of groups a unit keeps (``max_groups``).
    """

    chooser: Chooser
    kinds: tuple[SqlType, ...] | None
    count: int
    most: int

    @property
    def columns(self) -> int:
        """Number of columns that identify a group."""
        return 1 if self.kinds is None else len(self.kinds)

    @property
    def must_choose(self) -> bool:
        """Whether a unit may have more groups than it keeps."""
        return self.kinds is not None or self.count > self.most


@dataclass(frozen=True)
class RowGroups:
    """Numbering of the groups of rows.

    Args:
        numbers: returns the group numbers of a chunk's rows.
        count: how many group numbers there are, some of them without a row.
        ranks: returns the ranks of some groups, each in the order of a unit with the given x.
        shown: returns one column per key of some groups, as a database returns them.
        outside: group number of the rows outside the public list; None if there are none.
    """

    numbers: Numbers
    count: int
    ranks: Callable[[NDArray[np.uint32], Integers], NDArray[np.uint64]]
    shown: Callable[[Integers], list[list[Any]]]
    outside: int | None = None


class GroupedRows(NamedTuple):
    """Units and groups of rows; ``sizes`` are the numbers of rows of the chunks."""

    plan: GroupPlan
    sizes: list[int]
    units: Units
    groups: RowGroups

    @classmethod
    def of(cls, session: DuckDBSession, plan: GroupPlan, columns: Sequence[Column]) -> GroupedRows:
        """Number the units and groups that the first columns hold.

        Raises:
            TooWideError: for more combinations of keys than fit 64 bits.
        """
        chooser, sizes = plan.chooser, columns[0].sizes
        units = number_units(session.cursor, chooser, columns[0])
        session.check()
        if plan.kinds is None:
            return cls(plan, sizes, units, _public(plan, columns[1]))
        keys = [
            number_items(session.cursor, chooser, "groups", kind, column)
            for kind, column in zip(plan.kinds, columns[1:], strict=False)
        ]
        session.check()
        return cls(plan, sizes, units, _combined(chooser, keys, sizes))


def _public(plan: GroupPlan, column: Column) -> RowGroups:
    if not isinstance(column, WholeColumn):
        raise TooWideError
    count, chooser = plan.count, plan.chooser
    # A position in the permutation is a rank whose lower bits are 0.
    raised = np.uint64(_RANK_BITS - chooser.bits(count))
    return RowGroups(
        lambda i: column.numbers(i, 0, count),
        count + column.has_nulls,
        lambda folded, some: chooser.places(folded, some.astype(np.int16), count).astype(np.uint64) << raised,
        lambda some: [some.tolist()],
        count if column.has_nulls else None,
    )


def _combined(chooser: Chooser, keys: list[Items], sizes: list[int]) -> RowGroups:
    """Number groups by several keys, ordered by the first key, then by the next."""
    if len(keys) == 1:
        key = keys[0]
        return RowGroups(
            key.numbers,
            key.count,
            lambda folded, some: chooser.ranks("groups", folded, [key.parts(some)]),
            lambda some: [key.shown(some)],
        )
    if math.prod(key.count for key in keys) >= 2**62:
        raise TooWideError
    # Few combinations occur, so they are numbered anew.
    starts = np.cumsum([0, *sizes])
    together = np.zeros(starts[-1], dtype=np.int64)
    for i in range(len(sizes)):
        part = together[starts[i] : starts[i + 1]]
        for key in keys:
            part *= key.count
            part += key.numbers(i)
    seen, numbers = np.unique(together, return_inverse=True)
    del together

    def apart(some: Integers) -> list[Integers]:
        rest, found = seen[some], []
        for key in reversed(keys):
            found.append(rest % key.count)
            rest = rest // key.count
        return found[::-1]

    def ranks(folded: NDArray[np.uint32], some: Integers) -> NDArray[np.uint64]:
        parts = [key.parts(own) for key, own in zip(keys, apart(some), strict=True)]
        return chooser.ranks("groups", folded, parts)

    def shown(some: Integers) -> list[list[Any]]:
        return [key.shown(own) for key, own in zip(keys, apart(some), strict=True)]

    return RowGroups(lambda i: numbers[starts[i] : starts[i + 1]], len(seen), ranks, shown)


class Field(NamedTuple):
    """Column of non-negative integers, and an upper bound of them."""

    numbers: Numbers
    largest: int


@dataclass(frozen=True)
class SortedRows:
    """Rows packed into 64-bit words and sorted.

    Args:
        words: unit, group and fields of each row, from the highest bits to the lowest.
        rows: units and groups of the rows.
        group_bits: number of bits of a group.
        below: number of bits of all fields together.
        fields: shift and bit mask of each field by name; the row's index, if present, has the name ``""``.
        apart: fields that did not fit into the words, in the original order of the rows.
    """

    words: Words
    rows: GroupedRows
    group_bits: int
    below: int
    fields: Mapping[str, tuple[int, int]]
    apart: Mapping[str, Integers]

    @classmethod
    def of(cls, rows: GroupedRows, fields: Mapping[str, Field]) -> SortedRows:
        """Pack and sort rows; the first field takes the highest bits below the group.

        Raises:
            TooWideError: if not even the row's index fits.
        """
        units, groups, count = rows.units, rows.groups, sum(rows.sizes)
        group_bits, unit_bits = (groups.count - 1).bit_length(), (units.count - 1).bit_length()
        packed: Mapping[str, Field] = fields
        apart: dict[str, Integers] = {}
        if unit_bits + group_bits + sum(each.largest.bit_length() for each in fields.values()) > _WORD_BITS:
            starts = np.cumsum([0, *rows.sizes])
            packed = {"": Field(lambda i: np.arange(starts[i], starts[i + 1]), count)}
            chunks = range(len(rows.sizes))
            apart = {name: np.concatenate([*map(each.numbers, chunks)]) for name, each in fields.items()}
        known: dict[str, tuple[int, int]] = {}
        below = 0
        for name in reversed([*packed]):
            width = packed[name].largest.bit_length()
            known[name] = (below, 2**width - 1)
            below += width
        if unit_bits + group_bits + below > _WORD_BITS:
            raise TooWideError
        words, start = np.empty(count, dtype=np.uint64), 0
        for i, size in enumerate(rows.sizes):
            # Chunk by chunk, so that each stays in the cache.
            word = words[start : start + size]
            np.left_shift(units.numbers(i).view(np.uint64), np.uint64(group_bits), out=word)
            word |= groups.numbers(i).view(np.uint64)
            for name, each in packed.items():
                word <<= np.uint64(known[name][1].bit_length())
                word |= each.numbers(i).view(np.uint64)
            start += size
        words.sort()
        return cls(words, rows, group_bits, below, known, apart)

    def read(self, name: str, words: Words) -> Integers:
        """Return a field of some words."""
        if name in self.apart:
            return self.apart[name][self.read("", words)]
        shift, largest = self.fields[name]
        return ((words >> np.uint64(shift)) & np.uint64(largest)).view(np.int64)

    def blocks(self, one: Callable[[UnitBlock], Result], threads: int, check: Callable[[], None]) -> Iterator[Result]:
        """Yield the results of ``one`` for blocks of whole units; ``check`` may raise to stop."""

        def made(ends: tuple[int, int]) -> Result:
            check()
            return one(UnitBlock.of(self, self.words[slice(*ends)]))

        cuts, below = [0], self.below + self.group_bits
        while cuts[-1] + _BLOCK < len(self.words):
            unit = int(self.words[cuts[-1] + _BLOCK - 1]) >> below
            # End of the unit's rows, found by the largest word the unit can have.
            last = np.uint64((unit << below) | (2**below - 1))
            cuts.append(int(np.searchsorted(self.words, last, side="right")))
        if cuts[-1] < len(self.words):
            cuts.append(len(self.words))
        if threads == 1 or len(self.words) <= _FEW:
            yield from map(made, pairwise(cuts))
            return
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(made, pairwise(cuts))


class RowSource:
    """The rows of a query, read once and sorted for each of its measures.

    Args:
        sql: statement with the columns ``u``, the group columns, and further columns.
        groups: the groups of the query.
        names: names of the further columns.
        listed: whether rows outside the public list are left out.
        times: how often the rows will be sorted; the columns are released after the last time.
    """

    def __init__(self, sql: str, groups: GroupPlan, names: Sequence[str], *, listed: bool, times: int) -> None:
        self.sql = sql
        self.groups = groups
        #: Numbers of the public groups that have a unit, each with its number of units; None until they are counted.
        self.units: list[tuple[int, int]] | None = None
        self._names, self._listed, self._times = names, listed, times
        self._columns: list[Column] = []
        self._rows: GroupedRows | None = None
        self._failure: TooWideError | None = None
        self._is_read = False

    def read(self, session: DuckDBSession, most_rows: int) -> tuple[GroupedRows | None, dict[str, Column]]:
        """Return units and groups, and the other columns by name; None for units and groups if there is no row.

        Raises:
            TooWideError: SQL must compute the result.
        """
        if not self._is_read:
            self._is_read = True
            try:
                self._columns = fetch(session, self.sql, most_rows * ROW_BYTES, listed=self._listed)
                self._rows = GroupedRows.of(session, self.groups, self._columns) if self._columns else None
            except TooWideError as failure:
                self._failure = failure
        if self._failure is not None:
            raise self._failure
        return self._rows, dict(zip(self._names, self._columns[1 + self.groups.columns :], strict=bool(self._columns)))

    def sorted(self, fields: Mapping[str, Field]) -> SortedRows:
        """Sort the rows by unit, group and these fields; :meth:`read` must have been called."""
        if self._rows is None:
            raise InternalError("rows are read before they are sorted")
        found = SortedRows.of(self._rows, fields)
        self._times -= 1
        if not self._times:
            for column in self._columns:
                column.clear()
        return found


@dataclass(frozen=True)
class UnitBlock:
    """All rows of some units, sorted by pair (unit, group).

    Args:
        words: words of the rows, without rows outside the public list.
        lengths: number of rows of each pair.
        groups: group number of each pair.
        units: unit numbers of the block.
        breadths: number of pairs of each unit.
        outside: whether each unit has rows outside the public list; None if no unit has.
        kept: which pairs their unit keeps; None for all.
    """

    words: Words
    lengths: Integers
    groups: Integers
    units: Integers
    breadths: Integers
    outside: NDArray[np.bool_] | None
    kept: NDArray[np.bool_] | None

    @classmethod
    def of(cls, source: SortedRows, words: Words) -> UnitBlock:
        """Split a block of whole units into pairs, and decide which of them are kept."""
        rows = source.rows
        pairs = words >> np.uint64(source.below)
        starts = changes(pairs)
        lengths, first = run_lengths(starts, len(words)), pairs[starts]
        owners = (first >> np.uint64(source.group_bits)).view(np.int64)
        groups = (first & np.uint64(2**source.group_bits - 1)).view(np.int64)
        begins = changes(owners)
        units, breadths = owners[begins], run_lengths(begins, len(owners))
        outside = None
        if rows.groups.outside is not None:
            inside = groups != rows.groups.outside
            if not inside.all():
                # The group of rows outside the list is the last of its unit.
                outside = ~inside[begins + breadths - 1]
                words, breadths = words[rows_of(inside, lengths)], breadths - outside
                lengths, groups = lengths[inside], groups[inside]

        def ranks(many: NDArray[np.bool_], some: NDArray[np.intp]) -> NDArray[np.uint64]:
            return rows.groups.ranks(np.repeat(rows.units.folded(units[many]), breadths[many]), groups[some])

        kept = kept_items(breadths, rows.plan.most, ranks) if rows.plan.must_choose else None
        return cls(words, lengths, groups, units, breadths, outside, kept)


def changes(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indexes at which a run of equal values starts."""
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return np.flatnonzero(first)


def run_lengths(starts: NDArray[np.intp], count: int) -> Integers:
    """Return the lengths of the runs that start at ``starts``; ``count`` is the total length."""
    found = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=found[:-1])
    found[-1:] = count - starts[-1:]
    return found


def rows_of(pairs: NDArray[np.bool_], lengths: Integers) -> NDArray[np.bool_]:
    """Return a mask of the rows of the selected pairs; ``lengths`` are the numbers of rows of all pairs."""
    # Most pairs have one row.
    return pairs if int(lengths.sum()) == len(pairs) else np.repeat(pairs, lengths)


def run_sums(values: NDArray[Any], lengths: Integers) -> Integers:
    """Return the sums of runs of these lengths, which may be 0; ``reduceat`` takes several times as long.

    Computed as differences of a running sum, which are exact modulo 2^64 even if the running sum wraps.
    """
    running = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, dtype=np.int64, out=running[1:])
    found = running[np.cumsum(lengths)]
    found[1:] -= found[:-1].copy()
    return found


def kept_items(
    lengths: Integers,
    most: int,
    ranks: Callable[[NDArray[np.bool_], NDArray[np.intp]], NDArray[np.uint64]],
) -> NDArray[np.bool_] | None:
    """Return a mask of the items that their owner keeps; None if all are kept.

    Args:
        lengths: number of items of each owner (a unit, or a unit in a group); the items are sorted by owner.
        most: number of items that an owner keeps.
        ranks: returns 31-bit ranks of the items of some owners; ties keep the order of the items.
    """
    many = lengths > most
    if not many.any():
        return None
    where = np.flatnonzero(np.repeat(many, lengths))
    runs = lengths[many]
    rank = ranks(many, where)
    kept = np.ones(int(lengths.sum()), dtype=np.bool_)
    kept[where] = False
    if int(runs.sum()) > _WIDE_RUNS * most * len(runs):
        near = _near(rank, runs, most)
        where, rank = where[near], rank[near]
        runs = run_sums(near, runs)
    place_bits = len(where).bit_length()
    owners = np.arange(len(runs), dtype=np.uint64)
    if len(runs).bit_length() + _RANK_BITS + place_bits > _WORD_BITS:
        order = np.lexsort((rank, np.repeat(owners, runs)))
    else:
        # The position makes each key distinct, so that any sort is stable.
        owners <<= np.uint64(_RANK_BITS + place_bits)
        key = np.repeat(owners, runs)
        key |= rank << np.uint64(place_bits)
        key |= np.arange(len(where), dtype=np.uint64)
        key.sort()
        key &= np.uint64(2**place_bits - 1)
        order = key.view(np.int64)
    # Every owner has at least ``most`` items: the first ``most`` of each run are kept.
    seats = (np.cumsum(runs) - runs)[:, None] + np.arange(most)
    kept[where[order[seats.ravel()]]] = True
    return kept


def _near(rank: NDArray[np.uint64], runs: Integers, most: int) -> NDArray[np.bool_]:
    """Return a mask of the items that may be kept: those of low rank, or all items where these are too few."""
    ends = np.minimum(_WIDE_RUNS * most * 2**_RANK_BITS // (2 * runs) + 1, 2**_RANK_BITS).astype(np.uint64)
    near = rank < np.repeat(ends, runs)
    too_few = run_sums(near, runs) < most
    if too_few.any():
        near |= np.repeat(too_few, runs)
    return near
