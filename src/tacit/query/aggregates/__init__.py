"""Aggregates: one module for each family, one table of all entries.

An aggregate is met in three places: exact, inside one unit's rows or over public data; exact, over released cells; and
released, where noise is added. Its entry and its family stand in one module, side by side: SQL names, measured
integers, expected error, estimate, interval, bias. Every consumer (reader, planner, explanation, estimator,
post-processing) asks the table :data:`AGGREGATES`; the engines know kinds of measurements alone.

Modules:
* :mod:`.associations` — covariances, correlations and regressions, of two values
* :mod:`.counts_and_sums` — COUNT and SUM, also of distinct values: one released integer times a step
* :mod:`.family` — an aggregate as asked, its entry in the table, and the interface of its released form
* :mod:`.means_and_variances` — AVG, VARIANCE and STDDEV from a noisy count, a noisy centred sum and noisy squares
* :mod:`.ranks` — quantiles, MEDIAN, MIN, MAX and MODE

*To add an aggregate* on known measurements, edit one module: that of its family. One on new measurements has its kind
of measurement in ``query/planning/measures.py`` and its SQL in ``engines/sql/bounding.py`` (or ``statements.py``)
and ``engines/duckdb/totals.py``. An exact form inside units is a line of ``engines/sql/relations.py``;
``unit=None`` refuses it. ``tests/query/test_aggregate_table.py`` asks every consumer about every entry, and wants a
line of ``tests/query/corpus/accepted.sql``.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tacit.query.aggregates import associations, counts_and_sums, means_and_variances, ranks
from tacit.query.aggregates.family import AggregateCall, AggregateEntry, ErrorTerms, ExpectedError, SqlName
from tacit.query.planning.measures import COUNT_ROWS, COUNT_UNITS, COUNT_VALUES
from tacit.query.query import Aggregate, FinalAggregation, TotalOf
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import UnitCall
from tacit.query.types import BOOLEAN, Domain, truth, with_null_key

if TYPE_CHECKING:
    from tacit.query.planning.releases import Priced

#: Aggregates by the name that :class:`AggregateCall` and :class:`~tacit.query.relational.algebra.UnitCall` use.
AGGREGATES: Final[dict[str, AggregateEntry]] = {
    **counts_and_sums.ENTRIES,
    **means_and_variances.ENTRIES,
    **associations.ENTRIES,
    **ranks.ENTRIES,
}
#: The aggregate of each SQL name, and how its arguments are read.
SQL_NAMES: Final[dict[str, SqlName]] = {n: how for entry in AGGREGATES.values() for n, how in entry.names.items()}
#: Released kinds whose cells are never NULL.
NEVER_NULL: Final = (COUNT_ROWS, COUNT_VALUES, COUNT_UNITS)
_BY_KIND: Final = {kind: entry for entry in AGGREGATES.values() for kind in entry.kinds}


def entry_of(kind: str) -> AggregateEntry:
    """Return the entry of a released kind."""
    return _BY_KIND[kind]


def unit_call(asked: AggregateCall, rows: int | None) -> tuple[UnitCall, Domain]:
    """Return the exact aggregate over a unit's group of at most ``rows`` rows, with the domain of its value."""
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
    # MIN and MAX of long texts are long texts.
    growth = 1 if asked.argument is None or kind != asked.argument.type else asked.argument.domain.growth
    step = kind.step
    if asked.function == "sum":
        step = step or asked.value.step
    domain = truth(nullable=True) if kind == BOOLEAN else Domain(span, not entry.counts, None, step, growth)
    if domain.nullable and asked.argument is not None and asked.argument.domain.null_is_key:
        domain = with_null_key(domain)
    return UnitCall(asked.function, asked.argument, asked.where, asked.parameter, kind), domain


def expected_error(
    final: FinalAggregation,
    aggregate: Aggregate,
    priced: Priced,
    beta: Fraction,
    suppose: int | None,
    total: TotalOf | None = None,
) -> ExpectedError:
    """Return the error of a cell, exceeded with probability at most ``beta``; of a released group without ``total``."""
    family = entry_of(aggregate.kind).released
    bound = family.error(aggregate, ErrorTerms(final, priced, beta, suppose, total))
    supposing = suppose if len(aggregate.measures) > 1 else None
    return ExpectedError(aggregate.label, bound, family.error_kind, supposing)
