"""A data owner with a messy CSV: what is detected, what is said, and that no value is NULL in silence."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import tacit
from tacit.core.errors import InputError
from tacit.project.draft import draft_csv
from tacit.project.project_file import load

Run = Callable[..., Result]
WARDS = ("Chirurgie", "Kardiologie", " chirurgie", "Für Kinder")


def german_line(i: int) -> str:
    cost = f"{'1.' if i % 3 else ''}{100 + i % 800},{i % 100:02d}"
    return f"{i};{WARDS[i % 4]};{cost};{1 + i % 28:02d}.{1 + i % 12:02d}.2024;{60 + i % 40} kg\n"


GERMAN = "Patient Nr;Station;Kosten (€);Datum;Gewicht\n" + "".join(map(german_line, range(500)))
SETTINGS = {"delimiter": ";", "encoding": "windows-1252", "decimal_mark": ",", "thousands_mark": "."}


def rows_of(answer: tacit.Answer) -> list[dict[str, Any]]:
    """The rows of an answer."""
    return list(answer.to_arrow().to_pylist())


@pytest.fixture
def german(folder: Path) -> Path:
    """A file as spreadsheets of some countries write it."""
    (folder / "aufnahmen.csv").write_text(GERMAN, encoding="cp1252")
    return folder


def test_init_writes_the_form_down_and_says_it(german: Path, run: Run) -> None:
    result = run("init", "aufnahmen.csv", "--unit", "patient_nr", "--epsilon", "4")
    assert result.exit_code == 0, result.stderr
    for note in (
        "fields are separated by ';'",
        "it is not UTF-8 and is read as windows-1252",
        "numbers have ',' before their fractions and '.' between thousands",
        "'Kosten (€)' is called kosten in queries",
        "Datum has dates as %d.%m.%Y",
        "Station: some of its values differ in case, accents or spaces alone",
        "Gewicht: its numbers have signs beside them, so it is text",
    ):
        assert note in result.stdout
    assert "chirurgie" not in result.stdout.lower()
    table = tomllib.loads((german / "tacit.toml").read_text())["tables"]["aufnahmen"]
    assert {word: table[word] for word in SETTINGS} == SETTINGS
    assert table["columns"]["kosten"] == {"source": "Kosten (€)", "type": "decimal", "step": "0.01"}
    assert table["columns"]["Datum"] == {"type": "date", "date_format": "%d.%m.%Y"}
    assert run("doctor").exit_code == 0
    looked = run("doctor", "--look").stdout
    assert "no value" not in looked
    assert "Station: 'Chirurgie' is nearly ' chirurgie'" in looked


def test_the_draft_of_a_profile_reads_the_file_as_the_project_does(german: Path, run: Run) -> None:
    run("init", "aufnahmen.csv", "--unit", "patient_nr", "--epsilon", "4")
    assert run("profile", "aufnahmen", "--epsilon", "1", "--draft", "drafted.toml").exit_code == 0
    drafted = tomllib.loads((german / "drafted.toml").read_text())["tables"]["aufnahmen"]
    assert {word: drafted[word] for word in ("source", *SETTINGS)} == {"source": "aufnahmen.csv", **SETTINGS}
    assert drafted["columns"]["patient_nr"] == {"source": "Patient Nr", "type": "integer"}
    assert drafted["columns"]["kosten"]["source"] == "Kosten (€)"
    assert drafted["columns"]["Datum"]["date_format"] == "%d.%m.%Y"


def test_a_text_stated_to_mean_null_is_not_remarked_on(folder: Path) -> None:
    (folder / "a.csv").write_text("id,age\n" + "".join(f"{i},{'k.A.' if i % 20 == 0 else i}\n" for i in range(100)))
    assert any("k.A." in remark for remark in draft_csv(folder / "a.csv", show=True).remarks)
    assert not draft_csv(folder / "a.csv", show=True, null_values=["k.A."]).remarks


def test_house_numbers_declared_as_integers_are_not_proposed_as_null(folder: Path, run: Run) -> None:
    lines = (f"{i},{i % 90}{'abc'[i % 3] if i % 20 == 0 else ''}\n" for i in range(400))
    (folder / "a.csv").write_text("id,house\n" + "".join(lines))
    run("init", "a.csv", "--unit", "id", "--epsilon", "4")
    path = folder / "tacit.toml"
    path.write_text(path.read_text().replace('house = { type = "text" }', 'house = { type = "integer" }'))
    for options in (["--look"], ["--no-look"]):
        found = run("doctor", *options).stdout
        assert 'type = "text" in its line would keep them' in " ".join(found.split())
        assert "null_values" not in found


def test_names_in_queries_keep_letters_without_their_accents(folder: Path, run: Run) -> None:
    (folder / "Maße Übersicht.csv").write_text("Straße;Größe (cm)\nAm Markt;3\n", encoding="cp1252")
    result = run("init", "Maße Übersicht.csv", "--unit", "row", "--epsilon", "4")
    assert "Wrote tacit.toml: Masse_Ubersicht; 2 columns" in result.stdout
    assert "'Straße' is called strasse in queries" in result.stdout
    assert "'Größe (cm)' is called grosse_cm in queries" in result.stdout


@pytest.mark.parametrize(
    ("change", "words", "remedy"),
    [
        (('delimiter = ";"', ""), "its header line is one name", 'delimiter = ";" in [tables.aufnahmen]'),
        (
            ('encoding = "windows-1252"', ""),
            "the header line of a source is not UTF-8 text",
            'encoding = "windows-1252"',
        ),
        (('decimal_mark = ","', ""), "thousands_mark", "must be one of"),
        ((', date_format = "%d.%m.%Y"', ""), "no value of Datum can be read as DATE", 'date_format = "%d.%m.%Y"'),
        (("Patient Nr", "Patient No"), "'Patient No' is not a column of the source", 'source = "Patient Nr"'),
        (('unit = "patient_nr"', 'unit = "patient"'), "the unit 'patient' is not one of its columns, which are", ""),
    ],
)
def test_the_doctor_names_the_place_and_the_setting(
    german: Path, run: Run, change: tuple[str, str], words: str, remedy: str
) -> None:
    run("init", "aufnahmen.csv", "--unit", "patient_nr", "--epsilon", "4")
    project = german / "tacit.toml"
    assert change[0] in project.read_text()
    project.write_text(project.read_text().replace(*change))
    result = run("doctor")
    told = " ".join(result.stdout.split())
    assert result.exit_code == 1
    assert words in told
    assert remedy in told


def test_lines_that_are_no_rows_and_values_that_are_none(folder: Path, run: Run) -> None:
    rows = "".join(f"{i},a,{i}\n" for i in range(50))
    (folder / "t.csv").write_text(f'id,kind,x\n{rows}1,a,"two\nlines"\n2,a,3,4\n3,A ,none\n')
    run("init", "t.csv", "--unit", "id", "--epsilon", "1")
    text = (folder / "tacit.toml").read_text()
    assert re.search(r"^x +=.*integer", text, re.MULTILINE)
    text = re.sub(r"^kind += .*$", 'kind = { categories = ["a"] }', text, flags=re.MULTILINE)
    (folder / "tacit.toml").write_text(text)
    result = run("doctor", "--look")
    told = " ".join(result.stdout.split())
    assert "line 52 of t.csv is no row and is left out" in told
    assert "a quoted value goes on in the next line" in told
    assert "line 53 of t.csv, maybe others as well: it has 1 field, and the header has 3" in told
    assert "some values cannot be read as INTEGER and are NULL" in told
    assert "'A ' is nearly 'a'" in told
    assert "'A '" not in run("doctor", "--no-look").stdout
    assert "'A '" not in run("doctor", "--json").stdout


def test_open_takes_types_from_categories_and_bounds(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "v.csv").write_text(
        "id,ward,cost,note\n" + "".join(f"{i},{'ab'[i % 2]},{i % 100}.5,x\n" for i in range(400))
    )
    with tacit.open("v.csv", unit="id", epsilon="20", max_groups=1, max_rows=1,
                    columns={"ward": ["a", "b"], "cost": (0, 100)}) as curator:  # fmt: skip
        rows = rows_of(
            curator.sql(
                "SELECT ward, COUNT(*) AS n, AVG(cost) AS c FROM v WHERE note = 'x' GROUP BY ward", epsilon="10"
            )
        )
        assert [row["ward"] for row in rows] == ["a", "b"]
        assert all(150 < row["n"] < 250 and 40 < row["c"] < 60 for row in rows)
        kinds = {column.name: str(column.type) for column in curator.tables()[0].table.columns}
    assert kinds == {"ward": "TEXT", "cost": "DOUBLE", "id": "TEXT", "note": "TEXT"}
    assert not caplog.records
    (folder / "v.csv").write_text("id,ward,cost\n1,a,12 EUR\n2,b,3 EUR\n")
    with caplog.at_level(logging.WARNING, "tacit.operator"):
        tacit.open("v.csv", unit="id", epsilon="1", columns={"ward": ["a", "b"], "cost": (0, 100)}).close()
    assert "none of the 2 values of cost can be read as DOUBLE, so they are NULL" in caplog.text
    assert "EUR" not in caplog.text
    with pytest.raises(InputError, match=r"csv.sep: is none of delimiter, encoding"):
        tacit.open("v.csv", unit="id", epsilon="1", csv={"sep": ";"})


def test_another_name_does_not_change_who_is_a_person(german: Path) -> None:
    """The account knows the column by the name of the source."""
    base = {"epsilon": "4", "ledger": "l.ledger", "csv": SETTINGS}

    def opened(**columns: object) -> None:
        tacit.open("aufnahmen.csv", unit="pid", columns=columns, **base).close()  # type: ignore[arg-type]

    opened(pid={"source": "Patient Nr", "type": "text"})
    with pytest.raises(InputError, match="persons are named in this source by 'patient nr'"):
        opened(pid={"source": "Gewicht", "type": "text"})
    tacit.open(
        "aufnahmen.csv", unit="person", columns={"person": {"source": "Patient Nr", "type": "text"}}, **base
    ).close()  # type: ignore[arg-type]


def test_another_form_is_another_version(german: Path) -> None:
    """An answer that was read in the wrong form is not repeated."""
    query = "SELECT SUM(k) AS s FROM aufnahmen"
    cost = {"source": "Kosten (€)", "type": "double", "bounds": [0, 2000]}
    columns = {"pid": {"source": "Patient Nr", "type": "text"}, "k": cost}
    common = {"unit": "pid", "columns": columns, "epsilon": "8", "ledger": "l.ledger", "max_rows": 1, "max_groups": 1}
    with tacit.open("aufnahmen.csv", csv={"delimiter": ";", "encoding": "cp1252"}, **common) as curator:  # type: ignore[arg-type]
        (wrong,) = rows_of(curator.sql(query, epsilon="4"))
    with tacit.open("aufnahmen.csv", csv=SETTINGS, **common) as curator:  # type: ignore[arg-type]
        (right,) = rows_of(curator.sql(query, epsilon="4"))
    assert abs(wrong["s"]) < 20_000
    assert right["s"] > 400_000


@pytest.mark.parametrize("setting", ["delimiter", "date_format"])
def test_settings_of_csv_are_for_csv(folder: Path, setting: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": [1], "first name": ["x"]}), folder / "p.parquet")
    table = '[tables.p]\nsource = "p.parquet"\npopulation = "people"\nunit = "id"\n'
    budget = '[populations.people]\nepsilon = "1"\n'
    (folder / "tacit.toml").write_text(f'{budget}{table}{setting} = "%d"\n')
    with pytest.raises(InputError, match=f"tables.p.{setting}: is for CSV sources"):
        load(folder / "tacit.toml")
    (folder / "tacit.toml").write_text(budget + table + '[tables.p.columns]\nname = { source = "first name" }\n')
    (found,) = load(folder / "tacit.toml").catalog.tables
    assert [(column.name, column.stored_name) for column in found.columns] == [("id", "id"), ("name", "first name")]
    with tacit.open(folder / "tacit.toml") as curator:
        assert len(rows_of(curator.sql("SELECT COUNT(*) AS n FROM p WHERE name = 'x'", epsilon="1"))) == 1


def gap_line(i: int) -> str:
    cost = "k.A." if i % 37 == 5 else "-" if i % 41 == 7 else f"{'1.' if i % 3 else ''}{100 + i % 800},{i % 100:02d}"
    day = "unbekannt" if i % 50 == 9 else f"{1 + i % 28:02d}.{1 + i % 12:02d}.2024"
    return f"{i};{20 + i % 60};{cost};{day}\n"


@pytest.fixture
def gaps(folder: Path, run: Run) -> Path:
    """A project of a file in which some texts stand for no value and a column is a word of SQL."""
    (folder / "k.csv").write_text("nr;Alter;kosten;Datum\n" + "".join(map(gap_line, range(600))))
    assert run("init", "k.csv", "--unit", "nr", "--epsilon", "4").exit_code == 0
    return folder


def test_a_few_texts_for_no_value_do_not_make_a_column_text(gaps: Path, run: Run) -> None:
    table = tomllib.loads((gaps / "tacit.toml").read_text())["tables"]["k"]
    assert (table["decimal_mark"], table["thousands_mark"]) == (",", ".")
    assert table["columns"]["kosten"] == {"type": "decimal", "step": "0.01"}
    assert table["columns"]["Datum"] == {"type": "date", "date_format": "%d.%m.%Y"}
    said = run("init", "k.csv", "--unit", "nr", "--epsilon", "4", "--force").stdout
    assert "kosten: is read as decimal; some of its first values cannot be read so and become NULL" in said
    assert "k.A." not in said
    result = run("doctor", "--look")
    told = " ".join(result.stdout.split())
    assert result.exit_code == 0, told
    assert "'k.A.' (17), '-' (15); null_values = [\"k.A.\", \"-\"] in [tables.k]" in told
    assert "k.A." not in run("doctor", "--no-look").stdout


def test_many_different_texts_for_no_value_do_not_make_a_column_text(folder: Path, run: Run) -> None:
    """Ten spellings are one in ten of the values; of another column seven in ten are numbers."""
    lines = [f"{i};{f'?{i % 100}' if i % 10 == 0 else f'{i},50'};{'ja' if i % 10 < 3 else i}" for i in range(1000)]
    (folder / "k.csv").write_text("\n".join(["nr;kosten;tage", *lines]))
    said = run("init", "k.csv", "--unit", "nr", "--epsilon", "4").stdout
    columns = tomllib.loads((folder / "tacit.toml").read_text())["tables"]["k"]["columns"]
    assert columns["kosten"]["type"] == "decimal"
    assert columns["tage"] == {"type": "text"}
    assert "tage: is read as text, though 70% of its first values are numbers" in said
    shown = draft_csv(folder / "k.csv", show=True).remarks
    (words,) = [each for each in shown if each.startswith("kosten")]
    assert "'?0' (10), '?10' (10), '?20' (10), '?30' (10), '?40' (10), 100 in all, 5 other texts among them" in words


def test_whole_numbers_with_letters_behind_some_are_codes(folder: Path, run: Run) -> None:
    """House numbers: one in ten has a letter, and is no missing value."""
    lines = [f"{i},{i % 90}{'abcdefgh'[i % 8] if i % 10 == 0 else ''}" for i in range(1000)]
    (folder / "k.csv").write_text("\n".join(["nr,house", *lines]))
    said = run("init", "k.csv", "--unit", "nr", "--epsilon", "4").stdout
    columns = tomllib.loads((folder / "tacit.toml").read_text())["tables"]["k"]["columns"]
    assert columns["house"] == {"type": "text"}
    assert "house: is read as text, though 90% of its first values are numbers" in said


def test_null_values_are_stated_and_are_null_in_texts_too(gaps: Path, run: Run) -> None:
    project = gaps / "tacit.toml"
    nulls = 'null_values = ["-", "k.A.", "unbekannt"]\n'
    project.write_text(project.read_text().replace('thousands_mark = "."', nulls + 'thousands_mark = "."'))
    assert "cannot be read" not in run("doctor", "--look").stdout
    form = {"delimiter": ";", "null_values": ["unbekannt"]}
    with tacit.open("k.csv", unit="nr", epsilon="40", max_groups=1, max_rows=1, csv=form) as curator:
        answer = curator.sql("SELECT COUNT(Datum) AS n FROM k", epsilon="20")
    assert abs(rows_of(answer)[0]["n"] - sum("unbekannt" not in gap_line(i) for i in range(600))) < 5
    with pytest.raises(InputError, match="null_values: must be at most 50 texts"):
        tacit.open("k.csv", unit="nr", epsilon="4", csv={"null_values": [f"{i}" for i in range(51)]})


def test_a_missing_thousands_mark_is_a_problem(gaps: Path, run: Run) -> None:
    project = gaps / "tacit.toml"
    lines = [line for line in project.read_text().splitlines() if not line.startswith("thousands_mark")]
    project.write_text("\n".join(lines))
    result = run("doctor")
    assert result.exit_code == 1
    assert 'decimal_mark = "," and thousands_mark = "."' in " ".join(result.stdout.split())


def test_no_advice_leads_into_all_null(gaps: Path, run: Run) -> None:
    project = gaps / "tacit.toml"
    project.write_text(project.read_text().replace('type = "decimal", step = "0.01"', 'type = "text"'))
    refusal = run("explain", "SELECT AVG(kosten) FROM k", "--epsilon", "1").stderr
    assert "the data owner states a column's type" in refusal
    assert "AS DOUBLE" not in refusal


def test_a_column_called_as_a_word_of_sql_can_be_named(gaps: Path, run: Run) -> None:
    columns = tomllib.loads((gaps / "tacit.toml").read_text())["tables"]["k"]["columns"]
    assert columns["c_alter"] == {"source": "Alter", "type": "integer"}
    assert "Datum" in columns
    for name in ("c_alter", '"Alter"'):
        result = run("explain", f"SELECT COUNT(*) FROM k WHERE {name} > 30", "--epsilon", "1")
        assert result.exit_code == 0, result.stderr
    refusal = run("explain", "SELECT AVG(Alter) FROM k WHERE Alter > 30", "--epsilon", "1").stderr
    assert 'ALTER is a word of SQL: as the name of a column, write "Alter" with its quotes.' in refusal
    assert "word of SQL" not in run("explain", "SELECT COUNT(* FROM k", "--epsilon", "1").stderr


def test_a_table_with_more_rows_than_declared_is_said(gaps: Path, run: Run) -> None:
    """Response times follow from what is declared; nothing else would tell the owner why answers are late."""
    project = gaps / "tacit.toml"
    assert "table_rows" not in run("doctor", "--look").stdout
    project.write_text(project.read_text().replace('thousands_mark = "."', 'table_rows = 599\nthousands_mark = "."'))
    assert "more than table_rows = 599" in run("doctor", "--look").stdout
    assert "table_rows" not in run("doctor", "--no-look").stdout
