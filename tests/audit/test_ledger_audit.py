"""The standing checks of the account: they pass, and each of them objects when what it checks is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit.audit.self_audit import ledger_checks


@pytest.mark.parametrize("check", list(ledger_checks()), ids=lambda check: check.name)
def test_the_account_forgets_nothing(check: Any) -> None:
    verdict = check.run()
    assert not verdict.caught, verdict.words


BROKEN: dict[str, tuple[str, Callable[..., Any]]] = {
    "a backup put back": ("tacit.ledger.opening.check_anchor", lambda *_: None),
    "a backup adopted": ("tacit.ledger.opening.missing_entries", lambda *_: False),
    "a deleted ledger begun anew": ("tacit.ledger.opening.missing_entries", lambda *_: False),
    "an account in memory, copied by a fork": ("tacit.ledger.memory.os.getpid", lambda: 1),
    "a machine put back whole, seen by a client": (
        "tacit.audit.self_audit.seen_text", lambda ledger, said: said,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_objects_where_it_should(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (check,) = [each for each in ledger_checks() if name in each.name]
    target, broken = BROKEN[name]
    monkeypatch.setattr(target, broken)
    if name == "a backup put back":
        monkeypatch.setattr("tacit.ledger.journal.Journal.remember", lambda *_: None)
    assert check.run().caught
