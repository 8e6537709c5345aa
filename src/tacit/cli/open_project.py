"""Opening of a project, or of its ledger, for one command, with the options that name them and the operator's log."""

from __future__ import annotations

import getpass
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.core.errors import AccessError, InputError
from tacit.project.project_template import read_project

if TYPE_CHECKING:
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
    """Appends to a file that only its owner may read, made with the first record."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a log that cannot be written must not stop the answer that is under way."""
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
