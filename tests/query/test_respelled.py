"""Queries in the words of other databases are the same queries."""

from __future__ import annotations

import datetime as dt

import pytest

from query.corpus.clinic import CATALOG
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.refusal import Refusal
from tacit.query.resolve import resolve
from tacit.query.types import DATE, INTEGER

PAIRS = [
    ("AVG(seen - admitted)", "AVG(EXTRACT(EPOCH FROM seen - admitted))"),
    ("AVG(DATE_PART('epoch', seen - admitted))", "AVG(EXTRACT(EPOCH FROM seen - admitted))"),
    ("COUNT(FORMAT_DATE('%Y', admitted))", "COUNT(STRFTIME(admitted, '%Y'))"),
    ("COUNT(PARSE_TIMESTAMP('%Y-%m-%d', note))", "COUNT(STRPTIME(note, '%Y-%m-%d'))"),
    ("COUNT(DATE_ADD(admitted, INTERVAL 3 DAY))", "COUNT(admitted + INTERVAL '3 days')"),
    ("COUNT(DATE_SUB(admitted, INTERVAL 3 DAY))", "COUNT(admitted - INTERVAL '3 days')"),
    ("COUNT(DATEADD(month, 2, admitted))", "COUNT(admitted + INTERVAL '2 months')"),
    ("COUNT(seen AT TIME ZONE 'UTC')", "COUNT(seen)"),
    ("QUANTILE_DISC(cost, 0.5)", "QUANTILE(cost, 0.5)"),
    ("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY cost)", "MEDIAN(cost)"),
    ("APPROX_QUANTILE(cost, 0.5)", "MEDIAN(cost)"),
    ("APPROX_COUNT_DISTINCT(doctor)", "COUNT(DISTINCT doctor)"),
    ("COUNT(REGEXP_LIKE(note, 'a|b'))", "COUNT(REGEXP_MATCHES(note, 'a|b'))"),
    ("COUNT(note ~* '^ab$')", "COUNT(REGEXP_MATCHES(note, '^ab$', 'i'))"),
    ("COUNT(WIDTH_BUCKET(cost, 0, 100, 4))", "COUNT(CLAMP(FLOOR((cost - 0) * 4 / (100 - 0)) + 1, 0, 5))"),
    ("COUNT(note > 2)", "COUNT(CAST(note AS DOUBLE) > 2.0)"),
    ("COUNT(MONTHNAME(admitted))", "COUNT(STRFTIME(admitted, '%B'))"),
]  # fmt: skip


@pytest.mark.parametrize(("theirs", "ours"), PAIRS)
def test_spellings_of_other_databases(theirs: str, ours: str) -> None:
    def final(aggregate: str) -> object:
        return [(m.kind, m.argument) for m in resolve(f"SELECT {aggregate} AS x FROM visits", CATALOG).final.measures]

    assert final(theirs) == final(ours)


#: Columns that are called as units are, and one with a dot in its name.
_DAYS = (dt.date(2020, 1, 1), dt.date(2020, 12, 31))
NAMED_AS_UNITS = Catalog(
    (
        Table(
            "t",
            (
                Column("id", INTEGER),
                Column("day", DATE, bounds=_DAYS),
                Column("month", DATE, bounds=_DAYS),
                Column("t.x", INTEGER, bounds=(0, 9)),
                Column("x", INTEGER, bounds=(0, 3)),
            ),
            unit="id",
            population="people",
        ),
    ),
    (Population("people"),),
)


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("COUNT(DATE_TRUNC('month', day))", "COUNT(DATE_TRUNC('month', t.day))"),
        ("AVG(DATE_DIFF('day', month, day))", "AVG(DATE_DIFF('day', t.month, t.day))"),
        ("AVG(DATEDIFF(day, month, day))", "AVG(DATE_DIFF('day', t.month, t.day))"),
        ("COUNT(TIMESTAMP_TRUNC(day, MONTH))", "COUNT(DATE_TRUNC('month', t.day))"),
        ("COUNT(*), SUM(`t.x`)", 'COUNT(*), SUM("t.x")'),
        ("SUM(COALESCE(x, `t.x`))", 'SUM(COALESCE(x, "t.x"))'),
    ],
)  # fmt: skip
def test_columns_that_are_called_as_units_or_paths_are(written: str, same: str) -> None:
    one, other = (resolve(f"SELECT {text} FROM t", NAMED_AS_UNITS) for text in (written, same))
    assert one.final == other.final


@pytest.mark.parametrize("call", ["DATE_TRUNC(day, MONTH)", "DATE_DIFF(day, month, DAY)"])
def test_a_unit_that_may_stand_at_either_end_is_refused(call: str) -> None:
    with pytest.raises(Refusal, match="first in some databases and last in others"):
        resolve(f"SELECT COUNT({call}) FROM t", NAMED_AS_UNITS)
