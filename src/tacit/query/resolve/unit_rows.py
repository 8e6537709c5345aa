"""SELECT below the final aggregation: a relation, whose aggregates are exact, inside units or over public data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query import limits
from tacit.query.aggregate_family import AggregateCall
from tacit.query.aggregates import unit_call
from tacit.query.parsing.spellings import DISTINCT_ON
from tacit.query.planning.work import rows_inside
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, UnitCall, reference
from tacit.query.relational.expressions import Expression, Reference, rewrite
from tacit.query.relational.window_calls import WindowCall, WindowFrame
from tacit.query.resolve.aggregation import read_pick
from tacit.query.resolve.public_order import distinct_order, in_place, is_cut
from tacit.query.resolve.scalars import Scalars, function_name
from tacit.query.types import Domain, SqlType

if TYPE_CHECKING:
    from tacit.query.resolve.sql_statements import Body
from tacit.query.resolve.select import ResultBuilder, SelectClauses, refuse_sets


class UnitRows(ResultBuilder):
    """A SELECT below the final aggregation, as a relation: aggregates are exact, inside units or over public data."""

    def __init__(self, clauses: SelectClauses, body: Body) -> None:
        refuse_sets(clauses)
        # The unit is always a key, hidden where the query does not list it.
        super().__init__(clauses, len(ownership.complete_keys(body.relation, clauses.keys)))
        self.body = body
        self.calls: list[tuple[UnitCall, Domain]] = []

    def aggregate(self, asked: AggregateCall) -> tuple[int, SqlType, Domain]:
        """An exact aggregate."""
        made = unit_call(asked, rows_inside(self.body.relation))
        if made not in self.calls:
            limits.check_size(len(self.calls) + 1, limits.MAX_COLUMNS, "aggregates")
            self.calls.append(made)
        return self.calls.index(made), made[0].type, made[1]

    def shape(self) -> RelationNode:
        """The rows so far."""
        if not self.clauses.grouped:
            return self.body.relation
        return ownership.group(self.body.relation, list(self.clauses.keys), self.calls)

    def is_noisy(self, expression: Expression) -> bool:  # noqa: ARG002 - nothing below the aggregation is noisy
        """Nothing is."""
        return False

    def _interval(self, node: exp.Anonymous) -> Expression:
        name = function_name(node).upper()
        raise Refusal("interval", f"{name} applies to released columns; this SELECT releases nothing.")

    def pick(self, node: exp.Expr, scalars: Scalars) -> AggregateCall:
        """The value of one row of the group: a window over the rows has it in all of them, and MIN takes it.

        Of rows that tie, the one with the least value counts; the least value that is not NULL is ANY_VALUE.
        """
        where = scalars.condition(node.expression.this) if isinstance(node, exp.Filter) else None
        called = node.this if isinstance(node, exp.Filter) else node
        value, order = read_pick(called, scalars, where)
        if not order:
            return AggregateCall("min", value, where, None, None, None)
        keys = tuple(key for _, key in self.clauses.keys)
        made = WindowCall("first_value", value, None, keys, order, WindowFrame.PARTITION, value.type)
        domain = Domain(value.range, True, value.values, value.step, value.domain.growth)
        self.body.relation = ownership.window(self.body.relation, [(made, domain)])
        chosen = reference(self.body.relation, len(self.body.relation.fields) - 1)
        return AggregateCall("min", chosen, None, None, None, None)

    def relation(self, *, top: bool = False) -> RelationNode:
        """The SELECT as a relation; of public rows those that LIMIT keeps, at the top each after its place."""
        placing = self.body.relation.is_public and is_cut(self.clauses.node, top=top)
        having, qualify, outputs = self._having(), self._qualify(), self._outputs()
        order = self._order() if placing else []
        result = self.shape()
        width = len(result.fields)
        for value in self.values:
            result = self.body.attach(result, value)
        result = ownership.keep(result, _over(result, self._settled(having, width)))
        if self.windows:
            windows = [(self._settled_window(item, width), domain) for item, domain in self.windows]
            result = _windowed_rows(self.clauses.node, result, windows)
        result = ownership.keep(result, _over(result, self._settled(qualify, width)))

        def settled(expression: Expression) -> Expression:
            return _over(result, self._settled(expression, width))

        keys = [replace(key, expression=settled(key.expression)) for key in order]
        listed = [(name, settled(e)) for name, e in outputs]
        node = self.clauses.node
        if node.args.get("distinct") is None:
            return in_place(node, result, keys, listed, top=top) if placing else ownership.compute(result, listed)
        rows = ownership.compute(result, listed)
        if not placing:
            return rows
        chosen = [e for _, e in listed]
        if any(key.expression not in chosen for key in keys):
            raise distinct_order()
        rows = ownership.group(rows, [(name, reference(rows, i)) for i, (name, _) in enumerate(listed)], [])
        shown = [(name, reference(rows, i)) for i, (name, _) in enumerate(listed)]
        keys = [replace(key, expression=shown[chosen.index(key.expression)][1]) for key in keys]
        return in_place(node, rows, keys, shown, top=top)


def _windowed_rows(node: exp.Select, source: RelationNode, calls: list[tuple[WindowCall, Domain]]) -> RelationNode:
    try:
        return ownership.window(source, calls)
    except Refusal:
        if not node.meta.get(DISTINCT_ON):
            raise
        raise Refusal(
            "distinct",
            "DISTINCT ON would keep one row of several persons: list the unit among its columns, as in "
            "DISTINCT ON (patient_id), so that it keeps a row of each person.",
        ) from None


def _over(relation: RelationNode, expression: Expression) -> Expression:
    return rewrite(expression, lambda part: reference(relation, part.slot) if isinstance(part, Reference) else None)
