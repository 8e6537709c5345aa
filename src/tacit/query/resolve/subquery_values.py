"""Subqueries that stand for a value: public, or released by a part of the question of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, is_public_throughout, reference, row_bounds
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalars import Scope

if TYPE_CHECKING:
    from tacit.query.resolve.sql_statements import Queries
    from tacit.query.resolve.tables_and_columns import Names

__all__ = ["PublicValues", "protected_value", "values_of"]


class PublicValues:
    """Resolves the subqueries of one SELECT that stand for values."""

    def __init__(self, queries: Queries, ctes: Names) -> None:
        self.queries = queries
        self.ctes = ctes
        self._known: dict[int, RelationNode | ReleasedRelation] = {}

    def value(self, node: exp.Expr, outer: Scope) -> RelationNode | ReleasedRelation:
        """A public or released relation of one column and at most one row.

        Raises:
            Refusal: for anything else.
        """
        if id(node) not in self._known:
            self._known[id(node)] = self._resolved(node, outer)
        return self._known[id(node)]

    def relation(self, node: exp.Expr, outer: Scope) -> RelationNode:
        """A public relation of one column and at most one row.

        Raises:
            Refusal: for anything else; with the code ``subquery`` whenever protected tables or the query around it
                come in.
        """
        found = self.value(node, outer)
        if isinstance(found, ReleasedRelation):
            raise protected_value()
        return found

    def _resolved(self, node: exp.Expr, outer: Scope) -> RelationNode | ReleasedRelation:
        try:
            found = self.queries.query(node, self.ctes)
        except Refusal as refusal:
            if self._names_protected(node):
                raise protected_value() from None
            if refusal.reason in ("unknown_column", "unknown_table") and _refers_to(node, outer):
                raise Refusal(
                    "subquery",
                    "A subquery that stands for a value cannot refer to the query around it; join the public table "
                    "in FROM instead.",
                ) from None
            raise
        if isinstance(found, ReleasedRelation):
            return _single_released(found)
        if not is_public_throughout(found):
            raise protected_value()
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


def _single_released(found: ReleasedRelation) -> ReleasedRelation:
    if len(found.columns) != 1:
        raise Refusal("subquery", "A subquery that stands for a value must have exactly one column.")
    if not found.is_single:
        raise Refusal(
            "subquery",
            "A subquery that stands for a value must have one row whatever is released: aggregate in it without "
            "GROUP BY, or end it with LIMIT 1.",
        )
    return found


def values_of(select: exp.Select) -> Iterator[exp.Subquery]:
    """The subqueries of a SELECT that stand for values, those inside of them left out."""
    clauses = [select.args.get(name) for name in ("expressions", "where", "group", "having", "order")]
    unseen: list[object] = list(reversed(clauses))
    while unseen:
        part = unseen.pop()
        if isinstance(part, list):
            unseen += reversed(part)
        elif isinstance(part, exp.Subquery):
            yield part
        elif isinstance(part, exp.In):
            unseen += [*reversed(part.expressions), part.this]
        elif isinstance(part, exp.Expr) and not isinstance(part, exp.Exists):
            unseen += reversed([*part.iter_expressions()])


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


def protected_value() -> Refusal:
    """Refusal of an exact value of protected rows."""
    return Refusal(
        "subquery",
        "A subquery cannot stand for a value of protected tables: it would carry exact data into the answer. Join it "
        "in FROM (grouped by the unit), use IN or EXISTS, or ask two questions.",
    )
