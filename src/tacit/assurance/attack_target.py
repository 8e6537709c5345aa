"""Targets of ``tacit attack``: the example hospital or a project's table, bare and behind a curator.

The curator is a real one on an account in memory: the owner's ledger is neither read nor charged. Each run of an attack
is an analyst of its own whose share is what the run may cost.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.project.project_file import Project
    from tacit.query.catalog import Column, Table

#: Enough for every run of every attack; each run has a share of its own.
_ALL_RUNS: Final = "1000000"
#: A column with more public values than this is no column of a table of counts.
_MOST_VALUES: Final = 250
_MOST_KNOWN: Final = 5
#: Beyond this many rows only the first are attacked.
_MOST_ROWS: Final = 400_000


@dataclass(frozen=True)
class Target:
    """A secret, the people who have it or not, and what outsiders know about them.

    Args:
        project: where the data is.
        source: what stands after FROM.
        narrow: the same where only the unit and the secret matter.
        unit: the column that says whose a row is.
        population: whom it protects.
        secret: an expression with the few ``values``.
        values: of the secret.
        value: the one that attacks on single persons ask about; None for the one nearest to half of the people.
        known: columns that outsiders know, from the best known on.
        finite: those of them with public values.
    """

    project: Project
    source: str
    narrow: str
    unit: str
    population: str
    secret: str
    values: tuple[Any, ...]
    value: Any
    known: tuple[str, ...]
    finite: Mapping[str, tuple[Any, ...]]


@dataclass
class TargetPerson:
    """Bare rows of one person; ``known`` and ``secret`` are of the first row."""

    number: Any
    known: tuple[Hashable, ...]
    secret: int
    secrets: set[int] = field(default_factory=set)


def demo_target(folder: Path) -> Target:
    """The hospital of ``tacit demo``: was this patient in oncology?"""
    from tacit.project.example_hospital import make_hospital
    from tacit.project.project_file import load

    project = load(make_hospital().write(folder))
    tables = {table.name: table for table in project.catalog.tables}
    wards = next(column for column in tables["visits"].columns if column.name == "ward")
    known = ("district", "sex", "age", "admitted")
    columns = [column for name in ("patients", "visits") for column in tables[name].columns if column.name in known]
    return Target(
        project,
        "visits JOIN patients USING (patient_id)",
        "visits",
        "patient_id",
        "patients",
        quoted("ward"),
        _public_values(wards),
        "oncology",
        known,
        _finite(columns),
    )


def project_target(path: Path, table: str | None, secret: str | None, known: str | None) -> Target:
    """Table of a project; unstated choices are made from the owner's declarations."""
    from tacit.project.project_file import load
    from tacit.project.read_project import read_project

    read_project(path)
    project = load(path)
    chosen = _table(project, table)
    columns = [column for column in chosen.columns if column.name != chosen.unit]
    hidden, expression, values = _secret(columns, secret)
    open_to_all = _known([column for column in columns if column is not hidden], known)
    return Target(
        project,
        quoted(chosen.name),
        quoted(chosen.name),
        chosen.unit or "",
        chosen.population or "",
        expression,
        values,
        None,
        tuple(column.name for column in open_to_all),
        _finite(open_to_all),
    )


def _table(project: Project, name: str | None) -> Table:
    able = [table for table in project.catalog.tables if not table.public and table.unit not in (None, "row")]
    if name is not None:
        able = [table for table in able if table.name.lower() == name.lower()]
    if not able:
        what = "has no protected table" if name is None else f"has no protected table {name!r}"
        raise InputError("table", f"the project {what} with a unit column, which says whose a row is")
    return able[0]


def _secret(columns: Sequence[Column], name: str | None) -> tuple[Column, str, tuple[Any, ...]]:
    """The column to find out: the one named, or the last that has few public values."""
    named = [column for column in columns if name is not None and column.name.lower() == name.lower()]
    if name is not None and not named:
        raise InputError("secret", f"there is no column {name!r} beside the unit")
    for column in named or reversed(columns):
        values = _public_values(column)
        if values == (False, True) or (column.categories is not None and 2 <= len(values) <= 40):
            return column, quoted(column.name), values
    for column in named or reversed(columns):
        if column.type.is_numeric and column.bounds is not None:
            low, high = (Fraction(end) for end in column.bounds)  # type: ignore[arg-type]
            return column, f"({quoted(column.name)} >= {float((low + high) / 2):g})", (False, True)
    raise InputError("secret", "name a column with declared categories (2 to 40), with bounds, or true and false")


def _known(columns: Sequence[Column], names: str | None) -> list[Column]:
    if names is not None:
        found = {column.name.lower(): column for column in columns}
        wanted = [name.strip() for name in names.split(",") if name.strip()]
        for name in wanted:
            if name.lower() not in found:
                raise InputError("known", f"there is no column {name!r} beside the unit and the secret")
        chosen = [found[name.lower()] for name in wanted]
    else:
        # Few values first: they are the easiest to know about a person.
        chosen = sorted(columns, key=lambda column: len(_public_values(column)) or 10**6)[:_MOST_KNOWN]
    chosen = [column for column in chosen if column.type.kind.name != "DOUBLE"]
    if not chosen:
        raise InputError("known", "name columns that outsiders may know about a person, such as age,sex,town")
    return chosen


def _public_values(column: Column) -> tuple[Any, ...]:
    if column.categories is not None:
        return tuple(value for value in column.categories if value is not None)
    if column.type.kind.name == "BOOLEAN":
        return False, True
    if column.type.kind.name == "INTEGER" and column.bounds is not None:
        low, high = (int(str(end)) for end in column.bounds)
        return tuple(range(low, high + 1)) if high - low < _MOST_VALUES else ()
    return ()


def _finite(columns: Sequence[Column]) -> dict[str, tuple[Any, ...]]:
    found = {column.name: _public_values(column) for column in columns}
    return {name: values for name, values in found.items() if 2 <= len(values) <= _MOST_VALUES}


class Scene:
    """The bare rows, and the curator in front of the same data."""

    def __init__(self, target: Target, rows: list[tuple[Any, ...]], curator: Curator) -> None:
        self.target = target
        self.curator = curator
        #: Known values, the place of the secret, and the unit, for every row.
        self.rows = [(row[1:-1], self._place(row[-1]), row[0]) for row in rows if row[-1] in target.values]
        self._runs = itertools.count(1)
        if len(self.people) < 40:
            raise InputError("table", f"has {len(self.people)} people with a declared secret; attacks need 40")

    def _place(self, secret: Any) -> int:
        return self.target.values.index(secret)

    @cached_property
    def people(self) -> list[TargetPerson]:
        """All people, by first appearance."""
        found: dict[Any, TargetPerson] = {}
        for known, secret, number in self.rows:
            person = found.setdefault(number, TargetPerson(number, known, secret))
            person.secrets.add(secret)
        return list(found.values())

    @cached_property
    def value(self) -> int:
        """The place of the secret that attacks on single persons ask about."""
        if self.target.value is not None:
            return self._place(self.target.value)
        having: dict[int, int] = defaultdict(int)
        for person in self.people:
            for secret in person.secrets:
                having[secret] += 1
        return min(having, key=lambda secret: abs(having[secret] - len(self.people) / 2))

    @cached_property
    def bit(self) -> str:
        """The secret as a condition."""
        return f"{self.target.secret} = {literal(self.target.values[self.value])}"

    @property
    def truths(self) -> list[bool]:
        """Whether each person has the secret value, in the order of people."""
        return [self.value in person.secrets for person in self.people]

    @cached_property
    def unit(self) -> str:
        """The unit as SQL."""
        return quoted(self.target.unit)

    def holds_for_all(self, wording: int) -> str:
        """Return a condition that holds for every person, different for each wording: no person has such a number."""
        numbers = [person.number for person in self.people]
        if isinstance(numbers[0], int):
            return f"{self.unit} <> {min(numbers) - 1 - wording}"
        return f"{self.unit} <> {literal(f'no person {wording}')}"

    def hire(self, epsilon: Fraction) -> str:
        """An analyst who may spend so much."""
        name = f"attacker-{next(self._runs)}"
        self.curator.ledger.add_analyst(name)
        # Prices are rounded up to whole units of the account; a part in a million leaves room for that.
        self.curator.ledger.set_quota(self.target.population, {"epsilon": epsilon + epsilon / 10**6}, analyst=name)
        return name

    def count(self, where: str, price: Fraction, analyst: str) -> float:
        """Count the people with certain rows, through the curator."""
        sql = f"SELECT COUNT(DISTINCT {self.unit}) AS n FROM {self.target.narrow} WHERE {where}"  # noqa: S608
        answer = self.curator.sql(sql, epsilon=price, max_groups=1, max_rows=1, analyst=analyst)
        return float(answer.finished.values[0][0] or 0)  # type: ignore[arg-type]


@contextmanager
def open_scene(target: Target) -> Iterator[Scene]:
    """The bare rows and a curator on an account in memory."""
    from tacit.curator.opening import open_project
    from tacit.ledger.memory import MEMORY
    from tacit.project.project_file import PopulationModel

    populations = {
        name: PopulationModel(epsilon=_ALL_RUNS, relation=model.relation)
        for name, model in target.project.populations.items()
    }
    project = replace(target.project, populations=populations, ledger=None, anchor=None, key=None)
    rows = _bare_rows(target)
    with open_project(project, ledger=MEMORY) as curator:
        yield Scene(target, rows, curator)


def _bare_rows(target: Target) -> list[tuple[Any, ...]]:
    """The unprotected twin: unit, known columns and secret of every row, read as the engine reads them."""
    from tacit.engines.registry import open_unprotected

    with open_unprotected(target.project.catalog, target.project.sources) as connection:
        wanted = ", ".join([quoted(target.unit), *map(quoted, target.known), target.secret])
        return connection.execute(
            f"SELECT {wanted} FROM {target.source} WHERE {quoted(target.unit)} IS NOT NULL LIMIT {_MOST_ROWS}"  # noqa: S608
        ).fetchall()


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A value in SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal() | Fraction():
            return str(Decimal(value.numerator) / value.denominator) if isinstance(value, Fraction) else str(value)
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"
