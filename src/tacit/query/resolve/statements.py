"""Statements: WITH, SELECT, UNION ALL and subqueries; from SQL text and a catalog to a resolved query.

A SELECT that groups without the unit over owned rows is a final aggregation; whatever stands above it works on
released cells. Everything below it is a relation. A query may have several final aggregations, whose released rows
are joined, stacked by UNION, or stand for a value.

``SUMMARIZE table`` is an ordinary query that has a row for each column, with noise, cost and receipt like any other.
One aggregation counts and averages all columns; the rows are made of its cells, which is free. TEXT has no mean:
``curator.profile`` finds out what texts hold.
"""

# ruff: noqa: S608 - queries to Tacit's own planner, from declared names in quotes
from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from tacit.core.errors import InputError
from tacit.query import limits
from tacit.query.aggregates import unit_call
from tacit.query.aggregates.family import AggregateCall
from tacit.query.catalog import ROW, Catalog
from tacit.query.contribution import ContributionNumber
from tacit.query.limits import as_on_a_fresh_stack
from tacit.query.parsing.parse import Options, parse
from tacit.query.parsing.spellings import DISTINCT_ON
from tacit.query.planning.pricing import check_totals
from tacit.query.planning.work import bound_query, bound_rows, check_public_work, rows_inside
from tacit.query.query import OutputColumn, PublicQuery, Query, numbered
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    RelationNode,
    UnitAggregate,
    is_public_throughout,
    reference,
    sources,
    visible,
)
from tacit.query.relational.expressions import literal
from tacit.query.relational.functions import call
from tacit.query.request import agreed
from tacit.query.resolve.aggregation import FinalBuilder
from tacit.query.resolve.public_rows import ReleasedRelation, column_keys, in_place, is_cut, refuse_kept_rows
from tacit.query.resolve.scalars import Scope, from_relation, has_aggregate, renamed
from tacit.query.resolve.select import (
    FinalGroups,
    ReleasedCells,
    ReleasedRows,
    SelectClauses,
    UnitRows,
    distinct_rows,
    in_order,
)
from tacit.query.resolve.subqueries import Body, PublicValues, protected_value, values_of
from tacit.query.resolve.suggestions import check_category_constants, nearest_query
from tacit.query.resolve.tables import Item, Names, expand, from_clause, unique_names, values_relation
from tacit.query.rules import apply_rules
from tacit.query.types import INTEGER

# -- ``summarize table``


_SUMMARIZE: Final = re.compile(r"\s*SUMMARIZE\s+(\"[^\"]+\"|[^\s\";]+)[\s;]*", re.IGNORECASE)


def written_out(sql: str, catalog: Catalog) -> str:
    """Return the query that ``SUMMARIZE table`` stands for; any other text unchanged.

    Raises:
        Refusal: the table is public or unknown.
    """
    found = _SUMMARIZE.fullmatch(sql)
    if found is None:
        return sql
    table = catalog.table(found.group(1).strip('"'))
    if table is None or table.public:
        raise Refusal("unknown_table", "SUMMARIZE takes the name of a protected table; read public ones by SELECT.")
    measured, rows = ["COUNT(*) AS n"], []
    for number, column in enumerate(each for each in table.columns if each.name != table.unit):
        name = '"' + column.name.replace('"', '""') + '"'
        measured.append(f"COUNT({name}) AS filled{number}")
        mean = "NULL"
        if column.type.is_numeric:
            value = name if column.bounds is not None or column.categories is not None else f"CLAMP({name}, AUTO)"
            measured.append(f"AVG({value}) AS mean{number}")
            mean = f"CAST(mean{number} AS DOUBLE)"
        label = column.name.replace("'", "''")
        rows.append(
            f"SELECT '{label}' AS column_name, '{column.type}' AS column_type, filled{number} AS filled, "
            f"1 - 1.0 * filled{number} / n AS null_share, {mean} AS mean FROM s"
        )
    source = table.name.replace('"', '""')
    return f'WITH s AS (SELECT {", ".join(measured)} FROM "{source}") {" UNION ALL ".join(rows)}'


# -- queries


class Queries:
    """Resolves a query and its subqueries against a catalog."""

    def __init__(self, catalog: Catalog, options: Options) -> None:
        self.catalog = catalog
        self.options = options
        #: Single-value queries that rows below an aggregation are compared with, by key.
        self.values: dict[str, Query] = {}

    def below(self, value: RelationNode | ReleasedRelation, rows: RelationNode) -> RelationNode:
        """Return a value for rows below an aggregation: a public one as it is, a released one by reference."""
        if not isinstance(value, ReleasedRelation):
            return value
        if rows.is_public:
            raise protected_value()
        made = value.value_below(rows)
        self.values[made.key] = value.query
        return made

    def rows_below(self, found: ReleasedRelation, rows: RelationNode) -> RelationNode:
        """Return released rows for a join with rows below an aggregation."""
        made = found.rows_below(rows)
        self.values[made.key] = found.query
        return made

    def outermost(self, tree: exp.Query) -> ReleasedRelation | RelationNode:
        """Resolve the outermost query, which must end in a final aggregation, or read public tables alone."""
        found = self.query(tree, {}, top=True)
        if isinstance(found, ReleasedRelation) or is_public_throughout(found):
            return found
        if _groups_by_unit(found):
            raise Refusal(
                "unit_exposed",
                "The result would have a row per person; aggregate over it once more, as in SELECT AVG(x) FROM (…).",
            )
        raise Refusal(
            "not_aggregated", "Rows of protected tables are never returned; use aggregates such as COUNT, SUM or AVG."
        )

    def query(self, node: exp.Expr, ctes: Names, *, top: bool = False) -> RelationNode | ReleasedRelation:
        """Resolve a SELECT or UNION ALL, in parentheses or not."""
        while isinstance(node, exp.Subquery):
            node = node.this
        known = self._with(node, ctes)
        if isinstance(node, exp.Values):
            return values_relation(node)
        if isinstance(node, exp.Union):
            return self._union(node, known, top=top)
        if isinstance(node, exp.SetOperation):
            return self._compared(node, known, top=top)
        if not isinstance(node, exp.Select):
            raise Refusal("statement", "Only queries are answered: write a SELECT.")
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

    def _union(self, node: exp.SetOperation, ctes: Names, *, top: bool) -> RelationNode | ReleasedRelation:
        parts: list[exp.Expr] = []
        stack: list[exp.Expr] = [node]
        # An inner UNION with one of these clauses is not flattened into the outer one.
        own, distinct = ("with_", "order", "limit", "offset"), bool(node.args.get("distinct"))
        while stack:
            here = stack.pop()
            flat = here is node or ((distinct or not here.args.get("distinct")) and not any(map(here.args.get, own)))
            if isinstance(here, exp.Union) and flat:
                stack.extend((here.expression, here.this))
            else:
                parts.append(here)
        found = [self.query(part, ctes) for part in parts]
        relations = [each for each in found if isinstance(each, RelationNode)]
        if len(relations) < len(found):
            return in_order(node, ReleasedRelation.stacked(_all_released(found), distinct=distinct))
        public = all(map(is_public_throughout, relations))
        if not public:
            _refuse_cut(node)
        rows = ownership.stack(relations)
        if not public:
            return self._distinct(node, rows) if distinct else rows
        return _in_place(node, ownership.group(rows, list(visible(rows)), []) if distinct else rows, top=top)

    def _compared(self, node: exp.SetOperation, ctes: Names, *, top: bool) -> RelationNode | ReleasedRelation:
        """Resolve INTERSECT and EXCEPT: rows of both sides, each marked with its side, grouped by all columns.

        A row is in both sides where its group has both marks, and in the left side alone where it has the left mark
        alone; in groups, as in set operations, NULL equals NULL.
        """
        if not node.args.get("distinct"):
            raise Refusal("set_operation", "INTERSECT and EXCEPT compare rows once each: write them without ALL.")
        sides = [self.query(side, ctes) for side in (node.this, node.expression)]
        rows = [side for side in sides if isinstance(side, RelationNode)]
        if len(rows) < len(sides):
            left, right = _all_released(sides)
            return in_order(node, left.compared(right, both=isinstance(node, exp.Intersect)))
        sided = [[*visible(side), ("side", literal(place, INTEGER))] for place, side in enumerate(rows)]
        stacked = ownership.stack([ownership.compute(side, part) for side, part in zip(rows, sided, strict=True)])
        *keys, (_, mark) = visible(stacked)
        if stacked.unit is not None and not any(ownership.identifies_unit(stacked, key) for _, key in keys):
            raise Refusal(
                "set_operation",
                "INTERSECT and EXCEPT of rows of persons need the unit among their columns; of other columns they "
                "would compare one person with another.",
            )
        most = rows_inside(stacked)
        asked = [AggregateCall(function, mark, None, None, None, None) for function in ("min", "max")]
        grouped = ownership.group(stacked, keys, [unit_call(each, most) for each in asked])
        first, last = (reference(grouped, len(grouped.fields) - 2 + i) for i in range(2))
        wanted = call("lt", first, last) if isinstance(node, exp.Intersect) else call("eq", last, literal(0, INTEGER))
        kept = ownership.keep(grouped, wanted)
        rows_kept = ownership.compute(kept, [(name, reference(kept, i)) for i, (name, _) in enumerate(keys)])
        if not is_public_throughout(rows_kept):
            _refuse_cut(node)
        return _in_place(node, rows_kept, top=top)

    def _select(self, node: exp.Select, ctes: Names, *, top: bool) -> RelationNode | ReleasedRelation:
        found, scope = from_clause(self, node, ctes)
        if isinstance(found, RelationNode) and is_public_throughout(found):
            found = self._beside_released(node, found, scope, ctes)
        items = expand(node, scope)
        limits.check_size(len(items), limits.MAX_COLUMNS, "columns")
        grouped = _is_grouped(node, items)
        if isinstance(found, ReleasedRelation):
            rows = ReleasedRows(found, scope, PublicValues(self, ctes))
            return ReleasedCells(SelectClauses(node, items, rows, grouped=grouped), rows).result()
        body = Body(self, found, scope, ctes)
        where = node.args.get("where")
        if where is not None:
            condition = body.scalars("WHERE").condition(where.this)
            body.relation = ownership.keep(body.relation, condition)
            body.scope = scope.over(body.relation)
        clauses = SelectClauses(node, items, body, grouped=grouped)
        inside = any(ownership.identifies_unit(body.relation, key) for _, key in clauses.keys)
        if grouped and not body.relation.is_public and not inside:
            return FinalGroups(clauses, body, self.options).result()
        refuse_kept_rows(body.relation)
        relation = UnitRows(clauses, body).relation(top=top)
        if is_public_throughout(relation) and is_cut(node, top=top):
            return relation
        if node.args.get("distinct") is not None:
            distinct = self._distinct(node, relation)
            if isinstance(distinct, ReleasedRelation):
                return distinct
            relation = distinct
        ordering = ("limit", "offset") if node.meta.get(DISTINCT_ON) else ("order", "limit", "offset")
        if not top and not relation.is_public and any(node.args.get(name) is not None for name in ordering):
            raise Refusal(
                "limit_below",
                "ORDER BY, LIMIT and OFFSET work on released results only; put them in the outermost SELECT.",
            )
        return relation

    def _beside_released(
        self, node: exp.Select, found: RelationNode, scope: Scope, ctes: Names
    ) -> RelationNode | ReleasedRelation:
        """Return public rows; as released rows where a subquery of the SELECT stands for a released value."""
        values = PublicValues(self, ctes)
        for part in values_of(node):
            try:
                value = values.value(part, scope)
            except Refusal:
                # It is resolved again in its clause, and refused there.
                continue
            if isinstance(value, ReleasedRelation):
                return ReleasedRelation.public(value.final, found)
        return found

    def _distinct(self, node: exp.Query, relation: RelationNode) -> RelationNode | ReleasedRelation:
        """Resolve DISTINCT as a grouping by all columns: inside units if one of them is the unit, else final."""
        keys = visible(relation)
        if relation.is_public or any(ownership.identifies_unit(relation, e) for _, e in keys):
            return ownership.group(relation, keys, [])
        builder = FinalBuilder(relation, keys, self.options)
        return distinct_rows(node, builder, relation, unique_names([name for name, _ in keys]))


def _all_released(found: Sequence[RelationNode | ReleasedRelation]) -> list[ReleasedRelation]:
    """Return the sides of a set operation on released results; public rows become released ones."""
    if not all(is_public_throughout(each) for each in found if isinstance(each, RelationNode)):
        raise Refusal(
            "several_aggregations",
            "One side of this set operation aggregates and another lists rows of persons; aggregate on every side, or "
            "stack the rows first and aggregate once.",
        )
    final = next(each.final for each in found if isinstance(each, ReleasedRelation))
    return [
        each
        if isinstance(each, ReleasedRelation)
        else ReleasedRelation.public(final, ownership.compute(each, visible(each)))
        for each in found
    ]


def _refuse_cut(node: exp.SetOperation) -> None:
    """Refuse ORDER BY and LIMIT of a set operation over rows of persons."""
    if any(node.args.get(name) is not None for name in ("order", "limit", "offset")):
        raise Refusal(
            "limit_below", "ORDER BY and LIMIT of a set operation are not supported; put them around the aggregation."
        )


def _in_place(node: exp.SetOperation, rows: RelationNode, *, top: bool) -> RelationNode:
    """Return public rows in the order and within the limits of a set operation."""
    if not is_cut(node, top=top):
        return rows
    return in_place(node, rows, column_keys(node, from_relation(rows, "")), visible(rows), top=top)


def _is_grouped(node: exp.Select, items: list[Item]) -> bool:
    if node.args.get("group") is not None or node.args.get("having") is not None:
        return True
    order = node.args.get("order")
    parts = [*(item.node for item in items), *(order.expressions if order is not None else [])]
    return any(part is not None and has_aggregate(part) for part in parts)


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
    called = renamed([column for column in found.fields if column.name is not None], names)
    return ownership.compute(found, [(name, e) for name, (_, e) in zip(called, visible(found), strict=True)])


# -- queries


def resolve(sql: str, catalog: Catalog, *, max_rows: ContributionNumber | None = None) -> Query:
    """Resolve a query to the planner's own terms; a pure function of the arguments.

    Args:
        sql: the text.
        catalog: public metadata.
        max_rows: the contribution bound that is stated outside the text; it has the same effect as in OPTIONS.

    Raises:
        Refusal: (a :class:`~tacit.core.errors.QueryError`) when the query cannot be answered privately as written.
        InputError: when ``sql`` is not text, or the text states another ``max_rows``.
    """
    found = resolve_any(sql, catalog, max_rows=max_rows)
    if isinstance(found, PublicQuery):
        raise Refusal(
            "public_only",
            "The query reads public tables alone, and nothing in it is private: ask it by itself, which is exact "
            "and free.",
        )
    return found


def resolve_any(sql: str, catalog: Catalog, *, max_rows: ContributionNumber | None = None) -> Query | PublicQuery:
    """As :func:`resolve`, but also resolve a query that reads public tables alone, which needs no noise."""
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")

    try:
        return as_on_a_fresh_stack(lambda: _resolve(sql, catalog, max_rows))
    except Refusal as refusal:
        reason, sentence, at = refusal.reason, refusal.sentence, refusal.at
    accepts = _accepting(catalog, max_rows)
    raise Refusal(
        reason, sentence, lambda: as_on_a_fresh_stack(lambda: nearest_query(sql, reason, catalog, accepts)), at
    )


def _accepting(catalog: Catalog, max_rows: ContributionNumber | None = None) -> Callable[[str], bool]:
    def accepts(sql: str) -> bool:
        try:
            _resolve(sql, catalog, max_rows)
        except (Refusal, InputError):
            return False
        return True

    return accepts


def is_accepted(sql: str, catalog: Catalog) -> bool:
    """Whether a text is resolved; skips the search for a suggestion that :func:`resolve` makes for a refused one."""
    return as_on_a_fresh_stack(lambda: _accepting(catalog)(sql))


def resolve_rows(sql: str, catalog: Catalog) -> RelationNode:
    """Resolve a query to the rows it stands for, an owned relation, for callers that learn from rows and return none.

    Raises:
        Refusal: when the query is no SELECT of rows that belong to persons, or aggregates over persons.
        InputError: when ``sql`` is not text.
    """
    if not isinstance(sql, str):
        raise InputError("sql", f"must be text, got {type(sql).__name__}")
    return as_on_a_fresh_stack(lambda: _resolve_rows(sql, catalog))


def _resolve_rows(sql: str, catalog: Catalog) -> RelationNode:
    parsed = parse(sql)
    found = Queries(catalog, parsed.options).query(parsed.tree, {})
    if not isinstance(found, RelationNode):
        raise Refusal("aggregate", "A model learns from rows; take the aggregates out, or group by the unit.")
    if found.is_public:
        raise Refusal("public_only", "The rows are public; train on them directly, which costs nothing.")
    return bound_rows(found)


def _resolve(sql: str, catalog: Catalog, max_rows: ContributionNumber | None) -> Query | PublicQuery:
    parsed = parse(written_out(sql, catalog))
    if parsed.options.privacy_unit is not None:
        _check_stated_unit(parsed.options.privacy_unit, parsed.tree, catalog)
    rows: ContributionNumber | None = agreed("max_rows", parsed.options.max_rows, max_rows)
    queries = Queries(catalog, replace(parsed.options, max_rows=rows))
    released = queries.outermost(parsed.tree)
    # Last, so that a refusal of the query itself comes first.
    check_category_constants(parsed.tree, catalog)
    if isinstance(released, RelationNode):
        check_public_work(released)
        shown = [column for column in released.fields if column.name is not None]
        columns = tuple(OutputColumn(column.name or "", column.type, False, column.domain) for column in shown)
        _check_names(columns)
        return PublicQuery(released, columns, placed=len(shown) < len(released.fields))
    _check_names(released.columns)
    values = tuple((key, apply_rules(each)) for key, each in queries.values.items())
    found = Query(released.final, released.steps, released.columns, parsed.options)
    query = numbered(replace(apply_rules(found), values=values))
    limits.check_size(len(query.finals), limits.MAX_PARTS, "parts that aggregate on their own")
    if query.has_totals:
        check_totals(query)
    return bound_query(query)


def _check_names(columns: Sequence[OutputColumn]) -> None:
    names = [column.name.lower() for column in columns]
    if len(set(names)) != len(names):
        raise Refusal("duplicate_name", "Two columns of the result have one name; give one of them an alias.")


def _check_stated_unit(stated: tuple[str, ...], tree: exp.Expr, catalog: Catalog) -> None:
    """Refuse a ``privacy_unit_column`` that is not the declared unit of a table that the text names."""
    units: list[str] = []
    for node in tree.find_all(exp.Table):
        table = catalog.table(node.name)
        if table is None or table.public or table.unit is None or table.unit == ROW:
            continue
        units.append(f"{table.name}.{table.unit}")
        called = (node.alias or node.name).lower()
        qualified = not stated[:-1] or stated[-2].lower() == called
        if stated[-1].lower() == table.unit.lower() and qualified:
            return
    known = f"declared are {', '.join(dict.fromkeys(units))}" if units else "the tables here declare no unit column"
    raise Refusal("option", f"privacy_unit_column names {'.'.join(stated)[:63]!r}, but the owner declares it: {known}.")
