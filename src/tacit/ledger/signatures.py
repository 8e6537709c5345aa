"""Public keys and signatures for verifying a ledger."""

from __future__ import annotations

import hashlib
from typing import Final

from tacit.core.errors import InputError
from tacit.ledger.entries import canonical

__all__ = ["PREFIX", "is_signed", "key_id", "public_bytes", "succession_text"]

PREFIX: Final = "ed25519:"
_BYTES: Final = 32
#: Nothing else that is signed with a key can pass for the succession of another.
_PURPOSE: Final = b"tacit succession of keys 1\n"


def succession_text(ledger: str, previous: str, public_key: str) -> bytes:
    """What both keys sign when one replaces the other."""
    return _PURPOSE + canonical({"ledger": ledger, "previous": previous, "public_key": public_key}).encode()


def key_id(public_key: str) -> str:
    """A short name for a public key."""
    return hashlib.sha256(public_bytes(public_key)).hexdigest()[:16]


def is_signed(message: bytes, signature: str, public_key: str) -> bool:
    """Whether the owner of a public key signed a message."""
    # Loaded when something is checked: a ledger whose key never changed needs none of it to charge.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_bytes(public_key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def public_bytes(public_key: str) -> bytes:
    """The bytes of a public key.

    Raises:
        InputError: it is none.
    """
    try:
        raw = bytes.fromhex(public_key.strip().removeprefix(PREFIX))
    except (ValueError, AttributeError):
        raw = b""
    if len(raw) != _BYTES:
        raise InputError("public_key", "must be 'ed25519:' and 64 hexadecimal digits")
    return raw
