"""Time for tests of response times: it stands still but for what a test, its engine and its timers do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from tacit.server.timing import ResponseSteps

__all__ = ["Clock", "ManualSteps", "TestedSteps"]


class Clock:
    """Moves only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def move_to(self, moment: float) -> None:
        """Never back."""
        self.now = max(self.now, moment)


class TestedSteps(ResponseSteps):
    """A response time rings once its run has ended, at its moment by the clock; holding takes no time of ours.

    Attributes:
        held: how many things were held for a step.
        rung: how many response times rang.
        sent: whose, when their query began, and when they rang.
    """

    __test__ = False

    def __init__(self, seconds: float = 0.25, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        super().__init__(seconds, self.clock)
        self.held = self.rung = 0
        self.sent: list[tuple[str, float, float]] = []

    async def hold(self, arrived: float) -> None:
        """At once, and the clock says that it was later."""
        self.held += 1
        assert arrived <= self.now()
        self.clock.move_to(self.due(arrived, self.now()))

    def call_at(self, loop: asyncio.AbstractEventLoop, moment: float, work: Callable[[], None]) -> None:
        """When the run has ended."""
        timer: Any = getattr(work, "__self__", None)

        def ring() -> None:
            if getattr(timer, "_taken", 0) is None:
                loop.call_later(0.001, ring)
                return
            self.rung += 1
            self.clock.move_to(moment)
            self.sent.append((getattr(timer, "_analyst", ""), getattr(timer, "_began", 0.0), self.now()))
            work()

        loop.call_soon_threadsafe(ring)


class ManualSteps(ResponseSteps):
    """A response time rings when the test says so, whether or not its run has ended."""

    def __init__(self, seconds: float = 0.25, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        super().__init__(seconds, self.clock)
        self.waiting: list[tuple[float, Callable[[], None]]] = []
        self.lock = threading.Lock()

    async def hold(self, arrived: float) -> None:
        """At once."""
        assert arrived <= self.now()

    def call_at(self, loop: asyncio.AbstractEventLoop, moment: float, work: Callable[[], None]) -> None:
        """Until :meth:`ring`."""
        with self.lock:
            self.waiting.append((moment, work))

    def ring(self) -> float:
        """The next response time; its moment."""
        with self.lock:
            self.waiting.sort(key=lambda each: each[0])
            moment, work = self.waiting.pop(0)
        self.clock.move_to(moment)
        work()
        return moment

    def ended(self) -> bool:
        """Whether the run of the next response time has ended."""
        with self.lock:
            return bool(self.waiting) and getattr(self.waiting[0][1], "__self__")._taken is not None  # noqa: B009
