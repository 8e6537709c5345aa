"""Cost of an expression per row, in row operations.

One row operation is what an engine needs to take a row through one node with a few plain operators on it: a
hundred-millionth to a ten-millionth of a second. A plain operator is a sixteenth of it. Functions of text cost by the
length of their texts, which is presumed to be that of ordinary words and sentences, times the copies of stored text
that a value may hold (:attr:`~tacit.query.domains.Domain.growth`); those that search cost by their pattern as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tacit.query.relational.expressions import Call, Cast, Expression, Literal, children
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.types import Kind

__all__ = ["cost", "log2"]

#: Plain operators per row operation.
_PLAIN: Final = 16
#: A cast to or from text, in plain operators.
_TEXT_CAST: Final = 16
#: Characters of a pattern that cost a plain operator.
_PATTERN: Final = 16


def cost(expressions: Iterable[Expression | None]) -> int:
    """Row operations for all of some expressions, beyond the one for the row itself."""
    return sum(_operators(part) for part in expressions if part is not None) // _PLAIN


def log2(count: int) -> int:
    """The depth of a sort of so many rows."""
    return max(1, (count - 1).bit_length())


def _operators(expression: Expression) -> int:
    total, stack = 0, [expression]
    while stack:
        here = stack.pop()
        total += _own(here)
        stack.extend(children(here))
    return total


def _own(node: Expression) -> int:
    growth = max((part.domain.growth for part in children(node)), default=1)
    match node:
        case Call():
            texts = [arg.value for arg in node.args if isinstance(arg, Literal) and isinstance(arg.value, str)]
            return REGISTRY[node.function].cost * growth * (1 + sum(map(len, texts)) // _PATTERN)
        case Cast() if Kind.TEXT in (node.type.kind, node.operand.type.kind):
            return _TEXT_CAST * growth
        case _:
            return 1
