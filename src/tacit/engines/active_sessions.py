"""Active sessions of an engine, which can be stopped from another thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["ActiveSessions"]


class Stoppable(Protocol):
    """What works on a question."""

    def interrupt(self) -> None:
        """Stop it; also what has not begun yet."""


class ActiveSessions:
    """Sessions at work; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: set[Stoppable] = set()

    @contextmanager
    def entered(self, session: Stoppable) -> Iterator[None]:
        """Count a session as running in this block."""
        with self._lock:
            self._sessions.add(session)
        try:
            yield
        finally:
            with self._lock:
                self._sessions.discard(session)

    def interrupt(self) -> None:
        """Stop all of them."""
        with self._lock:
            sessions = list(self._sessions)
        # Outside the lock: a database may take its time, and others begin and end meanwhile.
        for session in sessions:
            session.interrupt()
