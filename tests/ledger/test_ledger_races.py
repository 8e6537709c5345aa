"""Many callers at once: none gets more than there is, and all views fit one order of events."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
import traceback
from collections.abc import Callable
from fractions import Fraction

import pytest

from support.ledgers import Place, asking, clinic, spent
from tacit.accounting.filters import PureFilter
from tacit.core.errors import BudgetError
from tacit.core.guarantees import PureDP
from tacit.ledger import Ledger, Order, Outcome
from tacit.ledger.entries import step_of
from tacit.ledger.memory import MemoryAnchor, MemoryStore
from tacit.ledger.protocol import GENESIS, GRAINS, AlreadyTaken, Appended, Head, InsufficientBudget, RecentHeads, Step

PROCESSES, THREADS, EACH, ANALYSTS, FITS = 5, 10, 10, 20, 10


def in_processes(count: int, work: Callable[[int], list[object]]) -> list[list[object]]:
    """Results of several processes, which all begin at the same moment."""
    ready, go = os.pipe(), os.pipe()
    pipes = []
    for number in range(count):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(go[1])
                os.write(ready[1], b".")
                os.read(go[0], 1)
                with os.fdopen(write, "w") as stream:
                    json.dump(work(number), stream)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(write)
        pipes.append((pid, read))
    for _ in range(count):
        os.read(ready[0], 1)
    os.close(go[1])
    found = []
    for pid, read in pipes:
        with os.fdopen(read) as stream:
            found.append(stream.read())
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for end in (*ready, go[0]):
        os.close(end)
    return [json.loads(text) for text in found]


def crowd(place: Place) -> Callable[[int], list[object]]:
    """Threads of one process that ask at once, each request with its times by the machine's one clock."""

    def work(process: int) -> list[object]:
        seen: list[object] = []
        with place.open() as ledger:

            def ask(thread: int) -> None:
                for number in range(EACH):
                    analyst = f"analyst {(process * THREADS + thread + number) % ANALYSTS}"
                    began = time.monotonic_ns()
                    try:
                        held = ledger.reserve(asking("0.1", analyst=analyst, sql=f"{process}/{thread}/{number}"))
                        assert not isinstance(held, Outcome)
                        ledger.commit(held, b"noise")
                        seen.append((began, time.monotonic_ns(), held.seq))
                    except BudgetError:
                        seen.append((began, time.monotonic_ns(), 0))

            threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return seen

    return work


def test_five_hundred_requests_on_a_budget_for_ten(place: Place) -> None:
    clinic(place, epsilon=Fraction(FITS, 10)).close()
    seen = [tuple(item) for found in in_processes(PROCESSES, crowd(place)) for item in found]  # type: ignore[arg-type]
    assert len(seen) == PROCESSES * THREADS * EACH == 500
    admitted = sorted((item for item in seen if item[2]), key=lambda item: item[2])
    refused = [item for item in seen if not item[2]]
    assert len(admitted) == FITS
    assert len({seq for *_, seq in admitted}) == FITS
    with place.open() as ledger:
        report = ledger.verify()
        assert report.ok
        assert (report.charges, report.outcomes, spent(ledger)) == (FITS, FITS, 1)
        assert [record.seq for record in ledger.history()] == [seq for *_, seq in admitted]
    # Linearizable: the ledger's order never puts a request before one that had ended when it began ...
    for earlier, later in itertools.pairwise(admitted):
        assert later[1] > earlier[0]
    # ... and no caller was refused before the budget could have been used up.
    assert all(ended > admitted[-1][0] for _, ended, _ in refused)


def test_equal_queries_at_once_are_paid_once(place: Place) -> None:
    clinic(place).close()

    def work(process: int) -> list[object]:
        found: list[object] = []
        with place.open() as ledger:

            def ask(thread: int) -> None:
                order = asking("0.1", analyst=f"{thread % 3}", repeat_key="same", idempotency_key="k", request="r")
                held = ledger.reserve(order)
                if not isinstance(held, Outcome):
                    held = ledger.commit(held, f"noise {process} {thread}".encode())
                found.append(held.result.decode())

            threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return found

    answers = [answer for found in in_processes(4, work) for answer in found]
    assert len(answers) == 40
    assert len(set(answers)) == 1
    with place.open() as ledger:
        assert spent(ledger) == Fraction(1, 10)
        assert ledger.verify().ok


def test_no_caller_waits_for_ever(place: Place) -> None:
    """Eight processes, forty charges each: everyone gets all of theirs."""
    clinic(place, epsilon=1000).close()

    def work(process: int) -> list[object]:
        with place.open() as ledger:
            return [ledger.reserve(asking("0.1", analyst=f"{process}")).seq for _ in range(40)]  # type: ignore[union-attr]

    found = in_processes(8, work)
    seqs = [seq for one in found for seq in one]
    assert len(set(map(str, seqs))) == 320
    with place.open() as ledger:
        assert spent(ledger) == 32


@pytest.mark.parametrize("places", ["sqlite", pytest.param("postgres", marks=pytest.mark.deep)], indirect=True)
def test_opening_and_examining_while_others_write(place: Place) -> None:
    """The values compared at an opening belong to one moment, whatever happens meanwhile."""
    clinic(place, epsilon=10**6).close()

    def work(process: int) -> list[object]:
        for _ in range(40):
            if process < 2:
                with place.open() as ledger:
                    ledger.reserve(asking("0.1"))
                    ledger.reserve(asking("0.1"))
            elif process == 2:
                with place.open() as ledger:
                    assert ledger.verify().ok
            else:
                report = Ledger.examine(place.where, anchor=place.anchor)
                assert report.ok, report.problems
        return []

    in_processes(4, work)


class Tallying(MemoryStore):
    """The plain store without the book: sums and caps by the same code, a million entries in seconds."""

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        after, short = self._after(step)
        if short:
            return InsufficientBudget(tuple(short))
        self._balances.update(after)
        return Appended(Head(1, GENESIS.hash), GENESIS.hash, RecentHeads(GENESIS))


@pytest.mark.deep
def test_a_million_of_the_smallest_charges_reach_the_cap_exactly() -> None:
    """Each asks for next to nothing, and is charged the smallest unit."""
    million = 10**6
    book = MemoryStore()
    ledger = Ledger.on(book, MemoryAnchor())
    ledger.ensure_account("patients", PureFilter(epsilon=Fraction(million, GRAINS)))
    ledger.reserve(Order("patients", PureDP("1e-300")))
    last = book.entry(3)
    assert last is not None
    step = step_of(json.loads(last.body))
    tally = Tallying()
    tally._balances = dict(book._balances)
    for _ in range(million - 1):
        assert type(tally.append(step)) is Appended
    (level,) = tally.balances()
    assert level.spent == level.cap == million
    assert isinstance(tally.append(step), InsufficientBudget)
    assert tally.balances() == (level,)


def test_thousands_of_the_smallest_charges_reach_the_cap_exactly_on_disk(place: Place) -> None:
    count = 2000
    with place.open() as ledger:
        ledger.ensure_account("patients", PureFilter(epsilon=Fraction(count, GRAINS)))
        order = Order("patients", PureDP(Fraction(1, GRAINS)))

        def ask() -> None:
            for _ in range(count // 8):
                ledger.reserve(order)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert spent(ledger) == Fraction(count, GRAINS)
        with pytest.raises(BudgetError):
            ledger.reserve(order)
        assert ledger.verify().ok
