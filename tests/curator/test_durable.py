"""Answers on a ledger in a file: across processes, crashes, retries and analysts."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from support.clinic import COUNT, open_clinic, shown
from support.warm import run_warm
from tacit.core.errors import AccessError, BudgetError, InputError
from tacit.curator.curator import Curator
from tacit.ledger import ConflictError, LedgerError
from tacit.ledger.errors import StorageError
from tacit.releases.receipt import verify_receipt


def ask(ledger: Path, killed_at: str = "", sql: str = COUNT) -> subprocess.CompletedProcess[str]:
    """The clinic's program, in a process of its own."""
    return run_warm([sys.executable, "-m", "support.clinic", str(ledger), killed_at, sql], text=True)


def spent(curator: Curator) -> Fraction:
    (amount,) = curator.budget().spent
    return amount.amount


@pytest.mark.parametrize("killed_at", ["measure", "commit", "answer"])
def test_a_killed_process_has_paid_and_its_query_can_be_asked_again(tmp_path: Path, killed_at: str) -> None:
    place = tmp_path / "a.ledger"
    dead = ask(place, killed_at)
    assert (dead.returncode, dead.stdout) == (-signal.SIGKILL, "")
    curator, engine = open_clinic(place)
    with curator:
        assert spent(curator) == Fraction(1, 2)
        (entry,) = curator.history()
        assert entry.committed == (killed_at == "answer")
        again = curator.sql(COUNT, epsilon="0.5", idempotency_key="k1")
        assert "charged nothing" in again.charge.text
        assert engine.measured == (0 if killed_at == "answer" else 1)
        assert spent(curator) == Fraction(1, 2)
        assert verify_receipt(again.receipt, curator.public_key).ok
        assert curator.ledger.verify().ok
        third = json.loads(ask(place).stdout)
    assert third == {**shown(again), "charged": []}


def test_processes_that_ask_the_same_at_once_pay_once_and_get_the_same(tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    with ThreadPoolExecutor(3) as pool:
        answers = [json.loads(done.stdout) for done in pool.map(lambda _: ask(place), range(3))]
    assert len({json.dumps(answer["rows"]) for answer in answers}) == 1
    assert len({answer["receipt"] for answer in answers}) == 1
    assert sum(bool(answer["charged"]) for answer in answers) == 1
    curator, engine = open_clinic(place)
    with curator:
        assert spent(curator) == Fraction(1, 2)
        assert shown(curator.sql(COUNT, epsilon="0.5"))["rows"] == answers[0]["rows"]
        assert engine.measured == 0


def test_two_curators_on_one_ledger_share_the_cap_and_the_choice_of_groups(tmp_path: Path) -> None:
    place = tmp_path / "a.ledger"
    first, engine = open_clinic(place)
    second, other = open_clinic(place)
    seen: list[bytes] = []
    for each in (engine, other):
        measure = each.measure
        each.measure = lambda work, measure=measure: (seen.append(work.key_secret), measure(work))[1]  # type: ignore[method-assign,misc]
    with first, second:
        first.sql(COUNT, epsilon="2.5")
        with pytest.raises(BudgetError, match=r"epsilon needs 2 and has 1\.5 of 4 left"):
            second.sql(COUNT, epsilon="2")
        second.sql(COUNT, epsilon="1.5")
        assert spent(first) == spent(second) == 4
        assert [entry.number for entry in first.history()] == [entry.number for entry in second.history()]
    assert len(seen) == 4, "each query, and what it leaves out"
    assert len(set(seen)) == 1
    assert open_clinic()[0]._context.keys.group_secret("patients") != seen[0]


def test_an_idempotency_key_is_one_request_of_one_analyst() -> None:
    curator, engine = open_clinic()
    first = curator.sql(COUNT, epsilon="0.5", analyst="alice", idempotency_key="k")
    again = curator.sql(COUNT, epsilon="0.5", analyst="alice", idempotency_key="k")
    assert shown(again) == {**shown(first), "charged": []}
    with pytest.raises(ConflictError):
        curator.sql(COUNT, epsilon="0.6", analyst="alice", idempotency_key="k")
    with pytest.raises(ConflictError):
        curator.sql(COUNT + " ORDER BY n", epsilon="0.5", analyst="alice", idempotency_key="k")
    # Of other rows: their number would be a sum of what alice has paid for.
    asked = "SELECT COUNT(*) AS n FROM visits WHERE cost > 50"
    bob = curator.sql(asked, epsilon="0.25", analyst="bob", idempotency_key="k")
    assert bob.charge.amounts
    assert (spent(curator), engine.measured) == (Fraction(3, 4), 2)
    # A repeat of another analyst's query may have a key of its own, and keeps it.
    free = curator.sql(COUNT, epsilon="0.5", analyst="bob", idempotency_key="k2")
    assert (free.charge.amounts, free.finished.values) == ((), first.finished.values)
    with pytest.raises(ConflictError):
        curator.sql(COUNT, epsilon="0.75", analyst="bob", idempotency_key="k2")
    assert spent(curator) == Fraction(3, 4)


def test_budgets_by_analyst() -> None:
    curator, engine = open_clinic(epsilon="4")
    curator.ledger.set_quota("patients", {"epsilon": "1"}, analyst="alice")
    curator.ledger.set_quota("patients", {"epsilon": "1.25"}, analyst="bob")
    curator.sql(COUNT, epsilon="0.75", analyst="alice")
    with pytest.raises(BudgetError, match="alice"):
        curator.sql(COUNT, epsilon="0.5", analyst="alice")
    curator.sql(COUNT, epsilon="1", analyst="bob")
    with pytest.raises(BudgetError, match="bob"):
        curator.sql(COUNT, epsilon="0.5", analyst="bob")
    assert (spent(curator), engine.measured) == (Fraction(7, 4), 2)
    quote = curator.explain(COUNT, epsilon="0.1")
    assert curator.budget(quote, analyst="alice").queries == 2
    assert curator.budget(quote, analyst="bob").queries == 2
    text = str(curator.budget(analyst="alice"))
    assert "patients: epsilon: 1.75 of 4 spent, 2.25 left" in text
    assert "analyst alice: epsilon: 0.75 of 1 spent, 0.25 left" in text
    assert "analyst bob: epsilon: 1 of 1.25 spent, 0.25 left" in str(curator.budget(analyst="bob"))
    assert [entry.analyst for entry in curator.history()] == ["alice", "bob"]
    assert [entry.analyst for entry in curator.history(analyst="bob")] == ["bob"]
    # A repeat costs nothing, also for an analyst who has nothing left.
    assert curator.sql(COUNT, epsilon="1", analyst="alice").charge.amounts == ()
    curator.ledger.revoke_analyst("alice", reason="left")
    with pytest.raises(AccessError):
        curator.sql(COUNT, epsilon="0.01", analyst="alice")


def test_a_failing_ledger_stops_the_curator(caplog: pytest.LogCaptureFixture) -> None:
    curator, engine = open_clinic()
    ledger = curator.ledger
    append, broken = ledger.journal.store.append, [False]

    def failing(step: Any) -> Any:
        if broken[0]:
            raise StorageError("the disk /secret/place is full")
        return append(step)

    ledger.journal.store.append = failing  # type: ignore[method-assign]
    curator.sql(COUNT, epsilon="0.5")
    broken[0] = True
    with caplog.at_level(logging.ERROR, "tacit.operator"), pytest.raises(LedgerError) as caught:
        curator.sql(COUNT, epsilon="0.25")
    assert "secret" not in str(caught.value)
    assert "/secret/place is full" in caplog.text
    assert engine.measured == 1
    broken[0] = False
    for call in (lambda: curator.sql(COUNT, epsilon="0.5"), curator.budget, curator.history):
        with pytest.raises(LedgerError):
            call()
    assert engine.measured == 1


def test_a_ledger_without_its_keys_is_not_given_new_ones(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "a.ledger"
    open_clinic(place)[0].close()
    key = place.with_name("a.ledger.key")
    kept = key.read_bytes()
    key.unlink()
    with pytest.raises(InputError, match="restore it from your backup"):
        open_clinic(place)
    open_clinic(tmp_path / "b.ledger")[0].close()
    key.write_bytes((tmp_path / "b.ledger.key").read_bytes())
    key.chmod(0o600)
    with pytest.raises(InputError, match="keys of another ledger"):
        open_clinic(place)
    # The group secret alone: a curator with another one would keep other groups of a unit than the answers before.
    mixed = {**json.loads(kept), "groups": json.loads((tmp_path / "b.ledger.key").read_bytes())["groups"]}
    key.write_text(json.dumps(mixed))
    with pytest.raises(InputError, match="another group secret than its answers were made with; restore the file"):
        open_clinic(place)
    key.write_bytes(kept)
    curator, _ = open_clinic(place)
    with curator:
        assert curator.ledger.public_key == curator.public_key
