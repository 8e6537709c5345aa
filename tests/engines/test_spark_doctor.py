"""``tacit doctor`` on projects whose engine is Spark: what it looks at, and what it says to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.spark import held
from tacit.engines.duckdb import DataSource
from tacit.engines.protocol import DoctorCheck
from tacit.engines.spark.engine import look_at
from tacit.engines.spark.session import TRIALS
from tacit.project.project_file import load
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.types import INTEGER

pytestmark = [pytest.mark.spark, pytest.mark.deep]
PROJECT = """
[project]
engine = "sc://localhost:15002"

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


def checks(session: object, frame: pa.Table | None = None) -> dict[str, DoctorCheck]:
    sources = {"t": DataSource("frame", None, pa.table({"id": [1]}) if frame is None else frame)}
    return {check.name: check for check in look_at(session, CATALOG, sources)}


def test_tables_in_order_and_one_that_is_not_there(project: Path) -> None:
    loaded = load(project)
    found = {check.name: check for check in look_at(held().spark, loaded.catalog, loaded.sources)}
    names = ["Spark", *(trial.name for trial in TRIALS), "table visits"]
    assert [name for name in names if not found[name].ok] == []
    assert {"decimal sums", "time zone", "ANSI mode"} <= set(names)
    assert found["table visits"].words.endswith("readable, 2 columns of fitting types")
    assert {name for name in found if not found[name].ok} == {"table wards"}
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


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)
    found = checks("sc://127.0.0.1:1")
    assert not found["Spark"].ok
    assert "pip install 'tacit-dp[spark]'" in found["Spark"].words
