"""Expressions as SQL: one walk over the nodes, one lowering per function id."""

from __future__ import annotations

from collections.abc import Callable

from tacit.core.errors import InternalError
from tacit.engines.duckdb.casts import cast_sql
from tacit.engines.duckdb.functions import LOWERINGS
from tacit.engines.duckdb.spelling import column, constant
from tacit.query.expressions import Call, Case, Cast, Expression, InList, Literal, Reference

__all__ = ["scalar_sql"]


def scalar_sql(node: Expression, name: Callable[[int], str] = column) -> str:
    """An expression over columns that ``name`` spells."""
    match node:
        case Reference():
            return name(node.slot)
        case Literal():
            return constant(node.value, node.type)
        case Cast():
            return cast_sql(scalar_sql(node.operand, name), node.operand.type, node.type)
        case Case():
            arms = [f"WHEN {scalar_sql(when, name)} THEN {scalar_sql(then, name)}" for when, then in node.branches]
            return f"(CASE {' '.join(arms)} ELSE {scalar_sql(node.otherwise, name)} END)"
        case InList():
            items = ", ".join(constant(item.value, item.type) for item in node.items)
            return f"({scalar_sql(node.operand, name)} IN ({items}))"
        case Call():
            return LOWERINGS[node.function](node, [scalar_sql(arg, name) for arg in node.args])
        case _:
            raise InternalError(f"{type(node).__name__} cannot stand below the aggregation")
