"""Context shared by the identity modules: ledger, storage, clock, and the codes that are handed out.

A code is ``tacit_<16 hexadecimal digits>_<64 hexadecimal digits>``: a public id, and a secret stored as a digest
without key or salt, because 256 bits cannot be guessed and no two secrets are equal.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.ledger import Ledger
from tacit.noise import entropy
from tacit.server.identity.ledger_people import Chain, person_of, spelled
from tacit.server.identity.models import Person
from tacit.server.identity.scram import ScramVerifier, salt_of
from tacit.server.identity.tables import PeopleTables

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


Clock = Callable[[], datetime]

#: Name that is looked up where there is none, so that the work is the same.
NO_NAME: Final = "unknown"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class IdentityContext:
    """Ledger, tables and clock of the identity modules. The clock decides when things expire, not about privacy.

    ``iterations`` are those of PBKDF2 in verifiers of tokens.
    """

    ledger: Ledger
    tables: PeopleTables
    chain: Chain
    clock: Clock
    iterations: int

    def now(self) -> int:
        """Current time in milliseconds."""
        return stamp(self.clock(), "clock")

    def person(self, name: object) -> Person | None:
        """A person in the ledger; ``None`` also for a text that cannot be a name."""
        try:
            plain = spelled(name)
        except InputError:
            return None
        analyst = self.chain.analyst(plain)
        return None if analyst is None else person_of(analyst)

    def admitted(self, name: object) -> Person | None:
        """A person who is registered and not revoked."""
        person = self.person(name)
        return person if person is not None and person.active else None

    def active(self, name: object) -> Person:
        """As :meth:`admitted`; it is an error where there is none."""
        person = self.person(name)
        if person is None:
            raise InputError("name", f"no person is registered as {str(name)[:40]!r}")
        if not person.active:
            raise InputError("name", "was revoked")
        return person

    def verifier(self, name: str, secret: str) -> str:
        """The verifier of a secret of a person, as it is kept."""
        return ScramVerifier.derive(secret, self.salt(name), self.iterations).text

    def salt(self, name: str) -> bytes:
        """The salt of a name's verifiers."""
        rows = self.tables.read("SELECT secret FROM people_scram WHERE id = 1")
        if not rows:
            fresh = entropy.current().bits(256).to_bytes(32, "big")
            with self.tables.write() as run:
                run("INSERT INTO people_scram VALUES (1, ?) ON CONFLICT (id) DO NOTHING", (fresh,))
            rows = self.tables.read("SELECT secret FROM people_scram WHERE id = 1")
        return salt_of(name, bytes(rows[0][0]))

    def born(self, person: Person, kind: str, **fields: Any) -> int:
        """Write into the chain that something is given to a person; the place of that entry.

        A person who was revoked up to here gets nothing: it would be born after their end.
        """
        seq = self.ledger.note(kind, {"analyst": person.name, **fields}).seq
        self.active(person.name)
        return seq


def stamp(moment: object, parameter: str) -> int:
    """A moment in whole milliseconds; one without a time zone could be any of several."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InputError(parameter, "must be a datetime with a time zone, such as datetime.now(UTC)")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_stamp(milliseconds: int) -> datetime:
    """The moment."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def line(text: object, parameter: str, longest: int) -> str:
    """Text that fits on a line and into every database."""
    if not isinstance(text, str) or len(text) > longest or not text.isprintable():
        raise InputError(parameter, f"must be at most {longest} printable characters")
    return text


def storable(text: object, parameter: str) -> str:
    """Return text of any length after checking that every database keeps it unchanged."""
    if not isinstance(text, str) or "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(parameter, "must be text without NUL characters and halves of characters")
    return text
