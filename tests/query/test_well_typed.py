"""Every reference in a resolved query has the type of the column it points to: no rewriting may lose its place."""

from __future__ import annotations

from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from support.each import check_each
from tacit.query.relational.algebra import (
    ExistsColumn,
    Field,
    FilterRows,
    Join,
    ProjectColumns,
    RelationNode,
    UnitAggregate,
    UnitWindow,
    sources,
)
from tacit.query.relational.expressions import Expression, references
from tacit.query.resolve import resolve


def inputs(node: RelationNode) -> tuple[tuple[Field, ...], list[Expression | None]]:
    """The columns that a node's expressions see, and its expressions."""
    match node:
        case FilterRows():
            return node.source.fields, [node.condition]
        case ProjectColumns():
            return node.source.fields, list(node.expressions)
        case Join():
            return (*node.left.fields, *node.right.fields), [node.condition]
        case ExistsColumn():
            return (*node.source.fields, *node.other.fields), [node.condition]
        case UnitAggregate():
            return node.source.fields, [
                *node.keys,
                *(part for call in node.calls for part in (call.argument, call.where)),
            ]
        case UnitWindow():
            parts = [part for call in node.calls for part in (call.argument, *call.partition)]
            return node.source.fields, [*parts, *(key.expression for call in node.calls for key in call.order)]
        case _:
            return (), []


def check(node: RelationNode) -> int:
    fields, expressions = inputs(node)
    seen = 0
    for expression in expressions:
        for part in references(expression) if expression is not None else ():
            assert part.slot < len(fields)
            assert fields[part.slot].type == part.type, (type(node).__name__, part)
            seen += 1
    return seen + sum(check(below) for below in sources(node))


def test_accepted_queries() -> None:
    def typed(sql: str) -> None:
        final = resolve(sql, CATALOG).final
        check(final.source)
        for expression in [key.expression for key in final.keys] + [
            part for measure in final.measures for part in (measure.argument, measure.where) if part is not None
        ]:
            for part in references(expression):
                assert final.source.fields[part.slot].type == part.type

    check_each(ACCEPTED, typed)


def test_the_null_mark_of_in_looks_at_the_other_table() -> None:
    """x IN (subquery) needs two marks; the second stands one column further left of the other table than the first."""
    sql = "SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM wards WHERE beds > 10)"
    assert check(resolve(sql, CATALOG).final.source) >= 6
