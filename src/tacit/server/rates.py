"""How often somebody may come: a bucket of tokens for each, filled steadily, within bounded memory.

Every worker process counts for itself. No decision about privacy depends on a rate; they keep one person from taking
the time of all others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import Final

from tacit.server.errors import TooMany

__all__ = ["Rate", "network_of"]

#: Callers remembered; a bucket that is forgotten is full again, so this is far above how many come in a minute.
_MOST: Final = 100_000
#: Bits of an IPv6 address that whoever holds the rest of it can choose at will.
_OWN_BITS: Final = 64


class Rate:
    """At most so many a minute for each caller, all of which may come at once.

    Args:
        per_minute: how many.
        clock: in seconds, never set back.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._size = float(per_minute)
        self._per_second = per_minute / 60
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count one.

        Raises:
            TooMany: it was one too many, and is not counted.
        """
        wait = self._take(caller, 1.0)
        if wait > 0:
            raise TooMany(wait)

    def give_back(self, caller: str) -> None:
        """One that was counted should not have been."""
        with self._lock:
            if caller in self._buckets:
                left, since = self._buckets[caller]
                self._buckets[caller] = min(self._size, left + 1.0), since

    def wait_for(self, caller: str) -> float:
        """Seconds until one more would be let through; counts nothing."""
        return self._take(caller, 0.0)

    def _take(self, caller: str, tokens: float) -> float:
        with self._lock:
            now = self._clock()
            left, since = self._buckets.pop(caller, (self._size, now))
            left = min(self._size, left + (now - since) * self._per_second)
            wait = (1.0 - left) / self._per_second if left < 1.0 else 0.0
            if left < self._size or tokens:
                self._buckets[caller] = (left - tokens if wait == 0.0 else left, now)
            while len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        return wait


def network_of(address: str) -> str:
    """What counts as one address: whoever has one of IPv6 has all of its network, and could come from each of them."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> _OWN_BITS << _OWN_BITS)}/{_OWN_BITS}"
