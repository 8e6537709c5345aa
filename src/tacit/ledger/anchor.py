"""Anchor: the newest entry remembered outside the ledger, to detect rollback.

An anchor is a file of two slots, each a line with a checksum. A mark is written to the slot with the older mark
and synced, so a crash or a torn write leaves the other slot. The ledger advances the anchor before it returns a
reservation: an anchor may lag behind its ledger, but a ledger behind its anchor is an old copy.

An anchor follows one history. It goes on only to an entry whose history holds the remembered one, and a
process whose entry is not in the history of the remembered one stops. A mark names the entries before it, so both are
checked from the marks alone, and the mark that one process wrote serves the other processes, too.

In the default folder of anchors, a second small file per place remembers *which* ledger is there. A ledger that was
deleted or replaced by another one is then detected as well.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tacit.ledger.disk import Disk
from tacit.ledger.errors import StorageError
from tacit.ledger.protocol import GENESIS, HEADS_BEFORE, Head, Holds, RecentHeads, onwards

#: One sector each, so that writing one cannot tear the other.
_SLOT: Final = 512
_MAGIC: Final = "tacit-anchor-1"


@dataclass(frozen=True, slots=True)
class AnchorMark:
    """The newest entry of a ledger that its anchor remembers."""

    ledger: str
    recent: RecentHeads

    @property
    def head(self) -> Head:
        return self.recent.head

    def __str__(self) -> str:
        return f"ledger {self.ledger} at entry {self.head.seq} ({self.head.hash[:16]}…)"


class Anchor(Protocol):
    """Memory of the newest entry, kept apart from the ledger."""

    def read(self) -> AnchorMark | None:
        """Return the mark of the ledger that was used at this place; ``None`` where there is none."""

    def of(self, ledger: str) -> AnchorMark | None:
        """Return the mark of the ledger with this id, or ``None``."""

    def begin(self, ledger: str) -> str:
        """Remember a new, empty ledger unless one is remembered here; return the id of the one remembered."""

    def use(self, ledger: str) -> None:
        """Make this ledger the one remembered at this place, whose mark advances."""

    def replace(self, ledger: str, head: Head) -> None:
        """Replace everything that was remembered before by this mark: an operator's decision."""

    def advance(self, own: Head, newest: RecentHeads, holds: Holds) -> None:
        """Have an entry remembered, durably: it is in the history of every mark from here on.

        Args:
            own: the entry.
            newest: the entry or a later one in the same ledger, which is remembered unless a newer one is.
            holds: returns whether an entry is in the ledger.

        Raises:
            OtherHistoryError: the remembered entry is not in the ledger.
            StorageError: the anchor cannot be read or written.
        """


class AnchorFile:
    """An anchor in one file, for several threads and processes."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or Disk()
        self._lock = threading.Lock()
        self._news = threading.Lock()
        self._ledger = ""
        self._newest = RecentHeads(GENESIS)
        self._written: RecentHeads | None = None
        self._seen: dict[bytes, AnchorMark | None] = {}

    def read(self) -> AnchorMark | None:
        """Return the mark in the file, or None without a file; :class:`StorageError` for a damaged one."""
        try:
            content = self._disk.read(self._path)
        except OSError as problem:
            raise StorageError(f"the anchor {self._path} cannot be read: {problem}") from problem
        if content is None:
            return None
        return _newer(*self._slots(content))

    def of(self, ledger: str) -> AnchorMark | None:
        """Return the mark if it is of this ledger, else None."""
        mark = self.read()
        return mark if mark is not None and mark.ledger == ledger else None

    def begin(self, ledger: str) -> str:
        """Create the file unless there is one; return the id of the ledger that the file remembers."""
        self._create(AnchorMark(ledger, RecentHeads(GENESIS)), replace=False)
        mark = self.read()
        return ledger if mark is None else mark.ledger

    def use(self, ledger: str) -> None:
        """Write marks of this ledger from here on."""
        self._ledger = ledger

    def replace(self, ledger: str, head: Head) -> None:
        """Replace the file by one with this mark in both slots."""
        self._create(AnchorMark(ledger, RecentHeads(head)), replace=True)

    def _create(self, mark: AnchorMark, *, replace: bool) -> None:
        try:
            self._disk.create(self._path, _line(mark) * 2, replace=replace)
        except OSError as problem:
            raise StorageError(f"the anchor {self._path} cannot be made: {problem}") from problem

    def advance(self, own: Head, newest: RecentHeads, holds: Holds) -> None:
        """Write the mark. One write of the newest entry serves all threads that wait here."""
        with self._news:
            if newest.head.seq > self._newest.head.seq:
                self._newest = newest
        with self._lock:
            if self._written is None or own.seq > self._written.head.seq:
                self._written = self._change(own, self._newest, holds)
            else:
                onwards(self._written, own, self._written, holds)

    def _change(self, own: Head, newest: RecentHeads, holds: Holds) -> RecentHeads:
        """Write the mark unless the file has one that is as new; return the heads that the file has afterwards."""
        after = newest

        def decide(content: bytes) -> tuple[int, bytes] | None:
            nonlocal after
            known, offset = self._newest_of(content)
            after = onwards(known, own, newest, holds)
            if after is known:
                return None
            mark = AnchorMark(self._ledger, after)
            line = _line(mark)
            self._seen[line] = mark
            return offset, line

        try:
            self._disk.change(self._path, decide)
        except OSError as problem:
            raise StorageError(f"the anchor {self._path} cannot be written: {problem}") from problem
        return after

    def _newest_of(self, content: bytes) -> tuple[RecentHeads, int]:
        """Return the newest mark of the file, and the offset of the older one, where the next mark is written."""
        first, second = self._slots(content)
        for mark in (first, second):
            if mark is not None and mark.ledger != self._ledger:
                raise StorageError(f"the anchor {self._path} was replaced while it was in use")
        newest = _newer(first, second)
        return newest.recent, _SLOT if newest is first else 0

    def _slots(self, content: bytes) -> tuple[AnchorMark | None, AnchorMark | None]:
        # A mark read or written a moment ago need not be parsed again.
        first, second, seen = content[:_SLOT], content[_SLOT : 2 * _SLOT], self._seen
        one = seen[first] if first in seen else _mark(first)
        other = seen[second] if second in seen else _mark(second)
        if one is None and other is None:
            raise StorageError(f"the anchor {self._path} is damaged")
        self._seen = {first: one, second: other}
        return one, other


class AnchorFolder:
    """A folder with one anchor file per ledger id, and one note per place that names the ledger there."""

    def __init__(self, folder: Path, place: str, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()
        self._note = folder / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.place"
        self._place = place
        self._file: AnchorFile | None = None

    def read(self) -> AnchorMark | None:
        """Return the mark of the ledger that was last used at this place, or None."""
        try:
            note = self._disk.read(self._note)
        except OSError as problem:
            raise StorageError(f"the anchor {self._note} cannot be read: {problem}") from problem
        if note is None:
            return None
        ledger = note.split(b"\n")[0].decode("ascii", "replace")
        return self._at(ledger).read() or AnchorMark(ledger, RecentHeads(GENESIS))

    def of(self, ledger: str) -> AnchorMark | None:
        """Return the mark of a ledger, or None."""
        return self._at(ledger).of(ledger)

    def begin(self, ledger: str) -> str:
        """Create an anchor file and a note that the ledger is here, unless there is such a note."""
        self._at(ledger).begin(ledger)
        self._settle(ledger, replace=False)
        mark = self.read()
        return ledger if mark is None else mark.ledger

    def use(self, ledger: str) -> None:
        """Note that the ledger is here, and advance its file from here on."""
        self._settle(ledger, replace=True)
        self._file = self._at(ledger)
        self._file.use(ledger)

    def replace(self, ledger: str, head: Head) -> None:
        """Replace the anchor file, and note that the ledger is here."""
        self._at(ledger).replace(ledger, head)
        self._settle(ledger, replace=True)

    def advance(self, own: Head, newest: RecentHeads, holds: Holds) -> None:
        """Advance the mark in the file of the ledger in use."""
        if self._file is None:
            raise StorageError("no anchor was chosen")
        self._file.advance(own, newest, holds)

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
    """Return the given anchor, or the one in the user's state directory."""
    return AnchorFolder(state_folder() / "anchors", place) if anchor is None else AnchorFile(Path(anchor).absolute())


def state_folder() -> Path:
    """Return the folder of files that must outlive a project's folder."""
    own = os.environ.get("TACIT_STATE")
    if own:
        return Path(own).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state").absolute() / "tacit"


def _newer(first: AnchorMark | None, second: AnchorMark | None) -> AnchorMark:
    if first is None or (second is not None and second.recent.head.seq > first.recent.head.seq):
        first = second
    if first is None:
        raise StorageError("an anchor without a mark")
    return first


def _line(mark: AnchorMark) -> bytes:
    before = "-".join(mark.recent.before[:HEADS_BEFORE]) or "-"
    text = f"{_MAGIC} {mark.ledger} {mark.head.seq} {mark.head.hash} {before}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n".ljust(_SLOT).encode("ascii")


def _mark(slot: bytes) -> AnchorMark | None:
    text = slot.decode("ascii", "replace").rstrip()
    parts = text.split(" ")
    if len(parts) != 6 or parts[0] != _MAGIC:
        return None
    if hashlib.sha256(text[: -len(parts[-1]) - 1].encode()).hexdigest() != parts[-1]:
        return None
    before = tuple(filter(None, parts[4].split("-")))
    return AnchorMark(parts[1], RecentHeads(Head(int(parts[2]), parts[3]), before))
