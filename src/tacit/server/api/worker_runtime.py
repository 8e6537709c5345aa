"""Thread pools, response timing and rate limits of one worker.

Queries have a separate pool, so that slow ones do not delay quotes, and analysts take turns there. Work beyond the
capacity is refused at once and not begun. Work that has begun is finished even if its caller has left, since its
charge is paid.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from tacit.releases.plans import WeightedLRUCache
from tacit.server.errors import Busy, TooMany, Unauthenticated
from tacit.server.rate_limit import Buckets, RateLimit, network_of
from tacit.server.service import CuratorService
from tacit.server.settings import Settings
from tacit.server.timing import (
    LateAnswers,
    ProcessorShares,
    ResponseSchedule,
    ResponseSteps,
    ResponseTimer,
    RunningQueries,
)

if TYPE_CHECKING:
    from tacit.query.request import Request
    from tacit.releases.answer import Answer
    from tacit.releases.plans import Quote
    from tacit.server.identity import Access
    from tacit.server.identity.scram import ClientProof

Words = ParamSpec("Words")
Result = TypeVar("Result")
Item = TypeVar("Item")
#: An analyst, the future on which the caller waits, and the work.
Turn = tuple[str, tuple["asyncio.Future[Any]", Callable[[], Any]]]
#: One analyst may fill 1/_SHARE of the queue.
_SHARE: Final = 2
#: References to running work, so that it is not garbage-collected.
_left_running: set[asyncio.Future[Any]] = set()


def let_run(work: asyncio.Future[Any]) -> None:
    """Let work run to its end even if its caller stops waiting: its charge is paid."""

    def ended(done: asyncio.Future[Any]) -> None:
        _left_running.discard(done)
        if not done.cancelled():
            # Retrieved, so that asyncio does not report it as never retrieved.
            done.exception()

    _left_running.add(work)
    work.add_done_callback(ended)


class FairExecutor:
    """A thread pool with a bounded queue, at which analysts take turns.

    A :class:`ThreadPoolExecutor` has an unbounded queue and serves it in order. Here at most ``each`` of the threads
    work for one analyst, and a free thread goes to the analyst served longest ago, not to the one who submitted most.
    One analyst may fill half of the queue. An analyst with no work in the pool is admitted even if the queue is full,
    so that a full queue never keeps out the first query of another analyst.

    Args:
        name: prefix of the names of its threads.
        threads: number of threads.
        queue: maximum number of waiting tasks, not counting each analyst's first.
        each: maximum number of threads that work for one analyst; None for work that belongs to no analyst.

    Attributes:
        taken: number of tasks that run or wait.
    """

    def __init__(self, name: str, threads: int, queue: int, each: int | None = None) -> None:
        self.threads = threads
        self._most = threads + queue
        self._most_of_one = self._most if each is None else each + max(queue // _SHARE, min(queue, 1))
        self._pool = ThreadPoolExecutor(threads, f"tacit-{name}")
        self._turns = FairQueue[tuple[asyncio.Future[Any], Callable[[], Any]]](threads if each is None else each)
        self._people: Counter[str] = Counter()
        self._running = 0
        self.taken = 0
        self._closed = False
        self._lock = threading.Lock()

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """Run work that belongs to no analyst; else like :meth:`run_for`."""
        return await self.run_for("", work, *args, **words)

    async def run_for(
        self, person: str, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs
    ) -> Result:
        """Run an analyst's work in a thread, in turn, and return its result.

        If the caller stops waiting, the work still runs to its end.

        Raises:
            Busy: too many tasks are waiting, in total or of this analyst; the work was not begun.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            mine = self._people[person]
            if self._closed or (mine and (self.taken >= self._most or mine >= self._most_of_one)):
                raise Busy
            self._people[person] += 1
            self.taken += 1
            self._turns.put(person, (future, partial(work, *args, **words)))
            turn = self._turns.take() if self._running < self.threads else None
            if turn is not None:
                self._running += 1
                self._pool.submit(self._work, turn)
        return await future

    def close(self) -> None:
        """Accept no new work; threads end after the work they have."""
        with self._lock:
            self._closed = True
            self._end()

    def _end(self) -> None:
        if self._closed and not self.taken:
            self._pool.shutdown(wait=False)

    def _work(self, turn: Turn | None) -> None:
        """Run a task, then the next in turn in the same thread, which is faster than waking another one."""
        while turn is not None:
            person, (future, work) = turn
            result, problem = None, None
            try:
                result = work()
            except BaseException as raised:
                problem = raised
            with self._lock:
                self.taken -= 1
                self._people[person] -= 1
                if not self._people[person]:
                    del self._people[person]
                self._turns.ended(person)
                turn = self._turns.take()
                self._running -= turn is None
                self._end()
            # A closed loop has no waiting caller.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_hand_back, future, result, problem)
            del future, work, result, problem


def _hand_back(future: asyncio.Future[Any], result: Any, problem: BaseException | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(result)
    else:
        future.set_exception(problem)


class FairQueue(Generic[Item]):
    """Queue of several analysts' work, served in turns, with at most ``each`` tasks of one analyst at once.

    Of the waiting analysts below this limit, the turn goes to the one served longest ago; a new analyst counts as
    served just before the most recent one. Not thread-safe.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._waiting: dict[str, deque[Item]] = {}
        self._under_way: Counter[str] = Counter()
        #: When each analyst with waiting or running work was last served, in half turns.
        self._served: dict[str, int] = {}
        self._turn = 0

    def put(self, person: str, item: Item) -> None:
        self._served.setdefault(person, self._turn - 1)
        self._waiting.setdefault(person, deque()).append(item)

    def take(self) -> tuple[str, Item] | None:
        """Return the analyst whose turn it is, with their next task; None if no one may run more."""
        may = (person for person in self._waiting if self._under_way[person] < self._each)
        # Among equals the first, which has waited longest.
        person = min(may, key=self._served.__getitem__, default=None)
        if person is None:
            return None
        item = self._waiting[person].popleft()
        if not self._waiting[person]:
            del self._waiting[person]
        self._turn += 2
        self._served[person] = self._turn
        self._under_way[person] += 1
        return person, item

    def ended(self, person: str) -> None:
        """Record that a task of an analyst has ended."""
        self._under_way[person] -= 1
        if not self._under_way[person]:
            del self._under_way[person]
            if person not in self._waiting:
                del self._served[person]


_SHOWN: Final = 16_000_000
#: Concurrent and waiting sign-ins at providers; a separate pool, so that a slow provider delays no other work.
_ENTERING: Final = 4, 32
#: Sign-ins that an address may begin per allowed failure.
_ENTRIES: Final = 10


class WorkerRuntime:
    """Thread pools, response steps and rate limits of an application; for one event loop. Workers share ``buckets``."""

    def __init__(self, service: CuratorService, settings: Settings, buckets: Buckets | None = None) -> None:
        self.service = service
        self.settings = settings
        self.steps = ResponseSteps(settings.response_step)
        self.ticks = ResponseSteps(settings.tick if settings.response_step else 0)
        self.asking = FairExecutor("ask", settings.threads, settings.queue, settings.running_each)
        self.quick = FairExecutor("quick", settings.quick_threads, settings.quick_queue)
        self.entering = FairExecutor("enter", *_ENTERING)
        counted = self.buckets = buckets or Buckets()
        self.late = LateAnswers(settings, counted)
        engine = service.curator.context.engine
        limits = getattr(engine, "limits", None)
        schedule = ResponseSchedule(settings, getattr(limits, "seconds", None), type(engine))
        self._schedule = schedule if settings.response_step else None
        self._shares = ProcessorShares(settings, schedule.processors, counted)
        self.running = RunningQueries(engine.interrupt_thread, counted)
        self.rates = {
            name: RateLimit(getattr(settings, f"{name}_per_minute"), buckets=counted, name=name)
            for name in ("asks", "quotes", "reads")
        }
        #: Cached bytes of recent answers and quotes; their sources never change.
        self.shown: WeightedLRUCache[tuple[str, ...], bytes] = WeightedLRUCache(_SHOWN)
        self._strangers = RateLimit(settings.failures_per_minute, buckets=counted, name="strangers")
        self._entries = RateLimit(_ENTRIES * settings.failures_per_minute, buckets=counted, name="entries")

    async def ask(self, access: Access, ask: Request, key: str = "") -> Answer:
        """Run :meth:`CuratorService.ask` in a thread; return its outcome at the response time decided beforehand."""
        return await self._held(access, self.service.ask, access, ask, key=key)

    async def deliver(self, access: Access, position: int) -> None:
        """Run :meth:`CuratorService.deliver` in a thread; return at the response time decided beforehand."""
        await self._held(access, self.service.deliver, access, position)

    async def _held(self, access: Access, work: Callable[..., Result], *args: Any, **words: Any) -> Result:
        name = access.person.name
        self.rates["asks"].take(name)
        timer = self.timer(name)
        try:
            return await self.asking.run_for(name, work, *args, timer=timer, **words)
        finally:
            await timer.hold()

    def timer(self, analyst: str) -> ResponseTimer:
        """Return the timer of one query's response; to be called on the event loop."""
        return ResponseTimer(self.steps, self._schedule, self.late, self._shares, self.running, analyst)

    def response_time(self, access: Access, quote: Quote) -> float:
        """Return the seconds from the beginning of a fresh query to its first response time; 0 without response steps.

        Raises:
            Refusal: the query is too much work.
        """
        if self._schedule is None or quote.plan is None:
            return 0.0
        self._schedule.check(quote.plan)
        name = access.person.name
        return self._schedule.decide(quote.plan, self.late.late(name), self.late.slow(name)).first

    async def quote(self, access: Access, ask: Request) -> Quote:
        """Run :meth:`CuratorService.quote` in a thread."""
        self.rates["quotes"].take(access.person.name)
        return await self.run(self.service.quote, access, ask)

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """Run free work in a thread; return at a tick, so that the time does not reveal how busy the engines are."""
        async with self.ticked():
            return await self.quick.run(work, *args, **words)

    @asynccontextmanager
    async def ticked(self) -> AsyncIterator[None]:
        """Hold the end of free work until 1, 2, 4, 8 … ticks after its beginning, also if it fails."""
        arrived = self.ticks.now()
        try:
            yield
        finally:
            await self.ticks.hold(arrived)

    async def enter(
        self, address: str, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs
    ) -> Result:
        """Run a step of a sign-in at a provider, in a thread reserved for sign-ins.

        Raises:
            TooMany: too many sign-ins from this address.
        """
        network = network_of(address)
        self._entries.take(network)
        return await self.entering.run_for(network, work, *args, **words)

    async def prove(self, name: str, shown: ClientProof, address: str) -> tuple[Access, bytes] | None:
        """Check a PostgreSQL client's proof; return the access and the server's proof.

        Count a wrong proof and return None.
        """
        found = await self.run(self.service.people.prove, name, shown)
        if found is None:
            self.failed(address)
        return found

    def authenticated(self, token: str, address: str) -> Access:
        """Authenticate a token; to be called in a thread.

        A valid token is accepted regardless of failures at the same address.

        Raises:
            Unauthenticated: the token is not valid.
            TooMany: too many invalid tokens from this address.
        """
        access = self.service.people.authenticate(token)
        if access is None:
            wait = self.failed(address)
            raise TooMany(wait) if wait else Unauthenticated
        return access

    def failed(self, address: str) -> float:
        """Count an invalid token or link from an address; return the seconds until the next attempt, or 0."""
        try:
            self._strangers.take(network_of(address))
        except TooMany as problem:
            return problem.seconds
        return 0.0

    @property
    def under_way(self) -> int:
        """Number of tasks that run or wait."""
        return self.asking.taken + self.quick.taken + self.entering.taken

    def close(self) -> None:
        """Accept no new work."""
        for pool in (self.asking, self.quick, self.entering):
            pool.close()
