"""Expressions as SQL: total casts, one lowering per function of the registry, and ranges that need no check.

A cast gives NULL for values that cannot be read or do not fit.

A proven range of an expression is an interval that its value lies in for any data. If the range fits the type, no
overflow check is written. Declared bounds prove no range, since data may lie outside; CLAMP, constants, and sums and
products of these do.

The ends of a range are numbers as they are stored: integers, decimals without their point, doubles. The extremes of a
sum or product of integers are at ends of the ranges of its operands; the same holds for doubles, because rounding to
the nearest is monotone. NULL is in every range.

A lowering takes the dialect, the call and the SQL of its arguments. It returns SQL that cannot raise for any row and
gives the same value as the registry's Python function: operations that could fail are TRY_CAST, computed in a wider
type and compared, or guarded by CASE, whose branches are evaluated only for the rows they apply to. ``COMMON`` holds
the lowerings that need only standard SQL and the methods of a dialect; each database has its own for texts.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Final

from tacit.core.errors import InternalError
from tacit.engines.sql.dialect import DECIMAL_LIMIT, Dialect, column
from tacit.query.relational.expressions import Call, Case, Cast, Expression, InList, Literal, Reference
from tacit.query.relational.functions.dates import DAYS, MONTHS, NUMBERS, FormatPart, format_parts
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.relational.functions.regular_expressions import written
from tacit.query.types import BOOLEAN, DATE, INTEGER, TIMESTAMP, Kind, SqlType

if TYPE_CHECKING:
    from tacit.engines.sql.dialect import Dialect


Args = list[str]
Lowering = Callable[["Dialect", Call, Args], str]


def plain(template: str) -> Lowering:
    """Return a lowering that puts its arguments into a template with ``{0}``, ``{1}`` and so on."""
    return lambda d, node, args: template.format(*args)  # noqa: ARG005


def joined(template: str, separator: str) -> Lowering:
    """Return a lowering that puts all of its arguments, joined by a separator, into a template."""
    return lambda d, node, args: template.format(separator.join(args))  # noqa: ARG005


def patterned(template: str) -> Lowering:
    """Return a lowering whose second argument is a regular expression, for libraries with numeric letter escapes."""
    return lambda d, node, args: template.format(args[0], _pattern(d, node), *args[2:])


def _pattern(d: Dialect, node: Call) -> str:
    return d.text(written(text_argument(node, 1), lambda point: f"\\x{{{point:x}}}"))


@cache
def letter_table(name: str) -> tuple[str, str]:
    """Return the characters beyond ASCII that ``upper`` or ``lower`` changes, and what each becomes."""
    compute = REGISTRY[name].evaluate
    changed = {char: new for char in map(chr, range(128, sys.maxunicode + 1)) if (new := compute(char)) != char}
    return "".join(changed), "".join(map(str, changed.values()))


def whole_argument(node: Call, index: int) -> int:
    """Return an argument that the registry has checked is an integer constant; 0 if it is omitted."""
    if index >= len(node.args):
        return 0
    arg = node.args[index]
    if not isinstance(arg, Literal) or not isinstance(arg.value, int):
        raise TypeError(f"argument {index} of {node.function} is not a constant number")
    return int(arg.value)


def text_argument(node: Call, index: int) -> str:
    """Return an argument that the registry has checked is a text constant."""
    arg = node.args[index]
    if not isinstance(arg, Literal) or not isinstance(arg.value, str):
        raise TypeError(f"argument {index} of {node.function} is not a constant text")
    return arg.value


def word_argument(node: Call, index: int) -> str:
    """Return a text constant argument in lower case."""
    return text_argument(node, index).lower()


# Conditions: SQL's three-valued logic is the database's own -----------------------------------------------------------


CONDITIONS: dict[str, Lowering] = {
    "eq": plain("({0} = {1})"),
    "ne": plain("({0} <> {1})"),
    "lt": plain("({0} < {1})"),
    "le": plain("({0} <= {1})"),
    "gt": plain("({0} > {1})"),
    "ge": plain("({0} >= {1})"),
    "same": plain("({0} IS NOT DISTINCT FROM {1})"),
    "and": joined("({0})", " AND "),
    "or": joined("({0})", " OR "),
    "not": plain("(NOT {0})"),
    "is_null": plain("({0} IS NULL)"),
    "is_true": plain("({0} IS TRUE)"),
    "coalesce": joined("coalesce({0})", ", "),
}


# Casts, expressions, and ranges that need no check --------------------------------------------------------------------


_NUMBER = r"[+-]?([0-9]{1,40}(\.[0-9]{0,40})?|\.[0-9]{1,40})([eE][+-]?[0-9]{1,3})?"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMESTAMP = _DATE + r"([ T]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?Z?)?"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def cast_sql(d: Dialect, value: str, source: SqlType, target: SqlType) -> str:
    """Return SQL that casts ``value`` from type ``source`` to type ``target``."""
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
    """Return SQL of ``value`` / ``divisor`` rounded half away from zero; both integers, and 2·value within range."""
    if divisor == 1:
        return value
    half = divisor // 2

    def away(v: str) -> str:
        down = d.divided(f"(-{v} + {half})", str(divisor), wide=wide)
        up = d.divided(f"({v} + {half})", str(divisor), wide=wide)
        return f"CASE WHEN {v} < 0 THEN -({down}) ELSE {up} END"

    return d.let(value, away)


def _reading(d: Dialect, value: str, pattern: str, read: Callable[[str], str]) -> str:
    """Return SQL that applies ``read`` to the trimmed text if it matches ``pattern``, else NULL."""
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
    """Return SQL of an expression; ``name`` gives the SQL of the column in a slot."""
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
        # The proven range rules out overflow and inexact doubles.
        if target.kind is Kind.DECIMAL:
            return value if target.scale == source.scale else f"(({value}) * {10 ** (target.scale - source.scale)})"
        whole = f"CAST({value} AS {d.double})"
        return f"({whole} / CAST({10**source.scale} AS {d.double}))" if source.scale else whole
    return cast_sql(d, value, source, target)


def condition_sql(d: Dialect, node: Expression, name: Callable[[int], str] = column) -> str:
    """Return SQL of a condition; one of type NULL becomes a BOOLEAN NULL, as some databases refuse an untyped NULL."""
    return d.constant(None, BOOLEAN) if node.type.kind is Kind.NULL else scalar_sql(d, node, name)


#: Lower and upper end of an interval; ends of integer ranges are Python integers, and so exact.
ProvenRange = tuple[float, float]

_BIGINT: Final = 2**63 - 1
#: Integers up to this size are exact as doubles.
EXACT_DOUBLES: Final = 2**53
_OPERATIONS: Final[dict[str, Callable[[float, float], float]]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
}


def proven_range(node: Expression) -> ProvenRange | None:
    """Return the interval that a numeric expression lies in; None if it is unknown or exceeds the type."""
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
    """Whether a range is known and contained in [low, high]."""
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
        # Correctly rounded: one division of two exact doubles.
        return found[0] / unit, found[1] / unit
    if node.type.kind is Kind.DECIMAL and node.type.scale >= source.scale:
        return _fitting([end * 10 ** (node.type.scale - source.scale) for end in found], node.type)
    return None


def _clamp_range(node: Call) -> ProvenRange | None:
    low, high = (proven_range(arg) for arg in node.args[1:])
    if low is None or high is None or any(arg.type != node.type for arg in node.args):
        return None
    # The upper bound is applied last, and wins if the bounds are in the wrong order.
    return min(low[0], high[0]), high[1]


def _arithmetic_range(node: Call) -> ProvenRange | None:
    sides = []
    # The right operand of a long sum is the shorter one; if its range is unknown, the left one is not examined.
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


# Numbers: whole and decimal ones in a wide type and then checked, doubles in IEEE arithmetic --------------------------


def _fitted(d: Dialect, value: str, kind: SqlType) -> str:
    return d.fit_decimal(value) if kind.kind is Kind.DECIMAL else d.fit_integer(value)


def _sum(operator: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:
        if node.type.kind is Kind.DOUBLE:
            return _of_doubles(d, operator, node, args)
        factors = [10 ** (node.type.scale - side.type.scale) for side in node.args]
        if proven_range(node) is not None:
            left, right = (f"({arg})" if by == 1 else f"({arg}) * {by}" for arg, by in zip(args, factors, strict=True))
            return f"({left} {operator} {right})"
        if node.type.kind is Kind.INTEGER:
            return d.whole_operation(operator, args[0], args[1])
        left, right = (d.huge(arg, by) for arg, by in zip(args, factors, strict=True))
        return _fitted(d, f"({left}) {operator} ({right})", node.type)

    return lower


def _of_doubles(d: Dialect, operator: str, node: Call, args: Args) -> str:
    if d.ieee_doubles and proven_range(node) is not None:
        return f"(({args[0]}) {operator} ({args[1]}) + {d.number(0.0)})"
    return d.double_operation(operator, args[0], args[1])


def _product(d: Dialect, node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return _of_doubles(d, "*", node, args)
    if proven_range(node) is not None:
        return f"(({args[0]}) * ({args[1]}))"
    if node.type.kind is Kind.INTEGER:
        return d.whole_operation("*", args[0], args[1])
    return _fitted(d, f"{d.huge(args[0])} * {d.huge(args[1])}", node.type)


def _divisor(d: Dialect, value: str) -> str:
    return d.let(value, lambda v: f"CASE WHEN {v} <> 0 THEN {v} END")


def _quotient(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    return d.double_operation("/", args[0], _divisor(d, args[1]))


def _whole_quotient(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return d.fit_integer(d.divided(d.huge(args[0]), _divisor(d, d.huge(args[1])), wide=True))


def _rest(d: Dialect, node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return d.double_operation("%", args[0], _divisor(d, args[1]))
    return f"CAST({d.huge(args[0])} % {_divisor(d, d.huge(args[1]))} AS BIGINT)"


def _signed(template: str) -> Lowering:
    """Return the lowering of -x or ABS(x)."""

    def lower(d: Dialect, node: Call, args: Args) -> str:
        if node.type.kind is Kind.DOUBLE:
            return d.finite(template.format(args[0]))
        if node.type.kind is Kind.DECIMAL and node.args[0].type == node.type:
            # It always fits: the range of a DECIMAL is symmetric about 0.
            return template.format(args[0])
        return _fitted(d, template.format(d.huge(args[0])), node.type)

    return lower


def _towards(direction: str) -> Lowering:
    """Return the lowering of FLOOR or CEIL, whose result is an integer."""

    def lower(d: Dialect, node: Call, args: Args) -> str:
        kind = node.args[0].type
        if kind.kind is Kind.DOUBLE:
            return d.double_to_integer(f"{direction}({args[0]})")
        if kind.scale == 0:
            return args[0]
        unit = 10**kind.scale
        # Integer division truncates towards zero; a remainder of the other sign means one step further.
        step, test = ("- 1", "<") if direction == "floor" else ("+ 1", ">")
        return d.let(
            args[0],
            lambda v: f"{d.divided(v, str(unit), wide=False)} + CASE WHEN {v} % {unit} {test} 0 THEN {step} ELSE 0 END",
        )

    return lower


def _digits(d: Dialect, node: Call, args: Args, *, cut: bool) -> str:
    digits, kind = whole_argument(node, 1), node.args[0].type
    if kind.kind is Kind.DOUBLE:
        return _digits_of_double(d, node, args[0], digits, cut=cut)
    value = _divided(d, args[0], 10 ** (kind.scale - digits), cut=cut) if digits < kind.scale else args[0]
    return value if digits >= 0 else d.fit_integer(d.huge(value, 10**-digits))


def _divided(d: Dialect, value: str, divisor: int, *, cut: bool) -> str:
    wide = d.huge(value)
    quotient = d.divided(wide, str(divisor), wide=True) if cut else rounded_quotient(d, wide, divisor, wide=True)
    return f"CAST({quotient} AS BIGINT)"


def _digits_of_double(d: Dialect, node: Call, value: str, digits: int, *, cut: bool) -> str:
    def nearest(number: str) -> str:
        return d.cut(number) if cut else d.rounded(number)

    if digits == 0:
        return d.double_to_integer(nearest(value))
    if digits < 0:
        # Half of a power of ten is whole, so the fraction of the value decides nothing.
        unit = 10**-digits
        whole = d.double_to_wide(d.cut(value))
        cut_off = d.divided(f"({whole})", str(unit), wide=True) if cut else rounded_quotient(d, whole, unit, wide=True)
        return d.fit_integer(f"({cut_off}) * {unit}")
    factor = f"CAST({10**digits} AS {d.double})"
    if node.type.kind is Kind.DECIMAL:
        return d.fit_decimal(d.double_to_wide(nearest(d.product(value, factor))))
    return d.let(
        value,
        lambda v: (
            f"CASE WHEN {d.is_finite(d.product(v, factor))} THEN {nearest(d.product(v, factor))} / {factor}"
            f" + CAST(0 AS {d.double}) ELSE {v} END"
        ),
    )


def library(template: str, domain: str | None = None) -> Lowering:
    """Return the lowering of a function of doubles; outside ``domain`` it gives NULL and is not evaluated."""

    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
        if domain is None:
            return d.finite(template.format(*args))
        return d.finite(d.let(args[0], lambda v: f"CASE WHEN {domain.format(v)} THEN {template.format(v)} END"))

    return lower


def _clamp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    low, high = args[1:]
    return d.let(args[0], lambda v: f"CASE WHEN {v} IS NOT NULL THEN least(greatest({v}, {low}), {high}) END")


_ARITHMETIC: dict[str, Lowering] = {
    "add": _sum("+"),
    "sub": _sum("-"),
    "mul": _product,
    "div": _quotient,
    "int_div": _whole_quotient,
    "mod": _rest,
    "neg": _signed("(-({0}))"),
    "abs": _signed("abs({0})"),
    "sign": plain("CAST(sign({0}) AS BIGINT)"),
    "floor": _towards("floor"),
    "ceil": _towards("ceil"),
    "round": lambda d, node, args: _digits(d, node, args, cut=False),
    "trunc": lambda d, node, args: _digits(d, node, args, cut=True),
    "sqrt": library("sqrt({0})", "{0} >= 0"),
    "cbrt": library("cbrt({0})"),
    "exp": library("exp({0})"),
    "ln": library("ln({0})", "{0} > 0"),
    "log2": library("log2({0})", "{0} > 0"),
    "log10": library("log10({0})", "{0} > 0"),
    "power": library("pow({0}, {1})"),
    "least": joined("least({0})", ", "),
    "greatest": joined("greatest({0})", ", "),
    "clamp": _clamp,
}


# Dates and timestamps: arithmetic on days and microseconds since 1970, then a check of the years ----------------------


_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAYS = (dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() - _EPOCH)
#: Microseconds in a day.
DAY = 86_400_000_000
_MICROSECONDS = (_DAYS[0] * DAY, (_DAYS[1] + 1) * DAY - 1)
#: The beginning of the year 1.
FIRST_MICROSECOND = _MICROSECONDS[0]
#: More than any date can be moved by and stay within the years 1 to 9999.
_FAR_DAYS, _FAR_MONTHS = 4_000_000, 120_000
_SIZES = {"day": DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def from_days(d: Dialect, value: str) -> str:
    """Return SQL of the DATE that is a number of days since 1970-01-01; NULL outside the years 1 to 9999."""
    low, high = _DAYS
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {d.day_of(v)} END")


def from_microseconds(d: Dialect, value: str) -> str:
    """Return SQL of the TIMESTAMP at microseconds since 1970-01-01; NULL outside the years 1 to 9999."""
    low, high = _MICROSECONDS
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {d.moment_of(v)} END")


def within_years(d: Dialect, value: str, kind: SqlType) -> str:
    """Return SQL of a date or timestamp, NULL if it is infinite or outside the years 1 to 9999."""
    ends = (dt.date.min, dt.date.max) if kind == DATE else (dt.datetime.min, dt.datetime.max)
    low, high = (d.constant(end, kind) for end in ends)
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {v} END")


def _near(d: Dialect, value: str, far: int) -> str:
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN -{far} AND {far} THEN {v} END")


def _part(name: str) -> Lowering:
    return lambda d, node, args: d.part(name, args[0], node.args[0].type)


def _clock(name: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:
        if node.args[0].type == DATE:
            return f"CASE WHEN {args[0]} IS NOT NULL THEN CAST(0 AS BIGINT) END"
        return d.part(name, args[0], node.args[0].type)

    return lower


def _difference(d: Dialect, node: Call, args: Args) -> str:
    unit, kind = word_argument(node, 0), node.args[1].type
    first, second = args[1:]
    if unit in _MONTHS:
        months = (_month_number(d, side, _MONTHS[unit], kind) for side in (second, first))
        return f"({' - '.join(months)})"
    if kind == DATE:
        return f"(({d.days(second)} - {d.days(first)}) * {DAY // _SIZES[unit]})"
    # Relative to the year 1 no number is negative, and integer division is a floor.
    ends = (
        d.divided(f"({d.microseconds(side)} + {-FIRST_MICROSECOND})", str(_SIZES[unit]), wide=False)
        for side in (second, first)
    )
    return f"({' - '.join(ends)})"


def _month_number(d: Dialect, value: str, size: int, kind: SqlType) -> str:
    return d.let(
        value,
        lambda v: d.divided(
            f"({d.part('year', v, kind)} * 12 + {d.part('month', v, kind)} - 1)", str(size), wide=False
        ),
    )


def _add_days(d: Dialect, node: Call, args: Args) -> str:
    count = _near(d, args[1], _FAR_DAYS)
    if node.type == DATE:
        return from_days(d, f"{d.days(args[0])} + {count}")
    return from_microseconds(d, f"{d.microseconds(args[0])} + {count} * {DAY}")


def _add_seconds(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    return from_microseconds(d, f"{d.microseconds(args[0])} + {_near(d, args[1], _FAR_DAYS * 86_400)} * 1000000")


def _epoch(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    # A DECIMAL with six decimal digits is stored without its point, so its seconds are stored as microseconds.
    return d.microseconds(args[0])


def _formatted(d: Dialect, node: Call, args: Args) -> str:
    kind, parts = node.args[0].type, format_parts(text_argument(node, 1))

    def body(v: str) -> str:
        return " || ".join(_piece(d, part, v, kind) for part in parts) or d.text("")

    return d.let(args[0], lambda v: f"CASE WHEN {v} IS NOT NULL THEN {body(v)} END")


def _piece(d: Dialect, part: FormatPart, value: str, kind: SqlType) -> str:
    if not part.sign:
        return d.text(part.text)
    if part.sign in ("B", "b", "A", "a"):
        names, name = (MONTHS, "month") if part.sign in "Bb" else (DAYS, "isodow")
        shown = (word if part.sign in "BA" else word[:3] for word in names)
        arms = " ".join(f"WHEN {number} THEN {d.text(word)}" for number, word in enumerate(shown, 1))
        return f"CASE {d.part(name, value, kind)} {arms} END"
    name, digits = NUMBERS[part.sign]
    shown_number = d.show(d.part(name, value, kind), INTEGER)
    return f"lpad({shown_number}, {digits}, {d.text('0')})" if part.padded and digits > 1 else shown_number


_DATE_PARTS = ("year", "isoyear", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear")
_TIMES: dict[str, Lowering] = {
    **{name: _part(name) for name in _DATE_PARTS},
    **{name: _clock(name) for name in ("hour", "minute", "second", "microsecond")},
    "date_trunc": lambda d, node, args: d.truncated(word_argument(node, 0), args[1], node.type),
    "date_diff": _difference,
    "add_days": _add_days,
    "add_seconds": _add_seconds,
    "add_months": lambda d, node, args: d.months_later(args[0], _near(d, args[1], _FAR_MONTHS), node.type),
    "epoch": _epoch,
    "seconds_between": lambda d, _, args: f"({d.microseconds(args[0])} - {d.microseconds(args[1])})",
    "epoch_us": _epoch,
    "strftime": _formatted,
    "make_date": lambda d, _, args: d.made_date(*args),
    "last_day": lambda d, node, args: d.last_day(args[0], node.args[0].type),
}


COMMON: dict[str, Lowering] = {**_ARITHMETIC, **CONDITIONS, **_TIMES}
