"""``tacit doctor`` on projects whose engine is Spark: what it looks at, and what it says to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark import held
from tacit.cli.doctor import examine
from tacit.engines.duckdb import DataSource
from tacit.engines.protocol import DoctorCheck
from tacit.engines.spark.engine import look_at
from tacit.engines.spark.session import TRIALS
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER

pytestmark = [pytest.mark.spark, pytest.mark.deep]
PROJECT = """
[project]
engine = "spark"

[populations.patients]
epsilon = "4"

[tables.visits]
source = "visits"
population = "patients"
unit = "patient"

[tables.visits.columns]
ward = { categories = ["a", "b"] }

[tables.wards]
source = "clinic.wards"
public = true
columns = { ward = { type = "text" }, floor = { type = "integer" } }
"""
CATALOG = Catalog((Table("t", (Column("id", INTEGER),), population="p", unit="id"),), (Population("p"),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "visits").mkdir()
    pq.write_table(pa.table({"patient": [1], "ward": ["a"]}), tmp_path / "visits" / "part.parquet")
    place = tmp_path / "tacit.toml"
    place.write_text(PROJECT)
    place.chmod(0o600)
    return place


def findings(project: Path) -> dict[str, DoctorCheck]:
    return {finding.name: finding for finding in examine(project)}


def checks(session: object, frame: pa.Table | None = None) -> dict[str, DoctorCheck]:
    sources = {"t": DataSource("frame", None, pa.table({"id": [1]}) if frame is None else frame)}
    return {check.name: check for check in look_at(session, CATALOG, sources)}


def test_a_project_in_order_but_for_a_table_that_is_not_there(project: Path) -> None:
    held()
    found = findings(project)
    names = ["pyspark", "Java", "Spark", *(trial.name for trial in TRIALS), "table visits"]
    assert [name for name in names if not found[name].ok] == []
    assert {"decimal sums", "time zone", "ANSI mode"} <= set(names)
    assert "Java 17" in found["Java"].words or "Java 2" in found["Java"].words
    assert found["table visits"].words.endswith("readable, 2 columns of fitting types")
    assert {finding.name for finding in found.values() if not finding.ok} == {"table wards", "opening"}
    assert "clinic" in found["table wards"].words
    assert found["table wards"].remedy.startswith("correct tables.wards")


def test_columns_that_do_not_fit_are_named() -> None:
    spark = held().spark
    views = spark.sql("SHOW VIEWS").collect()
    found = checks(spark, pa.table({"id": [[1]]}))
    assert not found["table t"].ok
    assert "t.id: cannot read a column of type array" in found["table t"].words
    assert checks(spark)["table t"].ok
    # Nothing stays behind in a session of the user's.
    assert spark.sql("SHOW VIEWS").collect() == views


@pytest.mark.parametrize(
    ("setting", "value", "name"),
    [
        ("spark.sql.ansi.enabled", "false", "ANSI mode"),
        ("spark.sql.session.timeZone", "America/Los_Angeles", "time zone"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false", "decimal sums"),
        ("spark.sql.parser.escapedStringLiterals", "true", "text constants"),
    ],
)
def test_each_setting_has_its_own_line_and_remedy(setting: str, value: str, name: str) -> None:
    session = held().spark.newSession()
    for key, usual in {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true", setting: value}.items():
        session.conf.set(key, usual)
    wrong = [check for check in checks(session).values() if not check.ok]
    assert [check.name for check in wrong] == [name]
    assert f"set {setting} to" in wrong[0].remedy


def program(folder: Path, says: str) -> Path:
    """Something that calls itself Java."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    (folder / "bin" / "java").chmod(0o755)
    return folder


def test_java_that_is_old_broken_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (says, words) in enumerate(
        [
            ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
            ('java version "1.8.0_292"', "is Java 8"),
            ("nonsense", "is Java of an unknown version"),
        ]
    ):
        monkeypatch.setenv("JAVA_HOME", str(program(tmp_path / str(number), says)))
        found = checks("spark")
        assert list(found) == ["pyspark", "Java"]
        assert words in found["Java"].words
        assert "install Java 17" in found["Java"].remedy
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "does not run" in checks("spark")["Java"].words
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "not found" in checks("spark")["Java"].words


def test_packages_that_are_missing_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    assert "too old" in checks("spark")["pyspark"].words
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for place, extra in (("spark", "spark-local"), ("sc://127.0.0.1:1", "spark")):
        found = checks(place)["pyspark"]
        assert found.words == "not installed"
        assert found.remedy.startswith(f"pip install 'tacit-dp[{extra}]'")
    monkeypatch.undo()
    monkeypatch.setattr("tacit.engines.spark.engine._CONNECT", ("grpc", "no_such_module", "google.no_such_module"))
    found = checks("sc://127.0.0.1:1")["pyspark"]
    assert found.words.endswith("Spark Connect also needs no_such_module, google.no_such_module")
    # The client of Spark Connect alone is a pyspark without what talks to a Java of this machine.
    monkeypatch.setattr("tacit.engines.spark.engine._LOCAL", ("no_such_module",))
    found = checks("spark")["pyspark"]
    assert found.words.endswith("Spark on this machine also needs no_such_module")
    assert found.remedy.startswith("pip install 'tacit-dp[spark-local]'")
