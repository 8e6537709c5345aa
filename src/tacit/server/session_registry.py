"""Sessions of counting queries that this process goes on with, and who may.

A session belongs to the person who opened it; one that was opened with a token that has a share belongs to that token,
and all its charges are counted to that share. For all other people it does not exist.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Final

from tacit.charges.payment import Caller, CuratorContext
from tacit.ledger.entries import plain_name
from tacit.paid_work.query_session import (
    OpenedSession,
    QuerySession,
    opened_sessions,
    session_at,
    session_population,
)
from tacit.server.errors import Unknown

if TYPE_CHECKING:
    from tacit.charges.payment import Departure
    from tacit.curator.conversation import Conversation
    from tacit.wire.requests import SessionSchema

#: Sessions that are kept in memory: counts and histograms, 2 MB at most, and 0.1 MB for each hard answer.
_MOST_KEPT: Final = 64


class SessionRegistry:
    """The sessions of one process; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[int, QuerySession] = {}

    def open(
        self,
        context: CuratorContext,
        said: SessionSchema,
        person: str,
        conversation: Conversation | None,
        *,
        key: str = "",
        departure: Departure | None = None,
    ) -> QuerySession:
        """Open a session, charged to its population and counted to the person and the token's share."""
        population = session_population(context, said.source, said.columns)
        if conversation is not None:
            conversation.begin(context, person, population)
        caller = _caller(person, conversation, key)
        session = QuerySession(
            context, said.source, said.columns, epsilon=said.epsilon, threshold=said.threshold, caller=caller,
            departure=departure,
        )  # fmt: skip
        with self._lock:
            # Sent again, the same session: the one in memory has counts, and perhaps a part.
            found = self._kept.setdefault(session.position, session)
        self._make_room(session.position)
        return found

    def sessions(
        self, context: CuratorContext, person: str, conversation: Conversation | None
    ) -> tuple[OpenedSession, ...]:
        """The sessions that exist for the caller, the oldest first; free."""
        mine = _caller(person, conversation)
        return tuple(each for each in opened_sessions(context) if _is_of(each, mine))

    def find(
        self, context: CuratorContext, position: int, person: str, conversation: Conversation | None
    ) -> QuerySession:
        """A session of the caller; nothing is charged and no data is read.

        Raises:
            Unknown: there is none for the caller.
        """
        mine, known = _caller(person, conversation), session_at(context, position)
        seen = {plain_name(each.name, "population") for each in context.catalog.populations}
        if known is None or known.population not in seen or not _is_of(known, mine):
            raise Unknown("session")
        with self._lock:
            kept = self._kept.pop(position, None)
            if kept is not None:
                self._kept[position] = kept
                return kept
        session = QuerySession.resumed(context, position, mine)
        with self._lock:
            found = self._kept.setdefault(position, session)
        self._make_room(position)
        return found

    def _make_room(self, used: int) -> None:
        """Forget sessions of the person who has the most of them: none pays for parts that others push out.

        Those without an open part go first, of those and of others the ones used longest ago. The one at ``used``
        stays, or each of its queries would begin a part that no other query could go on with.
        """
        with self._lock:
            while len(self._kept) > _MOST_KEPT:
                others = {position: each for position, each in self._kept.items() if position != used}
                ((person, _),) = Counter(each.analyst for each in others.values()).most_common(1)
                own = [position for position, each in others.items() if each.analyst == person]
                idle = (position for position in own if not others[position].watching)
                del self._kept[next(idle, own[0])]


def _caller(person: str, conversation: Conversation | None, key: str = "") -> Caller:
    return Caller(plain_name(person, "name"), key, "" if conversation is None else conversation.name)


def _is_of(session: OpenedSession, caller: Caller) -> bool:
    return (session.analyst, session.terms.conversation) == (caller.analyst, caller.conversation)
