"""Application of post-processing steps to released rows.

Which rows there are, and in which order, is decided by released values.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.query.postprocess.cell_expressions import Ends, Row, derive
from tacit.query.postprocess.cells import Cell, Exact
from tacit.query.postprocess.regroup import pool
from tacit.query.postprocess.windows import in_order, partitions, window_cells
from tacit.query.question import Derive, Extend, Keep, Regroup, Slice, Sort, Step
from tacit.query.relational.algebra import UnitCall
from tacit.query.relational.expressions import Expression, Reference, literal
from tacit.query.relational.functions import case
from tacit.query.types import Value, sort_key

__all__ = ["apply_step"]

Rows = list[Row]


def apply_step(step: Step, rows: Rows, ends: Ends) -> Rows:
    """The rows after a step other than Match; ``ends`` gives the ends of a cell's interval."""
    match step:
        case Derive():
            return list(zip(*(_derived(node, rows, ends) for node in step.expressions), strict=True))
        case Keep():
            return [row for row in rows if derive(step.condition, row, ends).value is True]
        case Sort():
            return [rows[index] for index in in_order(rows, step.keys, ends)]
        case Slice():
            return rows[step.offset :] if step.limit is None else rows[step.offset : step.offset + step.limit]
        case Regroup():
            return _regroup(step, rows, ends)
        case Extend():
            added = [window_cells(call, rows, ends) for call in step.calls]
            return [(*row, *(cells[index] for cells in added)) for index, row in enumerate(rows)]
        case _:
            first: dict[tuple[Value | None, ...], Row] = {}
            for row in rows:
                first.setdefault(tuple(cell.value for cell in row), row)
            return list(first.values())


def _derived(node: Expression, rows: Rows, ends: Ends) -> list[Cell]:
    """One expression for every row."""
    if isinstance(node, Reference):
        return [row[node.slot] for row in rows]
    return [derive(node, row, ends) for row in rows]


def _regroup(step: Regroup, rows: Rows, ends: Ends) -> Rows:
    if not step.keys:
        return [tuple(_call(call, rows, ends) for call in step.calls)]
    keys = [tuple(derive(key, row, ends) for key in step.keys) for row in rows]
    names = [tuple(cell.value for cell in cells) for cells in keys]
    groups = partitions(range(len(rows)), names)
    groups.sort(key=lambda part: [sort_key(cell.value, cell.type) for cell in keys[part[0]]])
    return [
        (*keys[part[0]], *(_call(call, [rows[index] for index in part], ends) for call in step.calls))
        for part in groups
    ]


def _call(call: UnitCall, rows: Sequence[Row], ends: Ends) -> Cell:
    where, argument = call.where, call.argument
    if where is not None and argument is not None and any(derive(where, row, ends).events for row in rows):
        # Which rows count is in doubt too: noise that lifts a cell over the bar is noise in the sum.
        counted = case([(where, argument)], literal(None, argument.type))
        return pool(call.function, [derive(counted, row, ends) for row in rows], call.parameter, call.type)
    kept = rows if where is None else [row for row in rows if derive(where, row, ends).value is True]
    if call.argument is None:
        return Exact(len(kept), call.type)
    return pool(call.function, [derive(call.argument, row, ends) for row in kept], call.parameter, call.type)
