"""Advice about ranges that are far wider than a question needs, and the CLAMP to write instead.

Noise is in proportion to the range over which a sum or an average is taken. The range of a plain column is declared by
the owner. The range of a computed value follows from those of its parts by interval arithmetic, which supposes that all
parts are at their worst ends at once: the difference of two dates within two years has a range of four years, and a
person's number of rows has one of ``unit_rows``. Such ranges are safe and seldom needed.

Advice is a function of the plan, so it says nothing about data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from tacit.query.aggregate_family import ExpectedError
from tacit.query.planning.measures import Measure, MeasureKind
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
from tacit.query.relational.expressions import Call, Case, Cast, Expression, Literal, Reference, references
from tacit.query.types import Range

if TYPE_CHECKING:
    from tacit.query.planning.plan import Plan

#: Functions of several columns whose range supposes the worst ends of all of them.
_COMBINING: Final = frozenset({"add", "sub", "mul", "div", "int_div", "date_diff", "power"})
#: Aggregates and windows inside a person whose range follows from the most rows that a person may have.
_COUNTING: Final = frozenset({"count_rows", "count", "count_distinct", "sum", "row_number", "rank", "dense_rank"})
_SIGNS: Final = {"add": " + ", "sub": " - ", "mul": " * ", "div": " / ", "int_div": " // "}
#: An error of at most this share of the range is no reason for advice.
_SMALL: Final = Fraction(1, 20)
_CLAMPED: Final = (MeasureKind.SUM, MeasureKind.CENTRED_SUM)


def range_advice(plan: Plan) -> tuple[str, ...]:
    """One sentence for each aggregate whose range follows from its parts and whose error may be large for it."""
    found: list[str] = []
    for aggregate, error in zip(plan.final.aggregates, plan.errors, strict=True):
        # Later ones are products and powers of the first.
        for index in aggregate.measures[:3]:
            measure = plan.final.measures[index]
            if measure.kind in _CLAMPED and not measure.auto and not _is_small(error, measure, plan.terms.suppose):
                found += _advice(aggregate.label, measure, plan.final.source)
    return tuple(dict.fromkeys(found))


def _is_small(error: ExpectedError, measure: Measure, suppose: int | None) -> bool:
    """Whether a supposed number of values makes the error small beside the largest value, or beside their sum."""
    if suppose is None or error.bound is None:
        return False
    largest = max(abs(measure.low), abs(measure.high)) * measure.step
    values = suppose if measure.kind is MeasureKind.SUM else 1
    return error.bound <= _SMALL * largest * values


def _advice(label: str, measure: Measure, source: RelationNode) -> Iterator[str]:
    value = measure.argument
    low, high = measure.low * measure.step, measure.high * measure.step
    if isinstance(value, Reference):
        reason = _reason_of_column(source, value.slot, Range(low, high))
    else:
        reason = None if value is None else _reason(source, value)
    if value is None or reason is None:
        return
    function, _, called = label.rstrip(")").partition("(")
    function, name = function.upper(), called if called.isidentifier() else _words(source, value)
    tenth = f"{_number(low / 10)}, {_number(high / 10)}"
    yield (
        f"{function}({name}) is taken over values from {_number(low)} to {_number(high)}, "
        f"{reason}. If values are closer together, write {function}(CLAMP({name}, lo, hi)), or CLAMP({name}, AUTO): a "
        f"tenth of the range, such as CLAMP({name}, {tenth}), has a tenth of the noise."
    )


def _reason(source: RelationNode, value: Expression) -> str | None:
    """Reason why the range of a value is presumably too wide; None where it is declared, or stated in the question."""
    match value:
        case Reference():
            return _reason_of_column(source, value.slot, value.range)
        case Call(function="clamp"):
            return None
        case Call():
            read = [arg for arg in value.args if references(arg)]
            if value.function in _COMBINING and len(read) > 1:
                words = dict.fromkeys(_words(source, arg) for arg in read)
                parts = "its parts" if "x" in words else " and ".join(words)
                return f"which follows from the bounds of {parts}, each at its worst end"
            return next((reason for arg in read if (reason := _reason(source, arg))), None)
        case Cast():
            return _reason(source, value.operand)
        case Case():
            results = (*(then for _, then in value.branches), value.otherwise)
            return next((reason for then in results if (reason := _reason(source, then))), None)
        case _:
            return None


def _reason_of_column(source: RelationNode, slot: int, known: Range) -> str | None:
    """As :func:`_reason`; where the ``known`` range is narrower than the column's, a condition states it."""
    match source:
        case FilterRows() | FirstRows() | ExistsColumn() if slot < len(source.source.fields):
            return _reason_of_column(source.source, slot, known)
        case ProjectColumns():
            return _reason(source.source, source.expressions[slot])
        case Join() if slot < len(source.left.fields) + len(source.right.fields):
            width = len(source.left.fields)
            side, place = (source.left, slot) if slot < width else (source.right, slot - width)
            return _reason_of_column(side, place, known)
        case UnionAll():
            return next((r for part in source.parts if (r := _reason_of_column(part, slot, known))), None)
        case UnitAggregate():
            if slot < len(source.keys):
                return _reason(source.source, source.keys[slot])
            call = source.calls[slot - len(source.keys)]
        case UnitWindow():
            if slot < len(source.source.fields):
                return _reason_of_column(source.source, slot, known)
            window = source.calls[slot - len(source.source.fields)]
            if window.function in _COUNTING:
                return _of_rows(source.fields[slot].domain.range, known)
            return None if window.argument is None else _reason(source.source, window.argument)
        case _:
            return None
    if call.function in _COUNTING:
        return _of_rows(source.fields[slot].domain.range, known)
    return None if call.argument is None else _reason(source.source, call.argument)


def _of_rows(own: Range, known: Range) -> str | None:
    if own.ends is None or known.ends is None:
        return None
    # Quantising may have moved the ends a little.
    as_wide = 100 * (known.ends[1] - known.ends[0]) >= 99 * (own.ends[1] - own.ends[0])
    return "which follows from the most rows that a person may have (unit_rows)" if as_wide else None


def _words(source: RelationNode, value: Expression) -> str:
    """An expression as an analyst might write it."""
    match value:
        case Reference():
            return source.fields[value.slot].name or "x"
        case Literal():
            return repr(value.value) if isinstance(value.value, str) else str(value.value)
        case Cast():
            return _words(source, value.operand)
        case Call() if value.function in _SIGNS and len(value.args) == 2:
            return _SIGNS[value.function].join(_words(source, arg) for arg in value.args)
        case Call():
            return f"{value.function}({', '.join(_words(source, arg) for arg in value.args)})"
        case _:
            return "x"


def _number(value: Fraction) -> str:
    """A bound as it may be typed: whole numbers where that is fine enough, else four digits."""
    if abs(value) >= 10 or value.denominator == 1:
        return str(math.floor(value + Fraction(1, 2)))
    return f"{float(value):.4g}"
