"""``tacit ledger unit``, and what ``verify``, ``show`` and ``doctor`` say of terms that changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.conftest import PROJECT, Run

Json = Callable[..., Any]
ALL = "SELECT COUNT(*) FROM visits"


def test_a_unit_that_moves_is_refused_told_and_fixed_anew(clinic: Path, run: Run, run_json: Json) -> None:
    assert run("query", ALL, "--epsilon", "0.5").exit_code == 0
    assert run_json("ledger", "verify")["changes"] == []
    (clinic / "tacit.toml").write_text(PROJECT.replace('unit = "patient_id"', 'unit = "row"'))
    refused = run("query", ALL, "--epsilon", "0.5")
    assert refused.exit_code == 2
    assert "`tacit ledger unit patients`" in refused.stderr
    shown = run("doctor")
    assert shown.exit_code == 1
    assert "the account protects an id of type INTEGER; the file says every row" in shown.stdout
    assert run("ledger", "unit", "unknown", "--reason", "x").exit_code == 2
    done = run("ledger", "unit", "patients", "--reason", "rows are persons", "--operator", "olga")
    assert done.stdout == "patients: an id of type INTEGER before, every row now.\n"
    assert run("query", ALL, "--epsilon", "0.5").exit_code == 0
    told = run_json("ledger", "verify")
    assert told["ok"]
    assert "was fixed anew by olga: rows are persons" in told["changes"][0]
    assert "changed  entry" in run("ledger", "verify").stdout
    assert "rows are persons" in run("ledger", "show", "--all").stdout
    shown = run("doctor")
    assert shown.exit_code == 0
    assert "fixed anew by olga" in shown.stdout


def test_bounds_and_limits_that_change_are_told(clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    changed = PROJECT.replace("max_rows = 5", "max_rows = 50").replace("[0, 2500]", "[0, 9000]")
    (clinic / "tacit.toml").write_text(changed)
    assert run("query", ALL, "--epsilon", "0.5").exit_code == 0
    for words in ("visits: max_rows was 5, is 50", "visits: cost.bounds was 0 to 2500, is 0 to 9000"):
        assert any(words in change for change in run_json("ledger", "verify")["changes"])
        assert words in run("doctor").stdout
    assert '"max_rows": ["5", "50"]' in " ".join(run("ledger", "show", "--all").stdout.split())
