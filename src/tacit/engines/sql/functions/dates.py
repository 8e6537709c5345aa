"""Dates and timestamps: arithmetic on whole days and microseconds since 1970, then a check of the years 1 to 9999."""

from __future__ import annotations

import datetime as dt

from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.functions.lowering import Args, Lowering, text_argument, whole_argument, word_argument
from tacit.query.relational.expressions import Call
from tacit.query.relational.functions.time_formats import DAYS, MONTHS, NUMBERS, FormatPart, format_parts
from tacit.query.types import DATE, INTEGER, SqlType

_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAYS = (dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() - _EPOCH)
#: Microseconds in a day.
DAY = 86_400_000_000
_MICROSECONDS = (_DAYS[0] * DAY, (_DAYS[1] + 1) * DAY - 1)
#: The beginning of the year 1.
FIRST_MICROSECOND = _MICROSECONDS[0]
#: Further than any date can move and stay a date.
_FAR_DAYS, _FAR_MONTHS = 4_000_000, 120_000
_SIZES = {"day": DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def from_days(d: Dialect, value: str) -> str:
    """Days since 1970 as DATE."""
    low, high = _DAYS
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {d.day_of(v)} END")


def from_microseconds(d: Dialect, value: str) -> str:
    """Microseconds since 1970 as TIMESTAMP."""
    low, high = _MICROSECONDS
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {d.moment_of(v)} END")


def within_years(d: Dialect, value: str, kind: SqlType) -> str:
    """NULL for infinities and beyond the years 1 to 9999."""
    ends = (dt.date.min, dt.date.max) if kind == DATE else (dt.datetime.min, dt.datetime.max)
    low, high = (d.constant(end, kind) for end in ends)
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {v} END")


def _near(d: Dialect, value: str, far: int) -> str:
    return d.let(value, lambda v: f"CASE WHEN {v} BETWEEN -{far} AND {far} THEN {v} END")


def _part(name: str) -> Lowering:
    return lambda d, node, args: d.part(name, args[0], node.args[0].type)


def _clock(name: str) -> Lowering:
    def lower(d: Dialect, node: Call, args: Args) -> str:
        if node.args[0].type == DATE:
            return f"CASE WHEN {args[0]} IS NOT NULL THEN CAST(0 AS BIGINT) END"
        return d.part(name, args[0], node.args[0].type)

    return lower


def _difference(d: Dialect, node: Call, args: Args) -> str:
    unit, kind = word_argument(node, 0), node.args[1].type
    first, second = args[1:]
    if unit in _MONTHS:
        months = (_month_number(d, side, _MONTHS[unit], kind) for side in (second, first))
        return f"({' - '.join(months)})"
    if kind == DATE:
        return f"(({d.days(second)} - {d.days(first)}) * {DAY // _SIZES[unit]})"
    # Counted from the year 1 on numbers are not negative, and whole-number division is a floor.
    ends = (
        d.divided(f"({d.microseconds(side)} + {-FIRST_MICROSECOND})", str(_SIZES[unit]), wide=False)
        for side in (second, first)
    )
    return f"({' - '.join(ends)})"


def _month_number(d: Dialect, value: str, size: int, kind: SqlType) -> str:
    return d.let(
        value,
        lambda v: d.divided(
            f"({d.part('year', v, kind)} * 12 + {d.part('month', v, kind)} - 1)", str(size), wide=False
        ),
    )


def _add_days(d: Dialect, node: Call, args: Args) -> str:
    count = _near(d, args[1], _FAR_DAYS)
    if node.type == DATE:
        return from_days(d, f"{d.days(args[0])} + {count}")
    return from_microseconds(d, f"{d.microseconds(args[0])} + {count} * {DAY}")


def _add_seconds(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    return from_microseconds(d, f"{d.microseconds(args[0])} + {_near(d, args[1], _FAR_DAYS * 86_400)} * 1000000")


def _epoch(d: Dialect, node: Call, args: Args) -> str:  # noqa: ARG001
    # A DECIMAL of six digits is held without its point, so seconds and microseconds are one number.
    return d.microseconds(args[0])


def _bucket(d: Dialect, node: Call, args: Args) -> str:
    width, origin = whole_argument(node, 0), whole_argument(node, 1)
    on_days = node.type == DATE
    first = _DAYS[0] if on_days else FIRST_MICROSECOND
    # Counted from before the year 1 numbers are not negative, and whole-number division is a floor.
    begin = origin + (first - origin) // width * width
    since = f"({d.days(args[2]) if on_days else d.microseconds(args[2])} - ({begin}))"
    start = f"{d.divided(since, str(width), wide=False)} * {width} + ({begin})"
    return from_days(d, start) if on_days else from_microseconds(d, start)


def _formatted(d: Dialect, node: Call, args: Args) -> str:
    kind, parts = node.args[0].type, format_parts(text_argument(node, 1))

    def body(v: str) -> str:
        return " || ".join(_piece(d, part, v, kind) for part in parts) or d.text("")

    return d.let(args[0], lambda v: f"CASE WHEN {v} IS NOT NULL THEN {body(v)} END")


def _piece(d: Dialect, part: FormatPart, value: str, kind: SqlType) -> str:
    if not part.sign:
        return d.text(part.text)
    if part.sign in ("B", "b", "A", "a"):
        names, name = (MONTHS, "month") if part.sign in "Bb" else (DAYS, "isodow")
        shown = (word if part.sign in "BA" else word[:3] for word in names)
        arms = " ".join(f"WHEN {number} THEN {d.text(word)}" for number, word in enumerate(shown, 1))
        return f"CASE {d.part(name, value, kind)} {arms} END"
    if part.sign == "p":
        return f"CASE WHEN {d.part('hour', value, kind)} < 12 THEN {d.text('AM')} ELSE {d.text('PM')} END"
    name, digits = NUMBERS[part.sign]
    number = d.part(name, value, kind)
    if part.sign == "y":
        number = f"({number} % 100)"
    elif part.sign == "I":
        number = f"(({number} + 11) % 12 + 1)"
    shown_number = d.show(number, INTEGER)
    return f"lpad({shown_number}, {digits}, {d.text('0')})" if part.padded and digits > 1 else shown_number


_DATE_PARTS = ("year", "isoyear", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear")
LOWERINGS: dict[str, Lowering] = {
    **{name: _part(name) for name in _DATE_PARTS},
    **{name: _clock(name) for name in ("hour", "minute", "second", "microsecond")},
    "date_trunc": lambda d, node, args: d.truncated(word_argument(node, 0), args[1], node.type),
    "date_diff": _difference,
    "add_days": _add_days,
    "add_seconds": _add_seconds,
    "add_months": lambda d, node, args: d.months_later(args[0], _near(d, args[1], _FAR_MONTHS), node.type),
    "time_bucket": _bucket,
    "epoch": _epoch,
    "seconds_between": lambda d, _, args: f"({d.microseconds(args[0])} - {d.microseconds(args[1])})",
    "epoch_us": _epoch,
    "strftime": _formatted,
    "make_date": lambda d, _, args: d.made_date(*args),
    "last_day": lambda d, node, args: d.last_day(args[0], node.args[0].type),
}
