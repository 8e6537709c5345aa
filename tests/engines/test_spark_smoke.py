"""Ten questions on a real Spark, of all kinds: the first thing to fail where Spark does not do what it should."""

from __future__ import annotations

import pytest

from engines import clinic
from engines.forms_of_spark import SMOKE
from support.spark_comparison import compare

pytestmark = [pytest.mark.spark, pytest.mark.smoke]


def test_ten_questions_give_the_integers_of_duckdb() -> None:
    assert len(SMOKE) == 10
    assert compare(clinic.CATALOG, clinic.arrow(clinic.random_rows(3, 40, 120)), SMOKE) == 10
