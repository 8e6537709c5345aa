"""Exit codes and messages for errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer

from tacit.core.errors import InputError, TacitError
from tacit.core.extras import MissingError
from tacit.core.text_files import json_line, visible

#: Exit code by error code; a code such as ``query.sample`` counts as ``query`` unless it is listed itself. 2 is what
#: shells and typer use for a wrong command line.
EXIT_CODES: Final = {
    "input": 2,
    "query": 3,
    "budget": 4,
    "access": 5,
    "accounting": 6,
    "engine": 7,
    "internal": 8,
    "internal.ledger": 9,
    "internal.rollback": 10,
    "internal.busy": 11,
    "remote": 12,
    "auth": 13,
    "rate": 14,
    "busy": 15,
    "request": 16,
}


def exit_code(error: TacitError) -> int:
    """The exit code of an error."""
    return EXIT_CODES.get(error.code) or EXIT_CODES.get(error.code.partition(".")[0], 1)


@contextmanager
def reported(*arguments: str, as_json: bool = False) -> Iterator[None]:
    """Turn an error of Tacit into a line on stderr and an exit code.

    Args:
        arguments: parameters that are written without dashes; all others are shown as the option they come from.
        as_json: write the line as a JSON object.
    """
    try:
        yield
    except TacitError as error:
        raise failure(error, *arguments, as_json=as_json) from None


def failure(error: TacitError, *arguments: str, as_json: bool = False) -> typer.Exit:
    """Say on stderr what went wrong; the caller raises what it gets."""
    text = _text(error, arguments)
    if error.id:
        from tacit.cli.open_project import operator_log

        text = f"{text} in {operator_log()}"
    if as_json:
        shown = {"error": {"code": error.code, "message": text, "exit_code": exit_code(error)}}
        typer.echo(json_line(shown), err=True)
    else:
        typer.echo(f"Error: {visible(text)}", err=True)
    return typer.Exit(exit_code(error))


def unexpected(problem: Exception) -> int:
    """Report an unexpected error. Its words may quote data, so they go to the operator's log."""
    import logging

    from tacit.cli.open_project import listening, operator_log

    with listening():
        logging.getLogger("tacit.operator").error("unexpected failure of the command", exc_info=problem)
    typer.echo(f"Error: unexpected {type(problem).__name__}; details are in {operator_log()}", err=True)
    return EXIT_CODES["internal"]


def _text(error: TacitError, arguments: tuple[str, ...]) -> str:
    # A package is no option, and a dot tells a place in a project file from one.
    if not isinstance(error, InputError) or isinstance(error, MissingError):
        return str(error)
    if error.parameter in arguments or "." in error.parameter:
        return str(error)
    return f"--{error.parameter.replace('_', '-')}: {error.problem}"
