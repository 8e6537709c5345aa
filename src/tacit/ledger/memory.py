"""In-memory ledger for one process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tacit.ledger.anchor import AnchorMark, Holds, onwards
from tacit.ledger.hash_chain import link
from tacit.ledger.protocol import (
    GENESIS,
    TRAIL,
    AlreadyTaken,
    Appended,
    BalanceKey,
    BalanceState,
    Head,
    InsufficientBudget,
    Name,
    Reader,
    RecentHeads,
    Step,
    StorageError,
    Stored,
)

__all__ = ["MEMORY", "MemoryAnchor", "MemoryStore"]

#: The place of a ledger in memory.
MEMORY = ":memory:"


class MemoryStore:
    """The store protocol in dictionaries; any number of threads, one process."""

    def __init__(self) -> None:
        self._entries: list[Stored] = []
        self._names: dict[Name, int] = {}
        self._levels: dict[BalanceKey, BalanceState] = {}
        self._papers: dict[tuple[int, str], bytes] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    @property
    def place(self) -> str:
        """Not a file."""
        return MEMORY

    @property
    def migrated(self) -> None:
        """Never."""
        return

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        # A child has a copy of everything: what it spent, its parent would have left.
        if os.getpid() != self._pid:
            raise StorageError("the ledger in memory was opened before a fork; open one in a file, which both can use")
        with self._lock:
            for name in (*step.bars, *step.claims):
                if name in self._names:
                    return AlreadyTaken(name, self._names[name])
            after, short = self._after(step)
            if short:
                return InsufficientBudget(tuple(short))
            head = self.head()
            seq = head.seq + 1
            self._levels.update(after)
            self._names.update(dict.fromkeys((*step.claims, *step.puts), seq))
            for name in step.drops:
                self._names.pop(name, None)
            self._papers.update({(seq, title): content for title, content in step.papers.items()})
            self._entries.append(Stored(seq, step.body, head.hash, link(head.hash, step.body)))
            return Appended(self.head(), head.hash, self._trail())

    def _trail(self) -> RecentHeads:
        last = self._entries[: -TRAIL - 2 : -1]
        return RecentHeads.of(last[0].head, [entry.hash for entry in last[1:]])

    def _after(self, step: Step) -> tuple[dict[BalanceKey, BalanceState], list[BalanceState]]:
        after, short = {}, []
        for pocket, cap in step.caps:
            known = self._levels.get(pocket)
            after[pocket] = BalanceState(pocket, 0 if known is None else known.spent, cap)
        for pocket, amount, opens in step.moves:
            level = self._levels.get(pocket)
            if level is None and not opens:
                raise StorageError(f"the pocket {'/'.join(pocket)} is gone")
            level = level or BalanceState(pocket, 0, None)
            after[pocket] = BalanceState(pocket, level.spent + amount, level.cap)
            if level.cap is not None and level.spent + amount > level.cap:
                short.append(level)
        return after, short

    def head(self) -> Head:
        """The last entry's place and hash."""
        return self._entries[-1].head if self._entries else GENESIS

    def find(self, name: Name) -> int | None:
        """The entry that a name stands for."""
        return self._names.get(name)

    def entry(self, seq: int) -> Stored | None:
        """One entry."""
        return self._entries[seq - 1] if 0 < seq <= len(self._entries) else None

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        """Entries in order."""
        while after < len(self._entries):
            yield self._entries[after]
            after += 1

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        """Entries from the newest to the oldest."""
        last = len(self._entries) if before is None else min(before - 1, len(self._entries))
        for place in range(last, 0, -1):
            yield self._entries[place - 1]

    def levels(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        """Pockets at one moment."""
        with self._lock:
            return tuple(
                level
                for pocket, level in sorted(self._levels.items())
                if account in (None, pocket.account) and (owners is None or pocket.owner in owners)
            )

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Names with their entries."""
        with self._lock:
            found = sorted(self._names.items())
        return ((name, seq) for name, seq in found if space in (None, name.space))

    def paper(self, seq: int, name: str) -> bytes | None:
        """Bytes kept beside an entry."""
        return self._papers.get((seq, name))

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A copy."""
        copy = MemoryStore()
        with self._lock:
            copy._entries, copy._names = list(self._entries), dict(self._names)
            copy._levels, copy._papers = dict(self._levels), dict(self._papers)
        yield copy

    def close(self) -> None:
        """Nothing to give back."""


class MemoryAnchor:
    """An anchor that lasts as long as the process."""

    def __init__(self) -> None:
        self._mark: AnchorMark | None = None
        self._lock = threading.Lock()

    def read(self) -> AnchorMark | None:
        """The mark."""
        return self._mark

    def of(self, ledger: str) -> AnchorMark | None:
        """The mark, if it is this ledger's."""
        return self._mark if self._mark is not None and self._mark.ledger == ledger else None

    def begin(self, ledger: str) -> str:
        """Remember a ledger unless one is remembered."""
        with self._lock:
            self._mark = self._mark or AnchorMark(ledger, RecentHeads(GENESIS))
            return self._mark.ledger

    def use(self, ledger: str) -> None:
        """There is only one."""

    def replace(self, ledger: str, head: Head) -> None:
        """Remember this."""
        with self._lock:
            self._mark = AnchorMark(ledger, RecentHeads(head))

    def advance(self, own: Head, newest: RecentHeads, holds: Holds) -> None:
        """Remember what is newer."""
        with self._lock:
            if self._mark is None:
                raise StorageError("no anchor was chosen")
            self._mark = AnchorMark(self._mark.ledger, onwards(self._mark.trail, own, newest, holds))
