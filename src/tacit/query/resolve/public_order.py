"""Order and limits of rows: ORDER BY, LIMIT and OFFSET of public rows become a place that each row has.

Released rows are sorted and cut when they are shown. Public rows are numbered by a window, in the order that is asked
for and then by all of their columns, so that which rows a LIMIT keeps follows from the rows alone, on every engine; a
filter on the number cuts them wherever the query stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tacit.query.query import Slice
from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import RelationNode, reference
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call
from tacit.query.relational.functions.signatures import constant_int
from tacit.query.relational.window_calls import SortKey, WindowCall, WindowFrame
from tacit.query.resolve.aggregation import sort_key_of
from tacit.query.resolve.scalars import Scalars, Scope
from tacit.query.types import INTEGER, Domain, Range

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
        numbers[name] = constant_int(name, value, 0, 10**9, "it")
    return [Slice(numbers.get("limit"), numbers.get("offset", 0))] if numbers else []


def column_keys(node: exp.Query, scope: Scope) -> list[SortKey]:
    """ORDER BY of a query around columns: by their names, expressions of them, or their positions."""
    order, columns = node.args.get("order"), scope.star(None)
    keys: list[SortKey] = []
    for term in order.expressions if order is not None else []:
        if isinstance(term.this, exp.Literal) and not term.this.is_string:
            place = constant_int("order by", Scalars(scope, "ORDER BY")(term.this), 1, len(columns), "the position")
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
