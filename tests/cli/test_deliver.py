"""``tacit deliver``, after a process was killed while its query ran."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

Run = Callable[..., Result]
Json = Callable[..., Any]
KILLED = """
import os, signal, sys
import tacit
from tacit.engines.duckdb.engine import DuckDBEngine
DuckDBEngine.measure = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
tacit.open("tacit.toml").sql(sys.argv[1], epsilon="0.5")
"""


def killed(clinic: Path, sql: str) -> None:
    found = subprocess.run([sys.executable, "-c", KILLED, sql], cwd=clinic, capture_output=True, text=True)
    assert found.returncode == -signal.SIGKILL, found.stderr


def test_charges_of_killed_processes_are_listed_and_delivered_without_a_second_charge(
    clinic: Path, run: Run, run_json: Json
) -> None:
    one = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    two = "SELECT COUNT(*) AS n FROM visits"
    killed(clinic, one)
    killed(clinic, two)
    before = run_json("budget")
    first, second = before["undelivered"]
    listed = run("budget").stdout
    assert "Paid, not delivered" in listed
    assert f"{first} Charged epsilon 0.5 to patients: {one}" in listed
    # The data have changed meanwhile: asking again would be charged, delivering is not.
    visits = clinic / "visits.csv"
    visits.write_text(visits.read_text() + "9999,601,oncology,5.00\n")
    answer = run_json("deliver", str(first))
    assert (answer["charge"]["position"], len(answer["rows"])) == (first, 3)
    told = run_json("deliver", "--all")["charges"]
    assert [(each["position"], each["state"]) for each in told] == [(second, "delivered")]
    after = run_json("budget")
    assert (after["undelivered"], after["budgets"]) == ([], before["budgets"])
    assert run_json("deliver", str(first))["rows"] == answer["rows"]
    assert "Every charge has its answer" in run("deliver", "--all").stdout
    assert run("ledger", "verify").exit_code == 0
    shown = run("ledger", "show", "--all").stdout
    assert shown.count("reserve") == 2


def test_what_cannot_be_delivered(clinic: Path, run: Run, run_json: Json) -> None:
    killed(clinic, "SELECT COUNT(*) AS n FROM visits")
    (position,) = run_json("budget")["undelivered"]
    assert run("deliver").exit_code == 2
    assert run("deliver", str(position), "--all").exit_code == 2
    assert run("deliver", str(position + 5)).exit_code == 2
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace("max_rows = 5", "max_rows = 4"))
    told = run_json("deliver", "--all")["charges"]
    assert (told[0]["state"], "declared otherwise now" in told[0]["reason"]) == ("open", True)
    assert run_json("budget")["undelivered"] == [position]
