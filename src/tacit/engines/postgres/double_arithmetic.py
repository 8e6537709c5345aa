"""Double arithmetic in PostgreSQL without overflow errors.

An error would tell about data, so every operation is guarded: a result that overflows is NULL, one that vanishes is 0,
and one that lies between is the database's own result, which is IEEE's. Most values are neither huge nor tiny, and one
comparison says so. For the others both sides are brought near 1 by powers of two, which is exact; the result of those
is rounded as the real one would be, and its size decides.

Sums of sorted doubles in PostgreSQL without overflow errors.

Sorted, a sum first falls, while values are negative, and then rises. So it overflows on the way if and only if the sum
of the negative ones does or the whole does. Both are seen on values that are 2^64 times smaller.

Double functions that PostgreSQL lacks or that raise errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.arithmetic import library
from tacit.engines.sql.functions.lowering import Args, Lowering
from tacit.query.relational.expressions import Call

DOUBLE = "DOUBLE PRECISION"
LARGEST = 1.7976931348623157e308
#: Sums of two values no larger than this do not overflow.
_HALF = 8e307
#: Products and quotients of values between these neither overflow nor vanish.
_TINY, _HUGE = 1e-150, 1e150
#: Huge and tiny values are moved by 2^±600.
_SHIFT = 600
_SHORT = 60


def number(value: float) -> str:
    """A double, exactly."""
    return f"CAST('{value!r}' AS {DOUBLE})"


def bound(body: Callable[..., str], **values: str) -> str:
    """``body`` of the names of values that are computed once: OFFSET keeps the planner from writing them out again."""
    listed = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"(SELECT {body(*values)} FROM (SELECT {listed} OFFSET 0) AS once)"


def finite_test(value: str) -> str:
    """Whether a double is finite; NaN is larger than everything here."""
    return f"({value} BETWEEN {number(-LARGEST)} AND {number(LARGEST)})"


def _both(left: str, right: str, body: Callable[[str, str], str]) -> str:
    if max(len(left), len(right)) <= _SHORT:
        return f"({body(f'({left})', f'({right})')})"
    return bound(body, v=left, w=right)


def difference(operator: str, left: str, right: str) -> str:
    """``+`` or ``-``."""

    def body(v: str, w: str) -> str:
        small = f"abs({v}) <= {number(_HALF)} AND abs({w}) <= {number(_HALF)}"
        # A half of the smallest double would vanish; it cannot make anything overflow.
        one_sided = f"abs({v}) < 1 OR abs({w}) < 1"
        halves = f"abs({v} * {number(0.5)} {operator} {w} * {number(0.5)}) < {number(2.0**1023)}"
        return " ".join(
            ["CASE", *(f"WHEN {test} THEN {v} {operator} {w}" for test in (small, one_sided, halves)), "END"]
        )

    return _both(left, right, body)


def product(left: str, right: str) -> str:
    """``*``."""
    return _both(left, right, lambda v, w: _guarded("*", v, w))


def quotient(left: str, right: str) -> str:
    """``/``; the right side is not 0."""
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
    """``%`` with the sign of the left side, exactly; the right side is not 0.

    Both are whole multiples of 2^e, for the smaller of their exponents: X and Y. One of them is below 2^53, so X mod Y
    is, and it times 2^e is a double.
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
    """The bits of a double without its sign, as BIGINT."""
    return f"CAST(CAST('x' || encode(float8send(abs({x})), 'hex') AS BIT(64)) AS BIGINT)"


def _mantissa(bits: str) -> str:
    low = f"({bits} & {2**52 - 1})"
    return f"CAST(CASE WHEN {bits} >> 52 = 0 THEN {low} ELSE {low} + {2**52} END AS NUMERIC)"


def _exponent(bits: str) -> str:
    return f"(greatest({bits} >> 52, 1) - 1075)"


#: 2^40 values no larger than this have a sum.
_SAFE = 1e290
#: Smaller values would vanish when scaled; beside a sum that nearly overflows they are nothing.
_NOTHING = 1e-200
_SCALE, _LIMIT = 2.0**-64, 2.0**960


def list_sum(values: str) -> str:
    """The sum of a sorted array from the smallest to the largest; NULL where it overflows, and for none."""
    ends = f"greatest(abs({values}[1]), abs({values}[cardinality({values})]))"
    total = f"(SELECT sum(e ORDER BY e) FROM unnest({values}) AS s(e))"
    scaled = _scaled("e")
    down = f"coalesce(sum({scaled} ORDER BY e) FILTER (WHERE e < 0), 0)"
    test = f"SELECT {down} > {number(-_LIMIT)} AND sum({scaled} ORDER BY e) BETWEEN {_open(-1)} AND {_open(1)}"
    fits = f"({test} FROM unnest({values}) AS s(e))"
    return f"CASE WHEN {ends} <= {number(_SAFE)} OR {fits} THEN {total} END"


def list_squares(values: str, mean: str) -> str:
    """The sum of (e - mean)² in that order; NULL where a square or the sum overflows, and for none."""
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
    """The last double before the limit."""
    return number(sign * (_LIMIT - _LIMIT * 2.0**-53))


#: Where EXP leaves the doubles, above and below; between the last two it is the smallest double.
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
    """A quotient of logarithms, except for powers of two, where it would be an ulp off."""

    def body(v: str) -> str:
        def nearest(r: str) -> str:
            whole = f"least(round({r}), 1023)"
            return f"CASE WHEN power({number(2.0)}, {whole}) = {v} THEN {whole} ELSE {r} END"

        return f"CASE WHEN {v} > 0 THEN {bound(nearest, r=f'ln({v}) / {number(math.log(2))}')} + {number(0.0)} END"

    return d.let(args[0], body)


def _power(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    """Its logarithm says whether it fits; where that is near the limit, half of the exponent does.

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
