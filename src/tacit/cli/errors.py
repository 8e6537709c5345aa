"""From errors to exit codes and messages; the only such map of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from tacit.core.errors import InputError, TacitError

__all__ = ["EXIT_CODES", "reported"]

#: Exit code by error code. 2 is what shells and typer use for a wrong command line.
EXIT_CODES: Final = {
    "input": 2,
    "query": 3,
    "budget": 4,
    "access": 5,
    "accounting": 6,
    "engine": 7,
    "internal": 8,
}


@contextmanager
def reported(*arguments: str) -> Iterator[None]:
    """Turn an error of Tacit into a line on stderr and an exit code.

    Args:
        arguments: parameters that are written without dashes; all others are shown as the option they come from.
    """
    try:
        yield
    except TacitError as error:
        typer.echo(f"Error: {_text(error, arguments)}", err=True)
        raise typer.Exit(EXIT_CODES.get(error.code, 1)) from None


def _text(error: TacitError, arguments: tuple[str, ...]) -> str:
    if not isinstance(error, InputError) or error.parameter in arguments:
        return str(error)
    return f"--{error.parameter.replace('_', '-')}: {error.problem}"
