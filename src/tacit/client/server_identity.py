"""Identity of a server: its ledger, its signing key and the succession of keys.

A server shows every key that it has replaced. A client that trusts an older key follows from signature to signature
to the one in force; a client that trusts the one in force takes its word for the keys before it, which older receipts
need. A key
that was lost has signed nothing, so trust in it leads nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tacit.client.account_responses import HandoverResponse, KeyResponse
from tacit.client.client_errors import RemoteError, parsing
from tacit.ledger.protocol import GENESIS, Head
from tacit.ledger.signing_keys import is_signed, key_id, succession_text

#: The most keys that a server may state.
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """The id of the ledger, the key that signs its receipts, what is said about older keys, and the newest entry."""

    ledger: str
    public_key: str
    handovers: tuple[HandoverResponse, ...] = field(default=(), compare=False)
    head: Head = field(default=GENESIS, compare=False)


def identity_of(content: dict[str, Any]) -> Identity:
    """The identity that a server states. Nothing of it is trusted yet."""
    with parsing("the identity"):
        said = KeyResponse.read(content)
    if not said.ledger.isalnum() or len(said.ledger) > 128 or len(said.successions) > _MOST:
        raise RemoteError("the identity that the server sent names no ledger, or too many keys")
    key_id(said.public_key)  # Raises if it is none.
    return Identity(said.ledger, said.public_key, tuple(said.successions), said.head.to_domain())


def why_not_followed(trusted: str, found: Identity) -> str:
    """The gap between a key that is trusted and the one in force; empty if every key names its successor."""
    followed_by = {each.previous: each for each in found.handovers}
    key = trusted
    while key != found.public_key:
        # Taken away, so that keys that lead in a circle come to an end.
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
    """By its short name, the key in force and every key that it vouches for, and they for the ones before them."""
    preceded_by = {each.public_key: each for each in found.handovers}
    key, keys = found.public_key, {key_id(found.public_key): found.public_key}
    while (each := preceded_by.pop(key, None)) is not None:
        if not is_signed(succession_text(found.ledger, each.previous, key), each.accepted, key):
            break
        key = each.previous
        keys[key_id(key)] = key
    return keys
