"""Storage protocol of a ledger: one atomic durable step, and reads.

Every change of a ledger is a :class:`Step`: one entry for the chain, together with the balances it changes and the
names it takes. A store carries out a step *whole and durably* or not at all:

1. every name in ``bars`` and ``claims`` must be free, else :class:`AlreadyTaken` (with the first taken name in that
   order);
2. every balance in ``moves`` must satisfy ``spent + amount <= cap``, else :class:`InsufficientBudget` with all that do
   not; a balance without a cap always does; an unknown balance is made without a cap if the move says ``opens``;
3. the entry is put after the head: ``hash = sha256(previous hash || sha256(body))``, and caps, moves, names and
   attachments are written with it; all of that is on disk before :meth:`Store.append` returns :class:`Appended`.

Steps of all threads, processes and machines happen one after the other. Nothing is ever deleted but the names in
``drops``. A store decides nothing else: the ledger gives the names their meaning, so PostgreSQL can do a step in
one statement and SQLite in one short transaction.

A store raises :class:`StorageError` for every failure of the database or the disk, and for impossible contents: after
that it is unknown what was written, and the ledger stops. :class:`StoreBusy` is the one exception: the store guarantees
that nothing was written.

*Grains.* Amounts are whole numbers of grains, 1/:data:`GRAINS` of a unit of any currency. 10²⁴ makes decimal costs
exact to 24 places, and the square of the least common multiple of 1 … 32 makes simple fractions and their squares exact
too: three charges of ε = 1/3 fill a cap of 1. An amount between two grains is rounded up where it is spent and down
where it is a cap.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from tacit.core.divergences import Extended
from tacit.core.errors import AccountingError
from tacit.ledger.errors import StorageError

GRAINS: Final = 10**24 * math.lcm(*range(1, 33)) ** 2


def grains_up(price: Extended) -> int:
    """Return a cost in grains, rounded up: never less than the cost, and positive if the cost is."""
    if not isinstance(price, Fraction):
        raise AccountingError("an infinite cost cannot be charged")
    return -(-price.numerator * GRAINS // price.denominator)


def to_grain(price: Fraction) -> Fraction:
    """Return the amount charged for a cost: the smallest whole number of grains that is not below it, as a fraction."""
    return from_grains(grains_up(price))


def grains_down(cap: Fraction) -> int:
    """Return a cap in grains, rounded down."""
    return cap.numerator * GRAINS // cap.denominator


def from_grains(grains: int) -> Fraction:
    """Return the exact amount in units of the currency."""
    return Fraction(grains, GRAINS)


def link(previous: str, body: str) -> str:
    """Return the hash of an entry: sha256(previous || sha256(body)), in hexadecimal.

    ``previous`` is the hash of the entry before it.
    """
    inner = hashlib.sha256(body.encode("ascii")).digest()
    return hashlib.sha256(bytes.fromhex(previous) + inner).hexdigest()


def digest(content: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


class Head(NamedTuple):
    """The number of an entry, counted from 1, and its hash in hexadecimal."""

    seq: int
    hash: str


#: The head of a ledger without entries.
GENESIS: Final = Head(0, "0" * 64)

#: Number of earlier hashes that are returned with the newest entry.
HEADS_BEFORE: Final = 9
#: Number of leading hexadecimal digits of a hash that recent heads keep.
_SHORT: Final = 32


class RecentHeads(NamedTuple):
    """An entry, and the first digits of the hashes of the entries before it, newest first."""

    head: Head
    before: tuple[str, ...] = ()

    @classmethod
    def of(cls, head: Head, hashes: Sequence[str]) -> RecentHeads:
        """Return the recent heads of an entry, from whole hashes."""
        return cls(head, tuple([hashed[:_SHORT] for hashed in hashes]))

    def has(self, other: Head) -> bool:
        """Return whether ``other`` is known to be this entry or an earlier one; False beyond the end of the list."""
        back = self.head.seq - other.seq
        if back == 0 or other.seq == 0:
            return back >= 0 and (other.seq == 0 or self.head.hash == other.hash)
        return 0 < back <= len(self.before) and self.before[back - 1] == other.hash[:_SHORT]


class OtherHistoryError(StorageError):
    """The entry that the anchor remembers is not in the ledger. The message continues the ledger's name."""


#: Returns whether an entry is in the ledger; called where the recent heads are too short to decide.
Holds = Callable[[Head], bool]


def onwards(known: RecentHeads, own: Head, newest: RecentHeads, holds: Holds) -> RecentHeads:
    """Return the next mark of an anchor that remembers ``known``: one whose history holds ``own`` and ``known``.

    The entry ``own`` is in the ledger, and so every entry of the ledger that is not older has it in its history.

    Raises:
        OtherHistoryError: the entry that the anchor remembers is not in the ledger.
    """
    if known.head.seq < newest.head.seq:
        if (newest.has(known.head) or holds(known.head)) and (newest.has(own) or holds(newest.head)):
            return newest
    elif known.has(own) or holds(known.head):
        return known
    raise OtherHistoryError(
        f"is not the only copy, or was put back: its anchor remembers entry {known.head.seq} "
        f"({known.head.hash[:16]}…), which is not in it"
    )


class Name(NamedTuple):
    """A key of the index, which maps it to at most one entry at a time: ``("account", "patients")``."""

    space: str
    key: str


class BalanceKey(NamedTuple):
    """Key of one running sum of an account in a currency: of the population (``owner`` empty), or of a share of it."""

    account: str
    owner: str
    currency: str


class BalanceState(NamedTuple):
    """A running sum and its cap, in grains; ``cap`` is ``None`` for a balance without one."""

    key: BalanceKey
    spent: int
    cap: int | None


class BalanceChange(NamedTuple):
    """Add ``amount`` grains to a balance; with ``opens``, an unknown balance is made, without a cap."""

    key: BalanceKey
    amount: int
    opens: bool = False


class Cap(NamedTuple):
    """Fix the cap of a balance, making it where there is none. The spent amount stays."""

    key: BalanceKey
    cap: int | None


class Step(NamedTuple):
    """One change of the ledger.

    Args:
        body: the entry, canonical JSON in ASCII; it does not depend on its place in the chain.
        moves: amounts added to balances.
        caps: caps that hold from here on.
        claims: names that must be free and stand for this entry afterwards.
        bars: names that must be free.
        puts: names that stand for this entry afterwards, whether they stood for another one or were free.
        drops: names that are free afterwards.
        attachments: bytes stored with the entry; the body holds their digests.
    """

    body: str
    moves: Sequence[BalanceChange] = ()
    caps: Sequence[Cap] = ()
    claims: Sequence[Name] = ()
    bars: Sequence[Name] = ()
    puts: Sequence[Name] = ()
    drops: Sequence[Name] = ()
    attachments: Mapping[str, bytes] = MappingProxyType({})


def balances_after(
    step: Step, held: Mapping[BalanceKey, BalanceState]
) -> tuple[dict[BalanceKey, BalanceState], tuple[BalanceState, ...]]:
    """Return the balances that a step changes, as they are afterwards, and those that do not have enough left for it.

    Args:
        step: the change.
        held: the existing balances among those that the step names.

    Raises:
        StorageError: the step changes a balance that does not exist, and may not open it.
    """
    after = {key: BalanceState(key, held[key].spent if key in held else 0, cap) for key, cap in step.caps}
    short = []
    for key, amount, opens in step.moves:
        if key not in held and not opens:
            raise StorageError(f"the balance {'/'.join(key)} is gone")
        state = held.get(key, BalanceState(key, 0, None))
        after[key] = BalanceState(key, state.spent + amount, state.cap)
        if state.cap is not None and state.spent + amount > state.cap:
            short.append(state)
    return after, tuple(short)


class Appended(NamedTuple):
    """The step was carried out, and is durable.

    ``newest`` is the newest durable entry that the store knows of, this one or a later one, with recent heads that
    reach back to this one and some entries further.
    """

    head: Head
    previous: str
    newest: RecentHeads


class AlreadyTaken(NamedTuple):
    """Nothing was changed: ``name`` already stands for entry ``seq``."""

    name: Name
    seq: int


class InsufficientBudget(NamedTuple):
    """Nothing was changed: these balances do not have enough left."""

    balances: tuple[BalanceState, ...]


class Stored(NamedTuple):
    """An entry as it is stored; ``previous`` is the hash stored with the entry before it."""

    seq: int
    body: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        return Head(self.seq, self.hash)


class Reader(Protocol):
    """Read access. Every method may be called from several threads at once."""

    def head(self) -> Head:
        """Return the number and hash of the last entry; :data:`GENESIS` when there is none."""

    def find(self, name: Name) -> int | None:
        """Return the number of the entry that a name stands for; None if the name is free."""

    def entry(self, seq: int) -> Stored | None:
        """Return the entry with this number, or None."""

    def entries(self, *, after: int = 0) -> Iterator[Stored]:
        """Iterate over the entries in order, streaming; other processes may append meanwhile."""

    def entries_down(self, *, before: int | None = None) -> Iterator[Stored]:
        """Iterate over the entries from the newest to the oldest, streaming."""

    def balances(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        """Return balances at one moment, sorted: of one account and of some owners, or all."""

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Iterate over names and the numbers of their entries, sorted: of one space, or all."""

    def attachment(self, seq: int, name: str) -> bytes | None:
        """Return bytes that are stored with an entry, or None."""


class Store(Reader, Protocol):
    """A database that holds one ledger."""

    @property
    def place(self) -> str:
        """Location of the database without passwords, for messages and for the anchor."""

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step durably, or change nothing."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Yield a reader of the state at one moment, for as long as it is open."""

    def close(self) -> None:
        """Close all connections and files."""
