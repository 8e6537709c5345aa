"""Subqueries that stand for a value: public, or released by a part of the query of its own.

A subquery may be tied to the query around it by equalities.
``(SELECT AVG(w.cost) FROM visits w WHERE w.patient_id = v.patient_id)`` stands for one value per row. The rows inside
are grouped by the columns that the equalities name, and each row outside meets the group of its own values by a LEFT
JOIN; there is at most one, so that no row is multiplied. Over protected rows one of the equalities is that of the units
(or of a declared key), so that every group lies inside one person and rows of two persons never meet.

Where no group is met, aggregates are NULL and counts 0. A subquery without an aggregate is accepted where its
equalities name a column that is declared unique; should the declaration be wrong, the least of the values is taken,
which is a function of the same person's rows like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query.aggregate_family import AggregateCall
from tacit.query.aggregates import AGGREGATES, unit_call
from tacit.query.planning.work import Sizes, rows_inside
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import JoinKind, RelationNode, UnitCall, is_public_throughout, reference, row_bounds
from tacit.query.relational.expressions import TRUE, Expression, Reference, literal, rewrite, shift
from tacit.query.relational.functions import call
from tacit.query.resolve.aggregation import read_aggregate
from tacit.query.resolve.released_relation import ReleasedRelation
from tacit.query.resolve.scalars import Hook, Scalars, Scope, conjuncts_of, has_aggregate, is_aggregate, is_pick
from tacit.query.types import INTEGER, Domain

if TYPE_CHECKING:
    from tacit.query.resolve.sql_statements import Body, Queries
    from tacit.query.resolve.tables_and_columns import Names


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
        "in FROM (grouped by the unit), use IN or EXISTS, or ask two queries.",
    )


_PLAIN = ("expressions", "from_", "joins", "where")
_WHERE = "WHERE of a subquery"


def correlated_value(body: Body, query: exp.Expr, source: RelationNode, names: Scope) -> Expression | None:
    """The value that a subquery has in each row of ``body``, which gets a join; None where nothing ties the two."""
    if not isinstance(query, exp.Select) or any(value for name, value in query.args.items() if name not in _PLAIN):
        return None
    where = query.args.get("where")
    own, pairs = _split([] if where is None else conjuncts_of(where.this, exp.And), names, body.scope)
    if not pairs or len(query.expressions) != 1:
        return None
    inside = ownership.keep(source, TRUE if not own else own[0] if len(own) == 1 else call("and", *own))
    keys = [(None, one) for one, _ in pairs]
    if inside.unit is not None and not any(ownership.identifies_unit(inside, one) for one, _ in pairs):
        raise Refusal(
            "subquery",
            "A subquery of protected rows reads rows of the same person: add an equality of the unit columns to its "
            "WHERE, as in WHERE inner.patient_id = outer.patient_id.",
        )
    item = query.expressions[0]
    item = item.this if isinstance(item, exp.Alias) else item
    calls = _Calls(inside, names, [one for one, _ in pairs])
    width, first = len(body.relation.fields), len(ownership.complete_keys(inside, keys))
    if has_aggregate(item):
        value = Scalars(body.scope, "a subquery", calls.hook(width + first))(item)
    else:
        value = calls.single(item, width + first)
    grouped = ownership.group(inside, keys, calls.made)
    equal = [call("eq", outer, shift(reference(grouped, slot), width)) for slot, (_, outer) in enumerate(pairs)]
    body.relation = ownership.join(
        body.relation, grouped, JoinKind.LEFT, equal[0] if len(equal) == 1 else call("and", *equal)
    )
    # What is known of the columns now: a row may meet no group.
    return rewrite(
        value,
        lambda part: (
            reference(body.relation, part.slot) if isinstance(part, Reference) and part.slot >= width else None
        ),
    )


def _split(
    parts: Sequence[exp.Expr], names: Scope, outer: Scope
) -> tuple[list[Expression], list[tuple[Expression, Expression]]]:
    """Conditions on the rows inside, and pairs (inside, outside) that must be equal."""
    own: list[Expression] = []
    pairs: list[tuple[Expression, Expression]] = []
    for part in parts:
        try:
            own.append(Scalars(names, _WHERE).condition(part))
            continue
        except Refusal as refusal:
            pair = _pair(part, names, outer)
            if pair is None and _refers_to(part, outer):
                raise Refusal(
                    "subquery",
                    "A subquery that stands for a value is tied to the query around it by equalities alone, as in "
                    "WHERE inner.patient_id = outer.patient_id; put other conditions into a join.",
                ) from None
            if pair is None:
                raise refusal from None
            pairs.append(pair)
    return own, pairs


def _pair(part: exp.Expr, names: Scope, outer: Scope) -> tuple[Expression, Expression] | None:
    if not isinstance(part, exp.EQ):
        return None
    for inside, outside in ((part.this, part.expression), (part.expression, part.this)):
        try:
            return Scalars(names, _WHERE)(inside), Scalars(outer, _WHERE)(outside)
        except Refusal:
            continue
    return None


class _Calls:
    """The aggregates of a subquery, each a column of its groups."""

    def __init__(self, inside: RelationNode, names: Scope, keys: Sequence[Expression]) -> None:
        self.inside = inside
        self.scalars = Scalars(names.over(inside), "an aggregate")
        self.names = names
        self.keys = keys
        self.made: list[tuple[UnitCall, Domain]] = []

    def single(self, item: exp.Expr, first: int) -> Expression:
        """A value without an aggregate: there must be one row for each value of the keys."""
        slots = frozenset(part.slot for part in self.keys if isinstance(part, Reference))
        if Sizes().repeats(self.inside, slots) != 1:
            raise Refusal(
                "subquery",
                "A subquery that stands for a value may have several rows here: aggregate in it, as in "
                "(SELECT MAX(x) FROM …), or tie it to a column that is declared unique.",
            )
        return self._column(AggregateCall("min", self.scalars(item), None, None, None, None), first)

    def hook(self, first: int) -> Hook:
        """Resolve aggregates to columns from slot ``first`` on, and refuse other columns of the rows inside."""

        def resolve(node: exp.Expr) -> Expression | None:
            if is_pick(node):
                raise Refusal(
                    "subquery",
                    "A subquery that stands for a value takes plain aggregates; compute the value of one row in FROM, "
                    "grouped by the unit.",
                )
            if is_aggregate(node):
                return self._column(read_aggregate(node, self.scalars), first)
            if isinstance(node, exp.Column) and self.names.matches(node.name, node.table or None):
                raise Refusal("not_aggregated", f"The column {node.name!r} is inside a subquery and not aggregated.")
            return None

        return resolve

    def _column(self, asked: AggregateCall, first: int) -> Expression:
        made = unit_call(asked, rows_inside(self.inside))
        if made not in self.made:
            self.made.append(made)
        domain = made[1]
        missing = Domain(domain.range, True, domain.values, domain.step, domain.growth)
        found = Reference(made[0].type, missing, first + self.made.index(made), "subquery")
        return call("coalesce", found, literal(0, INTEGER)) if AGGREGATES[asked.function].counts else found
