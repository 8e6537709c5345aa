"""A Spark cluster of processes: the integers of DuckDB, also when an executor dies in the middle of a question."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.engine_comparison import shown
from support.spark import QUICK
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

pytestmark = pytest.mark.spark
KEYS = tuple(f"k{i}" for i in range(5))
COLUMNS = (Column("id", INTEGER), Column("k", TEXT, categories=KEYS), Column("x", DOUBLE, bounds=(0.0, 1.0)))
CATALOG = Catalog((Table("t", COLUMNS, population="p", unit="id", max_groups=2, max_rows=3),), (Population("p"),))
FINAL = resolve("SELECT k, COUNT(*), SUM(x) FROM t WHERE x < 0.9 GROUP BY k", CATALOG).final
SECRET = b"an owner's secret"
ROWS = 400_000
TASKS = 16
DATA = f"""COPY (SELECT i // 7 AS id, 'k' || (i * i % 6) AS k, (i % 11) / 10 AS x FROM range({ROWS}) AS t(i))
TO '{{}}' (FORMAT parquet)"""


class Cluster:
    """A master and a worker, each a process, on the loopback address alone; the worker starts executors."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self._folder = folder
        self._program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.place = f"spark://127.0.0.1:{port}"
        own = ["--host", "127.0.0.1", "--webui-port", "0"]
        self.master = self._start("deploy.master.Master", *own, "--port", str(port))
        wait_for(lambda: self._says("deploy.master.Master", "New state: ALIVE"))
        words = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), self.place]
        self.worker = self._start("deploy.worker.Worker", *own, *words)
        wait_for(lambda: self._says("deploy.worker.Worker", "registered with master"))

    def _start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        settings = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK["spark.driver.extraJavaOptions"],
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [self._program, f"org.apache.spark.{name}", *words],
                cwd=self._folder, stdout=log, stderr=log, env={**os.environ, **settings},
            )  # fmt: skip

    def _says(self, name: str, words: str) -> bool:
        return words in (self._folder / f"{name}.log").read_text()

    def executors(self) -> list[int]:
        """Processes that the worker started for others' work."""
        children = Path(f"/proc/{self.worker.pid}/task").glob("*/children")
        found = [int(pid) for task in children for pid in task.read_text().split()]
        return [pid for pid in found if b"ExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def stop(self) -> None:
        for process in (self.worker, self.master):
            process.terminate()
            process.wait(60)


def wait_for(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.stop()


def ask(cluster: Cluster, data: Path) -> subprocess.Popen[str]:
    """A question to the cluster from a process of its own: there is one Spark in a process."""
    return subprocess.Popen(
        [sys.executable, __file__, cluster.place, str(data)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip


def test_an_executor_that_dies_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    import duckdb

    data = tmp_path / "t.parquet"
    duckdb.sql(DATA.format(data))
    with DuckDBEngine(CATALOG, {"t": DataSource("parquet", str(data))}) as engine:
        want = shown(engine.measure(MeasurementTask(FINAL, SECRET)))
    with ask(cluster, data) as asked:
        try:
            assert asked.stdout is not None
            assert asked.stdout.readline() == "at work\n", asked.communicate()[1][-3000:]
            (executor,) = cluster.executors()
            os.kill(executor, signal.SIGKILL)
            out, err = asked.communicate(timeout=200)
        finally:
            asked.kill()
    assert asked.returncode == 0, err[-3000:]
    found = json.loads(out)
    assert found["measured"] == want
    assert found["failed"] > 0, "some task had to be done again"


def main(place: str, data: str) -> None:
    from tacit.engines.spark import SparkEngine
    from tacit.engines.spark.session import open_session

    settings = {
        **QUICK,
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": QUICK["spark.driver.extraJavaOptions"],
        "spark.sql.files.maxPartitionBytes": str(Path(data).stat().st_size // TASKS),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.shuffle.partitions": str(TASKS),
    }
    held = open_session(place, Limits(memory="600MB"), settings)
    tracker, began, failed = held.context.statusTracker(), False, 0

    def told(percent: float) -> None:
        nonlocal began, failed
        if not began and 0 < percent < 90:
            began = True
            print("at work", flush=True)
        for stage in tracker.getActiveStageIds():
            found = tracker.getStageInfo(stage)
            failed = max(failed, 0 if found is None else found.numFailedTasks)

    with SparkEngine(CATALOG, {"t": DataSource("parquet", data)}, session=held.spark) as engine:
        measured = engine.measure(MeasurementTask(FINAL, SECRET, progress=told))
    held.release()
    print(json.dumps({"measured": shown(measured), "failed": failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
