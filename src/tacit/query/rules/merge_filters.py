"""Filters over filters become one, its conditions each once and in a canonical order.

``WHERE a AND b`` and ``WHERE b AND a`` ask the same.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.query.question import Question
from tacit.query.relational.algebra import FilterRows, RelationNode, bottom_up
from tacit.query.relational.expressions import TRUE, Expression, text_of
from tacit.query.relational.functions import call
from tacit.query.relational.ownership import conjuncts

__all__ = ["merge_filters"]


def merge_filters(question: Question) -> Question:
    """One filter where there were several in a row."""
    final = question.final
    return replace(question, final=replace(final, source=bottom_up(final.source, _merged)))


def _merged(node: RelationNode) -> RelationNode:
    if not isinstance(node, FilterRows):
        return node
    parts = list(conjuncts(node.condition))
    below = node.source
    if isinstance(below, FilterRows):
        parts.extend(conjuncts(below.condition))
        below = below.source
    ordered = [part for part in sorted(set(parts), key=text_of) if part != TRUE]
    if not ordered:
        return below
    return replace(node, source=below, condition=_all_of(ordered))


def _all_of(parts: list[Expression]) -> Expression:
    return parts[0] if len(parts) == 1 else call("and", *parts)
