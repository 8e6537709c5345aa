"""Passwords, sessions and login throttling.

*Throttling.* A try is counted before the password is looked at and forgiven when it was right, so tries that are made
side by side count as well. While a lane waits, nothing is looked at and nothing is added to the wait, and the caller
gets the same refusal as for a wrong password.

A lane by name alone would let anyone keep its owner out. So there are two lanes: a place where a name has signed in
before (an *origin*: an address, or a browser's cookie) has a lane of its own, and all other places share one. A guesser
far away does not slow down the owner at the usual place. Even a shared lane that is kept busy keeps its owner out for a
short while only: a wait is at most a minute, and an invitation by an owner passes by all of this.

Lanes are kept in as many rows as 16 bits have values, for any number of names.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from tacit.ledger import BusyError
from tacit.server.identity.context import NO_NAME, IdentityContext
from tacit.server.identity.credentials import Code
from tacit.server.identity.ledger_people import PASSWORD
from tacit.server.identity.models import Access, Opened, Person
from tacit.server.identity.passwords import Hasher, check_password
from tacit.server.identity.scram import ClientProof, ScramVerifier
from tacit.server.identity.tables import PeopleTables

_KIND: Final = "session"
_IDLE: Final = 30 * 60_000
_LONGEST: Final = 12 * 3600_000
#: The last visit of a session is written down this often at most.
_TOUCH: Final = 60_000
_NO_DIGEST: Final = bytes(32)
_CURRENT: Final = (
    "SELECT p.password, p.changed, p.verifier FROM people_persons AS p CROSS JOIN people_persons AS a "
    "WHERE a.name = '' AND p.name = ? AND p.password IS NOT NULL AND p.changed > p.ended AND p.changed > a.ended"
)
#: Wrong tries before the first wait; then how long a wait may get, and when all is forgotten.
_FREE: Final = 5
_LONGEST_WAIT: Final = 60_000
_FORGOTTEN_AFTER: Final = 15 * 60_000
_KNOWN_FOR: Final = 30 * 24 * 3600_000
_LANE_DIGITS: Final = 4


class Tries:
    """Counts tries, in the tables; times are in milliseconds."""

    def __init__(self, tables: PeopleTables) -> None:
        self._tables = tables

    def lane(self, name: str, origin: str, now: int) -> str:
        """The lane that a try is in."""
        rows = self._tables.read("SELECT until FROM people_origins WHERE origin = ?", (_hashed(name, origin),))
        known = bool(origin) and bool(rows) and now < rows[0][0]
        return _hashed(name, origin if known else "")[:_LANE_DIGITS]

    def begin(self, lane: str, now: int) -> bool:
        """Count a try; whether it may be made."""
        with self._tables.write() as run:
            # Held from here to the end of the transaction, so that of two tries one counts first.
            rows = run(
                "INSERT INTO people_tries VALUES (?, 0, 0, 0) ON CONFLICT (lane) DO UPDATE "
                "SET failures = people_tries.failures RETURNING failures, latest, until",
                (lane,),
            )
            failures, latest, until = rows[0]
            if not 0 <= now - latest <= _FORGOTTEN_AFTER:
                failures, until = 0, 0
            if now < until:
                return False
            failures += 1
            run(
                "UPDATE people_tries SET failures = ?, latest = ?, until = ? WHERE lane = ?",
                (failures, now, now + _wait(failures), lane),
            )
            return True

    def forgive(self, lane: str) -> None:
        """Forget the failures of a lane after a right password."""
        with self._tables.write() as run:
            run("DELETE FROM people_tries WHERE lane = ?", (lane,))

    def forgive_everywhere(self, name: str) -> None:
        """Forgive all tries of a name, which an operator has let in."""
        self.forgive(_hashed(name, "")[:_LANE_DIGITS])

    def remember(self, name: str, origin: str, now: int) -> None:
        """Remember that a name has signed in from an origin."""
        if not origin:
            return
        with self._tables.write() as run:
            run("DELETE FROM people_origins WHERE until < ?", (now,))
            run(
                "INSERT INTO people_origins VALUES (?, ?) ON CONFLICT (origin) DO UPDATE SET until = excluded.until",
                (_hashed(name, origin), now + _KNOWN_FOR),
            )


@dataclass(frozen=True, slots=True)
class HashedPassword:
    """Hashes of a password: argon2id for pages, and a verifier for PostgreSQL clients where those are served."""

    argon2: str = field(repr=False)
    verifier: str | None = field(repr=False)


class Sessions:
    """Sets passwords, lets people in and out."""

    def __init__(self, context: IdentityContext, hasher: Hasher, obvious: tuple[str, ...] = ()) -> None:
        self._obvious = obvious
        self._context = context
        self._hasher = hasher
        self._tries = Tries(context.tables)

    def hashed(self, password: str, name: str) -> HashedPassword:
        """The hashes of a password that is good enough."""
        check_password(password, name, self._obvious)
        verifier = self._context.verifier(name, password) if self._context.password_verifiers else None
        return HashedPassword(self._hasher.hash(password), verifier)

    def keep(self, person: Person, hashed: HashedPassword, *, operator: str) -> int:
        """Make hashes the password; the place of its entry in the chain.

        Sessions of an older password end. Of two at once, the one whose entry is later stays.
        """
        changed = self._context.born(person, PASSWORD, operator=operator)
        with self._context.tables.write() as run:
            run(
                "INSERT INTO people_persons (name, ended, changed, password, verifier) VALUES (?, 0, ?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET changed = excluded.changed, password = excluded.password, "
                "verifier = excluded.verifier WHERE people_persons.changed <= excluded.changed",
                (person.name, changed, hashed.argon2, hashed.verifier),
            )
        self._tries.forgive_everywhere(person.name)
        return changed

    def has_password(self, name: str) -> bool:
        """Whether a person can sign in at all."""
        return bool(self._context.tables.read(_CURRENT, (name,)))

    def sign_in(self, name: str, password: object, origin: str) -> Opened | None:
        """A new session; every refusal takes the same time and looks the same."""
        found = self._proved(name, password, origin)
        return None if found is None else self.open(*found)

    def change(self, name: str, old: object, new: str, origin: str) -> Opened | None:
        """Change the password, given the one in force; every other session ends."""
        found = self._proved(name, old, origin)
        if found is None:
            return None
        person = found[0]
        return self.open(person, self.keep(person, self.hashed(new, name), operator=name))

    def _proved(self, name: str, password: object, origin: str) -> tuple[Person, int] | None:
        """Return the person whose password this is, and the place of the password in the chain."""
        now = self._context.now()
        lane = self._tries.lane(name, origin, now)
        allowed = self._tries.begin(lane, now)
        rows = self._context.tables.read(_CURRENT, (name,))
        kept, changed, verifier = rows[0] if rows else (None, 0, None)
        if not self._hasher.fits(password, kept if allowed else None):
            return None
        person = self._context.admitted(name)
        if person is None:
            return None
        self._tries.forgive(lane)
        self._tries.remember(name, origin, now)
        if isinstance(password, str) and kept is not None and self._hasher.is_old(kept):
            # The same password, hashed with the costs of today.
            fresh = self._hasher.hash(password)
            with self._context.tables.write() as run:
                run("UPDATE people_persons SET password = ? WHERE name = ? AND changed = ?", (fresh, name, changed))
        if isinstance(password, str) and verifier is None and self._context.password_verifiers:
            # It was set before there were verifiers.
            words = (self._context.verifier(name, password), name, changed)
            with self._context.tables.write() as run:
                run("UPDATE people_persons SET verifier = ? WHERE name = ? AND changed = ?", words)
        return person, changed

    def prove(self, name: str, shown: ClientProof, origin: str) -> tuple[Access, bytes] | None:
        """The access of a person whose password a client has proved to hold, and the server's own proof.

        Tries are counted as those of :meth:`sign_in` are, in the same places.
        """
        now = self._context.now()
        lane = self._tries.lane(name, origin, now)
        allowed = self._tries.begin(lane, now)
        rows = self._context.tables.read(_CURRENT, (name,))
        verifier = ScramVerifier.read(rows[0][2]) if rows else None
        person = self._context.admitted(name)
        signature = None if verifier is None else verifier.check(shown)
        if not allowed or signature is None or person is None:
            return None
        self._tries.forgive(lane)
        self._tries.remember(name, origin, now)
        return Access(person, person.scopes, "password", str(rows[0][1])), signature

    def renewed(self, name: str, changed: str) -> Access | None:
        """The access of a password that was proved before, if it is still the one."""
        rows = self._context.tables.read(_CURRENT, (name,))
        person = self._context.admitted(name)
        if not rows or str(rows[0][1]) != changed or person is None:
            return None
        return Access(person, person.scopes, "password", changed)

    def open(self, person: Person, born: int) -> Opened:
        """A session by a password that was checked just now."""
        now, code = self._context.now(), Code.new(_KIND)
        with self._context.tables.write() as run:
            run("DELETE FROM people_sessions WHERE opened <= ? OR seen <= ?", (now - _LONGEST, now - _IDLE))
            run(
                "INSERT INTO people_sessions VALUES (?, ?, ?, ?, ?, ?)",
                (code.id, person.name, code.digest, born, now, now),
            )
        return Opened(code.text, _access(person, code))

    def session(self, text: object) -> Access | None:
        """Return the access of a session's text while the session counts."""
        code = Code.read(_KIND, text)
        rows = self._context.tables.read(
            "SELECT name, digest, born, opened, seen FROM people_sessions WHERE id = ?", (code.id,)
        )
        name, digest, born, opened, seen = rows[0] if rows else (NO_NAME, _NO_DIGEST, 0, 0, 0)
        fits = code.fits(digest)
        current = self._context.tables.read(_CURRENT, (name,))
        person, now = self._context.admitted(name), self._context.now()
        if not rows or not fits or not current or current[0][1] != born or person is None:
            return None
        if now >= opened + _LONGEST or now >= seen + _IDLE:
            return None
        if now >= seen + _TOUCH:
            with suppress(BusyError), self._context.tables.write() as run:
                run("UPDATE people_sessions SET seen = ? WHERE id = ? AND seen < ?", (now, code.id, now))
        return _access(person, code)

    def sign_out(self, text: object) -> None:
        """End the session of this text."""
        code = Code.read(_KIND, text)
        with self._context.tables.write() as run:
            run("DELETE FROM people_sessions WHERE id = ? AND digest = ?", (code.id, code.digest))


def _access(person: Person, code: Code) -> Access:
    return Access(person, person.scopes, "session", code.id, code.derived("form"))


def _wait(failures: int) -> int:
    """Milliseconds to wait: none after the first few wrong tries, then twice as long each time."""
    return 0 if failures < _FREE else min(_LONGEST_WAIT, 1000 << min(failures - _FREE, 16))


def _hashed(name: str, origin: str) -> str:
    text = f"{len(name)}:{name}{origin}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
