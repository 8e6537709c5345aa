"""Times in SQL text: functions, intervals, formats and time zones.

An INTERVAL is not a value: it moves a date or a timestamp, or is compared with the difference of two timestamps, which
is a number of seconds.

*Zones.* A TIMESTAMP has no zone; ``x AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'`` is the clock of Berlin at the
time x in UTC, and with the zones exchanged it is the time in UTC when the clock of Berlin shows x. A time that a clock
shows twice, because it is set back, means the later one, and a time that it skips is read with the offset before the
change, as in PostgreSQL and DuckDB: after a change to the offset b at the time T in UTC, the offset of x is b from T +
b on.

The offsets of a zone are looked up while planning, in the zone database of this machine, and become a CASE over the
times at which clocks are changed: every engine computes the same from constants, no engine's own zones are read,
and the plan says which offsets were used. Clock changes from 1970 to 2037 are known; before and after, the offset is
that of the nearest end.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from sqlglot import exp

from tacit.query import limits
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal, literal, size
from tacit.query.relational.functions import call, case, cast
from tacit.query.relational.functions.dates import format_parts, has_clock
from tacit.query.types import DATE, INTEGER, TEXT, TIMESTAMP, SqlType

# -- time zones

_UTC: Final = ("UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}\Z")
_FIRST: Final = dt.datetime(1970, 1, 1)
_LAST: Final = dt.datetime(2038, 1, 1)
_ONE_DAY: Final = dt.timedelta(days=1)
#: Shifts of a clock: (time, seconds), ascending; a shift applies from its time on, the first one also before.
_Moves = tuple[tuple[dt.datetime, int], ...]
_UNMOVED: Final[_Moves] = ((dt.datetime.min, 0),)


def is_utc(zone: str) -> bool:
    """Whether a name stands for UTC."""
    return zone.upper() in _UTC


def between_clocks(value: Expression, zones: Sequence[str]) -> Expression:
    """Convert a time from the clock of the first zone to that of the second, then from the third to the fourth, ….

    All steps together are one CASE: a CASE of a CASE would hold the inner one at every clock change of the outer.

    Raises:
        Refusal: there is no such zone, the value is no time, or it is so long that the CASE would be too large.
    """
    if not value.type.is_temporal:
        raise Refusal("type", f"AT TIME ZONE needs a TIMESTAMP, not {value.type}.")
    time, moves = cast(value, TIMESTAMP), _UNMOVED
    for place, zone in enumerate(zones):
        if not is_utc(zone):
            changes = changes_of(zone)
            if place % 2 == 0:
                changes = tuple((moment + dt.timedelta(seconds=by), -by) for moment, by in changes)
            moves = _one_after_another(moves, changes)
    if moves == _UNMOVED:
        return time
    # Checked before the CASE is built: nested calls would multiply.
    limits.check_size(len(moves) * size(time), limits.MAX_EXPRESSION, "parts in one clause")
    return call("add_seconds", time, _zone_offset(time, moves))


def between_zones(value: Expression, zones: Sequence[Expression]) -> Expression:
    """Return what the clock of the second zone shows when that of the first shows ``value``.

    Raises:
        Refusal: a zone is not a name that is written out, and as :func:`between_clocks`.
    """
    names = [zone.value for zone in zones if isinstance(zone, Literal) and isinstance(zone.value, str)]
    if len(names) != len(zones):
        raise Refusal("literal", "Time zones are names that are written out, such as 'Europe/Berlin'.")
    return between_clocks(value, names)


def _one_after_another(first: _Moves, second: _Moves) -> _Moves:
    """Compose two shifts: where the first shifts by a, the changes of the second apply a earlier."""
    found: list[tuple[dt.datetime, int]] = []
    for (start, by), (end, _) in zip(first, (*first[1:], (dt.datetime.max, 0)), strict=True):
        shift = dt.timedelta(seconds=by)
        begins = [dt.datetime.min, *(moment - shift for moment, _ in second[1:]), dt.datetime.max]
        for (low, high), (_, more) in zip(pairwise(begins), second, strict=True):
            begin = max(start, low)
            if begin < min(end, high) and (not found or found[-1][1] != by + more):
                found.append((begin, by + more))
    return tuple(found)


@lru_cache(maxsize=64)
def changes_of(zone: str) -> _Moves:
    """Return the UTC offsets of a zone as (time in UTC, seconds); the first also holds for all times before.

    Raises:
        Refusal: there is no such zone.
    """
    try:
        if not _NAME.match(zone):
            raise ValueError(zone)
        rules = ZoneInfo(zone)
    except (ValueError, KeyError, OSError):
        raise Refusal(
            "literal", f"There is no time zone {zone[:40]!r}; write a name such as 'Europe/Berlin', or 'UTC'."
        ) from None

    def offset(moment: dt.datetime) -> int:
        found = moment.replace(tzinfo=dt.UTC).astimezone(rules).utcoffset()
        return 0 if found is None else int(found.total_seconds())

    changes = [(_FIRST, offset(_FIRST))]
    day = _FIRST
    while day < _LAST:
        following = day + _ONE_DAY
        after = offset(following)
        if after != changes[-1][1]:
            # A zone changes its clocks at most once a day; halve the day down to the second.
            low, high = day, following
            while high - low > dt.timedelta(seconds=1):
                middle = low + dt.timedelta(seconds=int((high - low).total_seconds()) // 2)
                low, high = (low, middle) if offset(middle) == after else (middle, high)
            changes.append((high, after))
        day = following
    return tuple(changes)


def _zone_offset(time: Expression, changes: _Moves) -> Expression:
    """Return the offset at a time, as a CASE that bisects the changes."""
    if len({seconds for _, seconds in changes}) == 1:
        return literal(changes[0][1], INTEGER)
    middle = len(changes) // 2
    before = call("lt", time, literal(changes[middle][0], TIMESTAMP))
    return case([(before, _zone_offset(time, changes[:middle]))], _zone_offset(time, changes[middle:]))


# -- functions of time that are composed of other functions


@dataclass(frozen=True)
class Composed:
    """A function composed of others: its number of arguments, and a builder of its expression."""

    count: int | tuple[int, int]
    build: Callable[..., Expression]


#: Functions for parts of a date, by the names that EXTRACT and DATE_PART use.
PARTS: Final[dict[str, str]] = {
    "year": "year", "years": "year", "yr": "year", "isoyear": "isoyear",
    "quarter": "quarter", "quarters": "quarter",
    "month": "month", "months": "month", "mon": "month",
    "week": "week", "weeks": "week", "weekofyear": "week",
    "day": "day", "days": "day", "dayofmonth": "day",
    "dow": "dayofweek", "dayofweek": "dayofweek", "weekday": "dayofweek",
    "isodow": "isodow", "dayofweekiso": "isodow", "dayofweek_iso": "isodow",
    "doy": "dayofyear", "dayofyear": "dayofyear",
    "hour": "hour", "hours": "hour", "minute": "minute", "minutes": "minute", "second": "second", "seconds": "second",
    "epoch": "epoch",
}  # fmt: skip
_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000
#: Microseconds from the year 1 to 1970: minutes and days begin there, before every timestamp.
_BEFORE: Final = 62_135_596_800 * _SECOND


def _whole(number: int) -> Literal:
    return literal(number, INTEGER)


def part_of(part: str, value: Expression) -> Expression:
    """Return EXTRACT(part FROM value)."""
    if part.lower() not in PARTS:
        raise Refusal("arguments", f"EXTRACT knows {', '.join(sorted({*PARTS.values()}))}.")
    return call(PARTS[part.lower()], value)


def part_of_difference(part: str, later: Expression, earlier: Expression) -> Expression:
    """Return EXTRACT(part FROM later - earlier) of timestamps: whole days; hours, minutes and seconds of the rest."""
    word = part.lower().rstrip("s")
    if word == "epoch":
        return call("seconds_between", later, earlier)
    sizes = {"day": (0, _DAY), "hour": (_DAY, _HOUR), "minute": (_HOUR, _MINUTE), "second": (_MINUTE, _SECOND)}
    if word not in sizes:
        raise Refusal(
            "arguments",
            "EXTRACT knows epoch, day, hour, minute and second of a difference; use EXTRACT(YEAR FROM AGE(a, b)) or "
            "DATE_DIFF('month', b, a).",
        )
    whole, size = sizes[word]
    between = call("sub", call("epoch_us", later), call("epoch_us", earlier))
    return call("int_div", call("mod", between, _whole(whole)) if whole else between, _whole(size))


def part_of_age(part: str, later: Expression, earlier: Expression) -> Expression:
    """Return EXTRACT(part FROM AGE(later, earlier)): complete years, or the complete months beyond them."""
    word = part.lower().rstrip("s")
    if word not in ("year", "month"):
        raise Refusal(
            "arguments",
            "EXTRACT knows year and month of an AGE; write EXTRACT(DAY FROM a - b) or DATE_DIFF('day', b, a).",
        )
    months = call("date_diff", literal("month", TEXT), earlier, later)
    end, begin = (_place_in_month(side) for side in (later, earlier))
    forward = call("sub", months, case([(call("lt", end, begin), _whole(1))], _whole(0)))
    backward = call("add", months, case([(call("gt", end, begin), _whole(1))], _whole(0)))
    age = case([(call("ge", later, earlier), forward)], backward)
    return call("int_div" if word == "year" else "mod", age, _whole(12))


def _place_in_month(value: Expression) -> Expression:
    day = call("day", value)
    if value.type == DATE:
        return day
    clock = call("mod", call("add", call("epoch_us", value), _whole(_BEFORE)), _whole(_DAY))
    return call("add", call("mul", day, _whole(_DAY)), clock)


# -- intervals


class Span(NamedTuple):
    """A length of time: months (whose length varies), days and seconds."""

    months: int = 0
    days: int = 0
    seconds: int = 0

    @property
    def fixed(self) -> int:
        """Length in seconds.

        Raises:
            Refusal: it has months or years.
        """
        if self.months:
            raise Refusal("literal", "Months and years have no fixed length; write the interval in days.")
        return self.days * 86_400 + self.seconds


_UNITS: Final = {
    "year": Span(months=12), "yr": Span(months=12), "quarter": Span(months=3), "month": Span(months=1),
    "mon": Span(months=1), "week": Span(days=7), "day": Span(days=1), "hour": Span(seconds=3600),
    "minute": Span(seconds=60), "min": Span(seconds=60), "second": Span(seconds=1), "sec": Span(seconds=1),
}  # fmt: skip
_AMOUNT = r"[+-]?\d{1,7}"


def _unit(name: str) -> Span:
    word = name.lower()
    found = _UNITS.get(word) or _UNITS.get(word.rstrip("s"))
    if found is None:
        raise _no_interval()
    return found


def _no_interval() -> Refusal:
    units = ", ".join(unit for unit in _UNITS if unit not in ("yr", "mon", "min", "sec"))
    return Refusal("literal", f"Write an interval as INTERVAL 'n' unit, n whole and the unit one of {units}.")


def _times(unit: Span, count: int) -> Span:
    return Span(*(part * count for part in unit))


def interval_of(node: exp.Interval) -> Span:
    """Return the length that an INTERVAL states: ``'3' DAY``, ``'3 days'`` or ``'1 day 2 hours'``."""
    text = node.this.name if isinstance(node.this, exp.Literal) else ""
    if node.args.get("unit") is not None:
        if not re.fullmatch(_AMOUNT, text):
            raise _no_interval()
        return _times(_unit(node.args["unit"].name), int(text))
    words, total = text.split(), Span()
    if not words or len(words) % 2:
        raise _no_interval()
    for amount, unit in zip(words[::2], words[1::2], strict=True):
        if not re.fullmatch(_AMOUNT, amount):
            raise _no_interval()
        total = Span(*(a + b for a, b in zip(total, _times(_unit(unit), int(amount)), strict=True)))
    return total


def moved(value: Expression, span: Span, sign: int, count: Expression | None = None) -> Expression:
    """Return a date or timestamp moved by a length, ``count`` times: months first, then days, then seconds."""
    if not value.type.is_temporal and value.type.kind.value != "null":
        raise Refusal("type", f"An interval can be added to a DATE or a TIMESTAMP, not to {value.type}.")
    for function, length in zip(("add_months", "add_days", "add_seconds"), span, strict=True):
        if length:
            by = _whole(sign * length)
            value = call(function, value, by if count is None else call("mul", count, by))
    return value


Resolve = Callable[[exp.Expr], Expression]
#: Functions that take an interval, or the bare name of a unit.
INTERVAL_CALLS: Final = frozenset(
    (
        "date_add",
        "date_sub",
        "dateadd",
        "timestampadd",
        "timestamp_add",
        "timestamp_sub",
        "datetime_add",
        "datetime_sub",
    )
)


def interval_call(name: str, args: Sequence[exp.Expr], resolve: Resolve) -> Expression:
    """Resolve DATE_ADD, DATE_SUB or DATEADD; ``resolve`` resolves arguments that are values."""
    sign = -1 if name.endswith("_sub") else 1
    if name in ("dateadd", "timestampadd") and len(args) == 3:
        return moved(resolve(args[2]), _unit(args[0].name), sign, resolve(args[1]))
    if len(args) == 2 and isinstance(args[1], exp.Interval):
        return moved(resolve(args[0]), interval_of(args[1]), sign)
    raise Refusal("arguments", f"{name.upper()} takes a date and an interval, such as INTERVAL '3' DAY.")


#: Units that mean the same in every database when written without quotes; weeks begin on different days, and days
#: of the week are counted from different ones.
_BARE_UNITS: Final = frozenset(("year", "quarter", "month", "day", "hour", "minute", "second"))
#: Functions to which other databases pass the bare name of a unit, first or last.
UNIT_CALLS: Final = frozenset(
    (
        "datepart",
        "date_part",
        "datediff",
        "date_diff",
        "date_trunc",
        "datetrunc",
        "timestamp_trunc",
        "timestamp_diff",
        "datetime_diff",
    )
)
#: Functions to which some databases pass the unit first, and others last.
_EITHER_END: Final = frozenset(("date_diff", "date_trunc"))


def unit_call(name: str, args: Sequence[exp.Expr], resolve: Resolve) -> Expression | None:
    """Resolve DATEPART(month, x), DATEDIFF(day, a, b), DATE_DIFF(b, a, DAY), DATE_TRUNC(x, MONTH) and similar calls.

    None where no unit stands without quotes.

    Raises:
        Refusal: the unit differs from database to database.
    """
    first, last = (_bare_name(args[place]) for place in (0, -1)) if args else ("", "")
    leads = first in _UNIT_WORDS
    # A unit in quotes means that the bare name is a column, as in DATE_TRUNC('month', day).
    if (not leads and last not in _UNIT_WORDS) or any(arg.is_string for arg in args[:1]):
        return None
    if leads and last in _UNIT_WORDS and name in _EITHER_END and len(args) > 1:
        raise Refusal(
            "arguments",
            f"{name.upper()} takes its unit first in some databases and last in others, and {first} and {last} are "
            f"both units; write it in quotes, as in {name.upper()}('{last}', …), or the column as table.{first}.",
        )
    leads = leads and name not in ("timestamp_trunc", "timestamp_diff", "datetime_diff")
    unit, rest = (first, args[1:]) if leads else (last, args[:-1])
    if name == "timestamp_diff" and len(rest) == 2:
        return _complete_units(unit, *map(resolve, rest))
    if name in ("datediff", "date_diff", "datetime_diff") and len(rest) == 2:
        return call("date_diff", literal(_told_alike(name, unit), TEXT), *map(resolve, rest if leads else rest[::-1]))
    if name in ("date_trunc", "datetrunc", "timestamp_trunc") and len(rest) == 1:
        return call("date_trunc", literal(_told_alike(name, unit), TEXT), resolve(rest[0]))
    if name in ("datepart", "date_part") and leads and len(rest) == 1:
        return part_of(_told_alike(name, unit), resolve(rest[0]))
    return None


def _complete_units(unit: str, later: Expression, earlier: Expression) -> Expression:
    """Return TIMESTAMP_DIFF(later, earlier, unit): the number of complete units, rounded towards zero."""
    sizes = {"microsecond": 1, "millisecond": 1000, "second": _SECOND, "minute": _MINUTE, "hour": _HOUR, "day": _DAY}
    if unit not in sizes or not later.type.is_temporal or not earlier.type.is_temporal:
        raise Refusal("arguments", f"TIMESTAMP_DIFF takes two timestamps and one of {', '.join(sizes).upper()}.")
    between = call("sub", *(call("epoch_us", cast(side, TIMESTAMP)) for side in (later, earlier)))
    return call("int_div", between, _whole(sizes[unit])) if sizes[unit] > 1 else between


def _bare_name(node: exp.Expr) -> str:
    plain = isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted")
    return node.name.lower() if plain else ""


_UNIT_WORDS: Final = frozenset((*PARTS, "isoweek", "millisecond", "microsecond"))


def _told_alike(name: str, unit: str) -> str:
    word = "week" if unit == "isoweek" else unit.rstrip("s")
    if word == "week" and name.endswith("diff"):
        return word
    if word not in _BARE_UNITS and unit != "isoweek":
        raise Refusal(
            "arguments",
            f"{name.upper()} with {unit.upper()} differs from database to database; write it in quotes, as in "
            "DATE_TRUNC('week', x), where weeks begin on Monday, or EXTRACT(ISODOW FROM x), which counts from Monday.",
        )
    return word


# -- names and formats


def _by_pattern(
    name: str,
    make: Callable[[str, Expression, str], Expression],
    read: Callable[[str], str] = str,
    *,
    first: bool = False,
) -> Composed:
    """Return a function of a value and a format, which comes first in some databases."""

    def made(one: Expression, other: Expression) -> Expression:
        value, pattern = (other, one) if first else (one, other)
        return make(name, value, read(_pattern(name, pattern)))

    return Composed(2, made)


def _in_format(name: str, value: Expression, signs: str) -> Expression:
    if not value.type.is_temporal:
        raise Refusal("type", f"{name.upper()} needs a DATE or TIMESTAMP, not {value.type}; cast the value first.")
    if value.type == TIMESTAMP and not has_clock(format_parts(signs)):
        # A day has few values, which can be public keys.
        value = cast(value, DATE)
    return call("strftime", value, literal(signs, TEXT))


def _pattern(name: str, node: Expression) -> str:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        raise Refusal("arguments", f"{name.upper()}: the format is a text, written out.")
    return node.value


_LETTERS: Final = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}


def signs_of_letters(pattern: str) -> str:
    """Return a format such as DD.MM.YYYY HH24:MI:SS in the directives of STRPTIME."""
    signs = re.sub("|".join(_LETTERS), lambda found: _LETTERS[found[0]], pattern.upper())
    if "%" in pattern or re.search(r"(?<!%)[A-SU-Z]", signs):
        raise Refusal(
            "literal", f"Of formats of letters {', '.join(_LETTERS)} are read; STRPTIME(x, '%Y-%m-%d') has signs."
        )
    return signs


_FIELDS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "f": 6}
_SEPARATORS: Final = frozenset(" -/.:,T")


def _read(name: str, value: Expression, pattern: str, kind: SqlType) -> Expression:
    """Parse a text of fixed field widths: reorder it to ISO 8601 and cast it; NULL for any other text."""
    places: dict[str, tuple[int, int]] = {}
    shape, at = "", 1
    for part in format_parts(pattern):
        width = _FIELDS.get(part.sign, 0) if part.sign else len(part.text)
        plain = part.padded and part.sign not in places and width > 0
        if not plain or (not part.sign and not set(part.text) <= _SEPARATORS):
            raise Refusal(
                "literal",
                f"{name.upper()} reads %Y %m %d %H %M %S %f, each once and with all of its digits, "
                "between signs out of ' -/.:,T'.",
            )
        if part.sign:
            places[part.sign] = (at, width)
        shape += "_" * width if part.sign else part.text
        at += width
    if (
        not {"Y", "m", "d"} <= set(places)
        or ("f" in places and "S" not in places)
        or ("S" in places and "M" not in places)
    ):
        raise Refusal(
            "literal", f"{name.upper()} needs year, month and day, and no finer part without the coarser ones."
        )
    if ("M" in places) != ("H" in places):
        raise Refusal("literal", f"{name.upper()} reads hours with minutes.")

    def field(sign: str) -> Expression:
        return call("substring", value, *(_whole(number) for number in places[sign]))

    pieces: list[Expression] = [field("Y")]
    before = {"m": "-", "d": "-", "H": " ", "M": ":", "S": ":", "f": "."}
    for sign, separator in before.items():
        if sign in places:
            pieces += [literal(separator, TEXT), field(sign)]
    text = call("join_text", *pieces)
    moment = cast(text, TIMESTAMP if "H" in places else DATE)
    return case([(call("like", value, literal(shape, TEXT)), cast(moment, kind))], literal(None, kind))


def _to_time(name: str, kind: SqlType) -> Composed:
    """Return TO_DATE or TO_TIMESTAMP: of text in a format of letters, of ISO 8601 text, or of seconds since 1970."""

    def made(value: Expression, pattern: Expression | None = None) -> Expression:
        if pattern is not None:
            return _read(name, value, signs_of_letters(_pattern(name, pattern)), kind)
        return _from_epoch(value) if kind == TIMESTAMP and value.type.is_numeric else cast(value, kind)

    return Composed((1, 2), made)


def _from_epoch(seconds: Expression) -> Expression:
    if seconds.type != INTEGER:
        raise Refusal("type", "A timestamp is made of whole seconds since 1970; use FLOOR or a CAST to INTEGER.")
    return call("add_seconds", literal(dt.datetime(1970, 1, 1), TIMESTAMP), seconds)


def _age(later: Expression, earlier: Expression | None = None) -> Expression:
    del later
    if earlier is None:
        raise Refusal("volatile", "AGE of one date counts up to today; write AGE(DATE '2024-12-31', x) instead.")
    raise Refusal(
        "type", "AGE is an interval, which is no value here; write EXTRACT(YEAR FROM AGE(a, b)), or a - b for seconds."
    )


def _date_part(part: Expression, value: Expression) -> Expression:
    if not isinstance(part, Literal) or part.type != TEXT:
        raise Refusal("arguments", "DATE_PART takes the name of a part, written out, and a date.")
    return part_of(str(part.value), value)


#: Functions that are composed of other functions, by SQL name.
TIME_FUNCTIONS: Final[dict[str, Composed]] = {
    **dict.fromkeys(("date_part", "datepart"), Composed(2, _date_part)),
    "monthname": Composed(1, lambda value: _in_format("monthname", value, "%B")),
    "dayname": Composed(1, lambda value: _in_format("dayname", value, "%A")),
    "strftime": _by_pattern("strftime", _in_format),
    "to_char": _by_pattern("to_char", _in_format, signs_of_letters),
    "format_date": _by_pattern("format_date", _in_format, first=True),
    "format_timestamp": _by_pattern("format_timestamp", _in_format, first=True),
    "strptime": _by_pattern("strptime", partial(_read, kind=TIMESTAMP)),
    "try_strptime": _by_pattern("try_strptime", partial(_read, kind=TIMESTAMP)),
    "parse_date": _by_pattern("parse_date", partial(_read, kind=DATE), first=True),
    "parse_timestamp": _by_pattern("parse_timestamp", partial(_read, kind=TIMESTAMP), first=True),
    "to_date": _to_time("to_date", DATE),
    "to_timestamp": _to_time("to_timestamp", TIMESTAMP),
    "age": Composed((1, 2), _age),
    "date": Composed(1, lambda value: cast(value, DATE)),
    "convert_timezone": Composed(3, lambda start, end, time: between_zones(time, (start, end))),
}


# -- arithmetic of times in sql text

_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def times_added(left: Expression, right: Expression, sign: int) -> Expression | None:
    """Return a sum (``sign`` 1) or difference (-1) with a date or a time; None for numbers."""
    if left.type.is_temporal and right.type.is_temporal and sign == -1:
        if left.type == DATE and right.type == DATE:
            return call("date_diff", literal("day", TEXT), right, left)
        return call("seconds_between", left, right)
    if left.type == DATE and right.type == INTEGER:
        return call("add_days", left, right if sign == 1 else call("neg", right))
    if right.type == DATE and left.type == INTEGER and sign == 1:
        return call("add_days", right, left)
    return None


def shifted(value: exp.Expr, by: exp.Interval, sign: int, resolve: Resolve) -> Expression:
    """Return a time moved by an interval."""
    if isinstance(by.this, exp.Literal):
        return moved(resolve(value), interval_of(by), sign)
    if by.args.get("unit") is None:
        raise Refusal("literal", "Write an interval as INTERVAL 'n' unit, or INTERVAL (x) unit.")
    return moved(resolve(value), _unit(by.args["unit"].name), sign, resolve(by.this))


def beside_interval(left: exp.Expr, right: exp.Expr, function: str, resolve: Resolve) -> Expression:
    """Compare a difference of timestamps with an interval, both in seconds."""
    sides: list[Expression] = []
    for side in (left, right):
        if isinstance(side, exp.Interval):
            sides.append(literal(interval_of(side).fixed, INTEGER))
            continue
        times = _difference(side, resolve)
        if times is None or function not in _COMPARISONS:
            raise Refusal(
                "type", "An interval can be added to a date, or compared with the difference of two timestamps."
            )
        sides.append(call("seconds_between", *times))
    return call(function, *sides)


def _difference(node: exp.Expr, resolve: Resolve) -> tuple[Expression, Expression] | None:
    """Return both sides of a difference of times, at least one of them a TIMESTAMP; None for any other node."""
    node = node.unnest()
    if not isinstance(node, exp.Sub) or isinstance(node.expression, exp.Interval):
        return None
    left, right = resolve(node.this), resolve(node.expression)
    temporal = left.type.is_temporal and right.type.is_temporal
    return (left, right) if temporal and TIMESTAMP in (left.type, right.type) else None


def part_at(part: str, node: exp.Expr, resolve: Resolve) -> Expression:
    """Return a part of a time, of a difference of times or of an age."""
    inner = node.unnest()
    if isinstance(inner, exp.Anonymous) and inner.name.lower() == "age" and len(inner.expressions) == 2:
        return part_of_age(part, *(resolve(side) for side in inner.expressions))
    times = _difference(inner, resolve)
    return part_of(part, resolve(node)) if times is None else part_of_difference(part, *times)


def at_zone(node: exp.AtTimeZone, resolve: Resolve) -> Expression:
    """Resolve AT TIME ZONE: each pair of zones converts from the clock of the first to that of the second."""
    zones: list[str] = []
    here: exp.Expr = node
    while isinstance(here, (exp.AtTimeZone, exp.Paren)):
        if isinstance(here, exp.AtTimeZone):
            zone = here.args["zone"]
            zones.insert(0, zone.name if isinstance(zone, exp.Literal) and zone.is_string else "")
        here = here.this
    # A single zone turns the time into an instant; only UTC leaves it unchanged.
    instant = zones.pop() if len(zones) % 2 else "UTC"
    if not all(zones) or not is_utc(instant):
        raise Refusal(
            "unsupported",
            "A TIMESTAMP here has no zone; say in which it is, such as UTC, and then whose clock is wanted, both "
            "written out: x AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'.",
        )
    return between_clocks(resolve(here), zones)
