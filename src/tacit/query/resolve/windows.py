"""Windows: OVER, named windows and their frames, from syntax to a call over the rows of one partition."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from tacit.query.aggregates import unit_call
from tacit.query.planning.work import rows_inside
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode
from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions.signatures import constant_int
from tacit.query.relational.window_calls import FrameEnd, MonthsAway, SortKey, WindowCall, WindowFrame
from tacit.query.resolve.aggregation import read_aggregate, sort_key_of
from tacit.query.resolve.scalars import Scalars, function_name, is_aggregate, is_pick
from tacit.query.resolve.time_functions import interval_of
from tacit.query.types import DATE, INTEGER, TIMESTAMP, Domain, Range

Around = tuple[FrameEnd, FrameEnd]
_NUMBERED = ("row_number", "rank", "dense_rank")
_SHIFTED = ("lag", "lead")
#: Windows that read the value of one row of the frame, by their names; FIRST and LAST as DuckDB calls them.
_PLACED = {
    **{name: name for name in ("first_value", "last_value", "nth_value")},
    "first": "first_value",
    "last": "last_value",
}


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
    frame, around = _window_frame(over.args.get("spec"), terms)
    called = node.this
    name = function_name(called) if isinstance(called, exp.Anonymous) else ""
    if name in _NUMBERED or name in _SHIFTED:
        return _ranking(name, called, scalars, partition, terms, source)
    if name in _PLACED:
        if around is not None:
            raise Refusal("window", f"{name.upper()} takes frames from UNBOUNDED PRECEDING on; use LAG or LEAD.")
        return _placed(_PLACED[name], called, scalars, partition, terms, frame)
    if not is_aggregate(called) or is_pick(called):
        raise Refusal("window", f"{name.upper() or 'This function'} is not supported as a window.")
    made, domain = unit_call(read_aggregate(called, scalars), rows_inside(source))
    if made.where is not None or made.parameter is not None or made.function == "count_distinct":
        raise Refusal("window", "Windows take plain aggregates without FILTER, DISTINCT and quantiles.")
    return WindowCall(made.function, made.argument, None, partition, terms, frame, made.type, around), domain


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


def _placed(
    name: str,
    called: exp.Anonymous,
    scalars: Scalars,
    partition: tuple[Expression, ...],
    order: tuple[SortKey, ...],
    frame: WindowFrame,
) -> tuple[WindowCall, Domain]:
    """FIRST_VALUE, LAST_VALUE and NTH_VALUE: one row of the frame, whose order is completed by all columns."""
    args, shown = called.expressions, name.upper()
    if len(args) != (2 if name == "nth_value" else 1):
        raise Refusal("arguments", f"{shown} takes {'a value and a place' if name == 'nth_value' else 'one value'}.")
    if not order:
        raise Refusal("window", f"{shown} needs ORDER BY in its window.")
    value = scalars(args[0])
    place = constant_int(name, scalars(args[1]), 1, 1000, "the place") if name == "nth_value" else None
    if name == "first_value":
        # All frames begin with the first row of the partition.
        frame = WindowFrame.PARTITION
    elif name == "last_value" and frame is WindowFrame.PEERS:
        # The last of the rows that sort alike: these are a partition of their own.
        partition, order, frame = (*partition, *(key.expression for key in order)), (), WindowFrame.PARTITION
    nullable = value.nullable or name == "nth_value"
    # A place beyond the last row is NULL, which is a group like any that is computed.
    keyed = value.domain.null_is_key or name == "nth_value"
    domain = Domain(value.range, nullable, value.values, value.step, value.domain.growth, keyed)
    return WindowCall(name, value, place, partition, order, frame, value.type), domain


def _window_frame(spec: exp.Expr | None, terms: tuple[SortKey, ...]) -> tuple[WindowFrame, Around | None]:
    """The frame that a window writes, and where it begins and ends if that follows the current row."""
    if spec is None:
        return (WindowFrame.PEERS if terms else WindowFrame.PARTITION), None
    kind = str(spec.args.get("kind") or "").upper()
    if kind not in ("ROWS", "RANGE"):
        raise Refusal("window", "Frames are ROWS or RANGE BETWEEN … PRECEDING AND … FOLLOWING.")
    key = None if kind == "ROWS" else terms
    begin = _frame_end(spec.args.get("start"), spec.args.get("start_side"), key, first=True)
    end = _frame_end(spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), key, first=False)
    if begin is None and end is None:
        return WindowFrame.PARTITION, None
    if begin is None and end == 0:
        return (WindowFrame.RUNNING if kind == "ROWS" else WindowFrame.PEERS), None
    if not terms:
        raise Refusal("window", "A frame around the current row needs ORDER BY in the window.")
    if _begins_after(begin, end):
        raise Refusal("window", "A frame ends before it begins; exchange its ends.")
    return (WindowFrame.ROWS_AROUND if kind == "ROWS" else WindowFrame.VALUES_AROUND), (begin, end)


def _begins_after(begin: FrameEnd, end: FrameEnd) -> bool:
    """Whether a frame ends before it begins, wherever the current row is."""
    if begin is None or end is None:
        return False
    if isinstance(begin, Fraction) and isinstance(end, Fraction):
        return begin > end
    first, last = (each.count if isinstance(each, MonthsAway) else each for each in (begin, end))
    # A month and some days may come in either order; only those on two sides of the current row are told apart.
    mixed = isinstance(begin, Fraction) != isinstance(end, Fraction)
    return first > 0 > last or (first > last and (not mixed or 0 in (first, last)))


def _frame_end(
    node: exp.Expr | str | None, side: object, order: tuple[SortKey, ...] | None, *, first: bool
) -> FrameEnd:
    """One end of a frame, counted from the current row on; None for no end."""
    sign = {"PRECEDING": -1, "FOLLOWING": 1}.get(str(side or "").upper(), 0)
    word = node.upper() if isinstance(node, str) else ""
    if word == "CURRENT ROW":
        return Fraction(0)
    if word == "UNBOUNDED" and sign == (-1 if first else 1):
        return None
    if isinstance(node, exp.Literal) and not node.is_string and sign:
        size = _constant_number(node.name)
        numeric = order is None or (len(order) == 1 and order[0].expression.type.is_numeric)
        if size is not None and numeric and (order is not None or size.denominator == 1):
            return sign * size
    if isinstance(node, exp.Interval) and sign and order is not None and len(order) == 1:
        span, kind = interval_of(node), order[0].expression.type
        if span.months:
            if kind.is_temporal and not span.days and not span.seconds:
                return MonthsAway(sign * span.months)
        elif kind == TIMESTAMP:
            return sign * Fraction(span.fixed) * 10**6
        elif kind == DATE and span.fixed % 86_400 == 0:
            return sign * Fraction(span.fixed, 86_400)
    raise Refusal(
        "window",
        "A frame is ROWS BETWEEN n PRECEDING AND m FOLLOWING, n and m whole numbers, CURRENT ROW or UNBOUNDED, or "
        "RANGE with numbers for a numeric key and intervals for one date: of days or less, or of months and years.",
    )


def _constant_number(text: str) -> Fraction | None:
    plain = text.isascii() and len(text) <= 12 and re.fullmatch(r"[0-9]+(\.[0-9]+)?", text)
    return Fraction(text) if plain else None
