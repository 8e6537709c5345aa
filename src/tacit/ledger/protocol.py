"""Storage protocol of a ledger: one atomic durable step, and reads.

Everything that ever changes a ledger is a :class:`Step`: one entry for the chain, together with what it moves and the
names it takes. A store carries out a step *whole and durably* or not at all:

1. every name in ``bars`` and ``claims`` must be free, else :class:`AlreadyTaken` (the first that is not, in that
   order);
2. every balance in ``moves`` must hold ``spent + amount <= cap``, else :class:`InsufficientBudget` with all that do
   not; a balance without a cap always does; an unknown balance is made without one if the move says ``opens``;
3. the entry is put after the head: ``hash = sha256(previous hash || sha256(body))``, and caps, moves, names and
   attachments are written with it; all of that is on disk before :meth:`Store.append` returns :class:`Appended`.

Steps of all threads, processes and machines happen one after the other. Nothing is ever deleted but the names in
``drops``. A store decides nothing else: what the names mean is the ledger's business, so PostgreSQL can do a step in
one statement and SQLite in one short transaction.

A store raises :class:`StorageError` for every failure of the database or the disk, and for impossible contents: after
that it is unknown what was written, and the ledger stops. :class:`StoreBusy` is the one exception: the store guarantees
that nothing was written.

*Grains.* Amounts are whole numbers of grains, 1/:data:`GRAINS` of a unit of any currency. 10²⁴ makes decimal prices
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
    """A price in grains, rounded up: never less than the price, and never nothing for something."""
    if not isinstance(price, Fraction):
        raise AccountingError("an infinite cost cannot be charged")
    return -(-price.numerator * GRAINS // price.denominator)


def to_grain(price: Fraction) -> Fraction:
    """A price as it is charged: the smallest whole number of grains that is not below it."""
    return from_grains(grains_up(price))


def grains_down(cap: Fraction) -> int:
    """A cap in grains, rounded down: never more than the cap."""
    return cap.numerator * GRAINS // cap.denominator


def from_grains(grains: int) -> Fraction:
    """The exact amount."""
    return Fraction(grains, GRAINS)


def link(previous: str, body: str) -> str:
    """The hash of an entry after the one with hash ``previous``: sha256(previous || sha256(body)), in hexadecimal."""
    inner = hashlib.sha256(body.encode("ascii")).digest()
    return hashlib.sha256(bytes.fromhex(previous) + inner).hexdigest()


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


class Head(NamedTuple):
    """The place of an entry, counted from 1, and its hash in hexadecimal."""

    seq: int
    hash: str


#: The head of a ledger without entries.
GENESIS: Final = Head(0, "0" * 64)

#: Hashes before the newest entry that are told along with it.
HEADS_BEFORE: Final = 9
#: Digits of a hash that tell one history from another among recent heads.
_SHORT: Final = 32


class RecentHeads(NamedTuple):
    """An entry, and the beginnings of the hashes before it, newest first: enough to see what its history holds."""

    head: Head
    before: tuple[str, ...] = ()

    @classmethod
    def of(cls, head: Head, hashes: Sequence[str]) -> RecentHeads:
        """The recent heads of an entry, from whole hashes."""
        return cls(head, tuple([hashed[:_SHORT] for hashed in hashes]))

    def has(self, other: Head) -> bool:
        """Whether an entry is known to be this one, or one before it; a list that is too short does not know."""
        back = self.head.seq - other.seq
        if back == 0 or other.seq == 0:
            return back >= 0 and (other.seq == 0 or self.head.hash == other.hash)
        return 0 < back <= len(self.before) and self.before[back - 1] == other.hash[:_SHORT]


class OtherHistoryError(StorageError):
    """The remembered entry is not in the ledger; in words that follow the ledger's name."""


#: Whether an entry is in the ledger; asked where the recent heads are too short to tell.
Holds = Callable[[Head], bool]


def onwards(known: RecentHeads, own: Head, newest: RecentHeads, holds: Holds) -> RecentHeads:
    """The next mark of an anchor that remembers ``known``: one whose history holds ``own`` and ``known``.

    The entry ``own`` is in the ledger; so every entry there that is not older has it in its history.
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
    """Something that one entry at a time stands for: ``("account", "patients")``."""

    space: str
    key: str


class BalanceKey(NamedTuple):
    """One running sum of an account in a currency: of the population (``owner`` empty), an analyst or a project."""

    account: str
    owner: str
    currency: str


class BalanceState(NamedTuple):
    """A running sum and its cap, in grains; ``cap`` is ``None`` where nothing was fixed."""

    key: BalanceKey
    spent: int
    cap: int | None


class BalanceChange(NamedTuple):
    """Add ``amount`` grains to a balance."""

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
        body: the entry, canonical JSON in ASCII; nothing in it depends on its place.
        moves: what is charged.
        caps: caps that are fixed from here on.
        claims: names that must be free and stand for this entry afterwards.
        bars: names that must be free.
        puts: names that stand for this entry afterwards, in place of another one or none.
        drops: names that are free afterwards.
        attachments: bytes kept beside the entry; the body holds their digests.
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
    """The balances that a step changes, as they are afterwards, and those that do not have enough left for it.

    Args:
        step: the change.
        held: all balances that it names and that exist.

    Raises:
        StorageError: it moves a balance that does not exist, and may not open it.
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

    ``newest`` is an entry that is durable as well, this one or one that was put after it meanwhile, with recent heads
    that reach back to this one and some entries further.
    """

    head: Head
    previous: str
    newest: RecentHeads


class AlreadyTaken(NamedTuple):
    """Nothing was changed: the name stands for an entry already."""

    name: Name
    seq: int


class InsufficientBudget(NamedTuple):
    """Nothing was changed: these balances do not have enough left."""

    balances: tuple[BalanceState, ...]


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
    """Read access. Every method may be called from several threads at once."""

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

    def balances(self, account: str | None = None, owners: Sequence[str] | None = None) -> tuple[BalanceState, ...]:
        """Balances at one moment, sorted; of one account and of some owners, or of all."""

    def names(self, space: str | None = None) -> Iterator[tuple[Name, int]]:
        """Names with their entries, sorted; of one space, or of all."""

    def attachment(self, seq: int, name: str) -> bytes | None:
        """Bytes kept beside an entry."""


class Store(Reader, Protocol):
    """A database that holds one ledger."""

    @property
    def place(self) -> str:
        """Its location, for people and for the anchor; without passwords."""

    def append(self, step: Step) -> Appended | AlreadyTaken | InsufficientBudget:
        """Carry out a step, durably, or change nothing."""

    def snapshot(self) -> AbstractContextManager[Reader]:
        """Yield a reader of the state at one moment, however long it is read."""

    def close(self) -> None:
        """Give everything back."""
