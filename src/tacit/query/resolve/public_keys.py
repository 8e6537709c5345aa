"""Public keys: the finite sets of values that key expressions can have, as far as declarations say.

They follow from declared categories, booleans, whole numbers and dates within bounds, DATE_TRUNC over bounded times,
and every function of these. The whole expression is enumerated over its columns where they are few; otherwise part by
part, which may list keys that no row can have but never misses one. NULL is a key only where it is declared as a
category, computed from declared values (CASE without ELSE, a division by zero), left by an outer join in rows without a
match, or listed by a condition (``ward IS NULL``).
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from tacit.query.relational.expressions import (
    Call,
    Case,
    Cast,
    Expression,
    InList,
    Literal,
    Reference,
    references,
    size,
)
from tacit.query.relational.functions import call, evaluate
from tacit.query.relational.functions.casts import cast_value
from tacit.query.relational.functions.dates import next_truncated
from tacit.query.relational.functions.registry import REGISTRY
from tacit.query.relational.functions.time_formats import format_parts, possible_texts
from tacit.query.types import BOOLEAN, MAX_VALUES, Kind, SqlType, Value, as_value, from_ordinal, sort_key

if TYPE_CHECKING:
    from tacit.query.resolve.aggregation import EnumerationBudget

#: Combinations of values that one expression is tried on.
ENUMERATED = 20_000
#: Up to this many, the whole expression is tried on every combination, which finds exactly the keys there are.
FEW = 400
Values = tuple[Value | None, ...]


def public_values(expression: Expression, work: EnumerationBudget) -> Values | None:
    """Every key the expression can have, sorted, NULL last; None when the set is not public or too large."""
    wide = math.prod(_width(column) for column in references(expression)) > FEW
    # Trying every day of a century is slower than stepping from month to month.
    found = _by_parts(expression, work) if wide else None
    if found is None:
        found = _by_columns(expression, work)
    if found is None and not wide:
        found = _by_parts(expression, work)
    if found is None or len(found) - (None in found) > MAX_VALUES:
        return None
    return tuple(sorted(set(found), key=lambda value: sort_key(value, expression.type)))


def _width(column: Reference) -> Fraction | int:
    """Number of values of a column, as far as that is cheap to say."""
    ends = column.range.ends
    return len(column.values) if column.values is not None else 1 if ends is None else ends[1] - ends[0] + 1


def _by_columns(expression: Expression, work: EnumerationBudget) -> Values | None:
    columns = references(expression)
    sets = [_leaf(column, work) for column in columns]
    if any(values is None for values in sets):
        return None
    declared = [values for values in sets if values is not None]
    slots = max((column.slot for column in columns), default=-1) + 1

    def compute(row: tuple[Value | None, ...]) -> Value | None:
        if isinstance(expression, Reference):
            return row[0]
        cells: list[Value | None] = [None] * slots
        for column, value in zip(columns, row, strict=True):
            cells[column.slot] = value
        return evaluate(expression, cells)

    return _image(compute, declared, [column.nullable for column in columns], work, size(expression))


def _leaf(column: Reference, work: EnumerationBudget) -> Values | None:
    """The values of one column: declared, or all within narrow bounds on a grid."""
    if column.values is not None:
        return column.values
    if column.type == BOOLEAN:
        return (False, True)
    step, ends = column.type.step, column.range.ends
    if step is None or ends is None or column.type.kind is Kind.TIMESTAMP or (ends[1] - ends[0]) / step >= ENUMERATED:
        return None
    first, last = math.ceil(ends[0] / step), math.floor(ends[1] / step)
    found = _on_grid(first, last, step, column.type, work)
    return found if found is None or not column.domain.null_is_key else (*found, None)


def _on_grid(first: int, last: int, step: Fraction, kind: SqlType, work: EnumerationBudget) -> Values | None:
    if not work.allows(last - first + 1):
        return None
    return tuple(value for i in range(first, last + 1) if (value := from_ordinal(i * step, kind)) is not None)


def _image(
    compute: Callable[[Values], Value | None],
    sets: list[Values],
    nullable: list[bool],
    work: EnumerationBudget,
    cost: int = 1,
) -> Values | None:
    """Results over declared inputs, and the results other than NULL that undeclared NULLs add."""
    added = [null and None not in values for values, null in zip(sets, nullable, strict=True)]
    wider = [values + ((None,) if null else ()) for values, null in zip(sets, added, strict=True)]
    combinations = math.prod(len(values) for values in wider)
    if combinations > ENUMERATED or not work.allows(2 * combinations * cost):
        return None
    results = {compute(row) for row in itertools.product(*sets)}
    for place in (place for place, null in enumerate(added) if null):
        # Rows with an undeclared NULL here, and none before it.
        rows = itertools.product(*sets[:place], (None,), *wider[place + 1 :])
        results |= {result for row in rows if (result := compute(row)) is not None}
    return tuple(results)


def _by_parts(expression: Expression, work: EnumerationBudget) -> Values | None:
    found = _of_parts(expression, work)
    return found if found is None or not expression.domain.null_is_key else (*found, None)


def _of_parts(expression: Expression, work: EnumerationBudget) -> Values | None:
    match expression:
        case Literal():
            return (expression.value,)
        case Reference():
            return _leaf(expression, work)
        case Case():
            parts = [
                public_values(part, work) for part in (*(then for _, then in expression.branches), expression.otherwise)
            ]
            if any(part is None for part in parts):
                return None
            return tuple({value for part in parts for value in part or ()})
        case InList():
            return (False, True)
        case Cast():
            source = expression.operand
            found = _mapped(lambda row: cast_value(row[0], source.type, expression.type), (source,), work)
            return _narrow(expression, work) if found is None else found
        case Call():
            return _call(expression, work)
        case _:
            return None


def _call(expression: Call, work: EnumerationBudget) -> Values | None:
    if expression.type == BOOLEAN:
        return (False, True)
    if expression.function == "date_trunc":
        found = _truncations(expression, work)
        if found is not None:
            return found
    if expression.function == "time_bucket":
        found = _buckets(expression, work)
        if found is not None:
            return found
    if len(expression.args) == 1 and expression.args[0].type.is_temporal:
        # Parts of dates: their range is known without trying every day.
        narrow = _narrow(expression, work)
        if narrow is not None:
            return narrow
    function = REGISTRY[expression.function]

    def compute(row: Values) -> Value | None:
        return None if function.strict and None in row else as_value(function.evaluate(*row), expression.type)

    found = _mapped(compute, expression.args, work)
    if found is None and expression.function == "strftime":
        return _formats(expression, work)
    return _narrow(expression, work) if found is None else found


def _formats(expression: Call, work: EnumerationBudget) -> Values | None:
    """Texts of a format whose every piece has few values."""
    value, pattern = expression.args
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    ends = call("year", value).range.ends
    years = None if ends is None else (int(ends[0]), int(ends[1]))
    found = possible_texts(format_parts(pattern.value), years, MAX_VALUES)
    return None if found is None or not work.allows(len(found)) else tuple(found)


def _mapped(
    compute: Callable[[Values], Value | None], args: tuple[Expression, ...], work: EnumerationBudget
) -> Values | None:
    sets = [public_values(arg, work) for arg in args]
    if any(values is None for values in sets):
        return None
    return _image(compute, [values for values in sets if values is not None], [arg.nullable for arg in args], work)


def _narrow(expression: Expression, work: EnumerationBudget) -> Values | None:
    """Whole numbers (or days) within a narrow presumed range."""
    ends = expression.range.ends
    if expression.type.kind not in (Kind.INTEGER, Kind.DATE) or ends is None or ends[1] - ends[0] >= MAX_VALUES:
        return None
    return _on_grid(math.ceil(ends[0]), math.floor(ends[1]), Fraction(1), expression.type, work)


def _truncations(expression: Call, work: EnumerationBudget) -> Values | None:
    unit, ends = expression.args[0], expression.range.ends
    if not isinstance(unit, Literal) or not isinstance(unit.value, str) or ends is None:
        return None
    here, last = (from_ordinal(end, expression.type) for end in ends)
    if not isinstance(here, dt.date) or not isinstance(last, dt.date):
        return None
    found: list[Value | None] = []
    step: dt.date | None = here
    while step is not None and step <= last and len(found) <= MAX_VALUES:
        found.append(step)
        step = next_truncated(unit.value.lower(), step)
    return tuple(found) if work.allows(len(found)) else None


def _buckets(expression: Call, work: EnumerationBudget) -> Values | None:
    width, ends = expression.args[0].range.low, expression.range.ends
    if width is None or ends is None:
        return None
    count = int((ends[1] - ends[0]) / width) + 1
    if count > MAX_VALUES or not work.allows(count):
        return None
    return tuple(from_ordinal(ends[0] + i * width, expression.type) for i in range(count))
