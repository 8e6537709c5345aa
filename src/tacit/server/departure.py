"""Departure of one query: its thread and outcome are held until then.

The analyst can also see in the history, in receipts and by a repeat when an answer came to be. So a
thread waits for the departure before it writes the answer down, and other queries do not get the thread before.
"""

from __future__ import annotations

import os
import re
import threading
from asyncio import get_running_loop
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from time import monotonic_ns
from typing import TYPE_CHECKING, Final

from tacit.releases.payment import Ending
from tacit.server.response_slots import ResponseSlots
from tacit.server.timing import TICKS, Decided, DepartureSchedule, LateAnswers, LatenessVerdict, ProcessorShares

if TYPE_CHECKING:
    from tacit.releases.payment import TimedWork
    from tacit.server.rate_limit import Buckets

#: Seconds after which a thread that waits looks whether the loop still runs.
_PATIENCE: Final = 0.5
#: How long it is remembered that a query has to stop, in nanoseconds.
_REMEMBERED: Final = 3_600 * 10**9
_ID: Final = re.compile("[0-9]{1,20}-[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query that reads data now.

    Args:
        id: under which an operator can stop it.
        analyst: who asked.
        population: whose budget was charged.
        seconds: since it began.
        expected: its processor seconds, by its text and the declared sizes of tables.
        operator: the part of it that is most work.
    """

    id: str
    analyst: str
    population: str
    seconds: float
    expected: float
    operator: str


class RunningQueries:
    """The queries that run in one process, for operators; safe to use from several threads.

    Args:
        interrupt: stops what a thread runs.
        counts: shared by all worker processes, so that each can stop what runs in another.
    """

    def __init__(self, interrupt: Callable[[int], None], counts: Buckets) -> None:
        self._interrupt = interrupt
        self._counts = counts
        self._lock = threading.Lock()
        self._threads: dict[str, tuple[int, Callable[[], RunningQuery]]] = {}
        self._begun = 0

    def begin(self, describe: Callable[[str], RunningQuery]) -> str:
        """Note that this thread begins; the id of its query."""
        with self._lock:
            self._begun += 1
            name = f"{os.getpid()}-{self._begun}"
            self._threads[name] = threading.get_ident(), lambda: describe(name)
        return name

    def end(self, name: str) -> None:
        """Note that it reads data no longer."""
        with self._lock:
            self._threads.pop(name, None)

    def listed(self) -> list[RunningQuery]:
        """All of them, the longest first."""
        with self._lock:
            found = [describe() for _, describe in self._threads.values()]
        return sorted(found, key=lambda each: -each.seconds)

    def ask_to_stop(self, name: str) -> bool:
        """Have a query stopped, by the process that runs it; its charge waits. False for what cannot be an id."""
        if _ID.fullmatch(name) is None:
            return False
        # In a bucket, which can make room and empties: a counter would be kept for ever, also for what never ran.
        self._counts.pour(_stop(name), _REMEMBERED, monotonic_ns(), _REMEMBERED)
        self.stop_asked()
        return True

    def stop_asked(self) -> None:
        """Stop those of this process that an operator wants stopped."""
        with self._lock:
            for name, (thread, _) in self._threads.items():
                if self.is_stopped(name):
                    # Under the lock, so that the thread has not gone on to another query.
                    self._interrupt(thread)

    def is_stopped(self, name: str) -> bool:
        """Whether an operator wanted it stopped."""
        return self._counts.pour(_stop(name), 0, monotonic_ns(), 0) > 0


def _stop(name: str) -> str:
    return f"stop\0{name}"


class QueryDeparture:
    """When the outcome of one query may be known; made by the event loop, used by the thread that runs it.

    At each departure the loop looks whether the run has ended, whatever the thread does. So the order in which
    queries are looked at follows from when they began and what their texts say, and not from how fast they were.
    """

    def __init__(
        self,
        slots: ResponseSlots,
        schedule: DepartureSchedule | None,
        late: LateAnswers,
        shares: ProcessorShares,
        running: RunningQueries,
        analyst: str,
    ) -> None:
        self._slots = slots
        self._schedule = schedule
        self._late = late
        self._shares = shares
        self._running = running
        self._analyst = analyst
        self._id = ""
        self._taken_share = Fraction(0)
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
        """Refuse a fresh query of too much work, or of an analyst or about a population with too many late answers.

        Raises:
            Refusal: it is too much work.
            LateLimit: too much was late.
            TooMany: the analyst has used up their share of the processors.
        """
        if self._schedule is not None:
            self._schedule.check(plan)
            self._late.check(self._analyst, plan.final.population)
            seconds = self._schedule.seconds(plan)
            self._shares.take(self._analyst, seconds)
            self._taken_share = seconds

    def begin(self, plan: TimedWork) -> None:
        """Decide the departures, before data is read."""
        self._began = self._slots.now()
        expected = 0.0 if self._schedule is None else float(self._schedule.seconds(plan))
        self._id = self._running.begin(
            lambda name: RunningQuery(
                name,
                self._analyst,
                plan.final.population,
                self._slots.now() - self._began,
                expected,
                plan.whole_work.operator,
            )
        )
        if self._schedule is None:
            return
        self._population = plan.final.population
        self._decided = self._schedule.decide(plan, self._late.late(self._analyst), self._late.slow(self._analyst))
        self._slots.call_at(self._loop, self._began + self._decided.first, self._look)

    def end(self, *, failed: bool) -> Ending:
        """For the thread: wait for the departure; what the outcome has to be."""
        self._running.end(self._id)
        stopped = failed and self._running.is_stopped(self._id)
        own = Ending.DELAYED if stopped else Ending.FAILED if failed else Ending.DONE
        if self._decided is None:
            return own
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
                return own
        if self._verdict is LatenessVerdict.ON_TIME:
            return Ending.DONE
        return Ending.FAILED if self._verdict is LatenessVerdict.FAILED and not stopped else Ending.DELAYED

    async def hold(self) -> None:
        """For the loop: hold responses that read no data (refusals, repeats) until a slot."""
        if self._decided is None:
            self._shares.give_back(self._analyst, self._taken_share)
            self._taken_share = Fraction(0)
            await self._slots.hold(self._arrived)

    def _look(self) -> None:
        """At a departure: decide about the query."""
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
