"""Records of the ledger, the terms of an account, the cost of a charge under them, and texts that describe both.

An account's rule is a filter that adds up the charges of each currency and compares the sum with a cap. A charge is
written down as an *event*, also where it was stated as a guarantee, so that anyone can compute its cost again.
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
    """An amount of privacy budget in one currency."""

    currency: str
    amount: Fraction

    def __str__(self) -> str:
        return f"{self.currency} {format_up(self.amount)}"


@dataclass(frozen=True, slots=True)
class Order:
    """A request to authorise one charge.

    Args:
        population: the population whose budget is charged.
        charge: an event, a guarantee or a mechanism; the account's filter computes its cost.
        analyst: the analyst who asks; the analyst's spending is counted, and limited where a quota was set.
        project: the project that the query belongs to, for the record.
        conversation: the analyst's conversation with an assistant; its share of the account was fixed before.
        sql: the text of the query, for the record.
        plan: digest of the query plan.
        quote: further facts about the release: plain JSON, integers and text, no floats.
        repeat_key: names the release (plan, parameters, data version). A second order with the same key is free.
        idempotency_key: chosen by the analyst; a second order with the same key is the same order.
        request: digest of the whole request, compared when an idempotency key is used again.
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
    """A durable charge. It counts as spent from here on, whether or not an answer ever exists.

    Args:
        seq: number of its entry in the ledger.
        hash: hash of its entry in the chain.
        previous: hash of the entry before it.
        population: the population whose budget was charged.
        amounts: the amounts charged, by currency.
        typed: the epsilon that the analyst typed, such as ``epsilon 0.5``, where the account counts another currency.
        resumed: whether it belongs to an equal, earlier order that has no outcome yet; the run uses that charge.
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
        seq: number of the commit entry.
        digest: SHA-256 of ``result``, in hexadecimal; the commit entry holds it, so the chain covers it.
        result: the released bytes.
        receipt: bytes of the receipt.
        repeated: whether this call charged nothing because the release existed before.
        key: the public key in force at ``seq``, with which the receipt was signed; empty if there is no signature.
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
    """The balance of one owner in an account: of the whole population, or of one share of it, such as an analyst's.

    Args:
        owner: ``"population"`` or ``"analyst alice"``.
        limited: whether the owner has a cap of its own; without one, ``lines`` show the population's caps.
        lines: cap and spent amount in each currency.
    """

    owner: str
    limited: bool
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class LedgerBudget:
    """The state of an account, as it applies to one analyst.

    Args:
        population: the population of the account.
        guarantee: the guarantee that holds for all releases ever made about the population together.
        balances: the population's first, then those of the shares that were named.
        queries: how many more charges like the given one fit in all balances; ``None`` without one or if it is free.
    """

    population: str
    guarantee: Guarantee
    balances: tuple[Balance, ...]
    queries: int | None = None

    @property
    def lines(self) -> tuple[Line, ...]:
        """Cap and spent amount of the whole population in each currency."""
        return self.balances[0].lines


@dataclass(frozen=True, slots=True)
class Record:
    """One charge of the history.

    ``committed`` is the number of its outcome's entry, ``None`` while there is no outcome. ``typed`` is the epsilon
    that the analyst typed, such as ``epsilon 0.5``, where the account counts another currency.
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
        """Whether its run failed, so that nothing will ever be released under it."""
        return self.digest == FAILED_DIGEST

    @property
    def answered(self) -> bool:
        """Whether an answer was released under it."""
        return self.committed is not None and not self.failed

    @property
    def undelivered(self) -> bool:
        """Whether it charged a positive amount and has no outcome: its run goes on, or its process died."""
        return self.committed is None and any(each.amount for each in self.amounts)


@dataclass(frozen=True, slots=True)
class Analyst:
    """An analyst of the ledger; never deleted, only revoked. ``since`` is the number of the newest entry about them."""

    name: str
    active: bool
    details: Mapping[str, Any]
    since: int


@dataclass(frozen=True, slots=True)
class Succession:
    """Permanent replacement of the key that signs receipts.

    Args:
        seq: number of the entry; outcomes committed after it are signed with the new key.
        time: time of the entry, for people to read.
        previous: the public key that was replaced.
        public_key: the new public key.
        signature: signature of both public keys by the old key; empty if the old key was lost, so that trust in it does
            not carry over.
        accepted: signature of both public keys by the new key.
        operator: the operator who replaced the key.
        reason: the operator's reason.
        key_check: check value of the other secrets from here on; empty if they stayed the same.
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
        entries: number of entries read.
        head: head of the chain, recomputed.
        charges: number of reservations among the entries.
        outcomes: number of commits among the entries, each compared with the stored bytes.
        problems: a sentence for each problem; empty for an intact ledger.
        changes: a sentence for each change of the protected units and of declarations; these are no problems.
        overrides: decisions of operators: no problems, but to be reviewed.
        failures: number of commits that say that the run failed and nothing was released.
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
        return not self.problems


#: For each rule: the class of its filter and the names of the filter's parameters.
_RULES: dict[str, tuple[type[Filter], tuple[str, ...]]] = {
    **{kind: (currency.filter_type, currency.numbers) for kind, currency in CURRENCIES.items()},
    "renyi": (RenyiFilter, ("alpha", "epsilon")),
}


class PricedCharge(NamedTuple):
    """A charge as an entry states it: the event as JSON, and its cost in grains by currency."""

    event: str
    amounts: Mapping[str, int]


def terms_of(limit: Filter) -> dict[str, Any]:
    """Return the rule, relation and parameters of a filter, as JSON."""
    for rule, (kind, parameters) in _RULES.items():
        if type(limit) is kind:
            stated = {name: str(getattr(limit, name)) for name in parameters}
            return {"rule": rule, "relation": limit.relation.value, "parameters": stated}
    raise InputError(
        "limit", f"a ledger keeps sums with caps ({', '.join(_RULES)}); {type(limit).__name__} is another rule"
    )


def filter_from_terms(terms: Mapping[str, Any]) -> Filter:
    """Return the filter with these terms, nothing spent: the inverse of :func:`terms_of`."""
    kind, parameters = _RULES[terms["rule"]]
    values = {name: Fraction(terms["parameters"][name]) for name in parameters}
    return kind(**values, relation=terms["relation"])  # type: ignore[arg-type]


def caps_of(limit: Filter) -> dict[str, int]:
    """Return the caps of a filter by currency, in grains, rounded down."""
    return {line.currency: grains_down(line.cap) for line in limit.lines}


def price(limit: Filter, charge: Charge) -> PricedCharge:
    """Return the cost of a charge under a filter, with the event it was computed from.

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
    """Sort key of valid costs: first those that add no δ, then by amount."""
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
    """Return the event of which only this guarantee is known."""
    if not isinstance(guarantee, AccountGuarantee):
        return []
    if isinstance(guarantee, ApproxDP) and not guarantee.delta:
        guarantee = PureDP(guarantee.epsilon, relation=guarantee.relation)
    return [currency_of(guarantee).event(guarantee)]


def check_readable(priced: PricedCharge) -> None:
    """Refuse numbers with too many digits before they are written: verification must be able to read them again."""
    try:
        event_from_json(priced.event)
    except InputError:
        raise InputError("charge", "its numbers have too many digits to be kept; state fewer") from None


def stated_caps(limit: Filter, caps: Mapping[str, Number]) -> dict[str, str | None]:
    """Return the caps of a share of an account by currency, as text rounded down; None for a currency without a cap.

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
    """Return the state of an account with the balances of these owners."""
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
    """Return how many more charges of this cost fit in all of the balances; None where nothing limits them."""
    counts = [
        max(state.cap - state.spent, 0) // priced.amounts[state.key.currency]
        for state in states
        if state.cap is not None and priced.amounts[state.key.currency]
    ]
    return min(counts, default=None)


def shortage(body: Mapping[str, Any], states: Sequence[BalanceState], limit: Filter) -> str:
    """Return the reason of a refusal: owner, cost and remaining budget of each balance; the largest query that fits."""
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
    # Renyi accounts have no cost of a query.
    currency = None if isinstance(limit, RenyiFilter) else currency_of(limit)
    largest = None if currency is None else currency.largest_query(least, limit.guarantee)
    if largest is None:
        return said
    # Rounded down to three digits, so that a query of that epsilon is not refused for the rounding.
    epsilon = format_up(round_down(largest.epsilon, 3))
    return f"{said}; epsilon {epsilon} at delta {format_up(largest.delta)} is about the most that a query can have"


def describe_amounts(amounts: Mapping[str, str]) -> str:
    """Return text such as ``epsilon 0.5, delta 1e-06``; zero amounts are left out."""
    parts = ((currency, Fraction(text)) for currency, text in amounts.items())
    return ", ".join(f"{currency} {format_up(amount)}" for currency, amount in parts if amount) or "nothing"


def describe_owner(owner: str) -> str:
    """Return text such as ``analyst alice``."""
    return owner.replace(":", " ", 1) if owner else "population"


def describe_terms(terms: Mapping[str, Any]) -> str:
    """Return text such as ``pure, epsilon 4 (add_remove)``."""
    parts = (f"{name} {_down(Fraction(value))}" for name, value in terms["parameters"].items())
    return f"{terms['rule']}, {', '.join(parts)} ({terms['relation']})"


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
