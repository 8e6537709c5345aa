"""``tacit doctor`` and ``tacit ledger`` where the ledger is in a PostgreSQL database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import Result

from support.postgres import postgres_place
from tacit.cli.doctor import examine

Run = Callable[..., Result]
Json = Callable[..., Any]
ALL = "SELECT COUNT(*) AS visits FROM visits"
WARD = "SELECT ward, COUNT(*) AS visits FROM visits GROUP BY ward"


@pytest.fixture
def address(clinic: Path) -> str:
    """The clinic's ledger is in a schema of its own, and its keys are beside the project file."""
    place = postgres_place(clinic)
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('"tacit.ledger"', f'"{place.where}"'))
    return place.where


def run_sql(address: str, *statements: str) -> None:
    server, _, schema = address.partition("#")
    with psycopg.connect(server, autocommit=True, options=f"-c search_path={schema}") as connection:
        for statement in statements:
            connection.execute(statement)


def wrong(clinic: Path) -> dict[str, str]:
    return {finding.name: finding.words for finding in examine(clinic / "tacit.toml") if not finding.ok}


def test_verify_and_show(address: str, run: Run, run_json: Json) -> None:
    assert run("query", ALL, "--epsilon", "0.5").exit_code == 0
    told = run_json("ledger", "verify")
    assert (told["ok"], told["charges"], told["outcomes"], told["problems"]) == (True, 1, 1, [])
    assert "all hold" in run("ledger", "verify").stdout
    (entry,) = run_json("ledger", "show")["entries"]
    assert (entry["sql"], entry["amounts"]) == (ALL, {"epsilon": "0.5"})
    kinds = [one["kind"] for one in run_json("ledger", "show", "--all")["entries"]]
    assert kinds == ["opened", "account", "unit", "source", "column", "declared", "reserve", "commit"]
    assert len(run_json("ledger", "show", "--all", "--last", "2")["entries"]) == 2


def test_a_ledger_that_is_not_there(address: str, clinic: Path, run: Run) -> None:
    for command in (("ledger", "verify"), ("ledger", "show"), ("ledger", "show", "--all")):
        result = run(*command)
        assert result.exit_code == 9, result.output
        assert "there is no ledger in the schema" in result.stderr
    assert "there is no ledger in the schema" in wrong(clinic)["ledger"]


def test_an_edited_ledger_is_found_out(address: str, clinic: Path, run: Run) -> None:
    run("query", ALL, "--epsilon", "0.5")
    run_sql(
        address,
        "ALTER TABLE entries DISABLE TRIGGER USER",
        "UPDATE entries SET body = replace(body, '1/2', '1/4') WHERE body LIKE '%\"kind\":\"reserve\"%'",
    )
    result = run("ledger", "verify", "--json")
    assert result.exit_code == 9
    assert any("does not fit the chain" in words for words in json.loads(result.stdout)["problems"])
    assert "does not fit the chain" in wrong(clinic)["ledger"]


def test_an_old_copy_is_refused_until_an_operator_says_so_for_good(
    address: str, clinic: Path, run: Run, run_json: Json
) -> None:
    """The tables of a backup, brought back."""
    run("query", ALL, "--epsilon", "0.5")
    tables = ("entries", "pockets", "names", "papers")
    run_sql(address, *(f"CREATE TABLE kept_{name} AS TABLE {name}" for name in tables))
    run("query", WARD, "--epsilon", "0.5")
    run_sql(
        address,
        "ALTER TABLE entries DISABLE TRIGGER USER",
        *(f"DELETE FROM {name}" for name in tables),
        *(f"INSERT INTO {name} TABLE kept_{name}" for name in tables),
        "ALTER TABLE entries ENABLE TRIGGER USER",
    )
    result = run("query", WARD, "--epsilon", "0.5")
    assert result.exit_code == 10
    assert "is an old or another copy" in result.stderr
    assert "is an old or another copy" in run("ledger", "verify").stdout
    assert "is an old or another copy" in wrong(clinic)["ledger"]
    run_json("ledger", "adopt", "--reason", "the disk died", "--operator", "olga")
    last = run_json("ledger", "show", "--all", "--last", "1")["entries"][0]
    assert (last["kind"], last["body"]["reason"], last["body"]["operator"]) == ("adopted", "the disk died", "olga")
    assert run("ledger", "verify").exit_code == 0
    # What was lost may have been everything; the operator says how much may be spent from now on.
    assert run("query", WARD, "--epsilon", "0.5").exit_code == 4


def test_a_budget_does_not_grow_by_an_edit(address: str, clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    project = clinic / "tacit.toml"
    project.write_text(project.read_text().replace('epsilon = "4"', 'epsilon = "6"'))
    assert run("query", WARD, "--epsilon", "0.5").exit_code == 2
    assert "pure, epsilon 4" in wrong(clinic)["budget patients"]
    told = run_json("ledger", "caps", "patients", "--reason", "decided on 3 May")
    assert (told["before"], told["now"]) == ("PureDP(4)", "PureDP(6)")
    assert wrong(clinic) == {}
    assert run_json("budget")["budgets"][0]["currencies"][0]["left"] == "5.5"


def test_all_in_place(address: str, clinic: Path, run: Run, run_json: Json) -> None:
    run("query", ALL, "--epsilon", "0.5")
    told = run_json("doctor")
    assert told["ok"], told
    shown = run("doctor").stdout
    for words in ("the anchor agrees", "receipts are signed with", "tacit.key", "pure, epsilon 4"):
        assert words in shown
    assert "password" not in shown
    (clinic / "tacit.key").chmod(0o644)
    assert set(wrong(clinic)) == {"keys"}


def test_a_server_that_is_not_there(clinic: Path, run: Run) -> None:
    project = clinic / "tacit.toml"
    project.write_text(
        project.read_text().replace('"tacit.ledger"', f'"postgresql://olga:hunter2@/none?host={clinic}"')
    )
    for command in (("ledger", "verify"), ("query", ALL, "--epsilon", "1"), ("ledger", "show")):
        result = run(*command)
        assert result.exit_code == 9, result.output
        assert "hunter2" not in result.output
    assert "ledger" in wrong(clinic)
    assert "hunter2" not in wrong(clinic)["ledger"]
