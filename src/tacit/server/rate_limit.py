"""Rate limits: token buckets and counters, in memory shared by worker processes.

A bucket is one number: the time at which it will be full again. It lies where a keyed hash of its caller's name says,
among a few others. Where all of those are taken, the one that will be full first makes room, because least is lost
with it: a bucket that is full need not be remembered. The key is drawn for each memory, so no caller can choose names
that fall on another's.

Beside the buckets are counters. Counts of late answers limit what can be learned, so none makes room for another:
where all places are taken, nothing more is counted, and what needs counting is refused. A count is forgotten one by
one, at a stated rate or never.

The supervisor makes the memory before it forks. It is guarded by a lock of the system that ends with the process that
holds it, so that a worker may be killed at any moment. No decision about privacy depends on a rate: those keep one
person from taking the time of all others.
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

#: Buckets in all, and of those that share a place; a power of two each.
_MOST: Final = 1 << 17
_BESIDE: Final = 8
#: A bucket has the mark of its caller and its time.
_WORDS: Final = 2
_BYTES: Final = 8
#: Counters, which never make room for others: those of people and populations with something to count.
_COUNTERS: Final = 1 << 14


#: The place at which counters are guarded, all of them together: counting is rare.
_COUNTING: Final = _MOST * _WORDS


class Buckets:
    """Times by name, in whole nanoseconds.

    Args:
        shared: whether processes that are forked from this one share them.
    """

    def __init__(self, *, shared: bool = False) -> None:
        size = (_MOST + _COUNTERS) * _WORDS * _BYTES
        self._memory: bytearray | mmap.mmap = mmap.mmap(-1, size) if shared else bytearray(size)
        self._words = memoryview(self._memory).cast("q")
        self._gate: IO[bytes] | None = TemporaryFile() if shared else None  # noqa: SIM115  (it lives as long as this)
        self._key = entropy.current().bits(128).to_bytes(16, "big")
        # The lock of the system is one of processes; this one is for threads.
        self._lock = threading.Lock()

    def pour(self, name: str, step: int, now: int, most: int) -> int:
        """Take so much time from a bucket that is ``most`` deep; how long to wait where there is not enough in it.

        A caller that has to wait has taken nothing. A step below zero gives back.
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
        """A count, of which one is forgotten after each ``step`` of time; with 0 none is."""
        place, mark = self._counter(name)
        with self._held(_COUNTING):
            return self._count_at(self._find_counter(place, mark), mark, step, now)

    def add(self, name: str, most: int, step: int = 0, now: int = 0) -> bool:
        """Count one more, if that is at most ``most``; whether it was counted. Without room for it, it was not.

        In any span of time at most ``most`` are counted, and one more for each ``step`` of it.
        """
        place, mark = self._counter(name)
        with self._held(_COUNTING):
            found = self._find_counter(place, mark)
            if found is None or most < 1 or self._count_at(found, mark, step, now) >= most:
                return False
            # With a step a counter is the time at which it will be zero.
            before = self._words[found + 1] if self._words[found] == mark else 0
            self._words[found], self._words[found + 1] = mark, (max(before, now) + step if step else before + 1)
        return True

    def _count_at(self, found: int | None, mark: int, step: int, now: int) -> int:
        if found is None or self._words[found] != mark:
            return 0
        word = self._words[found + 1]
        return -(-max(word - now, 0) // step) if step else word

    def seal(self, purpose: str, content: bytes, size: int) -> bytes:
        """A code of some content that only the processes which share this memory can make."""
        content = purpose.encode() + b"\0" + content
        return hashlib.blake2b(content, digest_size=size, key=self._key, person=b"tacit seal").digest()

    def close(self) -> None:
        """Give the memory back."""
        self._words.release()
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()
        if self._gate is not None:
            self._gate.close()

    def _place(self, name: str) -> tuple[int, int]:
        """Where a bucket begins to be looked for, and its mark, which is never zero."""
        raw = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16, key=self._key).digest()
        row = int.from_bytes(raw[8:]) % (_MOST // _BESIDE)
        return row * _BESIDE * _WORDS, int.from_bytes(raw[:8]) >> 1 | 1

    def _find(self, place: int, mark: int) -> int:
        """The bucket with a mark; else the one that can best be spared."""
        row = range(place, place + _BESIDE * _WORDS, _WORDS)
        known = next((each for each in row if self._words[each] == mark), None)
        return min(row, key=lambda each: self._words[each + 1]) if known is None else known

    def _counter(self, name: str) -> tuple[int, int]:
        """Where a counter begins to be looked for, and its mark."""
        place, mark = self._place(name)
        return place // _WORDS % _COUNTERS, mark

    def _find_counter(self, place: int, mark: int) -> int | None:
        """The counter with a mark, or the place for it; None where all are taken."""
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
