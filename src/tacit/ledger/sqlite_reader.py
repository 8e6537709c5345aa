"""Reading a ledger in SQLite."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from tacit.ledger.protocol import GENESIS, Head, Level, Name, Pocket, StorageError, Stored

__all__ = ["SqliteReader", "failures", "read_level", "sealed"]

_CHUNK: Final = 1000
_AHEAD: Final = 32
_ENTRIES: Final = (
    "SELECT e.seq, e.body, p.hash, e.hash FROM entries AS e LEFT JOIN entries AS p ON p.seq = e.seq - 1 WHERE "
)


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Whatever SQLite or the system says becomes a :class:`StorageError`."""
    try:
        yield
    except (sqlite3.Error, OSError) as problem:
        name = getattr(problem, "sqlite_errorname", type(problem).__name__)
        raise StorageError(f"{what}: {problem} ({name})") from problem


class SqliteReader:
    """The reader protocol on one connection, which threads take in turn."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._reading = threading.Lock()
        self._still = False
        self._ahead: dict[tuple[int, str], bytes] = {}

    def hold(self) -> None:
        """Stay at this moment: begin a read transaction."""
        self._still = True
        self._rows("BEGIN")
        self._rows("SELECT seq FROM entries LIMIT 1")

    def head(self) -> Head:
        """The last entry's place and hash."""
        with self._reading, failures("the ledger"):
            return self._head(self._connection)

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
        known = self.entry(after)
        last = GENESIS if after == 0 else Head(after, "") if known is None else known.head
        chunk = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
        while rows := self._rows(chunk, (last.seq, _CHUNK)):
            for seq, body, hashed in rows:
                previous, last = last, Head(seq, hashed.hex())
                yield Stored(seq, body, previous.hash if seq == previous.seq + 1 else "", last.hash)

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        """Entries from the newest to the oldest."""
        last = 2**62 if before is None else before
        while rows := self._rows(_ENTRIES + "e.seq < ? ORDER BY e.seq DESC LIMIT ?", (last, _CHUNK)):
            yield from map(_stored, rows)
            last = rows[-1][0]

    def levels(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[Level, ...]:
        """Pockets at one moment."""
        wanted = [] if owners is None else list(owners)
        among = "" if owners is None else f" AND owner IN ({', '.join('?' * len(wanted))})"
        rows = self._rows(
            f"SELECT account, owner, currency, spent, cap, seq, seal FROM pockets "  # noqa: S608
            f"WHERE (? IS NULL OR account = ?){among} ORDER BY account, owner, currency",
            (account, account, *wanted),
        )
        return tuple(map(read_level, rows))

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Names with their entries."""
        last = Name("" if space is None else space, "")
        while rows := self._rows(
            "SELECT space, key, seq FROM names WHERE (space, key) >= (?, ?) AND (? IS NULL OR space = ?) "
            "ORDER BY space, key LIMIT ?",
            (*last, space, space, _CHUNK),
        ):
            fresh = [(Name(row[0], row[1]), row[2]) for row in rows]
            yield from fresh
            if len(rows) < _CHUNK:
                return
            # The smallest text after a key is the key and one NUL.
            last = Name(fresh[-1][0].space, fresh[-1][0].key + "\0")

    def paper(self, seq: int, name: str) -> bytes | None:
        """Bytes kept beside an entry; where nothing changes, some of what comes next is read along."""
        if not self._still:
            rows = self._rows("SELECT content FROM papers WHERE seq = ? AND name = ?", (seq, name))
            return rows[0][0] if rows else None
        if (seq, name) not in self._ahead:
            some = "SELECT seq, name, content FROM papers WHERE seq >= ? ORDER BY seq LIMIT ?"
            rows = self._rows(some, (seq, _AHEAD))
            self._ahead = {(row[0], row[1]): row[2] for row in rows}
        return self._ahead.get((seq, name))

    def close(self) -> None:
        """Close the connection."""
        with self._reading, suppress(sqlite3.Error):
            self._connection.close()

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._reading, failures("the ledger"):
            return self._connection.execute(statement, values).fetchall()

    @staticmethod
    def _head(connection: sqlite3.Connection) -> Head:
        row = connection.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        return GENESIS if row is None else Head(row[0], row[1].hex())


def sealed(level: Level, seq: int) -> tuple[Any, ...]:
    """The row of a pocket, with a checksum over it."""
    row = (*level.pocket, str(level.spent), None if level.cap is None else str(level.cap), seq)
    return (*row, _seal(row))


def _seal(row: tuple[Any, ...]) -> bytes:
    return hashlib.sha256(repr(row).encode()).digest()[:8]


def read_level(row: Sequence[Any]) -> Level:
    """The row of a pocket, if its seal is right."""
    if _seal(tuple(row[:6])) != row[6]:
        raise StorageError(f"the pocket {'/'.join(map(str, row[:3]))} is damaged: its seal does not fit")
    return Level(Pocket(row[0], row[1], row[2]), int(row[3]), None if row[4] is None else int(row[4]))


def _stored(row: Sequence[Any]) -> Stored:
    previous = GENESIS.hash if row[0] == 1 else "" if row[2] is None else row[2].hex()
    return Stored(row[0], row[1], previous, row[3].hex())
