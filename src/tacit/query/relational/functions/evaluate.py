"""Evaluation of an expression for one row in Python: the reference for engines."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.query.relational.expressions import Call, Case, Cast, Expression, InList, Literal, Reference
from tacit.query.relational.functions.casts import cast_value
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.types import Value, as_value


def evaluate(node: Expression, row: Sequence[Value | None]) -> Value | None:
    """The value of an expression over a row of canonical Python values; None for NULL. Never raises on values."""
    match node:
        case Reference():
            return row[node.slot]
        case Literal():
            return node.value
        case Call():
            return _call(node, row)
        case Cast():
            return cast_value(evaluate(node.operand, row), node.operand.type, node.type)
        case Case():
            for when, then in node.branches:
                if evaluate(when, row) is True:
                    return evaluate(then, row)
            return evaluate(node.otherwise, row)
        case InList():
            return _among(evaluate(node.operand, row), [item.value for item in node.items])
        case _:
            raise TypeError(f"{type(node).__name__} has no value for a row")


def _call(node: Call, row: Sequence[Value | None]) -> Value | None:
    function = REGISTRY[node.function]
    args = [evaluate(arg, row) for arg in node.args]
    if function.strict and None in args:
        return None
    return as_value(function.evaluate(*args), node.type)


def _among(value: Value | None, items: list[Value | None]) -> bool | None:
    if value is None:
        return None
    if value in items:
        return True
    return None if None in items else False
