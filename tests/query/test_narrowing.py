"""Keys and ranges that follow from conditions, and limits that follow from keys a person has once."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from query.corpus.clinic import CATALOG
from tacit.query.catalog import Catalog
from tacit.query.query import FinalAggregation
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
        ("nights", "nights IS NULL", (None,)),
        ("ward", "ward = 'surgery' OR ward IS NULL", ("surgery", None)),
        ("ward", "ward <> 'surgery' OR ward IS NULL", ("cardiology", "oncology", None)),
        ("doctor", "doctor IN ('Adams', 'Baker') OR doctor IS NULL", ("Adams", "Baker", None)),
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


PATIENTS_AND_VISITS = "patients p LEFT JOIN visits v ON p.id = v.patient_id"
YEARS = tuple(dt.date(year, 1, 1) for year in range(2020, 2025))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("v.ward", ("cardiology", "oncology", "surgery", None)),
        ("upper(v.ward)", ("CARDIOLOGY", "ONCOLOGY", "SURGERY", None)),
        ("v.nights", (*range(61), None)),
        ("v.nights // 20", (0, 1, 2, 3, None)),
        ("v.urgent", (False, True, None)),
        ("v.seen > TIMESTAMP '2021-01-01 00:00:00'", (False, True, None)),
        ("date_trunc('year', v.admitted)", YEARS),
        ("CAST(date_trunc('year', v.seen) AS DATE)", YEARS),
        ("COALESCE(v.ward, 'none')", ("cardiology", "none", "oncology", "surgery")),
        ("v.ward IS NULL", (False, True)),
        ("CASE WHEN v.nights > 3 THEN 'long' ELSE 'short' END", ("long", "short")),
        ("p.sex", ("F", "M")),
    ],
)
def test_rows_without_a_match_have_a_key_of_their_own(key: str, expected: tuple[Any, ...]) -> None:
    listed = (*expected, None) if expected == YEARS else expected
    assert keys(f"SELECT {key}, COUNT(*) FROM {PATIENTS_AND_VISITS} GROUP BY 1") == [listed]


@pytest.mark.parametrize(
    ("key", "where", "expected"),
    [
        ("v.ward", "v.ward IS NOT NULL", ("cardiology", "oncology", "surgery")),
        ("v.ward", "v.ward <> 'surgery'", ("cardiology", "oncology")),
        ("v.ward", "v.ward IS DISTINCT FROM 'surgery'", ("cardiology", "oncology", None)),
        ("v.ward", "v.ward IS NULL", (None,)),
        ("v.nights", "v.nights IS NOT NULL AND v.nights < 3", (0, 1, 2)),
        ("v.nights", "v.nights < 3 OR v.nights IS NULL", (0, 1, 2, None)),
        ("date_trunc('year', v.admitted)", "v.admitted IS NOT NULL", YEARS),
    ],
)
def test_conditions_decide_whether_rows_without_a_match_stay(key: str, where: str, expected: tuple[Any, ...]) -> None:
    assert keys(f"SELECT {key}, COUNT(*) FROM {PATIENTS_AND_VISITS} WHERE {where} GROUP BY 1") == [expected]


def test_which_side_of_a_join_is_optional() -> None:
    joined = "SELECT sex, ward, COUNT(*) FROM patients p {} JOIN visits v ON p.id = v.patient_id GROUP BY 1, 2"
    sexes, wards = ("F", "M"), ("cardiology", "oncology", "surgery")
    assert keys(joined.format("INNER")) == [sexes, wards]
    assert keys(joined.format("LEFT")) == [sexes, (*wards, None)]
    assert keys(joined.format("RIGHT")) == [(*sexes, None), wards]
    assert keys(joined.format("FULL")) == [(*sexes, None), (*wards, None)]


def test_a_list_inside_the_optional_side_gets_null_beside_it() -> None:
    listed = "(SELECT patient_id, doctor FROM visits WHERE doctor IN ('Adams', 'Baker'))"
    joined = f"SELECT d.doctor, COUNT(*) FROM patients p LEFT JOIN {listed} d ON p.id = d.patient_id GROUP BY 1"
    assert keys(joined) == [("Adams", "Baker", None)]
    inside = "SELECT id, MIN(v.nights) AS n FROM patients LEFT JOIN visits v ON id = v.patient_id GROUP BY id"
    assert keys(f"SELECT n, COUNT(*) FROM ({inside}) GROUP BY n") == [(*range(61), None)]


def test_a_sum_where_nothing_matched_keeps_its_bounds() -> None:
    sql = f"SELECT SUM(v.nights) FROM {PATIENTS_AND_VISITS} WHERE v.nights IS NULL"
    assert final(sql).measures[0].clamp[1] == 20 * 60


@pytest.mark.parametrize("where", ["nights = 3 OR cost > 5", "nights < points", "nights > 61"])
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
    assert final(sql).measures[1].argument.range.high == high


def test_numbered_rows_go_beyond_max_rows() -> None:
    sql = (
        "SELECT n, COUNT(*) FROM (SELECT patient_id, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY admitted) "
        "AS n FROM visits) WHERE n <= 30 GROUP BY n"
    )
    assert keys(sql) == [tuple(range(1, 31))]
