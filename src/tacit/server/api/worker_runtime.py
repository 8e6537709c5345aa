"""Thread pools, response timing and rate limits of one worker.

Questions have a pool of their own, so that slow ones do not keep quotes waiting, and analysts take turns there. Work
that does not fit is refused at once and not begun. Work that has begun is finished, whether or not its caller is still
there: its charge is paid.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from tacit.releases.planner import WeightedLRUCache
from tacit.server.api.thread_pools import FairExecutor
from tacit.server.departure import QuestionDeparture, RunningQueries
from tacit.server.errors import TooMany, Unauthenticated
from tacit.server.rate_limit import Buckets, RateLimit, network_of
from tacit.server.response_slots import ResponseSlots
from tacit.server.service import CuratorService
from tacit.server.settings import Settings
from tacit.server.timing import DepartureSchedule, LateAnswers, ProcessorShares

if TYPE_CHECKING:
    from tacit.curator.curator import Conversation
    from tacit.query.request import Request
    from tacit.releases.answer import Answer
    from tacit.releases.planner import Quote
    from tacit.server.identity import Access
    from tacit.server.identity.scram import ClientProof

_SHOWN: Final = 16_000_000
#: Sign-ins that talk to a provider at once, and that may wait: one that is slow keeps nobody else waiting.
_ENTERING: Final = 4, 32
#: Sign-ins that an address may begin for each failure that it may have.
_ENTRIES: Final = 10
Words = ParamSpec("Words")
Result = TypeVar("Result")


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
        name = access.person.name
        self.rates["asks"].take(name)
        departure = self.departure(name)
        try:
            return await self.asking.run_for(
                name, self.service.ask, access, ask, key=key, departure=departure, conversation=conversation
            )
        finally:
            await departure.hold()

    async def deliver(self, access: Access, position: int) -> None:
        """As :meth:`CuratorService.deliver`, in a thread; the outcome leaves at a time that was decided before."""
        name = access.person.name
        self.rates["asks"].take(name)
        departure = self.departure(name)
        try:
            await self.asking.run_for(name, self.service.deliver, access, position, departure=departure)
        finally:
            await departure.hold()

    def departure(self, analyst: str) -> QuestionDeparture:
        """The departure of one question; for the event loop."""
        return QuestionDeparture(self.slots, self._schedule, self.late, self._shares, self.running, analyst)

    def leaves_after(self, access: Access, quote: Quote) -> float:
        """Seconds from the beginning of a fresh question until its answer leaves, if it is ready; 0 without slots.

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
