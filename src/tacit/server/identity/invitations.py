"""One-time links: invitations and the set-up of the first owner."""

from __future__ import annotations

from typing import Final

from tacit.server.identity import ledger_people as chain
from tacit.server.identity.context import IdentityContext
from tacit.server.identity.credentials import Code
from tacit.server.identity.models import Person

WELCOME: Final = "welcome"
SET_UP: Final = "setup"

_WELCOME_LASTS: Final = 3 * 24 * 3600_000
_SET_UP_LASTS: Final = 3600_000
#: Words for the two times, for messages and pages.
WELCOME_WORDS: Final = "three days"
SET_UP_WORDS: Final = "an hour"
_NO_DIGEST: Final = bytes(32)
#: A link that counts; that of the set-up belongs to no person.
_FIND: Final = (
    "SELECT l.name, l.digest FROM people_links AS l LEFT JOIN people_persons AS p ON p.name = l.name AND p.name <> '' "
    "CROSS JOIN people_persons AS a WHERE a.name = '' AND l.kind = ? AND l.id = ? "
    "AND l.expires > ? AND l.born > a.ended AND (p.name IS NULL OR (l.born > p.ended AND l.born > p.changed))"
)


class OneTimeLinks:
    """One link of a kind per person: a new one ends the one before."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    def welcome(self, person: Person, *, operator: str) -> str:
        """An invitation; that it was made is in the chain."""
        born = self._context.born(person, chain.INVITED, operator=operator)
        return self._keep(WELCOME, person.name, born, _WELCOME_LASTS)

    def set_up(self) -> str:
        """A link for the operator who starts the server; that it was made is in the chain."""
        return self._keep(SET_UP, "", self._context.ledger.note(chain.SET_UP, {}).seq, _SET_UP_LASTS)

    def find(self, kind: str, text: object) -> str | None:
        """Return the name of the person a live link belongs to; the set-up's is ``""``."""
        code = Code.read(kind, text)
        rows = self._context.tables.read(_FIND, (kind, code.id, self._context.now()))
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

    def _keep(self, kind: str, name: str, born: int, lasts: int) -> str:
        code = Code.new(kind)
        with self._context.tables.write() as run:
            run(
                "INSERT INTO people_links (kind, name, id, digest, born, expires) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (kind, name) DO UPDATE SET id = excluded.id, digest = excluded.digest, "
                "born = excluded.born, expires = excluded.expires",
                (kind, name, code.id, code.digest, born, self._context.now() + lasts),
            )
        return code.text
