"""Spark keeps the rows that DuckDB keeps, where a join multiplies a unit's rows."""

from __future__ import annotations

import pytest

from engines import clinic, cut
from support.spark_comparison import compare

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def test_multiplied_rows() -> None:
    frames = clinic.arrow(clinic.random_rows(2, 6, 60))
    assert compare(cut.CATALOG, frames, cut.QUERIES) > len(cut.QUERIES) // 2
