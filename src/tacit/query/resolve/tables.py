"""FROM: tables, subqueries, constants and joins, with the names they make visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import Field, JoinKind, RelationNode, is_public_throughout
from tacit.query.relational.expressions import TRUE, Expression, Literal, Reference, references
from tacit.query.relational.functions import call
from tacit.query.relational.functions.signatures import coerce_all
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalars import Scalars, Scope, conjuncts_of, from_relation
from tacit.query.types import INTEGER, NULL, union

if TYPE_CHECKING:
    from tacit.query.resolve.sql_statements import Names, Queries

__all__ = ["from_clause"]

_TURNED = {**{kind: kind for kind in JoinKind}, JoinKind.LEFT: JoinKind.RIGHT, JoinKind.RIGHT: JoinKind.LEFT}
_KINDS = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL, "": JoinKind.INNER}


def from_clause(queries: Queries, select: exp.Select, ctes: Names) -> tuple[RelationNode | ReleasedRelation, Scope]:
    """What FROM stands for: a relation, or one released result, alone or beside public tables."""
    start = select.args.get("from_")
    if start is None:
        if select.args.get("joins"):
            raise Refusal("syntax", "A join needs a table before it.")
        return ownership.constants([()], ()), Scope()
    left, scope = _source(queries, start.this, ctes)
    for node in select.args.get("joins") or []:
        right, names = _source(queries, node.this, ctes)
        left, scope = _join(left, scope, right, names, node, select)
    return left, scope


def _source(queries: Queries, node: exp.Expr, ctes: Names) -> tuple[RelationNode | ReleasedRelation, Scope]:
    alias = node.args.get("alias")
    name = alias.name if alias is not None else ""
    columns = [column.name for column in alias.args.get("columns") or []] if alias is not None else None
    if isinstance(node, exp.Table):
        found = _table(queries, node, ctes)
        return found, _names_of(found, name or node.name, columns or None)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        inner = queries.query(node.this, ctes)
        return inner, _names_of(inner, name, columns or None)
    if isinstance(node, exp.Values):
        values = _values(node)
        return values, _names_of(values, name, columns or None)
    raise Refusal("unsupported", "FROM takes tables, subqueries and VALUES.")


def _names_of(found: RelationNode | ReleasedRelation, alias: str, columns: list[str] | None) -> Scope:
    return found.scope(alias, columns) if isinstance(found, ReleasedRelation) else from_relation(found, alias, columns)


def _table(queries: Queries, node: exp.Table, ctes: Names) -> RelationNode | ReleasedRelation:
    if not isinstance(node.this, exp.Identifier):
        raise Refusal("unknown_table", "Functions cannot stand in FROM; only tables of the catalog can be read.")
    known = ctes.get(node.name.lower())
    if known is not None:
        return known
    table = queries.catalog.table(node.name)
    if table is None:
        raise Refusal("unknown_table", f"There is no table {node.name[:63]!r} that you can ask about.")
    return ownership.scan(queries.catalog, table)


def _values(node: exp.Values) -> RelationNode:
    scalars = Scalars(Scope(), "VALUES")
    rows = [[scalars(cell) for cell in getattr(row, "expressions", [])] for row in node.expressions]
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise Refusal("syntax", "Every row of VALUES needs the same number of constants.")
    if not all(isinstance(cell, Literal) for row in rows for cell in row):
        raise Refusal("unsupported", "VALUES takes constants only.")
    columns: list[list[Literal]] = []
    fields: list[Field] = []
    for index in range(width):
        cells, kind = coerce_all([row[index] for row in rows], "A column of VALUES")
        if kind == NULL:
            cells, kind = coerce_all([*cells, Literal(INTEGER, cells[0].domain, None)], "VALUES")[0][:-1], INTEGER
        columns.append([cell for cell in cells if isinstance(cell, Literal)])
        fields.append(Field(f"col{index}", kind, union((cell.domain for cell in cells), kind)))
    return ownership.constants(list(zip(*columns, strict=True)), tuple(fields))


def _join(
    left: RelationNode | ReleasedRelation,
    scope: Scope,
    right: RelationNode | ReleasedRelation,
    names: Scope,
    node: exp.Join,
    select: exp.Select,
) -> tuple[RelationNode | ReleasedRelation, Scope]:
    kind = _kind(node)
    _check_sides(left, right)
    # Released columns stand before public ones, whichever side they were written on.
    turned = isinstance(right, ReleasedRelation) and not isinstance(left, ReleasedRelation)
    first, second = (scope.shifted(_width(right)), names) if turned else (scope, names.shifted(_width(left)))
    both = first.beside(second)
    using = [column.name for column in node.args.get("using") or []]
    if using:
        condition = _using_condition(first, second, using)
    elif node.args.get("on") is not None:
        condition = Scalars(both, "a join condition").condition(node.args["on"])
    elif kind is not JoinKind.INNER:
        raise Refusal("join", "An outer join needs a condition: write ON or USING.")
    else:
        condition = _implied(both, select, left, right)
    joined: RelationNode | ReleasedRelation
    match left, right:
        case ReleasedRelation(), RelationNode():
            joined = left.matched(right, kind, condition)
        case RelationNode(), ReleasedRelation():
            joined = right.matched(left, _TURNED[kind], condition)
        case RelationNode(), RelationNode():
            joined = ownership.join(left, right, kind, condition)
        case _:
            raise AssertionError("refused above")
    visible = both.over(joined) if isinstance(joined, RelationNode) else both.renewed(joined.reference)
    return joined, _merged(visible, first, second, using, kind) if using else visible


def _width(found: RelationNode | ReleasedRelation) -> int:
    return len(found.columns) if isinstance(found, ReleasedRelation) else len(found.fields)


def _check_sides(left: RelationNode | ReleasedRelation, right: RelationNode | ReleasedRelation) -> None:
    """An aggregated result may be joined with public relations."""
    if isinstance(left, ReleasedRelation) and isinstance(right, ReleasedRelation):
        raise Refusal(
            "several_aggregations",
            "Each side aggregates on its own, which is two releases: ask two questions and join their answers, or "
            "join the rows of each person first and aggregate once.",
        )
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ReleasedRelation) and isinstance(other, RelationNode) and not is_public_throughout(other):
            raise Refusal(
                "several_aggregations",
                "An aggregated result can be joined with public tables only; join protected tables first and "
                "aggregate last, or ask two questions.",
            )


def _kind(node: exp.Join) -> JoinKind:
    word = str(node.args.get("kind") or "").upper()
    side = str(node.args.get("side") or "").upper()
    if node.args.get("method") or word not in ("", "INNER", "OUTER", "CROSS") or side not in _KINDS:
        raise Refusal("join_kind", "Supported are INNER, LEFT, RIGHT, FULL and CROSS joins with ON or USING.")
    if word == "OUTER" and not side:
        raise Refusal("join_kind", "Say which outer join: LEFT, RIGHT or FULL.")
    return _KINDS[side]


def _using_condition(left: Scope, right: Scope, names: list[str]) -> Expression:
    parts = [call("eq", left.find(name, None), right.find(name, None)) for name in names]
    return parts[0] if len(parts) == 1 else call("and", *parts)


def _merged(visible: Scope, left: Scope, right: Scope, names: list[str], kind: JoinKind) -> Scope:
    """Names in USING mean one column: the side that is never missing, or for FULL joins whichever is there."""
    merged = dict(visible.merged)
    for name in names:
        sides = [_fresh(visible, side.find(name, None)) for side in (left, right)]
        if kind is JoinKind.FULL:
            merged[name.lower()] = call("coalesce", *sides)
        else:
            merged[name.lower()] = sides[1] if kind is JoinKind.RIGHT else sides[0]
    return Scope(visible.sources, merged)


def _fresh(visible: Scope, expression: Expression) -> Expression:
    known = {e.slot: e for s in visible.sources for _, e in s.columns if isinstance(e, Reference)}
    return known.get(expression.slot, expression) if isinstance(expression, Reference) else expression


def _implied(
    both: Scope, select: exp.Select, left: RelationNode | ReleasedRelation, right: RelationNode | ReleasedRelation
) -> Expression:
    """For ``FROM a, b WHERE a.id = b.id``: the parts of WHERE that connect the two sides.

    Trying every pair takes long, and counts as work of the person who has the rows.
    """
    where = select.args.get("where")
    plain = not any(isinstance(side, ReleasedRelation) for side in (left, right))
    if where is None:
        return TRUE
    width = _width(left if plain or isinstance(left, ReleasedRelation) else right)
    found: list[Expression] = []
    for part in conjuncts_of(where.this, exp.And):
        if not isinstance(part, exp.EQ):
            continue
        try:
            condition = Scalars(both, "WHERE").condition(part)
        except Refusal:
            continue
        slots = [reference.slot for reference in references(condition)]
        if any(slot < width for slot in slots) and any(slot >= width for slot in slots):
            found.append(condition)
    if not found:
        return TRUE
    return found[0] if len(found) == 1 else call("and", *found)
