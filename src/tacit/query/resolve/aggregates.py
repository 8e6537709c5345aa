"""Reading aggregate calls: what is asked, of which rows, with which stated bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tacit.query.planning.work import Sizes
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, UnitCall
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions import call, cast
from tacit.query.relational.functions.signatures import fits_decimal
from tacit.query.resolve.scalars import Scalars, auto_clamped, function_name, is_auto
from tacit.query.resolve.sql_functions import AGGREGATES
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, UNKNOWN, Domain, Kind, Range, SqlType, truth

__all__ = ["AggregateCall", "read_aggregate", "rows_inside", "unit_call"]

#: Where more rows of one unit than this are possible, no range of their number helps; CLAMP or AUTO gives one.
LARGEST_PRESUMED: Final = 10**6

Bounds = tuple[Fraction, Fraction]
_PER_GROUP, _PER_ROW = "contribution_bounds_per_group", "contribution_bounds_per_row"
_NUMERIC: Final = frozenset(["sum", "avg", "quantile", "var_samp", "var_pop", "stddev_samp", "stddev_pop"])
#: Aggregates (as queries call them) that need bounds.
_BOUNDED: Final = _NUMERIC | {"median", "min", "max"}


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate as asked.

    Args:
        function: ``count_rows``, ``count``, ``count_distinct``, ``sum``, ``avg``, ``min``, ``max``, ``quantile``,
        ``mode``,
            ``var_samp``, ``var_pop``, ``stddev_samp``, ``stddev_pop``, ``bool_and``, ``bool_or``.
        argument: what it reads; None for ``count_rows``.
        where: the FILTER condition.
        parameter: the fraction of a quantile, or the rank of ``mode``.
        per_group: stated bounds on what one unit adds to one group.
        per_row: stated bounds on single values.
        auto: whether bounds are to be found privately: the argument was written ``CLAMP(x, AUTO)`` and is x.
    """

    function: str
    argument: Expression | None
    where: Expression | None
    parameter: Fraction | None
    per_group: Bounds | None
    per_row: Bounds | None
    auto: bool = False

    @property
    def label(self) -> str:
        """For people."""
        what = "*" if self.argument is None else getattr(self.argument, "name", "…")
        return f"{self.function}({what})"


def read_aggregate(node: exp.Expr, scalars: Scalars) -> AggregateCall:
    """The aggregate that a node calls; ``scalars`` resolves its arguments."""
    where: Expression | None = None
    if isinstance(node, exp.Filter):
        where = scalars.condition(node.expression.this)
        node = node.this
    ordered: exp.Expr | None = None
    if isinstance(node, exp.WithinGroup):
        ordered, node = node.expression, node.this
    if not isinstance(node, exp.Anonymous) or function_name(node) not in AGGREGATES:
        raise Refusal("aggregate", "FILTER and WITHIN GROUP belong to an aggregate such as COUNT or PERCENTILE_CONT.")
    name = function_name(node)
    plain = [arg for arg in node.expressions if not isinstance(arg, exp.Kwarg)]
    bounds = _stated_bounds([arg for arg in node.expressions if isinstance(arg, exp.Kwarg)], scalars)
    if ordered is not None:
        plain = _within_group(name, plain, ordered)
    if len(plain) == 1 and isinstance(plain[0], exp.Distinct):
        return _distinct(name, plain[0], where, bounds, scalars)
    if any(isinstance(arg, (exp.Distinct, exp.Order)) for arg in plain):
        raise Refusal("distinct", f"{name.upper()} takes plain arguments; DISTINCT is for COUNT alone.")
    return _plain(name, plain, where, bounds, scalars)


def _plain(
    name: str, args: list[exp.Expr], where: Expression | None, bounds: dict[str, Bounds], scalars: Scalars
) -> AggregateCall:
    function = AGGREGATES[name]
    groups, rows = bounds.get(_PER_GROUP), bounds.get(_PER_ROW)
    if function == "count" and (not args or isinstance(args[0], exp.Star)) and len(args) <= 1:
        return AggregateCall("count_rows", None, where, None, groups, rows)
    wanted = 2 if function in ("quantile", "top_k") or name == "nth_most_common" else 1
    if len(args) != wanted or any(isinstance(arg, exp.Star) for arg in args):
        raise Refusal("arguments", f"{name.upper()} takes {wanted} argument{'s' if wanted > 1 else ''}.")
    value = auto_clamped(args[0]) if function in _BOUNDED else None
    if value is not None:
        if bounds:
            raise Refusal("contribution_bounds", f"{name.upper()} has AUTO bounds and stated ones; keep one of them.")
        function, parameter = _parameter(function, name, args, scalars)
        return AggregateCall(function, _clampable(name, scalars(value)), where, parameter, None, None, auto=True)
    argument = scalars(args[0])
    if function == "count_if":
        condition = scalars.condition(args[0])
        return AggregateCall(
            "count_rows", None, condition if where is None else call("and", where, condition), None, groups, rows
        )
    if function == "count" and isinstance(argument, Literal) and argument.value is not None:
        return AggregateCall("count_rows", None, where, None, groups, rows)
    if function == "top_k":
        raise Refusal("aggregate", "TOP_K stands alone in the SELECT list and gives one column per rank.")
    function, parameter = _parameter(function, name, args, scalars)
    return AggregateCall(function, _checked(function, name, argument), where, parameter, groups, rows)


def _clampable(name: str, argument: Expression) -> Expression:
    if not argument.type.is_numeric:
        raise Refusal(
            "type",
            f"AUTO finds bounds of numbers, and {name.upper()} reads {argument.type}; cast it, or declare its bounds.",
        )
    return argument


def _parameter(function: str, name: str, args: list[exp.Expr], scalars: Scalars) -> tuple[str, Fraction | None]:
    if function == "median":
        return "quantile", Fraction(1, 2)
    if function == "quantile":
        return "quantile", _fraction(scalars(args[1]))
    if function == "mode":
        return "mode", _rank(scalars(args[1])) if name == "nth_most_common" else Fraction(1)
    return function, None


def _checked(function: str, name: str, argument: Expression) -> Expression:
    if function == "sum" and argument.type == BOOLEAN:
        return cast(argument, INTEGER)
    if argument.type.kind is Kind.NULL:
        return cast(argument, INTEGER)
    if function in ("bool_and", "bool_or") and argument.type != BOOLEAN:
        raise Refusal("type", f"{name.upper()} needs a condition, not {argument.type}.")
    if function == "quantile" and argument.type.is_temporal:
        return argument
    if function in _NUMERIC and not argument.type.is_numeric:
        raise Refusal("type", f"{name.upper()} needs a number, not {argument.type}; cast the value first.")
    return argument


def _distinct(
    name: str, node: exp.Distinct, where: Expression | None, bounds: dict[str, Bounds], scalars: Scalars
) -> AggregateCall:
    if name in ("min", "max") and len(node.expressions) == 1:
        return _plain(name, list(node.expressions), where, bounds, scalars)
    if name != "count" or len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Star):
        raise Refusal("distinct", "DISTINCT is supported in COUNT(DISTINCT x) of one expression.")
    argument = scalars(node.expressions[0])
    return AggregateCall("count_distinct", argument, where, None, bounds.get(_PER_GROUP), bounds.get(_PER_ROW))


def _within_group(name: str, plain: list[exp.Expr], order: exp.Expr) -> list[exp.Expr]:
    terms = order.expressions
    if (
        AGGREGATES[name] not in ("quantile", "mode")
        or len(terms) != 1
        or len(plain) != (AGGREGATES[name] == "quantile")
    ):
        raise Refusal("aggregate", "Write PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).")
    if terms[0].args.get("desc"):
        raise Refusal("aggregate", "WITHIN GROUP is supported in ascending order; use 1 - p instead of DESC.")
    return [terms[0].this, *plain]


def _fraction(value: Expression) -> Fraction:
    number = _constant(value)
    if number is None or not 0 <= number <= 1:
        raise Refusal("quantile", "The fraction of a quantile is a number between 0 and 1, written out.")
    return number


def _rank(value: Expression) -> Fraction:
    number = _constant(value)
    if number is None or number.denominator != 1 or not 1 <= number <= 100:
        raise Refusal("arguments", "The rank is a whole number between 1 and 100, written out.")
    return number


def _constant(value: Expression) -> Fraction | None:
    if not isinstance(value, Literal) or not value.type.is_numeric or value.value is None:
        return None
    return Fraction(str(value.value)) if isinstance(value.value, float) else Fraction(value.value)  # type: ignore[arg-type]


def _stated_bounds(arguments: list[exp.Expr], scalars: Scalars) -> dict[str, Bounds]:
    found: dict[str, Bounds] = {}
    for argument in arguments:
        name = argument.this.name.lower()
        if name not in (_PER_GROUP, _PER_ROW) or name in found:
            raise Refusal("contribution_bounds", f"Write {_PER_GROUP} => (lo, hi) once.")
        pair = argument.expression
        if is_auto(pair):
            raise Refusal("contribution_bounds", "Bounds are found privately where you write CLAMP(x, AUTO) instead.")
        ends = [_constant(scalars(end)) for end in pair.expressions] if isinstance(pair, exp.Tuple) else []
        if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
            raise Refusal("contribution_bounds", f"{name} takes a pair (lo, hi) of numbers written out, lo <= hi.")
        if max(abs(ends[0]), abs(ends[1])) > 2**62:
            raise Refusal("contribution_bounds", f"{name} must stay below 2^62 in size.")
        found[name] = (ends[0], ends[1])
    return found


def unit_call(asked: AggregateCall, source: RelationNode) -> tuple[UnitCall, Domain]:
    """The aggregate as an exact one inside a unit's group, with what is presumed about its value."""
    if asked.auto:
        raise Refusal("bounds", "AUTO bounds are found for the aggregate that gets noise; here nothing needs bounds.")
    if asked.per_group is not None or asked.per_row is not None:
        raise Refusal(
            "contribution_bounds", "Inside one person's rows aggregates are exact; give bounds to the outer aggregate."
        )
    if asked.function == "mode":
        raise Refusal("raw_aggregate", "MODE inside one person's rows is not supported; ties have no one answer.")
    if asked.function == "quantile" and asked.argument is not None and not asked.argument.type.is_numeric:
        raise Refusal("type", "A quantile inside one person's rows needs a number.")
    kind, span = _unit_result(asked, rows_inside(source))
    counts = asked.function in ("count_rows", "count", "count_distinct")
    # The smallest and largest of long texts are long texts.
    growth = 1 if asked.argument is None or kind != asked.argument.type else asked.argument.domain.growth
    domain = truth(nullable=True) if kind == BOOLEAN else Domain(span, not counts, None, _step(asked, kind), growth)
    return UnitCall(asked.function, asked.argument, asked.where, asked.parameter, kind), domain


def rows_inside(source: RelationNode) -> int | None:
    """The most rows of one unit that an aggregate or window inside the unit is presumed to see; None if unknown.

    ``max_rows`` bounds what is released and says nothing about rows that are only counted inside a unit.
    """
    if source.is_public:
        return None
    most = max(Sizes().rows(source), source.max_rows)
    return most if most <= LARGEST_PRESUMED else None


def _unit_result(asked: AggregateCall, rows: int | None) -> tuple[SqlType, Range]:
    if asked.argument is None or asked.function in ("count", "count_distinct"):
        known = asked.argument.values if asked.argument is not None and asked.function == "count_distinct" else None
        most = [number for number in (rows, None if known is None else len(known)) if number is not None]
        return INTEGER, Range(Fraction(0), Fraction(min(most)) if most else None)
    span, kind = asked.argument.range, asked.argument.type
    match asked.function:
        case "sum":
            total = _total(span, rows)
            exact = kind.kind is not Kind.DECIMAL or fits_decimal(total, kind.scale)
            return kind if exact else DOUBLE, total
        case "min" | "max":
            return kind, span
        case "avg" | "quantile":
            return DOUBLE, span
        case "bool_and" | "bool_or":
            return BOOLEAN, UNKNOWN
        case _:
            return DOUBLE, _spread(span, squared=asked.function.startswith("var"))


def _total(span: Range, rows: int | None) -> Range:
    many = Range(Fraction(1), None if rows is None else Fraction(rows))
    return span * many


def _spread(span: Range, *, squared: bool) -> Range:
    if span.ends is None:
        return UNKNOWN
    width = span.ends[1] - span.ends[0]
    # The sample variance is largest for two values at the ends: width²/2.
    return Range(Fraction(0), width**2 / 2 if squared else width)


def _step(asked: AggregateCall, kind: SqlType) -> Fraction | None:
    if asked.function == "sum" and asked.argument is not None:
        return kind.step or asked.argument.step
    return kind.step
