"""Limits that a query finds: without a stated bound, stored with the answer, in its receipt, in planned releases."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.core.errors import InputError
from tacit.curator.curator import Curator
from tacit.query.planning.auto_limits import FoundLimits

pytestmark = pytest.mark.usefixtures("seeded")

PEOPLE, ROWS = 4000, 6
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """4,000 people with 6 rows each, 3 in each of two wards."""
    people = [i for i in range(PEOPLE) for _ in range(ROWS)]
    wards = ["abc"[(i + j % 2) % 3] for i in range(PEOPLE) for j in range(ROWS)]
    pq.write_table(pa.table({"id": people, "ward": wards}), tmp_path / "visits.parquet")
    return tmp_path


def opened(folder: Path, **more: Any) -> Curator:
    columns = {"ward": ["a", "b", "c"]}
    return tacit.open(folder / "visits.parquet", unit="id", **{"epsilon": "8", "columns": columns, **more})


def test_without_a_stated_bound_nothing_is_cut_to_one_row(folder: Path) -> None:
    with opened(folder, ledger=folder / "a.ledger") as curator:
        answer = curator.sql(COUNT, epsilon="1")
        assert answer.limits is not None
        rows = answer.limits.rows
        assert rows in (8, 16), "all of 6, and a little more where noise may hide people who have more"
        assert abs(int(answer.finished.values[0][0]) - PEOPLE * ROWS) < 300  # type: ignore[call-overload]
        assert f"Limits found: max_rows {rows}." in answer.note
        assert f"Limits found: max_rows {rows}." in " ".join(str(answer).split())
        assert curator.sql(COUNT, epsilon="1", max_rows=1).limits is None
        (said,) = answer.receipt["answers"]
        assert said["bounding"] == f"at most {rows} rows of a unit count per group"
        assert [line["name"] for line in said["mechanisms"]] == [
            "categories for max_rows up to 256",
            "rows for count_rows(*)",
        ]
        assert curator.check_receipt(answer.receipt).ok
        groups = curator.sql(BY_WARD, epsilon="1")
        assert groups.limits is not None
        assert groups.limits.total in (8, 16)
        assert [cause.cause for cause in groups.bias.causes] == ["keys", "max_rows_total"]
        assert curator.tables()[0].table.max_rows == "auto"
    with opened(folder, ledger=folder / "a.ledger") as again:
        repeated = again.sql(COUNT, epsilon="1")
        assert repeated.charge.repeated
        assert (repeated.finished.values, repeated.limits) == (answer.finished.values, answer.limits)
        other = again.sql(COUNT, epsilon="1", confidence="0.5")
        assert other.charge.repeated
        assert other.limits == answer.limits
        assert again.ledger.verify().ok


def test_a_stated_auto_is_what_is_declared(folder: Path) -> None:
    with opened(folder, max_groups="AUTO", max_rows="auto") as curator:
        first = curator.sql(COUNT, epsilon="1")
        assert curator.sql(COUNT, epsilon="1", max_rows="AUTO").charge.repeated
        assert first.limits is not None
    with opened(folder, max_rows=2, max_groups=1, max_rows_limit=4) as curator:
        assert curator.sql(COUNT, epsilon="1").limits is None
        assert curator.sql(COUNT, epsilon="1", max_rows="auto").limits == FoundLimits(None, 4), (
            "never above the ceiling"
        )


def test_a_planned_release_finds_limits_where_prices_add_up(folder: Path) -> None:
    text = '[release]\nepsilon = "2"\n{delta}[statistics.n]\nsql = "{sql}"\n{limits}'
    plan = folder / "plan.toml"
    plan.write_text(text.format(delta="", sql=COUNT, limits='max_rows = "auto"\n'))
    with opened(folder) as curator:
        done = curator.publish(plan)
        assert done.answers["n"].limits in (FoundLimits(None, 8), FoundLimits(None, 16))
    plan.write_text(text.format(delta='delta = "1e-6"\n', sql=COUNT, limits=""))
    with (
        opened(folder, delta="1e-5", accounting="approx") as curator,
        pytest.raises(InputError, match="AUTO max_groups"),
    ):
        curator.publish(plan)


def test_a_limit_that_cuts_no_person_is_not_said_to_cut_any(tmp_path: Path) -> None:
    """Cells of lost groups hold noise alone where AUTO, looking later, found as many groups as there are."""
    people = [i for i in range(PEOPLE) for _ in range(3)]
    pq.write_table(pa.table({"id": people, "ward": [*"abc"] * PEOPLE}), tmp_path / "visits.parquet")
    with opened(tmp_path) as curator:
        answer = curator.sql("SELECT ward, COUNT(DISTINCT id) AS n FROM visits GROUP BY ward", epsilon="1")
        assert answer.limits == FoundLimits(3, None)
        assert answer.bias is not None
        assert [cause.people for cause in answer.bias.causes if cause.cause == "max_groups"] == [0]
        assert answer.intervals(bias=True) == answer.intervals() == answer.intervals(bias=False)
        assert "max_groups" not in answer.note.partition("noise")[2]


def skewed(folder: Path) -> int:
    """4,000 people, few of them with many rows: 1 to 54 each; the number of all rows."""
    people = [i for i in range(PEOPLE) for _ in range(1 + int(6.4 * math.log(PEOPLE / (i + 1))))]
    wards = ["abc"[i % 3] for i in range(len(people))]
    pq.write_table(pa.table({"id": people, "ward": wards}), folder / "visits.parquet")
    return len(people)


def test_the_interval_that_is_shown_includes_the_rows_that_auto_bias(tmp_path: Path) -> None:
    truth, held, wider = skewed(tmp_path), 0, 0
    with opened(tmp_path, epsilon="100") as curator:
        for number in range(20):
            answer = curator.sql(COUNT, epsilon=f"0.{200 + number}")
            (row,), (plain,) = answer.intervals().to_pylist(), answer.intervals(bias=False).to_pylist()
            held += row["n_low"] <= truth <= row["n_high"]
            assert row["n_low"] == plain["n_low"], "rows that are missing can only add"
            wider += row["n_high"] > plain["n_high"]
            assert row["n_high"] - row["n_low"] < 3 * (plain["n_high"] - plain["n_low"])
            assert "Too few people" not in answer.note, "what the interval includes is no caution"
    assert held >= 17
    assert wider, "in some answers people are beyond the number, or may be"


def test_a_default_is_used_and_said_where_the_price_shows_nobody(folder: Path) -> None:
    with opened(folder) as curator:
        answer = curator.sql(COUNT, epsilon="0.0001")
        assert answer.limits == FoundLimits(None, 16, seen=False)
        assert "max_rows 16 (a default: too few people for a search at this cost)" in answer.note


def test_accuracy_with_auto_takes_the_default(folder: Path) -> None:
    with opened(folder) as curator:
        answer = curator.sql(COUNT, within=400)
        assert answer.limits is None
        (row,) = answer.intervals(bias=False).to_pylist()
        assert row["n_high"] - row["n_low"] <= 800
        assert row["n_low"] <= PEOPLE * ROWS <= row["n_high"]


def test_cautions_are_shown_by_the_curator(folder: Path) -> None:
    with opened(folder, epsilon="40") as curator:
        assert curator.cautions[0].startswith("people: epsilon 40 protects little")
        assert "Caution: epsilon 40 protects little" in str(curator.budget())
    with opened(folder) as curator:
        assert curator.cautions == ()
