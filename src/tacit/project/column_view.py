"""Owner's view of a column: a histogram with the share that bounds keep, the values with the share categories keep.

Exact numbers of protected rows, **not private**, as in :mod:`.owner_view`: for the owner of the data, on the owner's
own screen. They are written nowhere. Of a table of PostgreSQL the first rows are read (:func:`brought_near`), by the
role of the project; tables of Spark are not.
"""

# ruff: noqa: S608 - names are quoted, values are bound

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.engines.registry import first_values
from tacit.project.csv_guess import spelled
from tacit.project.owner_view import reading_rows
from tacit.project.source import Source
from tacit.query.catalog import Catalog, Column, Table
from tacit.query.types import TEXT, Kind, SqlType

if TYPE_CHECKING:
    import duckdb

#: Rows of a table of a database that are read for a picture.
MOST_ROWS: Final = 50_000
_BINS: Final = 48
#: Values that are listed with their counts, and letters of each that are shown.
_MOST_VALUES: Final = 200
_MOST_LETTERS: Final = 120
#: Values compared with each other and with categories.
_MOST_COMPARED: Final = 10_000
_DAY_SECONDS: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class BoundChoice:
    """Bounds of round numbers and the share of the values within them."""

    low: str
    high: str
    kept: float


@dataclass(frozen=True, slots=True)
class ColumnHistogram:
    """Values of a column of numbers, dates or timestamps; places of the last two are days, counted as Python does.

    Args:
        rows: of the table.
        values: rows with one that can be read.
        edges: ends of the bins, one more than there are counts.
        counts: values in each bin.
        outside: values below the first and above the last edge.
        clipped: share of the values below and above the bounds; None where there are none.
        choices: bounds of round numbers, the narrowest first.
        is_time: whether places are days.
    """

    rows: int
    values: int
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    outside: tuple[int, int]
    clipped: tuple[float, float] | None
    choices: tuple[BoundChoice, ...]
    is_time: bool


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """The different values of a column.

    Args:
        rows: of the table.
        missing: rows without a value.
        different: number of different values.
        values: the most frequent ones with their rows.
        unlisted: share of the rows whose value is not among the categories; None where there are none.
        near: values that differ from another, or from a category, in case, accents or spaces alone, each with that.
    """

    rows: int
    missing: int
    different: int
    values: tuple[tuple[str, int], ...]
    unlisted: float | None
    near: tuple[tuple[str, str], ...]

    @property
    def can_be_listed(self) -> bool:
        """Whether all values are here as they are, each on one line."""
        whole = all(len(text) < _MOST_LETTERS and text.isprintable() for text, _ in self.values)
        return 0 < self.different == len(self.values) and whole


@dataclass(frozen=True, slots=True)
class UnitFacts:
    """A column as the one that names the person: rows, rows without a name, people, and the most rows of one."""

    rows: int
    missing: int
    people: int
    most: int


def brought_near(engine: Any, source: Source, column: Column) -> Source:
    """A source that can be looked at: itself, or the column in the first rows of a table of PostgreSQL.

    Raises:
        InputError: the table cannot be read, or it is Spark's.
    """
    if not source.is_elsewhere:
        return source
    found = first_values(engine, source.path or "", column, MOST_ROWS) if source.kind == "table" else None
    if found is None:
        raise InputError("source", "is not looked at here: a session of Spark would have to be started for each look")
    return Source.of_frame(found)


def unit_facts(source: Source, column: Column) -> UnitFacts:
    """Check a column that names the person.

    Raises:
        InputError: the source cannot be read here.
    """
    with _opened(source, column) as connection:
        each = "SELECT count(*) AS n FROM t WHERE v IS NOT NULL GROUP BY v"
        rows, named = connection.execute("SELECT count(*), count(v) FROM t").fetchall()[0]
        people, most = connection.execute(f"SELECT count(*), coalesce(max(n), 0) FROM ({each})").fetchall()[0]
    return UnitFacts(rows, rows - named, people, most)


def histogram(source: Source, column: Column) -> ColumnHistogram | None:
    """The histogram of an ordered column; None where no value of it can be read.

    Raises:
        InputError: the source cannot be read here.
    """
    place = _place_of(column.type)
    is_time = column.type.is_temporal
    bounds = None if column.bounds is None else tuple(place_of_value(end) for end in column.bounds)
    with _opened(source, column) as connection:
        inner = f"SELECT {place} AS x FROM t"
        read = f"(SELECT x FROM ({inner}) WHERE x IS NOT NULL AND isfinite(x))"
        (rows,) = connection.execute("SELECT count(*) FROM t").fetchall()[0]
        ends = connection.execute(
            f"SELECT count(*), min(x), max(x), quantile_disc(x, 0.01), quantile_disc(x, 0.5), quantile_disc(x, 0.99) "
            f"FROM {read}"
        ).fetchall()[0]
        values, least, most, first, middle, last = ends
        if not values:
            return None
        low, high = _span(least, most, first, last, bounds)
        low, high, width, number = _bins(low, high, whole=column.type.kind in (Kind.INTEGER, Kind.DATE))
        bins = dict(
            connection.execute(
                f"SELECT least(greatest(floor((x - ?) / ?), -1), {number})::INTEGER AS b, count(*) FROM {read} "
                f"WHERE x <> ? GROUP BY b",
                [low, width, high],
            ).fetchall()
        )
        (on_edge,) = connection.execute(f"SELECT count(*) FROM {read} WHERE x = ?", [high]).fetchall()[0]
        bins[number - 1] = bins.get(number - 1, 0) + on_edge
        clipped = None if bounds is None else _clipped(connection, read, bounds, values)
        choices = () if is_time else _choices(connection, read, least, middle, most, values)
    edges = (*(low + n * width for n in range(number)), high)
    counts = tuple(bins.get(n, 0) for n in range(number))
    return ColumnHistogram(
        rows, values, edges, counts, (bins.get(-1, 0), bins.get(number, 0)), clipped, choices, is_time
    )


def column_values(source: Source, column: Column) -> ColumnValues:
    """The values of a column as text, the most frequent first.

    Raises:
        InputError: the source cannot be read here.
    """
    shown = _text_of(column.type)
    with _opened(source, column) as connection:
        rows, present, different = connection.execute("SELECT count(*), count(v), count(DISTINCT v) FROM t").fetchall()[
            0
        ]
        found = connection.execute(
            f"SELECT {shown} AS s, count(*) AS n FROM t WHERE v IS NOT NULL GROUP BY v, s "
            f"ORDER BY n DESC, s LIMIT {_MOST_COMPARED}"
        ).fetchall()
    listed = None
    if column.categories is not None:
        listed = {_category_text(value, column.type) for value in column.categories if value is not None}
    unlisted = None
    if listed is not None:
        within = sum(count for text, count in found if text in listed)
        within += rows - present if None in (column.categories or ()) else 0
        unlisted = (rows - within) / max(rows, 1)
    near = _near([text for text, _ in found], listed) if column.type == TEXT else ()
    values = tuple((text[:_MOST_LETTERS], count) for text, count in found[:_MOST_VALUES])
    return ColumnValues(rows, rows - present, different, values, unlisted, near)


@contextmanager
def _opened(source: Source, column: Column) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which ``t`` has the column ``v`` of a source, read as the DuckDB engine does."""
    if source.is_elsewhere:
        raise InputError("source", "is in a database, and was not brought near")
    for file in source.files:
        if not file.is_file():
            raise InputError("source", f"there is no file {file.name}")
    table = Table("t", (Column("v", column.type, stored=column.stored_name, step=column.step),), public=True)
    with reading_rows(Catalog((table,)), {"t": source}) as connection:
        yield connection


def _place_of(kind: SqlType) -> str:
    """A value as a floating-point number, for a picture."""
    if kind.kind is Kind.DECIMAL:
        return f"v::DOUBLE / {10**kind.scale}"
    if kind.is_temporal:
        return f"epoch(v::TIMESTAMP) / {_DAY_SECONDS} + {_EPOCH}"
    return "v::DOUBLE"


def _text_of(kind: SqlType) -> str:
    return f"printf('%.{kind.scale}f', v::DOUBLE / {10**kind.scale})" if kind.kind is Kind.DECIMAL else "v::VARCHAR"


def _category_text(value: Any, kind: SqlType) -> str:
    if kind.kind is Kind.DECIMAL:
        return f"{float(value):.{kind.scale}f}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def place_of_value(value: Any) -> float:
    """A number, a date or a timestamp as a place on the axis of a histogram."""
    if isinstance(value, dt.datetime):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return value.toordinal() + seconds / _DAY_SECONDS
    return float(value.toordinal()) if isinstance(value, dt.date) else float(value)


def _span(
    least: float, most: float, first: float, last: float, bounds: tuple[float, ...] | None
) -> tuple[float, float]:
    """Ends of the picture: nearly all values and the bounds; a few values far out do not decide it."""
    inner = [first, last, *(bounds or ())]
    low, high = min(inner), max(inner)
    room = 0.15 * (high - low)
    low, high = (least if least >= low - room else low - room / 3), (most if most <= high + room else high + room / 3)
    low, high = min(low, *inner), max(high, *inner)
    if not high > low:
        reach = max(abs(low) / 2, 0.5)
        return low - reach, high + reach
    return low, high


def _bins(low: float, high: float, *, whole: bool) -> tuple[float, float, float, int]:
    """Ends, width and number of the bins; of whole numbers and days each has as many."""
    if not whole:
        return low, high, (high - low) / _BINS, _BINS
    first, last = math.floor(low), math.ceil(high)
    width = max(-(-(last - first + 1) // _BINS), 1)
    number = -(-(last - first + 1) // width)
    return first - 0.5, first - 0.5 + number * width, float(width), number


def _clipped(
    connection: duckdb.DuckDBPyConnection, read: str, bounds: Sequence[float], values: int
) -> tuple[float, float]:
    counted = "SELECT count(*) FILTER (WHERE x < ?), count(*) FILTER (WHERE x > ?)"
    below, above = connection.execute(f"{counted} FROM {read}", list(bounds)).fetchall()[0]
    return below / values, above / values


def _choices(
    connection: duckdb.DuckDBPyConnection, read: str, least: float, middle: float, most: float, values: int
) -> tuple[BoundChoice, ...]:
    """Round bounds, from the first above the middle to the first that keeps everything."""
    reach = max(abs(least), abs(most))
    start = max(abs(middle), reach / 10**6, 10.0**-9)
    if not reach:
        return ()
    found: list[BoundChoice] = []
    for power in range(math.floor(math.log10(start)), math.ceil(math.log10(reach)) + 1):
        for each in (1, 2, 5):
            high = each * 10.0**power
            if high < start:
                continue
            low = 0.0 if least >= 0 else -high
            (kept,) = connection.execute(
                f"SELECT count(*) FROM {read} WHERE x BETWEEN ? AND ?", [low, high]
            ).fetchall()[0]
            if found and found[-1].kept == kept / values:
                continue
            found.append(BoundChoice(_plain(low), _plain(high), kept / values))
            if kept == values:
                return tuple(found[-8:])
    return tuple(found[-8:])


def _plain(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 1 or number == 0 else f"{number:.9f}".rstrip("0")


def _near(values: Sequence[str], listed: set[str] | None) -> tuple[tuple[str, str], ...]:
    """Values that are nearly a category, or without categories nearly a more frequent value."""
    known: dict[str, str] = {spelled(text): text for text in sorted(listed or ())}
    found = []
    for text in values:
        other = known.get(spelled(text)) if listed is not None else known.setdefault(spelled(text), text)
        if other is not None and other != text and text not in (listed or ()):
            found.append((text[:_MOST_LETTERS], other[:_MOST_LETTERS]))
    return tuple(found[:20])
