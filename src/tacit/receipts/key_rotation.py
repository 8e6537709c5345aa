"""Rotation of the signing key.

1. The new key is written to a file of its own, with the same group secret. The ledger knows nothing of it yet.
2. The ledger gets an entry that names both keys, signed by both. From here on the new key is in force.
3. The new file takes the place of the old one.

A process that dies between 1 and 2 leaves an unused file; between 2 and 3, a key that the next opening of the
ledger finds by its name and puts in place. At every moment the key in force is in a file that an opening finds.

A key that was lost cannot sign. Then an operator names the next one alone, and that stays to be seen: a client that
trusted the old key does not follow by itself. If the group secret was lost with it, a fresh one is made. The promise
to every person holds with any; but a unit may count in other groups than before, and files that the ledger knew by
their content are new to it, so that only their owner's word says whose they are.
"""

from __future__ import annotations

from pathlib import Path

from tacit.core.errors import InputError
from tacit.ledger import ConflictError, Ledger, Succession
from tacit.ledger.signing_keys import succession_text
from tacit.receipts.keys import Keys, keys_in_force, make_keys, open_keys, put_in_place, write_waiting


def rotate_key(ledger: Ledger, place: str | Path, *, reason: str, operator: str, lost: bool = False) -> Succession:
    """Replace the key that signs receipts, for good.

    ``lost`` says that the key in force cannot sign; the group secret is kept if an older key file still has it.

    Raises:
        InputError: the key file is missing or not the ledger's; or ``lost``, and the key is there.
        ConflictError: another process has replaced the key meanwhile.
    """
    path, previous = Path(place), ledger.public_key
    if not previous:
        raise InputError("key", "there is none: the ledger was made without one, and nothing in it is signed")
    old = None if lost else keys_in_force(ledger, path)
    known = old or _what_is_left(ledger, path)
    new = make_keys() if known is None else known.with_fresh_signing()
    text = succession_text(ledger.id, previous, new.public_key)
    waiting = write_waiting(path, new)
    try:
        done = ledger.keys.replace(
            new.public_key,
            previous=previous,
            signature="" if old is None else old.sign(text),
            accepted=new.sign(text),
            operator=operator,
            reason=reason,
            key_check=new.groups_check if known is None else "",
        )
    except (ConflictError, InputError):
        # Only here is it certain that the ledger does not know the key.
        waiting.unlink()
        raise
    put_in_place(path, new.public_key)
    return done


def _what_is_left(ledger: Ledger, place: Path) -> Keys | None:
    """An older key file, for its group secret; None where there is no file any more."""
    try:
        keys_in_force(ledger, place)
    except InputError:
        if not place.exists():
            return None
    else:
        raise InputError("lost", f"the key is in {place}: leave --lost out, so that clients that trust it can follow")
    keys = open_keys(place, make=False)
    if ledger.key_check and ledger.key_check != keys.groups_check:
        raise InputError(
            "key",
            f"{place} holds another group secret than the answers in {ledger.place} were made with; restore an older "
            f"file that belongs to it, or move this one away if there is none",
        )
    return keys
