"""Windows over released rows: aggregates of a partition or of its rows so far, ranks, and neighbouring rows.

A rank by noisy numbers is a rank of what was released; the true rank could be any in its partition, and that is its
interval.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tacit.query import limits
from tacit.query.postprocess.cell_expressions import EndOf, Row, derive
from tacit.query.postprocess.cells import Cell, CellConfidence, Event, Exact
from tacit.query.postprocess.regroup import pool
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import SortKey, WindowCall, WindowFrame
from tacit.query.types import INTEGER, Domain, Range, SqlType, Value, sort_key

__all__ = ["in_order", "partitions", "window_cells"]

_RANKS = ("row_number", "rank", "dense_rank")


@dataclass(frozen=True, eq=False)
class _RankCell(Cell):
    """A rank among ``size`` rows in an order that noise may have changed."""

    value: Value | None
    size: int
    events: frozenset[Event]
    type: SqlType = field(default=INTEGER)

    def _enclose(self, level: CellConfidence) -> Domain:  # noqa: ARG002 - the same at every level
        return Domain(Range(Fraction(1), Fraction(self.size)), False, None, Fraction(1))


def in_order(rows: Sequence[Row], keys: Sequence[SortKey], ends: EndOf | None = None) -> list[int]:
    """The indices of the rows in the order of some keys; ties stay as they are."""
    order = list(range(len(rows)))
    for key in reversed(keys):
        values = [derive(key.expression, row, ends).value for row in rows]
        known = [index for index in order if values[index] is not None]
        missing = [index for index in order if values[index] is None]
        known.sort(key=lambda i: sort_key(values[i], key.expression.type), reverse=key.descending)
        order = missing + known if key.nulls_first else known + missing
    return order


def partitions(indices: Sequence[int], keys: Sequence[Hashable]) -> list[list[int]]:
    """The indices of rows with equal keys together, in the order in which they come."""
    groups: dict[Hashable, list[int]] = {}
    for index in indices:
        groups.setdefault(keys[index], []).append(index)
    return list(groups.values())


def window_cells(call: WindowCall, rows: Sequence[Row], ends: EndOf | None = None) -> list[Cell]:
    """One cell per row, in the order of the rows."""
    order = in_order(rows, call.order, ends)
    keys = [tuple(derive(part, row, ends).value for part in call.partition) for row in rows]
    cells: list[Cell] = [Exact(None, call.type)] * len(rows)
    for part in partitions(order, keys):
        made = _partition(call, [rows[index] for index in part], ends)
        for index, cell in zip(part, made, strict=True):
            cells[index] = cell
    return cells


def _partition(call: WindowCall, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    if call.function in _RANKS:
        return _ranks(call, rows, ends)
    if call.argument is None:
        counts = range(1, len(rows) + 1) if call.frame is WindowFrame.RUNNING else [len(rows)] * len(rows)
        return [Exact(count, call.type) for count in counts]
    arguments = [derive(call.argument, row, ends) for row in rows]
    if call.function in ("lag", "lead"):
        shift = (call.offset if call.offset is not None else 1) * (-1 if call.function == "lag" else 1)
        return [_at(arguments, index + shift, call.type) for index in range(len(rows))]
    if call.frame is WindowFrame.RUNNING:
        _check_running(len(rows))
        return [pool(call.function, arguments[: end + 1], None, call.type) for end in range(len(rows))]
    return [pool(call.function, arguments, None, call.type)] * len(rows)


def _check_running(count: int) -> None:
    """Every cell of a running aggregate remembers all rows so far, for its interval; there must not be too many."""
    if count * (count + 1) // 2 > limits.MAX_PAIRS:
        most = (math.isqrt(8 * limits.MAX_PAIRS + 1) - 1) // 2
        raise Refusal(
            "too_large",
            f"A running aggregate of released rows takes at most {most} rows of a partition; add a PARTITION BY, or "
            "group more coarsely before it. What was released is kept, so asking again with another window is free.",
        )


def _at(cells: list[Cell], index: int, kind: SqlType) -> Cell:
    return cells[index] if 0 <= index < len(cells) else Exact(None, kind)


def _ranks(call: WindowCall, rows: list[Row], ends: EndOf | None) -> list[Cell]:
    by = [[derive(key.expression, row, ends) for key in call.order] for row in rows]
    events = frozenset().union(*(cell.events for cells in by for cell in cells))
    numbers, rank, dense = [], 0, 0
    for index, cells in enumerate(by):
        if index == 0 or [cell.value for cell in cells] != [cell.value for cell in by[index - 1]]:
            rank, dense = index + 1, dense + 1
        numbers.append({"row_number": index + 1, "rank": rank, "dense_rank": dense}[call.function])
    if not events:
        return [Exact(number, call.type) for number in numbers]
    return [_RankCell(number, len(rows), events) for number in numbers]
