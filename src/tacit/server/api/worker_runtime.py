"""Thread pools, response timing and rate limits of one worker.

Queries have a pool of their own, so that slow ones do not keep quotes waiting, and analysts take turns there. Work
that does not fit is refused at once and not begun. Work that has begun is finished, whether or not its caller is still
there: its charge is paid.
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

from tacit.releases.query import WeightedLRUCache
from tacit.server.errors import Busy, TooMany, Unauthenticated
from tacit.server.rate_limit import Buckets, RateLimit, network_of
from tacit.server.service import CuratorService
from tacit.server.settings import Settings
from tacit.server.timing import (
    DepartureSchedule,
    LateAnswers,
    ProcessorShares,
    QueryDeparture,
    ResponseSlots,
    RunningQueries,
)

if TYPE_CHECKING:
    from tacit.curator.curator import Conversation
    from tacit.query.request import Request
    from tacit.releases.answer import Answer
    from tacit.releases.query import Quote
    from tacit.server.identity import Access
    from tacit.server.identity.scram import ClientProof

Words = ParamSpec("Words")
Result = TypeVar("Result")
Item = TypeVar("Item")
#: An analyst, the caller who waits, and the work.
Turn = tuple[str, tuple["asyncio.Future[Any]", Callable[[], Any]]]
#: One analyst may fill this share of the queue.
_SHARE: Final = 2
#: Work that is under way, kept so that it is not collected.
_left_running: set[asyncio.Future[Any]] = set()


def let_run(work: asyncio.Future[Any]) -> None:
    """Let work go on to its end, whether or not its caller still waits: its charge is paid."""

    def ended(done: asyncio.Future[Any]) -> None:
        _left_running.discard(done)
        if not done.cancelled():
            # Looked at, so that it is not reported as forgotten.
            done.exception()

    _left_running.add(work)
    work.add_done_callback(ended)


class FairExecutor:
    """A thread pool with a bounded queue, in front of which analysts take turns.

    A library's pool has a queue without end and serves it in order. Here at most ``each`` of the threads work for one
    analyst, and a free thread goes to the analyst served longest ago, not to the one who sent most. One analyst may
    fill half of the queue. An analyst with nothing in the pool is admitted even where the queue is full, so that the
    queue of some never keeps out the first query of another.

    Args:
        name: of its threads.
        threads: their number.
        queue: how much may wait, except first queries.
        each: threads that may work for one analyst; None where work belongs to no analyst.

    Attributes:
        taken: how much work runs or waits.
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
        """As :meth:`run_for`, for work that belongs to no analyst."""
        return await self.run_for("", work, *args, **words)

    async def run_for(
        self, person: str, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs
    ) -> Result:
        """Run work of an analyst in a thread, in turn.

        The caller may give up waiting; the work is done all the same.

        Raises:
            Busy: too much is waiting, or too much of this analyst; the work was not begun.
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
        """Accept nothing new; threads end with the work they have."""
        with self._lock:
            self._closed = True
            self._end()

    def _end(self) -> None:
        if self._closed and not self.taken:
            self._pool.shutdown(wait=False)

    def _work(self, turn: Turn | None) -> None:
        """Do some work, then the next whose turn it is: a thread that goes on is faster than one that is woken."""
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
            # A loop that was closed has no caller who waits.
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
    """Work of several analysts, handed out in turns, at most ``each`` pieces of one analyst at once.

    Of the analysts who wait and may have more, the turn goes to the one served longest ago; a new one counts as served
    just before the last one was. Not thread-safe.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._waiting: dict[str, deque[Item]] = {}
        self._under_way: Counter[str] = Counter()
        #: When each analyst who waits or has work under way was served, in half turns.
        self._served: dict[str, int] = {}
        self._turn = 0

    def put(self, person: str, item: Item) -> None:
        """Add work of an analyst."""
        self._served.setdefault(person, self._turn - 1)
        self._waiting.setdefault(person, deque()).append(item)

    def take(self) -> tuple[str, Item] | None:
        """The analyst whose turn it is, with their next work; None where none may have more."""
        may = (person for person in self._waiting if self._under_way[person] < self._each)
        # Among equals the first, who has waited longest.
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
        """Note that work of an analyst has ended."""
        self._under_way[person] -= 1
        if not self._under_way[person]:
            del self._under_way[person]
            if person not in self._waiting:
                del self._served[person]


_SHOWN: Final = 16_000_000
#: Sign-ins that talk to a provider at once, and that may wait: one that is slow keeps nobody else waiting.
_ENTERING: Final = 4, 32
#: Sign-ins that an address may begin for each failure that it may have.
_ENTRIES: Final = 10


class WorkerRuntime:
    """Thread pools, slots and rate limits of an application; for one event loop. Workers share ``buckets``."""

    def __init__(self, service: CuratorService, settings: Settings, buckets: Buckets | None = None) -> None:
        self.service = service
        self.settings = settings
        self.slots = ResponseSlots(settings.slot)
        self.ticks = ResponseSlots(settings.tick if settings.slot else 0)
        self.asking = FairExecutor("ask", settings.threads, settings.queue, settings.running_each)
        self.quick = FairExecutor("quick", settings.quick_threads, settings.quick_queue)
        self.entering = FairExecutor("enter", *_ENTERING)
        counted = self.buckets = buckets or Buckets()
        self.late = LateAnswers(settings, counted)
        engine = service.curator.context.engine
        limits = getattr(engine, "limits", None)
        schedule = DepartureSchedule(settings, getattr(limits, "seconds", None), type(engine))
        self._schedule = schedule if settings.slot else None
        self._shares = ProcessorShares(settings, schedule.processors, counted)
        self.running = RunningQueries(engine.interrupt_thread, counted)
        self.rates = {
            name: RateLimit(getattr(settings, f"{name}_per_minute"), buckets=counted, name=name)
            for name in ("asks", "quotes", "reads")
        }
        #: Bytes of answers and quotes that were sent lately; their sources never change.
        self.shown: WeightedLRUCache[tuple[str, ...], bytes] = WeightedLRUCache(_SHOWN)
        self._strangers = RateLimit(settings.failures_per_minute, buckets=counted, name="strangers")
        self._entries = RateLimit(_ENTRIES * settings.failures_per_minute, buckets=counted, name="entries")

    async def ask(
        self, access: Access, ask: Request, key: str = "", conversation: Conversation | None = None
    ) -> Answer:
        """As :meth:`CuratorService.ask`, in a thread; the outcome leaves at a time that was decided before."""
        return await self._held(access, self.service.ask, access, ask, key=key, conversation=conversation)

    async def deliver(self, access: Access, position: int) -> None:
        """As :meth:`CuratorService.deliver`, in a thread; the outcome leaves at a time that was decided before."""
        await self._held(access, self.service.deliver, access, position)

    async def _held(self, access: Access, work: Callable[..., Result], *args: Any, **words: Any) -> Result:
        name = access.person.name
        self.rates["asks"].take(name)
        departure = self.departure(name)
        try:
            return await self.asking.run_for(name, work, *args, departure=departure, **words)
        finally:
            await departure.hold()

    def departure(self, analyst: str) -> QueryDeparture:
        """The departure of one query; for the event loop."""
        return QueryDeparture(self.slots, self._schedule, self.late, self._shares, self.running, analyst)

    def leaves_after(self, access: Access, quote: Quote) -> float:
        """Seconds from the beginning of a fresh query until its answer leaves, if it is ready; 0 without slots.

        Raises:
            Refusal: it is too much work.
        """
        if self._schedule is None or quote.plan is None:
            return 0.0
        self._schedule.check(quote.plan)
        name = access.person.name
        return self._schedule.decide(quote.plan, self.late.late(name), self.late.slow(name)).first

    async def quote(self, access: Access, ask: Request) -> Quote:
        """As :meth:`CuratorService.quote`, in a thread."""
        self.rates["quotes"].take(access.person.name)
        return await self.run(self.service.quote, access, ask)

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """Free work, in a thread; done at a tick, so that it does not show how busy engines are."""
        async with self.ticked():
            return await self.quick.run(work, *args, **words)

    @asynccontextmanager
    async def ticked(self) -> AsyncIterator[None]:
        """Free work; done after 1, 2, 4, 8 … ticks, also where it fails."""
        arrived = self.ticks.now()
        try:
            yield
        finally:
            await self.ticks.hold(arrived)

    async def enter(
        self, address: str, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs
    ) -> Result:
        """Run a step of a sign-in at a provider, in a thread kept for that.

        Raises:
            TooMany: too many from this address.
        """
        network = network_of(address)
        self._entries.take(network)
        return await self.entering.run_for(network, work, *args, **words)

    async def prove(self, name: str, shown: ClientProof, address: str) -> tuple[Access, bytes] | None:
        """The access that a PostgreSQL client has proved, and the server's own proof; a wrong proof is counted."""
        found = await self.run(self.service.people.prove, name, shown)
        if found is None:
            self.failed(address)
        return found

    def authenticated(self, token: str, address: str) -> Access:
        """Authenticate a token; for a thread.

        Valid tokens pass, whatever others at the same address do.

        Raises:
            Unauthenticated: the token is not valid.
            TooMany: too many invalid tokens from there.
        """
        access = self.service.people.authenticate(token)
        if access is None:
            wait = self.failed(address)
            raise TooMany(wait) if wait else Unauthenticated
        return access

    def failed(self, address: str) -> float:
        """Count an invalid token or link from an address; seconds until the next may, 0 for now."""
        try:
            self._strangers.take(network_of(address))
        except TooMany as problem:
            return problem.seconds
        return 0.0

    @property
    def under_way(self) -> int:
        """Amount of work that runs or waits."""
        return self.asking.taken + self.quick.taken + self.entering.taken

    def close(self) -> None:
        """Accept nothing new."""
        for pool in (self.asking, self.quick, self.entering):
            pool.close()
