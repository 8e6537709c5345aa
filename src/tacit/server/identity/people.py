"""``People``: authentication and authorisation."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Self

from tacit.core.closing import Closing
from tacit.core.errors import InputError
from tacit.ledger import Ledger
from tacit.ledger.memory import MEMORY
from tacit.server.errors import NotSignedIn
from tacit.server.identity.chain import (
    Chain,
    PeopleTables,
    Person,
    Role,
    details_of,
    end,
    open_chain,
    open_tables,
    person_of,
    spelled,
)
from tacit.server.identity.credentials import LINK, SET_UP, Clock, Entries, Identity, Opened, Sessions, Tokens
from tacit.server.identity.jobs import JobStore


class People(Tokens, Sessions, Closing):
    """People of a ledger: identities, credentials and jobs.

    A person's identity is recorded in the ledger's chain; credentials are stored in tables of the same database, as
    digests. Any number of threads and processes may open one ledger's people. A revoked person or a withdrawn token is
    refused in every process from the moment the call returns.

    All failures of authentication look the same: for unknown, wrong, expired, withdrawn and revoked credentials the
    result is ``None``.
    """

    def __init__(self, ledger: Ledger, tables: PeopleTables, chain: Chain, clock: Clock) -> None:
        super().__init__(ledger, tables, chain, clock)
        #: Sign-ins in progress at a provider.
        self.entries = Entries(self)
        #: Background jobs.
        self.jobs = JobStore(self)

    @classmethod
    def open(cls, ledger: Ledger, place: str | os.PathLike[str], *, clock: Clock | None = None) -> Self:
        """Open the people of an open ledger.

        Args:
            ledger: the open ledger.
            place: its location, as it was opened: a file, ``postgresql://…`` with its password, or ``:memory:``.
            clock: decides about expiry; no privacy decision depends on it.
        """
        if ledger.durable == (place == MEMORY):
            raise InputError("place", "is not where the ledger is kept")
        tables = open_tables(ledger, place)
        try:
            chain = open_chain(ledger, place, tables)
        except BaseException:
            tables.close()
            raise
        return cls(ledger, tables, chain, clock or partial(datetime.now, UTC))

    def close(self) -> None:
        """Release all resources except the ledger."""
        self.tables.close()

    # People ------------------------------------------------------------------------------------------------------

    def everyone(self) -> tuple[Person, ...]:
        """Return everyone ever registered, including revoked people, sorted by name."""
        return tuple(person_of(analyst) for analyst in self.ledger.analysts())

    def add(
        self, name: str, role: Role = Role.ANALYST, *, populations: Iterable[str] | None = None, operator: str
    ) -> Person:
        """Register a person, change their role, or admit them again.

        A person who was revoked before needs new tokens and a new link: the old ones stay invalid. A person of a
        provider stays linked to that provider, which decides about their role again when they sign in.

        Args:
            name: names that differ only in case or Unicode form are the same.
            role: the new role.
            populations: populations that they may see, out of those with an account; defaults to all, as for owners.
            operator: person who decides this.
        """
        plain = spelled(name)
        try:
            role = Role(role)
        except ValueError:
            raise InputError("role", f"must be one of {', '.join(Role)}") from None
        seen = None if populations is None else self._populations(populations)
        if role is Role.OWNER and seen is not None:
            # An owner can give anyone every right, including themselves under another name.
            raise InputError("populations", "an owner sees everything: choose all of them, or another role")
        known = self.chain.analyst(plain)
        if known is not None and not known.active:
            # The revocation may be missing in the tables.
            with self.tables.write() as run:
                end(run, plain, known.since)
        identity = "" if known is None else person_of(known).identity
        self.ledger.add_analyst(plain, details_of(role, seen, identity), operator=operator)
        return Person(plain, role, True, seen, identity)

    def revoke(self, name: str, *, operator: str, reason: str = "") -> None:
        """Revoke a person: all their tokens, sessions and links end, and the ledger refuses them."""
        plain = spelled(name)
        if self.chain.analyst(plain) is None:
            raise InputError("name", f"no person is registered as {plain!r}")
        self.ledger.revoke_analyst(plain, operator=operator, reason=reason)
        # Even if they are admitted again concurrently, their earlier credentials end.
        ended = self.ledger.head.seq
        with self.tables.write() as run:
            end(run, plain, ended)

    # Entering ----------------------------------------------------------------------------------------------------

    def enter(self, who: Identity) -> Opened:
        """Open a session for a person whom a provider has identified.

        The provider decides about role and populations each time. Issuer and subject identify a person; a name that
        another person has, registered here or of another provider, is refused.

        Raises:
            NotSignedIn: the provider's groups no longer admit them, and all their credentials are ended; or they were
                revoked by an owner; or their name is another person's.
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
            with self.tables.write() as run:
                run("INSERT INTO people_identities VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, who.key))
                ((owner,),) = run("SELECT identity FROM people_identities WHERE name = ?", (name,))
            if owner != who.key or self.person(name) is not None:
                raise NotSignedIn(f"the name {name} is that of another person here")
        else:
            name = known.name
        if known is None or (known.role, known.populations) != (who.role, who.populations):
            seen = None if who.populations is None else self._populations(who.populations)
            details = details_of(who.role, seen, who.key)
            self.ledger.add_analyst(name, details, operator=who.provider)
        return self._open_session(self.active(name), who.provider)

    def linked(self, secret: str) -> Person | None:
        """Return the person of a link, if :meth:`follow` would accept it."""
        name = self._find_link(LINK, secret)
        return None if name is None else self.admitted(name)

    def follow(self, secret: str) -> Opened | None:
        """Open a session by a link, which is used up; ``None`` if the link is not valid."""
        person = self.linked(secret)
        if person is None or not self._use_link(LINK, secret):
            return None
        return self._open_session(person, LINK)

    def set_up_link(self) -> str | None:
        """Return the secret that creates the first owner, valid once and for an hour; ``None`` if there is an owner.

        Each call creates a new secret and invalidates the previous one.
        """
        return None if self._has_owner() else self._new_set_up_link()

    def set_up_open(self, secret: str) -> bool:
        """Whether :meth:`set_up` would accept this secret."""
        return self._find_link(SET_UP, secret) is not None and not self._has_owner()

    def set_up(self, secret: str, name: str) -> Opened | None:
        """Create the first owner, and sign them in; ``None`` if the secret is not valid.

        Raises:
            InputError: the name cannot be used; the secret can be used again.
        """
        if not self.set_up_open(secret):
            return None
        plain = spelled(name)
        known = self.person(plain)
        if known is not None and not known.active:
            raise InputError("name", "was revoked; choose another")
        if not self._use_link(SET_UP, secret):
            return None
        return self._open_session(self.add(plain, Role.OWNER, operator="set-up"), LINK)

    def _has_owner(self) -> bool:
        return any(person.role is Role.OWNER and person.active for person in self.everyone())

    def _populations(self, names: Iterable[str]) -> frozenset[str]:
        if isinstance(names, str):
            raise InputError("populations", "must be a list of names")
        known = self.ledger.accounts()
        found = frozenset(spelled(name, "populations") for name in names)
        if not found <= set(known):
            raise InputError("populations", f"must be among {', '.join(known)}")
        return found
