"""Order and limits of public rows, and public rows that an outer join keeps without a match.

Released rows are sorted and cut when they are shown. Public rows are numbered by a window, in the order that is asked
for and then by all of their columns, so that which rows a LIMIT keeps follows from the rows alone, on every engine; a
filter on the number cuts them wherever the query stands.

Public rows that an outer join keeps though no row of a person meets them.

``FROM wards w LEFT JOIN visits v ON …`` has a row for every ward without a visit. Such a row belongs to no person, so
it cannot enter the aggregation. It need not: aggregates pass over NULL, and all columns of ``visits`` are NULL in it.
The join below the aggregation is therefore an inner one, and the rows that are kept only say which groups there are:
public keys, all of which are returned in any case. What would count such a row is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tacit.query.aggregates.family import AggregateCall
from tacit.query.query import FinalAggregation, Match, Slice
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import (
    ExistsColumn,
    FilterRows,
    Join,
    JoinKind,
    RelationNode,
    SortKey,
    WindowCall,
    WindowFrame,
    reference,
)
from tacit.query.relational.expressions import (
    Call,
    Cast,
    Expression,
    InList,
    Literal,
    Reference,
    literal,
    references,
    rewrite,
    shift,
)
from tacit.query.relational.functions import REGISTRY, call, evaluate
from tacit.query.relational.functions.registry import constant_int
from tacit.query.relational.narrowing import conjuncts
from tacit.query.resolve.aggregation import sort_key_of
from tacit.query.resolve.scalars import Scalars, Scope
from tacit.query.types import INTEGER, Domain, Range

# -- order and limits of rows

_PLACE: Final = Domain(Range(Fraction(1), None), False, None, Fraction(1))


def is_cut(node: exp.Query, *, top: bool) -> bool:
    """Whether a query limits its rows; at the top, also whether it orders them, which means nothing below."""
    names = ("limit", "offset", "order") if top else ("limit", "offset")
    return any(node.args.get(name) is not None for name in names)


def slice_of(node: exp.Query) -> list[Slice]:
    """LIMIT and OFFSET of a query, if it has them."""
    numbers: dict[str, int] = {}
    for name in ("limit", "offset"):
        clause = node.args.get(name)
        if clause is None or (isinstance(clause.expression, exp.Var) and clause.expression.name.upper() == "ALL"):
            continue
        value = Scalars(Scope(), name.upper())(clause.expression)
        numbers[name] = constant_int(name.upper(), value, 0, 10**9, "it")
    return [Slice(numbers.get("limit"), numbers.get("offset", 0))] if numbers else []


def column_keys(node: exp.Query, scope: Scope) -> list[SortKey]:
    """ORDER BY of a query around columns: by their names, expressions of them, or their positions."""
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
    """Refusal of an order that rows which are alike do not share."""
    return Refusal("distinct", "With SELECT DISTINCT, ORDER BY takes columns of the SELECT list.")


def in_place(
    node: exp.Query,
    rows: RelationNode,
    keys: Sequence[SortKey],
    outputs: Sequence[tuple[str, Expression]],
    *,
    top: bool,
) -> RelationNode:
    """Columns of public rows in an order, and of those rows the ones that LIMIT and OFFSET keep.

    Args:
        node: the query.
        rows: public.
        keys: over the rows.
        outputs: over the rows.
        top: whether the order shows: then the place of each row is the first column, without a name.
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


# -- public rows that an outer join keeps though no row of a person meets them


@dataclass(frozen=True)
class KeptPublicRows:
    """A public relation all of whose rows a join keeps.

    Args:
        relation: the public side.
        first: the slot of its first column among those of the joins.
        owned: the slots that are NULL in a row that no person's row meets.
        conditions: those of WHERE above the joins.
    """

    relation: RelationNode
    first: int
    owned: frozenset[int]
    conditions: tuple[Expression, ...] = ()

    def check_keys(self, keys: Sequence[tuple[str, Expression]]) -> None:
        """Refuse a key that reads the optional side: groups of rows without a match have none."""
        for name, key in keys:
            if any(part.slot in self.owned for part in references(key)):
                raise Refusal(
                    "join",
                    f"This join keeps public rows without a match, which have no {name!r}: group by columns of the "
                    "public table alone, or write JOIN instead of the outer join.",
                )

    def check_call(self, asked: AggregateCall) -> None:
        """Refuse an aggregate that a row without a match would change."""
        if asked.where is not None and self._is_passed_over(asked.where):
            return
        if asked.argument is None:
            raise Refusal(
                "join",
                "COUNT(*) would count the public rows that this join keeps without a match; count a column of the "
                "protected table, as in COUNT(v.id), or write JOIN instead of the outer join.",
            )
        if not self._is_missing(asked.argument) and not self._adds_nothing(asked):
            raise Refusal(
                "join",
                f"{asked.function.upper()} would take in the public rows that this join keeps without a match; "
                "aggregate a column of the protected table, or write JOIN instead of the outer join.",
            )

    def _is_passed_over(self, condition: Expression) -> bool:
        """Whether a condition is not true in a row without a match."""
        found = self._without(condition)
        return self._is_missing(condition) or (not list(references(found)) and evaluate(found, ()) is not True)

    def _adds_nothing(self, asked: AggregateCall) -> bool:
        """Whether a value is NULL in a row without a match, or 0 in a sum."""
        found = self._without(asked.value)
        if list(references(found)):
            return False
        value = evaluate(found, ())
        return value is None or (asked.function == "sum" and value == 0)

    def _without(self, expression: Expression) -> Expression:
        """An expression in a row without a match."""
        return rewrite(
            expression,
            lambda part: literal(None, part.type) if isinstance(part, Reference) and part.slot in self.owned else None,
        )

    def _is_missing(self, expression: Expression) -> bool:
        """Whether an expression is NULL in a row without a match because NULL goes through it."""
        match expression:
            case Reference():
                return expression.slot in self.owned
            case Literal():
                return expression.value is None
            case Cast() | InList():
                return self._is_missing(expression.operand)
            case Call():
                return REGISTRY[expression.function].strict and any(map(self._is_missing, expression.args))
            case _:
                return False

    def listing(self, final: FinalAggregation) -> tuple[Match, ...]:
        """The step that keeps the groups which the public rows have; none where keys read several public tables.

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
        return (Match(listed, JoinKind.INNER, pairs[0] if len(pairs) == 1 else call("and", *pairs)),)

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
    """Public rows that the joins of one FROM keep, if there are any."""
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
    """Refuse public rows without a match where they would be rows of persons."""
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
