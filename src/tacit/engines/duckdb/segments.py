"""Rows in memory in the order of unit, group and value, cut into units: what all bounded measurements are made of.

*Columns.* DuckDB hands over Arrow batches where Arrow is installed. Whole numbers are copied chunk by chunk, in the
fewest bytes that hold them; of other types each value is held once. Without Arrow whole numbers alone come, in arrays
of NumPy; all else is left to SQL, which gives the same integers.

*Numbers.* Keys, values and units that are not declared are numbered: equal ones get one number, in their own order.
Each text is hashed and compared once, by DuckDB and by the expressions of its statements, however many rows have it.
Whole numbers that lie close together are numbered by counting. Whether they do is decided by the middle of them, and
the few beyond are numbered by their ranks: else one person with a far number would decide how the rows of all are
worked at.

*Order.* Groups are public ones, by their numbers, or private ones, whose keys are numbered first. A row becomes one
integer of 64 bits: unit, group, and below them its values, or where these are too wide its number. Sorted, the rows of
a unit stand together and so do those of each of its groups. Where a unit has more groups than it keeps, or a group of
it more values, they are ranked, and ties follow the order of the groups and values themselves: exactly the order of the
statements (``engines/sql/statements.py``), so the same integers come out, and nothing of the privacy argument changes.
Only owners with too many are ranked at all. Rows outside the public list stand in a last group of their unit, which is
never kept.

A row takes at most :data:`ROW_BYTES` bytes; beyond the rows that memory may hold, SQL takes over.
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
#: Types that arrive in an array of NumPy without loss.
_WHOLE = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"})
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


Column = WholeColumn | ArrowColumn


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


# Rows sorted by unit, group and value ---------------------------------------------------------------------------------


#: More rows are bounded by SQL, which can spill them.
MOST_ROWS = 2**26
#: Most bytes of a row while it is bounded: its word, and unit, group and some columns.
ROW_BYTES = 64
_WORD_BITS = 64
_RANK_BITS = 31
#: Where owners have so many times more items than they keep, those of low rank are looked at alone.
_WIDE_RUNS = 4
#: Rows of a block: a dozen arrays of them fit a cache together. Fewer rows than those of a few blocks need no threads.
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
        most: how many groups a unit keeps.
    """

    chooser: Chooser
    kinds: tuple[SqlType, ...] | None
    count: int
    most: int

    @property
    def columns(self) -> int:
        """Number of columns that tell groups apart."""
        return 1 if self.kinds is None else len(self.kinds)

    @property
    def must_choose(self) -> bool:
        """Whether a unit may have more groups than it keeps."""
        return self.kinds is not None or self.count > self.most


@dataclass(frozen=True)
class RowGroups:
    """Groups of rows.

    Args:
        numbers: one per row of a chunk.
        count: how many there are, some of them without a row.
        ranks: of some groups, in the order of a unit with that x.
        shown: one column per key of some groups, as a database returns them.
        outside: the number of rows outside the public list; None where there are none.
    """

    numbers: Numbers
    count: int
    ranks: Callable[[NDArray[np.uint32], Integers], NDArray[np.uint64]]
    shown: Callable[[Integers], list[list[Any]]]
    outside: int | None = None


class GroupedRows(NamedTuple):
    """Units and groups of rows, which are in chunks of these sizes."""

    plan: GroupPlan
    sizes: list[int]
    units: Units
    groups: RowGroups

    @classmethod
    def of(cls, session: DuckDBSession, plan: GroupPlan, columns: Sequence[Column]) -> GroupedRows:
        """Units and groups of the first columns.

        Raises:
            TooWideError: for more combinations of keys than 64 bits can tell apart.
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
    # Places are ranks whose lower bits are 0.
    raised = np.uint64(_RANK_BITS - chooser.bits(count))
    return RowGroups(
        lambda i: column.numbers(i, 0, count),
        count + column.has_nulls,
        lambda folded, some: chooser.places(folded, some.astype(np.int16), count).astype(np.uint64) << raised,
        lambda some: [some.tolist()],
        count if column.has_nulls else None,
    )


def _combined(chooser: Chooser, keys: list[Items], sizes: list[int]) -> RowGroups:
    """Groups by several keys, in the order of the first, then of the next."""
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
    # Combinations that occur are few.
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
    """Values of rows from 0 to the largest there can be."""

    numbers: Numbers
    largest: int


@dataclass(frozen=True)
class SortedRows:
    """Rows as words, sorted.

    Args:
        words: unit, group, and fields below.
        rows: whose they are.
        group_bits: of a group.
        below: bits of all fields.
        fields: shift and largest value of each field by name; the number of a row is ``""``.
        apart: fields that did not fit, in the order in which rows came.
    """

    words: Words
    rows: GroupedRows
    group_bits: int
    below: int
    fields: Mapping[str, tuple[int, int]]
    apart: Mapping[str, Integers]

    @classmethod
    def of(cls, rows: GroupedRows, fields: Mapping[str, Field]) -> SortedRows:
        """Sort rows; the first field is the highest in a word.

        Raises:
            TooWideError: where even the number of a row does not fit.
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
            # One chunk after the other, so that it stays in the cache.
            word = units.numbers(i).view(np.uint64) << np.uint64(group_bits)
            word |= groups.numbers(i).view(np.uint64)
            for name, each in packed.items():
                word <<= np.uint64(known[name][1].bit_length())
                word |= each.numbers(i).view(np.uint64)
            words[start : start + size] = word
            start += size
        words.sort()
        return cls(words, rows, group_bits, below, known, apart)

    def read(self, name: str, words: Words) -> Integers:
        """A field of some words."""
        if name in self.apart:
            return self.apart[name][self.read("", words)]
        shift, largest = self.fields[name]
        return ((words >> np.uint64(shift)) & np.uint64(largest)).view(np.int64)

    def blocks(self, one: Callable[[UnitBlock], Result], threads: int, check: Callable[[], None]) -> Iterator[Result]:
        """Results of ``one`` for blocks of whole units; ``check`` may raise to stop."""

        def made(ends: tuple[int, int]) -> Result:
            check()
            return one(UnitBlock.of(self, self.words[slice(*ends)]))

        cuts, below = [0], self.below + self.group_bits
        while cuts[-1] + _BLOCK < len(self.words):
            unit = int(self.words[cuts[-1] + _BLOCK - 1]) >> below
            # The last of the unit, found by the largest word it can have.
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
    """The rows of a query, which are read once and sorted for each of its measurements.

    Args:
        sql: whose columns are ``u``, the group columns, and others.
        groups: of the query.
        names: of the others.
        listed: whether rows outside the public list are left out.
        times: how often rows will be sorted; the columns are let go after the last time.
    """

    def __init__(self, sql: str, groups: GroupPlan, names: Sequence[str], *, listed: bool, times: int) -> None:
        self.sql = sql
        self.groups = groups
        #: Public groups that have a unit, and how many they have, once that is known.
        self.units: list[tuple[int, int]] | None = None
        self._names, self._listed, self._times = names, listed, times
        self._columns: list[Column] = []
        self._rows: GroupedRows | None = None
        self._failure: TooWideError | None = None
        self._is_read = False

    def read(self, session: DuckDBSession, most_rows: int) -> tuple[GroupedRows | None, dict[str, Column]]:
        """Units and groups, and the other columns by name; None where there is no row.

        Raises:
            TooWideError: where SQL has to do it.
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
        """The rows by unit, group and these fields, after they were read."""
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
    """All rows of some units, pair (unit, group) after pair.

    Args:
        words: of the rows, without those outside the public list.
        lengths: how many rows each pair has.
        groups: of each pair.
        units: of the block.
        breadths: how many pairs each unit has.
        outside: whether a unit has rows outside the public list; None where none has.
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
        """The pairs of a block of whole units, and which of them are kept."""
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
                # It is the last group of its unit.
                outside = ~inside[begins + breadths - 1]
                words, breadths = words[rows_of(inside, lengths)], breadths - outside
                lengths, groups = lengths[inside], groups[inside]

        def ranks(many: NDArray[np.bool_], some: NDArray[np.intp]) -> NDArray[np.uint64]:
            return rows.groups.ranks(np.repeat(rows.units.folded(units[many]), breadths[many]), groups[some])

        kept = kept_items(breadths, rows.plan.most, ranks) if rows.plan.must_choose else None
        return cls(words, lengths, groups, units, breadths, outside, kept)


def changes(values: NDArray[Any]) -> NDArray[np.intp]:
    """Where a run of equal values begins."""
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return np.flatnonzero(first)


def run_lengths(starts: NDArray[np.intp], count: int) -> Integers:
    """Lengths of runs that begin there; ``count`` is the length of all."""
    found = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=found[:-1])
    found[-1:] = count - starts[-1:]
    return found


def rows_of(pairs: NDArray[np.bool_], lengths: Integers) -> NDArray[np.bool_]:
    """The rows of some pairs, each of which has so many."""
    # Most pairs have one row.
    return pairs if int(lengths.sum()) == len(pairs) else np.repeat(pairs, lengths)


def run_sums(values: NDArray[Any], lengths: Integers) -> Integers:
    """Sums of runs of these lengths, some of them 0; ``reduceat`` takes several times as long.

    They are differences of a running sum, which are right modulo 2^64 even where it wraps.
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
    """Which items are among the first of their owner; None where all are.

    Args:
        lengths: how many items each owner has; they stand one after the other.
        most: how many an owner keeps.
        ranks: of the items of some owners, 31 bits each; those of one rank follow the order in which they stand.
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
        # Each is told apart by its place, so that any sort is stable.
        owners <<= np.uint64(_RANK_BITS + place_bits)
        key = np.repeat(owners, runs)
        key |= rank << np.uint64(place_bits)
        key |= np.arange(len(where), dtype=np.uint64)
        key.sort()
        key &= np.uint64(2**place_bits - 1)
        order = key.view(np.int64)
    # Every owner has as many or more: the first of each run are kept.
    seats = (np.cumsum(runs) - runs)[:, None] + np.arange(most)
    kept[where[order[seats.ravel()]]] = True
    return kept


def _near(rank: NDArray[np.uint64], runs: Integers, most: int) -> NDArray[np.bool_]:
    """Items that may be among the first of their owner: of low rank, or all where too few are."""
    ends = np.minimum(_WIDE_RUNS * most * 2**_RANK_BITS // (2 * runs) + 1, 2**_RANK_BITS).astype(np.uint64)
    near = rank < np.repeat(ends, runs)
    too_few = run_sums(near, runs) < most
    if too_few.any():
        near |= np.repeat(too_few, runs)
    return near
