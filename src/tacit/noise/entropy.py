"""Source of all random bits.

Everything random in Tacit is made of bits that come from :func:`current`, and those come from the operating system:
single draws read ``os.urandom`` through a small pool, bulk draws read an AES-256-CTR keystream whose key and counter
are fresh from ``os.urandom`` for every request. A keystream serves one request and is then discarded, so nothing held
in memory reveals the noise of earlier requests.

* *Threads.* Each thread has its own pool; no lock, no shared position.
* *Fork.* A child must never use bits that its parent holds. ``os.register_at_fork`` empties the pools, and every draw
  compares the process id as well, for children made by foreign code that runs no Python hooks.
* *Pickling and copying* give a new, empty source.
* *No seed.* There is no parameter, variable or environment setting that makes noise repeatable. Tests replace
  :func:`current` from the outside.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import TYPE_CHECKING, Final, Protocol

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_POOL_WORDS: Final = 512
#: From this number of words on, a keystream is faster than the system call, its set-up included.
_KEYSTREAM_FROM: Final = 512
_ZEROS: Final = memoryview(bytes(1 << 18))


class BitSource(Protocol):
    """Independent fair bits, in three sizes."""

    def word(self) -> int:
        """Draw 64 bits, as an integer from 0 to 2⁶⁴ - 1."""

    def bits(self, count: int) -> int:
        """Draw ``count`` bits, as an integer from 0 to 2^count - 1."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw ``count`` words of 64 bits, as an array that the caller may overwrite."""


class SystemEntropy:
    """Bits of the operating system, buffered for one thread of one process."""

    __slots__ = ("_pid", "_pool", "_spare", "_spare_bits")

    def __init__(self) -> None:
        self._pid: int
        self._pool: list[int]
        self._spare: int
        self._spare_bits: int
        self._forget()

    def __reduce__(self) -> tuple[type[SystemEntropy], tuple[()]]:
        return SystemEntropy, ()

    def word(self) -> int:
        if self._pid != os.getpid():
            self._forget()
        if not self._pool:
            self._pool = list(struct.unpack(f"={_POOL_WORDS}Q", os.urandom(8 * _POOL_WORDS)))
        return self._pool.pop()

    def bits(self, count: int) -> int:
        """Draw ``count`` bits; unused bits of a word are kept for the next call."""
        if self._pid != os.getpid():
            self._forget()
        while self._spare_bits < count:
            self._spare |= self.word() << self._spare_bits
            self._spare_bits += 64
        result = self._spare & ((1 << count) - 1)
        self._spare >>= count
        self._spare_bits -= count
        return result

    def words(self, count: int) -> NDArray[np.uint64]:
        import numpy as np  # a command that only reads the ledger waits for bits alone

        if count < _KEYSTREAM_FROM:
            return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)
        return _keystream(count)

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._pool = []
        self._spare = self._spare_bits = 0


def _keystream(count: int) -> NDArray[np.uint64]:
    import numpy as np

    seed = os.urandom(48)
    encryptor = Cipher(algorithms.AES(seed[:32]), modes.CTR(seed[32:])).encryptor()
    # The cipher needs room for one more block than it writes.
    room = np.empty(count + 2, dtype=np.uint64)
    target = room.data.cast("B")
    for start in range(0, 8 * count, len(_ZEROS)):
        encryptor.update_into(_ZEROS[: 8 * count - start], target[start:])
    return room[:count]


_local = threading.local()


def current() -> BitSource:
    """Return the bit source of this thread."""
    try:
        source: SystemEntropy = _local.source
    except AttributeError:
        source = _local.source = SystemEntropy()
    return source


def _after_fork_in_child() -> None:
    global _local
    _local = threading.local()


os.register_at_fork(after_in_child=_after_fork_in_child)
