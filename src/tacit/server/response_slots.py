"""Response slots: fixed times at which responses leave.

Responses that read no data (refusals, repeats) leave 1, 2, 4, 8 … slots after the request arrived, at the first of
these times at which they are ready. When a fresh answer leaves is decided before data is read
(:mod:`tacit.server.departure`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from time import monotonic


class ResponseSlots:
    """Holds what is ready until its slot of so many seconds; 0 holds nothing. The clock is never set back."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock

    def now(self) -> float:
        """Time by the clock that :meth:`due` and :meth:`hold` read."""
        return self._clock()

    def due(self, arrived: float, now: float) -> float:
        """When something may leave that arrived then and is ready now."""
        if not self._seconds:
            return now
        step = self._seconds
        while arrived + step < now:
            step *= 2
        return arrived + step

    async def hold(self, arrived: float) -> None:
        """Wait until the time of something that arrived then."""
        due = self.due(arrived, self._clock())
        # A timer may ring a little early.
        while (left := due - self._clock()) > 0:
            await asyncio.sleep(left)

    async def hold_first(self, arrived: float) -> None:
        """Wait until the first slot; what is ready later was held where it was made."""
        if self._clock() < arrived + self._seconds:
            await self.hold(arrived)

    def doubled(self, began: float, seconds: float) -> float:
        """The first moment that is 1, 2, 4, 8 … times so many seconds after a beginning and has not passed."""
        while began + seconds < self._clock():
            seconds *= 2
        return began + seconds

    def call_at(self, loop: asyncio.AbstractEventLoop, moment: float, work: Callable[[], None]) -> None:
        """Have a loop do something at a moment, never before; from any thread. A loop that has ended does nothing."""

        def ring() -> None:
            left = moment - self._clock()
            if left > 0:
                loop.call_later(left, ring)
            else:
                work()

        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ring)
