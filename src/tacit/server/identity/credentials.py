"""Credentials: a public id and a secret stored as a digest.

``tacit_<16 hexadecimal digits>_<64 hexadecimal digits>``. A digest without key or salt is enough: 256 bits cannot be
guessed, and no two secrets are equal.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final

from tacit.noise import entropy

_ID_BITS: Final = 64
_SECRET_BITS: Final = 256
_SHAPE: Final = re.compile(r"([a-z]{1,16})_([0-9a-f]{16})_([0-9a-f]{64})", re.ASCII)
_LONGEST: Final = 16 + 16 + 64 + 2


@dataclass(frozen=True, slots=True)
class Code:
    """A secret with its id. ``kind`` stands in front and in the digest, so one kind never passes for another."""

    kind: str
    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls, kind: str) -> Code:
        """Draw a fresh code."""
        bits = entropy.current().bits
        return cls(kind, f"{bits(_ID_BITS):016x}", f"{bits(_SECRET_BITS):064x}")

    @classmethod
    def read(cls, kind: str, text: object) -> Code:
        """The code in a text; one that fits nothing where there is none of this kind."""
        found = _SHAPE.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
        if found is None or found[1] != kind:
            return cls(kind, NO_ID, "0" * (_SECRET_BITS // 4))
        return cls(kind, found[2], found[3])

    @property
    def text(self) -> str:
        """The text that its owner carries."""
        return f"{self.kind}_{self.id}_{self.secret}"

    @property
    def digest(self) -> bytes:
        """The digest that is kept."""
        return hashlib.sha256(f"tacit {self.kind}\0{self.id}\0{self.secret}".encode()).digest()

    def fits(self, digest: bytes) -> bool:
        """Whether it is the one that was kept, in time that does not depend on where they differ."""
        return hmac.compare_digest(self.digest, digest)

    def derived(self, purpose: str) -> str:
        """Another secret, bound to this one; nothing about either follows from what is kept."""
        return hmac.new(bytes.fromhex(self.secret), f"tacit {purpose}".encode(), "sha256").hexdigest()


#: The id that no code has: it is not of the shape of one.
NO_ID: Final = "none"


def new_id() -> str:
    """128 random bits, in hexadecimal."""
    return f"{entropy.current().bits(128):032x}"
