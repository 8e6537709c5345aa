"""Double functions that PostgreSQL lacks or that raise errors."""

from __future__ import annotations

import math

from tacit.engines.postgres.double_arithmetic import bound, number, product
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.arithmetic import library
from tacit.engines.sql.functions.lowering import Args, Lowering
from tacit.query.relational.expressions import Call

__all__ = ["NUMBERS"]

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
