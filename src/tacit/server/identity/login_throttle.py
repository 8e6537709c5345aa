"""Login throttling.

A try is counted before the password is looked at and forgiven when it was right, so tries that are made side by side
count as well. While a lane waits, nothing is looked at and nothing is added to the wait, and the caller hears what
someone with a wrong password hears.

A name alone would let anybody keep its owner out. So there are two lanes: where a name has signed in before (an
*origin*: an address, or what the browser keeps) has a lane of its own, and everywhere else shares one. Somebody far
away who guesses does not slow down its owner at the usual place. And whoever keeps even the shared lane busy keeps out
nobody for good: a wait is at most a minute, and an invitation by an owner passes by all of this.

Lanes are kept in as many rows as 16 bits have values, whatever names are tried.
"""

from __future__ import annotations

import hashlib
from typing import Final

from tacit.server.identity.storage import PeopleTables

__all__ = ["Tries"]

_FREE: Final = 5
_LONGEST_WAIT: Final = 60_000
_FORGOTTEN_AFTER: Final = 15 * 60_000
_KNOWN_FOR: Final = 30 * 24 * 3600_000
_LANE_DIGITS: Final = 4


class Tries:
    """Counts tries, in the tables; times are in milliseconds."""

    def __init__(self, tables: PeopleTables) -> None:
        self._tables = tables

    def lane(self, name: str, origin: str, now: int) -> str:
        """The lane that a try is in."""
        rows = self._tables.read("SELECT until FROM people_origins WHERE origin = ?", (_hashed(name, origin),))
        known = bool(origin) and bool(rows) and now < rows[0][0]
        return _hashed(name, origin if known else "")[:_LANE_DIGITS]

    def begin(self, lane: str, now: int) -> bool:
        """Count a try; whether it may be made."""
        with self._tables.write() as run:
            # Held from here to the end of the transaction, so that of two tries one counts first.
            rows = run(
                "INSERT INTO people_tries VALUES (?, 0, 0, 0) ON CONFLICT (lane) DO UPDATE "
                "SET failures = people_tries.failures RETURNING failures, latest, until",
                (lane,),
            )
            failures, latest, until = rows[0]
            if not 0 <= now - latest <= _FORGOTTEN_AFTER:
                failures, until = 0, 0
            if now < until:
                return False
            failures += 1
            run(
                "UPDATE people_tries SET failures = ?, latest = ?, until = ? WHERE lane = ?",
                (failures, now, now + _wait(failures), lane),
            )
            return True

    def forgive(self, lane: str) -> None:
        """It was right."""
        with self._tables.write() as run:
            run("DELETE FROM people_tries WHERE lane = ?", (lane,))

    def forgive_everywhere(self, name: str) -> None:
        """Somebody who let them in knows that it is them."""
        self.forgive(_hashed(name, "")[:_LANE_DIGITS])

    def remember(self, name: str, origin: str, now: int) -> None:
        """They have signed in there."""
        if not origin:
            return
        with self._tables.write() as run:
            run("DELETE FROM people_origins WHERE until < ?", (now,))
            run(
                "INSERT INTO people_origins VALUES (?, ?) ON CONFLICT (origin) DO UPDATE SET until = excluded.until",
                (_hashed(name, origin), now + _KNOWN_FOR),
            )


def _wait(failures: int) -> int:
    """None for the first few, then twice as long each time."""
    return 0 if failures < _FREE else min(_LONGEST_WAIT, 1000 << min(failures - _FREE, 16))


def _hashed(name: str, origin: str) -> str:
    text = f"{len(name)}:{name}{origin}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
