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
from tacit.server.identity.context import NO_NAME, Clock, IdentityContext
from tacit.server.identity.invitations import SET_UP, WELCOME, OneTimeLinks
from tacit.server.identity.jobs import JobStore
from tacit.server.identity.ledger_people import details_of, end, open_chain, person_of, spelled
from tacit.server.identity.models import Access, Issued, Opened, Person, Role, TokenInfo, TokenScope
from tacit.server.identity.passwords import Hasher, Hashing, check_password
from tacit.server.identity.saved_questions import SavedQuestions
from tacit.server.identity.scram import ClientProof
from tacit.server.identity.sessions import Sessions
from tacit.server.identity.tables import open_tables
from tacit.server.identity.tokens import Tokens


class People(Closing):
    """People of a ledger: who they are, how they prove it, and what they wait for.

    The identity of a person stands in the ledger's chain; the proofs of it in tables of the same database, as digests
    and hashes. Any number of threads and processes may hold one ledger's people open. A revoked person or a withdrawn
    token is refused from the moment the call returns, in every process.

    Every way to be refused looks the same: unknown, wrong, expired, withdrawn and revoked are ``None``.
    """

    def __init__(self, context: IdentityContext, hashing: Hashing, obvious: Iterable[str] = ()) -> None:
        self._context = context
        self._tokens = Tokens(context)
        self._obvious = tuple(obvious)
        self._sessions = Sessions(context, Hasher(hashing), self._obvious)
        self._links = OneTimeLinks(context)
        #: Questions that are answered later.
        self.jobs = JobStore(context)
        #: Questions that people keep, beside the people.
        self.questions = SavedQuestions(context)

    @classmethod
    def open(
        cls,
        ledger: Ledger,
        place: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        hashing: Hashing | None = None,
        obvious: Iterable[str] = (),
        password_verifiers: bool = False,
    ) -> Self:
        """The people of a ledger that is open.

        Args:
            ledger: whose.
            place: where it is kept, as it was opened: a file, ``postgresql://…`` with its password, or ``:memory:``.
            clock: for when things expire; no decision about privacy depends on it.
            hashing: what a password costs, for tests.
            obvious: names that are no passwords, such as the project's.
            password_verifiers: keep a verifier of each password beside its hash, for PostgreSQL clients.
        """
        if ledger.durable == (place == MEMORY):
            raise InputError("place", "is not where the ledger is kept")
        tables = open_tables(ledger, place)
        try:
            chain = open_chain(ledger, place, tables)
        except BaseException:
            tables.close()
            raise
        costs = hashing or Hashing()
        context = IdentityContext(
            ledger, tables, chain, clock or partial(datetime.now, UTC), costs.iterations, password_verifiers
        )
        return cls(context, costs, obvious)

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

        A person who was revoked before needs new tokens and a new password: the old ones stay ended.

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
        self._context.ledger.add_analyst(plain, details_of(role, seen), operator=operator)
        return Person(plain, role, True, seen)

    def revoke(self, name: str, *, operator: str, reason: str = "") -> None:
        """Revoke a person: every token, session, link and password of theirs ends, and the ledger refuses them."""
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

    # Passwords and sessions --------------------------------------------------------------------------------------

    def set_password(self, name: str, password: str, *, operator: str) -> None:
        """Give a person a password; sessions that were opened with another one end."""
        person = self._context.active(name)
        self._sessions.keep(person, self._sessions.hashed(password, person.name), operator=operator)

    def signs_in(self, name: str) -> bool:
        """Whether a person has a password."""
        person = self._context.admitted(name)
        return person is not None and self._sessions.has_password(person.name)

    def sign_in(self, name: str, password: str, *, origin: str = "") -> Opened | None:
        """A session, given the password.

        Args:
            name: who they say they are.
            password: what they typed.
            origin: where from: an address, or what the browser keeps. Where a name has signed in before, failures
                elsewhere do not slow it down.
        """
        return self._sessions.sign_in(_spelled(name), password, origin[:200])

    def check_password(self, name: str, password: str) -> None:
        """Refuse a password that would be guessed first.

        Raises:
            InputError: says what to choose instead.
        """
        check_password(password, spelled(name), self._obvious)

    def change_password(self, name: str, old: str, new: str, *, origin: str = "") -> Opened | None:
        """Another password, given the one in force; every session ends, and a new one begins.

        A session alone is not enough: its owner may have left their desk. Tries are counted as those of
        :meth:`sign_in` are, in the same places.

        Raises:
            InputError: the new one cannot be used. Nothing was tried or counted.
        """
        plain = spelled(name)
        check_password(new, plain, self._obvious)
        return self._sessions.change(plain, old, new, origin[:200])

    def session(self, text: str) -> Access | None:
        """The access of a session; it ends after half an hour without a visit, and after twelve hours."""
        return self._sessions.session(text)

    def salt(self, name: str) -> tuple[bytes, int]:
        """Salt and iterations by which a client that says this name hashes its secret; any name has them."""
        return self._context.salt(_spelled(name)), self._context.iterations

    def prove_token(self, name: str, shown: ClientProof) -> tuple[Access, bytes] | None:
        """The access of the token that a client has proved to hold, and the server's own proof."""
        return self._tokens.prove(_spelled(name), shown)

    def prove_password(self, name: str, shown: ClientProof, *, origin: str = "") -> tuple[Access, bytes] | None:
        """The access of the password that a client has proved to hold, and the server's own proof.

        Tries are counted as those of :meth:`sign_in` are.
        """
        return self._sessions.prove(_spelled(name), shown, origin[:200])

    def renewed(self, access: Access) -> Access | None:
        """The access as it is now, where a token or a password was proved before; ``None`` once that is ended."""
        if access.kind == "token":
            return self._tokens.renewed(access.id)
        return self._sessions.renewed(access.person.name, access.id)

    def sign_out(self, text: str) -> None:
        """End a session."""
        self._sessions.sign_out(text)

    # Links -------------------------------------------------------------------------------------------------------

    def set_up_secret(self) -> str | None:
        """The secret that makes the first owner, for an hour and once; ``None`` when an owner can sign in.

        Each call makes a new one and ends the one before.
        """
        return None if self._has_owner() else self._links.set_up()

    def set_up_open(self, secret: str) -> bool:
        """Whether :meth:`set_up` would take this secret."""
        return self._links.find(SET_UP, secret) is not None and not self._has_owner()

    def set_up(self, secret: str, name: str, password: str) -> Opened | None:
        """Make the first owner, and sign them in.

        Raises:
            InputError: the name or the password cannot be used; the secret can be used again.
        """
        if not self.set_up_open(secret):
            return None
        plain = spelled(name)
        known = self.person(plain)
        if known is not None and not known.active:
            raise InputError("name", "was revoked; choose another")
        hashed = self._sessions.hashed(password, plain)
        if not self._links.use(SET_UP, secret):
            return None
        owner = self.add(plain, Role.OWNER, operator="set-up")
        return self._sessions.open(owner, self._sessions.keep(owner, hashed, operator="set-up"))

    def invite(self, name: str, *, operator: str) -> str:
        """A secret with which a person chooses their own password, once, within three days."""
        return self._links.welcome(self._context.active(name), operator=operator)

    def invited(self, secret: str) -> Person | None:
        """Whom an invitation is for, if :meth:`accept` would take it."""
        name = self._links.find(WELCOME, secret)
        return None if name is None else self._context.admitted(name)

    def accept(self, secret: str, password: str) -> Opened | None:
        """Choose a password by invitation, and be signed in.

        Raises:
            InputError: the password cannot be used; the invitation can be used again.
        """
        person = self.invited(secret)
        if person is None:
            return None
        hashed = self._sessions.hashed(password, person.name)
        if not self._links.use(WELCOME, secret):
            return None
        return self._sessions.open(person, self._sessions.keep(person, hashed, operator=person.name))

    def _has_owner(self) -> bool:
        """Whether an owner can sign in."""
        return any(
            person.role is Role.OWNER and person.active and self._sessions.has_password(person.name)
            for person in self.everyone()
        )

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
