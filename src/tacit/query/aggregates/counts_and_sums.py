"""COUNT and SUM, also of distinct values: one released integer times a step.

The value is the released number itself, so that cells add up without bias; a count may be negative. The interval is cut
to the public range of the truth (a count is not negative) and always contains the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from tacit.mechanisms.residual_basis import rounded_table
from tacit.query.aggregates.family import (
    AggregateCall,
    AggregateEntry,
    Bounds,
    Column,
    ErrorTerms,
    Family,
    Measuring,
    SqlName,
    called,
    names_of,
    no_bounds,
    noisy_numbers,
    noisy_steps,
    value_grid,
)
from tacit.query.planning.auto_bounds import provisional
from tacit.query.planning.measures import (
    COUNT_ROWS,
    COUNT_UNITS,
    COUNT_VALUES,
    Measure,
    MeasureKind,
    count_measure,
    sum_measure,
)
from tacit.query.postprocess.cells import (
    Affine,
    Cell,
    CellConfidence,
    Draw,
    Ends,
    Event,
    MeasureBias,
    around,
    roundings,
    value_at,
    value_of_ratio,
)
from tacit.query.query import Aggregate
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, Reference
from tacit.query.relational.functions.registry import fits_decimal
from tacit.query.types import (
    DOUBLE,
    INTEGER,
    Domain,
    Kind,
    Range,
    SqlType,
    Value,
    ordinal,
)

if TYPE_CHECKING:
    from tacit.query.postprocess.result import CellNumbers


class OneNumber(Family):
    """Aggregates with one released integer times a step as their value."""

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return the error of the one noise."""
        index = aggregate.measures[0]
        return at.law(index).error(at.beta) * at.final.measures[index].unit_of_value

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Return cells of the released numbers."""
        index = aggregate.measures[0]
        low, high = measure.clamp
        # A sum of contributions that are not negative is not negative, whatever the noise.
        possible = Range(_ZERO if low >= 0 else None, _ZERO if high <= 0 else None)
        if aggregate.bounds is not None:
            possible = possible.clamped(*aggregate.bounds)
        noisy = noisy_steps(released, index)

        def cell(group: int) -> Cell:
            draw, parts = released.draw(index, group), released.parts(index, group)
            members = (group,) if released.finest is None else released.members[group]
            total = None if shown is None else sum((shown[member] for member in members), _ZERO)
            return Direct(noisy[group], draw, measure.step, possible, aggregate.type, parts, total)

        shown = _shown_parts(aggregate, measure, released)
        return cell


def _shown_parts(aggregate: Aggregate, measure: Measure, released: CellNumbers) -> list[Fraction] | None:
    """Return the shown values of released groups if rounding may make totals differ from their sums; None otherwise."""
    finest, index, kind = released.finest or released, aggregate.measures[0], aggregate.type
    if kind.step is None or finest.laws[index].unit == 1:
        return None
    cells = finest.laws[index].cells
    if cells is not None:
        # In whole steps of the type, so that rounding errors of many groups do not add up in a total.
        worth = finest.laws[index].unit * measure.step / kind.step
        numbers = noisy_numbers(finest, index).reshape(cells.basis.sizes)
        rounded = rounded_table(numbers * worth.numerator, worth.denominator)
        return [int(steps) * kind.step for steps in rounded.ravel().tolist()]
    if released.finest is None:
        return None
    shown = [value_at(noisy * measure.step, kind) for noisy in noisy_steps(finest, index)]
    return [_ZERO if value is None else ordinal(value, kind) for value in shown]


class Counts(OneNumber):
    """COUNT of rows, of values, of units and of distinct values."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:
        clamp = _count_clamp(asked)
        kind, measure_kind, argument = COUNT_ROWS, MeasureKind.ROWS, asked.argument
        if asked.function == "count" and argument is not None:
            kind, measure_kind = COUNT_VALUES, MeasureKind.VALUES
        elif argument is not None and _is_unit(argument, source):
            kind, measure_kind, argument, clamp = COUNT_UNITS, MeasureKind.UNITS, None, None
        elif argument is not None:
            kind, measure_kind = "count_distinct", MeasureKind.DISTINCT
            if argument.type.kind is Kind.DOUBLE:
                raise Refusal(
                    "key_type", "COUNT(DISTINCT x) of a DOUBLE is a matter of rounding; use ROUND or a CAST to DECIMAL."
                )
        stated = clamp is not None or measure_kind is MeasureKind.UNITS
        made = count_measure(measure_kind, argument, asked.where, rows=final.rows, clamp=clamp)
        index = final.measure(made, stated=stated)
        return Aggregate(kind, (index,), None, INTEGER, None, asked.label)


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


class Sums(OneNumber):
    """SUM of a bounded value."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        argument = asked.value
        bounds = provisional(argument) if asked.auto else asked.per_row or argument.range.ends
        if bounds is None and asked.per_group is None:
            raise no_bounds(asked, argument)
        step = value_grid(asked, argument, bounds or asked.per_group or (_ZERO, Fraction(1)))
        measure = sum_measure(
            MeasureKind.SUM, argument, asked.where, bounds=bounds, step=step, rows=final.rows, total=asked.per_group
        )
        index = final.measure(replace(measure, auto=asked.auto), stated=asked.per_group is not None)
        kind = argument.type if argument.type.kind in (Kind.INTEGER, Kind.DECIMAL) else DOUBLE
        return Aggregate("sum", (index,), None, kind, None, asked.label)


_ZERO: Final = Fraction(0)


def distinct_value(asked: AggregateCall) -> tuple[Expression, Bounds, Fraction]:
    """Return the argument of SUM or AVG of distinct values, its bounds and its step."""
    argument, shown = asked.value, asked.function.partition("_")[0].upper()
    if asked.per_group is not None or asked.per_row is not None:
        raise Refusal(
            "contribution_bounds", f"{shown}(DISTINCT x) takes CLAMP(x, lo, hi) instead of contribution bounds."
        )
    if argument.type.kind is Kind.DOUBLE:
        raise Refusal(
            "key_type",
            f"{shown}(DISTINCT x) of a DOUBLE is a matter of rounding; CAST it to DECIMAL or INTEGER.",
        )
    bounds = argument.range.ends
    if bounds is None:
        raise Refusal(
            "bounds",
            f"{shown}(DISTINCT x) needs bounds for {names_of(argument)}: write CLAMP(x, lo, hi), or ask the data owner "
            "to declare bounds.",
        )
    return argument, bounds, value_grid(asked, argument, bounds)


class DistinctSums(OneNumber):
    """SUM of distinct values."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Add one sum over the union of values."""
        argument, bounds, step = distinct_value(asked)
        kind, rows = MeasureKind.DISTINCT_SUM, final.rows
        made = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=rows, centred=False)
        return Aggregate("sum_distinct", (final.measure(made),), None, argument.type, None, asked.label)


APART: Final = (
    "SUM and AVG of DISTINCT values are released over people; inside one person's rows, over public or over released "
    "rows, take SELECT DISTINCT in a subquery first."
)


@dataclass(frozen=True, eq=False)
class Direct(Cell):
    """Cell of one released integer.

    Args:
        noisy: the released number, in steps.
        draw: of its noise.
        step: value of one step.
        possible: public range of the truth, which holds for any noise.
        type: of the value.
        parts: the draws of the release that add up to its noise; empty for a draw of the release itself.
        shown: the value of a total, the sum of its groups as they are shown; None to show the number itself, rounded.
    """

    noisy: Fraction
    draw: Draw
    step: Fraction
    possible: Range
    type: SqlType
    parts: tuple[Draw, ...] = ()
    shown: Fraction | None = None
    event_count: ClassVar[int | None] = 1

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        if self.shown is not None:
            return value_at(self.shown, self.type)
        noisy, step = self.noisy, self.step
        return value_of_ratio(noisy.numerator * step.numerator, noisy.denominator * step.denominator, self.type)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        return frozenset((self.draw,))

    @property
    def affine(self) -> Affine:
        """The cell as a sum of draws of the release: one, or those of the groups that a total adds up."""
        low = self.possible.low
        draws = dict.fromkeys(self.parts or (self.draw,), self.step)
        return Affine(draws, self.noisy * self.step, self.step, low is not None and low >= 0)

    @classmethod
    def column_ends(cls, cells: Sequence[Direct], level: CellConfidence) -> list[Ends]:
        """Return :meth:`ends` of each cell: (noisy ± width)·step in integers, rounded and then cut, in either order."""
        found: list[Ends] = []
        last: Direct | None = None
        for cell in cells:
            if last is None or not cell._is_like(last):
                last = cell
                width, step = level.half_width(cell.draw.measure), cell.step
                ways = roundings(step, cell.type)
                floor = [value_at(cell.possible.low, cell.type, way) for way in ways]
                roof = [value_at(cell.possible.high, cell.type, way) for way in ways]
            top, bottom = cell.noisy.numerator * width.denominator, cell.noisy.denominator
            reach = bottom * width.numerator
            bottom *= width.denominator * step.denominator
            low = value_of_ratio((top - reach) * step.numerator, bottom, cell.type, ways[0])
            high = value_of_ratio((top + reach) * step.numerator, bottom, cell.type, ways[1])
            if cell.possible.low is not None:
                low, high = max(low, floor[0]), max(high, floor[1])  # type: ignore[type-var]
            if cell.possible.high is not None:
                low, high = min(low, roof[0]), min(high, roof[1])  # type: ignore[type-var]
            found.append(around(cell.value, low, high))
        return found

    def _is_like(self, other: Direct) -> bool:
        """Whether both cells are of one column, and so share their public parameters."""
        same = self.step is other.step and self.possible is other.possible
        return same and self.draw.measure == other.draw.measure

    def _enclose(self, level: CellConfidence) -> Domain:
        width = level.half_width(self.draw.measure)
        around = Range((self.noisy - width) * self.step, (self.noisy + width) * self.step)
        return Domain(around.clamped(self.possible.low, self.possible.high), False, None, self.step)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        bias = biases[self.draw.measure]
        low, high = known.range.low, known.range.high
        down, up = bias.down * self.step, bias.up_of(self.noisy if high is None else high / self.step) * self.step
        span = Range(None if low is None else low - down, None if high is None else high + up)
        return Domain(span, known.nullable, None, known.step)


# -- exact, inside one unit's rows


def number_of_rows(argument: Expression | None, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Return the type and range of a count of rows."""
    return INTEGER, Range(_ZERO, None if rows is None else Fraction(rows))


def number_of_values(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:
    """Return the type and range of a count of distinct values."""
    known = [
        number for number in (rows, None if argument.values is None else len(argument.values)) if number is not None
    ]
    return INTEGER, Range(_ZERO, Fraction(min(known)) if known else None)


def total(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:
    """Return the type and range of a sum of values."""
    kind, total = argument.type, argument.range * Range(Fraction(1), None if rows is None else Fraction(rows))
    exact = kind.kind is not Kind.DECIMAL or fits_decimal(total, kind.scale)
    return kind if exact else DOUBLE, total


def sum_of(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    return sum(places, _ZERO)


_COUNTS: Final = Counts()
ENTRIES: Final = {
    "count_rows": AggregateEntry(
        {name: SqlName("count_rows", 1, "condition") for name in ("count_if", "countif")},
        number_of_rows, None, ("count_rows",), _COUNTS, counts=True, adds_up=True),
    "count": AggregateEntry(
        called("count", "count", "anon_count") | {"regr_count": SqlName("count", 2, "first")}, number_of_rows, None,
        ("count_values",), _COUNTS, counts=True, adds_up=True),
    "count_distinct": AggregateEntry(
        called("count_distinct", "approx_count_distinct"), number_of_values, None,
        ("count_units", "count_distinct"), _COUNTS, counts=True, sorts=True),
    "sum": AggregateEntry(
        called("sum", "sum", "anon_sum"), total, sum_of, ("sum",), Sums(), takes="number", bounded=True, linear=True,
        adds_up=True),
    "sum_distinct": AggregateEntry(
        {}, None, None, ("sum_distinct",), DistinctSums(), takes="number", refusal=APART),
}  # fmt: skip
