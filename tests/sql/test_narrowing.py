"""Keys and ranges that follow from conditions, and limits that follow from keys a person has once."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sql.corpus.clinic import CATALOG
from tacit.query.catalog import Catalog
from tacit.query.question import FinalAggregation
from tacit.query.resolve import resolve


def final(sql: str) -> FinalAggregation:
    return resolve(sql, CATALOG).final


def keys(sql: str) -> list[tuple[Any, ...] | None]:
    return [key.values for key in final(sql).keys]


@pytest.mark.parametrize(
    ("key", "where", "expected"),
    [
        ("nights", "nights BETWEEN 2 AND 4", (2, 3, 4)),
        ("nights", "nights > 57", (58, 59, 60)),
        ("nights", "3 > nights", (0, 1, 2)),
        ("nights", "nights >= 59 AND nights < 60", (59,)),
        ("ward", "ward = 'surgery'", ("surgery",)),
        ("ward", "ward <> 'surgery'", ("cardiology", "oncology")),
        ("ward", "upper(ward) LIKE '%OLOGY'", ("cardiology", "oncology")),
        ("doctor", "doctor IN ('Adams', 'Baker')", ("Adams", "Baker")),
        ("doctor", "doctor = 'Adams' OR doctor = 'Baker'", ("Adams", "Baker")),
        ("doctor", "doctor IN ('Adams', 'Baker') AND doctor <> 'Baker'", ("Adams",)),
        ("points", "points BETWEEN -1 AND 1", (-1, 0, 1)),
        ("nights % 3", "nights % 3 > 0", (1, 2)),
        ("upper(doctor)", "upper(doctor) IN ('ADAMS', 'BAKER')", ("ADAMS", "BAKER")),
        ("urgent", "urgent", (True,)),
        (
            "date_trunc('month', admitted)",
            "admitted >= DATE '2024-01-10' AND admitted < DATE '2024-03-01'",
            (dt.date(2024, 1, 1), dt.date(2024, 2, 1)),
        ),
        ("extract(year FROM seen)", "seen < TIMESTAMP '2022-01-01 00:00:00'", (2020, 2021)),
        ("extract(year FROM admitted)", "extract(year FROM admitted) = 2021", (2021,)),
    ],
)
def test_a_condition_on_a_key_leaves_the_keys_that_meet_it(key: str, where: str, expected: tuple[Any, ...]) -> None:
    assert keys(f"SELECT {key}, COUNT(*) FROM visits WHERE {where} GROUP BY 1") == [expected]


def test_conditions_reach_through_subqueries_joins_and_having() -> None:
    assert keys(
        "SELECT w, COUNT(*) FROM (SELECT patient_id, nights + 1 AS w FROM visits WHERE nights + 1 < 4) GROUP BY w"
    ) == [(1, 2, 3)]
    assert keys(
        "SELECT n, COUNT(*) FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY 1 "
        "HAVING COUNT(*) BETWEEN 3 AND 5) GROUP BY n"
    ) == [(3, 4, 5)]
    joined = "SELECT sex, COUNT(*) FROM patients JOIN visits ON id = patient_id AND sex = 'F' GROUP BY sex"
    assert keys(joined) == [("F",)]


def test_a_left_join_keeps_what_its_condition_does_not_meet() -> None:
    joined = "SELECT sex, COUNT(*) FROM patients LEFT JOIN visits ON id = patient_id AND sex = 'F' GROUP BY sex"
    assert keys(joined) == [("F", "M")]


@pytest.mark.parametrize("where", ["nights = 3 OR cost > 5", "nights < points", "nights IS NULL", "nights > 61"])
def test_other_conditions_leave_the_keys_alone(where: str) -> None:
    assert keys(f"SELECT nights, COUNT(*) FROM visits WHERE {where} GROUP BY nights") == [tuple(range(61))]


def test_a_condition_narrows_the_range_of_a_sum() -> None:
    (measure,) = final("SELECT SUM(cost) FROM visits WHERE cost < 50").measures
    assert measure.clamp[1] * measure.step == 20 * Fraction("49.99")


def test_a_key_that_a_person_has_once_is_paid_for_once() -> None:
    for sql in (
        "SELECT sex, COUNT(*) FROM patients JOIN visits ON id = patient_id GROUP BY sex",
        "SELECT sex, year(birth), COUNT(*) FROM patients LEFT JOIN visits ON id = patient_id GROUP BY 1, 2",
        "SELECT first, COUNT(*) FROM (SELECT patient_id, MIN(ward) AS first FROM visits GROUP BY 1) GROUP BY first",
    ):
        assert final(sql).max_groups == 1, sql
    assert final("SELECT ward, COUNT(*) FROM visits GROUP BY ward").max_groups == 3


def test_a_column_of_a_public_table_met_by_a_key_of_the_person_is_had_once() -> None:
    sql = (
        "SELECT floor, COUNT(*) FROM (SELECT patient_id, MIN(ward) AS first FROM visits GROUP BY 1) "
        "JOIN wards ON first = ward GROUP BY floor"
    )
    assert final(sql).max_groups == 1
    other = "SELECT floor, COUNT(*) FROM visits JOIN wards ON visits.ward = wards.ward GROUP BY floor"
    assert final(other).max_groups == 8


def test_an_outer_join_with_a_condition_of_its_own_may_give_a_person_two_keys() -> None:
    sql = "SELECT sex, COUNT(*) FROM visits LEFT JOIN patients ON patient_id = id AND nights > 3 GROUP BY sex"
    assert final(sql).max_groups > 1
    plain = "SELECT sex, COUNT(*) FROM visits LEFT JOIN patients ON patient_id = id GROUP BY sex"
    assert final(plain).max_groups == 1


def test_one_row_of_a_person_in_a_group_counts_once() -> None:
    distinct = final("SELECT ward, COUNT(*) FROM (SELECT DISTINCT patient_id, ward FROM visits) GROUP BY ward")
    assert [measure.clamp for measure in distinct.measures] == [(0, 1)]
    (people,) = final("SELECT COUNT(*) FROM patients").measures
    assert people.clamp == (0, 1)


def test_several_rows_made_of_one_are_counted_as_declared() -> None:
    catalog = Catalog(
        tuple(
            replace(table, max_rows=3, max_groups=2) if table.name == "patients" else table for table in CATALOG.tables
        ),
        CATALOG.populations,
    )
    stacked = "SELECT COUNT(*) FROM (SELECT id FROM patients UNION ALL SELECT id FROM patients)"
    paired = "SELECT floor, COUNT(*) FROM patients CROSS JOIN wards GROUP BY floor"
    (both,) = resolve(stacked, catalog).final.measures
    assert both.clamp == (0, 3)
    assert resolve(paired, catalog).final.max_groups == 2


@pytest.mark.parametrize(
    ("inner", "high"),
    [("COUNT(*)", 256), ("SUM(nights)", 256 * 60), ("COUNT(DISTINCT ward)", 3), ("MAX(nights)", 60)],
)
def test_inside_a_person_max_rows_does_not_count(inner: str, high: int) -> None:
    sql = f"SELECT AVG(n) FROM (SELECT patient_id, {inner} AS n FROM visits GROUP BY patient_id)"
    _, total = final(sql).measures
    assert total.high * total.step == high


def test_numbered_rows_go_beyond_max_rows() -> None:
    sql = (
        "SELECT n, COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) "
        "AS n FROM visits) WHERE n <= 30 GROUP BY n"
    )
    assert keys(sql) == [tuple(range(1, 31))]
