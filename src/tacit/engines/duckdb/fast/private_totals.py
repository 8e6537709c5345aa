"""Bounded totals over private keys, from rows in memory: the same integers as the statements of ``engines/sql``.

Rows are sorted by unit and group (:mod:`.grouped_rows`), block by block each unit keeps its first groups, and the
shares of those (:mod:`.array_totals`) are added up. The same rows tell the table of what bounding leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.engines.duckdb.fast.array_totals import (
    Beside,
    CellCount,
    FoldedRows,
    Integers,
    Read,
    SharedRows,
    TooWideError,
    UnitGroups,
    UnitShare,
    ValueColumn,
    group_sums,
    run_sums,
)
from tacit.engines.duckdb.fast.copied_rows import number_of_copies
from tacit.engines.duckdb.fast.fetched_rows import ROW_BYTES, NotedUnits
from tacit.engines.duckdb.fast.grouped_rows import (
    GroupedRows,
    GroupPlan,
    Sorted,
    UnitBlock,
    fetch_columns,
    in_blocks,
    run_lengths,
)
from tacit.engines.duckdb.fast.handed_columns import HandedColumn
from tacit.engines.duckdb.fast.sorted_totals import Words, changes
from tacit.engines.sql.statements import KeyTotals

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession
    from tacit.engines.duckdb.fast.array_losses import LossPlan


@dataclass(frozen=True)
class PrivatePlan:
    """SQL whose columns are ``u``, the keys and those that shares read, and what to do with its rows.

    Args:
        sql: of the rows.
        groups: of the question.
        columns: after the keys, by name.
        shares: one per sum.
        losses: the table of what bounding leaves out, if it is asked for and the rows can tell it.
        copies_sql: a statement that says how often each row counts; None for once.
        in_all: the most rows of a unit that count in all groups together, and in one; None for no such bound.
    """

    sql: str
    groups: GroupPlan
    columns: Mapping[str, Read]
    shares: tuple[UnitShare, ...]
    losses: LossPlan | None = None
    copies_sql: str | None = None
    in_all: tuple[int, int] | None = None

    @property
    def reads(self) -> dict[str, Read]:
        """All columns after the keys."""
        return {**self.columns, **({} if self.losses is None else self.losses.columns)}

    @property
    def kept_groups(self) -> int | None:
        """Number of groups that a unit keeps; None where it may keep all."""
        return self.groups.most if self.groups.must_choose else None

    def measure(self, session: DuckDBSession, most_rows: int, threads: int) -> FoldedRows | None:
        """As :meth:`tacit.engines.duckdb.fast.fetched_rows.RowPlan.measure`."""
        try:
            return _totals(self, session, most_rows * ROW_BYTES, threads)
        except TooWideError:
            return None


def _totals(plan: PrivatePlan, session: DuckDBSession, most_bytes: int, threads: int) -> FoldedRows:
    """Keys, units and one total per share, for every group in which a unit is kept.

    Raises:
        TooWideError: where SQL has to do it.
    """
    copies = 1 if plan.copies_sql is None else number_of_copies(session, plan.copies_sql)
    fetched = fetch_columns(session, plan.sql, plan.groups, most_bytes) if copies else []
    if not fetched:
        return FoldedRows([], None if plan.losses is None else [0] * plan.losses.table.cells)
    rows = GroupedRows.of(session, plan.groups, fetched)
    values = [
        _chunks(column, read.fill)
        for column, read in zip(fetched[1 + plan.groups.columns :], plan.reads.values(), strict=True)
    ]
    columns = dict(zip(plan.reads, values, strict=True))
    beside = _beside(plan, rows, columns)
    source = Sorted.of(
        rows, {name: (partial(_numbers, columns[name]), read.largest) for name, read in plan.columns.items()}
    )
    whole = (
        {} if source.fields.keys() >= plan.columns.keys() else {name: _joined(columns[name]) for name in plan.columns}
    )
    session.check()
    full = {name for name in plan.columns if all(chunk.is_full for chunk in columns[name])}
    counted = CellCount(plan.losses, beside, copies)

    def reader(words: Words) -> Callable[[str], Integers]:
        return lambda name: (
            source.read(name, words) if name in source.fields else whole[name].of(source.read("", words))
        )

    def one(block: UnitBlock) -> tuple[NDArray[np.int64], list[Integers]]:
        pairs, groups = UnitGroups(reader(block.words), full, block.lengths, copies), block.groups
        if counted:
            owners, begins = block.units[block.begins], block.begins
            counted.add(pairs, owners, lambda found: run_sums(found, begins))
        if block.kept is not None:
            words = block.words[np.repeat(block.kept, block.lengths)]
            pairs = UnitGroups(reader(words), full, block.lengths[block.kept], copies)
            groups = groups[block.kept]
        if plan.in_all is not None:
            pairs.most = _shared(plan.in_all, rows, block, pairs.lengths)
        return groups, [share.of(pairs) for share in plan.shares]

    narrow = [True, *(share.is_narrow(len(source.words)) for share in plan.shares)]
    totals = [np.zeros(rows.groups.count, dtype=np.int64 if fits else object) for fits in narrow]
    for groups, shares in in_blocks(source, one, threads, session.check):
        np.add.at(totals[0], groups, 1)
        for total, own in zip(totals[1:], shares, strict=True):
            if total.dtype != object:
                np.add.at(total, groups, own)
                continue
            present, places = np.unique(groups, return_inverse=True)
            total[present] += group_sums(own, places, len(present), narrow=False)
    present = np.flatnonzero(totals[0])
    found = KeyTotals(rows.groups.shown(present), [total[present] for total in totals])
    return FoldedRows(found, counted.cells())


def _shared(in_all: tuple[int, int], rows: GroupedRows, block: UnitBlock, lengths: Integers) -> Integers | None:
    """How many rows of each kept pair count; a unit has its groups in the order in which it keeps them."""
    units, groups = block.units, block.groups
    if block.kept is not None:
        units, groups = units[block.kept], groups[block.kept]
    chooser = rows.plan.chooser
    shared = SharedRows(*in_all, lambda some, totals: chooser.offsets(rows.units.folded(some), totals))
    begins = changes(units)
    many = run_sums(np.minimum(lengths, shared.in_group), begins) > shared.most
    if not many.any():
        return None
    breadths = run_lengths(begins, len(units))
    among = np.flatnonzero(np.repeat(many, breadths))
    order = np.arange(len(units))
    ranks = rows.groups.ranks(rows.units.folded(units[among]), groups[among])
    order[among] = among[np.lexsort((ranks, units[among]))]
    found = shared.of(lengths[order], units[begins], begins)
    if found is None:
        raise InternalError("some units have more rows than count")
    most = np.empty_like(found)
    most[order] = found
    return most


def _beside(plan: PrivatePlan, rows: GroupedRows, columns: Mapping[str, list[ValueColumn]]) -> Beside:
    """Units of values outside their bounds; there are no keys outside a list."""
    if plan.losses is None or not plan.losses.columns:
        return Beside()
    noted = NotedUnits()
    for i in range(len(rows.sizes)):
        chunk = {name: columns[name][i] for name in plan.reads}
        outside = plan.losses.outside(chunk, {name: chunk[name].values for name in plan.losses.columns})
        noted.add(None, outside, rows.units.numbers(i))
    return noted.beside()


def _chunks(column: HandedColumn, fill: int) -> list[ValueColumn]:
    """Whole numbers with ``fill`` for NULL, chunk by chunk.

    Raises:
        TooWideError: for numbers of more than 64 bits.
    """
    found = []
    for i in range(len(column.sizes)):
        values = column.whole(i, fill)
        if values.dtype.kind not in "iu":
            raise TooWideError
        found.append(ValueColumn(values, fill))
    return found


def _numbers(chunks: list[ValueColumn], i: int) -> Integers:
    return chunks[i].of(slice(None))


def _joined(chunks: list[ValueColumn]) -> ValueColumn:
    return ValueColumn(np.concatenate([chunk.values for chunk in chunks]), chunks[0].fill)
