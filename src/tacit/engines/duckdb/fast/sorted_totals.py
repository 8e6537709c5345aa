"""Totals of rows that are sorted first, where a unit has to choose among its groups or units are far apart.

A row becomes one integer of 64 bits: its unit, the place of its group in the unit's own order, and
below them its group and values, or where these are too wide its number. Sorted, the rows of a unit stand together, its
groups in the order in which it keeps them, so the first few are found by comparing neighbours. No pair is hashed. The
sorted rows are cut between units into blocks small enough for a cache, and the blocks' integers are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.fast.array_totals import (
    WIDEST,
    Beside,
    CellCount,
    FetchedRows,
    Fold,
    FoldedRows,
    Integers,
    TooWideError,
    UnitGroups,
    group_sums,
    listed,
    run_sums,
)

_KEY_BITS = 64
_CHUNK = 2**16
_BLOCK = 2**17
#: The group, among the fields of a key.
_GROUP = ""
Words = NDArray[np.uint64]


class UnitGroupKeys:
    """Rows as integers: added batch by batch, then folded.

    Args:
        work: what is to be made of them.
        count: how many rows there will be, if keys are to hold their numbers; None to hold what they need.
    """

    def __init__(self, work: Fold, count: int | None = None) -> None:
        self.work = work
        self.count = 0
        self.full = set(work.largest)
        self._fields: dict[str, tuple[int, int]] = {}
        self.below = 0
        widths = {_GROUP: work.groups - 1, **work.largest} if count is None else {"number": count}
        for name, largest in widths.items():
            self._fields[name] = (self.below, 2 ** largest.bit_length() - 1)
            self.below += largest.bit_length()
        self.unit_bits = _KEY_BITS - work.bits - self.below
        self._rows: FetchedRows | None = None
        self._words = np.empty(_CHUNK if count is None else count, dtype=np.uint64)

    def add(self, rows: FetchedRows, numbers: NDArray[np.int64] | None = None) -> bool:
        """Take rows; False where units do not fit. ``numbers`` stand for the units in the keys, if given.

        Keys that hold numbers of rows take them all at once.
        """
        units = rows.units if numbers is None else numbers
        if self.unit_bits < 1 or int(units.min()) < 0 or int(units.max()) >> self.unit_bits:
            return False
        self._rows = rows
        self.full -= {name for name, column in rows.columns.items() if not column.is_full}
        needed = self.count + len(units)
        if needed > len(self._words):
            # In place where the system can. In small steps: what is added is written to at once.
            self._words.resize(max(needed, len(self._words) * 5 // 4), refcheck=False)
        # In pieces that stay in the cache from one operation to the next.
        for start in range(0, len(units), _CHUNK):
            piece = slice(start, start + _CHUNK)
            key = units[piece].astype(np.uint64)
            key <<= np.uint64(self.work.bits)
            key |= self.work.places(rows.units[piece], rows.groups[piece])
            key <<= np.uint64(self.below)
            self._fill(key, rows, piece)
            self._words[self.count : self.count + len(key)] = key
            self.count += len(key)
        return True

    def _fill(self, key: Words, rows: FetchedRows, piece: slice) -> None:
        if _GROUP not in self._fields:
            key |= np.arange(piece.start, piece.start + len(key), dtype=np.uint64)
            return
        key |= rows.groups[piece].view(np.uint16)
        for name, column in rows.columns.items():
            key |= column.of(piece).view(np.uint64) << np.uint64(self._fields[name][0])

    def sorted(self) -> Words:
        """All of them in order."""
        words = self._words[: self.count]
        words.sort()
        return words

    def read(self, name: str, words: Words) -> NDArray[np.int64]:
        """The y of each key in a column."""
        if name in self._fields:
            shift, mask = self._fields[name]
            return ((words >> np.uint64(shift)) & np.uint64(mask)).view(np.int64)
        if self._rows is None:
            raise TooWideError
        numbers = self.read("number", words)
        return self._rows.groups[numbers].astype(np.int64) if name == _GROUP else self._rows.columns[name].of(numbers)

    def groups(self, words: Words) -> NDArray[np.int64]:
        """The group of each key."""
        return self.read(_GROUP, words)


def fold(keys: UnitGroupKeys, threads: int, check: Callable[[], None], beside: Beside) -> FoldedRows:
    """Add up the rows.

    Args:
        keys: of all rows.
        threads: how many blocks at a time.
        check: called now and then; may raise to stop.
        beside: facts about units, as they are numbered in the keys.

    Raises:
        TooWideError: when 64 bits might not do.
    """
    words = keys.sorted()
    cut = blocks(words, keys.below + keys.work.bits, _BLOCK)
    counted = CellCount(keys.work.losses, beside, keys.work.copies)

    def one(block: tuple[int, int]) -> list[NDArray[np.int64]]:
        check()
        return _block(keys, words[slice(*block)], counted)

    if threads == 1 or len(cut) < 2:
        totals = _added(map(one, cut), keys.work, keys.count)
    else:
        with ThreadPoolExecutor(threads) as pool:
            totals = _added(pool.map(one, cut), keys.work, keys.count)
    return FoldedRows(listed(totals), counted.cells())


def blocks(words: Words, below: int, size: int) -> list[tuple[int, int]]:
    """From … to, about ``size`` long, cut where another unit begins; ``below`` are the bits under the unit."""
    cuts, shift = [0], np.uint64(below)
    while cuts[-1] + size < len(words):
        unit = words[cuts[-1] + size - 1] >> shift
        # The last of the unit, found by the largest key it can have.
        cuts.append(int(np.searchsorted(words, (unit << shift) | np.uint64(2**below - 1), side="right")))
    if cuts[-1] < len(words):
        cuts.append(len(words))
    return list(pairwise(cuts))


def _block(keys: UnitGroupKeys, words: Words, counted: CellCount) -> list[NDArray[np.int64]]:
    """Units per group and one total per share and group, of whole units."""
    work = keys.work
    pairs = words >> np.uint64(keys.below)
    starts = changes(pairs)
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1] = len(words) - starts[-1]
    units = pairs[starts] >> np.uint64(work.bits)
    # Groups of a unit stand in its order: one is beyond the first few if the one that many before it is of that unit.
    kept = np.ones(len(units), dtype=np.bool_)
    kept[work.most :] = units[work.most :] != units[: -work.most]
    firsts = words[starts]
    whole = UnitGroups(_reader(keys, words), keys.full, lengths, work.copies)
    if counted:
        begins = changes(units)
        owners = units[begins].astype(np.int64)
        counted.add(whole, owners, lambda values: run_sums(values, begins))
    if not kept.all():
        words, firsts, lengths, units = words[np.repeat(kept, lengths)], firsts[kept], lengths[kept], units[kept]
        whole = UnitGroups(_reader(keys, words), keys.full, lengths, work.copies)
    if work.in_all is not None:
        begins = changes(units)
        whole.most = work.in_all.of(whole.lengths, units[begins], begins)
    return _per_group(work, keys.groups(firsts), whole)


def _reader(keys: UnitGroupKeys, words: Words) -> Callable[[str], Integers]:
    return lambda name: keys.read(name, words)


def _per_group(work: Fold, groups: Integers, pairs: UnitGroups) -> list[NDArray[Any]]:
    """Units and one total per share, by group; ``groups`` are those of the pairs."""
    units = np.bincount(groups, minlength=work.groups)
    narrow = [share.is_narrow(len(groups)) for share in work.shares]
    shares = zip(work.shares, narrow, strict=True)
    return [units, *(group_sums(share.of(pairs), groups, work.groups, narrow=fits) for share, fits in shares)]


def changes(values: NDArray[Any]) -> NDArray[np.intp]:
    """Where a run of equal values begins."""
    first = np.empty(len(values), dtype=np.bool_)
    first[0] = True
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return np.flatnonzero(first)


def _added(blocks: Iterable[list[NDArray[np.int64]]], work: Fold, count: int) -> list[NDArray[Any]]:
    """Totals of all blocks, in Python's integers where their sum might not fit."""
    wide = [False, *(share.largest * count >= WIDEST for share in work.shares)]
    totals: list[NDArray[Any]] = [np.zeros(work.groups, dtype=object if big else np.int64) for big in wide]
    for block in blocks:
        for total, part in zip(totals, block, strict=True):
            total += part
    return totals
