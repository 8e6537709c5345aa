"""Spark Connect: the same integers, stops and errors as anywhere, at a real server that can be lost."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from engines import clinic
from engines.forms_of_spark import SMOKE
from engines.stopping import once_running
from support.bits import SeededBits
from support.engine_comparison import refusal, shown
from support.spark import QUICK
from support.spark_projects import project as spark_project
from tacit.cli.doctor import examine
from tacit.core.errors import EngineError, InputError
from tacit.engines.duckdb import DataSource, DuckDBEngine, Limits
from tacit.engines.protocol import MeasurementTask
from tacit.engines.spark import SparkEngine, session
from tacit.engines.spark.session import SessionHandle, is_open_to_others, open_session
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import DOUBLE, INTEGER, TEXT

pytestmark = [pytest.mark.spark, pytest.mark.deep]
KEYS = tuple(f"k{i}" for i in range(40))
CATALOG = Catalog(
    (
        Table(
            "t",
            (Column("id", INTEGER), Column("k", TEXT, categories=KEYS), Column("x", DOUBLE, bounds=(0.0, 1.0))),
            population="p",
            unit="id",
            max_groups=2,
        ),
    ),
    (Population("p"),),
)
EASY = resolve("SELECT COUNT(*) FROM t", CATALOG).final
HARD = resolve("SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k", CATALOG).final
FRAME = pa.table({"id": [1, 2, 2, None], "k": ["k0", None, "k1", "k1"], "x": [0.5, 1.0, 2.0, 0.5]})
#: Two persons count, one with 0.5 and one with at most 1, in steps of 2^-20.
SUMS = [[2], [3 * 2**19]]
#: Minutes of work, in many small tasks.
ENDLESS = "SELECT id, CONCAT('k', id % 40) AS k, 0.5D AS x FROM range(0, 80000000, 1, 8000)"
SECRET = b"an owner's secret"


class Server:
    """A Spark Connect server in a process of its own, on the loopback address alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.place = f"sc://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        import pyspark

        settings = {
            **QUICK,
            "spark.master": "local[2]",
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
        }
        words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *words, "spark-internal"],
                cwd=self._folder, stdout=log, stderr=log, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )  # fmt: skip
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "server.log").read_text()[-3000:]
            time.sleep(0.1)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("connect"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def other(server: Server) -> Iterator[SessionHandle]:
    """Another user's session at the same server."""
    held = open_session(server.place)
    # It is released when the server is gone.
    held.spark.client.set_retry_policies([])
    yield held
    held.release()


def engine(server: Server, source: DataSource | pa.Table, catalog: Catalog = CATALOG) -> SparkEngine:
    place = source if isinstance(source, DataSource) else DataSource("frame", None, source)
    return SparkEngine(catalog, {"t": place}, session=server.place)


def counted(made: SparkEngine) -> list[int]:
    return made.measure(MeasurementTask(EASY, b"k")).raw[0].tolist()  # type: ignore[no-any-return]


def check_opaque(caught: pytest.ExceptionInfo[EngineError], caplog: pytest.LogCaptureFixture) -> None:
    assert re.fullmatch("[0-9a-f]{32}", str(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert str(caught.value) in caplog.text


def test_the_integers_of_duckdb(server: Server) -> None:
    """Over hostile rows, in every kind of query."""
    frames = clinic.arrow(clinic.random_rows(3, 40, 120))
    sources = {name: DataSource("frame", None, frame) for name, frame in frames.items()}
    finals = {sql: resolve(sql, clinic.CATALOG).final for sql in SMOKE[::2]}
    with (
        DuckDBEngine(clinic.CATALOG, sources) as duckdb,
        SparkEngine(clinic.CATALOG, sources, session=server.place) as spark,
        ThreadPoolExecutor(2) as pool,
    ):
        assert [refusal(duckdb, final) for final in finals.values()] == [refusal(spark, f) for f in finals.values()]
        asked = {sql: final for sql, final in finals.items() if refusal(duckdb, final) is None}
        found = pool.map(lambda final: spark.measure(MeasurementTask(final, SECRET)), asked.values())
        wanted = [duckdb.measure(MeasurementTask(final, SECRET)) for final in asked.values()]
        for sql, got, want in zip(asked, found, wanted, strict=True):
            assert shown(got) == shown(want), sql
    assert all(any(np.any(cell) for array in want.raw for cell in array) for want in wanted)


def test_every_kind_of_source(server: Server, other: SessionHandle, tmp_path: Path) -> None:
    folder = tmp_path / "a [b] {c}* %20 é"
    folder.mkdir()
    pq.write_table(FRAME.slice(0, 2), folder / "part 1.parquet")
    pq.write_table(FRAME.slice(2), folder / "part'2%41.parquet")
    for part in (0, 2):
        pq.write_table(FRAME.slice(part, 2), tmp_path / f"part-{part}.parquet")
    (tmp_path / "t.csv").write_text("id,k,x\n1,k0,0.5\n2,,1\n2,k1,2\n,k1,1\n")
    other.spark.createDataFrame(FRAME).write.mode("overwrite").saveAsTable("visits_of_t")
    sources = {
        "folder": DataSource("parquet", str(folder)),
        "pattern": DataSource("parquet", f"{tmp_path}/part-*.parquet"),
        "lines": DataSource("csv", str(tmp_path / "t.csv")),
        "stored": DataSource("table", "default.visits_of_t"),
        "frame": DataSource("frame", None, FRAME),
    }
    catalog = Catalog(tuple(replace(CATALOG.tables[0], name=name) for name in sources), CATALOG.populations)
    with SparkEngine(catalog, sources, session=server.place) as made:
        for name in sources:
            final = resolve(f"SELECT COUNT(*), SUM(x) FROM {name}", catalog).final
            assert [array.tolist() for array in made.measure(MeasurementTask(final, b"k")).raw] == SUMS, name
    frame = other.spark.createDataFrame(FRAME)
    with SparkEngine(CATALOG, {"t": DataSource("frame", None, frame)}, session=other.spark) as made:
        assert counted(made) == [2]
    with pytest.raises(InputError, match="another Spark session"):
        engine(server, DataSource("frame", None, frame))


def test_rows_are_numbered(server: Server, tmp_path: Path) -> None:
    catalog = Catalog(
        (
            Table("t", (Column("x", INTEGER, bounds=(0, 9)),), population="p", unit="row", max_rows=1),
            Table("u", (Column("a", INTEGER),), public=True),
        ),
        (Population("p"),),
    )
    for part in (1, 2):
        pq.write_table(pa.table({"x": [part, 7, 7]}), tmp_path / f"{part}.parquet")
    sources = {"t": DataSource("parquet", str(tmp_path)), "u": DataSource("frame", None, pa.table({"a": [0, 5, 9]}))}
    final = resolve("SELECT COUNT(*), SUM(x) FROM t JOIN u ON a >= x", catalog).final
    with SparkEngine(catalog, sources, session=server.place) as made:
        assert [array.tolist() for array in made.measure(MeasurementTask(final, b"k")).raw] == [
            [6],
            [2 * 1 + 2 * 2 + 4 * 7],
        ]


def test_files_that_the_server_sees_otherwise_are_refused(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server elsewhere has its own disk; here it is this machine that is made to see another file."""
    for name, rows in (("here", 2), ("there", 3)):
        (tmp_path / name).mkdir()
        pq.write_table(FRAME.slice(0, rows), tmp_path / name / "t.parquet")
    monkeypatch.setattr("tacit.engines.spark.sources.read_from", lambda path: (f"file:{tmp_path}/there",))
    with pytest.raises(InputError, match=r"tables\.t\.source: the Spark server does not see"):
        engine(server, DataSource("parquet", str(tmp_path / "here")))


def test_sessions_that_are_not_fit_are_refused(server: Server) -> None:
    held = open_session(server.place)
    for setting, value, word in (
        ("spark.sql.ansi.enabled", "false", "ANSI"),
        ("spark.sql.session.timeZone", "Europe/Berlin", "timeZone"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "allowPrecisionLoss"),
    ):
        fit = held.spark.conf.get(setting)
        held.spark.conf.set(setting, value)
        with pytest.raises(InputError, match=word):
            open_session(held.spark)
        assert held.spark.conf.get(setting) == value
        held.spark.conf.set(setting, fit)
    held.release()


def test_time_limit(server: Server, other: SessionHandle, caplog: pytest.LogCaptureFixture) -> None:
    other.spark.sql(f"CREATE OR REPLACE VIEW endless AS {ENDLESS}")
    with engine(server, DataSource("table", "endless")) as made:
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
            made.measure(MeasurementTask(HARD, b"k", timeout=2.0))
        check_opaque(caught, caplog)
        assert made._held.is_alive()


def test_interrupt_from_another_thread(
    server: Server, other: SessionHandle, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the work of that query is stopped, at the server."""
    other.spark.sql(f"CREATE OR REPLACE VIEW endless AS {ENDLESS}")
    stopped: list[str] = []
    real = type(other.spark).interruptTag
    monkeypatch.setattr(type(other.spark), "interruptTag", lambda spark, tag: stopped.extend(real(spark, tag)))
    with engine(server, DataSource("table", "endless")) as made:
        soon = once_running(made, made.interrupt, after=0.3)
        with soon, caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
            made.measure(MeasurementTask(HARD, b"k"))
        check_opaque(caught, caplog)
        assert stopped
        assert made._held.spark.getTags() == set()
    with engine(server, FRAME) as made:
        assert counted(made) == [2]


def test_what_the_server_says_of_a_failure_is_for_the_operator(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(FRAME, tmp_path / "t.parquet")
    with engine(server, DataSource("parquet", str(tmp_path / "t.parquet"))) as made:
        assert counted(made) == [2]
        (tmp_path / "t.parquet").write_bytes(b"not a Parquet file any more")
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
            counted(made)
        check_opaque(caught, caplog)
        pq.write_table(FRAME, tmp_path / "t.parquet")
        assert counted(made) == [2]
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_a_session_that_the_server_forgot_is_renewed(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """After a pause it is asked for first, so that no query pays for finding out."""
    with engine(server, FRAME) as made:
        made._held.spark.client.release_session()
        made._used = float("-inf")
        assert counted(made) == [2]
        made._held.spark.client.release_session()
        with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
            counted(made)
        check_opaque(caught, caplog)
        assert counted(made) == [2]


WARDS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def project(folder: Path, name: str, engine: str, ledger: str, people: str = "patients") -> Path:
    place = spark_project(folder, name, engine=engine, ledger=ledger, people=people, source="visits")
    place.chmod(0o600)
    return place


def test_a_project_from_file_to_answer(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same bits the same answer as on DuckDB; one account for one folder; and the doctor is content."""
    (tmp_path / "visits").mkdir()
    visits = pa.table({"patient": [1, 1, 2, 3, None], "ward": ["a", "b", "a", "c", "a"]})
    pq.write_table(visits, tmp_path / "visits" / "part.parquet")
    found = []
    alone = spark_project(tmp_path, "duckdb.toml", engine="duckdb", ledger="d", source="visits/part.parquet")
    for place in (alone, project(tmp_path, "spark.toml", server.place, "s")):
        with tacit.open(place) as curator:
            bits = SeededBits(7)
            monkeypatch.setattr(entropy, "current", lambda bits=bits: bits)
            answer = curator.sql(WARDS, epsilon="0.5")
            monkeypatch.undo()
            found.append((answer.to_arrow(), answer.charge.text, str(curator.budget())))
    assert found[0] == found[1]
    with pytest.raises(InputError, match="patients"):
        tacit.open(project(tmp_path, "other.toml", server.place, "s", "others"))
    looked = {finding.name: finding for finding in examine(tmp_path / "spark.toml")}
    assert [name for name, finding in looked.items() if not finding.ok] == []
    assert "by Spark Connect" in looked["Spark"].words
    assert "readable, 2 columns" in looked["table visits"].words


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.engines.spark.session._RETRIES", {"max_retries": 1, "initial_backoff": 10})
    monkeypatch.setenv("SPARK_TOKEN", "hush;a=b")
    for place in ("sc://127.0.0.1:1", "sc://localhost:1/;token=${SPARK_TOKEN}"):
        with pytest.raises(InputError, match=r"cannot use a Spark Connect server at \S+:1 \(UNAVAILABLE\)\Z"):
            open_session(place)
    for place in ("sc://", "sc://host:x", "sc://host:1/path;token=hush", "sc://host:1/;token"):
        with pytest.raises(InputError, match="must be an address") as caught:
            open_session(place)
        assert "hush" not in str(caught.value)
    with pytest.raises(InputError, match="the environment variable NOT_SET"):
        open_session("sc://host:1/;token=${NOT_SET}")
    with pytest.raises(InputError, match=r"limits\.memory: is not for Spark"):
        SparkEngine(CATALOG, {"t": DataSource("frame", None, FRAME)}, Limits(memory="4GB"), session="sc://host:1")
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    with pytest.raises(InputError, match=r"needs more packages: pip install 'tacit-dp\[spark\]'"):
        open_session("sc://127.0.0.1:1")
    assert is_open_to_others("sc://spark.example.org:15002")
    for place in ("sc://localhost", "sc://[::1]:1", "sc://127.0.0.1:1", "sc://spark.example.org/;use_ssl=true"):
        assert not is_open_to_others(place)


def test_doctor_where_no_server_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.engines.spark.session._RETRIES", {"max_retries": 1, "initial_backoff": 10})
    (tmp_path / "visits").mkdir()
    pq.write_table(pa.table({"patient": [1], "ward": ["a"]}), tmp_path / "visits" / "part.parquet")
    place = project(tmp_path, "t.toml", "sc://0.0.0.0:1/;user_id=hush", "s")
    wrong = {finding.name: (finding.words, finding.remedy) for finding in examine(place) if not finding.ok}
    assert set(wrong) == {"connection", "Spark", "opening"}
    assert "use_ssl=true" in wrong["connection"][1]
    assert wrong["Spark"][1].startswith("start a Spark Connect server at 0.0.0.0:1")
    assert "hush" not in json.dumps(wrong)


class Relay:
    """A way to the server that can be cut and mended."""

    def __init__(self, server: Server) -> None:
        self._there, self._open = ("127.0.0.1", server.port), True
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._ends: list[socket.socket] = []
        self._doorman = threading.Thread(target=self._let_in, daemon=True)
        self._doorman.start()

    def _let_in(self) -> None:
        while True:
            try:
                here, _ = self._door.accept()
            except OSError:
                return
            self._ends.append(here)
            try:
                there = socket.create_connection(self._there) if self._open else None
            except ConnectionRefusedError:
                there = None
            if there is None:
                with suppress(OSError):
                    here.shutdown(socket.SHUT_RDWR)
                continue
            self._ends.append(there)
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self._open = False
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._open = True

    def close(self) -> None:
        self.cut()
        self._door.shutdown(socket.SHUT_RDWR)
        # A client that came at the last moment is among the ends as well.
        self._doorman.join(10)
        for end in (self._door, *self._ends):
            end.close()


def lost(made: SparkEngine, lose: Callable[[], None], caplog: pytest.LogCaptureFixture) -> None:
    """Ask what takes long, and lose the server in the middle of it."""
    soon = once_running(made, lose, after=0.3)
    with soon, caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
        made.measure(MeasurementTask(HARD, b"k"))
    check_opaque(caught, caplog)


def still_lost(made: SparkEngine, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(EngineError) as caught:
        counted(made)
    check_opaque(caught, caplog)


def test_a_connection_that_is_cut_and_a_server_that_is_killed(
    server: Server, other: SessionHandle, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id for the asker, also while the server is away; when it is back the next query is answered.

    The last test, since it takes the server away.
    """
    tries = {"max_retries": 3, "initial_backoff": 50, "backoff_multiplier": 2, "max_backoff": 400}
    channel = [(name, min(value, 200)) for name, value in session._CHANNEL]
    monkeypatch.setattr(session, "_RETRIES", tries)
    monkeypatch.setattr(session, "_CHANNEL", channel)
    other.spark.sql(f"CREATE OR REPLACE VIEW endless AS {ENDLESS}")
    other.spark.sql("CREATE OR REPLACE VIEW few AS SELECT 1 AS id, 'k0' AS k, 0.5D AS x")
    catalog = Catalog((CATALOG.tables[0], replace(CATALOG.tables[0], name="few")), CATALOG.populations)
    sources = {"t": DataSource("table", "endless"), "few": DataSource("table", "few")}
    few = MeasurementTask(resolve("SELECT COUNT(*) FROM few", catalog).final, b"k")
    relay = Relay(server)
    with SparkEngine(catalog, sources, session=f"sc://127.0.0.1:{relay.port}") as made:
        lost(made, relay.cut, caplog)
        still_lost(made, caplog)
        relay.mend()
        assert made.measure(few).raw[0].tolist() == [1]
        lost(made, server.kill, caplog)
    relay.close()
