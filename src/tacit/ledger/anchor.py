"""The anchor: the newest entry, remembered outside the ledger, so that an old copy is found out.

An anchor is a file of two slots, each a line with a checksum. A mark is written to the slot that holds the older one
and synced, so a crash or a torn write leaves the other. The ledger advances the anchor before a reservation is given
out: an anchor may lag behind its ledger, and a ledger behind its anchor is an old copy.

Where anchors are kept by default, a second small file per place remembers *which* ledger is there. A ledger that was
deleted, or replaced by another one, is then found out as well.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tacit.ledger.disk import Disk
from tacit.ledger.protocol import GENESIS, Head, StorageError

__all__ = ["Anchor", "AnchorFile", "AnchorFolder", "Mark", "find_anchor", "state_folder"]

#: One sector each, so that writing one cannot tear the other.
_SLOT: Final = 512
_MAGIC: Final = "tacit-anchor-1"


@dataclass(frozen=True, slots=True)
class Mark:
    """The newest entry of a ledger that is known of."""

    ledger: str
    head: Head

    def __str__(self) -> str:
        return f"ledger {self.ledger} at entry {self.head.seq} ({self.head.hash[:16]}…)"


class Anchor(Protocol):
    """Where the newest entry is remembered."""

    def read(self) -> Mark | None:
        """What is remembered of the ledger that was here; ``None`` where nothing is."""

    def of(self, ledger: str) -> Mark | None:
        """What is remembered of one ledger, wherever it was."""

    def begin(self, ledger: str) -> str:
        """Remember a new ledger without entries, unless one is remembered here; return the id of the one that is."""

    def use(self, ledger: str) -> None:
        """From here on this ledger is the one that is here, and advances."""

    def replace(self, ledger: str, head: Head) -> None:
        """Remember this and nothing else, whatever was remembered before: an operator's decision."""

    def advance(self, head: Head) -> Head:
        """Remember an entry durably, unless a newer one is remembered; return what is remembered now.

        An entry in the same place or further on was written by somebody else: the caller must find it in the ledger.
        """


class AnchorFile:
    """An anchor in one file, for any number of threads and processes."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or Disk()
        self._lock = threading.Lock()
        self._news = threading.Lock()
        self._ledger = ""
        self._newest = GENESIS
        self._written = Head(-1, "")

    def read(self) -> Mark | None:
        """What the file says; :class:`StorageError` if it is there and says nothing that makes sense."""
        try:
            content = self._disk.read(self._path)
        except OSError as problem:
            raise StorageError(f"the anchor {self._path} cannot be read: {problem}") from problem
        if content is None:
            return None
        return max((mark for mark in self._slots(content) if mark is not None), key=lambda mark: mark.head.seq)

    def of(self, ledger: str) -> Mark | None:
        """The mark, if it is this ledger's."""
        mark = self.read()
        return mark if mark is not None and mark.ledger == ledger else None

    def begin(self, ledger: str) -> str:
        """A new file, unless there is one."""
        self._create(Mark(ledger, GENESIS), replace=False)
        mark = self.read()
        return ledger if mark is None else mark.ledger

    def use(self, ledger: str) -> None:
        """What is written from here on is about this ledger."""
        self._ledger = ledger

    def replace(self, ledger: str, head: Head) -> None:
        """A new file with this mark in both slots."""
        self._create(Mark(ledger, head), replace=True)

    def _create(self, mark: Mark, *, replace: bool) -> None:
        try:
            self._disk.create(self._path, _line(mark) * 2, replace=replace)
        except OSError as problem:
            raise StorageError(f"the anchor {self._path} cannot be made: {problem}") from problem

    def advance(self, head: Head) -> Head:
        """Write the mark. Threads that wait here are served by one write of the newest head among them."""
        with self._news:
            if head.seq > self._newest.seq:
                self._newest = head
        with self._lock:
            if head.seq > self._written.seq:
                self._written = self._change(self._newest)
            return self._written

    def _change(self, target: Head) -> Head:
        """Write the mark unless the file has one that is as new, and say which of the two it has now."""
        known = target

        def decide(content: bytes) -> tuple[int, bytes] | None:
            nonlocal known
            newest, offset = self._newest_of(content)
            if newest.seq >= target.seq:
                known = newest
                return None
            return offset, _line(Mark(self._ledger, target))

        try:
            self._disk.change(self._path, decide)
        except OSError as problem:
            raise StorageError(f"the anchor {self._path} cannot be written: {problem}") from problem
        return known

    def _newest_of(self, content: bytes) -> tuple[Head, int]:
        """What the file remembers, and where to write the next mark: over the older of the two."""
        first, second = self._slots(content)
        known = [mark for mark in (first, second) if mark is not None]
        if any(mark.ledger != self._ledger for mark in known):
            raise StorageError(f"the anchor {self._path} was replaced while it was in use")
        newest = max(known, key=lambda mark: mark.head.seq)
        return newest.head, _SLOT if newest is first else 0

    def _slots(self, content: bytes) -> tuple[Mark | None, Mark | None]:
        slots = _mark(content[:_SLOT]), _mark(content[_SLOT : 2 * _SLOT])
        if slots == (None, None):
            raise StorageError(f"the anchor {self._path} is damaged")
        return slots


class AnchorFolder:
    """Anchors by the ledgers' ids, and beside them which ledger is where."""

    def __init__(self, folder: Path, place: str, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()
        self._note = folder / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.place"
        self._place = place
        self._file: AnchorFile | None = None

    def read(self) -> Mark | None:
        """What is remembered of the ledger that was last seen at this place."""
        try:
            note = self._disk.read(self._note)
        except OSError as problem:
            raise StorageError(f"the anchor {self._note} cannot be read: {problem}") from problem
        if note is None:
            return None
        ledger = note.split(b"\n")[0].decode("ascii", "replace")
        return self._at(ledger).read() or Mark(ledger, GENESIS)

    def of(self, ledger: str) -> Mark | None:
        """What is remembered of a ledger."""
        return self._at(ledger).of(ledger)

    def begin(self, ledger: str) -> str:
        """A new anchor file and a note that the ledger is here, unless there is such a note."""
        self._at(ledger).begin(ledger)
        self._settle(ledger, replace=False)
        mark = self.read()
        return ledger if mark is None else mark.ledger

    def use(self, ledger: str) -> None:
        """Note that the ledger is here, and advance its file."""
        self._settle(ledger, replace=True)
        self._file = self._at(ledger)
        self._file.use(ledger)

    def replace(self, ledger: str, head: Head) -> None:
        """A new anchor file, and a note that the ledger is here."""
        self._at(ledger).replace(ledger, head)
        self._settle(ledger, replace=True)

    def advance(self, head: Head) -> Head:
        """As for the ledger's file."""
        if self._file is None:
            raise StorageError("no anchor was chosen")
        return self._file.advance(head)

    def _at(self, ledger: str) -> AnchorFile:
        if not ledger.isalnum():
            raise StorageError(f"the anchor {self._note} is damaged")
        return AnchorFile(self._folder / f"{ledger}.anchor", self._disk)

    def _settle(self, ledger: str, *, replace: bool) -> None:
        content = f"{ledger}\n{self._place}\n".encode()
        try:
            if self._disk.read(self._note) != content:
                self._disk.create(self._note, content, replace=replace)
        except OSError as problem:
            raise StorageError(f"the anchor {self._note} cannot be written: {problem}") from problem


def find_anchor(anchor: str | os.PathLike[str] | None, place: str) -> Anchor:
    """The anchor that was asked for, or the one in the user's state directory."""
    return AnchorFolder(state_folder() / "anchors", place) if anchor is None else AnchorFile(Path(anchor).absolute())


def state_folder() -> Path:
    """Where Tacit keeps what must outlive a project's folder."""
    own = os.environ.get("TACIT_STATE")
    if own:
        return Path(own).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "tacit"


def _line(mark: Mark) -> bytes:
    text = f"{_MAGIC} {mark.ledger} {mark.head.seq} {mark.head.hash}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n".encode("ascii").ljust(_SLOT)


def _mark(slot: bytes) -> Mark | None:
    parts = slot.decode("ascii", "replace").split()
    if len(parts) != 5 or parts[0] != _MAGIC:
        return None
    if hashlib.sha256(" ".join(parts[:4]).encode()).hexdigest() != parts[4]:
        return None
    return Mark(parts[1], Head(int(parts[2]), parts[3]))
