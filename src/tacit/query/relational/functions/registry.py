"""Registry: functions and their arguments, casts, checked constructors of expressions, and their values in Python.

Allowed casts:

=========== =====================================================================================================
to          from
=========== =====================================================================================================
BOOLEAN     numbers (not 0), TEXT (true t yes y 1, false f no n 0)
INTEGER     BOOLEAN, DECIMAL and TEXT (half away from zero), DOUBLE (half to even)
DECIMAL     INTEGER, DECIMAL and TEXT (half away from zero), DOUBLE (its product with 10^s, half away from zero),
            BOOLEAN
DOUBLE      numbers, BOOLEAN, TEXT
TEXT        everything but DOUBLE, whose text differs from engine to engine
DATE        TIMESTAMP (its day), TEXT (``YYYY-MM-DD``)
TIMESTAMP   DATE (midnight), TEXT (``YYYY-MM-DD``, optionally ``HH:MM[:SS[.ffffff]][Z]`` after a space or T)
=========== =====================================================================================================

Text is read without the spaces around it. Numbers in text are ``[+-]digits[.digits][e[+-]digits]``; anything else is
NULL.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import (
    FALSE,
    TRUE,
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Literal,
    Reference,
    literal,
)
from tacit.query.types import (
    BOOLEAN,
    DECIMAL_DIGITS,
    DOUBLE,
    INTEGER,
    MAX_SCALE,
    NULL,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    as_value,
    decimal,
    finite,
    truth,
    union,
    with_null_key,
)

# -- registry of functions

Args = tuple[Expression, ...]
#: Rule of a function: converts its arguments and gives the type of its result, from its name and arguments.
#: Raises Refusal.
Signature = Callable[[str, Args], tuple[Args, SqlType]]
#: Converts one argument as the function requires, from the function's name and the argument. Raises Refusal.
Reader = Callable[[str, Expression], Expression]


@dataclass(frozen=True)
class Function:
    """One total function.

    Args:
        name: its id, and unless it is ``inner`` its SQL name.
        summary: a phrase that describes its result.
        count: the number of arguments, or the fewest and the most.
        signature: checks and converts arguments, and gives the type of the result.
        evaluate: its meaning; gets converted arguments, none of them None where ``strict``. May return a value that the
            result type cannot hold; that counts as NULL.
        range: the interval of results from the arguments' domains.
        step: the grid of results.
        growth: see :class:`~tacit.query.types.Domain`.
        strict: whether NULL in gives NULL out.
        partial: whether it gives NULL for some arguments that are not NULL.
        never_null: whether the result is never NULL.
        cost: work for one row, in plain operators; see :mod:`tacit.query.planning.work`.
        also: further SQL names, separated by spaces.
        inner: whether queries cannot call it by its id.
        sign: its name in messages, if not its id.
    """

    name: str
    summary: str
    count: int | tuple[int, int]
    signature: Signature
    evaluate: Callable[..., Value | None]
    range: Callable[[Args], Range] = lambda _: UNKNOWN
    step: Callable[[Args, SqlType], Fraction | None] = lambda _, kind: kind.step
    growth: Callable[[Args], int] = lambda args: max((arg.domain.growth for arg in args), default=1)
    strict: bool = True
    partial: bool = False
    never_null: bool = False
    cost: int = 1
    also: str = ""
    inner: bool = False
    sign: str = ""

    @property
    def called(self) -> str:
        """Name of the function in messages."""
        return self.sign or self.name.upper()


#: Every function by id.
REGISTRY: Final[dict[str, Function]] = {}
#: Id of every function, by each of its SQL names.
BY_SQL_NAME: Final[dict[str, str]] = {}


def register(*functions: Function) -> None:
    """Register functions; ids and SQL names are unique."""
    for function in functions:
        names = [*[function.name] * (not function.inner), *function.also.split()]
        if function.name in REGISTRY or BY_SQL_NAME.keys() & names:
            raise KeyError(f"{function.name} is registered twice")
        REGISTRY[function.name] = function
        BY_SQL_NAME.update(dict.fromkeys(names, function.name))


# -- casts, value by value, and the table of allowed casts

_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?\Z")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z")
_TIMESTAMP = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?Z?)?\Z")
_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
_NUMBERS = {Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}
_SOURCES = {
    Kind.BOOLEAN: _NUMBERS | {Kind.TEXT},
    Kind.INTEGER: _NUMBERS | {Kind.BOOLEAN, Kind.TEXT},
    Kind.DECIMAL: _NUMBERS | {Kind.BOOLEAN, Kind.TEXT},
    Kind.DOUBLE: _NUMBERS | {Kind.BOOLEAN, Kind.TEXT},
    Kind.TEXT: {Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP},
    Kind.DATE: {Kind.TIMESTAMP, Kind.TEXT},
    Kind.TIMESTAMP: {Kind.DATE, Kind.TEXT},
}


def can_cast(source: SqlType, target: SqlType) -> bool:
    """Whether the table above allows this cast."""
    return source.kind in (Kind.NULL, target.kind) or source.kind in _SOURCES.get(target.kind, set())


def cast_value(value: Value | None, source: SqlType, target: SqlType) -> Value | None:
    """Return the value as another type, or None where it cannot be cast."""
    if value is None:
        return None
    if source == target:
        return value
    match target.kind:
        case Kind.BOOLEAN:
            return _WORDS.get(value.strip(" ").lower()) if isinstance(value, str) else bool(value)
        case Kind.INTEGER:
            return as_value(_to_integer(value), target)
        case Kind.DECIMAL:
            return as_value(_to_decimal(value, target.scale), target)
        case Kind.DOUBLE:
            number = _read_number(value) if isinstance(value, str) else value
            return as_value(int(number) if isinstance(number, bool) else number, target)
        case Kind.TEXT:
            return text_of_value(value, source)
        case _:
            return _to_time(value, target)


def round_half_away(value: Fraction) -> int:
    """Return the nearest whole number, ties away from zero."""
    whole = math.floor(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def text_of_value(value: Value, kind: SqlType) -> str:
    """Return the text of a value, the same on every engine."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        return _fixed(Fraction(value), kind.scale)
    if isinstance(value, dt.datetime):
        text = value.isoformat(" ")
        return text.rstrip("0") if "." in text else text
    return value.isoformat() if isinstance(value, dt.date) else str(value)


def _fixed(value: Fraction, scale: int) -> str:
    digits = str(abs(int(value * 10**scale))).rjust(scale + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits


def _to_integer(value: Value) -> int | None:
    if isinstance(value, float):
        return round(value)
    number = _read_number(value) if isinstance(value, str) else value
    return round_half_away(Fraction(number)) if isinstance(number, (bool, int, Fraction)) else None


def _to_decimal(value: Value, scale: int) -> Fraction | None:
    number = _read_number(value) if isinstance(value, str) else value
    if isinstance(number, float):
        product = number * float(10**scale)
        return Fraction(round_half_away(Fraction(product)), 10**scale) if math.isfinite(product) else None
    if isinstance(number, (bool, int, Fraction)):
        return Fraction(round_half_away(Fraction(number) * 10**scale), 10**scale)
    return None


def _read_number(text: str) -> Fraction | None:
    stripped = text.strip(" ")
    return Fraction(stripped) if _NUMBER.match(stripped) and stripped.isascii() else None


def _to_time(value: Value, target: SqlType) -> Value | None:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return dt.datetime.combine(value, dt.time())
    if not isinstance(value, str) or not value.isascii():
        return None
    found = (_DATE if target.kind is Kind.DATE else _TIMESTAMP).match(value.strip(" "))
    if found is None:
        return None
    parts = [int(part or 0) for part in found.groups()[:6]]
    try:
        if target.kind is Kind.DATE:
            return dt.date(*parts)
        year, month, day, hour, minute, second = parts
        return dt.datetime(year, month, day, hour, minute, second, int((found.group(7) or "0").ljust(6, "0")))
    except ValueError:
        return None


# -- shared rules about argument types

#: Microseconds in a day, the factor from the ordinal of a DATE to that of a TIMESTAMP.
DAY = Fraction(86_400_000_000)


def coerce(node: Expression, kind: SqlType) -> Expression:
    """Convert implicitly: NULL to any type, a number to a wider one, DATE to TIMESTAMP, a text constant to a date."""
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
    """Return all nodes converted to their common type, and that type.

    Numbers become INTEGER or DECIMAL where they presumably fit and DOUBLE otherwise; a text constant becomes a date
    where another node is one.
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
    """Return the operands of a comparison; a text compared with numbers or conditions is converted to their type.

    A text that is compared with a number is read as a number, and with a condition as a condition, NULL where it cannot
    be read so; a condition that is compared with a number is 1 or 0.
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
    """Refuse whole numbers that a DOUBLE cannot represent: they would be equal to neighbouring numbers."""
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
    """Whether a presumed range fits DECIMAL of this scale."""
    if scale > MAX_SCALE or span.ends is None:
        return False
    limit = Fraction(10) ** (DECIMAL_DIGITS - scale)
    return -limit < span.ends[0] and span.ends[1] < limit


def fixed_range(low: int, high: int) -> Callable[[Args], Range]:
    """Return a range rule whose results lie in [low, high] for all arguments."""
    return lambda args: Range(Fraction(low), Fraction(high))  # noqa: ARG005 - one shape for all rules


def check_count(name: str, given: int, count: int | tuple[int, int]) -> None:
    """Refuse a wrong number of arguments."""
    least, most = (count, count) if isinstance(count, int) else count
    if not least <= given <= most:
        many = str(least) if least == most else f"{least} to {most}"
        plural = "" if many == "1" else "s"
        raise Refusal("arguments", f"{name} takes {many.replace('0', 'no')} argument{plural}, got {given}.")


def takes(*readers: Reader, result: SqlType) -> Signature:
    """Return a signature with one reader per argument; the last reader also reads all further arguments."""

    def signature(name: str, args: Args) -> tuple[Args, SqlType]:
        return tuple(readers[min(i, len(readers) - 1)](name, arg) for i, arg in enumerate(args)), result

    return signature


def a_number(name: str, arg: Expression) -> Expression:
    """Refuse anything but a number; a bare NULL counts as INTEGER."""
    if not arg.type.is_numeric and arg.type.kind is not Kind.NULL:
        raise Refusal("type", f"{name} needs numbers, not {arg.type}; cast the value first.")
    return coerce(arg, INTEGER) if arg.type.kind is Kind.NULL else arg


def a_double(name: str, arg: Expression) -> Expression:
    """Return a number converted to DOUBLE."""
    return coerce(a_number(name, arg), DOUBLE)


def a_text(name: str, arg: Expression) -> Expression:
    """Refuse anything but TEXT."""
    if arg.type != TEXT and arg.type.kind is not Kind.NULL:
        raise Refusal("type", f"{name} needs text, not {arg.type}; cast the value first.")
    return coerce(arg, TEXT)


def a_time(name: str, arg: Expression) -> Expression:
    """Refuse anything but a DATE or TIMESTAMP."""
    if arg.type.kind is Kind.NULL:
        return coerce(arg, TIMESTAMP)
    if not arg.type.is_temporal:
        raise Refusal("type", f"{name} needs a DATE or TIMESTAMP, not {arg.type}; cast the value first.")
    return arg


def a_timestamp(name: str, arg: Expression) -> Expression:
    """Return a time converted to TIMESTAMP."""
    return coerce(a_time(name, arg), TIMESTAMP)


def a_whole_number(name: str, arg: Expression) -> Expression:
    """Refuse anything but a whole number."""
    if arg.type.kind not in (Kind.INTEGER, Kind.NULL):
        raise Refusal("type", f"{name} takes whole numbers, not {arg.type}; FLOOR(x) makes one.")
    return coerce(arg, INTEGER)


def a_condition(name: str, arg: Expression) -> Expression:
    """Refuse anything but a condition."""
    if arg.type != BOOLEAN and arg.type.kind is not Kind.NULL:
        raise Refusal("type", f"{name} joins conditions, not {arg.type}; compare the value with something.")
    return coerce(arg, BOOLEAN)


def anything(name: str, arg: Expression) -> Expression:  # noqa: ARG001 - one shape for all readers
    """Return an argument of any type unchanged."""
    return arg


def constant_int(name: str, arg: Expression, low: int, high: int, what: str) -> int:
    """Return a whole number that is written in the query, within limits."""
    if not isinstance(arg, Literal) or type(arg.value) is not int or not low <= arg.value <= high:
        raise Refusal("arguments", f"{name}: {what} must be a whole number between {low} and {high}, written out.")
    return arg.value


def constant_text(name: str, arg: Expression, what: str, longest: int = 256, least: int = 0) -> str:
    """Return a text that is written in the query, of limited length."""
    if not isinstance(arg, Literal) or not isinstance(arg.value, str) or not least <= len(arg.value) <= longest:
        many = f"{least} to {longest}" if least else f"at most {longest}"
        raise Refusal("arguments", f"{name}: {what} must be a text of {many} characters, written out.")
    return arg.value


def whole(low: int, high: int, what: str) -> Reader:
    """Return a reader that requires a :func:`constant_int`."""

    def read(name: str, arg: Expression) -> Expression:
        constant_int(name, arg, low, high, what)
        return arg

    return read


def written(what: str, longest: int = 256, least: int = 0) -> Reader:
    """Return a reader that requires a :func:`constant_text`."""

    def read(name: str, arg: Expression) -> Expression:
        constant_text(name, arg, what, longest, least)
        return arg

    return read


# -- checked constructors of expressions

#: Finite images are computed while building up to this many combinations; public_values enumerates further for keys.
IMAGE_LIMIT = 32
#: Most copies of stored text that one value may hold.
MAX_GROWTH = 64


def call(name: str, *args: Expression) -> Expression:
    """Return the checked call of the function ``name``.

    Raises:
        Refusal: when there is no such function, or the arguments are of the wrong number or type.
    """
    function = REGISTRY[name]
    check_count(function.called, len(args), function.count)
    converted, kind = function.signature(function.called, args)
    if all(isinstance(arg, Literal) for arg in converted):
        return literal(applied(function, kind, [arg.value for arg in converted if isinstance(arg, Literal)]), kind)
    domain = _domain(function, converted, kind)
    if domain.growth > MAX_GROWTH:
        raise Refusal("too_large", f"{name} would build very long text; join fewer and shorter pieces.")
    return Call(kind, domain, name, converted)


def all_of(conditions: Sequence[Expression]) -> Expression:
    """Return the conjunction of conditions; TRUE for none."""
    return TRUE if not conditions else conditions[0] if len(conditions) == 1 else call("and", *conditions)


def cast(operand: Expression, kind: SqlType) -> Expression:
    """Return ``operand`` as another type; the operand itself when it already has it."""
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
    """Return CASE with searched conditions; branch values are converted to one type."""
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
    """Return ``operand IN (items)``: one node where all items are constants, else a disjunction."""
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


def applied(function: Function, kind: SqlType, row: Sequence[Value | None]) -> Value | None:
    """Return the value of a function with this result type for converted arguments."""
    if function.strict and None in row:
        return None
    return as_value(function.evaluate(*row), kind)


def _domain(function: Function, args: tuple[Expression, ...], kind: SqlType) -> Domain:
    nullable = not function.never_null and (function.partial or any(arg.nullable for arg in args))
    growth = function.growth(args)
    if kind != BOOLEAN and _combinations(args) <= IMAGE_LIMIT:
        return _image(lambda row: applied(function, kind, row), args, kind, nullable=nullable, growth=growth)
    outer = nullable and _follows(function, args)
    if kind == BOOLEAN:
        return with_null_key(truth(nullable=nullable)) if outer else truth(nullable=nullable)
    return Domain(function.range(args), nullable, None, function.step(args, kind), growth, outer)


def _follows(function: Function, args: tuple[Expression, ...]) -> bool:
    """Whether NULL in rows without a match may make the result NULL, so that NULL is a public key of it."""
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
    """Return the domain of all results over declared values.

    NULL inputs that were not declared add results, but not the key NULL.
    """
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


# -- evaluation of an expression for one row in python


def evaluate(node: Expression, row: Sequence[Value | None]) -> Value | None:
    """Return the value of an expression over a row of canonical Python values; NULL is None. Never raises on values."""
    match node:
        case Reference():
            return row[node.slot]
        case Literal():
            return node.value
        case Call():
            return applied(REGISTRY[node.function], node.type, [evaluate(arg, row) for arg in node.args])
        case Cast():
            return cast_value(evaluate(node.operand, row), node.operand.type, node.type)
        case Case():
            for when, then in node.branches:
                if evaluate(when, row) is True:
                    return evaluate(then, row)
            return evaluate(node.otherwise, row)
        case InList():
            return _among(evaluate(node.operand, row), [item.value for item in node.items])
        case _:
            raise TypeError(f"{type(node).__name__} has no value for a row")


def _among(value: Value | None, items: list[Value | None]) -> bool | None:
    if value is None:
        return None
    if value in items:
        return True
    return None if None in items else False
