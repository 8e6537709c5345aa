"""Ledgers in memory: a ledger of one process, or one over another ledger whose writes are discarded.

Opening a project writes accounts and marks of sources one after the other, and may be refused at the last of them. So
everything is tried on such a second ledger first: an opening that is refused leaves nothing behind, and ``tacit
doctor`` finds out whether one would be.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tacit.ledger.anchor import AnchorMark
from tacit.ledger.errors import StorageError
from tacit.ledger.protocol import (
    GENESIS,
    HEADS_BEFORE,
    AlreadyTaken,
    Appended,
    BalanceKey,
    BalanceState,
    Head,
    Holds,
    InsufficientBudget,
    Name,
    Reader,
    RecentHeads,
    Step,
    Stored,
    balances_after,
    link,
    onwards,
)

#: The place of a ledger in memory.
MEMORY = ":memory:"


class MemoryStore:
    """The store protocol in dictionaries, for several threads of one process.

    Args:
        below: a ledger that is read first and never written; its entries come before those of this one, which is then
            for one thread and for the few entries of an opening.
    """

    def __init__(self, below: Reader | None = None) -> None:
        self._below = below
        self._base = GENESIS if below is None else below.head()
        self._entries: list[Stored] = []
        #: None for a name that was dropped.
        self._names: dict[Name, int | None] = {}
        self._balances: dict[BalanceKey, BalanceState] = {}
        self._attachments: dict[tuple[int, str], bytes] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def place(self) -> str:
        return MEMORY

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        # A child process has a copy of the ledger, so budget that it spends would remain in its parent's copy.
        if os.getpid() != self._pid:
            raise StorageError("the ledger in memory was opened before a fork; open one in a file, which both can use")
        with self._lock:
            for name in (*step.bars, *step.claims):
                taken = self.find(name)
                if taken is not None:
                    return AlreadyTaken(name, taken)
            after, short = self._after(step)
            if short:
                return InsufficientBudget(short)
            head = self.head()
            seq = head.seq + 1
            self._balances.update(after)
            self._names.update(dict.fromkeys((*step.claims, *step.puts), seq))
            self._names.update(dict.fromkeys(step.drops))
            self._attachments.update({(seq, title): content for title, content in step.attachments.items()})
            self._entries.append(Stored(seq, step.body, head.hash, link(head.hash, step.body)))
            last = self._entries[: -HEADS_BEFORE - 2 : -1]
            newest = RecentHeads.of(last[0].head, [entry.hash for entry in last[1:]])
            return Appended(newest.head, head.hash, newest)

    def _after(self, step: Step) -> tuple[dict[BalanceKey, BalanceState], tuple[BalanceState, ...]]:
        named = {cap.key for cap in step.caps} | {move.key for move in step.moves}
        return balances_after(step, {key: held for key in named if (held := self._balance(key)) is not None})

    def _balance(self, key: BalanceKey) -> BalanceState | None:
        if key in self._balances or self._below is None:
            return self._balances.get(key)
        return next((state for state in self._below.balances(key.account, [key.owner]) if state.key == key), None)

    def head(self) -> Head:
        return self._entries[-1].head if self._entries else self._base

    def find(self, name: Name) -> int | None:
        return self._names.get(name) if self._below is None or name in self._names else self._below.find(name)

    def entry(self, seq: int) -> Stored | None:
        if self._below is not None and seq <= self._base.seq:
            return self._below.entry(seq)
        at = seq - self._base.seq
        return self._entries[at - 1] if 0 < at <= len(self._entries) else None

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        if self._below is not None:
            for entry in self._below.entries(after=after):
                if entry.seq > self._base.seq:
                    break
                yield entry
        at = max(after - self._base.seq, 0)
        while at < len(self._entries):
            yield self._entries[at]
            at += 1

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        end = self.head().seq + 1 if before is None else min(before, self.head().seq + 1)
        for at in range(end - self._base.seq - 1, 0, -1):
            yield self._entries[at - 1]
        if self._below is not None:
            yield from self._below.entries_down(before=min(end, self._base.seq + 1))

    def balances(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        found = {} if self._below is None else {state.key: state for state in self._below.balances(account, owners)}
        with self._lock:
            found |= {
                key: state
                for key, state in self._balances.items()
                if account in (None, key.account) and (owners is None or key.owner in owners)
            }
        return tuple(state for _, state in sorted(found.items()))

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        found: dict[Name, int | None] = {} if self._below is None else dict(self._below.names(space))
        with self._lock:
            found |= {name: seq for name, seq in self._names.items() if space in (None, name.space)}
        return ((name, seq) for name, seq in sorted(found.items()) if seq is not None)

    def attachment(self, seq: int, name: str) -> bytes | None:
        if self._below is not None and seq <= self._base.seq:
            return self._below.attachment(seq, name)
        return self._attachments.get((seq, name))

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Yield a copy."""
        copy = MemoryStore()
        with self._lock:
            copy._below, copy._base, copy._entries = self._below, self._base, list(self._entries)
            copy._names, copy._balances = dict(self._names), dict(self._balances)
            copy._attachments = dict(self._attachments)
        yield copy

    def close(self) -> None:
        """Do nothing: memory needs no closing."""


class MemoryAnchor:
    """An anchor that lasts as long as the process."""

    def __init__(self) -> None:
        self._mark: AnchorMark | None = None
        self._lock = threading.Lock()

    def read(self) -> AnchorMark | None:
        return self._mark

    def of(self, ledger: str) -> AnchorMark | None:
        """Return the mark if it is of this ledger, else None."""
        return self._mark if self._mark is not None and self._mark.ledger == ledger else None

    def begin(self, ledger: str) -> str:
        """Remember a ledger unless one is remembered; return the id of the one remembered."""
        with self._lock:
            self._mark = self._mark or AnchorMark(ledger, RecentHeads(GENESIS))
            return self._mark.ledger

    def use(self, ledger: str) -> None:
        """Do nothing: there is one mark for all ledgers."""

    def replace(self, ledger: str, head: Head) -> None:
        """Set the mark to this head."""
        with self._lock:
            self._mark = AnchorMark(ledger, RecentHeads(head))

    def advance(self, own: Head, newest: RecentHeads, holds: Holds) -> None:
        """Remember the newer of the two entries."""
        with self._lock:
            if self._mark is None:
                raise StorageError("no anchor was chosen")
            self._mark = AnchorMark(self._mark.ledger, onwards(self._mark.recent, own, newest, holds))


def rehearsed_on(below: Reader, ledger: str) -> tuple[MemoryStore, MemoryAnchor]:
    """Return a store and an anchor for :meth:`tacit.ledger.Ledger.on` over a ledger; writes to them are discarded."""
    store, anchor = MemoryStore(below), MemoryAnchor()
    anchor.replace(ledger, store.head())
    return store, anchor
