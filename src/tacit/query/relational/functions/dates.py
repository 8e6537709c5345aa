"""Functions of dates and timestamps: parts, truncation, differences, shifts. Years beyond 1 to 9999 are NULL."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable
from fractions import Fraction

from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal
from tacit.query.relational.functions.registry import Args, Function, register
from tacit.query.relational.functions.signatures import (
    a_time,
    arity,
    coerce,
    constant_int,
    constant_text,
    fixed_range,
    one_time,
)
from tacit.query.types import (
    DATE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    UNKNOWN,
    Kind,
    Range,
    SqlType,
    Value,
    decimal,
    from_ordinal,
    ordinal,
)

Time = dt.date | dt.datetime

#: Units of DATE_TRUNC, coarse to fine; those from ``hour`` on need a TIMESTAMP.
TRUNC_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FINE = ("hour", "minute", "second")
#: Units of DATE_DIFF: how many boundaries of the unit lie between.
DIFF_UNITS = ("year", "quarter", "month", "day", "hour", "minute", "second")
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SECONDS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
#: The largest shift a query may write, in its unit.
MAX_SHIFT = 10**6
_MICROSECOND = Fraction(1, 10**6)


def truncate(unit: str, value: Time) -> Time:
    """The start of the unit that contains a time, in the same type."""
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
    """The start of the unit after one that starts at ``value``; None beyond the year 9999."""
    try:
        if unit in _SECONDS:
            return value + dt.timedelta(seconds=_SECONDS[unit])
        if unit == "week":
            return value + dt.timedelta(days=7)
    except OverflowError:
        return None
    return _add_months(value, _MONTHS[unit])


def _trunc_signature(args: Args) -> tuple[Args, SqlType]:
    arity("date_trunc", args, 2)
    unit = constant_text("date_trunc", args[0], "the unit").lower()
    value = a_time("date_trunc", args[1])
    if unit not in TRUNC_UNITS:
        raise Refusal("arguments", f"DATE_TRUNC knows the units {', '.join(TRUNC_UNITS)}.")
    if unit in _FINE and value.type == DATE:
        raise Refusal("arguments", f"DATE_TRUNC('{unit}', …) needs a TIMESTAMP, not a DATE.")
    return (args[0], value), value.type


def _diff_signature(args: Args) -> tuple[Args, SqlType]:
    arity("date_diff", args, 3)
    unit = constant_text("date_diff", args[0], "the unit").lower()
    if unit == "week":
        raise Refusal(
            "arguments",
            "DATE_DIFF of weeks counts Mondays, Sundays or spans of seven days, from database to database; write "
            "DATE_DIFF('day', x, y) // 7 for such spans.",
        )
    if unit not in DIFF_UNITS:
        raise Refusal("arguments", f"DATE_DIFF knows the units {', '.join(DIFF_UNITS)}.")
    times = [a_time("date_diff", _date_from_text(arg)) for arg in args[1:]]
    kind = DATE if all(time.type == DATE for time in times) else TIMESTAMP
    return (args[0], *(coerce(time, kind) for time in times)), INTEGER


def _date_from_text(arg: Expression) -> Expression:
    if isinstance(arg, Literal) and arg.type == TEXT:
        for kind in (DATE, TIMESTAMP):
            read = coerce(arg, kind)
            if isinstance(read, Literal) and read.value is not None:
                return read
    return arg


def _shift_signature(name: str) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 2)
        value = a_time(name, args[0])
        if name == "add_seconds":
            value = coerce(value, TIMESTAMP)
        if isinstance(args[1], Literal):
            constant_int("interval", args[1], -MAX_SHIFT * 86_400, MAX_SHIFT * 86_400, "the number of units")
        elif args[1].type != INTEGER:
            raise Refusal("type", f"A date can be moved by whole days, not by {args[1].type}.")
        return (value, args[1]), value.type

    return signature


def _bucket_signature(args: Args) -> tuple[Args, SqlType]:
    arity("time_bucket", args, 3)
    value = a_time("time_bucket", args[2])
    day = 86_400_000_000 if value.type == TIMESTAMP else 1
    constant_int("time_bucket", args[0], 1, MAX_SHIFT * day, "the width")
    constant_int("time_bucket", args[1], -MAX_SHIFT * day, MAX_SHIFT * day, "the origin")
    return (args[0], args[1], value), value.type


def _bucket(width: int, origin: int, value: Time) -> Value | None:
    kind = TIMESTAMP if isinstance(value, dt.datetime) else DATE
    return from_ordinal(Fraction(origin + (int(ordinal(value, kind)) - origin) // width * width), kind)


def _bucket_range(args: Args, kind: SqlType) -> Range:
    width, origin, ends = args[0].range.low, args[1].range.low, args[2].range.ends
    if width is None or origin is None or ends is None:
        return UNKNOWN
    places = (origin + (end - origin) // width * width for end in ends)
    low, high = (from_ordinal(place, kind) for place in places)
    return UNKNOWN if low is None or high is None else Range(ordinal(low, kind), ordinal(high, kind))


def _to_timestamp(name: str, result: SqlType) -> Callable[[Args], tuple[Args, SqlType]]:
    def signature(args: Args) -> tuple[Args, SqlType]:
        arity(name, args, 1)
        return (coerce(a_time(name, args[0]), TIMESTAMP),), result

    return signature


def _two_timestamps(args: Args) -> tuple[Args, SqlType]:
    arity("seconds_between", args, 2)
    return tuple(coerce(a_time("-", arg), TIMESTAMP) for arg in args), decimal(6)


def _scaled_range(factor: Fraction) -> Callable[[Args, SqlType], Range]:
    return lambda args, kind: args[0].range * Range(factor, factor)  # noqa: ARG005 - one shape for all rules


def _make_date_signature(args: Args) -> tuple[Args, SqlType]:
    arity("make_date", args, 3)
    if any(arg.type.kind not in (Kind.INTEGER, Kind.NULL) for arg in args):
        raise Refusal("type", "MAKE_DATE needs whole numbers.")
    return tuple(coerce(arg, INTEGER) for arg in args), DATE


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


def _last_day(value: Time) -> dt.date:
    return dt.date(value.year, value.month, calendar.monthrange(value.year, value.month)[1])


def _add(unit: dt.timedelta) -> Callable[[Time, int], Value | None]:
    def evaluate(value: Time, count: int) -> Value | None:
        try:
            return value + unit * count
        except OverflowError:
            return None

    return evaluate


def _trunc_range(args: Args, kind: SqlType) -> Range:
    unit = args[0].value if isinstance(args[0], Literal) else None
    ends = args[1].range.ends
    if not isinstance(unit, str) or ends is None:
        return UNKNOWN
    low, high = (_whole_time(end, kind) for end in ends)
    if low is None or high is None:
        return UNKNOWN
    return Range(ordinal(truncate(unit.lower(), low), kind), ordinal(truncate(unit.lower(), high), kind))


def _whole_time(end: Fraction, kind: SqlType) -> Time | None:
    value = from_ordinal(Fraction(end.__floor__()), kind)
    return value if isinstance(value, dt.date) else None


def _years_by(year_of: Callable[[Time], int]) -> Callable[[Args, SqlType], Range]:
    def span(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
        ends = args[0].range.ends
        if ends is None:
            return UNKNOWN
        low, high = (_whole_time(end, args[0].type) for end in ends)
        return UNKNOWN if low is None or high is None else Range(Fraction(year_of(low)), Fraction(year_of(high)))

    return span


def _diff_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    first, second = args[1].range.ends, args[2].range.ends
    unit = args[0].value if isinstance(args[0], Literal) else None
    if first is None or second is None or not isinstance(unit, str):
        return UNKNOWN
    corners = [_corner(unit, a, b, args[1].type) for a, b in ((first[1], second[0]), (first[0], second[1]))]
    return UNKNOWN if None in corners else Range(corners[0], corners[1])


def _corner(unit: str, first: Fraction, second: Fraction, kind: SqlType) -> Fraction | None:
    a, b = _whole_time(first, kind), _whole_time(second, kind)
    return None if a is None or b is None else Fraction(_diff(unit, a, b))


def _days_range(args: Args, kind: SqlType) -> Range:
    day = Fraction(86_400_000_000 if kind == TIMESTAMP else 1)
    return args[0].range + args[1].range * Range(day, day)


def _seconds_range(args: Args, kind: SqlType) -> Range:  # noqa: ARG001
    return args[0].range + args[1].range * Range(Fraction(10**6), Fraction(10**6))


def _months_range(args: Args, kind: SqlType) -> Range:
    ends, count = args[0].range.ends, args[1].range.ends
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


def register_all() -> None:
    """Enter the functions of this module."""
    parts: dict[str, tuple[str, Callable[..., int], Callable[[Args, SqlType], Range]]] = {
        "year": ("year", lambda t: t.year, _years_by(lambda t: t.year)),
        "isoyear": ("year of the ISO week", lambda t: t.isocalendar().year, _years_by(lambda t: t.isocalendar().year)),
        "quarter": ("1 to 4", lambda t: (t.month + 2) // 3, fixed_range(1, 4)),
        "month": ("1 to 12", lambda t: t.month, fixed_range(1, 12)),
        "week": ("ISO week, 1 to 53", lambda t: t.isocalendar().week, fixed_range(1, 53)),
        "day": ("day of the month", lambda t: t.day, fixed_range(1, 31)),
        "dayofweek": ("0 for Sunday to 6", lambda t: t.isoweekday() % 7, fixed_range(0, 6)),
        "isodow": ("1 for Monday to 7", lambda t: t.isoweekday(), fixed_range(1, 7)),
        "dayofyear": ("1 to 366", lambda t: t.timetuple().tm_yday, fixed_range(1, 366)),
        "hour": ("0 to 23", lambda t: getattr(t, "hour", 0), fixed_range(0, 23)),
        "minute": ("0 to 59", lambda t: getattr(t, "minute", 0), fixed_range(0, 59)),
        "second": ("0 to 59, whole", lambda t: getattr(t, "second", 0), fixed_range(0, 59)),
        "microsecond": ("of the second, 0 to 999999", lambda t: getattr(t, "microsecond", 0), fixed_range(0, 999_999)),
    }
    for name, (summary, compute, span) in parts.items():
        register(Function(name, summary, one_time(name, INTEGER), compute, span))
    for function in (
        Function(
            "date_trunc", "start of the unit", _trunc_signature, lambda u, t: truncate(u.lower(), t), _trunc_range
        ),
        Function("date_diff", "boundaries of a unit between x and y", _diff_signature, _diff, _diff_range),
        Function(
            "add_days",
            "x moved by days",
            _shift_signature("add_days"),
            _add(dt.timedelta(days=1)),
            _days_range,
            partial=True,
        ),
        Function(
            "add_seconds",
            "x moved by seconds",
            _shift_signature("add_seconds"),
            _add(dt.timedelta(seconds=1)),
            _seconds_range,
            partial=True,
        ),
        Function(
            "add_months",
            "x moved by months, cut at the month's end",
            _shift_signature("add_months"),
            _add_months,
            _months_range,
            partial=True,
        ),
        Function(
            "time_bucket",
            "start of the bucket of a width, counted from an origin",
            _bucket_signature,
            _bucket,
            _bucket_range,
            partial=True,
        ),
        Function(
            "seconds_between",
            "seconds from y to x",
            _two_timestamps,
            lambda t, u: (ordinal(t, TIMESTAMP) - ordinal(u, TIMESTAMP)) / 10**6,
            lambda args, kind: (args[0].range - args[1].range) * Range(_MICROSECOND, _MICROSECOND),  # noqa: ARG005
        ),
        Function(
            "epoch",
            "seconds since 1970",
            _to_timestamp("epoch", decimal(6)),
            lambda t: ordinal(t, TIMESTAMP) / 10**6,
            _scaled_range(_MICROSECOND),
        ),
        Function(
            "epoch_us",
            "microseconds since 1970",
            _to_timestamp("epoch_us", INTEGER),
            lambda t: int(ordinal(t, TIMESTAMP)),
            _scaled_range(Fraction(1)),
        ),
        Function("make_date", "year, month, day", _make_date_signature, _make_date, partial=True),
        Function("last_day", "last day of the month", one_time("last_day", DATE), _last_day),
    ):
        register(function)
