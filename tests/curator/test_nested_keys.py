"""Quarters of released months, wider buckets and classes of categories: answered for nothing where they are unions."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import pytest

from support.bits import SeededBits
from support.toy_curators import toy_curator
from support.toy_engine import ToyEngine
from tacit.curator.curator import Curator
from tacit.noise import entropy
from tacit.query.catalog import Catalog, Column, Population, Table
from tacit.query.planning.coarser import nested_key
from tacit.query.resolve import resolve
from tacit.query.types import BOOLEAN, DATE, INTEGER, TEXT

YEAR = (dt.date(2024, 1, 1), dt.date(2024, 12, 31))
CATALOG = Catalog(
    (
        Table(
            "visits",
            (
                Column("person", INTEGER),
                Column("day", DATE, bounds=YEAR),
                Column("late", DATE, bounds=(dt.date(2024, 2, 1), dt.date(2024, 12, 31))),
                Column("age", INTEGER, bounds=(0, 99)),
                Column("stay", INTEGER, bounds=(-99, 99)),
                Column("ward", TEXT, categories=("a", "b", "c")),
                Column("urgent", BOOLEAN, nullable=False),
                Column("cost", INTEGER, bounds=(0, 100)),
            ),
            population="people",
            unit="person",
            max_groups=1,
            max_rows=1,
        ),
    ),
    (Population("people"),),
)
ROWS: list[dict[str, Any]] = [
    {
        "person": i, "day": YEAR[0] + dt.timedelta(days=i * 7 % 366), "late": YEAR[1], "age": i % 100, "stay": i % 100,
        "ward": "abc"[i % 3], "urgent": i % 2 == 0, "cost": i * 37 % 101,
    }
    for i in range(900)
]  # fmt: skip


@pytest.fixture(autouse=True)
def bits(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SeededBits(20261118)
    monkeypatch.setattr(entropy, "current", lambda: source)


def opened() -> tuple[Curator, ToyEngine]:
    engine = ToyEngine({"visits": ROWS})
    return toy_curator(CATALOG, engine, {"epsilon": "100"}), engine


def spent_by(curator: Curator) -> Fraction:
    return curator.budget().spent[0].amount


def follows(coarse: str, fine: str) -> bool:
    made = [resolve(f"SELECT COUNT(*) FROM visits GROUP BY {key}", CATALOG).final.keys for key in (coarse, fine)]
    return nested_key(made[0][0], made[1]) is not None


@pytest.mark.parametrize(("coarse", "fine"), [
    ("date_trunc('quarter', day)", "date_trunc('month', day)"),
    ("date_trunc('year', day)", "date_trunc('quarter', day)"),
    ("YEAR(day)", "date_trunc('month', day)"),
    ("date_trunc('month', day)", "day"),
    ("stay // 20", "stay // 10"),
    ("stay // 10", "stay"),
    ("CASE WHEN ward = 'a' THEN 'x' WHEN ward IN ('b', 'c') THEN 'y' END", "ward"),
    ("CASE WHEN urgent THEN 1 ELSE 0 END", "urgent"),
])  # fmt: skip
def test_keys_that_follow(coarse: str, fine: str) -> None:
    assert follows(coarse, fine)


@pytest.mark.parametrize(("coarse", "fine"), [
    # Weeks and months do not nest.
    ("date_trunc('month', day)", "date_trunc('week', day)"),
    ("date_trunc('month', day)", "date_trunc('quarter', day)"),
    # A day of January may be in the table, whatever its bounds say; it is in the first quarter and in no listed month.
    ("date_trunc('quarter', late)", "date_trunc('month', late)"),
    # The week of the first of January has days of the year before.
    ("date_trunc('week', late)", "late"),
    ("stay // 15", "stay // 10"),
    # A number below 0 may be in the table: -15 is in no listed group of ten, and in the group of 0 by twenties.
    ("age // 20", "age // 10"),
    ("age // 10", "age"),
    # An age of 100 or more is in no listed group of ten, and in the group of those from 90 on.
    ("age // 30", "age // 10"),
    # An undeclared ward is in no listed group, and falls under ELSE.
    ("CASE WHEN ward = 'a' THEN 'x' ELSE 'y' END", "ward"),
    ("CASE WHEN ward <> 'a' THEN 'x' END", "ward"),
    ("date_trunc('quarter', day)", "date_trunc('month', late)"),
])  # fmt: skip
def test_keys_that_do_not_follow(coarse: str, fine: str) -> None:
    assert not follows(coarse, fine)


@pytest.mark.parametrize(("coarse", "fine", "columns"), [
    ("date_trunc('quarter', day)", "date_trunc('month', day)", "COUNT(*) AS n, SUM(cost) AS s"),
    ("stay // 20", "stay // 10", "COUNT(*) AS n, AVG(cost) AS s"),
    ("CASE WHEN ward IN ('a', 'b') THEN 'x' WHEN ward = 'c' THEN 'y' END", "ward", "COUNT(*) AS n, SUM(cost) AS s"),
])  # fmt: skip
def test_sums_of_released_cells_are_free(coarse: str, fine: str, columns: str) -> None:
    curator, _ = opened()
    months = curator.sql(f"SELECT {fine} AS k, {columns} FROM visits GROUP BY 1", epsilon=4)
    spent = spent_by(curator)
    quote = curator.explain(f"SELECT {coarse} AS k, {columns} FROM visits GROUP BY 1", epsilon=1)
    assert "nothing: sums of cells" in str(quote)
    quarters = curator.sql(f"SELECT {coarse} AS k, {columns} FROM visits GROUP BY 1", epsilon=1)
    assert spent_by(curator) == spent
    assert sum(row[1] for row in quarters.finished.values) == sum(row[1] for row in months.finished.values)
    assert 1 < len(quarters.finished.values) < len(months.finished.values)


@pytest.mark.parametrize(("where", "free", "truth"), [
    ("", False, 680),
    ("WHERE age >= -1", False, 180),
    ("WHERE cost >= 0", False, 680),
    ("WHERE age >= 0 OR urgent", False, 680),
    ("WHERE age >= 0", True, 180),
    ("WHERE urgent AND 0 <= age", True, 90),
    ("WHERE age BETWEEN 0 AND 99", True, 180),
])  # fmt: skip
def test_numbers_below_zero_are_in_a_wider_group_of_zero(where: str, free: bool, truth: int) -> None:
    """Whatever the bounds say: ages of -15 are in no listed group of ten, and count in the group of 0 by twenties."""
    rows = [*ROWS, *({**ROWS[0], "person": 1000 + i, "age": -15} for i in range(500))]
    curator = toy_curator(CATALOG, ToyEngine({"visits": rows}), {"epsilon": "1000"})
    curator.sql(f"SELECT age // 10 AS k, COUNT(*) AS n FROM visits {where} GROUP BY 1", epsilon=40)
    spent = spent_by(curator)
    sql = f"SELECT age // 20 AS k, COUNT(*) AS n FROM visits {where} GROUP BY 1"
    counted = dict(curator.sql(sql, epsilon=20).finished.values)[0]
    assert (spent_by(curator) == spent) is free
    assert abs(counted - truth) < 10


def test_a_rollup_over_quarters_of_released_months_is_free() -> None:
    curator, _ = opened()
    curator.sql("SELECT date_trunc('month', day) AS m, urgent, COUNT(*) AS n FROM visits GROUP BY 1, 2", epsilon=8)
    spent = spent_by(curator)
    sql = "SELECT date_trunc('quarter', day) AS q, urgent, COUNT(*) AS n FROM visits GROUP BY ROLLUP (q, urgent)"
    rows = curator.sql(sql, epsilon="0.5").finished.values
    assert spent_by(curator) == spent
    assert len(rows) == 4 * 2 + 4 + 1
    assert sum(row[2] for row in rows[:-1] if row[1] is None) == rows[-1][2]


def test_people_of_a_quarter_are_not_those_of_its_months() -> None:
    """With several groups a person, numbers of people do not add up over time."""
    curator, _ = opened()
    asked = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = 3) date_trunc('{}', day) AS k, "
    asked += "COUNT(DISTINCT person) AS n FROM visits GROUP BY 1"
    curator.sql(asked.format("month"), epsilon=8)
    spent = spent_by(curator)
    curator.sql(asked.format("quarter"), epsilon=1)
    assert spent_by(curator) != spent
