"""Every accelerator of DuckDB gives the integers of the plain statements: one suite, switched on one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines import clinic
from tacit.engines import Measurements, MeasurementTask
from tacit.engines.duckdb import DataSource, DuckDBEngine
from tacit.engines.duckdb.fast.table_cache import TableCache
from tacit.engines.duckdb.statements import DuckDBWriter
from tacit.engines.sql.statements import Writer
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

SECRET = b"fast"
KEYS = ("a", "b", "c", "d", "e")
QUESTIONS = (
    "SELECT k, COUNT(*), SUM(x), AVG(x), COUNT(DISTINCT id) FROM t GROUP BY k",
    "SELECT k, n, COUNT(x), SUM(n), VARIANCE(n) FROM t GROUP BY k, n",
    "SELECT k, SUM(x) FILTER (WHERE n > 2), COUNT(*) FILTER (WHERE x IS NULL) FROM t WHERE id <> 3 GROUP BY k",
    "SELECT k, MEDIAN(x), COUNT(DISTINCT n) FROM t GROUP BY k",
    "SELECT n, COUNT(*) FROM t GROUP BY n",
    "SELECT COUNT(*), SUM(x), AVG(n) FROM t",
)


def without_arrays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tacit.engines.duckdb.fast.measure", lambda *_: None)


def without_copies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TableCache, "_current", lambda *_: None)


def without_bit_sets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DuckDBWriter, "sums", Writer.sums)
    patch.setattr(DuckDBWriter, "kept", Writer.kept)


#: One for each module of ``fast``: how to do without it.
ACCELERATORS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "array_totals": without_arrays,
    "table_cache": without_copies,
    "bitset_bounding": without_bit_sets,
}


def catalog(max_groups: int) -> Catalog:
    columns = (
        Column("id", INTEGER),
        Column("k", TEXT, categories=KEYS),
        Column("n", INTEGER, bounds=(-3, 6)),
        Column("x", DOUBLE, bounds=(-1.0, 10.0)),
    )
    table = Table("t", columns, population="p", unit="id", max_groups=max_groups, max_rows=2)
    return Catalog((table,), (Population("p"),))


@contextmanager
def only(name: str | None) -> Iterator[None]:
    """With one accelerator, or with none."""
    with pytest.MonkeyPatch.context() as patch:
        for other, leave_out in ACCELERATORS.items():
            if other != name:
                leave_out(patch)
        yield


def shown(found: Measurements) -> tuple[object, ...]:
    return found.keys, found.raw_units.tolist(), [array.tolist() for array in found.raw]


def asked(file: Path, declared: Catalog, questions: tuple[str, ...]) -> list[list[tuple[object, ...]]]:
    """Twice, since the first question of a file makes no copy of it."""
    with DuckDBEngine(declared, {"t": DataSource("parquet", str(file))}) as engine:
        works = [MeasurementTask(resolve(sql, declared).final, SECRET) for sql in questions]
        return [[shown(engine.measure(work)) for work in works] for _ in range(2)]


def test_every_module_of_fast_is_named() -> None:
    from tacit.engines.duckdb import fast

    there = {path.stem for path in Path(fast.__file__).parent.glob("*.py")} - {"__init__"}
    assert there == set(ACCELERATORS)


unit = st.one_of(st.integers(-4, 12), st.sampled_from([2**40, 2**62, -(2**63), None]))
number = st.one_of(st.none(), st.integers(-5, 9))
value = st.one_of(
    st.none(), st.sampled_from([float("nan"), float("inf"), -float("inf"), -0.0, 3.25, 1e300, -4.0, 9.75])
)
rows = st.lists(st.tuples(unit, st.sampled_from([*KEYS, None, "other"]), number, value), max_size=60)


@pytest.mark.parametrize("name", ACCELERATORS)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=rows, max_groups=st.sampled_from([1, 2, 5, 300]))
def test_equals_the_plain_path(
    name: str, rows: list[tuple[object, ...]], max_groups: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kinds = {"id": pa.int64(), "k": pa.string(), "n": pa.int64(), "x": pa.float64()}
    columns = zip(*rows, strict=True) if rows else ([] for _ in kinds)
    made = {name: pa.array(list(cells), type=kind) for (name, kind), cells in zip(kinds.items(), columns, strict=True)}
    file = tmp_path_factory.mktemp("fast") / "t.parquet"
    pq.write_table(pa.table(made), file)
    declared = catalog(max_groups)
    with only(None):
        plain = asked(file, declared, QUESTIONS)
    assert plain[0] == plain[1]
    with only(name):
        assert asked(file, declared, QUESTIONS) == plain


@pytest.mark.parametrize("name", ACCELERATORS)
def test_equals_the_plain_path_on_hostile_rows(name: str, tmp_path: Path) -> None:
    sources = {}
    for table, frame in clinic.arrow(clinic.random_rows(5, 30, 200)).items():
        pq.write_table(frame, tmp_path / f"{table}.parquet")
        sources[table] = DataSource("parquet", str(tmp_path / f"{table}.parquet"))
    works = [MeasurementTask(resolve(sql, clinic.CATALOG).final, SECRET) for sql in clinic.QUESTIONS]
    with only(None), DuckDBEngine(clinic.CATALOG, sources) as engine:
        plain = [shown(engine.measure(work)) for work in works]
    with only(name), DuckDBEngine(clinic.CATALOG, sources) as engine:
        assert [shown(engine.measure(work)) for work in works] == plain
