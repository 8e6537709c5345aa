"""Every accelerator of DuckDB gives the integers of the plain statements: one suite, switched on one by one."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines import clinic
from engines.fast_paths import ACCELERATORS, PLANS, only
from support.engine_comparison import plain
from tacit.engines.duckdb import DataSource, DuckDBEngine, segments, totals
from tacit.engines.duckdb.segments import SortedRows
from tacit.engines.duckdb.totals import TotalsPlan
from tacit.engines.protocol import Measurements, MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.bias import bias_table
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT, decimal

SECRET = b"fast"
KEYS = ("a", "b", "c", "d", "e")
QUERIES = (
    "SELECT k, COUNT(*), SUM(x), AVG(x), COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT k, n, COUNT(x), SUM(n), VARIANCE(n) FROM t GROUP BY k, n",
    "SELECT k, SUM(x) FILTER (WHERE n > 2), COUNT(*) FILTER (WHERE x IS NULL) FROM t WHERE id <> 3 GROUP BY k",
    "SELECT k, MEDIAN(x), COUNT(DISTINCT n) FROM t GROUP BY k",
    "SELECT n, COUNT(*) FROM t GROUP BY n",
    "SELECT COUNT(*), SUM(x), AVG(n) FROM t",
    "SELECT k, SUM(n), COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT k, SUM(CASE WHEN n > 2 THEN x END), AVG(x) FROM t WHERE n IS NOT NULL GROUP BY k",
    "SELECT n > 2 AS many, COUNT(*), SUM(d) FROM t GROUP BY 1",
    "SELECT k, AVG(d), SUM(d) FILTER (WHERE x > 0) FROM t GROUP BY k",
    "SELECT k, SUM(n, contribution_bounds_per_group => (-2, 3)), SUM(CLAMP(n, 0, 4)) FROM t GROUP BY k",
    "SELECT CASE WHEN n > 2 THEN 'many' ELSE 'few' END AS some, COUNT(n) FROM t GROUP BY 1",
    # Keys that are not declared, one and several, of every type.
    "SELECT w, COUNT(*), SUM(x), AVG(n), COUNT(DISTINCT id) FROM t GROUP BY w",
    "SELECT w, d, COUNT(x), SUM(d) FILTER (WHERE n > 0), VARIANCE(n) FROM t WHERE id <> 3 GROUP BY w, d",
    "SELECT FLOOR(x), n, w IS NULL, COUNT(*) FROM t GROUP BY 1, 2, 3",
    "SELECT w, n, MEDIAN(n), COUNT(DISTINCT w), MAX(d) FROM t GROUP BY w, n",
    # Values: of texts, rounded doubles with both zeros, decimals; places with many copies; categories.
    "SELECT COUNT(DISTINCT w), COUNT(DISTINCT ROUND(x)), COUNT(DISTINCT d), SUM(DISTINCT n), AVG(DISTINCT d) FROM t",
    "SELECT k, COUNT(DISTINCT n) FILTER (WHERE n > 0), QUANTILE(d, 0.9), MIN(n) FROM t GROUP BY k",
    "SELECT n, COUNT(DISTINCT w), MEDIAN(x) FROM t GROUP BY n",
    "SELECT w, MODE(k), COUNT(DISTINCT id) FROM t GROUP BY w",
    "SELECT k, APPROX_COUNT_DISTINCT(w), MAX(x) FROM t WHERE n < 5 GROUP BY k",
    # Sums over units, and some over the rows of one unit, that 64 bits do not hold; products inside CLAMP.
    "SELECT k, SUM(n * 50000000000000000), AVG(n * 50000000000000000), CORR(d, n), VARIANCE(x) FROM t GROUP BY k",
    "SELECT w, SUM(n * 50000000000000000), COVAR_POP(x, d) FROM t GROUP BY w",
    # Public rows that copy rows: some, all, in two tables, none; and some that do more.
    "SELECT k, COUNT(*), SUM(x), VARIANCE(n), COUNT(DISTINCT id) FROM t CROSS JOIN p WHERE v > 1 AND n <> 0 GROUP BY k",
    "SELECT w, COUNT(*), SUM(d), AVG(n) FROM p, t GROUP BY w",
    "SELECT COUNT(*), SUM(n), AVG(x) FROM t CROSS JOIN p WHERE v > 9",
    "SELECT COUNT(*), SUM(d), COUNT(n) FILTER (WHERE n > 0) FROM t CROSS JOIN (VALUES (1), (2)) AS a(y) "
    "CROSS JOIN (VALUES (1), (5), (2)) AS b(z) WHERE z < 3",
    "SELECT k, COUNT(*), SUM(v) FROM t JOIN p ON v < n GROUP BY k",
    # Numbers of rows of each person.
    "SELECT COUNT(*), AVG(CLAMP(c, 0, 3)) FROM (SELECT id, COUNT(*) AS c FROM t GROUP BY id)",
    "SELECT c > 1 AS many, COUNT(*) FROM (SELECT id, COUNT(*) AS c FROM t WHERE n > 2 GROUP BY id) GROUP BY many",
    "SELECT SUM(CLAMP(c, 0, 9)) FROM (SELECT id, COUNT(*) AS c FROM t GROUP BY id HAVING COUNT(*) > 1) WHERE id > 3",
)


def catalog(max_groups: int) -> Catalog:
    columns = (
        Column("id", INTEGER),
        Column("k", TEXT, categories=KEYS),
        Column("n", INTEGER, bounds=(-3, 6)),
        Column("x", DOUBLE, bounds=(-1.0, 10.0)),
        Column("d", decimal(2), bounds=(Fraction(-1, 2), Fraction(7, 2))),
        Column("w", TEXT),
    )
    table = Table("t", columns, population="p", unit="id", max_groups=max_groups, max_rows=2)
    beside = Table("p", (Column("v", INTEGER, bounds=(0, 5)),), public=True)
    return Catalog((table, beside), (Population("p"),))


def shown(found: Measurements) -> tuple[object, ...]:
    lost = None if found.raw_bias is None else found.raw_bias.tolist()
    return *plain(found), lost


def task(sql: str, declared: Catalog) -> MeasurementTask:
    """A query, and the table of what bounding leaves out of it."""
    final = resolve(sql, declared).final
    return MeasurementTask(final, SECRET, bias=bias_table(final))


def asked(file: Path, declared: Catalog, queries: tuple[str, ...], times: int) -> list[list[tuple[object, ...]]]:
    """So many times: the first query of a file makes no copy of it."""
    public = DataSource("frame", None, pa.table({"v": [1, 2, 2, 5]}))
    with DuckDBEngine(declared, {"t": DataSource("parquet", str(file)), "p": public}) as engine:
        works = [task(sql, declared) for sql in queries]
        return [[shown(engine.measure(work)) for work in works] for _ in range(times)]


def test_every_plan_of_rows_in_memory_has_an_accelerator() -> None:
    made = {name for name, each in vars(totals).items() if name.endswith("Plan") and each.__module__ == totals.__name__}
    assert made == set(PLANS)
    assert {*PLANS.values(), "columns", "copies"} == set(ACCELERATORS)


def test_rows_of_units_are_counted_in_memory_where_nothing_else_is_read_of_them() -> None:
    declared = catalog(2)
    frame = pa.table({"id": [1, 1, 2], "k": ["a"] * 3, "n": [3] * 3, "x": [1.0] * 3, "w": ["u"] * 3})
    frame = frame.append_column("d", pa.array([None] * 3, pa.decimal128(5, 2)))
    public = DataSource("frame", None, pa.table({"v": [1]}))
    with DuckDBEngine(declared, {"t": DataSource("frame", None, frame), "p": public}) as engine:
        shown = ["".join(engine.explain(resolve(sql, declared).final)) for sql in QUERIES[-3:]]
    assert [totals.COUNTED in each for each in shown] == [True, True, False]


unit = st.one_of(st.integers(-4, 12), st.sampled_from([2**40, 2**62, -(2**63), None]))
number = st.one_of(st.none(), st.integers(-5, 9))
value = st.one_of(
    st.none(), st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 3.25, 1e300, -4.0, 9.75])
)
cents = st.one_of(st.none(), st.decimals(-3, 9, places=2))
word = st.sampled_from([None, "", "a", "A", "ä", "\x00", "long " * 9, *"bcdefgh"])
row = st.tuples(unit, st.sampled_from([*KEYS, None, "other"]), number, value, cents, word)
#: Some rows are those of one person again and again.
rows = st.builds(
    lambda some, one, times: [*some, *one * times],
    st.lists(row, max_size=60),
    st.lists(row, max_size=3),
    st.integers(0, 5),
)


#: Those that do something without the others.
ALONE = ["bias", "totals", "spreads", "columns", "copies"]


@pytest.mark.deep
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows, max_groups=st.sampled_from([1, 2, 5, 300]))
def test_equals_the_plain_path(
    rows: list[tuple[object, ...]], max_groups: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kinds = {
        "id": pa.int64(),
        "k": pa.string(),
        "n": pa.int64(),
        "x": pa.float64(),
        "d": pa.decimal128(9, 2),
        "w": pa.string(),
    }
    listed = zip(*rows, strict=True) if rows else ([] for _ in kinds)
    made = {name: pa.array(list(cells), type=kind) for (name, kind), cells in zip(kinds.items(), listed, strict=True)}
    file = tmp_path_factory.mktemp("fast") / "t.parquet"
    pq.write_table(pa.table(made), file)
    declared = catalog(max_groups)
    with only(None):
        slow = asked(file, declared, QUERIES, 1)
    for name in ALONE:
        with only(name):
            assert asked(file, declared, QUERIES, 2 if name == "copies" else 1)[-1:] == slow, name


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.deep)])
def test_equals_the_plain_path_on_hostile_rows(tmp_path: Path, every: int) -> None:
    sources = {}
    for table, frame in clinic.arrow(clinic.random_rows(5, 30, 200)).items():
        pq.write_table(frame, tmp_path / f"{table}.parquet")
        sources[table] = DataSource("parquet", str(tmp_path / f"{table}.parquet"))
    works = [task(sql, clinic.CATALOG) for sql in clinic.QUERIES[::every]]
    with only(None), DuckDBEngine(clinic.CATALOG, sources) as engine:
        slow = [shown(engine.measure(work)) for work in works]
    for name in ALONE:
        with only(name), DuckDBEngine(clinic.CATALOG, sources) as engine:
            assert [shown(engine.measure(work)) for work in works] == slow, name


#: Numbers far from all others, of one person.
FAR = [-(2**63), -(2**63) + 5, -(10**12), 10**12, 2**62, 2**63 - 1, None]
CROWD = 3_000


def crowd(own_id: int, own: list[int | None]) -> pa.Table:
    """Many people with close numbers, a row each; and one more with rows of their own."""
    others = list(range(CROWD))
    return pa.table(
        {
            "id": pa.array([*others, *[own_id] * len(own)], pa.int64()),
            "k": pa.array([KEYS[i % 5] for i in range(CROWD + len(own))]),
            "n": pa.array([*[i % 40 for i in others], *own], pa.int64()),
        }
    )


CROWD_CATALOG = Catalog(
    (
        Table(
            "t",
            (Column("id", INTEGER), Column("k", TEXT, categories=KEYS), Column("n", INTEGER)),
            population="p",
            unit="id",
            max_groups=3,
            max_rows=1,
        ),
    ),
    (Population("p"),),
)
WIDE = "SUM(CLAMP(n, 0, 2305843009213693951))"
CROWDED = (
    f"SELECT k, COUNT(*), {WIDE} FROM t GROUP BY k",
    "SELECT n, COUNT(*) FROM t GROUP BY n",
    "SELECT COUNT(DISTINCT n), MEDIAN(CLAMP(n, -9000000000000000000, 9000000000000000000)) FROM t",
    "SELECT VARIANCE(CLAMP(n, 0, 1073741823)), AVG(CLAMP(n, 0, 1152921504606846975)) FROM t",
)


@pytest.mark.parametrize("own_id", [CROWD + 7, -(2**63), 2**63 - 1, 10**12, -3])
def test_far_numbers_of_one_person_equal_the_plain_path(own_id: int, tmp_path: Path) -> None:
    pq.write_table(crowd(own_id, FAR), tmp_path / "t.parquet")

    def measured() -> list[tuple[object, ...]]:
        with DuckDBEngine(CROWD_CATALOG, {"t": DataSource("parquet", str(tmp_path / "t.parquet"))}) as engine:
            return [shown(engine.measure(task(sql, CROWD_CATALOG))) for sql in CROWDED]

    fast_answers = measured()
    with only(None):
        assert fast_answers == measured()


@pytest.mark.parametrize("sql", CROWDED)
@pytest.mark.parametrize(
    ("own_id", "own"), [(2**62, [3, 4]), (-(2**63), [3, 4]), (CROWD, [5, 6, 7]), (CROWD, FAR), (10**12, FAR)]
)
def test_no_person_decides_how_rows_of_others_are_worked_at(
    sql: str, own_id: int, own: list[int | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither by an id or a value far from all others, nor by a sum that 64 bits might not hold."""
    sorted_apart, in_memory = [], []
    unique, measure = np.unique, TotalsPlan.measure

    def watched(values: np.ndarray[Any, Any], **words: Any) -> Any:
        sorted_apart.append(len(values))
        return unique(values, **words)

    def told(plan: TotalsPlan, *args: Any) -> Any:
        found = measure(plan, *args)
        in_memory.append(found is not None)
        return found

    monkeypatch.setattr(segments.np, "unique", watched)
    monkeypatch.setattr(TotalsPlan, "measure", told)
    pq.write_table(crowd(own_id, own), tmp_path / "t.parquet")
    with DuckDBEngine(CROWD_CATALOG, {"t": DataSource("parquet", str(tmp_path / "t.parquet"))}) as engine:
        engine.measure(MeasurementTask(resolve(sql, CROWD_CATALOG).final, SECRET))
    assert max(sorted_apart, default=0) < CROWD // 10
    assert all(in_memory)


def test_no_person_decides_how_wide_all_rows_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A value outside its bounds, or none, needs no field that the rows of all others then have as well."""
    widths = []
    sort = SortedRows.of

    def told(*args: Any) -> SortedRows:
        found = sort(*args)
        widths.append((found.below, found.group_bits, sorted(found.fields), sorted(found.apart)))
        return found

    monkeypatch.setattr(SortedRows, "of", told)
    columns_of = (Column("id", INTEGER), Column("n", INTEGER, bounds=(0, 39)))
    declared = Catalog((Table("t", columns_of, population="p", unit="id"),), (Population("p"),))
    for own in ([], [3], [None], [10**9]):
        pq.write_table(crowd(CROWD, own).drop(["k"]), tmp_path / f"{own}.parquet")
        with DuckDBEngine(declared, {"t": DataSource("parquet", str(tmp_path / f"{own}.parquet"))}) as engine:
            engine.measure(task("SELECT SUM(n), VARIANCE(n) FROM t", declared))
    assert len(widths) == 4
    assert len({str(width) for width in widths}) == 1
