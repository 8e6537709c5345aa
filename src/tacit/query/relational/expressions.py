"""Typed scalar expressions: frozen, comparable, hashable, and free of sqlglot.

========== =============================================================================================
node       meaning
========== =============================================================================================
Reference  column ``slot`` of the relation below (for a join: left columns, then right columns)
Literal    a constant
Call       a function of the registry (:mod:`tacit.query.relational.functions`) by its id; also AND, OR, NOT and
           comparisons
Cast       to another type; a value that does not fit becomes NULL
Case       the first branch whose condition is true, else ``otherwise``
InList     whether the operand equals one of some constants
Interval   above the final aggregation only: an end of the confidence interval of a released column
========== =============================================================================================

Each has a ``type`` and a ``domain`` (public knowledge about its values). The domain follows from the parts and takes no
part in comparison. Build calls with :func:`tacit.query.relational.functions.call`, which checks arguments, converts
types and folds constants; the dataclasses themselves check nothing.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, Self

from tacit.query.types import BOOLEAN, NULL, Domain, Range, SqlType, Value, finite


@dataclass(frozen=True, slots=True)
class Expression:
    """Base class of the scalar nodes."""

    type: SqlType
    domain: Domain = field(compare=False, repr=False)

    @property
    def range(self) -> Range:
        """The presumed interval of the values, in ordinals."""
        return self.domain.range

    @property
    def nullable(self) -> bool:
        """Whether NULL may occur."""
        return self.domain.nullable

    @property
    def values(self) -> tuple[Value | None, ...] | None:
        """The finite public set of values, where one is known; else None."""
        return self.domain.values

    @property
    def step(self) -> Fraction | None:
        """The grid on which the values lie, in ordinals, where one is known; else None."""
        return self.domain.step


@dataclass(frozen=True, slots=True)
class Reference(Expression):
    """Column ``slot`` of the relation below; ``name`` is for messages only."""

    slot: int
    name: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant: the canonical Python value of its type, or None for NULL."""

    value: Value | None


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A registered total function of its arguments, which already have the types it wants."""

    function: str
    args: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """The operand as another type; a value that does not fit, does not parse or is not finite becomes NULL."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """``CASE WHEN condition THEN value … ELSE otherwise END``; conditions are BOOLEAN and NULL counts as false."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class InList(Expression):
    """``operand IN (items)`` in three-valued logic; the items are literals of the operand's type."""

    operand: Expression
    items: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Interval(Expression):
    """``DP_INTERVAL_LOW(alias)`` or ``DP_INTERVAL_HIGH(alias)``: an end of the interval of a released number."""

    operand: Expression
    high: bool


def literal(value: Value | None, kind: SqlType) -> Literal:
    """Return a constant with its one-point domain; text counts towards growth by its length."""
    growth = 1 + len(value) // 64 if isinstance(value, str) else 1
    return Literal(kind, finite((value,), kind, nullable=value is None, growth=growth), value)


TRUE = literal(True, BOOLEAN)
FALSE = literal(False, BOOLEAN)
NULL_LITERAL = literal(None, NULL)

#: A function from an expression to a changed expression.
Change = Callable[[Expression], Expression]


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the direct parts of an expression, in order."""
    match node:
        case Call():
            return node.args
        case Cast() | Interval():
            return (node.operand,)
        case Case():
            return (*(part for branch in node.branches for part in branch), node.otherwise)
        case InList():
            return (node.operand, *node.items)
        case _:
            return ()


def walk(node: Expression) -> list[Expression]:
    """Return an expression and all its parts in pre-order."""
    found, stack = [], [node]
    while stack:
        here = stack.pop()
        found.append(here)
        stack.extend(reversed(children(here)))
    return found


def references(node: Expression) -> tuple[Reference, ...]:
    """Return references to the columns an expression reads, each slot once, in order of appearance."""
    if isinstance(node, Reference):
        return (node,)
    seen: dict[int, Reference] = {}
    for part in walk(node):
        if isinstance(part, Reference):
            seen.setdefault(part.slot, part)
    return tuple(seen.values())


def depth(node: Expression) -> int:
    """Return the number of levels of an expression."""
    deepest = 0
    stack = [(node, 1)]
    while stack:
        here, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((part, level + 1) for part in children(here))
    return deepest


def size(node: Expression) -> int:
    """Return the number of nodes of an expression."""
    return len(walk(node))


def rewrite(node: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Return a copy in which, from the top, each node that ``change`` returns a node for is replaced by that."""
    new = change(node)
    if new is not None:
        return new
    match node:
        case Call():
            args = tuple(rewrite(part, change) for part in node.args)
            # Unchanged parts are not copied: several rules rewrite each query, and most leave most parts alone.
            same = all(map(operator.is_, args, node.args))
            return node if same else replace(node, args=args)
        case Cast() | Interval():
            return replace(node, operand=rewrite(node.operand, change))
        case Case():
            branches = tuple((rewrite(c, change), rewrite(v, change)) for c, v in node.branches)
            return replace(node, branches=branches, otherwise=rewrite(node.otherwise, change))
        case InList():
            return replace(node, operand=rewrite(node.operand, change))
        case _:
            return node


class Holder:
    """A record that holds expressions: in its fields, in tuples there, or in further holders."""

    __slots__ = ()

    def held(self) -> Iterator[Expression]:
        """Yield the expressions, in order."""
        for each in fields(self):  # type: ignore[arg-type]  # all of them are dataclasses
            yield from _held(getattr(self, each.name))

    def changed(self, change: Change) -> Self:
        """Return the record with ``change`` applied to its expressions."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return replace(self, **{name: _changed(value, change) for name, value in known.items()})  # type: ignore[type-var]


def _held(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, Holder):
        yield from value.held()
    elif isinstance(value, tuple):
        for part in value:
            yield from _held(part)


def _changed(value: Any, change: Change) -> Any:
    if isinstance(value, Expression):
        return change(value)
    if isinstance(value, Holder):
        return value.changed(change)
    return tuple(_changed(part, change) for part in value) if isinstance(value, tuple) else value


def shift(node: Expression, by: int) -> Expression:
    """Return the same expression over columns that stand ``by`` slots further right."""
    return rewrite(node, lambda part: replace(part, slot=part.slot + by) if isinstance(part, Reference) else None)


def text_of(node: Expression) -> str:
    """Return the canonical text: equal expressions have equal texts and different ones different texts."""
    match node:
        case Reference():
            return f"${node.slot}:{node.type}"
        case Literal():
            return f"{_constant(node.value)}:{node.type}"
        case Call():
            return f"{node.function}({', '.join(map(text_of, node.args))}):{node.type}"
        case Cast():
            return f"cast({text_of(node.operand)}):{node.type}"
        case Case():
            arms = "; ".join(f"{text_of(when)} -> {text_of(then)}" for when, then in node.branches)
            return f"case({arms}; {text_of(node.otherwise)}):{node.type}"
        case InList():
            return f"in({text_of(node.operand)}; {', '.join(map(text_of, node.items))})"
        case Interval():
            return f"interval_{'high' if node.high else 'low'}({text_of(node.operand)})"
        case _:
            raise TypeError(type(node).__name__)


def _constant(value: Value | None) -> str:
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value) if isinstance(value, Fraction) else repr(value)


def optional_text(expression: Expression | None) -> str:
    """Return the canonical text, or a dash for None."""
    return "-" if expression is None else text_of(expression)
