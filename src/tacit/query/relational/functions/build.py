"""Checked constructors of expressions: types converted, constants folded, domains computed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import (
    FALSE,
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Literal,
    literal,
)
from tacit.query.relational.functions import dates, logic, numeric, regular_expressions, text, time_formats
from tacit.query.relational.functions.casts import can_cast, cast_value
from tacit.query.relational.functions.registry import REGISTRY, Function
from tacit.query.relational.functions.signatures import coerce_all, compared
from tacit.query.types import (
    BOOLEAN,
    TEXT,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    as_value,
    finite,
    truth,
    union,
    with_null_key,
)

#: Finite images are computed while building up to this many combinations; keys.py enumerates further where it matters.
IMAGE_LIMIT = 32
#: Copies of stored text that one value may hold.
MAX_GROWTH = 64

for _module in (numeric, logic, text, dates, time_formats, regular_expressions):
    _module.register_all()


def call(name: str, *args: Expression) -> Expression:
    """The function ``name`` of some arguments.

    Raises:
        Refusal: when there is no such function, or the arguments are of the wrong number or type.
    """
    function = REGISTRY[name]
    converted, kind = function.signature(args)
    if all(isinstance(arg, Literal) for arg in converted):
        return literal(_apply(function, kind, tuple(_value(arg) for arg in converted)), kind)
    domain = _domain(function, converted, kind)
    if domain.growth > MAX_GROWTH:
        raise Refusal("too_large", f"{name} would build very long text; join fewer and shorter pieces.")
    return Call(kind, domain, name, converted)


def cast(operand: Expression, kind: SqlType) -> Expression:
    """``operand`` as another type; the operand itself when it already has it."""
    if operand.type == kind:
        return operand
    if not can_cast(operand.type, kind):
        hint = "; cast to DECIMAL first" if operand.type.kind is Kind.DOUBLE and kind == TEXT else ""
        raise Refusal("type", f"{operand.type} cannot be cast to {kind}{hint}.")
    if isinstance(operand, Literal):
        return literal(cast_value(operand.value, operand.type, kind), kind)
    source, known = operand.type, operand.domain
    if known.values is not None and len(known.values) <= IMAGE_LIMIT:
        return Cast(
            kind, _image(lambda row: cast_value(row[0], source, kind), (operand,), kind, nullable=True), operand
        )
    return Cast(
        kind,
        Domain(
            _cast_range(known.range, source, kind), True, None, kind.step or known.step, known.growth, known.null_is_key
        ),
        operand,
    )


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """CASE with searched conditions; branch values become one type."""
    for when, _ in branches:
        if when.type not in (BOOLEAN,) and when.type.kind is not Kind.NULL:
            raise Refusal("type", f"A condition of CASE must be true or false, not {when.type}.")
    values, kind = coerce_all((*(then for _, then in branches), otherwise), "CASE")
    arms = [(when, then) for (when, _), then in zip(branches, values, strict=False) if when != FALSE]
    arms = [(when, then) for when, then in arms if not (isinstance(when, Literal) and when.value is None)]
    if arms and isinstance(arms[0][0], Literal) and arms[0][0].value is True:
        return arms[0][1]
    if not arms:
        return values[-1]
    reachable = [*(then for _, then in arms), values[-1]]
    return Case(kind, union((part.domain for part in reachable), kind), tuple(arms), values[-1])


def in_list(operand: Expression, items: Sequence[Expression]) -> Expression:
    """``operand IN (items)``: one node where all items are constants, else a disjunction."""
    if not items:
        raise Refusal("arguments", "IN needs at least one value in its list.")
    operand, *items = compared((operand, *items))
    (wanted, *converted), _ = coerce_all((operand, *items), "IN")
    constants = [item for item in converted if isinstance(item, Literal)]
    if len(constants) < len(converted) or isinstance(wanted, Literal):
        comparisons = [call("eq", operand, item) for item in items]
        return comparisons[0] if len(comparisons) == 1 else call("or", *comparisons)
    distinct = tuple(dict.fromkeys(constants))
    nullable = wanted.nullable or any(item.value is None for item in distinct)
    domain = truth(nullable=nullable)
    return InList(BOOLEAN, with_null_key(domain) if wanted.domain.null_is_key else domain, wanted, distinct)


def _value(node: Expression) -> Value | None:
    return node.value if isinstance(node, Literal) else None


def _apply(function: Function, kind: SqlType, row: tuple[Value | None, ...]) -> Value | None:
    if function.strict and None in row:
        return None
    return as_value(function.evaluate(*row), kind)


def _domain(function: Function, args: tuple[Expression, ...], kind: SqlType) -> Domain:
    nullable = not function.never_null and (function.partial or any(arg.nullable for arg in args))
    growth = function.growth(args)
    if kind != BOOLEAN and _combinations(args) <= IMAGE_LIMIT:
        return _image(lambda row: _apply(function, kind, row), args, kind, nullable=nullable, growth=growth)
    outer = nullable and _follows(function, args)
    if kind == BOOLEAN:
        return with_null_key(truth(nullable=nullable)) if outer else truth(nullable=nullable)
    return Domain(function.range(args, kind), nullable, None, function.step(args, kind), growth, outer)


def _follows(function: Function, args: tuple[Expression, ...]) -> bool:
    """Whether a row without a match may give NULL because its arguments are."""
    if function.name == "coalesce" and not all(arg.nullable for arg in args):
        return False
    return any(arg.domain.null_is_key for arg in args)


def _combinations(args: tuple[Expression, ...]) -> float:
    return math.prod(math.inf if arg.values is None else len(arg.values) + 1 for arg in args)


def _image(
    apply: Callable[[tuple[Value | None, ...]], Value | None],
    args: tuple[Expression, ...],
    kind: SqlType,
    *,
    nullable: bool,
    growth: int = 1,
) -> Domain:
    """All results over declared values; NULL inputs that were not declared add results, but not the key NULL."""
    declared = [arg.values or () for arg in args]
    possible = [
        values + ((None,) if arg.nullable and None not in values else ())
        for arg, values in zip(args, declared, strict=True)
    ]
    results = {apply(row) for row in itertools.product(*declared)}
    results |= {result for result in map(apply, itertools.product(*possible)) if result is not None}
    found = finite(results, kind, nullable=nullable, growth=growth)
    return with_null_key(found) if None in results and any(arg.domain.null_is_key for arg in args) else found


def _cast_range(known: Range, source: SqlType, target: SqlType) -> Range:
    if source.is_numeric and target.is_numeric:
        return known if target.kind is Kind.DOUBLE else _outward(known, target)
    if source.kind is Kind.BOOLEAN and target.is_numeric:
        return Range(Fraction(0), Fraction(1))
    day = 86_400_000_000
    if source.kind is Kind.DATE and target.kind is Kind.TIMESTAMP:
        return known * Range(Fraction(day), Fraction(day))
    if source.kind is Kind.TIMESTAMP and target.kind is Kind.DATE and known.ends is not None:
        return Range(*(Fraction(end // day) for end in known.ends))
    return UNKNOWN


def _outward(known: Range, target: SqlType) -> Range:
    step = target.step or Fraction(1)
    low = None if known.low is None else math.floor(known.low / step) * step
    high = None if known.high is None else math.ceil(known.high / step) * step
    return Range(low, high)
