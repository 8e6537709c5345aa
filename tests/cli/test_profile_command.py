"""``tacit profile``: the quote, the table, the draft, and one charge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

Run = Callable[..., Result]
Json = Callable[..., Any]


def test_a_quote_is_free_and_a_profile_writes_a_draft(clinic: Path, run: Run, run_json: Json) -> None:
    quoted = run("profile", "visits", "--epsilon", "1", "--quote", "--suppose", "50")
    assert "not worth it at 50" in quoted.stdout
    assert "0 of 4 spent" in run("budget").stdout
    told = run_json("profile", "visits", "--epsilon", "1", "--draft", "drafted.toml")
    assert {"ward", "cost"} <= {each["column"] for each in told["columns"]}
    assert "[tables.visits.columns]" in (clinic / "drafted.toml").read_text()
    again = run("profile", "visits", "--epsilon", "1")
    assert "charged nothing" in again.stdout
    assert run("profile", "wards", "--epsilon", "1").exit_code != 0
    assert run("ledger", "verify").exit_code == 0
