"""Aggregation: aggregate calls read, and the final aggregation built from them and its keys."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from tacit.query import limits
from tacit.query.aggregate_family import AggregateCall
from tacit.query.aggregates import AGGREGATES, SQL_NAMES, SqlName
from tacit.query.parsing.query_options import Options
from tacit.query.planning.measures import ContributionLimit, ContributionLimits, Measure
from tacit.query.planning.work import Sizes
from tacit.query.query import Aggregate, FinalAggregation, GroupKey
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import (
    ExistsColumn,
    FilterRows,
    Join,
    JoinKind,
    ProjectColumns,
    RelationNode,
    Scan,
    UnitAggregate,
    UnitWindow,
    moved,
    substituted,
)
from tacit.query.relational.derived_ranges import is_derived
from tacit.query.relational.expressions import Expression, Literal, Reference, literal, references, size
from tacit.query.relational.functions import call, case, cast
from tacit.query.relational.narrowing import narrowed_keys, true_of_all
from tacit.query.relational.window_calls import SortKey
from tacit.query.resolve.public_keys import FEW, Values, public_values
from tacit.query.resolve.scalars import Scalars, auto_clamped, function_name, is_auto
from tacit.query.resolve.sql_functions import PICKS
from tacit.query.types import BOOLEAN, DOUBLE, INTEGER, TEXT, Kind, Value, sort_key


def sort_key_of(term: exp.Expr, expression: Expression) -> SortKey:
    """One term of ORDER BY, with SQL's placing of NULLs made explicit."""
    return SortKey(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


def read_pick(called: exp.Expr, scalars: Scalars, where: Expression | None) -> tuple[Expression, tuple[SortKey, ...]]:
    """The value that an aggregate takes of one row, and the order whose first row it is; no order for the least one."""
    if not isinstance(called, exp.Anonymous):
        raise AssertionError("only calls pick a row")
    name, args = function_name(called), called.expressions
    shown, how = name.upper(), PICKS[name]
    if how == "least":
        if len(args) != 1:
            raise Refusal("arguments", f"{shown} takes one value.")
        return scalars(args[0]), ()
    if name in ("first", "last"):
        if len(args) != 1 or not isinstance(args[0], exp.Order) or not args[0].expressions:
            raise Refusal("arguments", f"{shown} needs an order, as in {shown}(x ORDER BY y).")
        value = scalars(args[0].this)
        terms = tuple(sort_key_of(term, scalars(term.this)) for term in args[0].expressions)
        if where is not None:
            raise Refusal("aggregate", f"{shown} takes no FILTER; put the condition into WHERE.")
        order = (
            terms
            if how == "first"
            else tuple(SortKey(k.expression, not k.descending, not k.nulls_first) for k in terms)
        )
        return value, (*order, SortKey(value, False, False))
    if len(args) != 2 or any(isinstance(arg, exp.Order) for arg in args):
        raise Refusal(
            "arguments", f"{shown} takes a value and what it is {'largest' if how == 'last' else 'least'} by."
        )
    value, by = scalars(args[0]), scalars(args[1])
    conditions = [] if where is None else [where]
    counted = call("and", *conditions, call("not", call("is_null", by)), call("not", call("is_null", value)))
    rank = case([(counted, by)], literal(None, by.type))
    # Rows in which either is NULL, or that FILTER leaves out, come last and have no value.
    return (
        case([(counted, value)], literal(None, value.type)),
        (SortKey(rank, how == "last", False), SortKey(value, False, False)),
    )


# -- aggregate calls

Bounds = tuple[Fraction, Fraction]
_FRACTIONS = ("fraction", "discrete")
_OF_PAIRS = ("pair", "first", "second")
_PER_GROUP, _PER_ROW = "contribution_bounds_per_group", "contribution_bounds_per_row"


def read_aggregate(node: exp.Expr, scalars: Scalars) -> AggregateCall:
    """The aggregate that a node calls; ``scalars`` resolves its arguments."""
    where: Expression | None = None
    if isinstance(node, exp.Filter):
        where = scalars.condition(node.expression.this)
        node = node.this
    ordered: exp.Expr | None = None
    if isinstance(node, exp.WithinGroup):
        ordered, node = node.expression, node.this
    if not isinstance(node, exp.Anonymous) or function_name(node) not in SQL_NAMES:
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
    how = SQL_NAMES[name]
    groups, rows = bounds.get(_PER_GROUP), bounds.get(_PER_ROW)
    if how.function == "count" and (not args or isinstance(args[0], exp.Star)) and len(args) <= 1:
        return AggregateCall("count_rows", None, where, None, groups, rows)
    if len(args) != how.arguments or any(isinstance(arg, exp.Star) for arg in args):
        many = f"{how.arguments} argument{'s' if how.arguments > 1 else ''}"
        raise Refusal("arguments", f"{name.upper()} takes {many}.")
    if how.parameter in _OF_PAIRS:
        if bounds:
            raise Refusal("contribution_bounds", f"{name.upper()} has no contribution bounds; write CLAMP(x, lo, hi).")
        return _pair(name, how, [_checked("avg", name, scalars(arg)) for arg in args], where)
    value = auto_clamped(args[0]) if AGGREGATES[how.function].bounded else None
    if value is not None:
        if bounds:
            raise Refusal("contribution_bounds", f"{name.upper()} has AUTO bounds and stated ones; keep one of them.")
        parameter = _parameter(how, args, scalars)
        clamped, discrete = _clampable(name, scalars(value)), how.parameter == "discrete"
        return AggregateCall(how.function, clamped, where, parameter, None, None, auto=True, discrete=discrete)
    argument = scalars(args[0])
    if how.parameter == "condition":
        condition = scalars.condition(args[0])
        both = condition if where is None else call("and", where, condition)
        return AggregateCall(how.function, None, both, None, groups, rows)
    if how.function == "count" and isinstance(argument, Literal) and argument.value is not None:
        return AggregateCall("count_rows", None, where, None, groups, rows)
    if how.parameter == "parts":
        raise Refusal("aggregate", f"{name.upper()} stands alone in the SELECT list and gives several columns.")
    parameter, argument = _parameter(how, args, scalars), _checked(how.function, name, argument)
    discrete = how.parameter == "discrete" and argument.type != DOUBLE
    return AggregateCall(how.function, argument, where, parameter, groups, rows, discrete=discrete)


def _pair(name: str, how: SqlName, pair: list[Expression], where: Expression | None) -> AggregateCall:
    """A statistic of the rows in which both values are there, of both of them or of one."""
    known = [call("not", call("is_null", side)) for side in pair if side.nullable]
    conditions = ([] if where is None else [where]) + known
    both = call("and", *conditions) if len(conditions) > 1 else conditions[0] if conditions else None
    value, other = {"pair": pair, "first": pair[:1] * 2, "second": pair[1:] * 2}[str(how.parameter)]
    second = other if AGGREGATES[how.function].pairs else None
    return AggregateCall(how.function, _checked(how.function, name, value), both, None, None, None, second=second)


def _clampable(name: str, argument: Expression) -> Expression:
    if not argument.type.is_numeric:
        raise Refusal(
            "type",
            f"AUTO finds bounds of numbers, and {name.upper()} reads {argument.type}; cast it, or declare its bounds.",
        )
    return argument


def _parameter(how: SqlName, args: list[exp.Expr], scalars: Scalars) -> Fraction | None:
    if not isinstance(how.parameter, str):
        return how.parameter
    return _fraction(scalars(args[1]))


def _checked(function: str, name: str, argument: Expression) -> Expression:
    takes = AGGREGATES[function].takes
    if function == "sum" and argument.type == BOOLEAN:
        return cast(argument, INTEGER)
    if argument.type.kind is Kind.NULL:
        return cast(argument, INTEGER)
    if takes == "condition" and argument.type != BOOLEAN:
        raise Refusal("type", f"{name.upper()} needs a condition, not {argument.type}.")
    if function == "quantile" and argument.type.is_temporal:
        return argument
    if takes == "number" and not argument.type.is_numeric:
        remedy = (
            "a CAST reads texts such as 12.5 and makes any other NULL; the data owner states a column's type and marks"
            if argument.type.kind is Kind.TEXT
            else "cast the value first"
        )
        raise Refusal("type", f"{name.upper()} needs a number, not {argument.type}; {remedy}.")
    return argument


def _distinct(
    name: str, node: exp.Distinct, where: Expression | None, bounds: dict[str, Bounds], scalars: Scalars
) -> AggregateCall:
    if name in ("min", "max") and len(node.expressions) == 1:
        return _plain(name, list(node.expressions), where, bounds, scalars)
    added = f"{SQL_NAMES[name].function}_distinct" if SQL_NAMES[name].arguments == 1 else ""
    if added in AGGREGATES and name != "count" and len(node.expressions) == 1:
        argument = _checked(added, name, scalars(node.expressions[0]))
        return AggregateCall(added, argument, where, None, bounds.get(_PER_GROUP), bounds.get(_PER_ROW))
    if name != "count" or any(isinstance(part, exp.Star) for part in node.expressions):
        raise Refusal("distinct", "DISTINCT is supported in COUNT, SUM, AVG, MIN and MAX.")
    tuples = [part for part in node.expressions if isinstance(part, exp.Tuple)]
    listed = tuples[0].expressions if tuples and len(node.expressions) == 1 else node.expressions
    if len(listed) == 1:
        argument = scalars(listed[0])
    else:
        argument = _as_one_text([scalars(part) for part in listed], nulls_count=bool(tuples))
    return AggregateCall("count_distinct", argument, where, None, bounds.get(_PER_GROUP), bounds.get(_PER_ROW))


def _as_one_text(values: list[Expression], *, nulls_count: bool) -> Expression:
    """Several values as one text, different for different values: each with its length before it.

    ``COUNT(DISTINCT a, b)`` leaves out rows in which one is NULL, ``COUNT(DISTINCT (a, b))`` counts them.
    """
    pieces: list[Expression] = []
    for value in values:
        text = cast(value, TEXT)
        size = call("join_text", cast(call("length", text), TEXT), literal(":", TEXT), text)
        pieces.append(call("coalesce", size, literal("-", TEXT)) if nulls_count else size)
    return call("join_text", *pieces)


def _within_group(name: str, plain: list[exp.Expr], order: exp.Expr) -> list[exp.Expr]:
    terms, how = order.expressions, SQL_NAMES[name]
    quantile = how.parameter in _FRACTIONS
    if not (how.function == "mode" or quantile) or len(terms) != 1 or len(plain) != quantile:
        raise Refusal("aggregate", "Write PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).")
    if terms[0].args.get("desc"):
        raise Refusal("aggregate", "WITHIN GROUP is supported in ascending order; use 1 - p instead of DESC.")
    return [terms[0].this, *plain]


def _fraction(value: Expression) -> Fraction:
    number = _constant(value)
    if number is None or not 0 <= number <= 1:
        raise Refusal("quantile", "The fraction of a quantile is a number between 0 and 1, written out.")
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


# -- the final aggregation


#: Function evaluations that the keys of one query may take together; beyond, keys count as private.
MOST_WORK = 100_000


def check_key(name: str, expression: Expression) -> None:
    """Refuse keys that cannot be compared exactly on every engine."""
    if expression.type.kind is Kind.DOUBLE:
        raise Refusal(
            "key_type",
            f"{name} is DOUBLE, and equal doubles are a matter of rounding; group by FLOOR, ROUND or CAST to DECIMAL.",
        )


class EnumerationBudget:
    """Enumeration that a query may still do: a function of its text, so that it says nothing about data."""

    def __init__(self, left: int = MOST_WORK) -> None:
        self.left = left

    def allows(self, amount: int) -> bool:
        """Take ``amount`` if that much is left."""
        if amount > self.left:
            return False
        self.left -= amount
        return True


def public_count(values: Iterable[Values | None]) -> int | None:
    """Number of groups that public keys make together; None when one is not public or they are too many to return."""
    sizes = [None if value is None else len(value) for value in values]
    if None in sizes:
        return None
    count = math.prod(size for size in sizes if size is not None)
    return count if count <= limits.MAX_KEYS else None


def _below_projections(expression: Expression, source: RelationNode) -> Expression:
    """An expression over the columns from which subqueries below compute its own; itself where there are none."""
    while True:
        slots = {part.slot for part in references(expression)}
        match source:
            case ProjectColumns() | UnitAggregate():
                computed = source.expressions if isinstance(source, ProjectColumns) else source.keys
                if max(slots, default=0) >= len(computed):
                    return expression
                longest = max((size(computed[slot]) for slot in slots), default=1)
                if longest * size(expression) > limits.MAX_EXPRESSION:
                    return expression
                expression, source = substituted(computed)(expression), source.source
            case FilterRows() | ExistsColumn() | UnitWindow():
                source = source.source
            case Join():
                width = len(source.left.fields)
                if all(slot < width for slot in slots) and source.kind in (JoinKind.INNER, JoinKind.LEFT):
                    source = source.left
                elif all(width <= slot < width + len(source.right.fields) for slot in slots) and (
                    source.kind in (JoinKind.INNER, JoinKind.RIGHT)
                ):
                    expression, source = moved({slot: slot - width for slot in slots})(expression), source.right
                else:
                    return expression
            case _:
                return expression
        if any(part.slot >= len(source.fields) for part in references(expression)):
            return expression


def _with_auto(asked: AggregateCall, source: RelationNode) -> AggregateCall:
    """``CLAMP(x, AUTO)`` for an x whose bounds are neither declared nor stated; the same call otherwise."""
    value, stated = asked.argument, asked.per_group is not None or asked.per_row is not None
    if not AGGREGATES[asked.function].bounded or stated or value is None or not value.type.is_numeric:
        return asked
    return replace(asked, auto=asked.auto or value.range.ends is None or is_derived(source, value))


class FinalBuilder:
    """Collects the aggregates of one final aggregation.

    Args:
        source: an owned relation; the caller may still extend it by marks, which only append columns.
        keys: names and expressions of GROUP BY.
        options: what the text said about limits.
    """

    def __init__(self, source: RelationNode, keys: Sequence[tuple[str, Expression]], options: Options) -> None:
        for name, expression in keys:
            check_key(name, expression)
        # Limits follow declarations where those say that a unit is in one group, or has one row in each; bounding
        # makes them true of any data.
        read = [part for _, expression in keys for part in references(expression)]
        plain = frozenset(expression.slot for _, expression in keys if isinstance(expression, Reference))
        one_group = all(source.fields[part.slot].per_unit for part in read)
        one_row = Sizes().repeats(source, plain) == 1
        self.limits = ContributionLimits(
            ContributionLimit("max_groups", source.max_groups, one_group).stating(options.max_groups, source),
            ContributionLimit("max_rows", source.max_rows, one_row).stating(options.max_rows, source),
        )
        self.rows = self.limits.rows.number
        self.work = EnumerationBudget()
        # The rows of a whole table meet no condition in common.
        conditions = [] if isinstance(source, Scan) else true_of_all(source)
        self.keys = tuple(
            GroupKey(name, e, narrowed_keys(e, values, conditions, self.work.allows) if conditions else values)
            for name, e in keys
            for values in [self._values(e, source)]
        )
        self.options = options
        self.measures: list[Measure] = []
        self.aggregates: list[Aggregate] = []

    def _values(self, key: Expression, source: RelationNode) -> Values | None:
        """The public values of a key, whether it is computed here or in a subquery below."""
        if isinstance(key, Reference) and key.values is not None and len(key.values) <= FEW:
            # Declared categories of a column are listed as they are.
            self.work.allows(2 * (len(key.values) + (key.nullable and None not in key.values)))
            return tuple(sorted(set(key.values), key=lambda value: sort_key(value, key.type)))
        found = public_values(key, self.work)
        below = _below_projections(key, source) if found is None else key
        return found if below is key else public_values(below, self.work)

    def add(self, asked: AggregateCall, source: RelationNode) -> int:
        """The index of the released column for an aggregate; equal ones are one."""
        made = AGGREGATES[asked.function].released.measured(_with_auto(asked, source), source, self)
        if made not in self.aggregates:
            limits.check_size(len(self.aggregates) + 1, limits.MAX_COLUMNS, "aggregates")
            self.aggregates.append(made)
        return self.aggregates.index(made)

    def build(self, source: RelationNode) -> FinalAggregation:
        """The aggregation over the finished source."""
        count = public_count(key.values for key in self.keys)
        if count is None and self.options.group_selection == "PUBLIC_GROUPS":
            self._refuse_private()
        keys = self.keys if count is not None else tuple(GroupKey(k.name, k.expression, None) for k in self.keys)
        measures, aggregates = tuple(self.measures), tuple(self.aggregates)
        groups = self.limits.groups.among(count)
        return FinalAggregation(source, keys, measures, aggregates, groups, count is not None, count, self.limits)

    def _refuse_private(self) -> None:
        for key in self.keys:
            if key.values is None:
                raise Refusal(
                    "no_categories",
                    f"The keys of {key.name!r} are not public; declare categories or bounds, or group by fewer values.",
                )
        raise Refusal("too_many_keys", f"There are more than {limits.MAX_KEYS} public keys; group by fewer values.")

    def measure(self, measure: Measure, *, stated: bool = False) -> int:
        """The index of a measurement; equal ones are taken once. ``stated``: its clamp does not follow ``rows``."""
        if self.limits.rows.is_auto and not stated:
            measure = replace(measure, auto_rows=True)
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def categories(self, argument: Expression) -> tuple[Value | None, ...] | None:
        """The public values of an expression, if they are known."""
        return public_values(argument, self.work)
