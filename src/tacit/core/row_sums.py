"""Sums over rows that stay where they are: whole numbers computed row by row, and what is added up of them.

A model that learns from sums alone needs no row. It says what each row adds, in whole numbers with a public range, and
a database computes the sums. Every range is known before a row is read, and nothing leaves 2⁶², so that no row can
raise an error, and the sums are the same on every database and in this process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.core.errors import InternalError

#: No whole number of a row is larger in size.
MOST: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Whole:
    """A whole number of a row, and its range.

    Attributes:
        kind: of operation.
        parts: numbers that it is computed from.
        low, high: the smallest and largest it can be.
        value: what else the operation needs.
    """

    kind: str
    parts: tuple[Whole, ...]
    low: int
    high: int
    value: Any = None

    def __post_init__(self) -> None:
        if not -MOST <= self.low <= self.high <= MOST:
            raise InternalError("a whole number of a row could leave 62 bits")

    @classmethod
    def constant(cls, value: int) -> Whole:
        """A public number."""
        return cls("constant", (), value, value)

    @classmethod
    def column(cls, place: int, low: int, high: int) -> Whole:
        """A number that was computed before, by its place."""
        return cls("column", (), low, high, place)

    @property
    def largest(self) -> int:
        """Largest size it can have."""
        return max(abs(self.low), abs(self.high))

    def __add__(self, other: Whole | int) -> Whole:
        other = _whole(other)
        return Whole("+", (self, other), self.low + other.low, self.high + other.high)

    def __sub__(self, other: Whole | int) -> Whole:
        other = _whole(other)
        return Whole("-", (self, other), self.low - other.high, self.high - other.low)

    def __mul__(self, other: Whole | int) -> Whole:
        other = _whole(other)
        ends = [mine * theirs for mine in (self.low, self.high) for theirs in (other.low, other.high)]
        return Whole("*", (self, other), min(ends), max(ends))

    def squared(self) -> Whole:
        """Square of the number."""
        return Whole("*", (self, self), 0, self.largest**2)

    def over(self, other: Whole | int) -> Whole:
        """Divided by a number that is at least one, towards zero."""
        other = _whole(other)
        if other.low < 1:
            raise InternalError("a row could divide by zero")
        low = -(-self.low // other.low) if self.low < 0 else self.low // other.high
        high = self.high // other.low if self.high >= 0 else -(-self.high // other.high)
        return Whole("over", (self, other), low, high)

    def floored(self, bits: int) -> Whole:
        """Divided by 2^bits, downwards."""
        return Whole("floored", (self,), self.low >> bits, self.high >> bits, 1 << bits)

    def between(self, low: int, high: int) -> Whole:
        """Cut to a range."""
        return self.at_least(low).at_most(high)

    def at_least(self, low: Whole | int) -> Whole:
        """Itself or a number, whichever is larger."""
        other = _whole(low)
        return Whole("greatest", (self, other), max(self.low, other.low), max(self.high, other.high))

    def at_most(self, high: Whole | int) -> Whole:
        """Itself or a number, whichever is smaller."""
        other = _whole(high)
        return Whole("least", (self, other), min(self.low, other.low), min(self.high, other.high))

    def root(self) -> Whole:
        """The smallest whole number whose square is not below it."""
        if self.low < 0:
            raise InternalError("a row could take the root of less than nothing")
        return Whole("root", (self,), 0, math.isqrt(max(self.high - 1, 0)) + 1)


def _whole(value: Whole | int) -> Whole:
    return value if isinstance(value, Whole) else Whole.constant(int(value))


def quantised(place: int, middle: float, half_width: float, fine: int) -> Whole:
    """A raw number in steps of 1/fine between its bounds; what is no number is the midpoint."""
    return Whole("quantised", (), -fine, fine, (place, middle, half_width, fine))


def label_place(place: int, classes: Sequence[Any]) -> Whole:
    """The place of a raw value among classes or categories, -1 for any other."""
    return Whole("label", (), -1, len(classes) - 1, (place, tuple(classes)))


def looked_up(table: Sequence[int], place: Whole) -> Whole:
    """An entry of a public table of whole numbers."""
    if place.low < 0 or place.high >= len(table):
        raise InternalError("a row could look beyond a table")
    return Whole("looked up", (place,), min(table), max(table), tuple(map(int, table)))


def total_of(numbers: Sequence[Whole]) -> Whole:
    """The sum of several numbers of one row; by halves, so that a thousand columns nest ten deep."""
    if len(numbers) == 1:
        return numbers[0]
    half = len(numbers) // 2
    return total_of(numbers[:half]) + total_of(numbers[half:])


def least(numbers: Sequence[Whole]) -> Whole:
    """The smallest of several numbers of one row."""
    return Whole("least", tuple(numbers), min(each.low for each in numbers), min(each.high for each in numbers))


def where_at_least(number: Whole, limit: Whole | int, then: Whole | int, otherwise: Whole | int) -> Whole:
    """One of two numbers, by a comparison."""
    yes, no = _whole(then), _whole(otherwise)
    parts = (number, _whole(limit), yes, no)
    return Whole("where", parts, min(yes.low, no.low), max(yes.high, no.high))


def is_place(number: Whole, place: int, then: int, otherwise: int) -> Whole:
    """One of two numbers, by whether a number is equal to a public one."""
    return where_at_least(number, place, where_at_least(number, place + 1, otherwise, then), otherwise)


@dataclass(frozen=True, eq=False)
class WholeSums:
    """Sums over all rows, for each of disjoint groups of them; or for several groupings at once.

    Attributes:
        layers: columns computed from those of the layer before; those of the first from raw values.
        sums: what each row adds, computed from the last layer.
        groupings: number of the group of a row, in each grouping; below 0 a row is in none. Without any, all rows are
            one group.
        groups: how many groups each grouping has.
    """

    layers: tuple[tuple[Whole, ...], ...]
    sums: tuple[Whole, ...]
    groupings: tuple[Whole, ...] = ()
    groups: int = 1
