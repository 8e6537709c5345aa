"""Dates and timestamps: arithmetic on whole days and microseconds since 1970, then a check of the years 1 to 9999."""

from __future__ import annotations

import datetime as dt

from tacit.engines.duckdb.functions.shape import Args, Lowering, plain, word_argument
from tacit.engines.duckdb.spelling import constant, let
from tacit.query.expressions import Call
from tacit.query.types import DATE, SqlType

__all__ = ["LOWERINGS", "days", "from_days", "from_microseconds", "microseconds", "within_years"]

_EPOCH = dt.date(1970, 1, 1).toordinal()
_DAYS = (dt.date.min.toordinal() - _EPOCH, dt.date.max.toordinal() - _EPOCH)
_DAY = 86_400_000_000
_MICROSECONDS = (_DAYS[0] * _DAY, (_DAYS[1] + 1) * _DAY - 1)
#: Further than any date can move and stay a date.
_FAR_DAYS, _FAR_MONTHS = 4_000_000, 120_000
_SIZES = {"day": _DAY, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def days(value: str) -> str:
    """A DATE as days since 1970."""
    return f"CAST({value} - DATE '1970-01-01' AS BIGINT)"


def microseconds(value: str) -> str:
    """A TIMESTAMP as microseconds since 1970."""
    return f"epoch_us({value})"


def from_days(value: str) -> str:
    """Days since 1970 as DATE."""
    low, high = _DAYS
    return let(
        value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN DATE '1970-01-01' + CAST({v} AS INTEGER) END"
    )


def from_microseconds(value: str) -> str:
    """Microseconds since 1970 as TIMESTAMP."""
    low, high = _MICROSECONDS
    return let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN make_timestamp({v}) END")


def within_years(value: str, kind: SqlType) -> str:
    """NULL for infinities and beyond the years 1 to 9999."""
    ends = (dt.date.min, dt.date.max) if kind == DATE else (dt.datetime.min, dt.datetime.max)
    low, high = (constant(end, kind) for end in ends)
    return let(value, lambda v: f"CASE WHEN {v} BETWEEN {low} AND {high} THEN {v} END")


def _near(value: str, far: int) -> str:
    return let(value, lambda v: f"CASE WHEN {v} BETWEEN -{far} AND {far} THEN {v} END")


def _part(name: str) -> Lowering:
    return plain(f"CAST({name}({{0}}) AS BIGINT)")


def _clock(name: str) -> Lowering:
    def lower(node: Call, args: Args) -> str:
        if node.args[0].type == DATE:
            return f"CASE WHEN {args[0]} IS NOT NULL THEN CAST(0 AS BIGINT) END"
        return f"CAST({name}({args[0]}) AS BIGINT)"

    return lower


def _truncated(node: Call, args: Args) -> str:
    unit = word_argument(node, 0)
    return f"CAST(date_trunc('{unit}', {args[1]}) AS {'DATE' if node.type == DATE else 'TIMESTAMP'})"


def _difference(node: Call, args: Args) -> str:
    unit, kind = word_argument(node, 0), node.args[1].type
    first, second = args[1:]
    if unit in _MONTHS:
        return f"({_month_number(second, _MONTHS[unit])} - {_month_number(first, _MONTHS[unit])})"
    if kind == DATE:
        return f"(({days(second)} - {days(first)}) * {_DAY // _SIZES[unit]})"
    # Counted from the year 1 on numbers are not negative, and whole-number division is a floor.
    start, size = -_MICROSECONDS[0], _SIZES[unit]
    return f"(({microseconds(second)} + {start}) // {size} - ({microseconds(first)} + {start}) // {size})"


def _month_number(value: str, size: int) -> str:
    return let(value, lambda v: f"(CAST(year({v}) AS BIGINT) * 12 + month({v}) - 1) // {size}")


def _add_days(node: Call, args: Args) -> str:
    count = _near(args[1], _FAR_DAYS)
    if node.type == DATE:
        return from_days(f"{days(args[0])} + {count}")
    return from_microseconds(f"{microseconds(args[0])} + {count} * {_DAY}")


def _add_seconds(node: Call, args: Args) -> str:  # noqa: ARG001 - one shape for all lowerings
    return from_microseconds(f"{microseconds(args[0])} + {_near(args[1], _FAR_DAYS * 86_400)} * 1000000")


def _add_months(node: Call, args: Args) -> str:
    moved = f"{args[0]} + to_months(CAST({_near(args[1], _FAR_MONTHS)} AS INTEGER))"
    kind = "DATE" if node.type == DATE else "TIMESTAMP"
    return within_years(f"CAST({moved} AS {kind})", node.type)


def _make_date(node: Call, args: Args) -> str:  # noqa: ARG001
    parts = [
        let(arg, lambda v, most=most: f"CASE WHEN {v} BETWEEN 1 AND {most} THEN CAST({v} AS VARCHAR) END")  # type: ignore[misc]
        for arg, most in zip(args, (9999, 12, 31), strict=True)
    ]
    year, month, day = parts
    return f"TRY_CAST(lpad({year}, 4, '0') || '-' || lpad({month}, 2, '0') || '-' || lpad({day}, 2, '0') AS DATE)"


LOWERINGS: dict[str, Lowering] = {
    "year": _part("year"),
    "quarter": _part("quarter"),
    "month": _part("month"),
    "week": _part("week"),
    "day": _part("day"),
    "dayofweek": _part("dayofweek"),
    "isodow": _part("isodow"),
    "dayofyear": _part("dayofyear"),
    "hour": _clock("hour"),
    "minute": _clock("minute"),
    "second": _clock("second"),
    "date_trunc": _truncated,
    "date_diff": _difference,
    "add_days": _add_days,
    "add_seconds": _add_seconds,
    "add_months": _add_months,
    "make_date": _make_date,
    "last_day": plain("CAST(last_day({0}) AS DATE)"),
}
