"""Shared rules about argument types: how many, of which kind, and what they become."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Cast, Expression, Literal, literal
from tacit.query.relational.functions.casts import cast_value
from tacit.query.relational.functions.registry import Args, Signature
from tacit.query.types import (
    BOOLEAN,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    MAX_SCALE,
    NULL,
    TEXT,
    TIMESTAMP,
    Domain,
    Kind,
    Range,
    SqlType,
    decimal,
)

#: Microseconds of a day: what one day is worth when a DATE becomes a TIMESTAMP.
DAY = Fraction(86_400_000_000)


def coerce(node: Expression, kind: SqlType) -> Expression:
    """An implicit conversion: NULL to anything, a number to a wider one, DATE to TIMESTAMP, text constants to dates."""
    if node.type == kind:
        return node
    if isinstance(node, Literal):
        return literal(cast_value(node.value, node.type, kind), kind)
    known = node.domain
    scale = Range(DAY, DAY) if node.type.kind is Kind.DATE else None
    span = known.range * scale if scale is not None else known.range
    return Cast(
        kind, Domain(span, known.nullable, None, kind.step or known.step, known.growth, known.null_is_key), node
    )


def coerce_all(nodes: Sequence[Expression], where: str) -> tuple[Args, SqlType]:
    """All of them in their common type.

    Numbers become INTEGER or DECIMAL where they presumably fit and DOUBLE otherwise; a text constant beside a date is
    read as one.
    """
    kinds = {node.type for node in nodes if node.type.kind is not Kind.NULL}
    if not kinds:
        return tuple(nodes), NULL
    if len(kinds) == 1:
        kind = kinds.pop()
    elif all(kind.is_numeric for kind in kinds):
        kind = _common_number(nodes, kinds)
    elif all(kind.is_temporal for kind in kinds):
        kind = TIMESTAMP
    else:
        kind = _dates_beside_text(nodes, kinds, where)
    return tuple(coerce(node, kind) for node in nodes), kind


def compared(nodes: Sequence[Expression]) -> Args:
    """Values that are compared with each other, those of other types than numbers and conditions read as such.

    A text beside a number is read as a number, one beside a condition as a condition, NULL where it is none; a
    condition beside a number is 1 or 0.
    """
    kinds = {node.type for node in nodes if node.type.kind is not Kind.NULL}
    others = kinds - {TEXT}
    if kinds == others or not others:
        mixed = BOOLEAN in kinds and any(kind.is_numeric for kind in kinds)
        return tuple(_as_number(node) if mixed and node.type == BOOLEAN else node for node in nodes)
    target = BOOLEAN if others == {BOOLEAN} else DOUBLE if all(kind.is_numeric for kind in others) else None
    if target == DOUBLE:
        _check_digits(nodes)
    return tuple(_read_as(node, target) if target and node.type == TEXT else node for node in nodes)


def _check_digits(nodes: Sequence[Expression]) -> None:
    """Refuse whole numbers that a DOUBLE does not hold: it would be equal to its neighbours too."""
    for value in (node.value for node in nodes if isinstance(node, Literal)):
        whole = isinstance(value, int) or (isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,40}\s*", value))
        if whole and float(int(value)) != int(value):  # type: ignore[arg-type]
            raise Refusal(
                "literal",
                f"{str(value)[:40]} has too many digits to be compared, as a number, with a text: write both sides as "
                "text, or both as numbers.",
            )


def _as_number(condition: Expression) -> Expression:
    if isinstance(condition, Literal):
        return literal(cast_value(condition.value, BOOLEAN, INTEGER), INTEGER)
    known, one = condition.domain, Fraction(1)
    return Cast(
        INTEGER, Domain(Range(0 * one, one), known.nullable, None, one, known.growth, known.null_is_key), condition
    )


def _read_as(text: Expression, target: SqlType) -> Expression:
    if not isinstance(text, Literal):
        return Cast(target, Domain(nullable=True, growth=text.domain.growth, null_is_key=text.domain.null_is_key), text)
    value, what = cast_value(text.value, TEXT, target), "true or false" if target == BOOLEAN else "a number"
    if value is None and text.value is not None:
        raise Refusal("literal", f"{str(text.value)[:40]!r} cannot be read as {what}, with which it is compared.")
    return literal(value, target)


def _common_number(nodes: Sequence[Expression], kinds: set[SqlType]) -> SqlType:
    if any(kind.kind is Kind.DOUBLE for kind in kinds):
        return DOUBLE
    scale = max(kind.scale for kind in kinds)
    return decimal(scale) if all(fits_decimal(node.range, scale) for node in nodes if node.type != NULL) else DOUBLE


def _dates_beside_text(nodes: Sequence[Expression], kinds: set[SqlType], where: str) -> SqlType:
    others = kinds - {TEXT}
    constants = all(isinstance(node, Literal) for node in nodes if node.type == TEXT)
    if constants and others and all(kind.is_temporal for kind in others):
        kind = others.pop() if len(others) == 1 else TIMESTAMP
        wrong = [
            n for n in nodes if isinstance(n, Literal) and n.type == TEXT and cast_value(n.value, TEXT, kind) is None
        ]
        if not wrong:
            return kind
        raise Refusal("literal", f"{_quoted(wrong[0])} is not a {kind}; write it as YYYY-MM-DD.")
    names = " and ".join(sorted(str(kind) for kind in kinds))
    raise Refusal("type", f"{where} mixes {names}; cast one side explicitly.")


def _quoted(node: Literal) -> str:
    text = str(node.value)
    return repr(text if len(text) <= 40 else text[:40] + "…")


def fits_decimal(span: Range, scale: int) -> bool:
    """Whether a presumed range fits DECIMAL of that scale."""
    if scale > MAX_SCALE or span.ends is None:
        return False
    limit = Fraction(10) ** (DECIMAL_DIGITS - scale)
    return -limit < span.ends[0] and span.ends[1] < limit


def fixed_range(low: int, high: int) -> Callable[[Args, SqlType], Range]:
    """A rule for ranges: results lie between two numbers, whatever the arguments are."""
    return lambda args, kind: Range(Fraction(low), Fraction(high))  # noqa: ARG005 - one shape for all rules


def arity(name: str, args: Args, least: int, most: int | None = None) -> None:
    """Refuse a wrong number of arguments."""
    upper = least if most is None else most
    if not least <= len(args) <= upper:
        count = str(least) if upper == least else f"{least} to {upper}"
        raise Refusal(
            "arguments", f"{name.upper()} takes {count} argument{'' if count == '1' else 's'}, got {len(args)}."
        )


def numbers(name: str, args: Args) -> Args:
    """Refuse anything but numbers; a bare NULL counts as INTEGER."""
    for arg in args:
        if not arg.type.is_numeric and arg.type.kind is not Kind.NULL:
            raise Refusal("type", f"{name.upper()} needs numbers, not {arg.type}; cast the value first.")
    return tuple(coerce(arg, INTEGER) if arg.type.kind is Kind.NULL else arg for arg in args)


def one_number(name: str, result: SqlType | None = None) -> Signature:
    """One number; the result has the type given, or the argument's own."""

    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        (value,) = numbers(name, args)
        if result is DOUBLE:
            value = coerce(value, DOUBLE)
        return (value,), result or value.type

    return signature


def texts(name: str, count: int, result: SqlType) -> Signature:
    """``count`` texts."""

    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, count)
        return tuple(a_text(name, arg) for arg in args), result

    return signature


def a_text(name: str, arg: Expression) -> Expression:
    """Refuse anything but text."""
    if arg.type not in (TEXT, NULL):
        raise Refusal("type", f"{name.upper()} needs text, not {arg.type}; cast the value first.")
    return coerce(arg, TEXT)


def one_time(name: str, result: SqlType) -> Signature:
    """One DATE or TIMESTAMP."""

    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return (a_time(name, args[0]),), result

    return signature


def a_time(name: str, arg: Expression) -> Expression:
    """Refuse anything but a date or a timestamp."""
    if arg.type.kind is Kind.NULL:
        return coerce(arg, TIMESTAMP)
    if not arg.type.is_temporal:
        raise Refusal("type", f"{name.upper()} needs a DATE or TIMESTAMP, not {arg.type}; cast the value first.")
    return arg


def constant_int(name: str, arg: Expression, low: int, high: int, what: str) -> int:
    """A whole number written in the query, within limits."""
    if not isinstance(arg, Literal) or type(arg.value) is not int or not low <= arg.value <= high:
        raise Refusal(
            "arguments", f"{name.upper()}: {what} must be a whole number between {low} and {high}, written out."
        )
    return arg.value


def constant_text(name: str, arg: Expression, what: str, longest: int = 256) -> str:
    """A text written in the query, of limited length."""
    if not isinstance(arg, Literal) or not isinstance(arg.value, str) or len(arg.value) > longest:
        raise Refusal(
            "arguments", f"{name.upper()}: {what} must be a text of at most {longest} characters, written out."
        )
    return arg.value


def booleans(name: str, args: Args) -> Args:
    """Refuse anything but conditions."""
    for arg in args:
        if arg.type != BOOLEAN and arg.type.kind is not Kind.NULL:
            raise Refusal("type", f"{name.upper()} joins conditions, not {arg.type}; compare the value with something.")
    return tuple(coerce(arg, BOOLEAN) for arg in args)
