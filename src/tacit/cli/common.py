"""What all commands share: options, opening of a project or of its ledger, printing, errors and exit codes.

Output has colour and boxes for a terminal, is plain text for a pipe and JSON for a program. What analysts must not see
goes to the operator's log.
"""

from __future__ import annotations

import getpass
import io
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from tacit.core.errors import AccessError, InputError, TacitError
from tacit.core.extras import MissingError
from tacit.core.text_files import json_line, visible
from tacit.project.project_template import read_project

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tacit.curator.curator import Curator
    from tacit.ledger import Ledger, Outcome
    from tacit.ledger.protocol import Reader


DEFAULT_PROJECT = Path("tacit.toml")
ProjectOption = Annotated[
    Path, typer.Option("--project", "-p", envvar="TACIT_PROJECT", help="The project file.", show_default=True)
]
AnalystOption = Annotated[
    str | None, typer.Option("--analyst", envvar="TACIT_ANALYST", help="Name of the analyst, as registered.")
]


@contextmanager
def opened(project: Path, *, analyst: str | None = None) -> Iterator[Curator]:
    from tacit.curator.opening import open_curator
    from tacit.releases.accounts import OWNER

    read_project(project)
    with listening(), open_curator(project, analyst=analyst or OWNER) as curator:
        if analyst is not None:
            check_registered(curator.ledger, analyst)
        yield curator


def check_registered(ledger: Ledger, analyst: str) -> None:
    """Refuse a name that is not registered: mistyped, it would ask without a share of its own."""
    from tacit.ledger.entries import plain_name

    if plain_name(analyst, "analyst") not in (known.name for known in ledger.analysts()):
        raise AccessError(f"no person is registered as {analyst!r}; tacit analysts add registers them")


def operator_log() -> Path:
    """Log for failures whose words analysts must not see."""
    from tacit.ledger.anchor import state_folder

    return state_folder() / "operator.log"


@contextmanager
def listening() -> Iterator[None]:
    """Send the operator's log to a file: without a listener Python would print it, and its words can quote data."""
    log = logging.getLogger("tacit.operator")
    file = _PrivateFile()
    log.addHandler(file)
    try:
        yield
    finally:
        log.removeHandler(file)


class _PrivateFile(logging.Handler):
    """Log handler that appends to a file that only its owner may read, created with the first record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a failure to write must not stop the answer in progress."""
        try:
            place = operator_log()
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.format(record) + "\n")
        except OSError:
            self.handleError(record)


OperatorOption = Annotated[
    str | None, typer.Option("--operator", envvar="TACIT_OPERATOR", help="Your name; by default the user name.")
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Reason, kept in the ledger for good.")]


@dataclass(frozen=True)
class LedgerLocation:
    """Location of a project's ledger."""

    ledger: str
    anchor: str | None
    key: str

    @property
    def is_file(self) -> bool:
        """Whether it is a file, rather than in a database server."""
        return "://" not in self.ledger

    @property
    def exists(self) -> bool:
        """Whether a file is there; a server is believed to have it."""
        return not self.is_file or Path(self.ledger).exists()


def find_ledger(project: Path) -> LedgerLocation:
    """The ledger of a project file, whether or not it is there yet."""
    from tacit.ledger.memory import MEMORY
    from tacit.project.project_file import load_places

    read_project(project)
    found = load_places(project)
    if found.ledger is None or found.ledger == MEMORY:
        raise InputError("project.ledger", 'names none that lasts; write ledger = "tacit.ledger"')
    return LedgerLocation(found.ledger, found.anchor, found.key or f"{found.ledger}.key")


@contextmanager
def opened_ledger(project: Path) -> Iterator[Ledger]:
    """The ledger of a project that has one already, closed afterwards."""
    from tacit.ledger import Ledger

    place = find_ledger(project)
    check_exists(place)
    with Ledger.open(place.ledger, anchor=place.anchor, create=False) as ledger:
        yield ledger


def check_exists(place: LedgerLocation) -> None:
    """Say what to do where nothing was ever charged."""
    if not place.exists:
        raise InputError(
            "project.ledger", f"there is no {place.ledger} yet; opening the project makes it: tacit budget"
        )


@contextmanager
def reading(place: LedgerLocation, *, still: bool = True) -> Iterator[tuple[Reader, str]]:
    """Open a ledger for reading, also one that would not be opened, with the place's own name. Changes nothing.

    ``still`` shows it as it is at one moment, whatever is written meanwhile.
    """
    from tacit.ledger.errors import storage_errors
    from tacit.ledger.opening import open_reader

    with storage_errors(), open_reader(place.ledger, still=still) as found:
        yield found


def receipt_check(place: LedgerLocation) -> Callable[[Outcome], str | None]:
    """Checker of the receipts in a ledger, each with the key that was in force at its place."""
    from tacit.ledger.journal import read_body
    from tacit.releases.receipt import outcome_problem

    with reading(place) as (reader, _):
        ledger = str(read_body(reader, 1)["ledger"])

    def problem(outcome: Outcome) -> str | None:
        return outcome_problem(outcome, ledger=ledger, public_key=outcome.key) if outcome.receipt else None

    return problem


def adopted_ledger(place: LedgerLocation, *, reason: str, operator: str) -> Ledger:
    """A ledger taken although its anchor does not agree.

    Where it was deleted, the one that is begun anew belongs to the keys that are there: they sign its receipts.
    """
    from tacit.ledger import Ledger
    from tacit.releases.keys import open_keys

    keys = open_keys(place.key, make=not place.exists)
    return Ledger.adopt(
        place.ledger,
        reason=reason,
        operator=operator,
        anchor=place.anchor,
        public_key=keys.public_key,
        key_check=keys.groups_check,
    )


def operator_name(said: str | None) -> str:
    """Name of the operator: as stated, else the user's name."""
    if said is not None:
        return said
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


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
    """Stream that removes trailing spaces from lines of tables."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        """Write complete lines; buffer an incomplete one."""
        *lines, self._line = (self._line + text).split("\n")
        self._stream.write("".join(f"{line.rstrip(' ')}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def columns(rows: Iterable[Sequence[str | Text]], head: Sequence[str] = (), *, right: Sequence[int] = ()) -> Table:
    """Return rows as columns without lines, plain text without markup; those numbered in ``right`` are flush right."""
    from rich.table import Table
    from rich.text import Text

    listed = [[Text(visible(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    table = Table(box=None, show_header=bool(head), header_style="bold", padding=(0, 2, 0, 0))
    for i in range(len(head) or max(map(len, listed), default=0)):
        table.add_column(head[i] if head else "", justify="right" if i in right else "left")
    for row in listed:
        table.add_row(*row)
    return table


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
