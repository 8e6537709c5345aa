"""Profiles: what is found in tables nobody has described, its one charge, and SUMMARIZE in SQL."""

from __future__ import annotations

import datetime as dt
import tomllib
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import tacit
from support.bits import SeededBits
from support.clinic import open_clinic
from tacit.core.errors import BudgetError, InputError, QueryError
from tacit.curator.curator import Curator
from tacit.noise import entropy
from tacit.releases.profile import Profile

BUDGETS: dict[str, dict[str, str]] = {
    "pure": {"epsilon": "80"},
    "approx": {"accounting": "approx", "epsilon": "80", "delta": "1e-2"},
    "zcdp": {"accounting": "zcdp", "epsilon": "80", "delta": "1e-2"},
    "gdp": {"accounting": "gdp", "mu": "9"},
}
PEOPLE = 2000


def rows(folder: Path) -> Path:
    """Two visits of each person in a CSV file, all of whose columns are text to whoever opens it."""
    lines = ["patient_id,ward,cost,age,admitted,note"]
    for person in range(PEOPLE):
        for visit in range(2):
            cost = "" if person % 4 == 0 else f"{100 + person % 800}.5"
            day = dt.date(2021, 1, 1) + dt.timedelta(days=person % 700)
            ward = ("surgery", "oncology", "cardiology")[(person + visit) % 3]
            lines.append(f"p{person},{ward},{cost},{20 + person % 60},{day},text {person} {visit}")
    place = folder / "visits.csv"
    place.write_text("\n".join(lines) + "\n")
    return place


def undescribed(folder: Path, kind: str) -> Curator:
    return tacit.open(rows(folder), unit="patient_id", **BUDGETS[kind])


@pytest.fixture(scope="module")
def zcdp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Curator, Profile]:
    """A curator and one profile of it, for tests that only read."""
    curator, bits = undescribed(tmp_path_factory.mktemp("visits"), "zcdp"), SeededBits(20261120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "current", lambda: bits)
        return curator, curator.profile("visits", epsilon=20)


@pytest.mark.deep
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", BUDGETS)
def test_what_texts_hold_is_found_under_one_charge(tmp_path: Path, kind: str) -> None:
    curator = undescribed(tmp_path, kind)
    price = {"mu": "3"} if kind == "gdp" else {"epsilon": "20", **({"delta": "1e-9"} if kind == "approx" else {})}
    quote = curator.explain_profile("visits", **price)
    assert not curator.history()
    found = curator.profile("visits", **price)
    assert [each.holds for each in found.columns] == ["text", "double", "integer", "date", "text"]
    assert found.rows.low <= 2 * PEOPLE <= found.rows.high
    assert found.people is not None
    assert found.people.low <= PEOPLE <= found.people.high
    cost, age, admitted = (found.column(name) for name in ("cost", "age", "admitted"))
    assert abs(cost.nulls.value - 0.25) < 0.05
    assert cost.bounds == (0, 1024)
    assert cost.mean is not None
    assert abs(cost.mean.value - 500) < 60
    assert age.bounds is not None
    assert 79 <= age.bounds[1] <= 256
    assert admitted.bounds is not None
    assert admitted.bounds[0] <= dt.date(2021, 1, 1) < dt.date(2022, 12, 1) <= admitted.bounds[1]
    wards = {value for value, _ in found.column("ward").values}
    # Values are chosen by a delta, which these accounts have; a text of one person is shown with a chance of its part.
    assert wards == ({"surgery", "oncology", "cardiology"} if kind in ("approx", "zcdp") else set())
    assert found.column("note").values == ()
    (entry,) = curator.history()
    assert entry.number == found.charge.number == found.receipt.position
    assert curator.check_receipt(found.receipt).ok
    assert curator.ledger.verify().problems == ()
    assert {each.column for each in quote.parts} == {each.name for each in found.columns}


def test_a_profile_is_read_again_and_repeated_free(zcdp: tuple[Curator, Profile]) -> None:
    curator, first = zcdp
    again, read = curator.profile("visits", epsilon=20), curator.released("visits_profile")
    assert again.charge.repeated
    assert [each.columns for each in (again, read)] == [first.columns] * 2
    assert curator.releases("profile")[0].position == first.receipt.position


@pytest.mark.deep
def test_quartiles_are_asked_where_they_are_worth_their_cost(tmp_path: Path) -> None:
    curator = undescribed(tmp_path, "zcdp")
    few = curator.explain_profile("visits", epsilon="0.2", suppose=100)
    assert all(each.least > 100 for each in few.parts if each.part == "quartiles")
    assert "not worth it at 100" in str(few)
    assert not any(each.quartiles for each in curator.profile("visits", epsilon="0.2").columns)
    rich = curator.profile("visits", epsilon="20").column("age")
    assert [abs(q.value - true) < 5 for q, true in zip(rich.quartiles, (35, 49.5, 65), strict=True)] == [True] * 3


def test_too_few_people_are_told_so_and_not_given_bounds() -> None:
    table = pa.table({"id": list(range(30)), "x": [1000.0 + n for n in range(30)]})
    found = tacit.open(table, unit="id", epsilon="1", max_rows=1).profile("data", epsilon="0.1").column("x")
    assert (found.bounds, found.mean) == (None, None)
    assert found.missing == "too few people to tell"


def test_the_draft_is_a_project_that_opens(zcdp: tuple[Curator, Profile], tmp_path: Path) -> None:
    found = zcdp[1]
    rows(tmp_path)
    text = found.draft("visits.csv").replace('epsilon = "?"', 'epsilon = "4"', 1)
    columns = tomllib.loads(text)["tables"]["visits"]["columns"]
    assert columns["cost"] == {"type": "double", "bounds": [0, 1024]}
    assert sorted(columns["ward"]["categories"]) == ["cardiology", "oncology", "surgery"]
    (tmp_path / "tacit.toml").write_text(text)
    described = tacit.open(tmp_path / "tacit.toml")
    assert len(described.sql("SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward", epsilon=1)) == 3


@pytest.mark.deep
def test_declared_columns_keep_their_bounds_and_values() -> None:
    curator, _ = open_clinic(**BUDGETS["zcdp"])
    found = curator.profile("visits", epsilon=20)
    ward, cost = found.column("ward"), found.column("cost")
    assert ward.known
    assert cost.known
    assert {value for value, _ in ward.values} >= {"a", "b"} or len(ward.values) > 1


def test_refusals_come_before_the_charge(tmp_path: Path) -> None:
    curator = undescribed(tmp_path, "pure")
    for source, words in (("nothing", "must be the name of a protected table"),):
        with pytest.raises(InputError, match=words):
            curator.profile(source, epsilon=1)
    with pytest.raises(BudgetError):
        curator.profile("visits", epsilon=90)
    with pytest.raises(InputError, match="means nothing here"):
        curator.profile("visits", epsilon=1, max_groups=2)
    assert not curator.history()


@pytest.mark.deep
def test_the_same_price_on_neighbours_is_the_same_charge(tmp_path: Path) -> None:
    charges = []
    for lines in (None, -2):
        folder = tmp_path / str(lines)
        folder.mkdir()
        place = rows(folder)
        place.write_text("\n".join(place.read_text().splitlines()[:lines]) + "\n")
        curator = tacit.open(place, unit="patient_id", **BUDGETS["zcdp"])
        charges.append(curator.profile("visits", epsilon=1).charge.amounts)
    assert charges[0] == charges[1]
    assert sum(each.amount for each in charges[0]) > Fraction(0)


def test_summarize_is_a_query_with_a_row_for_each_column(tmp_path: Path) -> None:
    curator = undescribed(tmp_path, "zcdp")
    answer = curator.sql("SUMMARIZE visits;", epsilon=20)
    told = {row["column_name"]: row for row in answer.to_arrow().to_pylist()}
    assert set(told) == {"ward", "cost", "age", "admitted", "note"}
    assert abs(told["cost"]["null_share"] - 0.25) < 0.05
    assert curator.check_receipt(answer.receipt or "").ok
    with pytest.raises(QueryError, match="protected table"):
        curator.sql("SUMMARIZE nothing", epsilon=1)


def test_pictures_and_tables_of_a_profile(zcdp: tuple[Curator, Profile], tmp_path: Path) -> None:
    pytest.importorskip("altair")
    found = zcdp[1]
    for each in found.columns:
        each.plot().save(str(tmp_path / "chart.svg"))
        assert each.name in (tmp_path / "chart.svg").read_text()
    assert found.to_arrow().num_rows == len(found.columns)
