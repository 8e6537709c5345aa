"""A ledger and what lies beside it: the keys that sign its receipts, and the digests of files seen before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit.core.errors import InputError
from tacit.curator.fingerprints import Digests
from tacit.curator.keys import Keys, make_keys, open_keys
from tacit.ledger import Ledger
from tacit.ledger.memory import MEMORY

__all__ = ["OpenedLedger", "open_ledger"]


@dataclass(frozen=True)
class OpenedLedger:
    """An open ledger with its keys."""

    ledger: Ledger
    keys: Keys
    digests: Digests


def open_ledger(place: str, *, anchor: str | None = None, key: str | None = None) -> OpenedLedger:
    """Open a ledger, or make one.

    Args:
        place: a file, ``postgresql://…``, or ``":memory:"``.
        anchor: the file that remembers the newest entry; see :meth:`tacit.ledger.Ledger.open`.
        key: the file with the keys; beside the ledger unless said.

    Raises:
        InputError: the keys are missing, or are those of another ledger.
        LedgerError: the ledger cannot be trusted.
    """
    if place == MEMORY:
        keys = make_keys()
        ledger = Ledger.open(MEMORY, public_key=keys.public_key, key_check=keys.groups_check)
        return OpenedLedger(ledger, keys, Digests())
    remote = "://" in place
    if not remote:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    beside = key or ("tacit.key" if remote else f"{place}.key")
    # A ledger without its keys is not given new ones: receipts would be signed by somebody else from then on.
    keys = open_keys(beside, make=remote or not Path(place).exists())
    ledger = Ledger.open(place, anchor=anchor, public_key=keys.public_key, key_check=keys.groups_check)
    problem = _mismatch(ledger, keys)
    if problem:
        ledger.close()
        raise InputError("key", f"{beside} holds {problem}; restore the file that belongs to {ledger.place}")
    return OpenedLedger(ledger, keys, Digests(f"{beside}.digests" if remote else f"{place}.digests"))


def _mismatch(ledger: Ledger, keys: Keys) -> str:
    """What in a key file is not the ledger's."""
    if ledger.public_key != keys.public_key:
        return "the keys of another ledger"
    # With another group secret a unit would keep other groups than before: the same question, one more look at it.
    if ledger.key_check and ledger.key_check != keys.groups_check:
        return "the ledger's signing key, but another group secret than its answers were made with"
    return ""
