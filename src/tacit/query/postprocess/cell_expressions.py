"""Expressions over released cells, with intervals.

The registry knows how each function moves ranges, so an enclosure of the arguments gives one of the result; a
function of known finite sets is simply tried on all of them. Five things are done better here than in general: sums
of released integers are treated as one draw of summed noise, quotients of such sums as one test, a divisor on a grid
that is not 0 is at least one step away from it, comparisons of ranges that do not overlap are decided, and CASE follows
only the branches that can be taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tacit.query.postprocess.cells import Affine, Cell, CellConfidence, Event, Exact, linear_events
from tacit.query.postprocess.ratios import ratio_event, ratio_range
from tacit.query.relational.expressions import (
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Interval,
    Literal,
    Reference,
    children,
    references,
    rewrite,
)
from tacit.query.relational.functions import REGISTRY, cast, evaluate
from tacit.query.relational.functions.registry import cast_value
from tacit.query.types import (
    BOOLEAN,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    as_value,
    finite,
    hull,
    truth,
    union,
)

Row = Sequence[Cell]
#: The low, or for True the high, end of a cell's interval.
EndOf = Callable[[Cell, bool], Value | None]
#: The most combinations of known values on which a function is tried.
_IMAGE = 128
#: The longest sum of draws that is taken apart to be added to others.
_MOST_WEIGHTS = 64
_BOTH = truth(nullable=False)


def derive(node: Expression, row: Row, ends: EndOf | None = None) -> Cell:
    """The cell of an expression over a row; a plain reference is the cell itself.

    ``ends`` gives the low (or, for True, high) end of a cell's interval, for DP_INTERVAL_LOW and DP_INTERVAL_HIGH. An
    end is a statement about the answer and not an estimate of anything, so it counts as a constant.
    """
    if ends is not None and any(isinstance(part, Interval) for part in _parts(node)):
        node = rewrite(node, lambda part: _constant_end(part, row, ends))
    if isinstance(node, Reference):
        return row[node.slot]
    if isinstance(node, Literal):
        return Exact(node.value, node.type)
    cell = Derived(node, row)
    return cell if cell.events else Exact(cell.value, cell.type)


@dataclass(frozen=True, eq=False)
class Derived(Cell):
    """A function of other cells."""

    node: Expression
    row: Row

    @property
    def type(self) -> SqlType:  # type: ignore[override]
        """Type of the expression."""
        return self.node.type

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The expression over the released values."""
        return evaluate(self.node, [cell.value for cell in self.row])

    @cached_property
    def affine(self) -> Affine | None:
        """Where the expression only adds up and scales released integers."""
        return _affine(self.node, self.row)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Those of the parts, with every sum of released integers as one."""
        return _events(self.node, self.row)

    def _enclose(self, level: CellConfidence) -> Domain:
        return _enclose(self.node, self.row, level)


def _constant_end(part: Expression, row: Row, ends: EndOf) -> Literal | None:
    if not isinstance(part, Interval):
        return None
    value = cast_value(ends(derive(part.operand, row, ends), part.high), part.operand.type, part.type)
    return Literal(part.type, part.domain, value)


def _parts(node: Expression) -> Iterator[Expression]:
    yield node
    for part in children(node):
        yield from _parts(part)


def _sum(node: Expression, row: Row) -> Affine | None:
    """A part that is treated as one weighted sum of draws.

    A multiple of one cell is not: the cell may know more about itself, such as that it is not negative.
    """
    affine = _affine(node, row) if isinstance(node, Call) else None
    if affine is None or (len(affine.weights) == 1 and len(references(node)) == 1):
        return None
    return affine


def _forms(node: Expression, row: Row) -> tuple[Affine, Affine] | None:
    """Dividend and divisor of a part that is a quotient of two weighted sums of draws."""
    if not isinstance(node, Call) or node.function != "div":
        return None
    top, bottom = _long(node.args[0], row), _long(node.args[1], row)
    if top is None or bottom is None or not top.weights or not bottom.weights:
        return None
    return top, bottom


def _long(node: Expression, row: Row) -> Affine | None:
    """As :func:`_affine`; a cell that is a long sum is read without a copy."""
    if isinstance(node, Cast) and _widens(node):
        return _long(node.operand, row)
    return row[node.slot].affine if isinstance(node, Reference) else _affine(node, row)


def _events(node: Expression, row: Row) -> frozenset[Event]:
    affine = _sum(node, row)
    if affine is not None:
        return linear_events(affine)
    if isinstance(node, Reference):
        return row[node.slot].events
    forms = _forms(node, row)
    if forms is not None:
        return frozenset((ratio_event(*forms),))
    return frozenset().union(*(_events(part, row) for part in children(node)))


def _affine(node: Expression, row: Row) -> Affine | None:
    match node:
        case Reference():
            found = row[node.slot].affine
            # A long sum is a cell of its own: every row that reads it would copy all of its weights.
            return found if found is not None and len(found.weights) <= _MOST_WEIGHTS else None
        case Literal():
            return Exact(node.value, node.type).affine
        case Cast() if _widens(node):
            return _affine(node.operand, row)
        case Call(function="add" | "sub" | "neg" | "mul"):
            return _affine_call(node, row)
        case _:
            return None


def _widens(node: Cast) -> bool:
    """Whether a cast between numbers keeps every value; one that could round would not be affine."""
    kind, given = node.type, node.operand.type
    if kind.kind not in (Kind.DOUBLE, Kind.DECIMAL) or not given.is_numeric or given.kind is Kind.DOUBLE:
        return False
    return kind.kind is Kind.DOUBLE or given.scale <= kind.scale


def _affine_call(node: Call, row: Row) -> Affine | None:
    parts = [_affine(arg, row) for arg in node.args]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if node.function == "neg":
        return known[0].scaled(Fraction(-1))
    left, right = known
    if node.function == "mul":
        if left.weights and right.weights:
            return None
        return left.scaled(right.value) if left.weights else right.scaled(left.value)
    return left.plus(right if node.function == "add" else right.scaled(Fraction(-1)))


def _enclose(node: Expression, row: Row, level: CellConfidence) -> Domain:
    affine = _sum(node, row)
    if affine is not None:
        return affine.enclose(level)
    match node:
        case Reference():
            return row[node.slot].enclose(level)
        case Literal():
            return Exact(node.value, node.type).enclose(level)
        case Call():
            forms = _forms(node, row)
            if forms is not None:
                return Domain(_ratio(*forms, level), True, None, None)
            return _call(node, [_enclose(arg, row, level) for arg in node.args])
        case Cast():
            return _cast(node, _enclose(node.operand, row, level))
        case Case():
            return _case(node, row, level)
        case InList():
            return _among(node, _enclose(node.operand, row, level))
        case _:
            raise TypeError(f"{type(node).__name__} has no enclosure")


def _call(node: Call, domains: list[Domain]) -> Domain:
    function = REGISTRY[node.function]
    sets = [_possible(domain) for domain in domains]
    if math.prod(math.inf if values is None else len(values) for values in sets) <= _IMAGE:
        known = [values or () for values in sets]
        results = [_apply(node, arguments) for arguments in itertools.product(*known)]
        return finite(results, node.type, nullable=None in results)
    nullable = not function.never_null and (function.partial or any(domain.nullable for domain in domains))
    if node.function in _COMPARISONS:
        return _compare(node, domains)
    if node.type == BOOLEAN:
        return truth(nullable=nullable)
    if node.function == "div":
        return Domain(_quotient(*domains), True, None, None)
    args = tuple(
        arg if isinstance(arg, Literal) else Expression(arg.type, domain)
        for arg, domain in zip(node.args, domains, strict=True)
    )
    return Domain(function.range(args), nullable, None, function.step(args, node.type))


def _possible(domain: Domain) -> tuple[Value | None, ...] | None:
    if domain.values is None:
        return None
    return domain.values + ((None,) if domain.nullable and None not in domain.values else ())


def _apply(node: Call, arguments: tuple[Value | None, ...]) -> Value | None:
    function = REGISTRY[node.function]
    if function.strict and None in arguments:
        return None
    return as_value(function.evaluate(*arguments), node.type)


def _ratio(top: Affine, bottom: Affine, level: CellConfidence) -> Range:
    """By one test where the noises are known to be independent, else by a box with half of the chance for each side."""
    found = ratio_range(top, bottom, level) if level.biases is None else None
    if found is not None:
        return found
    halves = level.at(level.beta / 2)
    return _quotient(top.enclose(halves), bottom.enclose(halves))


def _quotient(top: Domain, bottom: Domain) -> Range:
    """Quotients by divisors other than 0, which on a grid are at least one step away from it."""
    span = bottom.range
    if Fraction(0) not in span:
        return top.range.divided_by(span)
    if bottom.step is None or span.ends is None:
        return UNKNOWN
    low, high = span.ends
    sides = [Range(low, -bottom.step)] if low <= -bottom.step else []
    sides += [Range(bottom.step, high)] if high >= bottom.step else []
    return hull(top.range.divided_by(side) for side in sides) if sides else UNKNOWN


#: For comparisons x ? y: whether x < y, x = y, x > y makes them true.
_COMPARISONS = {
    "lt": (True, False, False), "le": (True, True, False), "gt": (False, False, True),
    "ge": (False, True, True), "eq": (False, True, False), "ne": (True, False, True),
}  # fmt: skip


def _compare(node: Call, domains: list[Domain]) -> Domain:
    left, right = (domain.range for domain in domains)
    nullable = any(domain.nullable for domain in domains)
    if left.ends is None or right.ends is None:
        return truth(nullable=nullable)
    may_be = (
        left.ends[0] < right.ends[1],
        left.ends[1] >= right.ends[0] and right.ends[1] >= left.ends[0],
        left.ends[1] > right.ends[0],
    )
    results = {truth for possible, truth in zip(may_be, _COMPARISONS[node.function], strict=True) if possible}
    return finite(results, BOOLEAN, nullable=nullable)


def _cast(node: Cast, domain: Domain) -> Domain:
    values = _possible(domain)
    if values is not None and len(values) <= _IMAGE:
        results = [cast_value(value, node.operand.type, node.type) for value in values]
        return finite(results, node.type, nullable=None in results)
    moved = cast(Expression(node.operand.type, domain), node.type).domain
    # A conversion that can only widen keeps the grid, by which divisors stay away from 0.
    step = domain.step if node.operand.type.is_numeric and node.type.kind is Kind.DOUBLE else moved.step
    return Domain(moved.range, moved.nullable, None, step)


def _case(node: Case, row: Row, level: CellConfidence) -> Domain:
    reachable = []
    for when, then in node.branches:
        condition = _enclose(when, row, level)
        possible = _possible(condition) or _BOTH.values or ()
        if True in possible:
            reachable.append(_enclose(then, row, level))
        if set(possible) == {True}:
            return union(reachable, node.type)
    reachable.append(_enclose(node.otherwise, row, level))
    return union(reachable, node.type)


def _among(node: InList, domain: Domain) -> Domain:
    items = [item.value for item in node.items]
    values = _possible(domain)
    if values is None:
        return truth(nullable=domain.nullable or None in items)
    results = [None if value is None or (value not in items and None in items) else value in items for value in values]
    return finite(results, BOOLEAN, nullable=None in results)
