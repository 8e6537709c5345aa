"""Self-audit of the ledger: restores, copies and adoption.

Each check spends a whole budget, does what it takes to lose the memory of that, and asks again. It objects if anything
more is admitted, or if what an operator did is not shown. Part of the standing self-audit.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tacit.accounting.filters import PureFilter
from tacit.audit.checks import AuditCheck, Verdict
from tacit.client.account_responses import seen_text
from tacit.client.client_errors import TrustError
from tacit.client.ledger_witness import Witness, head_text
from tacit.core.errors import TacitError
from tacit.core.guarantees import PureDP
from tacit.ledger import ConflictError, Ledger, Order, Reservation
from tacit.ledger.memory import MEMORY

_ALL = Order("people", PureDP(1))
#: By turns: what is done, and what it does to a folder with a spent ledger; returns what is wrong, or nothing.
_Work = Callable[[Path], str]


def ledger_checks() -> Iterator[AuditCheck]:
    """A backup put back, a backup adopted, a deleted ledger, a copy in a child, a whole machine put back."""
    works: dict[str, _Work] = {
        "a backup put back": _put_back,
        "a backup adopted": _adopted,
        "a deleted ledger begun anew": _begun_anew,
        "an account in memory, copied by a fork": _forked,
        "a machine put back whole, seen by a client": _machine,
    }
    for name, work in works.items():
        yield AuditCheck(f"the account after {name}", "ledger", lambda work=work: _judged(work))  # type: ignore[misc]


def _judged(work: _Work) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="tacit-audit-") as folder:
        problem = work(Path(folder))
    return Verdict(bool(problem), problem or "nothing more was admitted, and every override is shown", None)


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
