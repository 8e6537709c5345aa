"""Expressions as SQL: total casts, one lowering per function id, and ranges that need no check.

A cast gives NULL for values that cannot be read or do not fit.

A proven range of numbers follows from an expression alone, whatever the data holds. Inside it nothing can overflow, and
no check is written. Declared bounds are no proof, since data may lie outside; CLAMP, constants, and sums and products
of these are.

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

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import DECIMAL_LIMIT, Dialect, column
from tacit.query.relational.expressions import Call, Case, Cast, Expression, InList, Literal, Reference
from tacit.query.types import BOOLEAN, DATE, TIMESTAMP, Kind, SqlType

_NUMBER = r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMESTAMP = _DATE + r"([ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?)?"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def cast_sql(d: Dialect, value: str, source: SqlType, target: SqlType) -> str:
    """``value``, which has type ``source``, as ``target``."""
    if source == target:
        return value
    if source.kind is Kind.NULL:
        return f"CAST(NULL AS {d.storage(target)})"
    match target.kind:
        case Kind.BOOLEAN:
            return _to_boolean(d, value, source)
        case Kind.INTEGER:
            return _to_integer(d, value, source)
        case Kind.DECIMAL:
            return _to_decimal(d, value, source, target.scale)
        case Kind.DOUBLE:
            return _to_double(d, value, source)
        case Kind.TEXT:
            return _to_text(d, value, source)
        case Kind.DATE:
            return _to_date(d, value, source)
        case _:
            return _to_timestamp(d, value, source)


def rounded_quotient(d: Dialect, value: str, divisor: int, *, wide: bool) -> str:
    """``value`` / ``divisor``, ties away from zero; both whole, and twice the value within range."""
    if divisor == 1:
        return value
    half = divisor // 2

    def away(v: str) -> str:
        down = d.divided(f"(-{v} + {half})", str(divisor), wide=wide)
        up = d.divided(f"({v} + {half})", str(divisor), wide=wide)
        return f"CASE WHEN {v} < 0 THEN -({down}) ELSE {up} END"

    return d.let(value, away)


def _reading(d: Dialect, value: str, pattern: str, read: Callable[[str], str]) -> str:
    """``read`` of the text without spaces around it, where it has the form."""
    return d.let(d.trimmed(value), lambda v: f"CASE WHEN {d.matches(v, pattern)} THEN {read(v)} END")


def _to_boolean(d: Dialect, value: str, source: SqlType) -> str:
    if source.kind is not Kind.TEXT:
        return f"({value} <> 0)"
    word = f"lower({d.trimmed(value)})"
    true, false = (f"({', '.join(map(d.text, words))})" for words in (_TRUE, _FALSE))
    return d.let(word, lambda v: f"CASE WHEN {v} IN {true} THEN TRUE WHEN {v} IN {false} THEN FALSE END")


def _to_integer(d: Dialect, value: str, source: SqlType) -> str:
    if source.kind is Kind.TEXT:
        return _reading(d, value, _NUMBER, d.read_integer)
    if source.kind is Kind.DECIMAL:
        return rounded_quotient(d, value, 10**source.scale, wide=False)
    return d.flag(value) if source == BOOLEAN else d.double_to_integer(value)


def _to_decimal(d: Dialect, value: str, source: SqlType, scale: int) -> str:
    if source.kind is Kind.TEXT:
        return _reading(d, value, _NUMBER, lambda v: d.read_decimal(v, scale))
    if source.kind is Kind.DOUBLE:
        return d.fit_decimal(d.double_to_wide(d.rounded(d.product(value, f"CAST({10**scale} AS {d.double})"))))
    if source.kind is Kind.DECIMAL and scale < source.scale:
        return rounded_quotient(d, value, 10 ** (source.scale - scale), wide=False)
    whole = d.flag(value) if source == BOOLEAN else value
    return d.fit_decimal(d.huge(whole, 10 ** (scale - source.scale)))


def _to_double(d: Dialect, value: str, source: SqlType) -> str:
    if source.kind is Kind.TEXT:
        return d.finite(_reading(d, value, _NUMBER, d.read_double))
    if source.kind is not Kind.DECIMAL or source.scale == 0:
        return f"CAST({d.flag(value) if source == BOOLEAN else value} AS {d.double})"
    point = f"CAST({10**source.scale} AS {d.double})"
    # Beyond 2^53 the conversion of the integer would round once and the division again.
    return d.let(
        value,
        lambda v: (
            f"CASE WHEN {v} BETWEEN -{EXACT_DOUBLES} AND {EXACT_DOUBLES} THEN CAST({v} AS {d.double}) / {point}"
            f" ELSE {d.read_double(_decimal_text(d, v, source.scale))} END"
        ),
    )


def _to_text(d: Dialect, value: str, source: SqlType) -> str:
    if source == BOOLEAN:
        yes, no = d.text("true"), d.text("false")
        return d.let(value, lambda v: f"CASE WHEN {v} THEN {yes} WHEN NOT {v} THEN {no} END")
    if source.kind is Kind.DECIMAL and source.scale:
        return d.let(value, lambda v: _decimal_text(d, v, source.scale))
    return d.show(value, source)


def _decimal_text(d: Dialect, value: str, scale: int) -> str:
    shown = d.show(f"abs({value})", SqlType(Kind.INTEGER))
    digits = f"lpad({shown}, greatest({scale + 1}, CAST(length({shown}) AS INTEGER)), {d.text('0')})"
    sign = f"CASE WHEN {value} < 0 THEN {d.text('-')} ELSE {d.text('')} END"
    whole = f"substring({digits}, 1, CAST(length({digits}) AS INTEGER) - {scale})"
    return f"({sign} || {whole} || {d.text('.')} || right({digits}, {scale}))"


def _to_date(d: Dialect, value: str, source: SqlType) -> str:
    if source == TIMESTAMP:
        return f"CAST({value} AS DATE)"
    return _reading(d, value, _DATE, d.read_date)


def _to_timestamp(d: Dialect, value: str, source: SqlType) -> str:
    if source == DATE:
        return f"CAST({value} AS {d.timestamp_type})"
    return _reading(d, value, _TIMESTAMP, lambda text: d.read_timestamp(f"replace({text}, 'Z', '')"))


def scalar_sql(d: Dialect, node: Expression, name: Callable[[int], str] = column) -> str:
    """An expression over columns that ``name`` spells."""
    match node:
        case Reference():
            return name(node.slot)
        case Literal():
            return d.constant(node.value, node.type)
        case Cast():
            return _converted(d, node, scalar_sql(d, node.operand, name))
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


def _converted(d: Dialect, node: Cast, value: str) -> str:
    source, target = node.operand.type, node.type
    if source != target and proven_range(node) is not None:
        # Neither too large nor beyond what doubles hold.
        if target.kind is Kind.DECIMAL:
            return value if target.scale == source.scale else f"(({value}) * {10 ** (target.scale - source.scale)})"
        whole = f"CAST({value} AS {d.double})"
        return f"({whole} / CAST({10**source.scale} AS {d.double}))" if source.scale else whole
    return cast_sql(d, value, source, target)


def condition_sql(d: Dialect, node: Expression, name: Callable[[int], str] = column) -> str:
    """The same where a truth value must stand: NULL without a type is not one everywhere."""
    return d.constant(None, BOOLEAN) if node.type.kind is Kind.NULL else scalar_sql(d, node, name)


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
            return _cast_range(node)
        case Call(function="clamp"):
            return _clamp_range(node)
        case Call(function="add" | "sub" | "mul"):
            return _arithmetic_range(node)
        case _:
            return None


def lies_within(found: ProvenRange | None, low: float, high: float) -> bool:
    """Whether a range is known and has nothing outside two numbers."""
    return found is not None and low <= found[0] and found[1] <= high


def _held(node: Literal) -> float:
    value = Fraction(node.value)  # type: ignore[arg-type]
    return float(value) if node.type.kind is Kind.DOUBLE else int(value * 10**node.type.scale)


def _cast_range(node: Cast) -> ProvenRange | None:
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


def _clamp_range(node: Call) -> ProvenRange | None:
    low, high = (proven_range(arg) for arg in node.args[1:])
    if low is None or high is None or any(arg.type != node.type for arg in node.args):
        return None
    # The upper end is taken last, and wins where the ends are in the wrong order.
    return min(low[0], high[0]), high[1]


def _arithmetic_range(node: Call) -> ProvenRange | None:
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
