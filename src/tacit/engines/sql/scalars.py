"""Expressions as SQL: one walk over the nodes, one lowering per function id."""

from __future__ import annotations

from collections.abc import Callable

from tacit.core.errors import InternalError
from tacit.engines.sql.casts import cast_sql
from tacit.engines.sql.dialect import Dialect, column
from tacit.query.relational.expressions import Call, Case, Cast, Expression, InList, Literal, Reference
from tacit.query.types import BOOLEAN, Kind

__all__ = ["condition_sql", "scalar_sql"]


def scalar_sql(d: Dialect, node: Expression, name: Callable[[int], str] = column) -> str:
    """An expression over columns that ``name`` spells."""
    match node:
        case Reference():
            return name(node.slot)
        case Literal():
            return d.constant(node.value, node.type)
        case Cast():
            return cast_sql(d, scalar_sql(d, node.operand, name), node.operand.type, node.type)
        case Case():
            arms = [
                f"WHEN {condition_sql(d, when, name)} THEN {scalar_sql(d, then, name)}" for when, then in node.branches
            ]
            return f"(CASE {' '.join(arms)} ELSE {scalar_sql(d, node.otherwise, name)} END)"
        case InList():
            items = ", ".join(d.constant(item.value, item.type) for item in node.items)
            return f"({scalar_sql(d, node.operand, name)} IN ({items}))"
        case Call():
            return d.lowerings[node.function](d, node, [scalar_sql(d, arg, name) for arg in node.args])
        case _:
            raise InternalError(f"{type(node).__name__} cannot stand below the aggregation")


def condition_sql(d: Dialect, node: Expression, name: Callable[[int], str] = column) -> str:
    """The same where a truth value must stand: NULL without a type is not one everywhere."""
    return d.constant(None, BOOLEAN) if node.type.kind is Kind.NULL else scalar_sql(d, node, name)
