"""Family of aggregates: the call of an aggregate, its entry in the table, and the interface of its released form.

*Expected error* of a released cell, from public parameters. Counts and sums have one error for any data. Averages and
variances divide by the number of values, so their error is stated for a *supposed* number; the error of quantiles is a
number of values in rank, that of the most common category a number of values in count. All errors are relative to the
bounded, quantised truth: the bias of clamping and of dropped groups is not noise and is not included.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InternalError
from tacit.query.planning.auto_bounds import provisional
from tacit.query.planning.measures import (
    Measure,
    grid_step,
)
from tacit.query.planning.noise import NoiseLaw
from tacit.query.postprocess.cells import (
    Cell,
)
from tacit.query.query import Aggregate, FinalAggregation, TotalOf
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression, references
from tacit.query.types import DOUBLE, Range, SqlType, Value

if TYPE_CHECKING:
    from tacit.query.planning.releases import Priced
    from tacit.query.postprocess.result import CellNumbers


Bounds = tuple[Fraction, Fraction]
_ZERO: Final = Fraction(0)


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate in the query.

    Args:
        function: a key of :data:`AGGREGATES`.
        argument: the expression it reads; None for ``count_rows``.
        where: the FILTER condition.
        parameter: the fraction of a quantile, or the rank of ``mode``.
        per_group: stated bounds on the contribution of one unit to one group.
        per_row: stated bounds on single values.
        auto: whether bounds are searched privately: the argument was written ``CLAMP(x, AUTO)`` and is x.
        second: the second expression of a statistic of pairs.
        discrete: whether a quantile is one of the values and has their type.
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
        """Text of the call."""
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
        """Return the index of a measurement; equal ones share it. ``stated``: its clamp does not follow ``rows``."""

    def categories(self, argument: Expression) -> tuple[Value | None, ...] | None:
        """Return the public values of an expression, if they are known."""


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The expected error of one cell of an aggregate.

    Args:
        label: of the aggregate.
        bound: exceeded with probability at most 1 - confidence; None if it depends on numbers that are not known before
            the query runs.
        kind: unit of the bound: ``"value"``, ``"rank"`` (values before or after in order), ``"count"`` (values fewer
            than the most common value has) or ``"even"`` (in value, for values spread evenly over their bounds).
        supposing: the number of values in a group for which the bound holds; None if it holds for any number.
        power: ``bound`` is to be multiplied by this power of the larger of the AUTO bounds, which are not found yet.
    """

    label: str
    bound: Fraction | None
    kind: str
    supposing: int | None = None
    power: int = 0

    def meaning(self, bound: str) -> str:
        """Describe the error, with the bound as formatted text."""
        words = {
            "value": f"within {bound}",
            "rank": f"within {bound} values in rank",
            "count": f"at most {bound} values fewer than the true one has",
            "even": f"within {bound} where values are spread evenly over their bounds",
        }[self.kind]
        return words if self.supposing is None else f"{words}, supposing {self.supposing:,} values in a group"


class ErrorTerms(NamedTuple):
    """The public parameters of an expected error.

    ``suppose`` is a number of values in a group; ``total`` is the sum of groups that a cell is; None for a released
    group.
    """

    final: FinalAggregation
    priced: Priced
    beta: Fraction
    suppose: int | None
    total: TotalOf | None = None

    @property
    def is_one_group(self) -> bool:
        return self.total is None or self.total.copies == 1

    def law(self, measure: int) -> NoiseLaw:
        """Return the law of the noise of a measurement in one cell."""
        release = self.priced.release_of[measure]
        return release.law(measure) if self.total is None else release.set_law(measure, *self.total)


#: Function from group index to cell, for one aggregate.
Column = Callable[[int], Cell]


class Family(ABC):
    """Aggregates that are released in the same way: their measurements, expected error and estimate.

    Args:
        error_kind: the unit of errors; see :class:`ExpectedError`.
    """

    error_kind = "value"

    @abstractmethod
    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:
        """Add the measurements of an aggregate to the final aggregation, and return its released column."""

    @abstractmethod
    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """Return the error of one cell exceeded with probability at most ``beta``; None if it is not known."""

    @abstractmethod
    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Return a function from group to estimate; ``measure`` is the last of the aggregate's measurements."""


def noisy_steps(released: CellNumbers, measure: int) -> list[Fraction]:
    """Return the released numbers of a measurement in steps."""
    unit = released.laws[measure].unit
    numbers = noisy_numbers(released, measure).tolist()
    return [Fraction(number) for number in numbers] if unit == 1 else [int(number) * unit for number in numbers]


def noisy_numbers(released: CellNumbers, measure: int) -> NDArray[Any]:
    """Return the released integers of a measurement that has no tree."""
    noisy = released.noisy[measure]
    if not isinstance(noisy, np.ndarray):
        raise InternalError("a tree where numbers were planned")
    return noisy


def no_bounds(asked: AggregateCall, argument: Expression, *, stated: bool = False) -> Refusal:
    """Return the refusal of an aggregate whose value has no bounds; ``stated``: only CLAMP can give them."""
    others = (
        ""
        if stated
        else " or contribution_bounds_per_group => (lo, hi), let a share of the cost find them by CLAMP(x, AUTO)"
    )
    write = f"CLAMP(x, lo, hi){others}"
    if argument.type.is_temporal:
        # Neither CLAMP nor stated bounds read days.
        write = "CLAMP(date_diff('day', DATE '2020-01-01', x), lo, hi)"
    return Refusal(
        "bounds",
        f"{asked.function.upper()} needs bounds for {names_of(argument)}: write {write}, or ask the data owner to "
        "declare bounds.",
    )


def names_of(argument: Expression) -> str:
    """Return the names of the columns of an expression; if some have no bounds, only those."""
    unbounded = [part.name for part in references(argument) if part.range.ends is None]
    named = unbounded or [part.name for part in references(argument)]
    return ", ".join(dict.fromkeys(named)) or "the expression"


def value_bounds(asked: AggregateCall, argument: Expression) -> Bounds:
    """Return the bounds of the values: stated, declared, or provisional ones until AUTO finds them."""
    if asked.auto:
        return provisional(argument)
    bounds = asked.per_row or asked.per_group or argument.range.ends
    if bounds is None:
        raise no_bounds(asked, argument)
    return bounds


def value_grid(asked: AggregateCall, argument: Expression, bounds: Bounds) -> Fraction:
    """Return the step of the values."""
    return Fraction(1) if asked.auto else grid_step(argument.step, argument.type, bounds)


# -- entries of the table


#: Function from an expression and the most rows of one unit to the type and range of the aggregate.
UnitResult = Callable[[Any, int | None], tuple[SqlType, Range]]


def between_the_values(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Return the type and range of a mean or quantile."""
    return DOUBLE, argument.range


#: Function from the places of released cells, and a parameter, to the value of the aggregate.
Fold = Callable[[list[Fraction], Fraction | None], Fraction | None]


class SpreadForm(NamedTuple):
    """Form of a variance: whether it is divided by n - 1, and whether its root is taken."""

    sample: bool
    root: bool

    def largest(self, width: Fraction) -> Fraction:
        """Return the largest variance of values within ``width`` of each other, or a bound on the deviation."""
        return width if self.root else width**2 / (2 if self.sample else 4)


class SqlName(NamedTuple):
    """One way to write an aggregate in SQL.

    Args:
        function: a key of :data:`AGGREGATES`.
        arguments: number of arguments.
        parameter: a fixed parameter; or the meaning of the last argument: the ``"fraction"`` of a quantile or of a
            ``"discrete"`` one, the number of ``"parts"`` into which quantiles divide the values, or the
            ``"condition"`` of counted rows. Statistics of pairs read the ``"pair"``, or its ``"first"`` or ``"second"``
            value.
    """

    function: str
    arguments: int = 1
    parameter: Fraction | str | None = None


@dataclass(frozen=True)
class AggregateEntry:
    """Entry of an aggregate in the table.

    Args:
        names: its SQL names.
        unit: type and range of its exact form, from the argument and the most rows; None if it has no exact form.
        fold: its value over the places of released cells; None for counts.
        kinds: its released kinds.
        family: the family that releases it; None if it is not released.
        takes: ``"any"``, ``"number"`` or ``"condition"``.
        bounded: whether its released form clamps values to bounds, which AUTO can find.
        counts: whether it is a number of rows, which is never NULL.
        linear: whether the fold is a weighted sum.
        spread: the form of a variance; None for other aggregates.
        sorts: whether its exact form collects a group's values and sorts them.
        power: the largest power of AUTO bounds with which its error grows.
        pairs: whether it reads two values.
        adds_up: whether the aggregate of a total follows from released groups.
        refusal: the message if it has no exact form, or is not released.
    """

    names: Mapping[str, SqlName]
    unit: UnitResult | None
    fold: Fold | None
    kinds: tuple[str, ...]
    family: Family | None
    takes: str = "any"
    bounded: bool = False
    counts: bool = False
    linear: bool = False
    spread: SpreadForm | None = None
    sorts: bool = False
    power: int = 2
    pairs: bool = False
    adds_up: bool = False
    refusal: str = ""

    @property
    def released(self) -> Family:
        """The family that releases it.

        Raises:
            Refusal: it is not released.
        """
        if self.family is None:
            raise Refusal("raw_aggregate", self.refusal)
        return self.family


def called(function: str, *names: str) -> dict[str, SqlName]:
    return {name: SqlName(function) for name in names}
