"""Exit codes, messages without traces, and commands that load only what they need."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import Result

from tacit.cli import command_line
from tacit.cli.common import EXIT_CODES, exit_code, operator_log, reported, unexpected
from tacit.core import errors
from tacit.core.text_files import visible
from tacit.ledger.errors import BusyError, ConflictError, LedgerError, RollbackError
from tacit.query.refusal import Refusal

Run = Callable[..., Result]


def test_every_error_has_its_exit_code() -> None:
    # Loaded here so that their classes are known whatever ran before.
    import tacit.client.http_client
    import tacit.server.errors  # noqa: F401

    kinds = [*errors.TacitError.__subclasses__(), LedgerError, RollbackError, BusyError]
    assert {kind.code for kind in kinds} == set(EXIT_CODES)
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert not {0, 1} & set(EXIT_CODES.values())


def test_a_finer_code_counts_as_its_class() -> None:
    assert exit_code(Refusal("sample", "no")) == EXIT_CODES["query"]
    assert exit_code(ConflictError("key", "no")) == EXIT_CODES["input"]
    assert exit_code(RollbackError("no")) == 10


def test_places_are_not_options(capsys: pytest.CaptureFixture[str]) -> None:
    for parameter, shown in (("epsilon", "--epsilon"), ("max_rows", "--max-rows"), ("tables.x.unit", "tables.x.unit")):
        with pytest.raises(typer.Exit) as stopped, reported("sql"):
            raise errors.InputError(parameter, "is wrong")
        assert stopped.value.exit_code == 2
        assert capsys.readouterr().err == f"Error: {shown}: is wrong\n"
    with pytest.raises(typer.Exit), reported(as_json=True):
        raise errors.BudgetError("none left")
    assert json.loads(capsys.readouterr().err) == {"error": {"code": "budget", "message": "none left", "exit_code": 4}}


def test_nothing_that_others_wrote_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    assert visible("a\x1b[2Jb\x07\u202ec\nd") == "a·[2Jb··c\nd"
    with pytest.raises(typer.Exit), reported():
        raise errors.AccessError("no user is \x1b[31mhere")
    assert "\x1b" not in capsys.readouterr().err


def test_the_unforeseen_goes_to_the_operator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert unexpected(KeyError("a patient's name")) == 8
    said = capsys.readouterr().err
    assert said.startswith("Error: unexpected KeyError; details are in ")
    assert "patient" not in said
    assert "a patient's name" in operator_log().read_text()
    assert operator_log().stat().st_mode & 0o077 == 0


def test_help_of_every_command(run: Run) -> None:
    names = [
        command.name or command.callback.__name__ for command in command_line().registered_commands if command.callback
    ]
    groups = [group.name for group in command_line().registered_groups]
    listed = run("--help").stdout
    for name in [*names, *groups]:
        assert name is not None
        assert name in listed
        assert run(name, "--help").exit_code == 0


@pytest.mark.parametrize("arguments", [("nonsense",), ("query", "--nonsense"), ("plan", "--people", "x")])
def test_a_wrong_command_line(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_help_loads_no_machinery() -> None:
    check = (
        "import sys, tacit; before = set(sys.modules); from tacit.cli import command_line; command_line(); "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert "tacit.cli.query" in loaded
    heavy = ("tacit.mechanisms", "tacit.noise", "tacit.query", "tacit.curator", "tacit.ledger", "scipy", "pyarrow")
    # Options, from which the help is made, and the words for types in a project file.
    light = {"tacit.query", "tacit.query.request", "tacit.query.contribution", "tacit.query.types"}
    assert not [
        name
        for name in {*loaded} - light
        if name.startswith((*heavy, "duckdb", "sqlglot", "pydantic", "altair", "numpy"))
    ]
