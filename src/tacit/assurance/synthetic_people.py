# ruff: noqa: S608 - the questions are for the planner, which takes nothing on trust
"""Synthetic databases for a catalogue, including edge-case persons.

An audit of a project must not spend its budget and need not read its data: what the rules do with one person's rows
follows from the declarations. So persons are made up from those: ordinary ones, one with values far outside the bounds,
one without values, one whose numbers are not numbers, one with far more rows than count, one whose texts no other
person has. Each of them leaves in turn, and what is left is a neighbour.

Made-up people live in frames, which DuckDB measures, whatever engine has the data: every engine gives the same exact
integers, and tests hold them to it. Public tables of another engine are fetched from it once (:func:`brought_here`).

Nothing here is random, and nothing about one person depends on another: a database without one person has the others'
rows unchanged.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from tacit.audit.neighbours import Neighbours
from tacit.core.errors import InputError
from tacit.core.relations import ADD_REMOVE
from tacit.engines.plain_frames import PlainFrame
from tacit.engines.registry import engine_kind, open_engine
from tacit.project.project_file import LimitsModel, Project
from tacit.project.source import Source
from tacit.query.canonical_unit import ROW
from tacit.query.catalog import Catalog, Column, Table
from tacit.query.refusal import Refusal
from tacit.query.relational.ownership import scan
from tacit.query.types import Kind, SqlType, Value, as_value

_ORDINARY: Final = 10
_ROWS: Final = 2
_HEAVY: Final = 40
#: Room between the names of two persons' rows.
_ROOM: Final = 1000
#: Rows of a public table that are fetched from another engine, at most.
_MOST_PUBLIC: Final = 1_000_000
_EPOCH: Final = dt.date(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class SyntheticPerson:
    """Synthetic person.

    Args:
        number: names them.
        kind: what is strange about them: ``ordinary``, ``outside``, ``missing``, ``no number``, ``heavy``, ``alone``.
    """

    number: int
    kind: str = "ordinary"

    def __str__(self) -> str:
        return {
            "ordinary": f"person {self.number}",
            "outside": "a person with values far outside the bounds",
            "missing": "a person without values",
            "no number": "a person whose numbers are not numbers",
            "heavy": "a person with far more rows than count",
            "alone": "a person with texts that no other person has",
        }[self.kind]


#: The people of each population.
People = Mapping[str, Sequence[SyntheticPerson]]


def _everyone() -> tuple[SyntheticPerson, ...]:
    strange = ("outside", "missing", "no number", "heavy", "alone")
    ordinary = [SyntheticPerson(i + 1) for i in range(_ORDINARY)]
    return (*ordinary, *(SyntheticPerson(_ORDINARY + 1 + i, kind) for i, kind in enumerate(strange)))


def neighbours_of(catalog: Catalog, population: str) -> list[Neighbours]:
    """Pairs of :data:`People` that differ in one person of a population, by that population's own relation."""
    all_of_them = {each.name: _everyone() for each in catalog.populations}
    here = all_of_them[population]
    leavers = [here[0], *(person for person in here if person.kind != "ordinary")]
    found = []
    for person in leavers:
        rest = tuple(each for each in here if each != person)
        if catalog.population(population).relation is ADD_REMOVE:
            how, second = f"{person} leaves", rest
        else:
            how, second = f"{person} becomes another person", (*rest, SyntheticPerson(here[-1].number + 1))
        found.append(Neighbours(how, all_of_them, {**all_of_them, population: second}))
    return found


def brought_here(project: Project) -> Project:
    """Project on DuckDB: public tables that only another engine reads become frames; protected ones stay.

    Raises:
        InputError: a public table is too large for that.
    """
    if engine_kind(project.engine) == "duckdb":
        return project
    public = [replace(table, foreign_keys=()) for table in project.catalog.tables if table.public]
    fetched = [table for table in public if not _is_file(project.sources[table.name])]
    sources = {**project.sources, **(_fetch(project, Catalog(tuple(fetched))) if fetched else {})}
    return replace(project, engine="duckdb", limits=LimitsModel(seconds=project.limits.seconds), sources=sources)


def _is_file(source: Source) -> bool:
    """Whether DuckDB reads it as well as the engine that it was meant for."""
    is_local = source.kind in ("csv", "parquet") and not source.is_elsewhere
    return is_local and not Path(source.path or "").is_dir()


def _fetch(project: Project, public: Catalog) -> dict[str, Source]:
    found = {}
    sources = {table.name: project.sources[table.name] for table in public.tables}
    with closing(open_engine(project.engine, public, sources, project.limits.model_dump())) as engine:
        for table in public.tables:
            try:
                rows = engine.rows(scan(public, table), most=_MOST_PUBLIC)
            except Refusal:
                few = f"has more than {_MOST_PUBLIC:,} rows; audit a copy of the project file without it"
                raise InputError(f"tables.{table.name}", few) from None
            found[table.name] = Source.of_frame(_made(table, rows))
    return found


def rehearsed(project: Project, people: People) -> Project:
    """The project on made-up people instead of its data, with no ledger but memory; public tables stay as they are.

    Args:
        project: on this machine, see :func:`brought_here`.
        people: whom to make up.
    """
    frames = {
        table.name: Source.of_frame(_frame(project.catalog, table, people[table.population or ""]))
        for table in project.catalog.tables
        if not table.public
    }
    sources = {name: frames.get(name, source) for name, source in project.sources.items()}
    return replace(project, sources=sources, ledger=None, anchor=None, key=None)


def _frame(catalog: Catalog, table: Table, people: Sequence[SyntheticPerson]) -> PlainFrame:
    rows = [
        [_value(catalog, table, column, person, k) for column in table.columns]
        for person in people
        for k in range(_rows_of(table, person))
    ]
    return _made(table, rows)


def _made(table: Table, rows: Sequence[Sequence[Value | None]]) -> PlainFrame:
    return PlainFrame.of({column.name: column.type for column in table.columns}, rows)


def _rows_of(table: Table, person: SyntheticPerson) -> int:
    unit = table.find(table.unit) if table.unit not in (None, ROW) else None
    if table.unit == ROW or (unit is not None and unit.unique):
        return 1
    return _HEAVY if person.kind == "heavy" else _ROWS


def _value(catalog: Catalog, table: Table, column: Column, person: SyntheticPerson, k: int) -> Value | None:
    if table.unit is not None and column.name.lower() == table.unit.lower():
        return _nth(column.type, person.number)
    for key in table.foreign_keys:
        target = catalog.table(key.table)
        if key.column.lower() == column.name.lower() and target is not None and target.population == table.population:
            there = target.find(key.references)
            return None if there is None else _value(catalog, target, there, person, 0)
    if column.unique:
        return _nth(column.type, person.number * _ROOM + k)
    return _strange(column, person) if person.kind not in ("ordinary", "heavy") else _usual(column, person.number + k)


def _usual(column: Column, n: int) -> Value | None:
    """A value within what is declared; the first and the last one come up often."""
    if column.categories is not None:
        return column.categories[n % len(column.categories)]
    if column.bounds is not None:
        return column.bounds[n % 2]
    return _nth(column.type, n % 3)


def _strange(column: Column, person: SyntheticPerson) -> Value | None:
    kind = column.type.kind
    if person.kind == "missing":
        return None if column.nullable else _usual(column, person.number)
    if person.kind == "no number" and kind is Kind.DOUBLE:
        return math.nan
    if person.kind == "outside":
        if kind is Kind.DOUBLE:
            return math.inf
        if kind in (Kind.INTEGER, Kind.DECIMAL):
            beyond = 10**12 if kind is Kind.INTEGER else Fraction(10**12)
            return as_value(beyond, column.type)
        if column.type.is_temporal:
            return _nth(column.type, -365 * 1500)
    if person.kind in ("alone", "outside") and kind is Kind.TEXT:
        return "only this person says this" if person.kind == "alone" else "'; --"
    return _usual(column, person.number)


def _nth(kind: SqlType, n: int) -> Value:
    """Another value for every ``n``, in any type but BOOLEAN, which has two."""
    match kind.kind:
        case Kind.BOOLEAN:
            return n % 2 == 0
        case Kind.INTEGER:
            return n
        case Kind.DECIMAL:
            return Fraction(n)
        case Kind.DOUBLE:
            return float(n)
        case Kind.DATE:
            return _EPOCH + dt.timedelta(days=n)
        case Kind.TIMESTAMP:
            return dt.datetime.combine(_EPOCH + dt.timedelta(days=n), dt.time())
        case _:
            return f"name {n}"


def questions_of(catalog: Catalog, population: str) -> Iterator[str]:
    """Questions about every table of a population and what is declared of its columns; not all can be answered."""
    for table in catalog.tables:
        if table.population != population:
            continue
        name = f'"{table.name}"'
        yield f"SELECT COUNT(*) FROM {name}"
        if table.unit not in (None, ROW):
            yield f'SELECT COUNT(DISTINCT "{table.unit}") FROM {name}'
        for column in table.columns:
            quoted = f'"{column.name}"'
            if column.categories is not None or (column.type.kind is Kind.TEXT and column.name != table.unit):
                yield f"SELECT {quoted}, COUNT(*) FROM {name} GROUP BY {quoted}"
            if column.bounds is not None and column.type.is_numeric:
                yield f"SELECT COUNT(*), SUM({quoted}), AVG({quoted}), MEDIAN({quoted}) FROM {name}"
        for key in table.foreign_keys:
            other = f'"{key.table}"'
            joined = f'{name}."{key.column}" = {other}."{key.references}"'
            yield f"SELECT COUNT(*) FROM {name} JOIN {other} ON {joined}"
