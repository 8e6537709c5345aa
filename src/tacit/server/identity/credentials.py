"""Credentials: tokens of programs, sessions of browsers, one-time links, and sign-ins under way at a provider.

A code is ``tacit_<16 hexadecimal digits>_<64 hexadecimal digits>``: a public id, and a secret stored as a digest
without key or salt, because 256 bits cannot be guessed and no two secrets are equal.

That a token was issued, a session opened or ended, and a link made, are entries of the ledger's chain. A link works
once, and a new one ends the one before. A sign-in at a provider is bound to the browser that began it by a secret in a
cookie: state, nonce and the verifier of PKCE follow from it, and it is used up when the provider's response arrives.
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
from tacit.server.identity.scram import ClientProof, ScramVerifier, salt_of


@dataclass(frozen=True, slots=True)
class Access:
    """A person who has proved who they are.

    Args:
        scopes: rights by this proof: those of the token that are still those of the person.
        id: of the token or session; public.
        csrf: the text that a form must carry to be believed; for sessions only.
        share: epsilon that all charges of the token may amount to, of each population; None for no share of its own.
    """

    person: Person
    scopes: frozenset[TokenScope]
    kind: Literal["token", "session"]
    id: str
    csrf: str = field(default="", repr=False)
    share: str | None = None

    def has(self, scope: TokenScope) -> bool:
        """Whether this proof allows something."""
        return scope in self.scopes


@dataclass(frozen=True, slots=True)
class Issued:
    """A new token. ``text`` is shown to its owner once and kept nowhere."""

    text: str = field(repr=False)
    id: str
    name: str
    label: str
    scopes: frozenset[TokenScope]
    expires: datetime | None
    share: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A new session; the browser keeps ``text``."""

    text: str = field(repr=False)
    access: Access


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A live session as its owner and operators may see it; ``by`` is what opened it: a provider, or a link."""

    id: str
    name: str
    by: str
    opened: datetime
    seen: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Identity:
    """A person as an OpenID provider states them, checked.

    Args:
        provider: its name in the project file.
        key: issuer and subject; what identifies a person, whatever they are called.
        name: by the claim that the project file names.
        role: by the groups that the project file maps; ``None`` where none of them may enter.
        populations: likewise; ``None`` for all.
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
        id: public; it is withdrawn by this.
        label: its purpose, in its owner's words.
        scopes: rights that it was issued with.
        expires: when it ends by itself; ``None`` for never.
        used: the day it was last used, if ever.
        withdrawn: whether it, or its person, was ended.
        alive: whether it opens anything now.
        share: epsilon that all its charges may amount to, of each population.
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


class PeopleStore:
    """Ledger, tables and clock of the people. The clock decides when things expire, not about privacy."""

    def __init__(self, ledger: Ledger, tables: PeopleTables, chain: Chain, clock: Clock, iterations: int) -> None:
        self.ledger = ledger
        self.tables = tables
        self.chain = chain
        self._clock = clock
        self._iterations = iterations

    def now(self) -> int:
        """Current time in milliseconds."""
        return stamp(self._clock(), "clock")

    def person(self, name: object) -> Person | None:
        """A person, also if revoked; ``None`` for an unknown name, and for a text that cannot be one."""
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

    def salt(self, name: str) -> tuple[bytes, int]:
        """Salt and iterations by which a client that says this name hashes its token; any name has them."""
        rows = self.tables.read("SELECT secret FROM people_scram WHERE id = 1")
        if not rows:
            fresh = entropy.current().bits(256).to_bytes(32, "big")
            with self.tables.write() as run:
                run("INSERT INTO people_scram VALUES (1, ?) ON CONFLICT (id) DO NOTHING", (fresh,))
            rows = self.tables.read("SELECT secret FROM people_scram WHERE id = 1")
        return salt_of(known_as(name), bytes(rows[0][0])), self._iterations

    def born(self, person: Person, kind: str, **fields: Any) -> int:
        """Write into the chain that something is given to a person; the place of that entry.

        A person who was revoked up to here gets nothing: it would be born after their end.
        """
        seq = self.ledger.note(kind, {"analyst": person.name, **fields}).seq
        self.active(person.name)
        return seq


def known_as(name: str) -> str:
    """A name in its one spelling; that of no person for a text that cannot be a name."""
    try:
        return spelled(name)
    except InputError:
        return NO_NAME


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


# -- tokens

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
        """A token for a person's programs; its text is shown here and never again.

        Its entry in the chain is made first, so that no token exists that the chain does not know.

        Args:
            name: whose.
            label: what it is for.
            scopes: some of the person's rights; defaults to all of them.
            expires: when it ends by itself, with a time zone; ``None`` for never.
            operator: who decided.
            share: epsilon that all charges of the token may amount to, of each population; its scope is then to ask.
        """
        person = self.active(name)
        label = line(label, "label", _LABEL)
        chosen, epsilon = _chosen(scopes, person.scopes), None
        if share is not None:
            # A token that may do more than ask could give itself a larger share.
            chosen, epsilon = _asking(scopes, person.scopes), exact_text(exact_positive(share, "share"))
        now = self.now()
        until = None if expires is None else stamp(expires, "expires")
        if until is not None and until <= now:
            raise InputError("expires", "must be in the future")
        code = Code.new(_KIND)
        verifier = ScramVerifier.derive(code.text, *self.salt(person.name)).text
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
        """All tokens ever issued, or those of one person; the newest last."""
        order = "ORDER BY t.issued, t.born"
        if name is None:
            rows = self.tables.read(_ROWS + order)
        else:
            rows = self.tables.read(_ROWS + "AND t.name = ? " + order, (spelled(name),))
        now = self.now()
        active = {row[1]: self.admitted(row[1]) is not None for row in rows}
        return tuple(_info(row, now, active[row[1]]) for row in rows)

    def withdraw(self, token_id: str, *, operator: str) -> None:
        """End a token. Repeating it completes a withdrawal that was interrupted before the chain had it."""
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
        """The access of a token; every way to fail is the same way, after the same look-ups."""
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
        """The access of the person's token that a client has proved to hold, and the server's own proof."""
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
        """The access as it is now, where a token was proved before; ``None`` once that is ended."""
        rows = self.tables.read(_ROWS + "AND t.id = ?", (access.id,))
        person = self.admitted(rows[0][1] if rows else NO_NAME)
        if not rows or person is None or not _alive(rows[0], self.now()):
            return None
        return _token_access(person, rows[0])

    def _used(self, row: tuple[Any, ...], now: int) -> None:
        """Keep the day of the last use; not worth waiting for."""
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
    """The one scope of a token with a share."""
    if scopes is not None and _chosen(scopes, allowed) != {TokenScope.ASK}:
        raise InputError("scopes", "a token with a share may ask and nothing else; leave the scopes out")
    return _chosen((TokenScope.ASK,), allowed)


def _written(scopes: frozenset[TokenScope]) -> str:
    return " ".join(scope.value for scope in TokenScope if scope in scopes)


def _read(words: str) -> frozenset[TokenScope]:
    return frozenset(TokenScope(word) for word in words.split())


# -- sessions and links

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
_LINK_LASTS: Final = {LINK: 3 * _DAY, SET_UP: _HOUR}
#: Idle and longest time of a session: a provider lets its people in again by one click, a link takes an owner.
_LASTS: Final = {LINK: (7 * _DAY, 30 * _DAY)}
_LASTS_BY_PROVIDER: Final = (30 * _MINUTE, 12 * _HOUR)
_ENTRY_LASTS: Final = 10 * _MINUTE
#: Sign-ins under way at providers; strangers may begin them.
_MOST_ENTRIES: Final = 10_000
#: The last visit of a session is written down this often at most.
_TOUCH: Final = _MINUTE
#: Sessions and links of people whose last end was before.
_LIVE: Final = (
    "LEFT JOIN people_persons AS p ON p.name = s.name AND p.name <> '' CROSS JOIN people_persons AS a "
    "WHERE a.name = '' AND s.born > a.ended AND s.born > COALESCE(p.ended, 0) "
)
_LINKS: Final = f"SELECT s.name, s.digest FROM people_links AS s {_LIVE} AND s.kind = ? AND s.id = ? AND s.expires > ?"  # noqa: S608
_SESSIONS: Final = (
    "SELECT s.id, s.name, s.digest, s.entry, s.idle, s.opened, s.seen, s.expires FROM people_sessions AS s "
)


class Sessions(PeopleStore):
    """Opens, finds and ends sessions and the one-time links that open them.

    There is one link at a time for a person, and one for the set-up of the first owner.
    """

    def _open_session(self, person: Person, entry: str) -> Opened:
        """A session of a person who has just proved who they are; its entry in the chain is made first."""
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
        """The access of a session; it ends some time after the last visit, and some time after it began."""
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
        """Live sessions of a person, the newest last."""
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
        # The chain first: were only the table written, an older copy of it would bring the session back.
        self.ledger.note(CLOSED, {"analyst": rows[0][0], "session": session_id, "operator": operator})
        with self.tables.write() as run:
            run("DELETE FROM people_sessions WHERE id = ?", (session_id,))

    def sign_out(self, text: object) -> None:
        """End the session of this text."""
        code = Code.read(_SESSION, text)
        found = "SELECT name FROM people_sessions WHERE id = ? AND digest = ?"
        rows = self.tables.read(found, (code.id, code.digest))
        if rows:
            self.end_session(code.id, operator=rows[0][0])

    def link(self, name: str, *, operator: str) -> str:
        """A secret by which a person enters the console, once, within three days; it ends the one before."""
        person = self.active(name)
        return self._keep_link(LINK, person.name, self.born(person, LINKED, operator=operator))

    def _new_set_up_link(self) -> str:
        """A secret for the operator who starts the server, for an hour and once; it ends the one before."""
        return self._keep_link(SET_UP, "", self.ledger.note(SET_UP_OFFERED, {}).seq)

    def _find_link(self, kind: str, text: object) -> str | None:
        """The name of the person a live link belongs to; that of the set-up is ``""``."""
        code = Code.read(kind, text)
        rows = self.tables.read(_LINKS, (kind, code.id, self.now()))
        name, digest = rows[0] if rows else (None, _NO_DIGEST)
        return name if code.fits(digest) else None

    def _use_link(self, kind: str, text: object) -> bool:
        """Use a link up; of several callers at once, one is told that it succeeded."""
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
    """Sign-ins under way at a provider."""

    def __init__(self, store: PeopleStore) -> None:
        self._store = store

    def begin(self, provider: str, page: str) -> Code:
        """A sign-in that leads to a page of the console; its secret belongs to one browser."""
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
        """Whether a state is the one that follows from this secret."""
        return hmac.compare_digest(Code.read(_ENTRY, text).derived("state").encode(), state.encode())

    def take(self, provider: str, text: object) -> tuple[Code, str] | None:
        """Use up the sign-in of this secret at this provider: its code, and the page that it leads to."""
        code = Code.read(_ENTRY, text)
        with self._store.tables.write() as run:
            took = (
                "DELETE FROM people_entries WHERE id = ? AND digest = ? AND provider = ? AND expires > ? RETURNING page"
            )
            rows: list[tuple[Any, ...]] = run(took, (code.id, code.digest, provider, self._store.now()))
        return (code, rows[0][0]) if rows else None


def _session_access(person: Person, code: Code) -> Access:
    return Access(person, person.scopes, "session", code.id, code.derived("form"))
