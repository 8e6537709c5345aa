# ruff: noqa: S608 - the queries are for the planner, which takes nothing on trust
"""Audit of a project: queries recorded on made-up people and replayed on their neighbours.

In the replay every mechanism of a plan returns its recorded output; then values, intervals, charge and notes must be
the same, and no mechanism's input may have moved by more than its plan declares. The self-audit does this with the
example hospital.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tacit.audit.lower_bound import lower_bound
from tacit.audit.replay import replay
from tacit.audit.report import AuditCheck, Verdict, judged, judged_replays
from tacit.audit.search import Neighbours
from tacit.core.errors import InputError, QueryError
from tacit.core.guarantees import PureDP
from tacit.core.numbers import exact
from tacit.core.relations import ADD_REMOVE
from tacit.curator.curator import Curator
from tacit.curator.opening import open_project
from tacit.engines.frames import PlainFrame
from tacit.engines.registry import engine_kind, open_engine
from tacit.project.example_hospital import make_hospital
from tacit.project.project_file import LimitsModel, PopulationModel, Project, load
from tacit.project.source import Source
from tacit.query.catalog import ROW, Catalog, Column, Table
from tacit.query.planning.plan import Plan
from tacit.query.refusal import Refusal
from tacit.query.relational.ownership import scan
from tacit.query.types import Kind, SqlType, Value, as_value
from tacit.releases.plans import Quote

_ORDINARY: Final = 10
_ROWS: Final = 2
_HEAVY: Final = 40
#: Distance between the row numbers of two persons.
_ROOM: Final = 1000
#: The most rows of a public table that are fetched from another engine.
_MOST_PUBLIC: Final = 1_000_000
_EPOCH: Final = dt.date(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class SyntheticPerson:
    """Synthetic person.

    Args:
        number: the person's id.
        kind: what is unusual about the person's rows: ``ordinary``, ``outside``, ``missing``, ``no number``, ``heavy``,
            ``alone``.
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
    """Return pairs of :data:`People` that differ in one person of a population, by that population's relation."""
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
    """Return the project on DuckDB: public tables that only another engine reads become frames; protected ones stay.

    Raises:
        InputError: a public table has too many rows to fetch.
    """
    if engine_kind(project.engine) == "duckdb":
        return project
    public = [replace(table, foreign_keys=()) for table in project.catalog.tables if table.public]
    fetched = [table for table in public if not _is_file(project.sources[table.name])]
    sources = {**project.sources, **(_fetch(project, Catalog(tuple(fetched))) if fetched else {})}
    return replace(project, engine="duckdb", limits=LimitsModel(seconds=project.limits.seconds), sources=sources)


def _is_file(source: Source) -> bool:
    """Return whether the source is a file, which DuckDB reads as well as its own engine."""
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
    """Return the project on made-up people instead of its data, with a ledger in memory; public tables are unchanged.

    Args:
        project: a project on DuckDB, see :func:`brought_here`.
        people: the people to make up.
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
    """Return the ``n``-th value within the declared categories or bounds; the first and the last one occur often."""
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
    """Return a different value for every ``n``, in any type but BOOLEAN, which has two."""
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


def queries_of(catalog: Catalog, population: str) -> Iterator[str]:
    """Generate queries about every table of a population from the declarations of its columns; some may be refused."""
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


#: Share of a population's budget that a query under audit costs.
_PART: Final = 4
_CONFIDENCE: Final = 0.9999
#: δ at which the loss of a query is bounded where its account states none.
_DELTA: Final = Fraction(1, 10**6)


@contextmanager
def hospital_checks(samples: int = 1000) -> Iterator[list[AuditCheck]]:
    """Check the example hospital, whose files last as long as the context."""
    queries = (
        "SELECT admitted, COUNT(*), AVG(cost) FROM visits GROUP BY admitted",
        "SELECT SUM(cost) FROM visits WHERE 1 / (nights - 3) > 0",
    )
    with TemporaryDirectory(prefix="tacit-audit-") as folder:
        project = load(make_hospital().write(Path(folder), delta="1e-6"))
        yield project_checks(project, queries, samples=samples)[0]


def project_checks(
    project: Project, queries: Sequence[str] = (), *, asked: Sequence[str] = (), samples: int = 1000
) -> tuple[list[AuditCheck], int]:
    """Check a project as far as possible without its data and without its budget.

    Its tables are filled with made-up people, its public ones are read as they are; DuckDB measures them, whatever
    engine has the data. Queries that follow from the declarations, and those given, are each recorded and replayed
    without one person at a time; one of each population is also asked many times from outside.

    Args:
        project: as its file describes it.
        queries: further queries; each must be one that can be answered.
        asked: texts of the project's history: queries, labels, and queries to tables as they once were.
        samples: number of runs on each neighbour of the query that is audited as a black box.

    Returns:
        the checks, and the number of ``asked`` that are not queries the project can answer.

    Raises:
        TacitError: one of ``queries`` cannot be answered.
    """
    project = brought_here(project)
    pairs = {name: neighbours_of(project.catalog, name) for name in project.populations}
    checks = []
    with open_project(rehearsed(project, next(iter(pairs.values()))[0].first)) as curator:
        given = {sql: _trial(project, curator, sql) for sql in queries}
        past = {sql: _possible(project, curator, sql) for sql in asked}
        trials: dict[str, _Trial] = {}
        for name, near in pairs.items():
            made = {sql: _possible(project, curator, sql) for sql in queries_of(project.catalog, name)}
            able = [trial for trial in made.values() if trial is not None]
            trials |= {trial.sql: trial for trial in able}
            checks += [_outside_check(trial, near, samples) for trial in able[:1]]
    trials |= {trial.sql: trial for trial in (*past.values(), *given.values()) if trial is not None}
    checks += [_replay_check(trial, pairs[trial.plan.final.population]) for trial in trials.values()]
    return checks, sum(trial is None for trial in past.values())


@dataclass(frozen=True)
class _Trial:
    """A query to made-up people of a project, with cost options where its text states no cost."""

    project: Project
    sql: str
    words: Mapping[str, Any]
    plan: Plan

    def __call__(self, people: People) -> Any:
        """Run the query on a fresh account and return all that an analyst sees."""
        with open_project(rehearsed(self.project, people)) as curator:
            return _seen(curator, self.sql, **self.words)


def _trial(project: Project, curator: Curator, sql: str) -> _Trial:
    try:
        return _Trial(project, sql, {}, _planned(curator.explain(sql)))
    except InputError:
        # Its text states no cost; any cost reveals whose budget is charged.
        population = _planned(curator.explain(sql, epsilon=1)).final.population
    model = project.populations[population]
    budget = next(exact(each, "epsilon") for each in (model.epsilon, model.rho, model.mu) if each is not None)
    cost = min(budget / _PART, Fraction(1))
    return _Trial(project, sql, {"epsilon": cost}, _planned(curator.explain(sql, epsilon=cost)))


def _planned(quote: Quote) -> Plan:
    """Return the plan of a query about people.

    Raises:
        InputError: it reads public tables alone.
    """
    if quote.plan is None:
        raise InputError("sql", "reads public tables alone, which protect no person: there is nothing to check")
    return quote.plan


def _possible(project: Project, curator: Curator, sql: str) -> _Trial | None:
    """Return the trial of a generated query, or None if the project cannot answer it."""
    try:
        return _trial(project, curator, sql)
    except (QueryError, InputError):
        return None


def _replay_check(trial: _Trial, pairs: Sequence[Neighbours]) -> AuditCheck:
    def run() -> Verdict:
        return judged_replays([replay(trial, each.first, each.second, how=each.how) for each in pairs])

    return AuditCheck(trial.sql, "replay", run)


def _outside_check(trial: _Trial, pairs: Sequence[Neighbours], samples: int) -> AuditCheck:
    """Return a black-box check: the query is asked many times on an unlimited budget.

    Each time the cost is slightly lower, so that no query is a free repeat.
    """
    claim, heavy = trial.plan.guarantee, next(each for each in pairs if "far more rows" in each.how)
    delta = getattr(claim, "delta", 0) or (0 if isinstance(claim, PureDP) else _DELTA)
    hairs = count()

    def ask(curator: Curator) -> Any:
        cost = trial.words["epsilon"] * (1 - Fraction(next(hairs), 10**9))
        return curator.sql(trial.sql, epsilon=cost).finished.values

    def run() -> Verdict:
        rich = _rich(trial.project)
        with open_project(rehearsed(rich, heavy.first)) as one, open_project(rehearsed(rich, heavy.second)) as other:
            return judged(
                lower_bound(ask, one, other, claimed=claim, delta=delta, samples=samples, confidence=_CONFIDENCE)
            )

    return AuditCheck(f"from outside: {trial.sql}", "lower_bound", run)


def _rich(project: Project) -> Project:
    """Return the project with budgets that no audit exhausts."""

    def raised(model: PopulationModel) -> PopulationModel:
        stated = [word for word in ("epsilon", "rho", "mu") if getattr(model, word) is not None]
        return model.model_copy(update=dict.fromkeys(stated, "1000000"))

    return replace(project, populations={name: raised(model) for name, model in project.populations.items()})


def _seen(curator: Curator, sql: str, **words: Any) -> Any:
    answer = curator.sql(sql, **words)
    finished = answer.finished
    budget = str(curator.budget(population=answer.charge.population))
    return finished.values, finished.intervals(), answer.charge.text, answer.note, budget
