"""The kinds of places that people are kept in; every test that asks for ``crowd`` runs on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.crowds import Crowd
from support.ledgers import sqlite_place
from support.postgres import postgres_place
from support.served import Served, serve


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def crowd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crowd]:
    """People beside a ledger of each kind."""
    places = {"memory": lambda _: None, "sqlite": sqlite_place, "postgres": postgres_place}
    found = Crowd(places[request.param](tmp_path))
    yield found
    found.close()


@pytest.fixture(params=["sqlite", "postgres"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crowd]:
    """People beside a ledger that outlives the process."""
    found = Crowd({"sqlite": sqlite_place, "postgres": postgres_place}[request.param](tmp_path))
    yield found
    found.close()


@pytest.fixture
def served() -> Iterator[Served]:
    """A hospital behind an application: nothing is spent, and steps are off."""
    found = serve()
    yield found
    found.close()
