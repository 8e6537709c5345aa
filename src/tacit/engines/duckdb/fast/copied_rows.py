"""Public rows that only copy the rows of units, as a number instead of rows.

In ``SELECT SUM(cost) FROM visits CROSS JOIN wards`` every visit stands beside every ward. Where neither the condition
of the join nor anything above compares the two sides, or reads a column of the public one, each row of a unit is there
as often as the public side has rows that meet the conditions on it alone. Counts and sums of a unit in a group are then
those of its own rows times that number (:class:`~.array_totals.UnitGroups`), and which groups it has stays the same
unless the number is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tacit.engines.duckdb.fast.array_totals import TooWideError
from tacit.engines.sql.relations import slots_of
from tacit.query.question import FinalAggregation, final_over
from tacit.query.relational.algebra import FilterRows, Join, JoinKind, RelationNode
from tacit.query.relational.expressions import TRUE, Expression, shift
from tacit.query.relational.functions import call
from tacit.query.relational.narrowing import conjuncts

if TYPE_CHECKING:
    from tacit.engines.duckdb.database import DuckDBSession

#: More copies than this are made by SQL, so that rows in memory times copies stay far below 2^62.
_MOST_COPIES = 2**32


@dataclass(frozen=True)
class CopiedRows:
    """A question about rows that stand for copies of themselves.

    Args:
        final: the question about each row once.
        unit: the slot of its unit.
        publics: the public relations beside it; the product of their sizes is the number of copies.
    """

    final: FinalAggregation
    unit: int
    publics: tuple[RelationNode, ...]


def each_row_once(final: FinalAggregation) -> CopiedRows | None:
    """The question without the public relations that only copy rows; None where there are none."""
    publics = []
    found = _without_one(final)
    while found is not None:
        final, public = found
        publics.append(public)
        found = _without_one(final)
    unit = final.source.unit
    return CopiedRows(final, unit, tuple(publics)) if publics and unit is not None else None


def number_of_copies(session: DuckDBSession, sql: str) -> int:
    """Number of times that each row counts.

    Raises:
        TooWideError: where SQL has to copy them.
    """
    ((copies,),) = session.cursor.execute(sql).fetchall()
    if copies > _MOST_COPIES:
        raise TooWideError
    return int(copies)


def _without_one(final: FinalAggregation) -> tuple[FinalAggregation, RelationNode] | None:
    node = final.source
    conditions: list[Expression] = []
    while isinstance(node, FilterRows):
        conditions.extend(conjuncts(node.condition))
        node = node.source
    if not isinstance(node, Join) or node.kind is not JoinKind.INNER or node.left.is_public == node.right.is_public:
        return None
    conditions.extend(part for part in conjuncts(node.condition) if part != TRUE)
    width = len(node.left.fields)
    first, own, public = (width, node.right, node.left) if node.left.is_public else (0, node.left, node.right)
    beside = 0 if first else width
    owned: list[Expression] = []
    others: list[Expression] = []
    for part in conditions:
        read = slots_of([part])
        if all(first <= slot < first + len(own.fields) for slot in read):
            owned.append(shift(part, -first))
        elif all(beside <= slot < beside + len(public.fields) for slot in read):
            others.append(shift(part, -beside))
        else:
            return None
    above = [part for measure in final.measures for part in (measure.argument, measure.where)]
    above += [key.expression for key in final.keys]
    if not all(first <= slot < first + len(own.fields) for slot in slots_of(above)):
        return None
    return final_over(final, _filtered(own, owned), lambda part: shift(part, -first)), _filtered(public, others)


def _filtered(node: RelationNode, conditions: list[Expression]) -> RelationNode:
    if not conditions:
        return node
    condition = conditions[0] if len(conditions) == 1 else call("and", *conditions)
    shape = (node.fields, node.unit, node.population, node.max_groups, node.max_rows, node.weight)
    return FilterRows(*shape, node, condition)
