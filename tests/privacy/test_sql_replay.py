"""The whole SQL path, recorded on one database and replayed on a neighbour: nothing but noise may tell them apart.

Questions of the corpus go through ``curator.sql`` on the real engine, from accounts of every kind. Databases hold
NULLs, NaN, infinities, -0.0, values at the ends of their types, a person with far more rows than count, or no person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from sql.corpus import hostile
from sql.corpus.accepted import GENERATED, WRITTEN
from sql.corpus.bounded import arrow
from sql.corpus.clinic import CATALOG
from sql.corpus.refused import REFUSED
from support.bits import SeededBits
from support.replay import Finding, Report, record, replay
from tacit.core.errors import TacitError
from tacit.core.relations import REPLACE_ONE
from tacit.curator import opening
from tacit.curator.curator import Curator
from tacit.curator.views.answer_object import Answer
from tacit.engines.duckdb import DuckDBEngine, Limits
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.noise import entropy
from tacit.project.project_file import PopulationModel, Project
from tacit.project.source import Source
from tacit.query.catalog import Catalog, Population
from tacit.query.resolve import resolve

QUESTIONS = tuple(dict.fromkeys(WRITTEN + GENERATED[::8]))
REPLACING = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))
BUDGETS = {
    "pure": {"epsilon": "1000000"},
    "approx": {"epsilon": "1000000", "delta": "0.5"},
    "zcdp": {"rho": "1000000", "delta": "0.5"},
    "gdp": {"mu": "1000"},
}


class Steady(DuckDBEngine):
    """The engine, with one secret for all databases, so that bounding can only differ through the data."""

    def measure(self, work: MeasurementTask, *args: Any, **kwargs: Any) -> Measurements:
        return super().measure(self.changed(work), *args, **kwargs)

    def changed(self, work: MeasurementTask) -> MeasurementTask:
        return replace(work, key_secret=b"an owner's secret")

    def close(self) -> None:
        """Kept open: several curators share it."""


@dataclass
class Bench:
    """Curators of every kind of account over one database."""

    engine: DuckDBEngine
    curators: dict[str, Curator]

    def ask(self, sql: str, kind: str, number: int) -> Answer:
        """Prices take turns, so that few questions are taken for repeats of others."""
        priced = any(f"{word} =" in sql or f"{word}=" in sql for word in ("epsilon", "rho", "within"))
        return self.curators[kind].sql(sql, **({} if priced else {"epsilon": Fraction(100 + number // 4 % 12, 100)}))


def bench(database: hostile.Rows, catalog: Catalog = CATALOG, engine: type[DuckDBEngine] = Steady) -> Bench:
    frames = arrow(database)
    sources = {name: Source.of_frame(frame) for name, frame in frames.items()}
    shared = engine(catalog, sources, Limits(threads=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_engine", lambda *_: shared)
        curators = {kind: opening.open_project(_project(kind, catalog, sources)) for kind in BUDGETS}
    return Bench(shared, curators)


def _project(kind: str, catalog: Catalog, sources: Mapping[str, Source]) -> Project:
    relation = catalog.populations[0].relation.value
    words = {**BUDGETS[kind], "accounting": kind, "relation": relation}
    if "delta" in words:
        words["query_delta"] = "1e-6"
    return Project("clinic", catalog, sources, {p.name: PopulationModel(**words) for p in catalog.populations})


def kind_of(number: int, sql: str) -> str:
    """Accounts take turns; those without a delta leave private keys to the others."""
    if "rho" in sql:
        return "zcdp"
    kind = tuple(BUDGETS)[number % 4]
    private = not resolve(sql, CATALOG).final.public_keys
    return ("approx", "zcdp")[number % 2] if private and kind in ("pure", "gdp") else kind


def visible(bench: Bench, kind: str) -> Callable[[Answer], object]:
    """Everything that an analyst can see of an answer, and of the curator after it."""

    def see(answer: Answer) -> object:
        curator = bench.curators[kind]
        population = answer.plan.final.population
        shown = [answer.finished.values, answer.finished.intervals(), answer.note]
        if len(answer) <= 8:
            shown.append(str(answer))
        history = [(e.population, e.amounts, e.sql, e.digest) for e in curator.history(population=population)]
        quoted = [answer.plan.digest, repr(answer.plan.guarantee), answer.columns, answer.finished.has_interval]
        return shown, quoted, answer.charge.text, history, str(curator.budget(population=population))

    return see


def report(one: Bench, other: Bench, sql: str, number: int) -> Report:
    kind = kind_of(number, sql)
    answer, tape = record(lambda: one.ask(sql, kind, number))
    return replay(tape, lambda: other.ask(sql, kind, number), visible(other, kind), visible(one, kind)(answer))


def reports(
    one: hostile.Rows,
    other: hostile.Rows,
    questions: Sequence[str],
    catalog: Catalog = CATALOG,
    engine: type[DuckDBEngine] = Steady,
) -> dict[str, Report]:
    first, second = bench(one, catalog, engine), bench(other, catalog, engine)
    made = {sql: report(first, second, sql, number) for number, sql in enumerate(questions)}
    for each in (first, second):
        DuckDBEngine.close(each.engine)
    return made


def findings(made: Mapping[str, Report]) -> dict[str, tuple[Finding, ...]]:
    """Findings by question; empty when there are none."""
    return {sql: each.findings for sql, each in made.items() if each.findings}


def population_of(sql: str) -> str:
    return resolve(sql, CATALOG).final.population


@pytest.fixture(scope="module", autouse=True)
def bits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        source = SeededBits(20261116)
        patch.setattr(entropy, "current", lambda: source)
        yield


ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())
PATIENTS = tuple(sql for sql in QUESTIONS if population_of(sql) == "patients")
OTHERS = tuple(sql for sql in QUESTIONS if population_of(sql) != "patients")


def test_there_are_enough_questions() -> None:
    assert len(PATIENTS) >= 300
    assert {population_of(sql) for sql in OTHERS} == {"staff", "events"}


def test_removing_a_person_with_more_rows_than_count() -> None:
    made = reports(ALL_PEOPLE, hostile.ordinary(), PATIENTS)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(PATIENTS) * 3 // 4


PAIRS = {
    "a person comes": (hostile.ordinary(), hostile.joined(hostile.ordinary(), hostile.newcomer()), CATALOG),
    "the first person comes": (hostile.empty(), hostile.joined(hostile.empty(), hostile.heavy()), CATALOG),
    "an ordinary person goes": (ALL_PEOPLE, hostile.without_patient(ALL_PEOPLE, 1), CATALOG),
    "one for another": (ALL_PEOPLE, hostile.joined(hostile.ordinary(), hostile.newcomer()), REPLACING),
    "the only one for another": (
        hostile.joined(hostile.empty(), hostile.heavy()), hostile.joined(hostile.empty(), hostile.newcomer()),
        REPLACING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("number", range(len(PAIRS)), ids=list(PAIRS))
def test_other_neighbours(number: int) -> None:
    one, other, catalog = list(PAIRS.values())[number]
    assert findings(reports(one, other, PATIENTS[number :: 2 * len(PAIRS)], catalog)) == {}


def test_other_populations() -> None:
    base = hostile.ordinary()
    fewer = base | {"staff": base["staff"][1:], "log": base["log"][:3] + base["log"][4:]}
    assert findings(reports(base, fewer, OTHERS)) == {}


def test_refusals_say_the_same_of_both_databases() -> None:
    one, other = bench(ALL_PEOPLE), bench(hostile.empty())
    for _, sql in REFUSED[::12]:
        messages = []
        for each in (one, other):
            with pytest.raises(TacitError) as refusal:
                each.ask(sql, "zcdp", 0)
            messages.append((type(refusal.value), refusal.value.code, str(refusal.value)))
        assert messages[0] == messages[1]
    assert one.curators["zcdp"].history(population="patients") == ()


# -- deliberately broken twins of the engine, each of which must be caught


class ManyRows(Steady):
    """Lets all rows of a unit count."""

    def changed(self, work: MeasurementTask) -> MeasurementTask:
        most = 10**6
        wide = tuple(replace(m, rows=most, clamp=(most * m.clamp[0], most * m.clamp[1])) for m in work.final.measures)
        return super().changed(replace(work, final=replace(work.final, measures=wide)))


class ManyGroups(Steady):
    """Lets a unit count in any number of groups."""

    def changed(self, work: MeasurementTask) -> MeasurementTask:
        return super().changed(replace(work, final=replace(work.final, max_groups=10**6)))


class NoClamp(Steady):
    """Takes values as they come."""

    def changed(self, work: MeasurementTask) -> MeasurementTask:
        far = 2**50
        wide = tuple(replace(m, low=-far, high=far, clamp=(-far, far)) for m in work.final.measures)
        return super().changed(replace(work, final=replace(work.final, measures=wide)))


class MeanForMissing(Steady):
    """Replaces NULL costs by the mean of the others, which the data of all people decide."""

    def __init__(self, catalog: Catalog, data: Mapping[str, Source], limits: Limits) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        frame = data["visits"].frame
        costs = frame["cost"]
        filled = pc.fill_null(costs, pa.scalar(pc.mean(costs).as_py(), type=costs.type))
        place = frame.column_names.index("cost")
        super().__init__(catalog, {**data, "visits": Source.of_frame(frame.set_column(place, "cost", filled))}, limits)


class OnlyGroupsThereAre(Steady):
    """Leaves out public groups that are empty."""

    def measure(self, work: MeasurementTask, *args: Any, **kwargs: Any) -> Measurements:
        found = super().measure(work, *args, **kwargs)
        there = found.raw_units > 0
        keys = tuple(key for key, some in zip(found.keys, there, strict=True) if some)
        return Measurements(keys, found.raw_units[there], tuple(array[there] for array in found.raw))


BROKEN = {
    ManyRows: "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    ManyGroups: "SELECT doctor, COUNT(*) FROM visits GROUP BY doctor",
    NoClamp: "SELECT SUM(nights) FROM visits",
    MeanForMissing: "SELECT SUM(cost) FROM visits",
    OnlyGroupsThereAre: "SELECT urgent, COUNT(*) FROM visits GROUP BY urgent",
}


@pytest.mark.parametrize("twin", BROKEN, ids=lambda twin: twin.__name__)
def test_a_broken_engine_is_caught(twin: type[DuckDBEngine]) -> None:
    sql = BROKEN[twin]
    one, other = ALL_PEOPLE, hostile.ordinary()
    if twin is OnlyGroupsThereAre:
        one, other = hostile.joined(hostile.empty(), hostile.heavy()), hostile.empty()
    assert findings(reports(one, other, [sql])) == {}
    assert list(findings(reports(one, other, [sql], engine=twin))) == [sql]


def test_a_curator_that_tells_what_it_saw_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that depends on data, and nothing else: only what is visible can show it."""
    noted = Answer.note.fget
    assert noted is not None
    seen: list[int] = []

    class Counting(Steady):
        def measure(self, work: MeasurementTask, *args: Any, **kwargs: Any) -> Measurements:
            found = super().measure(work, *args, **kwargs)
            seen.append(int(found.raw[0].sum()))
            return found

    monkeypatch.setattr(Answer, "note", property(lambda answer: f"{noted(answer)} {seen[-1]} rows read."))
    sql = "SELECT COUNT(*) FROM visits"
    found = findings(reports(ALL_PEOPLE, hostile.ordinary(), [sql], engine=Counting))
    assert found == {sql: (Finding("something visible is different"),)}
