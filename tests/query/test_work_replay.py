"""Queries that multiply a person's rows, recorded on one database and replayed on a neighbour.

Persons enter multiplying joins with few rows here, so that the choice of rows bites; a choice that looked at any
other person's rows would move more than is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from query.corpus import hostile
from query.corpus.accepted import WRITTEN
from query.corpus.clinic import CATALOG
from query.corpus.multiplied import CUT, TOO_MUCH
from support.bits import SeededBits
from support.sql_replay import BUDGETS, bench, findings, reports
from tacit.core.errors import QueryError
from tacit.core.relations import REPLACE_ONE
from tacit.engines.sql import relations
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Population
from tacit.query.planning.work import cuts
from tacit.query.resolve import resolve

FEW = Catalog(tuple(t if t.public else replace(t, unit_rows=4) for t in CATALOG.tables), CATALOG.populations)
REPLACING = Catalog(FEW.tables, tuple(Population(p.name, REPLACE_ONE) for p in FEW.populations))
ALL_PEOPLE = hostile.joined(hostile.ordinary(), hostile.heavy())


@cache
def queries() -> tuple[str, ...]:
    """Found when the first test asks: every process collects all tests."""
    asked = dict.fromkeys((*WRITTEN, *(sql for sql, _ in CUT)))
    return tuple(sql for sql in asked if cuts(resolve(sql, FEW).final.source))


@pytest.fixture(scope="module", autouse=True)
def bits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        source = SeededBits(20261117)
        patch.setattr(entropy, "current", lambda: source)
        yield


def test_there_are_queries_that_are_cut() -> None:
    assert len(queries()) >= 8


@pytest.mark.parametrize(
    ("other", "catalog"),
    [
        (hostile.ordinary(), FEW),
        (hostile.without_patient(ALL_PEOPLE, 1), FEW),
        (hostile.joined(hostile.ordinary(), hostile.newcomer()), REPLACING),
    ],
    ids=["heavy goes", "ordinary goes", "one for another"],
)
def test_neighbours(other: hostile.Rows, catalog: Catalog) -> None:
    made = reports(ALL_PEOPLE, other, queries(), catalog)
    assert findings(made) == {}
    assert any(each.moved for each in made.values())


def test_a_choice_among_all_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT COUNT(*) FROM visits JOIN (VALUES (1), (2)) t(k) ON visit_id > k"
    catalog = Catalog(
        tuple(t if t.public else replace(t, max_rows=1, unit_rows=2) for t in FEW.tables), FEW.populations
    )
    assert findings(reports(ALL_PEOPLE, hostile.ordinary(), [sql], catalog)) == {}
    own = relations._first_rows

    def among_all(*args: object) -> str:
        written = own(*args)  # type: ignore[arg-type]
        assert re.search(r"PARTITION BY c\d", written)
        return re.sub(r"PARTITION BY c\d", "", written)

    monkeypatch.setattr(relations, "_first_rows", among_all)
    assert list(findings(reports(ALL_PEOPLE, hostile.without_patient(ALL_PEOPLE, 77), [sql], catalog))) == [sql]


def test_what_is_refused_reads_nothing_and_costs_nothing() -> None:
    one, other = bench(ALL_PEOPLE), bench(hostile.empty())
    for sql in TOO_MUCH:
        said = []
        for each in (one, other):
            for kind in BUDGETS:
                with pytest.raises(QueryError) as refused:
                    each.ask(sql, kind, 0)
                said.append((refused.value.code, str(refused.value)))
        assert len(set(said)) == 1
        assert said[0][0] == "query.work"
    assert all(curator.history(population="patients") == () for curator in one.curators.values())
