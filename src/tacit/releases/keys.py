"""Keys of a ledger: signing key and group secret, in a file and while the ledger is open.

Both are made when a ledger is first opened, and are stored in one file next to it that only its owner may read. The
public half of the signing key and a check value of the group secret are written into the ledger, so that a key file of
another ledger is detected. For an account in memory both last as long as the process.

The signing key can be replaced (:func:`rotate_key`). The new key is then stored in a separate file, named after the
key, until the ledger names it as the key in force and the file replaces the old key file. The group secret stays.

While one process runs, an operator may replace the key in another process. From then on the ledger refuses anything
signed with the old key; so the process looks for the new key in the key file and continues with it. Where the new key
is missing, as on another machine with a separate key file, nothing more is charged until it is present.
:class:`Keyring` does that.

*Rotation of the signing key.*

1. The new key is written to a separate file, with the same group secret. The ledger knows nothing of it yet.
2. The ledger gets an entry that names both keys, signed by both. From here on the new key is in force.
3. The new file replaces the old key file.

A process that dies between 1 and 2 leaves an unused file; between 2 and 3, a key file that the next opening of the
ledger finds by its name and moves into place. At every moment the key in force is in a file that an opening finds.

A lost key cannot sign. Then an operator names the new key alone, and the entry shows it: a client that trusted the old
key does not trust the new key automatically. If the group secret was lost as well, a fresh one is made. The privacy
guarantee holds with any secret; but a unit may count in other groups than before, and files that the ledger recognised
by their content are new to it, so that only the owner's declaration says to which population they belong.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit.core.errors import InputError, InternalError
from tacit.ledger import Ledger, Outcome, ReplacedKeyError, Reservation
from tacit.ledger.disk import Disk
from tacit.ledger.entries import plain_name
from tacit.ledger.signing_keys import PREFIX, key_id
from tacit.noise import entropy

if TYPE_CHECKING:
    from tacit.releases.receipt import Receipt


from tacit.ledger import ConflictError, Succession
from tacit.ledger.signing_keys import succession_text

_FORMAT: Final = "tacit-keys"
_VERSION: Final = 1
_BYTES: Final = 32


@dataclass(frozen=True)
class Keys:
    """The secrets of one ledger; neither is ever shown."""

    signing: bytes = field(repr=False)
    groups: bytes = field(repr=False)
    #: Public key that checks receipts: ``ed25519:`` and 64 hexadecimal digits.
    public_key: str = field(init=False, repr=False, compare=False)
    #: Short name of the public key in receipts.
    id: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "public_key", PREFIX + self._private.public_key().public_bytes_raw().hex())
        object.__setattr__(self, "id", key_id(self.public_key))

    def sign(self, message: bytes) -> str:
        """Return the signature of a message, in hexadecimal."""
        return self._private.sign(message).hex()

    def group_secret(self, population: str) -> bytes:
        """Return the seed that chooses the groups of a unit that count, the same in all queries about a population."""
        name = plain_name(population, "population")
        return hmac.digest(self.groups, b"tacit groups of\0" + name.encode(), "sha256")

    def veil(self, mark: str) -> str:
        """Return a keyed digest of a mark: the ledger recognises equal marks, but its reader learns nothing of them."""
        return hmac.digest(self.groups, b"tacit mark\0" + mark.encode(), "sha256").hex()

    @property
    def row_secret(self) -> bytes:
        """Key with which rows of sources are hashed; see :mod:`tacit.project.source`."""
        return hmac.digest(self.groups, b"tacit rows of sources\0", "sha256")

    @property
    def groups_check(self) -> str:
        """Check value of the group secret: equal for equal secrets, and reveals nothing else about it."""
        return hmac.digest(self.groups, b"tacit check of the group secret\0", "sha256").hex()

    def with_fresh_signing(self) -> Keys:
        """Return keys with a fresh signing key and the same group secret."""
        return replace(self, signing=_secret())

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)


def make_keys() -> Keys:
    return Keys(_secret(), _secret())


def _secret() -> bytes:
    return entropy.current().bits(8 * _BYTES).to_bytes(_BYTES, "big")


def open_keys(path: str | Path, *, make: bool = True) -> Keys:
    """Read the keys in a file; where there is none and ``make`` allows it, make them, durably before use.

    Raises:
        InputError: the file is missing, has another format, or is readable by other users.
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
    """Return the error for a missing key file that must not be made anew."""
    return InputError("key", f"there is no key file {place}; restore it from your backup of the ledger")


def waiting_place(place: Path, public_key: str) -> Path:
    """Return the path, unique to a key, of its file until that replaces the old key file."""
    return place.with_name(f"{place.name}.{key_id(public_key)}")


def write_waiting(place: Path, keys: Keys) -> Path:
    """Write keys durably to the file in which they wait to become those of a ledger, and return its path."""
    waiting = waiting_place(place, keys.public_key)
    try:
        _write(waiting, keys)
    except OSError as problem:
        raise InputError("key", f"cannot write the key file {waiting}: {problem.strerror}") from None
    return waiting


def has_waiting(place: Path) -> bool:
    """Return whether a key waits to replace the key file at ``place``."""
    return any(re.fullmatch(r"\.[0-9a-f]{16}", found.suffix) for found in place.parent.glob(f"{place.name}.*"))


def put_in_place(place: Path, public_key: str) -> None:
    """Move the file of a waiting key to the path of the key file that it replaces.

    Any number of processes may do this at once: after the first has moved the file, the others do nothing.
    """
    try:
        waiting_place(place, public_key).replace(place)
    except FileNotFoundError:
        return
    Disk().sync_folder(place.parent)


def _write(place: Path, keys: Keys) -> None:
    """Write a key file atomically: it gets its name once its content is on the disk, and overwrites no other file."""
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
        Disk().sync_folder(place.parent)
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


class Keyring:
    """The keys of a ledger that are in force. Safe to use from several threads.

    Without a key file the keys last as long as the process.
    """

    def __init__(self, keys: Keys, place: Path | None = None) -> None:
        self._keys = keys
        self._place = place
        self._missing = False

    @property
    def public_key(self) -> str:
        """Public key that verifies receipts signed now."""
        return self._keys.public_key

    @property
    def known(self) -> Keys:
        """The keys that were in force at the last check."""
        return self._keys

    def group_secret(self, population: str) -> bytes:
        return self._keys.group_secret(population)

    def veil(self, mark: str) -> str:
        return self._keys.veil(mark)

    def check(self, ledger: Ledger) -> None:
        """Refuse, before anything is charged, if the new key was missing at the last check and still is."""
        if self._missing:
            self.current(ledger)

    def current(self, ledger: Ledger) -> Keys:
        """Return the keys in force; read them from the key file if the ledger's key was replaced.

        Raises:
            InternalError: the new keys are missing. The operator's log names the file.
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
    """Return the keys in a file, if they are the ledger's.

    If the ledger's key still waits in a separate file, because the process that replaced the old key died, that file is
    moved into place first.

    Raises:
        InputError: the keys are missing, or are not the ledger's.
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
    """Return a text that says which part of a key file is not the ledger's, and what to do; empty where all is."""
    restore = f"restore the file that belongs to {ledger.place}"
    if ledger.public_key != keys.public_key:
        after = next((each for each in ledger.successions() if each.previous == keys.public_key), None)
        if after is None:
            return f"the keys of another ledger; {restore}"
        return (
            f"a key that was replaced at entry {after.seq} of {ledger.place}; bring the key file from where that was "
            f"done, or, if it is lost, see `tacit ledger rotate-key --lost`"
        )
    # With another group secret a unit would count in other groups: the same query would release more about it.
    if ledger.keys.check and ledger.keys.check != keys.groups_check:
        return f"the ledger's signing key, but another group secret than its answers were made with; {restore}"
    return ""


def key_of(ledger: Ledger, receipt: Receipt) -> str:
    """Return the public key with which a receipt of a ledger must be signed.

    It is the key that was in force when the release was stored. A repeat gets a receipt with the caller's text of the
    query, signed with the key in force at that time; so a later key is accepted too, if the receipt names it. A key
    replaced before the release was stored is not.
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
    """Commit an outcome durably with its receipt, signed with the key in force at its position in the ledger.

    ``receipt`` returns the receipt signed with the given keys.
    """
    keys = keyring.known
    while True:
        made = receipt(keys).to_json().encode()
        try:
            return ledger.commit(reservation, result.encode(), receipt=made, key=keys.public_key)
        except ReplacedKeyError:
            keys = keyring.current(ledger)


def rotate_key(ledger: Ledger, place: str | Path, *, reason: str, operator: str, lost: bool = False) -> Succession:
    """Replace the key that signs receipts, irreversibly.

    ``lost`` states that the key in force cannot sign; the group secret is kept if an older key file still has it.

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
        # Here it is certain that the ledger does not know the new key.
        waiting.unlink()
        raise
    put_in_place(path, new.public_key)
    return done


def _what_is_left(ledger: Ledger, place: Path) -> Keys | None:
    """Return the keys of an older key file, for its group secret; None where the file is gone."""
    try:
        keys_in_force(ledger, place)
    except InputError:
        if not place.exists():
            return None
    else:
        raise InputError("lost", f"the key is in {place}: leave --lost out, so that clients that trust it can follow")
    keys = open_keys(place, make=False)
    if ledger.keys.check and ledger.keys.check != keys.groups_check:
        raise InputError(
            "key",
            f"{place} holds another group secret than the answers in {ledger.place} were made with; restore an older "
            f"file that belongs to it, or move this one away if there is none",
        )
    return keys
