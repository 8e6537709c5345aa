"""Rows in memory in the order of unit, group and value, and the first few groups or values of each owner.

Groups are public ones, by their numbers, or private ones, whose keys are numbered first (:mod:`.item_numbers`). A row
becomes one integer of 64 bits: unit, group, and below them its values, or where these are too wide its number. Sorted,
the rows of a unit stand together and so do those of each of its groups. Where a unit has more groups than it keeps, or
a group of it more values, they are ranked, and ties follow the order of the groups and values themselves: exactly the
order of the statements (``engines/sql/statements.py``), so the same integers come out, and nothing of the privacy
argument changes. Only owners with too many are ranked at all.

A row takes at most :data:`~.fetched_rows.ROW_BYTES` bytes here; beyond the rows that memory may hold, SQL takes over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.fast.array_totals import TooWideError
from tacit.engines.duckdb.fast.handed_columns import HandedColumn, column_of, read_batches
from tacit.engines.duckdb.fast.item_numbers import Items, Numbers, Units, number_items, number_units
from tacit.engines.duckdb.fast.sorted_totals import Words, blocks, changes
from tacit.engines.sql.group_choice import Chooser
from tacit.query.types import SqlType

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession

_KEY_BITS = 64
_RANK_BITS = 31
#: Where owners have so many times more items than they keep, those of low rank are looked at alone.
_WIDE_RUNS = 4
_BATCH = 2**17
#: Rows of a block: a dozen arrays of them fit a cache together.
_BLOCK = 2**15
Result = TypeVar("Result")


@dataclass(frozen=True)
class GroupPlan:
    """The groups of a question.

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


def fetch_columns(session: DuckDBSession, sql: str, plan: GroupPlan, most_bytes: int) -> list[HandedColumn]:
    """All columns of a statement, of which the first are unit and group; without rows outside the public list.

    None at all where there is no row.

    Raises:
        TooWideError: for more than may be held, or a row without a unit, which is SQL's to judge.
    """
    found: list[Sequence[Any]] = []
    count = held = 0
    for batch in read_batches(session, sql, most_bytes):
        rows = batch.rows_with(1) if plan.kinds is None and batch.has_nulls(1) else batch
        if rows.has_nulls(0):
            raise TooWideError
        found.append(rows.pieces)
        held += rows.num_bytes
        count += rows.num_rows
        # Besides what is held: words, and numbers of units or groups where these are far apart.
        if held + 32 * count > most_bytes:
            raise TooWideError
    return [column_of(pieces) for pieces in zip(*found, strict=True)] if count else []


@dataclass(frozen=True)
class RowGroups:
    """Groups of rows.

    Args:
        numbers: one per row of a chunk.
        count: how many there are, some of them without a row.
        ranks: of some groups, in the order of a unit with that x.
        shown: one column per key of some groups, as a database returns them.
    """

    numbers: Numbers
    count: int
    ranks: Callable[[NDArray[np.uint32], NDArray[np.int64]], NDArray[np.uint64]]
    shown: Callable[[NDArray[np.int64]], list[list[Any]]]


class GroupedRows(NamedTuple):
    """Units and groups of rows, which are in chunks of these sizes."""

    plan: GroupPlan
    sizes: list[int]
    units: Units
    groups: RowGroups

    @classmethod
    def of(cls, session: DuckDBSession, plan: GroupPlan, columns: Sequence[HandedColumn]) -> GroupedRows:
        """Units and groups of the first columns.

        Raises:
            TooWideError: for more combinations of keys than 64 bits can tell apart.
        """
        units = number_units(session.cursor, plan.chooser, columns[0])
        session.check()
        chooser, sizes = plan.chooser, columns[0].sizes
        if plan.kinds is None:

            def places(folded: NDArray[np.uint32], codes: NDArray[np.int64]) -> NDArray[np.uint64]:
                return chooser.places(folded, codes.astype(np.int16), plan.count).astype(np.uint64)

            def numbers(i: int) -> NDArray[np.int64]:
                found: NDArray[np.int64] = columns[1].whole(i, 0).astype(np.int64)
                return found

            public = RowGroups(numbers, plan.count, places, lambda some: [some.tolist()])
            return cls(plan, sizes, units, public)
        keys = [
            number_items(session.cursor, chooser, "groups", kind, column)
            for kind, column in zip(plan.kinds, columns[1:], strict=False)
        ]
        session.check()
        return cls(plan, sizes, units, _combined(chooser, keys, sizes))


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

    def apart(some: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        rest, found = seen[some], []
        for key in reversed(keys):
            found.append(rest % key.count)
            rest = rest // key.count
        return found[::-1]

    def ranks(folded: NDArray[np.uint32], some: NDArray[np.int64]) -> NDArray[np.uint64]:
        parts = [key.parts(own) for key, own in zip(keys, apart(some), strict=True)]
        return chooser.ranks("groups", folded, parts)

    def shown(some: NDArray[np.int64]) -> list[list[Any]]:
        return [key.shown(own) for key, own in zip(keys, apart(some), strict=True)]

    return RowGroups(lambda i: numbers[starts[i] : starts[i + 1]], len(seen), ranks, shown)


@dataclass(frozen=True)
class Sorted:
    """Rows as words, sorted.

    Args:
        words: unit, group, and fields below.
        rows: whose they are.
        group_bits: of a group.
        below: bits of all fields.
        fields: shift and largest value of each field by name; the number of a row is ``""``.
    """

    words: Words
    rows: GroupedRows
    group_bits: int
    below: int
    fields: Mapping[str, tuple[int, int]]

    @classmethod
    def of(cls, rows: GroupedRows, fields: Mapping[str, tuple[Numbers, int]]) -> Sorted:
        """Sort rows.

        Args:
            rows: units and groups.
            fields: of each, values of a chunk from 0 to the largest there can be. The first is the highest in a word.

        Raises:
            TooWideError: where even the number of a row does not fit.
        """
        units, groups, count = rows.units, rows.groups, sum(rows.sizes)
        group_bits, unit_bits = (groups.count - 1).bit_length(), (units.count - 1).bit_length()
        packed, widths = fields, {name: largest.bit_length() for name, (_, largest) in fields.items()}
        if unit_bits + group_bits + sum(widths.values()) > _KEY_BITS:
            starts = np.cumsum([0, *rows.sizes])
            packed, widths = {"": (lambda i: np.arange(starts[i], starts[i + 1]), count)}, {"": count.bit_length()}
        below = sum(widths.values())
        if unit_bits + group_bits + below > _KEY_BITS:
            raise TooWideError
        words, start = np.empty(count, dtype=np.uint64), 0
        for i, size in enumerate(rows.sizes):
            # One chunk after the other, so that it stays in the cache.
            word = units.numbers(i).view(np.uint64) << np.uint64(group_bits)
            word |= groups.numbers(i).view(np.uint64)
            for name, (numbers, _) in packed.items():
                word <<= np.uint64(widths[name])
                word |= numbers(i).view(np.uint64)
            words[start : start + size] = word
            start += size
        words.sort()
        known, shift = {}, below
        for name, width in widths.items():
            shift -= width
            known[name] = (shift, 2**width - 1)
        return cls(words, rows, group_bits, below, known)

    def read(self, name: str, words: Words) -> NDArray[np.int64]:
        """A field of some words."""
        shift, largest = self.fields[name]
        return ((words >> np.uint64(shift)) & np.uint64(largest)).view(np.int64)


@dataclass(frozen=True)
class UnitBlock:
    """All rows of some units.

    Args:
        words: of the rows.
        lengths: how many rows each pair of unit and group has.
        units: of each pair.
        groups: of each pair.
        begins: number of the first pair of each unit.
        kept: which pairs their unit keeps; None for all.
    """

    words: Words
    lengths: NDArray[np.int64]
    units: NDArray[np.int64]
    groups: NDArray[np.int64]
    begins: NDArray[np.intp]
    kept: NDArray[np.bool_] | None

    @classmethod
    def of(cls, source: Sorted, words: Words) -> UnitBlock:
        """The pairs of a block of whole units, and which of them are kept."""
        pairs = words >> np.uint64(source.below)
        starts = changes(pairs)
        first = pairs[starts]
        units = (first >> np.uint64(source.group_bits)).view(np.int64)
        groups = (first & np.uint64(2**source.group_bits - 1)).view(np.int64)
        begins = changes(units)
        breadths, rows = run_lengths(begins, len(units)), source.rows

        def ranks(many: NDArray[np.bool_], some: NDArray[np.intp]) -> NDArray[np.uint64]:
            folded = rows.units.folded(units[begins[many]])
            return rows.groups.ranks(np.repeat(folded, breadths[many]), groups[some])

        kept = kept_items(breadths, rows.plan.most, ranks) if rows.plan.must_choose else None
        return cls(words, run_lengths(starts, len(words)), units, groups, begins, kept)


def run_lengths(starts: NDArray[np.intp], count: int) -> NDArray[np.int64]:
    """Lengths of runs that begin there; ``count`` is the length of all."""
    found = np.empty(len(starts), dtype=np.int64)
    np.subtract(starts[1:], starts[:-1], out=found[:-1])
    found[-1:] = count - starts[-1:]
    return found


def kept_items(
    lengths: NDArray[np.int64],
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
        runs = np.add.reduceat(near, np.cumsum(runs) - runs, dtype=np.int64)
    place_bits = len(where).bit_length()
    owners = np.arange(len(runs), dtype=np.uint64)
    if len(runs).bit_length() + _RANK_BITS + place_bits > _KEY_BITS:
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


def _near(rank: NDArray[np.uint64], runs: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Items that may be among the first of their owner: of low rank, or all where too few are."""
    ends = np.minimum(_WIDE_RUNS * most * 2**_RANK_BITS // (2 * runs) + 1, 2**_RANK_BITS).astype(np.uint64)
    near = rank < np.repeat(ends, runs)
    too_few = np.add.reduceat(near, np.cumsum(runs) - runs, dtype=np.int64) < most
    if too_few.any():
        near |= np.repeat(too_few, runs)
    return near


def in_blocks(
    source: Sorted, one: Callable[[UnitBlock], Result], threads: int, check: Callable[[], None]
) -> Iterator[Result]:
    """Results of ``one`` for each block; ``check`` may raise to stop."""

    def made(ends: tuple[int, int]) -> Result:
        check()
        return one(UnitBlock.of(source, source.words[slice(*ends)]))

    cut: Iterable[tuple[int, int]] = blocks(source.words, source.below + source.group_bits, _BLOCK)
    if threads == 1 or len(source.words) <= _BATCH:
        yield from map(made, cut)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(made, cut)
