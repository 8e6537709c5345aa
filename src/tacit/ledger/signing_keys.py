"""Signing keys of receipts: signatures, and the succession of keys recorded in the chain.

The first entry names the first key. An entry of kind ``key`` names the key it replaces and the next one, and both keys
have signed it. By the old key's signature, a reader who trusts the old key can trust the new one. By the new key's
signature, a reader who trusts the new key knows the keys of older receipts, and only its holder can bring it in. Where
the old key was lost, its signature is missing from the entry for good.

A key is replaced once: the entry claims the name of its successor. A commit with a signature names its key and is
refused if that name is taken, so no receipt gets into the chain with a key that was replaced before.
"""

from __future__ import annotations

import hashlib
from typing import Final

from tacit.core.errors import InputError
from tacit.ledger.entries import canonical, check_text, successor_name
from tacit.ledger.errors import ConflictError, StorageError
from tacit.ledger.journal import Journal, read_body
from tacit.ledger.protocol import Appended
from tacit.ledger.records import Succession

PREFIX: Final = "ed25519:"
_BYTES: Final = 32
#: Distinguishes the succession of keys from other texts that a key signs.
_PURPOSE: Final = b"tacit succession of keys 1\n"


def succession_text(ledger: str, previous: str, public_key: str) -> bytes:
    """Return the text that both keys sign when one replaces the other."""
    return _PURPOSE + canonical({"ledger": ledger, "previous": previous, "public_key": public_key}).encode()


def key_id(public_key: str) -> str:
    """Return a short identifier of a public key: 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(public_bytes(public_key)).hexdigest()[:16]


def is_signed(message: bytes, signature: str, public_key: str) -> bool:
    """Return whether the owner of a public key signed a message."""
    # Imported only when a signature is checked: a ledger whose key never changed does not need it to charge.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_bytes(public_key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_bytes(public_key: str) -> bytes:
    """Return the bytes of a public key.

    Raises:
        InputError: the text is not a public key.
    """
    try:
        raw = bytes.fromhex(public_key.strip().removeprefix(PREFIX))
    except (ValueError, AttributeError):
        raw = b""
    if len(raw) != _BYTES:
        raise InputError("public_key", "must be 'ed25519:' and 64 hexadecimal digits")
    return raw


class SigningKeys:
    """The signing keys of one ledger."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._successions: tuple[Succession, ...] = ()
        #: The public key that signed the first receipts, as given when the ledger was made.
        self.first = str(journal.opened["public_key"])

    @property
    def in_force(self) -> str:
        """The public key that signs the receipts from here on."""
        found = self.successions()
        return found[-1].public_key if found else self.first

    @property
    def check(self) -> str:
        """Check value of the ledger's other secrets: given when the ledger was made, or when they were last lost."""
        told = [str(self._journal.opened.get("key_check", "")), *(each.key_check for each in self.successions())]
        return next(filter(None, reversed(told)), "")

    def successions(self) -> tuple[Succession, ...]:
        """Return all replacements of a key, in order. They never change, so only new ones are read."""
        with self._journal.working():
            found = list(self._successions)
            used = {self.first, *(each.public_key for each in found)}
            key = found[-1].public_key if found else self.first
            while (seq := self._journal.find(successor_name(key))) is not None:
                body = read_body(self._journal.store, seq)
                if body["kind"] != "key" or body["previous"] != key or body["public_key"] in used:
                    raise StorageError(f"entry {seq} does not replace the key {key}")
                names = ("time", "public_key", "signature", "accepted", "operator", "reason")
                words = {name: body[name] for name in names}
                found.append(Succession(seq, previous=key, key_check=body.get("key_check", ""), **words))
                key = body["public_key"]
                used.add(key)
            self._successions = tuple(found)
            return self._successions

    def replace(
        self,
        public_key: str,
        *,
        previous: str,
        signature: str,
        accepted: str,
        operator: str,
        reason: str,
        key_check: str = "",
    ) -> Succession:
        """Replace the signing key for good.

        Args:
            public_key: the new key, which was never used here before.
            previous: the key in force.
            signature: signature of :func:`succession_text` by ``previous``; empty if that key was lost.
            accepted: signature of the same text by ``public_key``.
            operator: the operator who replaces the key.
            reason: the operator's reason.
            key_check: check value of the other secrets from here on, if they were lost along with the key.

        Raises:
            InputError: a signature does not hold, or the key cannot be the successor.
            ConflictError: the key has been replaced already; nothing was changed.
        """
        text = succession_text(self._journal.id, previous, public_key)
        words = {"operator": check_text(operator, "operator"), "reason": check_text(reason, "reason")}
        if not is_signed(text, accepted, public_key) or (signature and not is_signed(text, signature, previous)):
            raise InputError("signature", "a key follows another one by the signature of both")
        if signature and key_check:
            raise InputError("key_check", "the other secrets stay as they are while the key is there to hand over")
        if public_key in {previous, self.first, *(each.public_key for each in self.successions())}:
            raise InputError("public_key", "was used in this ledger before; make a fresh one")
        body = {
            "kind": "key", "previous": previous, "public_key": public_key, "signature": signature,
            "accepted": accepted, **words, **({"key_check": key_check} if key_check else {}),
        }  # fmt: skip
        with self._journal.working():
            if self.in_force != previous or not isinstance(self._journal.write(body), Appended):
                raise ConflictError("key", "was replaced by another process meanwhile; nothing was changed")
        return self.successions()[-1]
