"""Tables and columns of a SELECT: FROM with its joins and lists, and the SELECT list with stars spread out.

Commas: ``FROM a, b, c WHERE a.x = c.x AND b.y = c.y`` states no join order, and in the order of the text a and b would
be a cross product. Tables are joined one after the other instead, each time the first table that some equality of WHERE
connects with those before it; a table without a connection comes last. That equality is then the condition of the join.
WHERE is applied afterwards as it stands, so that the rows are the same in every order.

Lists in FROM: VALUES, and GENERATE_SERIES, which is written out while planning.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from tacit.query import limits
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    Field,
    JoinKind,
    RelationNode,
    Scan,
    is_public_throughout,
    reference,
)
from tacit.query.relational.expressions import (
    TRUE,
    Expression,
    Literal,
    Reference,
    literal,
    references,
)
from tacit.query.relational.functions import call, cast
from tacit.query.relational.functions.registry import all_of, cast_value, coerce_all
from tacit.query.resolve.public_rows import ReleasedRelation
from tacit.query.resolve.scalars import (
    Scalars,
    Scope,
    ScopeSource,
    conjuncts_of,
    from_relation,
    function_name,
    renamed,
)
from tacit.query.resolve.sql_functions import unnested
from tacit.query.resolve.times import Span, interval_of, moved
from tacit.query.types import DATE, INTEGER, NULL, TIMESTAMP, union

if TYPE_CHECKING:
    from tacit.query.resolve.statements import Queries


# -- tables and columns of a select

Names = dict[str, "RelationNode | ReleasedRelation"]

_TURNED = {**{kind: kind for kind in JoinKind}, JoinKind.LEFT: JoinKind.RIGHT, JoinKind.RIGHT: JoinKind.LEFT}
_KINDS = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL, "": JoinKind.INNER}


#: A relation or a released relation, and the names of its columns.
Found = tuple["RelationNode | ReleasedRelation", Scope]


def from_clause(queries: Queries, select: exp.Select, ctes: Names) -> Found:
    """Resolve FROM: a relation, or one released relation, alone or joined with public tables."""
    start = select.args.get("from_")
    if start is None:
        if select.args.get("joins"):
            raise Refusal("syntax", "A join needs a table before it.")
        return ownership.constants([()], ()), Scope()
    clause = _FromClause(queries, select, ctes)
    return clause.joined(clause.source(start.this), select.args.get("joins") or [])


class _FromClause:
    """Resolver of the FROM clause of one SELECT."""

    def __init__(self, queries: Queries, select: exp.Select, ctes: Names) -> None:
        self.queries = queries
        self.select = select
        self.ctes = ctes

    def joined(self, found: Found, joins: list[exp.Join]) -> Found:
        """Join a source with further ones; those listed by commas in an order that equalities of WHERE suggest."""
        for comma_run in _comma_runs(joins):
            lists = [node.this for node in comma_run if isinstance(node.this, exp.Unnest)]
            run = [node for node in comma_run if not isinstance(node.this, exp.Unnest)]
            waiting = [(node, self.source(node.this)) for node in run]
            written = [found[1].sources, *(names.sources for _, (_, names) in waiting)]
            while waiting:
                index = 0
                if len(waiting) > 1:
                    tried = (self._is_connected(found, other) for _, other in waiting)
                    index = next((place for place, connected in enumerate(tried) if connected), 0)
                node, other = waiting.pop(index)
                found = self._join(found, other, node)
            if len(run) > 1:
                found = found[0], _in_written_order(found[1], written)
            for listed in lists:
                found = _with_values(*found, listed)
        return found

    def source(self, node: exp.Expr) -> Found:
        """Resolve one source of FROM, under its alias."""
        if isinstance(node, exp.Table) and node.args.get("joins"):
            alone = node.copy()
            joins = alone.args.pop("joins")
            return self.joined(self.source(alone), joins)
        columns = _column_names(node)
        if isinstance(node, exp.Subquery) and isinstance(node.this, (exp.Table, exp.Subquery)):
            # FROM (a) and FROM (a JOIN b ON …); an alias covers all of their columns.
            found, scope = self.source(node.this)
            if not node.alias:
                return found, scope
            names = renamed([Field(name, e.type, e.domain) for name, e in scope.star(None)], columns)
            listed = tuple(zip(names, (e for _, e in scope.star(None)), strict=True))
            return found, Scope((ScopeSource(node.alias, listed),))
        if isinstance(node, exp.Table):
            found = self._table(node)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            found = self.queries.query(node.this, self.ctes)
        elif isinstance(node, exp.Values):
            found = values_relation(node)
        else:
            raise Refusal("unsupported", "FROM takes tables, subqueries and VALUES.")
        alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
        if isinstance(found, ReleasedRelation):
            return found, found.scope(alias, columns)
        scope = from_relation(found, alias, columns)
        table = self.queries.catalog.table(found.table) if isinstance(found, Scan) and columns is None else None
        if table is not None:
            # A quoted name of the source means the column that the owner gave another name.
            stored = tuple((c.stored.lower(), c.name) for c in table.columns if c.stored is not None)
            scope = Scope((replace(scope.sources[0], stored=stored, unread=table.unread),))
        return found, scope

    def _table(self, node: exp.Table) -> RelationNode | ReleasedRelation:
        if isinstance(node.this, exp.Anonymous) and function_name(node.this) == "generate_series":
            return series_relation(node.this.expressions)
        if not isinstance(node.this, exp.Identifier):
            raise Refusal("unknown_table", "Only GENERATE_SERIES can stand in FROM as a function; name a table.")
        known = None if node.db else self.ctes.get(node.name.lower())
        if known is not None:
            return known
        table = self.queries.catalog.table(node.name)
        if table is None or not table.is_in(node.db):
            name = f"{node.db}.{node.name}" if node.db else node.name
            raise Refusal("unknown_table", f"There is no table {name[:63]!r} that you can ask about.", at=name[:63])
        return ownership.scan(self.queries.catalog, table)

    def _is_connected(self, found: Found, other: Found) -> bool:
        (left, scope), (right, names) = found, other
        if isinstance(left, ReleasedRelation) or isinstance(right, ReleasedRelation):
            return False
        width = len(left.fields)
        return _connecting(scope.beside(names.shifted(width)), self.select, width) != TRUE

    def _join(self, found: Found, other: Found, node: exp.Join) -> Found:
        (left, scope), (right, names) = found, other
        left, right = self._beside_persons(left, right, str(node.args.get("side") or "").upper())
        if str(node.args.get("kind") or "").upper() in _HALF:
            return _half_joined((left, scope), (right, names), node)
        kind = _kind(node)
        # Released columns precede public ones, whichever side they were written on.
        turned = isinstance(right, ReleasedRelation) and not isinstance(left, ReleasedRelation)
        first, second = (scope.shifted(_width(right)), names) if turned else (scope, names.shifted(_width(left)))
        both = first.beside(second)
        using = _names_in_using(node)
        if using:
            condition = _using_condition(first, second, using)
        elif node.args.get("on") is not None:
            condition = Scalars(both, "a join condition").condition(node.args["on"])
        elif kind is not JoinKind.INNER:
            raise Refusal("join", "An outer join needs a condition: write ON or USING.")
        else:
            condition = _connecting(both, self.select, _width(right if turned else left))
        joined: RelationNode | ReleasedRelation
        match left, right:
            case ReleasedRelation(), RelationNode():
                joined = left.matched(right, kind, condition)
            case RelationNode(), ReleasedRelation():
                joined = right.matched(left, _TURNED[kind], condition)
            case RelationNode(), RelationNode():
                joined = ownership.join_beside(left, right, kind, condition)
            case ReleasedRelation(), ReleasedRelation():
                joined = left.combined(right, kind, condition)
            case _:
                raise AssertionError("one of four pairs")
        visible = both.over(joined) if isinstance(joined, RelationNode) else both.renewed(joined.reference)
        return joined, _merged(visible, first, second, using, kind) if using else visible

    def _beside_persons(
        self, left: RelationNode | ReleasedRelation, right: RelationNode | ReleasedRelation, side: str
    ) -> tuple[RelationNode | ReleasedRelation, RelationNode | ReleasedRelation]:
        """Return the sides of a join; a released relation joined with persons' rows is released first, then public."""
        if isinstance(left, RelationNode) and isinstance(right, ReleasedRelation) and not is_public_throughout(left):
            found, kept = (left, self.queries.rows_below(right, left)), side in ("RIGHT", "FULL")
        elif isinstance(left, ReleasedRelation) and isinstance(right, RelationNode) and not is_public_throughout(right):
            found, kept = (self.queries.rows_below(left, right), right), side in ("LEFT", "FULL")
        else:
            return left, right
        if kept:
            raise Refusal(
                "join",
                "This join would keep released rows that no row of a person meets, and they belong to no person; write "
                "JOIN, or LEFT JOIN with the rows of persons on its left.",
            )
        return found


def _column_names(node: exp.Expr) -> list[str] | None:
    alias = node.args.get("alias")
    return [column.name for column in alias.args.get("columns") or []] or None if alias is not None else None


def _with_values(source: RelationNode | ReleasedRelation, scope: Scope, node: exp.Unnest) -> Found:
    """Join rows with the values of a list in them: ``UNNEST(x) AS t(value)``, or ``AS value``."""
    alias = node.args.get("alias")
    if isinstance(source, ReleasedRelation) or len(node.expressions) != 1:
        raise Refusal("unsupported", "UNNEST takes one list in the rows of a table, below the aggregation.")
    joined, value = unnested(source, node.expressions[0], Scalars(scope, "UNNEST"))
    name = alias.name if alias is not None and alias.name else "unnest"
    column = (_column_names(node) or [name])[0]
    return joined, scope.over(joined).beside(Scope((ScopeSource(name, ((column, value),)),)))


def _names_in_using(node: exp.Join) -> list[str]:
    return [column.name for column in node.args.get("using") or []]


_HALF: Final = ("SEMI", "ANTI")


def _half_joined(found: Found, other: Found, node: exp.Join) -> Found:
    """Resolve SEMI JOIN, which keeps left rows with a match on the right, and ANTI JOIN, which keeps those without."""
    (left, scope), (right, names), word = found, other, str(node.args["kind"]).upper()
    if str(node.args.get("side") or "LEFT").upper() != "LEFT":
        raise Refusal("join_kind", f"Write {word} JOIN with ON or USING; it keeps rows of the table on its left.")
    if isinstance(left, ReleasedRelation) or isinstance(right, ReleasedRelation):
        raise Refusal("join_kind", f"{word} JOIN works below the aggregation; above it, join the public table.")
    moved = names.shifted(len(left.fields))
    using = _names_in_using(node)
    if using:
        condition = _using_condition(scope, moved, using)
    elif node.args.get("on") is not None:
        condition = Scalars(scope.beside(moved), "a join condition").condition(node.args["on"])
    else:
        raise Refusal("join", f"{word} JOIN needs a condition: write ON or USING.")
    marked = ownership.mark(left, right, condition)
    met = reference(marked, len(left.fields))
    kept = ownership.keep(marked, met if word == "SEMI" else call("not", met))
    return kept, scope.over(kept)


def _width(found: RelationNode | ReleasedRelation) -> int:
    return len(found.columns) if isinstance(found, ReleasedRelation) else len(found.fields)


def _kind(node: exp.Join) -> JoinKind:
    word = str(node.args.get("kind") or "").upper()
    side = str(node.args.get("side") or "").upper()
    if node.args.get("method") or word not in ("", "INNER", "OUTER", "CROSS") or side not in _KINDS:
        raise Refusal(
            "join_kind", "Supported are INNER, LEFT, RIGHT, FULL, CROSS, SEMI and ANTI joins with ON or USING."
        )
    if word == "OUTER" and not side:
        raise Refusal("join_kind", "Say which outer join: LEFT, RIGHT or FULL.")
    return _KINDS[side]


def _using_condition(left: Scope, right: Scope, names: list[str]) -> Expression:
    return all_of([call("eq", left.find(name, None), right.find(name, None)) for name in names])


def _merged(visible: Scope, left: Scope, right: Scope, names: list[str], kind: JoinKind) -> Scope:
    """Merge names in USING into one column: the side that is never missing; for FULL joins the side that is present."""
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


def _comma_runs(joins: Sequence[exp.Join]) -> Iterator[list[exp.Join]]:
    """Yield the joins in order; consecutive joins without conditions form one run."""
    for comma, run in itertools.groupby(joins, _is_comma):
        if comma:
            yield list(run)
        else:
            yield from ([join] for join in run)


def _is_comma(join: exp.Join) -> bool:
    """Whether a join is a comma or a CROSS JOIN: a pair of tables without a join condition."""
    stated = ("on", "using", "method", "side")
    return not any(join.args.get(name) for name in stated) and str(join.args.get("kind") or "CROSS").upper() == "CROSS"


def _connecting(both: Scope, select: exp.Select, width: int) -> Expression:
    """Return the equalities of WHERE that read columns on both sides of slot ``width``; TRUE without any."""
    where = select.args.get("where")
    if where is None:
        return TRUE
    found: list[Expression] = []
    for part in _equalities(where.this):
        try:
            condition = Scalars(both, "WHERE").condition(part)
        except Refusal:
            continue
        slots = [reference.slot for reference in references(condition)]
        if any(slot < width for slot in slots) and any(slot >= width for slot in slots) and condition not in found:
            found.append(condition)
    return all_of(found)


def _equalities(node: exp.Expr) -> list[exp.Expr]:
    """Return equalities that hold wherever a condition is true: conjuncts, and those shared by all parts of an OR."""
    found: list[exp.Expr] = []
    for part in conjuncts_of(node, exp.And):
        inner = part.unnest()
        if isinstance(inner, exp.EQ):
            found.append(inner)
        elif isinstance(inner, exp.Or):
            branches = [_equalities(branch) for branch in conjuncts_of(inner, exp.Or)]
            found.extend(one for one in branches[0] if all(one in others for others in branches[1:]))
    return found


def _in_written_order(scope: Scope, aliases: Sequence[Sequence[ScopeSource]]) -> Scope:
    """Return the scope with its sources in the order of FROM, so that ``*`` lists columns as they are written."""
    wanted = [source.alias.lower() for group in aliases for source in group]
    places = {alias: place for place, alias in enumerate(wanted)}
    ordered = sorted(scope.sources, key=lambda source: places.get(source.alias.lower(), len(places)))
    return Scope(tuple(ordered), scope.merged)


@dataclass(frozen=True)
class Item:
    """One output column.

    Args:
        name: its name in the output.
        node: its syntax; None for columns listed by a star.
        expression: for a column listed by a star, its expression over the scope.
        alias: the alias in the query, if there is one.
    """

    name: str
    node: exp.Expr | None
    expression: Expression | None = None
    alias: str | None = None

    @property
    def syntax(self) -> exp.Expr:
        """Syntax of an item that is no column of a star."""
        if self.node is None:
            raise AssertionError("an item has syntax or an expression")
        return self.node


def expand(select: exp.Select, scope: Scope) -> list[Item]:
    """Return the columns of a SELECT list, in order."""
    items: list[Item] = []
    for node in select.expressions:
        items.extend(_expanded(node, scope))
        limits.check_size(len(items), limits.MAX_COLUMNS, "columns")
    if not items:
        raise Refusal("syntax", "SELECT needs at least one column.")
    names = unique_names([item.name for item in items])
    return [
        item if item.alias or item.name == name else Item(name, item.node, item.expression, item.alias)
        for item, name in zip(items, names, strict=True)
    ]


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names, made unique by a number added to repeated ones."""
    taken: set[str] = set()
    result: list[str] = []
    for name in names:
        fresh, count = name, 1
        while fresh.lower() in taken:
            count += 1
            fresh = f"{name}_{count}"
        taken.add(fresh.lower())
        result.append(fresh)
    return result


def _expanded(node: exp.Expr, scope: Scope) -> list[Item]:
    if isinstance(node, exp.Star):
        return _starred(node, scope.star(None))
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return _starred(node.this, scope.star(node.table))
    alias = node.alias if isinstance(node, exp.Alias) else None
    inner = node.this if isinstance(node, exp.Alias) else node
    if alias is not None and len(alias) > limits.MAX_IDENTIFIER:
        raise Refusal("too_long", f"A name has more than {limits.MAX_IDENTIFIER} characters; shorten it.")
    return [Item(alias or _name(inner), inner, None, alias)]


def _starred(star: exp.Star, columns: list[tuple[str, Expression]]) -> list[Item]:
    """Return the columns of a star, without those that EXCLUDE names."""
    without = {part.name.lower() for part in star.args.get("except_") or []}
    missing = without - {name.lower() for name, _ in columns}
    if missing:
        raise Refusal("unknown_column", f"EXCLUDE names {min(missing)[:63]!r}, which is not among the columns of *.")
    return [Item(name, None, expression) for name, expression in columns if name.lower() not in without]


def _name(node: exp.Expr) -> str:
    here = node
    while isinstance(here, (exp.Paren, exp.Filter, exp.WithinGroup, exp.Window, exp.Cast, exp.TryCast)):
        here = here.this
    if isinstance(here, exp.Column):
        return here.name or "column"
    if isinstance(here, exp.Anonymous):
        return function_name(here)
    return type(here).__name__.lower() if isinstance(here, (exp.Case, exp.Extract)) else "column"


# -- lists in from

#: Largest number of values of a list.
MOST: Final = 10_000


def series_relation(args: list[exp.Expr]) -> RelationNode:
    """Return GENERATE_SERIES(first, last, step) as a public relation of one column.

    Raises:
        Refusal: the ends are not constants, the step does not lead from one to the other, or the list is too long.
    """
    scalars = Scalars(Scope(), "FROM")
    if len(args) not in (2, 3):
        raise Refusal("arguments", "GENERATE_SERIES takes a first and a last value, and a step.")
    first, last = (scalars(arg) for arg in args[:2])
    if not isinstance(first, Literal) or not isinstance(last, Literal) or first.value is None or last.value is None:
        raise Refusal("arguments", "GENERATE_SERIES: the ends are constants, written out.")
    if first.type.is_temporal and last.type.is_temporal:
        if len(args) < 3 or not isinstance(args[2], exp.Interval):
            raise Refusal("arguments", "GENERATE_SERIES of dates takes an interval as its step: INTERVAL '1' DAY.")
        values = _times(first, last, interval_of(args[2]))
    else:
        step = scalars(args[2]) if len(args) > 2 else literal(1, INTEGER)
        whole = [part.value for part in (first, last, step) if isinstance(part, Literal) and part.type == INTEGER]
        if len(whole) != 3 or not all(isinstance(part, int) for part in whole) or whole[2] == 0:
            raise Refusal("arguments", "GENERATE_SERIES takes whole numbers, or dates and an interval.")
        low, high, by = (int(part) for part in whole if isinstance(part, int))
        numbers = range(low, high + (1 if by > 0 else -1), by)
        values = [literal(number, INTEGER) for number in numbers[: MOST + 1]]
    if not values:
        raise Refusal("arguments", "GENERATE_SERIES lists nothing; check its ends and its step.")
    if len(values) > MOST:
        raise Refusal("too_large", f"GENERATE_SERIES lists at most {MOST} values; use a larger step.")
    kind = values[0].type
    field = Field("generate_series", kind, union((value.domain for value in values), kind))
    return ownership.constants([(value,) for value in values], (field,))


def _times(first: Literal, last: Literal, span: Span) -> list[Literal]:
    kind = DATE if (first.type, last.type) == (DATE, DATE) and not span.seconds else TIMESTAMP
    origin, end = cast(first, kind), cast_value(last.value, last.type, kind)
    forward = max(span) > 0
    if not any(span) or (forward and min(span) < 0):
        raise Refusal("arguments", "GENERATE_SERIES needs a step that goes in one direction.")
    here, found = origin, list[Literal]()
    while isinstance(here, Literal) and here.value is not None and len(found) <= MOST:
        if here.value > end if forward else here.value < end:  # type: ignore[operator]
            break
        found.append(here)
        # Counted from the first value, so that month ends do not drift to earlier days.
        here = moved(origin, span, 1, literal(len(found), INTEGER))
    return found


def values_relation(node: exp.Values) -> RelationNode:
    """Return a VALUES list as a public relation."""
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
