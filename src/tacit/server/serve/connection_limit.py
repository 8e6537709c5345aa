"""Limits on open connections per worker and address.

A connection is **idle** while no request of it is being answered: a browser between two clicks, or one of
thousands of connections on which one byte a minute arrives, of a head or of a body. Idle ones can be closed without
loss. So when an address has its share, its own oldest idle connection makes room for a new one; when all places are
taken, that of the address which has the most. Only where nothing is idle is the newcomer turned away.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol


class Connection(Protocol):
    """A connection that can be aborted."""

    def hang_up(self) -> None:
        """End it at once."""


class Connections:
    """The connections of one worker; used from its event loop alone.

    One address has at most ``most_of_one``; None for as many as in all, as behind a proxy.
    """

    def __init__(self, most: int, most_of_one: int | None = None) -> None:
        self._most = most
        self._most_of_one = most if most_of_one is None else min(most_of_one, most)
        # Dictionaries as ordered sets: the first key is the oldest.
        self._idle: defaultdict[str, dict[Connection, None]] = defaultdict(dict)
        self._busy: defaultdict[str, set[Connection]] = defaultdict(set)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, address: str) -> int:
        """Number of connections of an address."""
        return len(self._idle.get(address, ())) + len(self._busy.get(address, ()))

    def admit(self, address: str, connection: Connection) -> bool:
        """Take a new connection, at the expense of an idle one if need be; False to turn it away."""
        if self.of(address) >= self._most_of_one:
            if not self._evict(address):
                return False
        elif self._count >= self._most:
            greediest = max(self._idle, key=lambda each: (bool(self._idle[each]), self.of(each)), default="")
            if not self._evict(greediest):
                return False
        self._idle[address][connection] = None
        self._count += 1
        return True

    def begin(self, address: str, connection: Connection) -> None:
        """A request of it is being answered from here on."""
        if self._idle[address].pop(connection, self) is None:
            self._busy[address].add(connection)

    def end(self, address: str, connection: Connection) -> None:
        """Its request was answered: it is idle, and the youngest of those."""
        if connection in self._busy[address]:
            self._busy[address].discard(connection)
            self._idle[address][connection] = None

    def leave(self, address: str, connection: Connection) -> None:
        """Forget a closed connection."""
        idle, busy = self._idle[address], self._busy[address]
        if connection in idle or connection in busy:
            idle.pop(connection, None)
            busy.discard(connection)
            self._count -= 1
        if not idle:
            del self._idle[address]
        if not busy:
            del self._busy[address]

    def _evict(self, address: str) -> bool:
        oldest = next(iter(self._idle.get(address, ())), None)
        if oldest is None:
            return False
        self.leave(address, oldest)
        oldest.hang_up()
        return True
