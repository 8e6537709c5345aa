"""Opening of a ledger: database, anchor, trust."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tacit.ledger.anchor import Anchor, AnchorMark, find_anchor
from tacit.ledger.entries import step_of
from tacit.ledger.errors import RollbackError
from tacit.ledger.hash_chain import link
from tacit.ledger.memory import MEMORY, MemoryAnchor, MemoryStore
from tacit.ledger.protocol import Reader, RecentHeads, StorageError, Store, Stored
from tacit.ledger.verify import quick_check
from tacit.noise import entropy

__all__ = [
    "check_anchor",
    "check_not_gone",
    "choose_anchor",
    "found",
    "gone",
    "is_postgres",
    "look_over",
    "open_reader",
    "open_store",
    "read_body",
    "read_entry",
]

_ID_BITS = 128


def is_postgres(place: str | os.PathLike[str]) -> bool:
    """Whether a place is a PostgreSQL database rather than a file."""
    return isinstance(place, str) and place.startswith(("postgresql://", "postgres://"))


def choose_anchor(anchor: str | os.PathLike[str] | None, place: str) -> Anchor:
    """The anchor that was asked for, or the one that a place has by default."""
    return MemoryAnchor() if place == MEMORY else find_anchor(anchor, place)


def open_store(place: str | os.PathLike[str], *, create: bool) -> Store:
    """The database at a place."""
    if place == MEMORY:
        return MemoryStore()
    if is_postgres(place):
        from tacit.ledger.postgres import PostgresStore

        return PostgresStore.open(str(place), create=create)
    from tacit.ledger.sqlite import SqliteStore

    return SqliteStore.open(place, create=create)


@contextmanager
def open_reader(place: str | os.PathLike[str], *, still: bool) -> Iterator[tuple[Reader, str]]:
    """The database at a place, which is not changed by it, and the place's own name.

    ``still`` reads everything as it is at one moment; otherwise each call reads what is newest.
    """
    if is_postgres(place):
        store = open_store(place, create=False)
        try:
            with store.snapshot() if still else nullcontext(store) as reader:
                yield reader, store.place
        finally:
            store.close()
        return
    from tacit.ledger.sqlite_reader import SqliteReader, failures

    path = Path(place).resolve()
    with failures(f"the ledger {path}"):
        if not path.exists():
            raise StorageError(f"there is no ledger at {path}")
        with _readable(path) as uri:
            rows = SqliteReader(sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False))
            try:
                if still:
                    rows.hold()
                yield rows, str(path)
            finally:
                rows.close()


@contextmanager
def _readable(path: Path) -> Iterator[str]:
    """How SQLite can read a file without changing it, also on a medium that cannot be written.

    A reader needs a small file beside a database with a log. Where it cannot be made, the database is read as it is if
    there is no log; with one, a copy of both is read, because the newest entries may be in the log alone.
    """
    log = path.with_name(f"{path.name}-wal")
    if os.access(path.parent, os.W_OK):
        yield f"{path.as_uri()}?mode=ro"
    elif not log.exists() or log.stat().st_size == 0:
        yield f"{path.as_uri()}?mode=ro&immutable=1"
    else:
        with TemporaryDirectory(prefix="tacit-ledger-") as folder:
            for file in (path, log):
                shutil.copyfile(file, Path(folder) / file.name)
            yield (Path(folder) / path.name).as_uri()


def found(store: Store, anchor: Anchor, opened: Mapping[str, Any], *, anew: bool) -> None:
    """Write the first entry of a new ledger.

    The anchor remembers the new id first, so that a crash in between is no missing anchor; and of two processes that
    do this at once, the one that is later takes the id of the other. ``anew`` is an operator's word that whatever the
    anchor remembers of an older ledger here shall not stand in the way; until that word is written down too, the anchor
    remembers it all the same.
    """
    ledger = f"{entropy.current().bits(_ID_BITS):032x}"
    if not anew:
        ledger = anchor.begin(ledger)
    store.append(step_of({**opened, "kind": "opened", "format": 1, "ledger": ledger}))


def look_over(store: Store) -> dict[str, Any]:
    """The first entry, after a cheap check of what is newest."""
    with store.snapshot() as snapshot:
        quick_check(snapshot, f"the ledger {store.place}")
    opened = read_body(store, 1)
    if opened["kind"] != "opened":
        raise StorageError(f"the ledger {store.place} is damaged: its first entry does not open it")
    return opened


def read_entry(reader: Reader, seq: int) -> tuple[Stored, dict[str, Any]]:
    """An entry and its contents, if it fits the chain."""
    entry = reader.entry(seq)
    if entry is None:
        raise StorageError(f"entry {seq} is gone")
    if link(entry.previous, entry.body) != entry.hash:
        raise StorageError(f"entry {seq} does not fit the chain")
    return entry, json.loads(entry.body)


def read_body(reader: Reader, seq: int) -> dict[str, Any]:
    """An entry's contents alone."""
    return read_entry(reader, seq)[1]


def check_anchor(reader: Reader, anchor: Anchor, ledger: str, place: str) -> None:
    """Compare a ledger with what is remembered of it.

    The reader must not stand still: while others work, the anchor that is read here may know of entries that were not
    there when a snapshot was taken.

    Raises:
        RollbackError: it is older than that, or another one, or nothing is remembered.
    """
    here = anchor.read()
    if here is not None and here.ledger != ledger and here.head.seq > 0:
        raise RollbackError(
            f"the ledger at {place} is {AnchorMark(ledger, RecentHeads(reader.head()))}, and its anchor remembers "
            f"{here}: it was "
            f"replaced; bring back the right one, or take this one with `tacit ledger adopt`"
        )
    mark = anchor.of(ledger)
    if mark is None:
        raise RollbackError(
            f"the ledger at {place} is {AnchorMark(ledger, RecentHeads(reader.head()))}, and no anchor remembers it, "
            f"so nothing "
            f"tells an old copy from the newest; bring the anchor back, or take the ledger as it is with "
            f"`tacit ledger adopt`"
        )
    if mark.head.seq == 0:
        return
    entry = reader.entry(mark.head.seq)
    if entry is None or entry.hash != mark.head.hash:
        found = AnchorMark(ledger, RecentHeads(reader.head() if entry is None else entry.head))
        raise RollbackError(
            f"the ledger at {place} is an old or another copy: it is {found}, and its anchor remembers {mark}; bring "
            f"the newest copy back, or take this one with `tacit ledger adopt`"
        )


def check_not_gone(place: str | os.PathLike[str], anchor: str | os.PathLike[str] | None) -> None:
    """As :func:`gone`, before a file is made for a ledger."""
    if place != MEMORY and not is_postgres(place) and not Path(place).exists():
        path = str(Path(place).resolve())
        gone(choose_anchor(anchor, path), path)


def gone(anchor: Anchor, place: str) -> None:
    """Refuse to begin anew where a ledger with entries is remembered."""
    here = anchor.read()
    if here is not None and here.head.seq > 0:
        raise RollbackError(
            f"there is nothing at {place}, and its anchor remembers {here}: it was deleted or emptied; bring it back, "
            f"or begin anew with `tacit ledger adopt`"
        )
