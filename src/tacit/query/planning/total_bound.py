"""``max_rows_total``: a bound on the rows of one unit in all groups of an answer together.

Where a unit has more rows than the bound T, they are shared out among its groups in proportion (the rule is that of
:mod:`tacit.engines.sql.bounding`): group g keeps b_g of its rows, and the b_g add up to T. Every measurement of the
unit in the group is that of at most b_g rows. So one unit moves counts by at most T in l1, however many groups there
are and however many rows it has in each; ``max_groups`` · ``max_rows``, which is what these two bounds allow, is
usually many times as large. Where they are stated as well, all three hold, and noise follows whichever costs least.

It bounds counts of rows and values, sums, and what means and variances are made of. People are counted once in a group,
in at most T groups. Distinct values, quantiles and most common values, of which each group keeps certain values of a
unit, follow ``max_groups`` and ``max_rows`` alone.

Proof: ``total_bound.proof.md``.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.query.contribution import AUTO, ContributionNumber
from tacit.query.planning.measures import ContributionLimit, ContributionLimits, Measure, MeasureKind, ceiling
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal

#: The name of the bound.
TOTAL = "max_rows_total"


def can_share(final: FinalAggregation) -> bool:
    """Whether rows of a unit in all groups together can be bounded: every measurement is one of so many rows."""
    rows = [measure for measure in final.measures if measure.kind is not MeasureKind.UNITS]
    return bool(rows) and all(measure.per_row is not None for measure in rows)


def with_stated_total(final: FinalAggregation, stated: int, limits: ContributionLimits) -> FinalAggregation:
    """The aggregation with a bound that the query states; ``max_groups`` and ``max_rows`` bind only if it states them.

    Raises:
        Refusal: it measures something that this bound says nothing about.
    """
    if not can_share(final):
        raise Refusal(
            "option",
            "max_rows_total bounds counts of rows, sums, averages and variances; for other aggregates state max_groups "
            "and max_rows.",
        )
    groups, rows = (number_beside(limit, stated, final) for limit in (limits.groups, limits.rows))
    known = replace(limits, total=ContributionLimit(TOTAL, stated, stated=stated))
    known = replace(known, groups=_settled(limits.groups, groups), rows=_settled(limits.rows, rows))
    measures = tuple(replace(measure, auto_rows=False) for measure in final.measures)
    return bounded_in_all(replace(final, measures=measures, limits=known), stated, groups, rows)


def number_beside(limit: ContributionLimit, most: int, final: FinalAggregation) -> int:
    """The number that holds beside the bound: one that is stated, a ceiling, or what declarations of uniqueness say."""
    if limit.single:
        return 1
    known = ceiling(final.source, limit.name)
    most = most if known is None else min(most, known[0])
    return most if limit.stated is None or limit.stated == AUTO else min(int(limit.stated), most)


def _settled(limit: ContributionLimit, number: int) -> ContributionLimit:
    stated: ContributionNumber = number if limit.stated is None or limit.stated == AUTO else limit.stated
    return replace(limit, stated=stated)


def bounded_in_all(final: FinalAggregation, most: int, groups: int, rows: int) -> FinalAggregation:
    """The aggregation with at most ``most`` rows of a unit in all, in ``groups`` groups, ``rows`` in each."""
    groups = min(groups, most, final.group_count or most) if final.keys else 1
    rows = min(rows, most)
    measures = tuple(_of_rows(measure, rows) for measure in final.measures)
    # Without the bound a unit has no more anyway: nothing to share out.
    total = None if groups * rows <= most else most
    return replace(final, measures=measures, max_groups=groups, max_total=total)


def _of_rows(measure: Measure, rows: int) -> Measure:
    """The same measurement of other numbers of rows in a group."""
    if measure.per_row is None:
        return measure
    low, high = (rows * (end // measure.rows) for end in measure.clamp)
    return replace(measure, rows=rows, clamp=(low, high))
