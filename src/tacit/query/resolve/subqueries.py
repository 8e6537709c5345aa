"""Subqueries: IN and EXISTS, and those that stand for a value, public or released.

Below the aggregation, IN and EXISTS become a mark on each row, by rows of the same person or by public ones. A subquery
that stands for a value is a public relation of one column and at most one row, so it is free; it becomes a column. That
it has at most one row must follow from its text, because an error that depends on rows could not be distinguished from
one that depends on persons; where it has none, the value is NULL. It may also be released, by a separate part of the
query.

A subquery may be correlated with the outer query by equalities.
``(SELECT AVG(w.cost) FROM visits w WHERE w.patient_id = v.patient_id)`` stands for one value per row. The rows inside
are grouped by the columns in the equalities, and each outer row is joined with the group of its own values by a LEFT
JOIN; there is at most one, so that no row is multiplied. Over protected rows one of the equalities is that of the units
(or of a declared key), so that every group lies inside one person and rows of two persons never meet.

Where no group matches, aggregates are NULL and counts 0. A subquery without an aggregate is accepted where its
equalities name a column that is declared unique; should the declaration be wrong, the least of the values is taken,
which is a function of the same person's rows like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from sqlglot import exp

from tacit.query.aggregates import AGGREGATES, unit_call
from tacit.query.aggregates.family import AggregateCall
from tacit.query.planning.work import Sizes, equated, rows_inside
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import JoinKind, RelationNode, UnitCall, is_public_throughout, reference, row_bounds
from tacit.query.relational.expressions import FALSE, TRUE, Expression, Reference, literal, rewrite, shift
from tacit.query.relational.functions import call, case
from tacit.query.relational.functions.registry import all_of
from tacit.query.relational.narrowing import conjuncts
from tacit.query.resolve.aggregation import read_aggregate
from tacit.query.resolve.public_rows import ReleasedRelation, refuse_kept_rows
from tacit.query.resolve.scalars import (
    Correlated,
    Hook,
    Scalars,
    Scope,
    conjuncts_of,
    has_aggregate,
    is_aggregate,
    is_pick,
)
from tacit.query.resolve.tables import Names, from_clause
from tacit.query.types import BOOLEAN, INTEGER, Domain

if TYPE_CHECKING:
    from tacit.query.resolve.statements import Queries


class PublicValues:
    """Resolves the subqueries of one SELECT that stand for values."""

    def __init__(self, queries: Queries, ctes: Names) -> None:
        self.queries = queries
        self.ctes = ctes
        self._known: dict[int, RelationNode | ReleasedRelation] = {}

    def value(self, node: exp.Expr, outer: Scope) -> RelationNode | ReleasedRelation:
        """Resolve a subquery to a public or released relation of one column and at most one row.

        Raises:
            Refusal: for anything else.
        """
        if id(node) not in self._known:
            self._known[id(node)] = self._resolved(node, outer)
        return self._known[id(node)]

    def _resolved(self, node: exp.Expr, outer: Scope) -> RelationNode | ReleasedRelation:
        try:
            found = self.queries.query(node, self.ctes)
        except Refusal as refusal:
            if refusal.reason in ("unknown_column", "unknown_table") and _refers_to(node, outer):
                raise Refusal(
                    "subquery",
                    "A subquery that stands for a value cannot refer to the query around it; join the public table "
                    "in FROM instead.",
                ) from None
            raise
        if isinstance(found, ReleasedRelation):
            visible, single = list(range(len(found.columns))), found.is_single
        elif is_public_throughout(found):
            most = row_bounds(found)[1]
            visible = [slot for slot, column in enumerate(found.fields) if column.name is not None]
            single = most is not None and most <= 1
        else:
            raise protected_value()
        if len(visible) != 1:
            raise Refusal("subquery", "A subquery that stands for a value must have exactly one column.")
        if not single:
            raise Refusal(
                "subquery",
                "A subquery that stands for a value must have one row whatever the tables hold: aggregate in it "
                "without GROUP BY, as in (SELECT MAX(x) FROM t), or end it with LIMIT 1.",
            )
        if isinstance(found, ReleasedRelation) or len(found.fields) == 1:
            return found
        return ownership.compute(found, [(found.fields[visible[0]].name, reference(found, visible[0]))])


def values_of(select: exp.Select) -> Iterator[exp.Subquery]:
    """Yield the subqueries of a SELECT that stand for values, but not those nested in them."""
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


def _refers_to(node: exp.Expr, outer: Scope) -> bool:
    columns = node.find_all(exp.Column)
    return any(outer.matches(column.name, column.table or None) for column in columns)


def protected_value() -> Refusal:
    """Return the refusal of an exact value of protected rows."""
    return Refusal(
        "subquery",
        "A subquery cannot stand for a value of protected tables: it would carry exact data into the answer. Join it "
        "in FROM (grouped by the unit), use IN or EXISTS, or ask two queries.",
    )


_PLAIN = ("expressions", "from_", "joins", "where")
_WHERE = "WHERE of a subquery"


def correlated_value(body: Body, query: exp.Query) -> Expression | None:
    """Join ``body`` with a correlated subquery and return its value per row; None where no equality ties the two."""
    if not isinstance(query, exp.Select) or any(value for name, value in query.args.items() if name not in _PLAIN):
        return None
    try:
        source, names = from_clause(body.queries, query, body.ctes)
    except Refusal:
        return None
    if isinstance(source, ReleasedRelation):
        return None
    where = query.args.get("where")
    own, pairs = _split([] if where is None else conjuncts_of(where.this, exp.And), names, body.scope)
    if not pairs or len(query.expressions) != 1:
        return None
    inside = ownership.keep(source, all_of(own))
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
    body.relation = ownership.join(body.relation, grouped, JoinKind.LEFT, all_of(equal))
    # References to the joined relation: a row may meet no group, so its columns are nullable.
    return rewrite(
        value,
        lambda part: (
            reference(body.relation, part.slot) if isinstance(part, Reference) and part.slot >= width else None
        ),
    )


def _split(
    parts: Sequence[exp.Expr], names: Scope, outer: Scope
) -> tuple[list[Expression], list[tuple[Expression, Expression]]]:
    """Split WHERE into conditions on the rows inside, and pairs (inside, outside) that must be equal."""
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
    """The aggregates of a correlated subquery, each a column of its groups."""

    def __init__(self, inside: RelationNode, names: Scope, keys: Sequence[Expression]) -> None:
        self.inside = inside
        self.scalars = Scalars(names.over(inside), "an aggregate")
        self.names = names
        self.keys = keys
        self.made: list[tuple[UnitCall, Domain]] = []

    def single(self, item: exp.Expr, first: int) -> Expression:
        """Return the value of a subquery without an aggregate; refuse it unless each key has at most one row."""
        slots = frozenset(part.slot for part in self.keys if isinstance(part, Reference))
        if Sizes().repeats(self.inside, slots) != 1:
            raise Refusal(
                "subquery",
                "A subquery that stands for a value may have several rows here: aggregate in it, as in "
                "(SELECT MAX(x) FROM …), or tie it to a column that is declared unique.",
            )
        return self._column(AggregateCall("min", self.scalars(item), None, None, None, None), first)

    def hook(self, first: int) -> Hook:
        """Return a hook that resolves aggregates to columns from slot ``first`` on, and refuses plain inner columns."""

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


# -- subqueries below the aggregation

_SIMPLE = ("expressions", "from_", "joins", "where", "distinct")


class Body:
    """The relation of one SELECT while its clauses are resolved; subqueries append columns to it."""

    def __init__(self, queries: Queries, relation: RelationNode, scope: Scope, ctes: Names) -> None:
        self.queries = queries
        self.relation = relation
        self.scope = scope
        self.ctes = ctes
        self.attached: dict[RelationNode, int] = {}

    @cached_property
    def values(self) -> PublicValues:
        """Resolver of subqueries that stand for values."""
        return PublicValues(self.queries, self.ctes)

    def scalars(self, clause: str) -> Scalars:
        """Return a resolver for a clause that may hold IN and EXISTS."""
        return Scalars(self.scope, clause, self.hook)

    def hook(self, node: exp.Expr) -> Expression | None:
        """Resolve IN (SELECT …), EXISTS (SELECT …), and (SELECT …) that stands for a value; None for other nodes."""
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            values = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            found = self._in([self.scalars("IN")(value) for value in values], _query_of(node.args["query"]))
            return call("not", found) if node.args.get("negate") else found
        if isinstance(node, exp.Exists):
            return self._mark(*self._inner(_query_of(node.this), columns=False)[:2])
        if isinstance(node, exp.Subquery):
            return self._scalar(node)
        return None

    def _scalar(self, node: exp.Subquery) -> Expression:
        """Resolve a subquery to a public or released value, or to one that equalities tie to each row."""
        try:
            value = self.queries.below(self.values.value(node, self.scope), self.relation)
        except Refusal:
            found = correlated_value(self, _query_of(node))
            if found is None:
                raise
            return found
        if value not in self.attached:
            self.relation = ownership.attach(self.relation, value)
            self.attached[value] = len(self.relation.fields) - 1
        return reference(self.relation, self.attached[value])

    def attach(self, relation: RelationNode, value: RelationNode | ReleasedRelation) -> RelationNode:
        """Append the value of a subquery to each row below the aggregation."""
        return ownership.attach(relation, self.queries.below(value, relation))

    def _in(self, values: Sequence[Expression], query: exp.Query) -> Expression:
        other, condition, columns = self._inner(query, columns=True)
        if len(columns) != len(values):
            many = "exactly one column" if len(values) == 1 else f"{len(values)} columns, as the list before IN has"
            raise Refusal("subquery", f"The subquery of IN must have {many}.")
        pairs = [call("eq", value, column) for value, column in zip(values, columns, strict=True)]
        equal = all_of(pairs)
        width = len(self.relation.fields)
        matched = self._mark(other, _both(condition, equal))
        if not equal.nullable:
            return matched
        if other.unit is not None and self.relation.unit is not None:
            # NULLs of the same person's rows alone count, as in every comparison of protected rows.
            same = call("eq", reference(self.relation, self.relation.unit), shift(reference(other, other.unit), width))
            condition = _both(condition, same)
        unknown = self._unknown(other, condition, equal, width)
        return case([(matched, TRUE), (unknown, literal(None, BOOLEAN))], FALSE)

    def _unknown(self, other: RelationNode, condition: Expression, equal: Expression, width: int) -> Expression:
        """Whether the comparison is NULL for some row of the subquery.

        Where each side of the comparison reads one relation, each side is tested for NULL separately: to test every
        pair of rows would multiply a person's rows by those of the subquery.
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
        """Return a condition over ``width`` left columns, shifted to the left columns that there are now.

        Each mark is one more left column.
        """
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

    def _inner(self, query: exp.Query, *, columns: bool) -> tuple[RelationNode, Expression, list[Expression]]:
        """Resolve a subquery to its relation, the condition that ties it to a row, and its columns (over both)."""
        try:
            return self._independent(query, columns=columns)
        except Refusal as refusal:
            if refusal.reason not in ("unknown_column", "unknown_table") or not _is_simple(query):
                raise
        return self._correlated(query, columns=columns)

    def _independent(self, query: exp.Query, *, columns: bool) -> tuple[RelationNode, Expression, list[Expression]]:
        other = self.queries.query(query, self.ctes)
        if isinstance(other, ReleasedRelation):
            if self.relation.is_public:
                raise Refusal(
                    "subquery",
                    "Public rows take no IN or EXISTS over an aggregated result; join it with the public table.",
                )
            other = self.queries.rows_below(other, self.relation)
        visible = [slot for slot, column in enumerate(other.fields) if column.name is not None] if columns else []
        return other, TRUE, [shift(reference(other, slot), len(self.relation.fields)) for slot in visible]

    def _correlated(self, query: exp.Query, *, columns: bool) -> tuple[RelationNode, Expression, list[Expression]]:
        if not isinstance(query, exp.Select):
            raise Refusal("subquery", "A correlated subquery must be a plain SELECT … FROM … WHERE.")
        other, names = from_clause(self.queries, query, self.ctes)
        if isinstance(other, ReleasedRelation):
            raise Refusal("subquery", "A subquery of IN or EXISTS cannot aggregate over persons; group it by the unit.")
        refuse_kept_rows(other)
        moved = names.shifted(len(self.relation.fields))
        both = Correlated(moved.sources, moved.merged, self.scope)
        where = query.args.get("where")
        condition = TRUE if where is None else Scalars(both, "WHERE of a subquery").condition(where.this)
        items = query.expressions if columns else []
        if any(isinstance(item, exp.Star) for item in items):
            return other, condition, []
        scalars = Scalars(both, "SELECT of a subquery")
        return other, condition, [scalars(item.this if isinstance(item, exp.Alias) else item) for item in items]


def _both(condition: Expression, also: Expression) -> Expression:
    return also if condition == TRUE else call("and", *conjuncts(condition), also)


def _query_of(node: exp.Expr) -> exp.Query:
    inner = node.this if isinstance(node, exp.Subquery) else node
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Query):
        raise Refusal("subquery", "IN and EXISTS take a SELECT in parentheses.")
    return inner


def _is_simple(query: exp.Query) -> bool:
    return isinstance(query, exp.Select) and all(not value for name, value in query.args.items() if name not in _SIMPLE)
