"""Options shared by operator commands."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.core.errors import InputError

if TYPE_CHECKING:
    from tacit.ledger import Ledger, Outcome
    from tacit.ledger.protocol import Reader

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
    from tacit.project.project_file import load_places, read_project

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
