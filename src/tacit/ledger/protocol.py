"""Storage protocol of a ledger: one atomic durable step, and reads.

Everything that ever changes a ledger is a :class:`Step`: one entry for the chain, together with what it moves and the
names it takes. A store carries out a step *whole and durably* or not at all:

1. every name in ``bars`` and ``claims`` must be free, else :class:`AlreadyTaken` (the first that is not, in that
order);
2. every pocket in ``moves`` must hold ``spent + amount <= cap``, else :class:`InsufficientBudget` with all that do
not; a pocket
   without a cap always does; an unknown pocket is made without one if the move says ``opens``;
3. the entry is put after the head: ``hash = sha256(previous hash || sha256(body))``, and caps, moves, names and papers
   are written with it; all of that is on disk before :meth:`Store.append` returns :class:`Appended`.

Steps of all threads, processes and machines happen one after the other. Nothing is ever deleted but the names in
``drops``. A store decides nothing else: what the names mean is the ledger's business, so PostgreSQL can do a step in
one statement and SQLite in one short transaction.

A store raises :class:`StorageError` for whatever the database or the disk says, and for contents that cannot be:
after that nobody knows what was written, and the ledger stops. :class:`StoreBusy` is the one exception: the store
guarantees that nothing was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

__all__ = [
    "GENESIS",
    "TRAIL",
    "AlreadyTaken",
    "Appended",
    "BalanceChange",
    "BalanceKey",
    "BalanceState",
    "Cap",
    "Head",
    "InsufficientBudget",
    "Name",
    "Reader",
    "RecentHeads",
    "Step",
    "StorageError",
    "Store",
    "StoreBusy",
    "Stored",
]


class StorageError(Exception):
    """The database or the disk failed, or holds what cannot be; the ledger stops."""


class StoreBusy(Exception):  # noqa: N818  (not an error: nothing happened)
    """Someone else held the database for too long, and nothing was written."""


class Head(NamedTuple):
    """The place of an entry, counted from 1, and its hash in hexadecimal."""

    seq: int
    hash: str


#: The head of a ledger without entries.
GENESIS: Final = Head(0, "0" * 64)

#: So many entries before the newest are told along with it.
TRAIL: Final = 9
#: So many digits of a hash tell one history from another in a trail.
_SHORT: Final = 32


class RecentHeads(NamedTuple):
    """An entry, and the beginnings of the hashes before it, newest first: enough to see what its history holds."""

    head: Head
    before: tuple[str, ...] = ()

    @classmethod
    def of(cls, head: Head, hashes: Sequence[str]) -> RecentHeads:
        """The trail of an entry, from whole hashes."""
        return cls(head, tuple([hashed[:_SHORT] for hashed in hashes]))

    def has(self, other: Head) -> bool:
        """Whether an entry is known to be this one, or one before it; a trail that is too short does not know."""
        back = self.head.seq - other.seq
        if back == 0 or other.seq == 0:
            return back >= 0 and (other.seq == 0 or self.head.hash == other.hash)
        return 0 < back <= len(self.before) and self.before[back - 1] == other.hash[:_SHORT]


class Name(NamedTuple):
    """Something that one entry at a time stands for: ``("account", "patients")``."""

    space: str
    key: str


class BalanceKey(NamedTuple):
    """One running sum: of an account, of everybody (``owner`` empty) or of one analyst or project, in a currency."""

    account: str
    owner: str
    currency: str


class BalanceState(NamedTuple):
    """What a pocket holds, in grains; ``cap`` is ``None`` where nothing was fixed."""

    pocket: BalanceKey
    spent: int
    cap: int | None


class BalanceChange(NamedTuple):
    """Add ``amount`` grains to a pocket."""

    pocket: BalanceKey
    amount: int
    opens: bool = False


class Cap(NamedTuple):
    """Fix the cap of a pocket, making it where there is none. What was spent stays."""

    pocket: BalanceKey
    cap: int | None


class Step(NamedTuple):
    """One change of the ledger.

    Args:
        body: the entry, canonical JSON in ASCII; nothing in it depends on its place.
        moves: what is charged.
        caps: caps that are fixed from here on.
        claims: names that must be free and stand for this entry afterwards.
        bars: names that must be free.
        puts: names that stand for this entry afterwards, whatever they stood for.
        drops: names that are free afterwards.
        papers: bytes kept beside the entry; the body holds their digests.
    """

    body: str
    moves: Sequence[BalanceChange] = ()
    caps: Sequence[Cap] = ()
    claims: Sequence[Name] = ()
    bars: Sequence[Name] = ()
    puts: Sequence[Name] = ()
    drops: Sequence[Name] = ()
    papers: Mapping[str, bytes] = MappingProxyType({})


class Appended(NamedTuple):
    """The step was carried out, and is durable.

    ``newest`` is an entry that is durable as well, this one or one that was put after it meanwhile, with a trail that
    reaches back to this one and some entries further.
    """

    head: Head
    previous: str
    newest: RecentHeads


class AlreadyTaken(NamedTuple):
    """Nothing was changed: the name stands for an entry already."""

    name: Name
    seq: int


class InsufficientBudget(NamedTuple):
    """Nothing was changed: these pockets do not have enough left."""

    levels: tuple[BalanceState, ...]


class Stored(NamedTuple):
    """An entry as it is kept; ``previous`` is the hash that is kept with the entry before it."""

    seq: int
    body: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        """Its place and hash."""
        return Head(self.seq, self.hash)


class Reader(Protocol):
    """What can be read. Every method may be called from several threads at once."""

    def head(self) -> Head:
        """The last entry's place and hash; :data:`GENESIS` when there is none."""

    def find(self, name: Name) -> int | None:
        """The entry that a name stands for."""

    def entry(self, seq: int) -> Stored | None:
        """One entry."""

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        """Entries in order, streaming; others may append meanwhile."""

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        """Entries from the newest to the oldest, streaming."""

    def levels(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        """Pockets at one moment, sorted; of one account and of some owners where said."""

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Names with their entries, sorted; of one space where said."""

    def paper(self, seq: int, name: str) -> bytes | None:
        """Bytes kept beside an entry."""


class Store(Reader, Protocol):
    """A database that holds one ledger."""

    @property
    def place(self) -> str:
        """Where it is, for people and for the anchor; without passwords."""

    @property
    def migrated(self) -> tuple[int, int] | None:
        """The schema's version before and after, if opening has changed it."""

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step, durably, or change nothing."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Everything as it is at one moment, however long it is read."""

    def close(self) -> None:
        """Give everything back."""
