"""Keys of a ledger: signing key and group secret.

Both are made when a ledger is first opened, and lie in one file beside it that only its owner may read. The public half
of the signing key and a check value of the other one are written into the ledger, so that a ledger and a key file that
do not belong together are noticed. For an account in memory they last as long as the process.

The signing key can be replaced (:mod:`tacit.receipts.key_rotation`). The next one then lies in a file of its own, named
after it, until the ledger says that it is the one in force and it gets the place of the old one. The secret that
decides about groups stays the same.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit.core.errors import InputError
from tacit.ledger.entries import plain_name
from tacit.ledger.signing_keys import PREFIX, is_signed, key_id
from tacit.noise import entropy

__all__ = [
    "Keys",
    "has_waiting",
    "is_signed",
    "key_id",
    "make_keys",
    "missing_keys",
    "open_keys",
    "put_in_place",
    "waiting_place",
    "write_waiting",
]

_FORMAT: Final = "tacit-keys"
_VERSION: Final = 1
_BYTES: Final = 32


@dataclass(frozen=True)
class Keys:
    """The secrets of one ledger; neither is ever shown."""

    signing: bytes = field(repr=False)
    groups: bytes = field(repr=False)

    @cached_property
    def public_key(self) -> str:
        """Public key that checks receipts: ``ed25519:`` and 64 hexadecimal digits."""
        return PREFIX + self._private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> str:
        """The signature of a message, in hexadecimal."""
        return self._private.sign(message).hex()

    def group_secret(self, population: str) -> bytes:
        """Decides which groups of a unit are kept, alike in all questions about a population and in all processes."""
        name = plain_name(population, "population")
        return hmac.digest(self.groups, b"tacit groups of\0" + name.encode(), "sha256")

    def veil(self, mark: str) -> str:
        """Keyed digest of a mark: the ledger recognises it again, and a reader of the ledger learns nothing from it."""
        return hmac.digest(self.groups, b"tacit mark\0" + mark.encode(), "sha256").hex()

    @property
    def row_secret(self) -> bytes:
        """With which rows of sources are hashed; see :mod:`tacit.project.fingerprints`."""
        return hmac.digest(self.groups, b"tacit rows of sources\0", "sha256")

    @property
    def groups_check(self) -> str:
        """Tells whether the secret that decides about groups is the same, and nothing about it."""
        return hmac.digest(self.groups, b"tacit check of the group secret\0", "sha256").hex()

    def with_fresh_signing(self) -> Keys:
        """Another key to sign with, and the same secret about groups."""
        return replace(self, signing=_secret())

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)


def make_keys() -> Keys:
    """Fresh secrets."""
    return Keys(_secret(), _secret())


def _secret() -> bytes:
    return entropy.current().bits(8 * _BYTES).to_bytes(_BYTES, "big")


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
        raise missing_keys(place) from None
    except OSError as problem:
        raise InputError("key", f"cannot use the key file {place}: {problem.strerror}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise InputError("key", f"others may read the key file {place}; allow its owner alone: chmod 600")
    return _read(content, place)


def missing_keys(place: str | Path) -> InputError:
    """Error where there is no key file and none may be made."""
    return InputError("key", f"there is no key file {place}; restore it from your backup of the ledger")


def waiting_place(place: Path, public_key: str) -> Path:
    """Where a key lies until it gets the place of the one that it replaces: a place that belongs to it alone."""
    return place.with_name(f"{place.name}.{key_id(public_key)}")


def write_waiting(place: Path, keys: Keys) -> Path:
    """Keep keys, durably, where they wait to become those of a ledger."""
    waiting = waiting_place(place, keys.public_key)
    try:
        _write(waiting, keys)
    except OSError as problem:
        raise InputError("key", f"cannot write the key file {waiting}: {problem.strerror}") from None
    return waiting


def has_waiting(place: Path) -> bool:
    """Whether some key waits for this place."""
    return any(re.fullmatch(r"\.[0-9a-f]{16}", found.suffix) for found in place.parent.glob(f"{place.name}.*"))


def put_in_place(place: Path, public_key: str) -> None:
    """Give a key that waits the place of the one that it has replaced.

    Any number of processes may do this at once: the file is there until the first of them has moved it.
    """
    try:
        waiting_place(place, public_key).replace(place)
    except FileNotFoundError:
        return
    _sync_folder(place.parent)


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
        _sync_folder(place.parent)
    finally:
        draft.unlink()


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
