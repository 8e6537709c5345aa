"""Domains: public knowledge about values, with interval arithmetic.

A :class:`Range` is a *presumption* taken from metadata: declared bounds may be wrong about a row, so nothing may rely
on a range for safety. Ranges choose the clamp of an aggregate (and the clamp makes them true), the type of a decimal
product, and which keys are public. Ranges of DOUBLE expressions are those of real arithmetic; rounding may step outside
by an ulp.

All ends are exact rationals (ordinals, see :mod:`tacit.query.types`). Ends beyond 2^256 count as unknown and long
fractions are rounded outwards, so that no chain of products can make planning slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from tacit.query.types import BOOLEAN, SqlType, Value, ordinal, sort_key

__all__ = ["MAX_VALUES", "UNKNOWN", "Domain", "Range", "finite", "hull", "truth", "union"]

#: The most public values that one expression is known to have; beyond, the set counts as unknown.
MAX_VALUES = 10_000
_LARGEST = 2**256
_FINEST = 2**256


def _tidy(end: Fraction | None, *, up: bool) -> Fraction | None:
    # Nearly all ends pass here, so their integers are compared rather than Fractions.
    if end is None or (end.denominator <= _FINEST and -_LARGEST <= end.numerator <= _LARGEST):
        return end
    if abs(end) > _LARGEST:
        return None
    if end.denominator <= _FINEST:
        return end
    scaled = end * _FINEST
    return Fraction(
        -(-scaled.numerator // scaled.denominator) if up else scaled.numerator // scaled.denominator, _FINEST
    )


@dataclass(frozen=True, slots=True)
class Range:
    """A closed interval of ordinals; an end that is None is unknown.

    >>> Range(Fraction(0), Fraction(2)) * Range(Fraction(-1), Fraction(3))
    Range(low=Fraction(-2, 1), high=Fraction(6, 1))
    """

    low: Fraction | None
    high: Fraction | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", _tidy(self.low, up=False))
        object.__setattr__(self, "high", _tidy(self.high, up=True))

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None

    @property
    def ends(self) -> tuple[Fraction, Fraction] | None:
        """Both ends, or None when one is unknown."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def __contains__(self, place: Fraction) -> bool:
        return (self.low is None or self.low <= place) and (self.high is None or place <= self.high)

    def __add__(self, other: Range) -> Range:
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Range(low, high)

    def __neg__(self) -> Range:
        return Range(None if self.high is None else -self.high, None if self.low is None else -self.low)

    def __sub__(self, other: Range) -> Range:
        return self + (-other)

    def __mul__(self, other: Range) -> Range:
        if self.ends is None or other.ends is None:
            return self._half_known_product(other)
        corners = [a * b for a in self.ends for b in other.ends]
        return Range(min(corners), max(corners))

    def _half_known_product(self, other: Range) -> Range:
        """Two factors that are both non-negative have a non-negative product, however large."""
        if self.low is not None and other.low is not None and self.low >= 0 and other.low >= 0:
            return Range(self.low * other.low, None)
        return UNKNOWN

    def divided_by(self, other: Range) -> Range:
        """Quotients with a divisor that is not 0; unknown when divisors come arbitrarily close to 0."""
        if other.ends is None or Fraction(0) in other:
            return UNKNOWN
        return self * Range(1 / other.ends[1], 1 / other.ends[0])

    def magnitude(self) -> Range:
        """The range of absolute values."""
        if self.low is not None and self.low >= 0:
            return self
        if self.high is not None and self.high <= 0:
            return -self
        return Range(Fraction(0), None if self.ends is None else max(-self.ends[0], self.ends[1]))

    def clamped(self, low: Fraction | None, high: Fraction | None) -> Range:
        """The range after clamping to [low, high]; an end that is None does not clamp."""
        lower, upper = self.low, self.high
        if low is not None:
            lower = low if lower is None else max(lower, low)
            upper = None if upper is None else max(upper, low)
        if high is not None:
            upper = high if upper is None else min(upper, high)
            lower = None if lower is None else min(lower, high)
        return Range(lower, upper)


UNKNOWN = Range(None, None)


@dataclass(frozen=True, slots=True)
class Domain:
    """What is known about an expression's values without looking at data.

    Args:
        range: presumed ends.
        nullable: whether NULL may occur.
        values: every value a row with declared inputs can give, sorted; contains None only where NULL is declared or
            computed from declared values. None when the set is not known to be finite.
        step: a grid on which all values lie, in ordinals; None when there is none.
        growth: how many copies of stored text a TEXT value may hold, constants counted by 64 characters. Limits
            strings that double and double again.
    """

    range: Range = UNKNOWN
    nullable: bool = True
    values: tuple[Value | None, ...] | None = None
    step: Fraction | None = None
    growth: int = 1


def finite(values: Iterable[Value | None], kind: SqlType, *, nullable: bool, growth: int = 1) -> Domain:
    """The domain of a known finite set: sorted, each value once, with its range."""
    members = tuple(sorted(set(values), key=lambda value: sort_key(value, kind)))
    known = members if len(members) <= MAX_VALUES else None
    places = [ordinal(v, kind) for v in members if v is not None] if kind.is_ordered else []
    span = Range(min(places), max(places)) if places else UNKNOWN
    return Domain(span, nullable or None in members, known, kind.step, growth)


@cache
def truth(*, nullable: bool) -> Domain:
    """The domain of a condition."""
    return finite((False, True), BOOLEAN, nullable=nullable)


def hull(ranges: Iterable[Range]) -> Range:
    """The smallest interval around all of them."""
    parts = list(ranges)
    lows, highs = [part.low for part in parts], [part.high for part in parts]
    low = None if not parts or None in lows else min(end for end in lows if end is not None)
    high = None if not parts or None in highs else max(end for end in highs if end is not None)
    return Range(low, high)


def union(domains: Iterable[Domain], kind: SqlType, *, nullable: bool | None = None) -> Domain:
    """What is known of a value that comes from any of several places."""
    parts = list(domains)
    may_be_null = any(part.nullable for part in parts) if nullable is None else nullable
    growth = max((part.growth for part in parts), default=1)
    sets = [part.values for part in parts]
    if parts and None not in sets:
        return finite([v for values in sets for v in values or ()], kind, nullable=may_be_null, growth=growth)
    # A constant NULL has no place of its own.
    places = [part for part in parts if part.values != (None,)]
    return Domain(hull(part.range for part in places), may_be_null, None, _common_step(places), growth)


def _common_step(parts: list[Domain]) -> Fraction | None:
    steps = {part.step for part in parts}
    return steps.pop() if len(steps) == 1 else None
