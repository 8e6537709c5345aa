"""``tacit synth``: a table, a report and a receipt side by side; refusals before anything is charged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
Json = Callable[..., Any]
ROWS = "SELECT ward FROM visits"


@pytest.fixture
def concentrated(clinic: Path) -> Path:
    """The clinic with an account that Gaussian noise is charged to."""
    file = clinic / "tacit.toml"
    file.write_text(file.read_text().replace('epsilon = "4"', 'epsilon = "4"\ndelta = "1e-6"\naccounting = "zcdp"'))
    return clinic


def test_a_table_its_report_and_its_receipt(concentrated: Path, run: Run, run_json: Json) -> None:
    told = run_json("synth", ROWS, "--epsilon", "1", "--method", "independent", "-o", "made.csv", "--rows", "40")
    assert set(told) == {"table", "rows", "report", "receipt", "charge"}
    assert len((concentrated / "made.csv").read_text().splitlines()) == 41
    assert "ward: measured" in (concentrated / "made.report.txt").read_text()
    assert "rho" in told["charge"]
    shown = run("synth", ROWS, "--epsilon", "1", "--method", "independent", "-o", "again.parquet")
    assert "charged nothing" in shown.stdout
    assert (concentrated / "again.parquet").exists()
    assert run("ledger", "verify").exit_code == 0


def test_refusals_cost_nothing(clinic: Path, run: Run) -> None:
    assert run("synth", ROWS, "--epsilon", "1", "-o", "made.txt").exit_code != 0
    assert not list(clinic.glob("made.*"))
    assert run("synth", ROWS, "--epsilon", "1", "-o", "made.csv").exit_code != 0
    assert "0 of 4 spent" in run("budget").stdout
