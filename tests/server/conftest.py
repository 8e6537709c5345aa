"""The kinds of places that people are kept in; every test that asks for ``crowd`` runs on each of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.crowds import Crowd
from support.ledgers import MEMORY_DISK, sqlite_place
from support.postgres import postgres_place
from support.served import Served, serve


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk in memory, where there is one."""
    if not os.access(MEMORY_DISK, os.W_OK):
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="tacit-people-", dir=MEMORY_DISK))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def crowd(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[Crowd]:
    """People beside a ledger of each kind."""
    places = {"memory": lambda _: None, "sqlite": sqlite_place, "postgres": postgres_place}
    found = Crowd(places[request.param](quick_folder))
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgres"])
def lasting(request: pytest.FixtureRequest, quick_folder: Path) -> Iterator[Crowd]:
    """People beside a ledger that outlives the process."""
    found = Crowd({"sqlite": sqlite_place, "postgres": postgres_place}[request.param](quick_folder))
    yield found
    found.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """A hospital behind an application: nothing is spent, and slots are off."""
    found = serve()
    yield found
    found.close()
