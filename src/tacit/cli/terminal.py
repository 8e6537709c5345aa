"""Terminal output: colour and boxes for a terminal, plain text for a pipe, JSON for a program; errors and codes."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from tacit.core.errors import InputError, TacitError
from tacit.core.extras import MissingError
from tacit.core.text_files import json_line, visible

if TYPE_CHECKING:
    from rich.console import Console


#: Every command has it.
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

#: A pipe has no width; wide enough that nothing is cut.
_PIPE_WIDTH = 200


def console(widest: int | None = None) -> Console:
    """Console for people. Output to a pipe has no colour and is not folded to a screen's width."""
    from rich.console import Console

    screen = Console(highlight=False)
    if not screen.is_terminal:
        screen = Console(highlight=False, width=max(screen.width, _PIPE_WIDTH), file=_Trimmed(sys.stdout))
    screen.width = screen.width if widest is None else min(screen.width, widest)
    return screen


class _Trimmed(io.StringIO):
    """A stream without the spaces that tables have at the ends of their lines."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        """Write whole lines; what has no end yet waits for it."""
        *lines, self._line = (self._line + text).split("\n")
        self._stream.write("".join(f"{line.rstrip(' ')}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def print_json(content: object) -> None:
    """Print one object on one line; values without a form in JSON (fractions, decimals, dates) become text."""
    typer.echo(json_line(content))


def say(*lines: str, style: str = "", whole: bool = False) -> None:
    """Print lines for people, without markup; ``whole`` ones are not folded, so that they can be copied."""
    screen = console()
    for line in lines:
        screen.print(line, style=style, markup=False, soft_wrap=whole)
    screen.file.flush()


def tell(content: object, *lines: str, as_json: bool) -> None:
    """Print an object for programs, or lines for people."""
    if as_json:
        print_json(content)
    else:
        say(*lines)


@contextmanager
def progress_bar(*, quiet: bool, lines: bool = False) -> Iterator[Callable[[int, int | None, str], None]]:
    """Progress bar on standard error where that is a terminal; what it yields takes done, total and a description.

    With ``lines``, elsewhere a line for each description.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=screen, transient=True, disable=quiet or not screen.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def advance(done: int, total: int | None, what: str) -> None:
            if lines and not quiet and not screen.is_terminal and bar.tasks[0].description != what:
                typer.echo(f"{done + 1} of {total}: {what}" if total else what, err=True)
            bar.update(task, completed=done, total=total, description=what)

        yield advance


def is_interactive() -> bool:
    """Whether a person at a terminal can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


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
    "provider": 17,
}


def exit_code(error: TacitError) -> int:
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
