"""Double arithmetic in PostgreSQL without overflow errors.

An error would tell about data, so every operation is guarded: what would overflow is NULL, what would vanish is 0, and
whatever lies between is the database's own result, which is IEEE's. Most values are neither huge nor tiny, and one
comparison says so. For the others both sides are brought near 1 by powers of two, which is exact; the result of those
is rounded as the real one would be, and its size decides.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["DOUBLE", "LARGEST", "bound", "difference", "finite_test", "number", "product", "quotient", "remainder"]

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
