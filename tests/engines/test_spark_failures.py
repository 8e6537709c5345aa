"""Failures say an id and nothing else, the operator's log says the rest, and the next query works."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.stopping import once_running
from support.spark import held, spark_engine
from tacit.core.errors import EngineError
from tacit.engines.duckdb import DataSource
from tacit.engines.protocol import MeasurementTask
from tacit.engines.spark import SparkEngine
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

pytestmark = [pytest.mark.spark, pytest.mark.deep]
KEYS = tuple(f"k{i}" for i in range(40))
CATALOG = Catalog(
    (
        Table(
            "t",
            (Column("id", INTEGER), Column("k", TEXT, categories=KEYS), Column("x", DOUBLE, bounds=(0.0, 1.0)), Column("s", TEXT)),
            population="p",
            unit="id",
            max_groups=2,
        ),
    ),
    (Population("p"),),
)  # fmt: skip
EASY = resolve("SELECT COUNT(*) FROM t WHERE id < 10", CATALOG).final
HARD = resolve("SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k", CATALOG).final
#: More rows than are read in the time of any test.
ROWS = 20_000_000_000


@pytest.fixture
def endless() -> Iterator[SparkEngine]:
    rows = f"SELECT id, CONCAT('k', id % 40) AS k, 0.5D AS x, 'a diagnosis' AS s FROM range(0, {ROWS}, 1, 4)"
    few = f"SELECT * FROM ({rows}) WHERE id >= 0"
    with spark_engine(CATALOG, {"t": DataSource("frame", None, held(generated=True).spark.sql(few))}, generated=True) as made:  # fmt: skip
        yield made


def still_works(made: SparkEngine) -> None:
    """A query about little, in the same session."""
    with spark_engine(CATALOG, {"t": pa.table({"id": [1, 2], "k": ["k0", None], "x": [0.5, 1.0], "s": ["", ""]})}) as other:  # fmt: skip
        assert other.measure(MeasurementTask(EASY, b"k")).raw[0].tolist() == [2]
    assert made._held.is_alive()


def check_opaque(caught: pytest.ExceptionInfo[EngineError], caplog: pytest.LogCaptureFixture) -> None:
    error = caught.value
    assert error.opaque
    assert re.fullmatch("[0-9a-f]{32}", str(error))
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "tacit.operator" in {record.name for record in caplog.records}
    assert str(error) in caplog.text


def test_time_limit(endless: SparkEngine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
        endless.measure(MeasurementTask(HARD, b"k", timeout=2.0))
    check_opaque(caught, caplog)
    still_works(endless)


def test_interrupt_from_another_thread(endless: SparkEngine, caplog: pytest.LogCaptureFixture) -> None:
    stopped = once_running(endless, endless.interrupt)
    with stopped, caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
        endless.measure(MeasurementTask(HARD, b"k"))
    check_opaque(caught, caplog)
    assert not held(generated=True).context.statusTracker().getActiveJobsIds()
    still_works(endless)


def test_ctrl_c_stops_the_work(endless: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends a query from inside: its jobs are cancelled, and the exception goes on."""

    def pressed(*_: object) -> list[Any]:
        raise KeyboardInterrupt

    cancelled = []
    monkeypatch.setattr("tacit.engines.spark.session.SparkQuery.rows", pressed)
    monkeypatch.setattr("tacit.engines.spark.session.SparkQuery._cancel", lambda jobs: cancelled.append(jobs))
    with pytest.raises(KeyboardInterrupt):
        endless.measure(MeasurementTask(HARD, b"k"))
    assert cancelled
    assert not endless._running


def test_a_task_that_fails_is_repeated_and_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task to read a row fails; Spark runs it again, and the integers come out as if nothing had been."""
    from pyspark.sql.classic.dataframe import DataFrame

    spark, mark = held(generated=True).spark, f"tacit.test.{time.monotonic_ns()}"
    seen = f"reflect('java.lang.System', 'setProperty', '{mark}', 'seen')"
    fails = f"CASE WHEN coalesce({seen}, 'null') = 'null' THEN raise_error('a broken disk') ELSE id END"
    rows = spark.sql(f"SELECT {fails} AS id, 'k1' AS k, 0.5D AS x, '' AS s FROM range(0, 100, 1, 2)")
    collected = []
    real = DataFrame.collect
    failed_before = failed_tasks(spark)
    with spark_engine(CATALOG, {"t": DataSource("frame", None, rows)}, generated=True) as made:
        monkeypatch.setattr(DataFrame, "collect", lambda frame: collected.append(1) or real(frame))
        found = made.measure(MeasurementTask(HARD, b"k"))
    assert found.raw_units.tolist() == [0, 100, *[0] * 38]
    assert len(collected) == len(made.explain(HARD)) == 1
    assert failed_tasks(spark) > failed_before


def failed_tasks(spark: Any) -> int:
    """Number of failed tasks so far, by Spark's own count."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(i).failedTasks() for i in range(executors.size()))


def test_file_that_goes_bad(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    catalog = Catalog((Table("t", (Column("x", INTEGER),), population="p", unit="row"),), (Population("p"),))
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "t.parquet")
    with spark_engine(catalog, {"t": DataSource("parquet", f"{tmp_path}/t.parquet")}) as made:
        final = resolve("SELECT COUNT(x) FROM t", catalog).final
        assert made.measure(MeasurementTask(final, b"k")).raw[0].tolist() == [3]
        (tmp_path / "t.parquet").write_bytes(b"not a Parquet file any more")
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
            made.measure(MeasurementTask(final, b"k"))
        check_opaque(caught, caplog)
        still_works(made)


def test_closed_engines_answer_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with spark_engine(CATALOG, {"t": pa.table({"id": [1], "k": ["k0"], "x": [0.5], "s": [""]})}) as made:
        made.close()
    made.close()
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError):
        made.measure(MeasurementTask(EASY, b"k"))


def test_two_queries_at_once() -> None:
    found: list[list[int]] = []
    frame = pa.table({"id": [1, 2, 3], "k": ["k0", "k1", "k1"], "x": [0.5, 0.5, 0.5], "s": ["", "", ""]})
    with spark_engine(CATALOG, {"t": frame}) as made:
        threads = [
            threading.Thread(target=lambda: found.append(made.measure(MeasurementTask(EASY, b"k")).raw[0].tolist()))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [[3]] * 4


def test_what_cannot_be_exact_is_refused_before_data_is_read() -> None:
    running = "SELECT SUM(CLAMP(v, 0, 9)) FROM (SELECT id, SUM(x) OVER (PARTITION BY id ORDER BY k) AS v FROM t)"
    with spark_engine(CATALOG, {"t": pa.table({"id": [1], "k": ["k0"], "x": [0.5], "s": [""]})}) as made:
        with pytest.raises(Refusal, match="CAST the value to DECIMAL"):
            made.check(resolve(running, CATALOG).final)
        made.check(HARD)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, COUNT(*), SUM(x), AVG(x) FROM t GROUP BY k",
        "SELECT s, COUNT(*), SUM(x) FROM t GROUP BY s",
        "SELECT COUNT(*), SUM(x) FROM t",
        "SELECT k, COUNT(DISTINCT s) FROM t GROUP BY k",
        "SELECT k, MEDIAN(x) FROM t GROUP BY k",
    ],
)
def test_rows_move_once_and_to_their_unit(sql: str) -> None:
    """One exchange by the unit; what moves again is one row per group and task."""
    with spark_engine(CATALOG, {"t": pa.table({"id": [1], "k": ["k0"], "x": [0.5], "s": [""]})}, generated=True) as made:  # fmt: skip
        final = resolve(sql, CATALOG).final
        for text in made.explain(final):
            assert "secret" not in text
            statement = text.replace("`t`", made._views[0])
            ((plan,),) = made._held.spark.sql(f"EXPLAIN {statement}").collect()
            exchanges = re.findall(r"Exchange hashpartitioning\(([^)]*)\)", plan)
            by_unit = [keys for keys in exchanges if re.match(r"u#", keys)]
            assert len(by_unit) == 1, plan
            assert len([keys for keys in exchanges if keys not in by_unit]) <= 1, plan
