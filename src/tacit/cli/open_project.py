"""Opening of a project for one command, with the operator's log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.core.errors import AccessError

if TYPE_CHECKING:
    from tacit.curator.curator import Curator
    from tacit.ledger import Ledger

DEFAULT_PROJECT = Path("tacit.toml")
ProjectOption = Annotated[
    Path, typer.Option("--project", "-p", envvar="TACIT_PROJECT", help="The project file.", show_default=True)
]
AnalystOption = Annotated[
    str | None, typer.Option("--analyst", envvar="TACIT_ANALYST", help="Name of the analyst, as registered.")
]


@contextmanager
def opened(project: Path, *, analyst: str | None = None) -> Iterator[Curator]:
    """A curator for the project, closed afterwards."""
    from tacit.curator.opening import open_curator
    from tacit.project.project_file import read_project
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
