"""Sums of sorted doubles in PostgreSQL without overflow errors.

Sorted, a sum first falls, while values are negative, and then rises. So it overflows on the way if and only if the sum
of the negative ones does or the whole does. Both are seen on values that are 2^64 times smaller.
"""

from __future__ import annotations

from tacit.engines.postgres.double_arithmetic import bound, number, product
from tacit.engines.postgres.double_arithmetic import difference as minus

__all__ = ["list_squares", "list_sum"]

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
    square = bound(lambda x: product(x, x), x=minus("-", "e", mean))
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
