"""Forms of SQL, recorded on one database and replayed on a neighbour, on the engines beside DuckDB.

The forms are those of ``test_composed_queries`` and of the corpora of several parts, released values and public rows
that are kept: totals, per-person picks, sessions, moving frames, correlation, discrete quantiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from engines.makers import MAKERS
from query.corpus import hostile
from query.corpus.bounded import arrow
from query.corpus.clinic import CATALOG
from query.corpus.kept_rows import DECLARED
from query.corpus.several import FORMS, SEVERAL, VALUED
from support.composed_queries import composed
from support.replay import Report
from support.spark import spark_engine
from support.sql_replay import Held, bench, bench_on, findings, report
from tacit.core.relations import REPLACE_ONE
from tacit.mechanisms.residual_basis import LevelBasis
from tacit.project.source import Source
from tacit.query.catalog import Catalog, Population
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve

ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())
NEWCOMER = hostile.joined(hostile.ordinary(), hostile.newcomer())
REPLACING = Catalog(CATALOG.tables, tuple(Population(p.name, REPLACE_ONE) for p in CATALOG.populations))

#: Forms whose totals have noise of their own, on sums of groups.
LEVELS = FORMS[-2:]


def replayed(
    one: AbstractContextManager[Any], other: AbstractContextManager[Any], data: Sequence[hostile.Rows],
    catalog: Catalog, queries: Sequence[str], **options: Any,
) -> dict[str, Report]:  # fmt: skip
    sources = [{name: Source.of_frame(frame) for name, frame in arrow(rows).items()} for rows in data]
    with one as first, other as second:
        benches = [
            bench_on(Held(engine), own, catalog, **options)
            for engine, own in zip((first, second), sources, strict=True)
        ]
        return {sql: report(*benches, sql, number) for number, sql in enumerate(queries)}


def accepted(queries: Sequence[str]) -> list[str]:
    kept = []
    for sql in queries:
        try:
            resolve(sql, CATALOG)
        except Refusal:
            continue
        kept.append(sql)
    return kept


PAIRS = {
    "a person with many rows goes": (ALL_PEOPLE, hostile.ordinary(), CATALOG, 0),
    "one for another": (ALL_PEOPLE, NEWCOMER, REPLACING, 1),
}


@pytest.mark.parametrize("name", PAIRS)
def test_forms_on_postgres(name: str, seeded: Any) -> None:
    one, other, catalog, number = PAIRS[name]
    asked = [*FORMS, *DECLARED[:2], *accepted(composed(10, seed=30 + number)), *SEVERAL[number::24], *VALUED[number::4]]
    engines = [MAKERS["postgres"](catalog, arrow(rows)) for rows in (one, other)]
    made = replayed(*engines, (one, other), catalog, asked)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(made) // 2
    assert all(made[sql].moved for sql in LEVELS)


@pytest.mark.spark
def test_forms_on_spark(seeded: Any) -> None:
    one, other, catalog, _ = PAIRS["a person with many rows goes"]
    engines = [spark_engine(catalog, arrow(rows)) for rows in (one, other)]
    # The table of what is left out is a query of its own, and others ask Spark for it.
    made = replayed(*engines, (one, other), catalog, (*FORMS, DECLARED[0]), bias_share=0)
    assert findings(made) == {}
    assert sum(each.moved for each in made.values()) > len(made) // 2
    assert all(made[sql].moved for sql in LEVELS)


def test_numbers_that_move_too_far_are_found_on_postgres(seeded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, catalog, _ = PAIRS["a person with many rows goes"]
    engines = [MAKERS["postgres"](catalog, arrow(rows)) for rows in (one, other)]
    measure = Held.measure

    def thousandfold(self: Held, work: Any) -> Any:
        found = measure(self, work)
        return type(found)(found.keys, found.raw_units, tuple(part * 1000 for part in found.raw))

    monkeypatch.setattr(Held, "measure", thousandfold)
    made = replayed(*engines, (one, other), catalog, FORMS[:1], bias_share=0)
    assert findings(made)


def levels_replayed(engine: str) -> dict[str, Report]:
    one, other, catalog, _ = PAIRS["a person with many rows goes"]
    if engine != "duckdb":
        engines = [MAKERS[engine](catalog, arrow(rows)) for rows in (one, other)]
        return replayed(*engines, (one, other), catalog, LEVELS, bias_share=0)
    benches = [bench(rows, catalog) for rows in (one, other)]
    return {sql: report(*benches, sql, number) for number, sql in enumerate(LEVELS)}


def test_forms_with_totals_have_levels() -> None:
    """Check what the replays rest on: each release has noise on sums of groups."""
    curator = bench(hostile.ordinary()).curators["zcdp"]
    for sql in LEVELS:
        assert all(release.levels for release in curator.explain(sql).plan.priced.releases), sql


def test_noise_on_totals_on_duckdb(seeded: Any) -> None:
    """Sums of groups with noise of their own move by no more than they declare."""
    made = levels_replayed("duckdb")
    assert findings(made) == {}
    assert all(each.moved for each in made.values())


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_totals_that_move_too_far_are_found(engine: str, seeded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = LevelBasis.measured
    monkeypatch.setattr(LevelBasis, "measured", lambda self, table, level: 1000 * measured(self, table, level))
    assert findings(levels_replayed(engine)).keys() == set(LEVELS)
