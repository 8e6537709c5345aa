"""Distinct values and counts of places of each group, from rows in memory: the same integers as the statements.

Rows are sorted by unit, group and value (:mod:`.segments`). Block by block each unit keeps its first groups, and in
each of them its first values: distinct ones, or copies of places that are told apart by their numbers. What is kept is
counted by group and value; distinct values may be added up instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.engines.duckdb.fast.columns import Column, Integers, Items, TooWideError, WholeColumn, number_items
from tacit.engines.duckdb.fast.segments import (
    Field,
    RowSource,
    SortedRows,
    UnitBlock,
    Words,
    changes,
    kept_items,
    rows_of,
    run_lengths,
    run_sums,
)
from tacit.engines.duckdb.fast.totals import WIDEST, BoundedTotals
from tacit.engines.sql.group_choice import Chooser
from tacit.engines.sql.statements import SpreadRows
from tacit.query.types import SqlType

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession

_VALUE = "x"


@dataclass(frozen=True)
class SpreadPlan:
    """What to count of the rows of a query.

    Args:
        source: of the rows.
        value: the column of the values.
        kind: type of the values whose distinct ones are counted; None where places are.
        width: number of places.
        most: how many values of a unit count in a group.
        summed: the column whose y are added up for distinct values; None where they are counted.
        centre: from which these y are counted.
        largest: the largest distance of a y from there.
    """

    source: RowSource
    value: str
    kind: SqlType | None
    width: int
    most: int
    summed: str | None = None
    centre: int = 0
    largest: int = 0

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> BoundedTotals | None:
        """As :meth:`tacit.engines.duckdb.fast.totals.TotalsPlan.measure`."""
        try:
            return BoundedTotals(_spread(self, session, most_rows, threads), None)
        except TooWideError:
            return None


def _spread(
    plan: SpreadPlan, session: DuckDBSession, most_rows: int, threads: int
) -> SpreadRows | list[tuple[Any, ...]]:
    """Group columns, place (0 for distinct values) and count, or the sum of distinct values.

    Raises:
        TooWideError: where SQL has to do it.
    """
    rows, columns = plan.source.read(session, most_rows)
    if rows is None:
        plan.source.units = []
        return []
    column = columns[plan.value]
    if plan.kind is None:
        items = _places(plan, rows.plan.chooser, column)
    else:
        items = number_items(session.cursor, rows.plan.chooser, "values", plan.kind, column)
    distances = None if plan.summed is None else _distances(plan, items, columns[plan.summed])
    source = plan.source.sorted({_VALUE: Field(items.numbers, items.count - 1)})
    if source.apart:
        raise TooWideError
    session.check()
    # What is kept takes the place of rows that have been looked at.
    kept, count = source.words.view(np.int64), 0
    units = np.zeros(rows.groups.count, dtype=np.int64)
    for groups, some in source.blocks(lambda block: _kept(plan, source, items, block), threads, session.check):
        np.add.at(units, groups, 1)
        kept[count : count + len(some)] = some
        count += len(some)
    if rows.plan.kinds is None:
        present = np.flatnonzero(units)
        plan.source.units = list(zip(present.tolist(), units[present].tolist(), strict=True))
    kept = kept[:count]
    kept.sort()
    starts = changes(kept)
    # Values and how often each occurs, of all groups one after the other.
    found = np.empty((len(starts), 2), dtype=np.int64)
    # Written where they stay: there may be as many as rows.
    np.take(kept, starts, out=found[:, 0], mode="clip")
    np.subtract(starts[1:], starts[:-1], out=found[:-1, 1])
    found[-1:, 1] = count - starts[-1:]
    del kept, starts
    begins = changes(found[:, 0] >> source.below)
    present = found[begins, 0] >> source.below
    found[:, 0] &= 2**source.below - 1
    ends, keys = [*begins.tolist(), len(found)], list(zip(*rows.groups.shown(present), strict=True))
    if distances is not None:
        totals = run_sums(distances[found[:, 0]], run_lengths(begins, len(found))).tolist()
        return [(*key, 0, total) for key, total in zip(keys, totals, strict=True)]
    if plan.kind is not None:
        return [(*key, 0, end - start) for key, (start, end) in zip(keys, pairwise(ends), strict=True)]
    return SpreadRows(keys, [found[start:end] for start, end in pairwise(ends)])


def _distances(plan: SpreadPlan, items: Items, column: Column) -> Integers:
    """The distance of each value's y from the centre, by its number: equal values have equal ones.

    Raises:
        TooWideError: when 64 bits might not do for their sum.
    """
    if plan.largest * items.count >= WIDEST:
        raise TooWideError
    if not isinstance(column, WholeColumn):
        raise TooWideError
    found = np.zeros(items.count, dtype=np.int64)
    for i in range(len(column.sizes)):
        found[items.numbers(i)] = column.numbers(i, plan.centre, 0)
    return found


def _places(plan: SpreadPlan, chooser: Chooser, column: Column) -> Items:
    """Places are numbers already; beyond the last stands NULL."""
    if not isinstance(column, WholeColumn):
        raise TooWideError
    width, nothing = plan.width, plan.width if column.has_nulls else None
    return Items(
        lambda i: column.numbers(i, 0, width),
        width + 1,
        chooser.numbers,
        lambda some: some.tolist(),
        nothing,
    )


def _kept(plan: SpreadPlan, source: SortedRows, items: Items, block: UnitBlock) -> tuple[Integers, Integers]:
    """Groups that units of a block keep, and group and value of all that is kept in them, as one number."""
    words, groups, chooser = block.words, block.groups, source.rows.plan.chooser
    if block.kept is not None:
        words, groups = words[rows_of(block.kept, block.lengths)], groups[block.kept]
    # Groups are chosen among all that a unit has, also those without a value.
    if items.nothing is not None:
        words = words[source.read(_VALUE, words) != items.nothing]
    if plan.kind is not None:
        words = words[changes(words)]

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
    return groups, (words & np.uint64(2 ** (source.below + source.group_bits) - 1)).view(np.int64)


def _copies(words: Words) -> Integers:
    """The number of each among its equals, from 1."""
    starts = changes(words)
    return np.arange(1, len(words) + 1) - np.repeat(starts, run_lengths(starts, len(words)))
