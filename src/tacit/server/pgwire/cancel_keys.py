"""Keys that cancel statements, valid at every worker process.

A request to cancel arrives on a connection of its own, which may be another worker's. Its secret is a code of the
connection's number under a key that all workers share, so any of them can check it; the number is then marked in shared
memory, where the worker of the connection looks while a question runs.
"""

from __future__ import annotations

import hmac
import time
from typing import Final

from tacit.noise import entropy
from tacit.server.rate_limit import Buckets

_PURPOSE: Final = "cancel"
_SECRET: Final = {0: 4, 2: 32}
_MINUTE: Final = 60 * 10**9


class CancelKeys:
    """Makes, checks and marks keys, in memory that workers share."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets

    def new(self, minor: int) -> bytes:
        """A key for a connection by a version of the protocol: 4 bytes of number, and a secret."""
        number = entropy.current().bits(31).to_bytes(4, "big")
        return number + self._secret(number, _SECRET[minor])

    def cancel(self, key: bytes) -> bool:
        """Mark a connection for cancelling; whether the key was right."""
        number, secret = key[:4], key[4:]
        if len(secret) not in _SECRET.values() or not hmac.compare_digest(secret, self._secret(number, len(secret))):
            return False
        self._buckets.pour(_name(number), _MINUTE, time.monotonic_ns(), _MINUTE)
        return True

    def is_cancelled(self, key: bytes) -> bool:
        """Whether a connection was marked."""
        return self._buckets.pour(_name(key[:4]), 0, time.monotonic_ns(), 0) > 0

    def clear(self, key: bytes) -> None:
        """Forget the mark of a connection: it was about an earlier statement."""
        if self.is_cancelled(key):
            self._buckets.pour(_name(key[:4]), -2 * _MINUTE, time.monotonic_ns(), _MINUTE)

    def _secret(self, number: bytes, size: int) -> bytes:
        return self._buckets.seal(_PURPOSE, number, size)


def _name(number: bytes) -> str:
    return f"{_PURPOSE}\0{number.hex()}"
