"""Thousands of short histories with crashes and failing disks, each repeatable by its seed; and broken ledgers that
the same histories must catch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from support.ledgers import Place
from support.simulation import ANCHOR, World
from tacit.ledger import Ledger, LedgerError, RollbackError
from tacit.ledger.anchor import AnchorFile
from tacit.ledger.memory import MemoryStore
from tacit.ledger.protocol import AlreadyTaken, Appended, BalanceState, Head, InsufficientBudget, RecentHeads, Step

#: Number of simulations; a nightly run sets more.
HISTORIES = int(os.environ.get("TACIT_HISTORIES", "1500"))
CHUNKS = 10


def live(seed: int, **options: Any) -> World:
    world = World(seed, queries=2, **options)
    world.run()
    world.check()
    return world


def live_many(count: int, store: type[MemoryStore] = MemoryStore) -> None:
    for seed in range(count):
        live(seed, store=store())


@pytest.mark.parametrize("chunk", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.deep) for n in range(3, CHUNKS))])
def test_nothing_is_lost_and_nothing_is_free(chunk: int) -> None:
    worlds = [live(seed) for seed in range(chunk * HISTORIES // CHUNKS, (chunk + 1) * HISTORIES // CHUNKS)]
    # The histories must be worth their name: answers, crashes, and budgets that ran out.
    assert sum(len(world.answers) for world in worlds) > 2 * len(worlds)
    assert sum(world.crashes for world in worlds) > len(worlds) // 2
    assert sum(len([*world.store.entries()]) >= 2 + world.fits for world in worlds) > len(worlds) // 4


def test_the_same_on_a_real_database(places: Callable[[], Place]) -> None:
    for seed in range(15):
        place = places()
        store = place.store()
        try:
            live(100_000 + seed, store=store)
        finally:
            store.close()


def test_a_seed_is_a_history() -> None:
    first, second = live(7), live(7)
    assert first.calls == second.calls
    assert [outcome.result for _, outcome in first.answers] == [outcome.result for _, outcome in second.answers]
    assert [entry.body for entry in first.store.entries(after=1)] == [
        entry.body for entry in second.store.entries(after=1)
    ]


def test_an_old_copy_is_always_found_out() -> None:
    """The state after every entry of a history, brought back after its end."""
    for seed in range(100):
        world = World(seed, queries=2)
        kept: list[MemoryStore] = []
        original = world.store.append

        def append(step: Step, original: Any = original, kept: Any = kept, world: Any = world) -> Any:
            copied = MemoryStore()
            copied._entries, copied._names = list(world.store._entries), dict(world.store._names)
            copied._balances = dict(world.store._balances)
            copied._attachments = dict(world.store._attachments)
            kept.append(copied)
            return original(step)

        world.store.append = append  # type: ignore[method-assign]
        world.run()
        world.check()
        with world.ledger():
            """Opening brings the anchor up to date, as any later use does."""
        for old in kept:
            if old.head() != world.store.head():
                with pytest.raises(RollbackError):
                    Ledger.on(old, AnchorFile(ANCHOR, world.disk))


class Capless(MemoryStore):
    """Forgets to compare with the cap."""

    def _after(self, step: Step) -> Any:
        return super()._after(step)[0], ()


class Forgetful(MemoryStore):
    """Takes names without looking whether they are free."""

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        for name in step.claims:
            self._names.pop(name, None)
        return super().append(step)


class Refunding(MemoryStore):
    """Gives the charge back when the answer is committed."""

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        if step.attachments:
            for pocket, level in self._balances.items():
                self._balances[pocket] = BalanceState(pocket, max(level.spent - 1, 0), level.cap)
        return super().append(step)


class Lazy(MemoryStore):
    """Says that an outcome is kept before it is: every fifth one is lost."""

    lost = 0

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        if step.attachments:
            self.lost += 1
            if self.lost % 5 == 0:
                head = Head(self.head().seq + 1, "0" * 64)
                return Appended(head, self.head().hash, RecentHeads(head, (self.head().hash[:32],)))
        return super().append(step)


@pytest.mark.parametrize("broken", [Capless, Forgetful, Refunding, Lazy], ids=lambda kind: kind.__name__)
def test_broken_stores_are_caught(broken: type[MemoryStore]) -> None:
    with pytest.raises((AssertionError, LedgerError)):
        live_many(60, store=broken)


def test_an_anchor_that_lags_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnchorFile, "advance", lambda *_: None)
    with pytest.raises(AssertionError, match="before the anchor knew"):
        live(0)


def test_an_answer_that_is_not_the_stored_one_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that lets every run answer with its own noise."""
    commit = Ledger.commit

    def own(self: Ledger, reservation: Any, result: bytes, *, receipt: bytes = b"") -> Any:
        return replace(commit(self, reservation, result, receipt=receipt), result=result)

    monkeypatch.setattr(Ledger, "commit", own)
    with pytest.raises(AssertionError, match="two answers"):
        live_many(200)
