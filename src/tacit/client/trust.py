"""Trust in a server: its keys and their succession, the key that was pinned, the newest entry that was seen.

*Identity.* A server shows every key that it has replaced. A client that trusts an older key follows the chain of
signatures to the current one; a client that trusts the current key accepts the predecessors that this key has signed,
which older receipts need. A lost key has signed no successor, so trust in it does not extend to later keys.

*Pins.* A pin is a small file in the user's state folder, one for an address and one for a ledger. The first connection
writes both; each later one must find the same ledger, and the same key or one that the pinned key has signed as
its successor. Then the pin moves to the new key, so that a later thief of the old key cannot use it. A pin is replaced
for no other reason: a user who knows that the key was changed in another way deletes the file that the error names, or
states the new key.

*Witness of the newest entry.* A server's own anchor lies on the server. A machine that is restored as a whole, from a
snapshot or a backup, has an old ledger and an equally old anchor, and cannot detect that charges are missing.
A client can: it keeps its own anchor (:mod:`tacit.ledger.anchor`), one for each ledger, in the user's state
folder. Every query names the entry that is remembered, in the header ``Tacit-Seen``. The server refuses, before
anything is charged, if its ledger does not hold that entry; otherwise it returns the hash it has at that position. The
anchor then moves to the entry of the receipt, but never to a ledger that was not shown to hold the remembered entry.

Where the folder cannot be written, and the key was stated, the entry is remembered for as long as the connection lasts.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tacit.client.account_responses import HandoverResponse, KeyResponse
from tacit.client.http_client import RemoteError, TrustError, parsing
from tacit.ledger.anchor import Anchor, AnchorFile, state_folder
from tacit.ledger.errors import StorageError
from tacit.ledger.memory import MemoryAnchor
from tacit.ledger.protocol import GENESIS, Head, OtherHistoryError, RecentHeads
from tacit.ledger.signing_keys import PREFIX, is_signed, key_id, public_bytes, succession_text
from tacit.noise import entropy

#: The most keys that a server may state.
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a server: ledger id, key that signs receipts, stated older keys, and newest entry."""

    ledger: str
    public_key: str
    handovers: tuple[HandoverResponse, ...] = field(default=(), compare=False)
    head: Head = field(default=GENESIS, compare=False)


def identity_of(content: dict[str, Any]) -> Identity:
    """Parse the identity that a server states. Nothing of it is trusted yet."""
    with parsing("the identity"):
        said = KeyResponse.read(content)
    if not said.ledger.isalnum() or len(said.ledger) > 128 or len(said.successions) > _MOST:
        raise RemoteError("the identity that the server sent names no ledger, or too many keys")
    key_id(said.public_key)  # Raises if it is none.
    return Identity(said.ledger, said.public_key, tuple(said.successions), said.head.to_domain())


def why_not_followed(trusted: str, found: Identity) -> str:
    """Explain why the signatures do not lead from the trusted key to the current one; empty if they do."""
    followed_by = {each.previous: each for each in found.handovers}
    key = trusted
    while key != found.public_key:
        # Removed, so that a circle of keys ends.
        each = followed_by.pop(key, None)
        if each is None:
            return f"nothing shows that another key follows {key}"
        if not each.signature:
            return f"the key {key} was lost and replaced by {each.public_key} without its signature"
        if not is_signed(succession_text(found.ledger, key, each.public_key), each.signature, key):
            return f"the signature that is to show that {each.public_key} follows {key} does not hold"
        key = each.public_key
    return ""


def own_keys(found: Identity) -> dict[str, str]:
    """Return {short name: key} of the current key and of its predecessors, as far back as each key accepts them."""
    preceded_by = {each.public_key: each for each in found.handovers}
    key, keys = found.public_key, {key_id(found.public_key): found.public_key}
    while (each := preceded_by.pop(key, None)) is not None:
        if not is_signed(succession_text(found.ledger, each.previous, key), each.accepted, key):
            break
        key = each.previous
        keys[key_id(key)] = key
    return keys


_PINS: Final = "servers"


def pin(url: str, found: Identity, public_key: str | None) -> None:
    """Check the identity of a server against the stated key, or else against the pin for its address.

    Raises:
        TrustError: it is another server.
    """
    if public_key is not None:
        problem = why_not_followed(PREFIX + public_bytes(public_key).hex(), found)
        if problem:
            raise TrustError(
                f"{url} signs with the key {found.public_key}, not with the one stated: {problem}. Ask its owner, and "
                f"state the new key if it was changed on purpose"
            )
        return
    address = hashlib.sha256(url.encode()).hexdigest()[:32]
    for name in (f"address-{address}.json", f"ledger-{found.ledger}.json"):
        place = state_folder() / _PINS / name
        known = _known(place) or _remember(place, url, found, replace=False)
        if known == found:
            continue
        problem = why_not_followed(known.public_key, found) if known.ledger == found.ledger else "it is another ledger"
        if problem:
            raise TrustError(
                f"{url} was known by ledger {known.ledger[:16]} and key {known.public_key}, and now answers as ledger "
                f"{found.ledger[:16]} with key {found.public_key}: {problem}. Ask its owner; if it was changed on "
                f"purpose, delete {place} or state public_key"
            )
        _remember(place, url, found, replace=True)


def _known(place: Path) -> Identity | None:
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        return Identity(str(content["ledger"]), str(content["public_key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise TrustError(f"the pin {place} cannot be read ({problem}); delete it if you trust the server") from None


def _remember(place: Path, url: str, found: Identity, *, replace: bool) -> Identity:
    """Write a pin and return the valid one: without ``replace``, an existing pin takes precedence."""
    text = json.dumps({"url": url, "ledger": found.ledger, "public_key": found.public_key}) + "\n"
    draft = place.with_name(f".{entropy.current().bits(64):016x}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            if replace:
                draft.replace(place)
            else:
                os.link(draft, place)
        except FileExistsError:
            return _known(place) or found
        finally:
            draft.unlink(missing_ok=True)
    except OSError as problem:
        raise TrustError(
            f"the server's key cannot be remembered in {place} ({problem.strerror}); state public_key instead"
        ) from None
    return found


#: The header that names an entry: ``17:5f…``.
SEEN: Final = "Tacit-Seen"
_WITNESSES: Final = "witnesses"


def head_text(head: Head) -> str:
    """Return an entry in the format of the header."""
    return f"{head.seq}:{head.hash}"


class Witness:
    """Persistent memory of the newest entry of one ledger. Safe for several threads and processes.

    Args:
        lasting: whether a folder that cannot be written is an error.
        folder: folder of the anchor; by default in the user's state folder.
    """

    def __init__(self, url: str, ledger: str, *, lasting: bool, folder: Path | None = None) -> None:
        self._url = url
        self._path = (folder or state_folder() / _WITNESSES) / f"{ledger}.anchor"
        self._anchor: Anchor = AnchorFile(self._path)
        try:
            try:
                self._anchor.begin(ledger)
            except StorageError:
                # An existing anchor is used, whether or not it can be written.
                if lasting or self._path.exists() or os.access(self._path.parent, os.W_OK):
                    raise
                self._anchor = MemoryAnchor()
                self._anchor.begin(ledger)
            self._anchor.use(ledger)
            mark = self._anchor.of(ledger)
        except StorageError as problem:
            raise TrustError(
                f"the newest entry of {url} cannot be remembered: {problem}; allow writing there, or delete the file "
                f"if you trust the server"
            ) from None
        if mark is None:
            raise TrustError(f"{self._path} speaks of another ledger; delete it if you trust {url}")
        self._known = mark.head
        self._confirmed = ""

    @property
    def known(self) -> Head:
        """Newest entry that was seen; position 0 where none was."""
        return self._known

    @property
    def headers(self) -> dict[str, str]:
        """Request header that names the newest entry."""
        return {SEEN: head_text(self._known)} if self._known.seq else {}

    def check(self, sent: str | None, echoed: str | None) -> None:
        """Compare the entry that a request named with the one that the server's ledger has at that position.

        Raises:
            TrustError: the server has another entry there, or does not state it.
        """
        if sent is None:
            return
        if echoed is None:
            raise TrustError(
                f"{self._url} does not say whether its ledger still holds entry {sent.partition(':')[0]}, which was "
                f"seen before: it is no server of Tacit, or something on the way drops the header {SEEN}"
            )
        if echoed != sent:
            raise self.missing(sent)
        self._confirmed = sent

    def is_confirmed(self, head: Head) -> bool:
        """Return whether the server has just shown that its ledger holds an entry."""
        return self._confirmed == head_text(head)

    def missing(self, sent: str) -> TrustError:
        """Return the error for a ledger that lacks an entry."""
        seq, _, hashed = sent.partition(":")
        return TrustError(
            f"{self._url} does not hold entry {seq} ({hashed[:16]}…) of its ledger, which was seen before: the server "
            f"was put back to an older state, or shows another history. Ask its owner what was lost; if the ledger "
            f"was restored on purpose, delete {self._path}"
        )

    def advance(self, head: Head, previous: str, holds: Callable[[Head], bool]) -> None:
        """Remember an entry if it is newer; ``holds`` tells whether the server's ledger holds a given entry.

        Raises:
            TrustError: the ledger lacks the remembered entry, or the anchor cannot be written.
        """
        if head.seq <= self._known.seq:
            if head.seq == self._known.seq and head.hash != self._known.hash:
                raise self.missing(head_text(self._known))
            return
        try:
            self._anchor.advance(head, RecentHeads.of(head, [previous] if previous else []), holds)
        except OtherHistoryError:
            raise self.missing(head_text(self._known)) from None
        except StorageError as problem:
            raise TrustError(f"the newest entry of {self._url} cannot be remembered: {problem}") from None
        self._known = max(self._known, head, key=lambda each: each.seq)
