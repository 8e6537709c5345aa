"""``tacit init postgresql://…``: what the database says of its columns, nothing of its rows, and no password."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import Result

from support.postgres import address
from tacit.core.errors import InputError
from tacit.project.draft import check_without_password
from tacit.project.project_file import load
from tacit.project.project_template import open_places

Run = Callable[..., Result]
#: Values that must never be written down; ANALYZE puts extremes and frequent ones into the database's statistics.
TABLES = """
CREATE SCHEMA clinic;
CREATE TABLE clinic.visits (visit_id bigint, patient_id bigint, ward text, cost numeric(10,2), admitted date,
  "Odd name" int, place point);
INSERT INTO clinic.visits
SELECT i, i / 3, 'zebrafish', 31337.07, '2019-12-24', 1, NULL FROM generate_series(1, 90) AS s(i);
CREATE TABLE clinic.wards (ward text, floor int);
CREATE TABLE clinic."my table" (a int);
CREATE TABLE public.visits (a int);
CREATE VIEW clinic.only_points AS SELECT place FROM clinic.visits;
ANALYZE;
"""


@pytest.fixture(scope="module")
def place() -> str:
    """The address of a database with tables."""
    made = address()
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(TABLES.encode())
    return made


def test_a_draft_from_the_schema_alone(folder: Path, run: Run, place: str) -> None:
    result = run("init", place, "--table", "clinic.visits", "--public", "clinic.wards", "--epsilon", "4")
    assert result.exit_code == 0, result.output
    text = (folder / "tacit.toml").read_text()
    content = tomllib.loads(text)
    assert open_places(content) == ["tables.visits.unit"]
    assert '# unit = "patient_id"' in text
    assert content["tables"]["visits"]["source"] == "clinic.visits"
    assert content["tables"]["wards"]["public"] is True
    assert "as the source says" in text
    for column in ('"Odd name": cannot be used', '"place": left out'):
        assert column in text
    for value in ("zebrafish", "31337", "2019", "bounds = [0"):
        assert value not in text + result.output
    (folder / "tacit.toml").write_text(text.replace('unit = "?"', 'unit = "patient_id"'))
    visits, wards = load(folder / "tacit.toml").catalog.tables
    assert {column.name: str(column.type) for column in visits.columns} == {
        "visit_id": "INTEGER",
        "patient_id": "INTEGER",
        "ward": "TEXT",
        "cost": "DECIMAL(18,2)",
        "admitted": "DATE",
    }
    assert all(column.bounds is None and column.categories is None for column in visits.columns)
    assert wards.public


def test_from_nothing_to_an_answer(folder: Path, run: Run, place: str) -> None:
    words = ("--table", "clinic.visits", "--unit", "PATIENT_ID", "--population", "patients", "--epsilon", "4")
    assert run("init", place, *words).exit_code == 0
    assert 'unit = "patient_id"' in (folder / "tacit.toml").read_text()
    result = run("query", "SELECT COUNT(*) AS n FROM visits", "--epsilon", "1")
    assert result.exit_code == 0, result.output


def test_json_reads_no_rows(run_json: Callable[..., Any], folder: Path, place: str) -> None:
    told = run_json("init", place, "--table", "clinic.visits", "--epsilon", "4")
    assert told["read_rows_of"] == []
    (table,) = told["tables"]
    assert (table["source"], table["unit_guess"]) == ("clinic.visits", "patient_id")
    assert {"name": "cost", "type": "decimal", "left_out": False} in table["columns"]


def test_without_a_table_those_that_there_are_are_listed(folder: Path, run: Run, place: str) -> None:
    result = run("init", place)
    assert result.exit_code == 2
    assert "--table: name the tables to protect" in result.stderr
    listed = "clinic.my table, clinic.only_points, clinic.visits, clinic.wards, public.visits"
    assert result.stderr.rstrip().endswith(f"this role can read: {listed}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--table", "clinic.none"), "--table: there is no table or view clinic.none that this role can see"),
        (
            ("--table", "a.b.c"),
            "--table: must be 'table' or 'schema.table', with double quotes around a part that has dots, got 'a.b.c'",
        ),
        (("--table", "clinic.my table"), "--table: 'my table' cannot be used in queries"),
        (("--table", "clinic.only_points"), "--table: none of the columns of clinic.only_points can be used"),
        (("--table", "clinic.visits", "--table", "public.visits"), "--table: two would be called visits"),
        (("--table", "clinic.visits", "--unit", "unknown"), "--unit: 'unknown' is not a column"),
        (("visits.csv",), "sources: a project has one database, or files"),
    ],
)
def test_what_cannot_be_used_is_named(
    folder: Path, run: Run, place: str, arguments: tuple[str, ...], message: str
) -> None:
    result = run("init", place, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}"), result.stderr
    assert "hush" not in result.stderr
    assert not (folder / "tacit.toml").exists()


def test_addresses_that_lead_nowhere_and_tables_without_a_database(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tacit.engines.postgres.engine._PATIENCE", 0.5)
    gone = run("init", "postgresql://r@127.0.0.1:1/none?connect_timeout=2", "--table", "t")
    assert gone.stderr.startswith("Error: sources: cannot use the database at 127.0.0.1/none (")
    assert "hush" not in gone.stderr
    assert run("init", "postgresql://h:${NOT_SET}@h/d", "--table", "t").stderr.endswith("NOT_SET, which is not set\n")
    assert run("init", "visits.csv", "--table", "t").stderr.startswith("Error: --table: is for a database")


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://r:hush@h:5432/d?sslmode=require",
        "postgresql://h/d?user=r&password=hush",
        "postgresql://h/d?sslpassword=hush&password=${PW}",
        "postgresql://r:${PW}hush@h/d",
        "postgresql://:hush@h/d",
        "postgresql://r:hu@sh@h/d",
        "postgresql://h/d?pass%77ord=hush",
    ],
)
def test_an_address_with_a_password_is_refused(given: str) -> None:
    with pytest.raises(InputError, match="without its password") as caught:
        check_without_password(given)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "given", ["postgresql://r:${PW}@h/d", "postgresql://r:@/d?host=/run/pg", "postgresql://?service=clinic"]
)
def test_an_address_without_one_is_kept(given: str) -> None:
    check_without_password(given)
