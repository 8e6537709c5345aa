"""Thread pools of the event loop, one of them fair among analysts."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from tacit.server.errors import Busy

__all__ = ["BoundedExecutor", "FairExecutor", "FairQueue"]

Words = ParamSpec("Words")
Result = TypeVar("Result")
#: Whose work it is, who waits for it, and what is to be done.
Item = tuple[str, "asyncio.Future[Any]", Callable[[], Any]]
#: One person may fill this share of the queue.
_SHARE: Final = 2


class _Waiting(Protocol):
    """What threads take their work from; None ends a thread."""

    def put(self, item: Item | None, /) -> None: ...

    def get(self) -> Item | None: ...


class BoundedExecutor:
    """A pool of threads with a queue that ends somewhere. Used from one event loop at a time.

    What :mod:`concurrent.futures` does costs as much as a small request does; here results are handed back in bundles.
    """

    def __init__(self, name: str, threads: int, queue: int) -> None:
        self._name = f"tacit-{name}"
        self._most = threads + queue
        self._todo: _Waiting = SimpleQueue()
        self._done: deque[tuple[str, asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._called = self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun: list[threading.Thread] = []
        self.threads = threads
        self.taken = 0

    async def run(self, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs) -> Result:
        """The result of some work, in a thread.

        The caller may give up waiting; the work is finished all the same.

        Raises:
            Busy: too much is waiting; the work was not begun.
        """
        if self.taken >= self._most:
            raise Busy
        return await self._begin("", partial(work, *args, **words))

    async def _begin(self, person: str, work: Callable[[], Result]) -> Result:
        if self._closed:
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
        self._todo.put((person, future, work))
        return await future

    def close(self) -> None:
        """Begin nothing new; threads end with what they are doing."""
        self._closed = True
        for _ in self._begun:
            self._todo.put(None)

    def _work(self) -> None:
        while (item := self._todo.get()) is not None:
            person, future, work = item
            try:
                self._done.append((person, future, work(), None))
            except BaseException as problem:
                self._done.append((person, future, None, problem))
            self._ended(person)
            # Not a lock: at worst the loop is called once too often.
            if not self._called and self._loop is not None:
                self._called = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    # The loop was closed; no caller waits.
                    self._called = False
            del item, future, work

    def _collect(self) -> None:
        self._called = False
        while self._done:
            person, future, result, problem = self._done.popleft()
            self.taken -= 1
            self._gave_back(person)
            if future.cancelled():
                continue
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)

    def _ended(self, person: str) -> None:
        """For a thread: some work of a person has ended."""

    def _gave_back(self, person: str) -> None:
        """For the loop: what came of some work of a person was collected."""


class FairExecutor(BoundedExecutor):
    """A pool whose threads people take in turns.

    At most ``each`` of the threads work for one person, and a thread that becomes free goes to the person whose turn it
    is, not to whoever sent most. One person may fill half of the queue; whoever has nothing in the lane is let in even
    where it is full, so that the queue of some never keeps out another one's first question.

    Args:
        name: of its threads.
        threads: how many.
        queue: how many may wait, but for first ones.
        each: how many threads may work for one person.
    """

    def __init__(self, name: str, threads: int, queue: int, each: int) -> None:
        super().__init__(name, threads, queue)
        self._people: Counter[str] = Counter()
        self._most_of_one = each + max(queue // _SHARE, min(queue, 1))
        self._turns = FairQueue(each)
        self._todo = self._turns

    async def run_for(
        self, person: str, work: Callable[Words, Result], *args: Words.args, **words: Words.kwargs
    ) -> Result:
        """As :meth:`run`, in turn.

        Raises:
            Busy: too much is waiting, or too much of this person; the work was not begun.
        """
        mine = self._people[person]
        if mine and (self.taken >= self._most or mine >= self._most_of_one):
            raise Busy
        self._people[person] += 1
        try:
            return await self._begin(person, partial(work, *args, **words))
        except Busy:
            self._gave_back(person)
            raise

    def _ended(self, person: str) -> None:
        self._turns.ended(person)

    def _gave_back(self, person: str) -> None:
        self._people[person] -= 1
        if not self._people[person]:
            del self._people[person]


class FairQueue:
    """Work of several people, handed out one person after the other, and to none more than so much at once.

    Of those who wait and may have more, the turn goes to the person who was served longest ago; a person who comes anew
    counts as served just before the last one was.

    Args:
        each: how much of one person's may be under way.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._ready = threading.Condition()
        self._waiting: dict[str, deque[Item]] = {}
        self._under_way: Counter[str] = Counter()
        #: When everybody who waits or has something under way was served, in half turns.
        self._served: dict[str, int] = {}
        self._turn = 0
        self._endings = 0

    def put(self, item: Item | None, /) -> None:
        """One more; None to end a thread when nothing is left for it."""
        with self._ready:
            if item is None:
                self._endings += 1
            else:
                self._served.setdefault(item[0], self._turn - 1)
                self._waiting.setdefault(item[0], deque()).append(item)
            self._ready.notify()

    def get(self) -> Item | None:
        """The next, as soon as there is one whose person may have it."""
        with self._ready:
            while (person := self._next()) is None:
                if self._endings and not self._waiting:
                    self._endings -= 1
                    return None
                self._ready.wait()
            items = self._waiting[person]
            item = items.popleft()
            if not items:
                del self._waiting[person]
            self._turn += 2
            self._served[person] = self._turn
            self._under_way[person] += 1
            return item

    def ended(self, person: str) -> None:
        """What was handed out of a person's has ended."""
        with self._ready:
            self._under_way[person] -= 1
            if not self._under_way[person]:
                del self._under_way[person]
                if person not in self._waiting:
                    del self._served[person]
            # Threads that are to end may wait for this as well.
            self._ready.notify_all()

    def _next(self) -> str | None:
        may = (person for person in self._waiting if self._under_way[person] < self._each)
        # Among equals the first, who has waited longest.
        return min(may, key=self._served.__getitem__, default=None)
