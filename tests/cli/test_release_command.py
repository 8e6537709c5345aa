"""``tacit release``: a quote, a run, a second run that costs nothing, and refusals that name the place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from cli.terminal import at_a_terminal

Run = Callable[..., Result]
Json = Callable[..., Any]
PLAN = """
[release]
name = "Yearly [report]"
epsilon = "1"
output = "yearly"
formats = ["csv"]

[statistics.visits]
sql = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"
weight = 3

[statistics.cost]
sql = "SELECT AVG(cost) AS cost FROM visits"
"""


@pytest.fixture
def plan(clinic: Path) -> Path:
    (clinic / "plan.toml").write_text(PLAN)
    return clinic / "plan.toml"


def test_a_release_is_paid_once(clinic: Path, plan: Path, run: Run, run_json: Json) -> None:
    quote = run_json("release", "plan.toml", "--quote")
    assert set(quote) == {"release", "guarantee", "statistics"}
    assert [one["name"] for one in quote["statistics"]] == ["visits", "cost"]
    assert "PureDP(0.75)" in run("release", "plan.toml", "--quote").stdout
    assert not (clinic / "yearly").exists()

    told = run_json("release", "plan.toml")
    assert set(told) == {"release", "guarantee", "statistics", "files", "charge", "budget"}
    assert told["charge"]["amounts"] == {"epsilon": "1"}
    assert told["budget"]["currencies"][0]["spent"] == "1"
    written = {Path(file).name for file in told["files"]}
    assert written == {"visits.csv", "cost.csv", "receipt.json", "public-key.txt", "report.html", "notebook.ipynb"}
    before = (clinic / "yearly" / "visits.csv").read_bytes()

    shown = run("release", "plan.toml", "-o", "again")
    assert "charged nothing" in shown.stdout
    assert "Yearly [report]" in shown.stdout
    for page in (shown.stdout, (clinic / "again" / "report.html").read_text()):
        assert "Costs epsilon 0.75 of the total" in page
        assert "Costs epsilon 0.25 of the total" in page
    assert shown.stdout.startswith("visits\n")
    assert (clinic / "again" / "visits.csv").read_bytes() == before
    assert run("receipt", "verify", "again/receipt.json", "--key", "again/public-key.txt").exit_code == 0
    assert run("ledger", "verify").exit_code == 0


def test_on_a_terminal(clinic: Path, plan: Path) -> None:
    code, screen = at_a_terminal(["release", "plan.toml"], [], clinic)
    assert code == 0, screen
    assert "Charged epsilon 1 to patients" in screen


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ('epsilon = "1"', 'epsilon = "9"', 4, "patients: "),
        ('epsilon = "1"', "", 2, "--release: state one total"),
        ("COUNT(*)", "patient_id", 3, ""),
        ("weight = 3", "weigth = 3", 2, "statistics.visits.weigth: is an unknown setting"),
        ("weight = 3", "weight = -3", 2, "statistics.visits.weight: must be greater"),
        ("[release]", "[release", 2, "plan: plan.toml is not TOML"),
        ("[statistics.cost]", '[statistics."../cost"]', 2, "statistics.../cost: a name becomes a file"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_paid(
    clinic: Path, plan: Path, run: Run, run_json: Json, old: str, new: str, code: int, message: str
) -> None:
    plan.write_text(PLAN.replace(old, new))
    result = run("release", "plan.toml")
    assert result.exit_code == code, result.stderr
    assert result.stderr.startswith(f"Error: {message}")
    assert run_json("budget")["budgets"][0]["currencies"][0]["spent"] == "0"


def test_a_plan_that_is_not_there(clinic: Path, run: Run) -> None:
    result = run("release", "none.toml")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: plan: cannot read none.toml")
    assert json.loads(run("release", "none.toml", "--json").stderr)["error"]["code"] == "input"
