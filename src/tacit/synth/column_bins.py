"""Bins of bounded columns, equal by a public rule, and values of texts found privately; NULL may be a value of its own.

A bin is represented by its first value, in steps of the column: 1 for integers, days for dates, the column's own step
for decimals and doubles. A place is the index of a value in the model: 0 for NULL where NULL counts, then the bins.
"""

from __future__ import annotations

import datetime
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.core.errors import InputError
from tacit.core.extras import load_arrow
from tacit.query.catalog import Column
from tacit.query.types import Kind

#: Columns with more values than the first number are put into the second number of bins.
_MOST_VALUES: Final = 64
_BINS: Final = 32
#: Largest number of digits of a number in an SQL statement.
_LONGEST: Final = 60
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class ColumnBins(ABC):
    """Bins of a column.

    Args:
        low: first value: an integer, a number of steps (decimals, doubles), or the ordinal of a date.
        high: last value, in the same unit.
    """

    low: int
    high: int

    # Set by subclasses: kind of the column, its step as text, and whether NULL counts as a value.
    kind = Kind.INTEGER.value
    step = "1"
    nulls = False

    @property
    @abstractmethod
    def starts(self) -> NDArray[np.int64]:
        """First value of each bin, in steps."""

    @abstractmethod
    def _numbered(self, name: str) -> str:
        """Return SQL for the bin number of a value, from 0 on."""

    def expression(self, name: str) -> str:
        """Return SQL for the number of a value: its bin from 0 on, or -1 for NULL where NULL counts."""
        read = self._numbered(name)
        return f"CASE WHEN {name} IS NULL THEN -1 ELSE {read} END" if self.nulls else read

    @property
    def numbers(self) -> range:
        """All numbers that :meth:`expression` returns for values that count."""
        return range(-1 if self.nulls else 0, len(self.starts))

    def drawn(self, places: NDArray[np.int64], shares: NDArray[np.float64]) -> Any:
        """Return values drawn uniformly within bins, as an Arrow array of the column's type."""
        pa = load_arrow()

        starts, at = self.starts, np.maximum(places - self.nulls, 0)
        ends = [*starts[1:].tolist(), self.high + 1]
        wide = np.array([end - begin for begin, end in zip(starts.tolist(), ends, strict=True)])[at]
        # The product may be rounded up to the next bin.
        steps = starts[at] + np.minimum(np.floor(shares * wide).astype(np.int64), wide - 1)
        missing = places < self.nulls if self.nulls else None
        if self.kind == Kind.BOOLEAN.value:
            return pa.array(steps == 1, mask=missing)
        if self.kind == Kind.DATE.value:
            return pa.array((steps - _EPOCH).astype(np.int32), pa.int32(), mask=missing).cast(pa.date32())
        if self.kind == Kind.INTEGER.value:
            return pa.array(steps, mask=missing)
        step = Fraction(self.step)
        if self.kind == Kind.DOUBLE.value:
            return pa.array(steps * float(step.numerator) / float(step.denominator), mask=missing)
        # The type is a function of the bounds, so that it is the same for all rows ever drawn.
        scale = len(decimal_of(step).partition(".")[2])
        digits = len(str(math.floor(max(abs(self.low), abs(self.high)) * step))) + scale
        distinct, back = np.unique(steps, return_inverse=True)
        listed = pa.array(
            [Decimal(decimal_of(int(each) * step)) for each in distinct], pa.decimal128(min(digits, 38), scale)
        )
        return listed.take(pa.array(back, mask=missing))

    def label(self, place: int) -> str:
        """Return the text of a place: a value, or the first and last value of a bin."""
        if place < self.nulls:
            return "NULL"
        starts = self.starts
        at = min(place - self.nulls, len(starts) - 1)
        ends = int(starts[at]), int(starts[at + 1]) - 1 if at + 1 < len(starts) else self.high
        if self.kind == Kind.BOOLEAN.value:
            return str(bool(ends[0]))
        if self.kind == Kind.DATE.value:
            told = [str(datetime.date.fromordinal(each)) for each in ends]
        else:
            told = [decimal_of(each * Fraction(self.step)) for each in ends]
        return told[0] if told[0] == told[1] else " to ".join(told)

    def _text(self, steps: int) -> str:
        """Return a value, given in steps, as an SQL literal."""
        if self.kind == Kind.DATE.value:
            return f"DATE '{datetime.date.fromordinal(steps)}'"
        return f"({decimal_of(steps * Fraction(self.step))})"


@dataclass(frozen=True)
class EqualBins(ColumnBins):
    """Bins of equal width by a public rule: from ``low`` on, each ``width`` wide, up to ``high``.

    Args:
        low: first value, in steps.
        high: last value, in steps.
        width: number of values of a bin.
        kind: kind of the column's type.
        step: unit of decimals and doubles, a fraction as text.
        nulls: whether NULL counts as a value.
    """

    width: int
    kind: str = Kind.INTEGER.value
    step: str = "1"
    nulls: bool = False

    @classmethod
    def of(cls, column: Column, *, nulls: bool = False) -> EqualBins | None:
        """Return the bins of a column; None where it has no bounds, or few values that need no bins.

        Integers and dates have 32 bins where they have more than 64 values. The unit of decimals is their step, the
        unit of doubles a power of ten of which the bounds are multiples and that is at most 1/2048 of their range.

        Raises:
            InputError: no value of a decimal column is between its bounds, or bounds have too many digits.
        """
        kind, step = column.type.kind, Fraction(1)
        if kind is Kind.BOOLEAN:
            return cls(0, 1, 1, kind.value, "1", True) if nulls else None
        if column.bounds is None or column.categories is not None:
            return None
        first, last = column.bounds
        if kind is Kind.DATE and isinstance(first, datetime.date) and isinstance(last, datetime.date):
            low, high = first.toordinal(), last.toordinal()
        elif kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
            ends = Fraction(first), Fraction(last)  # type: ignore[arg-type]
            if kind is Kind.DECIMAL:
                step = column.step or Fraction(1, 10**column.type.scale)
            elif kind is Kind.DOUBLE:
                ends = _written(float(ends[0])), _written(float(ends[1]))
                step = _step_of(*ends)
            low, high = math.ceil(ends[0] / step), math.floor(ends[1] / step)
            longest = max(len(decimal_of(each * step)) for each in (low, high))
            if low > high or longest > _LONGEST or high - low >= 2**63:
                what = f"no step of {decimal_of(step)} between them" if low > high else "too many digits for bins"
                raise InputError("columns", f"the bounds of {column.name} have {what}; declare others, or leave it out")
        else:
            return None
        few = high - low < _MOST_VALUES
        if few and kind in (Kind.INTEGER, Kind.DATE) and not nulls:
            return None
        return cls(low, high, 1 if few else -(-(high - low + 1) // _BINS), kind.value, str(step), nulls)

    @property
    def starts(self) -> NDArray[np.int64]:
        return np.array(range(self.low, self.high + 1, self.width), dtype=np.int64)

    def _numbered(self, name: str) -> str:
        if self.kind == Kind.BOOLEAN.value:
            return f"CASE WHEN {name} THEN 1 ELSE 0 END"
        wide = str(self.width) if self.kind == Kind.DATE.value else decimal_of(self.width * Fraction(self.step))
        number = f"FLOOR(({name} - {self._text(self.low)}) / {wide})"
        # A value outside the bounds has no number, and its row does not count: the number is neither that of the last
        # bin, in which the upper bound may lie, nor -1, which is NULL.
        beyond = self.kind == Kind.DOUBLE.value or (self.high + 1 - self.low) % self.width
        inside = [f"{name} >= {self._text(self.low)}"] * self.nulls
        inside += [f"{name} <= {self._text(self.high)}"] * bool(beyond)
        return f"CASE WHEN {' AND '.join(inside)} THEN {number} END" if inside else number


@dataclass(frozen=True)
class FoundValues(ColumnBins):
    """Values of a text column found by private selection; NULL stands for NULL and for all other values.

    Args:
        low: 0.
        high: number of values minus 1.
        texts: the values.
    """

    texts: tuple[str, ...]

    kind = Kind.TEXT.value
    nulls = True

    @classmethod
    def of(cls, texts: Iterable[str]) -> FoundValues:
        listed = tuple(texts)
        return cls(0, len(listed) - 1, listed)

    @property
    def starts(self) -> NDArray[np.int64]:
        return np.arange(len(self.texts))

    def _numbered(self, name: str) -> str:
        quoted = (each.replace("'", "''") for each in self.texts)
        parts = (f"WHEN '{each}' THEN {at}" for at, each in enumerate(quoted))
        return f"CASE {name} {' '.join(parts)} ELSE -1 END"

    def drawn(self, places: NDArray[np.int64], shares: NDArray[np.float64]) -> Any:  # noqa: ARG002 - one value each
        pa = load_arrow()
        return pa.array([None, *self.texts], pa.string()).take(pa.array(places))

    def label(self, place: int) -> str:
        return self.texts[place - 1] if 0 < place <= len(self.texts) else "NULL or another"


def decimal_of(value: Fraction) -> str:
    """Return the exact decimal text of a fraction; a step has one, as its denominator has only factors 2 and 5."""
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
        if digits > 1_100:
            raise InputError("columns", "a step must be a decimal number")
    whole = int(value * 10**digits)
    sign, text = "-" if whole < 0 else "", str(abs(whole)).rjust(digits + 1, "0")
    return sign + (text if not digits else f"{text[:-digits]}.{text[-digits:]}")


def _written(value: Any) -> Fraction:
    """Return a number as a fraction; a double as the decimal number of its shortest text."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def _step_of(low: Fraction, high: Fraction) -> Fraction:
    """Return the largest power of ten of which both bounds are multiples and that is at most 1/2048 of their range."""
    step = Fraction(10) ** _LONGEST
    least = (high - low) / (_BINS * _MOST_VALUES) or step
    while step > least or (low / step).denominator != 1 or (high / step).denominator != 1:
        step /= 10
        if step.denominator > 10**_LONGEST:
            break
    return step
