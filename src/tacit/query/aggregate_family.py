"""Families of aggregates: an aggregate as asked, the interface to plan its released form, and counts and sums.

*COUNT and SUM*: the value is the released number itself, so that cells add up without bias; a count may come out
negative. The interval is cut to what is publicly possible (a count is not negative) and always contains the value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.mechanisms.residual_basis import rounded_table
from tacit.query.planning.auto_bounds import provisional
from tacit.query.planning.measures import AggregateKind, Measure, MeasureKind, count_measure, grid_step, sum_measure
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.planning.quantile_tree import NoisyTree
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
from tacit.query.query import Aggregate, FinalAggregation, TotalOf
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, Reference, references
from tacit.query.types import DOUBLE, INTEGER, Domain, Kind, Range, SqlType, Value, ordinal

if TYPE_CHECKING:
    from tacit.query.planning.releases import Priced
    from tacit.query.postprocess.result import CellNumbers

Bounds = tuple[Fraction, Fraction]
_ZERO: Final = Fraction(0)


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate as asked.

    Args:
        function: a key of :data:`AGGREGATES`.
        argument: the expression it reads; None for ``count_rows``.
        where: the FILTER condition.
        parameter: the fraction of a quantile, or the rank of ``mode``.
        per_group: stated bounds on the contribution of one unit to one group.
        per_row: stated bounds on single values.
        auto: whether bounds are to be found privately: the argument was written ``CLAMP(x, AUTO)`` and is x.
        second: the other expression of a statistic of pairs.
        discrete: whether a quantile is one of the values' own type.
    """

    function: str
    argument: Expression | None
    where: Expression | None
    parameter: Fraction | None
    per_group: Bounds | None
    per_row: Bounds | None
    auto: bool = False
    second: Expression | None = None
    discrete: bool = False

    @property
    def label(self) -> str:
        """Text of the call, for people."""
        read = [self.argument] if self.second is None else [self.argument, self.second]
        return f"{self.function}({', '.join('*' if part is None else getattr(part, 'name', '…') for part in read)})"

    @property
    def value(self) -> Expression:
        """The argument of an aggregate that must have one."""
        if self.argument is None:
            raise AssertionError("only counts have no argument")
        return self.argument


class Measuring(Protocol):
    """The final aggregation that an aggregate is added to."""

    @property
    def rows(self) -> int:
        """The most rows of a unit that count in a group."""

    def measure(self, measure: Measure, *, stated: bool = False) -> int:
        """The index of a measurement; equal ones are taken once. ``stated``: its clamp does not follow ``rows``."""

    def categories(self, argument: Expression) -> tuple[Value | None, ...] | None:
        """The public values of an expression, if they are known."""


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The error of one cell of an aggregate.

    Args:
        label: of the aggregate.
        bound: exceeded with probability at most 1 - confidence; None when it depends on numbers that are not known
            beforehand.
        kind: ``"value"``, ``"rank"`` (so many values before or after in order), ``"count"`` (so many values fewer
            than the most common has) or ``"even"`` (in value, for values that are spread evenly over their bounds).
        supposing: the number of values in a group for which it holds; None when it holds for any.
        power: ``bound`` is to be multiplied by this power of the larger of the AUTO bounds, which are not found yet.
    """

    label: str
    bound: Fraction | None
    kind: str
    supposing: int | None = None
    power: int = 0

    def meaning(self, bound: str) -> str:
        """The error in words, with the bound as it is shown."""
        words = {
            "value": f"within {bound}",
            "rank": f"within {bound} values in rank",
            "count": f"at most {bound} values fewer than the true one has",
            "even": f"within {bound} where values are spread evenly over their bounds",
        }[self.kind]
        return words if self.supposing is None else f"{words}, supposing {self.supposing:,} values in a group"


class ErrorTerms(NamedTuple):
    """The public parameters on which an error depends.

    ``suppose`` is a number of values in a group, ``total`` the sum that a cell is; None for a released group.
    """

    final: FinalAggregation
    priced: Priced
    beta: Fraction
    suppose: int | None
    total: TotalOf | None = None

    @property
    def is_one_group(self) -> bool:
        """Whether a cell is one released group."""
        return self.total is None or self.total.copies == 1

    def law(self, measure: int) -> NoiseLaw:
        """The noise of a measurement in such a cell."""
        release = self.priced.release_of(measure)
        return release.law(measure) if self.total is None else release.set_law(measure, *self.total)


#: The cell of each group, for one aggregate.
Column = Callable[[int], Cell]


class Family(ABC):
    """Aggregates that are released in one way: their measurements, expected error and estimate.

    Args:
        error_kind: the unit of errors; see :class:`ExpectedError`.
    """

    error_kind = "value"

    @abstractmethod
    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:
        """The released column for an aggregate: its measurements, entered into the final aggregation."""

    @abstractmethod
    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """The error of one cell that is exceeded with probability at most ``beta``; None where it is not known."""

    @abstractmethod
    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """The estimates of an aggregate; ``measure`` is the last of its measurements."""


def noisy_steps(released: CellNumbers, measure: int) -> list[Fraction]:
    """Released numbers in steps of their measurement."""
    unit = released.laws[measure].unit
    numbers = noisy_numbers(released, measure).tolist()
    return [Fraction(number) for number in numbers] if unit == 1 else [int(number) * unit for number in numbers]


def noisy_numbers(released: CellNumbers, measure: int) -> NDArray[Any]:
    """Released integers of a measurement without a tree."""
    noisy = released.noisy[measure]
    if isinstance(noisy, NoisyTree):
        raise InternalError("a tree where numbers were planned")
    return noisy


def no_bounds(asked: AggregateCall, argument: Expression, *, stated: bool = False) -> Refusal:
    """The refusal of an aggregate whose value has no bounds; ``stated``: it takes no others."""
    others = (
        ""
        if stated
        else " or contribution_bounds_per_group => (lo, hi), let a share of the price find them by CLAMP(x, AUTO)"
    )
    return Refusal(
        "bounds",
        f"{asked.function.upper()} needs bounds for {names_of(argument)}: write CLAMP(x, lo, hi){others}, or ask the "
        "data owner to declare bounds.",
    )


def names_of(argument: Expression) -> str:
    """Columns of an expression, those without bounds if there are any."""
    unbounded = [part.name for part in references(argument) if not part.range.is_bounded]
    named = unbounded or [part.name for part in references(argument)]
    return ", ".join(dict.fromkeys(named)) or "the expression"


def value_bounds(asked: AggregateCall, argument: Expression) -> Bounds:
    """Bounds of the values: stated, declared, or provisional ones while AUTO looks for them."""
    if asked.auto:
        return provisional(argument)
    bounds = asked.per_row or asked.per_group or argument.range.ends
    if bounds is None:
        raise no_bounds(asked, argument)
    return bounds


def value_grid(asked: AggregateCall, argument: Expression, bounds: Bounds) -> Fraction:
    """Step of the values."""
    return Fraction(1) if asked.auto else grid_step(argument.step, argument.type, bounds)


class OneNumber(Family):
    """Aggregates that are one released integer times a step."""

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """That of the one noise."""
        index = aggregate.measures[0]
        return at.law(index).error(at.beta) * at.final.measures[index].unit_of_value

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """The released numbers themselves."""
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
    """The released groups as they are shown, where totals add them up and rounding could tell the sums apart."""
    finest, index, kind = released.finest or released, aggregate.measures[0], aggregate.type
    if kind.step is None or finest.laws[index].unit == 1:
        return None
    cells = finest.laws[index].cells
    if cells is not None:
        # In whole steps of the type, so that a total of many groups is not off by the rounding of all of them.
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
        """One count."""
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
        """One sum."""
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
        return Aggregate(AggregateKind.SUM, (index,), None, kind, None, asked.label)


@dataclass(frozen=True, eq=False)
class Direct(Cell):
    """One released integer.

    Args:
        noisy: the released number, in steps.
        draw: whose noise it carries.
        step: what one step is worth.
        possible: where the truth lies, whatever the noise.
        type: of the value.
        parts: the draws of the release that add up to its noise; empty for a draw of the release itself.
        shown: the value of a total, the sum of its parts as they are shown; None for the number itself, rounded.
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
        """The number of steps times the step."""
        if self.shown is not None:
            return value_at(self.shown, self.type)
        noisy, step = self.noisy, self.step
        return value_of_ratio(noisy.numerator * step.numerator, noisy.denominator * step.denominator, self.type)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Its one draw."""
        return frozenset((self.draw,))

    @property
    def affine(self) -> Affine:
        """The cell as a sum of draws of the release: one, or those of the groups that a total adds up."""
        low = self.possible.low
        draws = dict.fromkeys(self.parts or (self.draw,), self.step)
        return Affine(draws, self.noisy * self.step, self.step, low is not None and low >= 0)

    @classmethod
    def column_ends(cls, cells: Sequence[Direct], level: CellConfidence) -> list[Ends]:
        """As :meth:`ends`: (noisy ± width)·step in integers, cut where rounding has happened, which changes nothing."""
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
        """Whether both are of one column, which shares what is public."""
        same = self.step is other.step and self.possible is other.possible
        return same and self.draw.measure == other.draw.measure

    def _enclose(self, level: CellConfidence) -> Domain:
        width = level.half_width(self.draw.measure)
        around = Range((self.noisy - width) * self.step, (self.noisy + width) * self.step)
        return Domain(around.clamped(self.possible.low, self.possible.high), False, None, self.step)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        bias = biases[self.draw.measure]
        low, high = known.range.low, known.range.high
        down, up = bias.down * self.step, bias.up_of(self.noisy) * self.step
        span = Range(None if low is None else low - down, None if high is None else high + up)
        return Domain(span, known.nullable, None, known.step)
