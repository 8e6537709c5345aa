"""Pinned server keys: stated by the user or remembered from the first connection.

A pin is a small file in the user's state folder, one for an address and one for a ledger. The first connection writes
both; each later one must find the same ledger, and the same key or one that the pinned key has named as its successor
(:mod:`tacit.client.server_identity`). Then the pin moves on, so that a thief of the old key later has no use for
it. A pin is replaced for no other reason: a user who knows that the key was changed in another way deletes the file
that the error names, or states the new key.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final

from tacit.client.client_errors import TrustError
from tacit.client.server_identity import Identity, why_not_followed
from tacit.ledger.anchor import state_folder
from tacit.ledger.signing_keys import PREFIX, public_bytes
from tacit.noise import entropy

_FOLDER: Final = "servers"


def pin(url: str, found: Identity, public_key: str | None) -> None:
    """Check who answers at an address against the key that was stated, or else against what was seen there before.

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
        place = state_folder() / _FOLDER / name
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
    """Write a pin; where another process was faster and it is not to be replaced, the one that is there counts."""
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
