"""Owner's view: the share of rows that each limit keeps, and the values that bounds, types and categories leave out.

Exact numbers of protected rows, **not private**: for the owner of the data, on the owner's terminal. ``tacit
doctor`` prints them there with a warning, and writes them nowhere. Numbers that are derived from them
and put into a project file become public; AUTO finds such numbers privately.

Tables of a database server or of Spark are not read here: their rows would leave the database.
"""

# ruff: noqa: S608 - names are quoted, values are bound

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.engines.registry import open_unprotected
from tacit.mechanisms.laplace import Laplace
from tacit.project.draft import near_pairs
from tacit.project.source import Source, column_types
from tacit.query.catalog import ROW, Catalog, Column, Table
from tacit.query.types import TEXT, Kind, SqlType

if TYPE_CHECKING:
    import duckdb

    from tacit.project.project_file import Project


NOT_PRIVATE: Final = "Not private: exact numbers of protected rows, for the owner's eyes. Do not pass them on."
#: Limits that are shown, up to the first that keeps everything.
_CHOICES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Maximal number of columns of categories by which a person's groups are counted.
_MOST_KEYS: Final = 3
#: Maximal numbers of a column's values that are compared with its categories, and of pairs that are shown.
_MOST_VALUES: Final = 10_000
_MOST_NEAR: Final = 5
#: The errors shown are those of a count at this epsilon.
EPSILON: Final = "1"
_BETA: Final = Fraction(1, 20)
_BINS: Final = 48
#: Maximal number of values that are listed with their counts, and of characters of each.
_MOST_LISTED: Final = 200
_MOST_LETTERS: Final = 120
#: Maximal number of values compared with each other and with categories.
_MOST_COMPARED: Final = 10_000
_DAY_SECONDS: Final = 86_400
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class LimitChoice:
    """One value of a contribution bound, and what it keeps.

    Args:
        number: maximal number of rows or groups per person.
        kept: share of the rows, or of the pairs of person and group, that count.
        whole: share of the people all of whose rows or groups count.
        error: error of a count at epsilon 1, exceeded with probability 1/20.
    """

    number: int
    kept: float
    whole: float
    error: int

    def __str__(self) -> str:
        return f"{self.number}: {_percent(self.kept)} kept, {_percent(self.whole)} of people whole, ±{self.error:,}"


@dataclass(frozen=True, slots=True)
class ColumnLoss:
    """Values of a column that an answer reads differently from how they are stored, as shares of all rows.

    Args:
        name: name of the column.
        outside: beyond its bounds: clipped to the nearest bound.
        unreadable: not of its type: read as NULL.
        unlisted: not among its categories: in no group.
        missing: NULL, in a column of categories without NULL: in no group.
        near: pairs of a value that is not a category and a category from which it differs only in case, accents or
            spaces; for text without categories, pairs of two values.
    """

    name: str
    outside: float = 0.0
    unreadable: float = 0.0
    unlisted: float = 0.0
    missing: float = 0.0
    near: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return any((self.outside, self.unreadable, self.unlisted, self.missing, self.near))

    def __str__(self) -> str:
        parts = (
            (self.outside, "outside its bounds, counted as the nearest"),
            (self.unreadable, "unreadable as its type, read as NULL"),
            (self.unlisted, "not among its categories, in no group"),
            (self.missing, "NULL, in no group"),
        )
        said = "; ".join(f"{_percent(share)} {words}" for share, words in parts if share)
        near = ", ".join(f"{value!r} is nearly {category!r}" for value, category in self.near)
        mended = f"{near}; write it so in the data, or list it" if near else ""
        return f"{self.name}: {': '.join(filter(None, (said, mended)))}"


@dataclass(frozen=True, slots=True)
class RowsKept:
    """A protected table, its contribution bounds and its losses, in exact numbers.

    Args:
        table: its name.
        rows: number of rows that belong to a person.
        missing: number of rows that belong to none.
        people: number of people with rows.
        by_rows: choices of ``max_rows`` for an answer without groups; empty if each person has one row.
        by_groups: choices of ``max_groups`` for an answer grouped by a column of categories, by its name.
        losses: columns with values that are read differently from how they are stored.
    """

    table: str
    rows: int
    missing: int
    people: int
    by_rows: tuple[LimitChoice, ...]
    by_groups: Mapping[str, tuple[LimitChoice, ...]]
    losses: tuple[ColumnLoss, ...]

    def lines(self) -> Iterator[str]:
        yield f"{self.table}: {self.rows:,} rows of {self.people:,} people"
        if self.missing:
            yield f"  {self.missing:,} rows belong to no person and count in no answer"
        for choice in self.by_rows:
            yield f"  max_rows = {choice} (a count at epsilon {EPSILON})"
        for key, choices in self.by_groups.items():
            for choice in choices:
                yield f"  max_groups = {choice} (people by {key} at epsilon {EPSILON})"
        for loss in self.losses:
            yield f"  {loss}"


def owner_views(project: Project) -> Iterator[RowsKept]:
    """Yield the views of the protected tables of a project whose rows are all in files or frames, in order."""
    read = {name: source for name, source in project.sources.items() if not source.is_elsewhere}
    tables = [table for table in project.catalog.tables if not table.public]
    if project.engine != "duckdb" or len(read) < len(project.sources):
        return
    with open_unprotected(project.catalog, read) as connection:
        for table in tables:
            yield _view(connection, project.catalog, table, read)


def rows_kept(project: Project, name: str) -> RowsKept | None:
    """Return the view of one protected table without its losses; None if it is public, or rows are in a database."""
    table = project.catalog.table(name)
    elsewhere = any(source.is_elsewhere for source in project.sources.values())
    if table is None or table.public or elsewhere or project.engine != "duckdb":
        return None
    catalog = _narrowed(project.catalog, table)
    with reading_rows(catalog, project.sources) as connection:
        return _view(connection, catalog, catalog.table(name) or table, project.sources, losses=False)


def _narrowed(catalog: Catalog, table: Table) -> Catalog:
    """Return a catalog with only the columns that units and groups of a table need: reading takes time per column."""
    wanted = {(other.name.lower(), (other.unit or "").lower()) for other in catalog.tables}
    for other in catalog.tables:
        for key in other.foreign_keys:
            wanted |= {(other.name.lower(), key.column.lower()), (key.table.lower(), key.references.lower())}
    keys = [column.name for column in table.columns if column.categories is not None][: _MOST_KEYS + 1]
    wanted |= {(table.name.lower(), name.lower()) for name in keys}
    tables = []
    for other in catalog.tables:
        columns = tuple(c for c in other.columns if (other.name.lower(), c.name.lower()) in wanted)
        tables.append(replace(other, columns=columns or other.columns[:1]))
    return replace(catalog, tables=tuple(tables))


@contextmanager
def reading_rows(catalog: Catalog, sources: Mapping[str, Source]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database whose views are the tables of a catalog, for the owner alone.

    Raises:
        InputError: the rows cannot be read.
    """
    import duckdb

    try:
        with open_unprotected(catalog, sources) as connection:
            yield connection
    except duckdb.Error:
        raise InputError("source", "cannot be read as declared; tacit doctor says more") from None


def _view(
    connection: duckdb.DuckDBPyConnection,
    catalog: Catalog,
    table: Table,
    sources: Mapping[str, Source],
    *,
    losses: bool = True,
) -> RowsKept:
    (rows,), *_ = connection.execute(f"SELECT count(*) FROM {_quoted(table.name)}").fetchall()
    columns = table.columns if losses else ()
    lost = tuple(filter(None, (_loss(connection, table, column, sources[table.name]) for column in columns)))
    if table.unit == ROW:
        return RowsKept(table.name, rows, 0, rows, (), {}, lost)
    unit, joined = _owned(catalog, table)
    counts = _histogram(connection, f"SELECT {unit} AS u FROM {joined}")
    keys = [c for c in table.columns if c.categories is not None and c.name.lower() != (table.unit or "").lower()]
    groups = {}
    for column in keys[:_MOST_KEYS]:
        listed = _in_categories(column)
        pairs = f"SELECT DISTINCT {unit} AS u, t0.{_quoted(column.name)} FROM {joined} WHERE {listed[0]}"
        groups[column.name] = _choices(_histogram(connection, pairs, listed[1]))
    single = max(counts, default=1) <= 1
    total = sum(number * people for number, people in counts.items())
    by_groups = {name: choices for name, choices in groups.items() if len(choices) > 1}
    choices = () if single else _choices(counts)
    return RowsKept(table.name, total, rows - total, sum(counts.values()), choices, by_groups, lost)


def _owned(catalog: Catalog, table: Table) -> tuple[str, str]:
    """Return the SQL of the unit of a table's row, where the table is ``t0``, and the joins that lead to it."""
    joined, here = f"{_quoted(table.name)} AS t0", 0
    owner = table
    for key in catalog.path_to_unit(table):
        found = catalog.table(key.table)
        if found is None:
            break
        condition = f"t{here}.{_quoted(key.column)} = t{here + 1}.{_quoted(key.references)}"
        joined += f" JOIN {_quoted(found.name)} AS t{here + 1} ON {condition}"
        here, owner = here + 1, found
    return f"t{here}.{_quoted(owner.unit or '')}", joined


def _histogram(connection: duckdb.DuckDBPyConnection, owned: str, values: Sequence[Any] = ()) -> Counter[int]:
    """Return the number of people for each number of rows."""
    each = f"SELECT count(*) AS n FROM ({owned}) WHERE u IS NOT NULL GROUP BY u"
    found = connection.execute(f"SELECT n, count(*) FROM ({each}) GROUP BY n", list(values)).fetchall()
    return Counter(dict(found))


def _choices(counts: Counter[int]) -> tuple[LimitChoice, ...]:
    people, rows, most = sum(counts.values()), sum(n * c for n, c in counts.items()), max(counts, default=0)
    found = []
    for number in _CHOICES:
        kept = sum(min(n, number) * c for n, c in counts.items())
        whole = sum(c for n, c in counts.items() if n <= number)
        error = Laplace(epsilon=EPSILON, l1_sensitivity=number).error(beta=_BETA)
        found.append(LimitChoice(number, kept / max(rows, 1), whole / max(people, 1), int(error)))
        if number >= most:
            break
    return tuple(found)


def _loss(connection: duckdb.DuckDBPyConnection, table: Table, column: Column, source: Source) -> ColumnLoss:
    """Return the shares of a column's values that are read differently from how they are stored."""
    name, values = _quoted(column.name), []
    outside = unlisted = missing = "false"
    if column.bounds is not None:
        outside = f"{name} < ? OR {name} > ?"
        values += [_stored(end, column.type) for end in column.bounds]
    if column.categories is not None:
        listed, found = _in_categories(column, "")
        unlisted = f"{name} IS NOT NULL AND NOT coalesce({listed}, false)"
        values += found
        missing = "false" if None in column.categories else f"{name} IS NULL"
    counted = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in (outside, unlisted, missing))
    asked = f"SELECT count(*), count({name}), {counted} FROM {_quoted(table.name)}"
    rows, read, *found_rows = connection.execute(asked, values).fetchall()[0]
    unreadable = _texts(table, column, source) - read
    shares = [count / max(rows, 1) for count in (found_rows[0], max(unreadable, 0), found_rows[1], found_rows[2])]
    # Unreadable values are NULL; they are counted once.
    shares[3] = max(shares[3] - shares[1], 0.0)
    outside_share, unreadable_share, unlisted_share, missing_share = shares
    is_free = column.categories is None and column.name.lower() != (table.unit or "").lower()
    near = _near(connection, table, column) if found_rows[1] or is_free else ()
    return ColumnLoss(column.name, outside_share, unreadable_share, unlisted_share, missing_share, near)


def _near(connection: duckdb.DuckDBPyConnection, table: Table, column: Column) -> tuple[tuple[str, str], ...]:
    """Return some values of a text column that are nearly a category, or without categories nearly another value."""
    if column.type != TEXT:
        return ()
    name = _quoted(column.name)
    asked = (
        f"SELECT DISTINCT {name} FROM {_quoted(table.name)} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {_MOST_VALUES}"
    )
    values = [str(value) for (value,) in connection.execute(asked).fetchall()]
    listed = None if column.categories is None else [str(each) for each in column.categories if each is not None]
    return tuple(near_pairs(values, listed)[:_MOST_NEAR])


def _texts(table: Table, column: Column, source: Source) -> int:
    """Return the number of nonempty texts in a column; 0 if it is declared as text, or not stored as text."""
    stored = column_types(source, table.name)
    is_text = source.kind == "csv" if stored is None else stored.get(column.stored_name) == TEXT
    if column.type == TEXT or not is_text:
        return 0
    plain = Table("texts", (Column(column.name, TEXT, stored=column.stored),), public=True)
    with open_unprotected(Catalog((plain,)), {"texts": source}) as connection:
        name = _quoted(column.name)
        return int(connection.execute(f"SELECT count(*) FROM texts WHERE trim({name}) <> ''").fetchall()[0][0])


def _in_categories(column: Column, source: str = "t0.") -> tuple[str, list[Any]]:
    """Return the SQL condition that a row has a listed value, and the values of its placeholders."""
    values = [_stored(value, column.type) for value in column.categories or () if value is not None]
    name = f"{source}{_quoted(column.name)}"
    listed = f"{name} IN ({', '.join('?' * len(values))})" if values else "false"
    return (f"({listed} OR {name} IS NULL)" if None in (column.categories or ()) else listed), values


def _stored(value: Any, kind: SqlType) -> Any:
    """Return a declared value as the views hold it: decimals are integers, in units of their last digit."""
    if kind.kind is Kind.DECIMAL:
        return int(Fraction(value) * 10**kind.scale)
    return float(value) if kind.kind is Kind.DOUBLE else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _percent(share: float) -> str:
    if share in (0, 1):
        return f"{100 * share:.0f} %"
    return f"{min(100 * share, 99.9):.1f} %" if share >= 0.001 else "under 0.1 %"


@dataclass(frozen=True, slots=True)
class BoundChoice:
    """A choice of round clipping bounds, and the share of the values within them."""

    low: str
    high: str
    kept: float


@dataclass(frozen=True, slots=True)
class ColumnHistogram:
    """Histogram of a column of numbers, dates or timestamps; the unit of dates and timestamps is an ordinal day.

    Args:
        rows: number of rows of the table.
        values: number of rows with a readable value.
        edges: ends of the bins, one more than there are counts.
        counts: number of values in each bin.
        outside: numbers of values below the first and above the last edge.
        clipped: shares of the values below and above the bounds; None without bounds.
        choices: choices of round bounds, the narrowest first.
        is_time: whether the unit of the edges is a day, counted as ``datetime.date.toordinal`` does.
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
    """The distinct values of a column.

    Args:
        rows: number of rows of the table.
        missing: number of rows without a value.
        different: number of distinct values.
        values: the most frequent values with their numbers of rows.
        unlisted: share of the rows whose value is not among the categories; None without categories.
        near: pairs of a value and another value, or a category, that differ only in case, accents or spaces.
    """

    rows: int
    missing: int
    different: int
    values: tuple[tuple[str, int], ...]
    unlisted: float | None
    near: tuple[tuple[str, str], ...]

    @property
    def can_be_listed(self) -> bool:
        """Whether all values are listed here, unshortened and each on one line."""
        whole = all(len(text) < _MOST_LETTERS and text.isprintable() for text, _ in self.values)
        return 0 < self.different == len(self.values) and whole


def histogram(source: Source, column: Column) -> ColumnHistogram | None:
    """Return the histogram of an ordered column; None if none of its values can be read.

    Raises:
        InputError: the source cannot be read here.
    """
    place = "v::DOUBLE"
    if column.type.kind is Kind.DECIMAL:
        place = f"v::DOUBLE / {10**column.type.scale}"
    elif column.type.is_temporal:
        place = f"epoch(v::TIMESTAMP) / {_DAY_SECONDS} + {_EPOCH}"
    read = f"(SELECT x FROM (SELECT {place} AS x FROM t) WHERE x IS NOT NULL AND isfinite(x))"
    bounds = None if column.bounds is None else (place_of_value(column.bounds[0]), place_of_value(column.bounds[1]))
    with _opened(source, column) as connection:

        def rows_of(sql: str, *values: float) -> list[Any]:
            return connection.execute(sql, list(values)).fetchall()

        def share(condition: str, *values: float) -> float:
            return float(rows_of(f"SELECT count(*) FROM {read} WHERE {condition}", *values)[0][0] / number)

        ((rows,),) = rows_of("SELECT count(*) FROM t")
        quantiles = ", ".join(f"quantile_disc(x, {each})" for each in (0.01, 0.5, 0.99))
        ((number, least, most, first, middle, last),) = rows_of(
            f"SELECT count(*), min(x), max(x), {quantiles} FROM {read}"
        )
        if not number:
            return None
        low, high = _span(least, most, first, last, bounds)
        low, high, width, many = _bins(low, high, whole=column.type.kind in (Kind.INTEGER, Kind.DATE))
        # A value at the upper end is in the last bin.
        bins = dict(
            rows_of(
                f"SELECT if(x = ?, {many - 1}, least(greatest(floor((x - ?) / ?), -1), {many}))::INTEGER AS b, "
                f"count(*) FROM {read} GROUP BY b",
                high, low, width,
            )
        )  # fmt: skip
        clipped = None if bounds is None else (share("x < ?", bounds[0]), share("x > ?", bounds[1]))
        choices = () if column.type.is_temporal else _bound_choices(share, least, middle, most)
    edges = (*(low + n * width for n in range(many)), high)
    counts = tuple(bins.get(n, 0) for n in range(many))
    outside = bins.get(-1, 0), bins.get(many, 0)
    return ColumnHistogram(rows, number, edges, counts, outside, clipped, choices, column.type.is_temporal)


def column_values(source: Source, column: Column) -> ColumnValues:
    """Return the values of a column as text, the most frequent first.

    Raises:
        InputError: the source cannot be read here.
    """
    kind = column.type
    shown = f"printf('%.{kind.scale}f', v::DOUBLE / {10**kind.scale})" if kind.kind is Kind.DECIMAL else "v::VARCHAR"
    with _opened(source, column) as connection:
        ((rows, present, different),) = connection.execute(
            "SELECT count(*), count(v), count(DISTINCT v) FROM t"
        ).fetchall()
        found = connection.execute(
            f"SELECT {shown} AS s, count(*) AS n FROM t WHERE v IS NOT NULL GROUP BY v, s "
            f"ORDER BY n DESC, s LIMIT {_MOST_COMPARED}"
        ).fetchall()
    listed = unlisted = None
    if column.categories is not None:
        listed = {_category_text(value, kind) for value in column.categories if value is not None}
        within = sum(count for text, count in found if text in listed)
        within += rows - present if None in column.categories else 0
        unlisted = (rows - within) / max(rows, 1)
    near = near_pairs((text for text, _ in found), listed)[:20] if kind == TEXT else []
    return ColumnValues(
        rows,
        rows - present,
        different,
        tuple((text[:_MOST_LETTERS], count) for text, count in found[:_MOST_LISTED]),
        unlisted,
        tuple((text[:_MOST_LETTERS], other[:_MOST_LETTERS]) for text, other in near),
    )


@contextmanager
def _opened(source: Source, column: Column) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection in which ``t`` has the column ``v`` of a source, read as the DuckDB engine reads it."""
    for file in source.files:
        if not file.is_file():
            raise InputError("source", f"there is no file {file.name}")
    table = Table("t", (Column("v", column.type, stored=column.stored_name, step=column.step),), public=True)
    with reading_rows(Catalog((table,)), {"t": source}) as connection:
        yield connection


def _category_text(value: Any, kind: SqlType) -> str:
    if kind.kind is Kind.DECIMAL:
        return f"{float(value):.{kind.scale}f}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def place_of_value(value: Any) -> float:
    """Return a number, a date or a timestamp as a coordinate on the axis of a histogram."""
    if isinstance(value, dt.datetime):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return value.toordinal() + seconds / _DAY_SECONDS
    return float(value.toordinal()) if isinstance(value, dt.date) else float(value)


def _span(
    least: float, most: float, first: float, last: float, bounds: tuple[float, ...] | None
) -> tuple[float, float]:
    """Return the ends of the histogram: nearly all values and the bounds; a few outliers do not extend it."""
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
    """Return ends, width and number of the bins; for integers and dates every bin holds equally many."""
    if not whole:
        return low, high, (high - low) / _BINS, _BINS
    first, last = math.floor(low), math.ceil(high)
    width = max(-(-(last - first + 1) // _BINS), 1)
    number = -(-(last - first + 1) // width)
    return first - 0.5, first - 0.5 + number * width, float(width), number


def _bound_choices(share: Callable[..., float], least: float, middle: float, most: float) -> tuple[BoundChoice, ...]:
    """Return choices of round bounds, from the first above the median to the first that keeps everything."""
    reach = max(abs(least), abs(most))
    start = max(abs(middle), reach / 10**6, 10.0**-9)
    found: list[BoundChoice] = []
    powers = range(math.floor(math.log10(start)), math.ceil(math.log10(reach)) + 1) if reach else ()
    for high in (each * 10.0**power for power in powers for each in (1, 2, 5)):
        if high < start:
            continue
        low = 0.0 if least >= 0 else -high
        kept = share("x BETWEEN ? AND ?", low, high)
        if not found or found[-1].kept != kept:
            found.append(BoundChoice(_plain(low), _plain(high), kept))
        if kept == 1:
            break
    return tuple(found[-8:])


def _plain(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 1 or number == 0 else f"{number:.9f}".rstrip("0")
