"""Window functions: over one person's rows, over public rows, or over released cells."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from tacit.query.domains import Domain, Range
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, SortKey, WindowCall, WindowFrame
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions.signatures import constant_int
from tacit.query.resolve.aggregates import read_aggregate, rows_inside, unit_call
from tacit.query.resolve.scalars import Scalars, function_name, is_aggregate
from tacit.query.types import INTEGER

__all__ = ["named_windows", "read_window", "sort_key_of"]

_NUMBERED = ("row_number", "rank", "dense_rank")
_SHIFTED = ("lag", "lead")
Resolve = Callable[[exp.Expr], Expression]


def named_windows(select: exp.Select) -> dict[str, exp.Window]:
    """The windows of a WINDOW clause by lower-case name."""
    found: dict[str, exp.Window] = {}
    for node in select.args.get("windows") or []:
        name = node.name.lower()
        if name in found:
            raise Refusal("duplicate_name", f"The window {name!r} is defined twice.")
        if node.args.get("alias") is not None:
            raise Refusal("window", "A named window cannot build on another one.")
        found[name] = node
    return found


def read_window(
    node: exp.Window, scalars: Scalars, named: dict[str, exp.Window], source: RelationNode
) -> tuple[WindowCall, Domain]:
    """The window that a node calls; ``source`` says how many rows a unit presumably has."""
    over = _definition(node, named)
    partition = tuple(scalars(part) for part in over.args.get("partition_by") or [])
    order = over.args.get("order")
    terms = tuple(sort_key_of(term, scalars(term.this)) for term in (order.expressions if order is not None else []))
    frame = _frame(over.args.get("spec"), bool(terms))
    called = node.this
    name = function_name(called) if isinstance(called, exp.Anonymous) else ""
    if name in _NUMBERED or name in _SHIFTED:
        return _ranking(name, called, scalars, partition, terms, source)
    if not is_aggregate(called):
        raise Refusal("window", f"{name.upper() or 'This function'} is not supported as a window.")
    call, domain = unit_call(read_aggregate(called, scalars), source)
    if call.where is not None or call.parameter is not None or call.function == "count_distinct":
        raise Refusal("window", "Windows take plain aggregates without FILTER, DISTINCT and quantiles.")
    return WindowCall(call.function, call.argument, None, partition, terms, frame, call.type), domain


def _definition(node: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
    name = node.args.get("alias")
    if name is None:
        return node
    if node.args.get("partition_by") or node.args.get("order") or node.args.get("spec"):
        raise Refusal("window", "A named window cannot be changed where it is used.")
    known = named.get(name.name.lower())
    if known is None:
        raise Refusal("window", f"There is no window {name.name[:63]!r}.")
    return known


def _ranking(
    name: str,
    called: exp.Anonymous,
    scalars: Scalars,
    partition: tuple[Expression, ...],
    order: tuple[SortKey, ...],
    source: RelationNode,
) -> tuple[WindowCall, Domain]:
    args = called.expressions
    if name in _NUMBERED:
        if args:
            raise Refusal("arguments", f"{name.upper()} takes no arguments.")
        most = rows_inside(source)
        domain = Domain(Range(Fraction(1), None if most is None else Fraction(most)), False, None, Fraction(1))
        return WindowCall(name, None, None, partition, order, WindowFrame.PARTITION, INTEGER), domain
    if not order:
        raise Refusal("window", f"{name.upper()} needs ORDER BY in its window.")
    if not 1 <= len(args) <= 2:
        raise Refusal("arguments", f"{name.upper()} takes a value and an offset.")
    value = scalars(args[0])
    offset = constant_int(name, scalars(args[1]), 0, 1000, "the offset") if len(args) == 2 else 1
    domain = Domain(value.range, True, value.values, value.step, value.domain.growth)
    return WindowCall(name, value, offset, partition, order, WindowFrame.PARTITION, value.type), domain


def _frame(spec: exp.Expr | None, ordered: bool) -> WindowFrame:
    if spec is None:
        return WindowFrame.PEERS if ordered else WindowFrame.PARTITION
    kind = str(spec.args.get("kind") or "").upper()
    start = (str(spec.args.get("start") or "").upper(), str(spec.args.get("start_side") or "").upper())
    end = (str(spec.args.get("end") or "CURRENT ROW").upper(), str(spec.args.get("end_side") or "").upper())
    if start == ("UNBOUNDED", "PRECEDING") and kind in ("ROWS", "RANGE"):
        if end == ("UNBOUNDED", "FOLLOWING"):
            return WindowFrame.PARTITION
        if end[0] == "CURRENT ROW":
            return WindowFrame.RUNNING if kind == "ROWS" else WindowFrame.PEERS
    raise Refusal("window", "Frames are ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW, or AND UNBOUNDED FOLLOWING.")


def sort_key_of(term: exp.Expr, expression: Expression) -> SortKey:
    """One term of ORDER BY, with SQL's placing of NULLs made explicit."""
    return SortKey(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))
