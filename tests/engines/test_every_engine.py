"""One behaviour: every engine gives the integers of DuckDB and of the slow engine, keys in the same order, and refuses the same."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engines import clinic, slow_engine
from engines.makers import MAKERS, OTHERS
from query.corpus.accepted import ACCEPTED
from query.corpus.by_value import BY_VALUE, STRUCTURES, TIES
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE, without
from support.engine_comparison import (
    NOT_DONE,
    SECRET,
    agree,
    check_close,
    corpus_frames,
    final_of,
    plain,
    refusal,
    shown,
)
from tacit.core.relations import ADD_REMOVE
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql.relations import has_row_units
from tacit.query.planning.bias import bias_query, bias_table
from tacit.query.planning.plan import plan_query
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve


@pytest.fixture(scope="module", params=OTHERS)
def other(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(
    ("seed", "people", "rows"), [(0, 3, 0), (2, 6, 60), pytest.param(3, 40, 120, marks=pytest.mark.deep)]
)
def test_hostile_rows(other: str, seed: int, people: int, rows: int) -> None:
    data = clinic.random_rows(seed, people, rows)
    tables, frames = clinic.canonical(data), clinic.arrow(data)
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS[other](clinic.CATALOG, frames) as two:
        agree(other, one, two, ((sql, final_of(sql, clinic.CATALOG)) for sql in clinic.QUERIES))
        for sql in clinic.QUERIES[::3]:
            final = final_of(sql, clinic.CATALOG)
            if sql not in NOT_DONE[other]:
                want = slow_engine.measure(final, tables, SECRET, numbered=has_row_units(final.nodes))
                assert plain(two.measure(MeasurementTask(final, SECRET))) == want, sql


@pytest.mark.deep
def test_corpus_of_accepted_queries(other: str) -> None:
    frames = corpus_frames(DATABASE)
    queries = (*ACCEPTED, *BY_VALUE, *STRUCTURES, *TIES)
    with MAKERS["duckdb"](CATALOG, frames) as one, MAKERS[other](CATALOG, frames) as two:
        told = agree(other, one, two, ((sql, final_of(sql, CATALOG)) for sql in queries))
    assert len(queries) > 500
    assert told > len(queries) // 2


@pytest.mark.deep
def test_searches_for_limits(other: str) -> None:
    """The cells of people by groups and rows: made of the nodes that there are, so every engine counts the same."""
    data = clinic.random_rows(5, 40, 160)
    frames = clinic.arrow(data)
    account = Account("zcdp", "1e-6")
    searches = []
    for sql in clinic.QUERIES[::4]:
        request = Request(epsilon=1, max_groups="auto", max_rows="auto", account=account)
        plan = plan_query(resolve(sql, clinic.CATALOG, max_rows="auto"), ADD_REMOVE, request)
        searches += [(f"limits of {sql}", plan.searches[0].final)] if plan.seeks_limits else []
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS[other](clinic.CATALOG, frames) as two:
        assert agree(other, one, two, searches) > 3
        for name, final in searches[::2]:
            want = slow_engine.measure(final, clinic.canonical(data), SECRET, numbered=has_row_units(final.nodes))
            assert plain(two.measure(MeasurementTask(final, SECRET))) == want, name


@pytest.mark.deep
def test_tables_of_what_is_bias(other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted with the query where a statement can, and by a query of its own: the same units in each cell."""
    data = clinic.random_rows(5, 20, 90)
    tables, frames = clinic.canonical(data), clinic.arrow(data)
    finals = [(sql, final_of(sql, clinic.CATALOG)) for sql in clinic.QUERIES if sql not in NOT_DONE[other]]
    asked = [(sql, final, table) for sql, final in finals if (table := bias_table(final)) is not None]
    together, known = 0, {}
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS[other](clinic.CATALOG, frames) as two:
        for number, (sql, final, table) in enumerate(asked):
            query = bias_query(final, table)
            assert refusal(one, query) is refusal(two, query) is None, sql
            two.check_bias(final, table)
            together += sum("cell" in statement for statement in two.explain(final, table))
            work = MeasurementTask(final, SECRET, bias=table)
            found, want = two.measure(work), one.measure(MeasurementTask(query, SECRET))
            assert found.raw_bias is not None
            assert found.raw_bias.tolist() == want.raw[0].tolist(), sql
            assert plain(found) == plain(one.measure(work)), sql
            known[sql] = found.raw_bias.tolist()
            if number % 3 == 0:
                slow = slow_engine.measure(query, tables, SECRET, numbered=False)
                assert plain(two.measure(MeasurementTask(query, SECRET))) == plain(want) == slow, sql
        # Numbers that are too large for 64 bits are computed another way.
        monkeypatch.setattr("tacit.engines.sql.statements._SMALL", -1)
        with MAKERS[other](clinic.CATALOG, frames) as three:
            for sql, final, table in asked[::4]:
                found = three.measure(MeasurementTask(final, SECRET, bias=table))
                assert found.raw_bias is not None
                assert found.raw_bias.tolist() == known[sql], sql
    assert len(asked) > 10
    assert together > len(asked) // 2


@pytest.mark.deep
def test_neighbours(other: str) -> None:
    gone = without("patients", 1)
    moved = gone_from_cells = 0
    with MAKERS[other](CATALOG, corpus_frames(DATABASE)) as one, MAKERS[other](CATALOG, corpus_frames(gone)) as two:
        for sql in ACCEPTED[::9]:
            final = final_of(sql, CATALOG)
            if final.population == "patients" and sql not in NOT_DONE[other]:
                work = MeasurementTask(final, SECRET, bias=bias_table(final))
                runs = one.measure(work), two.measure(work)
                moved += check_close(final, *runs, sql)
                cells = [run.raw_bias for run in runs if run.raw_bias is not None]
                if cells:
                    # One person who is gone is in one cell.
                    gaps = np.abs(cells[0] - cells[1])
                    assert gaps.sum() <= 1, sql
                    gone_from_cells += int(gaps.sum())
    assert moved > 10
    assert gone_from_cells > 10


@pytest.mark.deep
def test_order_of_rows_changes_nothing(other: str) -> None:
    data = clinic.random_rows(7, 30, 150)
    found = []
    for seed in (0, 1):
        shuffled = {name: random.Random(seed).sample(rows, len(rows)) for name, rows in data.items()}
        with MAKERS[other](clinic.CATALOG, clinic.arrow(shuffled)) as engine:
            asked = [sql for sql in clinic.QUERIES if sql not in NOT_DONE[other]]
            found.append(
                [shown(engine.measure(MeasurementTask(final_of(sql, clinic.CATALOG), SECRET))) for sql in asked]
            )
    assert found[0] == found[1]


def test_rows_as_units_do_not_depend_on_where_they_stand(other: str) -> None:
    data = clinic.random_rows(14, 3, 40)
    fewer = {**data, "events": data["events"][1:]}
    with (
        MAKERS[other](clinic.CATALOG, clinic.arrow(data)) as one,
        MAKERS[other](clinic.CATALOG, clinic.arrow(fewer)) as two,
    ):
        for sql in clinic.QUERIES:
            final = final_of(sql, clinic.CATALOG)
            if final.population == "rows" and sql not in NOT_DONE[other]:
                check_close(
                    final, one.measure(MeasurementTask(final, SECRET)), two.measure(MeasurementTask(final, SECRET)), sql
                )


def test_another_secret_keeps_other_groups(other: str) -> None:
    data = clinic.random_rows(3, 40, 200)
    final = resolve("SELECT team, COUNT(*) FROM members GROUP BY team", clinic.CATALOG).final
    frames = clinic.arrow(data)
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS[other](clinic.CATALOG, frames) as two:
        by_secret = [shown(two.measure(MeasurementTask(final, secret))) for secret in (b"a", b"b", b"c")]
        assert by_secret == [shown(one.measure(MeasurementTask(final, secret))) for secret in (b"a", b"b", b"c")]
    assert len(set(by_secret)) == 3


def test_one_row_of_each_unit_for_a_model(other: str) -> None:
    """Every engine hands over the same row of each unit, and rows as units all, in the same order."""
    frames = clinic.arrow(clinic.random_rows(5, 30, 150))
    with MAKERS["duckdb"](clinic.CATALOG, frames) as one, MAKERS[other](clinic.CATALOG, frames) as two:
        for sql in (
            "SELECT SUM(level), COUNT(note) FROM visits WHERE urgent OR level > 0",
            "SELECT SUM(n), COUNT(free) FROM events",
        ):
            relation = final_of(sql, clinic.CATALOG).source
            names = [field.name for field in relation.fields]
            numbers = [names.index("level"), names.index("urgent")] if "level" in names else [names.index("n")]
            label = names.index("note" if "note" in names else "free")
            found = []
            for engine in (one, two):
                raw, labels = engine.examples(relation, numbers, label, SECRET)
                assert labels is not None
                found.append(list(map(repr, zip(raw.tolist(), labels.tolist(), strict=True))))
            assert found[0] == found[1]
            assert len(found[0]) > 10
