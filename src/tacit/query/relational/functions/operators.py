"""Operators: arithmetic, rounding, roots and logarithms, LEAST, GREATEST, CLAMP, and conditions in three-valued logic.

Types: INTEGER with INTEGER gives INTEGER (NULL on overflow), except ``/`` which always gives DOUBLE. Decimals keep
exact digits where the presumed range of the result fits DECIMAL(18, s), and become DOUBLE otherwise. FLOOR, CEIL, ROUND
and TRUNC to whole numbers give INTEGER, so that they can be group keys. ``//`` truncates towards zero and ``%`` takes
the sign of the dividend.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions.registry import (
    Args,
    Function,
    Signature,
    a_condition,
    a_double,
    a_number,
    a_text,
    a_whole_number,
    anything,
    coerce,
    coerce_all,
    compared,
    constant_int,
    constant_text,
    fits_decimal,
    fixed_range,
    register,
    round_half_away,
    takes,
)
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, MAX_SCALE, UNKNOWN, Kind, Range, SqlType, Value, decimal, hull

# -- arithmetic, rounding, roots and logarithms, least, greatest, clamp

Number = int | Fraction | float


def _arithmetic(rule: Callable[[Range, Range], Range], scale: Callable[[int, int], int]) -> Signature:
    def signature(name: str, args: Args) -> tuple[Args, SqlType]:
        left, right = (a_number(name, arg) for arg in args)
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


def _own_type(name: str, args: Args) -> tuple[Args, SqlType]:
    value = a_number(name, args[0])
    return (value,), value.type


def _clamp_signature(name: str, args: Args) -> tuple[Args, SqlType]:
    value, low, high = (a_number(name, arg) for arg in args)
    ends = [end.value for end in (low, high) if isinstance(end, Literal) and end.value is not None]
    if len(ends) != 2:
        raise Refusal(
            "bounds", "CLAMP(x, lo, hi) takes its bounds as numbers written in the query, so that they are public."
        )
    if Fraction(ends[0]) > Fraction(ends[1]):  # type: ignore[arg-type]  # they are numbers
        raise Refusal("bounds", "CLAMP(x, lo, hi) needs lo <= hi.")
    return coerce_all((value, low, high), name)


def _rounding(name: str, args: Args) -> tuple[Args, SqlType]:
    value = a_number(name, args[0])
    digits = constant_int(name, args[1], -18, MAX_SCALE, "the number of digits") if len(args) == 2 else 0
    if digits <= 0 or value.type == INTEGER:
        return (value, *args[1:]), INTEGER
    if value.type.kind is Kind.DECIMAL:
        return (value, *args[1:]), decimal(min(digits, value.type.scale))
    return (value, *args[1:]), decimal(digits) if fits_decimal(value.range, digits) else DOUBLE


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


def _least(args: Args) -> Range:
    sure = [arg.range.high for arg in args if not arg.nullable and arg.range.high is not None]
    whole = hull(arg.range for arg in args if arg.values != (None,))
    return Range(whole.low, min(sure) if sure else whole.high)


def _greatest(args: Args) -> Range:
    sure = [arg.range.low for arg in args if not arg.nullable and arg.range.low is not None]
    whole = hull(arg.range for arg in args if arg.values != (None,))
    return Range(max(sure) if sure else whole.low, whole.high)


def _monotone(compute: Callable[[float], float]) -> Callable[[Args], Range]:
    """Return the range rule of an increasing function, widened by a relative 2^-40 for the library's rounding."""

    def rule(args: Args) -> Range:
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


def _power_range(args: Args) -> Range:
    base, exponent = args[0].range, args[1]
    if not isinstance(exponent, Literal) or exponent.value not in (2.0, 3.0):
        return UNKNOWN
    square = base.magnitude() * base.magnitude()
    return square if exponent.value == 2.0 else square * base


def _round_range(args: Args) -> Range:
    digits = args[1].value if len(args) == 2 and isinstance(args[1], Literal) else 0
    step = Fraction(10) ** -(digits if isinstance(digits, int) else 0)
    low, high = args[0].range.low, args[0].range.high
    return Range(
        None if low is None else math.floor(low / step) * step, None if high is None else math.ceil(high / step) * step
    )


def _int_div_range(args: Args) -> Range:
    span = args[0].range.divided_by(args[1].range)
    low = None if span.low is None else Fraction(math.trunc(span.low))
    high = None if span.high is None else Fraction(math.trunc(span.high))
    return Range(low, high)


def _mod_range(args: Args) -> Range:
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


def _binary(rule: Callable[[Range, Range], Range]) -> Callable[[Args], Range]:
    return lambda args: rule(args[0].range, args[1].range)


def _shared_step(args: Args, kind: SqlType) -> Fraction | None:
    steps = [arg.step for arg in args if arg.step is not None]
    if kind.step is not None or len(steps) < len(args):
        return kind.step
    return min(steps) if all((step / min(steps)).denominator == 1 for step in steps) else None


# -- conditions in three-valued logic

#: Most runs of % in one LIKE pattern, and most characters: matching time is proportional to both and to the text.
MAX_WILDCARDS = 6
MAX_PATTERN = 200


def _comparison(name: str, args: Args) -> tuple[Args, SqlType]:
    return coerce_all(compared(args), f"The comparison {name}")[0], BOOLEAN


def _pattern(name: str, arg: Expression) -> Expression:
    pattern = constant_text(name, arg, "the pattern")
    if len(re.findall("%+", pattern)) > MAX_WILDCARDS:
        raise Refusal("pattern", f"A LIKE pattern may hold at most {MAX_WILDCARDS} groups of %; shorten it.")
    if len(pattern) > MAX_PATTERN:
        raise Refusal("pattern", f"A LIKE pattern may have at most {MAX_PATTERN} characters; use = or CONTAINS.")
    return arg


def _like(value: str, pattern: str) -> bool:
    """Match LIKE: each text between two % is sought after the end of the previous one, so nothing is tried twice."""
    first, *others = re.split("%+", pattern)
    if not others:
        return len(value) == len(first) and _fits(value, first, 0)
    *middle, last = others
    end = len(value) - len(last)
    place = len(first)
    if place > end or not _fits(value, first, 0) or not _fits(value, last, end):
        return False
    for part in middle:
        while place + len(part) <= end and not _fits(value, part, place):
            place += 1
        place += len(part)
    return place <= end


def _fits(value: str, part: str, place: int) -> bool:
    """Whether a text without %, in which _ is any character, matches at ``place``."""
    if "_" not in part:
        return value.startswith(part, place)
    return len(value) - place >= len(part) and all(
        want in ("_", have) for want, have in zip(part, value[place:], strict=False)
    )


def _ilike(value: str, pattern: str) -> bool:
    return _like(value.lower(), pattern.lower())


_common: Signature = lambda name, args: coerce_all(args, name)  # noqa: E731
_floats, _conditions = takes(a_double, result=DOUBLE), takes(a_condition, result=BOOLEAN)
_add, _sub, _mul = Range.__add__, Range.__sub__, Range.__mul__
_like_signature = takes(a_text, _pattern, result=BOOLEAN)
_TESTS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "eq": ("=", operator.eq), "ne": ("<>", operator.ne), "lt": ("<", operator.lt), "le": ("<=", operator.le),
    "gt": (">", operator.gt), "ge": (">=", operator.ge),
}  # fmt: skip
_CURVES: dict[str, tuple[str, Callable[[float], float], str]] = {
    "cbrt": ("cube root", math.cbrt, ""), "exp": ("e to the x", math.exp, ""),
    "ln": ("natural logarithm", math.log, ""), "log2": ("binary logarithm", math.log2, ""),
    "log10": ("decimal logarithm", math.log10, "log"),
}  # fmt: skip
register(
    Function(
        "add", "x + y", 2, _arithmetic(_add, max), _safe(operator.add), _binary(_add), _add_step,
        partial=True, inner=True, sign="+",
    ),
    Function(
        "sub", "x - y", 2, _arithmetic(_sub, max), _safe(operator.sub), _binary(_sub), _add_step,
        partial=True, inner=True, sign="-",
    ),
    Function(
        "mul", "x * y", 2, _arithmetic(_mul, int.__add__), _safe(operator.mul), _binary(_mul), _mul_step,
        partial=True, inner=True, sign="*",
    ),
    Function(
        "div", "x / y as DOUBLE; NULL for y = 0", 2, _floats, _finite(operator.truediv), _binary(Range.divided_by),
        partial=True, inner=True, sign="/", also="safe_divide",
    ),
    Function(
        "int_div", "x // y, towards zero", 2, takes(a_whole_number, result=INTEGER), _int_div, _int_div_range,
        partial=True, inner=True, sign="//",
    ),
    Function(
        "mod", "remainder with the sign of x", 2,
        lambda name, args: coerce_all([a_number(name, arg) for arg in args], name), _mod, _mod_range,
        partial=True, sign="%",
    ),
    Function(
        "neg", "-x", 1, _own_type, operator.neg, lambda args: -args[0].range, _own_step,
        partial=True, inner=True, sign="-",
    ),
    Function("abs", "size of x", 1, _own_type, abs, lambda args: args[0].range.magnitude(), _own_step, partial=True),
    Function("sign", "-1, 0 or 1", 1, takes(a_number, result=INTEGER), lambda x: (x > 0) - (x < 0), fixed_range(-1, 1)),
    Function("floor", "largest whole number below", 1, _rounding, math.floor, _round_range, partial=True),
    Function(
        "ceil", "smallest whole number above", 1, _rounding, math.ceil, _round_range, partial=True, also="ceiling"
    ),
    Function(
        "round", "nearest, ties away from zero; to n digits", (1, 2), _rounding, _round, _round_range, partial=True
    ),
    Function("trunc", "towards zero; to n digits", (1, 2), _rounding, _trunc, _round_range, partial=True),
    Function("sqrt", "square root", 1, _floats, _finite(math.sqrt),
        lambda args: Range(Fraction(0), _monotone(math.sqrt)(args).high), partial=True),
    *(
        Function(name, summary, 1, _floats, _finite(curve), _monotone(curve), partial=True, also=also)
        for name, (summary, curve, also) in _CURVES.items()
    ),
    Function("power", "x to the y as DOUBLE", 2, _floats, _finite(math.pow), _power_range, partial=True, also="pow"),
    Function(
        "least", "smallest, NULLs ignored", (1, 64), _common, _extreme(min), _least, _shared_step, strict=False
    ),
    Function(
        "greatest", "largest, NULLs ignored", (1, 64), _common, _extreme(max), _greatest, _shared_step,
        strict=False,
    ),
    Function(
        "clamp", "x moved into [lo, hi]", 3, _clamp_signature, lambda x, low, high: min(max(x, low), high),
        lambda args: args[0].range.clamped(args[1].range.low, args[2].range.high),
        lambda args, kind: kind.step or args[0].step,
    ),
    *(
        Function(name, f"x {sign} y", 2, _comparison, test, inner=True, sign=sign)
        for name, (sign, test) in _TESTS.items()
    ),
    Function(
        "same", "x IS NOT DISTINCT FROM y", 2, _comparison, operator.eq,
        strict=False, never_null=True, inner=True, sign="IS DISTINCT",
    ),
    Function(
        "and", "all true", (1, 10_000), _conditions,
        lambda *args: False if False in args else None if None in args else True, strict=False, inner=True,
    ),
    Function(
        "or", "any true", (1, 10_000), _conditions,
        lambda *args: True if True in args else None if None in args else False, strict=False, inner=True,
    ),
    Function("not", "the opposite", 1, _conditions, operator.not_, inner=True),
    Function(
        "is_null", "x IS NULL", 1, takes(anything, result=BOOLEAN), lambda x: x is None,
        strict=False, never_null=True, inner=True,
    ),
    Function(
        "is_true", "x IS TRUE", 1, _conditions, lambda x: x is True,
        strict=False, never_null=True, inner=True, sign="IS TRUE",
    ),
    Function(
        "coalesce", "first that is not NULL", (1, 64), _common,
        lambda *args: next((arg for arg in args if arg is not None), None),
        lambda args: hull(arg.range for arg in args if arg.values != (None,)), strict=False, also="ifnull nvl",
    ),
    Function("like", "x LIKE pattern", 2, _like_signature, _like, cost=16, inner=True),
    Function("ilike", "x ILIKE pattern", 2, _like_signature, _ilike, cost=64, inner=True, sign="LIKE"),
)  # fmt: skip
