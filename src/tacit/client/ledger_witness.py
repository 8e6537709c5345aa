"""Newest ledger entry seen from a server, to detect rollback.

A server's own anchor lies on the server. A machine that is put back whole, from a snapshot or a backup, has an old
ledger and an equally old anchor, and cannot notice by itself that charges are missing. A client can: it keeps an anchor
of its own (:mod:`tacit.ledger.anchor`), one for each ledger, in the user's state folder. Every query names the entry
that is remembered, in the header ``Tacit-Seen``. The server refuses, before anything is charged, if its ledger does not
hold that entry; and says, if it does, which hash it has at that place. The anchor then moves on to the entry of the
receipt. It never moves to a ledger that was not shown to hold what was remembered before.

Where the folder cannot be written, and the key was stated, the entry is remembered for as long as the connection lasts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tacit.client.client_errors import TrustError
from tacit.ledger.anchor import Anchor, AnchorFile, state_folder
from tacit.ledger.memory import MemoryAnchor
from tacit.ledger.protocol import Head, OtherHistoryError, RecentHeads
from tacit.ledger.storage.database import StorageError

#: The header that names an entry: ``17:5f…``.
SEEN: Final = "Tacit-Seen"
_FOLDER: Final = "witnesses"


def head_text(head: Head) -> str:
    """An entry as the header writes it."""
    return f"{head.seq}:{head.hash}"


class Witness:
    """Memory of the newest entry of one ledger. Safe to use from several threads and processes.

    Args:
        lasting: whether a folder that cannot be written is an error.
        folder: where it is remembered; by default in the user's state folder.
    """

    def __init__(self, url: str, ledger: str, *, lasting: bool, folder: Path | None = None) -> None:
        self._url = url
        self._path = (folder or state_folder() / _FOLDER) / f"{ledger}.anchor"
        self._anchor: Anchor = AnchorFile(self._path)
        try:
            try:
                self._anchor.begin(ledger)
            except StorageError:
                # An anchor that is there counts, whether or not it can be moved on.
                if lasting or self._path.exists() or os.access(self._path.parent, os.W_OK):
                    raise
                self._anchor = MemoryAnchor()
                self._anchor.begin(ledger)
            self._anchor.use(ledger)
            mark = self._anchor.of(ledger)
        except StorageError as problem:
            raise TrustError(
                f"the newest entry of {url} cannot be remembered: {problem}; allow writing there, or delete the file "
                f"if you trust the server"
            ) from None
        if mark is None:
            raise TrustError(f"{self._path} speaks of another ledger; delete it if you trust {url}")
        self._known = mark.head
        self._confirmed = ""

    @property
    def known(self) -> Head:
        """The newest entry that was seen; place 0 where none was."""
        return self._known

    @property
    def headers(self) -> dict[str, str]:
        """Header of a query that names it."""
        return {SEEN: head_text(self._known)} if self._known.seq else {}

    def check(self, sent: str | None, echoed: str | None) -> None:
        """Compare what a request named with what the server says it has there.

        Raises:
            TrustError: it has something else, or does not say.
        """
        if sent is None:
            return
        if echoed is None:
            raise TrustError(
                f"{self._url} does not say whether its ledger still holds entry {sent.partition(':')[0]}, which was "
                f"seen before: it is no server of Tacit, or something on the way drops the header {SEEN}"
            )
        if echoed != sent:
            raise self.missing(sent)
        self._confirmed = sent

    def is_confirmed(self, head: Head) -> bool:
        """Whether the server has just shown that it holds an entry."""
        return self._confirmed == head_text(head)

    def missing(self, sent: str) -> TrustError:
        """The error for a ledger that lacks an entry."""
        seq, _, hashed = sent.partition(":")
        return TrustError(
            f"{self._url} does not hold entry {seq} ({hashed[:16]}…) of its ledger, which was seen before: the server "
            f"was put back to an older state, or shows another history. Ask its owner what was lost; if the ledger "
            f"was restored on purpose, delete {self._path}"
        )

    def advance(self, head: Head, previous: str, holds: Callable[[Head], bool]) -> None:
        """Remember an entry if it is newer; ``holds`` says whether the server's ledger has another one.

        Raises:
            TrustError: the ledger does not hold what was remembered, or nothing can be written.
        """
        if head.seq <= self._known.seq:
            if head.seq == self._known.seq and head.hash != self._known.hash:
                raise self.missing(head_text(self._known))
            return
        try:
            self._anchor.advance(head, RecentHeads.of(head, [previous] if previous else []), holds)
        except OtherHistoryError:
            raise self.missing(head_text(self._known)) from None
        except StorageError as problem:
            raise TrustError(f"the newest entry of {self._url} cannot be remembered: {problem}") from None
        self._known = max(self._known, head, key=lambda each: each.seq)
