"""Keyring: the signing keys of an open ledger.

While a process runs, an operator may replace the key in another one. The ledger refuses whatever is signed with the old
one from then on; so the process looks for the new one in the key file, and goes on with it. Where it is not there, as
on another machine with a key file of its own, nothing more is charged until it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tacit.core.errors import InputError, InternalError
from tacit.ledger import Ledger, Outcome, ReplacedKeyError, Reservation
from tacit.receipts.keys import Keys, key_id, open_keys, put_in_place, waiting_place
from tacit.receipts.receipt import Receipt

__all__ = ["Keyring", "commit_signed", "key_of", "keys_in_force", "mismatch"]


class Keyring:
    """The keys of a ledger as they are now. Safe to use from several threads.

    Args:
        keys: those in force.
        place: the key file; None for keys that last as long as the process.
    """

    def __init__(self, keys: Keys, place: Path | None = None) -> None:
        self._keys = keys
        self._place = place
        self._missing = False

    @property
    def public_key(self) -> str:
        """Public key that checks receipts signed now."""
        return self._keys.public_key

    @property
    def known(self) -> Keys:
        """The keys that were in force when it was last looked."""
        return self._keys

    def group_secret(self, population: str) -> bytes:
        """See :meth:`tacit.receipts.keys.Keys.group_secret`."""
        return self._keys.group_secret(population)

    def veil(self, mark: str) -> str:
        """See :meth:`tacit.receipts.keys.Keys.veil`."""
        return self._keys.veil(mark)

    def check(self, ledger: Ledger) -> None:
        """Refuse, before anything is charged, where the next key was looked for and is still not here."""
        if self._missing:
            self.current(ledger)

    def current(self, ledger: Ledger) -> Keys:
        """The keys in force; looked for where they are not those that were in force before.

        Raises:
            InternalError: they are not here. Operators see where they should be.
        """
        if ledger.public_key != self._keys.public_key:
            try:
                if self._place is None:
                    raise InputError("key", "was replaced in a ledger that lasts as long as the process")
                found = keys_in_force(ledger, self._place)
                if found.groups != self._keys.groups:
                    raise InputError("key", "the group secret was lost and is another one now; open the project anew")
                self._keys = found
            except InputError as problem:
                self._missing = True
                raise InternalError(str(problem)) from problem
        self._missing = False
        return self._keys


def keys_in_force(ledger: Ledger, place: Path) -> Keys:
    """The keys in a file, if they are the ledger's.

    A key that the ledger knows gets its place, where it still waits because the process that replaced the old one died.

    Raises:
        InputError: they are missing, or are not the ledger's.
    """
    wanted, where = ledger.public_key, place
    if wanted:
        try:
            put_in_place(place, wanted)
        except OSError:
            where = waiting_place(place, wanted)  # Another process may move it; it can be read where it is.
    keys = open_keys(where, make=False)
    problem = mismatch(ledger, keys)
    if problem:
        raise InputError("key", f"{place} holds {problem}")
    return keys


def mismatch(ledger: Ledger, keys: Keys) -> str:
    """Part of a key file that is not the ledger's, and what to do."""
    restore = f"restore the file that belongs to {ledger.place}"
    if ledger.public_key != keys.public_key:
        after = next((each for each in ledger.successions() if each.previous == keys.public_key), None)
        if after is None:
            return f"the keys of another ledger; {restore}"
        return (
            f"a key that was replaced at entry {after.seq} of {ledger.place}; bring the key file from where that was "
            f"done, or, if it is lost, see `tacit ledger rotate-key --lost`"
        )
    # With another group secret a unit would keep other groups than before: the same question, one more look at it.
    if ledger.key_check and ledger.key_check != keys.groups_check:
        return f"the ledger's signing key, but another group secret than its answers were made with; {restore}"
    return ""


def key_of(ledger: Ledger, receipt: Receipt) -> str:
    """The public key that a receipt of a ledger has to be signed with.

    That is the key that was in force when its release was kept. A repeat gets a receipt in the caller's own words,
    signed with the key that is in force by then; so a later one will do, if the receipt names it. One that had been
    replaced before will not.
    """
    said = receipt.statement.get("ledger")
    position = said.get("position") if isinstance(said, dict) else None
    successions = ledger.successions()
    if not successions or not isinstance(position, int) or not 0 < position < 2**62:
        return ledger.public_key
    kept = ledger.outcome(position)
    since = position if kept is None else kept.seq
    later = [each for each in successions if each.seq > since]
    keys = [*(each.previous for each in later), ledger.public_key]
    return next((key for key in keys if key_id(key) == receipt.statement.get("key")), keys[0])


def commit_signed(
    keyring: Keyring,
    ledger: Ledger,
    reservation: Reservation,
    result: str,
    receipt: Callable[[Keys], Receipt],
) -> Outcome:
    """Make an outcome durable with its receipt, signed with the key in force at its place in the ledger.

    Args:
        keyring: the keys.
        ledger: where it is kept.
        reservation: what paid for it.
        result: what was released.
        receipt: makes the receipt, given the keys that sign it.
    """
    keys = keyring.known
    while True:
        made = receipt(keys).to_json().encode()
        try:
            return ledger.commit(reservation, result.encode(), receipt=made, key=keys.public_key)
        except ReplacedKeyError:
            keys = keyring.current(ledger)
