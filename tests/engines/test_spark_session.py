"""A session is tried out before it is trusted, whatever class it has; its owner's settings stay as they are."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from support.spark import held, spark_engine
from tacit.core.errors import EngineError, InputError
from tacit.engines.duckdb import DataSource
from tacit.engines.protocol import Engine, MeasurementTask
from tacit.engines.spark import SparkEngine
from tacit.engines.spark.session import open_session
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.resolve import resolve
from tacit.query.types import INTEGER

pytestmark = [pytest.mark.spark, pytest.mark.deep]
CATALOG = Catalog(
    (Table("t", (Column("id", INTEGER), Column("n", INTEGER, bounds=(0, 9))), population="p", unit="id", max_rows=2),),
    (Population("p"),),
)
FRAME = pa.table({"id": [1, 1, 2, None], "n": [3, 4, 20, 5]})
SUM = MeasurementTask(resolve("SELECT COUNT(*), SUM(n) FROM t", CATALOG).final, b"k")


def session(**settings: str) -> Any:
    """Another session of the same Spark, as an owner might have made it."""
    made = held().spark.newSession()
    for name, value in {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}.items():
        made.conf.set(name, value)
    for name, value in settings.items():
        made.conf.set(name.replace("__", "."), value)
    return made


def test_work_is_not_skipped_where_a_stage_has_no_row() -> None:
    """Whether a person has a row decides nothing about the work on the rows of others, also while a query runs."""
    groups = "SELECT id % 3 AS k FROM range(1000) WHERE id % 7 > 8 GROUP BY k"
    joined = f"SELECT l.k FROM ({groups}) AS l JOIN (SELECT id % 3 AS k FROM range(1000)) AS r ON l.k = r.k"
    plans = []
    for settings in ({}, {"spark__sql__adaptive__optimizer__excludedRules": ""}):
        spark = session(spark__sql__adaptive__enabled="true", **settings)
        found = spark.sql(f"SELECT k, count(*) FROM ({joined}) GROUP BY k")
        assert found.collect() == []
        plans.append(found._jdf.queryExecution().executedPlan().toString())
    assert ["EmptyRelation" in plan for plan in plans] == [False, True]


class Databricks:
    """Has what a session has, and is none by class."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("spark__sql__ansi__enabled", "false", "ANSI"),
        ("spark__sql__session__timeZone", "Europe/Berlin", "timeZone"),
        ("spark__sql__session__timeZone", "America/Los_Angeles", "timeZone"),
        ("spark__sql__parser__escapedStringLiterals", "true", "escapedStringLiterals"),
        ("spark__sql__decimalOperations__allowPrecisionLoss", "false", "allowPrecisionLoss"),
    ],
)
def test_sessions_that_are_not_fit_are_refused(setting: str, value: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        open_session(session(**{setting: value}))


def test_sessions_are_taken_by_what_they_can_do() -> None:
    source = {"t": DataSource("frame", None, FRAME)}
    with SparkEngine(CATALOG, source, session=Databricks(session())) as engine:
        assert isinstance(engine, Engine)
        found = engine.measure(SUM)
        assert [array.tolist() for array in found.raw] == [[3], [16]]
    with pytest.raises(InputError, match="session"):
        SparkEngine(CATALOG, source, session=object())
    with pytest.raises(InputError, match="timeZone"):
        SparkEngine(CATALOG, source, session=session(spark__sql__session__timeZone="Europe/Berlin"))


def test_an_owners_session_keeps_its_settings_and_views() -> None:
    made = session(spark__sql__shuffle__partitions="7")
    before = {row.key: row.value for row in made.sql("SET").collect()}
    views = [view.name for view in made.catalog.listTables()]
    with SparkEngine(CATALOG, {"t": DataSource("frame", None, FRAME)}, session=made) as engine:
        engine.measure(SUM)
    assert {row.key: row.value for row in made.sql("SET").collect()} == before
    assert [view.name for view in made.catalog.listTables()] == views
    assert made.sql("SELECT 1").collect()


def test_the_parser_forgets_before_it_fills_the_memory() -> None:
    """Without this a thousand different queries fill two thirds of a gigabyte, and a query takes minutes."""
    conf = held().spark.conf
    assert conf.get("spark.sql.parser.manageParserCaches") == "true"
    assert float(conf.get("spark.sql.parser.parserDfaCacheFlushRatio")) == 33


def test_names_of_settings_in_texts_are_only_texts() -> None:
    """Spark replaces ${…} before it parses; a query must not read settings or the environment with it."""
    from tacit.query.types import TEXT

    catalog = Catalog((Table("t", (Column("s", TEXT),), population="p", unit="row"),), (Population("p"),))
    frame = pa.table({"s": ["${spark.master}", "local[2,4]", "x"]})
    with spark_engine(catalog, {"t": frame}) as engine:
        for text, want in (("${spark.master}", 1), ("local[2,4]", 1), ("${env:HOME}", 0)):
            work = MeasurementTask(resolve(f"SELECT COUNT(*) FROM t WHERE s = '{text}'", catalog).final, b"k")
            assert engine.measure(work).raw[0].tolist() == [want], text


def test_what_spark_says_of_a_failure_stays_off_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with spark_engine(CATALOG, {"t": FRAME}) as engine:
        engine._stored = {name: type(table)(table.index, "nowhere", table.columns, None) for name, table in engine._tables.items()}  # fmt: skip
        with pytest.raises(EngineError):
            engine.measure(SUM)
    shown = capfd.readouterr()
    assert shown.err == ""
    assert shown.out == ""


def test_importing_the_engine_imports_no_spark() -> None:
    code = "import sys, tacit.engines.spark; sys.exit('pyspark' in sys.modules or 'py4j' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
