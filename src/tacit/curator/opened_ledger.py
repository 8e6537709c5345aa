"""Open ledger with its keys and source digests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tacit.core.errors import InputError
from tacit.ledger import Ledger
from tacit.ledger.memory import MEMORY
from tacit.project.fingerprints import Digests
from tacit.receipts.keyring import Keyring, keys_in_force
from tacit.receipts.keys import Keys, has_waiting, make_keys, missing_keys, open_keys

__all__ = ["OpenedLedger", "open_ledger"]


@dataclass(frozen=True)
class OpenedLedger:
    """An open ledger with its keys."""

    ledger: Ledger
    keys: Keyring
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
        return OpenedLedger(ledger, Keyring(keys), Digests(key=keys.row_secret))
    remote = "://" in place
    if not remote:
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    beside = key or ("tacit.key" if remote else f"{place}.key")
    fresh = not Path(beside).exists()
    made = _first_keys(beside, make=remote or not Path(place).exists())
    public_key, key_check = ("", "") if made is None else (made.public_key, made.groups_check)
    try:
        ledger = Ledger.open(place, anchor=anchor, create=made is not None, public_key=public_key, key_check=key_check)
    except BaseException:
        if fresh and made is not None and not remote and not Path(place).exists():
            # Made for a ledger that does not come to be.
            Path(beside).unlink(missing_ok=True)
        raise
    try:
        keys = keys_in_force(ledger, Path(beside))
    except InputError:
        ledger.close()
        if fresh and made is not None:
            # The ledger was there before, and these keys, made a moment ago, are of no use to it.
            Path(beside).unlink(missing_ok=True)
            raise missing_keys(beside) from None
        raise
    digests = Digests(f"{beside}.digests" if remote else f"{place}.digests", keys.row_secret)
    return OpenedLedger(ledger, Keyring(keys, Path(beside)), digests)


def _first_keys(place: str, *, make: bool) -> Keys | None:
    """The keys for the first entry of a new ledger, or those that are there.

    A ledger without its keys is not given new ones: receipts would be signed by somebody else from then on. None where
    only keys are left that wait for the place of lost ones; the ledger will say which it knows.
    """
    try:
        return open_keys(place, make=make)
    except InputError:
        if Path(place).exists() or not has_waiting(Path(place)):
            raise
        return None
