"""Answers about public tables alone: exact, free, without a receipt, and marked so wherever an answer is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import tacit
from support.command_line import run_command
from tacit.core.errors import InputError, QueryError
from tacit.curator.curator import Curator
from tacit.curator.opening import open_curator

PROJECT = """
[project]
name = "clinic"

[populations.patients]
epsilon = "4"

[populations.staff]
epsilon = "4"

[tables.visits]
source = "visits.parquet"
population = "patients"
unit = "patient_id"

[tables.visits.columns]
ward = { type = "text", categories = ["a", "b", "c"] }

[tables.shifts]
source = "shifts.parquet"
population = "staff"
unit = "nurse"

[tables.wards]
source = "wards.parquet"
public = true
"""
BEDS = "SELECT ward, beds FROM wards ORDER BY beds DESC LIMIT 2"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path
    pq.write_table(pa.table({"patient_id": [1, 2], "ward": ["a", "b"]}), folder / "visits.parquet")
    pq.write_table(pa.table({"nurse": [1, 2]}), folder / "shifts.parquet")
    pq.write_table(pa.table({"ward": ["a", "b", "c"], "beds": [10, 30, None]}), folder / "wards.parquet")
    (folder / "tacit.toml").write_text(PROJECT)
    return folder / "tacit.toml"


@pytest.fixture
def clinic(place: Path) -> Curator:
    return open_curator(place)


def test_it_is_exact_and_free_and_has_no_receipt(clinic: Curator) -> None:
    head = clinic.ledger.head
    answer = clinic.sql(BEDS)
    assert answer.finished.values == (("b", 30), ("a", 10))
    assert answer.is_public
    assert (answer.receipt, answer.plan, answer.bias, answer.charge.amounts) == (None, None, None, ())
    assert answer.intervals().column_names == ["ward", "beds"]
    assert clinic.sql(BEDS, epsilon="1", confidence="0.5").finished.values == answer.finished.values
    # Nothing is written down: no entry, no history, no charge.
    assert clinic.ledger.head == head
    assert clinic.history(population="patients") == ()
    with pytest.raises(InputError, match="nothing was charged"):
        _ = answer.paid


def test_every_view_says_so(clinic: Curator) -> None:
    answer, quote = clinic.sql(BEDS), clinic.explain(BEDS)
    words = "Public tables alone, answered exactly: charged nothing"
    assert words in str(answer)
    assert words in repr(answer)
    assert words in answer._repr_html_()
    assert "±" not in str(answer)
    assert quote.is_public
    assert str(quote).splitlines()[0] == "Charge      nothing: public tables alone, answered exactly"
    assert "rows of wards, as they are" in str(quote)
    assert "nothing: public tables alone" in quote._repr_html_()
    told = json.loads(quote.to_json())
    assert (told["public"], told["releases"], told["protected"]) == (True, [], [])
    assert quote.guarantee == tacit.PureDP(0)


def test_a_query_about_people_is_none(clinic: Curator) -> None:
    quote = clinic.explain("SELECT COUNT(*) FROM visits v JOIN wards w USING (ward)", epsilon="0.1")
    assert not quote.is_public
    assert not json.loads(quote.to_json())["public"]
    for sql in ("SELECT ward FROM visits", "SELECT ward FROM wards WHERE ward IN (SELECT ward FROM visits)"):
        with pytest.raises(QueryError):
            clinic.sql(sql)


def test_the_command_line(place: Path) -> None:
    run = run_command("query", BEDS, "--project", str(place))
    assert (run.exit_code, "charged nothing" in run.output, "Receipt" in run.output) == (0, True, False), run.output
    told = json.loads(run_command("query", BEDS, "--project", str(place), "--json").output)
    assert (told["public"], told["receipt"], told["budget"]) == (True, None, None)
    assert told["rows"][0] == {"ward": "b", "beds": 30}
    run = run_command("explain", BEDS, "--project", str(place))
    assert "Charge      nothing" in run.output
    assert "Budget" not in run.output
    assert run_command("budget", BEDS, "--project", str(place)).exit_code != 0


def test_an_expression(clinic: Curator) -> None:
    answer = clinic.sql(sqlglot.select("*").from_("wards").where("beds > 5").order_by("beds").limit(1))
    assert answer.finished.values == (("a", 10),)


def test_the_rows_are_those_of_now(place: Path, clinic: Curator) -> None:
    assert clinic.sql("SELECT SUM(beds) FROM wards").finished.values == ((40,),)
    pq.write_table(pa.table({"ward": ["a", "b", "c"], "beds": [10, 30, 2]}), place.parent / "wards.parquet")
    assert clinic.sql("SELECT SUM(beds) FROM wards").finished.values == ((42,),)


def test_more_rows_than_an_answer_has(clinic: Curator) -> None:
    long = "SELECT n FROM GENERATE_SERIES(1, 1000) a(n)"
    assert len(clinic.sql(long)) == 1000
    wide = "FROM GENERATE_SERIES(1, 1000) a(n), GENERATE_SERIES(1, 1000) b(m)"
    with pytest.raises(QueryError, match="more than 100000; filter or group them, or keep the first with LIMIT"):
        clinic.sql(f"SELECT n, m {wide}")
    assert clinic.sql(f"SELECT n, m {wide} ORDER BY n + m DESC LIMIT 1").finished.values == ((1000, 1000),)
