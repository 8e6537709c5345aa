"""Owner's view: what each limit would keep, and which values bounds, types and categories leave out.

Exact numbers of protected rows, **not private**: for the owner of the data, on the owner's own terminal. ``tacit
doctor`` and ``tacit init`` print them there, say so, and write them nowhere. Numbers that follow from them and are put
into a project file become public; AUTO finds such numbers privately.

Tables of a database server or of Spark are not read here: their rows would leave the database.
"""

# ruff: noqa: S608 - names are quoted, values are bound

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError
from tacit.engines.registry import open_unprotected
from tacit.mechanisms.laplace import Laplace
from tacit.project.csv_guess import near_values, spelled
from tacit.project.source import Source, column_types
from tacit.query.canonical_unit import ROW
from tacit.query.catalog import Catalog, Column, Table
from tacit.query.types import TEXT, Kind, SqlType

if TYPE_CHECKING:
    import duckdb

    from tacit.project.project_file import Project

NOT_PRIVATE: Final = "Not private: exact numbers of protected rows, for the owner's eyes. Do not pass them on."
#: Choices that are shown, until one keeps everything.
_CHOICES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Columns of categories by which a person's groups are counted.
_MOST_KEYS: Final = 3
#: Values of a column that are compared with its categories, and how many are shown.
_MOST_VALUES: Final = 10_000
_MOST_NEAR: Final = 5
#: Expected errors are those of a count at this price.
EPSILON: Final = "1"
_BETA: Final = Fraction(1, 20)


@dataclass(frozen=True, slots=True)
class LimitChoice:
    """One choice of a limit.

    Args:
        number: of rows or groups of a person that count.
        kept: share of the rows, or of the pairs of person and group, that count.
        whole: share of the people of whom everything counts.
        error: of a count at epsilon 1, exceeded once in 20 times.
    """

    number: int
    kept: float
    whole: float
    error: int

    def __str__(self) -> str:
        return f"{self.number}: {_percent(self.kept)} kept, {_percent(self.whole)} of people whole, ±{self.error:,}"


@dataclass(frozen=True, slots=True)
class ColumnLoss:
    """Values of a column that an answer reads otherwise than they are stored; shares of all rows.

    Args:
        name: of the column.
        outside: beyond its bounds: counted as the nearest bound.
        unreadable: not of its type: read as NULL.
        unlisted: not among its categories: in no group.
        missing: NULL, in a column of categories without NULL: in no group.
        near: values not among its categories that differ from one in case, accents or spaces alone, each with it; of
            a text without categories, values that differ from another in this way, each with that.
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
    """A protected table, its limits and its losses, in exact numbers.

    Args:
        table: its name.
        rows: that belong to a person.
        people: who have any.
        by_rows: what each ``max_rows`` keeps of an answer without groups; empty where a person has one row.
        by_groups: what each ``max_groups`` keeps of an answer by a column of categories, by its name.
        losses: columns with values that are not read as they are stored.
    """

    table: str
    rows: int
    people: int
    by_rows: tuple[LimitChoice, ...]
    by_groups: Mapping[str, tuple[LimitChoice, ...]]
    losses: tuple[ColumnLoss, ...]

    def lines(self) -> Iterator[str]:
        """The whole view in words."""
        yield f"{self.table}: {self.rows:,} rows of {self.people:,} people"
        for choice in self.by_rows:
            yield f"  max_rows = {choice} (a count at epsilon {EPSILON})"
        for key, choices in self.by_groups.items():
            for choice in choices:
                yield f"  max_groups = {choice} (people by {key} at epsilon {EPSILON})"
        for loss in self.losses:
            yield f"  {loss}"


def owner_views(project: Project) -> Iterator[RowsKept]:
    """The protected tables of a project whose rows are in files or frames, in order."""
    read = {name: source for name, source in project.sources.items() if not source.is_elsewhere}
    tables = [table for table in project.catalog.tables if not table.public]
    if project.engine != "duckdb" or len(read) < len(project.sources):
        return
    with open_unprotected(project.catalog, read) as connection:
        for table in tables:
            yield _view(connection, project.catalog, table, read)


def rows_kept(project: Project, name: str) -> RowsKept | None:
    """The view of one protected table without its losses; None where its rows are in a database, or it is public."""
    table = project.catalog.table(name)
    elsewhere = any(source.is_elsewhere for source in project.sources.values())
    if table is None or table.public or elsewhere or project.engine != "duckdb":
        return None
    catalog = _narrowed(project.catalog, table)
    with reading_rows(catalog, project.sources) as connection:
        return _view(connection, catalog, catalog.table(name) or table, project.sources, losses=False)


def _narrowed(catalog: Catalog, table: Table) -> Catalog:
    """A catalog with the columns that units and groups of a table need; reading a line takes time for each column."""
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
    """A database whose views are the tables of a catalog, for the owner alone.

    Raises:
        InputError: the rows cannot be read.
    """
    import duckdb

    try:
        with open_unprotected(catalog, sources) as connection:
            yield connection
    except duckdb.Error:
        raise InputError("source", "cannot be read as declared; tacit doctor says more") from None


def draft_choices(source: Source, unit: str) -> tuple[LimitChoice, ...]:
    """Choices of ``max_rows`` for a file whose column ``unit`` names the person."""
    stored = column_types(source, "source")
    kind = TEXT if stored is None else stored.get(unit) or TEXT
    table = Table("draft", (Column("unit", kind, stored=unit),), public=True)
    with open_unprotected(Catalog((table,)), {"draft": source}) as connection:
        return _choices(_histogram(connection, "SELECT unit AS u FROM draft"))


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
        return RowsKept(table.name, rows, rows, (), {}, lost)
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
    return RowsKept(table.name, total, sum(counts.values()), () if single else _choices(counts), by_groups, lost)


def _owned(catalog: Catalog, table: Table) -> tuple[str, str]:
    """The unit of a row of a table, which is ``t0``, and the joins that lead to it."""
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
    """Number of people by number of rows."""
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
    """The shares of the rows of a column that are read otherwise than they are stored."""
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
    # What cannot be read is NULL; it is counted once.
    shares[3] = max(shares[3] - shares[1], 0.0)
    outside_share, unreadable_share, unlisted_share, missing_share = shares
    is_free = column.categories is None and column.name.lower() != (table.unit or "").lower()
    near = _near(connection, table, column) if found_rows[1] or is_free else ()
    return ColumnLoss(column.name, outside_share, unreadable_share, unlisted_share, missing_share, near)


def _near(connection: duckdb.DuckDBPyConnection, table: Table, column: Column) -> tuple[tuple[str, str], ...]:
    """Some values of a text that are nearly one of its categories, or without categories nearly another value."""
    if column.type != TEXT:
        return ()
    categories = {spelled(str(value)): str(value) for value in column.categories or () if value is not None}
    name = _quoted(column.name)
    asked = (
        f"SELECT DISTINCT {name} FROM {_quoted(table.name)} WHERE {name} IS NOT NULL ORDER BY 1 LIMIT {_MOST_VALUES}"
    )
    values = [str(value) for (value,) in connection.execute(asked).fetchall()]
    if column.categories is None:
        return tuple((other, first) for first, other, *_ in near_values(values))[:_MOST_NEAR]
    listed = set(categories.values())
    found = [(v, categories[spelled(v)]) for v in values if v not in listed and spelled(v) in categories]
    return tuple(found[:_MOST_NEAR])


def _texts(table: Table, column: Column, source: Source) -> int:
    """Number of texts in a column that are not empty; 0 where it is not stored as text, or declared to be text."""
    stored = column_types(source, table.name)
    is_text = source.kind == "csv" if stored is None else stored.get(column.stored_name) == TEXT
    if column.type == TEXT or not is_text:
        return 0
    plain = Table("texts", (Column(column.name, TEXT, stored=column.stored),), public=True)
    with open_unprotected(Catalog((plain,)), {"texts": source}) as connection:
        name = _quoted(column.name)
        return int(connection.execute(f"SELECT count(*) FROM texts WHERE trim({name}) <> ''").fetchall()[0][0])


def _in_categories(column: Column, source: str = "t0.") -> tuple[str, list[Any]]:
    """Whether a row has a listed value, and the values of the placeholders."""
    values = [_stored(value, column.type) for value in column.categories or () if value is not None]
    name = f"{source}{_quoted(column.name)}"
    listed = f"{name} IN ({', '.join('?' * len(values))})" if values else "false"
    return (f"({listed} OR {name} IS NULL)" if None in (column.categories or ()) else listed), values


def _stored(value: Any, kind: SqlType) -> Any:
    """A declared value as the views hold it: decimals are whole numbers of their last digit."""
    if kind.kind is Kind.DECIMAL:
        return int(Fraction(value) * 10**kind.scale)
    return float(value) if kind.kind is Kind.DOUBLE else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _percent(share: float) -> str:
    return "100 %" if share == 1 else f"{min(100 * share, 99.9):.1f} %" if share >= 0.001 else "under 0.1 %"
