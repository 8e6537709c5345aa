"""Timing: response times decided from the plan, lateness released with noise.

The response to a fresh query is sent at its *response time*: a number of seconds after it began, which follows from
the response step, from the work of the whole query over all rows (:attr:`tacit.query.planning.plan.Plan.whole_work`),
and from the work of one person (``unit_work``). A query of more work than the server allows is refused, at no cost. The
data decides one thing only: whether the answer was ready, and where the whole work takes no longer than stated it
always is. It is compared with noise nevertheless, as the sparse vector technique does, so that any number of answers on
time cost one epsilon together, and each late answer costs one more. Their number is limited, and late answers are
forgotten at a stated rate. ``timing.proof.md`` has the argument and what it assumes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import threading
from asyncio import get_running_loop
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Final

from tacit.core.errors import AccessError
from tacit.engines.protocol import Engine
from tacit.mechanisms.sparse_vector import SparseVector
from tacit.query.refusal import Refusal
from tacit.releases.payment import Ending
from tacit.server.errors import TooMany
from tacit.server.rate_limit import Buckets

if TYPE_CHECKING:
    from tacit.releases.payment import TimedWork
    from tacit.server.rate_limit import Buckets
    from tacit.server.settings import Settings

_OPERATOR = logging.getLogger("tacit.operator")

#: Ticks per second; running times are whole numbers of ticks.
TICKS: Final = 10**6
#: Minimum of ``unit_ticks``, whatever a plan says: for effects of caches, memory pages and the interpreter.
LEAST: Final = 100
#: Steps per ``unit_ticks``, so that integer noise, in steps, is fine enough.
STEPS: Final = 1024
#: Ratio of one response time to the preceding one.
LATER: Final = 4
#: Maximum number of response times of one query; the last is at 4¹¹ times the first.
_MOST_TIMES: Final = 12
#: Probability that noise calls an answer on time that is not ready at its response time; it is late nevertheless.
MISSED: Final = Fraction(1, 10**12)
_SECOND: Final = 10**9
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 86_400 * _SECOND
#: Bound at which a lateness is clamped, in steps.
_LARGEST: Final = 2**60


class LatenessVerdict(Enum):
    """Decision about a query at a response time."""

    ON_TIME = "it is sent now"
    LATE = "it is looked at again at the next response time"
    FAILED = "it is sent now, as a failure"
    GIVEN_UP = "it is sent now, without an answer; its charge waits for another run"


class LateLimit(AccessError):  # noqa: N818  (a limit that was reached)
    """Too many late answers of an analyst or about a population; fresh queries are refused until one is forgotten."""

    code = "access.late"

    def __init__(self, whose: str, per_day: float) -> None:
        until = f"one is forgotten, {per_day:g} a day" if per_day else "the server starts again"
        super().__init__(
            f"too many answers were not ready at their response times ({whose}), and how often that happens is "
            f"limited, because it depends on data; fresh queries are refused until {until}; nothing was charged, and "
            f"repeats of earlier answers stay free"
        )


@dataclass(frozen=True, slots=True)
class Decided:
    """Times at which the response to one query may be sent, in ticks since the query began.

    Args:
        unit_ticks: how much one unit can change the running time, in ticks.
        shift: ticks before a response time at which the noisy comparison has its threshold; an answer that is ready two
            shifts before a response time is sent then, but for rare noise.
        times: response times in ascending order; a run that is not ready at the last one is given up.
    """

    unit_ticks: int
    shift: int
    times: tuple[int, ...]

    @property
    def first(self) -> float:
        """Seconds from the beginning of the query to its first response time, when the response is sent unless late."""
        return self.times[0] / TICKS

    @property
    def last(self) -> float:
        """Seconds from the beginning of the query to its last response time, after which the result is discarded."""
        return self.times[-1] / TICKS

    def lateness(self, taken: int, place: int) -> int:
        """Return the steps by which a running time exceeds what response time ``place`` allows; may be negative.

        One unit changes the running time by at most ``unit_ticks``, so it changes this by at most ``STEPS``: where x
        moves by at most the integer n, so does the floor of x.
        """
        steps = (taken + self.shift - self.times[place]) * STEPS // self.unit_ticks
        return max(min(steps, _LARGEST), -_LARGEST)


class ResponseSchedule:
    """Computes the response times of a query from its plan alone, without reading data.

    Args:
        settings: ``response_step``, ``time_epsilon``, ``row_seconds``, ``work_seconds``, threads and workers.
        most_seconds: maximum running time of a query in this project; None if the project sets none.
        engine: class that states the cost of its row operations.
        processors: number of processors of the machine; None to count them.
    """

    def __init__(
        self,
        settings: Settings,
        most_seconds: float | None = None,
        engine: type[Engine] = Engine,
        processors: int | None = None,
    ) -> None:
        self.processors = processors or os.cpu_count() or 1
        self._operation, self._start = _exact(engine.operation_seconds), _exact(engine.start_seconds)
        self._most_work = _exact(settings.work_seconds)
        # If all threads of all workers run, each gets an equal part of the processors.
        self._load = max(Fraction(settings.workers * settings.threads, self.processors), Fraction(1))
        self._response_step = _exact(settings.response_step) * TICKS
        self._row_ticks = _exact(settings.row_seconds) * TICKS
        self._most = None if most_seconds is None else most_seconds * TICKS
        self._tries = settings.late_per_analyst
        # Bound that the noise exceeds with probability MISSED, as a multiple of unit_ticks.
        self._margin = Fraction(_stream(settings).error(MISSED, 1)) / STEPS

    def seconds(self, plan: TimedWork) -> Fraction:
        """Return the processor seconds that a plan needs over all rows, by the declared sizes of tables."""
        return self._start + plan.whole_work.operations * self._operation

    def check(self, plan: TimedWork) -> None:
        """Refuse a plan that needs more than ``work_seconds``.

        Raises:
            Refusal: states the work and the operator that causes most of it.
        """
        seconds, work = self.seconds(plan), plan.whole_work
        if seconds > self._most_work:
            raise Refusal(
                "work",
                f"This takes about {work.operations:,} row operations over all rows, as the sizes of tables are "
                f"declared, or {math.ceil(seconds):,} s of a processor, and {float(self._most_work):g} s is the most; "
                f"{work.largest:,} of them are in {work.operator}. Ask less in one query, or ask the owner about "
                f"table_rows and work_seconds.",
            )

    def decide(self, plan: TimedWork, late: int = 0, slow: int = 0) -> Decided:
        """Return the response times of a plan.

        Args:
            plan: of the query.
            late: number of the analyst's earlier answers that were late or failed.
            slow: number of those that were late; each one postpones all response times by the factor ``LATER``, so
                that a response step that is too short for a project does not make answer after answer late.
        """
        unit_ticks = max(math.ceil(plan.unit_work * self._row_ticks), LEAST)
        shift = math.ceil(unit_ticks * self._margin)
        needed = max(self._response_step / 2, self.seconds(plan) * self._load * TICKS)
        step = self._response_step
        while step - 2 * shift < needed:
            step *= 2
        first = math.ceil(step) * LATER ** min(slow, _MOST_TIMES)
        times = (first * LATER**i for i in range(min(max(self._tries - late, 1), _MOST_TIMES)))
        kept = [time for i, time in enumerate(times) if not i or self._most is None or time <= self._most]
        return Decided(unit_ticks, shift, tuple(kept))


class LateAnswers:
    """Compares running times with response times in one process; late answers are counted across all processes.

    Privacy:
        relation: that of the population.
        guarantee: the verdicts about the queries of one population are (k·ε, (1 + e^(k·ε))·n·10⁻¹²)-DP,

        where
          * ε is ``time_epsilon``;
          * k is the number of streams begun: in one start of the server at most ``workers + late_per_population``, and
            ``late_per_day`` more for each day that it runs;
          * n is the number of verdicts.

    Sensitivity:
        one unit changes :meth:`Decided.lateness` by at most ``STEPS``.

    Error:
        an answer that is ready two shifts before its response time is called late with probability at most 10⁻¹².

    Assumes:
        that one unit changes the running time of a query by at most ``unit_work · row_seconds``, and that the times
        at which queries begin depend on data through earlier verdicts only.

    References:
        Ratliff and Vadhan (2024), *A framework for differential privacy against timing attacks*; Ben Dov, David, Naor
        and Tzalik (2023), *Resistance to timing attacks for sampling and privacy preserving schemes*; Dwork and Roth
        (2014), section 3.6.

    Args:
        settings: limits and ``time_epsilon``.
        counts: shared by all worker processes.
        clock: monotonic nanoseconds, the same in all processes.
    """

    def __init__(self, settings: Settings, counts: Buckets, clock: Callable[[], int] = monotonic_ns) -> None:
        self._settings = settings
        self._counts = counts
        self._clock = clock
        self._step = math.ceil(_DAY / _exact(settings.late_per_day)) if settings.late_per_day else 0
        self._streams: dict[str, SparseVector] = {}
        self._lock = threading.Lock()
        self._most = settings.workers + settings.late_per_population

    def late(self, analyst: str) -> int:
        """Return how many of an analyst's answers were late or failed."""
        return self._counted(_of_analyst(analyst))

    def slow(self, analyst: str) -> int:
        """Return how many of an analyst's answers were late."""
        return self._counted(_slow(analyst))

    def check(self, analyst: str, population: str) -> None:
        """Refuse a fresh query after too many late answers.

        Raises:
            LateLimit: the limit of the analyst or of the population is reached.
        """
        if self.late(analyst) >= self._settings.late_per_analyst:
            raise LateLimit(f"{self._settings.late_per_analyst} of yours", self._settings.late_per_day)
        with self._lock:
            if population not in self._streams and self._counted(_of_population(population)) >= self._most:
                whose = f"{self._settings.late_per_population} about {population}"
                raise LateLimit(whose, self._settings.late_per_day)

    def verdict(
        self, analyst: str, population: str, decided: Decided, place: int, taken: int | None, *, failed: bool = False
    ) -> LatenessVerdict:
        """Decide about a query at one of its response times.

        ``taken`` is its running time in ticks, or None while it runs; ``place`` is the index of the response time.
        """
        with self._lock:
            stream = self._stream(population)
            # No further answer may be late, so this run is given up whether or not it is ready: independent of data.
            if stream is None or self.late(analyst) >= self._settings.late_per_analyst:
                return LatenessVerdict.GIVEN_UP
            noisy = taken is not None and stream.ask(decided.lateness(taken, place))
            if not noisy and taken is not None and not failed:
                return LatenessVerdict.ON_TIME
            # This stream has used up its one positive verdict.
            del self._streams[population]
            self._add(_of_analyst(analyst), self._settings.late_per_analyst)
            if not failed:
                self._add(_slow(analyst), self._settings.late_per_analyst)
            last = place + 1 == len(decided.times) or self.late(analyst) >= self._settings.late_per_analyst
            closed = self._stream(population) is None
        words = "failed" if failed else "was not ready"
        _OPERATOR.warning(
            "an answer about %s for %s %s at its response time, %g s; see response_step and late_per_analyst",
            population, analyst, words, decided.times[place] / TICKS,
        )  # fmt: skip
        if failed:
            return LatenessVerdict.FAILED
        return LatenessVerdict.GIVEN_UP if last or closed else LatenessVerdict.LATE

    def _stream(self, population: str) -> SparseVector | None:
        """Return this process's stream for a population, begun if there is none; None if no more may be begun."""
        found = self._streams.get(population)
        if found is None and self._add(_of_population(population), self._most):
            found = self._streams[population] = _stream(self._settings)
        return found

    def _counted(self, name: str) -> int:
        return self._counts.counted(name, self._step, self._clock())

    def _add(self, name: str, most: int) -> bool:
        return self._counts.add(name, most, self._step, self._clock())


class ProcessorShares:
    """Limits the processor time that one analyst's queries may use per minute to a share of the machine's.

    A query counts with its planned processor time (:meth:`ResponseSchedule.seconds`), so nothing depends on data.

    Args:
        settings: ``processor_share``, and ``work_seconds``, which one query may use at once.
        processors: number of processors of the machine.
        counts: shared by all worker processes.
        clock: monotonic nanoseconds, the same in all processes.
    """

    def __init__(
        self, settings: Settings, processors: int, counts: Buckets, clock: Callable[[], int] = monotonic_ns
    ) -> None:
        self._rate = _exact(settings.processor_share) * processors
        self._deep = max(_MINUTE, math.ceil(_exact(settings.work_seconds) * _SECOND / self._rate))
        self._counts = counts
        self._clock = clock

    def take(self, analyst: str, seconds: Fraction) -> None:
        """Count the processor time of a query.

        Raises:
            TooMany: the analyst's share is used up; nothing was counted.
        """
        wait = self._pour(analyst, seconds)
        if wait > 0:
            raise TooMany(wait / _SECOND)

    def give_back(self, analyst: str, seconds: Fraction) -> None:
        """Return unused processor time to the analyst, because no run was needed."""
        self._pour(analyst, -seconds)

    def _pour(self, analyst: str, seconds: Fraction) -> int:
        step = int(seconds * _SECOND / self._rate)
        return self._counts.pour(f"processor\0{analyst}", step, self._clock(), self._deep)


def _stream(settings: Settings) -> SparseVector:
    return SparseVector(epsilon=_exact(settings.time_epsilon), sensitivity=STEPS, threshold=0, positives=1)


def _exact(value: float) -> Fraction:
    """Return the decimal number as typed, not the nearest double."""
    return Fraction(repr(value))


def _of_analyst(name: str) -> str:
    return f"late analyst\0{name}"


def _slow(name: str) -> str:
    return f"slow analyst\0{name}"


def _of_population(name: str) -> str:
    return f"late population\0{name}"


class ResponseSteps:
    """Holds responses for 1, 2, 4, 8 … times ``seconds``; 0 holds nothing. The clock is monotonic."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock

    def now(self) -> float:
        """Return the current time of the clock that :meth:`due` and :meth:`hold` use."""
        return self._clock()

    def due(self, arrived: float, now: float) -> float:
        """Return when to send the response to a request that arrived at ``arrived`` and is ready at ``now``."""
        if not self._seconds:
            return now
        step = self._seconds
        while arrived + step < now:
            step *= 2
        return arrived + step

    async def hold(self, arrived: float) -> None:
        """Wait until the response to a request that arrived at ``arrived`` may be sent."""
        due = self.due(arrived, self._clock())
        # A timer may ring a little early.
        while (left := due - self._clock()) > 0:
            await asyncio.sleep(left)

    async def hold_first(self, arrived: float) -> None:
        """Wait until the end of the first response step; a response that is ready later was held where it was made."""
        if self._clock() < arrived + self._seconds:
            await self.hold(arrived)

    def doubled(self, began: float, seconds: float) -> float:
        """Return the first moment that has not passed among ``began`` + 1, 2, 4, 8 … times ``seconds``."""
        while began + seconds < self._clock():
            seconds *= 2
        return began + seconds

    def call_at(self, loop: asyncio.AbstractEventLoop, moment: float, work: Callable[[], None]) -> None:
        """Let an event loop run ``work`` at ``moment`` or later; callable from any thread. A closed loop ignores it."""

        def ring() -> None:
            left = moment - self._clock()
            if left > 0:
                loop.call_later(left, ring)
            else:
                work()

        with suppress(RuntimeError):
            loop.call_soon_threadsafe(ring)


#: Seconds between two checks, by a waiting thread, whether the event loop still runs.
_PATIENCE: Final = 0.5
#: Nanoseconds for which a request to stop a query is remembered.
_REMEMBERED: Final = 3_600 * 10**9
_ID: Final = re.compile("[0-9]{1,20}-[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """A query that reads data now.

    Args:
        id: by which an operator can stop it.
        analyst: person who asked it.
        population: whose budget was charged.
        seconds: running time so far.
        expected: processor seconds by its text and the declared sizes of tables.
        operator: plan operator with the most work.
    """

    id: str
    analyst: str
    population: str
    seconds: float
    expected: float
    operator: str


class RunningQueries:
    """Running queries of one process, for operators; thread-safe.

    Args:
        interrupt: stops the query that runs in the thread with this identifier.
        counts: shared by all worker processes, so that each can stop a query of another.
    """

    def __init__(self, interrupt: Callable[[int], None], counts: Buckets) -> None:
        self._interrupt = interrupt
        self._counts = counts
        self._lock = threading.Lock()
        self._threads: dict[str, tuple[int, Callable[[], RunningQuery]]] = {}
        self._begun = 0

    def begin(self, describe: Callable[[str], RunningQuery]) -> str:
        """Register a query that this thread begins, and return its id."""
        with self._lock:
            self._begun += 1
            name = f"{os.getpid()}-{self._begun}"
            self._threads[name] = threading.get_ident(), lambda: describe(name)
        return name

    def end(self, name: str) -> None:
        """Remove a query that has finished reading data."""
        with self._lock:
            self._threads.pop(name, None)

    def listed(self) -> list[RunningQuery]:
        """Return all running queries, the longest-running first."""
        with self._lock:
            found = [describe() for _, describe in self._threads.values()]
        return sorted(found, key=lambda each: -each.seconds)

    def ask_to_stop(self, name: str) -> bool:
        """Mark a query to be stopped by the process that runs it; its charge waits for another run.

        Return False for text that cannot be an id.
        """
        if _ID.fullmatch(name) is None:
            return False
        # In a bucket, which expires and can be evicted: a counter would be kept for ever, even for an unknown id.
        self._counts.pour(_stop(name), _REMEMBERED, monotonic_ns(), _REMEMBERED)
        self.stop_asked()
        return True

    def stop_asked(self) -> None:
        """Interrupt the queries of this process that an operator has marked."""
        with self._lock:
            for name, (thread, _) in self._threads.items():
                if self.is_stopped(name):
                    # Under the lock, so that the thread has not gone on to another query.
                    self._interrupt(thread)

    def is_stopped(self, name: str) -> bool:
        """Whether an operator has marked a query to be stopped."""
        return self._counts.pour(_stop(name), 0, monotonic_ns(), 0) > 0


def _stop(name: str) -> str:
    return f"stop\0{name}"


class ResponseTimer:
    """Decides when the outcome of one query may be known; made by the event loop, used by the thread of the query.

    At each response time the event loop checks whether the run has ended, whatever the thread does. The order of these
    checks therefore follows from when queries began and from their texts, not from how fast they ran.
    """

    def __init__(
        self,
        steps: ResponseSteps,
        schedule: ResponseSchedule | None,
        late: LateAnswers,
        shares: ProcessorShares,
        running: RunningQueries,
        analyst: str,
    ) -> None:
        self._steps = steps
        self._schedule = schedule
        self._late = late
        self._shares = shares
        self._running = running
        self._analyst = analyst
        self._id = ""
        self._taken_share = Fraction(0)
        self._loop = get_running_loop()
        self._arrived = steps.now()
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
        """Seconds after the beginning of the run until its result is discarded; None without response times."""
        return None if self._decided is None else self._decided.last

    def check(self, plan: TimedWork) -> None:
        """Refuse a fresh query of too much work, or after too many late answers of its analyst or population.

        Raises:
            Refusal: too much work.
            LateLimit: too many late answers.
            TooMany: the analyst's share of the processors is used up.
        """
        if self._schedule is not None:
            self._schedule.check(plan)
            self._late.check(self._analyst, plan.final.population)
            seconds = self._schedule.seconds(plan)
            self._shares.take(self._analyst, seconds)
            self._taken_share = seconds

    def begin(self, plan: TimedWork) -> None:
        """Decide the response times before data is read."""
        self._began = self._steps.now()
        expected = 0.0 if self._schedule is None else float(self._schedule.seconds(plan))
        self._id = self._running.begin(
            lambda name: RunningQuery(
                name,
                self._analyst,
                plan.final.population,
                self._steps.now() - self._began,
                expected,
                plan.whole_work.operator,
            )
        )
        if self._schedule is None:
            return
        self._population = plan.final.population
        self._decided = self._schedule.decide(plan, self._late.late(self._analyst), self._late.slow(self._analyst))
        self._steps.call_at(self._loop, self._began + self._decided.first, self._look)

    def end(self, *, failed: bool) -> Ending:
        """Wait for the response time, in the thread of the query, and return the outcome to record."""
        self._running.end(self._id)
        stopped = failed and self._running.is_stopped(self._id)
        own = Ending.DELAYED if stopped else Ending.FAILED if failed else Ending.DONE
        if self._decided is None:
            return own
        with self._lock:
            given_up = self._verdict is not None
            self._failed = failed
            self._taken = int((self._steps.now() - self._began) * TICKS)
        if given_up:
            # The time that the engine took to stop is visible only in doublings of the last response time.
            self._steps.call_at(self._loop, self._steps.doubled(self._began, self._decided.last), self._known.set)
        while not self._known.wait(_PATIENCE):
            # If the loop is closed, no caller is left; work that was begun is finished.
            if self._loop.is_closed():
                return own
        if self._verdict is LatenessVerdict.ON_TIME:
            return Ending.DONE
        return Ending.FAILED if self._verdict is LatenessVerdict.FAILED and not stopped else Ending.DELAYED

    async def hold(self) -> None:
        """Hold a response that read no data (a refusal, a repeat) until a response step, in the event loop."""
        if self._decided is None:
            self._shares.give_back(self._analyst, self._taken_share)
            self._taken_share = Fraction(0)
            await self._steps.hold(self._arrived)

    def _look(self) -> None:
        """Decide about the query, at one of its response times."""
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
            self._steps.call_at(self._loop, self._began + decided.times[self._place] / TICKS, self._look)
        elif taken is not None:
            self._known.set()
