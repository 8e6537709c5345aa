"""The search for AUTO bounds moves by at most what is declared, and the rest depends on the data through it alone.

Every AUTO query of the corpus, on the corpus database and on it without one unit, with the real engine. Nothing is
sampled: what the search would release is replayed, the same on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from query.corpus.accepted import ACCEPTED
from query.corpus.clinic import CATALOG
from query.corpus.data import DATABASE, without
from support.engine_comparison import check_close, corpus_frames, opened
from support.toy_engine import ToyEngine
from tacit.core.relations import ADD_REMOVE, REPLACE_ONE
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query import release as noising
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.auto_bounds import edges_of, find, sought
from tacit.query.planning.plan import Plan, make_plan, plan_query, with_bounds
from tacit.query.request import Account, Request
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER

SECRET = b"another secret"
AUTO = tuple(sql for sql in ACCEPTED if "AUTO)" in sql)
GONE = {"patients": 1, "events": 5}
#: Number of units; each is in the search of a column at most once.
UNITS = {"patients": len({row["patient_id"] for row in DATABASE["visits"]}), "events": len(DATABASE["log"])}


def planned(sql: str, account: str = "zcdp") -> Plan:
    return make_plan(sql, CATALOG, Request(epsilon=1, account=Account(account, "1e-6")))


@contextmanager
def replayed(values: np.ndarray[Any, Any], seen: list[Any]) -> Iterator[None]:
    """Every mechanism returns ``values`` of the right shape instead of noisy integers, and its input is recorded."""

    def draw(step: Any, keys: Any, raw: Any) -> Any:
        seen.append((step, np.array(raw, dtype=object)))
        return np.resize(values, raw.shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noising, "draw", draw)
        yield


def test_there_are_queries_to_ask() -> None:
    assert len(AUTO) >= 10
    assert {planned(sql).final.population for sql in AUTO} == set(GONE)


def test_no_unit_moves_the_search_further_than_declared() -> None:
    base = opened(CATALOG, corpus_frames(DATABASE))
    gone = {name: opened(CATALOG, corpus_frames(without(name, unit))) for name, unit in GONE.items()}
    moved = 0
    for sql in AUTO:
        search = planned(sql).first
        assert search is not None
        work = MeasurementTask(search.final, SECRET)
        one, other = base.measure(work), gone[search.final.population].measure(work)
        moved += check_close(search.final, one, other, sql)
        for release in search.priced.releases:
            moves = [
                abs(x - y)
                for index in release.block.measures
                for x, y in zip(one.raw[index].ravel().tolist(), other.raw[index].ravel().tolist(), strict=True)
            ]
            assert sum(moves) <= release.block.sensitivity.l1 == 1
            assert all(int(one.raw[index].sum()) <= UNITS[search.final.population] for index in release.block.measures)
    for engine in (base, *gone.values()):
        engine.close()
    assert moved >= len(AUTO) // 2


def test_the_rest_depends_on_the_data_through_the_bounds_alone() -> None:
    """Replay one released histogram on neighbours: the same plan, digest, charge; inputs within its sensitivity."""
    base = opened(CATALOG, corpus_frames(DATABASE))
    gone = {name: opened(CATALOG, corpus_frames(without(name, unit))) for name, unit in GONE.items()}
    differing = 0
    for number, sql in enumerate(AUTO):
        plan = planned(sql)
        search = plan.first
        assert search is not None
        noisy = np.where(np.arange(191) % (37 + number) == 5, 10_000, 0)
        rests, seen = [], []
        for engine in (base, gone[plan.final.population]):
            recorded: list[Any] = []
            with replayed(noisy, recorded):
                released = noising.add_noise(*search, engine.measure(MeasurementTask(search.final, SECRET)))
            seen.append(recorded)
            rests.append(with_bounds(plan, find(plan.final, released.noisy, released.laws)))
        one, other = rests
        assert one == other
        assert one.digest == other.digest
        assert one.guarantee == plan.guarantee
        assert [step for step, _ in seen[0]] == [step for step, _ in seen[1]]
        differing += any((a != b).any() for (_, a), (_, b) in zip(*seen, strict=True))
        work = MeasurementTask(one.final, SECRET)
        check_close(one.final, base.measure(work), gone[plan.final.population].measure(work), sql)
    for engine in (base, *gone.values()):
        engine.close()
    assert differing >= len(AUTO) // 2


@pytest.mark.parametrize("seed", range(2))
def test_no_unit_moves_the_rest_further_than_declared_whatever_was_found(seed: int) -> None:
    base = opened(CATALOG, corpus_frames(DATABASE))
    gone = {name: opened(CATALOG, corpus_frames(without(name, unit))) for name, unit in GONE.items()}
    for sql in AUTO:
        plan = planned(sql)
        bounds = []
        for value in sought(plan.final):
            edges = edges_of(value.argument)
            i, j = sorted(((seed * 7919 + 31) % len(edges), (seed * 104729 + 57) % len(edges)))
            bounds.append((edges[i], edges[j]))
        rest = with_bounds(plan, bounds)
        work = MeasurementTask(rest.final, SECRET)
        check_close(rest.final, base.measure(work), gone[plan.final.population].measure(work), f"{bounds} {sql}")
    for engine in (base, *gone.values()):
        engine.close()


def test_replacing_a_unit_moves_the_search_by_two() -> None:
    for relation, moved in ((ADD_REMOVE, 1), (REPLACE_ONE, 2)):
        plan = plan_query(resolve(AUTO[0], CATALOG), relation, Request(epsilon=1))
        assert plan.first is not None
        assert plan.first.priced.releases[0].block.sensitivity.l1 == moved


STRANGE = [
    None,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1e308,
    -1e308,
    math.inf,
    -math.inf,
    math.nan,
    2.0**62,
    -(2.0**62),
    0.5,
    3.0,
]


def test_strange_values_are_counted_in_a_cell_or_not_at_all() -> None:
    """Infinities and NaN are NULL at the scan; the engine's counts are those of the definition in Python."""
    catalog = Catalog(
        (Table("t", (Column("id", INTEGER), Column("x", DOUBLE)), population="p", unit="id"),), (Population("p"),)
    )
    plan = make_plan("SELECT AVG(CLAMP(x, AUTO)) FROM t", catalog, Request(epsilon=1))
    assert plan.first is not None
    frame = pa.table({"id": pa.array(range(len(STRANGE))), "x": pa.array(STRANGE, type=pa.float64())})
    with DuckDBEngine(catalog, {"t": DataSource("frame", None, frame)}, Limits(threads=1)) as engine:
        (counts,) = engine.measure(MeasurementTask(plan.first.final, SECRET)).raw
    finite = [{"id": i, "x": x if x is not None and math.isfinite(x) else None} for i, x in enumerate(STRANGE)]
    (expected,) = ToyEngine({"t": finite}).measure(MeasurementTask(plan.first.final, SECRET)).raw
    assert counts[0].tolist() == list(expected[0])
    edges = edges_of(sought(plan.final)[0].argument)
    assert counts[0][0] == 2
    assert counts[0][len(counts[0]) - 1] == 2
    assert counts[0][edges.index(Fraction(0))] == 2
    assert counts.sum() == len(STRANGE) - 4


def test_the_search_sees_the_rows_that_the_aggregate_sees() -> None:
    catalog = Catalog(
        (Table("t", (Column("id", INTEGER), Column("x", DOUBLE)), population="p", unit="id"),), (Population("p"),)
    )
    sql = "SELECT SUM(CLAMP(2 * x, AUTO)) FILTER (WHERE x > 1) FROM t WHERE x < 100"
    plan = make_plan(sql, catalog, Request(epsilon=1))
    assert plan.first is not None
    rows = [{"id": i // 2, "x": float(x)} for i, x in enumerate([0.5, 3, 3.5, 200, 1, 1, 200, 200])]
    (counts,) = ToyEngine({"t": rows}).measure(MeasurementTask(plan.first.final, SECRET)).raw
    edges = edges_of(sought(plan.final)[0].argument)
    assert {edges[i + 1]: count for i, count in enumerate(counts[0]) if count} == {8: 2}
