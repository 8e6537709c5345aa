"""SQL databases: their interface, creation of their tables, and one reader of the ledger's tables for all of them.

Statements have ``?`` for values, on every database. A transaction is durable when its block ends. The tables of the
ledger and the tables of identities are two schemas; this module does not depend on their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

from tacit.ledger.errors import StorageError
from tacit.ledger.protocol import GENESIS, BalanceKey, BalanceState, Head, Name, Stored

#: Carry out a statement with values, and return its rows.
Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]

_PRAGMA: Final = "PRAGMA user_version"
_VERSION: Final = 1


class Database(Protocol):
    """One database, for several threads.

    Every failure is a :class:`StorageError`; :class:`StoreBusy` guarantees that nothing was written.
    """

    def read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a statement that changes nothing."""

    def write(self) -> AbstractContextManager[Run]:
        """Return the context of a transaction: durable when the block ends, undone when it raises. Keep it short."""

    def prepare(self, schema: Schema) -> None:
        """Create the tables of a schema if they are missing, in a transaction under a lock among processes."""

    def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one application.

    Args:
        what: subject and verb of messages about the tables, such as ``the ledger has``.
        statements: statements that create the tables.
        version_table: the table that holds the version; empty for SQLite's ``user_version``.
        first: a statement that creates the version table if it is missing.
        words: replacements of words in braces, which differ between databases; empty where statements have no braces.
        lock: number of the lock under which PostgreSQL prepares the tables; always the same.
    """

    what: str
    statements: Sequence[str]
    version_table: str = ""
    first: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    lock: int = 0


def make_tables(run: Run, schema: Schema) -> None:
    """Create the tables if they are missing, in the transaction of ``run``.

    Raises:
        StorageError: the tables are of another version.
    """
    table = schema.version_table

    def carry_out(statement: str) -> None:
        run(statement.format_map(schema.words) if schema.words else statement, ())

    if schema.first:
        carry_out(schema.first)
    rows = run(f"SELECT version FROM {table}" if table else _PRAGMA, ())  # noqa: S608
    version = int(rows[0][0]) if rows else 0
    if version not in (0, _VERSION):
        raise StorageError(f"{schema.what} version {version} and this Tacit reads version {_VERSION} alone")
    if version == _VERSION:
        return
    for statement in schema.statements:
        carry_out(statement)
    run(f"INSERT INTO {table} VALUES ({_VERSION})" if table else f"{_PRAGMA} = {_VERSION}", ())  # noqa: S608


_CHUNK: Final = 1000
_AHEAD: Final = 32
_ENTRIES: Final = (
    "SELECT e.seq, e.body, p.hash, e.hash FROM entries AS e LEFT JOIN entries AS p ON p.seq = e.seq - 1 WHERE "
)
_NAMES: Final = "SELECT space, key, seq FROM names WHERE "
_IN_ORDER: Final = " ORDER BY space, key LIMIT ?"


class TableReader:
    """The reader protocol on the tables of a database.

    Args:
        rows: returns all rows of a statement.
        still: whether the database does not change while this reader is in use.
    """

    #: The columns that :meth:`_balance` reads.
    _columns: ClassVar[str] = "account, owner, currency, spent, cap"

    def __init__(self, rows: Run, *, still: bool = False) -> None:
        self._rows = rows
        self._still = still
        self._ahead: dict[tuple[int, str], bytes] = {}

    def _balance(self, row: Sequence[Any]) -> BalanceState:
        return BalanceState(BalanceKey(*row[:3]), int(row[3]), None if row[4] is None else int(row[4]))

    def head(self) -> Head:
        rows = self._rows("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1", ())
        return Head(rows[0][0], rows[0][1].hex()) if rows else GENESIS

    def find(self, name: Name) -> int | None:
        rows = self._rows(_NAMES + "space = ? AND key = ?", name)
        return rows[0][2] if rows else None

    def entry(self, seq: int) -> Stored | None:
        rows = self._rows(_ENTRIES + "e.seq = ?", (seq,))
        return _stored(rows[0]) if rows else None

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        known = self.entry(after)
        before = GENESIS.hash if after == 0 else "" if known is None else known.hash
        chunk = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
        while rows := self._rows(chunk, (after, _CHUNK)):
            for seq, body, hashed in rows:
                own = hashed.hex()
                yield Stored(seq, body, before if seq == after + 1 else "", own)
                after, before = seq, own

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        last = 2**62 if before is None else before
        while rows := self._rows(_ENTRIES + "e.seq < ? ORDER BY e.seq DESC LIMIT ?", (last, _CHUNK)):
            yield from map(_stored, rows)
            last = rows[-1][0]

    def balances(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        wanted = [("account = ?", [account])] if account is not None else []
        if owners is not None:
            # An empty list of owners is a condition that no row satisfies.
            wanted.append((f"owner IN ({', '.join('?' * len(owners)) or 'NULL'})", list(owners)))
        chosen = "WHERE " + " AND ".join(condition for condition, _ in wanted) if wanted else ""
        values = [value for _, values in wanted for value in values]
        found = f"SELECT {self._columns} FROM pockets {chosen} ORDER BY account, owner, currency"  # noqa: S608
        return tuple(map(self._balance, self._rows(found, values)))

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        only, values = ("", ()) if space is None else (" AND space = ?", (space,))
        rows = self._rows(_NAMES + "(space, key) >= ('', '')" + only + _IN_ORDER, (*values, _CHUNK))
        while rows:
            for space_of, key, seq in rows:
                yield Name(space_of, key), seq
            after = (*rows[-1][:2], *values, _CHUNK)
            rows = self._rows(_NAMES + "(space, key) > (?, ?)" + only + _IN_ORDER, after)

    def attachment(self, seq: int, name: str) -> bytes | None:
        """Return bytes stored with an entry, or None; if nothing changes, the next attachments are read ahead."""
        if not self._still:
            rows = self._rows("SELECT content FROM papers WHERE seq = ? AND name = ?", (seq, name))
            return rows[0][0] if rows else None
        if (seq, name) not in self._ahead:
            some = "SELECT seq, name, content FROM papers WHERE seq >= ? ORDER BY seq LIMIT ?"
            self._ahead = {(row[0], row[1]): row[2] for row in self._rows(some, (seq, _AHEAD))}
        return self._ahead.get((seq, name))


def _stored(row: Sequence[Any]) -> Stored:
    previous = GENESIS.hash if row[0] == 1 else "" if row[2] is None else row[2].hex()
    return Stored(row[0], row[1], previous, row[3].hex())
