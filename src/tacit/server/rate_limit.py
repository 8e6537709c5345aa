"""Rate limits: token buckets and counters, in memory shared by worker processes.

A bucket is one number: the time at which it will be full again. A keyed hash of its caller's name selects a row of a
few places for it. If all of them are taken, the bucket that will be full first is evicted, because the least is lost
with it: a full bucket need not be stored. The key is drawn at random for each memory, so that no caller can choose a
name that collides with another's.

The memory also holds counters. Counts of late answers limit what can be learned, so counters are never evicted: if all
places are taken, no new counter is begun, and operations that need one are refused. A counter decreases by one at a
stated rate, or never.

The supervisor allocates the memory before it forks. It is guarded by a file lock, which the operating system releases
with the process that holds it, so that a worker may be killed at any moment. No privacy decision depends on a rate
limit: rate limits keep one person from taking everyone's processor time.
"""

from __future__ import annotations

import hashlib
import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address
from tempfile import TemporaryFile
from time import monotonic
from typing import IO, Final

from tacit.noise import entropy
from tacit.server.errors import TooMany

#: Number of buckets, and of buckets per row; both are powers of two.
_MOST: Final = 1 << 17
_BESIDE: Final = 8
#: Words of a bucket: the tag of its caller and its time.
_WORDS: Final = 2
_BYTES: Final = 8
#: Number of counters, which are never evicted: one per person or population with something to count.
_COUNTERS: Final = 1 << 14


#: Offset of the one lock that guards all counters, which change rarely.
_COUNTING: Final = _MOST * _WORDS


class Buckets:
    """Token buckets and counters, by name, in memory; a bucket is a time in nanoseconds.

    Args:
        shared: whether processes forked from this one share the memory.
    """

    def __init__(self, *, shared: bool = False) -> None:
        size = (_MOST + _COUNTERS) * _WORDS * _BYTES
        self._memory: bytearray | mmap.mmap = mmap.mmap(-1, size) if shared else bytearray(size)
        self._words = memoryview(self._memory).cast("q")
        self._gate: IO[bytes] | None = TemporaryFile() if shared else None  # noqa: SIM115  (it lives as long as this)
        self._key = entropy.current().bits(128).to_bytes(16, "big")
        # The file lock excludes other processes; this one excludes other threads.
        self._lock = threading.Lock()

    def pour(self, name: str, step: int, now: int, most: int) -> int:
        """Take ``step`` nanoseconds from a bucket of depth ``most``; return the time to wait if it holds less, else 0.

        A caller that has to wait has taken nothing. A negative step gives time back.
        """
        place, mark = self._place(name)
        with self._held(place):
            found = self._find(place, mark)
            full = max(self._words[found + 1] if self._words[found] == mark else 0, now)
            wait = full + step - now - most
            if wait > 0:
                return wait
            if step and full + step > now:
                self._words[found], self._words[found + 1] = mark, full + step
            elif step and self._words[found] == mark:
                self._words[found + 1] = 0
        return 0

    def counted(self, name: str, step: int = 0, now: int = 0) -> int:
        """Return a counter, which decreases by one per ``step`` nanoseconds; with 0 it never decreases."""
        place, mark = self._counter(name)
        with self._held(_COUNTING):
            return self._count_at(self._find_counter(place, mark), mark, step, now)

    def add(self, name: str, most: int, step: int = 0, now: int = 0) -> bool:
        """Increase a counter by one, unless it is at ``most`` or no place is free; return whether it was increased.

        In any span of time it is increased at most ``most`` times, and once more for each ``step`` of that time.
        """
        place, mark = self._counter(name)
        with self._held(_COUNTING):
            found = self._find_counter(place, mark)
            if found is None or most < 1 or self._count_at(found, mark, step, now) >= most:
                return False
            # With a step, a counter is stored as the time at which it will be zero.
            before = self._words[found + 1] if self._words[found] == mark else 0
            self._words[found], self._words[found + 1] = mark, (max(before, now) + step if step else before + 1)
        return True

    def _count_at(self, found: int | None, mark: int, step: int, now: int) -> int:
        if found is None or self._words[found] != mark:
            return 0
        word = self._words[found + 1]
        return -(-max(word - now, 0) // step) if step else word

    def seal(self, purpose: str, content: bytes, size: int) -> bytes:
        """Return a keyed hash of some content, which only processes that share this memory can compute."""
        content = purpose.encode() + b"\0" + content
        return hashlib.blake2b(content, digest_size=size, key=self._key, person=b"tacit seal").digest()

    def close(self) -> None:
        self._words.release()
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()
        if self._gate is not None:
            self._gate.close()

    def _place(self, name: str) -> tuple[int, int]:
        """Return the index at which the search for a bucket begins, and its nonzero tag."""
        raw = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key).digest()
        row = int.from_bytes(raw[8:]) % (_MOST // _BESIDE)
        return row * _BESIDE * _WORDS, int.from_bytes(raw[:8]) >> 1 | 1

    def _find(self, place: int, mark: int) -> int:
        """Return the index of the bucket with this tag; else of the bucket to evict, the one that is full first."""
        row = range(place, place + _BESIDE * _WORDS, _WORDS)
        known = next((each for each in row if self._words[each] == mark), None)
        return min(row, key=lambda each: self._words[each + 1]) if known is None else known

    def _counter(self, name: str) -> tuple[int, int]:
        """Return the place at which the search for a counter begins, and its tag."""
        place, mark = self._place(name)
        return place // _WORDS % _COUNTERS, mark

    def _find_counter(self, place: int, mark: int) -> int | None:
        """Return the index of the counter with this tag, or of a free place for it; None if all are taken."""
        for i in range(_COUNTERS):
            found = (_MOST + (place + i) % _COUNTERS) * _WORDS
            if self._words[found] in (0, mark):
                return found
        return None

    @contextmanager
    def _held(self, place: int) -> Iterator[None]:
        with self._lock:
            if self._gate is None:
                yield
                return
            import fcntl

            fcntl.lockf(self._gate, fcntl.LOCK_EX, 1, place)
            try:
                yield
            finally:
                fcntl.lockf(self._gate, fcntl.LOCK_UN, 1, place)


#: Bits of an IPv6 address that the holder of a network can choose freely.
_OWN_BITS: Final = 64
_SECOND: Final = 10**9
_MINUTE: Final = 60 * _SECOND


class RateLimit:
    """At most ``per_minute`` requests of each caller per minute, all of which may arrive at once.

    Args:
        clock: monotonic seconds, the same in all processes.
        buckets: where requests are counted; a private set by default.
        name: distinguishes this rate from others in the same buckets.
    """

    def __init__(
        self,
        per_minute: int,
        clock: Callable[[], float] = monotonic,
        *,
        buckets: Buckets | None = None,
        name: str = "",
    ) -> None:
        # Rounded down, so that per_minute requests fit into a bucket of one minute.
        self._step = max(int(_MINUTE // per_minute), 1)
        self._clock = clock
        self._buckets = buckets or Buckets()
        self._name = name

    def take(self, caller: str) -> None:
        """Count a request.

        Raises:
            TooMany: the limit is reached; the request is not counted.
        """
        wait = self._buckets.pour(f"{self._name}\0{caller}", self._step, int(self._clock() * _SECOND), _MINUTE)
        if wait:
            raise TooMany(wait / _SECOND)


def network_of(address: str) -> str:
    """Return the network that counts as one address; for IPv6 it is the /64, all of which one holder controls."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> _OWN_BITS << _OWN_BITS)}/{_OWN_BITS}"
