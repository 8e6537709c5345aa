"""Opening of a ledger: database, anchor, trust; adoption of a ledger whose anchor disagrees.

*Lost charges.* When an adopted ledger is known to miss entries, the amounts of those are unknown. They were
admitted by the account, so together they charged at most its remaining budget in the adopted ledger. So all of that is
charged. The sum of all charges ever made, lost entries included, then stays within the caps, which is
the promise of the account. An operator who wants to go on gives the account larger caps (``tacit ledger caps``): the
change of the promise is recorded for good. In place of a deleted ledger, a new one is created without accounts. Each
account that is made in it begins with its whole budget spent, for the same reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from tacit.ledger.anchor import Anchor, AnchorMark, find_anchor
from tacit.ledger.entries import amounts_text, step_of
from tacit.ledger.errors import RollbackError, StorageError
from tacit.ledger.journal import Clock, Journal, now, read_body
from tacit.ledger.memory import MEMORY, MemoryAnchor, MemoryStore
from tacit.ledger.protocol import Appended, Name, Reader, RecentHeads, Store
from tacit.ledger.verify import quick_check, verify
from tacit.noise import entropy

#: Version of the entries' format, stated by the first entry.
_FORMAT: Final = 1
_ID_BITS: Final = 128
#: Stands for the entry by which a ledger was created in place of one that was lost.
ANEW: Final = Name("anew", "")


def is_postgres(place: str | os.PathLike[str]) -> bool:
    """Return whether a place is a PostgreSQL database rather than a file."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def choose_anchor(anchor: str | os.PathLike[str] | None, place: str) -> Anchor:
    """Return the given anchor, or the default anchor of a place."""
    return MemoryAnchor() if place == MEMORY else find_anchor(anchor, place)


def open_store(place: str | os.PathLike[str], *, create: bool) -> Store:
    """Open the database at a place."""
    if place == MEMORY:
        return MemoryStore()
    if is_postgres(place):
        from tacit.ledger.postgres import PostgresStore

        return PostgresStore.open(str(place), create=create)
    from tacit.ledger.sqlite import SqliteStore

    return SqliteStore.open(place, create=create)


@contextmanager
def open_reader(place: str | os.PathLike[str], *, still: bool) -> Iterator[tuple[Reader, str]]:
    """Open the database at a place read-only; yield a reader and the normalised name of the place.

    With ``still`` all reads see the state at one moment; otherwise each call reads the newest state.
    """
    if is_postgres(place):
        store = open_store(place, create=False)
        try:
            with store.snapshot() if still else nullcontext(store) as reader:
                yield reader, store.place
        finally:
            store.close()
        return
    from tacit.ledger.sqlite import SealedReader, read_only

    with read_only(place, still=still) as rows:
        yield SealedReader(rows, still=still), str(Path(place).resolve())


def open_journal(
    store: Store,
    anchor: Anchor,
    keys: Mapping[str, str],
    clock: Clock | None = None,
    override: Mapping[str, str] | None = None,
) -> Journal:
    """Open the journal in a store, as :meth:`~tacit.ledger.ledger.Ledger.on` does; ``keys`` are for a first entry."""
    before = None if override is None else _remembered(anchor.read)
    if store.head().seq == 0:
        if override is None:
            _check_not_emptied(anchor, store.place, lambda: store.head().seq == 0)
        elif before is None:
            raise StorageError(f"there is no ledger at {store.place} and none is remembered: nothing to adopt")
        time = (clock or now)().isoformat(timespec="seconds")
        _found(store, anchor, {**keys, "time": time}, anew=override is not None)
    journal = Journal(store, anchor, _look_over(store), clock)
    if override is None:
        check_anchor(store, anchor, journal.id, store.place)
        anchor.use(journal.id)
    else:
        if not missing_entries(store, before):
            # A copy at another place than its original: the anchor has a mark of this ledger all the same.
            before = _remembered(lambda: anchor.of(journal.id)) or before
        _adopt(journal, before, override)
    journal.remember(store.head())
    return journal


def _adopt(journal: Journal, before: AnchorMark | str | None, override: Mapping[str, str]) -> None:
    """Accept the ledger in its present state, and charge for entries that its anchor proves to be missing.

    All of it is written before the anchor's mark is replaced, so that the proof survives a crash.
    """
    store = journal.store
    with store.snapshot() as snapshot:
        report = verify(snapshot)
        names = [name.key for name, _ in snapshot.names("account")]
        is_missing = missing_entries(snapshot, before)
        losses = [loss_of(snapshot, name, anew=False) for name in names if is_missing]
    if not report.ok:
        raise StorageError(f"the ledger {store.place} is damaged: {'; '.join(report.problems)}")
    adopted: dict[str, Any] = {
        "kind": "adopted",
        "remembered": _mark_as_json(before),
        "found": list(report.head),
        **override,
    }
    time = journal.clock().isoformat(timespec="seconds")
    if is_missing and not names and store.find(ANEW) is None:
        adopted["anew"] = True
    for body in [*({**loss, **override} for loss in losses if loss is not None), adopted]:
        if not isinstance(store.append(step_of({**body, "time": time})), Appended):
            raise StorageError(f"the ledger {store.place} is in use by another process; close it there first")
    journal.anchor.replace(journal.id, store.head())
    journal.anchor.use(journal.id)


def lost_name(population: str) -> Name:
    """Return the name of the loss with which an account starts in a ledger that was created in place of a lost one."""
    return Name("lost", population)


def _remembered(read: Callable[[], AnchorMark | None]) -> AnchorMark | str | None:
    """Return the mark that is read, or text that says why it cannot be read; None where there is no mark."""
    try:
        return read()
    except StorageError as problem:
        return str(problem)


def _mark_as_json(mark: AnchorMark | str | None) -> dict[str, Any] | None:
    """Return an anchor's mark, or why it could not be read, as JSON for the entry that overrides it."""
    if isinstance(mark, str):
        return {"problem": mark}
    return None if mark is None else {"ledger": mark.ledger, "seq": mark.head.seq, "hash": mark.head.hash}


def missing_entries(reader: Reader, mark: AnchorMark | str | None) -> bool:
    """Return whether an anchor proves that entries are missing: it remembers one that the ledger does not hold."""
    if not isinstance(mark, AnchorMark) or mark.head.seq == 0:
        return False
    entry = reader.entry(mark.head.seq)
    return entry is None or entry.hash != mark.head.hash


def loss_of(reader: Reader, population: str, *, anew: bool) -> dict[str, Any] | None:
    """Return the entry that charges the whole remaining budget of an account; None if nothing remains.

    With ``anew`` the entry is needed even if nothing remains.
    """
    left = {
        state.key.currency: max((state.cap or 0) - state.spent, 0)
        for state in reader.balances(population, [""])
        if state.cap is not None
    }
    body: Mapping[str, Any] = {"kind": "lost", "population": population, "amounts": amounts_text(left), "anew": anew}
    return dict(body) if anew or any(left.values()) else None


def _found(store: Store, anchor: Anchor, opened: Mapping[str, Any], *, anew: bool) -> None:
    """Write the first entry of a new ledger.

    The anchor remembers the new id first, so that a crash in between does not look like a missing anchor; and of two
    processes that create the ledger at once, the later one takes the id of the other. ``anew`` says that an operator
    replaces the older ledger that the anchor remembers here; the anchor goes on remembering that one until the entry of
    the operator's decision is written.
    """
    ledger = f"{entropy.current().bits(_ID_BITS):032x}"
    if not anew:
        ledger = anchor.begin(ledger)
    store.append(step_of({**opened, "kind": "opened", "format": _FORMAT, "ledger": ledger}))


def _look_over(store: Store) -> dict[str, Any]:
    """Return the contents of the first entry, after a cheap check of the newest entries."""
    with store.snapshot() as snapshot:
        quick_check(snapshot, f"the ledger {store.place}")
    opened = read_body(store, 1)
    if opened["kind"] != "opened":
        raise StorageError(f"the ledger {store.place} is damaged: its first entry does not open it")
    if opened["format"] != _FORMAT:
        raise StorageError(
            f"the ledger {store.place} has format {opened['format']}, and this Tacit reads {_FORMAT} alone"
        )
    return opened


def check_anchor(reader: Reader, anchor: Anchor, ledger: str, place: str) -> None:
    """Compare a ledger with its anchor.

    The reader must not be a snapshot: while other processes work, the anchor that is read here may remember entries
    that are newer than a snapshot.

    Raises:
        RollbackError: the ledger is older than its anchor, or is another ledger, or the anchor has no mark of it.
    """
    here = anchor.read()
    if here is not None and here.ledger != ledger and here.head.seq > 0:
        raise RollbackError(
            f"the ledger at {place} is {AnchorMark(ledger, RecentHeads(reader.head()))}, and its anchor remembers "
            f"{here}: it was "
            f"replaced; bring back the right one, or take this one with `tacit ledger adopt --reason …`"
        )
    mark = anchor.of(ledger)
    if mark is None:
        raise RollbackError(
            f"the ledger at {place} is {AnchorMark(ledger, RecentHeads(reader.head()))}, and no anchor remembers it, "
            f"so nothing "
            f"tells an old copy from the newest; bring the anchor back, or take the ledger as it is with "
            f"`tacit ledger adopt --reason …`"
        )
    if mark.head.seq == 0:
        return
    entry = reader.entry(mark.head.seq)
    if entry is None or entry.hash != mark.head.hash:
        found = AnchorMark(ledger, RecentHeads(reader.head() if entry is None else entry.head))
        raise RollbackError(
            f"the ledger at {place} is an old or another copy: it is {found}, and its anchor remembers {mark}; bring "
            f"the newest copy back, or take this one with `tacit ledger adopt --reason …`"
        )


def check_not_gone(place: str | os.PathLike[str], anchor: str | os.PathLike[str] | None) -> None:
    """Refuse a missing file for a ledger that an anchor remembers."""
    if place != MEMORY and not is_postgres(place) and not Path(place).exists():
        path = str(Path(place).resolve())
        _check_not_emptied(choose_anchor(anchor, path), path, lambda: not Path(place).exists())


def _check_not_emptied(anchor: Anchor, place: str, is_empty: Callable[[], bool]) -> None:
    """Refuse an empty place for a ledger whose anchor remembers entries."""
    here = anchor.read()
    # Another process may have created the ledger since: its first entry is written before the anchor remembers it.
    if here is not None and here.head.seq > 0 and is_empty():
        raise RollbackError(
            f"there is nothing at {place}, and its anchor remembers {here}: it was deleted or emptied; bring it back, "
            f"or begin anew with `tacit ledger adopt --reason …`"
        )
