"""Records that go into and come out of the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tacit.accounting.filters import Line
from tacit.accounting.prices import Charge
from tacit.core.guarantees import Guarantee
from tacit.core.numbers import format_up
from tacit.ledger.protocol import Head

if TYPE_CHECKING:
    from tacit.ledger.operator_entries import Override

__all__ = [
    "FAILED",
    "FAILED_DIGEST",
    "Amount",
    "Analyst",
    "Balance",
    "LedgerBudget",
    "Order",
    "Outcome",
    "Record",
    "Reservation",
    "Succession",
    "VerificationReport",
]

#: The result of a run that failed: one text for all failures, so that a receipt with its digest says so.
FAILED: Final = b'{"format":"tacit-failed","version":1}'
FAILED_DIGEST: Final = hashlib.sha256(FAILED).hexdigest()


class Amount(NamedTuple):
    """So much of one currency."""

    currency: str
    amount: Fraction

    def __str__(self) -> str:
        return f"{self.currency} {format_up(self.amount)}"


@dataclass(frozen=True, slots=True)
class Order:
    """A request to authorise one charge.

    Args:
        population: whose budget.
        charge: an event, a guarantee or a mechanism; priced by the account's filter.
        analyst: who asks; what they spend is counted, and limited where a quota was set.
        project: for what; counted and limited likewise.
        conversation: with an assistant, in which the analyst asks; its share was fixed before.
        sql: the question, for the record.
        plan: digest of the plan.
        quote: anything more about what will be released: plain JSON, integers and text, no floats.
        repeat_key: names the release (plan, parameters, data version). A second order with the same key costs nothing.
        idempotency_key: chosen by the analyst; a second order with the same key is the same order.
        request: digest of the whole request, compared when an idempotency key comes again.
    """

    population: str
    charge: Charge
    analyst: str = ""
    project: str = ""
    conversation: str = ""
    sql: str = ""
    plan: str = ""
    quote: Mapping[str, Any] = field(default_factory=dict)
    repeat_key: str = ""
    idempotency_key: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A durable charge. It counts from here on, whether or not an answer ever exists.

    Args:
        seq: its place in the ledger.
        hash: of its entry in the chain.
        previous: hash of the entry before it.
        population: whose budget.
        amounts: what was charged.
        resumed: an equal order had been admitted before, without an outcome yet; this one runs under its charge.
    """

    seq: int
    hash: str
    previous: str
    population: str
    amounts: tuple[Amount, ...]
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The release under a reservation: exactly these bytes, for every caller and every repeat.

    Args:
        reservation: the charge it was released under.
        seq: place of the commit.
        digest: SHA-256 of ``result``, in hexadecimal; it stands in the chain.
        result: the released bytes.
        receipt: bytes of the receipt.
        repeated: whether this call charged nothing because the release existed before.
        key: the public key in force at ``seq``, with which the receipt was signed; empty where nothing was.
    """

    reservation: Reservation
    seq: int
    digest: str
    result: bytes
    receipt: bytes
    repeated: bool = False
    key: str = ""

    @property
    def failed(self) -> bool:
        """Whether the run failed: nothing was released, and nothing will be under this charge."""
        return self.digest == FAILED_DIGEST


@dataclass(frozen=True)
class Balance:
    """One balance of an account: the population's own, an analyst's or a project's share.

    Args:
        owner: ``"population"``, ``"analyst alice"`` or ``"project x"``.
        limited: whether it has caps of its own; without, ``lines`` show the population's.
        lines: cap and consumption of each currency.
    """

    owner: str
    limited: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class LedgerBudget:
    """The state of an account, as one analyst in one project meets it.

    Args:
        population: whose.
        guarantee: what holds for everything ever released about the population.
        balances: the population's first, then the analyst's and the project's where asked for.
        questions: how many more charges like the one given fit in all of them; ``None`` without one or if free.
    """

    population: str
    guarantee: Guarantee
    balances: tuple[Balance, ...]
    questions: int | None = None

    @property
    def lines(self) -> tuple[Line, ...]:
        """Of the population as a whole."""
        return self.balances[0].lines


@dataclass(frozen=True, slots=True)
class Record:
    """One charge of the history; ``committed`` is the place of its outcome, ``None`` while there is none."""

    seq: int
    hash: str
    time: str
    population: str
    analyst: str
    project: str
    amounts: tuple[Amount, ...]
    sql: str
    plan: str
    committed: int | None
    digest: str

    @property
    def failed(self) -> bool:
        """Whether its run failed, for good."""
        return self.digest == FAILED_DIGEST

    @property
    def answered(self) -> bool:
        """Whether something was released under it."""
        return self.committed is not None and not self.failed


@dataclass(frozen=True, slots=True)
class Analyst:
    """Someone who may ask; never deleted, only revoked."""

    name: str
    active: bool
    details: Mapping[str, Any]
    since: int


@dataclass(frozen=True, slots=True)
class Succession:
    """One key that signs receipts replaced by another, for good.

    Args:
        seq: place of the entry; what is committed after it is signed with the new key.
        time: for people.
        previous: the public key that was replaced.
        public_key: the new one.
        signature: of both keys' names by the old key; empty where it was lost: trust in that key cannot be followed.
        accepted: the same by the new key.
        operator: who did it.
        reason: why.
        key_check: recognises the other secrets from here on; empty where they stayed the same.
    """

    seq: int
    time: str
    previous: str
    public_key: str
    signature: str
    accepted: str
    operator: str
    reason: str
    key_check: str = ""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """Findings of a full verification.

    Args:
        ledger: id of the ledger.
        entries: how many were read.
        head: of the chain, recomputed.
        charges: reservations among the entries.
        outcomes: commits among them, each compared with the stored bytes.
        problems: what is wrong, in words; empty for a ledger that is whole.
        changes: what was changed about who is protected and how, in words; nothing is wrong with them.
        overrides: what operators decided: nothing wrong, and nothing to overlook.
        failures: commits among them that say that the run failed and nothing was released.
    """

    ledger: str
    entries: int
    head: Head
    charges: int
    outcomes: int
    problems: tuple[str, ...]
    changes: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    failures: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems
