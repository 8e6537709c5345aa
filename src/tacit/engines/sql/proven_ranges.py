"""Ranges of numbers that follow from an expression alone, whatever the data holds.

Inside a known range nothing can overflow, and no check is written. Declared bounds are no proof, since data may lie
outside; CLAMP, constants, and sums and products of these are.

A range is in the numbers as they are held: whole numbers, decimals without their point, doubles. Sums and products of
whole numbers take their least and largest values at ends of the ranges of their parts; so do those of doubles, because
rounding to the nearest never changes an order. NULL is in every range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Final

from tacit.engines.sql.dialect import DECIMAL_LIMIT
from tacit.query.relational.expressions import Call, Cast, Expression, Literal
from tacit.query.types import Kind, SqlType

__all__ = ["EXACT_DOUBLES", "ProvenRange", "lies_within", "proven_range"]

#: Ends; whole numbers are exact, whatever their size.
ProvenRange = tuple[float, float]

_BIGINT: Final = 2**63 - 1
#: Whole numbers up to here are doubles exactly.
EXACT_DOUBLES: Final = 2**53
_OPERATIONS: Final[dict[str, Callable[[float, float], float]]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
}


def proven_range(node: Expression) -> ProvenRange | None:
    """The least and the largest number that an expression can be; None where that is not known, or may not fit."""
    match node:
        case Literal() if node.type.is_numeric and node.value is not None:
            value = _held(node)
            return value, value
        case Cast():
            return _converted(node)
        case Call(function="clamp"):
            return _clamped(node)
        case Call(function="add" | "sub" | "mul"):
            return _combined(node)
        case _:
            return None


def lies_within(found: ProvenRange | None, low: float, high: float) -> bool:
    """Whether a range is known and has nothing outside two numbers."""
    return found is not None and low <= found[0] and found[1] <= high


def _held(node: Literal) -> float:
    value = Fraction(node.value)  # type: ignore[arg-type]
    return float(value) if node.type.kind is Kind.DOUBLE else int(value * 10**node.type.scale)


def _converted(node: Cast) -> ProvenRange | None:
    source = node.operand.type
    if source.kind not in (Kind.INTEGER, Kind.DECIMAL):
        return None
    found = proven_range(node.operand)
    if found is None:
        return None
    unit = 10**source.scale
    if node.type.kind is Kind.DOUBLE and lies_within(found, -EXACT_DOUBLES, EXACT_DOUBLES):
        # The nearest doubles, as the one division of two exact ones gives them.
        return found[0] / unit, found[1] / unit
    if node.type.kind is Kind.DECIMAL and node.type.scale >= source.scale:
        return _fitting([end * 10 ** (node.type.scale - source.scale) for end in found], node.type)
    return None


def _clamped(node: Call) -> ProvenRange | None:
    low, high = (proven_range(arg) for arg in node.args[1:])
    if low is None or high is None or any(arg.type != node.type for arg in node.args):
        return None
    # The upper end is taken last, and wins where the ends are in the wrong order.
    return min(low[0], high[0]), high[1]


def _combined(node: Call) -> ProvenRange | None:
    sides = []
    # The shorter parts of a long sum stand on the right; where one of them is not known the rest is not looked at.
    for arg in reversed(node.args):
        found = proven_range(arg)
        if found is None or (arg.type.kind is Kind.DOUBLE) != (node.type.kind is Kind.DOUBLE):
            return None
        if node.type.kind is not Kind.DOUBLE and node.function != "mul":
            factor = 10 ** (node.type.scale - arg.type.scale)
            found = found[0] * factor, found[1] * factor
            if not lies_within(found, -_BIGINT, _BIGINT):
                return None
        sides.append(found)
    right, left = sides
    return _fitting([_OPERATIONS[node.function](x, y) for x, y in product(left, right)], node.type)


def _fitting(ends: list[float], kind: SqlType) -> ProvenRange | None:
    if kind.kind is Kind.DOUBLE:
        return (min(ends), max(ends)) if all(map(math.isfinite, ends)) else None
    limit = DECIMAL_LIMIT - 1 if kind.kind is Kind.DECIMAL else _BIGINT
    return (min(ends), max(ends)) if max(map(abs, ends)) <= limit else None
