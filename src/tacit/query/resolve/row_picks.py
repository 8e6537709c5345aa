"""Aggregates that pick the value of one row of a group: ARG_MAX, ARG_MIN, FIRST, LAST and ANY_VALUE."""

from __future__ import annotations

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call, case
from tacit.query.relational.window_calls import SortKey
from tacit.query.resolve.scalars import Scalars, function_name
from tacit.query.resolve.sql_functions import PICKS

__all__ = ["read_pick", "sort_key_of"]


def sort_key_of(term: exp.Expr, expression: Expression) -> SortKey:
    """One term of ORDER BY, with SQL's placing of NULLs made explicit."""
    return SortKey(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


def read_pick(called: exp.Expr, scalars: Scalars, where: Expression | None) -> tuple[Expression, tuple[SortKey, ...]]:
    """The value that an aggregate takes of one row, and the order whose first row it is; no order for the least one."""
    if not isinstance(called, exp.Anonymous):
        raise AssertionError("only calls pick a row")
    name, args = function_name(called), called.expressions
    shown, how = name.upper(), PICKS[name]
    if how == "least":
        if len(args) != 1:
            raise Refusal("arguments", f"{shown} takes one value.")
        return scalars(args[0]), ()
    if name in ("first", "last"):
        if len(args) != 1 or not isinstance(args[0], exp.Order) or not args[0].expressions:
            raise Refusal("arguments", f"{shown} needs an order, as in {shown}(x ORDER BY y).")
        value = scalars(args[0].this)
        terms = tuple(sort_key_of(term, scalars(term.this)) for term in args[0].expressions)
        if where is not None:
            raise Refusal("aggregate", f"{shown} takes no FILTER; put the condition into WHERE.")
        order = (
            terms
            if how == "first"
            else tuple(SortKey(k.expression, not k.descending, not k.nulls_first) for k in terms)
        )
        return value, (*order, SortKey(value, False, False))
    if len(args) != 2 or any(isinstance(arg, exp.Order) for arg in args):
        raise Refusal(
            "arguments", f"{shown} takes a value and what it is {'largest' if how == 'last' else 'least'} by."
        )
    value, by = scalars(args[0]), scalars(args[1])
    conditions = [] if where is None else [where]
    counted = call("and", *conditions, call("not", call("is_null", by)), call("not", call("is_null", value)))
    rank = case([(counted, by)], literal(None, by.type))
    # Rows in which either is NULL, or that FILTER leaves out, come last and have no value.
    return (
        case([(counted, value)], literal(None, value.type)),
        (SortKey(rank, how == "last", False), SortKey(value, False, False)),
    )
