"""Arithmetic of times in SQL text: dates plus and minus days and intervals, differences, parts, AT TIME ZONE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, literal
from tacit.query.relational.functions import call
from tacit.query.resolve.time_functions import interval_of, moved, moved_by, part_of, part_of_age, part_of_difference
from tacit.query.resolve.time_zones import between_clocks, is_utc
from tacit.query.types import DATE, INTEGER, TEXT, TIMESTAMP

#: The typed expression for a node; :class:`~tacit.query.resolve.scalars.Scalars`.
Resolve = Callable[[exp.Expr], Expression]
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def times_added(left: Expression, right: Expression, sign: int) -> Expression | None:
    """A sum (``sign`` 1) or difference (-1) with a date or a time; None where it is one of numbers."""
    if left.type.is_temporal and right.type.is_temporal and sign == -1:
        if left.type == DATE and right.type == DATE:
            return call("date_diff", literal("day", TEXT), right, left)
        return call("seconds_between", left, right)
    if left.type == DATE and right.type == INTEGER:
        return call("add_days", left, right if sign == 1 else call("neg", right))
    if right.type == DATE and left.type == INTEGER and sign == 1:
        return call("add_days", right, left)
    return None


def shifted(value: exp.Expr, by: exp.Interval, sign: int, resolve: Resolve) -> Expression:
    """A time moved by an interval."""
    if isinstance(by.this, exp.Literal):
        return moved(resolve(value), interval_of(by), sign)
    if by.args.get("unit") is None:
        raise Refusal("literal", "Write an interval as INTERVAL 'n' unit, or INTERVAL (x) unit.")
    return moved_by(resolve(value), by.args["unit"].name, resolve(by.this), sign)


def beside_interval(node: exp.Expr, function: str, resolve: Resolve) -> Expression:
    """A difference of timestamps compared with an interval: both in seconds."""
    sides: list[Expression] = []
    for side in (node.this, node.expression):
        if isinstance(side, exp.Interval):
            sides.append(literal(interval_of(side).fixed, INTEGER))
            continue
        times = _difference(side, resolve)
        if times is None or function not in _COMPARISONS:
            raise Refusal(
                "type", "An interval can be added to a date, or compared with the difference of two timestamps."
            )
        sides.append(call("seconds_between", *times))
    return call(function, *sides)


def _difference(node: exp.Expr, resolve: Resolve) -> tuple[Expression, Expression] | None:
    """Both sides of a difference of times of which one is a TIMESTAMP; None for anything else."""
    node = _opened(node)
    if not isinstance(node, exp.Sub) or isinstance(node.expression, exp.Interval):
        return None
    left, right = resolve(node.this), resolve(node.expression)
    temporal = left.type.is_temporal and right.type.is_temporal
    return (left, right) if temporal and TIMESTAMP in (left.type, right.type) else None


def part_at(part: str, node: exp.Expr, resolve: Resolve) -> Expression:
    """A part of a time, of a difference of times or of an age."""
    inner = _opened(node)
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "age" and len(inner.expressions) == 2:
        return part_of_age(part, *(resolve(side) for side in inner.expressions))
    times = _difference(inner, resolve)
    return part_of(part, resolve(node)) if times is None else part_of_difference(part, *times)


def at_zone(node: exp.AtTimeZone, resolve: Resolve) -> Expression:
    """A pair of zones leads from the clock of the first to that of the second."""
    zones: list[str] = []
    here: exp.Expr = node
    while isinstance(here, (exp.AtTimeZone, exp.Paren)):
        if isinstance(here, exp.AtTimeZone):
            zone = here.args["zone"]
            zones.insert(0, zone.name if isinstance(zone, exp.Literal) and zone.is_string else "")
        here = here.this
    # A single zone makes an instant of a time; only UTC shows it unchanged.
    instant = zones.pop() if len(zones) % 2 else "UTC"
    if not all(zones) or not is_utc(instant):
        raise Refusal(
            "unsupported",
            "A TIMESTAMP here has no zone; say in which it is, such as UTC, and then whose clock is wanted, both "
            "written out: x AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'.",
        )
    return between_clocks(resolve(here), zones)


def _opened(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node
