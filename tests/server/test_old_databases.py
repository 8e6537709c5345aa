"""Databases that an earlier version wrote, as text: ledger and people open unchanged, and mean what they meant.

``old_databases/`` holds a dump of each kind of database, made when every kind of entry had been written to it, and
what was known of it at that moment. A dump is never made anew: a later format gets a dump of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.ledgers import NOON, asking
from support.postgres import address
from tacit.ledger import Ledger, Outcome, Reservation
from tacit.server.identity import Hashing, People

OLD = Path(__file__).parent / "old_databases"
FACTS = json.loads((OLD / "facts.json").read_text())

Rows = Callable[[], list[Any]]


def in_sqlite(folder: Path) -> tuple[str, Rows]:
    path = folder / "clinic.ledger"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((OLD / "sqlite.sql").read_text())

    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        columns = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in tables}

    def rows() -> list[Any]:
        with closing(sqlite3.connect(path)) as connection:
            read = [connection.execute(f"SELECT {', '.join(columns[each])} FROM {each}").fetchall() for each in tables]
            return [*read, *connection.execute("PRAGMA user_version")]

    return str(path), rows


def in_postgres(_: Path) -> tuple[str, Rows]:
    where = address()
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute((OLD / "postgres.sql").read_text())  # type: ignore[call-overload]

    schema = "SELECT table_name, column_name, data_type, collation_name FROM information_schema.columns "
    with psycopg.connect(where, autocommit=True) as connection:
        shape = connection.execute(schema + "WHERE table_schema = 'tacit_ledger' ORDER BY 1, 2").fetchall()
    columns: dict[str, list[str]] = {}
    for row in shape:
        columns.setdefault(row[0], []).append(row[1])

    def rows() -> list[Any]:
        with psycopg.connect(where, autocommit=True) as connection:
            now = connection.execute(schema + "WHERE table_schema = 'tacit_ledger' ORDER BY 1, 2").fetchall()
            reads = [f"SELECT {', '.join(names)} FROM tacit_ledger.{table}" for table, names in columns.items()]
            return [[row for row in shape if row in now], *(connection.execute(read).fetchall() for read in reads)]  # type: ignore[call-overload]

    return where, rows


class Opened:
    """An old database, opened by this version."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.facts = FACTS[kind]
        anchor = folder / "anchor"
        anchor.write_text(self.facts["anchor"])
        where, self.rows = {"sqlite": in_sqlite, "postgres": in_postgres}[kind](folder)
        self.before = self.rows()
        self.ledger = Ledger.open(where, anchor=anchor, create=False, clock=lambda: NOON)
        self.people = People.open(self.ledger, where, clock=lambda: NOON, hashing=Hashing.cheap())

    def close(self) -> None:
        self.people.close()
        self.ledger.close()


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    made = Opened(request.param, tmp_path)
    yield made
    made.close()


def test_opening_changes_no_row_and_takes_no_column_away(opened: Opened) -> None:
    assert list(opened.ledger.head) == opened.facts["head"]
    after, before = opened.rows(), opened.before
    assert len(after) == len(before)
    changed = [pair for pair in zip(map(str, before), map(str, after), strict=True) if pair[0] != pair[1]]
    # People note how far they have read the chain, and the version of their tables, which gain columns.
    assert all(opened.facts["head"][1] in pair[1] or pair == ("[(2,)]", "[(4,)]") for pair in changed)
    assert len(changed) <= 2


def test_the_ledger_is_whole_and_says_the_same(opened: Opened) -> None:
    report = opened.ledger.verify()
    assert report.ok, report.problems
    told = [report.entries, report.charges, report.outcomes, report.failures, list(report.changes)]
    assert [*told, [str(each) for each in report.overrides]] == opened.facts["report"]
    assert (report.ledger, list(report.head)) == (opened.facts["id"], opened.facts["head"])


def test_charges_keys_and_outcomes_are_found(opened: Opened) -> None:
    ledger = opened.ledger
    same = asking("0.1", analyst="alice", project="x", sql='SELECT "é"', plan="0" * 64, quote={"rows": [1]})
    found = ledger.reserve(same.__class__(**{**_fields(same), "repeat_key": "one", "idempotency_key": "k1"}))
    assert isinstance(found, Outcome)
    assert (found.result, found.receipt, found.key) == (b"an answer", b"a receipt", ledger.first_key)
    resumed = ledger.reserve(asking("1/7", analyst="carol", repeat_key="two"))
    assert isinstance(resumed, Reservation)
    assert (resumed.seq, resumed.resumed) == (opened.facts["open"], True)
    fresh = ledger.reserve(asking("0.1", analyst="carol", sql="SELECT 3", repeat_key="three"))
    assert isinstance(fresh, Reservation)
    assert fresh.seq == opened.facts["head"][0] + 1
    assert ledger.verify().ok


def _fields(order: Any) -> dict[str, Any]:
    return {name: getattr(order, name) for name in order.__slots__}


def test_balances_are_those_of_before(opened: Opened) -> None:
    whole = {line.currency: line for line in opened.ledger.budget("patients").lines}
    assert (str(whole["epsilon"].cap), str(whole["epsilon"].spent)) == ("2", "17/70")
    share = opened.ledger.budget("patients", analyst="alice").balances[1]
    assert (share.limited, str(share.lines[0].cap), str(share.lines[0].spent)) == (True, "1/2", "1/10")


def test_people_prove_who_they_are_as_before(opened: Opened) -> None:
    people, facts = opened.people, opened.facts
    access = people.authenticate(facts["token"])
    assert access is not None
    assert access.person.name == "alice"
    assert people.authenticate(facts["withdrawn"]) is None
    assert people.authenticate(facts["revoked"]) is None
    assert people.session(facts["session"]) is not None
    assert people.sign_in("alice", facts["password"], origin="desk") is not None
    invited = people.invited(facts["invitation"])
    assert invited is not None
    assert invited.name == "carol"
    assert [job.request for job in people.jobs.unfinished()] == ['{"sql": "é"}']
