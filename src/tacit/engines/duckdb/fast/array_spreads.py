"""Distinct values and counts of places of each group, from rows in memory: the same integers as the statements.

Rows are sorted by unit, group and value (:mod:`.grouped_rows`). Block by block each unit keeps its first groups, and in
each of them its first values: distinct ones, or copies of places that are told apart by their numbers. What is kept is
counted by group and value; distinct values may be added up instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.fast.array_totals import WIDEST, FoldedRows, TooWideError, run_sums
from tacit.engines.duckdb.fast.fetched_rows import ROW_BYTES
from tacit.engines.duckdb.fast.grouped_rows import (
    GroupedRows,
    GroupPlan,
    Sorted,
    UnitBlock,
    fetch_columns,
    in_blocks,
    kept_items,
    run_lengths,
)
from tacit.engines.duckdb.fast.handed_columns import HandedColumn
from tacit.engines.duckdb.fast.item_numbers import Items, number_items
from tacit.engines.duckdb.fast.sorted_totals import Words, changes
from tacit.engines.sql.statements import SpreadRows
from tacit.query.types import SqlType

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession

#: Cells of group and value per row up to which all are counted at once; more are sorted.
_CELLS_PER_ROW = 4
_VALUE = "x"


@dataclass(frozen=True)
class SpreadPlan:
    """SQL whose columns are ``u``, the group columns, ``x`` and in sums ``y``, and what to do with its rows.

    Args:
        sql: of the rows.
        groups: of the question.
        kind: type of the values whose distinct ones are counted; None where places are.
        width: number of places.
        most: how many values of a unit count in a group.
        centre: from which the y of distinct values are added up; None where they are counted.
        largest: the largest distance of a y from there.
    """

    sql: str
    groups: GroupPlan
    kind: SqlType | None
    width: int
    most: int
    centre: int | None = None
    largest: int = 0

    @property
    def kept_groups(self) -> int | None:
        """Number of groups that a unit keeps; None where it may keep all."""
        return self.groups.most if self.groups.must_choose else None

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> FoldedRows | None:
        """As :meth:`tacit.engines.duckdb.fast.fetched_rows.RowPlan.measure`."""
        try:
            return FoldedRows(_spread(self, session, most_rows * ROW_BYTES, threads), None)
        except TooWideError:
            return None


def _spread(
    plan: SpreadPlan, session: DuckDBSession, most_bytes: int, threads: int
) -> SpreadRows | list[tuple[Any, ...]]:
    """Group columns, place (0 for distinct values) and count, or the sum of distinct values.

    Raises:
        TooWideError: where SQL has to do it.
    """
    fetched = fetch_columns(session, plan.sql, plan.groups, most_bytes)
    if not fetched:
        return SpreadRows([], np.zeros((0, 3), dtype=np.int64))
    rows = GroupedRows.of(session, plan.groups, fetched)
    summed = None if plan.centre is None else fetched.pop()
    if plan.kind is None:
        items = _places(plan, fetched[-1])
    else:
        items = number_items(session.cursor, plan.groups.chooser, "values", plan.kind, fetched[-1])
    distances = None if summed is None else _distances(plan, items, summed)
    del fetched, summed
    source = Sorted.of(rows, {_VALUE: (items.numbers, items.count)})
    if _VALUE not in source.fields:
        raise TooWideError
    session.check()
    kept = [*in_blocks(source, lambda block: _kept(plan, source, items, block), threads, session.check)]
    found = _counted(np.concatenate(kept), rows.groups.count << source.below)
    groups, values, counts = found[0] >> source.below, found[0] & (2**source.below - 1), found[1]
    if plan.kind is not None:
        starts = changes(groups) if len(groups) else groups
        if distances is not None:
            totals = run_sums(distances[values], starts) if len(groups) else groups
            zeros = [0] * len(totals)
            return list(zip(*rows.groups.shown(groups[starts]), zeros, totals.tolist(), strict=True))
        counts, groups = run_lengths(starts, len(groups)), groups[starts]
        values = np.zeros_like(groups)
    present, places = np.unique(groups, return_inverse=True)
    return SpreadRows(list(zip(*rows.groups.shown(present), strict=True)), np.column_stack((places, values, counts)))


def _distances(plan: SpreadPlan, items: Items, column: HandedColumn) -> NDArray[np.int64]:
    """The distance of each value's y from the centre, by its number: equal values have equal ones.

    Raises:
        TooWideError: when 64 bits might not do for their sum.
    """
    if plan.largest * items.count >= WIDEST:
        raise TooWideError
    centre = plan.centre or 0
    found = np.zeros(items.count, dtype=np.int64)
    for i in range(len(column.sizes)):
        steps = column.whole(i, centre)
        if steps.dtype.kind not in "iu":
            raise TooWideError
        found[items.numbers(i)] = steps.astype(np.int64) - centre
    return found


def _places(plan: SpreadPlan, column: HandedColumn) -> Items:
    """Places are numbers already; beyond the last stands NULL."""

    def numbers(i: int) -> NDArray[np.int64]:
        found: NDArray[np.int64] = column.whole(i, plan.width).astype(np.int64, copy=False)
        return found

    nothing = plan.width if column.has_nulls else None
    return Items(numbers, plan.width + 1, plan.groups.chooser.numbers, lambda some: list(some.tolist()), nothing)


def _kept(plan: SpreadPlan, source: Sorted, items: Items, block: UnitBlock) -> NDArray[np.int64]:
    """Group and value of all that is kept in a block of whole units, as one number."""
    words, chooser = block.words, plan.groups.chooser
    if block.kept is not None:
        words = words[np.repeat(block.kept, block.lengths)]
    # Groups are chosen among all that a unit has, also those without a value.
    if items.nothing is not None:
        words = words[source.read(_VALUE, words) != items.nothing]
    if plan.kind is not None and len(words):
        words = words[changes(words)]
    if not len(words):
        return np.zeros(0, dtype=np.int64)

    starts = changes(words >> np.uint64(source.below))
    lengths = run_lengths(starts, len(words))

    def ranks(many: NDArray[np.bool_], some: NDArray[np.intp]) -> NDArray[np.uint64]:
        units = (words[starts[many]] >> np.uint64(source.below + source.group_bits)).view(np.int64)
        parts = [items.parts(source.read(_VALUE, words[some]))]
        if plan.kind is None:
            parts.append(chooser.numbers(_copies(words)[some]))
        return chooser.ranks("values", np.repeat(source.rows.units.folded(units), lengths[many]), parts)

    kept = kept_items(lengths, plan.most, ranks)
    words = words if kept is None else words[kept]
    return (words & np.uint64(2 ** (source.below + source.group_bits) - 1)).view(np.int64)


def _copies(words: Words) -> NDArray[np.int64]:
    """The number of each among its equals, from 1."""
    starts = changes(words)
    return np.arange(1, len(words) + 1) - np.repeat(starts, run_lengths(starts, len(words)))


def _counted(values: NDArray[np.int64], cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct numbers, ascending, and how often each occurs."""
    if cells <= _CELLS_PER_ROW * len(values):
        counts = np.bincount(values, minlength=cells)
        distinct = np.flatnonzero(counts)
        return distinct, counts[distinct]
    values.sort()
    starts = changes(values) if len(values) else values
    return values[starts], run_lengths(starts, len(values))
