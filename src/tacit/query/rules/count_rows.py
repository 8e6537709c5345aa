"""A count of values that are never NULL is a count of rows, so that both are taken and paid once.

``SELECT COUNT(*), AVG(x)`` with ``x`` declared without NULLs needs two measurements, not three; so does one
whose FILTER says ``x IS NOT NULL``. Should a NULL occur after all, it is counted like any row; what one unit can add
stays the same.
"""

from __future__ import annotations

from dataclasses import replace

from tacit.query.planning.measures import Measure, MeasureKind
from tacit.query.question import AggregateKind, Question
from tacit.query.relational.expressions import Call, Expression
from tacit.query.relational.functions import call

__all__ = ["count_rows"]


def count_rows(question: Question) -> Question:
    """Replace VALUES by ROWS where the argument is not nullable, and merge measurements that became equal."""
    final = question.final
    wanted = [_simpler(measure) for measure in final.measures]
    measures = tuple(dict.fromkeys(wanted))
    place = [measures.index(measure) for measure in wanted]
    aggregates = tuple(
        replace(
            aggregate,
            measures=tuple(place[index] for index in aggregate.measures),
            kind=_kind(aggregate.kind, [wanted[index] for index in aggregate.measures]),
        )
        for aggregate in final.aggregates
    )
    return replace(question, final=replace(final, measures=measures, aggregates=aggregates))


def _simpler(measure: Measure) -> Measure:
    if measure.kind is MeasureKind.VALUES and measure.argument is not None:
        known = call("not", call("is_null", measure.argument)) if measure.argument.nullable else None
        if known is None or known in _conditions(measure.where):
            return replace(measure, kind=MeasureKind.ROWS, argument=None)
    return measure


def _conditions(where: Expression | None) -> tuple[Expression, ...]:
    """The conditions that all hold where ``where`` does."""
    if isinstance(where, Call) and where.function == "and":
        return tuple(part for arg in where.args for part in _conditions(arg))
    return () if where is None else (where,)


def _kind(kind: AggregateKind, measures: list[Measure]) -> AggregateKind:
    counts_rows = kind is AggregateKind.COUNT_VALUES and measures[0].kind is MeasureKind.ROWS
    return AggregateKind.COUNT_ROWS if counts_rows else kind
