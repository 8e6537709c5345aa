"""Locks by key: equal questions wait for one another.

That is a courtesy within one process: whoever runs an equal question elsewhere at the same time computes it twice, and
the ledger keeps the first result.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["KeyLocks"]


class KeyLocks:
    """One lock per key, kept only while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Be alone with a key."""
        with self._lock:
            mine, waiting = self._taken.get(key, (threading.Lock(), 0))
            self._taken[key] = (mine, waiting + 1)
        try:
            with mine:
                yield
        finally:
            with self._lock:
                mine, waiting = self._taken.pop(key)
                if waiting > 1:
                    self._taken[key] = (mine, waiting - 1)
