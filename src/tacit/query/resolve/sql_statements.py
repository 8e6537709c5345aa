"""Queries: WITH, SELECT, UNION ALL; from syntax to an owned or public relation, or to a released result.

A SELECT that groups without the unit over owned rows is the final aggregation; whatever stands above it works on
released cells. Everything below it is a relation. There is one final aggregation in a question.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tacit.query import limits
from tacit.query.catalog import Catalog
from tacit.query.parsing.query_options import Options
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, UnitAggregate, reference, sources
from tacit.query.relational.expressions import Expression
from tacit.query.resolve.final_builder import FinalBuilder
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalar_subqueries import PublicValues
from tacit.query.resolve.scalars import has_aggregate
from tacit.query.resolve.select_clauses import Grouping
from tacit.query.resolve.select_list import Item, expand, unique_names
from tacit.query.resolve.select_targets import FinalGroups, ReleasedCells, UnitRows
from tacit.query.resolve.subqueries import Body
from tacit.query.resolve.tables import from_clause

__all__ = ["Names", "Queries"]

#: What WITH has named so far, by lower-case name.
Names = dict[str, "RelationNode | ReleasedRelation"]


class Queries:
    """Resolves the queries of one question against a catalog."""

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self.catalog = catalog
        self.options = options

    def question(self, tree: exp.Query) -> ReleasedRelation:
        """The outermost query, which must end in a final aggregation."""
        found = self.query(tree, {}, top=True)
        if isinstance(found, ReleasedRelation):
            return found
        if found.is_public:
            raise Refusal("public_only", "The question reads no protected table; public tables need no private answer.")
        if _groups_by_unit(found):
            raise Refusal(
                "unit_exposed",
                "The result would have a row per person; aggregate over it once more, as in SELECT AVG(x) FROM (…).",
            )
        raise Refusal(
            "not_aggregated", "Rows of protected tables are never returned; use aggregates such as COUNT, SUM or AVG."
        )

    def query(self, node: exp.Expr, ctes: Names, *, top: bool = False) -> RelationNode | ReleasedRelation:
        """A SELECT or UNION ALL, in parentheses or not."""
        while isinstance(node, exp.Subquery):
            node = node.this
        known = self._with(node, ctes)
        if isinstance(node, exp.SetOperation):
            return self._union(node, known)
        if not isinstance(node, exp.Select):
            raise Refusal("statement", "Only questions are answered: write a SELECT.")
        return self._select(node, known, top=top)

    def _with(self, node: exp.Expr, ctes: Names) -> Names:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise Refusal("recursion", "WITH RECURSIVE is not supported; write WITH.")
        known, own = dict(ctes), set[str]()
        for cte in clause.expressions:
            name = cte.alias.lower()
            if not name or name in own:
                raise Refusal("duplicate_name", f"WITH names {name!r} twice.")
            own.add(name)
            found = self.query(cte.this, known)
            columns = [column.name for column in cte.args["alias"].args.get("columns") or []]
            known[name] = _renamed(found, columns) if columns else found
        return known

    def _union(self, node: exp.SetOperation, ctes: Names) -> RelationNode:
        parts: list[exp.Expr] = []
        stack: list[exp.Expr] = [node]
        while stack:
            here = stack.pop()
            if isinstance(here, exp.SetOperation) and (here is node or not here.args.get("with_")):
                self._check_union(here)
                stack.extend((here.expression, here.this))
            else:
                parts.append(here)
        relations: list[RelationNode] = []
        for part in parts:
            found = self.query(part, ctes)
            if isinstance(found, ReleasedRelation):
                raise Refusal(
                    "several_aggregations",
                    "Each part aggregates on its own; stack the rows first and aggregate once, or ask two questions.",
                )
            relations.append(found)
        return ownership.stack(relations)

    def _check_union(self, node: exp.SetOperation) -> None:
        if not isinstance(node, exp.Union) or node.args.get("distinct"):
            raise Refusal("set_operation", "Only UNION ALL is supported; use IN, EXISTS or a filter instead.")
        if any(node.args.get(name) is not None for name in ("order", "limit", "offset")):
            raise Refusal(
                "limit_below", "ORDER BY and LIMIT of a UNION ALL are not supported; put them around the aggregation."
            )

    def _select(self, node: exp.Select, ctes: Names, *, top: bool) -> RelationNode | ReleasedRelation:
        found, scope = from_clause(self, node, ctes)
        items = expand(node, scope)
        limits.check_size(len(items), limits.MAX_COLUMNS, "columns")
        grouped = _is_grouped(node, items)
        if isinstance(found, ReleasedRelation):
            over = ReleasedCells(found, scope, PublicValues(self, ctes))
            return Grouping(node, items, over, grouped=grouped).result()
        body = Body(self, found, scope, ctes)
        where = node.args.get("where")
        if where is not None:
            condition = body.scalars("WHERE").condition(where.this)
            body.relation = ownership.keep(body.relation, condition)
            body.scope = scope.over(body.relation)
        inside = Grouping(node, items, UnitRows(body), grouped=grouped)
        if grouped and not body.relation.is_public and not inside.has_unit_key():
            return Grouping(node, items, FinalGroups(body, self.options), grouped=True).result()
        relation = inside.relation()
        if node.args.get("distinct") is not None:
            distinct = self._distinct(relation)
            if isinstance(distinct, ReleasedRelation):
                return Grouping.ordered(node, distinct)
            relation = distinct
        if not top and any(node.args.get(name) is not None for name in ("order", "limit", "offset")):
            raise Refusal(
                "limit_below",
                "ORDER BY, LIMIT and OFFSET work on released results only; put them in the outermost SELECT.",
            )
        return relation

    def _distinct(self, relation: RelationNode) -> RelationNode | ReleasedRelation:
        """DISTINCT is a grouping by all columns: inside units if one of them is the unit, else the final one."""
        keys = [(c.name, reference(relation, i)) for i, c in enumerate(relation.fields) if c.name is not None]
        if relation.is_public or any(ownership.identifies_unit(relation, e) for _, e in keys):
            return ownership.group(relation, keys, [])
        builder = FinalBuilder(relation, _named(keys), self.options)
        return FinalGroups.released(builder, relation, unique_names([name for name, _ in _named(keys)]))


def _named(keys: Sequence[tuple[str | None, Expression]]) -> list[tuple[str, Expression]]:
    return [(name or "", e) for name, e in keys]


def _is_grouped(node: exp.Select, items: list[Item]) -> bool:
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    order = node.args.get("order")
    parts = [item.node for item in items if item.node is not None] + (
        list(order.expressions) if order is not None else []
    )
    return any(has_aggregate(part) for part in parts)


def _groups_by_unit(relation: RelationNode) -> bool:
    here: RelationNode | None = relation
    while here is not None:
        if isinstance(here, UnitAggregate):
            return True
        below = sources(here)
        here = below[0] if len(below) == 1 else None
    return False


def _renamed(found: RelationNode | ReleasedRelation, names: list[str]) -> RelationNode | ReleasedRelation:
    if isinstance(found, ReleasedRelation):
        scope = found.scope("", names)
        return found.renamed([name for name, _ in scope.sources[0].columns])
    visible = [(c, reference(found, i)) for i, c in enumerate(found.fields) if c.name is not None]
    if len(names) > len(visible):
        raise Refusal("arguments", f"WITH names {len(names)} columns, but there are {len(visible)}.")
    called = [*names, *(c.name for c, _ in visible[len(names) :])]
    return ownership.compute(found, [(name, e) for name, (_, e) in zip(called, visible, strict=True)])
