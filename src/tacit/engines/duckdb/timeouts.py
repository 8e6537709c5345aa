"""Timeouts of sessions, enforced by one thread.

A session whose progress somebody wants to see has a thread of its own, since whoever is told may take long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["TimeoutWatcher", "Watched"]

_TICK = 0.25
#: After this long without a question the thread ends.
_IDLE = 5.0


class Watched(Protocol):
    """What can be stopped, and asked how far it is."""

    def interrupt(self) -> None:
        """Stop it; may be called again."""

    def percent(self) -> float:
        """How much of it is done."""


class TimeoutWatcher:
    """Ends of sessions; safe to use from several threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ends: dict[Watched, float] = {}
        self._next = float("inf")
        self._running = False

    @contextmanager
    def over(self, session: Watched, seconds: float | None, progress: Callable[[float], None] | None) -> Iterator[None]:
        """Stop a session of this block after so many seconds, and tell how far it is four times a second."""
        if seconds is not None:
            self._add(session, time.monotonic() + seconds)
        ended = threading.Event()
        teller = None
        if progress is not None:
            teller = threading.Thread(target=_tell, args=(session, progress, ended), daemon=True)
            teller.start()
        try:
            yield
        finally:
            ended.set()
            if teller is not None:
                teller.join()
            if seconds is not None:
                self._remove(session)

    def _add(self, session: Watched, end: float) -> None:
        with self._changed:
            self._ends[session] = end
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, daemon=True).start()
            elif end < self._next:
                self._changed.notify()

    def _remove(self, session: Watched) -> None:
        with self._changed:
            del self._ends[session]

    def _run(self) -> None:
        last = time.monotonic()
        with self._changed:
            while True:
                now = time.monotonic()
                last = now if self._ends else last
                if now - last >= _IDLE:
                    self._running = False
                    return
                self._next = self._interrupt_late(now)
                self._changed.wait(self._next - now)

    def _interrupt_late(self, now: float) -> float:
        """When to look again. No session stays in the hands of the thread, which may outlive them all."""
        late = [session for session, end in self._ends.items() if end <= now]
        for session in late:
            session.interrupt()
        # Again and again: an interrupt between two statements would be forgotten.
        return now + _TICK if late else min(min(self._ends.values(), default=now + _IDLE), now + _IDLE)


def _tell(session: Watched, progress: Callable[[float], None], ended: threading.Event) -> None:
    while not ended.wait(_TICK):
        progress(session.percent())
