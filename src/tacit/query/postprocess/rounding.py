"""Rounding of exact places to values of a type."""

from __future__ import annotations

import datetime as dt
import math
import sys
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from tacit.query.types import DECIMAL_DIGITS, INTEGER_RANGE, Kind, Range, SqlType, Value, from_ordinal, ordinal

__all__ = ["Direction", "type_range", "value_at", "value_of_ratio"]

Direction = Literal["nearest", "down", "up"]


@lru_cache(maxsize=64)
def type_range(kind: SqlType) -> Range:
    """Every place a type has; the last resort of an interval that has no other end."""
    match kind.kind:
        case Kind.BOOLEAN:
            return Range(Fraction(0), Fraction(1))
        case Kind.INTEGER:
            return Range(*map(Fraction, INTEGER_RANGE))
        case Kind.DECIMAL:
            most = Fraction(10**DECIMAL_DIGITS - 1, 10**kind.scale)
            return Range(-most, most)
        case Kind.DATE:
            return Range(ordinal(dt.date.min, kind), ordinal(dt.date.max, kind))
        case Kind.TIMESTAMP:
            return Range(ordinal(dt.datetime.min, kind), ordinal(dt.datetime.max, kind))
        case _:
            return Range(None, None)


def value_at(place: Fraction | None, kind: SqlType, direction: Direction = "nearest") -> Value | None:
    """The value of a type next to a place; a place beyond the type gives the type's last value.

    ``None`` is a place without end in the given direction.
    """
    if not kind.is_ordered:
        return None
    if place is not None:
        return value_of_ratio(place.numerator, place.denominator, kind, direction)
    if kind.kind is Kind.DOUBLE:
        return sys.float_info.max if direction == "up" else -sys.float_info.max
    low, high = _grid_ends(kind)
    return _on_grid(high if direction == "up" else low, kind)


def value_of_ratio(top: int, bottom: int, kind: SqlType, direction: Direction = "nearest") -> Value | None:
    """As :func:`value_at`, of the place ``top / bottom`` with ``bottom`` above 0; faster than with a Fraction."""
    if kind.kind is Kind.DOUBLE:
        return _double(top, bottom, direction)
    if kind.kind is Kind.INTEGER:
        return min(max(_whole(top, bottom, direction), INTEGER_RANGE[0]), INTEGER_RANGE[1])
    if kind.kind is Kind.DECIMAL:
        top *= 10**kind.scale
    low, high = _grid_ends(kind)
    return _on_grid(min(max(_whole(top, bottom, direction), low), high), kind)


@lru_cache(maxsize=64)
def _grid_ends(kind: SqlType) -> tuple[int, int]:
    """The first and the last place of a type, in its own steps."""
    low, high = type_range(kind).ends or (Fraction(0), Fraction(0))
    step = kind.step or Fraction(1)
    return int(low / step), int(high / step)


def _on_grid(whole: int, kind: SqlType) -> Value | None:
    return from_ordinal(whole * (kind.step or Fraction(1)), kind)


def _double(top: int, bottom: int, direction: Direction) -> float:
    try:
        # Python rounds the quotient of two integers correctly.
        nearest = top / bottom
    except OverflowError:
        return sys.float_info.max if top > 0 else -sys.float_info.max
    if direction == "nearest":
        return nearest + 0.0
    over, under = nearest.as_integer_ratio()
    excess = over * bottom - top * under
    if direction == "down":
        return (math.nextafter(nearest, -sys.float_info.max) if excess > 0 else nearest) + 0.0
    return (math.nextafter(nearest, sys.float_info.max) if excess < 0 else nearest) + 0.0


def _whole(top: int, bottom: int, direction: Direction) -> int:
    if direction == "down":
        return top // bottom
    return -(-top // bottom) if direction == "up" else (2 * top + bottom) // (2 * bottom)
