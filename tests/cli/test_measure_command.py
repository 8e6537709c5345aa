"""``tacit measure``: the total is reserved when the statement is written; what came back is released, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import Result

Run = Callable[..., Result]
Json = Callable[..., Any]
PLAN = """
[release]
name = "yearly"
epsilon = "1"
bias_share = "0"
output = "yearly"

[statistics.visits]
sql = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"

[statistics.cost]
sql = "SELECT AVG(cost) AS cost FROM visits"
"""


@pytest.fixture
def warehouse(clinic: Path) -> Path:
    """The clinic, whose table is somewhere else."""
    file = clinic / "tacit.toml"
    file.write_text(
        file.read_text()
        .replace('name = "clinic"', 'name = "clinic"\nengine = "warehouse"')
        .replace('source = "visits.csv"', 'source = "main.visits"')
    )
    (clinic / "plan.toml").write_text(PLAN)
    return clinic


def run_there(folder: Path, output: str) -> None:
    """What an owner does with any client: run the file, keep what it returns."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE visits AS FROM '{folder / 'visits.csv'}'")
        connection.execute(f"COPY ({(folder / 'measure.sql').read_text()}) TO '{folder / output}'")


@pytest.mark.parametrize("output", ["counts.parquet", "counts.csv"])
def test_a_plan_is_measured_elsewhere_and_released_here(warehouse: Path, run: Run, run_json: Json, output: str) -> None:
    written = run("measure", "plan.toml", "--dialect", "duckdb")
    assert written.exit_code == 0, written.output
    (warehouse / "measure.sql").write_text(written.stdout)
    assert "1 of 4 spent" in run("budget").stdout, "it is reserved when the statement is written"
    early = run("release", "plan.toml")
    assert early.exit_code != 0
    assert "tacit measure writes what to run" in early.output
    run_there(warehouse, output)
    told = run_json("release", "plan.toml", "--measured", output)
    assert told["statistics"] == ["visits", "cost"]
    rows = (warehouse / "yearly" / "visits.csv").read_text().splitlines()[1:]
    truth = {"cardiology": 429, "oncology": 1714, "surgery": 857}
    found = {row.split(",")[0]: float(row.split(",")[1]) for row in rows}
    # Noise of scale 30 at this price.
    assert all(abs(found[ward] - count) < 600 for ward, count in truth.items())
    assert run("receipt", "verify", "yearly/receipt.json", "--key", "yearly/public-key.txt").exit_code == 0
    assert run("ledger", "verify").exit_code == 0
    assert run("release", "plan.toml", "--measured", output).exit_code == 0
    assert rows == (warehouse / "yearly" / "visits.csv").read_text().splitlines()[1:]
    assert "1 of 4 spent" in run("budget").stdout
    run("measure", "plan.toml", "--dialect", "snowflake", "-o", "again.sql")
    assert "BITAND" in (warehouse / "again.sql").read_text() or "SUM" in (warehouse / "again.sql").read_text()
    assert "1 of 4 spent" in run("budget").stdout


def test_what_cannot_be_measured_elsewhere_costs_nothing(warehouse: Path, run: Run) -> None:
    for wrong, words in (
        (PLAN.replace('bias_share = "0"\n', ""), "bias_share"),
        (PLAN.replace("AVG(cost)", "AVG(CLAMP(cost * cost, AUTO))"), "measured once"),
    ):
        (warehouse / "plan.toml").write_text(wrong)
        done = run("measure", "plan.toml", "--dialect", "duckdb")
        assert (done.exit_code != 0, words in done.output) == (True, True), done.output
    (warehouse / "plan.toml").write_text(PLAN)
    assert run("measure", "plan.toml", "--dialect", "oracle").exit_code != 0
    assert "0 of 4 spent" in run("budget").stdout


def test_other_engines_read_their_own_tables(clinic: Path, run: Run) -> None:
    (clinic / "plan.toml").write_text(PLAN)
    done = run("measure", "plan.toml", "--dialect", "duckdb")
    assert (done.exit_code != 0, 'must be "warehouse"' in done.output) == (True, True)
