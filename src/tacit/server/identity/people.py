"""``People``: authentication and authorisation."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Self

from tacit.core.closing import Closing
from tacit.core.errors import InputError
from tacit.core.numbers import Number
from tacit.ledger import Ledger
from tacit.ledger.memory import MEMORY
from tacit.server.errors import NotSignedIn
from tacit.server.identity.context import NO_NAME, Clock, IdentityContext
from tacit.server.identity.ledger_people import details_of, end, open_chain, person_of, spelled
from tacit.server.identity.models import (
    Access,
    Identity,
    Issued,
    Opened,
    Person,
    Role,
    SessionInfo,
    TokenInfo,
    TokenScope,
)
from tacit.server.identity.scram import ITERATIONS, ClientProof
from tacit.server.identity.sessions import LINK, SET_UP, Entries, Links, Sessions
from tacit.server.identity.stored_queries import JobStore, SavedQueries
from tacit.server.identity.tables import open_tables
from tacit.server.identity.tokens import Tokens


class People(Closing):
    """People of a ledger: who they are, how they prove it, and what they wait for.

    The identity of a person stands in the ledger's chain; the proofs of it in tables of the same database, as digests.
    Any number of threads and processes may hold one ledger's people open. A revoked person or a withdrawn
    token is refused from the moment the call returns, in every process.

    Every way to be refused looks the same: unknown, wrong, expired, withdrawn and revoked are ``None``.
    """

    def __init__(self, context: IdentityContext) -> None:
        self._context = context
        self._tokens = Tokens(context)
        self._sessions = Sessions(context)
        self._links = Links(context)
        #: Sign-ins under way at a provider.
        self.entries = Entries(context)
        #: Queries that are answered later.
        self.jobs = JobStore(context)
        #: Queries that people keep, beside the people.
        self.queries = SavedQueries(context)

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        place: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        iterations: int = ITERATIONS,
    ) -> Self:
        """The people of a ledger that is open.

        Args:
            ledger: whose.
            place: where it is kept, as it was opened: a file, ``postgresql://…`` with its password, or ``:memory:``.
            clock: for when things expire; no decision about privacy depends on it.
            iterations: of PBKDF2 in verifiers of tokens, for PostgreSQL clients; fewer for tests.
        """
        if ledger.durable == (place == MEMORY):
            raise InputError("place", "is not where the ledger is kept")
        tables = open_tables(ledger, place)
        try:
            chain = open_chain(ledger, place, tables)
        except BaseException:
            tables.close()
            raise
        return cls(IdentityContext(ledger, tables, chain, clock or partial(datetime.now, UTC), iterations))

    def close(self) -> None:
        """Give everything back but the ledger."""
        self._context.tables.close()

    # People ------------------------------------------------------------------------------------------------------

    def person(self, name: str) -> Person | None:
        """A person, also if revoked; ``None`` for an unknown name."""
        return self._context.person(name)

    def everyone(self) -> tuple[Person, ...]:
        """Everyone ever registered, by name."""
        return tuple(person_of(analyst) for analyst in self._context.ledger.analysts())

    def add(
        self, name: str, role: Role = Role.ANALYST, *, populations: Iterable[str] | None = None, operator: str
    ) -> Person:
        """Register a person, change their role, or admit them again.

        A person who was revoked before needs new tokens and a new link: the old ones stay ended. A person of a provider
        stays the one of that provider, which decides about their role again when they sign in.

        Args:
            name: names that differ only in case or Unicode form are the same.
            role: what they are from now on.
            populations: whose data exists for them, of those that have an account; defaults to all, as for owners.
            operator: who decided.
        """
        plain = spelled(name)
        try:
            role = Role(role)
        except ValueError:
            raise InputError("role", f"must be one of {', '.join(Role)}") from None
        seen = None if populations is None else self._populations(populations)
        if role is Role.OWNER and seen is not None:
            # They could let anyone in to everything, themselves under another name as well.
            raise InputError("populations", "an owner sees everything: choose all of them, or another role")
        known = self._context.chain.analyst(plain)
        if known is not None and not known.active:
            # They may have been revoked without the tables.
            with self._context.tables.write() as run:
                end(run, plain, known.since)
        identity = "" if known is None else person_of(known).identity
        self._context.ledger.add_analyst(plain, details_of(role, seen, identity), operator=operator)
        return Person(plain, role, True, seen, identity)

    def revoke(self, name: str, *, operator: str, reason: str = "") -> None:
        """Revoke a person: every token, session and link of theirs ends, and the ledger refuses them."""
        plain = spelled(name)
        if self._context.chain.analyst(plain) is None:
            raise InputError("name", f"no person is registered as {plain!r}")
        self._context.ledger.revoke_analyst(plain, operator=operator, reason=reason)
        # If they are admitted again at this moment, everything they had before ends all the same.
        ended = self._context.ledger.head.seq
        with self._context.tables.write() as run:
            end(run, plain, ended)

    # Tokens ------------------------------------------------------------------------------------------------------

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

        Args:
            name: whose.
            label: what it is for.
            scopes: some of the person's rights; defaults to all of them.
            expires: when it ends by itself, with a time zone; ``None`` for never.
            operator: who decided.
            share: epsilon that all charges of the token may amount to, of each population; its scope is then to ask.
        """
        return self._tokens.issue(name, label=label, scopes=scopes, expires=expires, operator=operator, share=share)

    def tokens(self, name: str | None = None) -> tuple[TokenInfo, ...]:
        """All tokens ever issued, or those of one person."""
        return self._tokens.all(name)

    def withdraw(self, token_id: str, *, operator: str) -> None:
        """End a token at once and for good."""
        self._tokens.withdraw(token_id, operator=operator)

    def authenticate(self, text: str) -> Access | None:
        """The access of a token."""
        return self._tokens.authenticate(text)

    def salt(self, name: str) -> tuple[bytes, int]:
        """Salt and iterations by which a client that says this name hashes its token; any name has them."""
        return self._context.salt(_spelled(name)), self._context.iterations

    def prove(self, name: str, shown: ClientProof) -> tuple[Access, bytes] | None:
        """The access of the token that a client has proved to hold, and the server's own proof."""
        return self._tokens.prove(_spelled(name), shown)

    def renewed(self, access: Access) -> Access | None:
        """The access as it is now, where a token was proved before; ``None`` once that is ended."""
        return self._tokens.renewed(access.id)

    # Sessions ----------------------------------------------------------------------------------------------------

    def session(self, text: str) -> Access | None:
        """The access of a session; it ends some time after the last visit, and some time after it began."""
        return self._sessions.find(text)

    def sessions(self, name: str) -> tuple[SessionInfo, ...]:
        """Live sessions of a person."""
        return self._sessions.all(_spelled(name))

    def end_session(self, session_id: str, *, operator: str) -> None:
        """End a session at once, in every process."""
        self._sessions.end(session_id, operator=operator)

    def sign_out(self, text: str) -> None:
        """End the session of this text."""
        self._sessions.sign_out(text)

    def enter(self, who: Identity) -> Opened:
        """A session for a person whom a provider has identified.

        The provider decides about role and populations each time. Issuer and subject identify a person; a name that
        another person has, registered here or of another provider, is not theirs.

        Raises:
            NotSignedIn: the provider's groups let them in no more, and everything they had is ended; they were revoked
                by an owner; or their name is another person's.
        """
        known = next((each for each in self.everyone() if each.identity == who.key), None)
        if known is not None and not known.active:
            raise NotSignedIn(f"{known.name} was revoked; an owner can admit them again")
        if who.role is None:
            if known is not None:
                self.revoke(known.name, operator=who.provider, reason="in no group that may enter")
            raise NotSignedIn(f"{who.provider} lists you in no group that may enter")
        if known is None:
            name = spelled(who.name)
            with self._context.tables.write() as run:
                run("INSERT INTO people_identities VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, who.key))
                ((owner,),) = run("SELECT identity FROM people_identities WHERE name = ?", (name,))
            if owner != who.key or self.person(name) is not None:
                raise NotSignedIn(f"the name {name} is that of another person here")
        else:
            name = known.name
        if known is None or (known.role, known.populations) != (who.role, who.populations):
            seen = None if who.populations is None else self._populations(who.populations)
            details = details_of(who.role, seen, who.key)
            self._context.ledger.add_analyst(name, details, operator=who.provider)
        return self._sessions.open(self._context.active(name), who.provider)

    # Links -------------------------------------------------------------------------------------------------------

    def link(self, name: str, *, operator: str) -> str:
        """A secret by which a person enters the console, once, within three days; it ends the one before."""
        return self._links.make(self._context.active(name), operator=operator)

    def linked(self, secret: str) -> Person | None:
        """Whom a link is for, if :meth:`follow` would take it."""
        name = self._links.find(LINK, secret)
        return None if name is None else self._context.admitted(name)

    def follow(self, secret: str) -> Opened | None:
        """A session by a link, which is used up."""
        person = self.linked(secret)
        if person is None or not self._links.use(LINK, secret):
            return None
        return self._sessions.open(person, LINK)

    def set_up_link(self) -> str | None:
        """The secret that makes the first owner, for an hour and once; ``None`` where there is an owner.

        Each call makes a new one and ends the one before.
        """
        return None if self._has_owner() else self._links.set_up()

    def set_up_open(self, secret: str) -> bool:
        """Whether :meth:`set_up` would take this secret."""
        return self._links.find(SET_UP, secret) is not None and not self._has_owner()

    def set_up(self, secret: str, name: str) -> Opened | None:
        """Make the first owner, and sign them in.

        Raises:
            InputError: the name cannot be used; the secret can be used again.
        """
        if not self.set_up_open(secret):
            return None
        plain = spelled(name)
        known = self.person(plain)
        if known is not None and not known.active:
            raise InputError("name", "was revoked; choose another")
        if not self._links.use(SET_UP, secret):
            return None
        return self._sessions.open(self.add(plain, Role.OWNER, operator="set-up"), LINK)

    def _has_owner(self) -> bool:
        return any(person.role is Role.OWNER and person.active for person in self.everyone())

    def _populations(self, names: Iterable[str]) -> frozenset[str]:
        if isinstance(names, str):
            raise InputError("populations", "must be a list of names")
        known = self._context.ledger.accounts()
        found = frozenset(spelled(name, "populations") for name in names)
        if not found <= set(known):
            raise InputError("populations", f"must be among {', '.join(known)}")
        return found


def _spelled(name: str) -> str:
    """A name in its one spelling; that of no person for a text that cannot be a name."""
    try:
        return spelled(name)
    except InputError:
        return NO_NAME
