"""Credentials: tokens of programs, sessions of browsers, one-time links, and sign-ins under way at a provider.

A code is ``tacit_<16 hexadecimal digits>_<64 hexadecimal digits>``: a public id, and a secret stored as a digest
without key or salt, because 256 random bits cannot be guessed and no two secrets are equal.

Issuing a token, opening or ending a session and making a link are entries of the ledger's chain. A link works once, and
a new one invalidates the previous one. A sign-in at a provider is bound to the browser that began it by a secret in a
cookie: state, nonce and PKCE verifier are derived from it, and it is used up when the provider's response arrives.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Literal

from tacit.core.errors import InputError
from tacit.core.numbers import Number, exact_positive, exact_text
from tacit.ledger import BusyError, Ledger
from tacit.noise import entropy
from tacit.server.identity.chain import (
    CLOSED,
    ISSUED,
    LINKED,
    OPENED,
    SET_UP_OFFERED,
    WITHDRAWN,
    Chain,
    PeopleTables,
    Person,
    Role,
    TokenScope,
    person_of,
    spelled,
    withdraw,
)
from tacit.server.identity.scram import ClientProof, ScramVerifier


@dataclass(frozen=True, slots=True)
class Access:
    """An authenticated person, and the rights of the credential used.

    Args:
        scopes: rights of the credential that the person still has.
        id: public id of the token or session.
        csrf: text that a form must carry to be accepted; only for sessions.
        share: epsilon that all charges of the token may amount to, for each population; None for no limit of the token.
    """

    person: Person
    scopes: frozenset[TokenScope]
    kind: Literal["token", "session"]
    id: str
    csrf: str = field(default="", repr=False)
    share: str | None = None

    def has(self, scope: TokenScope) -> bool:
        """Whether the credential grants a scope."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token. ``text`` is shown to its owner once and not stored."""

    text: str = field(repr=False)
    id: str
    name: str
    label: str
    scopes: frozenset[TokenScope]
    expires: datetime | None
    share: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A new session; the browser stores ``text``."""

    text: str = field(repr=False)
    access: Access


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A live session as its owner and operators may see it; ``by`` is the provider or link that opened it."""

    id: str
    name: str
    by: str
    opened: datetime
    seen: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Identity:
    """A person as asserted by an OpenID provider, after verification.

    Args:
        provider: its name in the project file.
        key: issuer and subject, which identify a person whatever their name.
        name: from the claim that the project file names.
        role: from the groups that the project file maps; ``None`` if none of them may enter.
        populations: from the same groups; ``None`` for all.
    """

    provider: str
    key: str
    name: str
    role: Role | None
    populations: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as its owner and operators may see it.

    Args:
        id: public id, by which it is withdrawn.
        label: its purpose, in its owner's words.
        scopes: rights that it was issued with.
        expires: time of expiry; ``None`` for never.
        used: day of the last use, if any.
        withdrawn: whether it was withdrawn, or its person revoked.
        alive: whether it is valid now.
        share: epsilon that all its charges may amount to, for each population.
    """

    id: str
    name: str
    label: str
    scopes: frozenset[TokenScope]
    issued: datetime
    expires: datetime | None
    used: date | None
    withdrawn: bool
    alive: bool
    share: str | None = None


# -- codes

_ID_BITS: Final = 64
_SECRET_BITS: Final = 256
_SHAPE: Final = re.compile(r"([a-z]{1,16})_([0-9a-f]{16})_([0-9a-f]{64})", re.ASCII)
_LONGEST: Final = 16 + 16 + 64 + 2


@dataclass(frozen=True, slots=True)
class Code:
    """A secret with its id. ``kind`` is its prefix and in the digest, so that one kind never passes for another."""

    kind: str
    id: str
    secret: str = field(repr=False)

    @classmethod
    def new(cls, kind: str) -> Code:
        bits = entropy.current().bits
        return cls(kind, f"{bits(_ID_BITS):016x}", f"{bits(_SECRET_BITS):064x}")

    @classmethod
    def read(cls, kind: str, text: object) -> Code:
        """Parse a code of this kind; return one that matches nothing if the text is none."""
        found = _SHAPE.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
        if found is None or found[1] != kind:
            return cls(kind, NO_ID, "0" * (_SECRET_BITS // 4))
        return cls(kind, found[2], found[3])

    @property
    def text(self) -> str:
        """Text of the code, given to its owner."""
        return f"{self.kind}_{self.id}_{self.secret}"

    @property
    def digest(self) -> bytes:
        """Digest to store."""
        return hashlib.sha256(f"tacit {self.kind}\0{self.id}\0{self.secret}".encode()).digest()

    def fits(self, digest: bytes) -> bool:
        """Whether a stored digest is that of this code, in constant time."""
        return hmac.compare_digest(self.digest, digest)

    def derived(self, purpose: str) -> str:
        """Derive another secret from this one; neither follows from the stored digest."""
        return hmac.new(bytes.fromhex(self.secret), f"tacit {purpose}".encode(), "sha256").hexdigest()


#: An id that no code has, because it has another format.
NO_ID: Final = "none"


def new_id() -> str:
    """Return 128 random bits, in hexadecimal."""
    return f"{entropy.current().bits(128):032x}"


Clock = Callable[[], datetime]

#: Name that is looked up in place of an invalid one, so that the work is the same.
NO_NAME: Final = "unknown"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class PeopleStore:
    """Ledger, tables and clock of the people. The clock decides about expiry, not about privacy."""

    def __init__(self, ledger: Ledger, tables: PeopleTables, chain: Chain, clock: Clock) -> None:
        self.ledger = ledger
        self.tables = tables
        self.chain = chain
        self._clock = clock

    def now(self) -> int:
        """Return the current time in milliseconds since 1970."""
        return stamp(self._clock(), "clock")

    def person(self, name: object) -> Person | None:
        """Return a person, even if revoked; ``None`` for an unknown or invalid name."""
        try:
            plain = spelled(name)
        except InputError:
            return None
        analyst = self.chain.analyst(plain)
        return None if analyst is None else person_of(analyst)

    def admitted(self, name: object) -> Person | None:
        """Return a person who is registered and not revoked; else ``None``."""
        person = self.person(name)
        return person if person is not None and person.active else None

    def active(self, name: object) -> Person:
        """Return a person who is registered and not revoked.

        Raises:
            InputError: there is no such person.
        """
        person = self.person(name)
        if person is None:
            raise InputError("name", f"no person is registered as {str(name)[:40]!r}")
        if not person.active:
            raise InputError("name", "was revoked")
        return person

    def born(self, person: Person, kind: str, **fields: Any) -> int:
        """Record in the chain that a person gets a credential; return the position of that entry.

        This fails for a person who was revoked before the entry: the credential would be born after their end.
        """
        seq = self.ledger.note(kind, {"analyst": person.name, **fields}).seq
        self.active(person.name)
        return seq


def known_as(name: str) -> str:
    """Return the normalized form of a name; for an invalid name, a name that no person has."""
    try:
        return spelled(name)
    except InputError:
        return NO_NAME


def stamp(moment: object, parameter: str) -> int:
    """Return a time as whole milliseconds since 1970; refuse one without a time zone."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InputError(parameter, "must be a datetime with a time zone, such as datetime.now(UTC)")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_stamp(milliseconds: int) -> datetime:
    """Return the time of a number of milliseconds since 1970."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def line(text: object, parameter: str, longest: int) -> str:
    """Return a text after checking that it is printable, on one line and at most ``longest`` characters."""
    if not isinstance(text, str) or len(text) > longest or not text.isprintable():
        raise InputError(parameter, f"must be at most {longest} printable characters")
    return text


def storable(text: object, parameter: str) -> str:
    """Return text of any length after checking that every database keeps it unchanged."""
    if not isinstance(text, str) or "\0" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InputError(parameter, "must be text without NUL characters and halves of characters")
    return text


# -- tokens

_KIND: Final = "tacit"
_DAY: Final = 24 * 3600_000
_LABEL: Final = 100
#: Columns of a token, and the last ends of its person and of all people.
_ROWS: Final = (
    "SELECT t.id, t.name, t.digest, t.label, t.scopes, t.born, t.issued, t.expires, t.used, t.withdrawn, "
    "COALESCE(p.ended, 0), a.ended, t.verifier, t.share FROM people_tokens AS t "
    "LEFT JOIN people_persons AS p ON p.name = t.name CROSS JOIN people_persons AS a WHERE a.name = '' "
)
#: Digest that is compared for an unknown id, so that the time is the same.
_NO_DIGEST: Final = bytes(32)


class Tokens(PeopleStore):
    """Issues, finds and withdraws tokens."""

    def issue(
        self,
        name: str,
        *,
        label: str = "",
        scopes: Iterable[TokenScope] | None = None,
        expires: datetime | None,
        operator: str,
        share: Number | None = None,
    ) -> Issued:
        """Issue a token for a person's programs; its text is returned here and never again.

        Its entry in the chain is made first, so that no token exists that the chain lacks.

        Args:
            name: owner of the token.
            label: its purpose.
            scopes: some of the person's rights; defaults to all of them.
            expires: time of expiry, with a time zone; ``None`` for never.
            operator: person who issues it.
            share: epsilon that all charges of the token may amount to, for each population; it can then only ask.
        """
        person = self.active(name)
        label = line(label, "label", _LABEL)
        chosen, epsilon = _chosen(scopes, person.scopes), None
        if share is not None:
            # A token with further rights could give itself a larger share.
            chosen, epsilon = _asking(scopes, person.scopes), exact_text(exact_positive(share, "share"))
        now = self.now()
        until = None if expires is None else stamp(expires, "expires")
        if until is not None and until <= now:
            raise InputError("expires", "must be in the future")
        code = Code.new(_KIND)
        verifier = ScramVerifier.derive(code.text).text
        words = _written(chosen)
        when = None if expires is None else expires.isoformat(timespec="seconds")
        born = self.born(
            person, ISSUED, token=code.id, scopes=words, expires=when, label=label, operator=operator,
            **({} if epsilon is None else {"share": epsilon}),
        )  # fmt: skip
        with self.tables.write() as run:
            run(
                "INSERT INTO people_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, 0, ?, ?)",
                (code.id, person.name, code.digest, label, words, born, now, until, verifier, epsilon),
            )
        return Issued(code.text, code.id, person.name, label, chosen, expires, epsilon)

    def tokens(self, name: str | None = None) -> tuple[TokenInfo, ...]:
        """Return all tokens ever issued, or those of one person; the newest last."""
        order = "ORDER BY t.issued, t.born"
        if name is None:
            rows = self.tables.read(_ROWS + order)
        else:
            rows = self.tables.read(_ROWS + "AND t.name = ? " + order, (spelled(name),))
        now = self.now()
        active = {row[1]: self.admitted(row[1]) is not None for row in rows}
        return tuple(_info(row, now, active[row[1]]) for row in rows)

    def withdraw(self, token_id: str, *, operator: str) -> None:
        """Withdraw a token. A repeated call completes an interrupted withdrawal that the chain lacks."""
        rows = self.tables.read("SELECT name FROM people_tokens WHERE id = ?", (line(token_id, "token", 40),))
        if not rows:
            raise InputError("token", f"there is no token {token_id!r}")
        with self.tables.write() as run:
            run("UPDATE people_tokens SET withdrawn = -1 WHERE id = ? AND withdrawn = 0", (token_id,))
        if self.tables.read("SELECT id FROM people_tokens WHERE id = ? AND withdrawn = -1", (token_id,)):
            words = {"token": token_id, "analyst": rows[0][0], "operator": operator}
            seq = self.ledger.note(WITHDRAWN, words).seq
            with self.tables.write() as run:
                withdraw(run, token_id, seq)

    def authenticate(self, text: object) -> Access | None:
        """Return the access of a token; ``None`` for every failure, after the same look-ups."""
        code = Code.read(_KIND, text)
        rows = self.tables.read(_ROWS + "AND t.id = ?", (code.id,))
        fits = code.fits(rows[0][2] if rows else _NO_DIGEST)
        person = self.admitted(rows[0][1] if rows else NO_NAME)
        now = self.now()
        if not rows or not fits or person is None or not _alive(rows[0], now):
            return None
        self._used(rows[0], now)
        return _token_access(person, rows[0])

    def prove(self, name: str, shown: ClientProof) -> tuple[Access, bytes] | None:
        """Return the access of the token whose possession a client has proved, and the server's proof."""
        name = known_as(name)
        person, now = self.admitted(name), self.now()
        for row in self.tables.read(_ROWS + "AND t.name = ?", (name,)):
            verifier = ScramVerifier.read(row[12])
            signature = None if verifier is None else verifier.check(shown)
            if signature is not None and person is not None and _alive(row, now):
                self._used(row, now)
                return _token_access(person, row), signature
        return None

    def renewed(self, access: Access) -> Access | None:
        """Return the current access of a token that was authenticated before; ``None`` once it is no longer valid."""
        rows = self.tables.read(_ROWS + "AND t.id = ?", (access.id,))
        person = self.admitted(rows[0][1] if rows else NO_NAME)
        if not rows or person is None or not _alive(rows[0], self.now()):
            return None
        return _token_access(person, rows[0])

    def _used(self, row: tuple[Any, ...], now: int) -> None:
        """Record the day of the last use; skipped if the database is busy."""
        day = now // _DAY
        if row[8] != day:
            with suppress(BusyError), self.tables.write() as run:
                run("UPDATE people_tokens SET used = ? WHERE id = ?", (day, row[0]))


def _token_access(person: Person, row: tuple[Any, ...]) -> Access:
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
    """Return the only scope of a token with a share."""
    if scopes is not None and _chosen(scopes, allowed) != {TokenScope.ASK}:
        raise InputError("scopes", "a token with a share may ask and nothing else; leave the scopes out")
    return _chosen((TokenScope.ASK,), allowed)


def _written(scopes: frozenset[TokenScope]) -> str:
    return " ".join(scope.value for scope in TokenScope if scope in scopes)


def _read(words: str) -> frozenset[TokenScope]:
    return frozenset(TokenScope(word) for word in words.split())


# -- sessions and links

#: Origins of sessions, in addition to the names of providers.
LINK: Final = "link"
SET_UP: Final = "setup"
#: Validity of the two kinds of links as text, for messages and pages.
LINK_WORDS: Final = "three days"
SET_UP_WORDS: Final = "an hour"

_SESSION: Final = "session"
_ENTRY: Final = "entry"
_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_LINK_LASTS: Final = {LINK: 3 * _DAY, SET_UP: _HOUR}
#: Maximum idle and total time of a session: signing in again takes one click at a provider, an owner for a link.
_LASTS: Final = {LINK: (7 * _DAY, 30 * _DAY)}
_LASTS_BY_PROVIDER: Final = (30 * _MINUTE, 12 * _HOUR)
_ENTRY_LASTS: Final = 10 * _MINUTE
#: Maximum number of sign-ins in progress, which anyone may begin.
_MOST_ENTRIES: Final = 10_000
#: Minimum time between two updates of a session's last visit.
_TOUCH: Final = _MINUTE
#: Join that keeps sessions and links born after the last end of their person.
_LIVE: Final = (
    "LEFT JOIN people_persons AS p ON p.name = s.name AND p.name <> '' CROSS JOIN people_persons AS a "
    "WHERE a.name = '' AND s.born > a.ended AND s.born > COALESCE(p.ended, 0) "
)
_LINKS: Final = f"SELECT s.name, s.digest FROM people_links AS s {_LIVE} AND s.kind = ? AND s.id = ? AND s.expires > ?"  # noqa: S608
_SESSIONS: Final = (
    "SELECT s.id, s.name, s.digest, s.entry, s.idle, s.opened, s.seen, s.expires FROM people_sessions AS s "
)


class Sessions(PeopleStore):
    """Opens, finds and ends sessions, and the one-time links that open them.

    There is one link at a time per person, and one for the set-up of the first owner.
    """

    def _open_session(self, person: Person, entry: str) -> Opened:
        """Open a session for an authenticated person; its entry in the chain is made first."""
        code = Code.new(_SESSION)
        born = self.born(person, OPENED, session=code.id, by=entry)
        now = self.now()
        idle, longest = _LASTS.get(entry, _LASTS_BY_PROVIDER)
        with self.tables.write() as run:
            run("DELETE FROM people_sessions WHERE expires <= ? OR seen + idle <= ?", (now, now))
            run(
                "INSERT INTO people_sessions (id, name, digest, entry, idle, born, opened, seen, expires) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (code.id, person.name, code.digest, entry, idle, born, now, now, now + longest),
            )
        return Opened(code.text, _session_access(person, code))

    def session(self, text: object) -> Access | None:
        """Return the access of a session, which expires some time after the last visit and after its beginning."""
        code = Code.read(_SESSION, text)
        rows = self.tables.read(_SESSIONS + _LIVE + "AND s.id = ?", (code.id,))
        _, name, digest, _, idle, _, seen, expires = rows[0] if rows else ("", NO_NAME, _NO_DIGEST, "", 0, 0, 0, 0)
        fits = code.fits(digest)
        person, now = self.admitted(name), self.now()
        if not rows or not fits or person is None or now >= expires or now >= seen + idle:
            return None
        if now >= seen + _TOUCH:
            with suppress(BusyError), self.tables.write() as run:
                run("UPDATE people_sessions SET seen = ? WHERE id = ? AND seen < ?", (now, code.id, now))
        return _session_access(person, code)

    def sessions(self, name: str) -> tuple[SessionInfo, ...]:
        """Return the live sessions of a person, the newest last."""
        now, person = self.now(), self.admitted(name)
        more = "AND s.name = ? AND s.expires > ? AND s.seen + s.idle > ? ORDER BY s.born"
        rows = self.tables.read(_SESSIONS + _LIVE + more, (known_as(name), now, now))
        return tuple(
            SessionInfo(row[0], row[1], row[3], *(from_stamp(row[i]) for i in (5, 6, 7)))
            for row in rows
            if person is not None
        )

    def end_session(self, session_id: str, *, operator: str) -> None:
        """End a session at once, in every process."""
        rows = self.tables.read("SELECT name FROM people_sessions WHERE id = ?", (line(session_id, "session", 40),))
        if not rows:
            raise InputError("session", "has ended already")
        # The chain first: otherwise an older copy of the table would restore the session.
        self.ledger.note(CLOSED, {"analyst": rows[0][0], "session": session_id, "operator": operator})
        with self.tables.write() as run:
            run("DELETE FROM people_sessions WHERE id = ?", (session_id,))

    def sign_out(self, text: object) -> None:
        """End the session with this secret."""
        code = Code.read(_SESSION, text)
        found = "SELECT name FROM people_sessions WHERE id = ? AND digest = ?"
        rows = self.tables.read(found, (code.id, code.digest))
        if rows:
            self.end_session(code.id, operator=rows[0][0])

    def link(self, name: str, *, operator: str) -> str:
        """Return the secret of a new one-time link to the console, valid for three days; it ends the previous one."""
        person = self.active(name)
        return self._keep_link(LINK, person.name, self.born(person, LINKED, operator=operator))

    def _new_set_up_link(self) -> str:
        """Return the secret of a new one-time set-up link, valid for an hour; it ends the previous one."""
        return self._keep_link(SET_UP, "", self.ledger.note(SET_UP_OFFERED, {}).seq)

    def _find_link(self, kind: str, text: object) -> str | None:
        """Return the person's name of a live link (``""`` for the set-up link); None for a dead link."""
        code = Code.read(kind, text)
        rows = self.tables.read(_LINKS, (kind, code.id, self.now()))
        name, digest = rows[0] if rows else (None, _NO_DIGEST)
        return name if code.fits(digest) else None

    def _use_link(self, kind: str, text: object) -> bool:
        """Use up a link; return whether it was live. Of several concurrent callers, one gets True."""
        code = Code.read(kind, text)
        if self._find_link(kind, text) is None:
            return False
        with self.tables.write() as run:
            took = "DELETE FROM people_links WHERE kind = ? AND id = ? AND digest = ? RETURNING id"
            return bool(run(took, (kind, code.id, code.digest)))

    def _keep_link(self, kind: str, name: str, born: int) -> str:
        code = Code.new(kind)
        with self.tables.write() as run:
            run(
                "INSERT INTO people_links (kind, name, id, digest, born, expires) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (kind, name) DO UPDATE SET id = excluded.id, digest = excluded.digest, "
                "born = excluded.born, expires = excluded.expires",
                (kind, name, code.id, code.digest, born, self.now() + _LINK_LASTS[kind]),
            )
        return code.text


class Entries:
    """Sign-ins in progress at a provider."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    def begin(self, provider: str, page: str) -> Code:
        """Begin a sign-in that returns to a page of the console; its secret belongs to one browser."""
        code, now = Code.new(_ENTRY), self._store.now()
        with self._store.tables.write() as run:
            run("DELETE FROM people_entries WHERE expires <= ?", (now,))
            newest = "SELECT id FROM people_entries ORDER BY expires DESC LIMIT ?"
            run(f"DELETE FROM people_entries WHERE id NOT IN ({newest})", (_MOST_ENTRIES - 1,))  # noqa: S608
            values = (code.id, code.digest, provider, page, now + _ENTRY_LASTS)
            run("INSERT INTO people_entries VALUES (?, ?, ?, ?, ?)", values)
        return code

    @staticmethod
    def has_state(text: object, state: str) -> bool:
        """Whether a state is the one derived from this secret."""
        return hmac.compare_digest(Code.read(_ENTRY, text).derived("state").encode(), state.encode())

    def take(self, provider: str, text: object) -> tuple[Code, str] | None:
        """Use up the sign-in with this secret at this provider; return its code and the page to return to."""
        code = Code.read(_ENTRY, text)
        with self._store.tables.write() as run:
            took = (
                "DELETE FROM people_entries WHERE id = ? AND digest = ? AND provider = ? AND expires > ? RETURNING page"
            )
            rows: list[tuple[Any, ...]] = run(took, (code.id, code.digest, provider, self._store.now()))
        return (code, rows[0][0]) if rows else None


def _session_access(person: Person, code: Code) -> Access:
    return Access(person, person.scopes, "session", code.id, code.derived("form"))
