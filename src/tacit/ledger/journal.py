"""Journal: append and read entries of the chain; stops for good when storage fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from tacit.core.errors import AccessError
from tacit.ledger.anchor import Anchor
from tacit.ledger.entries import step_of
from tacit.ledger.errors import BusyError, LedgerError, RollbackError, StorageError, StoreBusy
from tacit.ledger.protocol import (
    AlreadyTaken,
    Appended,
    Head,
    InsufficientBudget,
    Name,
    OtherHistoryError,
    Reader,
    RecentHeads,
    Store,
    Stored,
    link,
)

Clock = Callable[[], datetime]


def now() -> datetime:
    """Return the present time in UTC: the default clock of a ledger."""
    return datetime.now(UTC)


def read_entry(reader: Reader, seq: int) -> tuple[Stored, dict[str, Any]]:
    """Return an entry and its contents, checked against the chain."""
    entry = reader.entry(seq)
    if entry is None:
        raise StorageError(f"entry {seq} is gone")
    return entry, _contents(entry)


def read_body(reader: Reader, seq: int) -> dict[str, Any]:
    return read_entry(reader, seq)[1]


def _contents(entry: Stored) -> dict[str, Any]:
    if link(entry.previous, entry.body) != entry.hash:
        raise StorageError(f"entry {entry.seq} does not fit the chain")
    body: dict[str, Any] = json.loads(entry.body)
    return body


def entries_of(
    reader: Reader, kinds: Collection[str], *, after: int = 0
) -> Iterator[tuple[Stored, dict[str, Any] | None]]:
    """Iterate over all entries in order, with the contents of those of the given kinds, and ``None`` for the rest.

    Nearly all entries are charges. So an entry is parsed only if its text holds the name of a kind, which every entry
    of the kind does; an entry of another kind whose query happens to hold that text is left out after parsing.
    """
    signs = [f'"kind":"{kind}"' for kind in kinds]
    for entry in reader.entries(after=after):
        body = _contents(entry) if any(sign in entry.body for sign in signs) else None
        yield entry, body if body is not None and body["kind"] in kinds else None


class Journal:
    """A store and its anchor, checked and in use; :func:`tacit.ledger.opening.open_journal` makes it."""

    def __init__(self, store: Store, anchor: Anchor, opened: Mapping[str, Any], clock: Clock | None) -> None:
        self.store = store
        self.anchor = anchor
        self.opened = opened
        self.clock = clock or now
        #: The reason why nothing is authorised any more; empty while the journal works.
        self.stopped = ""

    @property
    def id(self) -> str:
        return str(self.opened["ledger"])

    def working(self) -> _Working:
        """Return a context that refuses calls to a stopped journal, and stops the journal when storage fails."""
        return _Working(self)

    def stop(self, reason: str) -> None:
        """Authorise nothing from here on; if the journal was stopped before, the earlier reason stays."""
        self.stopped = self.stopped or reason

    def write(
        self, body: Mapping[str, Any], attachments: Mapping[str, bytes] | None = None
    ) -> Appended | AlreadyTaken | InsufficientBudget:
        """Append an entry, and have the anchor remember it before returning."""
        time = self.clock().isoformat(timespec="seconds")
        result = self.store.append(step_of({**body, "time": time}, attachments))
        if isinstance(result, Appended):
            self.remember(result.head, result.newest)
        return result

    def remember(self, head: Head, newest: RecentHeads | None = None) -> None:
        """Have the anchor remember an entry, in one history with every entry that it remembered before.

        When several processes share a ledger, an entry that the anchor remembers is in this ledger, too. It is not when
        a copy of the ledger is in use at the same time, or when an old copy was put in place under a running process:
        each copy would spend the remaining budget once more.
        """
        try:
            self.anchor.advance(head, newest or RecentHeads(head), self._holds)
        except OtherHistoryError as problem:
            raise StorageError(f"the ledger {self.store.place} {problem}") from problem

    def _holds(self, head: Head) -> bool:
        entry = self.store.entry(head.seq)
        return entry is not None and entry.hash == head.hash

    def find(self, name: Name) -> int | None:
        """Return the number of the entry that a name stands for; None if the name is free."""
        return self.store.find(name)

    def read(self, seq: int, *kinds: str) -> tuple[Stored, dict[str, Any]]:
        """Return an entry of one of these kinds; one of another kind contradicts the index and is damage."""
        entry, body = read_entry(self.store, seq)
        if kinds and body["kind"] not in kinds:
            raise StorageError(f"entry {seq} is of kind {body['kind']}, not {' or '.join(kinds)}")
        return entry, body

    def bodies(
        self, *, newest_first: bool = False, before: int | None = None
    ) -> Iterator[tuple[Stored, dict[str, Any]]]:
        """Iterate over all entries, or from the newest to the oldest before ``before``, checked against the chain."""
        entries = self.store.entries_down(before=before) if newest_first else self.store.entries()
        while True:
            with self.working():
                entry = next(entries, None)
                if entry is None:
                    return
                body = _contents(entry)
            yield entry, body

    def terms(self, population: str) -> dict[str, Any]:
        """Return the present terms of an account."""
        seq = self.find(Name("terms", population))
        if seq is None:
            raise AccessError(f"there is no account for {population!r}")
        _, body = self.read(seq, "account", "caps")
        if body["population"] != population:
            raise StorageError(f"entry {seq} does not state the terms of {population}")
        terms: dict[str, Any] = body["terms"]
        return terms


class _Working:
    """Context of one call on a journal. A class and not a generator, for speed: every charge passes through it."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __enter__(self) -> None:
        if self._journal.stopped:
            raise LedgerError(f"the ledger is stopped: {self._journal.stopped}")

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None:
            return
        if isinstance(problem, (StorageError, LedgerError)) and not isinstance(problem, (BusyError, RollbackError)):
            self._journal.stopped = str(problem)
        if isinstance(problem, StoreBusy):
            raise BusyError(str(problem)) from problem
        if isinstance(problem, StorageError):
            raise LedgerError(str(problem)) from problem
