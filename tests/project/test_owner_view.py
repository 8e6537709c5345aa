"""The owner's view of a project: exact shares that limits keep and that bounds, types and categories leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tacit.core.cautions import cautions_about_account
from tacit.core.guarantees import GDP, ZCDP, ApproxDP, PureDP
from tacit.project.owner_view import ColumnLoss, LimitChoice, RowsKept, owner_views
from tacit.project.project_file import load

PEOPLE = "[tables.people]\nsource = 'people.csv'\npopulation = 'a'\nunit = 'id'\n"
PEOPLE += "[tables.people.columns]\nid = { type = 'integer', unique = true }\n"
VISITS = """
[tables.visits]
source = 'visits.csv'
population = 'a'
[tables.visits.columns]
person = { type = 'integer', references = 'people.id' }
ward = { type = 'text', categories = ['x', 'y', 'z'] }
cost = { type = 'decimal', step = '0.1', bounds = [0, 5] }
day = { type = 'date', bounds = ['2024-01-01', '2024-12-31'] }
nights = { type = 'integer' }
"""


@pytest.fixture
def views(tmp_path: Path) -> dict[str, RowsKept]:
    """Four people: with 1, 2, 2 and 5 visits, and one visit of no one."""
    people = "id\n1\n2\n3\n4\n"
    rows = ["1,x,1.0,2024-02-01,3", "2,x,9.5,2024-02-01,oops", "2,y,1.0,2023-02-01,", "3,x,1.0,2024-02-01,1"]
    rows += ["3,x,1.0,2024-02-01,1", "4,x,1.0,2024-02-01,1", "4,y,1.0,2024-02-01,1", "4,z,-2,2024-02-01,1"]
    rows += ["4,q,1.0,2024-02-01,1", "4,,1.0,2024-02-01,1"]
    (tmp_path / "people.csv").write_text(people)
    (tmp_path / "visits.csv").write_text("person,ward,cost,day,nights\n" + "\n".join(rows) + "\n")
    (tmp_path / "tacit.toml").write_text(f"[populations.a]\nepsilon = '1'\n{PEOPLE}{VISITS}")
    return {view.table: view for view in owner_views(load(tmp_path / "tacit.toml"))}


def test_shares_of_rows_and_people_along_a_foreign_key(views: dict[str, RowsKept]) -> None:
    visits = views["visits"]
    assert (visits.rows, visits.people) == (10, 4)
    assert [(c.number, c.kept, c.whole) for c in visits.by_rows] == [
        (1, 0.4, 0.25), (2, 0.7, 0.75), (4, 0.9, 0.75), (8, 1.0, 1.0),
    ]  # fmt: skip
    assert [c.error for c in visits.by_rows] == [3, 6, 12, 24]
    (choices,) = visits.by_groups.values()
    assert [(c.number, c.kept, c.whole) for c in choices] == [(1, 4 / 7, 0.5), (2, 6 / 7, 0.75), (4, 1.0, 1.0)]
    assert views["people"].by_rows == ()
    assert "max_rows = 1: 40.0 % kept, 25.0 % of people whole, ±3" in "\n".join(visits.lines())

    assert str(LimitChoice(1, 0.4, 0.0, 3)) == "1: 40.0 % kept, 0 % of people whole, ±3"


def test_values_that_are_read_otherwise_than_stored(views: dict[str, RowsKept]) -> None:
    assert views["visits"].losses == (
        ColumnLoss("ward", unlisted=0.1, missing=0.1),
        ColumnLoss("cost", outside=0.2),
        ColumnLoss("day", outside=0.1),
        ColumnLoss("nights", unreadable=0.1),
    )
    assert str(views["visits"].losses[3]) == "nights: 10.0 % unreadable as its type, read as NULL"
    assert views["people"].losses == ()


def test_cautions_about_a_whole_budget() -> None:
    assert cautions_about_account(PureDP(10)) == ()
    (sentence,) = cautions_about_account(PureDP(11))
    assert sentence.startswith("epsilon 11 protects little: an attacker may guess")
    assert cautions_about_account(ApproxDP(4, "1e-6")) == cautions_about_account(ApproxDP(4, "1e-6"), people=9000) == ()
    (sentence,) = cautions_about_account(ApproxDP(4, "1e-6"), people=10**6)
    assert "delta 1e-06 for 1,000,000 people protects little" in sentence
    assert cautions_about_account(ZCDP("0.1")) == cautions_about_account(GDP(1)) == ()
    assert len(cautions_about_account(ZCDP(5))) == 1
    assert len(cautions_about_account(ZCDP("0.1", delta="0.01"))) == 1


def test_cautions_never_fail_whatever_was_used_up() -> None:
    for delta in ("0.5", "0.999", "1e-9"):
        assert isinstance(cautions_about_account(ZCDP("0.1", delta=delta)), tuple)
