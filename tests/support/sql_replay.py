"""Queries to curators of every kind over one database, recorded there and replayed on a neighbouring one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from query.corpus import hostile
from query.corpus.bounded import arrow
from query.corpus.clinic import CATALOG
from support.replay import Finding, Report, record, replay
from tacit.curator import opening
from tacit.curator.curator import Curator
from tacit.engines.duckdb import DuckDBEngine, Limits
from tacit.engines.protocol import Engine, Measurements, MeasurementTask
from tacit.ledger.history import page
from tacit.project.project_file import PopulationModel, Project
from tacit.project.source import Source
from tacit.query.catalog import Catalog
from tacit.query.planning.bias import BiasTable
from tacit.query.query import FinalAggregation
from tacit.query.relational.algebra import RelationNode
from tacit.query.resolve import resolve
from tacit.query.types import Value
from tacit.releases.answer import Answer

__all__ = [
    "BUDGETS",
    "Bench",
    "Held",
    "Steady",
    "bench",
    "bench_on",
    "findings",
    "population_of",
    "query_of",
    "report",
    "reports",
]

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


class Held(Engine):
    """Any engine, with one secret for all databases, and kept open: several curators share it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, final: FinalAggregation) -> None:
        self._engine.check(final)

    def check_bias(self, final: FinalAggregation, table: BiasTable) -> None:
        self._engine.check_bias(final, table)

    def measure(self, work: MeasurementTask) -> Measurements:
        return self._engine.measure(replace(work, key_secret=b"an owner's secret"))

    def rows(self, relation: RelationNode, *, most: int) -> tuple[tuple[Value | None, ...], ...]:
        return self._engine.rows(relation, most=most)

    def interrupt(self) -> None:
        self._engine.interrupt()

    def explain(self, *args: Any, **kwargs: Any) -> Any:
        return self._engine.explain(*args, **kwargs)

    def close(self) -> None:
        """Leave the engine open: the test that opened it closes it."""


@dataclass
class Bench:
    """Curators of every kind of account over one database, and options of all queries."""

    engine: Engine
    curators: dict[str, Curator]
    options: dict[str, Any] = field(default_factory=dict)

    def ask(self, sql: str, kind: str, number: int) -> Answer:
        """Prices take turns, so that few queries are taken for repeats of others."""
        priced = any(f"{word} =" in sql or f"{word}=" in sql for word in ("epsilon", "rho", "within"))
        price: dict[str, Any] = {} if priced else {"epsilon": Fraction(100 + number // 4 % 12, 100)}
        return self.curators[kind].sql(sql, **price, **self.options)


def bench(database: hostile.Rows, catalog: Catalog = CATALOG, engine: type[DuckDBEngine] = Steady) -> Bench:
    frames = arrow(database)
    sources = {name: Source.of_frame(frame) for name, frame in frames.items()}
    return bench_on(engine(catalog, sources, Limits(threads=1)), sources, catalog)


def bench_on(shared: Engine, sources: Mapping[str, Source], catalog: Catalog, **options: Any) -> Bench:
    """Curators over an engine that is open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_engine", lambda *_: shared)
        curators = {kind: opening.open_project(_project(kind, catalog, sources)) for kind in BUDGETS}
    return Bench(shared, curators, options)


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
    private = not query_of(sql).public_keys
    return ("approx", "zcdp")[number % 2] if private and kind in ("pure", "gdp") else kind


def visible(bench: Bench, kind: str, *, whole: bool = True) -> Callable[[Answer], object]:
    """Everything that an analyst can see of an answer, and of the curator after it.

    Without ``whole`` only what the rest is a function of: what was released, the plan, the charge.
    """

    def see(answer: Answer) -> object:
        if not whole:
            return answer.finished.values, answer.note, answer.plan.digest, answer.charge.text
        curator = bench.curators[kind]
        population = answer.plan.final.population
        shown = [answer.finished.values, answer.finished.intervals(), answer.note]
        if len(answer) <= 8:
            shown.append(str(answer))
        newest = page(curator.ledger, limit=2, populations=[population]).records
        history = [(e.population, e.amounts, e.sql, e.digest) for e in newest]
        quoted = [answer.plan.digest, repr(answer.plan.guarantee), answer.columns, answer.finished.has_interval]
        return shown, quoted, answer.charge.text, history, str(curator.budget(population=population))

    return see


def report(one: Bench, other: Bench, sql: str, number: int, *, whole: bool = True) -> Report:
    kind = kind_of(number, sql)
    answer, tape = record(lambda: one.ask(sql, kind, number))
    seen = visible(one, kind, whole=whole)(answer)
    return replay(tape, lambda: other.ask(sql, kind, number), visible(other, kind, whole=whole), seen)


def reports(
    one: hostile.Rows,
    other: hostile.Rows,
    queries: Sequence[str],
    catalog: Catalog = CATALOG,
    engine: type[DuckDBEngine] = Steady,
    *,
    whole: bool = True,
) -> dict[str, Report]:
    first, second = bench(one, catalog, engine), bench(other, catalog, engine)
    made = {sql: report(first, second, sql, number, whole=whole) for number, sql in enumerate(queries)}
    assert not whole or _histories(first, catalog) == _histories(second, catalog)
    for each in (first, second):
        assert isinstance(each.engine, DuckDBEngine)
        DuckDBEngine.close(each.engine)
    return made


def _histories(bench: Bench, catalog: Catalog) -> list[object]:
    """Read all charges as analysts can, once for all queries: an entry never changes after it is written."""
    return [
        (kind, e.population, e.amounts, e.sql, e.digest)
        for kind, curator in bench.curators.items()
        for population in catalog.populations
        for e in curator.history(population=population.name)
    ]


def findings(made: Mapping[str, Report]) -> dict[str, tuple[Finding, ...]]:
    """Findings by query; empty where there are none."""
    return {sql: each.findings for sql, each in made.items() if each.findings}


@cache
def query_of(sql: str) -> FinalAggregation:
    """A query of the corpus, resolved once in a process."""
    return resolve(sql, CATALOG).final


def population_of(sql: str) -> str:
    """The population of a query of the corpus."""
    return query_of(sql).population
