"""Reading the tables of a ledger: the same statements on every database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tacit.ledger.protocol import GENESIS, Head, Level, Name, Pocket, Stored

__all__ = ["TableReader"]

_CHUNK: Final = 1000
_ENTRIES: Final = (
    "SELECT e.seq, e.body, p.hash, e.hash FROM entries AS e LEFT JOIN entries AS p ON p.seq = e.seq - 1 WHERE "
)
_POCKETS: Final = "SELECT account, owner, currency, spent, cap FROM pockets ORDER BY account, owner, currency"
_POCKETS_OF: Final = (
    "SELECT account, owner, currency, spent, cap FROM pockets WHERE account = ? ORDER BY owner, currency"
)
_NAMES_FROM: Final = "SELECT space, key, seq FROM names WHERE (space, key) >= (?, ?) ORDER BY space, key LIMIT ?"
_NAMES_AFTER: Final = "SELECT space, key, seq FROM names WHERE (space, key) > (?, ?) ORDER BY space, key LIMIT ?"


class TableReader(ABC):
    """The reader protocol, for whoever can run a statement with ``?`` for its values."""

    @abstractmethod
    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement."""

    def head(self) -> Head:
        """The last entry's place and hash."""
        rows = self._rows("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1")
        return Head(rows[0][0], bytes(rows[0][1]).hex()) if rows else GENESIS

    def find(self, name: Name) -> int | None:
        """The entry that a name stands for."""
        rows = self._rows("SELECT seq FROM names WHERE space = ? AND key = ?", name)
        return rows[0][0] if rows else None

    def entry(self, seq: int) -> Stored | None:
        """One entry."""
        rows = self._rows(_ENTRIES + "e.seq = ?", (seq,))
        return _stored(rows[0]) if rows else None

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        """Entries in order."""
        while rows := self._rows(_ENTRIES + "e.seq > ? ORDER BY e.seq LIMIT ?", (after, _CHUNK)):
            yield from map(_stored, rows)
            after = rows[-1][0]

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        """Entries from the newest to the oldest."""
        last = 2**62 if before is None else before
        while rows := self._rows(_ENTRIES + "e.seq < ? ORDER BY e.seq DESC LIMIT ?", (last, _CHUNK)):
            yield from map(_stored, rows)
            last = rows[-1][0]

    def levels(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[Level, ...]:
        """Pockets at one moment."""
        rows = self._rows(_POCKETS) if account is None else self._rows(_POCKETS_OF, (account,))
        found = map(self._level, rows)
        return tuple(level for level in found if owners is None or level.pocket.owner in owners)

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Names with their entries."""
        last = ("" if space is None else space, "")
        rows = self._rows(_NAMES_FROM, (*last, _CHUNK))
        while rows:
            fresh = [(Name(row[0], row[1]), row[2]) for row in rows if space is None or row[0] == space]
            yield from fresh
            if len(fresh) < _CHUNK:
                return
            rows = self._rows(_NAMES_AFTER, (*rows[-1][:2], _CHUNK))

    def paper(self, seq: int, name: str) -> bytes | None:
        """Bytes kept beside an entry."""
        rows = self._rows("SELECT content FROM papers WHERE seq = ? AND name = ?", (seq, name))
        return bytes(rows[0][0]) if rows else None

    @staticmethod
    def _level(row: Sequence[Any]) -> Level:
        return Level(Pocket(*row[:3]), int(row[3]), None if row[4] is None else int(row[4]))


def _stored(row: Sequence[Any]) -> Stored:
    previous = GENESIS.hash if row[0] == 1 else "" if row[2] is None else bytes(row[2]).hex()
    return Stored(row[0], row[1], previous, bytes(row[3]).hex())
