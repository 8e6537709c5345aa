"""The kinds of places a ledger is kept in; every test that asks for ``place`` runs on each of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from support.ledgers import Place, sqlite_place
from support.postgres import postgres_place

PLACES = {"sqlite": sqlite_place, "postgres": postgres_place}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a test's ledgers."""
    return tmp_path


@pytest.fixture(params=sorted(PLACES))
def places(request: pytest.FixtureRequest, folder: Path) -> Callable[[], Place]:
    """Fresh places of each kind, as many as a test asks for."""
    numbers = itertools.count()
    return lambda: PLACES[request.param](folder / str(next(numbers)))


@pytest.fixture
def place(places: Callable[[], Place]) -> Place:
    """An empty place of each kind."""
    return places()
