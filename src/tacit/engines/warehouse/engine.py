"""Engine without data: writes the statements of queries, and reads the integers that came back.

One statement measures everything. Its rows are ``statistic`` (a digest of the aggregation, or ``trial``), ``part`` (the
number of a statement or a trial), ``g`` (the number of a group), ``place`` (of a spread measure) and whole numbers
``n0``, ``n1``, … as text, so that no client rounds them. Groups are numbered, and must be declared: a statement that
leaves the house holds no private key and brings none back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tacit.core.canonical import digest_of
from tacit.core.errors import InputError
from tacit.engines.protocol import Engine, Marks, Measurements, MeasurementTask, SourceLike
from tacit.engines.sql.dialect import Dialect
from tacit.engines.sql.engine import Answered, read_measurements
from tacit.engines.sql.group_choice import Groups
from tacit.engines.sql.relations import StoredTable
from tacit.engines.sql.statements import Statement
from tacit.engines.warehouse.dialects import printed, trials, writer_of
from tacit.query.canonical_unit import ROW
from tacit.query.catalog import Catalog, Column, Table
from tacit.query.query import FinalAggregation
from tacit.query.refusal import Refusal
from tacit.query.relational.algebra import RelationNode, scanned
from tacit.query.types import Kind, Value

_TRIAL: Final = "trial"
_COLUMNS: Final = ("statistic", "part", "g", "place")
_WHOLE: Final = re.compile(r"-?[0-9]{1,38}\Z")


@dataclass(frozen=True)
class Counts:
    """Integers that came back: rows by statistic and part; their trials have passed."""

    rows: Mapping[tuple[str, int], Sequence[tuple[int, int | None, tuple[int, ...]]]]


class WarehouseEngine(Engine):
    """Tables that somebody else reads.

    Args:
        catalog: the tables, whose types are all declared.
        sources: their names in the warehouse.
        counts: integers that came back; None until then.
    """

    def __init__(self, catalog: Catalog, sources: Mapping[str, SourceLike], counts: Counts | None = None) -> None:
        self._catalog = catalog
        self._sources = dict(sources)
        self._counts = counts

    def with_counts(self, counts: Counts) -> WarehouseEngine:
        """The same with integers that came back."""
        return WarehouseEngine(self._catalog, self._sources, counts)

    def check(self, final: FinalAggregation) -> None:
        """Refuse what cannot be measured in one go, or would bring keys back."""
        if final.seeks_limits or final.seeks_bounds:
            raise Refusal(
                "unsupported",
                "AUTO looks at the data first, and a warehouse is measured once: state numbers.",
            )
        if final.keys and not final.public_keys:
            raise Refusal("unsupported", "A warehouse brings back counts of declared groups alone: declare categories.")
        for name in scanned(final.source):
            table = self._catalog.table(name)
            if table is None or table.public or table.unit in (None, ROW):
                raise Refusal("unsupported", f"{name} cannot be measured elsewhere: it needs a unit column.")

    def statement(self, finals: Sequence[FinalAggregation], secret: bytes, dialect: str) -> str:
        """The one statement of several aggregations, preceded by trials of the session.

        Raises:
            InputError: there is no such dialect.
            Refusal: an aggregation is not written for it.
        """
        d, _ = writer_of(dialect)
        written = [(label_of(final), self._written(final, secret, dialect)) for final in finals]
        width = max(2, *(2 + len(s.measures) for _, statements in written for s in statements))
        selects = [
            self._select(d, _TRIAL, number, sql, "0", "", ["n"], width) for number, (sql, _) in enumerate(trials(d))
        ]
        for label, statements in written:
            for part, each in enumerate(statements):
                names = ["n"] if each.is_spread else ["units", *(f"v{i}" for i in range(len(each.measures)))]
                place = "place" if each.is_spread else ""
                selects.append(self._select(d, label, part, each.sql, "g", place, names, width))
        return "\nUNION ALL\n".join(printed(each, dialect) for each in selects) + "\n"

    def _written(self, final: FinalAggregation, secret: bytes, dialect: str) -> Sequence[Statement]:
        d, writer = writer_of(dialect)
        tables = {
            name.lower(): _stored(d, number, table, self._sources[table.name].path or table.name)
            for number, table in enumerate(self._catalog.tables)
            for name in [table.name]
        }
        return writer.of(d, final, tables, secret).statements()

    @staticmethod
    def _select(
        d: Dialect, label: str, part: int, sql: str, group: str, place: str, names: Sequence[str], width: int
    ) -> str:
        """The rows of a statement in the columns that all have."""
        numbers = [f"CAST({name} AS {d.text_type})" for name in names]
        numbers += [f"CAST(NULL AS {d.text_type})"] * (width - len(names))
        shown = ", ".join(f"{sql} AS n{i}" for i, sql in enumerate(numbers))
        where = f"CAST({place or 'NULL'} AS BIGINT)"
        return (
            f"SELECT '{label}' AS statistic, CAST({part} AS BIGINT) AS part, CAST({group} AS BIGINT) AS g, "
            f"{where} AS place, {shown} FROM {d.derived(sql)}"
        )

    def measure(self, work: MeasurementTask) -> Measurements:
        """The integers that came back for an aggregation.

        Raises:
            InputError: none came back for it, or not all.
        """
        if self._counts is None or work.bias is not None:
            raise InputError("measured", "this project's tables are in a warehouse: tacit measure writes what to run")
        final, label, answered = work.final, label_of(work.final), []
        groups = Groups(final).count
        for part, each in enumerate(self._written(final, work.key_secret, "duckdb")):
            found = self._counts.rows.get((label, part))
            if found is None:
                raise InputError("measured", f"has no rows of statement {part} of {label}; run all of measure.sql")
            wanted = 1 if each.is_spread else 1 + len(each.measures)
            seen: set[tuple[int, int | None]] = set()
            rows: list[tuple[int, ...]] = []
            for group, place, numbers in found:
                key = group, place
                fits = 0 <= group < groups and len(numbers) == wanted and (place is None) != each.is_spread
                if not fits or key in seen:
                    raise InputError("measured", f"does not fit statement {part} of {label}: group {group}")
                seen.add(key)
                rows.append((group, *([] if place is None else [place]), *numbers))
            answered.append(Answered(each, rows))
        return read_measurements(final, answered)

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:  # noqa: ARG002
        """None: nothing is read here."""
        raise Refusal("unsupported", "Public tables of a warehouse are not read: leave them out.")

    def interrupt(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is open."""

    def marks(self, table: str) -> Marks | None:
        """A table is recognised by its name in the warehouse."""
        name = f"warehouse {self._sources[table].path}"
        return Marks(name, (name,), (name,))


def label_of(final: FinalAggregation) -> str:
    """Name of an aggregation in the statement and in what comes back."""
    return digest_of(final.text)[:16]


def read_counts(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Counts:
    """The integers in a table that came back, if it has all columns and its trials have passed.

    Raises:
        InputError: it does not; the session computes otherwise than the statement means, and names the trial.
    """
    places = {name.lower(): place for place, name in enumerate(names)}
    missing = [name for name in (*_COLUMNS, "n0") if name not in places]
    if missing:
        raise InputError("measured", f"has no column {missing[0]}; hand over all that measure.sql returns")
    numbers = [places[name] for name in sorted((n for n in places if _NUMBER.match(n)), key=lambda n: int(n[1:]))]
    found: dict[tuple[str, int], list[tuple[int, int | None, tuple[int, ...]]]] = {}
    for row in rows:
        label, part, group, place = (row[places[name]] for name in _COLUMNS)
        cells = [row[at] for at in numbers if row[at] not in (None, "")]
        key = str(label), _whole(part)
        found.setdefault(key, []).append(
            (_whole(group), None if place in (None, "") else _whole(place), tuple(map(_whole, cells)))
        )
    for number, (_, expected) in enumerate(trials()):
        if found.get((_TRIAL, number)) != [(0, None, (int(expected),))]:
            raise InputError("measured", f"trial {number} failed: that session does not compute as the statement means")
    return Counts(found)


_NUMBER: Final = re.compile(r"n[0-9]+\Z")


def _whole(cell: Any) -> int:
    # A CSV file is read as others write it, with an apostrophe before what a spreadsheet would take for a formula.
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).removeprefix("'")
    if not _WHOLE.match(text):
        raise InputError("measured", "holds something else than whole numbers")
    return int(text)


def _stored(d: Dialect, number: int, table: Table, source: str) -> StoredTable:
    """A table by its name in the warehouse, with its columns as values are held."""
    scan = ".".join(d.quoted(part) for part in source.split("."))
    columns = {column.name.lower(): _column(d, column) for column in table.columns}
    return StoredTable(number, scan, columns, None)


def _column(d: Dialect, column: Column) -> str:
    name = d.quoted(column.stored_name)
    match column.type.kind:
        case Kind.INTEGER:
            return f"CAST({name} AS BIGINT)"
        case Kind.DECIMAL:
            scale = column.type.scale
            return f"CAST(CAST({name} AS DECIMAL(38, {scale})) * {10**scale} AS BIGINT)"
        case Kind.DOUBLE:
            return d.finite(f"CAST({name} AS {d.double})")
        case _:
            return name
