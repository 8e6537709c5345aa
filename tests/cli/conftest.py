"""Fixtures of the command line: a clinic in a folder of its own, and a way to run commands there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from support.command_line import run_command

WARDS = ("cardiology", "oncology", "surgery")
PROJECT = """
[project]
name = "clinic"
ledger = "tacit.ledger"

[populations.patients]
epsilon = "4"

[tables.visits]
source = "visits.csv"
population = "patients"
unit = "patient_id"
max_groups = 3
max_rows = 5

[tables.visits.columns]
patient_id = { type = "integer" }
ward       = { type = "text", categories = ["cardiology", "oncology", "surgery"] }
cost       = { type = "decimal", step = "0.01", bounds = [0, 2500] }
"""


def visits(count: int = 3000) -> str:
    """The text of a CSV file, the same every time."""
    rows = (f"{i},{i % 600},{WARDS[i * i % 7 % 3]},{i * 37 % 250000 / 100:.2f}" for i in range(count))
    return "visit_id,patient_id,ward,cost\n" + "\n".join(rows) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data; whatever a user's home would keep is kept here too."""
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    for name in ("TACIT_PROJECT", "TACIT_ANALYST"):
        monkeypatch.delenv(name, raising=False)
    place = tmp_path / "clinic"
    place.mkdir()
    (place / "visits.csv").write_text(visits())
    (place / "wards.csv").write_text("ward,beds\ncardiology,48\noncology,40\nsurgery,52\n")
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def clinic(folder: Path) -> Path:
    """The same with a project file."""
    (folder / "tacit.toml").write_text(PROJECT)
    return folder


Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Run a command in this process, without a terminal."""

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        result = run_command(*arguments, input=stdin, env={"COLUMNS": "200", "NO_COLOR": "1"})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def run_json(run: Run) -> Callable[..., Any]:
    """Run a command with ``--json`` and read what it printed."""

    def invoke(*arguments: str, stdin: str | None = None) -> Any:
        result = run(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.count("\n") == 1
        return json.loads(result.stdout)

    return invoke
