"""Aggregation: calls of aggregates and windows, the final aggregation, and the public values of its keys.

Public keys are the finite sets of values that key expressions can have, as far as declarations say. They follow from
declared categories, booleans, whole numbers and dates within bounds, DATE_TRUNC over bounded times, and every function
of these. The whole expression is enumerated over its columns where their values are few; otherwise part by part, which
may list keys that no row can have but never misses one. NULL is a key only where it is declared as a category, computed
from declared values (CASE without ELSE, a division by zero), left by an outer join in rows without a match, or listed
by a condition (``ward IS NULL``).
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from sqlglot import exp

from tacit.query import limits
from tacit.query.aggregates import AGGREGATES, SQL_NAMES, unit_call
from tacit.query.aggregates.family import AggregateCall, SqlName
from tacit.query.parsing.parse import Options
from tacit.query.planning.measures import ContributionLimit, ContributionLimits, Measure
from tacit.query.planning.work import Sizes, rows_inside
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
    SortKey,
    UnitAggregate,
    UnitWindow,
    WindowCall,
    WindowFrame,
    moved,
    substituted,
)
from tacit.query.relational.expressions import (
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Literal,
    Reference,
    literal,
    references,
    size,
)
from tacit.query.relational.functions import call, case, cast, evaluate
from tacit.query.relational.functions.dates import format_parts, next_truncated, possible_texts
from tacit.query.relational.functions.registry import REGISTRY, applied, cast_value, constant_int
from tacit.query.relational.narrowing import is_derived, narrowed_keys, true_of_all
from tacit.query.resolve.scalars import Scalars, auto_clamped, function_name, is_aggregate, is_auto, is_pick
from tacit.query.resolve.sql_functions import PICKS
from tacit.query.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    MAX_VALUES,
    TEXT,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    from_ordinal,
    sort_key,
)

# -- public keys

#: Largest number of combinations of values that one expression is evaluated on.
ENUMERATED = 20_000
#: Up to this many combinations, the whole expression is evaluated on each, which finds exactly the possible keys.
FEW = 400
Values = tuple[Value | None, ...]


def public_values(expression: Expression, work: EnumerationBudget) -> Values | None:
    """Return all keys the expression can have, sorted, NULL last; None when the set is not public or too large."""
    spans = [
        len(column.values) if column.values is not None else 1 if ends is None else ends[1] - ends[0] + 1
        for column in references(expression)
        for ends in [column.range.ends]
    ]
    wide = math.prod(spans) > FEW
    # Trying every day of a century is slower than stepping from month to month.
    found = _by_parts(expression, work) if wide else None
    if found is None:
        found = _by_columns(expression, work)
    if found is None and not wide:
        found = _by_parts(expression, work)
    if found is None or len(found) - (None in found) > MAX_VALUES:
        return None
    return tuple(sorted(set(found), key=lambda value: sort_key(value, expression.type)))


def _by_columns(expression: Expression, work: EnumerationBudget) -> Values | None:
    columns = references(expression)
    sets = [_leaf(column, work) for column in columns]
    if any(values is None for values in sets):
        return None
    declared = [values for values in sets if values is not None]
    slots = max((column.slot for column in columns), default=-1) + 1

    def compute(row: tuple[Value | None, ...]) -> Value | None:
        if isinstance(expression, Reference):
            return row[0]
        cells: list[Value | None] = [None] * slots
        for column, value in zip(columns, row, strict=True):
            cells[column.slot] = value
        return evaluate(expression, cells)

    return _image(compute, declared, [column.nullable for column in columns], work, size(expression))


def _leaf(column: Reference, work: EnumerationBudget) -> Values | None:
    """Return the values of one column: those declared, or all grid points within narrow bounds."""
    if column.values is not None:
        return column.values
    if column.type == BOOLEAN:
        return (False, True)
    step, ends = column.type.step, column.range.ends
    if step is None or ends is None or column.type.kind is Kind.TIMESTAMP or (ends[1] - ends[0]) / step >= ENUMERATED:
        return None
    first, last = math.ceil(ends[0] / step), math.floor(ends[1] / step)
    found = _on_grid(first, last, step, column.type, work)
    return found if found is None or not column.domain.null_is_key else (*found, None)


def _on_grid(first: int, last: int, step: Fraction, kind: SqlType, work: EnumerationBudget) -> Values | None:
    if not work.allows(last - first + 1):
        return None
    return tuple(value for i in range(first, last + 1) if (value := from_ordinal(i * step, kind)) is not None)


def _image(
    compute: Callable[[Values], Value | None],
    sets: list[Values],
    nullable: list[bool],
    work: EnumerationBudget,
    cost: int = 1,
) -> Values | None:
    """Return the results over declared inputs, and the results other than NULL that undeclared NULLs add."""
    added = [null and None not in values for values, null in zip(sets, nullable, strict=True)]
    wider = [values + ((None,) if null else ()) for values, null in zip(sets, added, strict=True)]
    combinations = math.prod(len(values) for values in wider)
    if combinations > ENUMERATED or not work.allows(2 * combinations * cost):
        return None
    results = {compute(row) for row in itertools.product(*sets)}
    for place in (place for place, null in enumerate(added) if null):
        # Rows with an undeclared NULL at this argument, and none at earlier ones.
        rows = itertools.product(*sets[:place], (None,), *wider[place + 1 :])
        results |= {result for row in rows if (result := compute(row)) is not None}
    return tuple(results)


def _by_parts(expression: Expression, work: EnumerationBudget) -> Values | None:
    found = _of_parts(expression, work)
    return found if found is None or not expression.domain.null_is_key else (*found, None)


def _of_parts(expression: Expression, work: EnumerationBudget) -> Values | None:
    match expression:
        case Literal():
            return (expression.value,)
        case Reference():
            return _leaf(expression, work)
        case Case():
            parts = [
                public_values(part, work) for part in (*(then for _, then in expression.branches), expression.otherwise)
            ]
            if any(part is None for part in parts):
                return None
            return tuple({value for part in parts for value in part or ()})
        case InList():
            return (False, True)
        case Cast():
            source = expression.operand
            found = _mapped(lambda row: cast_value(row[0], source.type, expression.type), (source,), work)
            return _narrow(expression, work) if found is None else found
        case Call():
            return _call(expression, work)
        case _:
            return None


def _call(expression: Call, work: EnumerationBudget) -> Values | None:
    if expression.type == BOOLEAN:
        return (False, True)
    if expression.function == "date_trunc":
        found = _truncations(expression, work)
        if found is not None:
            return found
    if len(expression.args) == 1 and expression.args[0].type.is_temporal:
        # Parts of dates: their range is known without evaluating every day.
        narrow = _narrow(expression, work)
        if narrow is not None:
            return narrow
    function = REGISTRY[expression.function]

    found = _mapped(lambda row: applied(function, expression.type, row), expression.args, work)
    if found is None and expression.function == "strftime":
        return _formats(expression, work)
    return _narrow(expression, work) if found is None else found


def _formats(expression: Call, work: EnumerationBudget) -> Values | None:
    """Return the texts that a date format can give, if they are few."""
    value, pattern = expression.args
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    ends = call("year", value).range.ends
    years = None if ends is None else (int(ends[0]), int(ends[1]))
    found = possible_texts(format_parts(pattern.value), years, MAX_VALUES)
    return None if found is None or not work.allows(len(found)) else tuple(found)


def _mapped(
    compute: Callable[[Values], Value | None], args: tuple[Expression, ...], work: EnumerationBudget
) -> Values | None:
    sets = [public_values(arg, work) for arg in args]
    if any(values is None for values in sets):
        return None
    return _image(compute, [values for values in sets if values is not None], [arg.nullable for arg in args], work)


def _narrow(expression: Expression, work: EnumerationBudget) -> Values | None:
    """Return all whole numbers (or days) within a narrow presumed range."""
    ends = expression.range.ends
    if expression.type.kind not in (Kind.INTEGER, Kind.DATE) or ends is None or ends[1] - ends[0] >= MAX_VALUES:
        return None
    return _on_grid(math.ceil(ends[0]), math.floor(ends[1]), Fraction(1), expression.type, work)


def _truncations(expression: Call, work: EnumerationBudget) -> Values | None:
    unit, ends = expression.args[0], expression.range.ends
    if not isinstance(unit, Literal) or not isinstance(unit.value, str) or ends is None:
        return None
    here, last = (from_ordinal(end, expression.type) for end in ends)
    if not isinstance(here, dt.date) or not isinstance(last, dt.date):
        return None
    found: list[Value | None] = []
    step: dt.date | None = here
    while step is not None and step <= last and len(found) <= MAX_VALUES:
        found.append(step)
        step = next_truncated(unit.value.lower(), step)
    return tuple(found) if work.allows(len(found)) else None


# -- aggregation


def sort_key_of(term: exp.Expr, expression: Expression) -> SortKey:
    """Return one term of ORDER BY as a sort key, with SQL's placing of NULLs made explicit."""
    return SortKey(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


def read_pick(called: exp.Expr, scalars: Scalars, where: Expression | None) -> tuple[Expression, tuple[SortKey, ...]]:
    """Return the value that a pick aggregate takes of one row, and the order whose first row it is.

    The order is empty where the least value is taken.
    """
    if not isinstance(called, exp.Anonymous):
        raise AssertionError("only calls pick a row")
    name, args = function_name(called), called.expressions
    shown, how = name.upper(), PICKS[name]
    if how == "least":
        if len(args) != 1:
            raise Refusal("arguments", f"{shown} takes one value.")
        return scalars(args[0]), ()
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
    """Resolve a call of an aggregate; ``scalars`` resolves its arguments."""
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
    auto = value is not None
    argument = scalars(args[0] if value is None else value)
    if auto and bounds:
        raise Refusal("contribution_bounds", f"{name.upper()} has AUTO bounds and stated ones; keep one of them.")
    if auto and not argument.type.is_numeric:
        raise Refusal(
            "type",
            f"AUTO finds bounds of numbers, and {name.upper()} reads {argument.type}; cast it, or declare its bounds.",
        )
    if how.parameter == "condition":
        condition = scalars.condition(args[0])
        both = condition if where is None else call("and", where, condition)
        return AggregateCall(how.function, None, both, None, groups, rows)
    if how.function == "count" and isinstance(argument, Literal) and argument.value is not None:
        return AggregateCall("count_rows", None, where, None, groups, rows)
    if how.parameter == "parts":
        raise Refusal("quantile", "APPROX_QUANTILES gives a list; write QUANTILE(x, 0.5), or take [OFFSET(1)] of it.")
    parameter, argument = _parameter(how, args, scalars), _checked(how.function, name, argument)
    discrete = how.parameter == "discrete" and (auto or argument.type != DOUBLE)
    return AggregateCall(how.function, argument, where, parameter, groups, rows, auto=auto, discrete=discrete)


def _pair(name: str, how: SqlName, pair: list[Expression], where: Expression | None) -> AggregateCall:
    """Return a statistic of both values of a pair, or of one, over the rows in which both are not NULL."""
    known = [call("not", call("is_null", side)) for side in pair if side.nullable]
    conditions = ([] if where is None else [where]) + known
    both = call("and", *conditions) if len(conditions) > 1 else conditions[0] if conditions else None
    value, other = {"pair": pair, "first": pair[:1] * 2, "second": pair[1:] * 2}[str(how.parameter)]
    second = other if AGGREGATES[how.function].pairs else None
    return AggregateCall(how.function, _checked(how.function, name, value), both, None, None, None, second=second)


def _parameter(how: SqlName, args: list[exp.Expr], scalars: Scalars) -> Fraction | None:
    if not isinstance(how.parameter, str):
        return how.parameter
    number = _constant(scalars(args[1]))
    if number is None or not 0 <= number <= 1:
        raise Refusal("quantile", "The fraction of a quantile is a number between 0 and 1, written out.")
    return number


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
    """Return several values as one text, different for different values: each with its length before it.

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
    """Budget of evaluations that a query may still make: a function of its text, so that it says nothing about data."""

    def __init__(self, left: int = MOST_WORK) -> None:
        self.left = left

    def allows(self, amount: int) -> bool:
        """Spend ``amount`` of the budget if that much is left, and return whether it was."""
        if amount > self.left:
            return False
        self.left -= amount
        return True


def _below_projections(expression: Expression, source: RelationNode) -> Expression:
    """Return the expression over the columns below projections and subqueries; unchanged where there are none."""
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


class FinalBuilder:
    """Collects the aggregates of one final aggregation.

    Args:
        source: an owned relation; the caller may still extend it by marks, which only append columns.
        keys: names and expressions of GROUP BY.
        options: the OPTIONS in the text.
    """

    def __init__(self, source: RelationNode, keys: Sequence[tuple[str, Expression]], options: Options) -> None:
        for name, expression in keys:
            check_key(name, expression)
        # A bound is 1 where declarations say that a unit is in one group, or has one row in each; bounding enforces it
        # on any data.
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
        # All rows of a plain table meet no common condition.
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
        """Return the public values of a key, whether it is computed here or in a subquery below."""
        if isinstance(key, Reference) and key.values is not None and len(key.values) <= FEW:
            # Declared categories of a column are listed as they are.
            self.work.allows(2 * (len(key.values) + (key.nullable and None not in key.values)))
            return tuple(sorted(set(key.values), key=lambda value: sort_key(value, key.type)))
        found = public_values(key, self.work)
        below = _below_projections(key, source) if found is None else key
        return found if below is key else public_values(below, self.work)

    def add(self, asked: AggregateCall, source: RelationNode) -> int:
        """Add an aggregate, equal ones once, and return its index among the released columns."""
        how, value = AGGREGATES[asked.function], asked.argument
        stated = asked.per_group is not None or asked.per_row is not None
        if how.bounded and not stated and value is not None and value.type.is_numeric:
            # Bounds that are neither declared nor stated are found privately, as for CLAMP(x, AUTO).
            asked = replace(asked, auto=asked.auto or value.range.ends is None or is_derived(source, value))
        made = how.released.measured(asked, source, self)
        if made not in self.aggregates:
            limits.check_size(len(self.aggregates) + 1, limits.MAX_COLUMNS, "aggregates")
            self.aggregates.append(made)
        return self.aggregates.index(made)

    def build(self, source: RelationNode) -> FinalAggregation:
        """Return the final aggregation over the finished source."""
        public = all(key.values is not None for key in self.keys)
        count = math.prod(len(key.values or ()) for key in self.keys) if public else None
        if count is not None and count > limits.MAX_KEYS:
            # Too many to return.
            count = None
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
        """Add a measurement, equal ones once, and return its index. ``stated``: its clamp does not follow ``rows``."""
        if self.limits.rows.is_auto and not stated:
            measure = replace(measure, auto_rows=True)
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def categories(self, argument: Expression) -> tuple[Value | None, ...] | None:
        """Return the public values of an expression, if they are known."""
        return public_values(argument, self.work)


# -- windows

Around = tuple[int | None, int | None]
_NUMBERED = ("row_number", "rank", "dense_rank")
_SHIFTED = ("lag", "lead")
#: Windows that read the value of one row of the frame.
_PLACED = ("first_value", "last_value")


def named_windows(select: exp.Select) -> dict[str, exp.Window]:
    """Return the windows of a WINDOW clause by lower-case name."""
    found: dict[str, exp.Window] = {}
    for node in select.args.get("windows") or []:
        name = node.name.lower()
        if name in found:
            raise Refusal("duplicate_name", f"The window {name!r} is defined twice.")
        if node.args.get("alias") is not None:
            raise Refusal("window", "A named window cannot build on another one.")
        found[name] = node
    return found


class _Over(NamedTuple):
    """The OVER clause of a window, resolved."""

    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    frame: WindowFrame
    around: Around | None


def read_window(
    node: exp.Window, scalars: Scalars, named: dict[str, exp.Window], source: RelationNode
) -> tuple[WindowCall, Domain]:
    """Resolve a window call; ``source`` gives the presumed number of rows of a unit."""
    written = _definition(node, named)
    partition = tuple(scalars(part) for part in written.args.get("partition_by") or [])
    order = written.args.get("order")
    terms = tuple(sort_key_of(term, scalars(term.this)) for term in (order.expressions if order is not None else []))
    over = _Over(partition, terms, *_window_frame(written.args.get("spec"), terms))
    called = node.this
    name = function_name(called) if isinstance(called, exp.Anonymous) else ""
    if name in _NUMBERED:
        if called.expressions:
            raise Refusal("arguments", f"{name.upper()} takes no arguments.")
        most = rows_inside(source)
        domain = Domain(Range(Fraction(1), None if most is None else Fraction(most)), False, None, Fraction(1))
        return WindowCall(name, None, None, partition, terms, WindowFrame.PARTITION, INTEGER), domain
    if name in _SHIFTED:
        return _shifted(name, called.expressions, scalars, over)
    if name in _PLACED:
        if over.around is not None:
            raise Refusal("window", f"{name.upper()} takes frames from UNBOUNDED PRECEDING on; use LAG or LEAD.")
        return _placed(name, called.expressions, scalars, over)
    if not is_aggregate(called) or is_pick(called):
        raise Refusal("window", f"{name.upper() or 'This function'} is not supported as a window.")
    made, domain = unit_call(read_aggregate(called, scalars), rows_inside(source))
    if made.where is not None or made.parameter is not None or made.function == "count_distinct":
        raise Refusal("window", "Windows take plain aggregates without FILTER, DISTINCT and quantiles.")
    return WindowCall(made.function, made.argument, None, partition, terms, over.frame, made.type, over.around), domain


def _definition(node: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
    name = node.args.get("alias")
    if name is None:
        return node
    if node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"):
        raise Refusal("window", "A named window cannot be changed where it is used.")
    known = named.get(name.name.lower())
    if known is None:
        raise Refusal("window", f"There is no window {name.name[:63]!r}.")
    return known


def _shifted(name: str, args: list[exp.Expr], scalars: Scalars, over: _Over) -> tuple[WindowCall, Domain]:
    """Resolve LAG and LEAD: the value of a row at a fixed distance before or after."""
    if not over.order:
        raise Refusal("window", f"{name.upper()} needs ORDER BY in its window.")
    if not 1 <= len(args) <= 2:
        raise Refusal("arguments", f"{name.upper()} takes a value and an offset.")
    value = scalars(args[0])
    offset = constant_int(name.upper(), scalars(args[1]), 0, 1000, "the offset") if len(args) == 2 else 1
    domain = Domain(value.range, True, value.values, value.step, value.domain.growth)
    return WindowCall(name, value, offset, over.partition, over.order, WindowFrame.PARTITION, value.type), domain


def _placed(name: str, args: list[exp.Expr], scalars: Scalars, over: _Over) -> tuple[WindowCall, Domain]:
    """Resolve FIRST_VALUE and LAST_VALUE: one row of the frame; all columns complete its order."""
    partition, order, frame, _ = over
    if len(args) != 1:
        raise Refusal("arguments", f"{name.upper()} takes one value.")
    if not order:
        raise Refusal("window", f"{name.upper()} needs ORDER BY in its window.")
    value = scalars(args[0])
    if name == "first_value":
        # All frames begin with the first row of the partition.
        frame = WindowFrame.PARTITION
    elif frame is WindowFrame.PEERS:
        # LAST_VALUE is the last of the tied rows: these form a partition.
        partition, order, frame = (*partition, *(key.expression for key in order)), (), WindowFrame.PARTITION
    return WindowCall(name, value, None, partition, order, frame, value.type), value.domain


def _window_frame(spec: exp.Expr | None, terms: tuple[SortKey, ...]) -> tuple[WindowFrame, Around | None]:
    """Return the frame of a window, and its two ends if they are relative to the current row."""
    if spec is None:
        return (WindowFrame.PEERS if terms else WindowFrame.PARTITION), None
    kind = str(spec.args.get("kind") or "").upper()
    begin = _frame_end(spec.args.get("start"), spec.args.get("start_side"), first=True)
    end = _frame_end(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), first=False)
    if begin is None and end is None:
        return WindowFrame.PARTITION, None
    if begin is None and end == 0 and kind == "RANGE":
        return WindowFrame.PEERS, None
    if kind != "ROWS":
        raise _no_frame()
    if begin is None and end == 0:
        return WindowFrame.RUNNING, None
    if not terms:
        raise Refusal("window", "A frame around the current row needs ORDER BY in the window.")
    if begin is not None and end is not None and begin > end:
        raise Refusal("window", "A frame ends before it begins; exchange its ends.")
    return WindowFrame.ROWS_AROUND, (begin, end)


def _frame_end(node: exp.Expr | str | None, side: object, *, first: bool) -> int | None:
    """Return one end of a frame, in rows after the current one; None for an unbounded end."""
    sign = {"PRECEDING": -1, "FOLLOWING": 1}.get(str(side or "").upper(), 0)
    word = node.upper() if isinstance(node, str) else ""
    if word == "CURRENT ROW":
        return 0
    if word == "UNBOUNDED" and sign == (-1 if first else 1):
        return None
    if isinstance(node, exp.Literal) and sign and re.fullmatch(r"[0-9]{1,12}", node.name) and not node.is_string:
        return sign * int(node.name)
    raise _no_frame()


def _no_frame() -> Refusal:
    return Refusal(
        "window",
        "A frame is ROWS BETWEEN n PRECEDING AND m FOLLOWING, n and m whole numbers, CURRENT ROW or UNBOUNDED, or "
        "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW or UNBOUNDED FOLLOWING.",
    )
