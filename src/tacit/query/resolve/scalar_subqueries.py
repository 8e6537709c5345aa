"""Subqueries that stand for a value: over public tables, with one column and never more than one row.

Such a subquery is a public relation like any other, so it costs nothing. That it has at most one row must follow from
its text, because an error that depends on rows could not be told from one that depends on persons; where it has none,
the value is NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, is_public_throughout, reference, row_bounds
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalars import Scope

if TYPE_CHECKING:
    from tacit.query.resolve.sql_statements import Names, Queries

__all__ = ["PublicValues"]


class PublicValues:
    """Resolves the subqueries of one SELECT that stand for values."""

    def __init__(self, queries: Queries, ctes: Names) -> None:
        self.queries = queries
        self.ctes = ctes
        self._known: dict[int, RelationNode] = {}

    def relation(self, node: exp.Expr, outer: Scope) -> RelationNode:
        """A public relation of one column and at most one row.

        Raises:
            Refusal: for anything else; with the code ``subquery`` whenever protected tables or the query around it
                come in.
        """
        if id(node) not in self._known:
            self._known[id(node)] = self._resolved(node, outer)
        return self._known[id(node)]

    def _resolved(self, node: exp.Expr, outer: Scope) -> RelationNode:
        try:
            found = self.queries.query(node, self.ctes)
        except Refusal as refusal:
            if self._names_protected(node):
                raise _protected() from None
            if refusal.reason in ("unknown_column", "unknown_table") and _refers_to(node, outer):
                raise Refusal(
                    "subquery",
                    "A subquery that stands for a value cannot refer to the query around it; join the public table "
                    "in FROM instead.",
                ) from None
            raise
        if isinstance(found, ReleasedRelation) or not is_public_throughout(found):
            raise _protected()
        return _single(found)

    def _names_protected(self, node: exp.Expr) -> bool:
        """Whether some table named inside is protected, or a WITH that is not public."""
        for table in node.find_all(exp.Table):
            known = self.ctes.get(table.name.lower())
            if known is None:
                declared = self.queries.catalog.table(table.name)
                if declared is not None and not declared.public:
                    return True
            elif isinstance(known, ReleasedRelation) or not is_public_throughout(known):
                return True
        return False


def _single(found: RelationNode) -> RelationNode:
    visible = [slot for slot, column in enumerate(found.fields) if column.name is not None]
    if len(visible) != 1:
        raise Refusal("subquery", "A subquery that stands for a value must have exactly one column.")
    most = row_bounds(found)[1]
    if most is None or most > 1:
        raise Refusal(
            "subquery",
            "A subquery that stands for a value must have one row whatever the table holds: aggregate in it without "
            "GROUP BY, as in (SELECT MAX(x) FROM t).",
        )
    if len(found.fields) == 1:
        return found
    return ownership.compute(found, [(found.fields[visible[0]].name, reference(found, visible[0]))])


def _refers_to(node: exp.Expr, outer: Scope) -> bool:
    columns = node.find_all(exp.Column)
    return any(outer.matches(column.name, column.table or None) for column in columns)


def _protected() -> Refusal:
    return Refusal(
        "subquery",
        "A subquery cannot stand for a value of protected tables: it would carry exact data into the answer. Join it "
        "in FROM (grouped by the unit), use IN or EXISTS, or ask two questions.",
    )
