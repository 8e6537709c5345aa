"""Functions of dates and timestamps: parts, truncation, differences, shifts, formats. Years beyond 1 to 9999 are NULL.

These are the signs of STRFTIME that mean the same on every engine:

========= =============================================
sign      stands for
========= =============================================
``%Y``    year, four digits
``%y``    its last two digits
``%m``    month, 01 to 12
``%d``    day of the month, 01 to 31
``%H``    hour, 00 to 23
``%I``    hour, 01 to 12
``%M``    minute, 00 to 59
``%S``    second, 00 to 59
``%f``    microseconds, six digits
``%p``    AM or PM
``%j``    day of the year, 001 to 366
``%G %V`` year and week of ISO 8601
``%u %w`` day of the week, 1 to 7 and 0 to 6
``%q``    quarter, 1 to 4
``%B %b`` month in English, whole and three letters
``%A %a`` weekday in English, whole and three letters
``%%``    a per cent sign
========= =============================================

``%-d`` and its like leave out leading zeros; ``%F`` is ``%Y-%m-%d`` and ``%T`` is ``%H:%M:%S``.
"""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions.registry import (
    DAY,
    REGISTRY,
    Args,
    Function,
    a_time,
    a_timestamp,
    a_whole_number,
    coerce,
    constant_int,
    constant_text,
    fixed_range,
    register,
    takes,
)
from tacit.query.types import (
    DATE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Range,
    SqlType,
    Value,
    decimal,
    from_ordinal,
    ordinal,
)

# -- functions of dates and timestamps

Time = dt.date | dt.datetime

#: Units of DATE_TRUNC, coarse to fine; those from ``hour`` on need a TIMESTAMP.
TRUNC_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FINE = ("hour", "minute", "second")
#: Units of DATE_DIFF, which counts the boundaries of the unit in between.
DIFF_UNITS = ("year", "quarter", "month", "day", "hour", "minute", "second")
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SECONDS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
#: Largest shift that a query may write, in its unit.
MAX_SHIFT = 10**6
_MICROSECOND = Fraction(1, 10**6)


def truncate(unit: str, value: Time) -> Time:
    """Return the start of the unit that contains a time, in the same type."""
    day = value.date() if isinstance(value, dt.datetime) else value
    if unit in _FINE and isinstance(value, dt.datetime):
        minute = 0 if unit == "hour" else value.minute
        second = value.second if unit == "second" else 0
        return value.replace(minute=minute, second=second, microsecond=0)
    match unit:
        case "year":
            day = day.replace(month=1, day=1)
        case "quarter":
            day = day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1)
        case "month":
            day = day.replace(day=1)
        case "week":
            day = dt.date.fromordinal(max(1, day.toordinal() - day.weekday()))
    return dt.datetime.combine(day, dt.time()) if isinstance(value, dt.datetime) else day


def next_truncated(unit: str, value: Time) -> Time | None:
    """Return the start of the unit after the one that starts at ``value``; None beyond the year 9999."""
    try:
        if unit in _SECONDS:
            return value + dt.timedelta(seconds=_SECONDS[unit])
        if unit == "week":
            return value + dt.timedelta(days=7)
    except OverflowError:
        return None
    return _add_months(value, _MONTHS[unit])


def _trunc_signature(name: str, args: Args) -> tuple[Args, SqlType]:
    unit = constant_text(name, args[0], "the unit").lower()
    value = a_time(name, args[1])
    if unit not in TRUNC_UNITS:
        raise Refusal("arguments", f"DATE_TRUNC knows the units {', '.join(TRUNC_UNITS)}.")
    if unit in _FINE and value.type == DATE:
        raise Refusal("arguments", f"DATE_TRUNC('{unit}', …) needs a TIMESTAMP, not a DATE.")
    return (args[0], value), value.type


def _diff_signature(name: str, args: Args) -> tuple[Args, SqlType]:
    unit = constant_text(name, args[0], "the unit").lower()
    if unit == "week":
        raise Refusal(
            "arguments",
            "DATE_DIFF of weeks counts Mondays, Sundays or spans of seven days, from database to database; write "
            "DATE_DIFF('day', x, y) // 7 for such spans.",
        )
    if unit not in DIFF_UNITS:
        raise Refusal("arguments", f"DATE_DIFF knows the units {', '.join(DIFF_UNITS)}.")
    times = [a_time(name, _date_from_text(arg)) for arg in args[1:]]
    kind = DATE if all(time.type == DATE for time in times) else TIMESTAMP
    return (args[0], *(coerce(time, kind) for time in times)), INTEGER


def _date_from_text(arg: Expression) -> Expression:
    if isinstance(arg, Literal) and arg.type == TEXT:
        for kind in (DATE, TIMESTAMP):
            read = coerce(arg, kind)
            if isinstance(read, Literal) and read.value is not None:
                return read
    return arg


def _shift_signature(name: str, args: Args) -> tuple[Args, SqlType]:
    value = (a_timestamp if name == "ADD_SECONDS" else a_time)(name, args[0])
    if isinstance(args[1], Literal):
        constant_int("INTERVAL", args[1], -MAX_SHIFT * 86_400, MAX_SHIFT * 86_400, "the number of units")
    elif args[1].type != INTEGER:
        raise Refusal("type", f"A date can be moved by whole days, not by {args[1].type}.")
    return (value, args[1]), value.type


def _times(factor: Fraction) -> Callable[[Args], Range]:
    return lambda args: args[0].range * Range(factor, factor)


def _make_date(year: int, month: int, day: int) -> Value | None:
    try:
        return dt.date(year, month, day)
    except (ValueError, OverflowError):
        return None


def _diff(unit: str, first: Time, second: Time) -> int:
    unit = unit.lower()
    if unit in _MONTHS:
        return _months(second) // _MONTHS[unit] - _months(first) // _MONTHS[unit]
    if isinstance(first, dt.datetime) and isinstance(second, dt.datetime):
        size = _SECONDS[unit] * 1_000_000
        return int(ordinal(second, TIMESTAMP)) // size - int(ordinal(first, TIMESTAMP)) // size
    return int(ordinal(second, DATE) - ordinal(first, DATE)) * (86_400 // _SECONDS[unit])


def _months(value: Time) -> int:
    return value.year * 12 + value.month - 1


def _add_months(value: Time, count: int) -> Time | None:
    year, month = divmod(_months(value) + count, 12)
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        return None
    last = calendar.monthrange(year, month + 1)[1]
    return value.replace(year=year, month=month + 1, day=min(value.day, last))


def _add(unit: dt.timedelta) -> Callable[[Time, int], Value | None]:
    def evaluate(value: Time, count: int) -> Value | None:
        try:
            return value + unit * count
        except OverflowError:
            return None

    return evaluate


def _trunc_range(args: Args) -> Range:
    unit = args[0].value if isinstance(args[0], Literal) else None
    ends, kind = args[1].range.ends, args[1].type
    if not isinstance(unit, str) or ends is None:
        return UNKNOWN
    low, high = (_whole_time(end, kind) for end in ends)
    if low is None or high is None:
        return UNKNOWN
    return Range(ordinal(truncate(unit.lower(), low), kind), ordinal(truncate(unit.lower(), high), kind))


def _whole_time(end: Fraction, kind: SqlType) -> Time | None:
    value = from_ordinal(Fraction(end.__floor__()), kind)
    return value if isinstance(value, dt.date) else None


def _years_by(year_of: Callable[[Time], int]) -> Callable[[Args], Range]:
    def span(args: Args) -> Range:
        ends = args[0].range.ends
        if ends is None:
            return UNKNOWN
        low, high = (_whole_time(end, args[0].type) for end in ends)
        return UNKNOWN if low is None or high is None else Range(Fraction(year_of(low)), Fraction(year_of(high)))

    return span


def _diff_range(args: Args) -> Range:
    first, second = args[1].range.ends, args[2].range.ends
    unit = args[0].value if isinstance(args[0], Literal) else None
    if first is None or second is None or not isinstance(unit, str):
        return UNKNOWN
    corners = [_corner(unit, a, b, args[1].type) for a, b in ((first[1], second[0]), (first[0], second[1]))]
    return UNKNOWN if None in corners else Range(corners[0], corners[1])


def _corner(unit: str, first: Fraction, second: Fraction, kind: SqlType) -> Fraction | None:
    a, b = _whole_time(first, kind), _whole_time(second, kind)
    return None if a is None or b is None else Fraction(_diff(unit, a, b))


def _days_range(args: Args) -> Range:
    day = DAY if args[0].type == TIMESTAMP else Fraction(1)
    return args[0].range + args[1].range * Range(day, day)


def _months_range(args: Args) -> Range:
    ends, count, kind = args[0].range.ends, args[1].range.ends, args[0].type
    if ends is None or count is None:
        return UNKNOWN
    places: list[Fraction] = []
    for end, shift in zip(ends, count, strict=True):
        time = _whole_time(end, kind)
        moved = None if time is None or abs(shift) > MAX_SHIFT else _add_months(time, int(shift))
        if moved is None:
            return UNKNOWN
        places.append(ordinal(moved, kind))
    return Range(places[0], places[1])


# -- formats of dates and timestamps

MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
#: Weekdays from Monday on, in the order of ``isodow``.
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
#: Directives for numbers: the id of the function of the part, and its number of digits.
NUMBERS: Final[dict[str, tuple[str, int]]] = {
    "Y": ("year", 4), "m": ("month", 2), "d": ("day", 2), "H": ("hour", 2), "M": ("minute", 2), "S": ("second", 2),
    "j": ("dayofyear", 3), "V": ("week", 2), "G": ("isoyear", 4), "u": ("isodow", 1), "w": ("dayofweek", 1),
    "f": ("microsecond", 6),
}  # fmt: skip
_CLOCK: Final = frozenset("HMSf")
_OTHERS: Final = frozenset("BbAa")
_LONGEST: Final = 64
_SHORT: Final = 3


class FormatPart(NamedTuple):
    """A piece of a format: a directive, or a literal text (``sign`` is empty)."""

    sign: str
    text: str = ""
    padded: bool = True


def format_parts(pattern: str) -> tuple[FormatPart, ...]:
    """Split a format into its pieces.

    Raises:
        Refusal: a directive that is not in the table above.
    """
    pattern = pattern.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S")
    parts: list[FormatPart] = []
    for piece in re.findall(r"%-?.|[^%]+|%", pattern, flags=re.DOTALL):
        sign = piece[-1]
        if piece[0] != "%":
            parts.append(FormatPart("", piece))
        elif piece == "%%":
            parts.append(FormatPart("", "%"))
        elif len(piece) > 1 and (sign in NUMBERS or (sign in _OTHERS and piece[1] != "-")):
            parts.append(FormatPart(sign, padded=piece[1] != "-"))
        else:
            known = " ".join(f"%{sign}" for sign in (*NUMBERS, *sorted(_OTHERS)))
            raise Refusal("literal", f"{piece!r} is no sign of a date format here; there are {known}.")
    return tuple(parts)


def has_clock(parts: Sequence[FormatPart]) -> bool:
    """Whether a format shows the time of day."""
    return any(part.sign in _CLOCK for part in parts)


_SPANS: Final = {
    "m": (1, 12), "d": (1, 31), "H": (0, 23), "M": (0, 59), "S": (0, 59), "j": (1, 366), "V": (1, 53), "u": (1, 7),
    "w": (0, 6),
}  # fmt: skip


def possible_texts(parts: Sequence[FormatPart], years: tuple[int, int] | None, most: int) -> list[str] | None:
    """Return every text that a format can give, also impossible dates; None if there are more than ``most``.

    ``years`` are the first and the last; None where they are not known.
    """
    sets: list[list[str]] = []
    for part in parts:
        if part.sign in ("Y", "G") and years is not None:
            span: tuple[int, int] | None = (years[0] - (part.sign == "G"), years[1] + (part.sign == "G"))
        else:
            span = _SPANS.get(part.sign)
        if span is not None:
            width = NUMBERS[part.sign][1] if part.padded else 0
            sets.append([str(number).rjust(width, "0") for number in range(span[0], span[1] + 1)])
        elif part.sign in ("B", "b", "A", "a"):
            names = MONTHS if part.sign in "Bb" else DAYS
            sets.append([name if part.sign in "BA" else name[:_SHORT] for name in names])
        elif part.sign:
            return None
        else:
            sets.append([part.text])
    if math.prod(map(len, sets)) > most:
        return None
    return ["".join(pieces) for pieces in itertools.product(*sets)]


def formatted(value: Time, pattern: str) -> str:
    """Return a time formatted by a pattern."""
    return "".join(_text(part, value) for part in format_parts(pattern))


def _text(part: FormatPart, value: Time) -> str:
    if part.sign in NUMBERS:
        digits = str(REGISTRY[NUMBERS[part.sign][0]].evaluate(value))
        return digits.rjust(NUMBERS[part.sign][1], "0") if part.padded else digits
    if part.sign in ("B", "b"):
        return MONTHS[value.month - 1][: None if part.sign == "B" else _SHORT]
    if part.sign in ("A", "a"):
        return DAYS[value.isoweekday() - 1][: None if part.sign == "A" else _SHORT]
    return part.text


def _format_signature(name: str, args: Args) -> tuple[Args, SqlType]:
    parts = format_parts(constant_text(name, args[1], "the format", _LONGEST))
    value = a_time(name, args[0])
    return (coerce(value, TIMESTAMP) if value.type == DATE and has_clock(parts) else value, args[1]), TEXT


def _growth(args: Args) -> int:
    # A directive of two letters becomes at most nine.
    pattern = args[1].value if isinstance(args[1], Literal) else ""
    return 1 + len(str(pattern)) * 5 // 64


#: Parts of dates: description, meaning, range, and further SQL names.
_PARTS: Final[dict[str, tuple[str, Callable[..., int], Callable[[Args], Range], str]]] = {
    "year": ("year", lambda t: t.year, _years_by(lambda t: t.year), ""),
    "isoyear": ("year of the ISO week", lambda t: t.isocalendar().year, _years_by(lambda t: t.isocalendar().year), ""),
    "quarter": ("1 to 4", lambda t: (t.month + 2) // 3, fixed_range(1, 4), ""),
    "month": ("1 to 12", lambda t: t.month, fixed_range(1, 12), ""),
    "week": ("ISO week, 1 to 53", lambda t: t.isocalendar().week, fixed_range(1, 53), "weekofyear"),
    "day": ("day of the month", lambda t: t.day, fixed_range(1, 31), "dayofmonth"),
    "dayofweek": ("0 for Sunday to 6", lambda t: t.isoweekday() % 7, fixed_range(0, 6), "weekday"),
    "isodow": ("1 for Monday to 7", lambda t: t.isoweekday(), fixed_range(1, 7), ""),
    "dayofyear": ("1 to 366", lambda t: t.timetuple().tm_yday, fixed_range(1, 366), ""),
    "hour": ("0 to 23", lambda t: getattr(t, "hour", 0), fixed_range(0, 23), ""),
    "minute": ("0 to 59", lambda t: getattr(t, "minute", 0), fixed_range(0, 59), ""),
    "second": ("0 to 59, whole", lambda t: getattr(t, "second", 0), fixed_range(0, 59), ""),
}
_one_part = takes(a_time, result=INTEGER)
register(
    *(Function(name, what, 1, _one_part, part, span, also=also) for name, (what, part, span, also) in _PARTS.items()),
    Function(
        "microsecond", "of the second, 0 to 999999", 1, _one_part, lambda t: getattr(t, "microsecond", 0),
        fixed_range(0, 999_999), inner=True,
    ),
    Function(
        "date_trunc", "start of the unit", 2, _trunc_signature, lambda u, t: truncate(u.lower(), t), _trunc_range,
        also="datetrunc",
    ),
    Function("date_diff", "boundaries of a unit between x and y", 3, _diff_signature, _diff, _diff_range),
    Function(
        "add_days", "x moved by days", 2, _shift_signature, _add(dt.timedelta(days=1)), _days_range,
        partial=True, inner=True,
    ),
    Function(
        "add_seconds", "x moved by seconds", 2, _shift_signature, _add(dt.timedelta(seconds=1)),
        lambda args: args[0].range + args[1].range * Range(Fraction(10**6), Fraction(10**6)),
        partial=True, inner=True,
    ),
    Function(
        "add_months", "x moved by months, cut at the month's end", 2, _shift_signature, _add_months, _months_range,
        partial=True, inner=True,
    ),
    Function(
        "seconds_between", "seconds from y to x", 2, takes(a_timestamp, result=decimal(6)),
        lambda t, u: (ordinal(t, TIMESTAMP) - ordinal(u, TIMESTAMP)) / 10**6,
        lambda args: (args[0].range - args[1].range) * Range(_MICROSECOND, _MICROSECOND), inner=True, sign="-",
    ),
    Function(
        "epoch", "seconds since 1970", 1, takes(a_timestamp, result=decimal(6)),
        lambda t: ordinal(t, TIMESTAMP) / 10**6, _times(_MICROSECOND),
    ),
    Function(
        "epoch_us", "microseconds since 1970", 1, takes(a_timestamp, result=INTEGER),
        lambda t: int(ordinal(t, TIMESTAMP)), _times(Fraction(1)),
    ),
    Function(
        "make_date", "year, month, day", 3, takes(a_whole_number, result=DATE), _make_date,
        partial=True, also="datefromparts date_from_parts",
    ),
    Function("last_day", "last day of the month", 1, takes(a_time, result=DATE),
        lambda t: dt.date(t.year, t.month, calendar.monthrange(t.year, t.month)[1]), also="eomonth",
    ),
    Function("strftime", "x in a format", 2, _format_signature, formatted, growth=_growth, cost=16, inner=True),
)  # fmt: skip
