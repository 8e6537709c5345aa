"""Registry of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.query.relational.expressions import Expression
from tacit.query.types import UNKNOWN, Range, SqlType, Value

Args = tuple[Expression, ...]
#: The arguments converted to what the function wants, and the type of its result. Raises Refusal.
Signature = Callable[[Args], tuple[Args, SqlType]]


def _no_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001 - one shape for all rules
    return UNKNOWN


def _type_step(args: Args, kind: SqlType) -> Fraction | None:  # noqa: ARG001 - one shape for all rules
    return kind.step


def _growth(args: Args) -> int:
    return max((arg.domain.growth for arg in args), default=1)


@dataclass(frozen=True)
class Function:
    """One total function.

    Args:
        name: its id.
        summary: what it computes, in a few words.
        signature: checks and converts arguments, and gives the type of the result.
        evaluate: its meaning; gets converted arguments, none of them None where ``strict``. May return a value that the
            result type cannot hold; that counts as NULL.
        range: the interval of results from the arguments' domains.
        step: the grid of results.
        growth: see :class:`~tacit.query.types.Domain`.
        strict: whether NULL in gives NULL out.
        partial: whether it gives NULL for some arguments that are not NULL.
        never_null: whether the result is never NULL.
        cost: for one row, in plain operators; see :mod:`tacit.query.planning.work`.
    """

    name: str
    summary: str
    signature: Signature
    evaluate: Callable[..., Value | None]
    range: Callable[[Args, SqlType], Range] = _no_range
    step: Callable[[Args, SqlType], Fraction | None] = _type_step
    growth: Callable[[Args], int] = _growth
    strict: bool = True
    partial: bool = False
    never_null: bool = False
    cost: int = 1


#: Every function by id.
REGISTRY: Final[dict[str, Function]] = {}


def register(function: Function) -> None:
    """Enter a function; ids are unique."""
    if function.name in REGISTRY:
        raise KeyError(f"{function.name} is registered twice")
    REGISTRY[function.name] = function
