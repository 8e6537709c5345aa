"""Commands of ``tacit`` run in this process."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer.testing
from typer.testing import Result

from tacit.cli import command_line

__all__ = ["run_command"]

_APP = command_line()
# A runner makes the parsers of all commands anew for each command: a tenth of a second, often more than the command.
typer.testing._get_command = cache(typer.testing._get_command)  # type: ignore[attr-defined]


def run_command(*words: str, **options: Any) -> Result:
    """Run ``tacit`` with these words; options are those of :meth:`typer.testing.CliRunner.invoke`."""
    return typer.testing.CliRunner().invoke(_APP, list(words), **options)
