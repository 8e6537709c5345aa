"""Integer measurements behind aggregates, with their sensitivities.

A measurement is one integer per group (or one per group and leaf, or per group and category): a sum over units of a
small integer vector that depends on one unit's rows alone. Per (unit, group), with q(x) = floor(x / step + 1/2) after
clamping x so that low ≤ q(x) ≤ high, and n the number of values that count (rows where the FILTER holds and the
argument is not NULL):

=============== ========================================================== ==========================================
kind            value                                                      then clamped to
=============== ========================================================== ==========================================
UNITS           1 if any row counts                                        [0, 1]
ROWS            rows that count                                            [0, rows]
VALUES          n                                                          [0, rows]
DISTINCT        the unit's distinct values, at most ``rows`` kept by       a set; the group's measurement is the size
                keyed hash                                                 of the union over units
SUM             Σ q(x)                                                     ``clamp``
CENTRED_SUM     Σ (q(x) - centre), times rows/n (rounded) if n > rows      ``clamp``
CENTRED_SQUARES Σ (q(x) - centre)², likewise                               ``clamp``
LEAVES          one count per leaf of width ``leaf`` over [low, high], of  [0, rows] in each leaf and in all together
                at most ``rows`` values kept by keyed hash
CATEGORIES      one count per declared category, likewise                  [0, rows] in each and in all together
=============== ========================================================== ==========================================

Scaling a heavy contributor down (instead of only clamping the total) keeps that unit's mean, and is a function of the
unit's own rows, so it changes no sensitivity.

Sensitivity: see :func:`tacit.core.sensitivity.contributions`, with ``clamp`` as the values a unit may have in a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from tacit.core.errors import InternalError
from tacit.core.relations import ADD_REMOVE
from tacit.core.relations import Relation as Neighbouring
from tacit.core.sensitivity import Sensitivity, contributions
from tacit.query.relational.expressions import Expression, text_of
from tacit.query.types import Kind, SqlType, Value

__all__ = [
    "MAX_LEAVES",
    "UNBOUNDED",
    "Measure",
    "MeasureKind",
    "categories_measure",
    "count_measure",
    "grid_step",
    "leaves_measure",
    "quantise",
    "sum_measure",
]

#: The most leaves over which quantiles are searched; finer grids are joined into that many.
MAX_LEAVES = 1024
#: A DOUBLE is rounded to a power of two about this many times finer than the largest value that counts.
_RELATIVE_GRID = 2**20
#: Row values that have no bounds of their own are clamped here, in steps, before a total is clamped to stated bounds.
UNBOUNDED = 2**52


class MeasureKind(Enum):
    """What is counted or added up; the table above."""

    UNITS = "units"
    ROWS = "rows"
    VALUES = "values"
    DISTINCT = "distinct"
    SUM = "sum"
    CENTRED_SUM = "centred_sum"
    CENTRED_SQUARES = "centred_squares"
    LEAVES = "leaves"
    CATEGORIES = "categories"


@dataclass(frozen=True, slots=True)
class Measure:
    """One integer measurement; a pure value, so that equal ones are taken and paid once.

    Args:
        kind: what it is.
        argument: the expression x over the source; None for ROWS and UNITS.
        where: the FILTER condition; None when every row counts.
        step: the value of one step, in ordinals of the argument (days for dates).
        low: the smallest row value in steps.
        high: the largest row value in steps.
        centre: the public midpoint, in steps; 0 unless centred.
        clamp: the values a unit may have in a group, in steps (in squared steps for CENTRED_SQUARES); 0, which
            a unit without rows has, is one of them.
        rows: the most rows of a unit that count in a group.
        leaf: how many steps one leaf is wide; 0 unless LEAVES.
        width: how many integers per group; 1 unless LEAVES or CATEGORIES.
        categories: the declared values; empty unless CATEGORIES.
        auto: whether the analyst wrote ``CLAMP(x, AUTO)``: low and high stand for bounds that are found privately
            (:mod:`tacit.query.planning.auto_bounds`), or were.
    """

    kind: MeasureKind
    argument: Expression | None
    where: Expression | None
    step: Fraction
    low: int
    high: int
    centre: int
    clamp: tuple[int, int]
    rows: int
    leaf: int = 0
    width: int = 1
    categories: tuple[Value | None, ...] = ()
    auto: bool = False

    def __post_init__(self) -> None:
        if not self.clamp[0] <= 0 <= self.clamp[1]:
            raise InternalError(f"a unit without rows has 0, which is not in {self.clamp}")

    @property
    def unit_of_value(self) -> Fraction:
        """What one step of the released integer is worth: ``step``, or its square for squares."""
        return self.step**2 if self.kind is MeasureKind.CENTRED_SQUARES else self.step

    def sensitivity(
        self, *, max_groups: int, relation: Neighbouring | str = ADD_REMOVE, groups: int | None = None
    ) -> Sensitivity:
        """How far one unit moves the vector of all groups.

        A unit's counts in one group of LEAVES or CATEGORIES add up to at most ``rows``, so all of them in one place is
        the worst case under add/remove; two units that replace one another may sit in different leaves of one group, so
        leaves count as groups of their own and their number gives no relief.
        """
        spread = self.kind in (MeasureKind.LEAVES, MeasureKind.CATEGORIES)
        # A public number of groups helps only where a unit cannot spread inside one.
        known = None if spread else groups
        return contributions(bounds=self.clamp, max_groups=max_groups, groups=known, relation=relation)

    @property
    def text(self) -> str:
        """Canonical text."""
        what = "*" if self.argument is None else text_of(self.argument)
        where = "" if self.where is None else f" where {text_of(self.where)}"
        numbers = (
            f"{self.step} {self.low}..{self.high} @{self.centre} {self.clamp} {self.rows} {self.leaf}x{self.width}"
        )
        sought = " auto" if self.auto else ""
        return f"{self.kind.value}({what}{where}) [{numbers} {self.categories!r}{sought}]"


def count_measure(
    kind: MeasureKind,
    argument: Expression | None,
    where: Expression | None,
    *,
    rows: int,
    clamp: tuple[int, int] | None = None,
) -> Measure:
    """UNITS, ROWS, VALUES or DISTINCT; ``clamp`` tightens or widens [0, rows]."""
    most = 1 if kind is MeasureKind.UNITS else rows
    limits = clamp or (0, most)
    return Measure(kind, argument, where, Fraction(1), 0, 1, 0, limits, 1 if kind is MeasureKind.UNITS else limits[1])


def sum_measure(
    kind: MeasureKind,
    argument: Expression,
    where: Expression | None,
    *,
    bounds: tuple[Fraction, Fraction] | None,
    step: Fraction,
    rows: int,
    total: tuple[Fraction, Fraction] | None = None,
) -> Measure:
    """SUM, CENTRED_SUM or CENTRED_SQUARES of a value in ``bounds``; ``total`` states a SUM's bounds per group."""
    low, high = (-UNBOUNDED, UNBOUNDED) if bounds is None else (quantise(bounds[0], step), quantise(bounds[1], step))
    centre = 0 if kind is MeasureKind.SUM else (low + high) // 2
    if kind is MeasureKind.CENTRED_SQUARES:
        limits = (0, rows * max((low - centre) ** 2, (high - centre) ** 2))
    elif total is not None:
        limits = (min(0, quantise(total[0], step)), max(0, quantise(total[1], step)))
    else:
        limits = (min(0, rows * (low - centre)), max(0, rows * (high - centre)))
    if limits == (0, 0):
        # A constant has no sensitivity, but a release needs a scale; one step is the smallest there is.
        limits = (0, 1)
    return Measure(kind, argument, where, step, low, high, centre, limits, rows)


def leaves_measure(
    argument: Expression, where: Expression | None, *, bounds: tuple[Fraction, Fraction], step: Fraction, rows: int
) -> Measure:
    """Counts over equal leaves of [low, high], at most :data:`MAX_LEAVES` of them."""
    low, high = quantise(bounds[0], step), quantise(bounds[1], step)
    leaf = -(-(high - low + 1) // MAX_LEAVES)
    width = -(-(high - low + 1) // leaf)
    return Measure(MeasureKind.LEAVES, argument, where, step, low, high, 0, (0, rows), rows, leaf, width)


def categories_measure(
    argument: Expression, where: Expression | None, *, values: tuple[Value | None, ...], rows: int
) -> Measure:
    """Counts of each of some public values of ``argument``, NULL left out as in SQL."""
    listed = tuple(value for value in values if value is not None)
    one = Fraction(1)
    return Measure(MeasureKind.CATEGORIES, argument, where, one, 0, 1, 0, (0, rows), rows, 0, len(listed), listed)


def quantise(value: Fraction, step: Fraction) -> int:
    """q(x) = floor(x / step + 1/2), exactly."""
    return (value / step + Fraction(1, 2)).__floor__()


def grid_step(declared: Fraction | None, kind: SqlType, bounds: tuple[Fraction, Fraction]) -> Fraction:
    """The public step of a value: the declared grid, or for DOUBLE a power of two well below the largest bound.

    A declared grid finer than 2^-40 of the bounds would make integers too wide to add up safely and is not followed.
    """
    largest = max(abs(bounds[0]), abs(bounds[1]))
    known = declared if declared is not None else kind.step
    if known is not None and largest <= known * 2**40:
        return known
    if kind.kind is Kind.INTEGER or kind.is_temporal:
        return Fraction(1)
    return _power_of_two_below(largest / _RELATIVE_GRID) if largest else Fraction(1)


def _power_of_two_below(value: Fraction) -> Fraction:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= value else power / 2
