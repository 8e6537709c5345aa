"""What an account was charged outlasts restores, adoptions and copies, and each check objects where it should."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tacit.accounting.filters import PureFilter
from tacit.client.account_responses import seen_text
from tacit.client.http_client import TrustError
from tacit.client.trust import Witness, head_text
from tacit.core.errors import TacitError
from tacit.core.guarantees import PureDP
from tacit.ledger import ConflictError, Ledger, Order, Reservation
from tacit.ledger.memory import MEMORY

_ALL = Order("people", PureDP(1))


def _open(folder: Path) -> Ledger:
    ledger = Ledger.open(folder / "book" / "ledger", anchor=folder / "anchor")
    ledger.ensure_account("people", PureFilter(epsilon=1))
    return ledger


def _spent(folder: Path, *, backup: bool = True) -> None:
    """A ledger whose budget is spent, and a backup from before."""
    _open(folder).close()
    if backup:
        shutil.copytree(folder / "book", folder / "backup")
    with _open(folder) as ledger:
        ledger.reserve(_ALL)


def _restore(folder: Path) -> None:
    shutil.rmtree(folder / "book")
    shutil.copytree(folder / "backup", folder / "book")


def _admits(ledger: Ledger) -> bool:
    try:
        return isinstance(ledger.reserve(_ALL), Reservation)
    except TacitError:
        return False


def _put_back(folder: Path) -> str:
    _spent(folder)
    _restore(folder)
    try:
        with _open(folder) as ledger:
            return "an old copy was opened" + (", and admitted a charge again" if _admits(ledger) else "")
    except TacitError:
        return ""


def _adopt(folder: Path) -> Ledger:
    return Ledger.adopt(folder / "book" / "ledger", anchor=folder / "anchor", reason="an audit", operator="audit")


def _adopted(folder: Path) -> str:
    _spent(folder)
    _restore(folder)
    with _adopt(folder) as ledger:
        if _admits(ledger):
            return "an adopted backup admitted what had been spent"
        kinds = [each.kind for each in ledger.verify().overrides]
    return "" if kinds == ["lost", "adopted"] else f"verifying shows {kinds} instead of the loss and the adoption"


def _begun_anew(folder: Path) -> str:
    _spent(folder, backup=False)
    shutil.rmtree(folder / "book")
    with _adopt(folder) as ledger:
        ledger.ensure_account("people", PureFilter(epsilon=1))
        return "a ledger begun anew admitted what had been spent" if _admits(ledger) else ""


def _forked(_: Path) -> str:
    with Ledger.open(MEMORY) as ledger:
        ledger.ensure_account("people", PureFilter(epsilon=1))
        pid = os.fork()
        if pid == 0:
            admitted = True
            try:
                admitted = _admits(ledger)
            finally:
                os._exit(1 if admitted else 0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return "a forked child charged a copy of the account" if status else ""


def _machine(folder: Path) -> str:
    """Ledger and anchor are put back together; the client keeps what it saw."""
    _open(folder).close()
    for part in ("book", "anchor"):
        place = folder / part
        (shutil.copytree if place.is_dir() else shutil.copy)(place, folder / f"saved-{part}")
    with _open(folder) as ledger:
        held: Any = ledger.reserve(_ALL)
        ident, seen = ledger.id, ledger.head
    witness = _witness(folder, ident)
    witness.advance(seen, held.previous, lambda _: True)
    shutil.rmtree(folder / "book")
    shutil.copytree(folder / "saved-book", folder / "book")
    shutil.copy(folder / "saved-anchor", folder / "anchor")
    with _open(folder) as ledger:
        try:
            seen_text(ledger, head_text(_witness(folder, ident).known))
        except (ConflictError, TrustError):
            return ""
    return "a client that had seen a newer entry was not refused"


def _witness(folder: Path, ledger: str) -> Witness:
    return Witness("the server", ledger, lasting=True, folder=folder / "client")


#: What is done to a folder with a spent ledger; each returns what is wrong, or nothing.
WORKS: dict[str, Callable[[Path], str]] = {
    "a backup put back": _put_back,
    "a backup adopted": _adopted,
    "a deleted ledger begun anew": _begun_anew,
    "an account in memory, copied by a fork": _forked,
    "a machine put back whole, seen by a client": _machine,
}


@pytest.mark.parametrize("name", WORKS)
def test_the_account_forgets_nothing(name: str, tmp_path: Path) -> None:
    assert WORKS[name](tmp_path) == ""


BROKEN: dict[str, tuple[str, Callable[..., Any]]] = {
    "a backup put back": ("tacit.ledger.opening.check_anchor", lambda *_: None),
    "a backup adopted": ("tacit.ledger.opening.missing_entries", lambda *_: False),
    "a deleted ledger begun anew": ("tacit.ledger.opening.missing_entries", lambda *_: False),
    "an account in memory, copied by a fork": ("tacit.ledger.memory.os.getpid", lambda: 1),
    "a machine put back whole, seen by a client": (
        f"{__name__}.seen_text", lambda ledger, said: said,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_each_check_objects_where_it_should(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    target, broken = BROKEN[name]
    monkeypatch.setattr(target, broken)
    if name == "a backup put back":
        monkeypatch.setattr("tacit.ledger.journal.Journal.remember", lambda *_: None)
    assert WORKS[name](tmp_path)
