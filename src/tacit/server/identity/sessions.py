"""Passwords and sessions."""

from __future__ import annotations

from typing import Final

from tacit.ledger import BusyError
from tacit.server.identity.context import IdentityContext
from tacit.server.identity.credentials import Code
from tacit.server.identity.ledger_people import PASSWORD
from tacit.server.identity.login_throttle import Tries
from tacit.server.identity.models import Access, Opened, Person
from tacit.server.identity.passwords import Hasher, check_password

__all__ = ["Sessions"]

_KIND: Final = "session"
_IDLE: Final = 30 * 60_000
_LONGEST: Final = 12 * 3600_000
#: That somebody is still there is written down this often at most.
_TOUCH: Final = 60_000
_NO_DIGEST: Final = bytes(32)
_CURRENT: Final = (
    "SELECT p.password, p.changed FROM people_persons AS p CROSS JOIN people_persons AS a "
    "WHERE a.name = '' AND p.name = ? AND p.password IS NOT NULL AND p.changed > p.ended AND p.changed > a.ended"
)


class Sessions:
    """Sets passwords, lets people in and out."""

    def __init__(self, room: IdentityContext, hasher: Hasher, obvious: tuple[str, ...] = ()) -> None:
        self._obvious = obvious
        self._room = room
        self._hasher = hasher
        self._tries = Tries(room.tables)

    def hashed(self, password: str, name: str) -> str:
        """What will be kept of a password that is good enough."""
        check_password(password, name, self._obvious)
        return self._hasher.hash(password)

    def keep(self, person: Person, hashed: str, *, operator: str) -> int:
        """Make a hash the password; the place of its entry in the chain.

        Whoever is signed in by an older one is not any more. Of two at once, the one whose entry is later stays.
        """
        changed = self._room.born(person, PASSWORD, operator=operator)
        with self._room.tables.write() as run:
            run(
                "INSERT INTO people_persons (name, ended, changed, password) VALUES (?, 0, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET changed = excluded.changed, password = excluded.password "
                "WHERE people_persons.changed <= excluded.changed",
                (person.name, changed, hashed),
            )
        self._tries.forgive_everywhere(person.name)
        return changed

    def has_password(self, name: str) -> bool:
        """Whether somebody can sign in at all."""
        return bool(self._room.tables.read(_CURRENT, (name,)))

    def sign_in(self, name: str, password: object, origin: str) -> Opened | None:
        """A new session; whatever is wrong, the same time passes and nothing tells what it was."""
        found = self._proved(name, password, origin)
        return None if found is None else self.open(*found)

    def change(self, name: str, old: object, new: str, origin: str) -> Opened | None:
        """Another password, by whoever knows the one that holds; it opens the only session there is from then on."""
        found = self._proved(name, old, origin)
        if found is None:
            return None
        person = found[0]
        return self.open(person, self.keep(person, self.hashed(new, name), operator=name))

    def _proved(self, name: str, password: object, origin: str) -> tuple[Person, int] | None:
        """Who it is that knows a password, and the place of that in the chain."""
        now = self._room.now()
        lane = self._tries.lane(name, origin, now)
        allowed = self._tries.begin(lane, now)
        rows = self._room.tables.read(_CURRENT, (name,))
        kept, changed = rows[0] if rows else (None, 0)
        if not self._hasher.fits(password, kept if allowed else None):
            return None
        person = self._room.person(name)
        if person is None or not person.active:
            return None
        self._tries.forgive(lane)
        self._tries.remember(name, origin, now)
        if isinstance(password, str) and kept is not None and self._hasher.is_old(kept):
            self._renew(name, changed, password)
        return person, changed

    def open(self, person: Person, born: int) -> Opened:
        """A session by a password that was checked just now."""
        now, code = self._room.now(), Code.new(_KIND)
        with self._room.tables.write() as run:
            run("DELETE FROM people_sessions WHERE opened <= ? OR seen <= ?", (now - _LONGEST, now - _IDLE))
            run(
                "INSERT INTO people_sessions VALUES (?, ?, ?, ?, ?, ?)",
                (code.id, person.name, code.digest, born, now, now),
            )
        return Opened(code.text, _access(person, code))

    def session(self, text: object) -> Access | None:
        """Whose it is, if it still counts."""
        code = Code.read(_KIND, text)
        rows = self._room.tables.read(
            "SELECT name, digest, born, opened, seen FROM people_sessions WHERE id = ?", (code.id,)
        )
        name, digest, born, opened, seen = rows[0] if rows else ("nobody", _NO_DIGEST, 0, 0, 0)
        fits = code.fits(digest)
        current = self._room.tables.read(_CURRENT, (name,))
        person, now = self._room.person(name), self._room.now()
        if not rows or not fits or not current or current[0][1] != born or person is None or not person.active:
            return None
        if now >= opened + _LONGEST or now >= seen + _IDLE:
            return None
        if now >= seen + _TOUCH:
            self._touch(code.id, now)
        return _access(person, code)

    def sign_out(self, text: object) -> None:
        """End a session, by whoever holds it."""
        code = Code.read(_KIND, text)
        with self._room.tables.write() as run:
            run("DELETE FROM people_sessions WHERE id = ? AND digest = ?", (code.id, code.digest))

    def _touch(self, session: str, now: int) -> None:
        try:
            with self._room.tables.write() as run:
                run("UPDATE people_sessions SET seen = ? WHERE id = ? AND seen < ?", (now, session, now))
        except BusyError:
            return

    def _renew(self, name: str, changed: int, password: str) -> None:
        """The same password, hashed with the costs of today."""
        fresh = self._hasher.hash(password)
        with self._room.tables.write() as run:
            run("UPDATE people_persons SET password = ? WHERE name = ? AND changed = ?", (fresh, name, changed))


def _access(person: Person, code: Code) -> Access:
    return Access(person, person.scopes, "session", code.id, code.derived("form"))
