"""Apache Superset, a dashboard with queries of its own about the catalogue, on the real protocol."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from conftest import SUPERSET
from support.pg_served import pg_serve
from support.served import BUDGETS

BUDGET = {**BUDGETS, "patients": {"accounting": "approx", "epsilon": "1000", "delta": "1e-6"}}
WALK = Path(__file__).with_name("superset_client.py")


@pytest.mark.dashboard
def test_superset_connects_looks_around_charts_and_is_stopped(tmp_path: Path) -> None:
    with pg_serve(budgets=BUDGET) as pg:
        address = f"postgresql+psycopg2://alice:{pg.served.tokens['alice']}@127.0.0.1:{pg.port}/hospital"
        command = [str(Path(SUPERSET).with_name("python")), str(WALK), str(tmp_path), address]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert run.returncode == 0, run.stderr[-3000:]
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"step"')]
        told: dict[str, Any] = {line["step"]: line for line in lines}
        asked = [about for about, state in pg.notes if about["route"] == "postgres/ask" and state == "00000"]
        spent = pg.served.spent()
    assert told["connect"]["message"] == "OK"
    assert set(told["schemas"]["result"]) == {"public", "tacit", "information_schema"}
    assert {each["value"] for each in told["tables"]["result"]} == {"visits", "staff", "wards"}
    columns = {each["name"]: (each["longType"], each["comment"]) for each in told["columns"]["columns"]}
    assert columns["cost"] == ("NUMERIC(18, 2)", "from 0 to 100")
    assert columns["ward"] == ("TEXT", "one of a, b, c")
    assert told["columns"]["foreignKeys"][0]["referred_table"] == "staff"
    kinds = {each["column_name"]: each["is_dttm"] for each in told["dataset"]["data"]["columns"]}
    assert (kinds["day"], kinds["cost"], len(kinds)) == (True, False, 7)
    assert told["values"]["result"] == ["a", "b", "c"]

    def rows(step: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = told[step]["result"][0]["data"]
        return found

    counts = [row["count"] for row in rows("bars")]
    assert {row["ward"] for row in rows("bars")} == {"a", "b", "c"}
    assert counts == sorted(counts, reverse=True)
    assert len(rows("line")) == 31
    assert 100 < rows("number")[0]["people"] < 300
    # Rows of people are refused in words that a person at the dashboard reads.
    assert told["rows"]["status"] == 400
    assert "a row per person" in told["rows"]["message"]
    # A dashboard that is opened again asks the same query: the same numbers, for nothing.
    assert rows("board again") == rows("bars")
    assert {row["ward"] for row in told["lab"]["data"]} == {"a", "b", "c"}
    assert "the charge does not fit" in told["dear"]["errors"][0]["message"]
    # The list of wards is declared, and costs nothing; three charts and a query of the lab cost what was stated.
    charged = [about.get("charge", {}).get("epsilon") for about in asked]
    assert charged == [None, "0.5", "0.5", "0.5", None, "0.5"]
    assert spent == 2
