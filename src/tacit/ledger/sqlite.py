"""SQLite storage of a ledger.

*Durable and fair.* See :mod:`tacit.ledger.storage.sqlite_database`.

*Group commit.* Threads that wait for the disk are served together: the thread that gets the writer carries out all
steps that are queued, in one transaction. Each step still decides on the state that the steps before it left.

*Honest.* Every row of a balance has a seal over its contents, entries are checked against the chain when they are read.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Final, Self

from tacit.ledger.disk import Disk
from tacit.ledger.protocol import (
    GENESIS,
    HEADS_BEFORE,
    AlreadyTaken,
    Appended,
    BalanceKey,
    BalanceState,
    Head,
    InsufficientBudget,
    Name,
    Reader,
    RecentHeads,
    Step,
    balances_after,
    link,
)
from tacit.ledger.sql_reader import TableReader
from tacit.ledger.storage.database import Schema, StorageError
from tacit.ledger.storage.sqlite_database import Connect, SqliteDatabase

_APPLICATION: Final = 0x74616369  # "taci"
_LARGEST_BATCH: Final = 256
_LAST: Final = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT ?"

_TABLES: Final = (
    """
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY,
        body TEXT NOT NULL,
        hash BLOB NOT NULL
    ) STRICT
    """,
    # spent and cap are whole grains in decimal text: they outgrow 64 bits. The seal finds flipped bits.
    """
    CREATE TABLE pockets (
        account TEXT NOT NULL,
        owner TEXT NOT NULL,
        currency TEXT NOT NULL,
        spent TEXT NOT NULL,
        cap TEXT,
        seq INTEGER NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (account, owner, currency)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE names (
        space TEXT NOT NULL,
        key TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (space, key)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE papers (
        seq INTEGER NOT NULL,
        name TEXT NOT NULL,
        content BLOB NOT NULL,
        PRIMARY KEY (seq, name)
    ) STRICT
    """,
    """
    CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END
    """,
    """
    CREATE TRIGGER entries_remain BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END
    """,
)

_Result = Appended | AlreadyTaken | InsufficientBudget


class SealedReader(TableReader):
    """The reader protocol on tables whose balances have seals."""

    _columns: ClassVar[str] = "account, owner, currency, spent, cap, seq, seal"

    def _balance(self, row: Sequence[Any]) -> BalanceState:
        if _seal(tuple(row[:6])) != row[6]:
            raise StorageError(f"what is kept of {row[2]} of {row[0]} is damaged: its seal does not fit")
        return super()._balance(row)


def _sealed(state: BalanceState, seq: int) -> tuple[Any, ...]:
    """The row of a balance, with a checksum over it."""
    row = (*state.key, str(state.spent), None if state.cap is None else str(state.cap), seq)
    return (*row, _seal(row))


def _seal(row: tuple[Any, ...]) -> bytes:
    return hashlib.sha256(repr(row).encode()).digest()[:8]


class _Ticket:
    """A step in the queue, and later what became of it."""

    __slots__ = ("problem", "result", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.result: _Result | None = None
        self.problem: Exception | None = None

    @property
    def done(self) -> bool:
        return self.result is not None or self.problem is not None


class SqliteStore(SealedReader):
    """The store protocol on a SQLite file; any number of threads and processes."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database.read)
        self._database = database
        self._queue: deque[_Ticket] = deque()

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        create: bool = True,
        connect: Connect | None = None,
        disk: Disk | None = None,
    ) -> Self:
        """Open the file, making it first where there is none."""
        schema = Schema("the ledger has", _TABLES)
        made = SqliteDatabase.open(place, schema, application=_APPLICATION, create=create, connect=connect, disk=disk)
        return cls(made)

    @property
    def place(self) -> str:
        """The file, without links."""
        return str(self._database.path)

    def append(self, step: Step) -> _Result:
        """Carry out a step; see :mod:`tacit.ledger.protocol`."""
        self._database.check_process()
        ticket = _Ticket(step)
        self._queue.append(ticket)
        with self._database.writing:
            # The thread that held the writer meanwhile may have done this step along with its own.
            if not ticket.done:
                self._lead()
        if ticket.problem is not None:
            raise ticket.problem
        if ticket.result is None:
            raise StorageError("a step was left undone")
        return ticket.result

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """A second reader, in one read transaction."""
        with self._database.snapshot() as read:
            yield SealedReader(read, still=True)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _lead(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), _LARGEST_BATCH))]
        try:
            self._database.pass_gate(lambda: self._transact(batch))
        except Exception as problem:
            for ticket in batch:
                ticket.result, ticket.problem = None, problem

    def _transact(self, batch: Sequence[_Ticket]) -> None:
        with self._database.transaction(len(batch)):
            rows = self._database.writer.execute(_LAST, (HEADS_BEFORE,)).fetchall()
            heads = [Head(seq, hashed.hex()) for seq, hashed in rows]
            for ticket in batch:
                ticket.result = self._carry_out(ticket.step, heads[0] if heads else GENESIS)
                if isinstance(ticket.result, Appended):
                    heads.insert(0, ticket.result.head)
        if heads:
            newest = RecentHeads.of(heads[0], [head.hash for head in heads[1:]])
            for ticket in batch:
                if isinstance(ticket.result, Appended):
                    ticket.result = ticket.result._replace(newest=newest)

    def _carry_out(self, step: Step, head: Head) -> _Result:
        taken = self._taken((*step.bars, *step.claims))
        if taken is not None:
            return taken
        held = self._held([cap.key for cap in step.caps] + [move.key for move in step.moves])
        changed, short = balances_after(step, held)
        if short:
            return InsufficientBudget(short)
        placed = Head(head.seq + 1, link(head.hash, step.body))
        self._put(step, changed.values(), placed)
        return Appended(placed, head.hash, RecentHeads(placed))

    def _taken(self, names: Sequence[Name]) -> AlreadyTaken | None:
        if not names:
            return None
        one = "SELECT space, key, seq FROM names WHERE space = ? AND key = ?"
        values = [part for name in names for part in name]
        rows = self._database.writer.execute(_union(one, len(names)), values).fetchall()
        found = {Name(space, key): seq for space, key, seq in rows}
        return next((AlreadyTaken(name, found[name]) for name in names if name in found), None)

    def _held(self, keys: Sequence[BalanceKey]) -> dict[BalanceKey, BalanceState]:
        if not keys:
            return {}
        one = f"SELECT {self._columns} FROM pockets WHERE account = ? AND owner = ? AND currency = ?"  # noqa: S608
        values = [part for key in keys for part in key]
        rows = self._database.writer.execute(_union(one, len(keys)), values).fetchall()
        return {state.key: state for state in map(self._balance, rows)}

    def _put(self, step: Step, states: Collection[BalanceState], head: Head) -> None:
        run, each = self._database.writer.execute, self._database.writer.executemany
        run("INSERT INTO entries VALUES (?, ?, ?)", (head.seq, step.body, bytes.fromhex(head.hash)))
        if states:
            rows = [_sealed(state, head.seq) for state in states]
            each("INSERT OR REPLACE INTO pockets VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        if step.claims or step.puts:
            names = [(*name, head.seq) for name in (*step.claims, *step.puts)]
            each("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", names)
        if step.drops:
            each("DELETE FROM names WHERE space = ? AND key = ?", step.drops)
        if step.attachments:
            each("INSERT INTO papers VALUES (?, ?, ?)", [(head.seq, *pair) for pair in step.attachments.items()])


@cache
def _union(select: str, count: int) -> str:
    """Several look-ups in one statement, each by the index; SQLite scans the table for ``IN (VALUES …)``."""
    return " UNION ALL ".join([select] * count)
