"""Where a join multiplies a unit's rows, it enters with a public number of them: the same rows on every engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from engines import clinic, cut, slow_engine
from engines.makers import MAKERS, OTHERS
from support.engine_comparison import SECRET, agree, check_close, opened, plain
from tacit.engines.protocol import MeasurementTask
from tacit.engines.sql.relations import has_row_units
from tacit.query.planning.work import cuts
from tacit.query.resolve import resolve

ROWS = [
    (0, 3, 0),
    (2, 6, 60),
    pytest.param(3, 40, 120, marks=pytest.mark.deep),
    pytest.param(5, 2, 40, marks=pytest.mark.deep),
]


def test_most_queries_are_cut() -> None:
    found = [cuts(resolve(sql, cut.CATALOG).final.source) for sql in cut.QUERIES]
    assert sum(bool(pairs) for pairs in found) >= len(cut.QUERIES) - 1
    assert {most for pairs in found for _, most in pairs} <= {cut.MOST, 2 * cut.MOST}


@pytest.mark.parametrize(("seed", "people", "rows"), ROWS)
def test_duckdb_keeps_the_rows_of_the_slow_engine(seed: int, people: int, rows: int) -> None:
    data = clinic.random_rows(seed, people, rows)
    tables = clinic.canonical(data)
    with opened(cut.CATALOG, clinic.arrow(data)) as engine:
        for sql in cut.QUERIES:
            final = resolve(sql, cut.CATALOG).final
            for secret in (SECRET, b"another"):
                want = slow_engine.measure(final, tables, secret, numbered=has_row_units(final.nodes))
                assert plain(engine.measure(MeasurementTask(final, secret))) == want, sql


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(("seed", "people", "rows"), ROWS[1:3])
def test_other_engines_keep_the_same(other: str, seed: int, people: int, rows: int) -> None:
    frames = clinic.arrow(clinic.random_rows(seed, people, rows))
    with MAKERS["duckdb"](cut.CATALOG, frames) as one, MAKERS[other](cut.CATALOG, frames) as two:
        told = agree(other, one, two, ((sql, resolve(sql, cut.CATALOG).final) for sql in cut.QUERIES))
    assert told > len(cut.QUERIES) // 2


@pytest.mark.parametrize(("table", "seed", "people", "rows"), [("visits", 11, 8, 70), ("members", 12, 5, 80), ("visits", 13, 1, 30)])  # fmt: skip
def test_a_neighbour_moves_no_more_than_it_may(table: str, seed: int, people: int, rows: int) -> None:
    data = clinic.random_rows(seed, people, rows)
    owners = Counter(row[1 if table == "visits" else 0] for row in data[table])
    heavy = next(unit for unit, _ in owners.most_common() if unit is not None)
    fewer = clinic.without(data, table, heavy)
    population = "patients" if table == "visits" else "members"
    moved = 0
    with opened(cut.CATALOG, clinic.arrow(data)) as one, opened(cut.CATALOG, clinic.arrow(fewer)) as other:
        for sql in cut.QUERIES:
            final = resolve(sql, cut.CATALOG).final
            if final.population == population:
                work = MeasurementTask(final, SECRET)
                moved += check_close(final, one.measure(work), other.measure(work), sql)
    assert moved


def test_which_rows_are_kept_depends_on_that_unit_alone() -> None:
    """The pairs of all others stay the same when a person comes or goes, in whatever order rows lie."""
    data = clinic.random_rows(2, 6, 60)
    owners = [unit for unit, _ in Counter(row[1] for row in data["visits"]).most_common() if unit is not None]
    final = resolve("SELECT COUNT(*), SUM(a.cost) FROM visits a JOIN visits b USING (patient_id)", cut.CATALOG).final

    def measured(rows: dict[str, list[tuple[object, ...]]]) -> list[list[object]]:
        with opened(cut.CATALOG, clinic.arrow(rows)) as engine:
            return plain(engine.measure(MeasurementTask(final, SECRET)))[2]

    def alone(unit: object) -> list[list[object]]:
        return measured({**data, "visits": [row for row in data["visits"] if row[1] == unit]})

    together = measured(data)
    assert together == measured({**data, "visits": data["visits"][::-1]})
    shares = [alone(unit) for unit in owners]
    assert together == [[sum(share[i][0] for share in shares)] for i in range(len(together))]  # type: ignore[misc]


def test_a_heavy_unit_makes_no_more_pairs_than_it_may() -> None:
    """The bound that the plan states is one that the engine keeps, however many rows a person has."""
    rows = 5000
    visits = [(i, 1, "cardio", None, 0.5, 1.0, None, None, True, "x" * 3000, 1, i) for i in range(rows)]
    data = {**clinic.random_rows(0, 1, 0), "visits": visits}
    wide = tuple(replace(t, max_rows=10**6, unit_rows=20) if not t.public else t for t in clinic.CATALOG.tables)
    catalog = replace(clinic.CATALOG, tables=wide)
    frames: dict[str, pa.Table] = clinic.arrow(data)
    for sql, most in (
        ("SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id)", 20**2),
        ("SELECT COUNT(*) FROM visits a JOIN visits b USING (patient_id) JOIN visits c USING (patient_id)", 20**3),
        ("SELECT COUNT(*) FROM visits CROSS JOIN (VALUES (1), (2), (3)) t(k)", 20 * 3),
        ("SELECT SUM(length(a.note)) FROM visits a JOIN visits b USING (patient_id)", None),
    ):
        if most is None:
            sql = sql.replace("length(a.note)", "length(a.note), contribution_bounds_per_row => (0, 5000)")
            most = 20**2 * 1000
        with opened(catalog, frames) as engine:
            assert engine.measure(MeasurementTask(resolve(sql, catalog).final, SECRET)).raw[0].tolist() == [most], sql
