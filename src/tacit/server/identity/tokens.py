"""Tokens of programs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, exact_text
from tacit.ledger import BusyError
from tacit.server.identity.context import NO_NAME, Code, IdentityContext, from_stamp, line, stamp
from tacit.server.identity.ledger_people import ISSUED, WITHDRAWN, spelled, withdraw
from tacit.server.identity.models import Access, Issued, Person, TokenInfo, TokenScope
from tacit.server.identity.scram import ClientProof, ScramVerifier

_KIND: Final = "tacit"
_DAY: Final = 24 * 3600_000
_LABEL: Final = 100
#: A token and the last end of its person and of all people.
_ROWS: Final = (
    "SELECT t.id, t.name, t.digest, t.label, t.scopes, t.born, t.issued, t.expires, t.used, t.withdrawn, "
    "COALESCE(p.ended, 0), a.ended, t.verifier, t.share FROM people_tokens AS t "
    "LEFT JOIN people_persons AS p ON p.name = t.name CROSS JOIN people_persons AS a WHERE a.name = '' "
)
#: Digest that an unknown id is compared with, so that it costs the same.
_NO_DIGEST: Final = bytes(32)


class Tokens:
    """Issues, finds and withdraws tokens."""

    def __init__(self, context: IdentityContext) -> None:
        self._context = context

    def issue(
        self,
        name: str,
        *,
        label: str,
        scopes: Iterable[TokenScope] | None,
        expires: datetime | None,
        operator: str,
        share: Number | None = None,
    ) -> Issued:
        """A new token; its entry in the chain is made first, so that none exists that the chain does not know."""
        person = self._context.active(name)
        label = line(label, "label", _LABEL)
        chosen, epsilon = _chosen(scopes, person.scopes), None
        if share is not None:
            # A token that may do more than ask could give itself a larger share.
            chosen, epsilon = _asking(scopes, person.scopes), exact_text(exact_positive(share, "share"))
        now = self._context.now()
        until = None if expires is None else stamp(expires, "expires")
        if until is not None and until <= now:
            raise InputError("expires", "must be in the future")
        code = Code.new(_KIND)
        verifier = self._context.verifier(person.name, code.text)
        words = _written(chosen)
        when = None if expires is None else expires.isoformat(timespec="seconds")
        born = self._context.born(
            person, ISSUED, token=code.id, scopes=words, expires=when, label=label, operator=operator,
            **({} if epsilon is None else {"share": epsilon}),
        )  # fmt: skip
        with self._context.tables.write() as run:
            run(
                "INSERT INTO people_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, ?)",
                (code.id, person.name, code.digest, label, words, born, now, until, verifier, epsilon),
            )
        return Issued(code.text, code.id, person.name, label, chosen, expires, epsilon)

    def all(self, name: str | None) -> tuple[TokenInfo, ...]:
        """All tokens, or those of one person; the newest last."""
        order = "ORDER BY t.issued, t.born"
        if name is None:
            rows = self._context.tables.read(_ROWS + order)
        else:
            rows = self._context.tables.read(_ROWS + "AND t.name = ? " + order, (spelled(name),))
        now = self._context.now()
        active = {row[1]: self._context.admitted(row[1]) is not None for row in rows}
        return tuple(_info(row, now, active[row[1]]) for row in rows)

    def withdraw(self, token_id: str, *, operator: str) -> None:
        """End a token. Repeating it completes a withdrawal that was interrupted before the chain had it."""
        rows = self._context.tables.read("SELECT name FROM people_tokens WHERE id = ?", (line(token_id, "token", 40),))
        if not rows:
            raise InputError("token", f"there is no token {token_id!r}")
        with self._context.tables.write() as run:
            run("UPDATE people_tokens SET withdrawn = -1 WHERE id = ? AND withdrawn = 0", (token_id,))
        if self._context.tables.read("SELECT id FROM people_tokens WHERE id = ? AND withdrawn = -1", (token_id,)):
            words = {"token": token_id, "analyst": rows[0][0], "operator": operator}
            seq = self._context.ledger.note(WITHDRAWN, words).seq
            with self._context.tables.write() as run:
                withdraw(run, token_id, seq)

    def authenticate(self, text: object) -> Access | None:
        """The access of a token; every way to fail is the same way, after the same look-ups."""
        code = Code.read(_KIND, text)
        rows = self._context.tables.read(_ROWS + "AND t.id = ?", (code.id,))
        fits = code.fits(rows[0][2] if rows else _NO_DIGEST)
        person = self._context.admitted(rows[0][1] if rows else NO_NAME)
        now = self._context.now()
        if not rows or not fits or person is None or not _alive(rows[0], now):
            return None
        self._used(rows[0], now)
        return _access(person, rows[0])

    def prove(self, name: str, shown: ClientProof) -> tuple[Access, bytes] | None:
        """The access of the person's token that a client has proved to hold, and the server's own proof."""
        person, now = self._context.admitted(name), self._context.now()
        for row in self._context.tables.read(_ROWS + "AND t.name = ?", (name,)):
            verifier = ScramVerifier.read(row[12])
            signature = None if verifier is None else verifier.check(shown)
            if signature is not None and person is not None and _alive(row, now):
                self._used(row, now)
                return _access(person, row), signature
        return None

    def renewed(self, token_id: str) -> Access | None:
        """The access of a token that was shown before, if it still counts."""
        rows = self._context.tables.read(_ROWS + "AND t.id = ?", (token_id,))
        person = self._context.admitted(rows[0][1] if rows else NO_NAME)
        if not rows or person is None or not _alive(rows[0], self._context.now()):
            return None
        return _access(person, rows[0])

    def _used(self, row: tuple[Any, ...], now: int) -> None:
        """Keep the day of the last use; not worth waiting for."""
        day = now // _DAY
        if row[8] != day:
            with suppress(BusyError), self._context.tables.write() as run:
                run("UPDATE people_tokens SET used = ? WHERE id = ?", (day, row[0]))


def _access(person: Person, row: tuple[Any, ...]) -> Access:
    return Access(person, _read(row[4]) & person.scopes, "token", row[0], share=row[13])


def _alive(row: tuple[Any, ...], now: int) -> bool:
    born, expires, withdrawn, ended, all_ended = row[5], row[7], row[9], row[10], row[11]
    return not withdrawn and born > max(ended, all_ended) and (expires is None or now < expires)


def _info(row: tuple[Any, ...], now: int, active: bool) -> TokenInfo:
    born, expires, used = row[5], row[7], row[8]
    return TokenInfo(
        id=row[0],
        name=row[1],
        label=row[3],
        scopes=_read(row[4]),
        issued=from_stamp(row[6]),
        expires=None if expires is None else from_stamp(expires),
        used=None if used is None else from_stamp(used * _DAY).date(),
        withdrawn=bool(row[9]) or born <= max(row[10], row[11]) or not active,
        alive=active and _alive(row, now),
        share=row[13],
    )


def _chosen(scopes: Iterable[TokenScope] | None, allowed: frozenset[TokenScope]) -> frozenset[TokenScope]:
    if scopes is None:
        return allowed
    try:
        chosen = frozenset(TokenScope(scope) for scope in scopes)
    except ValueError:
        raise InputError("scopes", f"must be among {_written(frozenset(TokenScope))}") from None
    if not chosen or not chosen <= allowed:
        raise InputError("scopes", f"must be some of what the person may do: {_written(allowed)}")
    return chosen


def _asking(scopes: Iterable[TokenScope] | None, allowed: frozenset[TokenScope]) -> frozenset[TokenScope]:
    """The one scope of a token with a share."""
    if scopes is not None and _chosen(scopes, allowed) != {TokenScope.ASK}:
        raise InputError("scopes", "a token with a share may ask and nothing else; leave the scopes out")
    return _chosen((TokenScope.ASK,), allowed)


def _written(scopes: frozenset[TokenScope]) -> str:
    return " ".join(scope.value for scope in TokenScope if scope in scopes)


def _read(words: str) -> frozenset[TokenScope]:
    return frozenset(TokenScope(word) for word in words.split())
