"""Terminal output: colour and boxes for a terminal, plain text for a pipe, JSON for a program."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from tacit.core.text_files import json_line

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
        """Pass on what is complete."""
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
