"""Lists in FROM: VALUES, and GENERATE_SERIES and RANGE, which are written out while planning."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tacit.query.refusal import Refusal
from tacit.query.relational import ownership
from tacit.query.relational.algebra import Field, RelationNode
from tacit.query.relational.expressions import Literal, literal
from tacit.query.relational.functions import cast
from tacit.query.relational.functions.signatures import coerce_all
from tacit.query.resolve.scalars import Scalars, Scope
from tacit.query.resolve.time_functions import interval_of, moved
from tacit.query.types import DATE, INTEGER, NULL, TIMESTAMP, SqlType, Value, union

#: Functions that list values; the second leaves out its end.
SERIES: Final = ("generate_series", "range")
#: The most values of a list.
MOST: Final = 10_000


def series_relation(name: str, args: list[exp.Expr]) -> RelationNode:
    """The list of GENERATE_SERIES or RANGE as a public relation of one column."""
    values = _series(name, args)
    kind = values[0].type
    field = Field(name, kind, union((value.domain for value in values), kind))
    return ownership.constants([(value,) for value in values], (field,))


def _series(name: str, args: list[exp.Expr]) -> list[Literal]:
    """The values of GENERATE_SERIES(first, last, step) or RANGE(first, end, step).

    Raises:
        Refusal: the ends are not constants, the step does not lead from one to the other, or the list is too long.
    """
    scalars = Scalars(Scope(), "FROM")
    if name == "range" and len(args) == 1:
        args = [exp.Literal.number(0), *args]
    if len(args) not in (2, 3):
        raise Refusal("arguments", f"{name.upper()} takes a first and a last value, and a step.")
    ends = [scalars(arg) for arg in args[:2]]
    first, last = ends
    if not isinstance(first, Literal) or not isinstance(last, Literal) or first.value is None or last.value is None:
        raise Refusal("arguments", f"{name.upper()}: the ends are constants, written out.")
    if first.type.is_temporal and last.type.is_temporal:
        if len(args) < 3 or not isinstance(args[2], exp.Interval):
            raise Refusal("arguments", f"{name.upper()} of dates takes an interval as its step: INTERVAL '1' DAY.")
        return _times(name, first, last, args[2])
    step = scalars(args[2]) if len(args) > 2 else literal(1, INTEGER)
    whole = [part.value for part in (first, last, step) if isinstance(part, Literal) and part.type == INTEGER]
    if len(whole) != 3 or not all(isinstance(part, int) for part in whole) or whole[2] == 0:
        raise Refusal("arguments", f"{name.upper()} takes whole numbers, or dates and an interval.")
    low, high, by = (int(part) for part in whole if isinstance(part, int))
    numbers = range(low, high + (0 if name == "range" else 1 if by > 0 else -1), by)
    return _listed(name, [literal(number, INTEGER) for number in numbers[: MOST + 1]])


def _times(name: str, first: Literal, last: Literal, step: exp.Interval) -> list[Literal]:
    span = interval_of(step)
    kind = DATE if (first.type, last.type) == (DATE, DATE) and not span.seconds else TIMESTAMP
    end, found = _value(last, kind), list[Literal]()
    here = literal(_value(first, kind), kind)
    origin, count = here, 0
    forward = max(span) > 0
    if not any(span) or (forward and min(span) < 0):
        raise Refusal("arguments", f"{name.upper()} needs a step that goes in one direction.")
    while here.value is not None and len(found) <= MOST:
        beyond = here.value > end if forward else here.value < end  # type: ignore[operator]
        if beyond or (name == "range" and here.value == end):
            break
        found.append(here)
        count += 1
        # Counted from the first value, so that the end of a month does not creep forward.
        after = moved(origin, type(span)(*(part * count for part in span)), 1)
        here = after if isinstance(after, Literal) else literal(None, kind)
    return _listed(name, found)


def _value(node: Literal, kind: SqlType) -> Value:
    read = cast(node, kind)
    if not isinstance(read, Literal) or read.value is None:
        raise Refusal("literal", "A date of the series cannot be read.")
    return read.value


def _listed(name: str, values: list[Literal]) -> list[Literal]:
    if not values:
        raise Refusal("arguments", f"{name.upper()} lists nothing; check its ends and its step.")
    if len(values) > MOST:
        raise Refusal("too_large", f"{name.upper()} lists at most {MOST} values; use a larger step.")
    return values


def values_relation(node: exp.Values) -> RelationNode:
    """A VALUES list as a public relation."""
    scalars = Scalars(Scope(), "VALUES")
    rows = [[scalars(cell) for cell in getattr(row, "expressions", [])] for row in node.expressions]
    width = len(rows[0]) if rows else 0
    if not width or any(len(row) != width for row in rows):
        raise Refusal("syntax", "Every row of VALUES needs the same number of constants.")
    if not all(isinstance(cell, Literal) for row in rows for cell in row):
        raise Refusal("unsupported", "VALUES takes constants only.")
    columns: list[list[Literal]] = []
    fields: list[Field] = []
    for index in range(width):
        cells, kind = coerce_all([row[index] for row in rows], "A column of VALUES")
        if kind == NULL:
            cells, kind = coerce_all([*cells, Literal(INTEGER, cells[0].domain, None)], "VALUES")[0][:-1], INTEGER
        columns.append([cell for cell in cells if isinstance(cell, Literal)])
        fields.append(Field(f"col{index}", kind, union((cell.domain for cell in cells), kind)))
    return ownership.constants(list(zip(*columns, strict=True)), tuple(fields))
