"""Aggregates: one table entry for each, from its SQL names to its estimate.

An aggregate is met in three places: exact, inside one unit's rows or over public data; exact, over released cells; and
released, where noise is added. :data:`AGGREGATES` has one :class:`AggregateEntry` for each function; every consumer
(reader, planner, explanation, estimator, post-processing) asks the table. The released kinds and their measurements:

=========================== ================================================== ====================================
entry                       kind: measurements, in this order                  family
=========================== ================================================== ====================================
count_rows                  COUNT_ROWS: ROWS                                   :class:`Counts`
count                       COUNT_VALUES: VALUES                               :class:`Counts`
count_distinct              COUNT_UNITS: UNITS; COUNT_DISTINCT: DISTINCT       :class:`Counts`
sum                         SUM: SUM                                           :class:`Sums`
sum_distinct, avg_distinct  SUM_DISTINCT: DISTINCT_SUM; AVG_DISTINCT:          :class:`DistinctSums`,
                            DISTINCT, DISTINCT_SUM                             :class:`DistinctMeans`
avg                         AVG: VALUES, CENTRED_SUM                           :class:`Moments`
var_*, stddev_*             VAR_*, STDDEV_*: VALUES, CENTRED_SUM,              :class:`Moments`
                            CENTRED_SQUARES
covar_*, corr, regr_*       COVAR_*, REGR_SXY: VALUES, CENTRED_SUM of both      :class:`Covariances`,
                            and of their product; with CENTRED_SQUARES of one  :class:`Correlations`
                            REGR_SLOPE, REGR_INTERCEPT, of both CORR, REGR_R2
min, max, quantile          MIN, MAX, QUANTILE: LEAVES or PLACES                :class:`Quantiles`
mode                        MOST_COMMON: CATEGORIES                            :class:`MostCommon`
bool_and, bool_or           not released                                       none
=========================== ================================================== ====================================

:class:`~tacit.query.aggregate_family.Family` is the interface of a family.

*To add an aggregate* on new measurements, edit these five files at most; ``tests/query/test_aggregate_table.py`` asks
every consumer about every entry, and wants a line of ``tests/query/corpus/accepted.sql``:

1. this one: the entry, with a family where none fits;
2. ``query/planning/measures.py``: its ``AggregateKind``, and the kind of measurement with its traits and clamp;
3. ``query/postprocess``: a class of cells for its estimate and interval;
4. ``engines/sql/bounding.py`` (or ``statements.py``, for a measurement with a statement of its own): its SQL;
5. ``engines/duckdb/totals.py``: the same in numpy.

On known measurements 1 and 2 are enough. An exact form inside units is one more line of ``engines/sql/relations.py``;
``unit=None`` refuses it.

*Expected error* of a released cell, from public parameters. Counts and sums have one error whatever the data. Averages
and variances divide by the number of values, so their error is stated for a number that is *supposed*; quantiles are
off by so many values in rank, and the most common category by so many values in count. All errors are about the
bounded, quantised truth: the effect of clamping and of dropped groups is no noise and is not in them. With V values in
truth, noise of at most v, c, s steps in their number, centred sum and squares, and h the largest distance from the
centre:

* average: |C/V - C′/V′| <= (c + h·v)/(V - v); released jointly, at most w/V, where w bounds both noises of the block
  (as in ``mechanisms/mean.proof.md``);
* variance: with a the bound of the average, (s + h²·v)/(V - v) + 2h·a + a²; times V/(V-1) for the sample form;
* standard deviation: |√x - √y| <= √|x - y|.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from tacit.core.numbers import sqrt_bounds
from tacit.mechanisms.base import per_output_beta
from tacit.query.aggregate_family import (
    AggregateCall,
    Bounds,
    Column,
    Counts,
    ErrorTerms,
    ExpectedError,
    Family,
    Measuring,
    OneNumber,
    Sums,
    names_of,
    noisy_steps,
    value_bounds,
    value_grid,
)
from tacit.query.association_family import Correlations, Covariances
from tacit.query.exact_aggregates import (
    Fold,
    UnitResult,
    between_the_values,
    greatest,
    least,
    mean_of,
    number_of_rows,
    number_of_values,
    one_of_the_values,
    quantile_of,
    squared_width,
    sum_of,
    total,
    true_or_false,
    width,
)
from tacit.query.planning.measures import AggregateKind, Measure, MeasureKind, count_measure, sum_measure
from tacit.query.planning.noise_distribution import NoiseLaw
from tacit.query.postprocess.cells import Cell
from tacit.query.postprocess.mean_variance import JointMean, MeanEstimate, QuotientMean, Spread
from tacit.query.postprocess.spread_test import laws_known
from tacit.query.query import Aggregate, FinalAggregation, TotalOf
from tacit.query.rank_family import MostCommon, Quantiles
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, UnitCall
from tacit.query.relational.expressions import Expression
from tacit.query.types import BOOLEAN, DOUBLE, Domain, Kind, truth, with_null_key

if TYPE_CHECKING:
    from tacit.query.planning.releases import Priced
    from tacit.query.postprocess.result import CellNumbers

_ZERO: Final = Fraction(0)
#: Released kinds whose cells are never NULL.
NEVER_NULL: Final = (AggregateKind.COUNT_ROWS, AggregateKind.COUNT_VALUES, AggregateKind.COUNT_UNITS)


# -- exact, inside one unit's rows or over public data


def unit_call(asked: AggregateCall, rows: int | None) -> tuple[UnitCall, Domain]:
    """The exact aggregate inside a unit's group of at most ``rows`` rows, with the presumed domain of its value."""
    if asked.auto:
        raise Refusal("bounds", "AUTO bounds are found for the aggregate that gets noise; here nothing needs bounds.")
    if asked.per_group is not None or asked.per_row is not None:
        raise Refusal(
            "contribution_bounds", "Inside one person's rows aggregates are exact; give bounds to the outer aggregate."
        )
    entry = AGGREGATES[asked.function]
    if entry.unit is None:
        raise Refusal("raw_aggregate", entry.refusal)
    if asked.discrete:
        raise Refusal(
            "raw_aggregate", "Inside one person's rows quantiles are continuous; use PERCENTILE_CONT, MIN or MAX."
        )
    if asked.function == "quantile" and not asked.value.type.is_numeric:
        raise Refusal("type", "A quantile inside one person's rows needs a number.")
    kind, span = entry.unit(asked.argument, rows)
    # The smallest and largest of long texts are long texts.
    growth = 1 if asked.argument is None or kind != asked.argument.type else asked.argument.domain.growth
    step = kind.step
    if asked.function == "sum":
        step = step or asked.value.step
    domain = truth(nullable=True) if kind == BOOLEAN else Domain(span, not entry.counts, None, step, growth)
    if domain.nullable and asked.argument is not None and asked.argument.domain.null_is_key:
        domain = with_null_key(domain)
    return UnitCall(asked.function, asked.argument, asked.where, asked.parameter, kind), domain


# -- released


def expected_error(
    final: FinalAggregation,
    aggregate: Aggregate,
    priced: Priced,
    beta: Fraction,
    suppose: int | None,
    total: TotalOf | None = None,
) -> ExpectedError:
    """The error of a cell of ``aggregate``, exceeded with chance at most ``beta``; of a group where it is no total."""
    family = entry_of(aggregate.kind).released
    bound = family.error(aggregate, ErrorTerms(final, priced, beta, suppose, total))
    supposing = suppose if len(aggregate.measures) > 1 else None
    return ExpectedError(aggregate.label, bound, family.error_kind, supposing)


class Moments(Family):
    """AVG, VARIANCE and STDDEV: the number of values, their centred sum and their centred squares."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Two measurements for a mean, three for a variance."""
        argument, spread = asked.value, AGGREGATES[asked.function].spread
        bounds = value_bounds(asked, argument)
        step = value_grid(asked, argument, bounds)
        kinds = [MeasureKind.CENTRED_SUM] + ([] if spread is None else [MeasureKind.CENTRED_SQUARES])
        indices = [final.measure(count_measure(MeasureKind.VALUES, argument, asked.where, rows=final.rows))]
        for kind in kinds:
            measure = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
            indices.append(final.measure(replace(measure, auto=asked.auto)))
        known = bounds if spread is None else (_ZERO, spread.largest(bounds[1] - bounds[0]))
        (released,) = AGGREGATES[asked.function].kinds
        return Aggregate(released, tuple(indices), None, DOUBLE, None if asked.auto else known, asked.label)

    def error(self, aggregate: Aggregate, at: ErrorTerms) -> Fraction | None:
        """By the formulas above, for a supposed number of values."""
        beta, suppose = at.beta, at.suppose
        if suppose is None:
            return None
        total = at.final.measures[aggregate.measures[1]]
        half = total.reach
        each = beta / len(aggregate.measures)
        noises = [at.law(index).error(each) for index in aggregate.measures]
        left = suppose - noises[0]
        if left <= 0:
            return None
        mean = (noises[1] + half * noises[0]) / left
        release, spread = at.priced.release_of(aggregate.measures[1]), entry_of(aggregate.kind).spread
        if spread is None:
            if at.is_one_group and not release.levels and release.block.is_mean(*aggregate.measures):
                law = release.law(aggregate.measures[1])
                mean = min(mean, NoiseLaw(law.kind, law.scale).error(per_output_beta(beta, 2)) / suppose)
            return min(mean, Fraction(2 * half)) * total.step
        squared = (noises[2] + half**2 * noises[0]) / left + 2 * half * mean + mean**2
        if spread.sample:
            if suppose < 2:
                return None
            squared *= Fraction(suppose, suppose - 1)
        squared *= total.step**2
        return sqrt_bounds(squared)[1] if spread.root else squared

    def column(self, aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
        """Quotients of released numbers."""
        spread = entry_of(aggregate.kind).spread
        return (
            _means(aggregate, measure, released) if spread is None else _spreads(aggregate, measure, released, spread)
        )


def _means(aggregate: Aggregate, measure: Measure, released: CellNumbers) -> Column:
    count, total = aggregate.measures
    counts, sums = noisy_steps(released, count), noisy_steps(released, total)
    shared = (measure.step, aggregate.type, measure.centre, (measure.low, measure.high))
    half = measure.reach
    law, block = released.laws[total], released.plan.priced.release_of(count).block
    # Whether the count and the sum were released as two totals, with Laplace noise or none.
    joint = block.is_mean(count, total) and law.kind in ("laplace", "none") and law.copies == 1

    one_by_one = QuotientMean if not joint and laws_known([released.laws[count], law]) else MeanEstimate

    def cell(group: int) -> Cell:
        parts = (counts[group], sums[group], released.draw(count, group), released.draw(total, group), *shared)
        return JointMean(*parts, half, law.scale) if joint else one_by_one(*parts)

    return cell


def _spreads(aggregate: Aggregate, measure: Measure, released: CellNumbers, spread: SpreadForm) -> Column:
    count, total, squares = aggregate.measures
    counts, sums, noisy_squares = (noisy_steps(released, index) for index in aggregate.measures)
    most = Fraction((measure.high - measure.low) ** 2, 4)
    joint = laws_known([released.laws[index] for index in aggregate.measures])
    return lambda group: Spread(
        noisy_count=counts[group],
        noisy_sum=sums[group],
        count_draw=released.draw(count, group),
        sum_draw=released.draw(total, group),
        step=measure.step,
        type=aggregate.type,
        noisy_squares=noisy_squares[group],
        squares_draw=released.draw(squares, group),
        most=most,
        sample=spread.sample,
        root=spread.root,
        joint=joint,
    )


def _distinct_value(asked: AggregateCall) -> tuple[Expression, Bounds, Fraction]:
    """The value whose distinct values are added up, its bounds and its step."""
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
        """One sum over the union of values."""
        argument, bounds, step = _distinct_value(asked)
        kind, rows = MeasureKind.DISTINCT_SUM, final.rows
        made = sum_measure(kind, argument, asked.where, bounds=bounds, step=step, rows=rows, centred=False)
        return Aggregate(AggregateKind.SUM_DISTINCT, (final.measure(made),), None, argument.type, None, asked.label)


class DistinctMeans(Moments):
    """AVG of distinct values: their number and their centred sum, released apart."""

    def measured(self, asked: AggregateCall, source: RelationNode, final: Measuring) -> Aggregate:  # noqa: ARG002
        """Two measurements of the same union of values."""
        argument, bounds, step = _distinct_value(asked)
        count = count_measure(MeasureKind.DISTINCT, argument, asked.where, rows=final.rows)
        total = sum_measure(MeasureKind.DISTINCT_SUM, argument, asked.where, bounds=bounds, step=step, rows=final.rows)
        indices = (final.measure(count), final.measure(total))
        return Aggregate(AggregateKind.AVG_DISTINCT, indices, None, DOUBLE, bounds, asked.label)


# -- the table


class SpreadForm(NamedTuple):
    """Which form of variance: divided by one value fewer, or not; its root, or not."""

    sample: bool
    root: bool

    def largest(self, width: Fraction) -> Fraction:
        """The largest that it is for values within ``width`` of each other; for a root, a bound on that."""
        return width if self.root else width**2 / (2 if self.sample else 4)


class SqlName(NamedTuple):
    """One way to write an aggregate in SQL.

    Args:
        function: a key of :data:`AGGREGATES`.
        arguments: how many it takes.
        parameter: a fixed one; or the meaning of the last argument: the ``"fraction"`` of a quantile, also of a
            ``"discrete"`` one, into how many ``"parts"`` quantiles divide the values, or the ``"condition"`` of counted
            rows. Statistics of pairs read the ``"pair"``, or its ``"first"`` or ``"second"`` value.
    """

    function: str
    arguments: int = 1
    parameter: Fraction | str | None = None


@dataclass(frozen=True)
class AggregateEntry:
    """One aggregate.

    Args:
        names: its SQL names.
        unit: the type and range of its exact form, from the argument and the most rows; None where there is none.
        fold: its value over the places of released cells; None for counts.
        kinds: its released kinds.
        family: how it is released; None where it is not.
        takes: ``"any"``, ``"number"`` or ``"condition"``.
        bounded: whether its released form clamps values to bounds, which AUTO can find.
        counts: whether it is a number of rows, which is never NULL.
        linear: whether the fold is a weighted sum.
        spread: the form of a variance.
        sorts: whether its exact form collects a group's values and sorts them.
        power: its error grows at most with this power of AUTO bounds.
        pairs: whether it reads two values.
        refusal: the sentence where it has no exact form, or is not released.
    """

    names: Mapping[str, SqlName]
    unit: UnitResult | None
    fold: Fold | None
    kinds: tuple[AggregateKind, ...]
    family: Family | None
    takes: str = "any"
    bounded: bool = False
    counts: bool = False
    linear: bool = False
    spread: SpreadForm | None = None
    sorts: bool = False
    power: int = 2
    pairs: bool = False
    refusal: str = ""

    @property
    def released(self) -> Family:
        """The family of aggregates that are released like it.

        Raises:
            Refusal: it is not released.
        """
        if self.family is None:
            raise Refusal("raw_aggregate", self.refusal)
        return self.family


def _called(function: str, *names: str) -> dict[str, SqlName]:
    return {name: SqlName(function) for name in names}


def _variance(function: str, kind: AggregateKind, spread: SpreadForm, *names: str) -> AggregateEntry:
    return AggregateEntry(
        _called(function, *names), width if spread.root else squared_width, None, (kind,), _MOMENTS, takes="number",
        bounded=True, spread=spread, sorts=True, power=1 if spread.root else 2,
    )  # fmt: skip


def _association(function: str, kind: AggregateKind, family: Family, **others: str) -> AggregateEntry:
    names = {function: SqlName(function, 2, "pair")} | {n: SqlName(function, 2, side) for n, side in others.items()}
    return AggregateEntry(
        names, None, None, (kind,), family, takes="number", pairs=True,
        refusal=f"{function.upper()} is released over people; inside one person's rows, or over released rows, ask for "
        "the sums that it is made of.",
    )  # fmt: skip


_COUNTS, _MOMENTS, _QUANTILES = Counts(), Moments(), Quantiles()
_COVARIANCES, _CORRELATIONS = Covariances(), Correlations()
_TELLS: Final = "BOOL_AND and BOOL_OR would tell whether one person differs; use COUNT with FILTER."
_APART: Final = (
    "SUM and AVG of DISTINCT values are released over people; inside one person's rows, over public or over released "
    "rows, take SELECT DISTINCT in a subquery first."
)
_OF_FRACTION: Final = (
    "quantile",
    "quantile_cont",
    "percentile_cont",
    "percentile",
    "approx_quantile",
    "approx_percentile",
)
#: Aggregates by the name that :class:`AggregateCall` and :class:`~tacit.query.relational.algebra.UnitCall` use.
AGGREGATES: Final[dict[str, AggregateEntry]] = {
    "count_rows": AggregateEntry(
        {name: SqlName("count_rows", 1, "condition") for name in ("count_if", "countif")},
        number_of_rows, None, (AggregateKind.COUNT_ROWS,), _COUNTS, counts=True),
    "count": AggregateEntry(
        _called("count", "count", "anon_count") | {"regr_count": SqlName("count", 2, "first")}, number_of_rows, None,
        (AggregateKind.COUNT_VALUES,), _COUNTS, counts=True),
    "count_distinct": AggregateEntry(
        _called("count_distinct", "approx_count_distinct"), number_of_values, None,
        (AggregateKind.COUNT_UNITS, AggregateKind.COUNT_DISTINCT), _COUNTS, counts=True, sorts=True),
    "sum": AggregateEntry(
        _called("sum", "sum", "anon_sum"), total, sum_of, (AggregateKind.SUM,), Sums(), takes="number", bounded=True,
        linear=True),
    "sum_distinct": AggregateEntry(
        {}, None, None, (AggregateKind.SUM_DISTINCT,), DistinctSums(), takes="number", refusal=_APART),
    "avg_distinct": AggregateEntry(
        {}, None, None, (AggregateKind.AVG_DISTINCT,), DistinctMeans(), takes="number", refusal=_APART),
    "avg": AggregateEntry(
        _called("avg", "avg", "mean", "anon_avg")
        | {"regr_avgy": SqlName("avg", 2, "first"), "regr_avgx": SqlName("avg", 2, "second")},
        between_the_values, mean_of, (AggregateKind.AVG,), _MOMENTS, takes="number", bounded=True, linear=True),
    "var_samp": _variance("var_samp", AggregateKind.VAR_SAMP, SpreadForm(True, False), "variance", "var_samp", "var"),
    "var_pop": _variance("var_pop", AggregateKind.VAR_POP, SpreadForm(False, False), "var_pop", "varp", "anon_var_pop"),
    "stddev_samp": _variance(
        "stddev_samp", AggregateKind.STDDEV_SAMP, SpreadForm(True, True), "stddev", "stddev_samp", "stdev", "std"),
    "stddev_pop": _variance(
        "stddev_pop", AggregateKind.STDDEV_POP, SpreadForm(False, True), "stddev_pop", "stdevp", "anon_stddev_pop"),
    "covar_pop": _association("covar_pop", AggregateKind.COVAR_POP, _COVARIANCES),
    "covar_samp": _association("covar_samp", AggregateKind.COVAR_SAMP, _COVARIANCES),
    "regr_sxy": _association(
        "regr_sxy", AggregateKind.REGR_SXY, _COVARIANCES, regr_syy="first", regr_sxx="second"),
    "regr_slope": _association("regr_slope", AggregateKind.REGR_SLOPE, _CORRELATIONS),
    "regr_intercept": _association("regr_intercept", AggregateKind.REGR_INTERCEPT, _CORRELATIONS),
    "corr": _association("corr", AggregateKind.CORR, _CORRELATIONS),
    "regr_r2": _association("regr_r2", AggregateKind.REGR_R2, _CORRELATIONS),
    "min": AggregateEntry(
        _called("min", "min"), one_of_the_values, least, (AggregateKind.MIN,), _QUANTILES, bounded=True),
    "max": AggregateEntry(
        _called("max", "max"), one_of_the_values, greatest, (AggregateKind.MAX,), _QUANTILES, bounded=True),
    "quantile": AggregateEntry(
        {"median": SqlName("quantile", 1, Fraction(1, 2))}
        | {name: SqlName("quantile", 2, "fraction") for name in _OF_FRACTION}
        | {name: SqlName("quantile", 2, "discrete") for name in ("percentile_disc", "quantile_disc")}
        | {"approx_quantiles": SqlName("quantile", 2, "parts")},
        between_the_values, quantile_of, (AggregateKind.QUANTILE,), _QUANTILES, takes="number", bounded=True,
        sorts=True),
    "mode": AggregateEntry(
        {"mode": SqlName("mode", 1, Fraction(1))}, None, None, (AggregateKind.MOST_COMMON,), MostCommon(),
        refusal="MODE inside one person's rows is not supported; ties have no one answer."),
    "bool_and": AggregateEntry(
        _called("bool_and", "bool_and", "every"), true_or_false, least, (), None, takes="condition",
        refusal=_TELLS),
    "bool_or": AggregateEntry(
        _called("bool_or", "bool_or"), true_or_false, greatest, (), None, takes="condition",
        refusal=_TELLS),
}  # fmt: skip
#: The aggregate and the reading of each SQL name.
SQL_NAMES: Final[dict[str, SqlName]] = {n: how for entry in AGGREGATES.values() for n, how in entry.names.items()}
_BY_KIND: Final = {kind: entry for entry in AGGREGATES.values() for kind in entry.kinds}


def entry_of(kind: AggregateKind) -> AggregateEntry:
    """The entry of a released kind."""
    return _BY_KIND[kind]
