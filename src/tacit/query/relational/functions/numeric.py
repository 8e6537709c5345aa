"""Arithmetic, rounding, roots and logarithms, LEAST, GREATEST, CLAMP.

Types: INTEGER with INTEGER gives INTEGER (NULL on overflow), except ``/`` which always gives DOUBLE. Decimals keep
exact digits where the presumed range of the result fits DECIMAL(18, s), and become DOUBLE otherwise. FLOOR, CEIL, ROUND
and TRUNC to whole numbers give INTEGER, so that they can be group keys. ``//`` truncates towards zero and ``%`` takes
the sign of the dividend.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions.casts import round_half_away
from tacit.query.relational.functions.registry import Args, Function, register
from tacit.query.relational.functions.signatures import (
    arity,
    coerce,
    coerce_all,
    constant_int,
    fits_decimal,
    fixed_range,
    numbers,
    one_number,
)
from tacit.query.types import DOUBLE, INTEGER, MAX_SCALE, UNKNOWN, Kind, Range, SqlType, Value, decimal, hull

Number = int | Fraction | float
_TWO = 2


def _arithmetic(
    name: str, rule: Callable[[Range, Range], Range], scale: Callable[[int, int], int]
) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, _TWO)
        left, right = numbers(name, args)
        if left.type == INTEGER and right.type == INTEGER:
            return (left, right), INTEGER
        digits = scale(left.type.scale, right.type.scale)
        exact = Kind.DOUBLE not in (left.type.kind, right.type.kind) and digits <= MAX_SCALE
        if exact and all(
            fits_decimal(span, digits) for span in (left.range, right.range, rule(left.range, right.range))
        ):
            kinds = [decimal(side.type.scale) for side in (left, right)]
            return (coerce(left, kinds[0]), coerce(right, kinds[1])), decimal(digits)
        return (coerce(left, DOUBLE), coerce(right, DOUBLE)), DOUBLE

    return signature


def _floats(name: str, count: int) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, count)
        return tuple(coerce(arg, DOUBLE) for arg in numbers(name, args)), DOUBLE

    return signature


def _integers(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, _TWO)
        if any(arg.type.kind not in (Kind.INTEGER, Kind.NULL) for arg in args):
            raise Refusal("type", f"{name} divides whole numbers; use / or FLOOR(x / y) for others.")
        return tuple(coerce(arg, INTEGER) for arg in args), INTEGER

    return signature


def _extremes(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1, 64)
        return coerce_all(args, name.upper())

    return signature


def _clamp_signature(args: Args) -> tuple[Args, SqlType]:
    arity("clamp", args, 3)
    value, low, high = numbers("clamp", args)
    ends = [end.value for end in (low, high) if isinstance(end, Literal) and end.value is not None]
    if len(ends) != _TWO:
        raise Refusal(
            "bounds", "CLAMP(x, lo, hi) takes its bounds as numbers written in the query, so that they are public."
        )
    if _exact(ends[0]) > _exact(ends[1]):
        raise Refusal("bounds", "CLAMP(x, lo, hi) needs lo <= hi.")
    return coerce_all((value, low, high), "CLAMP")


def _exact(value: Value) -> Fraction:
    return Fraction(value) if isinstance(value, (int, float, Fraction)) else Fraction(0)


def _rounding(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1, 2 if name in ("round", "trunc") else 1)
        (value,) = numbers(name, args[:1])
        digits = constant_int(name, args[1], -18, MAX_SCALE, "the number of digits") if len(args) == _TWO else 0
        if digits <= 0:
            return (value, *args[1:]), INTEGER
        if value.type == INTEGER:
            return (value, *args[1:]), INTEGER
        exact = value.type.kind is Kind.DECIMAL or fits_decimal(value.range, digits)
        return (value, *args[1:]), decimal(
            min(digits, value.type.scale) if value.type.kind is Kind.DECIMAL else digits
        ) if exact else DOUBLE

    return signature


def _finite(compute: Callable[..., float]) -> Callable[..., Value | None]:
    def evaluate(*args: float) -> Value | None:
        try:
            result = compute(*args)
        except (ValueError, OverflowError, ZeroDivisionError):
            return None
        return result if math.isfinite(result) else None

    return evaluate


def _int_div(left: int, right: int) -> int | None:
    if right == 0:
        return None
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _mod(left: Number, right: Number) -> Number | None:
    if right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(left, right)
    rest = abs(Fraction(left)) % abs(Fraction(right))
    signed = rest if left >= 0 else -rest
    return int(signed) if signed.denominator == 1 else signed


def _safe(compute: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Value | None]:
    def evaluate(left: Number, right: Number) -> Value | None:
        try:
            return compute(left, right)
        except OverflowError:
            return None

    return evaluate


def _round(value: Number, digits: int = 0) -> Value:
    if isinstance(value, float):
        return _round_double(value, digits)
    places = Fraction(10) ** digits
    return _whole_or_fraction(Fraction(round_half_away(Fraction(value) * places)) / places, digits)


def _round_double(value: float, digits: int) -> Value:
    if digits <= 0:
        return int(round_half_away(Fraction(value) / 10**-digits) * 10**-digits)
    scaled = value * 10.0**digits
    return Fraction(round_half_away(Fraction(scaled)), 10**digits) if math.isfinite(scaled) else value


def _whole_or_fraction(value: Fraction, digits: int) -> Value:
    return int(value) if digits <= 0 or value.denominator == 1 else value


def _trunc(value: Number, digits: int = 0) -> Value:
    places = Fraction(10) ** digits
    return _whole_or_fraction(Fraction(int(Fraction(value) * places)) / places, digits)


def _extreme(choose: Callable[[list[Any]], Value]) -> Callable[..., Value | None]:
    def evaluate(*args: Value | None) -> Value | None:
        known = [arg for arg in args if arg is not None]
        return choose(known) if known else None

    return evaluate


def _least(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    sure = [arg.range.high for arg in args if not arg.nullable and arg.range.high is not None]
    whole = hull(arg.range for arg in args if arg.values != (None,))
    return Range(whole.low, min(sure) if sure else whole.high)


def _greatest(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    sure = [arg.range.low for arg in args if not arg.nullable and arg.range.low is not None]
    whole = hull(arg.range for arg in args if arg.values != (None,))
    return Range(max(sure) if sure else whole.low, whole.high)


def _monotone(compute: Callable[[float], float]) -> Callable[[Args, SqlType], Range]:
    """The range of an increasing function, widened by a relative 2^-40 for the rounding of the library."""

    def rule(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
        slack = Fraction(1, 2**40)
        ends: list[Fraction | None] = []
        for end, sign in ((args[0].range.low, -1), (args[0].range.high, 1)):
            value = None if end is None else _attempt(compute, end)
            ends.append(None if value is None else value + sign * slack * (abs(value) + slack))
        return Range(*ends)

    return rule


def _attempt(compute: Callable[[float], float], end: Fraction) -> Fraction | None:
    try:
        return Fraction(compute(float(end)))
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def _power_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    base, exponent = args[0].range, args[1]
    if not isinstance(exponent, Literal) or exponent.value not in (2.0, 3.0):
        return UNKNOWN
    square = base.magnitude() * base.magnitude()
    return square if exponent.value == 2.0 else square * base


def _round_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    digits = args[1].value if len(args) == _TWO and isinstance(args[1], Literal) else 0
    step = Fraction(10) ** -(digits if isinstance(digits, int) else 0)
    low, high = args[0].range.low, args[0].range.high
    return Range(
        None if low is None else math.floor(low / step) * step, None if high is None else math.ceil(high / step) * step
    )


def _int_div_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    span = args[0].range.divided_by(args[1].range)
    low = None if span.low is None else Fraction(math.trunc(span.low))
    high = None if span.high is None else Fraction(math.trunc(span.high))
    return Range(low, high)


def _mod_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    size = args[1].range.magnitude().high
    if size is None:
        return UNKNOWN
    least = min(Fraction(1), size) if args[0].type == INTEGER and args[1].type == INTEGER else Fraction(0)
    low, high = args[0].range.low, args[0].range.high
    return Range(
        Fraction(0) if low is not None and low >= 0 else least - size,
        Fraction(0) if high is not None and high <= 0 else size - least,
    )


def _add_step(args: Args, kind: SqlType) -> Fraction | None:
    left, right = args[0].step, args[1].step
    if left is None or right is None:
        return kind.step
    return kind.step or Fraction(
        math.gcd(left.numerator * right.denominator, right.numerator * left.denominator),
        left.denominator * right.denominator,
    )


def _mul_step(args: Args, kind: SqlType) -> Fraction | None:
    left, right = args[0].step, args[1].step
    if left is None or right is None:
        return kind.step
    product = left * right
    return product if max(product.numerator, product.denominator) < 2**64 else kind.step


def _own_step(args: Args, kind: SqlType) -> Fraction | None:
    return args[0].step or kind.step


def _clamp_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    return args[0].range.clamped(args[1].range.low, args[2].range.high)


def _clamp(value: Number, low: Number, high: Number) -> Number:
    return min(max(value, low), high)


def _sqrt_range(args: Args, kind: SqlType) -> Range:
    inside = _monotone(math.sqrt)((args[0],), kind)
    return Range(Fraction(0), inside.high)


def _sign(value: Number) -> int:
    return (value > 0) - (value < 0)


def _binary(rule: Callable[[Range, Range], Range]) -> Callable[[Args, SqlType], Range]:
    return lambda args, kind: rule(args[0].range, args[1].range)  # noqa: ARG005


def register_all() -> None:
    """Enter the functions of this module."""
    add, sub, mul = Range.__add__, Range.__sub__, Range.__mul__
    for function in (
        Function(
            "add", "x + y", _arithmetic("+", add, max), _safe(lambda x, y: x + y), _binary(add), _add_step, partial=True
        ),
        Function(
            "sub", "x - y", _arithmetic("-", sub, max), _safe(lambda x, y: x - y), _binary(sub), _add_step, partial=True
        ),
        Function(
            "mul",
            "x * y",
            _arithmetic("*", mul, int.__add__),
            _safe(lambda x, y: x * y),
            _binary(mul),
            _mul_step,
            partial=True,
        ),
        Function(
            "div",
            "x / y as DOUBLE; NULL for y = 0",
            _floats("/", 2),
            _finite(lambda x, y: x / y),
            _binary(Range.divided_by),
            partial=True,
        ),
        Function("int_div", "x // y, towards zero", _integers("//"), _int_div, _int_div_range, partial=True),
        Function("mod", "remainder with the sign of x", _mod_signature, _mod, _mod_range, partial=True),
        Function("neg", "-x", one_number("-"), lambda x: -x, lambda args, _: -args[0].range, _own_step, partial=True),
        Function(
            "abs",
            "size of x",
            one_number("abs"),
            abs,
            lambda args, _: args[0].range.magnitude(),
            _own_step,
            partial=True,
        ),
        Function("sign", "-1, 0 or 1", one_number("sign", INTEGER), _sign, fixed_range(-1, 1)),
        Function("floor", "largest whole number below", _rounding("floor"), math.floor, _round_range, partial=True),
        Function("ceil", "smallest whole number above", _rounding("ceil"), math.ceil, _round_range, partial=True),
        Function(
            "round", "nearest, ties away from zero; to n digits", _rounding("round"), _round, _round_range, partial=True
        ),
        Function("trunc", "towards zero; to n digits", _rounding("trunc"), _trunc, _round_range, partial=True),
        Function("sqrt", "square root", _floats("sqrt", 1), _finite(math.sqrt), _sqrt_range, partial=True),
        Function("cbrt", "cube root", _floats("cbrt", 1), _finite(math.cbrt), _monotone(math.cbrt), partial=True),
        Function("exp", "e to the x", _floats("exp", 1), _finite(math.exp), _monotone(math.exp), partial=True),
        Function("ln", "natural logarithm", _floats("ln", 1), _finite(math.log), _monotone(math.log), partial=True),
        Function(
            "log2", "binary logarithm", _floats("log2", 1), _finite(math.log2), _monotone(math.log2), partial=True
        ),
        Function(
            "log10", "decimal logarithm", _floats("log10", 1), _finite(math.log10), _monotone(math.log10), partial=True
        ),
        Function("power", "x to the y as DOUBLE", _floats("power", 2), _finite(math.pow), _power_range, partial=True),
        Function(
            "least",
            "smallest, NULLs ignored",
            _extremes("least"),
            _extreme(min),
            _least,
            _shared_step,
            strict=False,
        ),
        Function(
            "greatest",
            "largest, NULLs ignored",
            _extremes("greatest"),
            _extreme(max),
            _greatest,
            _shared_step,
            strict=False,
        ),
        Function("clamp", "x moved into [lo, hi]", _clamp_signature, _clamp, _clamp_range, _clamp_step),
    ):
        register(function)


def _mod_signature(args: Args) -> tuple[Args, SqlType]:
    arity("%", args, _TWO)
    return coerce_all(numbers("%", args), "%")


def _shared_step(args: Args, kind: SqlType) -> Fraction | None:
    return kind.step or _finest(args)


def _finest(args: tuple[Expression, ...]) -> Fraction | None:
    steps = [arg.step for arg in args]
    known = [step for step in steps if step is not None]
    finest = min(known) if known and len(known) == len(steps) else None
    return finest if finest is not None and all((step / finest).denominator == 1 for step in known) else None


def _clamp_step(args: Args, kind: SqlType) -> Fraction | None:
    return kind.step or args[0].step
