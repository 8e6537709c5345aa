"""The kinds of places a ledger is kept in; every test that asks for ``place`` runs on each of them."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.ledgers import MEMORY_DISK, Place, sqlite_place
from support.postgres import postgres_place

PLACES = {"sqlite": sqlite_place, "postgres": postgres_place}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk in memory, where there is one."""
    if not os.access(MEMORY_DISK, os.W_OK):
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="tacit-ledger-", dir=MEMORY_DISK))
    yield path
    shutil.rmtree(path)


@pytest.fixture(params=sorted(PLACES))
def places(request: pytest.FixtureRequest, folder: Path) -> Callable[[], Place]:
    """Fresh places of each kind, as many as a test asks for."""
    numbers = itertools.count()
    return lambda: PLACES[request.param](folder / str(next(numbers)))


@pytest.fixture
def place(places: Callable[[], Place]) -> Place:
    """An empty place of each kind."""
    return places()
