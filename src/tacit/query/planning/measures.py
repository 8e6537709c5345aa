"""Integer measurements behind aggregates, and the blocks in which they are released, with their sensitivities.

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
DISTINCT_SUM    the same set                                               the group's measurement is Σ (q(x) - centre)
                                                                           over the union
SUM             Σ q(x)                                                     ``clamp``
CENTRED_SUM     Σ (q(x) - centre), times rows/n (rounded) if n > rows      ``clamp``
CENTRED_SQUARES Σ (q(x) - centre)², likewise                               ``clamp``
LEAVES          one count per leaf of width ``leaf`` over [low, high], of  [0, rows] in each leaf and in all together
                at most ``rows`` values kept by keyed hash
PLACES          the same counts, for quantiles: as many leaves as the      likewise
                range has steps (2²⁰ at most), listed where not 0
CATEGORIES      one count per declared category, likewise                  [0, rows] in each and in all together
=============== ========================================================== ==========================================

Scaling a heavy contributor down (instead of only clamping the total) keeps that unit's mean, and is a function of the
unit's own rows, so it changes no sensitivity.

Sensitivity: see :func:`tacit.core.sensitivity.contributions`, with ``clamp`` as the values a unit may have in a group.

A *block* is one released vector: for each group a few integers, each a whole combination (a *form*) of the group's
measurements. Many blocks hold one measurement alone. Where units are added or removed, a count shares a block with a
part of what it counts, or with a sum of it, because their joint movement is smaller than the sum of their movements
(``pricing.proof.md``). Blocks of means and variances are for Laplace noise alone:

========= ============================================== ==================== ==================================
block     forms                                          l1 per group         read off
========= ============================================== ==================== ==================================
mean      A = hV + C, B = hV - C                         2h·rows              V = (A+B)/2h, C = (A-B)/2
variance  A = h²V + 2hC + S, M = 2(h²V - S),             4h²·rows + 4h + 2    V = (A+M+B)/4h², C = (A-B)/4h,
          B = h²V - 2hC + S                                                   S = (A-M+B)/4
part      F, N - F                                       rows                 F, N = F + (N-F)
total     T, HN - T, for values from 0 to H              H·rows               T, N = (T + (HN-T))/H
total     A = hN + T, B = hN - T (Laplace)               2h·rows              N = (A+B)/2h, T = (A-B)/2
========= ============================================== ==================== ==================================

N, F are a number of rows, units or values and of some of them, T is a sum. V, C, S are the number of values, their
centred sum and centred squares; h is the largest distance from the centre (from 0 for T), in steps. A count of rows
beside a mean of values that may be NULL joins the mean's block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from tacit.core.errors import InternalError
from tacit.core.relations import ADD_REMOVE, Relation
from tacit.core.relations import Relation as Neighbouring
from tacit.core.sensitivity import Sensitivity, contributions
from tacit.mechanisms.residual_basis import UnitMovement
from tacit.query.planning.quantile_tree import Tree, best_tree
from tacit.query.planning.rank_choice import cells
from tacit.query.relational.expressions import Expression, text_of
from tacit.query.types import Kind, SqlType, Value

if TYPE_CHECKING:
    from tacit.query.question import FinalAggregation

__all__ = [
    "AggregateKind",
    "Block",
    "Measure",
    "MeasureKind",
    "blocks_of",
    "categories_measure",
    "count_measure",
    "grid_step",
    "leaves_measure",
    "quantise",
    "sum_measure",
]

#: The most leaves over which quantiles are searched; finer grids are joined into that many.
MAX_LEAVES = 1024
#: The most places among which quantiles are drawn.
MAX_PLACES = 1 << 20
#: A DOUBLE is rounded to a power of two about this many times finer than the largest value that counts.
_RELATIVE_GRID = 2**20
#: Row values that have no bounds of their own are clamped here, in steps, before a total is clamped to stated bounds.
UNBOUNDED = 2**52


class _Traits(NamedTuple):
    """Properties of a kind of measurement.

    Args:
        sentence: how much of it one unit adds, after "one unit", with {low} and {high} for the clamp.
        adds_values: whether values are added up, so that 62 bits may be too few; else rows or values are counted.
        spread: whether a group has several integers: one per leaf or category.
        own_statement: whether an engine runs a statement of its own for it.
        power: with which power of the bounds of a value it grows.
        unites: whether it is about the union of the units' values, each of them once.
    """

    sentence: str
    adds_values: bool = False
    spread: bool = False
    own_statement: bool = False
    power: int = 0
    unites: bool = False


class MeasureKind(Enum):
    """Kinds of measurements; the table above."""

    UNITS = "units"
    ROWS = "rows"
    VALUES = "values"
    DISTINCT = "distinct"
    DISTINCT_SUM = "distinct_sum"
    SUM = "sum"
    CENTRED_SUM = "centred_sum"
    CENTRED_SQUARES = "centred_squares"
    LEAVES = "leaves"
    PLACES = "places"
    CATEGORIES = "categories"

    @property
    def traits(self) -> _Traits:
        """Properties of the kind."""
        return _TRAITS[self]


_TRAITS: Final = {
    MeasureKind.UNITS: _Traits("counts once per group"),
    MeasureKind.ROWS: _Traits("counts in a group with at most {high} rows"),
    MeasureKind.VALUES: _Traits("counts in a group with at most {high} values"),
    MeasureKind.DISTINCT: _Traits("adds at most {high} distinct values to a group", own_statement=True, unites=True),
    MeasureKind.DISTINCT_SUM: _Traits(
        "adds distinct values of between {low} and {high} steps together, counted from the centre, to a group",
        own_statement=True,
        unites=True,
    ),
    MeasureKind.SUM: _Traits("adds between {low} and {high} steps to a group", adds_values=True, power=1),
    MeasureKind.CENTRED_SUM: _Traits(
        "adds between {low} and {high} steps, counted from the centre, to a group", adds_values=True, power=1
    ),
    MeasureKind.CENTRED_SQUARES: _Traits("adds at most {high} squared steps to a group", adds_values=True, power=2),
    MeasureKind.LEAVES: _Traits("adds at most {high} values to the leaves of a group", spread=True, own_statement=True),
    MeasureKind.PLACES: _Traits("adds at most {high} values to the places of a group", spread=True, own_statement=True),
    MeasureKind.CATEGORIES: _Traits(
        "adds at most {high} values to the categories of a group", spread=True, own_statement=True
    ),
}


class AggregateKind(Enum):
    """Estimated quantities, each with its measurements in order; the table is :mod:`tacit.query.aggregates`."""

    COUNT_ROWS = "count_rows"  # ROWS
    COUNT_VALUES = "count_values"  # VALUES
    COUNT_UNITS = "count_units"  # UNITS
    COUNT_DISTINCT = "count_distinct"  # DISTINCT
    SUM_DISTINCT = "sum_distinct"  # DISTINCT_SUM
    AVG_DISTINCT = "avg_distinct"  # DISTINCT, DISTINCT_SUM
    SUM = "sum"  # SUM
    AVG = "avg"  # VALUES, CENTRED_SUM
    VAR_SAMP = "var_samp"  # VALUES, CENTRED_SUM, CENTRED_SQUARES
    VAR_POP = "var_pop"  # the same
    STDDEV_SAMP = "stddev_samp"  # the same
    STDDEV_POP = "stddev_pop"  # the same
    COVAR_POP = "covar_pop"  # VALUES, CENTRED_SUM of each, CENTRED_SUM of their product
    COVAR_SAMP = "covar_samp"  # the same
    REGR_SXY = "regr_sxy"  # the same
    REGR_SLOPE = "regr_slope"  # and CENTRED_SQUARES of the second
    REGR_INTERCEPT = "regr_intercept"  # the same
    CORR = "corr"  # and CENTRED_SQUARES of the first
    REGR_R2 = "regr_r2"  # the same
    SKEWNESS = "skewness"  # VALUES, CENTRED_SUM, CENTRED_SQUARES, CENTRED_SUM of cubes
    KURTOSIS = "kurtosis"  # and CENTRED_SUM of fourth powers
    KURTOSIS_POP = "kurtosis_pop"  # the same
    MIN = "min"  # LEAVES
    MAX = "max"  # LEAVES
    QUANTILE = "quantile"  # PLACES, or LEAVES at the ends; parameter: the fraction in [0, 1]
    MOST_COMMON = "most_common"  # CATEGORIES; parameter: the rank, 1 for the mode


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
        leaf: how many steps one leaf or place is wide; 0 unless LEAVES or PLACES.
        width: how many integers per group; 1 unless LEAVES, PLACES or CATEGORIES.
        categories: the declared values; empty unless CATEGORIES.
        auto: whether the analyst wrote ``CLAMP(x, AUTO)``: low and high stand for bounds that are found privately
            (:mod:`tacit.query.planning.auto_bounds`), or were.
        auto_rows: whether ``rows`` and ``clamp`` follow a ``max_rows`` that is found privately
            (:mod:`tacit.query.planning.auto_limits`), or was; they stand for one row until then.
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
    auto_rows: bool = False

    def __post_init__(self) -> None:
        if not self.clamp[0] <= 0 <= self.clamp[1]:
            raise InternalError(f"a unit without rows has 0, which is not in {self.clamp}")

    def of_rows(self, rows: int) -> Measure:
        """The same of at most so many rows, of a measurement of one row: every clamp is a multiple of ``rows``."""
        return replace(self, rows=rows, clamp=(rows * self.clamp[0], rows * self.clamp[1]))

    @property
    def unit_of_value(self) -> Fraction:
        """Value of one step of the released integer: ``step``, or its square for squares."""
        return self.step**2 if self.kind is MeasureKind.CENTRED_SQUARES else self.step

    def sensitivity(
        self, *, max_groups: int, relation: Neighbouring | str = ADD_REMOVE, groups: int | None = None
    ) -> Sensitivity:
        """Bound how far one unit moves the vector of all groups.

        A unit's counts in one group of LEAVES or CATEGORIES add up to at most ``rows``, so all of them in one place is
        the worst case under add/remove; two units that replace one another may sit in different leaves of one group, so
        leaves count as groups of their own and their number gives no relief.
        """
        # A public number of groups helps only where a unit cannot spread inside one.
        known = None if self.kind.traits.spread else groups
        return contributions(bounds=self.clamp, max_groups=max_groups, groups=known, relation=relation)

    @property
    def text(self) -> str:
        """Canonical text."""
        what = "*" if self.argument is None else text_of(self.argument)
        where = "" if self.where is None else f" where {text_of(self.where)}"
        numbers = (
            f"{self.step} {self.low}..{self.high} @{self.centre} {self.clamp} {self.rows} {self.leaf}x{self.width}"
        )
        sought = (" auto" if self.auto else "") + (" auto rows" if self.auto_rows else "")
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
    centred: bool = True,
) -> Measure:
    """A sum of a value in ``bounds``: plain, centred, of squares or of distinct values.

    ``total`` states a SUM's bounds per group. A sum of distinct values is centred where a mean is made of it.
    """
    low, high = (-UNBOUNDED, UNBOUNDED) if bounds is None else (quantise(bounds[0], step), quantise(bounds[1], step))
    centre = 0 if kind is MeasureKind.SUM or not centred else (low + high) // 2
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
    kind: MeasureKind,
    argument: Expression,
    where: Expression | None,
    *,
    bounds: tuple[Fraction, Fraction],
    step: Fraction,
    rows: int,
) -> Measure:
    """LEAVES or PLACES: counts over equal leaves of [low, high], at most :data:`MAX_LEAVES` or :data:`MAX_PLACES`."""
    low, high = quantise(bounds[0], step), quantise(bounds[1], step)
    leaf = -(-(high - low + 1) // (MAX_PLACES if kind is MeasureKind.PLACES else MAX_LEAVES))
    width = -(-(high - low + 1) // leaf)
    return Measure(kind, argument, where, step, low, high, 0, (0, rows), rows, leaf, width)


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

    A declared grid finer than 2^-40 of the bounds would make integers too wide to add up safely: decimals then lose
    digits at their end.
    """
    largest = max(abs(bounds[0]), abs(bounds[1]))
    known = declared if declared is not None else kind.step
    if known is not None and largest <= known * 2**40:
        return known
    if kind.kind is Kind.INTEGER or kind.is_temporal:
        return Fraction(1)
    if kind.kind is Kind.DECIMAL and known is not None:
        while largest > known * 2**40:
            known *= 10
        return known
    return _power_of_two_below(largest / _RELATIVE_GRID) if largest else Fraction(1)


def _power_of_two_below(value: Fraction) -> Fraction:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= value else power / 2


# -- blocks

#: Quantiles need more budget than counts for the same relative error; a count beside them must not starve.
MOST_FOR_A_TREE: Final = Fraction(4)
#: Quantiles that are drawn are nearly as exact as counts, but their intervals are read off a part of the budget.
FOR_DRAWN_QUANTILES: Final = Fraction(2)
_HALF: Final = Fraction(1, 2)
_SUMMED: Final = (MeasureKind.SUM,)
_COUNTED: Final = (MeasureKind.UNITS, MeasureKind.ROWS, MeasureKind.VALUES)
#: A joint variance block is worth its rounding slack up to this factor: three separate releases cost √3 more.
_WORTH_SQUARED: Final = 3


@dataclass(frozen=True, slots=True)
class Readout:
    """Rule that reads a measurement off a block: the sum of signs times forms, times ``unit``."""

    signs: tuple[int, ...]
    unit: Fraction = Fraction(1)

    @property
    def terms(self) -> int:
        """Number of noise terms in it."""
        return sum(1 for sign in self.signs if sign)


@dataclass(frozen=True, slots=True)
class Block:
    """One vector of integers that is released together.

    Args:
        name: for people.
        measures: indices of the measurements it holds.
        forms: each integer as whole multiples of those measurements; for a tree, the identity.
        readouts: one for each measurement.
        width: how many integers each form has per group: more than one for leaves and categories.
        sensitivity: of the vector over all groups.
        groups: the most groups that one unit is in.
        reason: why one unit moves it so far.
        coefficient: relative error at a budget of one; see :mod:`tacit.query.planning.pricing`. 0 if no data
        can change it.
        tree: the shape, for leaves, and for the cells around places drawn.
        fractions: of the quantiles that are drawn before, for places.
        rows: the most values of one unit in a group, for places.
        spread: whether a group has several integers of one measurement: leaves or categories.
    """

    name: str
    measures: tuple[int, ...]
    forms: tuple[tuple[int, ...], ...]
    readouts: tuple[Readout, ...]
    width: int
    sensitivity: Sensitivity
    groups: int
    reason: str
    coefficient: Fraction
    tree: Tree | None = None
    # Both follow from the question, and plans without quantiles keep their digests.
    fractions: tuple[Fraction, ...] = field(default=(), repr=False)
    rows: int = field(default=0, repr=False)
    spread: bool = False

    def is_mean(self, count: int, total: int) -> bool:
        """Whether a count and a centred sum are read off two totals, as their sum and their difference."""
        if count not in self.measures or total not in self.measures:
            return False
        signs = [self.readouts[self.measures.index(index)].signs for index in (count, total)]
        return [each[:2] for each in signs] == [(1, 1), (1, -1)] and not any(any(each[2:]) for each in signs)

    def movement(self, final: FinalAggregation) -> UnitMovement | None:
        """Movement of the groups and of sums of them by one unit; None where that is known of the groups alone.

        Under replace-one the bounds of the one measurement count; otherwise any vector of which a unit moves a group by
        at most l∞ in l1 (``mechanisms/residual_basis.proof.md``).
        """
        relation, bounds = self.sensitivity.relation, (Fraction(0), self.sensitivity.linf)
        if self.tree is not None or not final.group_count:
            return None
        if relation is not ADD_REMOVE:
            low, high = final.measures[self.measures[0]].clamp
            bounds = Fraction(low), Fraction(high)
        moved = UnitMovement(self.groups, bounds, relation, self.spread)
        single = relation is ADD_REMOVE or (len(self.measures) == 1 and bounds[0] <= 0 <= bounds[1])
        return moved if single and moved.at(1, final.group_count) == self.sensitivity else None

    def at_level(self, moved: Sensitivity, merged: int, keys: str, scale: int) -> Block:
        """The same vector of sums over groups, ``merged`` each, times ``scale``, which one unit moves so far."""
        many = f"; a cell here adds up {merged} groups" if merged > 1 else ""
        many += f"; all times {scale}, so that noise is on a fine grid" if scale > 1 else ""
        return replace(self, name=f"{self.name} by {keys}", sensitivity=moved.scaled(scale), reason=self.reason + many)

    @property
    def integers(self) -> int:
        """Number of integers released per group."""
        return len(self.forms) * (self.width if self.tree is None else self.tree.nodes)


def blocks_of(
    final: FinalAggregation, relation: Relation, *, concentrated: bool, weights: Sequence[Fraction] | None = None
) -> tuple[Block, ...]:
    """The blocks of a query, every measurement in exactly one.

    Args:
        final: the aggregation.
        relation: which databases are neighbours.
        concentrated: whether the currency is zCDP, so that Gaussian noise will be added.
        weights: of the measurements; counts and sums of different weights are released apart.
    """
    own = list(weights or [Fraction(1)] * len(final.measures))
    blocks: list[Block] = []
    taken: set[int] = set()
    if relation is ADD_REMOVE:
        joint = [] if concentrated else [_joint(final, moments, own) for moments in _disjoint(_moments(final))]
        for block in joint:
            taken |= set(block.measures)
        blocks += joint
        for pair in _pairs(final, taken, own, concentrated=concentrated):
            taken |= set(pair.measures)
            blocks.append(pair)
    for index, measure in enumerate(final.measures):
        if index not in taken:
            blocks.append(_single(final, index, measure, relation, concentrated=concentrated))
    return tuple(sorted(blocks, key=lambda block: block.measures))


def _groups(final: FinalAggregation) -> int:
    return final.max_groups if final.group_count is None else min(final.max_groups, final.group_count)


def _moments(final: FinalAggregation) -> list[tuple[int, ...]]:
    """The (V, C) and (V, C, S) that averages and variances are made of, or begin with, the longer first."""
    begun = {a.measures[:3] for a in final.aggregates if len(a.measures) > 1}
    found = {indices for indices in begun if _are_moments(tuple(final.measures[i] for i in indices))}
    return sorted(found, key=lambda indices: (-len(indices), indices))


def _disjoint(found: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those that share no measurement with an earlier one."""
    taken: set[int] = set()
    kept = []
    for indices in found:
        if not taken & set(indices):
            kept.append(indices)
            taken |= set(indices)
    return kept


def _are_moments(parts: tuple[Measure, ...]) -> bool:
    """Whether they speak of the same values, with the clamps that the joint bound presumes.

    Rows may be counted instead of values: there are as many or more of them.
    """
    kinds = (MeasureKind.CENTRED_SUM, MeasureKind.CENTRED_SQUARES)[: len(parts) - 1]
    count, total = parts[0], parts[1]
    half = _half(total)
    same = all((p.argument, p.where, p.rows) == (total.argument, total.where, total.rows) for p in parts[1:])
    grid = all(
        (p.step, p.low, p.high, p.centre) == (total.step, total.low, total.high, total.centre) for p in parts[1:]
    )
    clamps = [(0, total.rows), _centred_clamp(total), (0, total.rows * half**2)][: len(parts)]
    fits = tuple(p.kind for p in parts[1:]) == kinds and [p.clamp for p in parts] == clamps and half > 0
    return same and grid and fits and count.rows >= 1 and _counts_all(count, total)


def _counts_all(count: Measure, part: Measure) -> bool:
    """Whether ``count`` counts at least the rows that ``part`` reads, up to the same number of them."""
    if count.clamp != (0, part.rows) or count.where not in (None, part.where):
        return False
    if count.kind is MeasureKind.UNITS:
        return part.kind is MeasureKind.UNITS and count.argument in (None, part.argument)
    if count.kind is MeasureKind.VALUES:
        return part.kind is not MeasureKind.UNITS and count.argument == part.argument
    return count.kind is MeasureKind.ROWS and count.argument is None and part.kind is not MeasureKind.UNITS


def _pairs(final: FinalAggregation, taken: set[int], weights: Sequence[Fraction], *, concentrated: bool) -> list[Block]:
    """Blocks of a count and a part or a sum of what it counts, each measurement in at most one."""
    blocks: list[Block] = []
    left = [index for index in range(len(final.measures)) if index not in taken]

    def pair(part: int, made: Callable[[int, int], Block | None]) -> None:
        for count in left:
            block = None if count == part or weights[count] != weights[part] else made(count, part)
            if block is not None:
                blocks.append(block)
                left.remove(count)
                left.remove(part)
                return

    def with_total(count: int, part: int) -> Block | None:
        return _total_block(final, count, part, concentrated=concentrated)

    for kind, made in ((_SUMMED, with_total), (_COUNTED, lambda count, part: _part_block(final, count, part))):
        for index in [i for i in left if final.measures[i].kind in kind]:
            if index in left:
                pair(index, made)
    return blocks


def _part_block(final: FinalAggregation, count: int, part: int) -> Block | None:
    """N and F, some of what N counts."""
    whole, some = final.measures[count], final.measures[part]
    smaller = some.kind is MeasureKind.VALUES or (some.where is not None and whole.where is None)
    if whole.kind is MeasureKind.VALUES or some.clamp != whole.clamp or not smaller or not _counts_all(whole, some):
        return None
    rows = whole.clamp[1]
    why = f"the part and the rest are at most {rows} together"
    return _two(final, (count, part), ((0, 1), (1, -1)), (Readout((1, 1)), Readout((1, 0))), rows, why)


def _total_block(final: FinalAggregation, count: int, total: int, *, concentrated: bool) -> Block | None:
    """N and T, a sum over what N counts."""
    counted, summed = final.measures[count], final.measures[total]
    low, high, rows = summed.low, summed.high, summed.rows
    plain = (min(0, rows * low), max(0, rows * high))
    if summed.clamp != plain or max(-low, high) <= 0 or not _counts_all(counted, summed):
        return None
    if low < 0 < high:
        if concentrated:
            # Both totals may be large at once: nothing is gained in l2.
            return None
        half = max(-low, high)
        forms, readouts = ((half, 1), (half, -1)), (Readout((1, 1), Fraction(1, 2 * half)), Readout((1, -1), _HALF))
        why = f"a value of d steps adds {half} + d to one total and {half} - d to the other, {2 * half} in all"
        return _two(final, (count, total), forms, readouts, 2 * half * rows, why)
    sign, most = (1, high) if high > 0 else (-1, -low)
    readouts = (Readout((1, 1), Fraction(1, most)), Readout((sign, 0)))
    why = f"a value of d steps adds {'' if sign > 0 else '-'}d to one total and the rest of {most} to the other"
    return _two(final, (count, total), ((0, sign), (most, -sign)), readouts, most * rows, why)


def _two(
    final: FinalAggregation,
    measures: tuple[int, int],
    forms: tuple[tuple[int, ...], ...],
    readouts: tuple[Readout, ...],
    moved: int,
    why: str,
) -> Block:
    """A block of two measurements, neither form ever negative; measurements in ascending order."""
    groups = _groups(final)
    if measures[0] > measures[1]:
        measures, readouts = (measures[1], measures[0]), (readouts[1], readouts[0])
        forms = tuple((form[1], form[0]) for form in forms)
    rows = final.measures[measures[0]].clamp[1] if final.measures[measures[0]].kind in _COUNTED else None
    rows = final.measures[measures[1]].clamp[1] if rows is None else rows
    return Block(
        name=_name(final, measures),
        measures=measures,
        forms=forms,
        readouts=readouts,
        width=1,
        sensitivity=_spread(moved, groups),
        groups=groups,
        reason=f"{why}; one unit adds at most {rows} to a group and is in at most {_many(groups, 'group')}",
        coefficient=Fraction(7, 5),
    )


def _half(measure: Measure) -> int:
    return max(measure.high - measure.centre, measure.centre - measure.low)


def _centred_clamp(measure: Measure) -> tuple[int, int]:
    return (
        min(0, measure.rows * (measure.low - measure.centre)),
        max(0, measure.rows * (measure.high - measure.centre)),
    )


def _joint(final: FinalAggregation, moments: tuple[int, ...], weights: Sequence[Fraction]) -> Block:
    total = final.measures[moments[1]]
    half, rows, groups = _half(total), total.rows, _groups(final)
    if len(moments) == 3:
        plain = 4 * half**2 * rows
        moved = plain + 4 * half + 2
        if moved**2 <= _WORTH_SQUARED * plain**2:
            return _variance_block(final, moments, half, moved, groups)
    # Squares whose rounding slack would outweigh the gain are released alone; the caller does that.
    moved = 2 * half * rows
    why = (
        f"a value d steps from the centre adds {half} + d to one total and {half} - d to the other, {2 * half} in all; "
        f"one unit adds at most {rows} values to a group and is in at most {_many(groups, 'group')}"
    )
    forms: tuple[tuple[int, ...], ...] = ((half, 1), (half, -1))
    readouts: tuple[Readout, ...] = (Readout((1, 1), Fraction(1, 2 * half)), Readout((1, -1), _HALF))
    measures, coefficient = moments[:2], Fraction(7, 5)
    rest = _rows_beside(final, moments, weights)
    if rest is not None:
        # The rows without a value, times 2h: all three totals add up to 2h for each row.
        why += f"; a row without a value adds {2 * half} to a third total"
        measures, coefficient = (*measures, rest), Fraction(7, 4)
        forms = ((half, 1, 0), (half, -1, 0), (-2 * half, 0, 2 * half))
        readouts = (
            Readout((1, 1, 0), Fraction(1, 2 * half)),
            Readout((1, -1, 0), _HALF),
            Readout((1, 1, 1), Fraction(1, 2 * half)),
        )
    return Block(
        name=_name(final, measures),
        measures=measures,
        forms=forms,
        readouts=readouts,
        width=1,
        sensitivity=_spread(moved, groups),
        groups=groups,
        reason=why,
        coefficient=coefficient,
    )


def _rows_beside(final: FinalAggregation, moments: tuple[int, ...], weights: Sequence[Fraction]) -> int | None:
    """A count of rows that no other block holds and that counts all values of a mean; None without one."""
    values = final.measures[moments[0]]
    others = {index for found in _moments(final) for index in found}
    first = next((found for found in _disjoint(_moments(final)) if len(found) == 2), moments)
    if first != moments or weights[moments[0]] != weights[moments[1]]:
        # It joins one mean only, the first.
        return None
    if values.kind is not MeasureKind.VALUES:
        return None
    fit = [
        i
        for i, m in enumerate(final.measures)
        if i not in others
        and weights[i] == weights[moments[0]]
        and m.kind is MeasureKind.ROWS
        and m.clamp == values.clamp
        and _counts_all(m, values)
    ]
    return fit[0] if fit else None


def _variance_block(final: FinalAggregation, moments: tuple[int, ...], half: int, moved: int, groups: int) -> Block:
    square = half**2
    why = (
        f"a value d steps from the centre adds ({half}+d)², 2({half}²-d²) and ({half}-d)² to three totals, "
        f"{4 * square} in all, and rounding a heavy contributor's totals at most {4 * half + 2} more; one unit adds "
        f"at most "
        f"{final.measures[moments[1]].rows} values to a group and is in at most {_many(groups, 'group')}"
    )
    return Block(
        name=_name(final, moments),
        measures=moments,
        forms=((square, 2 * half, 1), (2 * square, 0, -2), (square, -2 * half, 1)),
        readouts=(
            Readout((1, 1, 1), Fraction(1, 4 * square)),
            Readout((1, 0, -1), Fraction(1, 4 * half)),
            Readout((1, -1, 1), Fraction(1, 4)),
        ),
        width=1,
        sensitivity=_spread(moved, groups),
        groups=groups,
        reason=why,
        coefficient=Fraction(7, 4),
    )


def _spread(moved: int, groups: int) -> Sensitivity:
    """A unit that comes or goes moves each of ``groups`` groups by at most ``moved`` in l1, hence also in l2."""
    return Sensitivity(Fraction(groups * moved), Fraction(groups * moved**2), Fraction(moved), ADD_REMOVE)


def _single(final: FinalAggregation, index: int, measure: Measure, relation: Relation, *, concentrated: bool) -> Block:
    groups = _groups(final)
    moves = measure.sensitivity(max_groups=groups, relation=relation, groups=final.group_count)
    does = measure.kind.traits.sentence.format(low=measure.clamp[0], high=measure.clamp[1])
    why = f"one unit {does} and is in at most {_many(groups, 'group')}"
    if relation is not ADD_REMOVE:
        why += "; replacing it takes all of that away and adds as much elsewhere"
    tree, coefficient = None, Fraction(1)
    fractions: tuple[Fraction, ...] = ()
    if measure.kind is MeasureKind.PLACES:
        fractions = tuple(sorted({a.parameter or Fraction(0) for a in final.aggregates if index in a.measures}))
    if measure.kind in (MeasureKind.LEAVES, MeasureKind.PLACES):
        leaves = cells(measure.width, len(fractions)) if fractions else measure.width
        tree = best_tree(leaves, gaussian=concentrated)
        levels = len(tree.levels)
        moves = Sensitivity(levels * moves.l1, levels * moves.l2_squared, moves.linf, relation)
        why += f", on each of {levels} levels of the tree" if levels > 1 else ""
        if measure.width > 1:
            coefficient = FOR_DRAWN_QUANTILES if fractions else MOST_FOR_A_TREE
    return Block(
        name=_name(final, (index,)),
        measures=(index,),
        forms=((1,),),
        readouts=(Readout((1,)),),
        width=measure.width,
        sensitivity=moves,
        groups=groups,
        reason=why,
        coefficient=coefficient if moves.l1 else Fraction(0),
        tree=tree,
        fractions=fractions,
        rows=measure.rows if fractions else 0,
        spread=measure.kind.traits.spread,
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _name(final: FinalAggregation, measures: tuple[int, ...]) -> str:
    labels = [a.label for a in final.aggregates if set(measures) & set(a.measures)]
    kinds = ", ".join(final.measures[index].kind.value.replace("_", " ") for index in measures)
    return f"{kinds} for {', '.join(dict.fromkeys(labels))}" if labels else kinds
