"""COUNT and SUM: a noisy integer times a public step.

The value is the released number itself, so that cells add up without bias; a count may come out negative. The
interval is cut to what is publicly possible (a count is not negative) and always contains the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from tacit.query.after.cells import Affine, Cell, Draw, Event, Level
from tacit.query.after.places import value_at
from tacit.query.domains import Domain, Range
from tacit.query.types import SqlType, Value

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
    """

    noisy: Fraction
    draw: Draw
    step: Fraction
    possible: Range
    type: SqlType

    @cached_property
    def value(self) -> Value | None:  # type: ignore[override]
        """The number of steps times the step."""
        return value_at(self.noisy * self.step, self.type)

    @cached_property
    def events(self) -> frozenset[Event]:  # type: ignore[override]
        """Its one draw."""
        return frozenset((self.draw,))

    @property
    def affine(self) -> Affine:
        """Itself."""
        return Affine({self.draw: self.step}, self.noisy * self.step, self.step)

    def _enclose(self, level: Level) -> Domain:
        width = level.half_width(self.draw.measure)
        around = Range((self.noisy - width) * self.step, (self.noisy + width) * self.step)
        return Domain(around.clamped(self.possible.low, self.possible.high), False, None, self.step)
