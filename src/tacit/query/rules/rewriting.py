"""Rewriting helpers for rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tacit.query.question import FinalAggregation
from tacit.query.relational.algebra import (
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    ProjectColumns,
    RelationNode,
    SortKey,
    UnionAll,
    UnitAggregate,
    UnitCall,
    UnitWindow,
    WindowCall,
    sources,
)
from tacit.query.relational.expressions import Expression, Reference, rewrite

__all__ = ["Change", "bottom_up", "final_over", "moved", "moved_call", "moved_window", "substituted", "with_sources"]

Change = Callable[[Expression], Expression]


def bottom_up(node: RelationNode, change: Callable[[RelationNode], RelationNode]) -> RelationNode:
    """The tree with ``change`` applied to every node, sources first."""
    below = [bottom_up(part, change) for part in sources(node)]
    return change(with_sources(node, below) if below else node)


def with_sources(node: RelationNode, below: Sequence[RelationNode]) -> RelationNode:
    """The node over other sources; itself where they are the same."""
    if all(new is old for new, old in zip(below, sources(node), strict=True)):
        return node
    match node:
        case FilterRows() | FirstRows() | ProjectColumns() | UnitAggregate() | UnitWindow():
            return replace(node, source=below[0])
        case Join():
            return replace(node, left=below[0], right=below[1])
        case ExistsColumn():
            return replace(node, source=below[0], other=below[1])
        case UnionAll():
            return replace(node, parts=tuple(below))
        case _:
            return node


def moved(slots: Mapping[int, int]) -> Change:
    """Expressions over columns that now stand elsewhere."""

    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Reference):
            return None
        slot = slots[part.slot]
        return part if slot == part.slot else replace(part, slot=slot)

    return lambda expression: rewrite(expression, change)


def substituted(expressions: Sequence[Expression]) -> Change:
    """Expressions in which each column is replaced by what computes it."""
    return lambda expression: rewrite(
        expression, lambda part: expressions[part.slot] if isinstance(part, Reference) else None
    )


def moved_call(call: UnitCall, change: Change) -> UnitCall:
    """An exact aggregate with changed expressions."""
    argument = None if call.argument is None else change(call.argument)
    return replace(call, argument=argument, where=None if call.where is None else change(call.where))


def moved_window(call: WindowCall, change: Change) -> WindowCall:
    """A window with changed expressions."""
    return replace(
        call,
        argument=None if call.argument is None else change(call.argument),
        partition=tuple(change(part) for part in call.partition),
        order=tuple(SortKey(change(key.expression), key.descending, key.nulls_first) for key in call.order),
    )


def final_over(final: FinalAggregation, source: RelationNode, change: Change) -> FinalAggregation:
    """The same aggregation over another source, its expressions changed to fit."""
    measures = tuple(
        replace(
            measure,
            argument=None if measure.argument is None else change(measure.argument),
            where=None if measure.where is None else change(measure.where),
        )
        for measure in final.measures
    )
    keys = tuple(replace(key, expression=change(key.expression)) for key in final.keys)
    return replace(final, source=source, keys=keys, measures=measures)
