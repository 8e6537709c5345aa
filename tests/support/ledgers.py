"""Places to keep a ledger in, and the few words that tests about ledgers share."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.accounting.filters import PureFilter
from tacit.core.guarantees import PureDP
from tacit.ledger import Ledger, Order, Outcome, Reservation
from tacit.ledger.opening import open_store
from tacit.ledger.protocol import Store

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Place:
    """Where a ledger of one kind is kept during one test.

    Args:
        where: what ``Ledger.open`` is given.
        anchor: the anchor's file.
        tamper: runs SQL on the ledger's tables behind its back.
    """

    where: str
    anchor: Path
    tamper: Callable[[str], None]

    def open(self, **options: Any) -> Ledger:
        return Ledger.open(self.where, anchor=self.anchor, **options)

    def adopt(self, **options: Any) -> Ledger:
        words = {"reason": "a test", "operator": "the tester", **options}
        return Ledger.adopt(self.where, anchor=self.anchor, **words)

    def store(self) -> Store:
        return open_store(self.where, create=True)


def sqlite_place(folder: Path) -> Place:
    path = folder / "data" / "clinic.ledger"

    def tamper(statement: str) -> None:
        with sqlite3.connect(path) as connection:
            for guard in ("entries_stay", "entries_remain"):
                connection.execute(f"DROP TRIGGER IF EXISTS {guard}")
            connection.execute(statement)
        connection.close()

    return Place(str(path), folder / "state" / "anchor", tamper)


def copy_files(place: Place, to: Path) -> None:
    """A backup of a SQLite ledger that no process has open."""
    shutil.copytree(Path(place.where).parent, to)


def bring_back(place: Place, backup: Path) -> None:
    """Put a backup in the place of the ledger."""
    shutil.rmtree(Path(place.where).parent)
    shutil.copytree(backup, Path(place.where).parent)


def clinic(place: Place, epsilon: object = 1, **options: Any) -> Ledger:
    """A ledger with one account, ``patients``."""
    ledger = place.open(**options)
    ledger.ensure_account("patients", PureFilter(epsilon=epsilon))
    return ledger


def asking(epsilon: object = "0.1", **words: Any) -> Order:
    """An order for so much of the patients' budget."""
    return Order("patients", PureDP(epsilon), **words)


def answered(ledger: Ledger, order: Order, result: bytes = b"an answer") -> Outcome:
    """The whole way of a query."""
    held = ledger.reserve(order)
    return held if isinstance(held, Outcome) else ledger.commit(held, result, receipt=b"a receipt")


def reserved(ledger: Ledger, order: Order) -> Reservation:
    """A reservation, and not an outcome."""
    held = ledger.reserve(order)
    assert isinstance(held, Reservation)
    return held


def spent(ledger: Ledger, population: str = "patients") -> Fraction:
    """Amount that an account has spent of its first currency."""
    return Fraction(ledger.budget(population).lines[0].spent)
