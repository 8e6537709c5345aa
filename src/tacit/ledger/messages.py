"""Messages about accounts and missing budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tacit.accounting.currencies import currency_of
from tacit.accounting.filters import Filter, Line, RenyiFilter
from tacit.core.numbers import format_up, round_down
from tacit.ledger.protocol import BalanceState, from_grains
from tacit.ledger.records import Balance, LedgerBudget, PricedCharge


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
    return Balance(owner_words(owner), limited, tuple(lines))


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
        whose = f" for {owner_words(state.key.owner)}" if state.key.owner else ""
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


def amounts_words(amounts: Mapping[str, str]) -> str:
    """Such as ``epsilon 0.5, delta 1e-06``; what is zero is left out."""
    parts = ((currency, Fraction(text)) for currency, text in amounts.items())
    return ", ".join(f"{currency} {format_up(amount)}" for currency, amount in parts if amount) or "nothing"


def owner_words(owner: str) -> str:
    """Such as ``analyst alice``."""
    return owner.replace(":", " ", 1) if owner else "population"


def terms_words(terms: Mapping[str, Any]) -> str:
    """Such as ``pure, epsilon 4 (add_remove)``."""
    parts = (f"{name} {_down(Fraction(value))}" for name, value in terms["parameters"].items())
    return f"{terms['rule']}, {', '.join(parts)} ({terms['relation']})"


def _down(value: Fraction) -> str:
    return format_up(round_down(value, 6))
