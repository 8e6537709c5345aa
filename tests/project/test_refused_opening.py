"""An opening that is refused leaves nothing behind, and ``tacit doctor`` fails where opening would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tacit
from tacit.cli.doctor import examine
from tacit.core.errors import TacitError

PROJECT = """
[project]
name = "clinic"
ledger = "tacit.ledger"

[populations.patients]
epsilon = "4"

[populations.staff]
epsilon = "2"

[tables.visits]
source = "visits.csv"
population = "patients"
unit = "id"
[tables.visits.columns]
id = { type = "integer" }

[tables.shifts]
source = "shifts.csv"
population = "staff"
unit = "id"
[tables.shifts.columns]
id = { type = "integer" }

[tables.wards]
source = "wards.csv"
public = true
[tables.wards.columns]
ward = { type = "text" }
"""


@pytest.fixture
def folder(tmp_path: Path, state: Path) -> Path:
    (tmp_path / "visits.csv").write_text("id,x\n" + "".join(f"{i},{i * 3}\n" for i in range(50)))
    (tmp_path / "shifts.csv").write_text("id,hours\n" + "".join(f"{i},{i % 9}\n" for i in range(20)))
    (tmp_path / "wards.csv").write_text("ward\na\nb\n")
    (tmp_path / "tacit.toml").write_text(PROJECT)
    (tmp_path / "tacit.toml").chmod(0o600)
    return tmp_path


def everything(*places: Path) -> dict[str, bytes]:
    # The log's shared memory of SQLite is no content.
    files = (f for place in places for f in place.rglob("*") if f.is_file() and not f.name.endswith(("-shm", "-wal")))
    return {str(file): file.read_bytes() for file in files}


def edit(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "tacit.toml").read_text()
        assert old in text
        (folder / "tacit.toml").write_text(text.replace(old, new))

    return change


def protected_as_public(folder: Path) -> None:
    rows = (folder / "visits.csv").read_text().splitlines()
    (folder / "wards.csv").write_text("\r\n".join([rows[0], *reversed(rows[1:])]) + "\r\n")
    edit("ward = ", "id = ")(folder)


def swapped(folder: Path) -> None:
    text = (folder / "shifts.csv").read_text()
    (folder / "shifts.csv").write_text((folder / "visits.csv").read_text())
    (folder / "visits.csv").write_text(text)


BREAKS: dict[str, Callable[[Path], object]] = {
    "a column that is not there": edit(
        'id = { type = "integer" }\n\n[tables.wards]', 'no = { type = "integer" }\n\n[tables.wards]'
    ),
    "one file for two populations": edit('"shifts.csv"', '"visits.csv"'),
    "a protected file called public, rewritten": protected_as_public,
    "a source that is missing": lambda folder: (folder / "wards.csv").unlink(),
}
LATER: dict[str, Callable[[Path], object]] = {
    **BREAKS,
    "other terms": edit('epsilon = "2"', 'epsilon = "3"'),
    "sources that changed places": swapped,
    "a new population, and then a file that is known": edit(
        "[tables.wards]",
        '[populations.guests]\nepsilon = "1"\n[tables.guests]\nsource = "shifts.csv"\npopulation = "guests"\n'
        'unit = "id"\n[tables.guests.columns]\nid = { type = "integer" }\n\n[tables.wards]',
    ),
    "keys of another ledger": lambda folder: (folder / "tacit.ledger.key").write_text(
        (folder / "tacit.ledger.key").read_text().replace("a", "b").replace("1", "2")
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_the_first_opening(folder: Path, state: Path, name: str) -> None:
    BREAKS[name](folder)
    before = everything(folder, state)
    assert not all(finding.ok for finding in examine(folder / "tacit.toml"))
    with pytest.raises(TacitError):
        tacit.open(folder / "tacit.toml")
    assert everything(folder, state) == before


@pytest.mark.parametrize("name", LATER)
def test_a_later_opening(folder: Path, state: Path, name: str) -> None:
    with tacit.open(folder / "tacit.toml") as curator:
        head = curator.ledger.head
    assert [finding for finding in examine(folder / "tacit.toml") if not finding.ok] == []
    LATER[name](folder)
    before = everything(folder, state)
    assert not all(finding.ok for finding in examine(folder / "tacit.toml"))
    with pytest.raises(TacitError):
        tacit.open(folder / "tacit.toml")
    assert set(everything(folder, state)) == set(before)
    with tacit.ledger.Ledger.open(folder / "tacit.ledger", create=False) as ledger:
        assert ledger.head == head


def test_a_deleted_ledger(folder: Path, state: Path) -> None:
    tacit.open(folder / "tacit.toml").close()
    for file in folder.glob("tacit.ledger*"):
        file.unlink()
    before = everything(folder, state)
    found = {finding.name: finding.ok for finding in examine(folder / "tacit.toml")}
    assert not found["ledger"]
    with pytest.raises(TacitError, match="deleted or emptied"):
        tacit.open(folder / "tacit.toml")
    assert everything(folder, state) == before


def test_doctor_changes_nothing(folder: Path, state: Path) -> None:
    before = everything(folder, state)
    assert all(finding.ok for finding in examine(folder / "tacit.toml"))
    assert everything(folder, state) == before
    tacit.open(folder / "tacit.toml").close()
    before = everything(folder, state)
    assert all(finding.ok for finding in examine(folder / "tacit.toml"))
    assert everything(folder, state) == before
