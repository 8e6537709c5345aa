"""Exact places (ordinals) as values of a type, rounded in a stated direction and never outside the type."""

from __future__ import annotations

import datetime as dt
import math
import sys
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from tacit.core.numbers import float_down, float_nearest, float_up
from tacit.query.domains import Range
from tacit.query.types import DECIMAL_DIGITS, INTEGER_RANGE, Kind, SqlType, Value, from_ordinal, ordinal

__all__ = ["Direction", "type_range", "value_at"]

Direction = Literal["nearest", "down", "up"]
_LARGEST = Fraction(sys.float_info.max)


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
    if kind.kind is Kind.DOUBLE:
        return _double(place, direction)
    span = type_range(kind)
    low, high = span.ends or (Fraction(0), Fraction(0))
    if place is None:
        place = high if direction == "up" else low
    inside = min(max(place, low), high)
    step = kind.step or Fraction(1)
    return from_ordinal(_whole(inside / step, direction) * step, kind)


def _double(place: Fraction | None, direction: Direction) -> float:
    if place is None:
        return sys.float_info.max if direction == "up" else -sys.float_info.max
    inside = min(max(place, -_LARGEST), _LARGEST)
    rounded = {"nearest": float_nearest, "down": float_down, "up": float_up}[direction](inside)
    return rounded + 0.0


def _whole(value: Fraction, direction: Direction) -> int:
    if direction == "down":
        return math.floor(value)
    return math.ceil(value) if direction == "up" else math.floor(value + Fraction(1, 2))
