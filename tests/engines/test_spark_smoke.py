"""Ten questions that Spark counts as DuckDB does, in make test where Spark is installed; the whole corpus is deep."""

from __future__ import annotations

import pytest

from engines import clinic
from engines.makers import MAKERS
from support.engine_comparison import final_of, refusal, shown
from support.spark import spark_engine
from tacit.engines.protocol import MeasurementTask

pytestmark = [pytest.mark.spark, pytest.mark.smoke]


def test_ten_questions_of_the_clinic() -> None:
    catalog, frames = clinic.CATALOG, clinic.arrow(clinic.random_rows(3, 40, 120))
    with MAKERS["duckdb"](catalog, frames) as duckdb, spark_engine(catalog, frames) as spark:
        asked = [sql for sql in clinic.QUESTIONS if refusal(duckdb, final_of(sql, catalog)) is None]
        for sql in asked[:: len(asked) // 10][:10]:
            work = MeasurementTask(final_of(sql, catalog), b"secret")
            assert shown(spark.measure(work)) == shown(duckdb.measure(work)), sql
