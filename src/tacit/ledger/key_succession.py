"""Succession of signing keys recorded in the chain.

The first entry names the first key. An entry of kind ``key`` names the key it replaces and the next one, and both have
signed that: the old one says who follows it, so whoever trusts it can follow; the new one says whom it follows, so
whoever trusts *it* knows the keys of older receipts, and nobody can name a key that they do not hold. Where the old key
was lost, its signature is missing, and that stays to be seen.

A key is replaced once: its successor is a name that the entry claims. A commit that is signed names its key and is
barred by that name, so no receipt gets into the chain with a key that was replaced before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tacit.core.errors import InputError
from tacit.ledger.entries import check_text, successor_name
from tacit.ledger.errors import ConflictError
from tacit.ledger.opening import read_body
from tacit.ledger.protocol import Appended, Reader, StorageError
from tacit.ledger.records import Succession
from tacit.ledger.signatures import is_signed, succession_text

if TYPE_CHECKING:
    from tacit.ledger.ledger import Ledger

__all__ = ["follow", "replace_key"]


def follow(reader: Reader, first: str, known: Sequence[Succession] = ()) -> tuple[Succession, ...]:
    """Every replacement of a key from the first one on; ``known`` are those that were followed before."""
    found = list(known)
    used = {first, *(each.public_key for each in found)}
    key = found[-1].public_key if found else first
    while (seq := reader.find(successor_name(key))) is not None:
        body = read_body(reader, seq)
        if body["kind"] != "key" or body["previous"] != key or body["public_key"] in used:
            raise StorageError(f"entry {seq} does not replace the key {key}")
        words = {name: body[name] for name in ("time", "public_key", "signature", "accepted", "operator", "reason")}
        found.append(Succession(seq, previous=key, key_check=body.get("key_check", ""), **words))
        key = body["public_key"]
        used.add(key)
    return tuple(found)


def replace_key(
    ledger: Ledger,
    public_key: str,
    *,
    previous: str,
    signature: str,
    accepted: str,
    operator: str,
    reason: str,
    key_check: str = "",
) -> Succession:
    """Have another key sign from here on, for good.

    Args:
        ledger: the ledger.
        public_key: the new key, which nobody has used here before.
        previous: the key in force.
        signature: of :func:`succession_text` by ``previous``; empty where that was lost.
        accepted: the same by ``public_key``.
        operator: who does this.
        reason: why.
        key_check: recognises the other secrets from here on, where they were lost along with the key.

    Raises:
        InputError: a signature does not hold, or the key cannot follow.
        ConflictError: the key has been replaced already; nothing was changed.
    """
    text = succession_text(ledger.id, previous, public_key)
    words = {"operator": check_text(operator, "operator"), "reason": check_text(reason, "reason")}
    if not is_signed(text, accepted, public_key) or (signature and not is_signed(text, signature, previous)):
        raise InputError("signature", "a key follows another one by the signature of both")
    if signature and key_check:
        raise InputError("key_check", "the other secrets stay as they are while the key is there to hand over")
    if public_key in {previous, ledger.first_key, *(each.public_key for each in ledger.successions())}:
        raise InputError("public_key", "was used in this ledger before; make a fresh one")
    body = {
        "kind": "key", "previous": previous, "public_key": public_key, "signature": signature, "accepted": accepted,
        **words, **({"key_check": key_check} if key_check else {}),
    }  # fmt: skip
    with ledger._working():
        if ledger.public_key != previous or not isinstance(ledger._write(body), Appended):
            raise ConflictError("key", "was replaced by somebody else meanwhile; nothing was changed")
    return ledger.successions()[-1]
