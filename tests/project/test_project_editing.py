"""A project file while it is edited: drafts, problems, staleness, saving; and the owner's view of columns."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from tacit.core.errors import InputError
from tacit.engines.files import CsvFormat
from tacit.project.draft import draft_file
from tacit.project.owner_view import column_values, histogram
from tacit.project.project_editing import EditedProject, project_problems, revision_of, stated_value
from tacit.project.project_template import DraftTable
from tacit.project.source import Source
from tacit.query.catalog import Column
from tacit.query.types import DATE, TEXT, decimal

COLUMN = ("tables", "visits", "columns")


def messy(folder: Path) -> Path:
    """A CSV file with semicolons, decimal commas, odd dates, rows without a person, and values that nearly match."""
    rows = [f"{n % 50};{'A' if n % 3 else 'a '};{n},5;{n % 28 + 1:02d}.02.2024" for n in range(300)]
    path = folder / "visits.csv"
    path.write_text("\n".join(["patient_id;ward;cost;day", *rows, ";B;99999,0;01.01.2023"]) + "\n")
    return path


def drafted(path: Path) -> DraftTable:
    return draft_file(path, path.parent, public=False, unit=None, show=True)


def revision(project: EditedProject) -> str:
    return revision_of(project.read()[0])


def problems(project: EditedProject) -> list[str]:
    return project_problems(project.read()[1], project.folder)


def edited(folder: Path) -> EditedProject:
    """A project with a drafted table, every place filled in."""
    found = EditedProject(folder / "tacit.toml")
    found.add(revision(found), drafted(messy(folder)))
    found.edit(
        revision(found),
        {
            ("populations", "people", "epsilon"): "4",
            ("tables", "visits", "unit"): "patient_id",
            (*COLUMN, "ward", "categories"): ["A", "B"],
            (*COLUMN, "cost", "bounds"): [0, 500],
        },
    )
    return found


def test_choices_are_edits_of_a_commented_text_that_loads(tmp_path: Path) -> None:
    found = EditedProject(tmp_path / "tacit.toml")
    found.add(revision(found), drafted(messy(tmp_path)))
    assert problems(found) == [
        "populations.people.epsilon is still to be filled in by you",
        "tables.visits.unit is still to be filled in by you",
    ]
    found.path.unlink()
    found = edited(tmp_path)
    assert problems(found) == []
    text = found.path.read_text()
    assert "# every charge ever made" in text
    # Offers of the template go once they are taken.
    assert "categories = [every" not in text.split("ward ")[1].split("\n")[1]
    assert "bounds = [lowest, highest]" not in text
    assert os.stat(tmp_path / "tacit.toml").st_mode & 0o777 == 0o600
    found.edit(revision(found), {(*COLUMN, "cost", "bounds"): [500, 0]})
    assert "tables.visits.columns.cost" in problems(found)[0]


def test_a_page_that_is_out_of_date_changes_nothing(tmp_path: Path) -> None:
    found = edited(tmp_path)
    old = revision(found)
    found.edit(old, {(*COLUMN, "cost", "bounds"): [0, 100]})
    found.path.write_text(text := found.path.read_text() + "# theirs\n")
    with pytest.raises(InputError, match="edited elsewhere"):
        found.edit(old, {(*COLUMN, "cost", "bounds"): [0, 200]})
    with pytest.raises(InputError, match="edited elsewhere"):
        found.add(old, drafted(messy(tmp_path)))
    assert found.path.read_text() == text
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_saving_follows_a_link_and_keeps_rights(tmp_path: Path) -> None:
    found = edited(tmp_path)
    os.chmod(found.path, 0o640)
    link = tmp_path / "other"
    link.mkdir()
    (link / "tacit.toml").symlink_to(found.path)
    again = EditedProject(link / "tacit.toml")
    again.edit(revision(again), {("project", "name"): "more"})
    assert (link / "tacit.toml").is_symlink()
    assert found.path.read_text().count('name = "more"')
    assert found.path.stat().st_mode & 0o777 == 0o640


def test_sources_that_cannot_be_drafted(tmp_path: Path) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"c{n}" for n in range(3000)) + "\n")
    new = EditedProject(tmp_path / "tacit.toml")
    with pytest.raises(InputError, match="3,000 columns"):
        new.add(revision(new), drafted(wide))
    for name, content in (("a.csv", b"\xff\xfea\0"), ("b.parquet", b"PAR1"), ("c.txt", b"x"), ("d.csv", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError):
            drafted(tmp_path / name)
    with pytest.raises(InputError, match="there is no file"):
        drafted(tmp_path / "gone.csv")
    (tmp_path / "tacit.toml").write_text("x = [")
    with pytest.raises(InputError, match="not TOML"):
        EditedProject(tmp_path / "tacit.toml").read()


def test_values_as_they_are_typed() -> None:
    assert [stated_value(text) for text in ("5", " -0.5", "1e3", "007", "2024-02-30")] == [
        5,
        -0.5,
        "1e3",
        "007",
        "2024-02-30",
    ]
    assert str(stated_value("2024-02-29")) == "2024-02-29"
    assert stated_value("0.12345678901234567") == "0.12345678901234567"


def test_pictures_are_exact(tmp_path: Path) -> None:
    form = CsvFormat(";", decimal_mark=",", date_formats={"day": "%d.%m.%Y"})
    source = replace(Source.of(str(messy(tmp_path))), csv=form)
    shape = histogram(source, Column("cost", decimal(2), (Fraction(0), Fraction(100))))
    assert shape is not None
    assert sum(shape.counts) + sum(shape.outside) == shape.values == 301
    assert shape.clipped == (0, pytest.approx(201 / 301))
    # 0.5 to 299.5, and one value far out.
    assert {choice.high: round(choice.kept * 301) for choice in shape.choices} == {
        "200": 200,
        "500": 300,
        "100000": 301,
    }
    assert shape.edges[-1] < 1000
    days = histogram(source, Column("day", DATE))
    assert days is not None
    assert set(days.counts) - {0} <= {10, 11}
    values = column_values(source, Column("ward", TEXT, categories=("A", "B")))
    assert values.values == (("A", 200), ("a ", 100), ("B", 1))
    assert values.near == (("a ", "A"),)
    assert values.unlisted == pytest.approx(100 / 301)
