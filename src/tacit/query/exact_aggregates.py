"""Exact aggregates: types and ranges inside the rows of one unit, and values over released cells."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from tacit.query.relational.expressions import Expression
from tacit.query.relational.functions.registry import fits_decimal
from tacit.query.types import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    UNKNOWN,
    Kind,
    Range,
    SqlType,
)

_ZERO: Final = Fraction(0)
#: Type and range of an aggregate of an expression over at most so many rows of one unit.
UnitResult = Callable[[Any, int | None], tuple[SqlType, Range]]


def number_of_rows(argument: Expression | None, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Count of rows."""
    return INTEGER, Range(_ZERO, None if rows is None else Fraction(rows))


def number_of_values(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:
    """Count of distinct values."""
    known = [
        number for number in (rows, None if argument.values is None else len(argument.values)) if number is not None
    ]
    return INTEGER, Range(_ZERO, Fraction(min(known)) if known else None)


def total(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:
    """Sum of values."""
    kind, total = argument.type, argument.range * Range(Fraction(1), None if rows is None else Fraction(rows))
    exact = kind.kind is not Kind.DECIMAL or fits_decimal(total, kind.scale)
    return kind if exact else DOUBLE, total


def one_of_the_values(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Smallest or largest value."""
    return argument.type, argument.range


def between_the_values(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Mean or quantile."""
    return DOUBLE, argument.range


def true_or_false(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Condition of all or of some rows."""
    return BOOLEAN, UNKNOWN


def width(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:  # noqa: ARG001
    """Standard deviation."""
    ends = argument.range.ends
    return DOUBLE, UNKNOWN if ends is None else Range(_ZERO, ends[1] - ends[0])


def squared_width(argument: Expression, rows: int | None) -> tuple[SqlType, Range]:
    """Variance."""
    widest = width(argument, rows)[1].high
    # The sample variance is largest for two values at the ends: width²/2.
    return DOUBLE, UNKNOWN if widest is None else Range(_ZERO, widest**2 / 2)


#: Value of an aggregate of places of released cells, with its parameter.
Fold = Callable[[list[Fraction], Fraction | None], Fraction | None]


def sum_of(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    """Sum of places."""
    return sum(places, _ZERO)


def mean_of(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    """Mean of places."""
    return sum(places, _ZERO) / len(places)


def least(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    """Smallest place."""
    return min(places)


def greatest(places: list[Fraction], _: Fraction | None = None) -> Fraction:
    """Largest place."""
    return max(places)


def quantile_of(places: list[Fraction], fraction: Fraction | None) -> Fraction:
    """Quantile of places, between the two nearest ones; the median where no fraction is stated."""
    order = sorted(places)
    place = (len(order) - 1) * (fraction if fraction is not None else Fraction(1, 2))
    below = math.floor(place)
    above = min(below + 1, len(order) - 1)
    return order[below] + (place - below) * (order[above] - order[below])
