"""Fixed times at which answers leave, so that how long a question took says little about the data.

An answer leaves 1, 2, 4, 8 … slots after its question arrived, at the first of these times at which it is ready.
Answers, refusals and failures are held alike. What remains to be seen is *which* of these few times it was; a question
that always takes less than a slot shows nothing but the hundreds of microseconds by which a timer is late.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop, run_coroutine_threadsafe
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from time import monotonic

__all__ = ["Pace", "Slots"]


class Slots:
    """Holds what is ready until its time.

    Args:
        seconds: of one slot; 0 holds nothing.
        clock: in seconds, never set back.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock

    @property
    def off(self) -> bool:
        """Whether nothing is held."""
        return not self._seconds

    def now(self) -> float:
        """By the clock that :meth:`due` and :meth:`hold` read."""
        return self._clock()

    def due(self, arrived: float, now: float) -> float:
        """When something may leave that arrived then and is ready now."""
        if not self._seconds:
            return now
        step = self._seconds
        while arrived + step < now:
            step *= 2
        return arrived + step

    def count(self, arrived: float, now: float) -> int:
        """How many whole slots something that arrived then has been waited for."""
        return int((now - arrived) / self._seconds) if self._seconds else int(now - arrived)

    async def hold(self, arrived: float) -> None:
        """Wait until the time of something that arrived then."""
        due = self.due(arrived, self._clock())
        # A timer may ring a little early.
        while (left := due - self._clock()) > 0:
            await asyncio.sleep(left)


class Pace:
    """The time of one answer: when it may leave, and when anything else may know that it exists.

    Whoever asked can also look at the history, at receipts and for a repeat, and see there when an answer came to be.
    So a thread waits for the time before it writes the answer down; the answer then leaves without waiting again.

    Args:
        slots: the times; made by the event loop, when a question has arrived.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._loop = get_running_loop()
        self._arrived = slots.now()
        self._waited = False

    seconds: float | None = None

    def begin(self, plan: object) -> None:
        """Data is about to be read."""

    def end(self, *, failed: bool) -> bool:
        """Answers and failures wait alike."""
        self.wait()
        return not failed

    def wait(self) -> None:
        """For a thread: until the time of whatever is ready now."""
        if self._slots.off:
            return
        coming = self.hold()
        # Where the loop has ended nobody is left to see anything, and work that was begun is finished.
        try:
            done = run_coroutine_threadsafe(coming, self._loop)
        except RuntimeError:
            coming.close()
            return
        with suppress(CancelledError):
            done.result()

    async def hold(self) -> None:
        """The same for the loop; whoever has waited already does not wait again."""
        if not self._waited:
            await self._slots.hold(self._arrived)
            self._waited = True
