"""Time zones: clocks of named places, from and to UTC, as expressions of constants.

A TIMESTAMP has no zone; ``x AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'`` is the clock of Berlin at the time x in
UTC, and with the zones exchanged it is the time in UTC when the clock of Berlin shows x. Of a time that a clock shows
twice, because it is set back, the later one is meant, and a time that it skips is counted on from the clock before, as
PostgreSQL and DuckDB do: after a change to the offset b at the time T in UTC, the offset of x is b from T + b on.

The offsets of a zone are looked up while planning, in the zone database of this machine, and become a CASE over the
times at which clocks are changed: every engine computes the same from constants, no engine's own zones are read,
and the plan says which offsets were used. Clock changes from 1970 to 2037 are known; before and after, the offset is
that of the nearest end.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from tacit.query import limits
from tacit.query.refusal import Refusal
from tacit.query.relational.expressions import Expression, Literal, literal, size
from tacit.query.relational.functions import call, case, cast
from tacit.query.types import INTEGER, TIMESTAMP

_UTC: Final = ("UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}\Z")
_FIRST: Final = dt.datetime(1970, 1, 1)
_LAST: Final = dt.datetime(2038, 1, 1)
_DAY: Final = dt.timedelta(days=1)
#: Times from which a clock is moved by so many seconds, ascending; the first holds before it too.
_Moves = tuple[tuple[dt.datetime, int], ...]
_UNMOVED: Final[_Moves] = ((dt.datetime.min, 0),)


def is_utc(zone: str) -> bool:
    """Whether a name stands for UTC."""
    return zone.upper() in _UTC


def between_clocks(value: Expression, zones: Sequence[str]) -> Expression:
    """A time led from the clock of the first zone to that of the second, from that of the third to the fourth, ….

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
    # Before it is built: calls within calls would multiply.
    limits.check_size(len(moves) * size(time), limits.MAX_EXPRESSION, "parts in one clause")
    return call("add_seconds", time, _offset(time, moves))


def between_zones(value: Expression, zones: Sequence[Expression]) -> Expression:
    """The clock of the second zone when that of the first shows ``value``.

    Raises:
        Refusal: a zone is not a name that is written out, and as :func:`between_clocks`.
    """
    names = [zone.value for zone in zones if isinstance(zone, Literal) and isinstance(zone.value, str)]
    if len(names) != len(zones):
        raise Refusal("literal", "Time zones are names that are written out, such as 'Europe/Berlin'.")
    return between_clocks(value, names)


def _one_after_another(first: _Moves, second: _Moves) -> _Moves:
    """Both moves of a time as one: where the first moves by a, the second's changes are met a earlier."""
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
    """The times in UTC from which an offset in seconds holds, the first for all times before the next.

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
        following = day + _DAY
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


def _offset(time: Expression, changes: _Moves) -> Expression:
    """The offset at a time, by halving."""
    if len({seconds for _, seconds in changes}) == 1:
        return literal(changes[0][1], INTEGER)
    middle = len(changes) // 2
    before = call("lt", time, literal(changes[middle][0], TIMESTAMP))
    return case([(before, _offset(time, changes[:middle]))], _offset(time, changes[middle:]))
