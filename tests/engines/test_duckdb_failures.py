"""Failures say an id and nothing else, the operator's log says the rest, and the next query works."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.stopping import interrupting
from tacit.core.errors import EngineError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

CATALOG = Catalog(
    (
        Table(
            "t",
            (Column("id", INTEGER), Column("k", TEXT), Column("x", DOUBLE, bounds=(0.0, 1.0)), Column("n", INTEGER, bounds=(0, 2**50))),
            population="p",
            unit="id",
            max_groups=2,
        ),
        Table("u", (Column("a", INTEGER),), public=True),
    ),
    (Population("p"),),
)  # fmt: skip
EASY = resolve("SELECT COUNT(*) FROM t", CATALOG).final
#: Collects ten million values in lists.
LARGE = resolve(
    "SELECT COUNT(*) FROM (SELECT id, k, n, SUM(x) AS s FROM t JOIN u ON a < 200 GROUP BY id, k, n) WHERE s IS NULL",
    CATALOG,
).final
#: A join of every row with every public row, grouped by text: long, and large.
HARD = resolve("SELECT k, COUNT(*), COUNT(DISTINCT k) FROM t JOIN u ON a <> n GROUP BY k", CATALOG).final


def engine(limits: Limits, rows: int = 50_000) -> DuckDBEngine:
    numbers = pa.array(range(rows))
    texts = pa.array([f"a person's diagnosis {i}" for i in range(rows)])
    t = pa.table({"id": numbers, "k": texts, "x": pa.array([0.5] * rows), "n": numbers})
    u = pa.table({"a": pa.array(range(20_000))})
    return DuckDBEngine(CATALOG, {"t": DataSource("frame", None, t), "u": DataSource("frame", None, u)}, limits)


def fails(made: DuckDBEngine, work: MeasurementTask, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
        made.measure(work)
    error = caught.value
    assert error.opaque
    assert len(str(error)) == 32
    assert int(str(error), 16) >= 0
    assert error.__cause__ is None
    assert error.__context__ is None
    assert {record.name for record in caplog.records} == {"tacit.operator"}
    assert str(error) in caplog.text
    assert made.measure(MeasurementTask(EASY, b"k")).raw[0].tolist() == [50_000]


def test_time_limit(caplog: pytest.LogCaptureFixture) -> None:
    with engine(Limits(threads=2)) as made:
        fails(made, MeasurementTask(HARD, b"k", timeout=0.2), caplog)
        assert "INTERRUPT" in caplog.text


def test_memory_limit(caplog: pytest.LogCaptureFixture) -> None:
    with engine(Limits(memory="30MB", threads=2, seconds=60)) as made:
        fails(made, MeasurementTask(LARGE, b"k"), caplog)
        assert "Memory" in caplog.text


def test_interrupt_from_another_thread(caplog: pytest.LogCaptureFixture) -> None:
    with engine(Limits(threads=2)) as made:
        with interrupting(made), caplog.at_level(logging.ERROR), pytest.raises(EngineError):
            made.measure(MeasurementTask(HARD, b"k"))
        assert made.measure(MeasurementTask(EASY, b"k")).raw[0].tolist() == [50_000]


def test_file_that_goes_bad(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = Catalog((Table("t", (Column("x", INTEGER),), population="p", unit="row"),), (Population("p"),))
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "t.parquet")
    with DuckDBEngine(catalog, {"t": DataSource("parquet", f"{tmp_path}/t.parquet")}) as made:
        (tmp_path / "t.parquet").write_bytes(b"not a Parquet file any more")
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
            made.measure(MeasurementTask(resolve("SELECT COUNT(*) FROM t", catalog).final, b"k"))
        assert "parquet" not in str(caught.value).lower()
        assert "arquet" in caplog.text


def test_two_queries_at_once() -> None:
    with engine(Limits(threads=2)) as made:
        found: list[list[int]] = []
        threads = [
            threading.Thread(target=lambda: found.append(made.measure(MeasurementTask(EASY, b"k")).raw[0].tolist()))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [[50_000]] * 8


def test_closed_engines_answer_nothing(caplog: pytest.LogCaptureFixture) -> None:
    made = engine(Limits(threads=1))
    made.close()
    made.close()
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError):
        made.measure(MeasurementTask(EASY, b"k"))


def test_a_time_limit_ends_one_query_and_the_next_is_answered() -> None:
    with engine(Limits(threads=2)) as made:
        begun = time.monotonic()
        with pytest.raises(EngineError):
            made.measure(MeasurementTask(HARD, b"k", timeout=1.2))
        assert time.monotonic() - begun < 30
        assert made.measure(MeasurementTask(EASY, b"k", timeout=60.0)).raw[0].tolist() == [50_000]


def test_a_stop_that_comes_late_is_not_for_the_next_query() -> None:
    with engine(Limits(threads=1), rows=1) as made:
        sources = made._sources.latest
        with sources.session() as session:
            pass
        late = threading.Timer(0.1, session.interrupt)
        late.start()
        with sources.session() as following:
            slow = "SELECT count(*) FROM range(100_000_000) WHERE hash(range) % 7 = 3"
            assert len(following.rows(slow)) == 1
            assert late.finished.is_set(), "it came in time to do harm"
            following.check()
        late.join()
        with pytest.raises(InterruptedError):
            session.check()


def test_what_cannot_be_exact_is_refused_before_data_is_read() -> None:
    running = "SELECT SUM(CLAMP(s, 0, 9)) FROM (SELECT id, SUM(x) OVER (PARTITION BY id ORDER BY n) AS s FROM t)"
    with engine(Limits(threads=1), rows=1) as made:
        final = resolve(running, CATALOG).final
        with pytest.raises(Refusal, match="CAST the value to DECIMAL"):
            made.check(final)
        with pytest.raises(Refusal):
            made.measure(MeasurementTask(final, b"k"))
        wide = resolve("SELECT VARIANCE(n) FROM t", CATALOG).final
        with pytest.raises(Refusal, match="too many steps"):
            made.check(wide)
        made.check(EASY)


def test_explain_shows_statements_and_no_secret() -> None:
    with engine(Limits(threads=1), rows=1) as made:
        shown = made.explain(HARD)
        assert len(shown) == 2
        assert all(text.lstrip().startswith(("SELECT", "WITH")) for text in shown)
