"""COUNT and SUM estimates.

The value is the released number itself, so that cells add up without bias; a count may come out negative. The
interval is cut to what is publicly possible (a count is not negative) and always contains the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from tacit.query.postprocess.cells import (
    Affine,
    Cell,
    CellConfidence,
    Draw,
    Ends,
    Event,
    MeasureBias,
    around,
    roundings,
    value_at,
    value_of_ratio,
)
from tacit.query.types import Domain, Range, SqlType, Value

__all__ = ["Direct"]


@dataclass(frozen=True, eq=False)
class Direct(Cell):
    """One released integer.

    Args:
        noisy: the released number, in steps.
        draw: whose noise it carries.
        step: what one step is worth.
        possible: where the truth lies, whatever the noise.
        type: of the value.
        parts: the draws of the release that add up to its noise; empty for a draw of the release itself.
        shown: the value of a total, the sum of its parts as they are shown; None for the number itself, rounded.
    """

    noisy: Fraction
    draw: Draw
    step: Fraction
    possible: Range
    type: SqlType
    parts: tuple[Draw, ...] = ()
    shown: Fraction | None = None
    event_count: ClassVar[int | None] = 1

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The number of steps times the step."""
        if self.shown is not None:
            return value_at(self.shown, self.type)
        noisy, step = self.noisy, self.step
        return value_of_ratio(noisy.numerator * step.numerator, noisy.denominator * step.denominator, self.type)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Its one draw."""
        return frozenset((self.draw,))

    @property
    def affine(self) -> Affine:
        """The cell as a sum of draws of the release: one, or those of the groups that a total adds up."""
        low = self.possible.low
        draws = dict.fromkeys(self.parts or (self.draw,), self.step)
        return Affine(draws, self.noisy * self.step, self.step, low is not None and low >= 0)

    @classmethod
    def column_ends(cls, cells: Sequence[Direct], level: CellConfidence) -> list[Ends]:
        """As :meth:`ends`: (noisy ± width)·step in integers, cut where rounding has happened, which changes nothing."""
        found: list[Ends] = []
        last: Direct | None = None
        for cell in cells:
            if last is None or not cell._is_like(last):
                last = cell
                width, step = level.half_width(cell.draw.measure), cell.step
                ways = roundings(step, cell.type)
                floor = [value_at(cell.possible.low, cell.type, way) for way in ways]
                roof = [value_at(cell.possible.high, cell.type, way) for way in ways]
            top, bottom = cell.noisy.numerator * width.denominator, cell.noisy.denominator
            reach = bottom * width.numerator
            bottom *= width.denominator * step.denominator
            low = value_of_ratio((top - reach) * step.numerator, bottom, cell.type, ways[0])
            high = value_of_ratio((top + reach) * step.numerator, bottom, cell.type, ways[1])
            if cell.possible.low is not None:
                low, high = max(low, floor[0]), max(high, floor[1])  # type: ignore[type-var]
            if cell.possible.high is not None:
                low, high = min(low, roof[0]), min(high, roof[1])  # type: ignore[type-var]
            found.append(around(cell.value, low, high))
        return found

    def _is_like(self, other: Direct) -> bool:
        """Whether both are of one column, which shares what is public."""
        same = self.step is other.step and self.possible is other.possible
        return same and self.draw.measure == other.draw.measure

    def _enclose(self, level: CellConfidence) -> Domain:
        width = level.half_width(self.draw.measure)
        around = Range((self.noisy - width) * self.step, (self.noisy + width) * self.step)
        return Domain(around.clamped(self.possible.low, self.possible.high), False, None, self.step)

    def _widened(self, known: Domain, biases: Sequence[MeasureBias]) -> Domain:
        bias = biases[self.draw.measure]
        low, high = known.range.low, known.range.high
        span = Range(
            None if low is None else low - bias.down * self.step, None if high is None else high + bias.up * self.step
        )
        return Domain(span, known.nullable, None, known.step)
