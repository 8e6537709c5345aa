"""Advice where a derived range is far wider than a question needs, and none where it is declared or stated."""

from __future__ import annotations

import pytest

from sql.corpus.clinic import CATALOG
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import make_plan
from tacit.query.request import Request

GAPS = (
    "(SELECT patient_id, DATE_DIFF('day', LAG(admitted) OVER (PARTITION BY patient_id ORDER BY admitted), admitted) "
    "AS gap FROM visits)"
)
COUNTS = "(SELECT patient_id, COUNT(*) AS n, MAX(nights) AS longest FROM visits GROUP BY patient_id)"


def advice(sql: str, suppose: int | None = None) -> tuple[str, ...]:
    return explain(make_plan(sql, CATALOG, Request(epsilon="1", suppose=suppose))).advice


def test_the_difference_of_two_dates() -> None:
    (sentence,) = advice(f"SELECT AVG(gap) FROM {GAPS}")
    assert "AVG(gap) is taken over values from -1826 to 1826" in sentence
    assert "AVG(CLAMP(gap, lo, hi))" in sentence
    assert "CLAMP(gap, -183, 183)" in sentence
    assert "CLAMP(gap, AUTO)" in sentence


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (f"SELECT AVG(n) FROM {COUNTS}", "from 0 to 256, which follows from the most rows"),
        (f"SELECT SUM(n) FROM {COUNTS} WHERE longest > 1", "to 256"),
        ("SELECT SUM(cost * nights) FROM visits", "SUM(cost * nights) is taken over values from 0 to 300000"),
        ("SELECT AVG(CASE WHEN urgent THEN cost - nights END) FROM visits", "the bounds of cost and nights"),
        (f"SELECT n > 3, STDDEV(n) FROM {COUNTS} GROUP BY 1", "STDDEV_SAMP(n)"),
        (f"SELECT AVG(a.n) FROM {COUNTS} a JOIN patients p ON p.id = a.patient_id", "unit_rows"),
    ],
)
def test_other_derived_ranges(sql: str, words: str) -> None:
    assert words in " ".join(advice(sql))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(cost), SUM(nights), COUNT(*) FROM visits",
        "SELECT SUM(CLAMP(cost * nights, 0, 1000)) FROM visits",
        "SELECT SUM(cost * 2), SUM(CASE WHEN urgent THEN cost ELSE 0 END) FROM visits",
        f"SELECT AVG(CLAMP(gap, AUTO)) FROM {GAPS}",
        f"SELECT AVG(longest) FROM {COUNTS}",
        f"SELECT AVG(n) FROM {COUNTS} WHERE n <= 30",
        "SELECT MEDIAN(cost * nights) FROM visits",
    ],
)
def test_no_advice_for_ranges_that_are_declared_or_stated(sql: str) -> None:
    assert advice(sql) == ()


def test_no_advice_where_so_many_values_make_the_error_small() -> None:
    sql = f"SELECT AVG(n), SUM(n) FROM {COUNTS}"
    assert len(advice(sql, suppose=20)) == 2
    assert advice(sql, suppose=100_000) == ()


def test_advice_is_shown_and_sent() -> None:
    told = explain(make_plan(f"SELECT AVG(gap) FROM {GAPS}", CATALOG, Request(epsilon="1")))
    assert f"Advice\n  {told.advice[0]}" in str(told)
    assert told.advice[0] in told.to_json()
    assert "Advice" not in str(explain(make_plan("SELECT COUNT(*) FROM visits", CATALOG, Request(epsilon="1"))))
