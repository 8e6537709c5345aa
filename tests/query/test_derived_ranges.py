"""Bounds of derived values are searched, and those of values that are declared or stated are not."""

from __future__ import annotations

import pytest

from query.corpus.clinic import CATALOG
from tacit.core.errors import InputError
from tacit.query.planning.explain import explain
from tacit.query.planning.plan import make_plan
from tacit.query.request import Request

GAPS = (
    "(SELECT patient_id, DATE_DIFF('day', LAG(admitted) OVER (PARTITION BY patient_id ORDER BY admitted), admitted) "
    "AS gap FROM visits)"
)
COUNTS = "(SELECT patient_id, COUNT(*) AS n, MAX(nights) AS longest FROM visits GROUP BY patient_id)"


def seeks(sql: str) -> bool:
    return make_plan(sql, CATALOG, Request(epsilon="1")).final.seeks_bounds


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT AVG(gap) FROM {GAPS}",
        f"SELECT QUANTILE(gap, 0.9) FROM {GAPS} WHERE gap IS NOT NULL",
        f"SELECT AVG(n) FROM {COUNTS}",
        f"SELECT SUM(n) FROM {COUNTS} WHERE longest > 1",
        "SELECT SUM(cost * nights) FROM visits",
        "SELECT AVG(cost / nights) FROM visits",
        "SELECT MEDIAN(cost * nights) FROM visits",
        "SELECT AVG(CASE WHEN urgent THEN cost - nights END) FROM visits",
        f"SELECT n > 3, STDDEV(n) FROM {COUNTS} GROUP BY 1",
        f"SELECT AVG(a.n) FROM {COUNTS} a JOIN patients p ON p.id = a.patient_id",
        "SELECT AVG(s) FROM (SELECT patient_id, AVG(score) AS s FROM visits GROUP BY patient_id)",
    ],
)
def test_derived_ranges_are_searched(sql: str) -> None:
    assert seeks(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT AVG(cost), SUM(nights), COUNT(*) FROM visits",
        "SELECT SUM(CLAMP(cost * nights, 0, 1000)) FROM visits",
        "SELECT SUM(cost * 2), SUM(CASE WHEN urgent THEN cost ELSE 0 END) FROM visits",
        "SELECT SUM(cost * cost) FROM visits",
        f"SELECT AVG(longest) FROM {COUNTS}",
        f"SELECT AVG(n) FROM {COUNTS} WHERE n <= 30",
        f"SELECT SUM(gap) FROM {GAPS} WHERE gap BETWEEN 0 AND 365",
        "SELECT SUM(cost * nights, contribution_bounds_per_group => (0, 900)) FROM visits",
    ],
)
def test_declared_and_stated_bounds_are_not_searched(sql: str) -> None:
    assert not seeks(sql)


def test_the_quote_says_so_in_one_line() -> None:
    told = explain(make_plan(f"SELECT AVG(gap) FROM {GAPS}", CATALOG, Request(epsilon="1")))
    assert told.advice == (
        (
            "Clipping bounds of avg(gap): 9.6% of the budget finds them, as CLAMP(x, AUTO) does. Bounds that you know, "
            "CLAMP(x, lo, hi), save that."
        ),
    )
    assert f"Advice\n  {told.advice[0]}" in str(told)
    assert "Advice" not in str(explain(make_plan("SELECT AVG(cost) FROM visits", CATALOG, Request(epsilon="1"))))


def test_an_error_that_is_asked_for_needs_known_ranges() -> None:
    plan = make_plan(f"SELECT SUM(n) FROM {COUNTS}", CATALOG, Request(within="5000"))
    assert not plan.final.seeks_bounds
    assert plan.final.measures[0].clamp == (0, 256)
    with pytest.raises(InputError, match="CLAMP"):
        make_plan("SELECT SUM(score) FROM visits", CATALOG, Request(within="5000"))
