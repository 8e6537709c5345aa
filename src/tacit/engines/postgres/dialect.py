"""PostgreSQL dialect, version 13 and later.

*Doubles.* An error would reveal data, so every operation is guarded: on overflow the result is NULL, on underflow 0,
and otherwise the database's own result, which follows IEEE arithmetic. Most operands are neither huge nor tiny, which
one comparison checks. Other operands are scaled near 1 by powers of two, which is exact; the scaled result is rounded
as the real one would be, and its size decides between overflow, underflow and the real result.

In sorted order, a running sum falls while values are negative, and then rises. So it overflows if and only if the sum
of the negative values or the total does. Both are checked on values scaled by 2^-64.

*Casts.* PostgreSQL has no TRY_CAST: a value that could fail is tested first, inside CASE, whose branches are evaluated
only for the rows they apply to. A branch of constants is evaluated while planning, but then so is its condition.

*Text functions* use the collation "C". The bytes are UTF-8 (other servers are refused), whose order is that of code
points. Case is mapped by Tacit's own table, because the database's mapping covers only ASCII under "C" and is the
operating system's under other collations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from tacit.engines.sql.bounding import is_power_of_two, rounded_steps
from tacit.engines.sql.dialect import Dialect, Template
from tacit.engines.sql.scalars import (
    COMMON,
    DAY,
    FIRST_MICROSECOND,
    Args,
    Lowering,
    joined,
    letter_table,
    library,
    plain,
    text_argument,
)
from tacit.query.planning.measures import Measure
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Call
from tacit.query.relational.functions.regular_expressions import written
from tacit.query.types import Kind, SqlType, Value, sort_key

DOUBLE = "DOUBLE PRECISION"
LARGEST = 1.7976931348623157e308
#: Sums of two values no larger than this do not overflow.
_HALF = 8e307
#: Products and quotients of values between these neither overflow nor vanish.
_TINY, _HUGE = 1e-150, 1e150
#: Huge and tiny values are moved by 2^±600.
_SHIFT = 600
_BRIEF_DOUBLE = 60


def number(value: float) -> str:
    """Return a constant that is exactly this double."""
    return f"CAST('{value!r}' AS {DOUBLE})"


def bound(body: Callable[..., str], **values: str) -> str:
    """Return ``body`` applied to names of values that are computed once.

    OFFSET keeps the planner from inlining them.
    """
    listed = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"(SELECT {body(*values)} FROM (SELECT {listed} OFFSET 0) AS once)"


def finite_test(value: str) -> str:
    """Return the condition that a double is finite; NaN compares larger than every number."""
    return f"({value} BETWEEN {number(-LARGEST)} AND {number(LARGEST)})"


def _both(left: str, right: str, body: Callable[[str, str], str]) -> str:
    if max(len(left), len(right)) <= _BRIEF_DOUBLE:
        return f"({body(f'({left})', f'({right})')})"
    return bound(body, v=left, w=right)


def difference(operator: str, left: str, right: str) -> str:
    """Return SQL of ``left + right`` or ``left - right`` of doubles, NULL on overflow."""

    def body(v: str, w: str) -> str:
        small = f"abs({v}) <= {number(_HALF)} AND abs({w}) <= {number(_HALF)}"
        # Half of the smallest double would underflow; it cannot make a sum overflow.
        one_sided = f"abs({v}) < 1 OR abs({w}) < 1"
        halves = f"abs({v} * {number(0.5)} {operator} {w} * {number(0.5)}) < {number(2.0**1023)}"
        return " ".join(
            ["CASE", *(f"WHEN {test} THEN {v} {operator} {w}" for test in (small, one_sided, halves)), "END"]
        )

    return _both(left, right, body)


def product(left: str, right: str) -> str:
    """Return SQL of ``left * right`` of doubles, NULL on overflow and 0 on underflow."""
    return _both(left, right, lambda v, w: _guarded("*", v, w))


def quotient(left: str, right: str) -> str:
    """Return SQL of ``left / right`` of doubles, NULL on overflow and 0 on underflow; ``right`` must not be 0."""
    return _both(left, right, lambda v, w: _guarded("/", v, w))


def _guarded(operator: str, v: str, w: str) -> str:
    near = " AND ".join(f"abs({x}) BETWEEN {number(_TINY)} AND {number(_HUGE)}" for x in (v, w))

    def body(p: str, k: str) -> str:
        over = f"{k} > 0 AND abs({p}) >= power({number(2.0)}, 1024 - {k})"
        under = f"{k} < 0 AND abs({p}) <= power({number(2.0)}, -1075 - {k})"
        return f"CASE WHEN {over} THEN NULL WHEN {under} THEN 0 ELSE {v} {operator} {w} END"

    moved = f"{_moved(v)} {operator} {_moved(w)}"
    shift = f"{_shift(v)} {'+' if operator == '*' else '-'} {_shift(w)}"
    return (
        f"CASE WHEN {near} THEN {v} {operator} {w} WHEN {v} IS NULL OR {w} IS NULL THEN NULL"
        f" WHEN {v} = 0 OR {w} = 0 THEN 0 ELSE {bound(body, p=moved, k=shift)} END"
    )


def _moved(x: str) -> str:
    down, up = number(2.0**-_SHIFT), number(2.0**_SHIFT)
    return (
        f"CASE WHEN abs({x}) > {number(_HUGE)} THEN {x} * {down} WHEN abs({x}) < {number(_TINY)} THEN {x} * {up}"
        f" ELSE {x} END"
    )


def _shift(x: str) -> str:
    return (
        f"CASE WHEN abs({x}) > {number(_HUGE)} THEN {number(_SHIFT)} WHEN abs({x}) < {number(_TINY)}"
        f" THEN {number(-_SHIFT)} ELSE {number(0.0)} END"
    )


def remainder(left: str, right: str) -> str:
    """Return SQL of the exact remainder ``left % right``, with the sign of ``left``; ``right`` must not be 0.

    With e the smaller of the two exponents, the operands are X·2^e and Y·2^e for integers X and Y. One of X and Y is
    below 2^53, so X mod Y is too, and (X mod Y)·2^e is exact as a double.
    """

    def body(v: str, w: str) -> str:
        whole = " AND ".join(f"abs({x}) <= {number(2.0**53)} AND {x} = trunc({x})" for x in (v, w))
        easy = f"CAST(CAST({v} AS BIGINT) % CAST({w} AS BIGINT) AS {DOUBLE}) + {number(0.0)}"
        return (
            f"CASE WHEN {v} IS NULL OR {w} IS NULL THEN NULL WHEN abs({v}) < abs({w}) THEN {v} WHEN {whole}"
            f" THEN {easy} ELSE {_by_bits(v, w)} END"
        )

    return _both(left, right, body)


def _by_bits(v: str, w: str) -> str:
    def joined(m: str, i: str, n: str, j: str, e: str) -> str:
        rest = f"CAST({_times(m, i, e)} % {_times(n, j, e)} AS {DOUBLE})"
        sign = f"CASE WHEN {v} < 0 THEN -1 ELSE 1 END"
        return f"{sign} * {rest} * power({number(2.0)}, CAST({e} AS {DOUBLE})) + {number(0.0)}"

    def parts(m: str, i: str, n: str, j: str) -> str:
        return bound(lambda low: joined(m, i, n, j, low), low=f"least({i}, {j})")

    def split(a: str, b: str) -> str:
        return bound(parts, m=_mantissa(a), i=_exponent(a), n=_mantissa(b), j=_exponent(b))

    return bound(split, a=_bits(v), b=_bits(w))


def _times(mantissa: str, exponent: str, lowest: str) -> str:
    return f"({mantissa} * power(CAST(2 AS NUMERIC), CAST({exponent} - {lowest} AS NUMERIC)))"


def _bits(x: str) -> str:
    """Return the bits of a double without its sign, as BIGINT."""
    return f"CAST(CAST('x' || encode(float8send(abs({x})), 'hex') AS BIT(64)) AS BIGINT)"


def _mantissa(bits: str) -> str:
    low = f"({bits} & {2**52 - 1})"
    return f"CAST(CASE WHEN {bits} >> 52 = 0 THEN {low} ELSE {low} + {2**52} END AS NUMERIC)"


def _exponent(bits: str) -> str:
    return f"(greatest({bits} >> 52, 1) - 1075)"


#: The sum of 2^40 values up to this size does not overflow.
_SAFE = 1e290
#: Smaller values would underflow when scaled; next to a sum that nearly overflows they are negligible.
_NOTHING = 1e-200
_SCALE, _LIMIT = 2.0**-64, 2.0**960


def list_sum(values: str) -> str:
    """Return the sum of a sorted array from smallest to largest; NULL on overflow and for an empty array."""
    ends = f"greatest(abs({values}[1]), abs({values}[cardinality({values})]))"
    total = f"(SELECT sum(e ORDER BY e) FROM unnest({values}) AS s(e))"
    scaled = _scaled("e")
    down = f"coalesce(sum({scaled} ORDER BY e) FILTER (WHERE e < 0), 0)"
    test = f"SELECT {down} > {number(-_LIMIT)} AND sum({scaled} ORDER BY e) BETWEEN {_open(-1)} AND {_open(1)}"
    fits = f"({test} FROM unnest({values}) AS s(e))"
    return f"CASE WHEN {ends} <= {number(_SAFE)} OR {fits} THEN {total} END"


def list_squares(values: str, mean: str) -> str:
    """Return the sum of (e - mean)² over an array, in its order; NULL on overflow and for an empty array."""
    square = bound(lambda x: product(x, x), x=difference("-", "e", mean))
    squares = f"(SELECT array_agg({square} ORDER BY e) AS a FROM unnest({values}) AS s(e))"

    def body(a: str) -> str:
        scaled = _scaled("x")
        test = f"(SELECT count(x) = count(*) AND sum({scaled} ORDER BY i) <= {_open(1)} FROM unnest({a}) WITH ORDINALITY AS s(x, i))"  # noqa: E501
        total = f"(SELECT sum(x ORDER BY i) FROM unnest({a}) WITH ORDINALITY AS s(x, i))"
        return f"CASE WHEN {test} THEN {total} END"

    return bound(body, a=squares)


def _scaled(value: str) -> str:
    return f"CASE WHEN abs({value}) < {number(_NOTHING)} THEN 0 ELSE {value} * {number(_SCALE)} END"


def _open(sign: int) -> str:
    """Return the largest double below the limit, times ``sign``."""
    return number(sign * (_LIMIT - _LIMIT * 2.0**-53))


#: EXP overflows above the first and is 0 up to the second; between the second and the third it is the smallest double.
_EXP_HIGH, _EXP_ZERO, _EXP_LEAST = 709.782712893384, -745.1332191019412, -744.1
_LEAST = 5e-324
#: A power whose logarithm is no larger than this neither overflows nor vanishes.
_SAFE_LOG = 700.0


def _exp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    return d.let(
        args[0],
        lambda v: (
            f"CASE WHEN {v} > {number(_EXP_HIGH)} THEN NULL WHEN {v} <= {number(_EXP_ZERO)} THEN {number(0.0)}"
            f" WHEN {v} < {number(_EXP_LEAST)} THEN {number(_LEAST)} ELSE exp({v}) END"
        ),
    )


def _log2(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    """Divide logarithms, except for powers of two, where the quotient would be an ulp off."""

    def body(v: str) -> str:
        def nearest(r: str) -> str:
            whole = f"least(round({r}), 1023)"
            return f"CASE WHEN power({number(2.0)}, {whole}) = {v} THEN {whole} ELSE {r} END"

        return f"CASE WHEN {v} > 0 THEN {bound(nearest, r=f'ln({v}) / {number(math.log(2))}')} + {number(0.0)} END"

    return d.let(args[0], body)


def _power(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    """Use the logarithm of the result to decide whether it fits; near the limit use the square root of the result.

    A product of roots is off by a few ulps, so that a result within 10^-14 of the largest double is taken to overflow.
    """

    def body(v: str, w: str) -> str:
        whole = f"{w} = trunc({w})"
        return (
            f"CASE WHEN {v} IS NULL OR {w} IS NULL THEN NULL WHEN {w} = 0 OR {v} = 1 THEN {number(1.0)}"
            f" WHEN {w} = 1 THEN {v} WHEN {v} = 0 THEN CASE WHEN {w} > 0 THEN {number(0.0)} END"
            f" WHEN {v} < 0 AND NOT {whole} THEN NULL"
            f" ELSE {bound(lambda g: fitting(v, w, g), g=product(w, f'ln(abs({v}))'))} END"
        )

    def fitting(v: str, w: str, log: str) -> str:
        root = f"power(abs({v}), {w} / 2)"
        # Above: x^y = r², compared with the largest double by way of r·2^-500. Below: by way of r·2^540 with 2^-1075.
        above = f"({root} * {number(2.0**-500)}) * ({root} * {number(2.0**-500)}) < {number(2.0**24 * (1 - 4e-15))}"
        below = f"({root} * {number(2.0**540)}) * ({root} * {number(2.0**540)}) > {number(2.0**5 * (1 + 4e-15))}"
        zero = f"{log} IS NOT NULL AND {log} < 0"
        return (
            f"CASE WHEN abs({log}) <= {number(_SAFE_LOG)} THEN power({v}, {w})"
            f" WHEN {log} > 0 AND {log} < 711 THEN CASE WHEN {above} THEN power({v}, {w}) END"
            f" WHEN {log} < 0 AND {log} > -747 THEN CASE WHEN {below} THEN power({v}, {w}) ELSE {number(0.0)} END"
            f" WHEN {zero} THEN {number(0.0)} WHEN {log} IS NULL AND ({w} > 0) = (abs({v}) < 1) THEN {number(0.0)} END"
        )

    return bound(body, v=args[0], w=args[1])


NUMBERS: dict[str, Lowering] = {
    "exp": _exp,
    "log2": _log2,
    "log10": library("log({0})", "{0} > 0"),
    "power": _power,
}


# The dialect ----------------------------------------------------------------------------------------------------------


COLLATION = 'COLLATE "C"'


def literal(value: str) -> str:
    """Return a text constant; ``standard_conforming_strings`` is on.

    It is cast to TEXT: polymorphic functions such as LAG refuse a constant of unknown type.
    """
    doubled = value.replace("'", "''")
    return f"(CAST('{doubled}' AS TEXT) {COLLATION})"


def cased(d: Dialect, name: str, value: str) -> str:
    """Return SQL of a text in upper (``upper``) or lower (``lower``) case; ASCII texts use the database's function."""
    old, new = map(literal, letter_table(name))

    def body(v: str) -> str:
        return (
            f"CASE WHEN octet_length({v}) = length({v}) THEN {name}({v}) ELSE translate({name}({v}), {old}, {new}) END"
        )

    return d.let(value, body)


def _ilike(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return f"({cased(d, 'lower', args[0])} LIKE {cased(d, 'lower', args[1])} ESCAPE '')"


def _pattern(node: Call) -> str:
    return literal(written(text_argument(node, 1), _point, first=1))


def _point(number: int) -> str:
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _regexp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    # The position of the match is not needed, so one pass of the automaton suffices.
    return f"({args[0]} ~ {_pattern(node)})"


def _run(template: str) -> Lowering:
    return lambda d, node, args: d.let(args[0], lambda v: template.format(v, _pattern(node), *args[2:]))


def _substring(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    return f"substr({', '.join([args[0], *(f'CAST({arg} AS INTEGER)' for arg in args[1:])])})"


TEXTS: dict[str, Lowering] = {
    "upper": lambda d, _, args: cased(d, "upper", args[0]),
    "lower": lambda d, _, args: cased(d, "lower", args[0]),
    "trim": plain("btrim({0}, ' ')"),
    "ltrim": plain("ltrim({0}, ' ')"),
    "rtrim": plain("rtrim({0}, ' ')"),
    "length": plain("CAST(length({0}) AS BIGINT)"),
    "strpos": plain("CAST(strpos({0}, {1}) AS BIGINT)"),
    "contains": plain("(strpos({0}, {1}) > 0)"),
    "starts_with": plain("starts_with({0}, {1})"),
    "ends_with": plain("(right({0}, length({1})) = {1})"),
    "substring": _substring,
    "left": plain("left({0}, CAST({1} AS INTEGER))"),
    "right": plain("right({0}, CAST({1} AS INTEGER))"),
    "lpad": plain("lpad({0}, CAST({1} AS INTEGER), {2})"),
    "rpad": plain("rpad({0}, CAST({1} AS INTEGER), {2})"),
    **dict.fromkeys(("split_part", "list_part"), plain("split_part({0}, {1}, CAST({2} AS INTEGER))")),
    "replace": plain("replace({0}, {1}, {2})"),
    "concat_ws": joined("concat_ws({0})", ", "),
    "regexp": _regexp,
    "regexp_extract": _run("coalesce(substring({0} FROM {1}), CASE WHEN {0} IS NOT NULL THEN '' END)"),
    "regexp_replace": _run("regexp_replace({0}, {1}, {2}, 'g')"),
    "join_text": joined("({0})", " || "),
    "concat": joined("concat({0})", ", "),
    # LIKE has no escape character.
    "like": plain("({0} LIKE {1} ESCAPE '')"),
    "ilike": _ilike,
}


_BIGINT = 2**63
_FENCE = " OFFSET 0"
#: Integer operands with more characters than this are named once.
_BRIEF = 48
_SHORT_SUM = 2**21
_EXACT_HALVES = 2**51
#: The smallest absolute value that rounds to infinity, and the largest that rounds to 0 (its first digits).
_INFINITE = 2**1024 - 2**970
_VANISHING = "2.47032822920623272088284396434110686182529901307162382212792841250337753635e-324"
#: Largest number of constants that are compared one after the other.
_FEW = 3
_PARTS = {"dayofweek": "dow", "dayofyear": "doy", "microsecond": "microseconds"}


def decimal_to_double(value: str, digits: str) -> str:
    """Return SQL of a NUMERIC as the nearest double; NULL for NaN and overflow.

    ``digits`` is the expression that is cast: a text or NUMERIC of the same value.
    """
    return (
        f"CASE WHEN abs({value}) >= {_INFINITE} THEN NULL WHEN abs({value}) <= {_VANISHING}"
        f" THEN {number(0.0)} ELSE CAST({digits} AS {DOUBLE}) END"
    )


class Postgres(Dialect):
    """PostgreSQL dialect: collation "C" for texts, NUMERIC for wide integers, checked operations on doubles."""

    lowerings: ClassVar[Mapping[str, Lowering]] = {**COMMON, **TEXTS, **NUMBERS}
    matches = Template("({0} ~ '^(?:{1})$')")
    trimmed = Template("btrim({0}, ' ')")
    days = Template("CAST({0} - DATE '1970-01-01' AS BIGINT)")
    day_of = Template("DATE '1970-01-01' + CAST({0} AS INTEGER)")
    # The day before the next month.
    last_day = Template("CAST(date_trunc('month', CAST({0} AS TIMESTAMP)) + INTERVAL '1 month -1 day' AS DATE)")
    collected = Template("array_agg({0} ORDER BY {0}) FILTER (WHERE {1})")
    list_size = Template("coalesce(cardinality({0}), 0)")
    xor = Template("({0} # ({1}))")
    # By way of bits.
    hexadecimal = Template("CAST(CAST('x' || {0} AS BIT(28)) AS BIGINT)")
    numbered_copies = Template("SELECT {0}, generate_series(CAST(1 AS BIGINT), {1}) AS j FROM {2}")
    wide = "NUMERIC"
    double = DOUBLE
    text_type = "TEXT"
    window_quantiles = False
    computes_again = True

    def text(self, value: str) -> str:
        """Return a text constant.

        Raises:
            Refusal: PostgreSQL has no text with NUL in it.
        """
        if "\0" in value:
            raise Refusal("literal", "PostgreSQL has no text with the character NUL in it; leave it out.")
        return literal(value)

    def derived(self, query: str) -> str:
        """Return the subquery with an alias, which versions before 16 require."""
        return f"({query}) AS q"

    def fenced(self, query: str) -> str:
        """Add OFFSET, which keeps the planner from inlining columns and from pushing down conditions."""
        return f"({self.settled(query)}) AS q"

    def settled(self, query: str) -> str:
        """Add OFFSET, which keeps the planner from flattening the query."""
        return query if query.endswith(_FENCE) else f"{query}{_FENCE}"

    def bound(self, value: str, body: Callable[[str], str]) -> str:
        """Bind the value by a subquery of one row."""
        return bound(body, v=value)

    # -- whole numbers

    def whole_type(self, largest: int) -> str:
        """Return INTEGER where its sum (an unchecked BIGINT) cannot overflow over 2^40 rows, which is fastest."""
        return "INTEGER" if largest < _SHORT_SUM else super().whole_type(largest)

    def total(self, value: str, largest: int | None = None) -> str:
        """Sum as INTEGER where that cannot overflow; PostgreSQL sums BIGINT as NUMERIC."""
        return f"sum(CAST({value} AS INTEGER))" if largest is not None and largest < _SHORT_SUM else f"sum({value})"

    def divided(self, left: str, right: str, *, wide: bool) -> str:
        return f"div({left}, {right})" if wide else f"{left} / {right}"

    def fit_integer(self, value: str) -> str:
        """Compare before the cast, which would raise an error."""
        return self.let(
            value, lambda v: f"CASE WHEN {v} BETWEEN -{_BIGINT} AND {_BIGINT - 1} THEN CAST({v} AS BIGINT) END"
        )

    def whole_operation(self, operator: str, left: str, right: str) -> str:
        """Compute in BIGINT if both operands are too small to overflow: NUMERIC takes twenty times as long."""
        most = 2**31 - 1 if operator == "*" else 2**62 - 1
        exactly = super().whole_operation

        def body(v: str, w: str) -> str:
            small = f"{v} BETWEEN -{most} AND {most} AND {w} BETWEEN -{most} AND {most}"
            quick = f"CAST({v} AS BIGINT) {operator} CAST({w} AS BIGINT)"
            return f"CASE WHEN {small} THEN {quick} ELSE {exactly(operator, v, w)} END"

        if max(len(left), len(right)) <= _BRIEF:
            return f"({body(f'({left})', f'({right})')})"
        return bound(body, v=left, w=right)

    def flag(self, condition: str, kind: str = "BIGINT") -> str:
        """Cast by way of INTEGER, the only number that a BOOLEAN can be cast to."""
        flag = f"CAST({condition} AS INTEGER)"
        return flag if kind == "INTEGER" else f"CAST({flag} AS {kind})"

    # -- doubles

    def is_finite(self, value: str) -> str:
        """Compare with the largest double."""
        return finite_test(value)

    def double_operation(self, operator: str, left: str, right: str) -> str:
        """Check operands first: PostgreSQL raises an error on overflow."""
        match operator:
            case "+" | "-":
                return difference(operator, left, right)
            case "*":
                return product(left, right)
            case "/":
                return quotient(left, right)
            case _:
                return remainder(left, right)

    def product(self, left: str, right: str) -> str:
        """Check operands first: PostgreSQL raises an error on overflow."""
        return product(left, right)

    def double_to_integer(self, value: str) -> str:
        """Compare before the cast, which rounds half to even."""
        low, high = map(number, (-(2.0**63), 2.0**63))
        return self.let(value, lambda v: f"CASE WHEN {v} >= {low} AND {v} < {high} THEN CAST({v} AS BIGINT) END")

    def double_to_wide(self, value: str) -> str:
        """Cast by way of BIGINT: a cast to NUMERIC keeps 15 digits; beyond 2^63 doubles are multiples of 2048."""
        near, far = map(number, (2.0**63, 2.0**68))

        def body(v: str) -> str:
            wide = f"CAST(CAST({v} / 64 AS BIGINT) AS NUMERIC) * 64"
            return (
                f"CASE WHEN abs({v}) < {near} THEN CAST(CAST({v} AS BIGINT) AS NUMERIC)"
                f" WHEN abs({v}) < {far} THEN {wide} END"
            )

        return self.let(value, body)

    def rounded(self, value: str) -> str:
        """Truncate, then add 1 in size if at least one half was cut off; PostgreSQL itself rounds half to even."""
        return self.let(
            value, lambda v: f"trunc({v}) + CASE WHEN abs({v} - trunc({v})) >= 0.5 THEN sign({v}) ELSE 0 END"
        )

    def double_steps(self, value: str, measure: Measure) -> str:
        """Compare with the clipping bounds before dividing, so that nothing overflows; 0 where it would underflow."""
        low, high, step = measure.low, measure.high, measure.step
        lowest, highest = (number(float(end * step)) for end in (low, high))
        largest, kind = number(LARGEST), self.whole_type(max(abs(low), abs(high)))
        exact = step.numerator == 1 and is_power_of_two(step.denominator)

        def body(v: str) -> str:
            y = f"{v} * {number(float(step.denominator))}" if exact else f"{v} / {number(float(step))}"
            if max(abs(low), abs(high)) > _EXACT_HALVES:
                # The quotient of a bound may lie slightly outside, which rounding removes below 2^51 steps.
                y = f"least(greatest({y}, {number(float(low))}), {number(float(high))})"
            tiny = f"WHEN {v} BETWEEN {number(-1e-290)} AND {number(1e-290)} THEN 0 " if step > 1 else ""
            return (
                f"CASE {tiny}WHEN {v} BETWEEN {lowest} AND {highest}"
                f" THEN {rounded_steps(self, y, measure)}"
                f" WHEN {v} > {highest} AND {v} <= {largest} THEN CAST({high} AS {kind})"
                f" WHEN {v} < {lowest} AND {v} >= -{largest} THEN CAST({low} AS {kind}) END"
            )

        return self.let(value, body)

    # -- text

    def read_integer(self, value: str) -> str:
        """Cast by way of NUMERIC, which rounds half away from zero."""
        return self.fit_integer(f"round(CAST({value} AS NUMERIC))")

    def read_decimal(self, value: str, scale: int) -> str:
        """Cast by way of NUMERIC, which rounds half away from zero."""
        return self.fit_decimal(f"round(CAST({value} AS NUMERIC) * {10**scale})")

    def read_double(self, value: str) -> str:
        """Compare as NUMERIC first: PostgreSQL raises an error for a number too large or too small for a double."""
        return bound(lambda n: decimal_to_double(n, value), n=f"CAST({value} AS NUMERIC)")

    def read_date(self, value: str) -> str:
        """Check the text first: PostgreSQL raises an error for a day that does not exist."""
        return f"CASE WHEN {self._is_day(value)} THEN CAST({value} AS DATE) END"

    def read_timestamp(self, value: str) -> str:
        """Check the text first; PostgreSQL would read a minute or second of 60 as the next one."""
        clock = f"substr({value}, 15, 1) IN ('6', '7', '8', '9') OR substr({value}, 18, 1) IN ('6', '7', '8', '9')"
        return f"CASE WHEN {self._is_day(value)} AND NOT ({clock}) THEN CAST({value} AS TIMESTAMP) END"

    def _is_day(self, value: str) -> str:
        year, month, day = (f"CAST(substr({value}, {at}, {size}) AS INTEGER)" for at, size in ((1, 4), (6, 2), (9, 2)))
        return bound(_is_day, y=year, m=month, d=day)

    def show(self, value: str, kind: SqlType) -> str:  # noqa: ARG002 - the same for all
        """Cast to text; dates are in ISO format, by the setting ``datestyle``."""
        return f"(CAST({value} AS TEXT) {COLLATION})"

    # -- times

    def microseconds(self, value: str) -> str:
        """Add up the date and time fields, all of which are exact."""

        def body(v: str) -> str:
            clock = (("hour", 3_600_000_000), ("minute", 60_000_000), ("microseconds", 1))
            parts = " + ".join(f"CAST(extract({part} FROM {v}) AS BIGINT) * {size}" for part, size in clock)
            return f"CAST(CAST({v} AS DATE) - DATE '1970-01-01' AS BIGINT) * {DAY} + {parts}"

        return self.let(value, body)

    def moment_of(self, microseconds: str) -> str:
        """Add days, and a rest that a double holds exactly."""

        def body(v: str) -> str:
            since = f"({v} + {-FIRST_MICROSECOND})"
            day = f"CAST(DATE '0001-01-01' + CAST({since} / {DAY} AS INTEGER) AS TIMESTAMP)"
            return f"{day} + CAST({since} % {DAY} AS {self.double}) * INTERVAL '1 microsecond'"

        return self.let(microseconds, body)

    def part(self, name: str, value: str, kind: SqlType) -> str:  # noqa: ARG002 - the same for both
        """Use EXTRACT, whose seconds have a fraction."""
        found = f"extract({_PARTS.get(name, name)} FROM {value})"
        if name == "microsecond":
            # Those of the minute.
            return f"(CAST({found} AS BIGINT) % 1000000)"
        return f"CAST({f'floor({found})' if name == 'second' else found} AS BIGINT)"

    def truncated(self, unit: str, value: str, kind: SqlType) -> str:
        """Truncate as TIMESTAMP: PostgreSQL would convert a DATE to a timestamp with time zone."""
        return f"CAST(date_trunc('{unit}', CAST({value} AS TIMESTAMP)) AS {self.storage(kind)})"

    def months_later(self, value: str, months: str, kind: SqlType) -> str:
        """Check the resulting month first: PostgreSQL raises an error outside its range."""

        def body(v: str, w: str) -> str:
            month = f"{self.part('year', v, kind)} * 12 + {self.part('month', v, kind)} - 1 + {w}"
            moved = f"CAST({v} + make_interval(months => CAST({w} AS INTEGER)) AS {self.storage(kind)})"
            return f"CASE WHEN {month} BETWEEN 12 AND {12 * 10_000 - 1} THEN {moved} END"

        return bound(body, v=value, w=months)

    def made_date(self, year: str, month: str, day: str) -> str:
        """Check the parts first: PostgreSQL raises an error for a day that does not exist."""

        def body(y: str, m: str, d: str) -> str:
            parts = ", ".join(f"CAST({part} AS INTEGER)" for part in (y, m, d))
            return f"CASE WHEN {y} <= 9999 AND {_is_day(y, m, d)} THEN make_date({parts}) END"

        return bound(body, y=year, m=month, d=day)

    # -- aggregates

    def list_sum(self, values: str) -> str:
        """Add the values in order."""
        return list_sum(values)

    def list_mean(self, values: str) -> str:
        """Divide the ordered sum by the length."""
        return quotient(list_sum(values), f"CAST(nullif(cardinality({values}), 0) AS {self.double})")

    def list_squares(self, values: str, mean: str, less: int) -> str:
        """Add the squares in order, then divide."""
        count = f"CAST(nullif(cardinality({values}) - {less}, 0) AS {self.double})"
        return quotient(list_squares(values, mean), count)

    def quantile(self, value: str, fraction: float, where: str, over: str) -> str:  # noqa: ARG002 - no windows
        """Use the ordered-set aggregate ``percentile_cont``, which raises no error on overflow."""
        return f"percentile_cont({self.number(fraction)}) WITHIN GROUP (ORDER BY {value}){where}"

    def extreme(self, name: str, value: str, kind: SqlType) -> str:
        """Use ``bool_and`` and ``bool_or`` for booleans."""
        if kind.kind is Kind.BOOLEAN:
            return f"{'bool_and' if name == 'min' else 'bool_or'}({value})"
        return f"{name}({value})"

    # -- choosing

    def position(self, value: str, items: Sequence[str], kind: SqlType) -> str:
        """Use ``array_position`` in an array of constants."""
        listed = f"CAST(ARRAY[{', '.join(items)}] AS {self.storage(kind)}[])"
        return f"(array_position({listed}, {value}) - 1)"

    def place_among(self, value: str, values: Sequence[Value | None], kind: SqlType) -> str:
        """Write a tree of comparisons, which is faster than a search of an array."""
        known = [(item, at) for at, item in enumerate(values) if item is not None]
        if not known:
            return self.position(value, [self.constant(item, kind) for item in values], kind)
        known.sort(key=lambda pair: sort_key(pair[0], kind))

        def tree(v: str, part: list[tuple[Value, int]]) -> str:
            if len(part) <= _FEW:
                arms = [f"WHEN {v} = {self.constant(item, kind)} THEN {at}" for item, at in part]
                return f"CASE {' '.join(arms)} END"
            half = len(part) // 2
            first = self.constant(part[half][0], kind)
            return f"CASE WHEN {v} < {first} THEN {tree(v, part[:half])} ELSE {tree(v, part[half:])} END"

        def body(v: str) -> str:
            if None not in values:
                return tree(v, known)
            return f"CASE WHEN {v} IS NULL THEN {values.index(None)} ELSE {tree(v, known)} END"

        return self.let(value, body)


def _is_day(y: str, m: str, d: str) -> str:
    """Return the condition that year, month and day (integers) are a date from the year 1 on."""
    leap = f"{y} % 4 = 0 AND ({y} % 100 <> 0 OR {y} % 400 = 0)"
    last = f"CASE WHEN {m} = 2 THEN CASE WHEN {leap} THEN 29 ELSE 28 END WHEN {m} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
    return f"{y} >= 1 AND {m} BETWEEN 1 AND 12 AND {d} BETWEEN 1 AND {last}"


POSTGRES = Postgres()
