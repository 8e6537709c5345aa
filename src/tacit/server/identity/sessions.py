"""Sessions of browsers, the one-time links that open them, and sign-ins under way at a provider.

That a session was opened or ended, and that a link was made, are entries of the ledger's chain. A link works once, and
a new one ends the one before. A sign-in at a provider is bound to the browser that began it by a secret in a cookie:
state, nonce and the verifier of PKCE follow from it, and it is used up when the provider's response arrives.
"""

from __future__ import annotations

import hmac
from contextlib import suppress
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.ledger import BusyError
from tacit.server.identity import ledger_people as chain
from tacit.server.identity.context import NO_NAME, Code, IdentityContext, from_stamp, line
from tacit.server.identity.models import Access, Opened, Person, SessionInfo

#: What opens a session, beside the names of providers.
LINK: Final = "link"
SET_UP: Final = "setup"
#: Words for how long the two kinds of links last, for messages and pages.
LINK_WORDS: Final = "three days"
SET_UP_WORDS: Final = "an hour"

_SESSION: Final = "session"
_ENTRY: Final = "entry"
_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_LINK_LASTS: Final = {LINK: 3 * _DAY, SET_UP: _HOUR}
#: Idle and longest time of a session: a provider lets its people in again by one click, a link takes an owner.
_LASTS: Final = {LINK: (7 * _DAY, 30 * _DAY)}
_LASTS_BY_PROVIDER: Final = (30 * _MINUTE, 12 * _HOUR)
_ENTRY_LASTS: Final = 10 * _MINUTE
#: Sign-ins under way at providers; strangers may begin them.
_MOST_ENTRIES: Final = 10_000
#: The last visit of a session is written down this often at most.
_TOUCH: Final = _MINUTE
_NO_DIGEST: Final = bytes(32)
#: Sessions and links of people whose last end was before.
_LIVE: Final = (
    "LEFT JOIN people_persons AS p ON p.name = s.name AND p.name <> '' CROSS JOIN people_persons AS a "
    "WHERE a.name = '' AND s.born > a.ended AND s.born > COALESCE(p.ended, 0) "
)
_LINKS: Final = f"SELECT s.name, s.digest FROM people_links AS s {_LIVE} AND s.kind = ? AND s.id = ? AND s.expires > ?"  # noqa: S608
_SESSIONS: Final = (
    "SELECT s.id, s.name, s.digest, s.entry, s.idle, s.opened, s.seen, s.expires FROM people_sessions AS s "
)


class Sessions:
    """Opens, finds and ends sessions."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    def open(self, person: Person, entry: str) -> Opened:
        """A session of a person who has just proved who they are; its entry in the chain is made first."""
        code = Code.new(_SESSION)
        born = self._context.born(person, chain.OPENED, session=code.id, by=entry)
        now = self._context.now()
        idle, longest = _LASTS.get(entry, _LASTS_BY_PROVIDER)
        with self._context.tables.write() as run:
            run("DELETE FROM people_sessions WHERE expires <= ? OR seen + idle <= ?", (now, now))
            run(
                "INSERT INTO people_sessions (id, name, digest, entry, idle, born, opened, seen, expires) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (code.id, person.name, code.digest, entry, idle, born, now, now, now + longest),
            )
        return Opened(code.text, _access(person, code))

    def find(self, text: object) -> Access | None:
        """The access of a session's text while the session counts."""
        code = Code.read(_SESSION, text)
        rows = self._context.tables.read(_SESSIONS + _LIVE + "AND s.id = ?", (code.id,))
        _, name, digest, _, idle, _, seen, expires = rows[0] if rows else ("", NO_NAME, _NO_DIGEST, "", 0, 0, 0, 0)
        fits = code.fits(digest)
        person, now = self._context.admitted(name), self._context.now()
        if not rows or not fits or person is None or now >= expires or now >= seen + idle:
            return None
        if now >= seen + _TOUCH:
            with suppress(BusyError), self._context.tables.write() as run:
                run("UPDATE people_sessions SET seen = ? WHERE id = ? AND seen < ?", (now, code.id, now))
        return _access(person, code)

    def all(self, name: str) -> tuple[SessionInfo, ...]:
        """Live sessions of a person, the newest last."""
        now, person = self._context.now(), self._context.admitted(name)
        more = "AND s.name = ? AND s.expires > ? AND s.seen + s.idle > ? ORDER BY s.born"
        rows = self._context.tables.read(_SESSIONS + _LIVE + more, (name if person is None else person.name, now, now))
        return tuple(
            SessionInfo(row[0], row[1], row[3], *(from_stamp(row[i]) for i in (5, 6, 7)))
            for row in rows
            if person is not None
        )

    def end(self, session_id: str, *, operator: str) -> None:
        """End a session at once, in every process."""
        rows = self._context.tables.read(
            "SELECT name FROM people_sessions WHERE id = ?", (line(session_id, "session", 40),)
        )
        if not rows:
            raise InputError("session", "has ended already")
        # The chain first: were only the table written, an older copy of it would bring the session back.
        self._context.ledger.note(chain.CLOSED, {"analyst": rows[0][0], "session": session_id, "operator": operator})
        with self._context.tables.write() as run:
            run("DELETE FROM people_sessions WHERE id = ?", (session_id,))

    def sign_out(self, text: object) -> None:
        """End the session of this text."""
        code = Code.read(_SESSION, text)
        found = "SELECT name FROM people_sessions WHERE id = ? AND digest = ?"
        rows = self._context.tables.read(found, (code.id, code.digest))
        if rows:
            self.end(code.id, operator=rows[0][0])


class Links:
    """One-time links: one at a time for a person, and one for the set-up of the first owner."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    def make(self, person: Person, *, operator: str) -> str:
        """A link for a person."""
        return self._keep(LINK, person.name, self._context.born(person, chain.LINKED, operator=operator))

    def set_up(self) -> str:
        """A link for the operator who starts the server."""
        return self._keep(SET_UP, "", self._context.ledger.note(chain.SET_UP, {}).seq)

    def find(self, kind: str, text: object) -> str | None:
        """The name of the person a live link belongs to; that of the set-up is ``""``."""
        code = Code.read(kind, text)
        rows = self._context.tables.read(_LINKS, (kind, code.id, self._context.now()))
        name, digest = rows[0] if rows else (None, _NO_DIGEST)
        return name if code.fits(digest) else None

    def use(self, kind: str, text: object) -> bool:
        """Use a link up; of several callers at once, one is told that it succeeded."""
        code = Code.read(kind, text)
        if self.find(kind, text) is None:
            return False
        with self._context.tables.write() as run:
            took = "DELETE FROM people_links WHERE kind = ? AND id = ? AND digest = ? RETURNING id"
            return bool(run(took, (kind, code.id, code.digest)))

    def _keep(self, kind: str, name: str, born: int) -> str:
        code = Code.new(kind)
        with self._context.tables.write() as run:
            run(
                "INSERT INTO people_links (kind, name, id, digest, born, expires) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (kind, name) DO UPDATE SET id = excluded.id, digest = excluded.digest, "
                "born = excluded.born, expires = excluded.expires",
                (kind, name, code.id, code.digest, born, self._context.now() + _LINK_LASTS[kind]),
            )
        return code.text


class Entries:
    """Sign-ins under way at a provider."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    def begin(self, provider: str, page: str) -> Code:
        """A sign-in that leads to a page of the console; its secret belongs to one browser."""
        code, now = Code.new(_ENTRY), self._context.now()
        with self._context.tables.write() as run:
            run("DELETE FROM people_entries WHERE expires <= ?", (now,))
            newest = "SELECT id FROM people_entries ORDER BY expires DESC LIMIT ?"
            run(f"DELETE FROM people_entries WHERE id NOT IN ({newest})", (_MOST_ENTRIES - 1,))  # noqa: S608
            values = (code.id, code.digest, provider, page, now + _ENTRY_LASTS)
            run("INSERT INTO people_entries VALUES (?, ?, ?, ?, ?)", values)
        return code

    @staticmethod
    def has_state(text: object, state: str) -> bool:
        """Whether a state is the one that follows from this secret."""
        return hmac.compare_digest(Code.read(_ENTRY, text).derived("state").encode(), state.encode())

    def take(self, provider: str, text: object) -> tuple[Code, str] | None:
        """Use up the sign-in of this secret at this provider: its code, and the page that it leads to."""
        code = Code.read(_ENTRY, text)
        with self._context.tables.write() as run:
            took = (
                "DELETE FROM people_entries WHERE id = ? AND digest = ? AND provider = ? AND expires > ? RETURNING page"
            )
            rows: list[tuple[Any, ...]] = run(took, (code.id, code.digest, provider, self._context.now()))
        return (code, rows[0][0]) if rows else None


def _access(person: Person, code: Code) -> Access:
    return Access(person, person.scopes, "session", code.id, code.derived("form"))
