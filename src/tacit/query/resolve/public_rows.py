"""Rows that anyone may see: released relations, order and limits of public rows, and public rows without a match.

A released relation is a final aggregation and steps on its cells. Joined with public rows, or with the rows of another
released relation, it stays one; so does a UNION of several. All parts of it are about one population, whose account is
charged for them together.

Released rows are sorted and cut in post-processing. Public rows are numbered by a window, in the order of ORDER BY and
then of all of their columns, so that which rows a LIMIT keeps follows from the rows alone, on every engine; a filter on
the number cuts them, in a subquery as well as at the top.

Public rows that an outer join keeps although no row of a person matches them:

``FROM wards w LEFT JOIN visits v ON …`` has a row for every ward without a visit. Such a row belongs to no person, so
it cannot enter the aggregation. It need not: aggregates pass over NULL, and all columns of ``visits`` are NULL in it.
The join below the aggregation is therefore an inner one, and the rows that are kept only say which groups there are:
public keys, all of which are returned in any case. An aggregate that would count such a row is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tacit.query import limits
from tacit.query.aggregates.family import AggregateCall
from tacit.query.parsing.parse import Options
from tacit.query.query import (
    Append,
    Combine,
    Derive,
    Extend,
    FinalAggregation,
    Keep,
    Match,
    OutputColumn,
    Query,
    Regroup,
    Slice,
    Sort,
    Step,
    Unique,
    most_rows,
)
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    ExistsColumn,
    Field,
    FilterRows,
    Join,
    JoinKind,
    RelationNode,
    ReleasedTable,
    ReleasedValue,
    SortKey,
    UnitCall,
    WindowCall,
    WindowFrame,
    is_public_throughout,
    reference,
)
from tacit.query.relational.expressions import (
    TRUE,
    Expression,
    Interval,
    Reference,
    literal,
    references,
    rewrite,
    shift,
    walk,
)
from tacit.query.relational.functions import call, cast, evaluate
from tacit.query.relational.functions.registry import all_of, constant_int
from tacit.query.relational.narrowing import conjuncts
from tacit.query.resolve.aggregation import sort_key_of
from tacit.query.resolve.scalars import Scalars, Scope, ScopeSource, renamed
from tacit.query.types import INTEGER, Domain, Range, Value, union

# -- released relations


@dataclass(frozen=True)
class ReleasedRelation:
    """A final aggregation, steps on its cells, and the columns after the last step."""

    final: FinalAggregation
    steps: tuple[Step, ...]
    columns: tuple[OutputColumn, ...]

    @property
    def query(self) -> Query:
        """The released relation as a query without options."""
        return Query(self.final, self.steps, self.columns, Options())

    def reference(self, slot: int) -> Reference:
        column = self.columns[slot]
        return Reference(column.type, column.domain, slot, column.name)

    def scope(self, alias: str, names: Sequence[str] | None = None) -> Scope:
        """Return a scope of the columns under an alias."""
        fields = [Field(column.name, column.type, column.domain) for column in self.columns]
        called = renamed(fields, names)
        return Scope((ScopeSource(alias, tuple((name, self.reference(i)) for i, name in enumerate(called))),))

    def renamed(self, names: Sequence[str]) -> ReleasedRelation:
        """Return the same columns under other names."""
        columns = tuple(replace(column, name=name) for column, name in zip(self.columns, names, strict=True))
        return replace(self, columns=columns)

    def matched(self, public: RelationNode, kind: JoinKind, condition: Expression) -> ReleasedRelation:
        """Join with a public relation, whose columns come last; ``kind`` has this relation on the left."""
        if not is_public_throughout(public):
            raise AssertionError("released cells meet public rows only")
        return self._beside(_columns(public), kind, Match(public, kind, condition))

    def combined(self, other: ReleasedRelation, kind: JoinKind, condition: Expression) -> ReleasedRelation:
        """Join with another released relation, whose columns come last.

        Raises:
            Refusal: the two are about different persons.
        """
        _check_population(self.final, other.final)
        return self._beside(other.columns, kind, Combine(other.query, kind, condition))

    @classmethod
    def public(cls, final: FinalAggregation, relation: RelationNode) -> ReleasedRelation:
        """Return the rows of a public relation as released rows of an aggregation; no released number is read.

        An aggregation of the cells without keys and calls is one row without columns, whatever was released.
        """
        row = cls(final, (Regroup((), ()),), ())
        return row.matched(relation, JoinKind.INNER, TRUE) if relation.fields else row

    def with_value(self, value: RelationNode | ReleasedRelation) -> ReleasedRelation:
        """Append the value of a relation with one column and at most one row to every row; NULL where it has none."""
        columns = value.columns if isinstance(value, ReleasedRelation) else _columns(value)
        return self._beside(columns, JoinKind.LEFT, value_step(self.final, value))

    def _beside(self, theirs: Sequence[OutputColumn], kind: JoinKind, step: Step) -> ReleasedRelation:
        left, right = kind in (JoinKind.RIGHT, JoinKind.FULL), kind in (JoinKind.LEFT, JoinKind.FULL)
        columns = (
            *(replace(column, domain=_maybe_missing(column.domain, left)) for column in self.columns),
            *(replace(column, domain=_maybe_missing(column.domain, right)) for column in theirs),
        )
        limits.check_size(len(columns), 4 * limits.MAX_COLUMNS, "columns")
        return self._after(step, columns)

    def _after(self, step: Step, columns: tuple[OutputColumn, ...]) -> ReleasedRelation:
        found = ReleasedRelation(self.final, (*self.steps, step), columns)
        limits.check_size(_weight(found.steps), limits.MAX_RELATIONS, "relational operators")
        return found

    def is_noisy(self, expression: Expression) -> bool:
        """Whether an expression over the columns depends on noise."""
        return any(self.columns[part.slot].noisy for part in references(expression))

    @property
    def is_single(self) -> bool:
        """Whether there is at most one row, whatever is released."""
        most = most_rows(self.query)
        return most is not None and most <= 1

    def value_below(self, rows: RelationNode) -> ReleasedValue:
        """Return the one value of this relation, for rows below another aggregation; known when its parts are released.

        Raises:
            Refusal: the value is about other persons, or depends on more than released cells.
        """
        self._check_below(rows)
        (column,) = self.columns
        field = Field(column.name, column.type, Domain(nullable=True))
        nothing = ((literal(None, column.type),),)
        return ReleasedValue((field,), None, None, 1, 1, 1, nothing, self.query.digest)

    def rows_below(self, rows: RelationNode) -> ReleasedTable:
        """Return these rows, to be joined with rows below another aggregation; known when their parts are released.

        Raises:
            Refusal: they are about other persons, depend on more than released cells, or may be too many.
        """
        self._check_below(rows)
        most = most_rows(self.query)
        if most is None:
            raise Refusal(
                "several_aggregations",
                "How many rows an aggregated result has must follow from the text before rows of persons are joined "
                "with it: group it by declared categories, bounded numbers or a column that is equal to one of a "
                "joined public table, or end it with LIMIT.",
            )
        limits.check_size(most, limits.MAX_ROWS_BELOW, "released rows that rows of persons are joined with")
        fields = tuple(
            Field(c.name, c.type, Domain(nullable=True) if c.noisy else replace(c.domain, nullable=True))
            for c in self.columns
        )
        nothing = (tuple(literal(None, column.type) for column in self.columns),) * most
        return ReleasedTable(fields, None, None, 1, 1, 1, nothing, self.query.digest, self._unique())

    def _check_below(self, rows: RelationNode) -> None:
        if rows.population != self.final.population:
            raise population_refusal(str(rows.population), self.final.population)
        if self.query.reads or _has_interval(self.steps):
            raise Refusal(
                "subquery",
                "What rows of persons are compared or joined with is made of released numbers alone: leave public "
                "tables and DP_INTERVAL_LOW or DP_INTERVAL_HIGH out of its subquery, and join public tables to the "
                "rows of persons instead.",
            )

    def _unique(self) -> frozenset[int] | None:
        """Return the columns of all group keys, which no two rows share; None where a step may merge or repeat rows."""
        places: list[int | None] = [*range(len(self.final.keys)), *[None] * len(self.final.aggregates)]
        for step in self.steps:
            match step:
                case Derive():
                    places = [places[e.slot] if isinstance(e, Reference) else None for e in step.expressions]
                case Extend():
                    places += [None] * len(step.calls)
                case Keep() | Sort() | Slice() | Unique():
                    pass
                case _:
                    return None
        found = {key: slot for slot, key in enumerate(places) if key is not None}
        return frozenset(found.values()) if len(found) == len(self.final.keys) else None

    @staticmethod
    def stacked(parts: Sequence[ReleasedRelation], *, distinct: bool) -> ReleasedRelation:
        """Return the UNION of released relations: columns matched by position in one type, named as in the first."""
        kinds = ownership.joint_types([[column.type for column in part.columns] for part in parts])
        aligned = []
        for part in parts:
            expressions = tuple(cast(part.reference(i), kind) for i, kind in enumerate(kinds))
            columns = tuple(
                replace(column, type=kind, domain=e.domain)
                for column, kind, e in zip(part.columns, kinds, expressions, strict=True)
            )
            aligned.append(part._after(Derive(expressions), columns))
        found = aligned[0]
        for other in aligned[1:]:
            _check_population(found.final, other.final)
            columns = tuple(
                replace(mine, noisy=mine.noisy or theirs.noisy, domain=union((mine.domain, theirs.domain), mine.type))
                for mine, theirs in zip(found.columns, other.columns, strict=True)
            )
            found = found._after(Append(other.query), columns)
        return found._after(Unique(), found.columns) if distinct else found

    def compared(self, other: ReleasedRelation, *, both: bool) -> ReleasedRelation:
        """Return the rows that are also (``both``), or are not, among those of another released relation, once each.

        Rows of both are marked with their side and grouped by all columns; the least and the largest mark of a group
        say on which sides it is.
        """
        if any(column.noisy for column in (*self.columns, *other.columns)):
            raise Refusal(
                "set_operation",
                "INTERSECT and EXCEPT of released results compare keys: two numbers with noise are equal by chance "
                "alone; list keys, and join the results on them for their numbers.",
            )
        sides = []
        for place, part in enumerate((self, other)):
            mark = literal(place, INTEGER)
            listed = (*(part.reference(slot) for slot in range(len(part.columns))), mark)
            shown = OutputColumn("side", INTEGER, False, mark.domain)
            sides.append(part._after(Derive(listed), (*part.columns, shown)))
        stacked = ReleasedRelation.stacked(sides, distinct=False)
        *keys, mark_of = (stacked.reference(slot) for slot in range(len(stacked.columns)))
        calls = tuple(UnitCall(function, mark_of, None, None, INTEGER) for function in ("min", "max"))
        *columns, side = stacked.columns
        grouped = stacked._after(Regroup(tuple(keys), calls), (*columns, side, side))
        first, last = (grouped.reference(len(columns) + place) for place in range(2))
        wanted = call("lt", first, last) if both else call("eq", last, literal(0, INTEGER))
        kept = grouped._after(Keep(wanted), grouped.columns)
        return kept._after(Derive(tuple(kept.reference(slot) for slot in range(len(columns)))), tuple(columns))


def value_step(final: FinalAggregation, value: RelationNode | ReleasedRelation) -> Step:
    """Return the step that adds a value (a relation with one column and at most one row) to the cells.

    Raises:
        Refusal: the value is about other persons.
    """
    if isinstance(value, ReleasedRelation):
        _check_population(final, value.final)
        return Combine(value.query, JoinKind.LEFT, TRUE)
    return Match(value, JoinKind.LEFT, TRUE)


def _check_population(one: FinalAggregation, other: FinalAggregation) -> None:
    if one.population != other.population:
        raise population_refusal(one.population, other.population)


def population_refusal(one: str, other: str) -> Refusal:
    """Return the refusal of a query whose parts are about different populations."""
    return Refusal(
        "population",
        f"One part is about {one} and another about {other}, which have an account each; ask two queries and put "
        "their answers together.",
    )


def _has_interval(steps: Sequence[Step]) -> bool:
    """Whether a step reads an end of a confidence interval, which depends on the stated confidence."""
    for step in steps:
        if any(isinstance(part, Interval) for read in step.held() for part in walk(read)):
            return True
        if isinstance(step, Combine | Append) and _has_interval(step.other.steps):
            return True
    return False


def _columns(public: RelationNode) -> tuple[OutputColumn, ...]:
    return tuple(OutputColumn(c.name or "", c.type, False, c.domain) for c in public.fields)


def _weight(steps: Sequence[Step]) -> int:
    """Return the number of steps, including those of the relations that they read."""
    return sum(1 + _weight(step.other.steps) if isinstance(step, Combine | Append) else 1 for step in steps)


def _maybe_missing(domain: Domain, outer: bool) -> Domain:
    return replace(domain, nullable=True) if outer else domain


# -- order and limits of public rows

_PLACE: Final = Domain(Range(Fraction(1), None), False, None, Fraction(1))


def is_cut(node: exp.Query, *, top: bool) -> bool:
    """Whether a query limits its rows; at the top, also whether it orders them (below, an order has no meaning)."""
    names = ("limit", "offset", "order") if top else ("limit", "offset")
    return any(node.args.get(name) is not None for name in names)


def slice_of(node: exp.Query) -> list[Slice]:
    """Return the LIMIT and OFFSET of a query as at most one slice."""
    numbers: dict[str, int] = {}
    for name in ("limit", "offset"):
        clause = node.args.get(name)
        if clause is None or (isinstance(clause.expression, exp.Var) and clause.expression.name.upper() == "ALL"):
            continue
        value = Scalars(Scope(), name.upper())(clause.expression)
        numbers[name] = constant_int(name.upper(), value, 0, 10**9, "it")
    return [Slice(numbers.get("limit"), numbers.get("offset", 0))] if numbers else []


def column_keys(node: exp.Query, scope: Scope) -> list[SortKey]:
    """Return ORDER BY around a query's columns as sort keys: by names, expressions or positions of the columns."""
    order, columns = node.args.get("order"), scope.star(None)
    keys: list[SortKey] = []
    for term in order.expressions if order is not None else []:
        if isinstance(term.this, exp.Literal) and not term.this.is_string:
            place = constant_int("ORDER BY", Scalars(scope, "ORDER BY")(term.this), 1, len(columns), "the position")
            keys.append(sort_key_of(term, columns[place - 1][1]))
        else:
            keys.append(sort_key_of(term, Scalars(scope, "ORDER BY")(term.this)))
    return keys


def distinct_order() -> Refusal:
    """Return the refusal of ORDER BY terms of SELECT DISTINCT that are not in its list."""
    return Refusal("distinct", "With SELECT DISTINCT, ORDER BY takes columns of the SELECT list.")


def in_place(
    node: exp.Query,
    rows: RelationNode,
    keys: Sequence[SortKey],
    outputs: Sequence[tuple[str, Expression]],
    *,
    top: bool,
) -> RelationNode:
    """Return the columns of public rows, numbered in an order and cut by LIMIT and OFFSET.

    Args:
        node: the query.
        rows: a public relation.
        keys: the sort keys, over the rows.
        outputs: names and expressions of the columns, over the rows.
        top: whether the order shows: then the position of each row is the first column, without a name.
    """
    computed = ownership.compute(rows, [*outputs, *((None, key.expression) for key in keys)])
    order = tuple(replace(key, expression=reference(computed, len(outputs) + index)) for index, key in enumerate(keys))
    made = WindowCall("row_number", None, None, (), order, WindowFrame.PARTITION, INTEGER)
    placed = ownership.window(computed, [(made, _PLACE)])
    place = reference(placed, len(placed.fields) - 1)
    for cut in slice_of(node):
        if cut.limit is not None:
            placed = ownership.keep(placed, call("le", place, literal(cut.offset + cut.limit, INTEGER)))
        if cut.offset:
            placed = ownership.keep(placed, call("gt", place, literal(cut.offset, INTEGER)))
    shown = [(name, reference(placed, index)) for index, (name, _) in enumerate(outputs)]
    return ownership.compute(placed, [(None, place), *shown] if top else shown)


# -- public rows that an outer join keeps although no row of a person matches them


@dataclass(frozen=True)
class KeptPublicRows:
    """A public relation that an outer join keeps all rows of.

    Args:
        relation: the public side.
        first: the slot of its first column among those of the joins.
        owned: the slots that are NULL in a row without a match among persons' rows.
        conditions: the conditions of WHERE above the joins.
    """

    relation: RelationNode
    first: int
    owned: frozenset[int]
    conditions: tuple[Expression, ...] = ()

    def check_keys(self, keys: Sequence[tuple[str, Expression]]) -> None:
        """Refuse a key that reads the optional side, which is NULL in rows without a match."""
        for name, key in keys:
            if any(part.slot in self.owned for part in references(key)):
                raise Refusal(
                    "join",
                    f"This join keeps public rows without a match, which have no {name!r}: group by columns of the "
                    "public table alone, or write JOIN instead of the outer join.",
                )

    def check_call(self, asked: AggregateCall) -> None:
        """Refuse an aggregate that a row without a match would change."""
        if asked.where is not None and self._is_without_match(asked.where, (False, None)):
            return
        nothing = (None, 0) if asked.function == "sum" else (None,)
        if asked.argument is None or not self._is_without_match(asked.argument, nothing):
            shown = "COUNT(*)" if asked.argument is None else asked.function.upper()
            raise Refusal(
                "join",
                f"{shown} would take in the public rows that this join keeps without a match; aggregate columns of the "
                "protected table alone, as in COUNT(v.id), or write JOIN instead of the outer join.",
            )

    def _is_without_match(self, expression: Expression, values: tuple[Value | None, ...]) -> bool:
        """Whether an expression reads optional columns alone, and is one of some values where these are NULL."""
        read = {part.slot for part in references(expression)}
        return read <= self.owned and evaluate(expression, [None] * (max(self.owned) + 1)) in values

    def listing(self, final: FinalAggregation) -> tuple[Match, ...]:
        """Return the join that keeps the groups of the public rows; empty where keys read several public tables.

        Raises:
            Refusal: the keys are not public, so that groups without rows could not be listed.
        """
        if not final.keys:
            return ()
        if not final.public_keys:
            raise Refusal(
                "join",
                "This join keeps public rows without a match, and their groups are not listed publicly; group by a "
                "column of the public table with fewer values, or write JOIN instead of the outer join.",
            )
        width = len(self.relation.fields)
        inside = range(self.first, self.first + width)
        mine = [part for part in self.conditions if all(each.slot in inside for each in references(part))]
        keys = [key.expression for key in final.keys]
        readable = all(each.slot in inside for key in keys for each in references(key))
        if not readable:
            return ()
        listed = self.relation
        for part in mine:
            listed = ownership.keep(listed, self._own(part, listed))
        listed = ownership.group(listed, [(key.name, self._own(key.expression, listed)) for key in final.keys], [])
        after = len(final.types)
        pairs = [
            _same(Reference(key.type, key.domain, place, ""), shift(reference(listed, place), after))
            for place, key in enumerate(keys)
        ]
        return (Match(listed, JoinKind.INNER, all_of(pairs)),)

    def _own(self, expression: Expression, relation: RelationNode) -> Expression:
        return rewrite(
            expression,
            lambda part: reference(relation, part.slot - self.first) if isinstance(part, Reference) else None,
        )


def _same(one: Expression, other: Expression) -> Expression:
    equal = call("eq", one, other)
    if not (one.nullable and other.nullable):
        return equal
    return call("or", equal, call("and", call("is_null", one), call("is_null", other)))


def kept_public_rows(relation: RelationNode) -> KeptPublicRows | None:
    """Return the public relation whose rows the joins of one FROM keep, if there is one."""
    match relation:
        case FilterRows():
            below = kept_public_rows(relation.source)
            if below is None:
                return None
            conditions = (*below.conditions, *conjuncts(relation.condition))
            return KeptPublicRows(below.relation, below.first, below.owned, conditions)
        case ExistsColumn():
            return kept_public_rows(relation.source)
        case Join():
            return _kept_by_join(relation)
        case _:
            return None


def _kept_by_join(join: Join) -> KeptPublicRows | None:
    width = len(join.left.fields)
    left, right = frozenset(range(width)), frozenset(range(width, len(join.fields)))
    if join.keeps is JoinKind.LEFT:
        return KeptPublicRows(join.left, 0, right)
    if join.keeps is JoinKind.RIGHT:
        return KeptPublicRows(join.right, width, left)
    below = kept_public_rows(join.left)
    if below is None:
        if kept_public_rows(join.right) is not None:
            raise _mixed()
        return None
    if join.kind not in (JoinKind.INNER, JoinKind.LEFT):
        raise _mixed()
    more = frozenset() if join.right.is_public else right
    return KeptPublicRows(below.relation, below.first, below.owned | more, below.conditions)


def refuse_kept_rows(relation: RelationNode) -> None:
    """Refuse public rows without a match where every row must belong to a person."""
    if kept_public_rows(relation) is not None:
        raise Refusal(
            "join",
            "This join keeps public rows that belong to no person; aggregate in the same SELECT, grouped by columns of "
            "the public table, or put the protected table on the left.",
        )


def _mixed() -> Refusal:
    return Refusal(
        "join",
        "An outer join that keeps public rows cannot be followed by a RIGHT or FULL join; put the public table on the "
        "left of LEFT JOIN, first in FROM.",
    )
