"""Every dialect has the SQL of each operation that the interface declares."""

from __future__ import annotations

import pytest

from tacit.engines.duckdb.dialect import DUCKDB
from tacit.engines.postgres.dialect import POSTGRES
from tacit.engines.spark.dialect import SPARK
from tacit.engines.sql.dialect import Dialect


@pytest.mark.parametrize("dialect", [DUCKDB, POSTGRES, SPARK])
def test_every_operation_has_its_sql(dialect: Dialect) -> None:
    declared = {name for name, kind in Dialect.__annotations__.items() if kind.startswith("Callable")}
    assert len(declared) > 15
    # PostgreSQL makes dates of their parts.
    assert {name for name in declared if not callable(getattr(dialect, name, None))} <= {"read_day"}
