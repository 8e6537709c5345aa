"""A world in which ledgers live: seeded schedules, crashes between any two storage calls, disks that fail.

Every client is a process of its own: a thread with its own :class:`Ledger`, of which one at a time runs, until its
next storage call. There the world decides by its seed who goes on, and whether the call fails before or after it took
effect, or the process dies. The real ledger and the real anchor run; only the disks underneath are simulated, so a
history of a hundred calls takes milliseconds and its seed repeats it exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from support.ledgers import NOON, asking
from tacit.accounting.filters import PureFilter
from tacit.core.errors import BudgetError
from tacit.ledger import Ledger, LedgerError, Order, Outcome, RollbackError
from tacit.ledger.anchor import AnchorFile
from tacit.ledger.disk import Disk
from tacit.ledger.errors import StorageError
from tacit.ledger.memory import MemoryStore
from tacit.ledger.protocol import AlreadyTaken, Appended, BalanceState, InsufficientBudget, Reader, Step, Store, Stored
from tacit.ledger.verify import verify

ANCHOR = Path("/state/anchor")


class Crash(BaseException):
    """The process is gone."""


class MemoryDisk(Disk):
    """Small files in memory that survive crashes, and calls that may tear or fail."""

    def __init__(self) -> None:
        self.files: dict[Path, bytes] = {}
        self.pause: Callable[[str], str] = lambda _: ""
        self.cut: Callable[[], int] = lambda: 40

    def read(self, path: Path) -> bytes | None:
        self._act("read")
        return self.files.get(path)

    def create(self, path: Path, content: bytes, *, replace: bool) -> bool:
        self._act("create")
        if path in self.files and not replace:
            return False
        self.files[path] = content
        return True

    def change(self, path: Path, decide: Callable[[bytes], tuple[int, bytes] | None]) -> None:
        fault = self.pause("change")
        if fault == "fail":
            raise OSError(5, "Input/output error")
        decided = decide(self.files[path])
        if decided is not None:
            offset, content = decided
            if fault.startswith("torn"):
                content = content[: self.cut()]
            old = self.files[path]
            self.files[path] = old[:offset] + content + old[offset + len(content) :]
        if fault == "torn crash":
            raise Crash
        if fault:
            raise OSError(5, "Input/output error")

    def _act(self, call: str) -> None:
        if self.pause(call):
            raise OSError(5, "Input/output error")


class SimulatedStore:
    """A store whose every call is a moment at which the world may turn."""

    def __init__(self, store: Store, pause: Callable[[str], str]) -> None:
        self._store = store
        self._pause = pause
        self.place = store.place

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        fault = self._pause("append")
        if fault == "fail":
            raise StorageError("injected: nothing was written")
        result = self._store.append(step)
        if fault == "torn crash":
            raise Crash
        if fault:
            raise StorageError("injected: it was written, and the caller cannot know")
        return result

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*args: Any, **options: Any) -> Any:
            if self._pause(name):
                raise StorageError(f"injected: {name}")
            return method(*args, **options)

        return call

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        return self._store.entries(after=after)

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        return self._store.entries_down(before=before)

    def balances(self, *args: Any) -> tuple[BalanceState, ...]:
        return self._store.balances(*args)

    def snapshot(self) -> AbstractContextManager[Reader]:
        return self._store.snapshot()

    def close(self) -> None:
        """Do nothing: the store underneath outlives the process."""


@dataclass
class World:
    """One history.

    Args:
        seed: decides everything.
        store: the disk under the ledger.
        clients: processes.
        queries: each asks so many.
        fits: for how many charges the budget lasts.
    """

    seed: int
    store: Store = field(default_factory=MemoryStore)
    clients: int = 3
    queries: int = 3
    fits: int = 4
    trouble: float = 0.04
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    answers: list[tuple[Order, Outcome]] = field(default_factory=list)
    calls: int = 0
    crashes: int = 0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self._turns: dict[int, threading.Lock] = {}
        self._calm = True
        self._failure: BaseException | None = None
        self.disk.pause = self._turn
        # Within the line, of which the rest of the slot is blank.
        self.disk.cut = lambda: self.rng.randrange(180)
        with self.ledger() as ledger:
            ledger.ensure_account("patients", PureFilter(epsilon=Fraction(self.fits, 10)))

    def ledger(self) -> Ledger:
        """A ledger as one process has it."""
        return Ledger.on(SimulatedStore(self.store, self._turn), AnchorFile(ANCHOR, self.disk), clock=lambda: NOON)  # type: ignore[arg-type]

    def run(self) -> None:
        """Let the clients live, in an order that the seed decides."""
        self._calm = False
        for number in range(self.clients):
            self._turns[number] = threading.Lock()
            self._turns[number].acquire()
        threads = [threading.Thread(target=self._live, args=(n,), name=str(n), daemon=True) for n in self._turns]
        for thread in threads:
            thread.start()
        self._pass_on(None)
        for thread in threads:
            thread.join()
        self._calm = True
        if self._failure is not None:
            raise self._failure

    def _turn(self, call: str) -> str:
        """A storage call begins: give the turn away, and learn what is to go wrong with it."""
        self.calls += 1
        if self._calm:
            return ""
        self._pass_on(int(threading.current_thread().name))
        luck = self.rng.random()
        if luck >= self.trouble:
            return ""
        if luck < self.trouble / 4:
            self.crashes += 1
            raise Crash
        if call in ("append", "change") and luck < self.trouble / 2:
            self.crashes += 1
            return "torn crash"
        return "fail" if luck < self.trouble * 3 / 4 else "torn"

    def _pass_on(self, mine: int | None) -> None:
        """Choose who goes on, and wait for the next turn."""
        chosen = self.rng.choice(sorted(self._turns)) if self._turns else mine
        if chosen == mine or chosen is None:
            return
        self._turns[chosen].release()
        if mine in self._turns:
            self._turns[mine].acquire()

    def _live(self, number: int) -> None:
        self._turns[number].acquire()
        try:
            process: list[Ledger] = []
            for order in [self._order(number) for _ in range(self.queries)]:
                self._insist(order, process)
        except BaseException as problem:
            self._failure = self._failure or problem
        del self._turns[number]
        self._pass_on(None)

    def _order(self, number: int) -> Order:
        analyst = f"analyst {number % 2}"
        key = self.rng.choice(["", "k1", "k2"])
        release = self.rng.choice(["", "r1", "r2", "r3"])
        # One request per key, so that a key that comes again is a retry.
        request = f"{analyst} {key}"
        if key:
            release = f"r{key}"
        return asking("0.1", analyst=analyst, idempotency_key=key, request=request, repeat_key=release)

    def _insist(self, order: Order, process: list[Ledger]) -> None:
        """A client that starts again when its process died or its ledger stopped, and gives up after a while."""
        for _ in range(4):
            try:
                if not process:
                    process.append(self.ledger())
                held = process[0].reserve(order)
                if not isinstance(held, Outcome):
                    self._turn("run")
                    held = process[0].commit(held, f"noise {self.rng.random()}".encode())
                self._leave(order, held)
                return
            except BudgetError:
                return
            except RollbackError:
                raise
            except (Crash, LedgerError):
                process.clear()

    def _leave(self, order: Order, outcome: Outcome) -> None:
        """An answer leaves; by now the charge, the outcome and the anchor must know of it."""
        entry = self.store.entry(outcome.seq)
        assert entry is not None, "an answer left before its outcome was durable"
        charge = self.store.entry(outcome.reservation.seq)
        assert charge is not None, "an answer left before its charge was durable"
        assert charge.hash == outcome.reservation.hash
        calm, self._calm = self._calm, True
        mark = AnchorFile(ANCHOR, self.disk).read()
        self._calm = calm
        assert mark is not None
        assert mark.head.seq >= outcome.seq, "an answer left before the anchor knew of it"
        self.answers.append((order, outcome))

    def check(self) -> None:
        """Check the invariants of every history."""
        mark = AnchorFile(ANCHOR, self.disk).read()
        assert mark is not None
        assert all(outcome.seq <= mark.head.seq for _, outcome in self.answers), "the anchor went back"
        with self.ledger() as ledger:
            report = verify(self.store)
            assert report.ok, report.problems
            spent = Fraction(ledger.budget("patients").lines[0].spent)
            assert spent <= Fraction(self.fits, 10), "above the cap"
            charges = [*ledger.history()]
            assert spent == Fraction(len(charges), 10), "sums are exact"
            assert len({outcome.reservation.seq for _, outcome in self.answers}) <= len(charges)
            for _, outcome in self.answers:
                kept = ledger.outcome(outcome.reservation.seq)
                assert kept is not None
                assert kept.result == outcome.result, "two answers under one charge"
            self._one_answer_each(lambda order: (order.analyst, order.idempotency_key), "idempotency_key")
            self._one_answer_each(lambda order: order.repeat_key, "repeat_key")

    def _one_answer_each(self, name: Callable[[Order], object], word: str) -> None:
        seen: dict[object, bytes] = {}
        for order, outcome in self.answers:
            if getattr(order, word):
                assert seen.setdefault(name(order), outcome.result) == outcome.result, f"two answers for one {word}"
