"""Departure of one question: its thread and outcome are held until then.

The analyst can also see in the history, in receipts and by a repeat when an answer came to be. So a
thread waits for the departure before it writes the answer down, and other questions do not get the thread before.
"""

from __future__ import annotations

import threading
from asyncio import get_running_loop
from typing import TYPE_CHECKING, Final

from tacit.server.response_slots import ResponseSlots
from tacit.server.timing import TICKS, Decided, DepartureSchedule, LateAnswers, LatenessVerdict

if TYPE_CHECKING:
    from tacit.releases.payment import TimedWork

#: Seconds after which a thread that waits looks whether the loop still runs.
_PATIENCE: Final = 0.5


class QuestionDeparture:
    """When the outcome of one question may be known; made by the event loop, used by the thread that runs it.

    At each departure the loop looks whether the run has ended, whatever the thread does. So the order in which
    questions are looked at follows from when they began and what their texts say, and not from how fast they were.
    """

    def __init__(
        self, slots: ResponseSlots, schedule: DepartureSchedule | None, late: LateAnswers, analyst: str
    ) -> None:
        self._slots = slots
        self._schedule = schedule
        self._late = late
        self._analyst = analyst
        self._loop = get_running_loop()
        self._arrived = slots.now()
        self._lock = threading.Lock()
        self._known = threading.Event()
        self._decided: Decided | None = None
        self._population = ""
        self._began = 0.0
        self._place = 0
        self._taken: int | None = None
        self._failed = False
        self._verdict: LatenessVerdict | None = None

    @property
    def seconds(self) -> float | None:
        """Seconds after which the run is of no use; None where nothing was decided."""
        return None if self._decided is None else self._decided.last

    def check(self, plan: TimedWork) -> None:
        """Refuse a fresh question of an analyst, or about a population, with too many late answers.

        Raises:
            LateLimit: nothing was charged.
        """
        if self._schedule is not None:
            self._late.check(self._analyst, plan.final.population)

    def begin(self, plan: TimedWork) -> None:
        """Decide the departures, before data is read."""
        if self._schedule is None:
            return
        self._population = plan.final.population
        self._decided = self._schedule.decide(plan, self._late.late(self._analyst), self._late.slow(self._analyst))
        self._began = self._slots.now()
        self._slots.call_at(self._loop, self._began + self._decided.first, self._look)

    def end(self, *, failed: bool) -> bool:
        """For the thread: wait for the departure; whether the run counts as done."""
        if self._decided is None:
            return not failed
        with self._lock:
            given_up = self._verdict is not None
            self._failed = failed
            self._taken = int((self._slots.now() - self._began) * TICKS)
        if given_up:
            # The time that the engine took to stop is seen in doublings of the last departure, and no finer.
            self._slots.call_at(self._loop, self._slots.doubled(self._began, self._decided.last), self._known.set)
        while not self._known.wait(_PATIENCE):
            # Where the loop has ended no caller is left, and work that was begun is finished.
            if self._loop.is_closed():
                return not failed
        return self._verdict is LatenessVerdict.ON_TIME

    async def hold(self) -> None:
        """For the loop: hold responses that read no data (refusals, repeats) until a slot."""
        if self._decided is None:
            await self._slots.hold(self._arrived)

    def _look(self) -> None:
        """At a departure: decide about the question."""
        decided = self._decided
        if decided is None:
            return
        with self._lock:
            taken, failed = self._taken, self._failed
            verdict = self._late.verdict(self._analyst, self._population, decided, self._place, taken, failed=failed)
            if verdict is not LatenessVerdict.LATE:
                self._verdict = verdict
        if verdict is LatenessVerdict.LATE:
            self._place += 1
            self._slots.call_at(self._loop, self._began + decided.times[self._place] / TICKS, self._look)
        elif taken is not None:
            self._known.set()
