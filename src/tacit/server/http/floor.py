"""Where work is done: bounded pools of threads, fixed times for answers, and how often somebody may come.

Questions have a pool of their own, so that slow ones do not keep quotes waiting. What does not fit is refused at once,
and nothing was done for it. Work that has begun is finished, whether or not its caller is still there: what was
reserved is paid for.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from tacit.curator.kept import Kept
from tacit.server.buckets import Buckets
from tacit.server.errors import Busy, TooMany, Unauthenticated
from tacit.server.office import Ask, Office
from tacit.server.rates import Rate, network_of
from tacit.server.settings import Settings
from tacit.server.slots import Pace, Slots

if TYPE_CHECKING:
    from tacit.curator.quote import Quote
    from tacit.curator.result import Answer
    from tacit.server.people import Access

__all__ = ["Floor", "Lane"]

_SHOWN: Final = 16_000_000
#: Sign-ins that are looked at at once, and that may wait: a password takes much memory and time, on purpose.
_ENTERING: Final = 2, 32
Words = ParamSpec("Words")
Result = TypeVar("Result")


class Lane:
    """A pool of threads with a queue that ends somewhere. Used from one event loop at a time.

    What :mod:`concurrent.futures` does costs as much as a small request does; here results are handed back in bundles.
    """

    def __init__(self, name: str, threads: int, queue: int) -> None:
        self._name = f"tacit-{name}"
        self._most = threads + queue
        self._todo: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._called = self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun: list[threading.Thread] = []
        self.threads = threads
        self.taken = 0

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """The result of some work, in a thread.

        Whoever waits may give up; the work is done all the same.

        Raises:
            Busy: too much is waiting; the work was not begun.
        """
        if self._closed or self.taken >= self._most:
            raise Busy
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What was called on another loop, which has ended, will never come.
            self._loop, self._called = loop, False
        future: asyncio.Future[Result] = loop.create_future()
        self.taken += 1
        if len(self._begun) < min(self.taken, self.threads):
            self._begun.append(threading.Thread(target=self._work, name=self._name, daemon=True))
            self._begun[-1].start()
        self._todo.put((future, partial(work, *args, **words)))
        return await future

    def close(self) -> None:
        """Begin nothing new; threads end with what they are doing."""
        self._closed = True
        for _ in self._begun:
            self._todo.put(None)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            future, work = item
            try:
                self._done.append((future, work(), None))
            except BaseException as problem:
                self._done.append((future, None, problem))
            # Not a lock: at worst the loop is called once too often.
            if not self._called and self._loop is not None:
                self._called = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    # The loop was closed, and nobody waits.
                    self._called = False
            del item, future, work

    def _collect(self) -> None:
        self._called = False
        while self._done:
            future, result, problem = self._done.popleft()
            self.taken -= 1
            if future.cancelled():
                continue
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)


class Floor:
    """What an application works with; for one event loop.

    Args:
        office: does things for people.
        settings: how many at once, how often, and when they leave.
        buckets: where it is counted how often somebody comes; shared with other worker processes, if there are some.
    """

    def __init__(self, office: Office, settings: Settings, buckets: Buckets | None = None) -> None:
        self.office = office
        self.settings = settings
        self.slots = Slots(settings.slot)
        self.asking = Lane("ask", settings.threads, settings.queue)
        self.quick = Lane("quick", settings.quick_threads, settings.quick_queue)
        self.entering = Lane("enter", *_ENTERING)
        counted = buckets or Buckets()
        self.rates = {
            name: Rate(getattr(settings, f"{name}_per_minute"), buckets=counted, name=name)
            for name in ("asks", "quotes", "reads")
        }
        #: Bytes of answers and quotes that were sent lately; what they are made of never changes.
        self.shown: Kept[tuple[str, ...], bytes] = Kept(_SHOWN)
        # Apart, because any page that somebody looks at can make their browser send requests without a token, which
        # must not keep them from signing in; a form it cannot send.
        self._strangers, self._guesses = (
            Rate(settings.failures_per_minute, buckets=counted, name=name) for name in ("strangers", "guesses")
        )

    async def ask(self, access: Access, ask: Ask, key: str = "") -> Answer:
        """As :meth:`Office.ask`, in a thread; whatever becomes of it leaves in a slot."""
        self.rates["asks"].take(access.person.name)
        pace = Pace(self.slots)
        try:
            return await self.asking.run(self.office.ask, access, ask, key=key, departure=pace)
        finally:
            await pace.hold()

    async def quote(self, access: Access, ask: Ask) -> Quote:
        """As :meth:`Office.quote`, in a thread."""
        self.rates["quotes"].take(access.person.name)
        return await self.quick.run(self.office.quote, access, ask)

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """Other work, in a thread."""
        return await self.quick.run(work, *args, **words)

    async def enter(
        self, address: str, work: Callable[Words, Result | None], *args: Words.args, **words: Words.kwargs
    ) -> Result | None:
        """What comes of a try to sign in, in a thread that nothing else needs; None also for too many from there.

        A try is counted before it is made and forgiven when it was right, so that tries side by side count as well.
        """
        network = network_of(address)
        try:
            self._guesses.take(network)
        except TooMany:
            return None
        found = await self.entering.run(work, *args, **words)
        if found is not None:
            self._guesses.give_back(network)
        return found

    def authenticated(self, token: str, address: str) -> Access:
        """Who shows a token; for a thread.

        Valid tokens are let through whatever others at the same address do.

        Raises:
            Unauthenticated: nobody.
            TooMany: nobody, once more.
        """
        access = self.office.people.authenticate(token)
        if access is None:
            wait = self.failed(address)
            raise TooMany(wait) if wait else Unauthenticated
        return access

    def failed(self, address: str) -> float:
        """Note that somebody there showed no token or link that counts; seconds until the next may, 0 for now."""
        try:
            self._strangers.take(network_of(address))
        except TooMany as problem:
            return problem.seconds
        return 0.0

    def wait_for(self, address: str) -> float:
        """Seconds until somebody there may try to sign in, 0 for now."""
        return self._guesses.wait_for(network_of(address))

    @property
    def under_way(self) -> int:
        """How much work is begun or waiting."""
        return self.asking.taken + self.quick.taken + self.entering.taken

    def close(self) -> None:
        """Begin nothing new."""
        for lane in (self.asking, self.quick, self.entering):
            lane.close()
