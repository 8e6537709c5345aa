"""Rule: inline projections into their readers.

``SELECT AVG(x) FROM (SELECT cost * 2 AS x FROM visits)`` asks the same as ``SELECT AVG(cost * 2) FROM visits``. A
projection over a projection is one, a filter over a projection moves below it, and the final aggregation reads through
the topmost one. Where substitution would make an expression long, the projection stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tacit.query import limits
from tacit.query.question import FinalAggregation, Question, final_over
from tacit.query.relational.algebra import FilterRows, ProjectColumns, RelationNode, bottom_up, substituted
from tacit.query.relational.expressions import Expression, depth, size

__all__ = ["inline_projections"]


def inline_projections(question: Question) -> Question:
    """Read through projections wherever that keeps expressions short."""
    final = question.final
    final = replace(final, source=bottom_up(final.source, _inlined))
    while isinstance(final.source, ProjectColumns) and _is_short(_expressions(final), final.source):
        final = final_over(final, final.source.source, substituted(final.source.expressions))
    return replace(question, final=final)


def _inlined(node: RelationNode) -> RelationNode:
    if (
        isinstance(node, FilterRows)
        and isinstance(node.source, ProjectColumns)
        and _is_short([node.condition], node.source)
    ):
        below, above = node.source.source, node.source
        condition = substituted(above.expressions)(node.condition)
        shape = (below.fields, below.unit, below.population, below.max_groups, below.max_rows, node.weight)
        return _inlined(replace(above, source=_inlined(FilterRows(*shape, below, condition))))
    if (
        isinstance(node, ProjectColumns)
        and isinstance(node.source, ProjectColumns)
        and _is_short(node.expressions, node.source)
    ):
        change = substituted(node.source.expressions)
        return replace(node, source=node.source.source, expressions=tuple(map(change, node.expressions)))
    return node


def _expressions(final: FinalAggregation) -> list[Expression]:
    read = [part for measure in final.measures for part in (measure.argument, measure.where) if part is not None]
    return [*read, *(key.expression for key in final.keys)]


def _is_short(readers: Iterable[Expression], below: ProjectColumns) -> bool:
    above = list(readers)
    longest = max((size(part) for part in below.expressions), default=1)
    deepest = max((depth(part) for part in below.expressions), default=1)
    return (
        longest * sum(size(reader) for reader in above) <= limits.MAX_EXPRESSION
        and deepest + max((depth(reader) for reader in above), default=0) <= limits.MAX_DEPTH
    )
