"""Overlay of a ledger: reads another one, keeps writes in memory.

Opening a project writes accounts and marks of sources one after the other, and may be refused at the last of them. So
everything is tried here first: an opening that is refused leaves nothing behind, and ``tacit doctor`` finds out whether
one would be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tacit.ledger.hash_chain import link
from tacit.ledger.memory import MEMORY, MemoryAnchor
from tacit.ledger.protocol import (
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

__all__ = ["OverlayStore", "rehearsed_on"]


class OverlayStore:
    """The store protocol over a reader; for one thread, and for the few entries of an opening."""

    def __init__(self, below: Reader) -> None:
        self._below = below
        self._base = below.head()
        self._added: list[Stored] = []
        self._names: dict[Name, int | None] = {}
        self._levels: dict[BalanceKey, BalanceState] = {}
        self._papers: dict[tuple[int, str], bytes] = {}

    @property
    def place(self) -> str:
        """Nowhere."""
        return MEMORY

    @property
    def migrated(self) -> None:
        """Never."""
        return

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """As :mod:`tacit.ledger.protocol` says, in memory."""
        for name in (*step.bars, *step.claims):
            seq = self.find(name)
            if seq is not None:
                return AlreadyTaken(name, seq)
        after: dict[BalanceKey, BalanceState] = {}
        short = []
        for pocket, cap in step.caps:
            known = self._level(pocket)
            after[pocket] = BalanceState(pocket, 0 if known is None else known.spent, cap)
        for pocket, amount, opens in step.moves:
            level = self._level(pocket)
            if level is None and not opens:
                raise StorageError(f"the pocket {'/'.join(pocket)} is gone")
            level = level or BalanceState(pocket, 0, None)
            after[pocket] = BalanceState(pocket, level.spent + amount, level.cap)
            if level.cap is not None and level.spent + amount > level.cap:
                short.append(level)
        if short:
            return InsufficientBudget(tuple(short))
        head = self.head()
        seq = head.seq + 1
        self._levels.update(after)
        self._names.update(dict.fromkeys((*step.claims, *step.puts), seq))
        self._names.update(dict.fromkeys(step.drops, None))
        self._papers.update({(seq, title): content for title, content in step.papers.items()})
        self._added.append(Stored(seq, step.body, head.hash, link(head.hash, step.body)))
        return Appended(self.head(), head.hash, RecentHeads(self.head()))

    def head(self) -> Head:
        """The last entry's place and hash."""
        return self._added[-1].head if self._added else self._base

    def find(self, name: Name) -> int | None:
        """The entry that a name stands for."""
        return self._names[name] if name in self._names else self._below.find(name)

    def entry(self, seq: int) -> Stored | None:
        """One entry."""
        if seq <= self._base.seq:
            return self._below.entry(seq)
        return self._added[seq - self._base.seq - 1] if seq <= self.head().seq else None

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        """Entries in order."""
        for entry in self._below.entries(after=after):
            if entry.seq > self._base.seq:
                break
            yield entry
        yield from (entry for entry in self._added if entry.seq > after)

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        """Entries from the newest to the oldest."""
        yield from (entry for entry in reversed(self._added) if before is None or entry.seq < before)
        last = self._base.seq + 1
        yield from self._below.entries_down(before=last if before is None else min(before, last))

    def levels(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        """Pockets, sorted."""
        found = {level.pocket: level for level in self._below.levels(account, owners)}
        found |= {
            pocket: level
            for pocket, level in self._levels.items()
            if account in (None, pocket.account) and (owners is None or pocket.owner in owners)
        }
        return tuple(level for _, level in sorted(found.items()))

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Names with their entries, sorted."""
        found: dict[Name, int | None] = dict(self._below.names(space))
        found |= {name: seq for name, seq in self._names.items() if space in (None, name.space)}
        return ((name, seq) for name, seq in sorted(found.items()) if seq is not None)

    def paper(self, seq: int, name: str) -> bytes | None:
        """Bytes kept beside an entry."""
        return self._papers.get((seq, name)) or self._below.paper(seq, name)

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Itself: it has no other writer."""
        yield self

    def close(self) -> None:
        """Nothing: the store below is not this object's to close."""

    def _level(self, pocket: BalanceKey) -> BalanceState | None:
        if pocket in self._levels:
            return self._levels[pocket]
        below = self._below.levels(pocket.account, [pocket.owner])
        return next((level for level in below if level.pocket == pocket), None)


def rehearsed_on(below: Reader, ledger: str) -> tuple[OverlayStore, MemoryAnchor]:
    """A store and an anchor for :meth:`tacit.ledger.Ledger.on`, over a ledger with entries."""
    store, anchor = OverlayStore(below), MemoryAnchor()
    anchor.replace(ledger, store.head())
    return store, anchor
