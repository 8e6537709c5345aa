"""``tacit init``: what it writes, what it leaves to the owner, and that no bound ever comes from data."""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import Result

from tacit.project.draft import TypeGuess, guess_categories, guess_type, guess_unit
from tacit.project.project_file import load
from tacit.project.project_template import open_places

Run = Callable[..., Result]


def filled(folder: Path, **words: str) -> str:
    """The project file with its open places filled in by hand."""
    text = (folder / "tacit.toml").read_text()
    for place, value in words.items():
        assert f'{place} = "?"' in text
        text = text.replace(f'{place} = "?"', f'{place} = "{value}"')
    (folder / "tacit.toml").write_text(text)
    return text


def test_every_open_place_is_marked_and_named(folder: Path, run: Run) -> None:
    result = run("init", "visits.csv")
    assert result.exit_code == 0
    content = tomllib.loads((folder / "tacit.toml").read_text())
    places = ["populations.people.epsilon", "tables.visits.unit"]
    assert open_places(content) == places
    assert [
        line.strip() for line in result.stdout.splitlines() if line.startswith(("  tables", "  populations"))
    ] == places
    assert '# unit = "patient_id"' in (folder / "tacit.toml").read_text()


def test_an_open_place_is_named_when_the_file_is_opened(folder: Path, run: Run) -> None:
    run("init", "visits.csv", "--epsilon", "4")
    result = run("explain", "SELECT COUNT(*) FROM visits", "--epsilon", "1")
    assert result.exit_code == 2
    assert result.stderr == "Error: tables.visits.unit: is still to be filled in by you\n"
    filled(folder, unit="patient_id")
    assert run("explain", "SELECT COUNT(*) FROM visits", "--epsilon", "1").exit_code == 0


def test_the_file_opens_once_the_marks_are_filled_in(folder: Path, run: Run) -> None:
    run("init", "visits.csv", "--public", "wards.csv", "--population", "patients")
    filled(folder, epsilon="4", unit="patient_id")
    project = load(folder / "tacit.toml")
    types = {column.name: str(column.type) for column in project.catalog.tables[0].columns}
    assert types == {"visit_id": "INTEGER", "patient_id": "INTEGER", "ward": "TEXT", "cost": "DECIMAL(18,2)"}
    assert project.catalog.tables[1].public
    assert [*project.populations] == ["patients"]


def test_types_of_parquet_come_from_the_schema_alone(folder: Path, run: Run) -> None:
    table = pa.table(
        {"user_id": [1, 2], "age": [3.5, 900.25], "tags": [[1], [2]], "when": pa.array([0, 1], pa.date32())}
    )
    pq.write_table(table, folder / "logins.parquet")
    result = run("init", "logins.parquet", "--unit", "USER_ID", "--epsilon", "1", "--delta", "1e-6")
    assert result.exit_code == 0
    text = (folder / "tacit.toml").read_text()
    assert 'unit = "user_id"' in text
    assert '"tags": left out' in text
    assert open_places(tomllib.loads(text)) == []
    (visits,) = load(folder / "tacit.toml").catalog.tables
    assert [column.name for column in visits.columns] == ["user_id", "age", "when"]
    assert all(column.bounds is None and column.categories is None for column in visits.columns)


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_no_value_of_the_data_is_ever_written_down_unasked(folder: Path, run: Run, arguments: tuple[str, ...]) -> None:
    """Neither the extremes, nor the values of a column with few of them."""
    (folder / "pay.csv").write_text("employee_id,team,pay\n" + "1,zebrafish,31337.07\n2,axolotl,8.08\n" * 50)
    result = run("init", "pay.csv", *arguments)
    written = (folder / "tacit.toml").read_text() + result.stdout
    for value in ("31337", "8.08", "zebrafish", "axolotl"):
        assert value not in written
    assert "bounds = [0" not in written


def test_the_file_says_that_types_were_guessed_and_is_for_its_owner(folder: Path, run: Run) -> None:
    result = run("init", "visits.csv")
    assert "guessed from the first 1,000 rows of visits.csv" in result.stdout
    assert "your eyes" in result.stdout
    assert "guessed from the first rows of visits.csv" in (folder / "tacit.toml").read_text()
    assert stat.S_IMODE((folder / "tacit.toml").stat().st_mode) == 0o600


def test_json_has_stable_keys(folder: Path, run_json: Callable[..., Any]) -> None:
    told = run_json("init", "visits.csv", "--epsilon", "4")
    assert set(told) == {"project", "open", "read_rows_of", "tables"}
    assert told["open"] == ["tables.visits.unit"]
    assert told["read_rows_of"] == ["visits.csv"]
    (table,) = told["tables"]
    assert set(table) == {"name", "source", "public", "unit", "unit_guess", "columns"}
    assert table["unit_guess"] == "patient_id"
    assert table["columns"][3] == {"name": "cost", "type": "decimal", "left_out": False}


def test_a_project_elsewhere_finds_its_data(folder: Path, run: Run) -> None:
    (folder / "shared").mkdir()
    arguments = ("--unit", "patient_id", "--epsilon", "4", "-o", "shared/project.toml")
    assert run("init", "visits.csv", *arguments).exit_code == 0
    assert 'source = "../visits.csv"' in (folder / "shared" / "project.toml").read_text()
    assert run("explain", "SELECT COUNT(*) FROM visits", "--epsilon", "1", "-p", "shared/project.toml").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.csv",), "source: there is no file none.csv"),
        (("notes.txt",), "source: 'notes.txt' must end in one of .csv"),
        (("empty.csv",), "source: the first line of empty.csv must name its columns"),
        (("twice.csv",), "source: the first line of twice.csv must name its columns, each once"),
        (("bytes.csv",), "source: bytes.csv is in UTF-16, which is not read; convert it: iconv -f UTF-16"),
        (("fake.parquet",), "source: fake.parquet is not a Parquet file"),
        (("visits.csv", "--unit", "person"), "--unit: 'person' is not a column; there are visit_id, patient_id"),
        (("visits.csv", "--epsilon", "lots"), "--epsilon: must be a number"),
        (("visits.csv", "--epsilon", "-1"), "--epsilon: must be greater than 0"),
        (("visits.csv", "--delta", "2"), "--delta: must lie in (0, 1)"),
        (("visits.csv", "--population", "my people"), "--population: a name has letters"),
        (("visits.csv", "VISITS.csv"), "sources: two files would be the table"),
        (("visits.csv", "-o", "nowhere/tacit.toml"), "project: cannot write nowhere/tacit.toml"),
        ((".",), "source: "),
    ],
)
def test_what_cannot_be_used_is_named(folder: Path, run: Run, arguments: tuple[str, ...], message: str) -> None:
    (folder / "notes.txt").write_text("x")
    (folder / "empty.csv").write_text("")
    (folder / "twice.csv").write_text("a,A\n1,2\n")
    (folder / "bytes.csv").write_bytes(b"\xff\xfe\x00\n")
    (folder / "fake.parquet").write_bytes(b"PAR1")
    (folder / "VISITS.csv").write_text("patient_id\n1\n")
    result = run("init", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert not (folder / "tacit.toml").exists()


def test_an_existing_file_is_not_overwritten(folder: Path, run: Run) -> None:
    (folder / "tacit.toml").write_text("mine")
    result = run("init", "visits.csv")
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert (folder / "tacit.toml").read_text() == "mine"
    assert run("init", "visits.csv", "--force").exit_code == 0


def test_hostile_names_stay_text(folder: Path, run: Run) -> None:
    """Quotes, brackets, markup and line feeds in a header must not become TOML, nor colours."""
    header = '"pat""ient\n[x]","[bold]id",ok,"# = { }"'
    (folder / "odd.csv").write_text(header + "\n1,2,3,4\n")
    result = run("init", "odd.csv", "--epsilon", "1", "--unit", "row")
    assert result.exit_code == 2
    assert "the first line of odd.csv must name its columns" in result.stderr
    (folder / "odd.csv").write_text(header.replace("\n", " ") + "\n1,2,3,4\n")
    assert run("init", "odd.csv", "--epsilon", "1", "--unit", "row", "--population", "p").exit_code == 0
    project = load(folder / "tacit.toml")
    columns = {column.name: column.stored_name for column in project.catalog.tables[0].columns}
    assert columns == {"pat_ient_x": 'pat"ient [x]', "bold_id": "[bold]id", "ok": "ok", "column_4": "# = { }"}
    result = run("init", "odd [bold]x.csv", "-o", "b.toml")
    assert "[bold]x.csv" in result.stderr


@pytest.mark.parametrize(
    ("values", "kind", "step"),
    [
        (["1", "20", None, ""], "integer", None),
        (["1", "2.5", "2.25"], "decimal", "0.01"),
        (["1.5", "1e9"], "double", None),
        (["0.12345678"], "double", None),
        (["007", "123"], "text", None),
        (["2025-01-31"], "date", None),
        (["2025-01-31 10:00", "2025-01-31T10:00:01.5"], "timestamp", None),
        (["yes", "No"], "boolean", None),
        (["0", "1"], "integer", None),
        (["12345678901234567890"], "double", None),
        (["nan", "1"], "text", None),
    ],
)
def test_type_guesses(values: list[str | None], kind: str, step: str | None) -> None:
    assert guess_type(values) == TypeGuess(kind, step)


def test_nothing_to_go_by() -> None:
    assert guess_type([None, " ", ""]) is None
    assert guess_categories(["a"] * 100) is None
    assert guess_categories([str(i) for i in range(100)]) is None
    assert guess_categories(["b", "a"] * 20) == ["a", "b"]


def test_unit_guesses_by_name() -> None:
    assert guess_unit(["id", "Patient_ID", "user"]) == "Patient_ID"
    assert guess_unit(["visit_id", "id"]) == "id"
    assert guess_unit(["visit_id", "cost"]) is None


def test_errors_as_json(folder: Path, run: Run) -> None:
    result = run("init", "none.csv", "--json")
    assert result.stdout == ""
    error = json.loads(result.stderr)["error"]
    assert (error["code"], error["exit_code"]) == ("input", 2)


def test_the_first_account_finds_groups_that_nobody_listed(folder: Path, run: Run) -> None:
    assert run("init", "visits.csv", "--unit", "patient_id", "--epsilon", "4").exit_code == 0
    assert '# accounting = "pure"' in (folder / "tacit.toml").read_text()
    asked = run("query", "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", "--epsilon", "1")
    assert asked.exit_code == 0, asked.stderr


def test_an_account_without_delta_is_said(folder: Path, run: Run) -> None:
    words = ("init", "visits.csv", "--unit", "patient_id", "--epsilon", "4", "--delta", "0")
    assert run(*words).exit_code == 0
    assert tomllib.loads((folder / "tacit.toml").read_text())["populations"]["people"] == {"epsilon": "4"}
