"""Subqueries below the aggregation.

IN and EXISTS become a mark on each row, by rows of the same person or by public ones; a subquery that stands for a
value becomes a column, joined from a public relation of at most one row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query.planning.work import equated
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, reference
from tacit.query.relational.expressions import FALSE, TRUE, Expression, Reference, literal, rewrite, shift
from tacit.query.relational.functions import call, case
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalar_subqueries import PublicValues
from tacit.query.resolve.scalars import Correlated, Scalars, Scope
from tacit.query.resolve.tables import from_clause
from tacit.query.types import BOOLEAN

if TYPE_CHECKING:
    from tacit.query.resolve.sql_statements import Names, Queries

__all__ = ["Body"]

_SIMPLE = ("expressions", "from_", "joins", "where", "distinct")


class Body:
    """The relation of one SELECT while its clauses are resolved; subqueries append columns to it."""

    def __init__(self, queries: Queries, relation: RelationNode, scope: Scope, ctes: Names) -> None:
        self.queries = queries
        self.relation = relation
        self.scope = scope
        self.ctes = ctes
        self.values = PublicValues(queries, ctes)
        self.attached: dict[RelationNode, int] = {}

    def scalars(self, clause: str) -> Scalars:
        """A resolver for a clause that may hold IN and EXISTS."""
        return Scalars(self.scope, clause, self.hook)

    def hook(self, node: exp.Expr) -> Expression | None:
        """Resolve IN (SELECT …), EXISTS (SELECT …) and (SELECT …) for a value; nothing else."""
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            found = self._in(self.scalars("IN")(node.this), _query_of(node.args["query"]))
            return call("not", found) if node.args.get("negate") else found
        if isinstance(node, exp.Exists):
            return self._mark(*self._inner(_query_of(node.this), columns=False)[:2])
        if isinstance(node, exp.Subquery):
            return self._value(self.values.relation(node, self.scope))
        return None

    def _value(self, value: RelationNode) -> Expression:
        if value not in self.attached:
            self.relation = ownership.attach(self.relation, value)
            self.attached[value] = len(self.relation.fields) - 1
        return reference(self.relation, self.attached[value])

    def _in(self, value: Expression, query: exp.Query) -> Expression:
        other, condition, column = self._inner(query, columns=True)
        if column is None:
            raise Refusal("subquery", "The subquery of IN must have exactly one column.")
        equal = call("eq", value, column)
        width = len(self.relation.fields)
        matched = self._mark(other, _both(condition, equal))
        if not equal.nullable:
            return matched
        unknown = self._unknown(other, condition, equal, width)
        return case([(matched, TRUE), (unknown, literal(None, BOOLEAN))], FALSE)

    def _unknown(self, other: RelationNode, condition: Expression, equal: Expression, width: int) -> Expression:
        """Whether the comparison is NULL for some row of the subquery.

        Where each side of the comparison reads one relation, each is asked for NULL by itself: to try the comparison
        on every pair of rows would multiply a person's rows by those of the subquery.
        """
        pair = equated(equal, width)
        if pair is None:
            return self._mark(other, self._now(width, _both(condition, call("is_null", equal))))
        own, theirs = pair
        missing = self._mark(other, self._now(width, _both(condition, call("is_null", shift(theirs, width)))))
        if not own.nullable:
            return missing
        some = self._mark(other, self._now(width, condition))
        return call("or", missing, call("and", call("is_null", own), some))

    def _now(self, width: int, condition: Expression) -> Expression:
        """A condition over ``width`` left columns, over as many as there are now: each mark is a column of its own."""
        by = len(self.relation.fields) - width
        return rewrite(
            condition,
            lambda part: (
                replace(part, slot=part.slot + by) if isinstance(part, Reference) and part.slot >= width else None
            ),
        )

    def _mark(self, other: RelationNode, condition: Expression) -> Expression:
        self.relation = ownership.mark(self.relation, other, condition)
        return reference(self.relation, len(self.relation.fields) - 1)

    def _inner(self, query: exp.Query, *, columns: bool) -> tuple[RelationNode, Expression, Expression | None]:
        """The subquery's relation, the condition that ties it to a row, and its one column (over both)."""
        try:
            return self._independent(query, columns=columns)
        except Refusal as refusal:
            if refusal.reason not in ("unknown_column", "unknown_table") or not _is_simple(query):
                raise
        return self._correlated(query, columns=columns)

    def _independent(self, query: exp.Query, *, columns: bool) -> tuple[RelationNode, Expression, Expression | None]:
        other = self.queries.query(query, self.ctes)
        if isinstance(other, ReleasedRelation):
            raise Refusal("subquery", "A subquery of IN or EXISTS cannot aggregate over persons; group it by the unit.")
        visible = [slot for slot, column in enumerate(other.fields) if column.name is not None]
        column = reference(other, visible[0]) if columns and len(visible) == 1 else None
        return other, TRUE, None if column is None else shift(column, len(self.relation.fields))

    def _correlated(self, query: exp.Query, *, columns: bool) -> tuple[RelationNode, Expression, Expression | None]:
        if not isinstance(query, exp.Select):
            raise Refusal("subquery", "A correlated subquery must be a plain SELECT … FROM … WHERE.")
        other, names = from_clause(self.queries, query, self.ctes)
        if isinstance(other, ReleasedRelation):
            raise Refusal("subquery", "A subquery of IN or EXISTS cannot aggregate over persons; group it by the unit.")
        moved = names.shifted(len(self.relation.fields))
        both = Correlated(moved.sources, moved.merged, self.scope)
        where = query.args.get("where")
        condition = TRUE if where is None else Scalars(both, "WHERE of a subquery").condition(where.this)
        items = query.expressions
        if not columns:
            return other, condition, None
        if len(items) != 1 or isinstance(items[0], exp.Star):
            return other, condition, None
        item = items[0].this if isinstance(items[0], exp.Alias) else items[0]
        return other, condition, Scalars(both, "SELECT of a subquery")(item)


def _both(condition: Expression, also: Expression) -> Expression:
    return also if condition == TRUE else call("and", *ownership.conjuncts(condition), also)


def _query_of(node: exp.Expr) -> exp.Query:
    inner = node.this if isinstance(node, exp.Subquery) else node
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Query):
        raise Refusal("subquery", "IN and EXISTS take a SELECT in parentheses.")
    return inner


def _is_simple(query: exp.Query) -> bool:
    return isinstance(query, exp.Select) and all(not value for name, value in query.args.items() if name not in _SIMPLE)
