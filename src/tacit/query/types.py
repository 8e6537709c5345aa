"""Types of the query language, their Python values, and domains: public knowledge about values.

=========== =================================================== =================================================
type        values                                              in Python
=========== =================================================== =================================================
BOOLEAN     true, false                                         ``bool``
INTEGER     whole numbers of 64 bits, signed                    ``int``
DECIMAL(s)  multiples of 10^-s below 10^(18-s) in size          ``Fraction``
DOUBLE      finite binary64 numbers; -0.0 is 0.0                ``float``
TEXT        Unicode, compared by code point                     ``str``
DATE        years 1 to 9999                                     ``datetime.date``
TIMESTAMP   years 1 to 9999, microseconds, no time zone         ``datetime.datetime`` (naive)
=========== =================================================== =================================================

NULL is ``None`` in every type. A value that a type cannot hold (overflow, NaN, a date in the year 10000) is NULL: that
is what makes every function total. ``NULL`` is also the type of a bare ``NULL``, which becomes any other type.

Ordered values have an **ordinal**, an exact rational that grows with them (days or microseconds since 1970 for dates),
so that one kind of interval serves them all.

A **domain** is public knowledge about the values of an expression, with interval arithmetic. Its :class:`Range` is a
*presumption* taken from metadata: declared bounds may be wrong about a row, so nothing may rely on a range for safety.
Ranges choose the clamp of an aggregate (and the clamp makes them true), the type of a decimal product, and which keys
are public. Ranges of DOUBLE expressions are those of real arithmetic; rounding may step outside by an ulp. All ends are
ordinals. Ends beyond 2^256 count as unknown and long fractions are rounded outwards, so that no chain of products can
make planning slow.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from tacit.core.errors import InputError

#: Non-NULL values in Python.
Value = bool | int | Fraction | float | str | dt.date | dt.datetime

#: Digits of a DECIMAL, before and after the point together: it fits a signed 64-bit integer on every engine.
DECIMAL_DIGITS = 18
MAX_SCALE = 9
INTEGER_RANGE = (-(2**63), 2**63 - 1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)


class Kind(Enum):
    """Kinds of values, apart from the scale of a decimal."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type; ``scale`` is the number of digits after the point of a DECIMAL and 0 otherwise."""

    kind: Kind
    scale: int = 0

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic applies: INTEGER, DECIMAL or DOUBLE."""
        return self.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)

    @property
    def is_temporal(self) -> bool:
        """Whether it is a DATE or a TIMESTAMP."""
        return self.kind in (Kind.DATE, Kind.TIMESTAMP)

    @property
    def is_ordered(self) -> bool:
        """Whether values have an ordinal (everything but TEXT and NULL)."""
        return self.kind not in (Kind.TEXT, Kind.NULL)

    @property
    def step(self) -> Fraction | None:
        """The grid that all values of the type lie on, in ordinals; None when there is none."""
        if self.kind is Kind.DECIMAL:
            return Fraction(1, 10**self.scale)
        return None if self.kind in (Kind.DOUBLE, Kind.TEXT, Kind.NULL) else Fraction(1)

    def __str__(self) -> str:
        return f"DECIMAL({DECIMAL_DIGITS},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.name


BOOLEAN = SqlType(Kind.BOOLEAN)
INTEGER = SqlType(Kind.INTEGER)
DOUBLE = SqlType(Kind.DOUBLE)
TEXT = SqlType(Kind.TEXT)
DATE = SqlType(Kind.DATE)
TIMESTAMP = SqlType(Kind.TIMESTAMP)
NULL = SqlType(Kind.NULL)


def decimal(scale: int) -> SqlType:
    """DECIMAL with ``scale`` digits after the point, at most :data:`MAX_SCALE`."""
    if not 0 <= scale <= MAX_SCALE:
        raise InputError("scale", f"must be between 0 and {MAX_SCALE}, got {scale}")
    return SqlType(Kind.DECIMAL, scale)


_NAMES = {
    "boolean": BOOLEAN, "bool": BOOLEAN,
    "integer": INTEGER, "int": INTEGER, "bigint": INTEGER, "smallint": INTEGER,
    "double": DOUBLE, "float": DOUBLE, "real": DOUBLE,
    "text": TEXT, "string": TEXT, "varchar": TEXT,
    "date": DATE, "timestamp": TIMESTAMP, "datetime": TIMESTAMP,
}  # fmt: skip


def parse_type(name: str, step: Fraction | None = None, parameter: str = "type") -> SqlType:
    """Return the type that a project file names: ``text``, ``integer``, ``decimal`` (scale from ``step``) and so on."""
    word = name.strip().lower()
    if word in ("decimal", "numeric"):
        return decimal(_scale_of(step, parameter))
    if word not in _NAMES:
        raise InputError(parameter, f"must be one of {', '.join(sorted({*_NAMES, 'decimal'}))}; got {name!r}")
    return _NAMES[word]


def _scale_of(step: Fraction | None, parameter: str) -> int:
    if step is None:
        return 2
    for scale in range(MAX_SCALE + 1):
        if (step * 10**scale).denominator == 1:
            return scale
    raise InputError(parameter, f"a decimal needs a step with at most {MAX_SCALE} digits after the point")


def common_type(left: SqlType, right: SqlType) -> SqlType | None:
    """The type both sides become when compared, stacked by UNION ALL or returned by CASE; None if there is none."""
    if left == right or right.kind is Kind.NULL:
        return left
    if left.kind is Kind.NULL:
        return right
    if left.is_numeric and right.is_numeric:
        return DOUBLE if Kind.DOUBLE in (left.kind, right.kind) else decimal(max(left.scale, right.scale))
    if left.is_temporal and right.is_temporal:
        return TIMESTAMP
    return None


def as_value(value: object, kind: SqlType) -> Value | None:
    """``value`` as the canonical Python value of a type; None (NULL) when the type cannot hold it."""
    if value is None:
        return None
    match kind.kind:
        case Kind.BOOLEAN:
            return value if isinstance(value, bool) else None
        case Kind.INTEGER:
            return _integer(value)
        case Kind.DECIMAL:
            return _decimal(value, kind.scale)
        case Kind.DOUBLE:
            return _double(value)
        case Kind.TEXT:
            return value if isinstance(value, str) else None
        case Kind.DATE:
            return value if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None
        case Kind.TIMESTAMP:
            return value if isinstance(value, dt.datetime) and value.tzinfo is None else None
        case _:
            return None


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if INTEGER_RANGE[0] <= value <= INTEGER_RANGE[1] else None


def _decimal(value: object, scale: int) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        return None
    exact = Fraction(value)
    fits = (exact * 10**scale).denominator == 1 and abs(exact) < 10 ** (DECIMAL_DIGITS - scale)
    return exact if fits else None


def _double(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number + 0.0 if math.isfinite(number) else None


def ordinal(value: Value, kind: SqlType) -> Fraction:
    """Return the ordinal of a value: the number itself, or the days or microseconds since 1970."""
    if isinstance(value, dt.datetime):
        return Fraction((value - _EPOCH) // _MICROSECOND)
    if isinstance(value, dt.date):
        return Fraction(value.toordinal() - _EPOCH_DAY)
    if isinstance(value, str) or not kind.is_ordered:
        raise TypeError(f"{kind} has no ordinals")
    return Fraction(value)


def from_ordinal(place: Fraction, kind: SqlType) -> Value | None:
    """Return the value with this ordinal; None when the type has none."""
    if kind.kind is Kind.DOUBLE:
        return _double(place)
    if kind.kind is Kind.DECIMAL:
        return _decimal(place, kind.scale)
    if place.denominator != 1:
        return None
    whole = place.numerator
    match kind.kind:
        case Kind.BOOLEAN:
            return bool(whole) if whole in (0, 1) else None
        case Kind.DATE:
            inside = 1 <= whole + _EPOCH_DAY <= dt.date.max.toordinal()
            return dt.date.fromordinal(whole + _EPOCH_DAY) if inside else None
        case Kind.TIMESTAMP:
            inside = (dt.datetime.min - _EPOCH) // _MICROSECOND <= whole <= (dt.datetime.max - _EPOCH) // _MICROSECOND
            return _EPOCH + whole * _MICROSECOND if inside else None
        case _:
            return _integer(whole)


def sort_key(value: Value | None, kind: SqlType) -> tuple[bool, Any, str]:
    """Return a key that sorts values of one type in their order, NULL last.

    Keys are values rather than ordinals: comparing Fractions takes fifty times as long, and there may be many keys.
    """
    if value is None:
        return (True, 0, "")
    if isinstance(value, str):
        return (False, 0, value)
    if kind.kind is Kind.DECIMAL and isinstance(value, (int, Fraction)):
        whole, rest = divmod(value.numerator * 10**kind.scale, value.denominator)
        return (False, whole if not rest else Fraction(value) * 10**kind.scale, "")
    return (False, value, "")


# -- domains

#: Size of the largest set of public values of one expression; a larger set counts as unknown.
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
            # Two factors that are both non-negative have a non-negative product, however large.
            known = self.low is not None and other.low is not None and self.low >= 0 and other.low >= 0
            return Range(self.low * other.low, None) if known else UNKNOWN  # type: ignore[operator]
        corners = [a * b for a in self.ends for b in other.ends]
        return Range(min(corners), max(corners))

    def divided_by(self, other: Range) -> Range:
        """Return the interval of quotients by a nonzero divisor; unknown where ``other`` contains 0 or is unbounded."""
        if other.ends is None or Fraction(0) in other:
            return UNKNOWN
        return self * Range(1 / other.ends[1], 1 / other.ends[0])

    def magnitude(self) -> Range:
        """Return the interval that |x| lies in for x in this interval."""
        if self.low is not None and self.low >= 0:
            return self
        if self.high is not None and self.high <= 0:
            return -self
        return Range(Fraction(0), None if self.ends is None else max(-self.ends[0], self.ends[1]))

    def clamped(self, low: Fraction | None, high: Fraction | None) -> Range:
        """Return the interval of values clamped to [low, high]; an end that is None does not clamp."""
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
    """Knowledge about an expression's values without looking at data.

    Args:
        range: the presumed interval of the values, in ordinals.
        nullable: whether NULL may occur.
        values: every value a row with declared inputs can give, sorted; contains None only where NULL is declared or
            computed from declared values. None when the set is not known to be finite.
        step: a grid on which all values lie, in ordinals; None when there is none.
        growth: how many copies of stored text a TEXT value may hold, constants counted by 64 characters. Limits
            strings that double and double again.
        null_is_key: whether NULL is a public key: an outer join leaves it in rows without a match, or a public table
            holds it. It is among the values then, where these are known.
    """

    range: Range = UNKNOWN
    nullable: bool = True
    values: tuple[Value | None, ...] | None = None
    step: Fraction | None = None
    growth: int = 1
    null_is_key: bool = False


def with_null_key(domain: Domain) -> Domain:
    """Return the domain with NULL among its public keys."""
    values = domain.values
    if values is not None and None not in values:
        values = (*values, None)
    return replace(domain, nullable=True, values=values, null_is_key=True)


def finite(values: Iterable[Value | None], kind: SqlType, *, nullable: bool, growth: int = 1) -> Domain:
    """Return the domain of a known finite set: values sorted, each once, with their range."""
    members = tuple(sorted(set(values), key=lambda value: sort_key(value, kind)))
    known = members if len(members) <= MAX_VALUES else None
    places = [ordinal(v, kind) for v in members if v is not None] if kind.is_ordered else []
    span = Range(min(places), max(places)) if places else UNKNOWN
    return Domain(span, nullable or None in members, known, kind.step, growth)


@cache
def truth(*, nullable: bool) -> Domain:
    """Return the domain of a condition: true and false, and NULL where ``nullable``."""
    return finite((False, True), BOOLEAN, nullable=nullable)


def hull(ranges: Iterable[Range]) -> Range:
    """Return the smallest interval that contains all of ``ranges``."""
    parts = list(ranges)
    lows, highs = [part.low for part in parts], [part.high for part in parts]
    low = None if not parts or None in lows else min(end for end in lows if end is not None)
    high = None if not parts or None in highs else max(end for end in highs if end is not None)
    return Range(low, high)


def union(domains: Iterable[Domain], kind: SqlType, *, nullable: bool | None = None) -> Domain:
    """Return the domain of a value that comes from any one of several expressions."""
    parts = list(domains)
    may_be_null = any(part.nullable for part in parts) if nullable is None else nullable
    growth = max((part.growth for part in parts), default=1)
    sets = [part.values for part in parts]
    outer = may_be_null and any(part.null_is_key for part in parts)
    if parts and None not in sets:
        known = finite([v for values in sets for v in values or ()], kind, nullable=may_be_null, growth=growth)
        return with_null_key(known) if outer else known
    # A constant NULL has no ordinal, so it leaves range and step alone.
    places = [part for part in parts if part.values != (None,)]
    steps = {part.step for part in places}
    step = steps.pop() if len(steps) == 1 else None
    return Domain(hull(part.range for part in places), may_be_null, None, step, growth, outer)
