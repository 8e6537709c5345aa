"""Numbers: whole and decimal ones in a wide type and then checked, doubles in IEEE arithmetic, not finite is NULL."""

from __future__ import annotations

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.lowering import Args, Lowering, joined, plain, whole_argument
from tacit.engines.sql.scalars import proven_range, rounded_quotient
from tacit.query.relational.expressions import Call
from tacit.query.types import Kind, SqlType


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


def _negative(d: Dialect, node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return d.finite(f"-{args[0]}")
    if _is_own_size(node):
        return f"(-({args[0]}))"
    return _fitted(d, f"-{d.huge(args[0])}", node.type)


def _size(d: Dialect, node: Call, args: Args) -> str:
    if node.type.kind is Kind.DOUBLE:
        return d.finite(f"abs({args[0]})")
    if _is_own_size(node):
        return f"abs({args[0]})"
    return _fitted(d, f"abs({d.huge(args[0])})", node.type)


def _is_own_size(node: Call) -> bool:
    """Whether the result fits as its argument does: decimals have as many digits on both sides of 0."""
    return node.type.kind is Kind.DECIMAL and node.args[0].type == node.type


def _towards(direction: str) -> Lowering:
    """FLOOR and CEIL, to whole numbers."""

    def lower(d: Dialect, node: Call, args: Args) -> str:
        kind = node.args[0].type
        if kind.kind is Kind.DOUBLE:
            return d.double_to_integer(f"{direction}({args[0]})")
        if kind.scale == 0:
            return args[0]
        unit = 10**kind.scale
        # Whole-number division cuts towards zero; a rest of the other sign means one step further.
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
    """A function of doubles; outside its domain it is not asked."""

    def lower(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
        if domain is None:
            return d.finite(template.format(*args))
        return d.finite(d.let(args[0], lambda v: f"CASE WHEN {domain.format(v)} THEN {template.format(v)} END"))

    return lower


def _clamp(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    low, high = args[1:]
    return d.let(args[0], lambda v: f"CASE WHEN {v} IS NOT NULL THEN least(greatest({v}, {low}), {high}) END")


LOWERINGS: dict[str, Lowering] = {
    "add": _sum("+"),
    "sub": _sum("-"),
    "mul": _product,
    "div": _quotient,
    "int_div": _whole_quotient,
    "mod": _rest,
    "neg": _negative,
    "abs": _size,
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
