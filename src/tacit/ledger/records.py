"""Records of the ledger, terms of an account, the price of a charge under them, and sentences about both.

An account's rule is one of the filters that add up each currency and compare it with a cap. A charge is written down
as an *event*, also where it was stated as a guarantee, so that anyone can price it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tacit.accounting.currencies import CURRENCIES, AccountGuarantee, currency_of
from tacit.accounting.filters import Filter, Line, RenyiFilter
from tacit.accounting.prices import Charge, HasEvent, HasGuarantee
from tacit.core.errors import AccountingError, InputError
from tacit.core.events import Event, event_from_json, event_to_json
from tacit.core.guarantees import ApproxDP, Guarantee, PureDP
from tacit.core.numbers import Number, exact_nonnegative, format_up, round_down
from tacit.ledger.protocol import BalanceState, Head, from_grains, grains_down, grains_up

if TYPE_CHECKING:
    from tacit.ledger.verify import Override

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
        sql: the query, for the record.
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
        typed: the epsilon that was typed, such as ``epsilon 0.5``, where the account counts something else.
        resumed: an equal order had been admitted before, without an outcome yet; this one runs under its charge.
    """

    seq: int
    hash: str
    previous: str
    population: str
    amounts: tuple[Amount, ...]
    typed: str = ""
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
        queries: how many more charges like the one given fit in all of them; ``None`` without one or if free.
    """

    population: str
    guarantee: Guarantee
    balances: tuple[Balance, ...]
    queries: int | None = None

    @property
    def lines(self) -> tuple[Line, ...]:
        """Of the population as a whole."""
        return self.balances[0].lines


@dataclass(frozen=True, slots=True)
class Record:
    """One charge of the history; ``committed`` is the place of its outcome, ``None`` while there is none.

    ``typed`` is the epsilon that was typed, such as ``epsilon 0.5``, where the account counts something else.
    """

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
    typed: str = ""

    @property
    def failed(self) -> bool:
        """Whether its run failed, for good."""
        return self.digest == FAILED_DIGEST

    @property
    def answered(self) -> bool:
        """Whether something was released under it."""
        return self.committed is not None and not self.failed

    @property
    def undelivered(self) -> bool:
        """Whether it was paid for and has no outcome: its run goes on, or its process died."""
        return self.committed is None and any(each.amount for each in self.amounts)


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


#: By rule: the filter and the parameters that fix it.
_RULES: dict[str, tuple[type[Filter], tuple[str, ...]]] = {
    **{kind: (currency.filter_type, currency.numbers) for kind, currency in CURRENCIES.items()},
    "renyi": (RenyiFilter, ("alpha", "epsilon")),
}


class PricedCharge(NamedTuple):
    """A charge as it is written down: the event and, by currency, what it costs in grains."""

    event: str
    amounts: Mapping[str, int]


def terms_of(limit: Filter) -> dict[str, Any]:
    """Rule, relation and parameters of a filter, as JSON."""
    for rule, (kind, parameters) in _RULES.items():
        if type(limit) is kind:
            stated = {name: str(getattr(limit, name)) for name in parameters}
            return {"rule": rule, "relation": limit.relation.value, "parameters": stated}
    raise InputError(
        "limit", f"a ledger keeps sums with caps ({', '.join(_RULES)}); {type(limit).__name__} is another rule"
    )


def filter_from_terms(terms: Mapping[str, Any]) -> Filter:
    """The empty filter that :func:`terms_of` wrote down."""
    kind, parameters = _RULES[terms["rule"]]
    values = {name: Fraction(terms["parameters"][name]) for name in parameters}
    return kind(**values, relation=terms["relation"])  # type: ignore[arg-type]


def caps_of(limit: Filter) -> dict[str, int]:
    """The caps of a filter by currency, in grains, rounded down."""
    return {line.currency: grains_down(line.cap) for line in limit.lines}


def price(limit: Filter, charge: Charge) -> PricedCharge:
    """Price of a charge under a filter, and the event that says why.

    A mechanism states an event and a guarantee; the cheaper one is written down, as :meth:`Filter.price` prefers it.
    """
    best: PricedCharge | None = None
    for event in _events(charge):
        try:
            costs = limit.price(event)
        except AccountingError:
            continue
        lines = zip(limit.lines, costs, strict=True)
        priced = PricedCharge(event_to_json(event), {line.currency: grains_up(cost) for line, cost in lines})
        if best is None or _order(priced) < _order(best):
            best = priced
    if best is None:
        limit.price(charge)  # raises, with the words for it
        raise AccountingError("the charge cannot be written down as an event; charge a guarantee that it implies")
    return best


def _order(priced: PricedCharge) -> tuple[int, int]:
    """All are valid; what costs no δ of its own is preferred."""
    first = next(iter(priced.amounts.values()))
    return priced.amounts.get("delta", 0), first


def _events(charge: Charge) -> list[Event]:
    if isinstance(charge, Event):
        return [charge]
    if isinstance(charge, Guarantee):
        return _stated(charge)
    found: list[Event] = [charge.event] if isinstance(charge, HasEvent) else []
    return found + (_stated(charge.guarantee) if isinstance(charge, HasGuarantee) else [])


def _stated(guarantee: Guarantee) -> list[Event]:
    """The event of which nothing is known but the guarantee."""
    if not isinstance(guarantee, AccountGuarantee):
        return []
    if isinstance(guarantee, ApproxDP) and not guarantee.delta:
        guarantee = PureDP(guarantee.epsilon, relation=guarantee.relation)
    return [currency_of(guarantee).event(guarantee)]


def check_readable(priced: PricedCharge) -> None:
    """Refuse numbers with too many digits before they are kept: verification must be able to read them again."""
    try:
        event_from_json(priced.event)
    except InputError:
        raise InputError("charge", "its numbers have too many digits to be kept; state fewer") from None


def stated_caps(limit: Filter, caps: Mapping[str, Number]) -> dict[str, str | None]:
    """Caps of a share of an account by currency, as text rounded down; None where none is stated.

    Raises:
        InputError: a currency is not one of the account.
    """
    currencies = [line.currency for line in limit.lines]
    for currency in caps:
        if currency not in currencies:
            raise InputError(currency, f"is not what this account counts: {', '.join(currencies)}")
    exact = {c: from_grains(grains_down(exact_nonnegative(cap, c))) for c, cap in caps.items()}
    return {c: str(exact[c]) if c in exact else None for c in currencies}


def budget(
    limit: Filter, population: str, owners: Sequence[str], states: Sequence[BalanceState], priced: PricedCharge | None
) -> LedgerBudget:
    """The balances of an account and of the shares asked for."""
    held = {(state.key.owner, state.key.currency): state for state in states}
    balances = tuple(_balance(limit, owner, held) for owner in owners)
    queries = None if priced is None else queries_left(states, priced)
    return LedgerBudget(population, limit.guarantee, balances, queries)


def _balance(limit: Filter, owner: str, held: Mapping[tuple[str, str], BalanceState]) -> Balance:
    lines, limited = [], False
    for line in limit.lines:
        whole, share = held.get(("", line.currency)), held.get((owner, line.currency))
        limited = limited or (share is not None and share.cap is not None)
        cap = share.cap if share is not None and share.cap is not None else None if whole is None else whole.cap
        spent = 0 if share is None else share.spent
        lines.append(Line(line.currency, from_grains(cap or 0), from_grains(spent)))
    return Balance(describe_owner(owner), limited, tuple(lines))


def queries_left(states: Sequence[BalanceState], priced: PricedCharge) -> int | None:
    """Return how many more such charges fit in all of some balances; None where nothing limits them."""
    counts = [
        max(state.cap - state.spent, 0) // priced.amounts[state.key.currency]
        for state in states
        if state.cap is not None and priced.amounts[state.key.currency]
    ]
    return min(counts, default=None)


def shortage(body: Mapping[str, Any], states: Sequence[BalanceState], limit: Filter) -> str:
    """Give the reason of a refused charge: whose budget, what it needs, what is left and what can still be asked."""
    parts = []
    least: dict[str, Fraction] = {}
    for state in states:
        cap = state.cap or 0
        left = from_grains(max(cap - state.spent, 0))
        least[state.key.currency] = min(left, least.get(state.key.currency, left))
        whose = f" for {describe_owner(state.key.owner)}" if state.key.owner else ""
        needed = format_up(Fraction(body["amounts"][state.key.currency]))
        parts.append(
            f"{state.key.currency} needs {needed} and has {_down(left)} of {_down(from_grains(cap))} left{whose}"
        )
    said = f"{body['population']}: the charge does not fit: {'; '.join(parts)}"
    # No queries are priced in Renyi accounts.
    currency = None if isinstance(limit, RenyiFilter) else currency_of(limit)
    largest = None if currency is None else currency.largest_query(least, limit.guarantee)
    if largest is None:
        return said
    # Rounded down to three digits, so that a query of that epsilon is not refused for the rounding.
    epsilon = format_up(round_down(largest.epsilon, 3))
    return f"{said}; epsilon {epsilon} at delta {format_up(largest.delta)} is about the most that a query can have"


def describe_amounts(amounts: Mapping[str, str]) -> str:
    """Such as ``epsilon 0.5, delta 1e-06``; what is zero is left out."""
    parts = ((currency, Fraction(text)) for currency, text in amounts.items())
    return ", ".join(f"{currency} {format_up(amount)}" for currency, amount in parts if amount) or "nothing"


def describe_owner(owner: str) -> str:
    """Such as ``analyst alice``."""
    return owner.replace(":", " ", 1) if owner else "population"


def describe_terms(terms: Mapping[str, Any]) -> str:
    """Such as ``pure, epsilon 4 (add_remove)``."""
    parts = (f"{name} {_down(Fraction(value))}" for name, value in terms["parameters"].items())
    return f"{terms['rule']}, {', '.join(parts)} ({terms['relation']})"


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
