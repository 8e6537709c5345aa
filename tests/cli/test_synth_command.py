"""``tacit synth``: a table, a report and a receipt side by side; refusals before anything is charged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
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
    for price in (("--epsilon", "1e-11"), ("--rho", "1"), ("--mu", "1"), ("--epsilon", "5")):
        assert run("synth", ROWS, *price, "-o", "made.csv").exit_code != 0
    assert "0 of 4 spent" in run("budget").stdout


def test_a_place_where_nothing_can_be_written_is_found_before_the_charge(clinic: Path, run: Run) -> None:
    (clinic / "file").write_text("x")
    (clinic / "made.report.txt").mkdir()
    asked = ("synth", ROWS, "--epsilon", "1", "--method", "independent", "--rows", "9")
    for place in (("-o", "file/made.csv"), ("-o", "made.csv")):
        refused = run(*asked, *place)
        assert refused.exit_code == 2
        assert "cannot be written" in refused.output
    assert "0 of 4 spent" in run("budget").stdout
    # A folder that is not there yet is made.
    assert run(*asked, "-o", "new/folder/made.csv").exit_code == 0
    assert (clinic / "new/folder/made.csv").exists()


def test_listed_marginals(concentrated: Path, run: Run, run_json: Json) -> None:
    rows = "SELECT ward, cost > 100 AS dear FROM visits"
    asked = ("synth", rows, "--epsilon", "1", "--method", "marginals", "-o", "made.csv")
    refused = run(*asked)
    assert "--marginals: must list" in refused.output
    told = run_json(*asked, "--marginals", "ward, dear")
    assert "ward × dear: measured" in (concentrated / "made.report.txt").read_text()
    assert "rho" in told["charge"]
    shown = run(*asked, "--marginals", "ward,dear").stdout
    assert shown.count("charged nothing") == 1


PATIENTS = """
[tables.patients]
source = "patients.csv"
population = "patients"
unit = "patient_id"
max_rows = 1

[tables.patients.columns]
patient_id = { type = "integer" }
sex = { type = "text", categories = ["f", "m"] }
"""


def test_two_tables_that_belong_together(concentrated: Path, run: Run, run_json: Json) -> None:
    rows = "\n".join(f"{i},{'fm'[i % 2]}" for i in range(600))
    (concentrated / "patients.csv").write_text(f"patient_id,sex\n{rows}\n")
    file = concentrated / "tacit.toml"
    file.write_text(file.read_text() + PATIENTS)
    asked = ("synth", "patients", "visits", "--epsilon", "1", "--method", "independent", "--max-rows", "2")
    told = run_json(*asked, "-o", "made")
    assert (Path(told["table"]).name, Path(told["beside"]).name) == (
        "patients_synthetic.parquet",
        "visits_synthetic.parquet",
    )
    made = {name: pq.read_table(told[name]) for name in ("table", "beside")}
    sexes = dict(zip(*(made["table"][name].to_pylist() for name in ("patient_id", "sex")), strict=True))
    visits = made["beside"].to_pylist()
    assert all(row["patient_id"] in sexes for row in visits)
    assert "number_of_visits: measured" in (concentrated / "made/synthetic.report.txt").read_text()
    assert "charged nothing" in run(*asked, "-o", "made").stdout
    for wrong in (("synth", "a", "b", "c", "-e", "1"), (*asked, "-c", "ward")):
        assert run(*wrong).exit_code != 0
