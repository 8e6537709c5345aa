"""Numbers: whole and decimal ones in 128 bits and then checked, doubles in IEEE arithmetic, not finite is NULL."""

from __future__ import annotations

from tacit.engines.duckdb.casts import huge, rounded_quotient
from tacit.engines.duckdb.functions.shape import Args, Lowering, whole_argument
from tacit.engines.duckdb.spelling import finite, fit_decimal, fit_integer, let
from tacit.query.expressions import Call
from tacit.query.types import Kind, SqlType

__all__ = ["LOWERINGS"]


def _fitted(value: str, kind: SqlType) -> str:
    return fit_decimal(value) if kind.kind is Kind.DECIMAL else fit_integer(value)


def _sum(operator: str) -> Lowering:
    def lower(node: Call, args: Args) -> str:
        if node.type.kind is Kind.DOUBLE:
            return finite(f"{args[0]} {operator} {args[1]}")
        left, right = (
            huge(arg, 10 ** (node.type.scale - side.type.scale)) for arg, side in zip(args, node.args, strict=True)
        )
        return _fitted(f"({left}) {operator} ({right})", node.type)

    return lower


def _product(node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return finite(f"{args[0]} * {args[1]}")
    return _fitted(f"{huge(args[0])} * {huge(args[1])}", node.type)


def _divisor(value: str) -> str:
    return let(value, lambda v: f"CASE WHEN {v} <> 0 THEN {v} END")


def _quotient(node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    return finite(f"{args[0]} / {_divisor(args[1])}")


def _whole_quotient(node: Call, args: Args) -> str:  # noqa: ARG001
    return fit_integer(f"{huge(args[0])} // {_divisor(huge(args[1]))}")


def _rest(node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return finite(f"{args[0]} % {_divisor(args[1])}")
    return f"CAST({huge(args[0])} % {_divisor(huge(args[1]))} AS BIGINT)"


def _negative(node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return finite(f"-{args[0]}")
    return _fitted(f"-{huge(args[0])}", node.type)


def _size(node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return finite(f"abs({args[0]})")
    return _fitted(f"abs({huge(args[0])})", node.type)


def _sign(node: Call, args: Args) -> str:  # noqa: ARG001
    return f"CAST(sign({args[0]}) AS BIGINT)"


def _towards(direction: str) -> Lowering:
    """FLOOR and CEIL, to whole numbers."""

    def lower(node: Call, args: Args) -> str:
        kind = node.args[0].type
        if kind.kind is Kind.DOUBLE:
            return fit_integer(f"{direction}({args[0]})")
        if kind.scale == 0:
            return args[0]
        unit = 10**kind.scale
        # Whole-number division cuts towards zero; a rest of the other sign means one step further.
        step, test = ("- 1", "<") if direction == "floor" else ("+ 1", ">")
        return let(args[0], lambda v: f"{v} // {unit} + CASE WHEN {v} % {unit} {test} 0 THEN {step} ELSE 0 END")

    return lower


def _round(node: Call, args: Args) -> str:
    return _digits(node, args, cut=False)


def _trunc(node: Call, args: Args) -> str:
    return _digits(node, args, cut=True)


def _digits(node: Call, args: Args, *, cut: bool) -> str:
    digits, kind = whole_argument(node, 1), node.args[0].type
    if kind.kind is Kind.DOUBLE:
        return _digits_of_double(node, args[0], digits, cut=cut)
    value = _divided(args[0], 10 ** (kind.scale - digits), cut=cut) if digits < kind.scale else args[0]
    return value if digits >= 0 else fit_integer(huge(value, 10**-digits))


def _divided(value: str, divisor: int, *, cut: bool) -> str:
    wide = huge(value)
    return f"CAST({wide} // {divisor} AS BIGINT)" if cut else f"CAST({rounded_quotient(wide, divisor)} AS BIGINT)"


def _digits_of_double(node: Call, value: str, digits: int, *, cut: bool) -> str:
    name = "trunc" if cut else "round"
    if digits == 0:
        return fit_integer(f"{name}({value})")
    if digits < 0:
        # Half of a power of ten is whole, so the fraction of the value decides nothing.
        unit = 10**-digits
        whole = f"TRY_CAST(trunc({value}) AS HUGEINT)"
        return fit_integer(f"({f'({whole}) // {unit}' if cut else rounded_quotient(whole, unit)}) * {unit}")
    moved = f"{name}({value} * CAST({10**digits} AS DOUBLE))"
    if node.type.kind is Kind.DECIMAL:
        return fit_decimal(f"TRY_CAST({moved} AS HUGEINT)")
    back = f"CAST({10**digits} AS DOUBLE)"
    return let(
        value,
        lambda v: (
            f"CASE WHEN isfinite({v} * {back}) THEN {name}({v} * {back}) / {back} + CAST(0 AS DOUBLE) ELSE {v} END"
        ),
    )


def _library(template: str, domain: str | None = None) -> Lowering:
    """A function of doubles; outside its domain it is not asked."""

    def lower(node: Call, args: Args) -> str:  # noqa: ARG001
        if domain is None:
            return finite(template.format(*args))
        return finite(let(args[0], lambda v: f"CASE WHEN {domain.format(v)} THEN {template.format(v)} END"))

    return lower


def _extreme(name: str) -> Lowering:
    return lambda node, args: f"{name}({', '.join(args)})"  # noqa: ARG005


def _clamp(node: Call, args: Args) -> str:  # noqa: ARG001
    low, high = args[1:]
    return let(args[0], lambda v: f"CASE WHEN {v} IS NOT NULL THEN least(greatest({v}, {low}), {high}) END")


LOWERINGS: dict[str, Lowering] = {
    "add": _sum("+"),
    "sub": _sum("-"),
    "mul": _product,
    "div": _quotient,
    "int_div": _whole_quotient,
    "mod": _rest,
    "neg": _negative,
    "abs": _size,
    "sign": _sign,
    "floor": _towards("floor"),
    "ceil": _towards("ceil"),
    "round": _round,
    "trunc": _trunc,
    "sqrt": _library("sqrt({0})", "{0} >= 0"),
    "cbrt": _library("cbrt({0})"),
    "exp": _library("exp({0})"),
    "ln": _library("ln({0})", "{0} > 0"),
    "log2": _library("log2({0})", "{0} > 0"),
    "log10": _library("log10({0})", "{0} > 0"),
    "power": _library("pow({0}, {1})"),
    "least": _extreme("least"),
    "greatest": _extreme("greatest"),
    "clamp": _clamp,
}
