"""Building the final aggregation: bounds found, measurements shared, keys public or private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from tacit.query import limits
from tacit.query.parsing.query_options import Options
from tacit.query.planning.auto_bounds import provisional
from tacit.query.planning.measures import (
    Measure,
    MeasureKind,
    categories_measure,
    count_measure,
    grid_step,
    leaves_measure,
    sum_measure,
)
from tacit.query.planning.work import Sizes
from tacit.query.public_keys import EnumerationBudget, check_key, public_count, public_values
from tacit.query.question import Aggregate, AggregateKind, FinalAggregation, GroupKey
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, Reference, references
from tacit.query.relational.narrowing import narrowed_keys, true_of_all
from tacit.query.resolve.aggregates import AggregateCall, Bounds
from tacit.query.types import DOUBLE, INTEGER, Kind, SqlType

__all__ = ["FinalBuilder"]

_RATIOS = {
    "avg": AggregateKind.AVG,
    "var_samp": AggregateKind.VAR_SAMP,
    "var_pop": AggregateKind.VAR_POP,
    "stddev_samp": AggregateKind.STDDEV_SAMP,
    "stddev_pop": AggregateKind.STDDEV_POP,
}
_RANKS = {"min": AggregateKind.MIN, "max": AggregateKind.MAX, "quantile": AggregateKind.QUANTILE}


NEVER_NULL = (AggregateKind.COUNT_ROWS, AggregateKind.COUNT_VALUES, AggregateKind.COUNT_UNITS)


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
        self.groups = 1 if all(source.fields[part.slot].per_unit for part in read) else source.max_groups
        most = 1 if Sizes().repeats(source, plain) == 1 else source.max_rows
        self.rows = most if options.max_rows is None else min(options.max_rows, most)
        self.work = EnumerationBudget()
        conditions = true_of_all(source)
        self.keys = tuple(
            GroupKey(name, e, narrowed_keys(e, public_values(e, self.work), conditions, self.work.allows))
            for name, e in keys
        )
        self.options = options
        self.measures: list[Measure] = []
        self.aggregates: list[Aggregate] = []

    def add(self, asked: AggregateCall, source: RelationNode) -> int:
        """The index of the released column for an aggregate; equal ones are one."""
        made = self._aggregate(asked, source)
        if made not in self.aggregates:
            limits.check_size(len(self.aggregates) + 1, limits.MAX_COLUMNS, "aggregates")
            self.aggregates.append(made)
        return self.aggregates.index(made)

    def build(self, source: RelationNode) -> FinalAggregation:
        """The aggregation over the finished source."""
        count = public_count(key.values for key in self.keys)
        if count is None and self.options.group_selection == "PUBLIC_GROUPS":
            self._refuse_private()
        declared = self.groups
        asked = declared if self.options.max_groups is None else self.options.max_groups
        if asked > declared and self.keys:
            raise Refusal(
                "option",
                f"max_groups_contributed = {asked} is more than the {declared} groups of one person that the data "
                f"owner allows; state at most {declared}, or leave it out.",
            )
        asked = min(asked, declared)
        groups = asked if count is None else min(asked, max(count, 1))
        keys = self.keys if count is not None else tuple(GroupKey(k.name, k.expression, None) for k in self.keys)
        return FinalAggregation(
            source, keys, tuple(self.measures), tuple(self.aggregates), groups, count is not None, count
        )

    def _refuse_private(self) -> None:
        for key in self.keys:
            if key.values is None:
                raise Refusal(
                    "no_categories",
                    f"The keys of {key.name!r} are not public; declare categories or bounds, or group by fewer values.",
                )
        raise Refusal("too_many_keys", f"There are more than {limits.MAX_KEYS} public keys; group by fewer values.")

    def _measure(self, measure: Measure) -> int:
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def _aggregate(self, asked: AggregateCall, source: RelationNode) -> Aggregate:
        function = asked.function
        if function in ("bool_and", "bool_or"):
            raise Refusal(
                "raw_aggregate", "BOOL_AND and BOOL_OR would tell whether one person differs; use COUNT with FILTER."
            )
        if function in ("count_rows", "count", "count_distinct"):
            return self._count(asked, source)
        if asked.argument is None:
            raise AssertionError("only counts have no argument")
        if function == "mode":
            return self._mode(asked, asked.argument)
        if function == "sum":
            return self._sum(asked, asked.argument)
        if function in _RANKS:
            return self._rank(asked, asked.argument)
        return self._ratio(asked, asked.argument)

    def _count(self, asked: AggregateCall, source: RelationNode) -> Aggregate:
        clamp = _count_clamp(asked)
        kind, measure_kind, argument = AggregateKind.COUNT_ROWS, MeasureKind.ROWS, asked.argument
        if asked.function == "count" and argument is not None:
            kind, measure_kind = AggregateKind.COUNT_VALUES, MeasureKind.VALUES
        elif argument is not None and _is_unit(argument, source):
            kind, measure_kind, argument, clamp = AggregateKind.COUNT_UNITS, MeasureKind.UNITS, None, None
        elif argument is not None:
            kind, measure_kind = AggregateKind.COUNT_DISTINCT, MeasureKind.DISTINCT
            if argument.type.kind is Kind.DOUBLE:
                raise Refusal(
                    "key_type", "COUNT(DISTINCT x) of a DOUBLE is a matter of rounding; use ROUND or a CAST to DECIMAL."
                )
        index = self._measure(count_measure(measure_kind, argument, asked.where, rows=self.rows, clamp=clamp))
        return Aggregate(kind, (index,), None, INTEGER, None, asked.label)

    def _sum(self, asked: AggregateCall, argument: Expression) -> Aggregate:
        bounds = provisional(argument) if asked.auto else asked.per_row or argument.range.ends
        if bounds is None and asked.per_group is None:
            raise _no_bounds(asked, argument)
        step = _grid(asked, argument, bounds or asked.per_group or (Fraction(0), Fraction(1)))
        measure = sum_measure(
            MeasureKind.SUM, argument, asked.where, bounds=bounds, step=step, rows=self.rows, total=asked.per_group
        )
        index = self._measure(replace(measure, auto=asked.auto))
        return Aggregate(AggregateKind.SUM, (index,), None, _sum_type(argument.type), None, asked.label)

    def _ratio(self, asked: AggregateCall, argument: Expression) -> Aggregate:
        bounds = self._value_bounds(asked, argument)
        step = _grid(asked, argument, bounds)
        kinds = [MeasureKind.CENTRED_SUM] + ([] if asked.function == "avg" else [MeasureKind.CENTRED_SQUARES])
        indices = [self._measure(count_measure(MeasureKind.VALUES, argument, asked.where, rows=self.rows))]
        for kind in kinds:
            measure = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=self.rows)
            indices.append(self._measure(replace(measure, auto=asked.auto)))
        width = bounds[1] - bounds[0]
        spread = {"avg": bounds, "var_samp": (Fraction(0), width**2 / 2), "var_pop": (Fraction(0), width**2 / 4)}
        known = None if asked.auto else spread.get(asked.function, (Fraction(0), width))
        return Aggregate(_RATIOS[asked.function], tuple(indices), None, DOUBLE, known, asked.label)

    def _rank(self, asked: AggregateCall, argument: Expression) -> Aggregate:
        if not argument.type.is_numeric and not argument.type.is_temporal:
            raise Refusal(
                "raw_aggregate",
                f"{asked.function.upper()} of {argument.type} would return somebody's value; use numbers or dates.",
            )
        bounds = self._value_bounds(asked, argument)
        step = _grid(asked, argument, bounds)
        measure = leaves_measure(argument, asked.where, bounds=bounds, step=step, rows=self.rows)
        index = self._measure(replace(measure, auto=asked.auto))
        kind = DOUBLE if asked.function == "quantile" and argument.type.is_numeric else argument.type
        known = None if asked.auto else bounds
        return Aggregate(_RANKS[asked.function], (index,), asked.parameter, kind, known, asked.label)

    def _mode(self, asked: AggregateCall, argument: Expression) -> Aggregate:
        values = public_values(argument, self.work)
        if values is None or argument.type.kind is Kind.DOUBLE or not any(value is not None for value in values):
            raise Refusal(
                "no_categories",
                f"MODE and TOP_K choose among declared categories; {_names(argument)} has none. "
                "Ask the data owner to declare them, or use COUNT with GROUP BY.",
            )
        index = self._measure(categories_measure(argument, asked.where, values=values, rows=self.rows))
        return Aggregate(AggregateKind.MOST_COMMON, (index,), asked.parameter, argument.type, None, asked.label)

    def _value_bounds(self, asked: AggregateCall, argument: Expression) -> Bounds:
        if asked.auto:
            return provisional(argument)
        stated = asked.per_row or asked.per_group
        bounds = stated or argument.range.ends
        if bounds is None:
            raise _no_bounds(asked, argument)
        return bounds


def _is_unit(argument: Expression, source: RelationNode) -> bool:
    if not isinstance(argument, Reference) or source.unit is None:
        return False
    label = f"unit {source.population}"
    return argument.slot == source.unit or (
        source.fields[argument.slot].identifies == label and not source.fields[argument.slot].domain.nullable
    )


def _count_clamp(asked: AggregateCall) -> tuple[int, int] | None:
    bounds = asked.per_group
    if asked.per_row is not None:
        raise Refusal("contribution_bounds", "COUNT takes contribution_bounds_per_group, not per_row.")
    if bounds is None:
        return None
    if asked.function == "count_distinct":
        raise Refusal(
            "contribution_bounds", "COUNT(DISTINCT x) takes max_rows_contributed instead of contribution bounds."
        )
    low, high = bounds
    if low.denominator != 1 or high.denominator != 1 or low < 0 or high < 1 or high > 10**9:
        raise Refusal(
            "contribution_bounds", "COUNT takes whole numbers (lo, hi) with 0 <= lo <= hi, hi between 1 and 1e9."
        )
    # A unit without rows adds nothing, so 0 is always possible whatever lo says.
    return 0, int(high)


def _grid(asked: AggregateCall, argument: Expression, bounds: Bounds) -> Fraction:
    return Fraction(1) if asked.auto else grid_step(argument.step, argument.type, bounds)


def _sum_type(kind: SqlType) -> SqlType:
    return kind if kind.kind in (Kind.INTEGER, Kind.DECIMAL) else DOUBLE


def _no_bounds(asked: AggregateCall, argument: Expression) -> Refusal:
    return Refusal(
        "bounds",
        f"{asked.function.upper()} needs bounds for {_names(argument)}: write CLAMP(x, lo, hi) or "
        "contribution_bounds_per_group => (lo, hi), let a share of the price find them by CLAMP(x, AUTO), or ask the "
        "data owner to declare bounds.",
    )


def _names(argument: Expression) -> str:
    unbounded = [part.name for part in references(argument) if not part.range.is_bounded]
    named = unbounded or [part.name for part in references(argument)]
    return ", ".join(dict.fromkeys(named)) or "the expression"
