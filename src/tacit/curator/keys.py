"""The secrets of a ledger: the key that signs receipts, and the one that decides which groups of a unit are kept.

Both are made once, when a ledger is first opened, and lie in one file beside it that only its owner may read. The
public half of the signing key and a check value of the other one are written into the ledger, so that a ledger and a
key file that do not belong together are noticed. For an account in memory they last as long as the process.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tacit.core.errors import InputError
from tacit.ledger.entries import plain_name
from tacit.noise import entropy

__all__ = ["Keys", "is_signed", "key_id", "make_keys", "open_keys"]

_FORMAT: Final = "tacit-keys"
_VERSION: Final = 1
_BYTES: Final = 32
_PREFIX: Final = "ed25519:"


@dataclass(frozen=True)
class Keys:
    """The secrets of one ledger; neither is ever shown."""

    signing: bytes = field(repr=False)
    groups: bytes = field(repr=False)

    @cached_property
    def public_key(self) -> str:
        """What anybody needs to check a receipt: ``ed25519:`` and 64 hexadecimal digits."""
        return _PREFIX + self._private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature of a message, in hexadecimal."""
        return self._private.sign(message).hex()

    def group_secret(self, population: str) -> bytes:
        """Decides which groups of a unit are kept, alike in all questions about a population and in all processes."""
        name = plain_name(population, "population")
        return hmac.digest(self.groups, b"tacit groups of\0" + name.encode(), "sha256")

    def veil(self, mark: str) -> str:
        """A mark that the ledger can recognise again, and that tells whoever reads the ledger nothing about content."""
        return hmac.digest(self.groups, b"tacit mark\0" + mark.encode(), "sha256").hex()

    @property
    def groups_check(self) -> str:
        """Tells whether the secret that decides about groups is the same, and nothing about it."""
        return hmac.digest(self.groups, b"tacit check of the group secret\0", "sha256").hex()

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)


def make_keys() -> Keys:
    """Fresh secrets."""
    return Keys(*(entropy.current().bits(8 * _BYTES).to_bytes(_BYTES, "big") for _ in range(2)))


def open_keys(path: str | Path, *, make: bool = True) -> Keys:
    """The secrets in a file; made, durable before use, where there is none and ``make`` allows it.

    Raises:
        InputError: the file is missing, of another form, or others may read it.
    """
    place = Path(path)
    try:
        if make and not place.exists():
            _write(place, make_keys())
        with place.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read()
    except FileNotFoundError:
        raise InputError("key", f"there is no key file {place}; restore it from your backup of the ledger") from None
    except OSError as problem:
        raise InputError("key", f"cannot use the key file {place}: {problem.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise InputError("key", f"others may read the key file {place}; allow its owner alone: chmod 600")
    return _read(content, place)


def key_id(public_key: str) -> str:
    """A short name for a public key."""
    return hashlib.sha256(_public_bytes(public_key)).hexdigest()[:16]


def is_signed(message: bytes, signature: str, public_key: str) -> bool:
    """Whether the owner of a public key signed a message."""
    try:
        Ed25519PublicKey.from_public_bytes(_public_bytes(public_key)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _public_bytes(public_key: str) -> bytes:
    try:
        raw = bytes.fromhex(public_key.strip().removeprefix(_PREFIX))
    except (ValueError, AttributeError):
        raw = b""
    if len(raw) != _BYTES:
        raise InputError("public_key", "must be 'ed25519:' and 64 hexadecimal digits")
    return raw


def _write(place: Path, keys: Keys) -> None:
    """Whole or not at all: the file gets its name only when its content is on the disk, and never replaces another."""
    text = json.dumps(
        {"format": _FORMAT, "version": _VERSION, "signing": keys.signing.hex(), "groups": keys.groups.hex()}
    )
    draft = place.with_name(f".{place.name}.{entropy.current().bits(64):016x}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(draft, place)
        except FileExistsError:
            return  # Another process was faster: its keys are the ledger's.
        folder = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        draft.unlink()


def _read(content: bytes, place: Path) -> Keys:
    try:
        stored = json.loads(content)
        if (stored["format"], stored["version"]) != (_FORMAT, _VERSION):
            raise ValueError
        keys = Keys(bytes.fromhex(stored["signing"]), bytes.fromhex(stored["groups"]))
        if {len(keys.signing), len(keys.groups)} != {_BYTES}:
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise InputError("key", f"{place} is not a key file of Tacit, or it is damaged") from None
    return keys
