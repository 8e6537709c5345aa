"""Which key a server signs with: as said by its user, or as it was seen the first time.

A pin is a small file in the user's state folder, one for an address and one for a ledger. The first connection writes
both; each later one must find the same key and the same ledger. A pin is never replaced by the program: whoever knows
that the key was changed for a good reason deletes the file that the error names, or states the new key.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tacit.curator.keys import key_id
from tacit.curator.remote.errors import RemoteError, TrustError
from tacit.ledger.anchor import state_folder
from tacit.noise import entropy

__all__ = ["Identity", "identity_of", "pin"]

_FOLDER: Final = "servers"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers: the id of the ledger, and the public key that its receipts are signed with."""

    ledger: str
    public_key: str


def identity_of(content: dict[str, Any]) -> Identity:
    """What a server says about itself."""
    ledger, key = content.get("ledger"), content.get("public_key")
    if not isinstance(ledger, str) or not isinstance(key, str) or not ledger.isalnum() or len(ledger) > 128:
        raise RemoteError("the server does not say which ledger it has and which key it signs with")
    key_id(key)  # Raises if it is none.
    return Identity(ledger, key)


def pin(url: str, found: Identity, public_key: str | None) -> None:
    """Check who answers at an address against the key that was stated, or else against what was seen there before.

    Raises:
        TrustError: it is somebody else.
    """
    if public_key is not None:
        if key_id(public_key) != key_id(found.public_key):
            raise TrustError(f"{url} signs with the key {found.public_key}, not with the one stated")
        return
    address = hashlib.sha256(url.encode()).hexdigest()[:32]
    for name in (f"address-{address}.json", f"ledger-{found.ledger}.json"):
        place = state_folder() / _FOLDER / name
        known = _known(place) or _remember(place, url, found)
        if known != found:
            raise TrustError(
                f"{url} was known by ledger {known.ledger[:16]} and key {known.public_key}, and now answers as ledger "
                f"{found.ledger[:16]} with key {found.public_key}. Ask its owner; if it was changed on purpose, delete "
                f"{place} or state public_key"
            )


def _known(place: Path) -> Identity | None:
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        return Identity(str(content["ledger"]), str(content["public_key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise TrustError(f"the pin {place} cannot be read ({problem}); delete it if you trust the server") from None


def _remember(place: Path, url: str, found: Identity) -> Identity:
    """Write a pin; where another process was faster, the one that it wrote counts."""
    text = json.dumps({"url": url, "ledger": found.ledger, "public_key": found.public_key}) + "\n"
    draft = place.with_name(f".{entropy.current().bits(64):016x}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.link(draft, place)
        except FileExistsError:
            return _known(place) or found
        finally:
            draft.unlink()
    except OSError as problem:
        raise TrustError(
            f"the server's key cannot be remembered in {place} ({problem.strerror}); state public_key instead"
        ) from None
    return found
