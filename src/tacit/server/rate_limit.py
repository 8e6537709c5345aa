"""Token-bucket rate limits.

No decision about privacy depends on a rate; they keep one person from taking the time of all others.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Final

from tacit.server.errors import TooMany
from tacit.server.shared_token_buckets import Buckets

#: Bits of an IPv6 address that the holder of a network can choose at will.
_OWN_BITS: Final = 64
_SECOND: Final = 10**9
_MINUTE: Final = 60 * _SECOND


class RateLimit:
    """At most so many a minute for each caller, all of which may come at once.

    Args:
        clock: in seconds, never set back, and the same in all processes.
        buckets: the counters; its own by default.
        name: tells it from other rates that are counted there.
    """

    def __init__(
        self,
        per_minute: int,
        clock: Callable[[], float] = monotonic,
        *,
        buckets: Buckets | None = None,
        name: str = "",
    ) -> None:
        # Rounded down, so that all that may come at once fit into a minute.
        self._step = max(int(_MINUTE // per_minute), 1)
        self._clock = clock
        self._buckets = buckets or Buckets()
        self._name = name

    def take(self, caller: str) -> None:
        """Count one.

        Raises:
            TooMany: it was one too many, and is not counted.
        """
        wait = self._pour(caller, self._step)
        if wait:
            raise TooMany(wait)

    def give_back(self, caller: str) -> None:
        """Take back one that should not have been counted."""
        self._pour(caller, -self._step)

    def wait_for(self, caller: str) -> float:
        """Seconds until one more would be let through; counts nothing."""
        return self._pour(caller, 0)

    def _pour(self, caller: str, step: int) -> float:
        now = int(self._clock() * _SECOND)
        # A look at it alone must leave room for one.
        deep = _MINUTE - (0 if step else self._step)
        return self._buckets.pour(f"{self._name}\0{caller}", step, now, deep) / _SECOND


def network_of(address: str) -> str:
    """The network that counts as one address: the holder of one IPv6 address has all of its /64."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> _OWN_BITS << _OWN_BITS)}/{_OWN_BITS}"
