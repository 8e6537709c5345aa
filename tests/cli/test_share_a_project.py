"""The page that takes a data owner from a CSV to a shared, budgeted, audited project: its commands do what it shows."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from cli.console_page import Command, File, read_page, shape, shows

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "share-a-project.md"
Run = Callable[..., Result]


def carry_out(run: Run, command: Command, folder: Path) -> str:
    """Run a command and return what it prints."""
    program, *arguments = command.words
    if program == "ls":
        return "\n".join(sorted(file.name for file in (folder / arguments[0]).iterdir()))
    assert program == "tacit"
    result = run(*arguments)
    if command.target:
        (folder / command.target).write_text(result.stdout)
        return ""
    return result.stdout + result.stderr


def test_every_command_of_the_page(folder: Path, run: Run) -> None:
    steps = read_page(PAGE.read_text())
    assert sum(isinstance(step, Command) for step in steps) >= 15
    for step in steps:
        if isinstance(step, File):
            (folder / step.name).write_text(step.content)
            if step.name.endswith(".py"):
                runpy.run_path(str(folder / step.name))
        else:
            printed = carry_out(run, step, folder)
            assert shows(step.output, printed), f"{step.line}\n{printed}"


def test_the_shape_of_an_output_forgets_noise_and_nothing_else() -> None:
    seen = "│ oncology │ 1,017 ± 36 │\nCharged epsilon 0.5"
    assert shape(seen) == shape("│ oncology   │ -12 (-40 to 12) │\nCharged epsilon 0.25  ")
    assert shape(seen) != shape(seen.replace("oncology", "surgery"))
    assert shape(seen) != shape(seen.replace("Charged", "Changed"))
    assert shape("2026-11-16T03:16:16+00:00") == "N"
    assert shape("ledger 5d571bb5d68b9909287cb1c797e81fe3") == "ledger H"


def test_dots_stand_for_lines() -> None:
    assert shows("a\n…\nc", "a\nb\nb\nc")
    assert shows("a\n…", "a\nb")
    assert shows("…\nc", "a\nb\nc")
    assert not shows("a\n…\nc", "a\nb")
    assert not shows("a\n…\nc", "b\na\nc")
    assert not shows("a", "a\nb")
