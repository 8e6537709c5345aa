"""Records of people, tokens and sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from typing import Final, Literal


class Role(StrEnum):
    """Role of a person."""

    OWNER = "owner"
    ANALYST = "analyst"
    AUDITOR = "auditor"


class TokenScope(StrEnum):
    """Right of a person: ask queries, look at all queries, decide about people."""

    ASK = "ask"
    AUDIT = "audit"
    ADMIN = "admin"


_SCOPES: Final[Mapping[Role, frozenset[TokenScope]]] = {
    Role.OWNER: frozenset(TokenScope),
    Role.ANALYST: frozenset({TokenScope.ASK}),
    Role.AUDITOR: frozenset({TokenScope.AUDIT}),
}


@dataclass(frozen=True, slots=True)
class Person:
    """A person in the ledger.

    Args:
        name: in its one spelling.
        active: whether they may do anything at all.
        populations: whose data exists for them; ``None`` for all.
        identity: issuer and subject, for a person of an OpenID provider; empty for one who was registered here.
    """

    name: str
    role: Role
    active: bool
    populations: frozenset[str] | None = None
    identity: str = ""

    @property
    def scopes(self) -> frozenset[TokenScope]:
        """Their rights; none once revoked."""
        return _SCOPES[self.role] if self.active else frozenset()


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


JobState = Literal["waiting", "running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Job:
    """A query that is answered later, by whichever worker takes it.

    Args:
        id: as :func:`~tacit.server.identity.context.new_id` makes them.
        analyst: its owner, who alone finds it.
        request: the query, as :func:`tacit.server.api.request.job_text` writes it.
        outcome: the answer or the failure, in JSON.
        worker: the one that has it, until ``lease``; afterwards another may take it.
        tries: how many workers have taken it.
    """

    id: str
    analyst: str
    request: str
    created: datetime
    state: JobState = "waiting"
    outcome: str = field(default="", repr=False)
    worker: str = ""
    lease: datetime | None = None
    finished: datetime | None = None
    tries: int = 0
