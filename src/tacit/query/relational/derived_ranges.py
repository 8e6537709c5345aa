"""Derived ranges: whether the range of a value follows from several columns, or from the most rows of a person.

The range of a plain column is declared by the owner. That of a computed value follows from the ranges of its parts by
interval arithmetic, which supposes all parts at their worst ends at once: the difference of two dates within two years
has a range of four years, and a person's number of rows has one of ``unit_rows``. Such ranges are safe and much wider
than the values, so an aggregate over one searches narrower bounds (:mod:`tacit.query.planning.auto_bounds`) unless the
query states some by CLAMP or by a condition.

The answer is a function of the query's text and of metadata.
"""

from __future__ import annotations

from typing import Final

from tacit.query.relational.algebra import (
    ExistsColumn,
    FilterRows,
    FirstRows,
    Join,
    ProjectColumns,
    RelationNode,
    UnionAll,
    UnitAggregate,
    UnitWindow,
)
from tacit.query.relational.expressions import Call, Case, Cast, Expression, Reference, references
from tacit.query.types import Range

#: Functions of several columns whose range supposes the worst ends of all of them.
_COMBINING: Final = frozenset({"add", "sub", "mul", "div", "int_div", "date_diff", "power"})
#: Aggregates and windows inside a person whose range follows from the most rows that a person may have.
_COUNTING: Final = frozenset({"count_rows", "count", "count_distinct", "sum", "row_number", "rank", "dense_rank"})


def is_derived(source: RelationNode, value: Expression) -> bool:
    """Whether the range of a value over ``source`` is derived, and neither declared nor stated in the query."""
    match value:
        case Reference():
            return _is_derived_column(source, value.slot, value.range)
        case Call(function="clamp"):
            return False
        case Call():
            read = [arg for arg in value.args if references(arg)]
            combines = value.function in _COMBINING and len({part for arg in read for part in references(arg)}) > 1
            return combines or any(is_derived(source, arg) for arg in read)
        case Cast():
            return is_derived(source, value.operand)
        case Case():
            return any(is_derived(source, then) for then in (*(then for _, then in value.branches), value.otherwise))
        case _:
            return False


def _is_derived_column(source: RelationNode, slot: int, known: Range) -> bool:
    """As :func:`is_derived`, of a column; where the ``known`` range is narrower than its own, a condition states it."""
    match source:
        case FilterRows() | FirstRows() | ExistsColumn() if slot < len(source.source.fields):
            return _is_derived_column(source.source, slot, known)
        case ProjectColumns():
            computed = source.expressions[slot]
            return _is_as_wide(known, computed.range) and is_derived(source.source, computed)
        case Join() if slot < len(source.left.fields) + len(source.right.fields):
            width = len(source.left.fields)
            side, place = (source.left, slot) if slot < width else (source.right, slot - width)
            return _is_derived_column(side, place, known)
        case UnionAll():
            return any(_is_derived_column(part, slot, known) for part in source.parts)
        case UnitAggregate():
            if slot < len(source.keys):
                return is_derived(source.source, source.keys[slot])
            call = source.calls[slot - len(source.keys)]
        case UnitWindow():
            if slot < len(source.source.fields):
                return _is_derived_column(source.source, slot, known)
            window = source.calls[slot - len(source.source.fields)]
            if window.function in _COUNTING:
                return _is_as_wide(known, source.fields[slot].domain.range)
            return window.argument is not None and is_derived(source.source, window.argument)
        case _:
            return False
    if call.function in _COUNTING:
        return _is_as_wide(known, source.fields[slot].domain.range)
    return call.argument is not None and is_derived(source.source, call.argument)


def _is_as_wide(known: Range, own: Range) -> bool:
    """Whether a range is that of the column itself; rounding may have moved the ends a little."""
    if own.ends is None or known.ends is None:
        return own.ends is None and known.ends is None
    return 100 * (known.ends[1] - known.ends[0]) >= 99 * (own.ends[1] - own.ends[0])
