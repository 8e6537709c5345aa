"""The whole SQL path, recorded on one database and replayed on a neighbour: nothing but noise may tell them apart.

Queries of the corpus go through ``curator.sql`` on the real engine, from accounts of every kind. Databases hold
NULLs, NaN, infinities, -0.0, values at the ends of their types, a person with far more rows than count, or no person.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from query.corpus import hostile
from query.corpus.accepted import GENERATED, WRITTEN
from query.corpus.clinic import CATALOG
from query.corpus.kept_rows import DECLARED
from query.corpus.refused import REFUSED
from query.corpus.several import SEVERAL, VALUED
from support.bits import SeededBits
from support.replay import Finding
from support.sql_replay import Steady, bench, findings, population_of, reports
from tacit.core.errors import TacitError
from tacit.core.relations import REPLACE_ONE
from tacit.engines.duckdb import DuckDBEngine, Limits
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.noise import entropy
from tacit.project.source import Source
from tacit.query.catalog import Catalog, Population
from tacit.releases.answer import Answer

QUERIES = tuple(dict.fromkeys(WRITTEN + GENERATED[::8]))
REPLACING = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))


@pytest.fixture(scope="module", autouse=True)
def bits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        source = SeededBits(20261116)
        patch.setattr(entropy, "current", lambda: source)
        yield


ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())


# Found when the first test asks: every process collects all tests.


@cache
def patients() -> tuple[str, ...]:
    return tuple(sql for sql in QUERIES if population_of(sql) == "patients")


@cache
def others() -> tuple[str, ...]:
    return tuple(sql for sql in QUERIES if population_of(sql) != "patients")


def test_there_are_enough_queries() -> None:
    assert len(patients()) >= 300
    assert {population_of(sql) for sql in others()} == {"staff", "events"}


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.deep)])
def test_removing_a_person_with_more_rows_than_count(every: int) -> None:
    asked = patients()[::every]
    made = reports(ALL_PEOPLE, hostile.ordinary(), asked)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(asked) * 3 // 4


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


@pytest.mark.parametrize("every", [20, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("number", range(len(PAIRS)), ids=list(PAIRS))
def test_other_neighbours(number: int, every: int) -> None:
    """Each query on one pair, so that all pairs together see all queries."""
    one, other, catalog = list(PAIRS.values())[number]
    assert findings(reports(one, other, patients()[number :: every * len(PAIRS)], catalog)) == {}


def test_other_populations() -> None:
    base = hostile.ordinary()
    fewer = base | {"staff": base["staff"][1:], "log": base["log"][:3] + base["log"][4:]}
    assert findings(reports(base, fewer, others())) == {}


@pytest.mark.parametrize("every", [15, pytest.param(3, marks=pytest.mark.deep)])
def test_queries_with_several_parts(every: int) -> None:
    asked = SEVERAL[::every] + (DECLARED + VALUED)[:: every // 3]
    made = reports(ALL_PEOPLE, hostile.ordinary(), asked)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(asked) // 2


@pytest.mark.parametrize("name", ["a person comes", "one for another"])
def test_several_parts_of_other_neighbours(name: str) -> None:
    one, other, catalog = PAIRS[name]
    assert findings(reports(one, other, SEVERAL[1 + len(name) % 4 :: 12] + VALUED[::3], catalog)) == {}


_RHO = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (rho = 0.5, max_groups_contributed = 2)"
LEVELS = (
    f"{_RHO} MODE(ward) AS m, nights // 10 AS d, urgent FROM visits GROUP BY CUBE (nights // 10, urgent)",
    f"{_RHO} ward, nights // 10, SUM(CLAMP(cost - 99, -50, 99)) FROM visits GROUP BY ROLLUP (ward, nights // 10)",
)


@pytest.mark.parametrize("name", ["an ordinary person goes", "one for another", "the only one for another"])
def test_sums_of_groups_with_noise_of_their_own(name: str) -> None:
    """Levels of grouping sets, of categories and of values of both signs, under either relation."""
    one, other, catalog = PAIRS[name]
    for sql in LEVELS:
        plan = bench(one, catalog).curators["zcdp"].explain(sql).plan
        assert any(len(release.levels) > 1 for release in plan.releases)
    made = reports(one, other, LEVELS, catalog)
    assert findings(made) == {}
    assert all(each.moved for each in made.values())


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
    # Without the table of what is left out, which such an engine could not answer at all.
    OnlyGroupsThereAre: "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(bias_share = 0) urgent, COUNT(*) FROM visits "
    "GROUP BY urgent",
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
