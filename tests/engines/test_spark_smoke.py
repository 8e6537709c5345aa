"""Ten queries on a real Spark, of all kinds: the first thing to fail where Spark does not do what it should."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines import clinic
from engines.forms_of_spark import SMOKE
from support.spark import held
from support.spark_comparison import compare

pytestmark = [pytest.mark.spark, pytest.mark.smoke]


def test_ten_queries_give_the_integers_of_duckdb() -> None:
    assert len(SMOKE) == 10
    assert compare(clinic.CATALOG, clinic.arrow(clinic.random_rows(3, 40, 120)), SMOKE) == 10


def test_no_row_group_is_left_unread_for_what_its_statistics_say(tmp_path: Path) -> None:
    """Else a condition on one person would decide which rows of all are read."""
    path = str(tmp_path / "visits.parquet")
    pq.write_table(pa.table({"patient": [1, 2, 3]}), path)
    asked = held().spark.sql(f"SELECT count(*) FROM parquet.`{path}` WHERE patient = 7")
    assert asked.collect()[0][0] == 0
    scan = asked._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() == 3
