"""People to test with, beside a ledger of each kind, and a clock that only moves when it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support.ledgers import NOON, Place
from tacit.accounting.filters import PureFilter
from tacit.ledger import Ledger
from tacit.ledger.memory import MEMORY
from tacit.server.identity import People

TABLES = ("seen", "persons", "tokens", "sessions", "links", "entries", "identities", "jobs")


class Watch:
    """A clock for ledgers and people."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def wait(self, **span: float) -> None:
        self.now += timedelta(**span)


@dataclass
class Crowd:
    """A ledger with two accounts, its people, and as many more views of them as a test wants."""

    place: Place | None
    watch: Watch = field(default_factory=Watch)
    opened: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = self.open_ledger()
        for population in ("patients", "staff"):
            self.ledger.ensure_account(population, PureFilter(epsilon=1))
        self.people = self.open_people(self.ledger)

    @property
    def where(self) -> str:
        return MEMORY if self.place is None else self.place.where

    def open_ledger(self) -> Ledger:
        ledger = Ledger.open(MEMORY) if self.place is None else self.place.open()
        self.opened.append(ledger)
        return ledger

    def open_people(self, ledger: Ledger, **options: Any) -> People:
        people = People.open(ledger, self.where, **{"clock": self.watch, **options})
        self.opened.append(people)
        return people

    def again(self, **options: Any) -> People:
        """The same people as another process sees them; in memory there is no other."""
        return self.open_people(self.ledger if self.place is None else self.open_ledger(), **options)

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def restart(self) -> None:
        """Close everything, and open it again."""
        self.close()
        self.ledger = self.open_ledger()
        self.people = self.open_people(self.ledger)


def add(people: People, *names: str, **options: Any) -> None:
    for name in names:
        people.add(name, operator="olga", **options)


def token(people: People, name: str, **options: Any) -> str:
    return people.issue(name, **{"expires": None, "operator": "olga", **options}).text


def rows_of(people: People) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the tables."""
    return {table: people.tables.read(f"SELECT * FROM people_{table}") for table in TABLES}


def put_back(people: People, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    """Put old tables back, while the chain stays unchanged."""
    with people.tables.write() as run:
        for table, content in rows.items():
            run(f"DELETE FROM people_{table}", ())
            for row in content:
                run(f"INSERT INTO people_{table} VALUES ({', '.join('?' * len(row))})", row)
