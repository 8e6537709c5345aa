"""Journal: append and read entries; stops for good when storage fails."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from tacit.accounting.filters import Filter
from tacit.core.errors import AccessError
from tacit.core.events import Event
from tacit.core.guarantees import Guarantee
from tacit.ledger.account_terms import PricedCharge, filter_from_terms
from tacit.ledger.anchor import Anchor, AnchorMark, OtherHistoryError
from tacit.ledger.entries import step_of
from tacit.ledger.errors import BusyError, LedgerError, RollbackError
from tacit.ledger.hash_chain import digest, link
from tacit.ledger.key_succession import follow
from tacit.ledger.lost_charges import ANEW, loss_of, missing_entries, remembered
from tacit.ledger.opening import check_anchor, found, gone, look_over, read_entry
from tacit.ledger.operator_entries import Override, Overrides
from tacit.ledger.overlay import rehearsed_on
from tacit.ledger.protocol import (
    AlreadyTaken,
    Appended,
    Head,
    InsufficientBudget,
    Name,
    RecentHeads,
    StorageError,
    Store,
    StoreBusy,
    Stored,
)
from tacit.ledger.records import Outcome, Record, Reservation, Succession
from tacit.ledger.verify import amounts_of, verify

__all__ = ["Clock", "Journal", "translated"]

Clock = Callable[[], datetime]


class Journal:
    """A store and its anchor, checked and in use."""

    def __init__(self, store: Store, anchor: Anchor, opened: Mapping[str, Any], clock: Clock | None) -> None:
        self._store = store
        self._anchor = anchor
        self._opened = opened
        self._clock = clock or _now
        self._stopped = ""
        self._limits: dict[str, Filter] = {}
        self._prices: dict[tuple[str, Event | Guarantee], PricedCharge] = {}
        self._successions: tuple[Succession, ...] = ()
        self._overrides, self._looking = Overrides(), threading.Lock()

    @classmethod
    def on(
        cls,
        store: Store,
        anchor: Anchor,
        *,
        public_key: str = "",
        key_check: str = "",
        clock: Clock | None = None,
        override: Mapping[str, str] | None = None,
    ) -> Self:
        """The ledger in a store, if the store is whole and the anchor agrees; a new one where the store is empty.

        Args:
            store: the database; it is closed if the ledger cannot be opened.
            anchor: what remembers the newest entry.
            public_key: for the first entry of a new ledger, and
            key_check: likewise.
            clock: for the times that people read.
            override: an operator's words for taking the ledger although the anchor does not agree.
        """
        try:
            with translated():
                keys = {"public_key": public_key, **({"key_check": key_check} if key_check else {})}
                return cls._open(store, anchor, keys, clock, override)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _open(
        cls,
        store: Store,
        anchor: Anchor,
        keys: Mapping[str, str],
        clock: Clock | None,
        override: Mapping[str, str] | None,
    ) -> Self:
        before = None if override is None else remembered(anchor)
        if store.head().seq == 0:
            if override is None:
                gone(anchor, store.place)
            elif before is None:
                raise StorageError(f"there is no ledger at {store.place} and none is remembered: nothing to adopt")
            time = (clock or _now)().isoformat(timespec="seconds")
            found(store, anchor, {**keys, "time": time}, anew=override is not None)
        book = cls(store, anchor, look_over(store), clock)
        if override is None:
            check_anchor(store, anchor, book._ledger, store.place)
            anchor.use(book._ledger)
        else:
            book._adopt(before, override)
        book._remember(store.head())
        if store.migrated is not None:
            fields = {"from": store.migrated[0], "to": store.migrated[1]}
            book._write({"kind": "note", "note": "migration", "fields": fields})
        return book

    def _adopt(self, before: AnchorMark | str | None, override: Mapping[str, str]) -> None:
        """Take the ledger as it is; what its anchor proves to be missing is charged.

        All of it is written before the anchor forgets what it remembered, so that after a crash it still proves that.
        """
        store = self._store
        with store.snapshot() as snapshot:
            report = verify(snapshot)
            names = [name.key for name, _ in snapshot.names("account")]
            is_missing = missing_entries(snapshot, before)
            losses = [loss_of(snapshot, name, anew=False) for name in names if is_missing]
        if not report.ok:
            raise StorageError(f"the ledger {store.place} is damaged: {'; '.join(report.problems)}")
        adopted: dict[str, Any] = {
            "kind": "adopted",
            "remembered": _told(before),
            "found": list(report.head),
            **override,
        }
        time = self._clock().isoformat(timespec="seconds")
        if is_missing and not names and store.find(ANEW) is None:
            adopted["anew"] = True
        for body in [*({**loss, **override} for loss in losses if loss is not None), adopted]:
            if not isinstance(store.append(step_of({**body, "time": time})), Appended):
                raise StorageError(f"the ledger {store.place} is used by somebody else; close it there first")
        self._anchor.replace(self._ledger, store.head())
        self._anchor.use(self._ledger)

    def rehearsal(self) -> Self:
        """The same ledger to try things on: what is written to it is forgotten. For one thread, and a short while."""
        with self._working():
            store, anchor = rehearsed_on(self._store, self._ledger)
        return type(self).on(store, anchor, clock=self._clock)

    def overrides(self) -> tuple[Override, ...]:
        """What operators decided: adoptions, losses, other caps, other keys; in order."""
        with self._working(), self._looking:
            return self._overrides.of(self._store)

    @property
    def first_key(self) -> str:
        """The public key of the first receipts, as given when the ledger was made."""
        return str(self._opened["public_key"])

    @property
    def public_key(self) -> str:
        """The public key in force: of the receipts from here on."""
        found = self.successions()
        return found[-1].public_key if found else self.first_key

    @property
    def key_check(self) -> str:
        """Recognises the other secrets, as given when the ledger was made, unless they were lost since."""
        told = [str(self._opened.get("key_check", "")), *(each.key_check for each in self.successions())]
        return next(filter(None, reversed(told)), "")

    def successions(self) -> tuple[Succession, ...]:
        """Every replacement of the key that signs receipts, in order."""
        with self._working():
            # They never change, so only what came since the last look is read.
            self._successions = follow(self._store, self.first_key, self._successions)
            return self._successions

    @property
    def _ledger(self) -> str:
        return str(self._opened["ledger"])

    def _working(self) -> _Working:
        """Refuse once stopped; stop when storage fails."""
        return _Working(self)

    def _write(
        self, body: Mapping[str, Any], papers: Mapping[str, bytes] | None = None
    ) -> Appended | AlreadyTaken | InsufficientBudget:
        """Write an entry, and have the anchor remember it, before anyone hears of it."""
        time = self._clock().isoformat(timespec="seconds")
        result = self._store.append(step_of({**body, "time": time}, papers))
        if isinstance(result, Appended):
            self._remember(result.head, result.newest)
        return result

    def _remember(self, head: Head, newest: RecentHeads | None = None) -> None:
        """Have the anchor remember an entry, in one history with everything that it remembered before.

        What it knows of is in this ledger when others work on it too. It is not when a copy is in use at the same time,
        or when an old copy was put in place under a process that runs: each copy would spend what is left once more.
        """
        try:
            self._anchor.advance(head, newest or RecentHeads(head), self._holds)
        except OtherHistoryError as problem:
            raise StorageError(f"the ledger {self._store.place} {problem}") from problem

    def _holds(self, head: Head) -> bool:
        entry = self._store.entry(head.seq)
        return entry is not None and entry.hash == head.hash

    def _read(self, seq: int, *kinds: str) -> tuple[Stored, dict[str, Any]]:
        """An entry of a kind; one that is not what the index says is damage."""
        entry, body = read_entry(self._store, seq)
        if body["kind"] not in kinds:
            raise StorageError(f"entry {seq} is of kind {body['kind']}, not {' or '.join(kinds)}")
        return entry, body

    def _bodies(
        self, *, newest_first: bool = False, before: int | None = None
    ) -> Iterator[tuple[Stored, dict[str, Any]]]:
        """All entries, or those before a place from the newest on, each compared with the chain."""
        entries = self._store.entries_down(before=before) if newest_first else self._store.entries()
        while True:
            with self._working():
                entry = next(entries, None)
                if entry is None:
                    return
                if link(entry.previous, entry.body) != entry.hash:
                    raise StorageError(f"entry {entry.seq} does not fit the chain")
            yield entry, json.loads(entry.body)

    def _record(self, entry: Stored, body: Mapping[str, Any]) -> Record:
        """A charge, and whether it was answered."""
        with self._working():
            committed = self._store.find(Name("outcome", str(entry.seq)))
            papers = {} if committed is None else self._read(committed, "commit")[1]["papers"]
        return Record(
            entry.seq, entry.hash, body["time"], body["population"], body["analyst"], body["project"],
            amounts_of(body), body["sql"], body["plan"], committed, papers.get("result", ""),
        )  # fmt: skip

    def _terms(self, population: str) -> dict[str, Any]:
        """The terms of an account as they are now."""
        seq = self._store.find(Name("terms", population))
        if seq is None:
            raise AccessError(f"there is no account for {population!r}")
        _, body = self._read(seq, "account", "caps")
        if body["population"] != population:
            raise StorageError(f"entry {seq} does not state the terms of {population}")
        terms: dict[str, Any] = body["terms"]
        return terms

    def _limit(self, population: str) -> Filter:
        """What prices charges: the rule is fixed when an account is made, so it is read once."""
        known = self._limits.get(population)
        if known is None:
            known = self._limits[population] = filter_from_terms(self._terms(population))
        return known

    def _reservation(self, seq: int, *, resumed: bool) -> Reservation:
        entry, body = self._read(seq, "reserve")
        # Whoever made the entry may have died before the anchor knew of it.
        self._remember(entry.head)
        return Reservation(seq, entry.hash, entry.previous, body["population"], amounts_of(body), resumed)

    def _kept(self, seq: int) -> Outcome | None:
        """The stored outcome of a reservation, compared with its digests."""
        at = self._store.find(Name("outcome", str(seq)))
        if at is None:
            return None
        commit, body = self._read(at, "commit")
        if body["of"] != seq:
            raise StorageError(f"entry {at} is not the outcome of entry {seq}")
        papers = {name: self._store.paper(at, name) for name in ("result", "receipt")}
        result, receipt = papers["result"], papers["receipt"]
        if result is None or receipt is None or {n: digest(p or b"") for n, p in papers.items()} != body["papers"]:
            raise StorageError(f"what is kept with entry {at} does not fit its digest")
        self._remember(commit.head)
        reservation = self._reservation(seq, resumed=False)
        key = body.get("key") or (self.first_key if receipt else "")
        return Outcome(reservation, at, body["papers"]["result"], result, receipt, repeated=True, key=key)


class translated:  # noqa: N801  (used like a function)
    """What storage says, as errors of the tree."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(problem, StoreBusy):
            raise BusyError(str(problem)) from problem
        if isinstance(problem, StorageError):
            raise LedgerError(str(problem)) from problem


class _Working(translated):
    """A call at work on a book."""

    __slots__ = ("_book",)

    def __init__(self, book: Journal) -> None:
        self._book = book

    def __enter__(self) -> None:
        if self._book._stopped:
            raise LedgerError(f"the ledger is stopped: {self._book._stopped}")

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            return
        if isinstance(problem, (StorageError, LedgerError)) and not isinstance(problem, (BusyError, RollbackError)):
            self._book._stopped = str(problem)
        super().__exit__(kind, problem, trace)


def _told(mark: AnchorMark | str | None) -> dict[str, Any] | None:
    """What the anchor says, for the entry that overrides it; a damaged one says that."""
    if isinstance(mark, str):
        return {"problem": mark}
    return None if mark is None else {"ledger": mark.ledger, "seq": mark.head.seq, "hash": mark.head.hash}


def _now() -> datetime:
    return datetime.now(UTC)
